/* The factor of an exact posterior: how it grows, follows counts, and forgets (noisy_gram.h).
 *
 *   a new point     appends a row to F
 *   d more at i     lowers the i-th diagonal by delta = lambda (1/n - 1/(n+d)): a rank-one downdate by
 *                   e_i sqrt(delta), from column i on
 *   d less at i     raises the i-th diagonal by as much: a rank-one update
 *   forgetting      n_i becomes left n_i for all i: the factor anew, to the side
 *
 * Under forgetting counts are sums of weights. A point of which nothing is left keeps KB_LEAST_COUNT, so that its noise
 * is finite; a fill leaves it out. One more observation there replaces a noise that drowns all else in row and column
 * i, and a downdate would be left with rounding: column i is computed from the kernel instead, and its difference taken
 * off what is below (revive).
 *
 * Numerical notes. The downdate is harmless: F F^T >= (lambda / n) e_i e_i^T, so |F^-1 e_i sqrt(delta)|^2 <=
 * delta n / lambda = d/(n+d), which is at most 1/2 without forgetting and 1 - FADED with it, far enough from 1 where
 * downdates lose their digits. A pivot^2 is the Schur complement of a
 * matrix >= lambda N^-1, hence >= lambda / n_i; below it that is taken, or JITTER diag where even that drowns in
 * rounding (a smaller pivot would blow the errors of its row up, and those of the next rows in turn). Should a
 * factorisation or downdate fail all the same, the factor is built anew in place from the points, row by row with
 * lifted pivots, which cannot fail; counted in n_clamped. */
#include "posterior/noisy_gram.h"

#include <math.h>
#include <string.h>

#include "linalg/linalg.h"

#define ROUNDING 1e-6
#define FADED 1e-4   /* of an observation: less of it is revived rather than downdated */
#define JITTER 1e-12 /* of the diagonal: a pivot below is made of rounding errors */

double kb_noisy_gram_log_det(const struct kb_noisy_gram *g)
{
    double log_counts = 0;
    if (g->f->n == 0)
        return 0;
    for (size_t i = 0; i < g->f->n; i++)
        log_counts += log(g->count[i]);
    return kb_chol_logdet(g->f) + log_counts - (double)g->f->n * log(g->p->lambda);
}

double kb_count_left(double count, double left)
{
    return fmax(left * count, KB_LEAST_COUNT);
}

double kb_count_lowered(double count, double d)
{
    return count - d >= 0.5 ? count - d : KB_LEAST_COUNT;
}

/* --- rows ------------------------------------------------------------------------------------------------ */

/* What a squared pivot cannot lie below: the noise by theory, JITTER diag where the noise drowns in rounding. */
static double pivot_floor(double noise, double diag)
{
    return fmax(noise, JITTER * diag);
}

static double noise_of(const struct kb_noisy_gram *g, size_t i)
{
    return g->p->lambda / (g->left < 1 ? kb_count_left(g->count[i], g->left) : g->count[i]);
}

/* x = F^-1 x. */
static void solve(const struct kb_noisy_gram *g, double *x)
{
    if (g->tiles != NULL)
        kb_tiled_solve(kb_widest_lanes(), g->tiles, x);
    else
        kb_chol_solve_l(g->f, x);
}

/* A pivot that rounding has eaten is lifted. */
struct kb_appended kb_noisy_gram_append(const struct kb_noisy_gram *g, double *w, const double *probe, size_t n_probe,
                                        struct kb_scratch *s)
{
    size_t i = g->tiles != NULL ? g->tiles->n : g->f->n, mark = kb_arena_mark(&s->arena);
    double *row = kb_arena_doubles(&s->arena, kb_tiled_padded(i + 1));
    struct kb_appended a = {0};
    g->column(g, i, i + 1, s, row);
    double noise = noise_of(g, i), diag = row[i] + noise, floor = pivot_floor(noise, diag);
    a.along = n_probe > 0 ? kb_dot(n_probe, row, probe) : 0;
    solve(g, row);
    a.square = kb_dot(i, row, row);
    if (!(diag - a.square >= (1 - ROUNDING) * floor))
        kb_posterior_count_clamp(g->p);
    a.pivot = sqrt(diag - a.square >= floor ? diag - a.square : floor);
    if (w != NULL)
        w[i] = (w[i] - kb_dot(i, row, w)) / a.pivot;
    if (g->tiles != NULL)
        kb_tiled_append_row(g->tiles, row, a.pivot);
    else
        kb_chol_append_row(g->f, row, a.pivot);
    kb_arena_reset(&s->arena, mark);
    return a;
}

/* Writes the lower triangle of K + lambda N^-1 where the factor will stand; returns the largest k(s,s): rounding is
 * of the order of a row's own diagonal, so noise on others does not count. */
static double write_gram(const struct kb_noisy_gram *g, struct kb_scratch *s)
{
    size_t n = g->n_points, mark = kb_arena_mark(&s->arena);
    double *row = kb_arena_doubles(&s->arena, n), largest = 0;
    for (size_t i = 0; i < n; i++) {
        g->column(g, i, i + 1, s, row);
        largest = fmax(largest, row[i]);
        row[i] += noise_of(g, i);
        for (size_t j = 0; j <= i; j++)
            g->f->l[j * g->f->cap + i] = row[j];
    }
    kb_arena_reset(&s->arena, mark);
    return largest;
}

/* Whether every pivot is above what rounding alone could have left there. */
static bool is_healthy(const struct kb_noisy_gram *g, double largest)
{
    for (size_t i = 0; i < g->f->n; i++) {
        double pivot = g->f->l[i * (g->f->cap + 1)];
        if (!(pivot * pivot >= (1 - ROUNDING) * pivot_floor(noise_of(g, i), largest)))
            return false;
    }
    return true;
}

/* In one go where that is sound and row by row where not. */
void kb_noisy_gram_factor(const struct kb_noisy_gram *g, struct kb_scratch *s)
{
    struct kb_noisy_gram square = *g;
    square.tiles = NULL;
    g->f->n = 0;
    const double largest = g->n_points > 0 ? write_gram(g, s) : 0;
    if (g->n_points > 0 && (kb_chol_factor_in_place(g->f, g->n_points) != KB_OK || !is_healthy(g, largest))) {
        g->f->n = 0;
        while (g->f->n < g->n_points)
            (void)kb_noisy_gram_append(&square, NULL, NULL, 0, s);
    }
    if (g->tiles != NULL)
        kb_tiled_pack(g->tiles, g->f);
}

/* --- counts ---------------------------------------------------------------------------------------------- */

/* Column i of the factor for the count that point i has by now, computed anew; then what is below it takes the old
 * column back and gives the new one. O(n^2). */
static enum kb_err revive_square(const struct kb_noisy_gram *g, size_t i, struct kb_scratch *s)
{
    struct kb_chol *f = g->f;
    size_t n = f->n, below = n - i - 1, cap = f->cap;
    double *column = kb_arena_doubles(&s->arena, n), *row = kb_arena_doubles(&s->arena, n), *at = f->l + i * (cap + 1);
    g->column(g, i, n, s, column);
    for (size_t j = 0; j < i; j++)
        row[j] = f->l[j * cap + i];
    double noise = g->p->lambda / g->count[i], diag = column[i] + noise, schur = diag - kb_dot(i, row, row);
    double pivot = sqrt(fmax(schur, pivot_floor(noise, diag)));
    if (i > 0 && below > 0)
        kb_gemv(below, i, -1, f->l + i + 1, cap, row, 1, column + i + 1);
    memset(row, 0, n * sizeof *row);
    memcpy(row + i + 1, at + 1, below * sizeof *row);
    kb_chol_update(f, row, i + 1);
    at[0] = pivot;
    for (size_t k = 1; k <= below; k++)
        at[k] = column[i + k] /= pivot;
    memset(column, 0, (i + 1) * sizeof *column);
    return kb_chol_downdate(f, column, i + 1);
}

static enum kb_err revive(const struct kb_noisy_gram *g, size_t i, struct kb_scratch *s)
{
    if (g->tiles == NULL)
        return revive_square(g, i, s);
    kb_tiled_unpack(g->tiles, g->f);
    const enum kb_err rc = revive_square(g, i, s);
    kb_tiled_pack(g->tiles, g->f);
    return rc;
}

/* n_i grows to n_i + d: the downdate of the file header. */
static enum kb_err lower_noise(const struct kb_noisy_gram *g, size_t i, double d, struct kb_scratch *s)
{
    double delta = g->p->lambda * (1 / g->count[i] - 1 / (g->count[i] + d));
    const size_t room = kb_tiled_padded(g->n_points);
    double *x = kb_arena_doubles(&s->arena, room);
    memset(x, 0, room * sizeof *x);
    x[i] = sqrt(delta);
    g->count[i] += d;
    if (g->tiles == NULL)
        return kb_chol_downdate(g->f, x, i);
    return kb_tiled_downdate(kb_widest_lanes(), g->tiles, x, i, kb_arena_doubles(&s->arena, 2 * room));
}

void kb_noisy_gram_raise(const struct kb_noisy_gram *g, size_t i, double d, struct kb_scratch *s)
{
    enum kb_err rc;
    if (g->count[i] >= FADED * d) {
        rc = lower_noise(g, i, d, s);
    } else {
        g->count[i] += d;
        rc = revive(g, i, s);
    }
    if (rc != KB_OK) {
        kb_posterior_count_clamp(g->p);
        kb_noisy_gram_factor(g, s);
    }
}

/* An update is stable for every size of it, a noise that drowns all else among them. */
void kb_noisy_gram_lower(const struct kb_noisy_gram *g, size_t i, double d, struct kb_scratch *s)
{
    const double left = kb_count_lowered(g->count[i], d);
    double *x = kb_arena_doubles(&s->arena, g->n_points);
    memset(x, 0, g->n_points * sizeof *x);
    x[i] = sqrt(g->p->lambda * (1 / left - 1 / g->count[i]));
    g->count[i] = left;
    if (g->tiles != NULL)
        kb_tiled_unpack(g->tiles, g->f);
    kb_chol_update(g->f, x, i);
    if (g->tiles != NULL)
        kb_tiled_pack(g->tiles, g->f);
}
