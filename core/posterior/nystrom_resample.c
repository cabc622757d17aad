/* Drawing a dictionary from posterior variances  [BKB, Alg. 1; contextual as EK's CBKB and CBBKB].
 *
 *   s_j, n_j    row j of the history, its observations (pulls)
 *   sd^2(s_j)   variance under the posterior `from`, in force before the draw (DTC, BKB eq. 4)
 *   q           oversampling; lambda: ridge; C: batch ratio
 *
 *   p_j = min(1, q sd^2(s_j) / lambda)       chance of one pull; BKB's sigma~^2 is sd^2 / lambda
 *   P(row j is drawn) = 1 - (1 - p_j)^n_j    one chance per pull, one point however many of them succeed
 *   drawn anew when 1 + sum over rewards since the last draw of sd^2(s) / lambda > C    (C = 1 under bkb)
 *
 * The weights 1/p of BKB's selection matrix are not needed: its posterior projects on the span of the points, which no
 * scaling changes, so post_nystrom.c serves as it is. The probability p_j goes into the log with the point.
 *
 * Deviations. A drawn row that adds no direction to the points before it (residual below 1e-6 k(s,s), admission.c)
 * is left out: repeats, and more points than the rank of a linear kernel, would only spoil the factor. Nor is the
 * dictionary ever empty: where nothing is drawn, which happens at a small q, the row of largest p enters; the papers'
 * variance would fall back on the prior and its code ends there (test: an_empty_draw_keeps_the_likeliest_row). Rows are
 * entered in their order, so a dictionary that meets max_dictionary lacks the latest ones; the next draw finds their
 * variances high. The sum that makes a draw due has variances as updated within the batch, each before its own step,
 * where BBKB has those of the batch's start: a draw comes a little later, and no variance falls by more than e^(C - 1)
 * in between, where it would be C (test: within_a_batch_variances_fall_by_no_more_than_e_to_the_sum; decisions/0058).
 *
 * Cost: O(n m (dim + m)) for the variances under m points, and the same for those drawn; O(n) doubles. */
#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "posterior/nystrom.h"
#include "posterior/open.h"
#include "base/rng.h"

/* p_j of every row, 0 for those that no event names. Asked for before p is built, since `from` may be p. */
static enum kb_err probabilities(const struct kb_posterior *from, const struct kb_history *h, const uint32_t *node_of,
                                 double q, struct kb_scratch *s, double *probability)
{
    struct kb_point block[KB_BLOCK];
    for (size_t first = 0; first < h->n; first += KB_BLOCK) {
        size_t n = h->n - first < KB_BLOCK ? h->n - first : KB_BLOCK;
        for (size_t i = 0; i < n; i++)
            block[i] = kb_history_point(h, node_of, first + i);
        kb_posterior_variances(from, block, n, s, probability + first);
        if (!kb_scratch_goes_on(s, n))
            return KB_ECANCELLED;
    }
    for (size_t row = 0; row < h->n; row++)
        probability[row] = kb_nystrom_can_name(h, row) ? fmin(1.0, q * probability[row] / from->lambda) : 0.0;
    return KB_OK;
}

/* Whether one of the row's pulls succeeds: 1 - (1 - p)^n without cancellation for small p. A p of 1 gives -expm1(-inf),
 * which is 1. */
static bool is_drawn(double probability, double count, uint64_t key, size_t row)
{
    double chance = -expm1(count * log1p(-probability));
    return chance > 0 && kb_rng_uniform(key, KB_STREAM_DICTIONARY, row) < chance;
}

/* The row of largest p, the earliest of them; h->n when all are zero. */
static size_t likeliest(const double *probability, size_t n)
{
    size_t best = n;
    for (size_t row = 0; row < n; row++) {
        if (probability[row] > (best < n ? probability[best] : 0.0))
            best = row;
    }
    return best;
}

/* Puts the row behind the dictionary being built, unless it adds no direction or there is no more room. */
static enum kb_err enter(struct kb_nystrom *n, const struct kb_history *h, const uint32_t *node_of, struct kb_atom atom,
                         struct kb_scratch *s, struct kb_atom *chosen, size_t *n_chosen)
{
    enum kb_err rc = KB_OK;
    struct kb_point pt = kb_history_point(h, node_of, atom.row);
    if (!(kb_nystrom_probability(&n->base, &pt, s) > 0))
        return KB_OK;
    KB_TRY(kb_nystrom_build_point(n, &pt, atom.probability, s));
    chosen[(*n_chosen)++] = atom;
out:
    return rc;
}

enum kb_err kb_nystrom_resample(struct kb_posterior *p, const struct kb_posterior *from, const struct kb_history *h,
                                const uint32_t *node_of, uint64_t key, struct kb_scratch *s, struct kb_atom **atoms,
                                size_t *n_atoms)
{
    enum kb_err rc = KB_ENOMEM;
    size_t most = h->n < p->max_support ? h->n : p->max_support, count = 0;
    double *probability = kb_array(h->n + 1, 1, sizeof *probability);
    struct kb_atom *chosen = kb_array(most + 1, 1, sizeof *chosen);
    if (probability == NULL || chosen == NULL)
        goto out;
    KB_TRY(kb_posterior_fit_scratch(from, s, 0));
    KB_TRY(kb_posterior_fit_for(p, s, most, 0));
    KB_TRY(probabilities(from, h, node_of, p->q, s, probability));
    for (size_t row = 0; row < h->n && count < most; row++) {
        struct kb_atom atom = {.row = row, .probability = probability[row]};
        if (is_drawn(probability[row], kb_history_count(h, row), key, row))
            KB_TRY(enter(kb_nystrom_of(p), h, node_of, atom, s, chosen, &count));
    }
    size_t best = likeliest(probability, h->n);
    if (count == 0 && best < h->n)
        KB_TRY(enter(kb_nystrom_of(p), h, node_of, (struct kb_atom){best, probability[best]}, s, chosen, &count));
    *atoms = chosen;
    *n_atoms = count;
    chosen = NULL;
out:
    kb_free(probability);
    kb_free(chosen);
    return rc;
}

/* --- the posterior's side of it ------------------------------------------------------------------------------ */

double kb_posterior_accumulated(const struct kb_posterior *p)
{
    return p->accumulated;
}

/* A reward always brings some variance, so that bkb, whose ratio is 1, is outdated after each. So is a model without a
 * dictionary, which would show nothing of what it has learned until the ratio is passed. */
bool kb_posterior_is_outdated(const struct kb_posterior *p)
{
    return p->is_outdated || kb_posterior_holds_dead(p) ||
           (p->is_resampled && p->accumulated > 0 && (p->support.n == 0 || 1.0 + p->accumulated > p->batch_ratio));
}

enum kb_err kb_posterior_resample(struct kb_posterior *p, const struct kb_posterior *from, const struct kb_history *h,
                                  const uint32_t *node_of, uint64_t key, struct kb_scratch *s, struct kb_atom **atoms,
                                  size_t *n)
{
    assert(p->support.n == 0 && p->is_resampled);
    *atoms = NULL;
    *n = 0;
    return p->ops->resample(p, from, h, node_of, key, s, atoms, n);
}
