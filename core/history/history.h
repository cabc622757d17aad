/* What the model has been taught: one row per distinct (user, context, arm, features, level), with the number of
 * observations and the sum of their rewards. Rows are in order of first appearance in the log and are never
 * moved or removed, so a dictionary point is named by the log sequence number that first taught it.
 *
 * The level is that of the decision under a rule that learns by levels (elimination.h), and 0 under every other rule.
 *
 * Rewards of equal points enter every posterior only through count and sum. Under forgetting (decay.h) each row holds
 * them as they were when something was last learned there, and how many halvings had passed by then; what is left by
 * now follows from that (kb_history_weight), so that forgetting touches no row. */
#ifndef KB_HISTORY_H
#define KB_HISTORY_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/keyed.h"
#include "base/moves.h"

/* Structure of arrays: the sweep over all rows (post_nystrom.c) reads x, count and sum in unit stride. */
struct kb_history {
    size_t dim;             /* of x: context_dim + arm_dim */
    size_t n, cap;          /* distinct rows */
    uint32_t *user, *arm;   /* [n] interned indices */
    uint32_t *level;        /* [n] */
    double *x;              /* [n][dim] context, then features */
    double *count;          /* [n] observations (a correction leaves it), by their weights at `halvings` */
    double *sum;            /* [n] sum of rewards, likewise */
    double *halvings;       /* [n] that had passed when the row was last learned at; 0 without forgetting */
    uint64_t *first_seq;    /* [n] ascending */
    struct kb_hash_key key; /* of the table */
    uint32_t *slot;         /* hash table over rows */
    size_t n_slots;
    double n_observed;       /* t: observations, whatever is left of them */
    uint64_t content, order; /* the digest: sums of hashes of the rows, and of the numbers of their events */
    double unit;             /* halvings at which weights are counted as 1; 0 without forgetting */
};

void kb_history_init(struct kb_history *h, size_t dim, struct kb_hash_key key);
void kb_history_close(struct kb_history *h);

/* Room for n more rows. KB_ENOMEM and KB_ELIMIT (2^32 - 2 rows) change nothing. */
enum kb_err kb_history_reserve(struct kb_history *h, size_t n);
/* The same beside readers: what has to move is added to m, and the room is there after the swap (moves.h). O(rows dim)
 * once in so many rows as there are, else nothing. */
enum kb_err kb_history_grow(struct kb_history *h, size_t n, struct kb_moves *m);

/* Row of the point, or SIZE_MAX. x: dim values. Expected O(dim). [shared] */
size_t kb_history_find(const struct kb_history *h, uint32_t user, uint32_t arm, const double *x); /* at level 0 */
size_t kb_history_find_at(const struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x);

/* Adds d_count observations with rewards summing to d_sum; a new row when new (room reserved). Returns the row. */
size_t kb_history_add(struct kb_history *h, uint32_t user, uint32_t arm, const double *x, double d_count, double d_sum,
                      uint64_t seq); /* at level 0 */
size_t kb_history_add_at(struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x,
                         double d_count, double d_sum, uint64_t seq);
/* The same of an observation that was learned when `halvings` had passed: now, or earlier when it is corrected. */
size_t kb_history_add_then(struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x,
                           double d_count, double d_sum, double halvings, uint64_t seq);

/* What is left of the row's count and sum, by the unit. */
static inline double kb_history_weight(const struct kb_history *h, size_t row)
{
    return h->halvings[row] == h->unit ? 1.0 : exp2(h->halvings[row] - h->unit);
}

static inline double kb_history_count(const struct kb_history *h, size_t row)
{
    return h->count[row] * kb_history_weight(h, row);
}

static inline double kb_history_sum(const struct kb_history *h, size_t row)
{
    return h->sum[row] * kb_history_weight(h, row);
}

/* Less is nothing: an observation whose noise has grown beyond every other number. */
#define KB_LEAST_COUNT 1e-12

/* Arms that have been taught, by the largest number: 1 more than that. O(n). */
size_t kb_history_n_arms(const struct kb_history *h);

/* Row first taught by the event `seq`, or SIZE_MAX. O(log n). */
size_t kb_history_by_seq(const struct kb_history *h, uint64_t seq);

/* clang-format off */
/* A view of the rows as they stand, to look at them while others learn. What learning changes is copied into arrays of
 * the view's own (count, sum, halvings); the others never change once a row stands in them and are borrowed.
 * A table of the rows' places is not among them: the view finds rows by their first event alone.
 *
 *     reserve   room for n rows; KB_ENOMEM
 *     take      O(n), memory bandwidth
 *     borrow    the shared arrays again, after they have moved */
/* clang-format on */
enum kb_err kb_history_view_reserve(struct kb_history *view, size_t n);
void kb_history_view_take(struct kb_history *view, const struct kb_history *h);
void kb_history_view_borrow(struct kb_history *view, const struct kb_history *h);
void kb_history_view_close(struct kb_history *view);

uint64_t kb_history_digest(const struct kb_history *h, uint64_t hash);
uint64_t kb_history_content_digest(const struct kb_history *h, uint64_t hash); /* without the numbers of events */
/* Of rows and events, without what they have learned: O(n dim). */
uint64_t kb_history_points_digest(const struct kb_history *h, uint64_t hash);
/* Rows in their order; the hash table is made anew by load. */
void kb_history_save(const struct kb_history *h, struct kb_writer *w);
enum kb_err kb_history_load(struct kb_history *h, struct kb_reader *r); /* h initialised with the right dim */
size_t kb_history_bytes(const struct kb_history *h);

#endif
