/* See arm_block.h. The arrays of a block lie behind its struct in one piece of memory, the factor first and on a line
 * of the cache.
 *
 * Cost: O(cap^2) memory and, for a larger block, O(n^2) to copy: doubling, so O(n) a point over a life. */
#include "posterior/arm_block.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "linalg/linalg.h"
#include "vector/vec_kernel.h"

#define LINE ((size_t)64)
#define SMALL 8u /* order below which rows of the factor are not put onto lines */

/* --- memory ------------------------------------------------------------------------------------------------- */

static size_t on_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Whole lines, an odd number of them (chol.c). */
static size_t leading_dimension(size_t cap)
{
    return cap < SMALL ? cap : ((cap + 7) & ~(size_t)7) | 8;
}

size_t kb_arm_block_cap(size_t n, size_t most)
{
    size_t cap = 1;
    while (cap < n)
        cap *= 2;
    return cap <= most || n > most ? cap : most;
}

static size_t factor_bytes(size_t cap)
{
    return on_lines(leading_dimension(cap) * cap * sizeof(double));
}

size_t kb_arm_block_bytes(size_t cap, size_t context_dim)
{
    const size_t point = (2 + context_dim) * sizeof(double) + 2 * sizeof(uint32_t);
    return on_lines(sizeof(struct kb_arm_block)) + factor_bytes(cap) + on_lines(cap * point);
}

struct kb_arm_block *kb_arm_block_new(size_t cap, size_t context_dim, const struct kb_arm_block *from)
{
    struct kb_arm_block *b = kb_lines(kb_arm_block_bytes(cap, context_dim), 1, 1);
    if (b == NULL)
        return NULL;
    unsigned char *at = (unsigned char *)b + on_lines(sizeof *b);
    b->cap = cap;
    b->f.l = (double *)(void *)at;
    b->f.cap = leading_dimension(cap);
    b->count = (double *)(void *)(at + factor_bytes(cap));
    b->w = b->count + cap;
    b->x = b->w + cap;
    b->anchor = (uint32_t *)(void *)(b->x + cap * context_dim);
    b->support = b->anchor + cap;
    if (from == NULL)
        return b;
    assert(from->n <= cap);
    kb_arm_block_copy_points(b, from, context_dim);
    kb_chol_copy(&b->f, &from->f);
    if (from->f.n > 0)
        memcpy(b->w, from->w, from->f.n * sizeof *b->w);
    b->log_det = from->log_det;
    return b;
}

void kb_arm_block_copy_points(struct kb_arm_block *to, const struct kb_arm_block *from, size_t context_dim)
{
    const size_t n = from->n;
    assert(n <= to->cap);
    to->n = n;
    if (n == 0)
        return;
    memcpy(to->count, from->count, n * sizeof *to->count);
    memcpy(to->anchor, from->anchor, n * sizeof *to->anchor);
    memcpy(to->support, from->support, n * sizeof *to->support);
    if (context_dim > 0)
        memcpy(to->x, from->x, n * context_dim * sizeof *to->x);
}

void kb_arm_block_push(struct kb_arm_block *b, const double *context, size_t context_dim, uint32_t anchor,
                       uint32_t support, double count)
{
    assert(b->n < b->cap);
    if (context_dim > 0)
        memcpy(b->x + b->n * context_dim, context, context_dim * sizeof *context);
    b->anchor[b->n] = anchor;
    b->support[b->n] = support;
    b->count[b->n++] = count;
}

/* --- the kernel --------------------------------------------------------------------------------------------- */

static const struct kb_vec_kernel_spec linear = {.type = KB_VEC_LINEAR, .lengthscale = 1, .degree = 1};

void kb_arm_kernel_init(struct kb_arm_kernel *k, const struct kb_prior_spec *prior, const struct kb_kernel *parts)
{
    const bool has_contexts = parts->context.type != KB_VEC_ONES;
    *k = (struct kb_arm_kernel){.parts = parts,
                                .arm = prior->arm,
                                .user = kb_user_kernel_is_ones(parts->user) ? 0 : prior->user,
                                .context = has_contexts ? prior->context : 0,
                                .linear = has_contexts ? prior->linear / (double)parts->context_dim : 0};
}

/* out[i] += variance kc(context_i, context). */
static void add_contexts(const struct kb_vec_kernel_spec *kernel, double variance, size_t dim, const double *x,
                         size_t n, const double *context, double *work, double *out)
{
    for (size_t i = 0; i < n; i++)
        work[i] = variance;
    kb_vec_kernel_scale(kernel, dim, x, dim, n, context, work);
    for (size_t i = 0; i < n; i++)
        out[i] += work[i];
}

void kb_arm_kernel_column(const struct kb_arm_kernel *k, const struct kb_arm_block *b, size_t n, struct kb_user user,
                          double diag_user, const double *context, double *work, double *out)
{
    const size_t dim = k->parts->context_dim;
    for (size_t i = 0; i < n; i++)
        out[i] = k->arm;
    if (k->user > 0) {
        kb_user_kernel_row_at(k->parts->user, user, diag_user, b->anchor, n, work);
        kb_axpy(n, k->user, work, out);
    }
    if (k->context > 0)
        add_contexts(&k->parts->context, k->context, dim, b->x, n, context, work, out);
    if (k->linear > 0)
        add_contexts(&linear, k->linear, dim, b->x, n, context, work, out);
}

double kb_arm_kernel_diag(const struct kb_arm_kernel *k, double diag_user, const double *context)
{
    const size_t dim = k->parts->context_dim;
    double value = k->arm + k->user * diag_user;
    if (k->context > 0)
        value += k->context * kb_vec_kernel_value(&k->parts->context, dim, context, context);
    return k->linear > 0 ? value + k->linear * kb_vec_kernel_value(&linear, dim, context, context) : value;
}
