/* Dictionary events that let one point in.
 *
 * Chance enters here: follow-ups draw with numbers keyed by (seed, seq), and what came out is written into the event; a
 * fold takes it from there. Admission: KORS [EK, eq. 41] or threshold, see admission.h.
 *
 * The point's coordinate has to be found for every row of the history. Over a short history that is done at once, and
 * one event says that the point is in the dictionary. Over a long one it would keep the tenant's writer for seconds:
 * then the event says that the admission has `begun`, a worker sweeps the rows as they stood there, learning goes on
 * and keeps the point's sums itself (nystrom_admit.c), and a second event, `from` the first, puts the point in force.
 *
 * While one point is on its way in, others that are drawn wait, with the probability that they were drawn with. The
 * list is no part of the state: a restart loses it, which costs the dictionary at most a few points that later ones
 * make up for. While a new posterior is being built nobody draws: the dictionary is about to go. */
#include "model/engine_impl.h"

#include <assert.h>
#include <string.h>

#include "posterior/admission.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "posterior/learning.h"

/* ---- drawing ---------------------------------------------------------------------------------------- */

/* The log event that first taught the point, or will have. */
static uint64_t first_event(const struct kb_engine *e, const struct kb_staged_point *pt)
{
    const size_t row = kb_history_find_at(&e->history, pt->user, pt->arm, pt->level, pt->x);

    if (row != SIZE_MAX)
        return e->history.first_seq[row];
    for (size_t i = 0; i < e->staged->n_points; i++) {
        const struct kb_staged_point *other = &e->staged->point[i];

        if (other->user == pt->user && other->arm == pt->arm && other->level == pt->level &&
            memcmp(other->x, pt->x, e->history.dim * sizeof(double)) == 0)
            return other->seq;
    }
    return pt->seq;
}

/* An expiry may teach several points by one event; the log can only name the first of them. */
static bool is_nameable(const struct kb_engine *e, const struct kb_staged_point *pt, uint64_t first)
{
    const size_t row = kb_history_find_at(&e->history, pt->user, pt->arm, pt->level, pt->x);

    return row == SIZE_MAX || kb_history_by_seq(&e->history, first) == row;
}

static struct kb_point point_of(const struct kb_engine *e, uint32_t user, uint32_t arm, const double *x)
{
    return (struct kb_point){.user = kb_engine_user_at(e, user), .arm = arm, .x = x};
}

static struct kb_point point_of_row(const struct kb_engine *e, size_t row)
{
    return point_of(e, e->history.user[row], e->history.arm[row], e->history.x + row * e->history.dim);
}

/* A correction tells nothing new of where rewards are had, so it gives its point no further chance. */
static bool is_correction(const struct kb_engine *e, const struct kb_event *ev)
{
    if (ev->type != KB_EV_REWARDED)
        return false;
    struct kb_pending_entry *entry = kb_pending_find(&e->pending, ev->as.rewarded.decision);
    const struct kb_pending_slot *slot = entry != NULL ? kb_engine_find_slot(e, entry, ev->as.rewarded.arm) : NULL;
    return slot != NULL && slot->taught != KB_UNTAUGHT;
}

/* Describes the admission of one point in *next; begun only, where the sweep is long. */
static enum kb_err put_event(struct kb_engine *e, struct kb_ev_atom atom, struct kb_event *next)
{
    kb_free(e->staged->atoms);
    e->staged->atoms = kb_array(1, 1, sizeof *e->staged->atoms);
    if (e->staged->atoms == NULL)
        return KB_ENOMEM;
    e->staged->atoms[0] = atom;
    next->type = KB_EV_DICTIONARY;
    next->as.dictionary.is_begun = kb_posterior_sweep_work(e->posterior, e->history.n) > e->inline_work;
    next->as.dictionary.atoms = e->staged->atoms;
    next->as.dictionary.n_atoms = 1;
    return KB_OK;
}

/* A full list or a point that waits already: it has had its chance. */
static void let_wait(struct kb_engine *e, struct kb_ev_atom atom)
{
    for (size_t i = 0; i < e->n_waiting; i++)
        if (e->waiting[i].event == atom.event)
            return;
    if (e->n_waiting < KB_MAX_WAITING)
        e->waiting[e->n_waiting++] = atom;
}

enum kb_err kb_engine_follow_learning(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next)
{
    const struct kb_staged_point *pt = kb_engine_staged_point(e, ev->seq);
    double probability = 1;
    enum kb_err rc = KB_OK;

    if (pt == NULL || kb_engine_is_quiet(e, ev->seq) || is_correction(e, ev))
        return KB_OK;
    if (e->build != NULL && !e->build->is_point)
        return KB_OK;
    const struct kb_point point = point_of(e, pt->user, pt->arm, pt->x);
    const double uniform = kb_rng_uniform(e->spec.seed, KB_STREAM_DICTIONARY, ev->seq);
    const uint64_t first = first_event(e, pt);
    if (!is_nameable(e, pt, first))
        return KB_OK;
    KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
    if (!kb_posterior_admits(e->posterior, &point, uniform, &e->scratch, &probability))
        return KB_OK;
    const struct kb_ev_atom atom = {.event = first, .probability = probability};
    if (e->build == NULL)
        return put_event(e, atom, next);
    if (e->build->atom.event != first)
        let_wait(e, atom);
out:
    return rc;
}

/* Points that the dictionary has come to cover meanwhile are dropped. */
enum kb_err kb_engine_plan_waiting(struct kb_engine *e, struct kb_event *next)
{
    enum kb_err rc = KB_OK;

    while (next->type == KB_EV_NONE && e->n_waiting > 0) {
        const struct kb_ev_atom atom = e->waiting[0];
        const size_t row = kb_history_by_seq(&e->history, atom.event);
        double probability = 0;

        memmove(e->waiting, e->waiting + 1, --e->n_waiting * sizeof *e->waiting);
        if (row == SIZE_MAX)
            continue;
        const struct kb_point point = point_of_row(e, row);
        KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
        if (kb_posterior_admits(e->posterior, &point, 0.0, &e->scratch, &probability))
            KB_TRY(put_event(e, atom, next));
    }
out:
    return rc;
}

/* ---- admitted at once --------------------------------------------------------------------------------- */

/* The event's one point: in the history, or taught by an event of this batch. */
static enum kb_err find_point(struct kb_engine *e, const struct kb_event *ev, struct kb_point *point,
                              struct kb_errmsg *msg)
{
    const struct kb_ev_atom *atom = ev->as.dictionary.atoms;

    if (ev->as.dictionary.n_atoms != 1)
        return kb_fail(KB_EINVAL, msg, "/points", "expected one point");
    if (!kb_admission_is_chance(e->spec.repr.type, atom->probability))
        return kb_fail(KB_EINVAL, msg, "/points/0/probability", "expected a chance that can be drawn");
    const size_t row = kb_history_by_seq(&e->history, atom->event);
    const struct kb_staged_point *pt = row == SIZE_MAX ? kb_engine_staged_point(e, atom->event) : NULL;
    if (row == SIZE_MAX && pt == NULL)
        return kb_fail(KB_EINVAL, msg, "/points/0/event", "no event %llu has taught a point",
                       (unsigned long long)atom->event);
    *point = row != SIZE_MAX ? point_of_row(e, row) : point_of(e, pt->user, pt->arm, pt->x);
    return KB_OK;
}

static enum kb_err reserve_admission(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_point point;
    enum kb_err rc = find_point(e, ev, &point, msg);

    KB_TRY(rc);
    if (!kb_engine_is_quiet(e, ev->seq)) {
        if (!kb_posterior_is_sketch(e->posterior))
            return kb_fail(KB_EINVAL, msg, "/points", "the model holds all points and has no dictionary");
        if (e->build != NULL)
            return kb_fail(KB_EINVAL, msg, "/points", "another change of the dictionary is under way");
        KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
        KB_TRY(kb_posterior_stage_atom(e->posterior, &point, &e->scratch));
    }
    KB_TRY(kb_engine_reserve_open(e));
    e->staged->is_closed = true;
out:
    return rc;
}

/* By now the point's row is in the history. */
static void put_atom(struct kb_engine *e, const struct kb_event *ev)
{
    const struct kb_ev_atom *atom = ev->as.dictionary.atoms;
    const size_t row = kb_history_by_seq(&e->history, atom->event);

    assert(row != SIZE_MAX);
    const struct kb_point point = point_of_row(e, row);
    kb_posterior_put_atom(e->posterior, &point, atom->probability, &e->scratch);
}

/* Nothing is learned between here and apply, so the point need not be open for the sweep. */
static void prepare_admission(struct kb_engine *e, const struct kb_event *ev)
{
    if (kb_engine_is_quiet(e, ev->seq))
        return;
    put_atom(e, ev);
    kb_posterior_sweep(e->posterior, &e->history, e->node_of, &e->scratch);
    kb_posterior_close_atom(e->posterior);
    kb_engine_sweep_open(e);
}

static void apply_admission(struct kb_engine *e, const struct kb_event *ev)
{
    if (kb_engine_is_quiet(e, ev->seq))
        return;
    kb_posterior_open_atom(e->posterior);
    kb_posterior_commit_atom(e->posterior, &e->scratch);
}

/* ---- begun -------------------------------------------------------------------------------------------- */

/* The worker's scratch is made here, so that a sweep cannot fail. */
static enum kb_err reserve_begun(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_build *b = NULL;
    enum kb_err rc = reserve_admission(e, ev, msg);

    if (rc != KB_OK || kb_engine_is_quiet(e, ev->seq))
        return rc;
    b = kb_engine_new_build(e, ev->seq);
    if (b == NULL)
        return KB_ENOMEM;
    kb_build_free(e->staged->build);
    e->staged->build = b;
    b->is_point = true;
    b->target = e->posterior;
    b->atom = ev->as.dictionary.atoms[0];
    return kb_posterior_fit_staged(e->posterior, &b->scratch);
}

static void prepare_begun(struct kb_engine *e, const struct kb_event *ev)
{
    if (kb_engine_is_quiet(e, ev->seq))
        return;
    kb_build_take_view(e->staged->build, &e->history, e->node_of, e->users.n);
    put_atom(e, ev);
}

static void apply_begun(struct kb_engine *e, const struct kb_event *ev)
{
    if (kb_engine_is_quiet(e, ev->seq))
        return;
    kb_engine_open_build(e, e->staged->build);
    e->staged->build = NULL;
    kb_posterior_open_atom(e->posterior);
}

/* ---- entered ------------------------------------------------------------------------------------------ */

static enum kb_err reserve_entered(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const struct kb_build *b = e->build;

    e->staged->is_closed = true;
    if (kb_engine_is_quiet(e, ev->seq))
        return KB_OK;
    if (b == NULL || !b->is_point || b->from != ev->as.dictionary.from)
        return kb_fail(KB_EINVAL, msg, "/from", "no admission was begun by event %llu",
                       (unsigned long long)ev->as.dictionary.from);
    return kb_engine_reserve_open(e);
}

/* In a fold the sweep has not been made: it is made here, over the view of then. */
static void prepare_entered(struct kb_engine *e, const struct kb_event *ev)
{
    if (kb_engine_is_quiet(e, ev->seq))
        return;
    atomic_store_explicit(&e->build->watch.is_cancelled, false, memory_order_relaxed); /* it is with nobody else */
    kb_build_run(e->build);
    assert(e->build->is_swept);
    kb_posterior_close_atom(e->posterior);
    kb_engine_sweep_open(e);
}

static void apply_entered(struct kb_engine *e, const struct kb_event *ev)
{
    if (kb_engine_is_quiet(e, ev->seq))
        return;
    kb_posterior_commit_atom(e->posterior, &e->scratch);
    kb_engine_close_build(e);
}

const struct kb_event_ops kb_admission_ops = {
    .reserve = reserve_admission, .prepare = prepare_admission, .apply = apply_admission};
const struct kb_event_ops kb_begun_point_ops = {
    .reserve = reserve_begun, .prepare = prepare_begun, .apply = apply_begun};
const struct kb_event_ops kb_entered_point_ops = {
    .reserve = reserve_entered, .prepare = prepare_entered, .apply = apply_entered};
