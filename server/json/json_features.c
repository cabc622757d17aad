/* See json_features.h. */
#include "json/json_features.h"

#include <string.h>

#include "json/json_split.h"

#define RULE(member) (&ld_feature_names_rules.rule[LD_FEATURE_NAMES_##member])

uint32_t ld_features_dim(const struct ld_value *v)
{
    const struct ld_value *dim = ld_member_of(v, "dim");
    const double x = dim != NULL ? ld_number_of(dim) : LD_NAMES_DIM;

    return ld_is(v, LD_V_OBJECT) && x >= RULE(DIM)->lo && x <= RULE(DIM)->hi ? (uint32_t)x : 0;
}

static void read_weight(struct ld_in *in, const struct ld_member *m, struct kb_split *out)
{
    double weight = 1;

    if (strlen(m->key) > LD_NAMES_PATH_BYTES) {
        ld_in_fault(in, NULL, "a namespace has a name of at most %u bytes", LD_NAMES_PATH_BYTES);
        ld_problem_limit(in->p, "feature_path_bytes", LD_NAMES_PATH_BYTES);
    } else if (ld_in_real(in, &m->value, &ld_feature_weight_rule, &weight) &&
               kb_split_put(out, m->key, weight) != KB_OK) {
        ld_in_fault(in, NULL, "the names of namespaces with a weight take more than %u bytes in all", KB_SPLIT_BYTES);
        ld_problem_limit(in->p, "weight_bytes", KB_SPLIT_BYTES);
    }
}

/* Coordinates of a namespace of its own. */
static void read_space(struct ld_in *in, const struct ld_member *m, struct kb_split *out)
{
    const double size = (double)ld_in_count(in, &m->value, &ld_feature_space_rule, 1);

    if (strlen(m->key) > LD_NAMES_PATH_BYTES) {
        ld_in_fault(in, NULL, "a namespace has a name of at most %u bytes", LD_NAMES_PATH_BYTES);
        ld_problem_limit(in->p, "feature_path_bytes", LD_NAMES_PATH_BYTES);
    } else if (kb_split_put(out, m->key, size) != KB_OK) {
        ld_in_fault(in, NULL, "the names of namespaces take more than %u bytes in all", KB_SPLIT_BYTES);
        ld_problem_limit(in->p, "weight_bytes", KB_SPLIT_BYTES);
    }
}

static void read_user(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, struct ld_name_map *out)
{
    const char *pointer = ld_in_text(in, v, rule);
    char path[LD_NAMES_PATH_BYTES + 1];

    if (pointer == NULL)
        return;
    if (ld_names_path(pointer, path) > 0)
        strcpy(out->user, pointer);
    else
        ld_in_fault(in, NULL, "expected a JSON pointer of at most 8 names, such as /user/id");
}

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    static const struct ld_weights_of namespaces = {"names of their namespaces", "namespaces", read_weight};
    static const struct ld_weights_of own = {"names of their namespaces", "namespaces", read_space};
    struct ld_name_map *out = arg;
    const struct ld_rule *rule = &ld_feature_names_rules.rule[i];

    switch (i) {
    case LD_FEATURE_NAMES_MAPPING:
        (void)ld_in_choice(in, v, rule);
        break;
    case LD_FEATURE_NAMES_DIM:
        out->dim = (uint32_t)ld_in_count(in, v, rule, LD_NAMES_DIM);
        break;
    case LD_FEATURE_NAMES_SEED:
        out->seed = (uint32_t)ld_in_count(in, v, rule, 0);
        break;
    case LD_FEATURE_NAMES_WEIGHTS:
        ld_in_weights(in, v, rule, &namespaces, &out->weights); /* names are any text, "" among them */
        break;
    case LD_FEATURE_NAMES_NAMESPACES:
        ld_in_weights(in, v, rule, &own, &out->spaces);
        break;
    default:
        read_user(in, v, rule, out);
        break;
    }
}

void ld_in_features(struct ld_in *in, const struct ld_value *v, struct ld_name_map *out)
{
    *out = (struct ld_name_map){.dim = 0};
    if (ld_is(v, LD_V_NULL))
        return;
    out->dim = LD_NAMES_DIM;
    (void)ld_in_members(in, v, &ld_feature_names_rules, read_member, out);
}

enum kb_err ld_check_features(const struct ld_value *v, const struct ld_name_map *map, struct kb_errmsg *msg)
{
    const char *mapping = ld_string_of(ld_member_of(v, "mapping")), *at = "/features/namespaces";
    const bool has_own = mapping != NULL && strcmp(mapping, LD_NAMES_OWN_MAPPING) == 0;
    if (!has_own && ld_member_of(v, "namespaces") != NULL)
        return kb_fail(KB_EUNSUPPORTED, msg, at, "are of the mapping %s", LD_NAMES_OWN_MAPPING);
    if (has_own && map->spaces.n == 0)
        return kb_fail(KB_EUNSUPPORTED, msg, at, "required: the coordinates of at least one namespace, by its name");
    if (has_own && kb_split_sum(&map->spaces) >= (double)map->dim)
        return kb_fail(KB_EUNSUPPORTED, msg, at,
                       "expected less than %u coordinates in all, the dim: other namespaces share the rest",
                       (unsigned)map->dim);
    return KB_OK;
}

void ld_text_features(struct ld_text *t, const struct ld_name_map *map)
{
    ld_text_lit(t, "{");
    ld_text_put_string(t, "mapping", map->spaces.n > 0 ? LD_NAMES_OWN_MAPPING : LD_NAMES_MAPPING);
    ld_text_put_count(t, "dim", map->dim);
    ld_text_put_count(t, "seed", map->seed);
    ld_text_key(t, "weights");
    ld_text_split(t, &map->weights);
    if (map->spaces.n > 0) {
        ld_text_key(t, "namespaces");
        ld_text_split(t, &map->spaces);
    }
    if (map->user[0] != '\0')
        ld_text_put_string(t, "user", map->user);
    ld_text_lit(t, "}");
}
