/* What a posterior that is split by arm (post_by_arm.c) holds of one arm: its distinct points and the factor over them.
 * A block is one piece of memory, so that a larger one is put in its place by one pointer (moves.h). */
#ifndef KB_ARM_BLOCK_H
#define KB_ARM_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "linalg/tiled.h"

struct kb_appended;

struct kb_arm_block {
    size_t n, cap;
    struct kb_tiled f; /* F F^T = K + lambda N^-1; it lags behind n while a posterior is filled */
    double *count, *w; /* [n] observations; F^-1 (mean rewards - prior mean), with room to be solved for */
    double *weight;    /* [n] F^-T w or near it, and room: the mean at the column k is k.weight, less the prior's */
    double *probe;     /* [n_probe] F^-T F^-1 1 of the first points, and room: |F^-1 k| >= |k.probe| / ones_norm */
    double *x;         /* [n][context_dim] */
    uint32_t *anchor;  /* [n] of the points' users */
    uint32_t *support; /* [n] numbers of the points in the support */
    double refused;    /* rewards at points that it had no room for, since it was filled; no part of the state */
    double log_det;    /* ln det(I + K_t / lambda) of this arm */
    size_t n_probe;
    double ones_norm, drift;      /* |F^-1 1|; how far weight is off, at most: |F^T weight - w| */
    double square, w_norm, error; /* |F|^2, |w|, what rounding comes to */
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

/* What bounds read, no part of the state: after a change of F, three passes over it; behind that, or after a change of
 * w alone, one; or after a new point, whose row is `row`, mostly none. */
void kb_arm_block_follow_factor(struct kb_arm_block *b);
void kb_arm_block_follow_values(struct kb_arm_block *b, double lambda);
void kb_arm_block_follow_point(struct kb_arm_block *b, double lambda, const struct kb_appended *row);
/* For a point of the kernel values k, and `prior` with itself: no solve says more than *mean and *sd. O(n). */
void kb_arm_block_bound(const struct kb_arm_block *b, const double *k, double prior, double *mean, double *sd);

#endif
