/* Changes of what arms earn, where rewards are forgotten: how they are noticed, and the event `changed`.
 *
 * Each reward is foretold by the model, with the noise that it has found; what is left over, in deviations, is z. An
 * arm's surprise goes from R to (1 + R) e(z), where e has a mean of at most 1 as long as z has mean 0 and variance 1,
 * whatever else it is, and a mean above 1 once the arm earns less than foretold [SRR, e-detectors; Catoni's e]:
 *
 *   e(z) = psi(-SHIFT z) / (1 + SHIFT^2 / 2),   psi(x) = 1 + x + x^2 / 2 from 0 on, e^x below
 *
 * So R grows by at most 1 a reward in the mean, and without a change the mean number of an arm's rewards until R
 * reaches MOST_SURPRISE is at least that number. An arm that earns more than foretold needs no alarm: it is shown.
 *
 * At that the writer adds an event, behind the batch: what has been learned so far, of all arms, counts LEFT of what it
 * did. It is a step of forgetting by log2(1 / LEFT) halvings at once (decay.h), so folds that teach nothing need not
 * know why. Scales stay. Surprises begin at 0 with each posterior, so that a fold which is quiet up to it has them,
 * too; they are state, in digest and snapshot. A line that stands is taken by every fold: of a log without a user, too,
 * who alone has had the arm.
 *
 * Only whole rewards are compared, in an order that does not depend on them: those of observations, and of decisions
 * where the first reward is the last one and a window that closes brings none.
 *
 * Cost: a prediction a reward. O(arms) for a change that is looked for. */
#include "model/engine_impl.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/magnitude.h"

#define SHIFT 0.4
#define MOST_SURPRISE 5000.0
#define CAP 1e12 /* where nobody has listened for long */
#define LEFT 0.001

bool kb_engine_is_watching(const struct kb_engine *e)
{
    return e->spec.forgetting.type != KB_FORGET_NONE && e->spec.forgetting.detects_changes &&
           e->spec.aggregation == KB_AGG_FIRST && kb_engine_is_tuned(e);
}

/* ---- surprise -------------------------------------------------------------------------------------------- */

void kb_engine_calm(struct kb_engine *e)
{
    for (size_t i = 0; i < e->cap_surprise; i++)
        e->surprise[i] = 0;
}

static double evidence_of(double z)
{
    const double x = -SHIFT * z;

    return (x > 0 ? 1 + x + x * x / 2 : exp(x)) / (1 + SHIFT * SHIFT / 2);
}

void kb_engine_compare(struct kb_engine *e, const struct kb_point *point, double reward)
{
    if (!kb_engine_is_watching(e))
        return;
    const double *features = e->spec.arm_dim > 0 ? point->x + e->spec.context_dim : NULL;
    const struct kb_candidates cand = {.user = point->user,
                                       .context = point->x,
                                       .n = 1,
                                       .arms = &point->arm,
                                       .features = &features,
                                       .level = point->level};
    double mean, sd;

    assert(point->arm < e->cap_surprise);
    kb_posterior_predict(e->posterior, &cand, &e->scratch, &mean, &sd);
    double *r = &e->surprise[point->arm];
    *r = fmin((1 + *r) * evidence_of((reward - mean) / sqrt(e->spec.repr.lambda + sd * sd)), CAP);
}

/* ---- when ------------------------------------------------------------------------------------------------- */

bool kb_engine_plan_change(const struct kb_engine *e, struct kb_event *next)
{
    size_t most = 0;

    if (!kb_engine_is_watching(e) || kb_decay_halvings(&e->decay, &e->spec.forgetting) > KB_MOST_HALVINGS / 2)
        return false; /* another one might be refused */
    for (size_t i = 1; i < e->arm_ids.n && i < e->cap_surprise; i++)
        if (e->surprise[i] > e->surprise[most])
            most = i;
    if (e->cap_surprise == 0 || !(e->surprise[most] >= MOST_SURPRISE))
        return false;
    *next = (struct kb_event){.type = KB_EV_CHANGED,
                              .as.changed = {.arm = kb_ids_str(&e->arm_ids, (uint32_t)most), .left = LEFT}};
    return true;
}

/* ---- the event --------------------------------------------------------------------------------------------- */

static double halvings_after(const struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_decay decay = e->decay;

    kb_decay_jump(&decay, ev->as.changed.left, ev->seq);
    return kb_decay_halvings(&decay, &e->spec.forgetting);
}

/* Where nothing is forgotten, or a reset is on its way, nobody plans the event, and it does nothing. */
static bool takes_changes(const struct kb_engine *e)
{
    return e->spec.forgetting.type != KB_FORGET_NONE && !kb_engine_is_rebuilding(e);
}

static enum kb_err reserve_changed(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    if (e->staged->n_events > 0)
        return KB_EBUSY;
    if (!(ev->as.changed.left >= KB_LEAST_SCALE && ev->as.changed.left < 1))
        return kb_fail(KB_EINVAL, msg, "/left", "expected a number from %g, below 1", KB_LEAST_SCALE);
    if (takes_changes(e) && !(halvings_after(e, ev) <= KB_MOST_HALVINGS))
        return kb_fail(KB_ERANGE, msg, "/left", "more than %g halvings would have passed", KB_MOST_HALVINGS);
    e->staged->forgets_at_once = takes_changes(e);
    e->staged->is_closed = true;
    return KB_OK;
}

static void prepare_changed(struct kb_engine *e, const struct kb_event *ev)
{
    if (takes_changes(e))
        kb_engine_prepare_unit(e, halvings_after(e, ev), ev->seq);
}

static void apply_changed(struct kb_engine *e, const struct kb_event *ev)
{
    if (!takes_changes(e))
        return;
    kb_decay_jump(&e->decay, ev->as.changed.left, ev->seq);
    kb_engine_take_unit(e, ev->seq);
    kb_engine_calm(e);
}

const struct kb_event_ops kb_ops_changed = {
    .reserve = reserve_changed, .prepare = prepare_changed, .apply = apply_changed};

/* ---- state -------------------------------------------------------------------------------------------------- */

uint64_t kb_engine_surprise_digest(const struct kb_engine *e, uint64_t h)
{
    for (size_t i = 0; i < e->cap_surprise; i++)
        if (e->surprise[i] > 0)
            h = kb_hash_double(kb_hash_u64(h, i), e->surprise[i]);
    return h;
}

void kb_engine_save_surprise(const struct kb_engine *e, struct kb_writer *w)
{
    const size_t n = e->cap_surprise < e->arm_ids.n ? e->cap_surprise : e->arm_ids.n;

    kb_put_u64(w, n);
    for (size_t i = 0; i < n; i++)
        kb_put_double(w, e->surprise[i]);
}

enum kb_err kb_engine_load_surprise(struct kb_engine *e, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, e->arm_ids.n);
    enum kb_err rc = KB_OK;

    e->surprise = n > 0 ? kb_array(n, 1, sizeof *e->surprise) : NULL;
    e->cap_surprise = e->surprise != NULL ? n : 0;
    if (e->cap_surprise < n)
        return KB_ENOMEM;
    for (size_t i = 0; rc == KB_OK && i < n; i++) {
        e->surprise[i] = kb_get_double(r);
        if (r->rc == KB_OK && !(e->surprise[i] >= 0 && e->surprise[i] <= CAP))
            rc = KB_ECORRUPT;
    }
    return rc == KB_OK ? r->rc : rc;
}
