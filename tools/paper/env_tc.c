/* The environment of TC's experiments [TC, sec. 6 and app. F].
 *
 *   d          dimension of the cube [0, 1]^d
 *   z_i, w_i   20 centres, uniform in the cube, and their weights, standard normal
 *   f          b sum_i w_i k(., z_i), with b such that |f|_H = B: |sum w_i k(., z_i)|_H^2 = w^T K_zz w
 *   sigma      rewards are f + N(0, sigma^2)
 *
 * Each round shows 100 fresh arms, uniform in the cube; one user, no context. Arms are called "a0" to "a99" in every
 * round: what the kernel tells points apart by is their coordinates.
 *
 * Everything is a keyed function of (seed, round, place), so that f, the arms and the noise of round t are the same for
 * every algorithm of one seed, whatever it chose before. Kernels of one seed share centres, weights up to b, arms and
 * noise: their differences are differences of the kernel.
 *
 * Cost: 2,000 kernel values a round. */
#include "paper/env_tc.h"

#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "vector/vec_kernel.h"

/* Which key is for what: indices into the seed's simulation stream. */
enum { CENTRE_KEY, WEIGHT_KEY, ARM_KEY, NOISE_KEY };

static uint64_t key_of(uint64_t seed, uint64_t what)
{
    return kb_rng_bits(seed, KB_STREAM_SIMULATION, what);
}

static struct pb_tc_env *tc_of(struct pb_env *env)
{
    return (struct pb_tc_env *)env;
}

double pb_tc_value(const struct pb_tc_env *e, const double *x)
{
    double sum = 0;

    for (size_t i = 0; i < PB_TC_CENTRES; i++)
        sum += e->weight[i] * kb_vec_kernel_value(&e->kernel, e->base.arm_dim, x, e->centre[i]);
    return sum;
}

/* ---- f ---------------------------------------------------------------------------------------------------- */

/* Centres and unscaled weights. Places are numbered by PB_TC_MAX_DIM, so that the first coordinates of a centre are the
 * same in every dimension. */
static void draw_function(struct pb_tc_env *e, uint64_t seed)
{
    const size_t d = e->base.arm_dim;

    for (size_t i = 0; i < PB_TC_CENTRES; i++) {
        e->weight[i] = kb_rng_normal(key_of(seed, WEIGHT_KEY), KB_STREAM_SIMULATION, i);
        for (size_t k = 0; k < d; k++)
            e->centre[i][k] = kb_rng_uniform(key_of(seed, CENTRE_KEY), KB_STREAM_SIMULATION, i * PB_TC_MAX_DIM + k);
    }
}

/* Weights such that w^T K_zz w = B^2; w^T K_zz w is sum_i w_i (sum_j w_j k(z_i, z_j)), f at the centres. */
static void scale_function(struct pb_tc_env *e)
{
    double norm_sq = 0;

    for (size_t i = 0; i < PB_TC_CENTRES; i++)
        norm_sq += e->weight[i] * pb_tc_value(e, e->centre[i]);
    for (size_t i = 0; i < PB_TC_CENTRES; i++)
        e->weight[i] *= e->base.norm / sqrt(norm_sq);
}

/* ---- rounds ------------------------------------------------------------------------------------------------ */

static const char *const arm_ids[PB_TC_ARMS] = {
#define TEN(p) p "0", p "1", p "2", p "3", p "4", p "5", p "6", p "7", p "8", p "9"
    TEN("a"), TEN("a1"), TEN("a2"), TEN("a3"), TEN("a4"), TEN("a5"), TEN("a6"), TEN("a7"), TEN("a8"), TEN("a9"),
#undef TEN
};

/* The noise is drawn with the round, not with the reward: no choice can shift it. */
static void tc_round(struct pb_env *env, size_t t, struct pb_round *out)
{
    struct pb_tc_env *e = tc_of(env);
    double best = -INFINITY;

    for (size_t i = 0; i < PB_TC_ARMS; i++) {
        for (size_t k = 0; k < env->arm_dim; k++)
            e->arm[i][k] = kb_rng_uniform(e->arm_key, KB_STREAM_SIMULATION, (t * PB_TC_ARMS + i) * PB_TC_MAX_DIM + k);
        e->mean[i] = pb_tc_value(e, e->arm[i]);
        best = fmax(best, e->mean[i]);
    }
    e->reward_noise = env->noise * kb_rng_normal(e->noise_key, KB_STREAM_SIMULATION, t);
    *out = (struct pb_round){
        .user = "u", .n_arms = PB_TC_ARMS, .arm = arm_ids, .features = e->features, .mean = e->mean, .best = best};
}

static double tc_reward(struct pb_env *env, size_t chosen)
{
    return tc_of(env)->mean[chosen] + tc_of(env)->reward_noise;
}

static void tc_close(struct pb_env *env)
{
    kb_free(env);
}

static const struct pb_env_ops tc_ops = {.round = tc_round, .reward = tc_reward, .close = tc_close};

/* `rounds` does not matter: rounds are keyed, not stored. */
enum kb_err pb_tc_open(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out)
{
    struct pb_tc_env *e;

    (void)rounds;
    if (!(s->value[PB_TC_DIM] >= 1 && s->value[PB_TC_DIM] <= PB_TC_MAX_DIM))
        return KB_EINVAL;
    e = kb_array(1, 1, sizeof *e);
    if (e == NULL)
        return KB_ENOMEM;
    e->kernel = (struct kb_vec_kernel_spec){.type = (enum kb_vec_kernel_type)s->value[PB_TC_KERNEL],
                                            .lengthscale = s->value[PB_TC_LENGTHSCALE]};
    e->base = (struct pb_env){.ops = &tc_ops,
                              .arm_dim = (uint32_t)s->value[PB_TC_DIM],
                              .noise = s->value[PB_TC_NOISE],
                              .norm = s->value[PB_TC_NORM],
                              .kernel = e->kernel.type,
                              .lengthscale = e->kernel.lengthscale};
    e->arm_key = key_of(seed, ARM_KEY);
    e->noise_key = key_of(seed, NOISE_KEY);
    for (size_t i = 0; i < PB_TC_ARMS; i++)
        e->features[i] = e->arm[i];
    draw_function(e, seed);
    scale_function(e);
    *out = &e->base;
    return KB_OK;
}
