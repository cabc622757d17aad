/* Dictionary events that build the posterior anew from the history: resets.
 *
 * A reset chooses the dictionary over the whole history in order, then teaches it all; what chance had to say in that
 * is written into the event. A learned user kernel (mmd) learns from the history at every reset and at no other time,
 * so that the log says when: a fold stops at the same event and finds the same history. Its own resets fall due every
 * `refresh` learned rewards.
 *
 * Little work is done at once, in the writer's turn, and is one event. Much of it is two: `begun` fixes the history
 * that is built from and opens a build (build.h), the model in force goes on serving and learning, and the second
 * event, which names the first in `from`, puts the new one in force, with all that was learned in between. Whatever
 * changes the model once more in between begins anew and takes over what was to come.
 *
 * Resampled representations [BKB, Alg. 1] are never admitted to; they come with a reset whenever the posterior says
 * that its dictionary is outdated (kb_engine_due), so at most once a batch, and a fold of such a log only teaches. They
 * draw from the variances in force, which must stand still for that: such a reset is done at once, however long. */
#include "model/engine_impl.h"

#include <assert.h>
#include <string.h>

#include "posterior/admission.h"
#include "base/alloc.h"
#include "base/magnitude.h"
#include "model/engine_steps.h"
#include "model/engine_write.h"
#include "posterior/learning.h"
#include "spec/fields.h"

/* Resets by the history's own size: median lengthscales are looked at when the distinct points have grown this much. */
#define MEDIAN_FIRST_ROWS 32u
#define MEDIAN_GROWTH 4u
#define MEDIAN_LAST_ROWS 8192u

/* ---- planning --------------------------------------------------------------------------------------- */

/* What the model in force has proved goes on under the next one, component by component. Where there is none, behind a
 * summary, each reward counts as foretold to be 0 with certainty, which is a prediction like any other. KB_ENOMEM. */
static enum kb_err put_evidence(const struct kb_engine *e, struct kb_scratch *s, struct kb_event *next)
{
    struct kb_evidence evidence = {.square = e->square_sum};
    enum kb_err rc = KB_OK;

    kb_evidence_share(&evidence, e->square_sum, 0);
    if (e->posterior != NULL)
        KB_TRY(kb_posterior_evidence(e->posterior, s, &evidence));
    next->as.dictionary.has_evidence = !evidence.is_void;
    next->as.dictionary.square = evidence.square;
    memcpy(next->as.dictionary.energy, evidence.energy, sizeof evidence.energy);
    memcpy(next->as.dictionary.log_det, evidence.log_det, sizeof evidence.log_det);
out:
    return rc;
}

static enum kb_err evidence_of(const struct kb_event *ev, struct kb_evidence *out, struct kb_errmsg *msg)
{
    *out = (struct kb_evidence){.is_void = !ev->as.dictionary.has_evidence};
    if (ev->as.dictionary.has_evidence) {
        out->square = ev->as.dictionary.square;
        memcpy(out->energy, ev->as.dictionary.energy, sizeof out->energy);
        memcpy(out->log_det, ev->as.dictionary.log_det, sizeof out->log_det);
    }
    return kb_evidence_is_measurable(out)
               ? KB_OK
               : kb_fail(KB_ERANGE, msg, "/evidence", "expected sums of at most %g in size", KB_MOST_SQUARES);
}

static void put_values(const struct kb_spec *spec, struct kb_event *next)
{
    next->type = KB_EV_DICTIONARY;
    next->as.dictionary.is_reset = true;
    next->as.dictionary.repr = spec->repr.type;
    next->as.dictionary.context_lengthscale = spec->context_kernel.lengthscale;
    next->as.dictionary.arm_lengthscale = spec->arm_kernel.lengthscale;
}

/* Borrowed. */
static void put_found(const struct kb_spec *found, const struct kb_tuning *tuning, struct kb_event *next)
{
    next->type = KB_EV_TUNED;
    next->as.dictionary.tuning = tuning;
    next->as.dictionary.scale = found->n_scaled > 0 ? found->scale : NULL;
    next->as.dictionary.n_scale = found->n_scaled;
}

/* Rows of h as the log names them. */
static enum kb_err put_points(struct kb_engine *e, const struct kb_history *h, const struct kb_atom *rows, size_t n,
                              struct kb_event *next)
{
    struct kb_staged *s = e->staged;

    kb_free(s->atoms);
    s->atoms = kb_array(n + 1, 1, sizeof *s->atoms);
    if (s->atoms == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < n; i++)
        s->atoms[i] = (struct kb_ev_atom){h->first_seq[rows[i].row], rows[i].probability};
    next->as.dictionary.atoms = s->atoms;
    next->as.dictionary.n_atoms = n;
    return KB_OK;
}

/* Chooses the dictionary for `spec` over the history and describes the reset in *next; keeps the posterior. */
static enum kb_err plan_now(struct kb_engine *e, struct kb_spec spec, const struct kb_site *site, struct kb_event *next)
{
    struct kb_staged *s = e->staged;
    struct kb_atom *rows = NULL;
    size_t n = 0;
    enum kb_err rc = KB_OK;

    kb_posterior_free(s->posterior);
    s->posterior = NULL;
    KB_TRY(kb_site_open(site, &spec, &s->posterior));
    KB_TRY(kb_site_choose(site, &spec, s->posterior, &rows, &n));
    KB_TRY(put_points(e, &e->history, rows, n, next));
    s->is_planned = true;
    put_values(&spec, next);
    KB_TRY(put_evidence(e, site->scratch, next));
out:
    if (rc != KB_OK) { /* a half-built one must not be taken for what some other event has staged */
        kb_posterior_free(s->posterior);
        s->posterior = NULL;
    }
    kb_free(rows);
    return rc;
}

/* At once or begun. While a reset is on its way the next one begins anew, since it takes over what was to come. */
static enum kb_err plan(struct kb_engine *e, struct kb_spec spec, const struct kb_site *site, struct kb_event *next)
{
    const size_t n_support = e->posterior != NULL ? kb_posterior_n_support(e->posterior) : e->history.n;
    const double work = kb_site_work(site, &spec, n_support);

    if (!kb_engine_is_rebuilding(e) && (site->like != NULL || work <= e->inline_work))
        return plan_now(e, spec, site, next);
    put_values(&spec, next);
    next->as.dictionary.is_begun = true;
    return KB_OK;
}

/* A reset that the present values call for, into *next: planned in full, or only begun when it is long work. */
static enum kb_err plan_reset(struct kb_engine *e, struct kb_spec spec, uint64_t seq, struct kb_event *next)
{
    const struct kb_site site = kb_engine_site(e, &spec, seq);

    return plan(e, spec, &site, next);
}

/* At once from the posterior in force, which is that of the history and the values in force, or where it holds a
 * dictionary from one with a point of each row for every component; or begun. */
static enum kb_err plan_refit(struct kb_engine *e, struct kb_spec spec, uint64_t seq, struct kb_event *next)
{
    const struct kb_site site = kb_engine_site(e, &spec, seq);
    const struct kb_refit refit = kb_engine_refit(e, seq);
    const size_t n_support = kb_posterior_n_support(e->posterior);
    struct kb_posterior *whole = NULL;
    enum kb_err rc = KB_OK;

    if (kb_site_work(&site, &spec, e->history.n) + kb_site_refit_work(&site, &spec, n_support) > e->inline_work) {
        put_values(&spec, next);
        next->as.dictionary.is_begun = next->as.dictionary.is_refit = true;
        return KB_OK;
    }
    KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
    if (kb_posterior_is_sketch(e->posterior))
        KB_TRY(kb_site_open_filled(&site, &spec, &whole));
    KB_TRY(kb_site_find_scales(&site, &refit, whole != NULL ? whole : e->posterior, &spec, &e->staged->tuning));
    KB_TRY(plan_now(e, spec, &site, next));
    e->staged->found = spec;
    put_found(&e->staged->found, &e->staged->tuning, next);
out:
    kb_posterior_free(whole);
    return rc;
}

/* The event that puts a finished build in force. */
static enum kb_err plan_finish(struct kb_engine *e, struct kb_event *next)
{
    const struct kb_build *b = e->build;
    enum kb_err rc = KB_OK;

    if (b->is_point) {
        kb_free(e->staged->atoms);
        e->staged->atoms = NULL;
        next->type = KB_EV_DICTIONARY;
        next->as.dictionary.atoms = &b->atom;
        next->as.dictionary.n_atoms = 1;
    } else {
        KB_TRY(put_points(e, &b->rows, b->atoms, b->n_atoms, next));
        put_values(b->is_refit ? &b->found : &b->spec, next);
        KB_TRY(put_evidence(e, &e->scratch, next));
        if (b->is_refit) {
            put_found(&b->found, &b->tuning, next);
        }
    }
    next->as.dictionary.from = b->from;
out:
    return rc;
}

enum kb_err kb_engine_begin_erasure(struct kb_engine *served, struct kb_event *next)
{
    struct kb_spec spec = *kb_engine_coming_spec(served);
    bool has_moved = false;
    enum kb_err rc = kb_engine_follow_medians(served, NULL, &spec, &has_moved);

    *next = (struct kb_event){.type = KB_EV_NONE};
    if (rc != KB_OK)
        return rc;
    put_values(&spec, next);
    next->as.dictionary.is_begun = true;
    return KB_OK;
}

enum kb_err kb_engine_finish_erasure(struct kb_engine *e, const struct kb_engine *served, struct kb_event *next)
{
    struct kb_build *b = e->build;
    enum kb_err rc = KB_OK;

    *next = (struct kb_event){.type = KB_EV_NONE};
    assert(b != NULL && !b->is_point && e->lent != b && kb_build_is_done(b));
    KB_TRY(put_points(e, &b->rows, b->atoms, b->n_atoms, next));
    put_values(b->is_refit ? &b->found : &b->spec, next);
    if (b->is_refit)
        put_found(&b->found, &b->tuning, next);
    KB_TRY(put_evidence(served, &e->scratch, next));
    next->as.dictionary.square = e->square_sum;
    next->as.dictionary.from = b->from;
    kb_engine_fold_quietly_until(e, 0); /* the reset itself is not to be quiet */
out:
    return rc;
}

/* ---- when -------------------------------------------------------------------------------------------- */

static enum kb_err follow_model(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next)
{
    struct kb_spec spec = *kb_engine_coming_spec(e);
    const bool is_rebuilt = e->history.n > 0 && ev->type != KB_EV_ARMS && kb_engine_changes_model(e);
    bool has_moved = false;
    enum kb_err rc = KB_OK;

    if (ev->type != KB_EV_GRAPH)
        KB_TRY(kb_engine_follow_medians(e, ev->type == KB_EV_ARMS ? ev : NULL, &spec, &has_moved));
    if (is_rebuilt || has_moved)
        KB_TRY(plan_reset(e, spec, ev->seq, next));
out:
    return rc;
}

enum kb_err kb_engine_follow_up(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next)
{
    *next = (struct kb_event){.type = KB_EV_NONE};
    switch (ev->type) {
    case KB_EV_REWARDED:
    case KB_EV_OBSERVED:
    case KB_EV_EXPIRED:
        return kb_engine_follow_learning(e, ev, next);
    case KB_EV_CONFIGURED:
    case KB_EV_GRAPH:
    case KB_EV_ARMS:
        return follow_model(e, ev, next);
    default:
        return KB_OK;
    }
}

/* Whether the history has grown enough since the last look at the medians. */
static bool is_median_due(const struct kb_engine *e)
{
    const size_t seen = e->checked_rows > e->reset_rows ? e->checked_rows : e->reset_rows;

    return (e->spec.context_kernel.is_median || e->spec.arm_kernel.is_median) && e->history.n <= MEDIAN_LAST_ROWS &&
           e->history.n >= MEDIAN_FIRST_ROWS && e->history.n >= MEDIAN_GROWTH * seen;
}

bool kb_engine_is_refresh_due(const struct kb_engine *e, size_t n_more)
{
    const struct kb_user_kernel_spec *user = &e->spec.user_kernel;

    return kb_user_kernel_is_learned(user->type) && !kb_engine_is_rebuilding(e) &&
           e->history.n_observed + (double)n_more >= e->reset_count + (double)user->refresh;
}

/* What is finished goes first; while a reset is on its way the model in force is let alone. */
enum kb_err kb_engine_due(struct kb_engine *e, uint64_t seq, bool may_change, struct kb_event *next)
{
    struct kb_spec spec = e->spec;
    bool is_due = false;
    enum kb_err rc = KB_OK;

    assert(e->staged->n_events == 0);
    *next = (struct kb_event){.type = KB_EV_NONE};
    if (e->build != NULL && e->lent != e->build && kb_build_is_ripe(e->build))
        return plan_finish(e, next);
    if (e->posterior == NULL || kb_engine_is_rebuilding(e))
        return KB_OK;
    is_due =
        kb_posterior_is_outdated(e->posterior) || kb_spec_outgrows_exact(&spec, kb_posterior_n_support(e->posterior));
    if (is_median_due(e)) {
        bool has_moved = false;

        KB_TRY(kb_engine_follow_medians(e, NULL, &spec, &has_moved));
        e->checked_rows = e->history.n;
        is_due |= has_moved;
    }
    is_due |= kb_engine_is_refresh_due(e, 0);
    if (kb_engine_is_refit_due(e, 0) && seq > e->quiet_until)
        KB_TRY(plan_refit(e, spec, seq, next)); /* which is a reset as well */
    else if (is_due)
        KB_TRY(plan_reset(e, spec, seq, next));
    else if (may_change && kb_engine_plan_change(e, next))
        return KB_OK;
    else if (e->build == NULL)
        KB_TRY(kb_engine_plan_waiting(e, next));
out:
    return rc;
}

enum kb_err kb_engine_rebuild(struct kb_engine *e, uint64_t seq, struct kb_event *next)
{
    struct kb_spec spec = *kb_engine_coming_spec(e);
    bool has_moved = false;
    enum kb_err rc = KB_OK;

    *next = (struct kb_event){.type = KB_EV_NONE};
    if ((e->posterior == NULL && !e->is_summarized) || e->draft != NULL || e->history.n == 0 ||
        kb_engine_is_rebuilding(e))
        return KB_OK;
    KB_TRY(kb_engine_follow_medians(e, NULL, &spec, &has_moved));
    struct kb_site site = kb_engine_site(e, &spec, seq);
    site.like = NULL; /* afresh: not even a resampling draws from what is in force */
    KB_TRY(plan(e, spec, &site, next));
out:
    return rc;
}

/* ---- the event: begun ---------------------------------------------------------------------------------- */

/* The values that the reset puts in force. KB_EINVAL, KB_EUNSUPPORTED: no model has them. */
static enum kb_err spec_of_reset(const struct kb_engine *e, const struct kb_event *ev, struct kb_spec *out,
                                 struct kb_errmsg *msg)
{
    struct kb_spec spec = *kb_engine_coming_spec(e);

    if ((int)ev->as.dictionary.repr < 0 || ev->as.dictionary.repr >= KB_REPR_N)
        return kb_fail(KB_EINVAL, msg, "/representation", "unknown representation");
    spec.repr.type = ev->as.dictionary.repr;
    spec.context_kernel.lengthscale = ev->as.dictionary.context_lengthscale;
    spec.arm_kernel.lengthscale = ev->as.dictionary.arm_lengthscale;
    if (ev->type == KB_EV_TUNED) {
        if (ev->as.dictionary.tuning == NULL)
            return kb_fail(KB_EINVAL, msg, "/prior", "expected the values that were found");
        const enum kb_err rc = kb_tuning_check(ev->as.dictionary.tuning, msg);
        if (rc != KB_OK)
            return rc;
        kb_tuning_put(ev->as.dictionary.tuning, &spec);
        if (kb_scales_check(&spec, ev->as.dictionary.scale, ev->as.dictionary.n_scale, msg) != KB_OK)
            return KB_EINVAL;
        kb_spec_put_scales(&spec, ev->as.dictionary.scale, ev->as.dictionary.n_scale);
    }
    kb_spec_drop_unserved_confidence(&spec);
    *out = spec;
    return kb_spec_check(&spec, msg);
}

/* The graph that the build rests on: one that comes with it, from this event's cause or from the build that it takes
 * the place of, or the one in force. */
static void choose_graph(struct kb_engine *e, struct kb_build *b)
{
    const struct kb_staged *s = e->staged;
    const bool is_taken_over = s->graph == NULL && kb_engine_is_rebuilding(e) && e->build->has_graph;

    b->has_graph = s->graph != NULL || is_taken_over;
    b->graph = kb_graph_ref_hold(s->graph != NULL ? s->graph : is_taken_over ? e->build->graph : e->graph_ref);
}

/* A worker may share the user kernel in force, which lives as long as who holds it. */
static enum kb_err hold_users(struct kb_engine *e, struct kb_build *b, uint64_t seq)
{
    const struct kb_site site = kb_engine_site(e, &b->spec, seq);

    return site.users != NULL ? kb_posterior_new_like(&b->users, &e->spec, site.users) : KB_OK;
}

void kb_engine_build_afresh_from(struct kb_engine *e, uint64_t seq)
{
    e->afresh_from = seq;
}

/* From the configured values, as if nothing had been found yet: what was found knows every user. */
static enum kb_err begin_afresh(struct kb_engine *e, struct kb_build *b, uint64_t seq)
{
    struct kb_tuning start;
    bool has_moved = false;

    b->spec.arm_kernel.lengthscale = e->configured.arm_kernel.lengthscale;
    b->spec.context_kernel.lengthscale = e->configured.context_kernel.lengthscale;
    if (kb_engine_is_tuned(e)) {
        kb_tuning_take(&start, &e->configured);
        kb_tuning_put(&start, &b->spec);
        kb_spec_put_scales(&b->spec, NULL, 0);
        b->is_refit = true;
        b->refit = kb_engine_refit(e, seq);
        b->refit.is_first = true;
    }
    return kb_engine_follow_medians(e, NULL, &b->spec, &has_moved);
}

/* Even in a quiet fold: the reset that ends it may be this build's. */
static enum kb_err reserve_begun(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_staged *s = e->staged;
    struct kb_build *b = NULL;
    enum kb_err rc;

    if (s->n_events > 0 && !s->is_heavy)
        return KB_EBUSY;
    if (ev->as.dictionary.n_atoms > 0)
        return kb_fail(KB_EINVAL, msg, "/points", "expected none before the reset is done");
    b = kb_engine_new_build(e, ev->seq);
    if (b == NULL)
        return KB_ENOMEM;
    rc = spec_of_reset(e, ev, &b->spec, msg);
    if (rc != KB_OK) {
        kb_build_free(b);
        return rc;
    }
    b->key = kb_engine_draw_key(e, &b->spec);
    if (ev->as.dictionary.is_refit) {
        b->is_refit = true;
        b->refit = kb_engine_refit(e, ev->seq);
    }
    if (e->afresh_from > 0 && ev->seq >= e->afresh_from)
        rc = begin_afresh(e, b, ev->seq);
    if (rc == KB_OK)
        rc = hold_users(e, b, ev->seq);
    if (rc != KB_OK) {
        kb_build_free(b);
        return rc;
    }
    choose_graph(e, b);
    kb_build_free(s->build);
    s->build = b;
    s->is_heavy = s->is_closed = true;
    return KB_OK;
}

/* The nodes of users under the graph to come; they are in force already, so that later users are counted. */
static void prepare_begun(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_build *b = e->staged->build;

    (void)ev;
    kb_build_take_view(b, &e->history, e->node_of, e->users.n);
    if (!b->has_graph)
        return;
    const struct kb_user_graph *g = &b->graph->graph;
    for (size_t i = 0; i < b->n_nodes; i++)
        b->node_of[i] = KB_ID_NONE;
    for (size_t i = 0; i < g->n; i++)
        b->node_of[g->user_of[i]] = (uint32_t)i;
}

/* From here on the values to come are the build's. */
static void apply_begun(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_staged *s = e->staged;

    (void)ev;
    kb_engine_open_build(e, s->build);
    s->build = NULL;
    s->awaits_reset = false;
    e->n_waiting = 0;
}

/* ---- the event: done at once, or at last ----------------------------------------------------------------- */

static enum kb_err resolve_atoms(const struct kb_history *h, const struct kb_event *ev, struct kb_atom *rows,
                                 struct kb_errmsg *msg)
{
    for (size_t i = 0; i < ev->as.dictionary.n_atoms; i++) {
        if (!kb_admission_is_chance(ev->as.dictionary.repr, ev->as.dictionary.atoms[i].probability))
            return kb_fail_item(KB_EINVAL, msg, "/points", i, "/probability", "expected a chance that can be drawn");
        const size_t row = kb_history_by_seq(h, ev->as.dictionary.atoms[i].event);

        if (row == SIZE_MAX)
            return kb_fail_item(KB_EINVAL, msg, "/points", i, "/event", "no such point has been taught");
        rows[i] = (struct kb_atom){row, ev->as.dictionary.atoms[i].probability};
    }
    return KB_OK;
}

/* Into s->posterior. */
static enum kb_err fill_now(struct kb_engine *e, const struct kb_event *ev, const struct kb_spec *spec,
                            const struct kb_evidence *evidence, const struct kb_atom *rows)
{
    const struct kb_site site = kb_engine_site(e, spec, ev->seq);
    struct kb_staged *s = e->staged;
    enum kb_err rc = KB_OK;

    if (s->posterior == NULL || !s->is_planned) {
        kb_posterior_free(s->posterior);
        s->posterior = NULL;
        KB_TRY(kb_site_open_as(&site, spec, &s->posterior));
    }
    kb_posterior_set_evidence(s->posterior, evidence);
    KB_TRY(kb_posterior_fit_scratch(s->posterior, &e->scratch, 0));
    KB_TRY(kb_posterior_fill(s->posterior, &e->history, site.node_of, rows, ev->as.dictionary.n_atoms, &e->scratch));
    KB_TRY(kb_engine_open_all(e, s->posterior, site.node_of, e->users.n, &e->scratch));
out:
    return rc;
}

/* Into the build's own posterior: a commit that fails must not lose it, unless decisions were opened (rollback). */
static enum kb_err complete(struct kb_engine *e, const struct kb_event *ev, const struct kb_spec *spec,
                            const struct kb_evidence *evidence, const struct kb_atom *rows)
{
    struct kb_build *b = e->build;
    enum kb_err rc = KB_OK;

    b->spec = *spec;
    KB_TRY(kb_build_complete(b, &e->history, rows, ev->as.dictionary.n_atoms));
    KB_TRY(kb_engine_open_all(e, b->posterior, b->node_of, b->n_nodes, &b->scratch));
    kb_posterior_set_evidence(b->posterior, evidence);
    KB_TRY(kb_posterior_settle(b->posterior, &b->scratch));
    kb_posterior_publish(b->posterior);
    KB_TRY(kb_posterior_fit_scratch(b->posterior, &e->scratch, 0));
out:
    return rc;
}

static enum kb_err check_from(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const uint64_t from = ev->as.dictionary.from;

    if (kb_engine_is_rebuilding(e) ? e->build->from == from : from == 0)
        return KB_OK;
    return kb_fail(KB_EINVAL, msg, "/from", "not the event that began the reset which is under way, if any");
}

static enum kb_err reserve_reset(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_staged *s = e->staged;
    const bool is_last_step = ev->as.dictionary.from > 0;
    struct kb_evidence evidence;
    struct kb_atom *rows = NULL;
    struct kb_spec spec;
    enum kb_err rc = check_from(e, ev, msg);

    KB_TRY(rc);
    if (s->n_events > 0 && !s->is_heavy)
        return KB_EBUSY;
    rows = kb_array(ev->as.dictionary.n_atoms + 1, 1, sizeof *rows);
    if (rows == NULL)
        return KB_ENOMEM;
    KB_TRY(spec_of_reset(e, ev, &spec, msg));
    KB_TRY(evidence_of(ev, &evidence, msg));
    KB_TRY(resolve_atoms(is_last_step ? &e->build->rows : &e->history, ev, rows, msg));
    if (ev->seq >= e->quiet_until)
        KB_TRY(is_last_step ? complete(e, ev, &spec, &evidence, rows) : fill_now(e, ev, &spec, &evidence, rows));
    if (is_last_step && e->build->has_graph)
        KB_TRY(kb_engine_stage_nodes(e, &e->build->graph->graph));
    s->reset_spec = spec;
    if (ev->type == KB_EV_TUNED)
        s->tuning = *ev->as.dictionary.tuning;
    s->has_tuning = ev->type == KB_EV_TUNED;
    s->is_heavy = s->is_closed = true;
out:
    kb_free(rows);
    return rc;
}

/* A resampling changes nothing that median lengthscales follow, so it does not put off their next look. */
static void apply_reset(struct kb_engine *e)
{
    struct kb_staged *s = e->staged;
    struct kb_build *b = kb_engine_is_rebuilding(e) ? e->build : NULL;
    const bool is_resampling =
        !s->has_tuning && !s->awaits_reset && b == NULL && kb_spec_same_model(&s->reset_spec, &e->spec);

    if (s->posterior == NULL && b != NULL) {
        s->posterior = b->posterior;
        b->posterior = NULL;
    }
    if (s->posterior != NULL) {
        kb_engine_retire_posterior(e, e->posterior);
        e->posterior = s->posterior;
        s->posterior = NULL;
        kb_engine_mark_open(e);
    }
    if (s->graph != NULL)
        kb_engine_install_graph(e, s->graph);
    else if (b != NULL && b->has_graph)
        kb_engine_install_graph(e, b->graph);
    kb_engine_put_spec(e, &s->reset_spec);
    if (s->has_tuning)
        kb_engine_keep_tuning(e, &s->tuning);
    s->has_tuning = false;
    kb_engine_calm(e);
    e->reset_count = e->history.n_observed;
    if (!is_resampling)
        e->reset_rows = e->history.n;
    s->awaits_reset = false;
    e->n_waiting = 0;
    kb_engine_close_build(e);
}

/* ---- the event --------------------------------------------------------------------------------------- */

static const struct kb_event_ops begun_ops = {.reserve = reserve_begun, .prepare = prepare_begun, .apply = apply_begun};
static const struct kb_event_ops reset_ops = {.reserve = reserve_reset};

/* NULL: the reset, whose apply looks at no event. */
static const struct kb_event_ops *ops_of(const struct kb_event *ev)
{
    if (ev->as.dictionary.is_reset)
        return ev->as.dictionary.is_begun ? &begun_ops : &reset_ops;
    if (ev->as.dictionary.is_begun)
        return &kb_begun_point_ops;
    return ev->as.dictionary.from > 0 ? &kb_entered_point_ops : &kb_admission_ops;
}

static enum kb_err reserve_dictionary(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    return ops_of(ev)->reserve(e, ev, msg);
}

static void prepare_dictionary(struct kb_engine *e, const struct kb_event *ev)
{
    if (ops_of(ev)->prepare != NULL)
        ops_of(ev)->prepare(e, ev);
}

static void apply_dictionary(struct kb_engine *e, const struct kb_event *ev)
{
    if (ops_of(ev)->apply != NULL)
        ops_of(ev)->apply(e, ev);
    else
        apply_reset(e);
}

const struct kb_event_ops kb_ops_dictionary = {
    .reserve = reserve_dictionary, .prepare = prepare_dictionary, .apply = apply_dictionary};
