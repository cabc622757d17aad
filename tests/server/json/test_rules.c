/* The rules of the schemas, as tables: they fit the core's limits and names, and each field of the configuration has
 * its row. That the decoders keep to them is tests/http/a06_bodies.py. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "base/ids.h"
#include "json/json_fields.h"
#include "kbt.h"
#include "store/key_rows.h"
#include "types/roles.h"
#include "json/rules.h"

START_TEST(limits_that_the_core_has_as_well_are_the_same)
{
    ck_assert(ld_id_rule.hi == KB_ID_MAX_BYTES);
    ck_assert(ld_select_rules.rule[LD_SELECT_TOP].hi == KB_MAX_SLOTS);
    ck_assert(ld_tenant_key_rules.rule[LD_TENANT_KEY_LABEL].hi == LD_KEY_LABEL_BYTES - 1);
    ck_assert(ld_server_key_rules.rule[LD_SERVER_KEY_LABEL].hi == LD_KEY_LABEL_BYTES - 1);
}
END_TEST

/* A field that the schema has and the server has not would be taken and lost. */
START_TEST(every_member_of_the_configuration_has_a_row_or_is_a_group)
{
    size_t n_rows = 0;

    for (size_t i = 0; i < ld_configuration_rules.n; i++) {
        const char *key = ld_configuration_rules.rule[i].key;
        const struct ld_rules *group = ld_field_rules(key);

        if (ld_field_find("", i) != NULL) {
            ck_assert_ptr_null(group);
            n_rows++;
            continue;
        }
        ck_assert_msg(group != NULL, "%s", key);
        for (size_t k = 0; k < group->n; k++)
            ck_assert_msg(ld_field_find(key, k) != NULL, "%s/%s", key, group->rule[k].key);
        n_rows += group->n;
    }
    ck_assert_uint_eq(n_rows, ld_n_fields);
}
END_TEST

/* What kinds of fields read of their rule. */
START_TEST(rows_fit_the_kind_of_their_rule)
{
    for (size_t i = 0; i < ld_n_fields; i++) {
        const struct ld_field *f = &ld_fields[i];
        const struct ld_rule *rule = ld_field_rule(f);
        const bool is_word =
            f->kind == LD_ALGORITHM || f->kind == LD_CHOICE || f->kind == LD_PENDING || f->kind == LD_DURABILITY;
        const bool has_word = f->kind == LD_LENGTHSCALE || f->kind == LD_OR_AUTO || f->kind == LD_OR_MEDIAN;

        ck_assert_msg((rule->choices != NULL) == (is_word || has_word), "%s/%s", f->group, rule->key);
        ck_assert_msg((f->choice != NULL) == (f->kind == LD_CHOICE), "%s/%s", f->group, rule->key);
        if (f->kind == LD_SIZE || f->kind == LD_DEGREE || f->kind == LD_SEED || f->kind == LD_SIZE_OR_NULL ||
            f->kind == LD_DIMENSION)
            ck_assert_msg(rule->lo == floor(rule->lo) && rule->hi <= 9007199254740991 && !rule->is_lo_open &&
                              !rule->is_hi_open,
                          "%s/%s", f->group, rule->key);
    }
}
END_TEST

START_TEST(words_of_the_schema_are_those_of_the_core)
{
    for (size_t i = 0; i < ld_n_fields; i++) {
        const struct ld_field *f = &ld_fields[i];
        const char *const *word = ld_field_rule(f)->choices;

        if (f->kind != LD_CHOICE)
            continue;
        int n = 0;
        for (; word[n] != NULL; n++)
            ck_assert_msg(f->choice->from_name(word[n]) >= 0, "%s", word[n]);
        ck_assert_ptr_nonnull(f->choice->name(n - 1));
        ck_assert_ptr_null(f->choice->name(n));
    }
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
    return KBT_RUN("rules", limits_that_the_core_has_as_well_are_the_same,
                   every_member_of_the_configuration_has_a_row_or_is_a_group, rows_fit_the_kind_of_their_rule,
                   words_of_the_schema_are_those_of_the_core, presets_and_roles_of_the_schema_are_those_of_the_program,
                   no_object_has_more_members_than_a_number_has_bits);
}
