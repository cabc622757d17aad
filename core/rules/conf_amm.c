/* clang-format off */
/* Confidence rules that come from a ball around the observed rewards, on the exact posterior: AMM, DMM, CMM [TC]. Their
 * forms on a dictionary: conf_sketch.c.
 *
 *   a0 = lambda = sigma^2 / c, B the norm bound, y the t rewards, K = K_t; letters of the spectrum in spectrum.h
 *
 *   |f_t - y|^2 <= R^2 = a0 y^T (K + a0 I)^-1 y + sigma^2 ln det(I + K/a0) + 2 sigma^2 ln 1/delta          [TC, eq. 8]
 *   R_a^2 = R^2 + a B^2 - a y^T (K + a I)^-1 y                                                           [TC, eq. 12]
 *   upper_a = mean_a + sqrt(R_a^2 / a) sd_a,  lower_a = mean_a - sqrt(R_a^2 / a) sd_a                  for every a > 0
 *
 *   amm   a = a0 alone. y drops out: R_a0^2 = a0 B^2 + sigma^2 ln det + 2 sigma^2 ln 1/delta
 *   dmm   the best of a in {1, 3, 10, 30, 100} a0; TC's own grid is a tenth of it, and lies too low
 *         (docs/decisions/0010)
 *   cmm   the best of all a > 0: the dual of TC's cone program (eq. 10) in one variable. The dual is quasi-convex in a
 *         (docs/decisions/0011), so golden section in ln a finds it; any a gives a valid bound, so a search stopped
 *         early is wide, never wrong.
 *
 * Repeated points. y^T (K + a I)^-1 y = yt^T (T + a I)^-1 yt + scatter/a (spectrum.c), hence the scatter enters R^2 and
 * a y^T (K + a I)^-1 y alike and cancels in R_a^2 for every a: what is needed of the rewards are the sums by point, and
 * no running y.y is kept. It also is what would lose digits: two numbers of order t sigma^2 with a small difference.
 *
 * Mixture: R^2 mixes four ridges in place of a0 alone (evidence.h); by the chain rule S_i is a_i y^T (K + a_i I)^-1 y +
 * sigma^2 ln det(I + K/a_i), the scatter being common to all and left out.
 *
 * B_min. R_a^2 < 0 for some a proves that no f of norm <= B fits: B_min^2 = max_a ( yt^T (T + a I)^-1 yt - R^2/a ), R^2
 * without scatter. In u = 1/a the first is a sum of u/(1 + e u) over eigenvalues e, each concave and the rest linear,
 * so golden section is exact here, too.
 *
 * Numerical notes. sd_a^2 is a difference; where less than VARIANCE_FLOOR k(s,s) is left of it, it is rounding, and the
 * floor is taken, which makes the bound wider: a variance clipped at zero would be a bound that claims to know.
 *
 * Cost: amm O(1) per candidate; dmm 5, cmm 2 x 32 to 45 evaluations of O(n) per candidate. */
/* clang-format on */
#include <math.h>

#include "rules/conf_impl.h"
#include "posterior/spectrum.h"

#define VARIANCE_FLOOR 1e-13

static const double grid[] = {1, 3, 10, 30, 100};
#define N_GRID (sizeof grid / sizeof grid[0])

/* --- the ball and the norm ------------------------------------------------------------------------------- */

/* R^2 less the scatter. */
static double radius_sq(const struct kb_conf_view *v)
{
    double energy[KB_N_MIXTURE], log_det[KB_N_MIXTURE];
    size_t n = v->conf->is_mixture ? KB_N_MIXTURE : 1;
    for (size_t i = 0; i < n; i++) {
        double a = v->lambda * kb_mixture_ridge[i];
        energy[i] = a * kb_spectrum_energy(v->spectrum, a);
        log_det[i] = kb_spectrum_log_det(v->spectrum, a);
    }
    return kb_evidence_radius_sq(energy, log_det, n, v->conf->noise, v->conf->delta);
}

/* - ( yt^T (T + a I)^-1 yt - R^2/a ): its minimum is - B_min^2. */
static void minus_norm_sq(const void *data, size_t n, const double *a, double *value)
{
    const struct kb_conf_view *v = data;
    for (size_t k = 0; k < n; k++)
        value[k] = v->found.radius_sq / a[k] - kb_spectrum_energy(v->spectrum, a[k]);
}

static void look(struct kb_conf_view *v)
{
    double least;
    v->found.radius_sq = radius_sq(v);
    kb_conf_search(minus_norm_sq, v, 1, v->lambda, &least);
    v->found.norm_least = sqrt(fmax(0, -least));
}

/* R_a / sqrt(a) given the energy at a. */
static double radius_at(const struct kb_conf_view *v, double a, double energy)
{
    return sqrt(fmax(0, v->found.radius_sq / a + v->norm_bound * v->norm_bound - energy));
}

/* --- rules ----------------------------------------------------------------------------------------------- */

static void amm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    double c = v->conf->noise * v->conf->noise / v->lambda;
    double radius = sqrt(v->norm_bound * v->norm_bound + c * (v->log_det - 2 * log(v->conf->delta)));
    (void)arena;
    kb_conf_band(b, radius);
}

static void value_at(const void *data, size_t n, const double *a, double *value)
{
    const struct kb_conf_arms *d = data;
    struct kb_ridge_sums at;
    kb_spectrum_sums(d->v->spectrum, d->w, a, &at);
    for (size_t k = 0; k < n; k++) {
        double variance = fmax(VARIANCE_FLOOR * d->prior[k], d->prior[k] - at.known[k]);
        value[k] = d->side[k] * at.mean[k] + radius_at(d->v, a[k], at.energy[k]) * sqrt(variance);
    }
}

static void search_grid(kb_ridge_fn *f, const void *data, size_t n, double a0, double *best)
{
    const double start = ((const struct kb_conf_arms *)data)->v->conf->grid_start;
    kb_conf_search_grid(f, data, n, start > 0 ? start * a0 : a0, grid, N_GRID, best);
}

static void dmm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, 0, value_at, search_grid);
}

static void cmm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, 0, value_at, kb_conf_search);
}

const struct kb_conf_ops kb_conf_amm = {.bounds = amm_bounds};
const struct kb_conf_ops kb_conf_dmm = {.reads_spectrum = true, .look = look, .bounds = dmm_bounds};
const struct kb_conf_ops kb_conf_cmm = {.reads_spectrum = true, .look = look, .bounds = cmm_bounds};
