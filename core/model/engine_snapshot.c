/* A snapshot body in two steps: the writer takes it between two events, any thread turns it into bytes.
 *
 *   copied    counts and sums of the rows and their halvings, which learning changes; the users' assignments
 *   encoded   spec, catalogue, open decisions, counters and posterior
 *   shared    the rows' other columns and the ids, which are only added to: arrays that have grown are held back
 *             (retired.h); the graph, which is immutable and counted
 *
 * So the writer's share is O(rows) words of copying and O(m^2) of encoding, and a million rows cost it some
 * milliseconds; checksum, file and disk are somebody else's time. The bytes are those of kb_engine_save at that moment
 * (test: a_snapshot_is_of_its_moment). */
#include "model/engine_codec.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "model/engine_background.h"
#include "model/engine_steps.h"

struct kb_snapshot {
    struct kb_writer head, arms, tail; /* encoded */
    struct kb_ids users, arm_ids;      /* borrowed arrays */
    struct kb_graph_ref *graph;        /* held; NULL: none */
    struct kb_history rows;            /* a view */
    struct kb_assignments assignments; /* a copy */
};

static void snapshot_free(struct kb_snapshot *d)
{
    kb_writer_close(&d->head);
    kb_writer_close(&d->arms);
    kb_writer_close(&d->tail);
    kb_graph_ref_release(d->graph);
    kb_history_view_close(&d->rows);
    kb_assignments_close(&d->assignments);
    kb_free(d);
}

enum kb_err kb_engine_take_snapshot(struct kb_engine *e, struct kb_snapshot **out)
{
    struct kb_snapshot *d = NULL;
    enum kb_err rc = KB_OK;

    if (e->build != NULL || e->draft != NULL || e->posterior == NULL)
        return KB_EBUSY;
    d = kb_array(1, 1, sizeof *d);
    if (d == NULL)
        return KB_ENOMEM;
    kb_writer_init(&d->head);
    kb_writer_init(&d->arms);
    kb_writer_init(&d->tail);
    KB_TRY(kb_history_view_reserve(&d->rows, e->history.n));
    kb_history_view_take(&d->rows, &e->history);
    KB_TRY(kb_assignments_copy(&e->assignments, &d->assignments));
    kb_engine_put_head(e, &d->head);
    kb_arms_save(&e->arms, e->spec.arm_dim, &d->arms);
    kb_engine_put_tail(e, &d->tail);
    KB_TRY(d->head.rc);
    KB_TRY(d->arms.rc);
    KB_TRY(d->tail.rc);
    d->users = e->users;
    d->arm_ids = e->arm_ids;
    d->graph = kb_graph_ref_hold(e->graph_ref);
    kb_engine_hold_retired(e);
    *out = d;
    d = NULL;
out:
    if (d != NULL)
        snapshot_free(d);
    return rc;
}

enum kb_err kb_snapshot_save(const struct kb_snapshot *d, struct kb_writer *w)
{
    const struct kb_user_graph none = {0};

    kb_put_bytes(w, d->head.data, d->head.n);
    kb_engine_put_ids(&d->users, w);
    kb_engine_put_ids(&d->arm_ids, w);
    kb_put_bytes(w, d->arms.data, d->arms.n);
    kb_user_graph_save(d->graph != NULL ? &d->graph->graph : &none, w);
    kb_history_save(&d->rows, w);
    kb_assignments_save(&d->assignments, w);
    kb_put_bytes(w, d->tail.data, d->tail.n);
    return w->rc;
}

void kb_engine_drop_snapshot(struct kb_engine *e, struct kb_snapshot *d)
{
    if (d == NULL)
        return;
    snapshot_free(d);
    kb_engine_release_retired(e);
    kb_engine_collect(e);
}
