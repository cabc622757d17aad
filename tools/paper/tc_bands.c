/* tc_bands.h. As in the figure [TC, Fig. 1]: d = 1 on [-1, 1], Matern 3/2 with lengthscale .5, |f| = B = 10 by 20
 * centres, sigma = .1, delta = .01, 25 observations uniform in [-.8, -.2] and 25 in [.2, .8], c = 50^(-1/5). The
 * figure's draws are not known: seeds are ours.
 *
 * The environment lives on [0, 1] (env_tc.c). A stationary kernel of half the lengthscale is the same there, so only
 * what is written down is turned back to [-1, 1].
 *
 * Cost: six small models, milliseconds. */
#include "paper/tc_bands.h"

#include "base/rng.h"
#include "paper/exp_tc.h"
#include "paper/learner.h"

#define GAP_EDGE 0.2 /* observations lie between this and 1 - this, on either side of 0 */
#define OBSERVED_WIDTH 0.6

/* Indices into the seed's simulation stream: not those of env_tc.c. */
enum { PLACE_KEY = 64, NOISE_KEY };

#define UCB(name_, preset_, tune_)                                                                                     \
    {                                                                                                                  \
        .name = name_, .preset = preset_, .tune = tune_                                                                \
    }

const struct pb_algorithm pb_bands_rules[PB_BANDS_N_RULES] = {UCB("cmm", "cmm-ucb", pb_tc_tune),
                                                              UCB("dmm", "dmm-ucb", pb_tc_tune),
                                                              UCB("dmm, own grid", "dmm-ucb", pb_tc_tune_own_grid),
                                                              UCB("amm", "amm-ucb", pb_tc_tune),
                                                              UCB("ay", "ay-gp-ucb", pb_tc_tune),
                                                              UCB("igp", "igp-ucb", pb_tc_tune_igp)};

static const struct pb_setting setting = PB_TC_SETTING("tc-fig1", KB_VEC_MATERN32, 0.25, 1, 0.1, 10);

/* From [-1, 1] to the environment's cube. */
static double inside(double x)
{
    return (1 + x) / 2;
}

double pb_bands_point(size_t i)
{
    return 2 * (double)i / (PB_BANDS_POINTS - 1) - 1;
}

static void observe(const struct pb_tc_env *e, uint64_t seed, struct pb_bands *out)
{
    const uint64_t place = kb_rng_bits(seed, KB_STREAM_SIMULATION, PLACE_KEY);
    const uint64_t noise = kb_rng_bits(seed, KB_STREAM_SIMULATION, NOISE_KEY);

    for (size_t i = 0; i < PB_BANDS_OBSERVED; i++) {
        const double left = i < PB_BANDS_OBSERVED / 2 ? -GAP_EDGE - OBSERVED_WIDTH : GAP_EDGE;
        out->x[i] = left + OBSERVED_WIDTH * kb_rng_uniform(place, KB_STREAM_SIMULATION, i);
        const double x = inside(out->x[i]);
        out->y[i] = pb_tc_value(e, &x) + e->base.noise * kb_rng_normal(noise, KB_STREAM_SIMULATION, i);
    }
    for (size_t i = 0; i < PB_BANDS_POINTS; i++) {
        const double x = inside(pb_bands_point(i));
        out->f[i] = pb_tc_value(e, &x);
    }
}

static enum kb_err teach(struct pb_learner *l, const struct pb_bands *b)
{
    const char *id = "a0";
    enum kb_err rc = KB_OK;

    for (size_t i = 0; i < PB_BANDS_OBSERVED; i++) {
        const double x = inside(b->x[i]), *features = &x;
        const struct pb_round round = {.user = "u", .n_arms = 1, .arm = &id, .features = &features};
        KB_TRY(pb_learner_learn(l, &round, 0, b->y[i]));
    }
out:
    return rc;
}

/* All points at once; what tells them apart is their coordinate. */
static enum kb_err bound(struct pb_learner *l, double *lower, double *upper)
{
    double x[PB_BANDS_POINTS];
    const double *features[PB_BANDS_POINTS];
    const char *ids[PB_BANDS_POINTS];
    char text[PB_BANDS_POINTS][8];

    for (size_t i = 0; i < PB_BANDS_POINTS; i++) {
        snprintf(text[i], sizeof text[i], "x%u", (unsigned)i);
        x[i] = inside(pb_bands_point(i));
        features[i] = &x[i];
        ids[i] = text[i];
    }
    const struct pb_round round = {.user = "u", .n_arms = PB_BANDS_POINTS, .arm = ids, .features = features};
    return pb_learner_bounds(l, &round, lower, upper);
}

static enum kb_err measure_rule(const struct pb_env *env, uint64_t seed, size_t k, struct pb_bands *out)
{
    struct pb_learner *l = NULL;
    enum kb_err rc;

    KB_TRY(pb_learner_new(&l, &pb_bands_rules[k], env, seed, PB_BANDS_OBSERVED));
    KB_TRY(teach(l, out));
    KB_TRY(bound(l, out->lower[k], out->upper[k]));
out:
    pb_learner_free(l);
    return rc;
}

enum kb_err pb_bands_measure(uint64_t seed, struct pb_bands *out)
{
    struct pb_env *env = NULL;
    enum kb_err rc;

    KB_TRY(setting.open(&setting, seed, PB_BANDS_OBSERVED, &env));
    observe((const struct pb_tc_env *)env, seed, out);
    for (size_t k = 0; k < PB_BANDS_N_RULES; k++)
        KB_TRY(measure_rule(env, seed, k, out));
out:
    if (env != NULL)
        env->ops->close(env);
    return rc;
}
