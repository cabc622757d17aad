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
 * When a point enters the dictionary every past observation gains a coordinate, found by one pass over the distinct
 * rows of the history (n_j observations, reward sum S_j). With u = sum n_j z_new,j k_Z(s_j), gathered over blocks,
 *   sum n_j z_new,j z_j = A^-1 u,    sum n_j z_new,j^2,    sum S_j z_new,j
 * border V and b (ridge.c), so that the posterior is always the one of EK Prop. 4.2 for the present dictionary on the
 * *whole* history, not only from the admission on. Features are never stored; kernel values between rows and dictionary
 * are kept while they are few (sweep_cache.h), and computed anew in that pass where not.
 *
 * The pass (sweep) writes to the side (`border`, `k_z`, `cross`, and the support's place behind the points in force),
 * where readers do not look; commit makes it visible in O(m^2).
 *
 * Cost: learn O(m (dim + m)); predict the same per candidate; sweep O(n (m + dim)), O(n m dim) without
 * kept values. Building: nystrom_build.c. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "grow.h"
#include "linalg.h"
#include "nystrom.h"

#define SPARE 4 /* a cache of the sweep grows by this share of its width */

/* Three parts, each with its own state; empty. */
static enum kb_err nystrom_init(struct kb_posterior *p, const struct kb_spec *spec)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    kb_features_init(&n->features);
    n->n_ridges = spec->conf.is_mixture ? KB_N_MIXTURE : 1;
    for (size_t i = 0; i < n->n_ridges; i++)
        kb_ridge_init(&n->ridge[i], spec->repr.lambda * kb_mixture_ridge[i]);
    kb_admission_init(&n->admission, &spec->repr);
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
    kb_admission_close(&n->admission);
    kb_free(n->k_z);
    kb_free(n->cross);
    kb_free(n->border.l);
    kb_free(n->border.q);
}

/* All or nothing is the caller's: what has grown already stays larger, which nobody sees. */
static enum kb_err nystrom_reserve(struct kb_posterior *p, size_t n_points)
{
    enum kb_err rc;
    struct kb_nystrom *n = kb_nystrom_of(p);
    KB_TRY(kb_features_reserve(&n->features, n_points));
    for (size_t i = 0; i < n->n_ridges; i++)
        KB_TRY(kb_ridge_reserve(&n->ridge[i], n_points));
    KB_TRY(kb_projection_error_reserve(&n->error, n_points));
    KB_TRY(kb_admission_reserve(&n->admission, n_points));
    KB_TRY(kb_grow_doubles(&n->k_z, n_points));
    KB_TRY(kb_grow_doubles(&n->cross, n_points));
    KB_TRY(kb_grow_doubles(&n->border.l, n_points));
    KB_TRY(kb_grow_doubles(&n->border.q, n_points));
out:
    return rc;
}

/* Bytes beyond what posterior.c counts. O(1). */
static size_t nystrom_held_bytes(const struct kb_posterior *p)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    size_t a = n->features.a.cap;
    return (a * a + 4 * p->cap) * sizeof(double) + n->n_ridges * kb_ridge_bytes(&n->ridge[0]) +
           kb_projection_error_bytes(&n->error) + n->sweep_bytes + kb_admission_bytes(&n->admission);
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
    for (size_t c = 0; c < n_c; c++)
        variance[c] += p->lambda * spread[c];
}

static bool nystrom_learn_adds_point(const struct kb_posterior *p, const struct kb_point *pt)
{
    (void)p, (void)pt; /* the dictionary grows by admissions alone */
    return false;
}

/* What each ridge foretells at the feature z with residual r: mean and s2 = r / a + z.V_a^-1 z. work: m doubles. */
static void foretell(const struct kb_nystrom *n, const double *z, double r, double *work, struct kb_foretold *out)
{
    size_t m = n->base.support.n;
    for (size_t i = 0; i < n->n_ridges; i++) {
        memcpy(work, z, m * sizeof *z);
        kb_ridge_predict(&n->ridge[i], work, m, 1, &out[i].mean, &out[i].s2);
        out[i].s2 += r / n->ridge[i].lambda;
    }
}

/* The reward is foretold, then taught: one rank-one step of each regression at z(s). d_count 0 is a correction: only b
 * moves, and what was foretold is void (posterior.c). The history has what comes before the first admission, which
 * sweeps it up. */
static void nystrom_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                          struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    size_t m = p->support.n;
    double *z = kb_arena_doubles(&s->arena, m + 1), *work = kb_arena_doubles(&s->arena, m + 1);
    double diag = kb_kernel_diag(&p->kernel, pt, s), residual;
    struct kb_foretold foretold[KB_N_MIXTURE];
    kb_posterior_column(p, m, pt, s, z);
    if (m > 0)
        kb_features_map(&n->features, z);
    kb_features_residuals(&n->features, z, m, 1, &diag, &residual);
    if (d_count > 0) {
        foretell(n, z, residual, work, foretold);
        kb_evidence_add(&p->evidence, d_sum, foretold, n->n_ridges);
        if (p->is_resampled)
            p->accumulated += foretold[0].s2; /* sd^2 / lambda before the step [BKB, Alg. 1] */
        kb_projection_error_add(&n->error, &p->kernel, pt, z, m, diag, residual, &s->arena);
    }
    for (size_t i = 0; i < n->n_ridges && m > 0; i++) {
        memcpy(work, z, m * sizeof *z);
        kb_ridge_learn(&n->ridge[i], work, d_count, d_sum);
    }
}

/* --- admission --------------------------------------------------------------------------------------------- */

double kb_nystrom_admission(const struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    size_t m = p->support.n;
    double *k_z = kb_arena_doubles(&s->arena, m), *z = kb_arena_doubles(&s->arena, m);
    struct kb_admission_query q = {.k_z = k_z, .diag = kb_kernel_diag(&p->kernel, pt, s)};
    q.residual = q.diag;
    if (m > 0) {
        kb_posterior_column(p, m, pt, s, k_z);
        memcpy(z, k_z, m * sizeof *z);
        kb_features_map(&n->features, z);
        kb_features_residuals(&n->features, z, m, 1, &q.diag, &q.residual);
    }
    return kb_admission_probability(&n->admission, &q, z);
}

void kb_nystrom_prepare_point(struct kb_nystrom *n, struct kb_scratch *s)
{
    struct kb_posterior *p = &n->base;
    size_t m = n->features.a.n;
    struct kb_point pt = kb_support_point(&p->support, m);
    kb_posterior_column(p, m, &pt, s, n->k_z);
    n->diag = kb_kernel_diag(&p->kernel, &pt, s);
    kb_features_border(&n->features, n->k_z, n->diag, &n->border);
}

void kb_nystrom_enter_point(struct kb_nystrom *n, double probability, struct kb_scratch *s)
{
    size_t mark = kb_arena_mark(&s->arena);
    double *work = kb_arena_doubles(&s->arena, n->features.a.n + 1);
    struct kb_admission_query q = {.k_z = n->k_z, .diag = n->diag, .residual = n->border.pivot * n->border.pivot};
    if (n->border.is_clamped)
        kb_posterior_count_clamp(&n->base);
    kb_admission_append(&n->admission, &q, probability, work);
    kb_features_append(&n->features, &n->border);
    kb_arena_reset(&s->arena, mark);
}

/* Kernel values of rows first..first + n_rows - 1 over the dictionary and the point behind it. Values that an earlier
 * sweep has left in the block are taken as they are: they are the same function of the same points. */
static void fill_columns(const struct kb_nystrom *n, const struct kb_history *h, const uint32_t *node_of, size_t first,
                         size_t n_rows, struct kb_scratch *s, double *block, size_t ld)
{
    size_t m = n->features.a.n;
    struct kb_support last = n->base.support; /* the point behind the dictionary, as a support of one */
    last.user += m, last.anchor += m, last.arm += m, last.level += m, last.x += m * last.dim;
    last.n = last.cap = 1;
    for (size_t i = 0; i < n_rows; i++) {
        struct kb_point pt = kb_history_point(h, node_of, first + i);
        if (first + i >= n->sweep.rows)
            kb_posterior_column(&n->base, m + 1, &pt, s, block + i * ld);
        else
            kb_kernel_column(&n->base.kernel, &last, 1, &pt, kb_posterior_user_diag(&n->base, pt.user, s),
                             block + i * ld + m);
    }
}

/* Adds rows first..first + n_rows - 1 of the history to cross (still before A^-1), square and target. */
static void sweep_block(struct kb_nystrom *n, const struct kb_history *h, size_t first, size_t n_rows,
                        const double *block, size_t ld)
{
    size_t m = n->features.a.n;
    double z_new[KB_BLOCK], weighted[KB_BLOCK];
    kb_features_new_coordinates(&n->features, &n->border, block, ld, n_rows, z_new);
    for (size_t i = 0; i < n_rows; i++) {
        weighted[i] = h->count[first + i] * z_new[i];
        n->square += weighted[i] * z_new[i];
        n->target += h->sum[first + i] * z_new[i];
    }
    if (m > 0)
        kb_gemv(m, n_rows, 1.0, block, ld, weighted, 1.0, n->cross);
}

/* Every block of the history, in the cache where there is one and else in the scratch. */
static void sweep_history(struct kb_nystrom *n, const struct kb_history *h, const uint32_t *node_of,
                          struct kb_scratch *s)
{
    size_t m = n->features.a.n, stride = kb_block_ld(m + 1 + (m + 1) / SPARE);
    bool is_cached = kb_sweep_cache_fit(&n->sweep, h->n, stride);
    double *block = is_cached ? NULL : kb_posterior_block(s, m + 1);
    for (size_t first = 0; first < h->n; first += KB_BLOCK) {
        size_t n_rows = h->n - first < KB_BLOCK ? h->n - first : KB_BLOCK;
        size_t ld = is_cached ? n->sweep.stride : kb_block_ld(m + 1);
        double *rows = is_cached ? n->sweep.k + first * ld : block;
        fill_columns(n, h, node_of, first, n_rows, s, rows, ld);
        sweep_block(n, h, first, n_rows, rows, ld);
    }
    if (is_cached)
        n->sweep.rows = h->n;
}

/* Puts the point behind the dictionary in force and gathers what will border A, V and b (file header). */
static void nystrom_sweep_atom(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                               struct kb_atom atom, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    size_t m = p->support.n;
    struct kb_point pt = kb_history_point(h, node_of, atom.row);
    uint32_t anchor = kb_user_kernel_find_anchor(p->kernel.user, pt.user);
    assert(anchor != KB_ID_NONE);
    kb_support_put(&p->support, m, &pt, anchor);
    kb_nystrom_prepare_point(n, s);
    n->probability = atom.probability;
    n->square = n->target = 0;
    memset(n->cross, 0, p->cap * sizeof *n->cross);
    sweep_history(n, h, node_of, s);
    if (m > 0)
        kb_features_map(&n->features, n->cross);
}

/* The new coordinate in every regression. */
static void append_ridges(struct kb_nystrom *n, struct kb_scratch *s)
{
    size_t m = n->base.support.n;
    double *cross = kb_arena_doubles(&s->arena, m + 1);
    for (size_t i = 0; i < n->n_ridges; i++) {
        memcpy(cross, n->cross, m * sizeof *cross);
        if (kb_ridge_append(&n->ridge[i], cross, n->square, n->target))
            kb_posterior_count_clamp(&n->base);
    }
}

/* Makes what the sweep prepared part of the model: borders, support, the user's column. */
static void nystrom_commit_atom(struct kb_posterior *p, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    assert(p->support.n < p->cap);
    kb_user_kernel_commit_anchor(p->kernel.user, p->support.anchor[p->support.n]);
    struct kb_point pt = kb_support_point(&p->support, p->support.n);
    kb_projection_error_append(&n->error, &p->kernel, &pt, n->border.l, p->support.n, n->border.pivot, n->square,
                               &s->arena);
    kb_nystrom_enter_point(n, n->probability, s);
    append_ridges(n, s);
    n->sweep_bytes = kb_sweep_cache_bytes(&n->sweep);
    p->support.n++; /* put there by the sweep */
}

/* --- facts, digest, snapshot --------------------------------------------------------------------------------- */

/* Both are the regression's; without a dictionary there are none. */
static enum kb_err nystrom_facts(const struct kb_posterior *p, struct kb_posterior_facts *out)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    if (p->support.n == 0)
        return KB_OK;
    double *work = kb_array(p->support.n, 1, sizeof *work);
    if (work == NULL)
        return KB_ENOMEM;
    out->effective_dimension = kb_ridge_effective_dimension(&n->ridge[0], work);
    out->information_gain = kb_ridge_information_gain(&n->ridge[0]);
    kb_free(work);
    return KB_OK;
}

static uint64_t nystrom_digest(const struct kb_posterior *p, uint64_t h)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    h = kb_features_digest(&n->features, h);
    for (size_t i = 0; i < n->n_ridges; i++)
        h = kb_ridge_digest(&n->ridge[i], h);
    h = kb_projection_error_digest(&n->error, p->support.n, h);
    return kb_admission_digest(&n->admission, h);
}

/* A, then V and b of each ridge, the projection error, the rule's state; each knows its own format. */
static void nystrom_save(const struct kb_posterior *p, struct kb_writer *w)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    kb_features_save(&n->features, w);
    for (size_t i = 0; i < n->n_ridges; i++)
        kb_ridge_save(&n->ridge[i], w);
    kb_projection_error_save(&n->error, p->support.n, w);
    kb_admission_save(&n->admission, w);
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
out:
    return rc;
}

/* --- what confidence rules read ---------------------------------------------------------------------------- */

/* Eigenvectors of V0 as they stand; candidates are projected by U^T A^-1 k_Z. A is nested: its leading block stays the
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

static void nystrom_project_block(const struct kb_posterior *p, const struct kb_spectrum *sp, double *block, size_t ld,
                                  size_t n_c, double *w)
{
    kb_features_map_many(&kb_nystrom_of_const(p)->features, block, ld, n_c);
    kb_gemm_tn(sp->n, n_c, sp->n, 1, sp->basis, sp->n, block, ld, 0, w, ld);
}

const struct kb_posterior_ops kb_posterior_nystrom_ops = {
    .bytes = sizeof(struct kb_nystrom),
    .init = nystrom_init,
    .close = nystrom_close,
    .held_bytes = nystrom_held_bytes,
    .reserve = nystrom_reserve,
    .predict_block = nystrom_predict_block,
    .is_sketch = true,
    .decompose = nystrom_decompose,
    .project_block = nystrom_project_block,
    .learn_adds_point = nystrom_learn_adds_point,
    .learn = nystrom_learn,
    .fill = kb_nystrom_fill,
    .admission = kb_nystrom_admission,
    .sweep_atom = nystrom_sweep_atom,
    .commit_atom = nystrom_commit_atom,
    .choose = kb_nystrom_choose,
    .resample = kb_nystrom_resample,
    .facts = nystrom_facts,
    .digest = nystrom_digest,
    .save = nystrom_save,
    .load = nystrom_load,
};
