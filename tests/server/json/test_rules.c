/* The rules of the schemas, as tables: they fit the core's limits and names, and each field of the configuration has
 * its row. That the decoders keep to them is tests/http/a06_bodies.py. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ids.h"
#include "json/json_fields.h"
#include "kbt.h"
#include "spec/fields.h"
#include "store/key_rows.h"
#include "types/roles.h"
#include "json/rules.h"

START_TEST(limits_that_the_core_has_as_well_are_the_same)
{
    ck_assert(ld_id_rule.hi == KB_ID_MAX_BYTES);
    ck_assert(ld_select_rules.rule[LD_SELECT_TOP].hi == KB_MAX_TOP);
    ck_assert(ld_select_rules.rule[LD_SELECT_SLOTS].hi == KB_MAX_SLOTS);
    ck_assert(ld_tenant_key_rules.rule[LD_TENANT_KEY_LABEL].hi == LD_KEY_LABEL_BYTES - 1);
    ck_assert(ld_server_key_rules.rule[LD_SERVER_KEY_LABEL].hi == LD_KEY_LABEL_BYTES - 1);
}
END_TEST

/* Every member of a configuration but groups, with its pointer. */
struct member {
    char pointer[96];
    struct ld_field field;
};
static struct member members[96];
static size_t n_members;

static void walk(const char *group)
{
    const struct ld_rules *rules = ld_field_rules(group);

    ck_assert_msg(rules != NULL, "%s is neither a field nor a group", group);
    for (size_t i = 0; i < rules->n; i++) {
        const struct ld_field f = ld_field_find(group, &rules->rule[i]);
        if (f.kind == LD_GROUP) {
            ck_assert_str_eq(group, "");
            walk(rules->rule[i].key);
            continue;
        }
        struct member *m = &members[n_members++];
        ck_assert_uint_lt(n_members, sizeof members / sizeof *members);
        (void)snprintf(m->pointer, sizeof m->pointer, "%s%s/%s", *group != '\0' ? "/" : "", group, rules->rule[i].key);
        m->field = f;
    }
}

static void walk_configuration(void)
{
    n_members = 0;
    walk("");
}

/* A field that the schema has and the server has not would be taken and lost; and the other way round never told. */
START_TEST(the_schema_has_every_field_of_the_core)
{
    walk_configuration();
    for (const struct kb_field *f = kb_fields; f < kb_fields + kb_n_fields; f++) {
        size_t n = 0;
        for (size_t i = 0; i < n_members; i++)
            n += strcmp(members[i].pointer, f->pointer) == 0 && members[i].field.offset == f->offset;
        ck_assert_msg(n == (strncmp(f->pointer, "/routing/", 9) != 0), "%s", f->pointer); /* those: json_routing.c */
    }
    ck_assert_ptr_null(ld_field_rules("surplus"));
}
END_TEST

/* The ends of the schema and of kb_spec_check; a word stands for the 0 of the struct, seconds for its milliseconds. */
START_TEST(ranges_of_the_schema_are_those_of_the_core)
{
    size_t n = 0;

    walk_configuration();
    for (const struct kb_field *f = kb_fields; f < kb_fields + kb_n_fields; f++) {
        const double unit = f->kind == KB_FIELD_MS ? 1e-3 : 1;
        for (size_t i = 0; i < n_members; i++) {
            const struct ld_rule *rule = members[i].field.rule;
            if (strcmp(members[i].pointer, f->pointer) != 0 || f->kind == KB_FIELD_TEXT || f->kind == KB_FIELD_CHOICE ||
                f->kind == KB_FIELD_FLAG || f->kind == KB_FIELD_REWARD)
                continue;
            const bool is_or_word = members[i].field.kind == LD_OR_WORD;
            ck_assert_msg(rule->lo == (is_or_word ? KB_LEAST_SCALE : f->lo * unit), "%s", f->pointer);
            ck_assert_msg(rule->hi == f->hi * unit, "%s", f->pointer);
            ck_assert_msg(!is_or_word || f->lo == 0, "%s", f->pointer);
            ck_assert_msg(rule->is_lo_open == f->is_open && rule->is_hi_open == f->is_open, "%s", f->pointer);
            n++;
        }
    }
    ck_assert_uint_gt(n, 35);
}
END_TEST

/* What kinds of fields read of their rule. */
START_TEST(rows_fit_the_kind_of_their_rule)
{
    walk_configuration();
    for (size_t i = 0; i < n_members; i++) {
        const struct ld_field *f = &members[i].field;
        const struct ld_rule *rule = f->rule;
        const bool is_word = f->kind == LD_ALGORITHM || f->kind == LD_CHOICE || f->kind == LD_EITHER;
        const bool has_word = f->kind == LD_LENGTHSCALE || f->kind == LD_OR_WORD || f->learned != 0;

        ck_assert_msg((rule->choices != NULL) == (is_word || has_word), "%s", members[i].pointer);
        ck_assert_msg(f->kind != LD_CHOICE || f->words != NULL, "%s", members[i].pointer);
        if (f->kind == LD_SIZE || f->kind == LD_DEGREE || f->kind == LD_SEED || f->kind == LD_SIZE_OR_NULL ||
            f->kind == LD_DIMENSION)
            ck_assert_msg(rule->lo == floor(rule->lo) && rule->hi <= 9007199254740991 && !rule->is_lo_open &&
                              !rule->is_hi_open,
                          "%s", members[i].pointer);
    }
}
END_TEST

START_TEST(words_of_the_schema_are_those_of_the_core)
{
    size_t n_choices = 0;

    walk_configuration();
    for (size_t i = 0; i < n_members; i++) {
        const struct ld_field *f = &members[i].field;

        if (f->kind != LD_CHOICE)
            continue;
        int n = 0;
        for (const char *const *word = f->rule->choices; *word != NULL; word++, n++)
            ck_assert_msg(kb_word_value(f->words, *word) >= 0, "%s", *word);
        ck_assert_int_eq(n, f->words->n);
        n_choices++;
    }
    ck_assert_uint_eq(n_choices, 12);
}
END_TEST

START_TEST(presets_and_roles_of_the_schema_are_those_of_the_program)
{
    const char *const *algorithm = ld_configuration_rules.rule[LD_CONFIGURATION_ALGORITHM].choices;
    size_t n = 0;
    unsigned roles = 0;

    for (; algorithm[n] != NULL; n++) {
        struct kb_spec spec;
        ck_assert_int_eq(kb_spec_preset(&spec, algorithm[n], 1, 1), KB_OK);
    }
    ck_assert_ptr_nonnull(kb_preset_name(n - 1));
    ck_assert_ptr_null(kb_preset_name(n));
    for (const char *const *r = ld_tenant_key_rules.rule[LD_TENANT_KEY_ROLES].choices; *r != NULL; r++)
        roles |= ld_role_from_name(*r);
    ck_assert_uint_eq(roles, LD_TENANT_ROLES);
    roles = 0;
    for (const char *const *r = ld_server_key_rules.rule[LD_SERVER_KEY_ROLES].choices; *r != NULL; r++)
        roles |= ld_role_from_name(*r);
    ck_assert_uint_eq(roles, LD_SERVER_ROLES);
}
END_TEST

/* ld_in_members counts what it has seen in the bits of one number. */
START_TEST(no_object_has_more_members_than_a_number_has_bits)
{
    ck_assert_uint_le(ld_configuration_rules.n, 64);
    ck_assert_uint_le(ld_user_kernel_rules.n, 64);
    ck_assert_uint_le(ld_representation_rules.n, 64);
    ck_assert_uint_le(ld_select_rules.n, 64);
}
END_TEST

int main(void)
{
    return KBT_RUN("rules", limits_that_the_core_has_as_well_are_the_same, the_schema_has_every_field_of_the_core,
                   ranges_of_the_schema_are_those_of_the_core, rows_fit_the_kind_of_their_rule,
                   words_of_the_schema_are_those_of_the_core, presets_and_roles_of_the_schema_are_those_of_the_program,
                   no_object_has_more_members_than_a_number_has_bits);
}
