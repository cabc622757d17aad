/* A model fed with another's log: see shadow.h. Events go the way of a tenant's writer (kb_commit_one), one a batch,
 * and what readers see is settled when it is asked for. Builds that an event begins are run at once, in this thread,
 * and finished by an event of their own.
 *
 * Cost: the engine's. */
#include "evaluate/shadow_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_key.h"
#include "model/summary.h"
#include "model/engine_background.h"
#include "model/engine_write.h"

/* ---- life ------------------------------------------------------------------------------------------------ */

enum kb_err ld_shadow_check(const struct kb_spec *spec, struct kb_errmsg *msg)
{
    if (kb_rule_reads_levels(spec->rule.type))
        return kb_fail(KB_EUNSUPPORTED, msg, "/rule/type",
                       "%s learns from its own decisions alone, so no other's log can teach it",
                       kb_word(&kb_rule_words, (int)spec->rule.type));
    return kb_spec_check(spec, msg);
}

enum kb_err ld_shadow_new(struct ld_shadow **out, const struct kb_spec *spec, struct kb_errmsg *msg)
{
    enum kb_err rc = ld_shadow_check(spec, msg);

    if (rc != KB_OK)
        return rc;
    struct ld_shadow *s = calloc(1, sizeof *s);
    if (s == NULL || kb_engine_new(&s->engine, ld_hash_key()) != KB_OK) {
        free(s);
        return kb_fail(KB_ENOMEM, msg, "", "%s", kb_strerror(KB_ENOMEM));
    }
    kb_commit_begin(&s->commit, s->engine, 0);
    s->asked = s->spec = *spec;
    s->context_dim = spec->context_dim;
    s->arm_dim = spec->arm_dim;
    pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return KB_OK;
}

void ld_shadow_free(struct ld_shadow *s)
{
    if (s == NULL)
        return;
    kb_commit_free(&s->commit);
    kb_engine_free(s->engine);
    kb_engine_scratch_free(s->scratch);
    kb_free(s->candidate);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void ld_shadow_keep_log(struct ld_shadow *s, ld_shadow_keep *keep, void *arg)
{
    s->keep = keep;
    s->keep_arg = arg;
}

/* ---- one event of its own ---------------------------------------------------------------------------------- */

/* Hook of a commit: the owner's copy of the log. */
static enum kb_err keep(void *arg, const struct kb_event *batch, size_t n)
{
    struct ld_shadow *s = arg;
    enum kb_err rc = KB_OK;

    for (size_t i = 0; i < n && rc == KB_OK && s->keep != NULL; i++)
        rc = s->keep(s->keep_arg, &batch[i]);
    return rc;
}

/* Where ld_shadow_cancel finds it. */
static void show_build(struct ld_shadow *s, struct kb_build *b)
{
    pthread_mutex_lock(&s->lock);
    s->build = b;
    if (b != NULL && atomic_load(&s->is_cancelled))
        kb_build_cancel(b);
    pthread_mutex_unlock(&s->lock);
}

void ld_shadow_cancel(struct ld_shadow *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->is_cancelled, true);
    if (s->build != NULL)
        kb_build_cancel(s->build);
    pthread_mutex_unlock(&s->lock);
}

/* Hook of a commit. */
static enum kb_err run_build(void *arg, struct kb_build *b)
{
    struct ld_shadow *s = arg;

    show_build(s, b);
    const enum kb_err rc = kb_build_run(b);
    show_build(s, NULL);
    return rc;
}

/* Hook of a commit. */
static void applied(void *arg, size_t i, const struct kb_event *ev)
{
    struct ld_shadow *s = arg;

    (void)i, (void)ev;
    s->is_settled = false;
}

static struct kb_commit_hooks hooks_of(struct ld_shadow *s)
{
    return (struct kb_commit_hooks){.append = keep, .applied = applied, .build = run_build, .arg = s};
}

enum kb_err ld_shadow_commit(struct ld_shadow *s, struct kb_event ev, struct kb_errmsg *msg)
{
    const struct kb_commit_hooks hooks = hooks_of(s);

    return kb_commit_one(&s->commit, &ev, ev.at_ms, &hooks, msg);
}

enum kb_err ld_shadow_finish(struct ld_shadow *s, int64_t at_ms, struct kb_errmsg *msg)
{
    const struct kb_commit_hooks hooks = hooks_of(s);

    return kb_commit_finish_builds(&s->commit, at_ms, &hooks, msg);
}

enum kb_err ld_shadow_begin(struct ld_shadow *s, int64_t at_ms, struct kb_errmsg *msg)
{
    const struct kb_event configured = {
        .type = KB_EV_CONFIGURED, .at_ms = at_ms, .as.configured = {.spec = &s->spec, .version = 1}};
    const enum kb_err rc = s->has_begun ? KB_OK : ld_shadow_commit(s, configured, msg);

    s->has_begun |= rc == KB_OK;
    return rc;
}

enum kb_err ld_shadow_learn(struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const struct kb_commit_hooks hooks = hooks_of(s);
    enum kb_err rc;

    KB_TRY(ld_shadow_begin(s, ev->at_ms, msg));
    KB_TRY(kb_commit_due(&s->commit, ev->at_ms, &hooks, msg));
    KB_TRY(ld_shadow_finish(s, ev->at_ms, msg));
    KB_TRY(ld_shadow_commit(s, *ev, msg));
    KB_TRY(ld_shadow_finish(s, ev->at_ms, msg));
out:
    return rc;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

enum kb_err ld_shadow_decide(struct ld_shadow *s, const struct kb_query *q, struct kb_scratch *scratch,
                             struct kb_decision *out, struct kb_errmsg *msg)
{
    struct kb_query plain = *q; /* as drawn by another policy: whatever routed its decisions did it there */
    enum kb_err rc = ld_shadow_begin(s, 0, msg);

    plain.is_unrouted = true;
    KB_TRY(rc);
    if (!kb_engine_is_whole(s->engine))
        return kb_fail(KB_EBUSY, msg, "", "the log's summary has not come to its end");
    if (!s->is_settled) {
        KB_TRY(kb_commit_settle(s->engine, NULL));
        s->is_settled = true;
    }
    KB_TRY(kb_engine_fit_scratch(s->engine, scratch, q->n_candidates, q->n_exclude));
    KB_TRY(kb_engine_decide(s->engine, &plain, scratch, out, msg));
out:
    return rc;
}

/* The candidates as told, or the active catalogue. False: not known, or no memory. */
static bool copy_candidates(struct ld_shadow *s, const struct kb_event *ev, struct kb_query *q)
{
    const struct kb_ev_slot *among = ev->as.decided.among;
    const size_t n = ev->as.decided.n_among;

    if (among == NULL)
        return true;
    if (n == 0 || kb_grow((void **)&s->candidate, &s->cap_candidates, n, 16, sizeof *s->candidate) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        s->candidate[i] = (struct kb_candidate){among[i].arm, among[i].features};
    q->candidates = s->candidate;
    q->n_candidates = n;
    return true;
}

/* Of an arm in the log; both lists are in the order of the candidates, but for arms that cannot be drawn. */
static double odds_of(const struct kb_event *decided, const char *arm, size_t *from)
{
    const struct kb_ev_odds *odds = decided->as.decided.odds;

    for (size_t i = 0; i < decided->as.decided.n_odds; i++) {
        const size_t at = (*from + i) % decided->as.decided.n_odds;
        if (strcmp(odds[at].arm, arm) != 0)
            continue;
        *from = at + 1;
        return odds[at].propensity;
    }
    return 0;
}

static double share_of(const struct kb_event *decided, const struct kb_decision *d)
{
    double share = decided->as.decided.n_odds > 0 ? 1 : 0;
    size_t from = 0;

    for (size_t i = 0; i < d->n && share > 0; i++)
        if (d->propensity[i] > 0)
            share = fmin(share, odds_of(decided, d->arm[i], &from) / d->propensity[i]);
    return share;
}

double ld_shadow_probability(struct ld_shadow *s, const struct kb_event *decided, double *share)
{
    struct kb_query q = {.user = decided->as.decided.user, .context = decided->as.decided.context, .n_shown = 1};
    struct kb_decision d;

    if (s->scratch == NULL && kb_engine_scratch_new(&s->scratch) != KB_OK)
        return (double)NAN;
    if (!copy_candidates(s, decided, &q) || ld_shadow_decide(s, &q, s->scratch, &d, NULL) != KB_OK)
        return (double)NAN;
    if (share != NULL)
        *share = share_of(decided, &d);
    for (size_t i = 0; i < d.n; i++)
        if (strcmp(d.arm[i], decided->as.decided.slots[0].arm) == 0)
            return d.propensity[i];
    return (double)NAN;
}

const struct kb_engine *ld_shadow_engine(const struct ld_shadow *s)
{
    return s->engine;
}

struct ld_shadow_counts ld_shadow_counts(const struct ld_shadow *s)
{
    return (struct ld_shadow_counts){.cursor = s->cursor,
                                     .n_read = s->n_read,
                                     .n_passed = s->n_passed,
                                     .context_dim = s->context_dim,
                                     .arm_dim = s->arm_dim};
}
