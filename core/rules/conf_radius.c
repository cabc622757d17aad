/* Confidence rules of the form mean -+ radius sd, one radius for all candidates.
 *
 *   a = lambda, sigma = noise, B the norm bound, L = ln det(I + K/a), d_eff = tr K (K + a I)^-1, t observations,
 *   kappa^2 the largest k(s,s) observed
 *
 *   fixed   beta                                                            not a bound with a level; what to act on
 *   lk      B + sqrt( (sigma^2/a) (L + 2 ln 1/delta) )                                                   [LK, Thm 4.1]
 *   ay      the same number, under the name and with the ridge sigma^2/c that TC gives it                  [TC, sec. 5]
 *   igp     B + sigma sqrt( (L + 2 + 2 ln 1/delta) / min(1, a) ), meant for a = 1 + 2/T                    [TC, sec. 5]
 *   ek      B + (sigma/sqrt(a)) sqrt( 2 ln 1/delta + ln(e + e t kappa^2/a) d_eff )                     [EK, Lemma 3.1]
 *   ek over a dictionary                                                                               [EK, Lemma 4.1]
 *           (1 + sqrt(e_t/a)) B + (sigma/sqrt(a)) sqrt( 4 ln 1/delta + 2 ln(e + e t kappa^2/a) d_eff )
 *   bkb     (1 + max(1/sqrt(1 - eps), sqrt(e_t/a))) B
 *           + (2 sigma/sqrt(a)) sqrt( alpha (1 + ln(1 + kappa^2 t/a)) sum sd^2/a + ln 1/delta )
 *           alpha = (1 + eps)/(1 - eps), eps the representation's epsilon                                  [BKB, Thm 2]
 *   ek_plus B (sqrt(e_t/a) + sqrt(e_t/a + 4))/2 + (sigma/sqrt(a)) sqrt( 2 ln 1/delta + L )           decisions/0011
 *
 * sd is on the scale of the Gaussian process: EK's sigma_EK is sd / sqrt(a) [EK, Prop. 4.2], which is where the
 * divisions come from. EK states the noise with scale 1; the root is multiplied by sigma here. Deviations: kappa^2 is
 * the largest k(s,s) among the points observed instead of a bound for all points; the lemmas use it only to bound ln
 * det(I + K_t/a) by the trace of K_t (test: ek_is_lemma_3_1_on_the_observed_points). Lemma 4.1 has mu, which the
 * sampler keeps above e_t with high probability; the e_t computed here holds for certain and for every admission rule.
 * The lemma's `beta^(1/2)` in eq. 6 is a slip for this radius (docs/PAPERS.md).
 *
 * Deviation, igp: the printed radius has no min(1, a); it is stated for a = 1 + 2/T, and for a < 1 it is no bound. With
 * the divisor it is never below lk's, since sigma^2/min(1, a) >= sigma^2/a, hence a bound at every ridge and for all
 * time; for a >= 1 it is the printed number (test: igp_is_never_below_theorem_4_1_of_lk_at_any_ridge).
 *
 * Deviations, bkb: the printed logarithm is ln(kappa^2 t), which bounds nothing where kappa^2 or a is small; and the
 * printed bias has 1/sqrt(1 - eps) alone, which bounds sqrt(e_t/a) with high probability for the q of the theorem, and
 * here any dictionary may be served. With S = V_a and P the projection, f - mean = S^-1 (a f - P Phi^T Phi (I - P) f
 * - P Phi^T noise), and in the norm of S the three parts are at most
 *
 *           sqrt(a) B,   sqrt(e_t) B, since |S^-1/2 P Phi^T| <= 1,   sigma sqrt( L + 2 ln 1/delta ), as ek_plus has it,
 *
 * while L <= (1 + ln(1 + kappa^2 t/a)) d_eff, as ln(1 + x) <= (1 + ln(1 + x)) x/(1 + x) and no eigenvalue of K_t
 * passes kappa^2 t. So bkb is no less than that on any dictionary (test:
 * bkb_is_never_below_what_any_dictionary_asks_for; proofs: decisions/0058).
 *
 * Of a dictionary, with F F^T its part of K_t and tr the trace of the rest (projection_error.h), what a rule asks of
 * K_t is bounded from above: L <= ln det(I + F F^T/a) + tr/a, and d_eff <= d_eff(F F^T) + tr/a, x/(x + a) being
 * subadditive and below x/a. sum sd^2/a under the dictionary in force is exactly d_eff(F F^T) + tr/a.
 *
 * These need O(n^3) quantities and take them with mean and sd from one spectrum, so that all belong to the same moment.
 * The others cost O(1) per candidate. */
#include <math.h>

#include "rules/conf_impl.h"
#include "posterior/spectrum.h"

void kb_conf_band(const struct kb_conf_block *b, double radius)
{
    for (size_t i = 0; i < b->n; i++) {
        b->lower[i] = b->mean[i] - radius * b->sd[i];
        b->upper[i] = b->mean[i] + radius * b->sd[i];
    }
}

static void fixed_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    (void)arena;
    kb_conf_band(b, v->conf->beta);
}

/* [LK, Thm 4.1]; with lambda = sigma^2/c also Abbasi-Yadkori's radius as TC states it. */
static void self_normalised_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    double c = v->conf->noise * v->conf->noise / v->lambda;
    (void)arena;
    kb_conf_band(b, v->norm_bound + sqrt(c * (v->log_det - 2 * log(v->conf->delta))));
}

/* [TC, sec. 5], improved GP-UCB; by the file header at every ridge. */
static void igp_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    double noise = v->conf->noise / sqrt(fmin(1, v->lambda));
    (void)arena;
    kb_conf_band(b, v->norm_bound + noise * sqrt(v->log_det + 2 - 2 * log(v->conf->delta)));
}

/* What these rules ask of K_t, by the file header. */
static double trace_share(const struct kb_conf_view *v)
{
    return v->spectrum->is_sketch ? v->spectrum->sketch.trace / v->lambda : 0;
}

static double effective_dimension(const struct kb_conf_view *v)
{
    return kb_spectrum_effective_dimension(v->spectrum, v->lambda) + trace_share(v);
}

/* sqrt(e_t / a). */
static double error_root(const struct kb_conf_view *v)
{
    return v->spectrum->is_sketch ? sqrt(v->spectrum->sketch.error / v->lambda) : 0;
}

/* [EK, Lemma 3.1], over a dictionary [EK, Lemma 4.1], in units of sd. */
static double ek_radius(const struct kb_conf_view *v)
{
    const struct kb_spectrum *sp = v->spectrum;
    double growth = log(exp(1) * (1 + sp->n_observed * sp->largest_diag / v->lambda));
    double root = sqrt((sp->is_sketch ? 2 : 1) * (-2 * log(v->conf->delta) + growth * effective_dimension(v)));
    return (1 + error_root(v)) * v->norm_bound + v->conf->noise / sqrt(v->lambda) * root;
}

/* [BKB, Thm 2] in units of sd. */
static double bkb_radius(const struct kb_conf_view *v)
{
    const struct kb_spectrum *sp = v->spectrum;
    double alpha = (1 + v->accuracy) / (1 - v->accuracy);
    double growth = alpha * (1 + log1p(sp->largest_diag * sp->n_observed / v->lambda));
    double root = sqrt(growth * effective_dimension(v) - log(v->conf->delta));
    double miss = fmax(1 / sqrt(1 - v->accuracy), error_root(v));
    return 2 * v->conf->noise / sqrt(v->lambda) * root + (1 + miss) * v->norm_bound;
}

/* The tightened Lemma 4.1: one bias term, and the log determinant itself. */
static double ek_plus_radius(const struct kb_conf_view *v)
{
    double miss = error_root(v), log_det = kb_spectrum_log_det(v->spectrum, v->lambda) + trace_share(v);
    double root = sqrt(log_det - 2 * log(v->conf->delta));
    return v->norm_bound * (miss + sqrt(miss * miss + 4)) / 2 + v->conf->noise / sqrt(v->lambda) * root;
}

/* Mean -+ radius sd, with mean and sd at ridge a from the spectrum: of the same moment as the radius. */
static void value_at(const void *data, size_t n, const double *a, double *value)
{
    const struct kb_conf_arms *d = data;
    struct kb_ridge_sums at;
    kb_spectrum_sums(d->v->spectrum, d->w, a, &at);
    for (size_t k = 0; k < n; k++) {
        double variance =
            d->v->spectrum->is_sketch ? d->residual[k] + a[k] * at.known[k] : fmax(0, d->prior[k] - at.known[k]);
        value[k] = d->side[k] * at.mean[k] + d->radius * sqrt(variance);
    }
}

static void ek_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, ek_radius(v), value_at, kb_conf_search_one);
}

static void bkb_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, bkb_radius(v), value_at, kb_conf_search_one);
}

static void ek_plus_bounds(const struct kb_conf_view *v, const struct kb_conf_block *b, struct kb_arena *arena)
{
    kb_conf_search_block(v, b, arena, ek_plus_radius(v), value_at, kb_conf_search_one);
}

const struct kb_conf_ops kb_conf_fixed = {.bounds = fixed_bounds};
const struct kb_conf_ops kb_conf_lk = {.bounds = self_normalised_bounds};
const struct kb_conf_ops kb_conf_ay = {.bounds = self_normalised_bounds};
const struct kb_conf_ops kb_conf_igp = {.bounds = igp_bounds};
const struct kb_conf_ops kb_conf_ek = {.reads_spectrum = true, .bounds = ek_bounds};
const struct kb_conf_ops kb_conf_bkb = {.reads_spectrum = true, .bounds = bkb_bounds};
const struct kb_conf_ops kb_conf_ek_plus = {.reads_spectrum = true, .bounds = ek_plus_bounds};
