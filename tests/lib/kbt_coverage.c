/* Runs that a rule of confidence steers (kbt_coverage.h).
 *
 * The worst point under a linear kernel. With theta^ the ridge estimate of theta and V = X^T X + lambda I, the ratio
 * (x.(theta - theta^))^2 / x^T V^-1 x is largest at x = V (theta - theta^) = lambda theta - X^T noise, which takes no
 * solve. A radius that fails in any direction fails there. */
#include "kbt_coverage.h"

#include <math.h>
#include <string.h>

#include "rules/confidence.h"
#include "kbt_world.h"
#include "base/rng.h"
#include "posterior/spectrum.h"
#include "posterior/learning.h"

#define N_POOL 30u
#define N_POINTS 45u /* the pool, and points that are never shown; the last is the worst one, where it is known */
#define N_SHOWN 8u
#define N_SHOWN_OF_MISFIT 2u
#define N_CENTRES 6u
#define SHRINKING 0.3
#define MISFIT 0.19 /* residual, as a share of k(s,s) */
#define LINEAR_DIM 8u
#define LINEAR_SCALE 0.05
#define ROUNDING 1e-9 /* a bump reaches the bound before any data, B sqrt(k), exactly */

const char *const kbt_cover_kernel_names[] = {"rbf", "matern32", "rbf/1000", "linear"};
const char *const kbt_cover_noise_names[] = {"gaussian", "rademacher", "bernoulli"};
const char *const kbt_cover_target_names[] = {"sum", "bump", "misfit"};

/* clang-format off */
const struct kbt_cover_rule kbt_cover_rules[] = {
    {"lk",          KB_CONF_LK,      0,                false, true,  false, KBT_COVER_AS_IS},
    {"ay",          KB_CONF_AY,      0,                false, true,  false, KBT_COVER_AS_IS},
    {"igp",         KB_CONF_IGP,     0,                false, true,  false, KBT_COVER_AS_IS},
    {"ek",          KB_CONF_EK,      0,                false, true,  true,  KBT_COVER_AS_IS},
    {"ek_plus",     KB_CONF_EK_PLUS, 0,                false, true,  true,  KBT_COVER_AS_IS},
    {"bkb",         KB_CONF_BKB,     0,                false, true,  true,  KBT_COVER_AS_IS},
    {"amm",         KB_CONF_AMM,     KB_SKETCH_CROSS,  false, true,  true,  KBT_COVER_AS_IS},
    {"dmm",         KB_CONF_DMM,     KB_SKETCH_CROSS,  false, true,  true,  KBT_COVER_AS_IS},
    {"cmm",         KB_CONF_CMM,     KB_SKETCH_CROSS,  false, true,  true,  KBT_COVER_AS_IS},
    {"cmm mixture", KB_CONF_CMM,     KB_SKETCH_CROSS,  true,  true,  true,  KBT_COVER_AS_IS},
    {"cmm split",   KB_CONF_CMM,     KB_SKETCH_SPLIT,  false, false, true,  KBT_COVER_AS_IS},
    {"cmm simple",  KB_CONF_CMM,     KB_SKETCH_SIMPLE, false, false, true,  KBT_COVER_AS_IS},
    {"lk at 0.3 of its width",               KB_CONF_LK,  0,               false, true,  false, KBT_COVER_SHRUNK},
    {"cmm at 0.3 of its width",              KB_CONF_CMM, KB_SKETCH_SPLIT, false, true,  true,  KBT_COVER_SHRUNK},
    {"igp as printed",                       KB_CONF_IGP, 0,               false, true,  false, KBT_COVER_PRINTED_IGP},
    {"bkb as printed",                       KB_CONF_BKB, 0,               false, true,  true,  KBT_COVER_PRINTED_BKB},
    {"cmm split, projection error taken for 0", KB_CONF_CMM, KB_SKETCH_SPLIT, false, false, true, KBT_COVER_NO_ERROR},
};
/* clang-format on */
const unsigned kbt_cover_n_rules = sizeof kbt_cover_rules / sizeof *kbt_cover_rules;

bool kbt_cover_has(const struct kbt_cover_cell *cell, const struct kbt_cover_rule *rule)
{
    return cell->repr == KB_REPR_EXACT ? rule->on_exact : rule->on_dictionary;
}

unsigned kbt_cover_allowed(unsigned n_runs, double tail)
{
    const double d = KBT_COVER_DELTA;
    double chance = pow(1 - d, n_runs), left = 1 - chance;
    unsigned k = 0;
    while (left > tail && k < n_runs) {
        chance *= (n_runs - k) / (k + 1.0) * d / (1 - d);
        left -= chance;
        k++;
    }
    return k;
}

/* --- a run -------------------------------------------------------------------------------------------------- */

struct run {
    struct kbt_world world;
    const struct kbt_cover_cell *cell;
    const struct kbt_cover_rule *rule;
    uint64_t key;
    struct kbt_observation point[N_POINTS];
    double f[N_POINTS];
    size_t twin[2];            /* z and s of a misfit */
    double theta[LINEAR_DIM];  /* f(x) = theta.x under a linear kernel */
    double gained[LINEAR_DIM]; /* sum of noise times x */
};

static double uniform(const struct run *r, uint64_t i)
{
    return kb_rng_uniform(r->key, KB_STREAM_SIMULATION, i);
}

static void put_kernel(struct kb_spec *spec, enum kbt_cover_kernel kernel)
{
    spec->arm_kernel.type = kernel == KBT_COVER_LINEAR     ? KB_VEC_LINEAR
                            : kernel == KBT_COVER_MATERN32 ? KB_VEC_MATERN32
                                                           : KB_VEC_RBF;
    spec->arm_kernel.lengthscale = 0.3;
    if (kernel == KBT_COVER_SMALL_RBF) { /* a user alone: G = 1/rho */
        spec->user_kernel.type = KB_USER_LAPLACIAN;
        spec->user_kernel.rho = 1000;
    }
}

static void open_world(struct run *r)
{
    const struct kbt_cover_cell *cell = r->cell;
    struct kb_spec spec;
    struct kb_errmsg msg;
    ck_assert_int_eq(kb_spec_preset(&spec, "cmm-ucb", 0, cell->kernel == KBT_COVER_LINEAR ? LINEAR_DIM : 2), KB_OK);
    put_kernel(&spec, cell->kernel);
    spec.repr.type = cell->repr;
    spec.repr.lambda = spec.repr.mu = cell->lambda;
    spec.repr.gamma = 0.5;
    spec.repr.threshold = 0.2;
    spec.repr.q = 5;
    spec.conf = (struct kb_conf_spec){.type = r->rule->type,
                                      .form = r->rule->form,
                                      .is_mixture = r->rule->is_mixture,
                                      .norm_bound = cell->norm,
                                      .noise = KBT_COVER_SIGMA,
                                      .delta = KBT_COVER_DELTA};
    ck_assert_msg(kb_spec_check(&spec, &msg) == KB_OK, "%s: %s", r->rule->name, msg.text);
    kbt_world_open(&r->world, &spec, 3, 3, false, 9);
}

static double kernel(const struct run *r, size_t i, size_t j)
{
    return kbt_world_kernel(&r->world, &r->point[i], &r->point[j]);
}

/* By kind (kbt_coverage.h): centres and coefficients, not yet of norm B. Returns how many. */
static size_t draw_centres(struct run *r, size_t *centre, double *alpha)
{
    const size_t n = r->cell->target == KBT_COVER_SUM ? N_CENTRES : 1;
    for (size_t i = 0; i < n; i++) {
        centre[i] = (size_t)(uniform(r, 3000 + i) * N_POOL);
        alpha[i] = kb_rng_normal(r->key, KB_STREAM_SIMULATION, 2000 + i);
    }
    if (r->cell->target != KBT_COVER_MISFIT)
        return n;
    centre[0] = r->twin[0], alpha[0] = -kernel(r, r->twin[0], r->twin[1]) / kernel(r, r->twin[0], r->twin[0]);
    centre[1] = r->twin[1], alpha[1] = 1;
    return 2;
}

static void draw_function(struct run *r)
{
    size_t centre[N_CENTRES];
    double alpha[N_CENTRES], norm_sq = 0;
    const size_t n = draw_centres(r, centre, alpha);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            norm_sq += alpha[i] * alpha[j] * kernel(r, centre[i], centre[j]);
    for (size_t i = 0; i < n; i++)
        alpha[i] *= r->cell->norm / sqrt(norm_sq);
    for (size_t p = 0; p < N_POINTS; p++)
        for (size_t i = 0; i < n; i++)
            r->f[p] += alpha[i] * kernel(r, centre[i], p);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < LINEAR_DIM; d++)
            r->theta[d] += alpha[i] * r->point[centre[i]].x[d];
}

/* The pair of the pool with the largest residual below that of the threshold; the most alike one where there is none.
 */
static void find_twins(struct run *r)
{
    double best = INFINITY;
    for (size_t i = 0; i < N_POOL; i++) {
        for (size_t j = 0; j < i; j++) {
            double k = kernel(r, i, j), residual = 1 - k * k / (kernel(r, i, i) * kernel(r, j, j));
            double distance = residual < MISFIT ? MISFIT - residual : residual;
            if (distance < best) {
                best = distance;
                r->twin[0] = i;
                r->twin[1] = j;
            }
        }
    }
}

static void settle(struct run *r)
{
    ck_assert_int_eq(kb_posterior_settle(r->world.posterior, &r->world.scratch), KB_OK);
    kb_posterior_publish(r->world.posterior);
    if (r->rule->twist == KBT_COVER_NO_ERROR)
        ((struct kb_spectrum *)kb_posterior_spectrum(r->world.posterior))->sketch.error = 0;
}

static void draw_point(struct run *r, size_t p)
{
    const bool is_linear = r->cell->kernel == KBT_COVER_LINEAR;
    r->point[p] = (struct kbt_observation){.arm = 1};
    for (size_t d = 0; d < r->world.dim; d++) {
        const double u = uniform(r, LINEAR_DIM * p + d);
        r->point[p].x[d] = is_linear ? LINEAR_SCALE * (u - 0.5) : u;
    }
}

static void open_run(struct run *r)
{
    open_world(r);
    for (size_t p = 0; p < N_POINTS; p++)
        draw_point(r, p);
    find_twins(r);
    draw_function(r);
    settle(r);
}

static double noise_at(const struct run *r, double f, uint64_t t)
{
    const double u = uniform(r, 1000 + t), sigma = KBT_COVER_SIGMA;
    if (r->cell->noise == KBT_COVER_GAUSSIAN)
        return sigma * kb_rng_normal(r->key, KB_STREAM_SIMULATION, 5000 + t);
    if (r->cell->noise == KBT_COVER_RADEMACHER)
        return u < 0.5 ? sigma : -sigma;
    if (fabs(f) <= sigma)
        return (u < (1 + f / sigma) / 2 ? sigma : -sigma) - f;
    return copysign(2 * sigma * ((u < 0.1) - 0.1), f);
}

/* --- bounds -------------------------------------------------------------------------------------------------- */

/* [BKB, Thm 2] to the letter, in units of sd, with what the dictionary itself says of d_eff. */
static double printed_bkb(const struct run *r)
{
    const struct kb_spectrum *sp = kb_posterior_spectrum(r->world.posterior);
    const double eps = r->world.spec.repr.epsilon, a = r->cell->lambda;
    const double trace = sp->is_sketch ? sp->sketch.trace / a : 0;
    const double growth = (1 + eps) / (1 - eps) * fmax(0, log(fmax(1, sp->largest_diag * sp->n_observed)));
    const double root =
        sqrt(growth * (kb_spectrum_effective_dimension(sp, a) + trace) - log(KBT_COVER_DELTA)) / sqrt(a);
    return (1 + 1 / sqrt(1 - eps)) * r->cell->norm + 2 * KBT_COVER_SIGMA * root;
}

static double printed_igp(const struct run *r)
{
    const double gain = kb_posterior_log_det(r->world.posterior);
    return r->cell->norm + KBT_COVER_SIGMA * sqrt(gain + 2 - 2 * log(KBT_COVER_DELTA));
}

static void twist(const struct run *r, size_t n, const double *mean, const double *sd, double *lower, double *upper)
{
    const double radius = r->rule->twist == KBT_COVER_PRINTED_IGP   ? printed_igp(r)
                          : r->rule->twist == KBT_COVER_PRINTED_BKB ? printed_bkb(r)
                                                                    : 0;
    for (size_t i = 0; i < n; i++) {
        const double middle = radius > 0 ? mean[i] : (lower[i] + upper[i]) / 2;
        const double half = radius > 0 ? radius * sd[i] : SHRINKING * (upper[i] - lower[i]) / 2;
        lower[i] = middle - half;
        upper[i] = middle + half;
    }
}

/* Of the points named; [n]. */
static void bounds_at(struct run *r, const size_t *point, size_t n, double *lower, double *upper)
{
    struct kbt_world *w = &r->world;
    double mean[N_POINTS], sd[N_POINTS], score[N_POINTS];
    const double *features[N_POINTS];
    uint32_t arms[N_POINTS];
    for (size_t i = 0; i < n; i++) {
        features[i] = r->point[point[i]].x;
        arms[i] = 1;
    }
    const struct kb_candidates cand = {
        .user = kbt_point(w, &r->point[0]).user, .n = n, .arms = arms, .features = features};
    ck_assert_int_eq(kb_posterior_fit_scratch(w->posterior, &w->scratch, 0), KB_OK);
    kb_posterior_predict(w->posterior, &cand, &w->scratch, mean, sd);
    kb_confidence_bounds(w->posterior, &w->spec.conf, &cand, &w->scratch, mean, sd, lower, upper, score);
    if (r->rule->twist != KBT_COVER_AS_IS && r->rule->twist != KBT_COVER_NO_ERROR)
        twist(r, n, mean, sd, lower, upper);
}

/* Whether f is outside at one of the points; *best: that of the largest upper bound. */
static bool is_outside(struct run *r, const size_t *point, size_t n, size_t *best)
{
    const double slack = ROUNDING * r->cell->norm;
    double lower[N_POINTS], upper[N_POINTS];
    bool is_violated = false;
    size_t first = 0;
    bounds_at(r, point, n, lower, upper);
    for (size_t i = 0; i < n; i++) {
        is_violated |= r->f[point[i]] < lower[i] - slack || r->f[point[i]] > upper[i] + slack;
        if (upper[i] > upper[first])
            first = i;
    }
    *best = point[first];
    return is_violated;
}

static bool is_outside_anywhere(struct run *r)
{
    size_t point[N_POINTS], best;
    for (size_t p = 0; p < N_POINTS; p++)
        point[p] = p;
    return is_outside(r, point, N_POINTS, &best);
}

/* --- rounds --------------------------------------------------------------------------------------------------- */

static void learn(struct run *r, size_t p, uint64_t t)
{
    struct kbt_world *w = &r->world;
    struct kbt_observation o = r->point[p];
    const double noise = noise_at(r, r->f[p], t);
    o.reward = r->f[p] + noise;
    for (size_t d = 0; d < LINEAR_DIM; d++)
        r->gained[d] += noise * o.x[d];
    kbt_world_learn(w, &o);
    kbt_world_admit(w, &o, kb_rng_uniform(r->key, KB_STREAM_DICTIONARY, t));
    if (kb_posterior_is_outdated(w->posterior))
        kbt_world_resample(w, kb_rng_bits(r->key, KB_STREAM_DICTIONARY, 1000 + t));
    settle(r);
}

/* Puts the worst point last, as long as the others are. */
static void seek_worst(struct run *r)
{
    struct kbt_observation *worst = &r->point[N_POINTS - 1];
    double square = 0;
    if (r->cell->kernel != KBT_COVER_LINEAR)
        return;
    for (size_t d = 0; d < LINEAR_DIM; d++) {
        worst->x[d] = r->cell->lambda * r->theta[d] - r->gained[d];
        square += worst->x[d] * worst->x[d];
    }
    r->f[N_POINTS - 1] = 0;
    for (size_t d = 0; d < LINEAR_DIM; d++) {
        worst->x[d] *= LINEAR_SCALE / sqrt(square);
        r->f[N_POINTS - 1] += r->theta[d] * worst->x[d];
    }
}

/* The points shown in a round; of a misfit its own two alone, z first. Returns how many. */
static size_t show(const struct run *r, uint64_t t, size_t *shown)
{
    const bool is_misfit = r->cell->target == KBT_COVER_MISFIT;
    const size_t n = is_misfit ? N_SHOWN_OF_MISFIT : N_SHOWN;
    for (size_t i = 0; i < n; i++)
        shown[i] = (size_t)(uniform(r, 20000 + t * N_SHOWN + i) * N_POOL);
    if (is_misfit) {
        shown[0] = r->twin[0];
        shown[1] = r->twin[1];
    }
    return n;
}

/* The rule takes one of the points shown; all points are looked at ever less often, the worst every time. */
static bool play_round(struct run *r, uint64_t t)
{
    const size_t worst = N_POINTS - 1;
    size_t shown[N_SHOWN], best, other;
    const size_t n = show(r, t, shown);
    if (is_outside(r, shown, n, &best))
        return true;
    learn(r, best, t);
    seek_worst(r);
    return is_outside(r, &worst, 1, &other) || ((t == 0 || t % 12 == 11) && is_outside_anywhere(r));
}

bool kbt_cover_run(const struct kbt_cover_cell *cell, const struct kbt_cover_rule *rule, uint64_t key)
{
    struct run r = {.cell = cell, .rule = rule, .key = key};
    bool is_violated = false;
    open_run(&r);
    for (uint64_t t = 0; t < KBT_COVER_ROUNDS && !is_violated; t++)
        is_violated = play_round(&r, t);
    kbt_world_close(&r.world);
    return is_violated;
}

unsigned kbt_cover_count(const struct kbt_cover_cell *cell, const struct kbt_cover_rule *rule, unsigned n_runs)
{
    unsigned n = 0;
    for (unsigned key = 1; key <= n_runs; key++)
        n += kbt_cover_run(cell, rule, key);
    return n;
}
