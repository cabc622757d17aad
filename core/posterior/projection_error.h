/* What a dictionary misses of the observations: bounds on the residual Gram matrix E_t = K_t - F F^T >= 0, whose rows
 * of F are the features z_s (features.h).
 *
 *   trace     sum_s r(s) over all observations under the dictionary in force; exact
 *   error     e_t >= lambda_max(E_t). Observations are cut into blocks; lambda_max of a positive semidefinite matrix is
 *             at most the sum of those of its diagonal blocks. A closed block keeps its value when the dictionary
 * grows, since residuals only fall
 *
 * The open block holds up to KB_ERROR_BLOCK observations with their features, which gain a coordinate with every
 * admission; when full it is closed. Belongs to a dictionary posterior, which alone calls this. */
#ifndef KB_PROJECTION_ERROR_H
#define KB_PROJECTION_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/kernel.h"

#define KB_ERROR_BLOCK 64u

struct kb_projection_error {
    double trace, closed;
    double count, largest_diag; /* of the observations: t, and kappa^2 = max k(s,s) */
    bool has_blocks;            /* otherwise only the trace is kept, and is e_t */
    struct kb_support open;     /* the open block's points; their anchors mean nothing */
    double *z;                  /* [cap][KB_ERROR_BLOCK]: coordinate i of point j at z[i * KB_ERROR_BLOCK + j] */
    double *residual;           /* [KB_ERROR_BLOCK] of the open block's points */
    size_t cap;                 /* coordinates that z has room for */
};

enum kb_err kb_projection_error_init(struct kb_projection_error *e, size_t dim, bool has_blocks);
void kb_projection_error_close(struct kb_projection_error *e);
/* Room for n coordinates after the swap of m (moves.h). KB_ENOMEM. */
enum kb_err kb_projection_error_grow(struct kb_projection_error *e, size_t n, struct kb_moves *m);
size_t kb_projection_error_bytes(const struct kb_projection_error *e);
size_t kb_projection_error_work(void); /* bytes of arena that the calls below draw */

/* One observation of weight `count` (1 where there are blocks) of a point with feature z (m values) and residual r; may
 * close the block. O(m), and now and then
 * O(KB_ERROR_BLOCK^2 (m + dim)). */
void kb_projection_error_add(struct kb_projection_error *e, const struct kb_kernel *k, const struct kb_point *pt,
                             const double *z, size_t m, double diag, double residual, double count,
                             struct kb_arena *arena);
/* All observations so far count for `left` of what they did. No blocks (bounds that read them do not forget). */
void kb_projection_error_scale(struct kb_projection_error *e, double left);

/* No observations any more. */
void kb_projection_error_clear(struct kb_projection_error *e);

/* n <= KB_ERROR_BLOCK points with counts as a closed block: features by column of leading dimension ld (m rows). */
void kb_projection_error_add_block(struct kb_projection_error *e, const struct kb_kernel *k,
                                   const struct kb_point *points, size_t n, const double *z, size_t ld, size_t m,
                                   const double *diag, const double *residual, const double *count,
                                   struct kb_arena *arena);

/* The dictionary gains pt as coordinate m: l = z(pt) and pivot as in features.h; square = sum n_j z_new,j^2 over all
 * observations. O(KB_ERROR_BLOCK (m + dim)). */
void kb_projection_error_append(struct kb_projection_error *e, const struct kb_kernel *k, const struct kb_point *pt,
                                const double *l, size_t m, double pivot, double square, struct kb_arena *arena);

double kb_projection_error_value(const struct kb_projection_error *e); /* e_t. O(KB_ERROR_BLOCK) */

uint64_t kb_projection_error_digest(const struct kb_projection_error *e, size_t m, uint64_t h);
void kb_projection_error_save(const struct kb_projection_error *e, size_t m, struct kb_writer *w);
/* Room for m coordinates reserved. KB_ECORRUPT. */
enum kb_err kb_projection_error_load(struct kb_projection_error *e, size_t m, const struct kb_kernel *k,
                                     struct kb_reader *r);

#endif
