/* The presets: every system of the papers that works here, one row each. No other code knows their names.
 *
 * lk-gp-ucb is [LK, Alg. 1], lk-gp-ts [LK, eq. 7], ek-ucb [EK, Alg. 2], k-ucb [EK, Alg. 1], bkb and bbkb [BKB, Alg. 1];
 * cmm-ucb, dmm-ucb, amm-ucb, ay-gp-ucb and igp-ucb have the named bounds of [TC]; sup-kernel-ucb is a baseline of [EK],
 * and gp-ucb, lin-ucb (per user, too), gob-lin, graph-ucb and coop-kernel-ucb are those of [LK].
 *
 * What a row leaves at zero is filled by the table of fields; where arms have no features their kernel is `delta`,
 * and where there is no context its kernel is `ones`, in every row. Deviation: `k-ucb` and `gp-ucb` are the same
 * model under two names, because a joint kernel over context and arm is what GP-UCB gets once contexts exist
 * (test: presets_k_ucb_and_gp_ucb_are_one_model). `coop-kernel-ucb` is a family over the user kernel (laplacian, heat,
 * spectral_rbf, ones, mmd); on its default it is the model of `lk-gp-ucb`.
 *
 * The rows of TC have a0 = sigma^2/c = lambda at c = 1 and sigma = 0.1, hence lambda 0.01; igp has its own
 * a = 1 + 2/T at TC's T = 1,000. Who changes `noise` should change lambda with it. Their limit is lower where every
 * batch of rewards costs a decomposition (spectrum.h).
 *
 * The default row, `laplaced`, finds out its own scales (tuning.h): an exact model of each arm where arms have no
 * features, laplaced-by-component where they have. One decision in fifty is drawn from all candidates alike. `ucb` and
 * `ts` find theirs as well: one mean and one variance of all arms, and the noise. Where `tune` is false they are the
 * papers' rows, of mean 0, variance 1 and noise 1.
 *
 * laplaced-kors was the default before: lambda 1/4 bounds the noise variance of rewards in [0, 1], and mu = lambda
 * keeps the sketch finer than the noise; rho 0.01 lets what everybody likes weigh as much as what friends like (the
 * crowd's share of the prior variance falls with n rho); normalisation gives every user the prior variance 1. It acts
 * on mean + beta sd and shows the bounds of CMM over its dictionary, for rewards in [0, 1] whose noise is
 * 1/2-sub-Gaussian. One decision in twenty is drawn from all candidates alike, so that every propensity is above 0 and
 * the log can be evaluated for other policies. */
#include "spec/spec.h"

#include <assert.h>
#include <string.h>

#include "spec/fields.h"

/* Sizes that are common to most rows (docs: the API's defaults). */
#define TC_EXACT_LIMIT 2048u /* a decomposition of this order takes half a second (spectrum.h) */
#define TC_LAMBDA 0.01
#define IGP_LAMBDA (1 + 2.0 / 1000)
#define LK_EXACT_LIMIT 1500u /* beyond it LK's O(t^2) per decision is no longer interactive */

struct preset {
    const char *name;
    enum kb_user_kernel_type user;
    enum kb_vec_kernel_type context, arm;
    enum kb_repr_type repr;
    enum kb_rule_type rule;
    double beta;
    /* 0: the usual value (fields.c) */
    double rho, population, lambda; /* KORS's mu is lambda, too */
    bool is_normalized, follows_medians;
    size_t max_dictionary, exact_limit;
    double epsilon, noise;
    bool is_tuned;             /* finds out its own scales: all, or where lengthscales follow medians its variances */
    const char *with_features; /* the row that stands in where arms have features; NULL: this one */
    enum kb_conf_type conf;
    enum kb_score score;
};

/* clang-format off */
/* User kernel, context kernel, arm kernel (with coordinates; see the header for dimension 0), representation, rule,
 * beta. */
#define PRESET(name, user, context, arm, repr, rule, ...)                                                             \
    {name, KB_USER_##user, KB_VEC_##context, KB_VEC_##arm, KB_REPR_##repr, KB_RULE_##rule, .beta = __VA_ARGS__}

static const struct preset presets[] = {
    PRESET("laplaced",         LAPLACIAN, RBF,    DELTA,  BY_ARM, RAND_UCB,   1,
           .is_normalized = true, .lambda = 0.25, .exact_limit = 1024, .epsilon = 0.02, .is_tuned = true,
           .with_features = "laplaced-by-component"),
    PRESET("laplaced-by-arm",  LAPLACIAN, RBF,    DELTA,  BY_ARM, RAND_UCB,   1,
           .is_normalized = true, .lambda = 0.25, .exact_limit = 1024, .epsilon = 0.02, .is_tuned = true),
    PRESET("laplaced-by-component", LAPLACIAN, RBF, RBF, BY_COMPONENT, RAND_UCB, 1,
           .is_normalized = true, .lambda = 0.25, .max_dictionary = 1024, .epsilon = 0.02, .follows_medians = true,
           .rho = 0.3, .is_tuned = true),
    PRESET("laplaced-kors",    LAPLACIAN, RBF,    RBF,    KORS,   UCB,        2,
           .rho = 0.01, .population = 1.0, .is_normalized = true, .lambda = 0.25, .max_dictionary = 1024,
           .epsilon = 0.05, .conf = KB_CONF_CMM, .score = KB_SCORE_FIXED, .noise = 0.5),
    PRESET("lk-gp-ucb",        LAPLACIAN, RBF,    RBF,    EXACT,  UCB,        2, .exact_limit = LK_EXACT_LIMIT),
    PRESET("lk-gp-ts",         LAPLACIAN, RBF,    RBF,    EXACT,  THOMPSON,   1, .exact_limit = LK_EXACT_LIMIT),
    PRESET("ek-ucb",           ONES,      RBF,    RBF,    KORS,   UCB,        2),
    PRESET("k-ucb",            ONES,      RBF,    RBF,    EXACT,  UCB,        2),
    PRESET("sup-kernel-ucb",   ONES,      RBF,    RBF,    EXACT,  SUP_KERNEL, 2),
    PRESET("bkb",              ONES,      RBF,    RBF,    BKB,    UCB,        2),
    PRESET("bbkb",             ONES,      RBF,    RBF,    BBKB,   UCB,        2),
    PRESET("gp-ucb",           ONES,      RBF,    RBF,    EXACT,  UCB,        2),
    PRESET("lin-ucb",          ONES,      LINEAR, LINEAR, EXACT,  UCB,        2),
    PRESET("lin-ucb-per-user", IDENTITY,  LINEAR, LINEAR, EXACT,  UCB,        2),
    PRESET("gob-lin",          LAPLACIAN, LINEAR, LINEAR, EXACT,  UCB,        2, .rho = 1.0),
    PRESET("graph-ucb",        LAPLACIAN, LINEAR, LINEAR, EXACT,  UCB,        2),
    PRESET("coop-kernel-ucb",  LAPLACIAN, RBF,    RBF,    EXACT,  UCB,        2),
    PRESET("cmm-ucb",          ONES,      RBF,    RBF,    EXACT,  UCB,        2,
           .lambda = TC_LAMBDA, .exact_limit = TC_EXACT_LIMIT, .conf = KB_CONF_CMM),
    PRESET("dmm-ucb",          ONES,      RBF,    RBF,    EXACT,  UCB,        2,
           .lambda = TC_LAMBDA, .exact_limit = TC_EXACT_LIMIT, .conf = KB_CONF_DMM),
    PRESET("amm-ucb",          ONES,      RBF,    RBF,    EXACT,  UCB,        2,
           .lambda = TC_LAMBDA, .conf = KB_CONF_AMM),
    PRESET("ay-gp-ucb",        ONES,      RBF,    RBF,    EXACT,  UCB,        2,
           .lambda = TC_LAMBDA, .conf = KB_CONF_AY),
    PRESET("igp-ucb",          ONES,      RBF,    RBF,    EXACT,  UCB,        2,
           .lambda = IGP_LAMBDA, .conf = KB_CONF_IGP),
    PRESET("ucb",              ONES,      ONES,   DELTA,  EXACT,  UCB,        2, .is_tuned = true),
    PRESET("ts",               ONES,      ONES,   DELTA,  EXACT,  THOMPSON,   1, .is_tuned = true),
    PRESET("random",           ONES,      ONES,   DELTA,  EXACT,  UNIFORM,    2),
};
/* clang-format on */

#define N_PRESETS (sizeof presets / sizeof presets[0])

const char *kb_preset_name(size_t i)
{
    return i < N_PRESETS ? presets[i].name : NULL;
}

/* NULL when no row has this name. */
static const struct preset *find_preset(const char *name)
{
    for (size_t i = 0; i < N_PRESETS; i++) {
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    }
    return NULL;
}

bool kb_preset_follows_features(const char *name)
{
    const struct preset *p = find_preset(name);
    return p != NULL && p->with_features != NULL;
}

/* Defaults, then the row, then the two rules about dimensions that are zero. */
enum kb_err kb_spec_preset(struct kb_spec *spec, const char *name, uint32_t context_dim, uint32_t arm_dim)
{
    const struct preset *p = find_preset(name);
    if (p == NULL)
        return KB_ENOTFOUND;
    if (arm_dim > 0 && p->with_features != NULL)
        p = find_preset(p->with_features);
    assert(strlen(name) < sizeof spec->algorithm);
    kb_spec_init(spec);
    memcpy(spec->algorithm, name, strlen(name) + 1);
    spec->context_dim = context_dim;
    spec->arm_dim = arm_dim;
    spec->user_kernel.type = p->user;
    if (p->rho > 0)
        spec->user_kernel.rho = p->rho;
    spec->user_kernel.population = p->population;
    spec->user_kernel.is_normalized = p->is_normalized;
    spec->context_kernel.type = context_dim == 0 ? KB_VEC_ONES : p->context;
    spec->arm_kernel.type = arm_dim == 0 ? KB_VEC_DELTA : p->arm;
    spec->context_kernel.is_median = p->follows_medians && (KB_STATIONARY_KERNELS >> spec->context_kernel.type & 1);
    spec->arm_kernel.is_median = p->follows_medians && (KB_STATIONARY_KERNELS >> spec->arm_kernel.type & 1);
    spec->repr.type = p->repr;
    if (p->lambda > 0)
        spec->repr.lambda = spec->repr.mu = p->lambda;
    if (p->max_dictionary > 0)
        spec->repr.max_dictionary = p->max_dictionary;
    if (p->exact_limit > 0)
        spec->repr.exact_limit = p->exact_limit;
    spec->rule.type = p->rule;
    spec->rule.epsilon = p->epsilon;
    spec->conf.type = p->conf;
    spec->conf.beta = p->beta;
    spec->conf.score = p->score;
    if (p->noise > 0)
        spec->conf.noise = p->noise;
    spec->is_tuned = spec->forgetting.detects_changes = p->is_tuned;
    if (p->is_tuned && p->repr == KB_REPR_EXACT)
        kb_spec_learn(spec, KB_LEARNED_APART);
    else if (p->is_tuned)
        kb_spec_learn(spec, p->follows_medians ? KB_LEARNED_ALL & ~KB_LEARNED_SHAPE : KB_LEARNED_ALL);
    return KB_OK;
}
