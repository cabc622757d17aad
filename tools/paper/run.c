/* One run: an environment, a learner, and what came of it at evenly spread rounds.
 *
 *   round -> decide -> reward -> learn, T times; 40 checkpoints, or one a round in shorter runs
 *
 * Regret is measured on means (pb_round.mean against pb_round.best): rewards carry noise that no algorithm answers for.
 * Seconds are CPU seconds of the learner alone, so that neither the environment nor other processes count. */
#include "paper/learner.h"

#include <stdio.h>

#include "linalg/linalg.h"
#include "model/engine_read.h"
#include "posterior/posterior.h"

#define CHECKPOINTS 40u /* divides 1,000, 2,000 and 3,000 rounds evenly */

static void note(struct pb_record *r, size_t done, double regret, const struct pb_learner *l)
{
    const struct pb_times times = pb_learner_times(l);
    const size_t i = r->n_checkpoints++;

    r->at[i] = done;
    r->regret[i] = regret;
    r->seconds[i] = times.decide + times.learn + times.settle;
    r->dictionary[i] = kb_posterior_n_support(kb_engine_posterior(pb_learner_engine(l)));
}

/* Totals. n_empty is that of the model in force at the end: a rebuild starts a new count. */
static enum kb_err note_totals(struct pb_record *r, const struct pb_learner *l)
{
    const struct pb_times times = pb_learner_times(l);
    struct kb_posterior_facts facts;
    const enum kb_err rc = kb_posterior_facts(kb_engine_posterior(pb_learner_engine(l)), &facts);

    if (rc != KB_OK)
        return rc;
    r->n_empty = facts.n_empty;
    r->decide_seconds = times.decide;
    r->learn_seconds = times.learn;
    r->settle_seconds = times.settle;
    return KB_OK;
}

/* All rounds. Even checkpoint i of n comes after the round (i + 1) T / n, rounded down: the last one is the end,
 * always. also_at: after this round comes one, too. */
static enum kb_err play(struct pb_env *env, struct pb_learner *l, size_t also_at, struct pb_record *r)
{
    const size_t n = r->rounds < CHECKPOINTS ? r->rounds : CHECKPOINTS;
    struct pb_round round;
    double regret = 0;
    size_t chosen = 0, n_even = 0;
    enum kb_err rc = KB_OK;

    for (size_t t = 0; t < r->rounds; t++) {
        env->ops->round(env, t, &round);
        KB_TRY(pb_learner_decide(l, &round, &chosen));
        regret += round.best - round.mean[chosen];
        KB_TRY(pb_learner_learn(l, &round, chosen, env->ops->reward(env, chosen)));
        const bool is_even = t + 1 == (n_even + 1) * r->rounds / n;
        n_even += is_even;
        if (is_even || t + 1 == also_at)
            note(r, t + 1, regret, l);
    }
    rc = note_totals(r, l);
out:
    return rc;
}

/* Environment and learner live for this run only, which is why nothing of a record depends on other runs. */
enum kb_err pb_run(const struct pb_setting *setting, const struct pb_algorithm *algorithm, uint64_t seed, size_t rounds,
                   struct pb_record *out)
{
    struct pb_env *env = NULL;
    struct pb_learner *l = NULL;
    enum kb_err rc;

    *out = (struct pb_record){.setting = setting->name, .algorithm = algorithm->name, .seed = seed, .rounds = rounds};
    snprintf(out->blas_core, sizeof out->blas_core, "%s", kb_blas_core_name());
    KB_TRY(setting->open(setting, seed, rounds, &env));
    KB_TRY(pb_learner_new(&l, algorithm, env, seed, rounds));
    KB_TRY(play(env, l, setting->also_at, out));
out:
    pb_learner_free(l);
    if (env != NULL)
        env->ops->close(env);
    return rc;
}
