/* Dictionary events: admissions of one point, and resets that build the posterior anew from the history.
 *
 * Chance enters here alone (besides the arm drawn): follow_up and due draw with numbers keyed by (seed, seq), and what
 * came out is written into the event; a fold takes it from there. Admission: KORS [EK, eq. 41] or threshold, see
 * admission.h. A reset chooses the dictionary over the whole history in order, then teaches it all. A learned user
 * kernel (mmd) learns from the history at every reset and at no other time, so that the log says when: a fold stops at
 * the same event and finds the same history. Its own resets fall due every `refresh` learned rewards.
 *
 * Resampled representations [BKB, Alg. 1] are never admitted to; they come with a reset whenever the posterior says
 * that its dictionary is outdated (kb_engine_due), so at most once a batch, and a fold of such a log only teaches. */
#include "engine_impl.h"

#include <assert.h>
#include <string.h>

#include "alloc.h"
#include "hash.h"
#include "rng.h"

/* Resets by the history's own size: median lengthscales are looked at when the distinct points have grown this much. */
#define MEDIAN_FIRST_ROWS 32u
#define MEDIAN_GROWTH 4u
#define MEDIAN_LAST_ROWS 8192u

/* ---- admissions ------------------------------------------------------------------------------------- */

/* The log event that first taught the point, or will have. */
static uint64_t first_event(const struct kb_engine *e, const struct kb_staged_point *pt)
{
    const size_t row = kb_history_find_at(&e->history, pt->user, pt->arm, pt->level, pt->x);

    if (row != SIZE_MAX)
        return e->history.first_seq[row];
    for (size_t i = 0; i < e->staged.n_points; i++) {
        const struct kb_staged_point *other = &e->staged.point[i];

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

/* A correction tells nothing new of where rewards are had, so it gives its point no further chance. */
static bool is_correction(const struct kb_engine *e, const struct kb_event *ev)
{
    bool has_reward = false;
    double reward = 0;

    return ev->type == KB_EV_REWARDED &&
           kb_engine_slot_reward(e, ev->as.rewarded.decision, ev->as.rewarded.arm, &has_reward, &reward) == KB_OK &&
           has_reward;
}

static enum kb_err follow_learning(struct kb_engine *e, const struct kb_event *ev, struct kb_event *next)
{
    const struct kb_staged_point *pt = kb_engine_staged_point(e, ev->seq);
    double probability = 1;
    enum kb_err rc = KB_OK;

    if (pt == NULL || kb_engine_is_quiet(e, ev->seq) || is_correction(e, ev))
        return KB_OK;
    const struct kb_point point = point_of(e, pt->user, pt->arm, pt->x);
    const double uniform = kb_rng_uniform(e->spec.seed, KB_STREAM_DICTIONARY, ev->seq);
    const uint64_t first = first_event(e, pt);
    if (!is_nameable(e, pt, first))
        return KB_OK;
    KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
    if (!kb_posterior_admits(e->posterior, &point, uniform, &e->scratch, &probability))
        return KB_OK;
    kb_free(e->staged.atoms);
    e->staged.atoms = kb_array(1, 1, sizeof *e->staged.atoms);
    if (e->staged.atoms == NULL)
        return KB_ENOMEM;
    e->staged.atoms[0] = (struct kb_ev_atom){.event = first, .probability = probability};
    next->type = KB_EV_DICTIONARY;
    next->as.dictionary.atoms = e->staged.atoms;
    next->as.dictionary.n_atoms = 1;
out:
    return rc;
}

static enum kb_err reserve_admission(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const struct kb_ev_atom *atom = ev->as.dictionary.atoms;
    const size_t row = ev->as.dictionary.n_atoms == 1 ? kb_history_by_seq(&e->history, atom->event) : SIZE_MAX;
    const struct kb_staged_point *pt = NULL;
    struct kb_point point;
    enum kb_err rc = KB_OK;

    if (ev->as.dictionary.n_atoms != 1)
        return kb_fail(KB_EINVAL, msg, "/points", "expected one point");
    if (row == SIZE_MAX && (pt = kb_engine_staged_point(e, atom->event)) == NULL)
        return kb_fail(KB_EINVAL, msg, "/points/0/event", "no event %llu has taught a point",
                       (unsigned long long)atom->event);
    if (row != SIZE_MAX)
        point = point_of(e, e->history.user[row], e->history.arm[row], e->history.x + row * e->history.dim);
    else
        point = point_of(e, pt->user, pt->arm, pt->x);
    if (!kb_engine_is_quiet(e, ev->seq)) {
        KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
        KB_TRY(kb_posterior_stage_atom(e->posterior, &point, &e->scratch));
    }
    e->staged.is_closed = true;
out:
    return rc;
}

/* ---- resets ----------------------------------------------------------------------------------------- */

/* What the model in force has proved goes on under the next one. */
static void put_evidence(const struct kb_engine *e, struct kb_event *next)
{
    struct kb_evidence evidence;

    kb_posterior_evidence(e->posterior, &evidence);
    next->as.dictionary.has_evidence = !evidence.is_void;
    next->as.dictionary.square = evidence.square;
    next->as.dictionary.energy = evidence.energy[0];
    next->as.dictionary.log_det = evidence.log_det[0];
}

static struct kb_evidence evidence_of(const struct kb_event *ev)
{
    struct kb_evidence evidence = {.is_void = !ev->as.dictionary.has_evidence};

    if (ev->as.dictionary.has_evidence) {
        evidence.square = ev->as.dictionary.square;
        kb_evidence_share(&evidence, ev->as.dictionary.energy, ev->as.dictionary.log_det);
    }
    return evidence;
}

/* Chooses the dictionary for `spec` over the history and describes the reset in *next; keeps the posterior. */
static enum kb_err plan_reset(struct kb_engine *e, struct kb_spec spec, uint64_t seq, struct kb_event *next)
{
    struct kb_staged *s = &e->staged;
    struct kb_atom *rows = NULL;
    size_t n = 0;
    enum kb_err rc = KB_OK;

    kb_posterior_free(s->posterior);
    s->posterior = NULL;
    KB_TRY(kb_engine_build_for(e, &spec, seq, &s->posterior));
    KB_TRY(kb_posterior_fit_scratch(s->posterior, &e->scratch, 0));
    KB_TRY(kb_engine_choose_rows(e, &spec, seq, &rows, &n));
    kb_free(s->atoms);
    s->atoms = kb_array(n + 1, 1, sizeof *s->atoms);
    if (s->atoms == NULL) {
        rc = KB_ENOMEM;
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        s->atoms[i] = (struct kb_ev_atom){e->history.first_seq[rows[i].row], rows[i].probability};
    s->is_planned = true;
    next->type = KB_EV_DICTIONARY;
    next->as.dictionary.is_reset = true;
    next->as.dictionary.repr = spec.repr.type;
    next->as.dictionary.context_lengthscale = spec.context_kernel.lengthscale;
    next->as.dictionary.arm_lengthscale = spec.arm_kernel.lengthscale;
    next->as.dictionary.atoms = s->atoms;
    next->as.dictionary.n_atoms = n;
    put_evidence(e, next);
out:
    if (rc != KB_OK) { /* a half-built one must not be taken for what some other event has staged */
        kb_posterior_free(s->posterior);
        s->posterior = NULL;
    }
    kb_free(rows);
    return rc;
}

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
        return follow_learning(e, ev, next);
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

    return kb_user_kernel_is_learned(user->type) &&
           e->history.n_observed + (double)n_more >= e->reset_count + (double)user->refresh;
}

enum kb_err kb_engine_due(struct kb_engine *e, uint64_t seq, struct kb_event *next)
{
    struct kb_spec spec = e->spec;
    bool is_due = e->posterior != NULL && (kb_posterior_is_outdated(e->posterior) ||
                                           kb_engine_outgrows_exact(&spec, kb_posterior_n_support(e->posterior)));
    enum kb_err rc = KB_OK;

    assert(e->staged.n_events == 0);
    *next = (struct kb_event){.type = KB_EV_NONE};
    if (is_median_due(e)) {
        bool has_moved = false;

        KB_TRY(kb_engine_follow_medians(e, NULL, &spec, &has_moved));
        e->checked_rows = e->history.n;
        is_due |= has_moved;
    }
    is_due |= kb_engine_is_refresh_due(e, 0);
    if (is_due)
        KB_TRY(plan_reset(e, spec, seq, next));
out:
    return rc;
}

static enum kb_err resolve_atoms(const struct kb_engine *e, const struct kb_event *ev, struct kb_atom *rows,
                                 struct kb_errmsg *msg)
{
    for (size_t i = 0; i < ev->as.dictionary.n_atoms; i++) {
        const size_t row = kb_history_by_seq(&e->history, ev->as.dictionary.atoms[i].event);

        if (row == SIZE_MAX)
            return kb_fail_item(KB_EINVAL, msg, "/points", i, "/event", "no such point has been taught");
        rows[i] = (struct kb_atom){row, ev->as.dictionary.atoms[i].probability};
    }
    return KB_OK;
}

/* The values that the reset puts in force. */
static struct kb_spec spec_of_reset(const struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_spec spec = *kb_engine_coming_spec(e);

    spec.repr.type = ev->as.dictionary.repr;
    spec.context_kernel.lengthscale = ev->as.dictionary.context_lengthscale;
    spec.arm_kernel.lengthscale = ev->as.dictionary.arm_lengthscale;
    kb_spec_drop_unserved_confidence(&spec);
    return spec;
}

static enum kb_err reserve_reset(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_staged *s = &e->staged;
    const size_t n = ev->as.dictionary.n_atoms;
    struct kb_atom *rows = kb_array(n + 1, 1, sizeof *rows);
    const struct kb_spec spec = spec_of_reset(e, ev);
    enum kb_err rc = KB_OK;

    if (rows == NULL)
        return KB_ENOMEM;
    if (s->n_events > 0 && !s->is_heavy) {
        rc = KB_EBUSY;
        goto out;
    }
    KB_TRY(resolve_atoms(e, ev, rows, msg));
    if (!kb_engine_is_quiet(e, ev->seq)) {
        const struct kb_evidence evidence = evidence_of(ev);

        if (s->posterior == NULL || !s->is_planned) {
            kb_posterior_free(s->posterior);
            s->posterior = NULL;
            KB_TRY(kb_engine_new_posterior(e, &spec, ev->seq, &s->posterior));
        }
        kb_posterior_set_evidence(s->posterior, &evidence);
        KB_TRY(kb_posterior_fit_scratch(s->posterior, &e->scratch, 0));
        KB_TRY(kb_posterior_fill(s->posterior, &e->history, kb_engine_coming_nodes(e), rows, n, &e->scratch));
    }
    s->reset_spec = spec;
    s->is_heavy = s->is_closed = true;
out:
    kb_free(rows);
    return rc;
}

/* A resampling changes nothing that median lengthscales follow, so it does not put off their next look. */
static void apply_reset(struct kb_engine *e)
{
    struct kb_staged *s = &e->staged;
    const bool is_resampling = !s->awaits_reset && kb_spec_same_model(&s->reset_spec, &e->spec);

    if (s->posterior != NULL) {
        kb_posterior_free(e->posterior);
        e->posterior = s->posterior;
        s->posterior = NULL;
    }
    if (s->has_graph)
        kb_engine_install_graph(e);
    e->spec = s->reset_spec;
    e->reset_count = e->history.n_observed;
    if (!is_resampling)
        e->reset_rows = e->history.n;
    s->awaits_reset = false;
}

/* ---- the event --------------------------------------------------------------------------------------- */

static enum kb_err reserve_dictionary(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    return ev->as.dictionary.is_reset ? reserve_reset(e, ev, msg) : reserve_admission(e, ev, msg);
}

static void prepare_dictionary(struct kb_engine *e, const struct kb_event *ev)
{
    if (ev->as.dictionary.is_reset || kb_engine_is_quiet(e, ev->seq))
        return;
    const struct kb_ev_atom *atom = ev->as.dictionary.atoms;
    const size_t row = kb_history_by_seq(&e->history, atom->event);

    assert(row != SIZE_MAX);
    kb_posterior_sweep_atom(e->posterior, &e->history, e->node_of, (struct kb_atom){row, atom->probability},
                            &e->scratch);
}

static void apply_dictionary(struct kb_engine *e, const struct kb_event *ev)
{
    if (ev->as.dictionary.is_reset)
        apply_reset(e);
    else if (!kb_engine_is_quiet(e, ev->seq))
        kb_posterior_commit_atom(e->posterior, &e->scratch);
}

const struct kb_event_ops kb_ops_dictionary = {
    .reserve = reserve_dictionary, .prepare = prepare_dictionary, .apply = apply_dictionary};
