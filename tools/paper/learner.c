/* A learner: the engine of core/ under the events that a tenant's writer would give it, by the same way
 * (core/model/commit.h): what is due before each event, the event and what follows from it as one batch, and settled
 * after it.
 *
 * An engine only begins work beyond KB_INLINE_WORK (engine_background.h). The papers' algorithms have their new model
 * in the next round, so each build is finished here where it began, and its time is learning.
 *
 * So what an experiment measures is what a tenant with the same configuration does, chance included: the draws of arms
 * and dictionary points are keyed by the spec's seed, which is the run's. A schedule becomes a new `configured` event
 * and thereby a rebuild from the history, as a PUT of the tenant's configuration would.
 *
 *   commit          with the number of the last event; the log itself is kept by nobody
 *   version         of the last configuration
 *   t               rounds decided so far; also the time of events, in milliseconds, since the engine asks for one
 *   is_by_decision  a reward then finds its decision pending, as over HTTP; otherwise it is an observation, half the
 * events
 *
 * What the server does and this does not: append and commit, locks, more than one event in a batch (so spectra are
 * settled after each reward here, which is the dearest way to run such a rule and the one that the papers describe).
 *
 * Cost: the engine's; CPU time is read four times a round (a system call, about 0.3 us). */
#include "paper/learner.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "base/alloc.h"
#include "model/commit.h"
#include "base/rng.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define FIRST_ACTION UINT64_MAX /* index of the draw of the uniform first action: no round has it */

struct pb_learner {
    const struct pb_algorithm *algorithm;
    const struct pb_env *env;
    struct kb_engine *engine;
    struct kb_scratch *scratch;
    struct kb_spec spec;
    struct kb_candidate *candidate; /* [cap_candidates] */
    size_t cap_candidates;
    struct kb_commit commit;
    uint64_t seed, version;
    size_t t, rounds;
    double mean, propensity; /* of the arm chosen last */
    uint32_t level;          /* that its reward teaches, under a rule with levels */
    struct pb_times times;
};

/* Of this process so far. */
static double cpu_seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* ---- events --------------------------------------------------------------------------------------------- */

static enum kb_err complain(const struct pb_learner *l, enum kb_err rc, const struct kb_errmsg *msg)
{
    fprintf(stderr, "paperbench: %s, round %zu: %s%s%s %s\n", l->algorithm->name, l->t, kb_strerror(rc),
            msg->pointer[0] != '\0' ? " at " : "", msg->pointer, msg->text);
    return rc;
}

/* What is due, one event and what follows from it; a round is a millisecond. */
static enum kb_err commit(struct pb_learner *l, const struct kb_event *ev)
{
    const int64_t at_ms = (int64_t)l->t;
    struct kb_errmsg msg = {0};
    enum kb_err rc;

    KB_TRY(kb_commit_due(&l->commit, at_ms, NULL, &msg));
    KB_TRY(kb_commit_finish_builds(&l->commit, at_ms, NULL, &msg));
    KB_TRY(kb_commit_one(&l->commit, ev, at_ms, NULL, &msg));
    KB_TRY(kb_commit_finish_builds(&l->commit, at_ms, NULL, &msg));
out:
    return rc == KB_OK ? rc : complain(l, rc, &msg);
}

static enum kb_err feed(struct pb_learner *l, const struct kb_event *ev)
{
    const double start = cpu_seconds();
    enum kb_err rc;

    KB_TRY(commit(l, ev));
    const double learned = cpu_seconds();
    KB_TRY(kb_commit_settle(l->engine, NULL));
    l->times.learn += learned - start;
    l->times.settle += cpu_seconds() - learned;
out:
    return rc;
}

/* The spec as it is now, in force from the next round on. An empty model costs nothing; a taught one is rebuilt. */
static enum kb_err configure(struct pb_learner *l)
{
    const struct kb_event ev = {.type = KB_EV_CONFIGURED, .as.configured = {.spec = &l->spec, .version = ++l->version}};
    return feed(l, &ev);
}

static enum kb_err tell_graph(struct pb_learner *l)
{
    const struct pb_env *env = l->env;
    const struct kb_event ev = {.type = KB_EV_GRAPH,
                                .as.graph = {.is_replace = true,
                                             .users = env->users,
                                             .n_users = env->n_users,
                                             .add = env->edges,
                                             .n_add = env->n_edges}};
    return env->n_users > 0 ? feed(l, &ev) : KB_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------ */

/* Preset, then the experiment's changes, then the checks that a PUT would make: no experiment runs what the service
 * would refuse. */
static enum kb_err fill_spec(struct pb_learner *l)
{
    const struct pb_algorithm *a = l->algorithm;
    struct kb_errmsg msg = {0};
    enum kb_err rc = kb_spec_preset(&l->spec, a->preset, l->env->context_dim, l->env->arm_dim);

    if (rc != KB_OK) {
        fprintf(stderr, "paperbench: no preset '%s'\n", a->preset);
        return rc;
    }
    l->spec.seed = l->seed & ((UINT64_C(1) << 53) - 1); /* the range that a spec allows */
    if (a->tune != NULL)
        a->tune(&l->spec, l->env, l->rounds, a->value);
    rc = kb_spec_check(&l->spec, &msg);
    return rc == KB_OK ? rc : complain(l, rc, &msg);
}

/* Configuration first, graph second, as a tenant comes to be; the time of both is in times.learn. */
enum kb_err pb_learner_new(struct pb_learner **out, const struct pb_algorithm *algorithm, const struct pb_env *env,
                           uint64_t seed, size_t rounds)
{
    struct pb_learner *l = kb_array(1, 1, sizeof *l);
    enum kb_err rc;

    if (l == NULL)
        return KB_ENOMEM;
    *l = (struct pb_learner){.algorithm = algorithm, .env = env, .seed = seed, .rounds = rounds};
    KB_TRY(kb_engine_new(&l->engine, (struct kb_hash_key){0}));
    kb_commit_begin(&l->commit, l->engine, 0);
    KB_TRY(kb_engine_scratch_new(&l->scratch));
    KB_TRY(fill_spec(l));
    KB_TRY(configure(l));
    KB_TRY(tell_graph(l));
    *out = l;
    return KB_OK;
out:
    pb_learner_free(l);
    return rc;
}

void pb_learner_free(struct pb_learner *l)
{
    if (l == NULL)
        return;
    kb_engine_scratch_free(l->scratch);
    kb_commit_free(&l->commit);
    kb_engine_free(l->engine);
    kb_free(l->candidate);
    kb_free(l);
}

/* ---- rounds ---------------------------------------------------------------------------------------------- */

static enum kb_err follow_schedule(struct pb_learner *l)
{
    const struct pb_algorithm *a = l->algorithm;
    const bool has_changed = a->schedule != NULL && a->schedule(&l->spec, l->env, l->t, l->rounds, a->value);

    return has_changed ? configure(l) : KB_OK;
}

/* Candidates and room for the decision: the part of deciding that may allocate. */
static enum kb_err fill_candidates(struct pb_learner *l, const struct pb_round *round)
{
    if (kb_grow((void **)&l->candidate, &l->cap_candidates, round->n_arms, 16, sizeof *l->candidate) != KB_OK)
        return KB_ENOMEM;
    for (size_t i = 0; i < round->n_arms; i++)
        l->candidate[i] = (struct kb_candidate){round->arm[i], round->features != NULL ? round->features[i] : NULL};
    return kb_engine_fit_scratch(l->engine, l->scratch, round->n_arms, 0);
}

/* Of the arms that tie the first, as the papers' programs take it (argmax of an array, to the last bit); the engine
 * draws one. Other rules draw by themselves. */
static size_t first_of_best(const struct kb_rule_spec *rule, const struct kb_decision *d)
{
    const bool is_elimination = kb_rule_reads_levels(rule->type);
    const double *value = is_elimination ? d->propensity : d->score;
    size_t best = 0;

    if ((rule->type != KB_RULE_UCB && !is_elimination) || rule->epsilon > 0)
        return d->chosen;
    for (size_t i = 1; i < d->n; i++)
        if (value[i] > value[best])
            best = i;
    return best;
}

/* The engine's choice; the draw is keyed by seed and round. Candidates come back in the order given. */
static enum kb_err choose(struct pb_learner *l, const struct pb_round *round, size_t *chosen)
{
    struct kb_decision d;
    struct kb_errmsg msg = {0};
    const struct kb_query q = {.user = round->user,
                               .context = round->context,
                               .candidates = l->candidate,
                               .n_candidates = round->n_arms,
                               .n_shown = 1,
                               .key = kb_rng_bits(l->seed, KB_STREAM_ARM, l->t)};
    const enum kb_err rc = kb_engine_decide(l->engine, &q, l->scratch, &d, &msg);

    if (rc != KB_OK)
        return complain(l, rc, &msg);
    *chosen = first_of_best(&l->spec.rule, &d);
    l->mean = d.mean[*chosen];
    l->level = d.level;
    l->propensity = d.propensity[*chosen];
    return KB_OK;
}

/* Outside of the engine, whose rules would all take the first arm or the one of largest prior. */
static size_t draw_first(struct pb_learner *l, size_t n)
{
    l->mean = 0;
    l->level = 0;
    l->propensity = 1 / (double)n;
    return (size_t)(kb_rng_uniform(l->seed, KB_STREAM_ARM, FIRST_ACTION) * (double)n);
}

/* Counts the round; a schedule's rebuild is learning, not deciding. */
enum kb_err pb_learner_decide(struct pb_learner *l, const struct pb_round *round, size_t *chosen)
{
    enum kb_err rc;

    KB_TRY(follow_schedule(l));
    const double start = cpu_seconds();
    KB_TRY(fill_candidates(l, round));
    KB_TRY(choose(l, round, chosen));
    if (l->t == 0 && l->algorithm->first_is_uniform)
        *chosen = draw_first(l, round->n_arms);
    l->times.decide += cpu_seconds() - start;
    l->t++;
out:
    return rc;
}

enum kb_err pb_learner_bounds(struct pb_learner *l, const struct pb_round *round, double *lower, double *upper)
{
    struct kb_decision d;
    struct kb_errmsg msg = {0};
    enum kb_err rc;

    KB_TRY(fill_candidates(l, round));
    const struct kb_query q = {
        .user = round->user, .context = round->context, .candidates = l->candidate, .n_candidates = round->n_arms};
    rc = kb_engine_decide(l->engine, &q, l->scratch, &d, &msg);
    if (rc != KB_OK)
        return complain(l, rc, &msg);
    for (size_t i = 0; i < round->n_arms; i++)
        lower[i] = d.lower[i], upper[i] = d.upper[i];
out:
    return rc;
}

/* Decided and rewarded: two events, for rules that keep something of a decision until its reward comes. */
static enum kb_err learn_by_decision(struct pb_learner *l, const struct pb_round *round, struct kb_ev_slot slot,
                                     double reward)
{
    char id[32];
    enum kb_err rc;

    snprintf(id, sizeof id, "d%zu", l->t);
    const struct kb_event decided = {.type = KB_EV_DECIDED,
                                     .as.decided = {.decision = id,
                                                    .user = round->user,
                                                    .context = round->context,
                                                    .slots = &slot,
                                                    .n_slots = 1,
                                                    .propensity = l->propensity,
                                                    .mean = l->mean,
                                                    .level = l->level,
                                                    .expires_at_ms = (int64_t)l->t + l->spec.reward_window_ms}};
    const struct kb_event rewarded = {.type = KB_EV_REWARDED, .as.rewarded = {.decision = id, .reward = reward}};
    KB_TRY(feed(l, &decided));
    KB_TRY(feed(l, &rewarded));
out:
    return rc;
}

/* The arrays of the round are the environment's and are copied by the engine. */
enum kb_err pb_learner_learn(struct pb_learner *l, const struct pb_round *round, size_t chosen, double reward)
{
    const struct kb_ev_slot slot = {round->arm[chosen], round->features != NULL ? round->features[chosen] : NULL};
    const struct kb_event observed = {
        .type = KB_EV_OBSERVED,
        .as.observed = {
            .user = round->user, .context = round->context, .arm = slot, .reward = reward, .propensity = (double)NAN}};

    return l->algorithm->is_by_decision ? learn_by_decision(l, round, slot, reward) : feed(l, &observed);
}

const struct kb_engine *pb_learner_engine(const struct pb_learner *l)
{
    return l->engine;
}

struct pb_times pb_learner_times(const struct pb_learner *l)
{
    return l->times;
}
