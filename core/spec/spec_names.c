/* Names of the specification's enumerations, as the API spells them, in both directions. Codecs and error texts use
 * these tables and have none of their own; a new kernel, rule or representation gets its name here. The tables are
 * sized by the enumerations' ends, so a value without a name would be a NULL that tests/unit/spec/test_spec.c finds. */
#include "spec/fields.h"

#include <string.h>

static const char *const user_kernel_names[KB_USER_N] = {
    [KB_USER_LAPLACIAN] = "laplacian", [KB_USER_IDENTITY] = "identity",         [KB_USER_ONES] = "ones",
    [KB_USER_HEAT] = "heat",           [KB_USER_SPECTRAL_RBF] = "spectral_rbf", [KB_USER_MMD] = "mmd",
};
static const char *const vec_kernel_names[KB_VEC_N] = {
    [KB_VEC_RBF] = "rbf",           [KB_VEC_MATERN12] = "matern12", [KB_VEC_MATERN32] = "matern32",
    [KB_VEC_MATERN52] = "matern52", [KB_VEC_LINEAR] = "linear",     [KB_VEC_POLYNOMIAL] = "polynomial",
    [KB_VEC_DELTA] = "delta",       [KB_VEC_ONES] = "ones",
};
static const char *const repr_names[KB_REPR_N] = {
    [KB_REPR_EXACT] = "exact", [KB_REPR_KORS] = "kors", [KB_REPR_THRESHOLD] = "threshold",
    [KB_REPR_BKB] = "bkb",     [KB_REPR_BBKB] = "bbkb",
};
static const char *const conf_names[KB_CONF_N] = {
    [KB_CONF_FIXED] = "fixed", [KB_CONF_LK] = "lk",           [KB_CONF_EK] = "ek",   [KB_CONF_AY] = "ay",
    [KB_CONF_IGP] = "igp",     [KB_CONF_AMM] = "amm",         [KB_CONF_DMM] = "dmm", [KB_CONF_CMM] = "cmm",
    [KB_CONF_BKB] = "bkb",     [KB_CONF_EK_PLUS] = "ek_plus",
};
static const char *const form_names[KB_SKETCH_N] = {
    [KB_SKETCH_CROSS] = "cross", [KB_SKETCH_SPLIT] = "split", [KB_SKETCH_SIMPLE] = "simple"};
static const char *const score_names[KB_SCORE_N] = {[KB_SCORE_UPPER] = "upper", [KB_SCORE_FIXED] = "fixed"};
static const char *const rule_names[KB_RULE_N] = {
    [KB_RULE_UCB] = "ucb",
    [KB_RULE_THOMPSON] = "thompson",
    [KB_RULE_UNIFORM] = "uniform",
    [KB_RULE_SUP_KERNEL] = "sup_kernel",
};
static const char *const aggregation_names[KB_AGG_N] = {
    [KB_AGG_FIRST] = "first",
    [KB_AGG_SUM] = "sum",
    [KB_AGG_LAST] = "last",
};

static const char *const forgetting_names[KB_FORGET_N] = {
    [KB_FORGET_NONE] = "none",
    [KB_FORGET_DISCOUNT] = "discount",
    [KB_FORGET_HALF_LIFE] = "half_life",
};

const struct kb_names kb_user_kernel_names = {user_kernel_names, KB_USER_N};
const struct kb_names kb_vec_kernel_names = {vec_kernel_names, KB_VEC_N};
const struct kb_names kb_repr_names = {repr_names, KB_REPR_N};
const struct kb_names kb_conf_names = {conf_names, KB_CONF_N};
const struct kb_names kb_sketch_form_names = {form_names, KB_SKETCH_N};
const struct kb_names kb_score_names = {score_names, KB_SCORE_N};
const struct kb_names kb_rule_names = {rule_names, KB_RULE_N};
const struct kb_names kb_aggregation_names = {aggregation_names, KB_AGG_N};
const struct kb_names kb_forgetting_names = {forgetting_names, KB_FORGET_N};

/* Name of a value, NULL outside of 0..n-1: the caller may count up until then. */
static const char *name_of(const char *const *names, int n, int type)
{
    return type >= 0 && type < n ? names[type] : NULL;
}

/* Value of a name, -1 when there is none. A handful of names: a search is the shortest code. */
static int from_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return -1;
}

const char *kb_user_kernel_name(int type)
{
    return name_of(user_kernel_names, KB_USER_N, type);
}

const char *kb_vec_kernel_name(int type)
{
    return name_of(vec_kernel_names, KB_VEC_N, type);
}

const char *kb_repr_name(int type)
{
    return name_of(repr_names, KB_REPR_N, type);
}

const char *kb_conf_name(int type)
{
    return name_of(conf_names, KB_CONF_N, type);
}

const char *kb_sketch_form_name(int type)
{
    return name_of(form_names, KB_SKETCH_N, type);
}

const char *kb_score_name(int type)
{
    return name_of(score_names, KB_SCORE_N, type);
}

const char *kb_rule_name(int type)
{
    return name_of(rule_names, KB_RULE_N, type);
}

const char *kb_aggregation_name(int type)
{
    return name_of(aggregation_names, KB_AGG_N, type);
}

int kb_user_kernel_from_name(const char *name)
{
    return from_name(user_kernel_names, KB_USER_N, name);
}

int kb_vec_kernel_from_name(const char *name)
{
    return from_name(vec_kernel_names, KB_VEC_N, name);
}

int kb_repr_from_name(const char *name)
{
    return from_name(repr_names, KB_REPR_N, name);
}

int kb_conf_from_name(const char *name)
{
    return from_name(conf_names, KB_CONF_N, name);
}

int kb_sketch_form_from_name(const char *name)
{
    return from_name(form_names, KB_SKETCH_N, name);
}

int kb_score_from_name(const char *name)
{
    return from_name(score_names, KB_SCORE_N, name);
}

int kb_rule_from_name(const char *name)
{
    return from_name(rule_names, KB_RULE_N, name);
}

int kb_aggregation_from_name(const char *name)
{
    return from_name(aggregation_names, KB_AGG_N, name);
}

const char *kb_forgetting_name(int type)
{
    return name_of(forgetting_names, KB_FORGET_N, type);
}

int kb_forgetting_from_name(const char *name)
{
    return from_name(forgetting_names, KB_FORGET_N, name);
}
