/* The dictionary posterior: Nystrom features, a ridge regression on them, and an admission rule.
 *
 *   Z, m           dictionary = support          z(s) = A^-1 k_Z(s)      features.c
 *   V, b, lambda   regression on the features    mean = z.V^-1 b         ridge.c      [EK, Prop. 4.2]
 *   p              admission probability         kors, threshold         admission.c  [EK, eq. 41]
 *
 *   mean(s) = z.V^-1 b       sd^2(s) = r(s) + lambda z.V^-1 z       r = k(s,s) - z.z       MATH.md 2
 *
 * When a point enters the dictionary every past observation gains a coordinate, found by one pass over the distinct
 * rows of the history (n_j observations, reward sum S_j). With u = sum n_j z_new,j k_Z(s_j), gathered over blocks,
 *   sum n_j z_new,j z_j = A^-1 u,    sum n_j z_new,j^2,    sum S_j z_new,j
 * border V and b (ridge.c), so that the posterior is always the one of EK Prop. 4.2 for the present dictionary on the
 * *whole* history, not only from the admission on. Kernel columns are computed anew in that pass; storing the
 * features would take m doubles per row and save the O(n m dim) of the kernel only.
 *
 * The pass (sweep) writes to the side (`border`, `k_z`, `cross`, and the support's place behind the points in force),
 * where readers do not look; commit makes it visible in O(m^2).
 *
 * Cost: learn O(m (dim + m)); predict the same per candidate; sweep O(n m dim). Building: nystrom_build.c. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "grow.h"
#include "linalg.h"
#include "nystrom.h"

/* Three parts, each with its own state; empty. */
static enum kb_err nystrom_init(struct kb_posterior *p, const struct kb_spec *spec)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    kb_features_init(&n->features);
    kb_ridge_init(&n->ridge, spec->repr.lambda);
    kb_admission_init(&n->admission, &spec->repr);
    p->max_support = spec->repr.max_dictionary;
    return KB_OK;
}

static void nystrom_close(struct kb_posterior *p)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    kb_features_close(&n->features);
    kb_ridge_close(&n->ridge);
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
    KB_TRY(kb_ridge_reserve(&n->ridge, n_points));
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
    return (a * a + 4 * p->cap) * sizeof(double) + kb_ridge_bytes(&n->ridge) + kb_admission_bytes(&n->admission);
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
    kb_ridge_predict(&n->ridge, block, ld, n_c, mean, spread);
    for (size_t c = 0; c < n_c; c++)
        variance[c] += p->lambda * spread[c];
}

static bool nystrom_learn_adds_point(const struct kb_posterior *p, const struct kb_point *pt)
{
    (void)p, (void)pt; /* the dictionary grows by admissions alone */
    return false;
}

/* One rank-one step of the regression at z(s); d_count 0 is a correction: only b moves. */
static void nystrom_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                          struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    double *z = kb_arena_doubles(&s->arena, p->support.n);
    if (p->support.n == 0)
        return; /* the history has it; the first admission sweeps it up */
    kb_posterior_column(p, p->support.n, pt, s, z);
    kb_features_map(&n->features, z);
    kb_ridge_learn(&n->ridge, z, d_count, d_sum);
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

/* Adds rows first..first + n_rows - 1 of the history to cross (still before A^-1), square and target. */
static void sweep_block(struct kb_nystrom *n, const struct kb_history *h, const uint32_t *node_of, size_t first,
                        size_t n_rows, struct kb_scratch *s, double *block)
{
    size_t m = n->features.a.n, ld = kb_block_ld(m + 1);
    double z_new[KB_BLOCK], weighted[KB_BLOCK];
    for (size_t i = 0; i < n_rows; i++) {
        struct kb_point pt = kb_history_point(h, node_of, first + i);
        kb_posterior_column(&n->base, m + 1, &pt, s, block + i * ld);
    }
    kb_features_new_coordinates(&n->features, &n->border, block, ld, n_rows, z_new);
    for (size_t i = 0; i < n_rows; i++) {
        weighted[i] = h->count[first + i] * z_new[i];
        n->square += weighted[i] * z_new[i];
        n->target += h->sum[first + i] * z_new[i];
    }
    if (m > 0)
        kb_gemv(m, n_rows, 1.0, block, ld, weighted, 1.0, n->cross);
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
    double *block = kb_posterior_block(s, m + 1);
    for (size_t first = 0; first < h->n; first += KB_BLOCK)
        sweep_block(n, h, node_of, first, h->n - first < KB_BLOCK ? h->n - first : KB_BLOCK, s, block);
    if (m > 0)
        kb_features_map(&n->features, n->cross);
}

/* Makes what the sweep prepared part of the model: borders, support, the user's column. */
static void nystrom_commit_atom(struct kb_posterior *p, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    assert(p->support.n < p->cap);
    kb_user_kernel_commit_anchor(p->kernel.user, p->support.anchor[p->support.n]);
    kb_nystrom_enter_point(n, n->probability, s);
    if (kb_ridge_append(&n->ridge, n->cross, n->square, n->target))
        kb_posterior_count_clamp(p);
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
    out->effective_dimension = kb_ridge_effective_dimension(&n->ridge, work);
    out->information_gain = kb_ridge_information_gain(&n->ridge);
    kb_free(work);
    return KB_OK;
}

static uint64_t nystrom_digest(const struct kb_posterior *p, uint64_t h)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    h = kb_features_digest(&n->features, h);
    h = kb_ridge_digest(&n->ridge, h);
    return kb_admission_digest(&n->admission, h);
}

/* A, then V and b, then the rule's state; each knows its own format. */
static void nystrom_save(const struct kb_posterior *p, struct kb_writer *w)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    kb_features_save(&n->features, w);
    kb_ridge_save(&n->ridge, w);
    kb_admission_save(&n->admission, w);
}

static enum kb_err nystrom_load(struct kb_posterior *p, struct kb_reader *r)
{
    enum kb_err rc;
    struct kb_nystrom *n = kb_nystrom_of(p);
    size_t m = p->support.n;
    KB_TRY(kb_features_load(&n->features, m, r));
    KB_TRY(kb_ridge_load(&n->ridge, m, r));
    KB_TRY(kb_admission_load(&n->admission, m, r));
out:
    return rc;
}

const struct kb_posterior_ops kb_posterior_nystrom_ops = {
    .bytes = sizeof(struct kb_nystrom),
    .init = nystrom_init,
    .close = nystrom_close,
    .held_bytes = nystrom_held_bytes,
    .reserve = nystrom_reserve,
    .predict_block = nystrom_predict_block,
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
