/* The projection error of a dictionary, kept as observations and dictionary points come: see projection_error.h.
 *
 *   E_B      residual Gram matrix of a block, entries sqrt(n_i n_j) (k(s_i, s_j) - z_i.z_j), diagonal n_i r_i
 *   p, L     2^STEPS, ln tr E_B^p by repeated squaring:  M_0 = E_B / tr E_B,  M_{i+1} = M_i^2 / tr M_i^2
 *
 * lambda_max(E_B) <= (tr E_B^p)^(1/p) <= n^(1/p) lambda_max(E_B): with p = 128 and n = 64 at most 3.3 % too large,
 * never too small, and by seven products in memory that is there. Power iteration would give a lower bound, and an
 * eigenvalue routine may fail, which learning must not.
 *
 * Numerical notes. Rounding can leave E_B with eigenvalues of the order of -eps k; p is even, so they add to the trace.
 * The trace loses digits as admissions subtract from it; it is clipped at zero, and a reset computes it anew.
 *
 * Where the user kernel is known by columns only, values between two users who are no anchors would cost a system each:
 * no blocks are kept there (has_blocks false), and e_t is the trace, which is a bound as well.
 *
 * Cost: add O(m); close O(n^2 (m + dim) + STEPS n^3); append O(n (m + dim)). */
#include "posterior/projection_error.h"

#include <math.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"
#include "base/ids.h"
#include "linalg/linalg.h"

#define BLOCK KB_ERROR_BLOCK
#define STEPS 7

enum kb_err kb_projection_error_init(struct kb_projection_error *e, size_t dim, bool has_blocks)
{
    enum kb_err rc = KB_OK;
    *e = (struct kb_projection_error){.has_blocks = has_blocks};
    kb_support_init(&e->open, dim);
    if (!has_blocks)
        return KB_OK;
    KB_TRY(kb_support_reserve(&e->open, BLOCK));
    KB_TRY(kb_grow_doubles(&e->residual, BLOCK));
out:
    return rc;
}

void kb_projection_error_clear(struct kb_projection_error *e)
{
    e->trace = e->closed = e->count = e->largest_diag = 0;
    e->open.n = 0;
}

void kb_projection_error_close(struct kb_projection_error *e)
{
    kb_support_close(&e->open);
    kb_free(e->z);
    kb_free(e->residual);
}

enum kb_err kb_projection_error_grow(struct kb_projection_error *e, size_t n, struct kb_moves *m)
{
    if (!e->has_blocks || n <= e->cap)
        return KB_OK;
    return kb_moves_add(m, &e->z, e->cap, n, BLOCK * sizeof *e->z, &e->cap);
}

size_t kb_projection_error_bytes(const struct kb_projection_error *e)
{
    size_t point = kb_support_point_bytes(&e->open);
    return e->has_blocks ? e->cap * BLOCK * sizeof(double) + BLOCK * (point + sizeof(double)) : 0;
}

/* Two matrices of a block, and a vector. */
size_t kb_projection_error_work(void)
{
    return 2 * kb_arena_need((size_t)BLOCK * BLOCK) + 2 * kb_arena_need(BLOCK);
}

/* --- the largest eigenvalue -------------------------------------------------------------------------------- */

static double trace_of(size_t n, const double *a)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i * n + i];
    return sum;
}

static void scale(size_t n, double factor, double *a)
{
    for (size_t i = 0; i < n * n; i++)
        a[i] *= factor;
}

/* The bound of the file header for the symmetric n x n matrix a (both triangles; destroyed). */
static double largest_eigenvalue(size_t n, double *a, double *work)
{
    double trace = trace_of(n, a);
    if (!(trace > 0))
        return 0;
    double log_trace = log(trace), p = 1;
    scale(n, 1 / trace, a);
    for (int i = 0; i < STEPS; i++) {
        double *square = i % 2 == 0 ? work : a;
        kb_gemm(n, n, n, 1, i % 2 == 0 ? a : work, n, i % 2 == 0 ? a : work, n, 0, square, n);
        trace = trace_of(n, square);
        scale(n, 1 / trace, square);
        log_trace = 2 * log_trace + log(trace);
        p *= 2;
    }
    return exp(log_trace / p);
}

/* --- blocks ------------------------------------------------------------------------------------------------- */

/* Adds the kernel values of n weighted points to a, which holds -z_i.z_j in its lower triangle; the diagonal is n_i
 * r_i. */
static void finish_residuals(const struct kb_kernel *k, const struct kb_point *points, size_t n, const double *residual,
                             const double *count, double *a)
{
    for (size_t j = 0; j < n; j++) {
        a[j * n + j] = count[j] * residual[j];
        for (size_t i = j + 1; i < n; i++) {
            double value = kb_kernel_pair(k, &points[i], &points[j]) + a[j * n + i];
            a[j * n + i] = a[i * n + j] = sqrt(count[i] * count[j]) * value;
        }
    }
}

/* lambda_max of the block whose -z_i.z_j stand in the lower triangle of a. */
static double close_block(const struct kb_kernel *k, const struct kb_point *points, size_t n, const double *residual,
                          const double *count, double *a, double *work)
{
    double trace = 0;
    for (size_t i = 0; i < n; i++)
        trace += count[i] * residual[i];
    finish_residuals(k, points, n, residual, count, a);
    return fmin(trace, largest_eigenvalue(n, a, work));
}

/* A row without observations is none. */
static void observe(struct kb_projection_error *e, double count, double diag, double residual)
{
    if (!(count > 0))
        return;
    e->trace += count * residual;
    e->count += count;
    e->largest_diag = fmax(e->largest_diag, diag);
}

void kb_projection_error_add_block(struct kb_projection_error *e, const struct kb_kernel *k,
                                   const struct kb_point *points, size_t n, const double *z, size_t ld, size_t m,
                                   const double *diag, const double *residual, const double *count,
                                   struct kb_arena *arena)
{
    for (size_t i = 0; i < n; i++)
        observe(e, count[i], diag[i], residual[i]);
    if (!e->has_blocks || n == 0)
        return;
    size_t mark = kb_arena_mark(arena);
    double *a = kb_arena_doubles(arena, n * n), *work = kb_arena_doubles(arena, n * n);
    memset(a, 0, n * n * sizeof *a);
    if (m > 0)
        kb_gemm_tn(n, n, m, -1, z, ld, z, ld, 0, a, n);
    e->closed += close_block(k, points, n, residual, count, a, work);
    kb_arena_reset(arena, mark);
}

/* The full open block becomes a closed one. */
static void close_open(struct kb_projection_error *e, const struct kb_kernel *k, size_t m, struct kb_arena *arena)
{
    size_t mark = kb_arena_mark(arena);
    double *a = kb_arena_doubles(arena, (size_t)BLOCK * BLOCK), *work = kb_arena_doubles(arena, (size_t)BLOCK * BLOCK);
    struct kb_point points[BLOCK];
    double ones[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        points[i] = kb_support_point(&e->open, i);
        ones[i] = 1;
    }
    memset(a, 0, (size_t)BLOCK * BLOCK * sizeof *a);
    if (m > 0)
        kb_syrk_lower(BLOCK, m, -1, e->z, BLOCK, 0, a, BLOCK);
    e->closed += close_block(k, points, BLOCK, e->residual, ones, a, work);
    e->open.n = 0;
    kb_arena_reset(arena, mark);
}

/* --- growth ------------------------------------------------------------------------------------------------- */

void kb_projection_error_add(struct kb_projection_error *e, const struct kb_kernel *k, const struct kb_point *pt,
                             const double *z, size_t m, double diag, double residual, double count,
                             struct kb_arena *arena)
{
    observe(e, count, diag, residual);
    if (!e->has_blocks)
        return;
    size_t at = e->open.n;
    kb_support_push(&e->open, pt, KB_ID_NONE);
    e->residual[at] = residual;
    for (size_t i = 0; i < m; i++)
        e->z[i * BLOCK + at] = z[i];
    if (e->open.n == BLOCK)
        close_open(e, k, m, arena);
}

void kb_projection_error_scale(struct kb_projection_error *e, double left)
{
    e->trace *= left;
    e->count *= left;
}

void kb_projection_error_append(struct kb_projection_error *e, const struct kb_kernel *k, const struct kb_point *pt,
                                const double *l, size_t m, double pivot, double square, struct kb_arena *arena)
{
    e->trace = fmax(0, e->trace - square);
    if (!e->has_blocks)
        return;
    size_t mark = kb_arena_mark(arena), n = e->open.n;
    double *known = kb_arena_doubles(arena, BLOCK), *coordinate = e->z + m * BLOCK;
    if (m > 0 && n > 0)
        kb_gemv(n, m, 1, e->z, BLOCK, l, 0, known);
    for (size_t j = 0; j < n; j++) {
        struct kb_point other = kb_support_point(&e->open, j);
        coordinate[j] = (kb_kernel_pair(k, pt, &other) - (m > 0 ? known[j] : 0)) / pivot;
        e->residual[j] = fmax(0, e->residual[j] - coordinate[j] * coordinate[j]);
    }
    kb_arena_reset(arena, mark);
}

double kb_projection_error_value(const struct kb_projection_error *e)
{
    double sum = e->closed;
    if (!e->has_blocks)
        return e->trace;
    for (size_t i = 0; i < e->open.n; i++)
        sum += e->residual[i];
    return fmin(sum, e->trace);
}

/* --- digest and snapshot ---------------------------------------------------------------------------------- */

uint64_t kb_projection_error_digest(const struct kb_projection_error *e, size_t m, uint64_t h)
{
    h = kb_hash_double(kb_hash_double(h, e->trace), e->closed);
    h = kb_hash_double(kb_hash_double(h, e->count), e->largest_diag);
    h = kb_hash_u64(h, e->open.n);
    for (size_t j = 0; j < e->open.n; j++) {
        h = kb_hash_double(h, e->residual[j]);
        for (size_t i = 0; i < m; i++)
            h = kb_hash_double(h, e->z[i * BLOCK + j]);
    }
    return h;
}

/* Sums, then the open block: users, arms, vectors, residuals, and the features point by point. */
void kb_projection_error_save(const struct kb_projection_error *e, size_t m, struct kb_writer *w)
{
    const struct kb_support *s = &e->open;
    kb_put_double(w, e->trace);
    kb_put_double(w, e->closed);
    kb_put_double(w, e->count);
    kb_put_double(w, e->largest_diag);
    kb_put_u64(w, s->n);
    for (size_t j = 0; j < s->n; j++) {
        kb_put_u64(w, s->user[j].index);
        kb_put_u64(w, s->user[j].node);
        kb_put_u64(w, s->arm[j]);
        kb_put_double(w, e->residual[j]);
        for (size_t i = 0; i < s->dim; i++)
            kb_put_double(w, s->x[j * s->dim + i]);
        for (size_t i = 0; i < m; i++)
            kb_put_double(w, e->z[i * BLOCK + j]);
    }
}

/* n doubles at `stride`; false when one of them is not finite. */
static bool get_finite(struct kb_reader *r, double *out, size_t n, size_t stride)
{
    bool is_finite = true;
    for (size_t i = 0; i < n; i++) {
        out[i * stride] = kb_get_double(r);
        is_finite = is_finite && isfinite(out[i * stride]);
    }
    return is_finite;
}

enum kb_err kb_projection_error_load(struct kb_projection_error *e, size_t m, const struct kb_kernel *k,
                                     struct kb_reader *r)
{
    struct kb_support *s = &e->open;
    e->trace = kb_get_double(r);
    e->closed = kb_get_double(r);
    e->count = kb_get_double(r);
    e->largest_diag = kb_get_double(r);
    size_t n = kb_get_count(r, e->has_blocks ? BLOCK - 1 : 0);
    bool is_valid = isfinite(e->trace) && isfinite(e->closed) && isfinite(e->count) && isfinite(e->largest_diag);
    for (size_t j = 0; j < n && r->rc == KB_OK && is_valid; j++) {
        uint64_t user = kb_get_u64(r), node = kb_get_u64(r), arm = kb_get_u64(r);
        is_valid = user < KB_ID_NONE && arm < KB_ID_NONE &&
                   (node == KB_ID_NONE || node < (k->reads_nodes ? k->n_nodes : KB_ID_NONE));
        s->user[j] = (struct kb_user){.index = (uint32_t)user, .node = (uint32_t)node};
        s->anchor[j] = KB_ID_NONE;
        s->level[j] = 0; /* levels are a matter of the exact representation */
        s->arm[j] = (uint32_t)arm;
        is_valid = get_finite(r, &e->residual[j], 1, 1) && is_valid;
        is_valid = get_finite(r, s->x + j * s->dim, s->dim, 1) && is_valid;
        kb_support_mark(s, j);
        if (m > 0) /* else there is no z yet */
            is_valid = get_finite(r, e->z + j, m, BLOCK) && is_valid;
    }
    s->n = n;
    return r->rc != KB_OK ? r->rc : is_valid ? KB_OK : KB_ECORRUPT;
}
