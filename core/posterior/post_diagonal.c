/* The exact posterior where the kernel tells points apart and no more (kb_spec_is_diagonal): no factor.
 *
 *   U, n_i, S_i    distinct points, observations and sum of rewards at point i                     (post_exact.c)
 *   mu, v          mean and variance of a point before anything is learned of it: 0 and 1, or those of `prior` where
 *                  the model is scaled (kb_spec_is_scaled)
 *   a              lambda / v
 *
 * K_UU = v I, so the factor of post_exact.c is diagonal, F_ii^2 = v + lambda / n_i, and what it gives by solves is
 *
 *   mean(i) = mu + (S_i - n_i mu) / (n_i + a),   sd^2(i) = v a / (n_i + a)      a point never learned at: mu and v
 *   ln det(I + K_t / lambda)          = sum ln(1 + n_i / a)
 *   tr K_t (K_t + lambda I)^-1        = sum n_i / (n_i + a)
 *   lambda y^T (K_t + lambda I)^-1 y  = sum lambda S_i^2 / (n_i (n_i + lambda)) + scatter of repeated rewards
 *   spectrum (spectrum.h)             e_i = n_i, Q = I                          these two where mu is 0 and v is 1
 *
 * Forgetting: n_i becomes left n_i, S_i likewise; nothing is prepared.
 *
 * Numerical notes. Nothing cancels, so no pivot or variance is ever lifted. The log determinant is a running sum, two
 * terms a step, with Neumaier's correction: after a million steps it still has all its digits. It depends on the order
 * of what was learned in its last bit, hence it is digested and saved.
 *
 * Cost: O(1) per candidate and per event, a look-up of the point with either; O(|U|) for the rest. */
#include <assert.h>
#include <math.h>

#include "posterior/exact.h"
#include "posterior/influence.h"
#include "base/hash.h"
#include "posterior/noisy_gram.h"
#include "posterior/point_scales.h"

static enum kb_err diagonal_init(struct kb_posterior *p, const struct kb_spec *spec)
{
    struct kb_exact *e = kb_exact_of(p);

    e->is_scaled = kb_spec_is_scaled(spec);
    e->mean = e->is_scaled ? spec->prior.mean : 0;
    e->ridge = e->is_scaled ? p->lambda / spec->prior.arm : p->lambda; /* infinite where the prior's is 0 */
    return kb_exact_init(p, spec);
}

/* Of n of these points, where the sums are in their places. Without a mean there is less to compute, and it is the
 * same. */
static void predict_block(const struct kb_exact *e, double lambda, const uint32_t *point, size_t n,
                          double *restrict mean, double *restrict variance)
{
    const double mu = e->mean, ridge = e->ridge;

    for (size_t c = 0; c < n && mu == 0; c++) {
        const bool is_known = point[c] != KB_POINT_NONE;
        const double below = (is_known ? e->count[point[c]] : 0) + ridge;

        mean[c] = is_known ? e->sum[point[c]] / below : 0;
        variance[c] = lambda / below;
    }
    for (size_t c = 0; c < n && mu != 0; c++) {
        const bool is_known = point[c] != KB_POINT_NONE;
        const double count = is_known ? e->count[point[c]] : 0;

        mean[c] = is_known ? mu + (e->sum[point[c]] - count * mu) / (count + ridge) : mu;
        variance[c] = lambda / (count + ridge); /* v a is lambda */
    }
}

/* Points that are known, by numbers of the support; KB_POINT_NONE elsewhere. What stands in a candidate's features is
 * nothing to this kernel. */
static void diagonal_predict(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                             double *mean, double *variance)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    const struct kb_point place = {.user = cand->user, .x = cand->context, .level = cand->level};
    uint32_t point[KB_BLOCK];

    (void)s;
    for (size_t c = 0; c < cand->n; c += KB_BLOCK) {
        const size_t n = cand->n - c < KB_BLOCK ? cand->n - c : KB_BLOCK;

        kb_point_index_find_arms(&e->index, &p->kernel, &p->support, &place, cand->arms + c, n, point);
        predict_block(e, p->lambda, point, n, mean + c, variance + c);
    }
}

/* 1 / (n_i + a) at the candidate's own point. */
static void diagonal_influence(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                               struct kb_influence *in)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    const struct kb_point place = {.user = cand->user, .x = cand->context, .level = cand->level};
    uint32_t i;
    (void)s;
    in->prior = e->mean;
    for (size_t k = 0; k < p->support.n; k++)
        in->weight[k] = 0;
    kb_point_index_find_arms(&e->index, &p->kernel, &p->support, &place, cand->arms, 1, &i);
    if (i != KB_POINT_NONE)
        in->weight[i] = 1 / (e->count[i] + e->ridge);
}

/* --- learning --------------------------------------------------------------------------------------------- */

/* The running sum and a term more; what it loses of either is kept [Neumaier, 1974]. */
static void add_to_log_det(struct kb_exact *e, double term)
{
    const double sum = e->log_sum + term;

    e->lost += fabs(e->log_sum) >= fabs(term) ? (e->log_sum - sum) + term : (term - sum) + e->log_sum;
    e->log_sum = sum;
    e->base.log_det = sum + e->lost;
}

static double log_term(const struct kb_exact *e, size_t i)
{
    return log1p(e->count[i] / e->ridge);
}

/* Over all points, in their order. */
static void sum_log_det(struct kb_exact *e)
{
    e->base.log_det = e->log_sum = e->lost = 0;
    for (size_t i = 0; i < e->base.support.n; i++)
        add_to_log_det(e, log_term(e, i));
}

/* d_count 0 is a correction, which a point that is not held has no weight for (post_exact.c). */
static void diagonal_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                           struct kb_scratch *s)
{
    struct kb_exact *e = kb_exact_of(p);
    uint32_t i = kb_exact_find(e, pt);
    (void)s;
    if (i == KB_POINT_NONE && !(d_count > 0))
        return;
    if (i == KB_POINT_NONE)
        i = kb_exact_enter(e, pt);
    add_to_log_det(e, -log_term(e, i));
    e->count[i] = d_count < 0 ? kb_count_lowered(e->count[i], -d_count) : e->count[i] + d_count;
    e->sum[i] += d_sum;
    add_to_log_det(e, log_term(e, i));
}

static void diagonal_take_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    (void)s;
    kb_exact_fade(kb_exact_of(p), left);
    sum_log_det(kb_exact_of(p));
}

static enum kb_err diagonal_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                                 const struct kb_atom *atoms, size_t n, struct kb_scratch *s)
{
    enum kb_err rc;
    (void)atoms, (void)n; /* every point is held */
    KB_TRY(kb_exact_collect(kb_exact_of(p), h, node_of, s));
    sum_log_det(kb_exact_of(p));
out:
    return rc;
}

/* --- what confidence rules read, facts -------------------------------------------------------------------- */

static enum kb_err diagonal_decompose(const struct kb_posterior *p, struct kb_scratch *s, struct kb_spectrum *sp)
{
    (void)s;
    kb_spectrum_of_counts(sp, kb_exact_of_const(p)->count, kb_exact_of_const(p)->sum);
    return KB_OK;
}

static void diagonal_evidence(const struct kb_posterior *p, double square, double *energy, double *log_det)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    double between = 0, explained = 0;
    if (e->is_scaled) {
        kb_posterior_evidence_as_told(p, square, energy, log_det);
        return;
    }
    for (size_t i = 0; i < p->support.n; i++) {
        const double mean_square = e->sum[i] * e->sum[i] / e->count[i];
        between += mean_square;
        explained += mean_square / (e->count[i] + p->lambda);
    }
    *energy = p->lambda * explained + fmax(0, square - between);
    *log_det = p->log_det;
}

static void diagonal_facts(const struct kb_posterior *p, struct kb_posterior_facts *out)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    double dimension = 0;
    for (size_t i = 0; i < p->support.n; i++)
        dimension += e->count[i] / (e->count[i] + e->ridge);
    out->effective_dimension = dimension;
    out->information_gain = 0.5 * p->log_det;
}

/* A candidate costs the look-up of its point; where bounds are read off the spectrum, all points. */
static double diagonal_width(const struct kb_posterior *p)
{
    return p->reads_spectrum ? sqrt((double)p->support.n) : p->support.n > 0;
}

static enum kb_err diagonal_find_scales(const struct kb_posterior *p, const struct kb_scale_search *search,
                                        struct kb_scratch *s, struct kb_tuning *out)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    return kb_point_scales_find(&(struct kb_point_rows){p->support.n, e->count, e->sum, search->square}, search, s,
                                out);
}

/* --- digest, snapshot ------------------------------------------------------------------------------------- */

static uint64_t diagonal_digest(const struct kb_posterior *p, uint64_t h)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    h = kb_hash_double(kb_hash_double(h, e->log_sum), e->lost);
    h = kb_hash_array(h, e->count, p->support.n * sizeof *e->count);
    return kb_hash_array(h, e->sum, p->support.n * sizeof *e->sum);
}

static void diagonal_save(const struct kb_posterior *p, struct kb_writer *w)
{
    const struct kb_exact *e = kb_exact_of_const(p);
    kb_exact_save_points(e, w);
    kb_put_double(w, e->log_sum);
    kb_put_double(w, e->lost);
}

static enum kb_err diagonal_load(struct kb_posterior *p, struct kb_reader *r)
{
    enum kb_err rc;
    struct kb_exact *e = kb_exact_of(p);
    KB_TRY(kb_exact_load_points(e, r));
    e->log_sum = kb_get_double(r);
    e->lost = kb_get_double(r);
    KB_TRY(r->rc);
    p->log_det = e->log_sum + e->lost;
    if (!isfinite(p->log_det))
        rc = KB_ECORRUPT;
out:
    return rc;
}

const struct kb_posterior_ops kb_posterior_diagonal_ops = {
    .bytes = sizeof(struct kb_exact),
    .is_diagonal = true,
    .init = diagonal_init,
    .close = kb_exact_close,
    .find_scales = diagonal_find_scales,
    .held_bytes = kb_exact_point_bytes,
    .grow = kb_exact_grow_points,
    .predict = diagonal_predict,
    .influence = diagonal_influence,
    .decompose = diagonal_decompose,
    .closed_evidence = diagonal_evidence,
    .closed_facts = diagonal_facts,
    .width = diagonal_width,
    .learn_adds_point = kb_exact_learn_adds_point,
    .learn = diagonal_learn,
    .take_left = diagonal_take_left,
    .fill = diagonal_fill,
    .digest = diagonal_digest,
    .save = diagonal_save,
    .load = diagonal_load,
};
