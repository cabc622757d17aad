/* The dictionary posterior: Nystrom features, a ridge regression on them, and an admission rule.
 *
 *   Z, m           dictionary = support          z(s) = A^-1 k_Z(s)      features.c
 *   V, b, lambda   regression on the features    mean = z.V^-1 b         ridge.c      [EK, Prop. 4.2]
 *   p              admission probability         kors, threshold         admission.c  [EK, eq. 41]
 *   e_t            what Z misses of the points   blocks of 64            projection_error.c
 *   energy, ...    sums of the prequential radius                        evidence.c
 *
 *   mean(s) = z.V^-1 b       sd^2(s) = r(s) + lambda z.V^-1 z       r = k(s,s) - z.z
 *
 * Where the kernel is a sum of components (component_kernel.h) each point of Z stands for one of them. K_ZZ is then
 * block diagonal, z the features of all components, one after another, and r the sum of what each misses, so sd is
 * never below that of the process. Nothing else differs but the prior mean mu, which rewards are learned less of, and
 * sums that the components' variances are learned from (part_sums.h).
 *
 * Cost: learn O(m (dim + m)); predict the same per candidate. How a point enters: nystrom_admit.c; building from a
 * history: nystrom_build.c. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/factor_io.h"
#include "linalg/linalg.h"
#include "posterior/component_scales.h"
#include "posterior/nystrom.h"
#include "posterior/influence.h"

#define SOLVES 16.0 /* generously, what rounding in so many of them leaves */

/* Three parts, each with its own state; empty. */
static enum kb_err nystrom_init(struct kb_posterior *p, const struct kb_spec *spec)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    kb_features_init(&n->features);
    n->n_ridges = spec->conf.is_mixture ? KB_N_MIXTURE : 1;
    for (size_t i = 0; i < n->n_ridges; i++)
        kb_ridge_init(&n->ridge[i], spec->repr.lambda * kb_mixture_ridge[i]);
    kb_admission_init(&n->admission, &spec->repr);
    n->mean = p->kernel.is_sum ? spec->prior.mean : 0;
    p->max_support = spec->repr.max_dictionary;
    return kb_projection_error_init(&n->error, p->support.dim,
                                    p->reads_spectrum && kb_user_kernel_has_pairs(p->kernel.user));
}

static void nystrom_close(struct kb_posterior *p)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    kb_features_close(&n->features);
    for (size_t i = 0; i < n->n_ridges; i++)
        kb_ridge_close(&n->ridge[i]);
    kb_projection_error_close(&n->error);
    kb_sweep_cache_close(&n->sweep);
    kb_part_sums_close(&n->parts);
    kb_admission_close(&n->admission);
    kb_free(n->k_z);
    kb_free(n->cross);
    kb_free(n->late_cross);
    kb_free(n->border.l);
    kb_free(n->border.q);
    kb_chol_close(&n->known);
    kb_free(n->mean_weight);
    kb_free(n->open_cross);
}

/* What the writer alone works in moves with the rest; nothing in it outlives a step. */
static enum kb_err nystrom_grow(struct kb_posterior *p, size_t n_points, struct kb_moves *m)
{
    enum kb_err rc;
    struct kb_nystrom *n = kb_nystrom_of(p);
    KB_TRY(kb_features_grow(&n->features, n_points, m));
    for (size_t i = 0; i < n->n_ridges; i++)
        KB_TRY(kb_ridge_grow(&n->ridge[i], n_points, m));
    KB_TRY(kb_projection_error_grow(&n->error, n_points, m));
    KB_TRY(kb_admission_grow(&n->admission, n_points, m));
    if (p->kernel.is_sum)
        KB_TRY(kb_part_sums_grow(&n->parts, n_points, m));
    if (p->counts_open)
        KB_TRY(kb_nystrom_grow_open(n, n_points, m));
    KB_TRY(kb_moves_add(m, &n->k_z, 0, n_points, sizeof *n->k_z, NULL));
    KB_TRY(kb_moves_add(m, &n->cross, 0, n_points, sizeof *n->cross, NULL));
    KB_TRY(kb_moves_add(m, &n->late_cross, 0, n_points, sizeof *n->late_cross, NULL));
    KB_TRY(kb_moves_add(m, &n->border.l, 0, n_points, sizeof *n->border.l, NULL));
    KB_TRY(kb_moves_add(m, &n->border.q, 0, n_points, sizeof *n->border.q, NULL));
out:
    return rc;
}

/* Bytes beyond what posterior.c counts. O(1). */
static size_t nystrom_held_bytes(const struct kb_posterior *p)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    size_t a = n->features.a.cap;
    return (a * a + 5 * p->cap + n->known.cap * n->known.cap) * sizeof(double) +
           n->n_ridges * kb_ridge_bytes(&n->ridge[0]) + kb_projection_error_bytes(&n->error) +
           n->parts.cap * sizeof *n->parts.mass + n->sweep_bytes + kb_admission_bytes(&n->admission);
}

/* --- prediction and learning ------------------------------------------------------------------------------ */

/* z by one blocked solve with A, residuals from it, then R^-1 z by a second. */
static void nystrom_predict_block(const struct kb_posterior *p, double *block, size_t ld, size_t n_c,
                                  const double *diag, double *mean, double *variance)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    double spread[KB_BLOCK];
    kb_features_map_many(&n->features, block, ld, n_c);
    kb_features_residuals(&n->features, block, ld, n_c, diag, variance);
    kb_ridge_predict(&n->ridge[0], block, ld, n_c, mean, spread);
    for (size_t c = 0; c < n_c; c++) {
        variance[c] += p->lambda * spread[c];
        mean[c] += n->mean;
    }
}

static double frobenius(const struct kb_chol *c)
{
    double sum = 0;
    for (size_t j = 0; j < c->n; j++)
        sum += kb_dot(c->n - j, c->l + j * c->cap + j, c->l + j * c->cap + j);
    return sqrt(sum);
}

/* A solve with a triangle L has the solution of L + dL, |dL| <= m eps |L|. Both ways to the mean solve with A and with
 * R, and |z| <= sqrt(k(s,s)), |R^-1 z| <= |z| / sqrt(lambda). */
static double nystrom_weights(const struct kb_posterior *p, double *weight, double *work, double *offset)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    const struct kb_chol *a = &n->features.a, *r = &n->ridge[0].r;
    const size_t m = a->n;
    memcpy(work, n->ridge[0].w, m * sizeof *work);
    kb_chol_solve_lt(r, work);
    memcpy(weight, work, m * sizeof *work);
    kb_chol_solve_lt(a, weight);
    *offset = n->mean;
    const double w = sqrt(kb_dot(m, n->ridge[0].w, n->ridge[0].w)) + sqrt(kb_dot(m, work, work)) * frobenius(r);
    const double error = frobenius(a) * sqrt(kb_dot(m, weight, weight)) + w / sqrt(n->ridge[0].lambda) + fabs(n->mean);
    return SOLVES * (double)m * DBL_EPSILON * error;
}

/* g = A^-T V^-1 z: z by a solve with A, then both ways through R, and back through A. */
static void nystrom_influence(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                              struct kb_influence *in)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    in->prior = n->mean;
    if (n->features.a.n == 0)
        return;
    memcpy(in->weight, kb_posterior_one_column(p, cand, s), n->features.a.n * sizeof *in->weight);
    kb_features_map(&n->features, in->weight);
    kb_chol_solve_l(&n->ridge[0].r, in->weight);
    kb_chol_solve_lt(&n->ridge[0].r, in->weight);
    kb_chol_solve_lt(&n->features.a, in->weight);
}

static bool nystrom_learn_adds_point(const struct kb_posterior *p, const struct kb_point *pt)
{
    (void)p, (void)pt; /* the dictionary grows by admissions alone */
    return false;
}

/* The reward is taught by its weight d_count, one rank-one step of each regression at z(s), which tells what was
 * foretold of it. 0 is a correction: only b moves, and what was foretold is void (posterior.c). The history has what
 * comes before the first admission, which sweeps it up. */
static void nystrom_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                          struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    size_t m = p->support.n;
    double *z = kb_arena_doubles(&s->arena, m + 1), *work = kb_arena_doubles(&s->arena, m + 1);
    double diag = kb_kernel_diag(&p->kernel, pt, s), residual;
    struct kb_foretold foretold[KB_N_MIXTURE];
    d_sum -= n->mean * d_count;
    kb_posterior_column(p, m + n->is_entering, pt, s, z);
    if (n->is_entering)
        kb_nystrom_learn_entering(n, z, d_count, d_sum);
    if (m > 0)
        kb_features_map(&n->features, z);
    kb_features_residuals(&n->features, z, m, 1, &diag, &residual);
    if (p->kernel.is_sum)
        kb_nystrom_count_parts(n, pt, z, d_count, d_sum + n->mean * d_count, s);
    for (size_t i = 0; i < n->n_ridges; i++) {
        memcpy(work, z, m * sizeof *z);
        kb_ridge_learn(&n->ridge[i], work, d_count, d_sum, &foretold[i]);
        foretold[i].s2 += residual / n->ridge[i].lambda;
    }
    if (p->counts_open) {
        memcpy(work, z, m * sizeof *z);
        kb_nystrom_follow_open(n, d_count > 0 ? work : NULL);
    }
    if (d_count == 0)
        return;
    if (p->ops->closed_evidence == NULL)
        kb_evidence_add(&p->evidence, d_sum / d_count, foretold, n->n_ridges);
    if (p->is_resampled)
        p->accumulated += foretold[0].s2; /* sd^2 / lambda before the step [BKB, Alg. 1] */
    kb_projection_error_add(&n->error, &p->kernel, pt, z, m, diag, residual, d_count, &s->arena);
}

/* --- forgetting ---------------------------------------------------------------------------------------------- */

static enum kb_err nystrom_reserve_spare(struct kb_posterior *p, size_t n_points)
{
    enum kb_err rc = KB_OK;
    struct kb_nystrom *n = kb_nystrom_of(p);
    for (size_t i = 0; i < n->n_ridges; i++)
        KB_TRY(kb_ridge_reserve_spare(&n->ridge[i], n_points));
out:
    return rc;
}

static void nystrom_prepare_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    double *work = kb_posterior_block(s, p->support.n);
    for (size_t i = 0; i < n->n_ridges; i++)
        if (kb_ridge_prepare_left(&n->ridge[i], left, work))
            kb_posterior_count_clamp(p);
}

/* Everything that is a sum over observations; A and the admission rule are the dictionary's alone. What a point on its
 * way in has learned late follows, too; its sweep looks at the rows as they were (nystrom_admit.c). */
static void nystrom_take_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    (void)s;
    for (size_t i = 0; i < n->n_ridges; i++)
        kb_ridge_take_left(&n->ridge[i], left);
    kb_projection_error_scale(&n->error, left);
    kb_part_sums_scale(&n->parts, p->support.n, left);
    for (size_t i = 0; n->is_entering && i < p->support.n; i++)
        n->late_cross[i] *= left;
    n->late_square *= left;
    n->late_target *= left;
    n->late_mass *= left;
    p->spare_bytes = n->n_ridges * n->ridge[0].spare.cap * n->ridge[0].spare.cap * sizeof(double);
}

/* --- facts, digest, snapshot --------------------------------------------------------------------------------- */

/* Both are the regression's. */
static enum kb_err nystrom_look(const struct kb_posterior *p, size_t which, struct kb_chol *to, double *gain)
{
    const struct kb_ridge *v = &kb_nystrom_of_const(p)->ridge[0];

    (void)which;
    if (kb_chol_reserve(to, v->r.n) != KB_OK)
        return KB_ENOMEM;
    kb_chol_copy(to, &v->r);
    *gain = kb_ridge_information_gain(v);
    return KB_OK;
}

static uint64_t nystrom_digest(const struct kb_posterior *p, uint64_t h)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    h = kb_features_digest(&n->features, h);
    for (size_t i = 0; i < n->n_ridges; i++)
        h = kb_ridge_digest(&n->ridge[i], h);
    h = kb_projection_error_digest(&n->error, p->support.n, h);
    h = p->n_open > 0 ? kb_factor_digest(&n->known, h) : h;
    if (p->kernel.is_sum)
        h = kb_part_sums_digest(&n->parts, p->support.part, p->support.n, h);
    return kb_admission_digest(&n->admission, h);
}

/* A, then V and b of each ridge, the projection error, the rule's state, the sums of components; each knows its own
 * format. */
static void nystrom_save(const struct kb_posterior *p, struct kb_writer *w)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    kb_features_save(&n->features, w);
    for (size_t i = 0; i < n->n_ridges; i++)
        kb_ridge_save(&n->ridge[i], w);
    kb_projection_error_save(&n->error, p->support.n, w);
    kb_admission_save(&n->admission, w);
    if (p->kernel.is_sum)
        kb_part_sums_save(&n->parts, p->support.part, p->support.n, w);
    if (p->n_open > 0)
        kb_factor_save(&n->known, w);
}

static enum kb_err nystrom_load(struct kb_posterior *p, struct kb_reader *r)
{
    enum kb_err rc;
    struct kb_nystrom *n = kb_nystrom_of(p);
    size_t m = p->support.n;
    KB_TRY(kb_features_load(&n->features, m, r));
    for (size_t i = 0; i < n->n_ridges; i++)
        KB_TRY(kb_ridge_load(&n->ridge[i], m, r));
    KB_TRY(kb_projection_error_load(&n->error, m, &p->kernel, r));
    KB_TRY(kb_admission_load(&n->admission, m, r));
    if (p->kernel.is_sum)
        KB_TRY(kb_part_sums_load(&n->parts, p->support.part, m, r));
    if (p->n_open > 0)
        KB_TRY(kb_factor_load(&n->known, m, r));
    kb_nystrom_follow_open(n, NULL);
out:
    return rc;
}

/* --- what confidence rules read ---------------------------------------------------------------------------- */

/* Q of V0 as it stands; candidates are projected by Q^T A^-1 k_Z. A is nested: its leading block stays the
 * one of the spectrum's moment. */
static enum kb_err nystrom_decompose(const struct kb_posterior *p, struct kb_scratch *s, struct kb_spectrum *sp)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    size_t mark = kb_arena_mark(&s->arena);
    if (sp->n > 0)
        kb_ridge_gram(&n->ridge[0], sp->basis, kb_posterior_block(s, sp->n));
    kb_arena_reset(&s->arena, mark);
    sp->sketch = (struct kb_sketch_facts){
        .evidence = p->evidence,
        .n_mixture = n->n_ridges,
        .trace = n->error.trace,
        .error = kb_projection_error_value(&n->error),
    };
    sp->n_observed = n->error.count;
    sp->largest_diag = n->error.largest_diag;
    return kb_spectrum_decompose_features(sp, n->ridge[0].b);
}

static void nystrom_map_block(const struct kb_posterior *p, double *block, size_t ld, size_t n_c)
{
    kb_features_map_many(&kb_nystrom_of_const(p)->features, block, ld, n_c);
}

/* clang-format off */
#define DICTIONARY \
    .bytes = sizeof(struct kb_nystrom), \
    .init = nystrom_init, \
    .close = nystrom_close, \
    .held_bytes = nystrom_held_bytes, \
    .grow = nystrom_grow, \
    .predict_block = nystrom_predict_block, \
    .open = kb_nystrom_open, \
    .predict_open = kb_nystrom_predict_open, \
    .sweep_open = kb_nystrom_sweep_open, \
    .weights = nystrom_weights, \
    .influence = nystrom_influence, \
    .is_sketch = true, \
    .decompose = nystrom_decompose, \
    .map_block = nystrom_map_block, \
    .learn_adds_point = nystrom_learn_adds_point, \
    .learn = nystrom_learn, \
    .reserve_spare = nystrom_reserve_spare, \
    .prepare_left = nystrom_prepare_left, \
    .take_left = nystrom_take_left, \
    .fill = kb_nystrom_fill, \
    .admission = kb_nystrom_admission, \
    .put_atom = kb_nystrom_put_atom, \
    .open_atom = kb_nystrom_open_atom, \
    .sweep = kb_nystrom_sweep, \
    .close_atom = kb_nystrom_close_atom, \
    .abandon_atom = kb_nystrom_abandon_atom, \
    .commit_atom = kb_nystrom_commit_atom, \
    .sweep_work = kb_nystrom_sweep_work, \
    .choose = kb_nystrom_choose, \
    .resample = kb_nystrom_resample, \
    .look = nystrom_look, \
    .digest = nystrom_digest, \
    .save = nystrom_save, \
    .load = nystrom_load
/* clang-format on */

const struct kb_posterior_ops kb_posterior_nystrom_ops = {DICTIONARY};

static enum kb_err by_component_find_scales(const struct kb_posterior *p, const struct kb_scale_search *search,
                                            struct kb_scratch *s, struct kb_tuning *out)
{
    return kb_component_scales_find(kb_nystrom_of_const(p), search, s, out);
}

/* Of a sum of components: what the rewards have proved does not rest on its prior (post_by_arm.c). */
const struct kb_posterior_ops kb_posterior_by_component_ops = {
    DICTIONARY, .closed_evidence = kb_posterior_evidence_as_told, .find_scales = by_component_find_scales};
