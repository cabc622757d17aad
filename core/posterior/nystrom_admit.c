/* How a point enters the dictionary while the posterior serves.
 *
 * When a point enters, every past observation gains a coordinate, found by one pass over the distinct rows of the
 * history (n_j observations, reward sum S_j). With u = sum n_j z_new,j k_Z(s_j), gathered over blocks,
 *   sum n_j z_new,j z_j = A^-1 u,    sum n_j z_new,j^2,    sum S_j z_new,j
 * border V and b (ridge.c), so that the posterior is always the one of EK Prop. 4.2 for the present dictionary on the
 * *whole* history, not only from the admission on. Features are never stored; kernel values between rows and dictionary
 * are kept while they are few (sweep_cache.h), and computed anew in that pass where not.
 *
 * Five steps, so that the pass may take its time while the model goes on learning:
 *
 *     put      the point behind the points in force, its border of A       [shared]
 *     open     from here on learning keeps the point's sums as well        [exclusive, O(1)]
 *     sweep    the pass over the history as it stood at `open`             [beside readers and learning]
 *     close    adds what was learned since, in one sum                     [shared, O(m^2)]
 *     commit   shows the point                                             [exclusive, O(m^2)]
 *
 * What is learned between open and close has its own sums (`late`), so the bits do not depend on how far the sweep was
 * when it came: the sweep over the old rows plus the late ones, added once. An admission over a short history does all
 * five at once, and its late sums are zero. Where the model forgets meanwhile, late sums follow its unit step by step,
 * and those of the sweep, which are in the unit of `put`, at `close`.
 *
 * The pass writes to the side (`border`, `k_z`, `cross`, and the support's place behind the points in force), where
 * readers do not look.
 *
 * Cost: sweep O(n (m + dim)), O(n m dim) without kept values; learning while a point enters O(m) more. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "linalg/linalg.h"
#include "posterior/nystrom.h"

#define SPARE 4         /* a cache of the sweep grows by this share of its width */
#define KERNEL_WORK 20u /* a kernel value's exponential, in multiply-adds */

/* Of each component, k_j(s,s) and what of it a point of feature z over the first m points is not covered by. */
static void find_missed(const struct kb_nystrom *n, size_t m, const struct kb_point *pt, const double *z,
                        struct kb_scratch *s, double *diag, double *missed)
{
    struct kb_point of_part = *pt;
    diag[KB_PART_ALL] = missed[KB_PART_ALL] = 0;
    for (of_part.part = 1; of_part.part < KB_N_PARTS; of_part.part++)
        diag[of_part.part] = missed[of_part.part] = kb_kernel_diag(&n->base.kernel, &of_part, s);
    for (size_t i = 0; i < m; i++)
        missed[n->base.support.part[i]] -= z[i] * z[i];
}

void kb_nystrom_count_parts(struct kb_nystrom *n, const struct kb_point *pt, const double *z, double count, double sum,
                            struct kb_scratch *s)
{
    double diag[KB_N_PARTS], missed[KB_N_PARTS];
    find_missed(n, n->base.support.n, pt, z, s, diag, missed);
    kb_part_sums_add(&n->parts, n->base.support.n, z, missed, count, sum);
}

/* The component that a point of feature z over the first m points would be of use to: one of which the dictionary
 * misses more than the threshold at this point, and of these the one with the fewest points, so that none takes the
 * others' room. KB_PART_ALL: none; *most_missed is then the one of which most is missed. */
static uint32_t wanted_part(const struct kb_nystrom *n, size_t m, const struct kb_point *pt, const double *z,
                            struct kb_scratch *s, uint32_t *most_missed)
{
    double diag[KB_N_PARTS], missed[KB_N_PARTS], largest = -1;
    const double least = fmax(n->admission.spec.threshold, KB_RESIDUAL_MIN);
    size_t n_of[KB_N_PARTS] = {0};
    uint32_t best = KB_PART_ALL;
    find_missed(n, m, pt, z, s, diag, missed);
    for (size_t i = 0; i < m; i++)
        n_of[n->base.support.part[i]]++;
    *most_missed = KB_PART_ARM;
    for (uint32_t part = 1; part < KB_N_PARTS; part++) {
        const double share = diag[part] > 0 ? missed[part] / diag[part] : -1;
        if (share > largest) {
            largest = share;
            *most_missed = part;
        }
        if (share > least && (best == KB_PART_ALL || n_of[part] < n_of[best]))
            best = part;
    }
    return best;
}

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
    uint32_t most_missed;
    if (p->kernel.is_sum)
        return m < p->max_support && wanted_part(n, m, pt, z, s, &most_missed) != KB_PART_ALL ? 1 : 0;
    return kb_admission_probability(&n->admission, &q, z);
}

/* Makes support point m stand for one component, and its column that of this component. A log that names a point of
 * which nothing is missed is taken at its word: the pivot is lifted then (features.c). What is chosen is a function of
 * the points before it alone, hence the same in a fold. O(m^2). */
static void choose_part(struct kb_nystrom *n, const struct kb_point *pt, struct kb_scratch *s)
{
    struct kb_posterior *p = &n->base;
    const size_t m = n->features.a.n, mark = kb_arena_mark(&s->arena);
    double *z = kb_arena_doubles(&s->arena, m + 1);
    uint32_t most_missed;
    memcpy(z, n->k_z, m * sizeof *z);
    if (m > 0)
        kb_features_map(&n->features, z);
    const uint32_t part = wanted_part(n, m, pt, z, s, &most_missed);
    p->support.part[m] = part != KB_PART_ALL ? part : most_missed;
    for (size_t i = 0; i < m; i++)
        n->k_z[i] = p->support.part[i] == p->support.part[m] ? n->k_z[i] : 0;
    kb_arena_reset(&s->arena, mark);
}

void kb_nystrom_prepare_point(struct kb_nystrom *n, struct kb_scratch *s)
{
    struct kb_posterior *p = &n->base;
    size_t m = n->features.a.n;
    struct kb_point pt = kb_support_point(&p->support, m);
    pt.part = KB_PART_ALL;
    kb_posterior_column(p, m, &pt, s, n->k_z);
    if (p->kernel.is_sum) {
        choose_part(n, &pt, s);
        pt.part = p->support.part[m];
    }
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
    last.user += m, last.anchor += m, last.arm += m, last.level += m, last.part += m, last.x += m * last.dim;
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
        weighted[i] = kb_history_count(h, first + i) * z_new[i];
        n->square += weighted[i] * z_new[i];
        n->mass += weighted[i];
        n->target += (kb_history_sum(h, first + i) - n->mean * kb_history_count(h, first + i)) * z_new[i];
    }
    if (m > 0)
        kb_gemv(m, n_rows, 1.0, block, ld, weighted, 1.0, n->cross);
}

/* Every block of the history, in the cache where there is one and else in the scratch. */
bool kb_nystrom_sweep(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    size_t m = n->features.a.n, stride = kb_block_ld(m + 1 + (m + 1) / SPARE);
    bool is_cached = kb_sweep_cache_fit(&n->sweep, h->n, stride);
    double *block = is_cached ? NULL : kb_posterior_block(s, m + 1);
    n->square = n->target = n->mass = 0;
    memset(n->cross, 0, p->cap * sizeof *n->cross);
    for (size_t first = 0; first < h->n; first += KB_BLOCK) {
        size_t n_rows = h->n - first < KB_BLOCK ? h->n - first : KB_BLOCK;
        size_t ld = is_cached ? n->sweep.stride : kb_block_ld(m + 1);
        double *rows = is_cached ? n->sweep.k + first * ld : block;
        fill_columns(n, h, node_of, first, n_rows, s, rows, ld);
        sweep_block(n, h, first, n_rows, rows, ld);
        if (!kb_scratch_goes_on(s, n_rows))
            return false;
    }
    if (is_cached)
        n->sweep.rows = h->n;
    return true;
}

/* Kernel values to compute, and the pass itself; what the cache will hold is not computed twice. */
double kb_nystrom_sweep_work(const struct kb_posterior *p, size_t n_rows)
{
    const struct kb_nystrom *n = kb_nystrom_of_const(p);
    double m = (double)n->features.a.n + 1, value = (double)p->support.dim + KERNEL_WORK;
    bool is_cached = !n->sweep.is_off && (double)n_rows * m * (1 + 1.0 / SPARE) < (double)KB_SWEEP_CACHE_MAX;
    double fresh = is_cached && n_rows > n->sweep.rows ? (double)(n_rows - n->sweep.rows) : 0;
    return (double)n_rows * (m + value) + (is_cached ? fresh : (double)n_rows) * m * value;
}

/* --- the steps ------------------------------------------------------------------------------------------- */

void kb_nystrom_put_atom(struct kb_posterior *p, const struct kb_point *pt, double probability, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    uint32_t anchor = kb_user_kernel_find_anchor(p->kernel.user, pt->user);
    assert(anchor != KB_ID_NONE && !n->is_entering);
    kb_support_put(&p->support, p->support.n, pt, anchor);
    kb_nystrom_prepare_point(n, s);
    n->probability = probability;
    n->entering_unit = p->unit;
    n->late_square = n->late_target = n->late_mass = 0;
    memset(n->late_cross, 0, p->cap * sizeof *n->late_cross);
}

/* The user's column is put in force already, so that no failed batch takes it away; nobody's support names it yet. */
void kb_nystrom_open_atom(struct kb_posterior *p)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    kb_user_kernel_commit_anchor(p->kernel.user, p->support.anchor[p->support.n]);
    n->is_entering = true;
}

/* k: the kernel column over the dictionary and the point behind it. */
void kb_nystrom_learn_entering(struct kb_nystrom *n, const double *k, double d_count, double d_sum)
{
    size_t m = n->features.a.n;
    double z_new;
    kb_features_new_coordinates(&n->features, &n->border, k, m + 1, 1, &z_new);
    for (size_t i = 0; i < m; i++)
        n->late_cross[i] += d_count * z_new * k[i];
    n->late_square += d_count * z_new * z_new;
    n->late_mass += d_count * z_new;
    n->late_target += d_sum * z_new;
}

void kb_nystrom_close_atom(struct kb_posterior *p)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    size_t m = p->support.n;
    double left = exp2(n->entering_unit - p->unit);
    for (size_t i = 0; i < m; i++)
        n->cross[i] = left * n->cross[i] + n->late_cross[i];
    n->square = left * n->square + n->late_square;
    n->target = left * n->target + n->late_target;
    n->mass = left * n->mass + n->late_mass;
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
    if (!n->base.counts_open)
        return;
    memcpy(cross, n->cross, m * sizeof *cross);
    kb_nystrom_enter_open(n, cross);
    kb_nystrom_follow_open(n, NULL);
}

/* A sweep may still be under way: it writes what nobody reads. */
void kb_nystrom_abandon_atom(struct kb_posterior *p)
{
    kb_nystrom_of(p)->is_entering = false;
}

/* Makes what the sweep prepared part of the model: borders, support, the user's column. */
void kb_nystrom_commit_atom(struct kb_posterior *p, struct kb_scratch *s)
{
    struct kb_nystrom *n = kb_nystrom_of(p);
    assert(p->support.n < p->cap && n->is_entering);
    n->is_entering = false;
    struct kb_point pt = kb_support_point(&p->support, p->support.n);
    kb_projection_error_append(&n->error, &p->kernel, &pt, n->border.l, p->support.n, n->border.pivot, n->square,
                               &s->arena);
    kb_nystrom_enter_point(n, n->probability, s);
    append_ridges(n, s);
    if (p->kernel.is_sum)
        kb_part_sums_append(&n->parts, p->support.part[p->support.n], p->support.n, n->square, n->mass);
    n->sweep_bytes = kb_sweep_cache_bytes(&n->sweep);
    p->support.n++;
    p->is_unsettled = true; /* what enters beside the writer comes with no reward that would say so */
}
