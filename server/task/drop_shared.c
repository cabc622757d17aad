/* A line of a shared log that no fold takes gives way to one that says what stood there: see drop_shared.h.
 *
 *   look     the log is read for its last reset, and for whether the line was dropped already
 *   fold     quietly up to that reset, as a start does, to the first line that is refused; neither needs a turn
 *   rewrite  in the turn; whoever has rewritten lines since has the caller ask again
 *
 * Where nobody knows what became of the rewriting, the next turn tells: the log has another generation, and our line.
 * If nobody can tell in time the caller asks again, and finds the line dropped or as it was. */
#include "task/drop_shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/hash_key.h"
#include "json/json_in.h"
#include "model/commit.h"
#include "model/engine_write.h"
#include "task/repair.h"
#include "tenant/fold.h"
#include "tenant/recover.h"
#include "tenant/shared_send.h"

#define PAGE_BYTES ((size_t)4 << 20)

struct dropping {
    struct ld_shared_log *log;
    const struct ld_repair *wanted;
    struct ld_progress *progress;
    struct ld_shared_tenant found;
    struct ld_shared_place at; /* behind the last batch that was read whole */
    struct ld_fold fold;
    uint64_t last_reset;
    uint32_t context_dim, arm_dim; /* of lines that are looked at, and not folded */
    bool is_dropped;               /* the line says so already */
    struct ld_row row;             /* of the line that is folded, as far as it could be read */
    struct kb_engine *engine;
    struct ld_refused refused;
    struct ld_message *why;
    struct ld_problem *p;
};

static bool fail(struct dropping *d, enum ld_shared_rc rc, const struct ld_message *said)
{
    if (d->p->status != 0)
        return false;
    if (rc == LD_SHARED_NONE)
        ld_problem_set_as(d->p, LD_NO_TENANT, "the tenant has been deleted");
    else if (rc == LD_SHARED_UNKNOWN)
        ld_problem_set(d->p, 503, "it is not known whether the line was dropped: ask again");
    else
        ld_problem_set(d->p, 503, "the shared log cannot be repaired now; nothing was changed: %.300s",
                       said->text[0] != '\0' ? said->text : ld_shared_say(rc));
    if (d->p->status == 503)
        d->p->retry_after_s = 1;
    return false;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

static enum kb_err look_at(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct dropping *d = arg;
    const struct ld_settings *settings = ld_line_settings(&line->ev);
    struct ld_row row;

    (void)msg;
    if (settings != NULL) {
        d->context_dim = settings->spec.context_dim;
        d->arm_dim = settings->spec.arm_dim;
    }
    ld_row_index(&row, &line->ev);
    if (row.is_reset)
        d->last_reset = row.seq;
    if (row.type == KB_EV_REDACTED && row.seq == d->wanted->seq && line->ev.as.redacted.dropped != NULL) {
        d->is_dropped = true;
        ld_fail(d->why, "%s", line->ev.as.redacted.dropped);
    }
    return KB_OK;
}

static enum kb_err fold_line(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct dropping *d = arg;

    d->row.type = (int)line->ev.type;
    d->row.at_ms = line->ev.at_ms;
    return kb_engine_fold(d->engine, &line->ev, msg);
}

/* The line that ended the fold; a line that is only looked at, and cannot be read, is passed over. */
static enum ld_shared_rc end_fold(struct dropping *d, uint64_t seq)
{
    const struct ld_sink sink = d->fold.sink;

    if (d->fold.rc != LD_STORE_CORRUPT)
        return d->fold.rc == LD_STORE_NOMEM ? LD_SHARED_NOMEM : LD_SHARED_DOWN;
    d->fold.at.seq = d->row.seq = seq;
    if (d->engine == NULL) {
        ld_fold_init(&d->fold, sink);
        return LD_SHARED_OK;
    }
    d->refused.row = d->row;
    ld_fold_say(&d->fold, &d->refused.why);
    return LD_SHARED_BEHIND; /* there is no need to read on */
}

static enum ld_shared_rc read_batch(void *arg, const struct ld_shared_batch *b)
{
    struct dropping *d = arg;
    const char *at = b->body, *end = b->body + b->n_body;
    enum ld_shared_rc rc = LD_SHARED_OK;

    for (uint32_t i = 0; i < b->n && rc == LD_SHARED_OK; i++) {
        const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

        if (ld_progress_is_over(d->progress))
            return LD_SHARED_DOWN;
        if (stop == NULL)
            return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, d->why, "a batch of the shared log lacks lines");
        d->row.type = 0;
        if (ld_fold_text(&d->fold, i + 1, at, (size_t)(stop - at)) != 0)
            rc = end_fold(d, b->at.seq - b->n + 1 + i);
        at = stop + 1;
    }
    if (rc == LD_SHARED_OK)
        d->at = b->at;
    return rc;
}

/* All of the log, as of one generation. False with the problem. */
static bool read_log(struct dropping *d)
{
    struct ld_message said = {""};
    enum ld_shared_rc rc = LD_SHARED_OK;
    uint64_t n;

    d->at = (struct ld_shared_place){.generation = d->found.tip.generation};
    do {
        const struct ld_shared_place place = d->at;

        n = place.seq;
        rc = d->log->ops->read(d->log, d->found.id, &place, PAGE_BYTES, read_batch, d, &said);
    } while (rc == LD_SHARED_OK && d->at.seq != n);
    return rc == LD_SHARED_OK || rc == LD_SHARED_BEHIND || fail(d, rc, &said);
}

static bool look(struct dropping *d)
{
    ld_fold_init(&d->fold,
                 (struct ld_sink){.take = look_at, .to = d, .context_dim = &d->context_dim, .arm_dim = &d->arm_dim});
    return read_log(d);
}

static bool search(struct dropping *d)
{
    if (kb_engine_new(&d->engine, ld_hash_key()) != KB_OK)
        return fail(d, LD_SHARED_NOMEM, &(struct ld_message){""});
    kb_engine_fold_quietly_until(d->engine, d->last_reset);
    ld_fold_init(&d->fold, ld_engine_sink(d->engine));
    d->fold.sink.take = fold_line;
    d->fold.sink.to = d;
    if (!read_log(d))
        return false;
    *d->why = d->refused.why;
    ld_repair_check(&d->refused, d->wanted, d->found.first, d->p);
    return d->p->status == 0;
}

/* ---- rewriting ---------------------------------------------------------------------------------------------- */

static enum ld_shared_rc ignore(void *arg, const struct ld_shared_batch *batch)
{
    (void)arg;
    (void)batch;
    return LD_SHARED_OK;
}

/* The line as it reads now, beside ours. */
struct comparing {
    const struct ld_shared_line *line;
    bool is_ours;
};

static enum ld_shared_rc compare(void *arg, const struct ld_shared_batch *b)
{
    struct comparing *c = arg;
    const uint64_t first = b->at.seq - b->n + 1;

    if (c->line->seq > b->at.seq)
        return LD_SHARED_OK;
    const char *at = c->line->seq > first ? ld_shared_behind(b->body, b->n_body, c->line->seq - first) : b->body;
    c->is_ours = at != NULL && (size_t)(b->body + b->n_body - at) > c->line->n_text &&
                 memcmp(at, c->line->text, c->line->n_text) == 0 && at[c->line->n_text] == '\n';
    return LD_SHARED_BEHIND;
}

/* OK: it was dropped; BEHIND: it was not, and never will be. Whoever takes the turn waits for what was under way. */
static enum ld_shared_rc settle(const struct dropping *d, const struct ld_shared_line *line)
{
    const struct ld_shared_ops *ops = d->log->ops;
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_place place = d->at;
    struct ld_message said;
    struct comparing c = {.line = line};
    enum ld_shared_rc rc = ops->take(d->log, d->found.id, &place, ignore, NULL, &turn, &said);

    if (turn != NULL)
        ops->release(turn);
    if (rc == LD_SHARED_OK)
        return LD_SHARED_BEHIND;
    if (rc != LD_SHARED_REWRITTEN)
        return LD_SHARED_UNKNOWN;
    place.generation = LD_ANY_GENERATION;
    rc = ops->read(d->log, d->found.id, &place, PAGE_BYTES, compare, &c, &said);
    return rc == LD_SHARED_BEHIND && c.is_ours ? LD_SHARED_OK : LD_SHARED_UNKNOWN;
}

static bool rewrite(struct dropping *d)
{
    struct ld_message said = {""};
    struct ld_shared_turn *turn = NULL;
    struct ld_shared_line line = {.seq = d->refused.row.seq};
    char *text = ld_repair_note(&d->refused, d->wanted->by, &line.n_text);
    enum ld_shared_rc rc = LD_SHARED_NOMEM;

    line.text = text;
    if (text != NULL)
        rc = d->log->ops->take(d->log, d->found.id, &d->at, ignore, NULL, &turn, &said);
    if (rc == LD_SHARED_OK)
        rc = d->log->ops->rewrite(turn, &line, 1, NULL, 0, &said);
    if (rc == LD_SHARED_UNKNOWN)
        rc = settle(d, &line);
    free(text);
    if (rc != LD_SHARED_OK)
        return fail(d, rc, &said);
    ld_failpoint("after_shared_drop");
    return true;
}

int ld_drop_shared(struct ld_shared_log *log, const char *name, const struct ld_repair *wanted,
                   struct ld_progress *progress, struct ld_message *why, struct ld_problem *p)
{
    struct dropping d = {.log = log, .wanted = wanted, .progress = progress, .why = why, .p = p};
    struct ld_message said = {""};
    bool is_new = false;

    why->text[0] = '\0';
    const enum ld_shared_rc rc = log->ops->find(log, name, false, &d.found, &is_new, &said);
    bool is_done = rc == LD_SHARED_OK || fail(&d, rc, &said);
    is_done = is_done && look(&d) && (d.is_dropped || (search(&d) && rewrite(&d)));
    kb_engine_free(d.engine);
    return is_done ? 0 : -1;
}
