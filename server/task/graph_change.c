/* A graph of a million users is made beside the writer, and put in force in a short turn.
 *
 *     writer   puts the op into a line; where nothing is being made, starts the job for the first
 *     job      numbers names and looks for them among the tenant's users, a few at a time under the readers' lock,
 *              then makes the arrays (core/model/graph_draft.h)
 *     writer   puts a piece of a long row into the file at the end of each turn (store.h: ld_store_put_piece)
 *     writer   when all is there: reserve, append the row, apply, answer; then the next
 *
 * A patch is made of the graph in force. Changes of a tenant's graph come one after the other, so that is still the one
 * in force when its turn comes; only an erasure may exchange the engine meanwhile, and then it is made again. Small
 * changes of small graphs are made in the turn that they come in, unless others wait.
 *
 * What the core refuses of a draft is answered as it would be in the turn. A server that stops answers 503; nothing of
 * it was recorded. Pieces that no row has come for, of a process that died or a change that ended so, are no part of
 * the log, and are trimmed like what a compaction has left (compact.c). */
#include <stdlib.h>

#include "base/failpoint.h"
#include "model/graph_draft.h"
#include "base/hash_key.h"
#include "base/ids.h"
#include "base/log.h"
#include "task/tasks.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"
#include "json/json_in.h"
#include "json/json_out.h"

#define SMALL_CHANGE 4096u /* items of the change, and of a graph that it rests on: a millisecond */
#define MEET_STEPS 2048u   /* under the readers' lock at a time: half a millisecond */
#define LONGEST_LINE 64u
#define PIECE_BYTES (1u << 20) /* of a row in one commit: some milliseconds of the disk */

/* Resting when nothing is in its line. */
struct ld_graph_changing {
    struct ld_task task;
    bool is_made;               /* the job has come back; a long row goes into the file, a piece in each turn */
    struct ld_op *first, *last; /* in order; the first is being made */
    atomic_size_t n;            /* in the line */
    _Atomic double progress;    /* of what is done for the first */
    atomic_bool is_writing;
    /* The job's results, and the draft in the op's event: */
    enum kb_err rc;
    struct kb_errmsg msg;
    uint32_t engine_epoch; /* of the engine that it was made for */
    char *text;            /* of the row, but for its head, where it is long; NULL: it is not, or is written */
    size_t n_text, n_written;
};

/* ---- the job ------------------------------------------------------------------------------------------ */

/* Who the names are: as long as the engine is the one that was there at the beginning. */
static void meet_users(struct ld_graph_changing *g, struct kb_graph_draft *d)
{
    struct ld_tenant *t = g->task.t;
    bool has_more = true;

    while (has_more) {
        const struct kb_engine *e = ld_tenant_read_lock(t, NULL);

        has_more = t->engine_epoch == g->engine_epoch && kb_graph_draft_meet(d, kb_engine_users(e), MEET_STEPS);
        ld_tenant_read_unlock(t);
        atomic_store(&g->progress, (double)d->n_met / (double)(d->names.n + 1));
    }
}

static enum kb_err make(struct ld_graph_changing *g, struct kb_event *ev, struct kb_errmsg *msg)
{
    static const struct kb_user_graph none;
    struct ld_tenant *t = g->task.t;
    struct kb_graph_ref *held = NULL;
    const struct kb_engine *e = ld_tenant_read_lock(t, NULL);
    enum kb_err rc;

    g->engine_epoch = t->engine_epoch;
    held = kb_engine_hold_graph(e); /* of a whole one, too, so that the old one is freed with the draft */
    ld_tenant_read_unlock(t);
    kb_graph_draft_free(ev->as.graph.draft);
    ev->as.graph.draft = NULL;
    rc = kb_graph_draft_new(&ev->as.graph.draft, ev,
                            ev->as.graph.is_replace ? NULL
                            : held != NULL          ? &held->graph
                                                    : &none,
                            held, ld_hash_key(), msg);
    KB_TRY(rc);
    meet_users(g, ev->as.graph.draft);
    KB_TRY(kb_graph_draft_make(ev->as.graph.draft, ev, msg));
out:
    return rc;
}

static void drop_text(struct ld_graph_changing *g)
{
    free(g->text);
    g->text = NULL;
    g->n_written = 0;
}

/* A row that is too long for one commit is kept, to be written before it. In a shared log it is a line like any other:
 * the copy's commits wait for no disk. */
static enum kb_err write_down(struct ld_graph_changing *g)
{
    drop_text(g);
    if (g->task.t->world->shared != NULL)
        return KB_OK;
    g->text = ld_encode_graph_tail(&g->first->event, &g->n_text);
    if (g->text == NULL)
        return KB_ENOMEM;
    if (g->n_text <= PIECE_BYTES)
        drop_text(g);
    return KB_OK;
}

static void run(void *task)
{
    struct ld_graph_changing *g = task;

    g->msg = (struct kb_errmsg){.text = ""};
    g->rc = make(g, &g->first->event, &g->msg);
    if (g->rc == KB_OK && g->first->line == 0) /* else it is made again, and its row is in the file or on its way */
        g->rc = write_down(g);
    ld_failpoint("mid_graph");
}

static void finish(void *task)
{
    struct ld_graph_changing *g = task;

    g->is_made = true;
}

/* ---- the line ----------------------------------------------------------------------------------------- */

/* Takes the first op out of it. */
static struct ld_op *take_first(struct ld_graph_changing *g)
{
    struct ld_op *op = g->first;

    drop_text(g);
    g->first = op->next;
    g->n--;
    g->is_made = false;
    op->next = NULL;
    return op;
}

/* What no row has come for is to be trimmed; where that is not known now, the next start looks. */
static void end_pieces(struct ld_tenant *t, uint64_t line)
{
    if (line == 0)
        return;
    ld_store_end_pieces(t->store);
    (void)ld_store_has_leftovers(t->store, &t->has_leftovers);
}

static void refuse_first(struct ld_graph_changing *g, const char *why)
{
    struct ld_op *op = take_first(g);

    ld_op_refuse_busy(op, why);
    end_pieces(g->task.t, op->line);
    op->done(op);
}

static void start_job(struct ld_graph_changing *g)
{
    g->is_made = false;
    atomic_store(&g->is_writing, false);
    atomic_store(&g->progress, 0);
    if (!ld_task_run(&g->task))
        refuse_first(g, "out of memory");
}

/* Whether it takes no longer in the turn than what the turn does anyway. */
static bool is_small(const struct ld_tenant *t, const struct kb_event *ev)
{
    const struct kb_graph *old = kb_engine_graph(t->engine);
    size_t n = ev->as.graph.n_users + ev->as.graph.n_add + ev->as.graph.n_remove;

    if (n > KB_SMALL_CHANGE)
        n += kb_engine_users(t->engine)->n; /* all their names are put into a new table */
    if (old != NULL && !ev->as.graph.is_replace)
        n += kb_graph_n_nodes(old) + kb_graph_n_edges(old);
    return n <= SMALL_CHANGE;
}

static bool keep(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_graph_changing *g = ld_task_find(t, &ld_graph_changing);

    if (op->event.type != KB_EV_GRAPH || op->is_drafted || ((g == NULL || g->first == NULL) && is_small(t, &op->event)))
        return false;
    if ((g = ld_task_of(t, &ld_graph_changing)) == NULL || g->n >= LONGEST_LINE) {
        ld_op_refuse_busy(op, g == NULL ? "out of memory" : "too many changes of the graph wait");
        return false;
    }
    op->next = NULL;
    *(g->first == NULL ? &g->first : &g->last->next) = op;
    g->last = op;
    g->n++;
    return true;
}

/* ---- the writer --------------------------------------------------------------------------------------- */

/* The next piece of the first op's row, cut between characters. False: the disk has refused it. */
static bool write_piece(struct ld_graph_changing *g)
{
    const struct ld_tenant *t = g->task.t;
    const char *text = g->text + g->n_written;
    size_t n = g->n_text - g->n_written;
    struct ld_message why;

    if (n > PIECE_BYTES)
        for (n = PIECE_BYTES; ((unsigned char)text[n] & 0xc0u) == 0x80u;)
            n--;
    if (ld_store_put_piece(t->store, text, n, &g->first->line, &why) != LD_STORE_OK) {
        ld_log(LD_LOG_ERROR, "tenant %s: the row of a graph: %s", t->name, why.text);
        return false;
    }
    ld_failpoint("mid_pieces");
    g->n_written += n;
    atomic_store(&g->is_writing, true);
    atomic_store(&g->progress, (double)g->n_written / (double)g->n_text);
    if (g->n_written == g->n_text)
        drop_text(g);
    return true;
}

/* What is left of a change: hundreds of megabytes, which take the kernel a tenth of a second. */
struct remains {
    struct ld_doc *doc;
    struct kb_graph_draft *draft;
};

static void bury(void *arg)
{
    struct remains *r = arg;

    kb_graph_draft_free(r->draft);
    ld_doc_free(r->doc);
    free(r);
}

static void take_remains(struct ld_tenant *t, struct ld_op *op)
{
    struct remains *r = calloc(1, sizeof *r);

    if (r == NULL)
        return; /* they go with the op */
    *r = (struct remains){op->doc, op->event.as.graph.draft};
    op->doc = NULL;
    op->event.as.graph.draft = NULL;
    if (ld_sched_give(t->world->sched, LD_POOL, bury, r, SIZE_MAX) != 0)
        bury(r);
}

static void wait_for_remains(struct ld_op *op)
{
    (void)op;
}

/* The op that was made is put in force, or told why not. */
static void conclude(struct ld_graph_changing *g)
{
    struct ld_tenant *t = g->task.t;
    struct ld_op *op = take_first(g);
    void (*done)(struct ld_op * op) = op->done;
    const uint64_t line = op->line;

    op->done = wait_for_remains;
    op->is_drafted = true;
    if (g->rc != KB_OK)
        ld_problem_from_core(ld_op_problem(op), g->rc, g->msg.text[0] != '\0' ? &g->msg : NULL);
    ld_tenant_run_op(t, op);
    take_remains(t, op);
    done(op);
    end_pieces(t, line);
}

/* One step of the first op: it is given to the job, or has been made. */
static void go_on(struct ld_graph_changing *g)
{
    if (!g->is_made || (g->rc == KB_OK && g->engine_epoch != g->task.t->engine_epoch))
        start_job(g);
    else if (g->rc != KB_OK || g->text == NULL)
        conclude(g);
    else if (!write_piece(g))
        refuse_first(g, "the commit failed; nothing was recorded");
}

static enum ld_chore look(struct ld_tenant *t)
{
    struct ld_graph_changing *g = ld_task_find(t, &ld_graph_changing);

    if (g == NULL || g->first == NULL || ld_task_is_under_way(t, &ld_graph_changing))
        return LD_CHORE_NONE;
    if (!atomic_load(&t->is_halting))
        go_on(g);
    while (g->first != NULL && atomic_load(&t->is_halting))
        refuse_first(g, "the tenant is being closed");
    return g->first != NULL && !ld_task_is_under_way(t, &ld_graph_changing) ? LD_CHORE_NOW : LD_CHORE_NONE;
}

/* ---- from outside -------------------------------------------------------------------------------------- */

void ld_tenant_read_graph(struct ld_tenant *t, bool is_over)
{
    if (is_over)
        atomic_fetch_sub(&t->n_graphs_read, 1);
    else
        atomic_fetch_add(&t->n_graphs_read, 1);
}

/* Each number is of its own moment, which is near enough for people. */
void ld_tenant_graph(const struct ld_tenant *t, struct ld_graph_view *out)
{
    const struct ld_graph_changing *g = ld_task_find(t, &ld_graph_changing);
    const size_t n = g != NULL ? atomic_load(&g->n) : 0;

    *out = (struct ld_graph_view){.n_changes = n + atomic_load(&t->n_graphs_read),
                                  .stage = n == 0                        ? "reading"
                                           : atomic_load(&g->is_writing) ? "writing"
                                                                         : "making",
                                  .progress = n == 0 ? 0 : atomic_load(&g->progress)};
}

static void drop(void *task)
{
    struct ld_graph_changing *g = task;

    while (g->first != NULL)
        refuse_first(g, "the tenant was closed");
}

const struct ld_task_kind ld_graph_changing = {.size = sizeof(struct ld_graph_changing),
                                               .threads = LD_POOL_SERVES,
                                               .keep = keep,
                                               .at = {[LD_AT_TURN_END] = look},
                                               .run = run,
                                               .finish = finish,
                                               .drop = drop};
