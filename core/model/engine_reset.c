/* Dictionary events that build the posterior anew from the history: resets.
 *
 * A reset builds the posterior with the dictionary that the event names (engine_plan.c chooses it), and teaches it all.
 *
 * Little work is done at once, in the writer's turn, and is one event. Much of it is two: `begun` fixes the history
 * that is built from and opens a build (build.h), the model in force goes on serving and learning, and the second
 * event, which names the first in `from`, puts the new one in force, with all that was learned in between. Whatever
 * changes the model once more in between begins anew and takes over what was to come. */
#include "model/engine_impl.h"

#include <assert.h>
#include <string.h>

#include "posterior/admission.h"
#include "base/alloc.h"
#include "base/magnitude.h"
#include "posterior/learning.h"
#include "spec/fields.h"

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
