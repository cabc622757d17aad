/* Confidence rules of the form mean -+ radius sd, one radius for all candidates.
 *
 *   a = lambda, sigma = noise, B the norm bound, L = ln det(I + K/a), d_eff = tr K (K + a I)^-1, t observations,
 *   kappa^2 the largest k(s,s) observed
 *
 *   fixed   beta                                                            not a bound with a level; what to act on
 *   lk      B + sqrt( (sigma^2/a) (L + 2 ln 1/delta) )                                                   [LK, Thm 4.1]
 *   ay      the same number, under the name and with the ridge sigma^2/c that TC gives it                  [TC, sec. 5]
 *   igp     B + sigma sqrt( L + 2 + 2 ln 1/delta ), meant for a = 1 + 2/T                                  [TC, sec. 5]
 *   ek      B + (sigma/sqrt(a)) sqrt( 2 ln 1/delta + ln(e + e t kappa^2/a) d_eff )                     [EK, Lemma 3.1]
 *
 * sd is on the scale of the Gaussian process: EK's sigma_EK is sd / sqrt(a) [EK, Prop. 4.2], which is where the
 * division comes from. EK states the noise with scale 1; the root is multiplied by sigma here. Deviation: kappa^2 is
 * the largest k(s,s) among the points observed instead of a bound for all points; the lemma uses it only to bound ln
 * det(I + K_t/a) by the trace of K_t (test: ek_is_lemma_3_1_on_the_observed_points). The lemma's `beta^(1/2)` in eq. 6
 * is a slip for this radius (docs/PAPERS.md).
 *
 * `ek` needs d_eff, an O(n^3) quantity, and takes it with mean and sd from one spectrum, so that the three belong to
 * the same moment. The others cost O(1) per candidate. */
#include <math.h>

#include "confidence.h"
#include "linalg.h"
#include "spectrum.h"

/* mean -+ radius sd by the posterior's own numbers. */
static void band(const struct kb_conf_block *b, double radius)
{
    for (size_t i = 0; i < b->n; i++) {
        b->lower[i] = b->mean[i] - radius * b->sd[i];
        b->upper[i] = b->mean[i] + radius * b->sd[i];
    }
}

static void fixed_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    (void)arena;
    band(b, v->conf->beta);
}

/* [LK, Thm 4.1]; with lambda = sigma^2/c also Abbasi-Yadkori's radius as TC states it. */
static void self_normalised_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    double c = v->conf->noise * v->conf->noise / v->lambda;
    (void)arena;
    band(b, v->norm_bound + sqrt(c * (v->log_det - 2 * log(v->conf->delta))));
}

/* [TC, sec. 5], improved GP-UCB. */
static void igp_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    (void)arena;
    band(b, v->norm_bound + v->conf->noise * sqrt(v->log_det + 2 - 2 * log(v->conf->delta)));
}

/* [EK, Lemma 3.1] in units of sd. */
static double ek_radius(const struct kb_conf_view *v)
{
    const struct kb_spectrum *sp = v->spectrum;
    double growth = log(exp(1) * (1 + sp->n_observed * sp->largest_diag / v->lambda));
    double root = sqrt(-2 * log(v->conf->delta) + growth * kb_spectrum_effective_dimension(sp, v->lambda));
    return v->norm_bound + v->conf->noise / sqrt(v->lambda) * root;
}

/* Mean and sd at lambda from the spectrum: of the same moment as d_eff. */
static void ek_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    size_t n = v->spectrum->n;
    double radius = ek_radius(v), *reciprocal = kb_arena_doubles(arena, n), *scaled = kb_arena_doubles(arena, n);
    kb_spectrum_reciprocals(v->spectrum, v->lambda, reciprocal);
    for (size_t c = 0; c < b->n; c++) {
        const double *w = b->w + c * b->ld;
        for (size_t i = 0; i < n; i++)
            scaled[i] = w[i] * reciprocal[i];
        double mean = kb_dot(n, scaled, v->spectrum->target);
        double half_width = radius * sqrt(fmax(0, b->prior[c] - kb_dot(n, scaled, w)));
        b->lower[c] = mean - half_width;
        b->upper[c] = mean + half_width;
    }
}

const struct kb_conf_ops kb_conf_fixed = {.bounds = fixed_bounds};
const struct kb_conf_ops kb_conf_lk = {.bounds = self_normalised_bounds};
const struct kb_conf_ops kb_conf_ay = {.bounds = self_normalised_bounds};
const struct kb_conf_ops kb_conf_igp = {.bounds = igp_bounds};
const struct kb_conf_ops kb_conf_ek = {.reads_spectrum = true, .bounds = ek_bounds};
