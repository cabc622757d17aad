/* What the parts of a summary may say: indices that are there, and numbers that rewards can have made (magnitude.h). A
 * part that says anything else is refused before it changes anything. */
#include <math.h>
#include <string.h>

#include "model/engine_summary_check.h"
#include "base/magnitude.h"

enum kb_err kb_summary_check_arm(const struct kb_engine *e, const struct kb_ev_known_arm *arm, size_t i,
                                 struct kb_errmsg *msg)
{
    if ((arm->is_active || arm->is_stopped || arm->eligibility != NULL || arm->value != NULL) && !arm->is_in_catalogue)
        return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/active", "the arm is not in the catalogue");
    if (arm->eligibility != NULL && !kb_eligibility_is_valid(arm->eligibility))
        return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/eligibility", "rules beyond their limits");
    if (arm->value != NULL && strlen(arm->value) > KB_MAX_VALUE_BYTES)
        return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/value", "expected at most %u bytes", KB_MAX_VALUE_BYTES);
    if (arm->is_in_catalogue && e->spec.arm_dim > 0 && arm->features == NULL)
        return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/features", "expected %u numbers", e->spec.arm_dim);
    if (arm->features != NULL && kb_first_unmeasurable(arm->features, e->spec.arm_dim) < e->spec.arm_dim)
        return kb_fail_item(KB_ERANGE, msg, "/arms", i, "/features", "expected numbers of at most %g in size",
                            KB_MOST_MAGNITUDE);
    if (arm->decided > KB_MOST_NUMBER || arm->rewarded > KB_MOST_NUMBER)
        return kb_fail_item(KB_ERANGE, msg, "/arms", i, "", "expected counts of at most %llu",
                            (unsigned long long)KB_MOST_NUMBER);
    if (!kb_is_total_measurable(arm->reward_sum))
        return kb_fail_item(KB_ERANGE, msg, "/arms", i, "/reward_sum", "expected at most %g in size", KB_MOST_TOTAL);
    if (arm->square_sum < 0 || arm->square_sum > KB_MOST_SQUARES)
        return kb_fail_item(KB_ERANGE, msg, "/arms", i, "/square_sum", "expected 0 to %g", KB_MOST_SQUARES);
    return KB_OK;
}

const double *kb_summary_vector(const struct kb_engine *e, const struct kb_ev_points *p, size_t i)
{
    return e->history.dim > 0 ? p->x + i * e->history.dim : NULL;
}

enum kb_err kb_summary_check_point(const struct kb_engine *e, const struct kb_ev_points *p, size_t i, uint64_t last,
                                   struct kb_errmsg *msg)
{
    if (p->user[i] >= e->users.n)
        return kb_fail_item(KB_EINVAL, msg, "/user", i, "", "no such user");
    if (p->level[i] > KB_MAX_LEVEL)
        return kb_fail_item(KB_EINVAL, msg, "/level", i, "", "expected 0 to %u", KB_MAX_LEVEL);
    if (p->event[i] < last)
        return kb_fail_item(KB_EINVAL, msg, "/event", i, "", "expected ascending numbers");
    if (!kb_is_sum_measurable(p->count[i], p->sum[i]))
        return kb_fail_item(KB_EINVAL, msg, "/count", i, "", "expected 0 to 2^53, and a sum that so many can have");
    if (p->halvings != NULL && !(p->halvings[i] >= 0 && p->halvings[i] <= KB_MOST_HALVINGS))
        return kb_fail_item(KB_EINVAL, msg, "/halvings", i, "", "expected 0 to %g", KB_MOST_HALVINGS);
    if (kb_first_unmeasurable(kb_summary_vector(e, p, i), e->history.dim) < e->history.dim)
        return kb_fail_item(KB_ERANGE, msg, "/x", i, "", "expected numbers of at most %g in size", KB_MOST_MAGNITUDE);
    return KB_OK;
}

static enum kb_err check_slot(const struct kb_engine *e, const struct kb_ev_open_slot *slot, size_t i,
                              struct kb_errmsg *msg)
{
    const size_t dim = kb_engine_dim(e);

    if (slot->level > KB_MAX_LEVEL)
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/level", "expected 0 to %u", KB_MAX_LEVEL);
    if (!(slot->importance >= 0 && slot->importance <= KB_MOST_IMPORTANCE))
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/importance", "expected 0 to %g", KB_MOST_IMPORTANCE);
    if (kb_ids_find(&e->arm_ids, slot->arm) == KB_ID_NONE)
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/arm", "no such arm");
    if (kb_first_unmeasurable(slot->x, dim) < dim)
        return kb_fail_item(KB_ERANGE, msg, "/slots", i, "/x", "expected numbers of at most %g in size",
                            KB_MOST_MAGNITUDE);
    if (slot->has_reward && !kb_is_measurable(slot->reward))
        return kb_fail_item(KB_ERANGE, msg, "/slots", i, "/reward", "expected at most %g in size", KB_MOST_MAGNITUDE);
    if (slot->has_model + slot->is_unlearned + slot->is_forgotten > slot->has_reward)
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/reward", "a model that lacks it, and no reward");
    if (slot->has_model && !kb_is_measurable(slot->model))
        return kb_fail_item(KB_ERANGE, msg, "/slots", i, "/model", "expected at most %g in size", KB_MOST_MAGNITUDE);
    if (slot->has_reward && !(slot->halvings >= 0 && slot->halvings <= KB_MOST_HALVINGS))
        return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/halvings", "expected 0 to %g", KB_MOST_HALVINGS);
    return KB_OK;
}

enum kb_err kb_summary_check_decision(const struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    if (s->n_slots == 0 || s->n_slots > KB_MAX_SLOTS)
        return kb_fail(KB_EINVAL, msg, "/slots", "expected 1 to %u arms", KB_MAX_SLOTS);
    if (kb_pending_find(&e->pending, s->decision) != NULL)
        return kb_fail(KB_EINVAL, msg, "/decision", "decision '%.100s' stands twice", s->decision);
    if (kb_ids_find(&e->users, s->user) == KB_ID_NONE)
        return kb_fail(KB_EINVAL, msg, "/user", "no such user");
    for (size_t i = 0; i < s->n_slots; i++) {
        const enum kb_err rc = check_slot(e, &s->slots[i], i, msg);

        if (rc != KB_OK)
            return rc;
        if ((s->slots[i].id != NULL) != (s->slots[0].id != NULL))
            return kb_fail_item(KB_EINVAL, msg, "/slots", i, "/id", "expected names for all slots, or for none");
    }
    for (size_t i = 0; i < s->n_values; i++) {
        if (s->values[i].slot >= s->n_slots)
            return kb_fail_item(KB_EINVAL, msg, "/values", i, "/slot", "no such slot");
        if (!kb_is_measurable(s->values[i].value))
            return kb_fail_item(KB_ERANGE, msg, "/values", i, "/value", "expected at most %g in size",
                                KB_MOST_MAGNITUDE);
    }
    if (s->level > KB_MAX_LEVEL)
        return kb_fail(KB_EINVAL, msg, "/level", "expected 0 to %u", KB_MAX_LEVEL);
    if (!(s->importance >= 0 && s->importance <= KB_MOST_IMPORTANCE))
        return kb_fail(KB_EINVAL, msg, "/importance", "expected 0 to %g", KB_MOST_IMPORTANCE);
    if (s->route >= KB_ROUTE_N || s->route == KB_ROUTE_STICKY)
        return kb_fail(KB_EINVAL, msg, "/route", "expected a route that draws");
    return KB_OK;
}

/* Others will follow, and must be told by the next summary. */
static bool are_counts_few(const struct kb_ev_totals *t)
{
    const uint64_t counts[] = {t->decided,    t->rewarded,    t->observed,  t->expired, t->late,
                               t->reset_rows, t->decay.steps, t->unlearned, t->compared};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] > KB_MOST_NUMBER)
            return false;
    for (size_t i = 0; i < KB_ROUTE_N; i++)
        if (t->routes[i].decided > KB_MOST_NUMBER || t->routes[i].repeated > KB_MOST_NUMBER ||
            t->routes[i].rewarded > KB_MOST_NUMBER)
            return false;
    return true;
}

static bool are_totals_measurable(const struct kb_ev_totals *t)
{
    for (size_t i = 0; i < KB_ROUTE_N; i++)
        if (!kb_is_total_measurable(t->routes[i].reward_sum) || !kb_is_square_measurable(t->routes[i].square_sum))
            return false;
    return kb_is_total_measurable(t->reward_sum) && kb_is_square_measurable(t->square_sum) &&
           kb_is_count_measurable(t->reset_count) && kb_is_count_measurable(t->n_learned);
}

/* Rows and decisions stand before the totals: what was learned there was learned by now, and by an event that the
 * summary stands for. */
enum kb_err kb_summary_check_totals(const struct kb_engine *e, const struct kb_ev_totals *t, struct kb_errmsg *msg)
{
    const struct kb_history *h = &e->history;
    const struct kb_decay none = {0}, *decay = kb_decay_is_none(&t->decay) ? &none : &t->decay;
    const double halvings = kb_decay_halvings(decay, &e->spec.forgetting);

    if (!kb_decay_is_valid(decay) || !(halvings <= KB_MOST_HALVINGS) || e->draft->halvings > halvings)
        return kb_fail(KB_EINVAL, msg, "/forgetting", "times or numbers that cannot have been");
    if (!are_counts_few(t) || !are_totals_measurable(t) || fmax(h->n_observed, t->n_learned) > KB_MOST_COUNT / 2)
        return kb_fail(KB_ERANGE, msg, "/part", "counts or sums that no rewards can have");
    if (!kb_reward_sums_are_valid(&t->sums) || t->sums.halvings > halvings)
        return kb_fail(KB_EINVAL, msg, "/sums", "sums that no rewards can have");
    if (t->compared > t->decided || !(t->match_sum >= 0 && t->match_sum <= (double)t->compared))
        return kb_fail(KB_EINVAL, msg, "/match", "more than was decided");
    if (h->n > 0 && h->first_seq[h->n - 1] > e->seq + 1)
        return kb_fail(KB_EINVAL, msg, "/part", "a point is of an event that is still to come");
    if (e->pending.n > t->decided)
        return kb_fail(KB_EINVAL, msg, "/decided", "more decisions are open");
    if (e->draft->n_arms > e->arm_ids.n)
        return kb_fail(KB_EINVAL, msg, "/part", "a point is of an arm that is not there");
    return kb_engine_measure_all(e, &e->spec, msg);
}
