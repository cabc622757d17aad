/* Erasing a user from a log that several servers write (erase.c has the rest):
 *
 *     job      folds the log into a new engine, each line as it will read without the user
 *     writer   has the turn, and folds the rest; begins the reset in the new engine alone, and builds the model there;
 *              then one transaction in the shared log rewrites the lines, with the chain behind them, and adds both
 *              lines of the reset. The copy and the engine follow, as elsewhere
 *     job      waits until the other servers that live have read it
 *
 * At one server the reset is begun first and its line stays open meanwhile. Here it would be finished by whoever has
 * the next turn, with the user in it; so it is begun when nothing can come in between, and its build keeps the tenant's
 * turn, as all builds do where a log is shared. Before that transaction nothing is changed anywhere. Where nobody knows
 * what became of it, or the copy refuses it, this server reads it like any other one: shared_renew.c.
 *
 * Two erasures at two servers: the second finds lines rewritten, and folds again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "json/json_out.h"
#include "model/engine_write.h"
#include "task/erase_impl.h"
#include "tenant/batch.h"

#define MOST_FOLDS 8u

#define NOT_NOW "the user could not be erased now; nothing was changed"
#define NOT_KNOWN "it is not known whether the user was erased: ask again"

/* ---- the reset that puts the new model in force ------------------------------------------------------------ */

/* Lengthscales and scales in force were found with the user's rewards among others: this one finds them anew. The
 * engine is given the line as the log will have it. */
static bool begin(struct ld_erasure *x)
{
    struct ld_tenant *t = x->task.t;
    struct kb_event begun;

    kb_engine_build_afresh_from(x->fold.engine, t->seq + 1);
    if (kb_engine_begin_erasure(t->engine, &begun) != KB_OK)
        return ld_fail(&x->fold.why, "out of memory") == 0;
    begun.seq = t->seq + 1;
    begun.at_ms = t->now_ms;
    if (ld_erase_add_row(x, &begun) != KB_OK)
        return ld_fail(&x->fold.why, "out of memory") == 0;
    if (ld_fold_text(&x->fold.fold, 1, x->row[0].text, x->row[0].n_text) == 0)
        return true;
    ld_fold_say(&x->fold.fold, &x->fold.why);
    return false;
}

/* The new engine at the log's end, with its model built. The turn is had, so nothing comes in between. */
static bool prepare(struct ld_erasure *x)
{
    if (!ld_refold_tail(&x->fold) || !begin(x))
        return false;
    x->phase = LD_ERASE_BUILDS;
    return ld_task_run_here(&x->task) && x->is_ok && !ld_erase_needs_round(x);
}

/* ---- the shared log ----------------------------------------------------------------------------------------- */

static struct ld_shared_batch batch_of(const struct ld_tenant *t, const struct ld_row *row, struct ld_text *body)
{
    (void)ld_text_export(body, row->text, row->n_text, NULL);
    return (struct ld_shared_batch){
        .at.seq = row->seq, .n = 1, .at_ms = row->at_ms, .node = t->world->node, .nonce = ld_shared_draw_nonce()};
}

static enum ld_shared_rc put(struct ld_tenant *t, const struct ld_shared_line *line, size_t n,
                             struct ld_shared_batch batch[LD_ERASE_ROWS], struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    struct ld_shared_log *log = t->world->shared;

    ld_failpoint("before_shared_erasure");
    enum ld_shared_rc rc = log->ops->rewrite(s->turn, line, n, batch, LD_ERASE_ROWS, why);
    s->turn = NULL;
    if (rc == LD_SHARED_UNKNOWN)
        rc = ld_shared_settle(t, &batch[LD_ERASE_ROWS - 1], why);
    if (rc == LD_SHARED_OK)
        ld_failpoint("after_shared_erasure");
    return rc;
}

/* Into the copy, with its place. Where the disk refuses, the log has it all the same. */
static bool copy(struct ld_erasure *x, const struct ld_shared_place *to)
{
    struct ld_tenant *t = x->task.t;
    struct ld_copy_mark mark = {.tenant = t->shared.id, .seq = to->seq, .generation = to->generation};

    memcpy(mark.hash, to->hash, sizeof mark.hash);
    if (ld_store_rewrite_copy(t->store, x->redactor.item, x->redactor.n, x->row, x->n_rows, &mark, &x->fold.why) !=
        LD_STORE_OK)
        return false;
    t->shared.place = *to;
    t->shared.at_ms = x->row[x->n_rows - 1].at_ms;
    return true;
}

struct rewriting {
    struct ld_erasure *x;
    enum ld_shared_rc rc;
};

static enum kb_err append(void *arg, const struct kb_event *reset, size_t n_events)
{
    struct rewriting *r = arg;
    struct ld_erasure *x = r->x;
    const size_t n = x->redactor.n;
    struct ld_shared_line *line = calloc(n + 1, sizeof *line);
    struct ld_shared_batch batch[LD_ERASE_ROWS];
    struct ld_text body[LD_ERASE_ROWS];
    bool is_copied = false;

    (void)n_events;
    for (size_t i = 0; i < n && line != NULL; i++)
        line[i] = (struct ld_shared_line){
            .seq = x->redactor.item[i].seq, .text = x->redactor.item[i].text, .n_text = x->redactor.item[i].n_text};
    if (line != NULL && ld_erase_add_row(x, reset) == KB_OK && ld_erase_leftovers(x) == 0) {
        for (size_t i = 0; i < LD_ERASE_ROWS; i++) {
            ld_text_init(&body[i]);
            batch[i] = batch_of(x->task.t, &x->row[i], &body[i]);
            batch[i].body = body[i].data;
            batch[i].n_body = body[i].n;
        }
        r->rc = body[0].is_failed || body[1].is_failed ? LD_SHARED_NOMEM : put(x->task.t, line, n, batch, &x->fold.why);
        is_copied = r->rc == LD_SHARED_OK && copy(x, &batch[LD_ERASE_ROWS - 1].at);
        x->seq = reset->seq;
        x->generation = batch[LD_ERASE_ROWS - 1].at.generation;
        for (size_t i = 0; i < LD_ERASE_ROWS; i++)
            ld_text_close(&body[i]);
    }
    free(line);
    return is_copied ? KB_OK : KB_ECANCELLED;
}

/* The engines are exchanged where the copy has it as well; else the next turn finds the log rewritten. */
static enum ld_shared_rc commit(struct ld_erasure *x)
{
    struct ld_tenant *t = x->task.t;
    struct rewriting r = {.x = x, .rc = LD_SHARED_NOMEM};
    const struct kb_commit_hooks hooks = {.append = append, .arg = &r};
    struct kb_commit c = {.n = 0};
    struct kb_event reset;
    enum kb_err rc = kb_engine_finish_erasure(x->fold.engine, t->engine, &reset);

    kb_commit_begin(&c, x->fold.engine, t->seq + 1);
    if (rc == KB_OK)
        rc = kb_commit_one(&c, &reset, t->now_ms, &hooks, NULL);
    if (rc == KB_OK) {
        ld_tenant_exchange(t, &x->fold.engine, NULL, c.seq);
        atomic_store(&t->must_scrub, !ld_store_scrub(t->store));
        atomic_store(&t->shared.generation, x->generation);
        if (!ld_books_skip(&t->books, t->seq))
            atomic_store(&t->has_chores, true);
        t->shared.n_followed++; /* whatever was looked up is looked up again */
    }
    kb_commit_free(&c);
    return r.rc;
}

/* ---- who has read it ---------------------------------------------------------------------------------------- */

void ld_erase_wait(struct ld_erasure *x)
{
    ld_laggards_wait(&x->laggards, x->task.t, x->generation);
}

static void answer(struct ld_erasure *x)
{
    struct ld_op *op = x->task.op;
    struct ld_text text;
    size_t n = 0;

    ld_text_init(&text);
    ld_text_lit(&text, "{");
    ld_text_put_bool(&text, "erased", true);
    ld_text_put_count(&text, "events", x->redactor.n_events);
    ld_text_put_count(&text, "seq", x->seq);
    ld_laggards_tell(&x->laggards, &text);
    ld_text_lit(&text, "}");
    char *json = ld_text_take(&text, &n);
    ld_op_reply_text(op, json, n);
    if (x->laggards.is_any)
        op->reply_status = 202;
}

/* ---- the writer --------------------------------------------------------------------------------------------- */

/* False: there is an answer. Lines that somebody else has rewritten meanwhile are read once more. */
static bool erase(struct ld_erasure *x)
{
    struct ld_tenant *t = x->task.t;
    enum ld_shared_rc rc = LD_SHARED_DOWN;

    if (!x->is_ok) {
        ld_erase_fail(x, NOT_NOW);
    } else if (!ld_shared_begin(t)) {
        ld_fail(&x->fold.why, "no turn in the shared log");
        ld_erase_fail(x, NOT_NOW);
    } else if (x->n_rewrites != t->n_rewrites) {
        if (x->n_folds < MOST_FOLDS && ld_erase_open(x) && ld_task_run(&x->task))
            return true;
        ld_erase_fail(x, NOT_NOW);
    } else if (!prepare(x) || ((rc = commit(x)) != LD_SHARED_OK && rc != LD_SHARED_UNKNOWN)) {
        ld_erase_fail(x, NOT_NOW);
    } else if (rc == LD_SHARED_UNKNOWN) {
        ld_erase_fail(x, NOT_KNOWN);
    } else {
        x->phase = LD_ERASE_WAITS;
        if (ld_task_run(&x->task))
            return true;
        ld_laggards_look(&x->laggards, t, x->generation);
        answer(x);
    }
    return false;
}

void ld_erase_finish_shared(struct ld_erasure *x)
{
    if (x->phase == LD_ERASE_WAITS)
        answer(x);
    else if (erase(x))
        return;
    ld_task_end(&x->task);
}
