/* AMM, DMM and CMM over a dictionary: a ball around the observed rewards, seen through a projection.
 *
 *   P, p, q        projection on the dictionary's span, p = P f, q = f - p        |p|^2 + |q|^2 <= B^2, beta = |q|
 *   R              radius of the ball |f_t - y| <= R: prequential (evidence.h)
 *   e              e_t >= largest eigenvalue of K_t - F F^T (projection_error.h), so |q_t|^2 <= e beta^2
 *   SSE_a          y.y - yt^T (T + a I)^-1 yt, letters of the spectrum as in spectrum.h;  r residual, w2 = z.V_a^-1 z
 *   h              half of what noise may gain against the misfit: 2 <eps, q_t> <= 2 h beta
 *
 * For every a > 0 and beta, completing the square in |p_t - y|^2 + a |p|^2 bounds p(s) = z.p around mean_a(s), and
 * |q(s)| <= sqrt(r) beta. With |p_t - y|^2 <= R^2 + 2 h beta + e beta^2 and |p|^2 <= B^2 - beta^2 that is
 *
 *   upper_a = mean_a + max over beta in [0, B] of  sqrt(r) beta + sqrt(w2) sqrt(Q(beta))
 *   Q(beta) = R^2 + 2 h beta - (a - e) beta^2 + a B^2 - SSE_a
 *
 *   a > e    A1 = R^2 + a B^2 - SSE_a + h^2/(a-e),  T = sqrt(w2 + r/(a-e)),  beta* = h/(a-e) + sqrt(A1 r) / ((a-e) T)
 *            beta* <= B: the maximum is sqrt(r) h/(a-e) + sqrt(A1) T
 *   else, and for a <= e: it is at beta = B
 *
 *   split    h = R sqrt(e), since |eps_t| <= R on the same event
 *   cross    R at delta/2 and h = N sqrt(e + a'), the least over n' = 8 fixed a': a self-normalised bound on <eps, q_t>
 *            N^2 = sigma^2 (2 ln(2 n'/delta) + ln det(I + F F^T/a') + trace/a'),  ln det(I + K/a') <= ln det + trace/a'
 *   simple   |p_t - y| <= R + B sqrt(e), and beta = B in both places:
 *            width = sqrt((R + B sqrt(e))^2 + a B^2 - SSE_a) sqrt(w2 + r/a)
 *
 * Proofs: docs/decisions/0011. All hold at once for all t, s and a with probability 1 - delta. e may not be taken for
 * zero: a third of the runs at norm 10 are violated then (docs/COVERAGE.md).
 *
 * B_min: the least B whose set is not empty, for each ridge of a grid in closed form; the largest of them counts.
 *
 * Numerical notes. SSE_a and R^2 are both of the order of t sigma^2 with a difference of the order of ln det; rewards
 * far from zero cost digits here. The variance is r + a w2, two terms that are never negative.
 *
 * Cost: as on the exact posterior, O(m) per candidate and ridge. */
#include <math.h>

#include "rules/conf_impl.h"
#include "posterior/spectrum.h"

#define N_CROSS 8 /* a' = lambda 10^-2 ... lambda 10^5 */
#define CROSS_FIRST 1e-2
#define NORM_FIRST 0.1 /* ridges that B_min is looked for at: lambda times this, and up by the step */
#define NORM_STEP 2.5118864315095801
#define N_NORM 21

/* From one ridge, which is the analytic bound, to what misfit asks for: the minimiser grows with e. */
static const double grid[] = {
    1, 3.1622776601683795, 10, 31.622776601683793, 1e2, 316.22776601683796, 1e3, 3162.2776601683795, 1e4, 1e5};
#define N_GRID (sizeof grid / sizeof grid[0])

/* --- the ball --------------------------------------------------------------------------------------------- */

static double radius_sq(const struct kb_conf_view *v, double delta)
{
    const struct kb_sketch_facts *f = &v->spectrum->sketch;
    size_t n = v->conf->is_mixture ? f->n_mixture : 1;
    return kb_evidence_radius_sq(f->evidence.energy, f->evidence.log_det, n, v->conf->noise, delta);
}

/* Least h of the cross form. */
static double cross_term(const struct kb_conf_view *v)
{
    const struct kb_sketch_facts *f = &v->spectrum->sketch;
    double least = INFINITY, a = v->lambda * CROSS_FIRST;
    for (int i = 0; i < N_CROSS; i++, a *= 10) {
        double gain = kb_spectrum_log_det(v->spectrum, a) + f->trace / a;
        least = fmin(least, sqrt((2 * log(2 * N_CROSS / v->conf->delta) + gain) * (f->error + a)));
    }
    return v->conf->noise * least;
}

static void look_at_ball(struct kb_conf_view *v)
{
    v->found.error = v->spectrum->sketch.error;
    v->found.radius_sq = radius_sq(v, v->conf->form == KB_SKETCH_CROSS ? v->conf->delta / 2 : v->conf->delta);
    v->found.cross = v->conf->form == KB_SKETCH_CROSS ? cross_term(v) : sqrt(v->found.radius_sq * v->found.error);
}

/* --- the norm ------------------------------------------------------------------------------------------------ */

/* Least B >= 0 with R^2 + 2 h B + e B^2 >= sse: beta = B in the radicand. */
static double least_at_end(const struct kb_conf_view *v, double sse)
{
    double missing = sse - v->found.radius_sq;
    if (!(missing > 0))
        return 0;
    return missing / (v->found.cross + sqrt(v->found.cross * v->found.cross +
                                            v->found.error * missing)); /* infinite when nothing may help */
}

/* Least B whose set is not empty at ridge a. */
static double least_norm_at(const struct kb_conf_view *v, double a, double sse)
{
    double over = a - v->found.error, at_end = least_at_end(v, sse), inner;
    if (v->conf->form == KB_SKETCH_SIMPLE) { /* (R + B sqrt e)^2 + a B^2 >= sse */
        double missing = sse - v->found.radius_sq, half = sqrt(v->found.radius_sq * v->found.error);
        return missing > 0 ? missing / (half + sqrt(half * half + (v->found.error + a) * missing)) : 0;
    }
    if (over <= 0 || at_end <= v->found.cross / over)
        return at_end;
    inner = (sse - v->found.radius_sq - v->found.cross * v->found.cross / over) / a;
    return fmax(v->found.cross / over, sqrt(fmax(0, inner)));
}

static void look(struct kb_conf_view *v)
{
    const struct kb_spectrum *sp = v->spectrum;
    double a = v->lambda * NORM_FIRST;
    v->found.is_void = sp->sketch.evidence.is_void;
    look_at_ball(v);
    v->found.norm_least = 0;
    for (int i = 0; i < N_NORM; i++, a *= NORM_STEP) {
        double sse = sp->sketch.evidence.square - kb_spectrum_energy(sp, a);
        v->found.norm_least = fmax(v->found.norm_least, least_norm_at(v, a, sse));
    }
}

/* --- rules ----------------------------------------------------------------------------------------------------- */

/* Half-width at ridge a by the file header; w2 = spread, r = residual. */
static double half_width(const struct kb_conf_view *v, double a, double spread, double residual, double sse)
{
    double b = v->norm_bound, over = a - v->found.error, root = sqrt(residual);
    if (v->conf->form == KB_SKETCH_SIMPLE) {
        double ball = sqrt(v->found.radius_sq) + b * sqrt(v->found.error);
        return sqrt(fmax(0, ball * ball + a * b * b - sse) * (spread + residual / a));
    }
    if (over > 0) {
        double share = sqrt(fmax(0, v->found.radius_sq + a * b * b - sse + v->found.cross * v->found.cross / over));
        double slope = sqrt(spread + residual / over);
        double beta = v->found.cross / over + (slope > 0 ? share * root / (over * slope) : 0);
        if (beta <= b)
            return root * v->found.cross / over + share * slope;
    }
    return root * b +
           sqrt(spread * fmax(0, v->found.radius_sq + 2 * v->found.cross * b + v->found.error * b * b - sse));
}

static void value_at(const void *data, size_t n, const double *a, double *value)
{
    const struct kb_conf_arms *d = data;
    struct kb_ridge_sums at;
    kb_spectrum_sums(d->v->spectrum, d->w, a, &at);
    for (size_t k = 0; k < n; k++) {
        double sse = d->v->spectrum->sketch.evidence.square - at.energy[k];
        value[k] = d->side[k] * at.mean[k] + half_width(d->v, a[k], at.known[k], d->residual[k], sse);
    }
}

static void search_grid(kb_ridge_fn *f, const void *data, size_t n, double a0, double *best)
{
    kb_conf_search_grid(f, data, n, a0, grid, N_GRID, best);
}

/* On the plateau of an arm with z = 0, where beta = B at most ridges, golden section compares equal values and stays:
 * what the grid finds below counts, too. */
static void search_both(kb_ridge_fn *f, const void *data, size_t n, double a0, double *best)
{
    double by_grid[KB_RIDGE_LANES];
    kb_conf_search(f, data, n, a0, best);
    search_grid(f, data, n, a0, by_grid);
    for (size_t k = 0; k < n; k++)
        best[k] = fmin(best[k], by_grid[k]);
}

static void amm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, 0, value_at, kb_conf_search_one);
}

static void dmm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, 0, value_at, search_grid);
}

static void cmm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, 0, value_at, search_both);
}

const struct kb_conf_ops kb_conf_sketched_amm = {.reads_spectrum = true, .look = look, .bounds = amm_bounds};
const struct kb_conf_ops kb_conf_sketched_dmm = {.reads_spectrum = true, .look = look, .bounds = dmm_bounds};
const struct kb_conf_ops kb_conf_sketched_cmm = {.reads_spectrum = true, .look = look, .bounds = cmm_bounds};
