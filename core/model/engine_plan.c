/* When resets fall due, and what their events say.
 *
 * A reset chooses the dictionary over the whole history in order; what chance had to say in that is written into the
 * event, which engine_reset.c carries out. A learned user kernel (mmd) learns from the history at every reset and at no
 * other time, so that the log says when: a fold stops at the same event and finds the same history. Its own resets fall
 * due every `refresh` learned rewards.
 *
 * Resampled representations [BKB, Alg. 1] are never admitted to; they come with a reset whenever the posterior says
 * that its dictionary is outdated (kb_engine_due), so at most once a batch, and a fold of such a log only teaches. They
 * draw from the variances in force, which must stand still for that: such a reset is done at once, however long. */
#include "model/engine_impl.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "model/engine_write.h"
#include "posterior/learning.h"

/* Resets by the history's own size: median lengthscales are looked at when the distinct points have grown this much. */
#define MEDIAN_FIRST_ROWS 32u
#define MEDIAN_GROWTH 4u
#define MEDIAN_LAST_ROWS 8192u

/* ---- what it says ----------------------------------------------------------------------------------- */

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
