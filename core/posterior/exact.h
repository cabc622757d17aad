/* Inside of the exact posterior: its state, shared by its points (exact_points.c), what is learned and predicted with a
 * factor (post_exact.c, noisy_gram.h) and without one (post_diagonal.c). Only these include this. */
#ifndef KB_EXACT_H
#define KB_EXACT_H

#include "kernel/point_index.h"
#include "posterior/posterior_impl.h"

struct kb_exact {
    struct kb_posterior base;
    double *count, *sum; /* [|U|] n_i, S_i */
    struct kb_point_index index;
    /* Whether a new point of the history is held, while they are collected (NULL: all are); for it: points of each arm.
     */
    bool (*takes)(struct kb_exact *e, const struct kb_point *pt, double count);
    size_t *n_of_arm;
    const double *least; /* and the least weight that is held of each */
    /* With a factor: */
    struct kb_chol f, spare; /* spare: the writer's, what f will be when all has lost weight */
    double *w;               /* [|U|] F^-1 ybar */
    /* Without: */
    double mean, ridge;   /* the prior's mean; lambda over its variance, infinite where that is 0 */
    bool is_scaled;       /* that prior may have been chosen by the rewards */
    double log_sum, lost; /* the log determinant as a running sum, and what that has lost to rounding */
};

/* The struct behind the interface: it begins with its kb_posterior. */
static inline struct kb_exact *kb_exact_of(struct kb_posterior *p)
{
    return (struct kb_exact *)p;
}

static inline const struct kb_exact *kb_exact_of_const(const struct kb_posterior *p)
{
    return (const struct kb_exact *)p;
}

/* --- points (exact_points.c); init to learn_adds_point as posterior_impl.h asks for them --------------------- */

enum kb_err kb_exact_init(struct kb_posterior *p, const struct kb_spec *spec);
void kb_exact_close(struct kb_posterior *p);
size_t kb_exact_point_bytes(const struct kb_posterior *p); /* of counts, sums and index. O(1) */
enum kb_err kb_exact_grow_points(struct kb_posterior *p, size_t n, struct kb_moves *m);
bool kb_exact_learn_adds_point(const struct kb_posterior *p, const struct kb_point *pt);

/* Number of the point, or KB_POINT_NONE. */
uint32_t kb_exact_find(const struct kb_exact *e, const struct kb_point *pt);
/* A staged point becomes the last one, without observations; its number. */
uint32_t kb_exact_enter(struct kb_exact *e, const struct kb_point *pt);
/* All points of the history in order of first appearance, with counts and sums, into an empty posterior. KB_ENOMEM. */
enum kb_err kb_exact_collect(struct kb_exact *e, const struct kb_history *h, const uint32_t *node_of,
                             struct kb_scratch *s);

/* Forgetting: what is left of all counts; means of rewards stay what they are. */
void kb_exact_fade(struct kb_exact *e, double left);

/* Counts and sums; what is read is checked, and the index made of the support, which is there. KB_ECORRUPT. */
void kb_exact_save_points(const struct kb_exact *e, struct kb_writer *w);
enum kb_err kb_exact_load_points(struct kb_exact *e, struct kb_reader *r);

#endif
