/* The exact posterior: a growing Cholesky factor over all distinct points.
 *
 *   U, n_i, S_i    distinct points, observations and sum of rewards at point i          t = sum n_i
 *   F              |U| x |U|: F F^T = K_UU + lambda N^-1, N = diag(n_i)
 *   ybar, w        S_i / n_i;  w = F^-1 ybar
 *
 *   mean(s) = k_U(s)^T (F F^T)^-1 ybar = (F^-1 k_U(s)).w          sd^2(s) = k(s,s) - |F^-1 k_U(s)|^2
 *
 * This is the Gaussian-process posterior of LK eq. 3 and TC eq. 2-3 on all t observations: repeats of a point carry
 * the information of their mean with noise lambda / n_i (tests/property/posterior/test_posteriors.c compares with the
 * dense t x t solve). Points are distinct to the kernel, so under `ones` users share one; what it ignores is not held.
 *
 * The points: exact_points.c. How F follows all that: noisy_gram.c. Where K_UU is the identity there is no F:
 * post_diagonal.c.
 *
 *   information gain     1/2 ln det(I + K_t / lambda) = 1/2 [ ln det(F F^T) + sum ln n_i - |U| ln lambda ]
 *   effective dimension  tr K_t (K_t + lambda I)^-1   = |U| - lambda tr (N^1/2 F F^T N^1/2)^-1
 *
 * Cost: O(|U|^2) per event and per candidate, O(|U|^3 / 3) to fill. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "posterior/exact.h"
#include "posterior/influence.h"
#include "posterior/noisy_gram.h"
#include "linalg/factor_io.h"
#include "base/hash.h"
#include "linalg/linalg.h"

/* Bytes beyond what posterior.c counts. O(1). */
static size_t exact_held_bytes(const struct kb_posterior *p)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    return (e->f.cap * e->f.cap + p->cap) * sizeof(double) + kb_exact_point_bytes(p);
}

static enum kb_err exact_grow(struct kb_posterior *p, size_t n, struct kb_moves *m)
{
    enum kb_err rc;
    struct kb_exact *e = kb_exact_of(p);
    KB_TRY(kb_chol_grow(&e->f, n, m));
    KB_TRY(kb_moves_add(m, &e->w, p->support.n, n, sizeof *e->w, NULL));
    KB_TRY(kb_exact_grow_points(p, n, m));
out:
    return rc;
}

/* --- the factor ------------------------------------------------------------------------------------------- */

static void support_column(const struct kb_noisy_gram *g, size_t i, size_t n, struct kb_scratch *s, double *out)
{
    const struct kb_point pt = kb_support_point(&g->p->support, i);
    kb_posterior_column(g->p, n, &pt, s, out);
}

/* F, or the spare factor of what is left. */
static struct kb_noisy_gram gram_of(struct kb_exact *e, struct kb_chol *f, double left)
{
    return (struct kb_noisy_gram){.p = &e->base,
                                  .f = f,
                                  .count = e->count,
                                  .n_points = e->base.support.n,
                                  .left = left,
                                  .column = support_column};
}

/* w = F^-1 ybar and the log determinant, after every change of F, S or n. O(|U|^2). */
static void refresh(struct kb_exact *e)
{
    const struct kb_noisy_gram g = gram_of(e, &e->f, 1);
    for (size_t i = 0; i < e->f.n; i++)
        e->w[i] = e->sum[i] / e->count[i];
    kb_chol_solve_l(&e->f, e->w);
    e->base.log_det = kb_noisy_gram_log_det(&g);
}

/* --- learning ------------------------------------------------------------------------------------------- */

/* One step of the file header, then w. d_count 0 is a correction: the factor stays; below 0 it is one taken back. A
 * point that is not held had lost all its weight when the posterior was filled, and a correction gives it none back. */
static void exact_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                        struct kb_scratch *s)
{
    struct kb_exact *e = kb_exact_of(p);
    uint32_t i = kb_exact_find(e, pt);
    if (i == KB_POINT_NONE && !(d_count > 0))
        return;
    if (i == KB_POINT_NONE) {
        i = kb_exact_enter(e, pt);
        e->count[i] = d_count;
        e->sum[i] = d_sum;
        const struct kb_noisy_gram g = gram_of(e, &e->f, 1);
        (void)kb_noisy_gram_append(&g, NULL, NULL, 0, s);
    } else {
        e->sum[i] += d_sum;
        const struct kb_noisy_gram g = gram_of(e, &e->f, 1);
        if (d_count > 0)
            kb_noisy_gram_raise(&g, i, d_count, s);
        else if (d_count < 0)
            kb_noisy_gram_lower(&g, i, -d_count, s);
    }
    refresh(e);
}

/* From the whole history in one blocked factorisation; the row-by-row path of learning would take the same flops at
 * a quarter of the speed. */
static enum kb_err exact_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                              const struct kb_atom *atoms, size_t n, struct kb_scratch *s)
{
    enum kb_err rc;
    struct kb_exact *e = kb_exact_of(p);
    (void)atoms, (void)n; /* every point is held */
    KB_TRY(kb_exact_collect(e, h, node_of, s));
    const struct kb_noisy_gram g = gram_of(e, &e->f, 1);
    kb_noisy_gram_factor(&g, s);
    refresh(e);
out:
    return rc;
}

/* --- forgetting ------------------------------------------------------------------------------------------ */

static enum kb_err exact_reserve_spare(struct kb_posterior *p, size_t n)
{
    kb_exact_of(p)->spare.n = 0;
    return kb_chol_reserve(&kb_exact_of(p)->spare, n);
}

static void exact_prepare_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    const struct kb_noisy_gram g = gram_of(kb_exact_of(p), &kb_exact_of(p)->spare, left);
    assert(g.f->cap >= p->support.n);
    kb_noisy_gram_factor(&g, s);
}

static void exact_take_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    struct kb_exact *e = kb_exact_of(p);
    struct kb_chol old = e->f;
    (void)s;
    e->f = e->spare;
    e->spare = old;
    kb_exact_fade(e, left);
    refresh(e);
    p->spare_bytes = e->spare.cap * e->spare.cap * sizeof(double);
}

/* --- prediction ------------------------------------------------------------------------------------------ */

/* F^-1 k_U for the block by one blocked solve, then two dot products per candidate. */
static void exact_predict_block(const struct kb_posterior *p, double *block, size_t ld, size_t n_c, const double *diag,
                                double *mean, double *variance)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    size_t n = e->f.n;
    if (n > 0)
        kb_chol_solve_l_many(&e->f, block, ld, n_c);
    for (size_t c = 0; c < n_c; c++) {
        const double *column = block + c * ld;
        mean[c] = kb_dot(n, column, e->w);
        variance[c] = diag[c] - kb_dot(n, column, column);
    }
}

/* alpha / n by two solves: F^-T F^-1 k_U. */
static void exact_influence(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                            struct kb_influence *in)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    const size_t n = e->f.n;
    in->prior = 0;
    if (n == 0)
        return;
    memcpy(in->weight, kb_posterior_one_column(p, cand, s), n * sizeof *in->weight);
    kb_chol_solve_l(&e->f, in->weight);
    kb_chol_solve_lt(&e->f, in->weight);
    for (size_t i = 0; i < n; i++)
        in->weight[i] /= e->count[i];
}

/* --- what confidence rules read ---------------------------------------------------------------------------- */

/* The kernel values are evaluated anew: taking K_UU out of F F^T - lambda N^-1 would cost the digits below lambda.
 * O(n^2 dim) and the decomposition. */
static enum kb_err exact_decompose(const struct kb_posterior *p, struct kb_scratch *s, struct kb_spectrum *sp)
{
    size_t n = sp->n, mark = kb_arena_mark(&s->arena);
    double *row = kb_arena_doubles(&s->arena, n);
    for (size_t i = 0; i < n; i++) {
        struct kb_point pt = kb_support_point(&p->support, i);
        kb_posterior_column(p, i + 1, &pt, s, row);
        for (size_t j = 0; j <= i; j++)
            sp->basis[j * n + i] = row[j];
    }
    kb_arena_reset(&s->arena, mark);
    return kb_spectrum_decompose(sp, kb_exact_of_const(p)->count, kb_exact_of_const(p)->sum);
}

/* lambda y^T (K_t + lambda I)^-1 y = lambda |w|^2 + scatter of repeated rewards (spectrum.c), and the log determinant.
 */
static void exact_evidence(const struct kb_posterior *p, double square, double *energy, double *log_det_out)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    double between = 0;
    for (size_t i = 0; i < e->f.n; i++)
        between += e->sum[i] * e->sum[i] / e->count[i];
    *energy = p->lambda * kb_dot(e->f.n, e->w, e->w) + fmax(0, square - between);
    *log_det_out = p->log_det;
}

/* --- facts, digest, snapshot ------------------------------------------------------------------------------- */

/* The factor with its rows scaled. */
static enum kb_err exact_look(const struct kb_posterior *p, size_t which, struct kb_chol *to, double *gain)
{
    const struct kb_exact *e = kb_exact_of_const(p);

    (void)which;
    if (kb_chol_reserve(to, e->f.n) != KB_OK)
        return KB_ENOMEM;
    for (size_t j = 0; j < e->f.n; j++)
        for (size_t i = j; i < e->f.n; i++)
            to->l[j * to->cap + i] = e->f.l[j * e->f.cap + i] * sqrt(e->count[i]);
    to->n = e->f.n;
    *gain = 0.5 * p->log_det;
    return KB_OK;
}

static uint64_t exact_digest(const struct kb_posterior *p, uint64_t h)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    h = kb_factor_digest(&e->f, h);
    if (e->f.n == 0)
        return h;
    h = kb_hash_array(h, e->count, e->f.n * sizeof *e->count);
    h = kb_hash_array(h, e->sum, e->f.n * sizeof *e->sum);
    return kb_hash_array(h, e->w, e->f.n * sizeof *e->w);
}

/* Counts, sums, w and F; w is saved rather than recomputed, so that not a bit hangs on the solve. */
static void exact_save(const struct kb_posterior *p, struct kb_writer *w)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    kb_exact_save_points(e, w);
    kb_put_doubles(w, e->w, e->f.n);
    kb_factor_save(&e->f, w);
}

/* The support is there already; what is read is checked before it is divided by or solved with. */
static enum kb_err exact_load(struct kb_posterior *p, struct kb_reader *r)
{
    enum kb_err rc;
    struct kb_exact *e = kb_exact_of(p);
    const size_t n = p->support.n;
    KB_TRY(kb_exact_load_points(e, r));
    kb_get_doubles(r, e->w, n);
    KB_TRY(r->rc);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(e->w[i]))
            return KB_ECORRUPT;
    }
    KB_TRY(kb_factor_load(&e->f, n, r));
    const struct kb_noisy_gram g = gram_of(e, &e->f, 1);
    p->log_det = kb_noisy_gram_log_det(&g); /* of the same bits as before the snapshot, hence the same */
out:
    return rc;
}

const struct kb_posterior_ops kb_posterior_exact_ops = {
    .bytes = sizeof(struct kb_exact),
    .init = kb_exact_init,
    .close = kb_exact_close,
    .held_bytes = exact_held_bytes,
    .grow = exact_grow,
    .predict_block = exact_predict_block,
    .influence = exact_influence,
    .decompose = exact_decompose,
    .closed_evidence = exact_evidence,
    .learn_adds_point = kb_exact_learn_adds_point,
    .learn = exact_learn,
    .reserve_spare = exact_reserve_spare,
    .prepare_left = exact_prepare_left,
    .take_left = exact_take_left,
    .fill = exact_fill,
    .look = exact_look,
    .digest = exact_digest,
    .save = exact_save,
    .load = exact_load,
};
