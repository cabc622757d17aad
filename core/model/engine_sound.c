/* Whether the parts of a snapshot fit each other: asked once all of it has been read, so that what follows may use its
 * numbers as indices, order and weights without a further look. Each loader has judged its own part by itself.
 *
 * The rules are those that every fold keeps:
 *
 *   rows          of users and arms that are there, by ascending events up to the snapshot's, no later than now
 *   decisions     the same
 *   support       of users and arms that are there
 *   units         the history's is that of the halvings that have passed, the posterior's is not ahead of it
 *
 * A snapshot is a cache: one that is refused is made anew from the log. */
#include <math.h>

#include "model/engine_codec.h"
#include "base/magnitude.h"
#include "posterior/learning.h"
#include "posterior/open.h"

static bool is_row_sound(const struct kb_engine *e, size_t row, double halvings)
{
    const struct kb_history *h = &e->history;

    return h->user[row] < e->users.n && h->arm[row] < e->arm_ids.n && h->level[row] <= KB_MAX_LEVEL &&
           h->first_seq[row] >= (row > 0 ? h->first_seq[row - 1] : 1) && h->first_seq[row] <= e->seq &&
           kb_is_sum_measurable(h->count[row], h->sum[row]) && h->halvings[row] >= 0 && h->halvings[row] <= halvings;
}

static bool are_rows_sound(const struct kb_engine *e, double halvings)
{
    const struct kb_history *h = &e->history;

    for (size_t row = 0; row < h->n; row++)
        if (!is_row_sound(e, row, halvings))
            return false;
    return kb_first_unmeasurable(h->x, h->n * h->dim) == h->n * h->dim && h->n_observed >= 0 &&
           h->unit == kb_decay_unit(halvings);
}

static bool is_decision_sound(const struct kb_engine *e, const struct kb_pending_entry *entry, double halvings)
{
    for (size_t i = 0; i < entry->n_slots; i++) {
        const struct kb_pending_slot *slot = &entry->slot[i];

        if (slot->arm >= e->arm_ids.n || !kb_is_measurable(slot->reward) || !kb_is_measurable(slot->model) ||
            !(slot->halvings >= 0 && slot->halvings <= halvings) ||
            !(slot->importance >= 0 && slot->importance <= KB_MOST_IMPORTANCE))
            return false;
    }
    for (const struct kb_pending_value *v = entry->values; v != NULL; v = v->next)
        if (!kb_is_measurable(v->value))
            return false;
    return entry->user < e->users.n && entry->route != KB_ROUTE_STICKY &&
           kb_first_unmeasurable(entry->x, entry->n_x) == entry->n_x;
}

static bool are_decisions_sound(const struct kb_engine *e, double halvings)
{
    for (size_t i = 0; i < e->pending.n; i++)
        if (!is_decision_sound(e, e->pending.due[i].entry, halvings))
            return false;
    return true;
}

static bool are_arms_sound(const struct kb_engine *e)
{
    for (size_t i = 0; i < e->arms.n; i++) {
        const struct kb_arm *arm = &e->arms.arm[i];
        const double *features = arm->parts.features;

        if (arm->is_in_catalogue
                ? e->spec.arm_dim > 0 && features == NULL
                : arm->is_active || arm->is_stopped || arm->parts.eligibility != NULL || arm->parts.value != NULL)
            return false;
        if (!kb_is_total_measurable(arm->reward_sum) || arm->square_sum < 0 ||
            (features != NULL && kb_first_unmeasurable(features, e->spec.arm_dim) < e->spec.arm_dim))
            return false;
    }
    return true;
}

static bool are_totals_sound(const struct kb_engine *e)
{
    for (size_t i = 0; i < KB_ROUTE_N; i++)
        if (!kb_is_total_measurable(e->routes[i].reward_sum) || !kb_is_square_measurable(e->routes[i].square_sum))
            return false;
    return kb_is_total_measurable(e->reward_sum) && kb_is_count_measurable(e->reset_count) && e->seq > 0 &&
           e->seq < KB_MOST_COUNT && e->pending.n <= e->n_decided && e->n_compared <= e->n_decided &&
           e->match_sum >= 0 && e->match_sum <= (double)e->n_compared;
}

bool kb_engine_is_state_sound(const struct kb_engine *e)
{
    const double halvings = kb_decay_halvings(&e->decay, &e->spec.forgetting);

    return e->configured.context_dim == e->spec.context_dim && e->configured.arm_dim == e->spec.arm_dim &&
           halvings <= KB_MOST_HALVINGS && are_rows_sound(e, halvings) && are_decisions_sound(e, halvings) &&
           are_arms_sound(e) && are_totals_sound(e) && kb_engine_measure_all(e, &e->spec, NULL) == KB_OK;
}

/* Open slots that deviations know, as these count them. */
static bool are_open_sound(const struct kb_engine *e)
{
    size_t n = 0;

    for (size_t i = 0; i < e->pending.n; i++)
        for (size_t k = 0; k < e->pending.due[i].entry->n_slots; k++)
            n += e->pending.due[i].entry->slot[k].is_open;
    return n == kb_posterior_n_open(e->posterior);
}

bool kb_engine_is_posterior_sound(const struct kb_engine *e)
{
    const struct kb_posterior *p = e->posterior;

    for (size_t i = 0; i < kb_posterior_n_support(p); i++) {
        const struct kb_point pt = kb_posterior_support_point(p, i);

        if (pt.user.index >= e->users.n || pt.arm >= e->arm_ids.n || pt.level > KB_MAX_LEVEL ||
            kb_first_unmeasurable(pt.x, e->history.dim) < e->history.dim)
            return false;
    }
    return kb_posterior_unit(p) <= e->history.unit && are_open_sound(e);
}
