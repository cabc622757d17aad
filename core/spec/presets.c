/* The presets: every system of the papers that works here, one row each. No other code knows their names.
 *
 *   row        [paper]            user kernel  x  context x arm kernel   representation    rule
 *   lk-gp-ucb  [LK, Alg. 1]       laplacian       rbf       rbf          exact             ucb
 *   lk-gp-ts   [LK, eq. 7]        laplacian       rbf       rbf          exact             thompson
 *   ek-ucb     [EK, Alg. 2]       ones            rbf       rbf          kors              ucb
 *   k-ucb      [EK, Alg. 1]       ones            rbf       rbf          exact             ucb
 *   bkb bbkb   [BKB, Alg. 1]      ones            rbf       rbf          bkb, bbkb         ucb
 *   gp-ucb     [LK, baselines]    ones            rbf       rbf          exact             ucb
 *   lin-ucb    [LK, baselines]    ones, identity  linear    linear       exact             ucb
 *   gob-lin    [LK, baselines]    laplacian 1     linear    linear       exact             ucb
 *   graph-ucb  [LK, baselines]    laplacian       linear    linear       exact             ucb
 *   coop-kernel-ucb [LK, baselines] laplacian     rbf       rbf          exact             ucb
 *   sup-kernel-ucb [EK, baselines] ones           rbf       rbf          exact             sup_kernel
 *   cmm-ucb dmm-ucb amm-ucb ay-gp-ucb igp-ucb  [TC]
 *                                 ones            rbf       rbf          exact             ucb, with the named bound
 *   ucb ts random                 ones            ones      delta        exact             ucb, thompson, uniform
 *   laplaced   (ours)             laplacian + p   rbf       rbf          kors              ucb, epsilon 0.05
 *   laplaced-by-arm (ours)        laplacian       rbf       delta        by_arm            ucb, epsilon 0.05
 *
 * What a row leaves at zero is filled by the table of fields; where arms have no features their kernel is `delta`,
 * and where there is no context its kernel is `ones`, in every row. Deviation: `k-ucb` and `gp-ucb` are the same
 * model under two names, because a joint kernel over context and arm is what GP-UCB gets once contexts exist
 * (test: presets_k_ucb_and_gp_ucb_are_one_model). `coop-kernel-ucb` is a family over the user kernel (laplacian, heat,
 * spectral_rbf, ones, mmd); on its default it is the model of `lk-gp-ucb`.
 *
 * The rows of TC have a0 = sigma^2/c = lambda at c = 1 and sigma = 0.1, hence lambda 0.01; igp has its own
 * a = 1 + 2/T at TC's T = 1,000. Who changes `noise` should change lambda with it. Their limit is lower where every
 * batch of rewards costs an eigendecomposition.
 *
 * The default row's own values: lambda 1/4 bounds the noise variance of rewards in [0, 1], and mu = lambda keeps the
 * sketch finer than the noise; rho 0.01 lets what everybody likes weigh as much as what friends like (the crowd's
 * share of the prior variance falls with n rho); normalisation gives every user the prior variance 1. It acts on mean +
 * beta sd and shows the bounds of CMM over its dictionary, for rewards in [0, 1] whose noise is 1/2-sub-Gaussian. One
 * decision in twenty is drawn from all candidates alike, so that every propensity is above 0 and the log can be
 * evaluated for other policies. */
#include "spec/spec.h"

#include <assert.h>
#include <string.h>

#include "spec/fields.h"

/* Sizes that are common to most rows (docs: the API's defaults). */
#define TC_EXACT_LIMIT 2048u /* an eigendecomposition of this order takes seconds */
#define TC_LAMBDA 0.01
#define IGP_LAMBDA (1 + 2.0 / 1000)
#define LK_EXACT_LIMIT 1500u /* beyond it LK's O(t^2) per decision is no longer interactive */

struct preset {
    const char *name, *about;
    enum kb_user_kernel_type user;
    double rho, population; /* rho 0: the default */
    bool is_normalized;
    enum kb_vec_kernel_type context, arm; /* with coordinates; see the header for dimension 0 */
    enum kb_repr_type repr;
    double lambda;                      /* 0: the default; KORS's mu is the same */
    size_t max_dictionary, exact_limit; /* 0: the default */
    enum kb_rule_type rule;
    double epsilon;
    double beta;
    enum kb_conf_type conf; /* fixed, unless the row says otherwise */
    enum kb_score score;
    double noise; /* 0: the default */
};

static const struct preset presets[] = {
    {.name = "laplaced",
     .about = "Default: users share along the graph and with the crowd, a KORS dictionary keeps decisions cheap, UCB "
              "with 5 % "
              "of uniform exploration.",
     .user = KB_USER_LAPLACIAN,
     .rho = 0.01,
     .population = 1.0,
     .is_normalized = true,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_KORS,
     .lambda = 0.25,
     .max_dictionary = 1024,
     .rule = KB_RULE_UCB,
     .epsilon = 0.05,
     .beta = 2.0,
     .conf = KB_CONF_CMM,
     .score = KB_SCORE_FIXED,
     .noise = 0.5},
    {.name = "laplaced-by-arm",
     .about =
         "Arms share nothing and are learned exactly, each as a mean of its own, for users along the graph and for "
         "contexts; UCB with 5 % of uniform exploration.",
     .user = KB_USER_LAPLACIAN,
     .is_normalized = true,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_DELTA,
     .repr = KB_REPR_BY_ARM,
     .lambda = 0.25,
     .exact_limit = 1024,
     .rule = KB_RULE_UCB,
     .epsilon = 0.05,
     .beta = 1.0},
    {.name = "lk-gp-ucb",
     .about = "LK: graph Laplacian user kernel, exact Gaussian process, UCB.",
     .user = KB_USER_LAPLACIAN,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .exact_limit = LK_EXACT_LIMIT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "lk-gp-ts",
     .about = "LK: graph Laplacian user kernel, exact Gaussian process, Thompson sampling per arm.",
     .user = KB_USER_LAPLACIAN,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .exact_limit = LK_EXACT_LIMIT,
     .rule = KB_RULE_THOMPSON,
     .beta = 1.0},
    {.name = "ek-ucb",
     .about = "EK: one population, joint context and arm kernel, KORS dictionary, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_KORS,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "k-ucb",
     .about = "EK's baseline (CGP-UCB): one population, joint context and arm kernel, exact, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "sup-kernel-ucb",
     .about =
         "EK's baseline (SupKernelUCB): one population, joint kernel, exact by levels, elimination in place of UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_SUP_KERNEL,
     .beta = 2.0},
    {.name = "bkb",
     .about = "BKB (CBKB): one population, joint kernel, a dictionary drawn anew after every batch of rewards, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_BKB,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "bbkb",
     .about = "BBKB (CBBKB): as bkb, but drawn anew only once enough posterior variance has been learned, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_BBKB,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "gp-ucb",
     .about = "LK's baseline: one population, RBF kernel, exact, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "lin-ucb",
     .about = "LK's baseline: one population, linear in the arm's features (times the context's), exact, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_LINEAR,
     .arm = KB_VEC_LINEAR,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "lin-ucb-per-user",
     .about = "LK's baseline: every user alone, linear in the arm's features (times the context's), exact, UCB.",
     .user = KB_USER_IDENTITY,
     .context = KB_VEC_LINEAR,
     .arm = KB_VEC_LINEAR,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "gob-lin",
     .about = "LK's baseline (GOB.Lin): users coupled by (I + L)^-1, linear in the arm's features, exact, UCB.",
     .user = KB_USER_LAPLACIAN,
     .rho = 1.0,
     .context = KB_VEC_LINEAR,
     .arm = KB_VEC_LINEAR,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "graph-ucb",
     .about = "LK's baseline (GraphUCB): graph Laplacian user kernel, linear in the arm's features, exact, UCB.",
     .user = KB_USER_LAPLACIAN,
     .context = KB_VEC_LINEAR,
     .arm = KB_VEC_LINEAR,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "coop-kernel-ucb",
     .about = "LK's baseline: a kernel between users (laplacian; or heat, spectral_rbf, ones, mmd), RBF on arms, "
              "exact, UCB.",
     .user = KB_USER_LAPLACIAN,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "cmm-ucb",
     .about = "TC: one population, exact, the convex martingale mixture bound by its one-dimensional dual, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .lambda = TC_LAMBDA,
     .exact_limit = TC_EXACT_LIMIT,
     .rule = KB_RULE_UCB,
     .beta = 2.0,
     .conf = KB_CONF_CMM},
    {.name = "dmm-ucb",
     .about = "TC: one population, exact, the best of five ridges of that dual, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .lambda = TC_LAMBDA,
     .exact_limit = TC_EXACT_LIMIT,
     .rule = KB_RULE_UCB,
     .beta = 2.0,
     .conf = KB_CONF_DMM},
    {.name = "amm-ucb",
     .about = "TC: one population, exact, the analytic bound at the ridge of the model itself, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .lambda = TC_LAMBDA,
     .rule = KB_RULE_UCB,
     .beta = 2.0,
     .conf = KB_CONF_AMM},
    {.name = "ay-gp-ucb",
     .about = "TC's baseline: one population, exact, Abbasi-Yadkori's radius, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .lambda = TC_LAMBDA,
     .rule = KB_RULE_UCB,
     .beta = 2.0,
     .conf = KB_CONF_AY},
    {.name = "igp-ucb",
     .about = "TC's baseline: one population, exact, the radius of improved GP-UCB, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_RBF,
     .arm = KB_VEC_RBF,
     .repr = KB_REPR_EXACT,
     .lambda = IGP_LAMBDA,
     .rule = KB_RULE_UCB,
     .beta = 2.0,
     .conf = KB_CONF_IGP},
    {.name = "ucb",
     .about = "One mean per arm, the same for all users and contexts, UCB.",
     .user = KB_USER_ONES,
     .context = KB_VEC_ONES,
     .arm = KB_VEC_DELTA,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UCB,
     .beta = 2.0},
    {.name = "ts",
     .about = "One mean per arm, the same for all users and contexts, Thompson sampling.",
     .user = KB_USER_ONES,
     .context = KB_VEC_ONES,
     .arm = KB_VEC_DELTA,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_THOMPSON,
     .beta = 1.0},
    {.name = "random",
     .about = "Uniform choice, learning all the while: a baseline and a source of unbiased logs.",
     .user = KB_USER_ONES,
     .context = KB_VEC_ONES,
     .arm = KB_VEC_DELTA,
     .repr = KB_REPR_EXACT,
     .rule = KB_RULE_UNIFORM,
     .beta = 2.0},
};

#define N_PRESETS (sizeof presets / sizeof presets[0])

const char *kb_preset_name(size_t i)
{
    return i < N_PRESETS ? presets[i].name : NULL;
}

const char *kb_preset_about(size_t i)
{
    return i < N_PRESETS ? presets[i].about : NULL;
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

/* Defaults, then the row, then the two rules about dimensions that are zero. */
enum kb_err kb_spec_preset(struct kb_spec *spec, const char *name, uint32_t context_dim, uint32_t arm_dim)
{
    const struct preset *p = find_preset(name);
    if (p == NULL)
        return KB_ENOTFOUND;
    assert(strlen(p->name) < sizeof spec->algorithm);
    kb_spec_init(spec);
    memcpy(spec->algorithm, p->name, strlen(p->name) + 1);
    spec->context_dim = context_dim;
    spec->arm_dim = arm_dim;
    spec->user_kernel.type = p->user;
    if (p->rho > 0)
        spec->user_kernel.rho = p->rho;
    spec->user_kernel.population = p->population;
    spec->user_kernel.is_normalized = p->is_normalized;
    spec->context_kernel.type = context_dim == 0 ? KB_VEC_ONES : p->context;
    spec->arm_kernel.type = arm_dim == 0 ? KB_VEC_DELTA : p->arm;
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
    return KB_OK;
}
