/* A tenant whose log several servers write, by turns (shared_log.h): its writer's side.
 *
 *     take      before the first op or closed window of a writer's turn; what others have written comes with it
 *     follow    their batches go into this server's copy and into the model, as they stand there (shared_follow.c)
 *     expand    ops become events, as everywhere: the state is the log's tip, and nobody else can write
 *     append    the batch goes into the shared log; where that took it, into the copy
 *     apply     and answer
 *
 * So one rule holds: while the writer expands ops it has the turn, and its state is the tip of the log. An append ends
 * the turn; where the writer goes on it takes it again at once, with an empty batch (ld_batch_flush), and whatever was
 * looked up before is looked up again when others have written in between (KB_EBUSY of ld_batch_stage).
 *
 * An append whose outcome is unknown is asked for until it is known, as long as a call may take. Where it is in the log
 * it was committed; where it is not and never will be it has failed; and else the model forgets it and its ops are told
 * that nobody knows. If it is there after all, the next turn brings it like anybody's lines, and who asks again with
 * the same id gets the first answer. The same where the copy refuses what the log has taken. No event is made twice of
 * one op, and nothing is guessed.
 *
 * Reading goes on whatever becomes of the shared log. */
#include "shared/shared_log.h"

#include <assert.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "json/json_out.h"
#include "tenant/recover.h"
#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/tenant_state.h"

#define READ_BYTES ((size_t)1 << 20)
#define WAL_BYTES ((int64_t)8 << 20)
#define MOST_RENEWALS 4 /* in one go: each time lines were rewritten in between */

/* Lines that are folded while others wait for the row, some 20 ms of work; and how often one that is further behind
 * steps back to read on without it. Then it takes what there is: who writes without a pause must not keep it out. */
#define HELD_LINES (2 * LD_BATCH_EVENTS)
#define MOST_STEPS_BACK 4

/* ---- the turn ------------------------------------------------------------------------------------------ */

/* The command that ends it. */
static struct ld_message mending(const struct ld_tenant *t)
{
    struct ld_message out;

    if (t->shared.refused > 0)
        ld_fail(&out, "laplacectl repair %s --drop %llu", t->name, (unsigned long long)t->shared.refused);
    else
        ld_fail(&out, "laplacectl cluster repair %s", t->name);
    return out;
}

/* Logs edges only, as a commit that fails does (commit.c). */
static void fail(struct ld_tenant *t, enum ld_shared_rc rc, const struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    const char *text = s->why.text;

    t->has_failed = true;
    s->rc = rc;
    if (s->why.text[0] == '\0')
        s->why = *why;
    atomic_store(&s->is_followed, false);
    if (rc == LD_SHARED_FORKED) {
        ld_count(&t->world->metrics->shared.chain_breaks, 1);
        if (!atomic_exchange(&s->is_forked, true))
            ld_log(LD_LOG_ERROR, "tenant %s takes no changes: %s: %s: `%s` mends it", t->name, ld_shared_say(rc), text,
                   mending(t).text);
        return;
    }
    if (rc == LD_SHARED_DOWN)
        ld_count(&t->world->metrics->shared.outcomes[LD_LOG_DOWN], 1);
    if (rc == LD_SHARED_REWRITTEN)
        return; /* it is asked again soon */
    if (rc == LD_SHARED_NONE || rc == LD_SHARED_NOMEM)
        ld_log(LD_LOG_WARN, "tenant %s: no turn in the shared log: %s: %s", t->name, ld_shared_say(rc), text);
    else if (!atomic_exchange(&t->is_failing, true))
        ld_log(LD_LOG_ERROR, "tenant %s: no turn in the shared log: %s", t->name, text);
}

/* What was followed is shown, whatever ended it. */
static void show(struct ld_tenant *t, uint64_t n_before)
{
    struct ld_flush f = {.t = t};

    if (t->shared.n_followed != n_before)
        ld_batch_show(&f, true);
}

static void agree(struct ld_tenant *t)
{
    struct ld_shared *s = &t->shared;

    atomic_store(&s->is_followed, true);
    if (atomic_exchange(&s->is_forked, false))
        ld_log(LD_LOG_INFO, "tenant %s: the shared log and this server's copy are one again", t->name);
    if (t->now_ms < s->at_ms)
        t->now_ms = s->at_ms; /* times of the log never go back, whoever's clock is behind */
}

/* A turn that is being taken. */
struct taking {
    struct ld_tenant *t;
    uint64_t n_most; /* lines followed by then: no more while the row is locked */
};

static enum ld_shared_rc follow_some(void *arg, const struct ld_shared_batch *batch)
{
    const struct taking *taking = arg;

    return taking->t->shared.n_followed + batch->n > taking->n_most ? LD_SHARED_BEHIND
                                                                    : ld_shared_follow(taking->t, batch);
}

/* Where lines of the log were rewritten. OK: it may be read on from where the copy stands now. */
static enum ld_shared_rc renew(struct ld_tenant *t, struct ld_message *why)
{
    enum ld_shared_rc rc = LD_SHARED_REWRITTEN;

    for (int n = 0; rc == LD_SHARED_REWRITTEN && n < MOST_RENEWALS; n++)
        rc = ld_shared_renew(t, why);
    return rc;
}

/* A piece at a time, until there is no more: the last answer may be old, so the next one says what there is. */
static enum ld_shared_rc read_on(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    struct ld_shared_log *log = t->world->shared;
    enum ld_shared_rc rc;
    uint64_t n;

    do {
        const struct ld_shared_place place = s->place;

        n = s->n_followed;
        rc = s->is_stale ? LD_SHARED_REWRITTEN
                         : log->ops->read(log, s->id, &place, READ_BYTES, ld_shared_follow, t, why);
        if (rc == LD_SHARED_REWRITTEN)
            rc = renew(t, why); /* a change of n_followed has it go on */
        if (ld_store_wal_bytes(t->store) > WAL_BYTES)
            (void)ld_store_checkpoint(t->store); /* upkeep comes at the end of a turn, and this may be a long log */
    } while (rc == LD_SHARED_OK && s->n_followed != n && !ld_progress_is_over(t->world->progress) &&
             !atomic_load(&t->is_doomed));
    return rc;
}

/* Who is far behind reads on without the turn first, or all others would wait for its fold; who has lines that were
 * rewritten since gets the new ones first. */
static enum ld_shared_rc take(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    struct ld_shared_log *log = t->world->shared;
    enum ld_shared_rc rc = LD_SHARED_OK;
    int n_back = 0, n_renewed = 0;

    while (rc == LD_SHARED_OK) {
        const struct ld_shared_place place = s->place;
        struct taking taking = {t, n_back < MOST_STEPS_BACK ? s->n_followed + HELD_LINES : UINT64_MAX};

        rc =
            s->is_stale ? LD_SHARED_REWRITTEN : log->ops->take(log, s->id, &place, follow_some, &taking, &s->turn, why);
        if (rc == LD_SHARED_BEHIND && n_back++ < MOST_STEPS_BACK)
            rc = read_on(t, why);
        else if (rc == LD_SHARED_REWRITTEN && n_renewed++ < MOST_RENEWALS)
            rc = renew(t, why);
        else
            return rc;
    }
    return rc;
}

bool ld_shared_begin(struct ld_tenant *t)
{
    struct ld_shared *s = &t->shared;
    const uint64_t n_before = s->n_followed;
    const int64_t start_us = ld_monotonic_us();
    struct ld_message why = {""};

    if (s->turn != NULL || t->has_failed)
        return !t->has_failed;
    assert(t->batch->commit.n == 0);
    ld_failpoint("before_take");
    s->why.text[0] = '\0';
    s->refused = 0;
    const enum ld_shared_rc rc = take(t, &why);
    show(t, n_before);
    if (rc != LD_SHARED_OK) {
        fail(t, rc, &why);
        return false;
    }
    agree(t);
    ld_histogram_add(&t->world->metrics->shared.take_time, ld_monotonic_us() - start_us);
    ld_failpoint("after_take");
    return true;
}

void ld_shared_go_on(struct ld_tenant *t)
{
    if (!t->shared.is_used)
        return;
    t->shared.is_used = false;
    ld_shared_begin(t);
}

void ld_shared_end(struct ld_tenant *t)
{
    struct ld_shared *s = &t->shared;

    s->is_used = false;
    if (s->turn != NULL)
        t->world->shared->ops->release(s->turn);
    s->turn = NULL;
}

unsigned ld_shared_version(const struct ld_tenant *t)
{
    return t->shared.turn != NULL ? t->world->shared->ops->version(t->shared.turn) : LD_LOG_VERSION;
}

/* ---- ops ------------------------------------------------------------------------------------------------- */

static const char *refusal(enum ld_shared_rc rc)
{
    static const char *const said[] = {
        [LD_SHARED_OK] = "this server's copy of the log cannot be written; nothing was recorded",
        [LD_SHARED_BEHIND] = "the turn in the shared log was lost; nothing was recorded",
        [LD_SHARED_NOMEM] = "out of memory; nothing was recorded",
        [LD_SHARED_REWRITTEN] = "lines of the shared log were rewritten, and this server's copy is being renewed; "
                                "nothing was recorded",
        [LD_SHARED_NEWER] = "this server does not know all lines that may be in the shared log, and is to be upgraded; "
                            "nothing was recorded",
    };

    return said[rc] != NULL ? said[rc] : "the shared log cannot be reached; nothing was recorded";
}

/* What may be answered without the log does not wait for one that is known to be away. One that is newer is there, and
 * others learn from it what is not followed here: that is refused, as in a turn. */
static bool is_away(struct ld_tenant *t, const struct ld_op *op)
{
    struct ld_shared_health health;

    if (!op->is_plain || !t->settings.decides_alone || t->shared.turn != NULL)
        return false;
    t->world->shared->ops->health(t->world->shared, &health);
    return !health.is_up && !health.is_newer;
}

bool ld_shared_is_exchanged(const struct ld_tenant *t)
{
    struct ld_shared_log *log = t->world->shared;
    struct ld_shared_tenant found;
    struct ld_message why;
    bool is_new = false;

    return log->ops->find(log, t->name, false, &found, &is_new, &why) == LD_SHARED_OK && found.tip.seq > 0;
}

/* Of an op that has no turn. */
static void refuse(struct ld_tenant *t, struct ld_op *op)
{
    const enum ld_shared_rc rc = t->shared.rc;

    if ((rc == LD_SHARED_DOWN || rc == LD_SHARED_UNKNOWN) && ld_op_stand_alone(t, op))
        return;
    if (rc == LD_SHARED_FORKED) {
        struct ld_message text;

        ld_fail(&text,
                "tenant '%s' takes no changes here until an operator has repaired it (%s): %s: %.300s; "
                "nothing was recorded",
                t->name, mending(t).text, ld_shared_say(rc), t->shared.why.text);
        ld_op_refuse_busy(op, text.text);
        return;
    }
    if (rc != LD_SHARED_NONE || ld_shared_is_exchanged(t)) {
        ld_op_refuse_busy(op, rc != LD_SHARED_NONE ? refusal(rc) : LD_EXCHANGED);
        return;
    }
    ld_op_forgive(op);
    ld_problem_set_as(ld_op_problem(op), LD_NO_TENANT, "the tenant has been deleted");
}

/* Tasks of this server's own take no turn: what they read is its copy. */
bool ld_shared_takes(struct ld_tenant *t, struct ld_op *op)
{
    if ((op->type == LD_OP_TASK && !op->task->takes_turn) || atomic_load(&t->is_doomed))
        return true;
    if (!is_away(t, op) || !ld_op_stand_alone(t, op)) {
        if (ld_shared_begin(t))
            return true;
        refuse(t, op);
    }
    ld_op_answer(t, op);
    return false;
}

/* ---- reading on ------------------------------------------------------------------------------------------ */

void ld_shared_read(struct ld_tenant *t)
{
    struct ld_shared *s = &t->shared;
    const uint64_t n_before = s->n_followed;
    struct ld_message why = {""};

    if (!atomic_exchange(&s->is_asked, false) || t->read_only_from > 0 || atomic_load(&t->is_doomed))
        return;
    s->why.text[0] = '\0';
    s->refused = 0;
    const enum ld_shared_rc rc = read_on(t, &why);
    show(t, n_before);
    if (rc == LD_SHARED_OK)
        agree(t);
    else
        fail(t, rc, &why);
}

void ld_tenant_follow(struct ld_tenant *t)
{
    if (t->world->shared == NULL)
        return;
    atomic_store(&t->shared.is_asked, true);
    ld_sched_wake(t->world->sched, &t->queue->turn);
}

bool ld_tenant_see_head(struct ld_tenant *t, uint64_t head)
{
    struct ld_shared *s = &t->shared;
    const uint64_t tip = atomic_load(&t->tip);

    atomic_store(&s->head, head);
    if (tip >= atomic_load(&s->behind_seq))
        atomic_store(&s->behind_seq, 0);
    if (atomic_load(&s->behind_seq) == 0 && tip < head) {
        atomic_store(&s->behind_us, ld_monotonic_us());
        atomic_store(&s->behind_seq, head);
    }
    return tip >= head;
}

void ld_tenant_lag(const struct ld_tenant *t, struct ld_lag *out)
{
    const uint64_t tip = atomic_load(&t->tip), head = atomic_load(&t->shared.head);

    *out = (struct ld_lag){.events = head > tip ? head - tip : 0};
    if (tip < atomic_load(&t->shared.behind_seq)) {
        const int64_t since = atomic_load(&t->shared.behind_us), now = ld_monotonic_us();
        out->us = now > since ? now - since : 0; /* another thread may have begun it anew meanwhile */
    }
}

void ld_tenant_shared(const struct ld_tenant *t, struct ld_tenant_shared *out)
{
    *out =
        (struct ld_tenant_shared){.id = t->shared.id,
                                  .seq = atomic_load(&t->tip),
                                  .is_forked = atomic_load(&t->shared.is_forked),
                                  .is_followed = atomic_load(&t->shared.is_followed),
                                  .generation = atomic_load(&t->must_scrub) ? 0 : atomic_load(&t->shared.generation)};
}

/* ---- append ---------------------------------------------------------------------------------------------- */

int ld_shared_copy(struct ld_tenant *t, const struct ld_shared_place *to, size_t n, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    struct ld_copy_mark mark = {.tenant = s->id, .seq = to->seq, .generation = to->generation};

    _Static_assert(sizeof mark.hash == sizeof to->hash, "a copy keeps the whole hash");
    memcpy(mark.hash, to->hash, sizeof mark.hash);
    const int rc = ld_store_append_copy(t->store, t->batch->row, n, &mark, why);
    if (rc != LD_STORE_OK)
        return rc;
    s->place = *to;
    atomic_store(&s->generation, to->generation);
    s->at_ms = t->batch->row[n - 1].at_ms;
    return LD_STORE_OK;
}

enum ld_shared_rc ld_shared_settle(struct ld_tenant *t, const struct ld_shared_batch *batch, struct ld_message *why)
{
    struct ld_shared_log *log = t->world->shared;
    const enum ld_shared_rc rc = log->ops->settle(log, t->shared.id, batch, why);

    if (rc != LD_SHARED_OK && rc != LD_SHARED_BEHIND)
        return LD_SHARED_UNKNOWN;
    ld_count(&t->world->metrics->shared.resolved[rc == LD_SHARED_OK], 1);
    return rc;
}

/* The turn is over with it. UNKNOWN where nobody can tell in time. */
static enum ld_shared_rc put(struct ld_tenant *t, const struct ld_shared_batch *batch, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    struct ld_shared_log *log = t->world->shared;
    struct ld_shared_metrics *m = &t->world->metrics->shared;
    const int64_t start_us = ld_monotonic_us();
    enum ld_shared_rc rc;

    ld_failpoint("before_shared_append");
    rc = log->ops->append(s->turn, batch, why);
    s->turn = NULL;
    s->is_used = true;
    ld_count(&m->outcomes[rc == LD_SHARED_OK        ? LD_LOG_OK
                          : rc == LD_SHARED_BEHIND  ? LD_LOG_BEHIND
                          : rc == LD_SHARED_UNKNOWN ? LD_LOG_UNKNOWN
                                                    : LD_LOG_DOWN],
             1);
    if (rc == LD_SHARED_OK)
        ld_histogram_add(&m->append_time, ld_monotonic_us() - start_us);
    return rc == LD_SHARED_UNKNOWN ? ld_shared_settle(t, batch, why) : rc;
}

/* The batch's lines as an export has them. -1: no memory. */
static int write_body(const struct ld_batch *b, size_t n, struct ld_text *body)
{
    for (size_t i = 0; i < n; i++)
        (void)ld_text_export(body, b->row[i].text, b->row[i].n_text, b->row[i].answer);
    return body->is_failed ? -1 : 0;
}

/* What became of it, for commit.c. */
static void conclude(struct ld_flush *f, enum ld_shared_rc rc, const struct ld_shared_batch *batch)
{
    struct ld_shared *s = &f->t->shared;

    f->is_passing = rc == LD_SHARED_BEHIND;
    s->is_unsure = rc == LD_SHARED_UNKNOWN;
    s->rc = rc;
    f->rc = rc == LD_SHARED_NOMEM ? LD_STORE_NOMEM : LD_STORE_IO;
    if (rc != LD_SHARED_OK)
        return;
    ld_failpoint("after_shared_commit");
    f->rc = ld_shared_copy(f->t, &batch->at, batch->n, &f->why);
    f->appended_us = ld_monotonic_us();
    s->is_unsure = f->rc != LD_STORE_OK;
}

enum kb_err ld_shared_append(void *flush, const struct kb_event *event, size_t n)
{
    struct ld_flush *f = flush;
    struct ld_tenant *t = f->t;
    const int64_t start_us = ld_monotonic_us();
    struct ld_text body;
    struct ld_shared_batch batch = {.at = {.seq = event[n - 1].seq, .generation = t->shared.place.generation},
                                    .n = (uint32_t)n,
                                    .at_ms = event[n - 1].at_ms,
                                    .node = t->world->node,
                                    .nonce = ld_shared_draw_nonce()};

    assert(t->shared.turn != NULL);
    if (ld_batch_build_rows(t) != KB_OK)
        return KB_ENOMEM;
    ld_text_init(&body);
    if (write_body(t->batch, n, &body) == 0) {
        batch.body = body.data;
        batch.n_body = body.n;
        ld_chain(batch.at.hash, t->shared.place.hash, body.data, body.n);
        conclude(f, put(t, &batch, &f->why), &batch);
    }
    ld_text_close(&body);
    ld_histogram_add(&t->world->metrics->commit_time, ld_monotonic_us() - start_us);
    ld_batch_free_rows(t);
    return ld_flush_result(f);
}
