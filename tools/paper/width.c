/* width.h. All models have TC's kernel, lambda = sigma^2 (c = 1), B, sigma and delta; they differ in their points.
 *
 *   observations   those of exact DMM-UCB, so that points lie where a bandit puts them, close to each other
 *   learning       under confidence `fixed`, which settles no spectrum; a rule then comes by a configuration of its
 * own, as a PUT would bring it, which changes no model and keeps the sums of the radius half width     (upper - lower)
 * / 2, averaged over PB_TC_ARMS arms
 *
 * Cost: T settles of order T for DMM-UCB, seconds for T = 300, and little for all the rest. */
#include "paper/width.h"

#include <math.h>

#include "base/alloc.h"
#include "paper/learner.h"
#include "model/engine_read.h"
#include "posterior/posterior.h"

#define DELTA 0.01

const struct pb_width_rule pb_width_rules[PB_WIDTH_N_RULES] = {
    {"cmm", KB_CONF_CMM, KB_SKETCH_CROSS, true, true},
    {"cmm split", KB_CONF_CMM, KB_SKETCH_SPLIT, false, true},
    {"cmm simple", KB_CONF_CMM, KB_SKETCH_SIMPLE, false, true},
    {"dmm", KB_CONF_DMM, KB_SKETCH_CROSS, true, true},
    {"amm", KB_CONF_AMM, KB_SKETCH_CROSS, true, true},
    {"amm simple", KB_CONF_AMM, KB_SKETCH_SIMPLE, false, true},
    {"ay", KB_CONF_AY, KB_SKETCH_CROSS, true, false},
    {"ek+", KB_CONF_EK_PLUS, KB_SKETCH_CROSS, true, true},
    {"ek", KB_CONF_EK, KB_SKETCH_CROSS, true, true},
    {"bkb", KB_CONF_BKB, KB_SKETCH_CROSS, true, true},
};
const struct pb_width_model pb_width_models[PB_WIDTH_N_MODELS] = {
    {"all points", KB_REPR_EXACT, 0},           {"threshold .003", KB_REPR_THRESHOLD, .003},
    {"threshold .03", KB_REPR_THRESHOLD, .03},  {"threshold .3", KB_REPR_THRESHOLD, .3},
    {"kors, mu = 10 lambda", KB_REPR_KORS, 10},
};

/* What DMM-UCB was shown and did: enough to teach any model the same. */
struct course {
    size_t rounds;
    size_t *chosen; /* [rounds] */
    double *reward; /* [rounds] */
};

/* ---- rows -------------------------------------------------------------------------------------------------- */

static void tune(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value)
{
    (void)rounds, (void)value;
    spec->arm_kernel.type = env->kernel;
    spec->arm_kernel.lengthscale = env->lengthscale;
    spec->repr.lambda = spec->repr.mu = env->noise * env->noise;
    spec->conf.norm_bound = env->norm;
    spec->conf.noise = env->noise;
    spec->conf.delta = DELTA;
}

/* value: the model's number. Rules for dictionaries take first rewards only. */
static void tune_model(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value)
{
    const struct pb_width_model *m = &pb_width_models[(size_t)value[0]];

    tune(spec, env, rounds, value);
    spec->aggregation = KB_AGG_FIRST;
    spec->conf.type = KB_CONF_FIXED;
    spec->repr.type = m->repr;
    spec->repr.gamma = 1;
    if (m->repr == KB_REPR_THRESHOLD)
        spec->repr.threshold = m->size;
    if (m->repr == KB_REPR_KORS)
        spec->repr.mu = m->size * spec->repr.lambda;
}

static bool is_for(const struct pb_width_rule *rule, const struct pb_width_model *m)
{
    return m->repr == KB_REPR_EXACT ? rule->is_for_exact : rule->is_for_dictionary;
}

static bool next_rule(struct kb_spec *spec, const struct pb_env *env, size_t t, size_t rounds, const double *value)
{
    const struct pb_width_rule *rule = &pb_width_rules[t % PB_WIDTH_N_RULES];

    (void)env, (void)rounds;
    if (!is_for(rule, &pb_width_models[(size_t)value[0]]))
        return false;
    spec->conf.type = rule->type;
    spec->conf.form = rule->form;
    return true;
}

/* ---- the course ---------------------------------------------------------------------------------------------- */

static enum kb_err play_course(struct pb_env *env, uint64_t seed, struct course *c)
{
    const struct pb_algorithm dmm = {.name = "dmm-ucb", .preset = "dmm-ucb", .tune = tune, .first_is_uniform = true};
    struct pb_learner *l = NULL;
    struct pb_round round;
    enum kb_err rc;

    KB_TRY(pb_learner_new(&l, &dmm, env, seed, c->rounds));
    for (size_t t = 0; t < c->rounds; t++) {
        env->ops->round(env, t, &round);
        KB_TRY(pb_learner_decide(l, &round, &c->chosen[t]));
        c->reward[t] = env->ops->reward(env, c->chosen[t]);
        KB_TRY(pb_learner_learn(l, &round, c->chosen[t], c->reward[t]));
    }
    rc = KB_OK;
out:
    pb_learner_free(l);
    return rc;
}

static enum kb_err teach(struct pb_learner *l, struct pb_env *env, const struct course *c)
{
    struct pb_round round;
    enum kb_err rc = KB_OK;

    for (size_t t = 0; t < c->rounds; t++) {
        env->ops->round(env, t, &round);
        KB_TRY(pb_learner_learn(l, &round, c->chosen[t], c->reward[t]));
    }
out:
    return rc;
}

/* ---- widths -------------------------------------------------------------------------------------------------- */

/* A mark for each arm that is outside. */
static enum kb_err bound(struct pb_learner *l, const struct pb_round *round, double *half, bool *is_outside)
{
    double lower[PB_TC_ARMS], upper[PB_TC_ARMS];
    const enum kb_err rc = pb_learner_bounds(l, round, lower, upper);

    if (rc != KB_OK)
        return rc;
    *half = 0;
    for (size_t i = 0; i < PB_TC_ARMS; i++) {
        *half += (upper[i] - lower[i]) / 2 / PB_TC_ARMS;
        is_outside[i] = is_outside[i] || !(lower[i] <= round->mean[i] && round->mean[i] <= upper[i]);
    }
    return KB_OK;
}

/* Every rule on what the model has learned. A decision brings the rule into force; what it chooses does not matter. */
static enum kb_err measure_rules(struct pb_learner *l, const struct pb_width_model *m, const struct pb_round *round,
                                 struct pb_width *out)
{
    bool is_outside[PB_TC_ARMS] = {false};
    enum kb_err rc = KB_OK;

    for (size_t k = 0; k < PB_WIDTH_N_RULES; k++) {
        size_t chosen;

        KB_TRY(pb_learner_decide(l, round, &chosen));
        out->half[k] = (double)NAN;
        if (is_for(&pb_width_rules[k], m))
            KB_TRY(bound(l, round, &out->half[k], is_outside));
    }
    out->n_outside = 0;
    for (size_t i = 0; i < PB_TC_ARMS; i++)
        out->n_outside += is_outside[i];
    out->n_points = kb_posterior_n_support(kb_engine_posterior(pb_learner_engine(l)));
out:
    return rc;
}

static enum kb_err measure_model(struct pb_env *env, uint64_t seed, size_t i, const struct course *c,
                                 struct pb_width *out)
{
    const struct pb_algorithm row = {.name = pb_width_models[i].name,
                                     .preset = "dmm-ucb",
                                     .tune = tune_model,
                                     .value = {(double)i},
                                     .schedule = next_rule};
    struct pb_learner *l = NULL;
    struct pb_round round;
    enum kb_err rc;

    KB_TRY(pb_learner_new(&l, &row, env, seed, c->rounds));
    KB_TRY(teach(l, env, c));
    env->ops->round(env, c->rounds, &round);
    KB_TRY(measure_rules(l, &pb_width_models[i], &round, out));
out:
    pb_learner_free(l);
    return rc;
}

enum kb_err pb_width_measure(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_width *out)
{
    struct pb_env *env = NULL;
    struct course c = {.rounds = rounds};
    enum kb_err rc;

    c.chosen = kb_array(rounds, 1, sizeof *c.chosen);
    c.reward = kb_array(rounds, 1, sizeof *c.reward);
    rc = c.chosen != NULL && c.reward != NULL ? KB_OK : KB_ENOMEM;
    KB_TRY(rc);
    KB_TRY(s->open(s, seed, rounds, &env));
    KB_TRY(play_course(env, seed, &c));
    for (size_t i = 0; i < PB_WIDTH_N_MODELS; i++)
        KB_TRY(measure_model(env, seed, i, &c, &out[i]));
out:
    if (env != NULL)
        env->ops->close(env);
    kb_free(c.chosen);
    kb_free(c.reward);
    return rc;
}
