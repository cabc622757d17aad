/* See ope_slots.h. */
#include "evaluate/ope_slots.h"

#include <math.h>

int ld_ope_slots_init(struct ld_ope_slots *s)
{
    int rc = ld_ope_series_init(&s->totals);

    rc |= ld_ope_series_init(&s->by_slot);
    rc |= ld_ope_series_init(&s->pseudo);
    return rc;
}

void ld_ope_slots_close(struct ld_ope_slots *s)
{
    ld_ope_series_close(&s->totals);
    ld_ope_series_close(&s->by_slot);
    ld_ope_series_close(&s->pseudo);
}

/* What a slot has, summed over those of a decision. */
struct sums {
    double total, by_slot, weights;
    size_t n;
};

static void add_slot(struct ld_ope_slots *s, struct sums *of, double w, double reward)
{
    const double r = isnan(reward) ? 0 : reward;

    of->total += r;
    of->by_slot += w * r;
    of->weights += w;
    of->n++;
    s->w += w;
    s->ww += w * w;
}

/* Mass on arms of logged probability 0, as all others have where the arm shown had 1, and what is given to arms that
 * are no candidates. */
static double unsupported(const struct ld_logged *slot, const double *pi)
{
    double lost = 0, sum = 0;

    if (slot->logged == NULL && slot->propensity >= LD_OPE_ONE)
        return fmax(1 - pi[slot->chosen], 0);
    for (size_t i = 0; i < slot->n; i++) {
        sum += pi[i];
        lost += slot->logged != NULL && slot->logged[i] <= 0 && i != slot->chosen ? pi[i] : 0;
    }
    return lost + (sum < 1 - 1e-6 ? 1 - sum : 0);
}

int ld_ope_slots_add(struct ld_ope_slots *s, struct ld_ope_policy *policy, const struct ld_decisions *log,
                     const struct ld_logged *ev, double w, struct ld_message *why)
{
    struct sums of = {.n = 0};
    bool is_missing = false;

    add_slot(s, &of, w, ev->reward);
    s->n_later += ev->n_more;
    for (size_t k = 0; k < ev->n_more; k++) {
        const struct ld_logged *slot = &ev->more[k];
        const double *pi = NULL;

        if (policy != NULL && policy->ops->propensities(policy, log, slot, &pi, why) != 0)
            return -1;
        is_missing |= pi != NULL && isnan(slot->propensity);
        s->unsupported += pi != NULL ? unsupported(slot, pi) : 0;
        add_slot(s, &of, pi != NULL ? pi[slot->chosen] / slot->propensity : 1, slot->reward);
    }
    const double weight = 1 + of.weights - (double)of.n;
    ld_ope_series_add(&s->totals, of.total, 1);
    ld_ope_series_add(&s->by_slot, of.by_slot, 1);
    ld_ope_series_add(&s->pseudo, weight * of.total, 1);
    s->n_missing += is_missing;
    s->g += weight;
    s->gg += weight * weight;
    s->max_by_slot = fmax(s->max_by_slot, of.weights);
    s->max_pseudo = fmax(s->max_pseudo, fabs(weight));
    return 0;
}
