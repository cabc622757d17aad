/* Admission rules of the dictionary.
 *
 *   kors       p = min(1, gamma tau),  tau = (1 + eps) q / (q + mu)                         [EK, eq. 41]
 *              q = k(s,s) - w^T M^-1 w,  w = S k_Z(s),  M = S K_ZZ S + mu I,  S = diag(1 / sqrt(p_z))
 *   threshold  p = 1 when r(s) > threshold k(s,s), else 0: no chance involved (ours)
 *   resampled  p = 1: whatever adds a direction may enter; what does is drawn by nystrom_resample.c  [BKB, Alg. 1]
 *
 *   p_z   probability with which dictionary point z was admitted      r(s)   residual over the dictionary
 *
 * EK's tau is the ridge leverage score of s against the weighted dictionary *with s itself added at weight 1*:
 *   tau = (1+eps)/mu ( k - k_*^T S (S K_** S + mu I)^-1 S k_* ),  * = Z and s.
 * Eliminating s from the bordered system gives k - k_*^T S (...)^-1 S k_* = mu q / (q + mu), hence the form above:
 * one triangular solve with the factor of M, which grows by a row per admission,
 *   row  w_i / sqrt(p),  diagonal  k / p + mu        (weights 1/p from then on).
 * The first point enters for certain: EK's Alg. 2 starts from it, and without one nothing that is learned shows.
 * Deviation: the sign is that of the paper's eq. 41; the authors' code inverts it (test:
 * kors_matches_the_bordered_definition).
 *
 * by_component has no rule here: each component is asked what it misses at the point (nystrom_admit.c).
 *
 * No rule admits a residual below KB_RESIDUAL_MIN k(s,s): it adds no direction and would spoil the conditioning
 * of K_ZZ (features.c). For kors that matters, since importance weights let tau stay large inside the span.
 *
 * Numerical notes. M >= mu I and its pivots are sqrt(Schur complement) >= sqrt(mu), so nothing is divided by
 * anything small; q is >= r >= 0 in exact arithmetic and floored there. Cost: O(m^2) per query and admission.
 *
 * Place: after a reward the engine asks whether its point enters (kb_posterior_admits), compares the
 * probability with a number keyed by (seed, seq), and puts a `dictionary` event with that probability behind
 * the reward. A fold reads the event and draws nothing; append then sees the logged probability, not one
 * computed anew.
 *
 * A new rule is one row of functions and one line in `rules`. */
#include "posterior/admission.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "linalg/factor_io.h"
#include "posterior/features.h"
#include "base/grow.h"
#include "base/hash.h"
#include "linalg/linalg.h"

/* kors divides kernel values by chances, and by their products: no draw gives less (they have 53 bits). */
#define LEAST_CHANCE 1e-100

struct kb_admission_ops {
    /* within [0, 1], without the limits common to all rules; `work`: n doubles */
    double (*probability)(const struct kb_admission *a, const struct kb_admission_query *q, double *work);
    /* All NULL for a rule without state. */
    enum kb_err (*grow)(struct kb_admission *a, size_t n, struct kb_moves *m);
    void (*append)(struct kb_admission *a, const struct kb_admission_query *q, double probability, double *work);
};

bool kb_admission_is_chance(enum kb_repr_type type, double probability)
{
    return probability >= (type == KB_REPR_KORS ? LEAST_CHANCE : 0) && probability > 0 && probability <= 1;
}

/* --- kors ----------------------------------------------------------------------------------------------- */

/* work = L^-1 S k_Z with M = L L^T; returns q. */
static double kors_solve(const struct kb_admission *a, const struct kb_admission_query *q, double *work)
{
    for (size_t i = 0; i < a->n; i++)
        work[i] = q->k_z[i] / sqrt(a->probability[i]);
    kb_chol_solve_l(&a->m, work);
    return fmax(q->diag - kb_dot(a->n, work, work), fmax(q->residual, 0.0));
}

static double kors_probability(const struct kb_admission *a, const struct kb_admission_query *query, double *work)
{
    if (a->n == 0)
        return 1.0;
    double q = kors_solve(a, query, work);
    double tau = (1 + a->spec.epsilon) * q / (q + a->spec.mu);
    return fmin(1.0, a->spec.gamma * tau);
}

/* M grows with the dictionary, one row per admission. */
static enum kb_err kors_grow(struct kb_admission *a, size_t n, struct kb_moves *m)
{
    return kb_chol_grow(&a->m, n, m);
}

/* The diagonal of M for s is k / p + mu, its row S_old k_Z / sqrt(p), since S scales rows and columns. */
static void kors_append(struct kb_admission *a, const struct kb_admission_query *q, double probability, double *work)
{
    kors_solve(a, q, work);
    for (size_t i = 0; i < a->n; i++)
        work[i] /= sqrt(probability);
    double schur = q->diag / probability + a->spec.mu - kb_dot(a->n, work, work);
    kb_chol_append_row(&a->m, work, sqrt(fmax(schur, a->spec.mu)));
}

static const struct kb_admission_ops kors = {
    .probability = kors_probability,
    .grow = kors_grow,
    .append = kors_append,
};

/* --- threshold ------------------------------------------------------------------------------------------- */

/* No state and no draw: the log still carries the probability 1. */
static double threshold_probability(const struct kb_admission *a, const struct kb_admission_query *q, double *work)
{
    (void)work;
    return q->residual > a->spec.threshold * q->diag ? 1.0 : 0.0;
}

static const struct kb_admission_ops threshold = {.probability = threshold_probability};

/* --- resampled ------------------------------------------------------------------------------------------- */

/* Asked while a drawn dictionary is built, never online (kb_posterior_admits): the limits below are all that it takes.
 */
static double resampled_probability(const struct kb_admission *a, const struct kb_admission_query *q, double *work)
{
    (void)a, (void)q, (void)work;
    return 1.0;
}

static const struct kb_admission_ops resampled = {.probability = resampled_probability};

/* --- the interface --------------------------------------------------------------------------------------- */

static const struct kb_admission_ops *const rules[KB_REPR_N] = {
    [KB_REPR_KORS] = &kors,      [KB_REPR_THRESHOLD] = &threshold,    [KB_REPR_BKB] = &resampled,
    [KB_REPR_BBKB] = &resampled, [KB_REPR_BY_COMPONENT] = &resampled, /* not asked */
};

void kb_admission_init(struct kb_admission *a, const struct kb_repr_spec *spec)
{
    assert(rules[spec->type] != NULL);
    *a = (struct kb_admission){.ops = rules[spec->type], .spec = *spec};
    kb_chol_init(&a->m);
}

void kb_admission_close(struct kb_admission *a)
{
    kb_free(a->probability);
    kb_chol_close(&a->m);
    a->probability = NULL;
    a->n = a->cap = 0;
}

enum kb_err kb_admission_grow(struct kb_admission *a, size_t n, struct kb_moves *m)
{
    enum kb_err rc = KB_OK;
    if (n <= a->cap)
        return KB_OK;
    if (a->ops->grow != NULL)
        KB_TRY(a->ops->grow(a, n, m));
    KB_TRY(kb_moves_add(m, &a->probability, a->n, n, sizeof *a->probability, &a->cap));
out:
    return rc;
}

/* The limits common to all rules, in the order of their cost. */
double kb_admission_probability(const struct kb_admission *a, const struct kb_admission_query *q, double *work)
{
    if (a->n >= a->spec.max_dictionary)
        return 0.0;
    if (!(KB_RESIDUAL_MIN * q->diag > 0) || q->residual < KB_RESIDUAL_MIN * q->diag)
        return 0.0;
    return a->ops->probability(a, q, work);
}

void kb_admission_append(struct kb_admission *a, const struct kb_admission_query *q, double probability, double *work)
{
    assert(a->n < a->cap && probability > 0 && probability <= 1);
    if (a->ops->append != NULL)
        a->ops->append(a, q, probability, work);
    a->probability[a->n++] = probability;
}

/* --- digest and snapshot ----------------------------------------------------------------------------------- */

uint64_t kb_admission_digest(const struct kb_admission *a, uint64_t h)
{
    for (size_t i = 0; i < a->n; i++)
        h = kb_hash_double(h, a->probability[i]);
    return kb_factor_digest(&a->m, h);
}

void kb_admission_save(const struct kb_admission *a, struct kb_writer *w)
{
    kb_put_doubles(w, a->probability, a->n);
    if (a->ops->append != NULL)
        kb_factor_save(&a->m, w);
}

/* Probabilities outside (0, 1] are damage: append would divide by them. */
enum kb_err kb_admission_load(struct kb_admission *a, size_t n, struct kb_reader *r)
{
    enum kb_err rc = KB_OK;
    assert(n <= a->cap);
    kb_get_doubles(r, a->probability, n);
    KB_TRY(r->rc);
    for (size_t i = 0; i < n; i++) {
        if (!(a->probability[i] > 0 && a->probability[i] <= 1))
            return KB_ECORRUPT;
    }
    if (a->ops->append != NULL)
        KB_TRY(kb_factor_load(&a->m, n, r));
    a->n = n;
out:
    return rc;
}

size_t kb_admission_bytes(const struct kb_admission *a)
{
    return a->cap * sizeof *a->probability + a->m.cap * a->m.cap * sizeof *a->m.l;
}
