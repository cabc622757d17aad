/* Inside of the exact posterior: its state, shared by post_exact.c (points, learning, prediction) and exact_factor.c
 * (the factor, and how it forgets). Only these include this. */
#ifndef KB_EXACT_H
#define KB_EXACT_H

#include "point_index.h"
#include "posterior_ops.h"

struct kb_exact {
    struct kb_posterior base;
    struct kb_chol f, spare; /* spare: the writer's, what f will be when all has lost weight */
    double *count, *sum, *w; /* [|U|] n_i, S_i, F^-1 ybar */
    struct kb_point_index index;
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

/* w = F^-1 ybar and the log determinant, after every change of F, S or n. O(|U|^2). */
void kb_exact_refresh(struct kb_exact *e);
double kb_exact_log_det(const struct kb_exact *e); /* O(|U|) */

/* Appends the row of support point f.n, whose count is there already. O(|U|^2). */
void kb_exact_append_row(struct kb_exact *e, struct kb_scratch *s);
/* n_i grows to n_i + d. O(|U|^2). */
void kb_exact_raise_count(struct kb_exact *e, size_t i, double d, struct kb_scratch *s);
/* The factor anew from the support; cannot fail. O(|U|^3 / 3). */
void kb_exact_factor(struct kb_exact *e, struct kb_scratch *s);

/* Forgetting, as posterior_ops.h asks for it. */
enum kb_err kb_exact_reserve_spare(struct kb_posterior *p, size_t n);
void kb_exact_prepare_left(struct kb_posterior *p, double left, struct kb_scratch *s);
void kb_exact_take_left(struct kb_posterior *p, double left, struct kb_scratch *s);

#endif
