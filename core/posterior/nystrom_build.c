/* Building a dictionary posterior from a history: choosing the dictionary, then filling the regression.
 *
 *   p_j, n_j   admission probability of row j over the dictionary so far; its observations
 *
 * Choosing walks the rows in order and gives each of them the chances it would have had one by one,
 *   P(row j enters) = 1 - (1 - p_j)^n_j,
 * compared with a uniform number keyed by (key, row): the same history and key choose the same points on one machine,
 * and the points chosen are logged, so that a fold needs no such luck. The weight that KORS goes on with is 1 / p_j,
 * that of the single chance that succeeded, as in the online rule [EK, eq. 41].
 *
 * Filling takes the features of all rows by blocks and factors V once. It differs from learning row by row in the
 * order of its sums, hence in the last bits; two fills agree in every bit, whether the dictionary was just chosen by
 * the same object or comes from the log (test: filling_after_choosing_or_not_gives_equal_bits_and_the_dense_answer).
 * For that both paths enter points by the same call, one after the other, and users are anchored in the same order.
 *
 * Cost: choose O(n m (dim + m)); fill O(n m (dim + m) + m^3). */
#include "posterior/nystrom.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "base/rng.h"

/* --- choosing -------------------------------------------------------------------------------------------- */

/* Pushes a point as the next of the dictionary and enters it. [building] */
enum kb_err kb_nystrom_build_point(struct kb_nystrom *n, const struct kb_point *pt, double probability,
                                   struct kb_scratch *s)
{
    enum kb_err rc;
    size_t m = n->base.support.n;
    KB_TRY(kb_posterior_reserve(&n->base, m + 1));
    kb_support_push(&n->base.support, pt, KB_ID_NONE);
    KB_TRY(kb_posterior_anchor_support(&n->base, m, s));
    kb_nystrom_prepare_point(n, s);
    kb_nystrom_enter_point(n, probability, s);
out:
    return rc;
}

/* The admission probability, with the arena left as it was. */
double kb_nystrom_probability(const struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s)
{
    size_t mark = kb_arena_mark(&s->arena);
    double probability = kb_nystrom_admission(p, pt, s);
    kb_arena_reset(&s->arena, mark);
    return probability;
}

/* The log names a dictionary point by the event that first taught it. When one event taught several rows (a slate
 * whose window closed) only the first of them has a name, and the others are never chosen. */
bool kb_nystrom_can_name(const struct kb_history *h, size_t row)
{
    return h->count[row] > 0 && (row == 0 || h->first_seq[row - 1] != h->first_seq[row]);
}

enum kb_err kb_nystrom_choose(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of, uint64_t key,
                              struct kb_scratch *s, struct kb_atom **atoms, size_t *n_atoms)
{
    enum kb_err rc;
    struct kb_nystrom *n = kb_nystrom_of(p);
    if (p->is_resampled)
        return kb_nystrom_resample(p, p, h, node_of, key, s, atoms, n_atoms); /* from the prior: p is empty */
    const size_t n_of_row = p->kernel.is_sum ? KB_N_PARTS - 1 : 1;            /* a row may stand for each component */
    size_t most = h->n < p->max_support / n_of_row ? h->n * n_of_row : p->max_support, count = 0;
    struct kb_atom *chosen = kb_array(most + 1, 1, sizeof *chosen);
    rc = chosen != NULL ? kb_posterior_fit_for(p, s, most, 0) : KB_ENOMEM;
    KB_TRY(rc);
    for (size_t row = 0; row < h->n && count < most; row++) {
        if (row % KB_BLOCK == 0 && !kb_scratch_goes_on(s, KB_BLOCK)) {
            rc = KB_ECANCELLED;
            goto out;
        }
        if (!kb_nystrom_can_name(h, row))
            continue;
        for (size_t i = 0; i < n_of_row && count < most; i++) {
            struct kb_point pt = kb_history_point(h, node_of, row);
            double probability = kb_nystrom_probability(p, &pt, s);
            /* 1 - (1 - p)^count, without cancellation for small p */
            double chance = -expm1(kb_history_count(h, row) * log1p(-probability));
            if (!(chance > 0) || kb_rng_uniform(key, KB_STREAM_DICTIONARY, row) >= chance)
                break;
            KB_TRY(kb_nystrom_build_point(n, &pt, probability, s));
            chosen[count++] = (struct kb_atom){.row = row, .probability = probability};
        }
    }
    *atoms = chosen;
    *n_atoms = count;
    chosen = NULL;
out:
    kb_free(chosen);
    return rc;
}

/* --- filling --------------------------------------------------------------------------------------------- */

/* The dictionary of the given atoms: all users anchored in one go, then point after point. */
static enum kb_err build_dictionary(struct kb_nystrom *n, const struct kb_history *h, const uint32_t *node_of,
                                    const struct kb_atom *atoms, size_t n_atoms, struct kb_scratch *s)
{
    enum kb_err rc;
    KB_TRY(kb_posterior_reserve(&n->base, n_atoms));
    KB_TRY(kb_posterior_fit_for(&n->base, s, n_atoms, 0));
    for (size_t i = 0; i < n_atoms; i++) {
        assert(atoms[i].row < h->n);
        struct kb_point pt = kb_history_point(h, node_of, atoms[i].row);
        kb_support_push(&n->base.support, &pt, KB_ID_NONE);
    }
    KB_TRY(kb_posterior_anchor_support(&n->base, 0, s));
    for (size_t i = 0; i < n_atoms; i++) {
        kb_nystrom_prepare_point(n, s);
        kb_nystrom_enter_point(n, atoms[i].probability, s);
    }
out:
    return rc;
}

/* Features of a block of rows into the regression. */
static void fill_block(struct kb_nystrom *n, const struct kb_history *h, const uint32_t *node_of, size_t first,
                       size_t n_rows, struct kb_scratch *s, double *block)
{
    size_t m = n->base.support.n, ld = kb_block_ld(m);
    struct kb_point points[KB_BLOCK];
    double diag[KB_BLOCK], residual[KB_BLOCK], count[KB_BLOCK], sum[KB_BLOCK];
    for (size_t i = 0; i < n_rows; i++) {
        points[i] = kb_history_point(h, node_of, first + i);
        count[i] = kb_history_count(h, first + i);
        sum[i] = kb_history_sum(h, first + i) - n->mean * count[i];
        diag[i] = kb_kernel_diag(&n->base.kernel, &points[i], s);
        kb_posterior_column(&n->base, m, &points[i], s, block + i * ld);
    }
    kb_features_map_many(&n->features, block, ld, n_rows);
    kb_features_residuals(&n->features, block, ld, n_rows, diag, residual);
    kb_projection_error_add_block(&n->error, &n->base.kernel, points, n_rows, block, ld, m, diag, residual, count,
                                  &s->arena);
    if (n->base.kernel.is_sum)
        for (size_t i = 0; i < n_rows; i++)
            kb_nystrom_count_parts(n, &points[i], block + i * ld, count[i], sum[i] + n->mean * count[i], s);
    kb_ridge_accumulate(&n->ridge[0], m, block, ld, n_rows, count, sum);
}

/* Everything but the dictionary; the projection error begins anew as well. is_lifted: see kb_ridge_factor. */
static enum kb_err fill_ridges(struct kb_nystrom *n, const struct kb_history *h, const uint32_t *node_of,
                               struct kb_scratch *s, bool is_lifted)
{
    enum kb_err rc = KB_OK;
    const size_t m = n->base.support.n, mark = kb_arena_mark(&s->arena);
    double *block = kb_posterior_block(s, m);
    kb_projection_error_clear(&n->error);
    kb_part_sums_clear(&n->parts, m);
    for (size_t i = 0; i < n->n_ridges; i++)
        kb_ridge_clear(&n->ridge[i], m);
    for (size_t first = 0; first < h->n && rc == KB_OK; first += KB_BLOCK) {
        fill_block(n, h, node_of, first, h->n - first < KB_BLOCK ? h->n - first : KB_BLOCK, s, block);
        if (!kb_scratch_goes_on(s, KB_BLOCK))
            rc = KB_ECANCELLED;
    }
    kb_arena_reset(&s->arena, mark);
    KB_TRY(rc);
    for (size_t i = 1; i < n->n_ridges; i++)
        kb_ridge_gather_from(&n->ridge[i], &n->ridge[0], m);
    for (size_t i = 0; i < n->n_ridges && m > 0; i++)
        KB_TRY(kb_ridge_factor(&n->ridge[i], m, is_lifted));
out:
    return rc;
}

enum kb_err kb_nystrom_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                            const struct kb_atom *atoms, size_t n_atoms, struct kb_scratch *s)
{
    enum kb_err rc = KB_OK;
    struct kb_nystrom *n = kb_nystrom_of(p);
    assert(p->support.n == 0 || p->support.n == n_atoms); /* choose may have built it already */
    if (p->support.n == 0)
        KB_TRY(build_dictionary(n, h, node_of, atoms, n_atoms, s));
    KB_TRY(kb_posterior_fit_for(p, s, p->support.n, 0));
    rc = fill_ridges(n, h, node_of, s, false);
    if (rc == KB_ENOTPD) {
        kb_posterior_count_clamp(p);
        rc = fill_ridges(n, h, node_of, s, true);
    }
    if (rc == KB_OK)
        kb_nystrom_follow_open(n, NULL);
out:
    return rc;
}
