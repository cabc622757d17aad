/* EK's environments Bump, Chessboard and Step Diagonal [EK, App. F], draw by draw as the authors ran them.
 *
 *   x          context, uniform on [0,1]^p: p = 5 (Bump), 1 (the others)
 *   a          arm in [0,1]: the ten anchors, drawn once from {0, .01, ..., .99}, the same in all three
 *   Bump       f = max(0, 1 - |a - a*| - <w*, x - x*>)      a* an anchor, x* uniform on [0,1]^5, w* on [-1,1]^5
 *   Chessboard f by cells of width 1/4 of (x, a)            `cells`
 *   Step D.    f = 1 where |x - (a + .15)| < .1, else 1/2 where |x - (a - .15)| < .1, else 0
 *   noise      N(0, .1^2)
 *
 * Everything fixed comes from RandomState(123): the anchors, then (Bump) a*, x*, w*. Everything random comes from
 * RandomState(seed), in each round: the context, the noise of the reward, the noise of the best reward (not in round
 * 0), whether anybody asks for them or not. Hence rounds do not depend on what was chosen, and figures can be compared
 * action by action.
 *
 * Round 0 is the authors' random first action, which their seed makes the arm .82: it is the only one shown, and costs
 * no regret (`best` is its own mean). Deviation: regret compares with the best mean over the ten anchors. The authors'
 * script compares with a noisy best reward, which on two environments is 1 in contexts where no arm pays it: that part
 * is out of anybody's reach and the same for all. pb_ek_best_reward gives theirs (test:
 * exact_k_ucb_gets_the_authors_regrets_on_every_environment).
 *
 * On Bump a* is the best arm in every context. O(p + 10) per round. */
#include "paper/env_ek.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "paper/numpy_rng.h"

#define N_ANCHORS 10
#define N_GRID 100 /* anchors are drawn from 0, .01, ..., .99 */
#define MAX_DIM 5
#define FIXED_SEED 123 /* of the environment and of the first action */
#define FIRST_ARM 2
#define NOISE 0.1
#define LENGTHSCALE 0.1

struct ek_env {
    struct pb_env base;
    double (*mean)(const struct ek_env *e, const double *x, double a);
    bool best_is_one; /* the authors' best reward is 1 rather than the best mean */
    struct pb_numpy_rng rng;
    double anchor[N_ANCHORS];
    double peak_arm, peak_context[MAX_DIM], slope[MAX_DIM]; /* Bump: a*, x*, w* */
    /* the round shown last */
    double x[MAX_DIM], mean_of[N_ANCHORS], reward_noise, best_reward;
    size_t first_shown; /* of the anchors: FIRST_ARM in round 0 */
    const double *features[N_ANCHORS];
};

static const char *const names[N_ANCHORS] = {"a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9"};

/* --- payoffs ------------------------------------------------------------------------------------------------ */

static double bump_mean(const struct ek_env *e, const double *x, double a)
{
    double value = 1 - fabs(a - e->peak_arm);
    for (size_t i = 0; i < MAX_DIM; i++)
        value -= e->slope[i] * (x[i] - e->peak_context[i]);
    return fmax(0, value);
}

#define N_CELLS 4
/* [x cell][a cell]; cells are half-open, the top one closed. */
static const double cells[N_CELLS][N_CELLS] = {{0, 0.5, 0, 0}, {1, 0, 1, 0}, {0, 0.5, 0, 0.5}, {0, 0, 1, 0}};

static size_t cell(double v)
{
    size_t i = (size_t)(N_CELLS * v);
    return i < N_CELLS ? i : N_CELLS - 1;
}

static double chessboard_mean(const struct ek_env *e, const double *x, double a)
{
    (void)e;
    return cells[cell(x[0])][cell(a)];
}

static double step_mean(const struct ek_env *e, const double *x, double a)
{
    (void)e;
    if (fabs(x[0] - (a + 0.15)) < 0.1)
        return 1;
    return fabs(x[0] - (a - 0.15)) < 0.1 ? 0.5 : 0;
}

/* --- rounds -------------------------------------------------------------------------------------------------- */

/* Context, means of all anchors, and the noises. Returns the best mean. */
static double draw_round(struct ek_env *e, bool has_best)
{
    double best = -INFINITY;
    for (size_t i = 0; i < e->base.context_dim; i++)
        e->x[i] = pb_numpy_double(&e->rng);
    for (size_t i = 0; i < N_ANCHORS; i++) {
        e->mean_of[i] = e->mean(e, e->x, e->anchor[i]);
        best = fmax(best, e->mean_of[i]);
    }
    e->reward_noise = pb_numpy_normal(&e->rng, 0, NOISE);
    if (has_best)
        e->best_reward = pb_numpy_normal(&e->rng, e->best_is_one ? 1 : best, NOISE);
    return best;
}

static void ek_round(struct pb_env *env, size_t t, struct pb_round *out)
{
    struct ek_env *e = (struct ek_env *)env;
    double best = draw_round(e, t > 0);
    size_t first = t == 0 ? FIRST_ARM : 0;
    e->first_shown = first;
    *out = (struct pb_round){.user = "all",
                             .context = e->x,
                             .n_arms = t == 0 ? 1 : N_ANCHORS,
                             .arm = names + first,
                             .features = e->features + first,
                             .mean = e->mean_of + first,
                             .best = t == 0 ? e->mean_of[first] : best};
}

static double ek_reward(struct pb_env *env, size_t chosen)
{
    const struct ek_env *e = (const struct ek_env *)env;
    assert(e->first_shown + chosen < N_ANCHORS);
    return e->mean_of[e->first_shown + chosen] + e->reward_noise;
}

static void ek_close(struct pb_env *env)
{
    kb_free(env);
}

double pb_ek_best_reward(const struct pb_env *env)
{
    return ((const struct ek_env *)env)->best_reward;
}

static const struct pb_env_ops ek_ops = {.round = ek_round, .reward = ek_reward, .close = ek_close};

/* --- opening --------------------------------------------------------------------------------------------------- */

/* The anchors, and Bump's peak behind them in the same stream (the others do not read it). */
static void draw_fixed(struct ek_env *e)
{
    struct pb_numpy_rng fixed;
    uint32_t order[N_GRID];
    pb_numpy_seed(&fixed, FIXED_SEED);
    pb_numpy_permutation(&fixed, N_GRID, order);
    for (size_t i = 0; i < N_ANCHORS; i++) {
        e->anchor[i] = order[i] * 0.01;
        e->features[i] = &e->anchor[i];
    }
    e->peak_arm = e->anchor[pb_numpy_below(&fixed, N_ANCHORS)];
    for (size_t i = 0; i < MAX_DIM; i++)
        e->peak_context[i] = pb_numpy_double(&fixed);
    for (size_t i = 0; i < MAX_DIM; i++)
        e->slope[i] = pb_numpy_uniform(&fixed, -1, 1);
}

enum kb_err pb_ek_open(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out)
{
    static const struct {
        double (*mean)(const struct ek_env *e, const double *x, double a);
        uint32_t context_dim;
        bool best_is_one;
    } kinds[] = {[PB_EK_BUMP] = {bump_mean, MAX_DIM, false},
                 [PB_EK_CHESSBOARD] = {chessboard_mean, 1, true},
                 [PB_EK_STEP] = {step_mean, 1, true}};
    const enum pb_ek_kind kind = (enum pb_ek_kind)s->value[0];

    (void)rounds;
    if (seed > UINT32_MAX)
        return KB_EINVAL;
    struct ek_env *e = kb_array(1, 1, sizeof *e);
    if (e == NULL)
        return KB_ENOMEM;
    e->base = (struct pb_env){.ops = &ek_ops,
                              .context_dim = kinds[kind].context_dim,
                              .arm_dim = 1,
                              .noise = NOISE,
                              .lengthscale = LENGTHSCALE};
    e->mean = kinds[kind].mean;
    e->best_is_one = kinds[kind].best_is_one;
    pb_numpy_seed(&e->rng, (uint32_t)seed);
    draw_fixed(e);
    *out = &e->base;
    return KB_OK;
}
