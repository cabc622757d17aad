/* Confidence rules that come from a ball around the observed rewards: AMM, DMM, CMM [TC].
 *
 *   a0 = lambda = sigma^2 / c, B the norm bound, y the t rewards, K = K_t; letters of the spectrum in spectrum.h
 *
 *   |f_t - y|^2 <= R^2 = a0 y^T (K + a0 I)^-1 y + sigma^2 ln det(I + K/a0) + 2 sigma^2 ln 1/delta          [TC, eq. 8]
 *   R_a^2 = R^2 + a B^2 - a y^T (K + a I)^-1 y                                                           [TC, eq. 12]
 *   upper_a = mean_a + sqrt(R_a^2 / a) sd_a,  lower_a = mean_a - sqrt(R_a^2 / a) sd_a                     for every a >
 * 0
 *
 *   amm   a = a0 alone. y drops out: R_a0^2 = a0 B^2 + sigma^2 ln det + 2 sigma^2 ln 1/delta
 *   dmm   the best of a in {1, 3, 10, 30, 100} a0 (NUMERICS 4: TC's own grid lies too low)
 *   cmm   the best of all a > 0: the dual of TC's cone program (eq. 10) in one variable. The dual is quasi-convex in a
 *         (NUMERICS 4), so golden section in ln a finds it; any a gives a valid bound, so a search stopped early is
 *         wide, never wrong.
 *
 * Repeated points. y^T (K + a I)^-1 y = sum yt_i^2/(e_i + a) + scatter/a (spectrum.c), hence the scatter enters R^2 and
 * a y^T (K + a I)^-1 y alike and cancels in R_a^2 for every a: what is needed of the rewards are the sums by point, and
 * no running y.y is kept. It also is what would lose digits: two numbers of order t sigma^2 with a small difference.
 *
 * B_min. R_a^2 < 0 for some a proves that no f of norm <= B fits: B_min^2 = max_a ( sum yt_i^2/(e_i + a) - R^2/a ), R^2
 * without scatter. In u = 1/a each term u/(1 + e u) is concave and the rest linear, so golden section is exact here,
 * too.
 *
 * Numerical notes. sd_a^2 is a difference; where less than VARIANCE_FLOOR k(s,s) is left of it, it is rounding, and the
 * floor is taken, which makes the bound wider: a variance clipped at zero would be a bound that claims to know.
 *
 * Cost: amm O(1) per candidate; dmm 5, cmm 2 x 32 to 45 evaluations of O(n) per candidate. */
#include <math.h>

#include "confidence.h"
#include "linalg.h"
#include "spectrum.h"

#define GOLDEN 0.6180339887498949
#define SEARCH_LOW 1e-6    /* of a0: at an observed point of n repeats the bound tends to S/n + R/sqrt(n) as a falls */
#define SEARCH_HIGH 1e10   /* beyond, the bound is the prior's B sqrt(k) to ten digits */
#define SEARCH_STEPS 64    /* at most; the interval of ln a shrinks to SEARCH_ENOUGH before */
#define SEARCH_ENOUGH 2e-5 /* the value is flat at its minimum: the error is of the order of this squared */
#define VARIANCE_FLOOR 1e-13

static const double grid[] = {1, 3, 10, 30, 100};
#define N_GRID (sizeof grid / sizeof grid[0])

/* --- the search ------------------------------------------------------------------------------------------ */

/* A quasi-convex function of the ridge, with what it needs. */
typedef double ridge_fn(const void *data, double a);

/* Least value of f over a in [SEARCH_LOW, SEARCH_HIGH] a0. */
static double search(ridge_fn *f, const void *data, double a0)
{
    double low = log(a0 * SEARCH_LOW), high = log(a0 * SEARCH_HIGH);
    double x1 = high - GOLDEN * (high - low), x2 = low + GOLDEN * (high - low);
    double f1 = f(data, exp(x1)), f2 = f(data, exp(x2));
    double best = fmin(fmin(f1, f2), fmin(f(data, exp(low)), f(data, exp(high)))); /* it may lie at an end */
    for (int i = 0; i < SEARCH_STEPS && high - low > SEARCH_ENOUGH; i++) {
        if (f1 <= f2) {
            high = x2, x2 = x1, f2 = f1;
            x1 = high - GOLDEN * (high - low);
            f1 = f(data, exp(x1));
        } else {
            low = x1, x1 = x2, f1 = f2;
            x2 = low + GOLDEN * (high - low);
            f2 = f(data, exp(x2));
        }
        best = fmin(best, fmin(f1, f2));
    }
    return best;
}

/* --- the ball and the norm ------------------------------------------------------------------------------- */

double kb_conf_radius_sq(const struct kb_conf_view *v, double *work)
{
    double variance = v->conf->noise * v->conf->noise;
    kb_spectrum_reciprocals(v->spectrum, v->lambda, work);
    return v->lambda * kb_spectrum_energy(v->spectrum, work) +
           variance * (kb_spectrum_log_det(v->spectrum, v->lambda) - 2 * log(v->conf->delta));
}

struct norm_data {
    const struct kb_conf_view *v;
    double *reciprocal;
};

/* - ( sum yt_i^2/(e_i + a) - R^2/a ): its minimum is - B_min^2. */
static double minus_norm_sq(const void *data, double a)
{
    const struct norm_data *d = data;
    kb_spectrum_reciprocals(d->v->spectrum, a, d->reciprocal);
    return d->v->radius_sq / a - kb_spectrum_energy(d->v->spectrum, d->reciprocal);
}

double kb_conf_norm_least(const struct kb_conf_view *v, double *work)
{
    const struct norm_data data = {v, work};
    return sqrt(fmax(0, -search(minus_norm_sq, &data, v->lambda)));
}

/* R_a / sqrt(a) given the energy at a. */
static double radius_at(const struct kb_conf_view *v, double a, double energy)
{
    return sqrt(fmax(0, v->radius_sq / a + v->norm_bound * v->norm_bound - energy));
}

/* --- rules ----------------------------------------------------------------------------------------------- */

static void amm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    double c = v->conf->noise * v->conf->noise / v->lambda;
    double radius = sqrt(v->norm_bound * v->norm_bound + c * (v->log_det - 2 * log(v->conf->delta)));
    (void)arena;
    for (size_t i = 0; i < b->n; i++) {
        b->lower[i] = b->mean[i] - radius * b->sd[i];
        b->upper[i] = b->mean[i] + radius * b->sd[i];
    }
}

/* One candidate over all ridges: products that do not depend on the ridge, and the side that is looked at. */
struct arm_data {
    const struct kb_conf_view *v;
    double *w_target, *w_sq; /* [n] w_i yt_i, w_i^2 */
    double *target_sq;       /* [n] yt_i^2 */
    double *reciprocal;      /* [n] work */
    double prior, side;      /* side +1: upper, -1: minus the lower bound */
};

static double side_at(const void *data, double a)
{
    const struct arm_data *d = data;
    size_t n = d->v->spectrum->n;
    kb_spectrum_reciprocals(d->v->spectrum, a, d->reciprocal);
    double mean = kb_dot(n, d->w_target, d->reciprocal);
    double variance = fmax(VARIANCE_FLOOR * d->prior, d->prior - kb_dot(n, d->w_sq, d->reciprocal));
    return d->side * mean + radius_at(d->v, a, kb_dot(n, d->target_sq, d->reciprocal)) * sqrt(variance);
}

/* Work space for the candidates of a block, with what they share. */
static struct arm_data arm_data(const struct kb_conf_view *v, struct kb_arena *arena)
{
    const struct kb_spectrum *sp = v->spectrum;
    struct arm_data d = {
        .v = v,
        .w_target = kb_arena_doubles(arena, sp->n),
        .w_sq = kb_arena_doubles(arena, sp->n),
        .target_sq = kb_arena_doubles(arena, sp->n),
        .reciprocal = kb_arena_doubles(arena, sp->n),
    };
    for (size_t i = 0; i < sp->n; i++)
        d.target_sq[i] = sp->target[i] * sp->target[i];
    return d;
}

/* Candidate c of the block into *d. */
static void take_arm(struct arm_data *d, const struct kb_conf_block *b, size_t c)
{
    const double *w = b->w + c * b->ld;
    d->prior = b->prior[c];
    for (size_t i = 0; i < d->v->spectrum->n; i++) {
        d->w_target[i] = w[i] * d->v->spectrum->target[i];
        d->w_sq[i] = w[i] * w[i];
    }
}

/* Least value over the grid. */
static double grid_search(ridge_fn *f, const void *data, double a0)
{
    double best = INFINITY;
    for (size_t i = 0; i < N_GRID; i++)
        best = fmin(best, f(data, grid[i] * a0));
    return best;
}

/* Both sides of every candidate by a search over the ridge. */
static void search_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena,
                          double (*find)(ridge_fn *f, const void *data, double a0))
{
    struct arm_data d = arm_data(v, arena);
    for (size_t c = 0; c < b->n; c++) {
        take_arm(&d, b, c);
        d.side = 1;
        b->upper[c] = find(side_at, &d, v->lambda);
        d.side = -1;
        b->lower[c] = -find(side_at, &d, v->lambda);
    }
}

static void dmm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    search_bounds(v, b, arena, grid_search);
}

static void cmm_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    search_bounds(v, b, arena, search);
}

const struct kb_conf_ops kb_conf_amm = {.bounds = amm_bounds};
const struct kb_conf_ops kb_conf_dmm = {.reads_spectrum = true, .finds_norm = true, .bounds = dmm_bounds};
const struct kb_conf_ops kb_conf_cmm = {.reads_spectrum = true, .finds_norm = true, .bounds = cmm_bounds};
