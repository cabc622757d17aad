/* The factor of an exact posterior: how it grows, follows counts, and forgets. Letters are those of post_exact.c.
 *
 *   a new point     appends a row to F
 *   d more at i     lowers the i-th diagonal by delta = lambda (1/n - 1/(n+d)): a rank-one downdate by
 *                   e_i sqrt(delta), from column i on
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
 * factorisation or downdate fail all the same, the factor is built anew in place from the support, row by row with
 * lifted pivots, which cannot fail; counted in n_clamped. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "posterior/exact.h"
#include "linalg/linalg.h"

#define ROUNDING 1e-6
#define FADED 1e-4   /* of an observation: less of it is revived rather than downdated */
#define JITTER 1e-12 /* of the diagonal: a pivot below is made of rounding errors */

/* ln det(I + K_t / lambda) by the header of post_exact.c. */
double kb_exact_log_det(const struct kb_exact *e)
{
    double log_counts = 0;
    if (e->f.n == 0)
        return 0;
    for (size_t i = 0; i < e->f.n; i++)
        log_counts += log(e->count[i]);
    return kb_chol_logdet(&e->f) + log_counts - (double)e->f.n * log(e->base.lambda);
}

void kb_exact_refresh(struct kb_exact *e)
{
    for (size_t i = 0; i < e->f.n; i++)
        e->w[i] = e->sum[i] / e->count[i];
    kb_chol_solve_l(&e->f, e->w);
    e->base.log_det = kb_exact_log_det(e);
}

/* --- rows ------------------------------------------------------------------------------------------------ */

/* What a squared pivot cannot lie below: the noise by theory, JITTER diag where the noise drowns in rounding. */
static double pivot_floor(double noise, double diag)
{
    return fmax(noise, JITTER * diag);
}

/* The factor f in the making, e->f or the spare one, and the share of the counts that it is for. */
struct making {
    struct kb_chol *f;
    double left;
};

static double noise_of(const struct kb_exact *e, const struct making *m, size_t i)
{
    return e->base.lambda / (m->left < 1 ? kb_exact_left_of(e->count[i], m->left) : e->count[i]);
}

/* Appends the row of support point i = f.n, lifting its pivot where rounding has eaten it. */
static void append_row(struct kb_exact *e, const struct making *m, struct kb_scratch *s)
{
    size_t i = m->f->n, mark = kb_arena_mark(&s->arena);
    double *row = kb_arena_doubles(&s->arena, i + 1);
    struct kb_point pt = kb_support_point(&e->base.support, i);
    kb_posterior_column(&e->base, i + 1, &pt, s, row);
    double noise = noise_of(e, m, i), diag = row[i] + noise, floor = pivot_floor(noise, diag);
    kb_chol_solve_l(m->f, row);
    double schur = diag - kb_dot(i, row, row);
    if (!(schur >= (1 - ROUNDING) * floor))
        kb_posterior_count_clamp(&e->base);
    kb_chol_append_row(m->f, row, sqrt(schur >= floor ? schur : floor));
    kb_arena_reset(&s->arena, mark);
}

/* Writes the lower triangle of K_UU + lambda N^-1 where the factor will stand; returns the largest k(s,s): rounding is
 * of the order of a row's own diagonal, so noise on others does not count. */
static double write_gram(struct kb_exact *e, const struct making *m, struct kb_scratch *s)
{
    size_t n = e->base.support.n, mark = kb_arena_mark(&s->arena);
    double *row = kb_arena_doubles(&s->arena, n), largest = 0;
    for (size_t i = 0; i < n; i++) {
        struct kb_point pt = kb_support_point(&e->base.support, i);
        kb_posterior_column(&e->base, i + 1, &pt, s, row);
        largest = fmax(largest, row[i]);
        row[i] += noise_of(e, m, i);
        for (size_t j = 0; j <= i; j++)
            m->f->l[j * m->f->cap + i] = row[j];
    }
    kb_arena_reset(&s->arena, mark);
    return largest;
}

/* Whether every pivot is above what rounding alone could have left there. */
static bool is_healthy(const struct kb_exact *e, const struct making *m, double largest)
{
    for (size_t i = 0; i < m->f->n; i++) {
        double pivot = m->f->l[i * (m->f->cap + 1)];
        if (!(pivot * pivot >= (1 - ROUNDING) * pivot_floor(noise_of(e, m, i), largest)))
            return false;
    }
    return true;
}

/* The factor anew from the support, in one go where that is sound and row by row where not; cannot fail. */
static void make_factor(struct kb_exact *e, const struct making *m, struct kb_scratch *s)
{
    m->f->n = 0;
    if (e->base.support.n == 0)
        return;
    double largest = write_gram(e, m, s);
    if (kb_chol_factor_in_place(m->f, e->base.support.n) == KB_OK && is_healthy(e, m, largest))
        return;
    m->f->n = 0;
    while (m->f->n < e->base.support.n)
        append_row(e, m, s);
}

void kb_exact_append_row(struct kb_exact *e, struct kb_scratch *s)
{
    append_row(e, &(struct making){.f = &e->f, .left = 1}, s);
}

void kb_exact_factor(struct kb_exact *e, struct kb_scratch *s)
{
    make_factor(e, &(struct making){.f = &e->f, .left = 1}, s);
}

/* --- counts ---------------------------------------------------------------------------------------------- */

/* Column i of the factor for the count that point i has by now, computed anew; then what is below it takes the old
 * column back and gives the new one. O(n^2). */
static enum kb_err revive(struct kb_exact *e, size_t i, struct kb_scratch *s)
{
    size_t n = e->f.n, below = n - i - 1, cap = e->f.cap;
    double *column = kb_arena_doubles(&s->arena, n), *row = kb_arena_doubles(&s->arena, n),
           *at = e->f.l + i * (cap + 1);
    struct kb_point pt = kb_support_point(&e->base.support, i);
    kb_posterior_column(&e->base, n, &pt, s, column);
    for (size_t j = 0; j < i; j++)
        row[j] = e->f.l[j * cap + i];
    double noise = e->base.lambda / e->count[i], diag = column[i] + noise, schur = diag - kb_dot(i, row, row);
    double pivot = sqrt(fmax(schur, pivot_floor(noise, diag)));
    if (i > 0 && below > 0)
        kb_gemv(below, i, -1, e->f.l + i + 1, cap, row, 1, column + i + 1);
    memset(row, 0, n * sizeof *row);
    memcpy(row + i + 1, at + 1, below * sizeof *row);
    kb_chol_update(&e->f, row, i + 1);
    at[0] = pivot;
    for (size_t k = 1; k <= below; k++)
        at[k] = column[i + k] /= pivot;
    memset(column, 0, (i + 1) * sizeof *column);
    return kb_chol_downdate(&e->f, column, i + 1);
}

/* n_i grows to n_i + d: the downdate of the file header. */
static enum kb_err lower_noise(struct kb_exact *e, size_t i, double d, struct kb_scratch *s)
{
    double delta = e->base.lambda * (1 / e->count[i] - 1 / (e->count[i] + d));
    double *x = kb_arena_doubles(&s->arena, e->f.n);
    memset(x, 0, e->f.n * sizeof *x);
    x[i] = sqrt(delta);
    e->count[i] += d;
    return kb_chol_downdate(&e->f, x, i);
}

void kb_exact_raise_count(struct kb_exact *e, size_t i, double d, struct kb_scratch *s)
{
    enum kb_err rc;
    if (e->count[i] >= FADED * d) {
        rc = lower_noise(e, i, d, s);
    } else {
        e->count[i] += d;
        rc = revive(e, i, s);
    }
    if (rc != KB_OK) {
        kb_posterior_count_clamp(&e->base);
        kb_exact_factor(e, s);
    }
}

/* --- forgetting ------------------------------------------------------------------------------------------ */

enum kb_err kb_exact_reserve_spare(struct kb_posterior *p, size_t n)
{
    kb_exact_of(p)->spare.n = 0;
    return kb_chol_reserve(&kb_exact_of(p)->spare, n);
}

void kb_exact_prepare_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    assert(kb_exact_of(p)->spare.cap >= p->support.n);
    make_factor(kb_exact_of(p), &(struct making){.f = &kb_exact_of(p)->spare, .left = left}, s);
}

void kb_exact_take_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    struct kb_exact *e = kb_exact_of(p);
    struct kb_chol old = e->f;
    (void)s;
    e->f = e->spare;
    e->spare = old;
    kb_exact_fade(e, left);
    kb_exact_refresh(e);
    p->spare_bytes = e->spare.cap * e->spare.cap * sizeof(double);
}
