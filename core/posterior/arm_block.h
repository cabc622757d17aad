/* What a posterior that is split by arm (post_by_arm.c) holds of one arm: its distinct points and the factor over them;
 * and the kernel between points of one arm, a sum of components:
 *
 *   k(s, s') = arm + user G[u, u'] + context kc(c, c') + linear c.c' / d          d coordinates of contexts
 *
 * A block is one piece of memory, so that a larger one is put in its place by one pointer (moves.h). */
#ifndef KB_ARM_BLOCK_H
#define KB_ARM_BLOCK_H

#include "kernel/kernel.h"
#include "posterior/noisy_gram.h"

/* Variances of the components; a component that the kernel's parts cannot tell points by has none. */
struct kb_arm_kernel {
    const struct kb_kernel *parts; /* borrowed: G and kc */
    double arm, user, context, linear;
};

struct kb_arm_block {
    size_t n, cap;
    struct kb_chol f;  /* F F^T = K + lambda N^-1; it lags behind n while a posterior is filled */
    double *count, *w; /* [n] observations; F^-1 (mean rewards - prior mean) */
    double *x;         /* [n][context_dim] */
    uint32_t *anchor;  /* [n] of the points' users */
    uint32_t *support; /* [n] numbers of the points in the support */
    double log_det;    /* ln det(I + K_t / lambda) of this arm */
};

/* The room that n points want: the next power of two, or `most` where that is less. */
size_t kb_arm_block_cap(size_t n, size_t most);
size_t kb_arm_block_bytes(size_t cap, size_t context_dim);
/* A block for cap points with those of `from` (may be NULL), to be freed by kb_free. NULL: no memory. */
struct kb_arm_block *kb_arm_block_new(size_t cap, size_t context_dim, const struct kb_arm_block *from);
/* Replaces the points of `to`, which has room for them; not the factor. */
void kb_arm_block_copy_points(struct kb_arm_block *to, const struct kb_arm_block *from, size_t context_dim);
/* One more point, of a count. Room is there. */
void kb_arm_block_push(struct kb_arm_block *b, const double *context, size_t context_dim, uint32_t anchor,
                       uint32_t support, double count);

void kb_arm_kernel_init(struct kb_arm_kernel *k, const struct kb_prior_spec *prior, const struct kb_kernel *parts);
/* out[i] = k(point i of the block, a user in a context), i < n; work: n doubles. diag_user: of that user
 * (kb_user_kernel_diag). O(n (dim + 1)). */
void kb_arm_kernel_column(const struct kb_arm_kernel *k, const struct kb_arm_block *b, size_t n, struct kb_user user,
                          double diag_user, const double *context, double *work, double *out);
/* The variance of a point before anything is learned. */
double kb_arm_kernel_diag(const struct kb_arm_kernel *k, double diag_user, const double *context);

#endif
