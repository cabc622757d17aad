/* What events that teach do to the history and the posterior, and how both forget.
 *
 * Forgetting in the steps of an event (decay.h):
 *
 *   grow      memory for a second factor
 *   prepare   halvings as they will be; where that moves the unit, the factor in the new one        beside readers
 *   apply     the step is taken: halvings, unit, factor; then the event's points are taught, by their weight
 *
 * A correction is no step. It changes the reward of an observation that stays where it was in time: the difference
 * comes with the weight that the observation has by now, and the model is that of a log which had the last reward there
 * at once.
 *
 * The quiet part of a fold counts halvings and teaches the history alone. */
#include "model/engine_impl.h"
#include "base/magnitude.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "posterior/learning.h"
#include "posterior/open.h"

static struct kb_point kernel_point(const struct kb_engine *e, const struct kb_staged_point *pt)
{
    return (struct kb_point){.user = kb_engine_user_at(e, pt->user), .arm = pt->arm, .x = pt->x, .level = pt->level};
}

enum kb_err kb_engine_stage_point(struct kb_engine *e, const struct kb_staged_point *pt)
{
    struct kb_staged *s = e->staged;
    struct kb_build *b = kb_engine_is_rebuilding(e) ? e->build : NULL;
    const struct kb_point point = kernel_point(e, pt);
    enum kb_err rc = KB_OK;

    if (kb_grow((void **)&s->point, &s->cap_points, s->n_points + 1, 16, sizeof *s->point) != 0)
        return KB_ENOMEM;
    if (!kb_engine_is_quiet(e, pt->seq)) {
        KB_TRY(kb_posterior_fit_scratch(e->posterior, &e->scratch, 0));
        KB_TRY(kb_posterior_stage_learn(e->posterior, &point, &e->scratch));
    }
    if (b != NULL &&
        kb_grow((void **)&b->fresh, &b->cap_fresh, b->n_fresh + s->n_points + 1, 64, sizeof *b->fresh) != 0)
        return KB_ENOMEM;
    s->point[s->n_points++] = *pt;
out:
    return rc;
}

/* ---- forgetting -------------------------------------------------------------------------------------- */

void kb_engine_put_spec(struct kb_engine *e, const struct kb_spec *spec)
{
    if (!kb_forgetting_is_same(&e->spec.forgetting, &spec->forgetting))
        kb_decay_change(&e->decay, &e->spec.forgetting);
    e->spec = *spec;
}

/* Steps that are reserved count, too; those of a half-life were asked for their own times. */
enum kb_err kb_engine_check_step(const struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const struct kb_forgetting_spec *f = &e->spec.forgetting;
    struct kb_decay decay = e->decay;

    decay.steps += f->type == KB_FORGET_DISCOUNT ? e->staged->n_points : 0;
    kb_decay_step(&decay, f, ev->at_ms);
    if (kb_decay_halvings(&decay, f) <= KB_MOST_HALVINGS)
        return KB_OK;
    return kb_fail(KB_ERANGE, msg, "/at", "more than %g halvings would have passed since the first reward",
                   KB_MOST_HALVINGS);
}

void kb_engine_prepare_unit(struct kb_engine *e, double halvings, uint64_t seq)
{
    const double unit = kb_decay_unit(halvings);

    if (!kb_engine_is_quiet(e, seq) && unit > kb_posterior_unit(e->posterior))
        kb_posterior_prepare_unit(e->posterior, unit, &e->scratch);
}

void kb_engine_prepare_step(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_decay decay = e->decay;

    kb_decay_step(&decay, &e->spec.forgetting, ev->at_ms);
    kb_engine_prepare_unit(e, kb_decay_halvings(&decay, &e->spec.forgetting), ev->seq);
}

void kb_engine_take_unit(struct kb_engine *e, uint64_t seq)
{
    e->history.unit = kb_decay_unit(kb_decay_halvings(&e->decay, &e->spec.forgetting));
    if (!kb_engine_is_quiet(e, seq) && e->history.unit > kb_posterior_unit(e->posterior))
        kb_posterior_take_unit(e->posterior, &e->scratch);
}

double kb_engine_take_step(struct kb_engine *e, const struct kb_event *ev)
{
    kb_decay_step(&e->decay, &e->spec.forgetting, ev->at_ms);
    kb_engine_take_unit(e, ev->seq);
    return kb_decay_halvings(&e->decay, &e->spec.forgetting);
}

/* ---- teaching ---------------------------------------------------------------------------------------- */

/* Beyond what a double holds, the spread is not known any longer; corrections may leave less than 0 by rounding. */
void kb_engine_book(struct kb_engine *e, uint32_t arm_id, double n_new, double d_sum, double d_square)
{
    struct kb_arm *arm = &e->arms.arm[arm_id];

    e->reward_sum += d_sum;
    arm->rewarded += n_new > 0;
    arm->reward_sum += d_sum;
    arm->square_sum += d_square;
    if (!isfinite(arm->square_sum))
        arm->square_sum = (double)NAN;
    if (arm->square_sum < 0)
        arm->square_sum = 0;
}

void kb_engine_teach(struct kb_engine *e, const struct kb_staged_point *pt, double d_count, double d_sum,
                     double d_square, double halvings)
{
    const struct kb_point point = kernel_point(e, pt);
    const double weight = halvings == e->history.unit ? 1 : exp2(halvings - e->history.unit);
    const size_t row =
        kb_history_add_then(&e->history, pt->user, pt->arm, pt->level, pt->x, d_count, d_sum, halvings, pt->seq);
    const struct kb_delta delta = {.row = row,
                                   .d_count = weight * d_count,
                                   .d_sum = weight * d_sum,
                                   .d_square = d_square,
                                   .unit = e->history.unit};

    if (kb_engine_is_rebuilding(e))
        e->build->fresh[e->build->n_fresh++] = delta;
    e->square_sum += d_square;
    kb_reward_sums_add(&e->sums, pt->importance, d_count, d_sum, d_square, halvings,
                       fmax(halvings, kb_decay_halvings(&e->decay, &e->spec.forgetting)));
    assert(pt->user < e->cap_squares);
    e->square_of[pt->user] += d_square;
    if (kb_engine_is_quiet(e, pt->seq))
        return;
    if (d_count > 0 && !(pt->is_decided && e->spec.has_default_reward))
        kb_engine_compare(e, &point, d_sum);
    if (pt->is_open)
        kb_posterior_learn_open(e->posterior, &point, delta.d_count, delta.d_sum, d_square, &e->scratch);
    else
        kb_posterior_learn(e->posterior, &point, delta.d_count, delta.d_sum, d_square, &e->scratch);
}
