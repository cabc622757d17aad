/* Which users taught the model what it expects of an arm: the terms of the posterior's mean (posterior/influence.h),
 * added up by the user of each observation.
 *
 *   mean(s) = prior + sum over users u of term_u,    term_u = sum over the rows j of u of h_j (S_j - n_j prior)
 *
 * term_u is what the mean would lose if all rewards of u had been `prior`: below 0 where his rewards lower it. */
#ifndef KB_TEACHERS_H
#define KB_TEACHERS_H

#include "model/engine_read.h"

#define KB_MOST_TEACHERS 20u

struct kb_teacher {
    uint32_t user;
    double term;
    double count, sum; /* his rewards that have a part in it; weights under forgetting */
};

struct kb_teachers {
    double mean, prior;
    size_t n;
    struct kb_teacher of[KB_MOST_TEACHERS]; /* [n] by size of their terms, descending */
    size_t n_others;                        /* further users whose rewards have a part */
    double others;                          /* the sum of their terms */
    bool tells_users;                       /* kb_posterior_tells_users */
};

/* Of candidate i of *d, which the query has just been answered by with the same scratch; the n <= KB_MOST_TEACHERS
 * largest terms. The sum holds to rounding. With the lock of kb_engine_decide. KB_ENOMEM.
 * O(users + n^2 + rows) of an exact posterior of n points, O(users + m^2 + rows m (dim + 1)) over a dictionary. */
enum kb_err kb_teachers_find(const struct kb_engine *e, const struct kb_query *q, const struct kb_decision *d, size_t i,
                             size_t n, struct kb_scratch *s, struct kb_teachers *out);

/* Multiply-adds of that, in round numbers. With the same lock. O(1). */
double kb_teachers_work(const struct kb_engine *e);

#endif
