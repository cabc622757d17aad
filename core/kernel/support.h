/* Points s = (user, context, arm), and support sets: a dictionary, or all distinct points, that others are evaluated
 * against. */
#ifndef KB_SUPPORT_H
#define KB_SUPPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/moves.h"
#include "graph/graph.h"

/* Components of a kernel that is a sum (component_kernel.h); KB_PART_ALL of every other kernel. */
enum kb_part { KB_PART_ALL, KB_PART_ARM, KB_PART_FEATURE, KB_PART_USER, KB_PART_CONTEXT, KB_PART_LINEAR, KB_N_PARTS };

/* A point; x (context, then features: dim doubles) is borrowed. */
struct kb_point {
    struct kb_user user;
    uint32_t arm;
    const double *x;
    uint32_t level; /* of the decision that it was taught by; 0 where no rule reads levels */
    uint32_t part;  /* of enum kb_part: the component of a sum that a support point stands for */
};

struct kb_arm_columns;

/* Points that others are evaluated against, stored by value; each knows its user's anchor. */
struct kb_support {
    size_t dim, n, cap;
    struct kb_user *user;
    uint32_t *anchor, *arm, *level, *part;
    double *x;       /* [cap][dim] */
    uint64_t *marks; /* [cap][kb_vec_mark_words(dim)] which of x are not 0 */
    struct kb_arm_columns
        *columns; /* borrowed: what is kept of arms against these points (arm_columns.h); NULL: none */
};

void kb_support_init(struct kb_support *s, size_t dim);
void kb_support_close(struct kb_support *s);
enum kb_err kb_support_reserve(struct kb_support *s, size_t n_more);
/* The same beside readers: what has to move is added to m (moves.h). */
enum kb_err kb_support_grow(struct kb_support *s, size_t n_more, struct kb_moves *m);
void kb_support_push(struct kb_support *s, const struct kb_point *p, uint32_t anchor); /* room reserved */
struct kb_point kb_support_point(const struct kb_support *s, size_t i);
/* Of one point in all arrays. */
size_t kb_support_point_bytes(const struct kb_support *s);
/* To be called behind a vector that was written to s->x in place. */
void kb_support_mark(struct kb_support *s, size_t i);

/* Writes p behind those in force (index n) without counting it: readers do not see it. Room reserved. */
void kb_support_put(struct kb_support *s, size_t i, const struct kb_point *p, uint32_t anchor);

#endif
