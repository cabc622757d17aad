/* Arms by interned index: the catalogue (who is offered by default, with which features) and the counts that
 * /stats shows. An arm stays known after it leaves the catalogue, since its rewards do. */
#ifndef KB_ARMS_H
#define KB_ARMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "spec/eligibility.h"
#include "base/err.h"
#include "base/moves.h"

/* What the catalogue holds of an arm in memory of its own. */
struct kb_arm_parts {
    double *features;                   /* arm_dim values; NULL when it has none */
    struct kb_eligibility *eligibility; /* a sorted copy; NULL: for everybody, always */
    char *value;                        /* text; NULL: none */
};

struct kb_arm {
    struct kb_arm_parts parts; /* owned */
    /* active and stopped imply in the catalogue; one that is stopped is shown to nobody, named or not */
    bool is_in_catalogue, is_active, is_stopped;
    bool is_restricted; /* stopped, or with rules: derived, so that a decision looks at one word for each of the others
                         */
    uint64_t
        stamp; /* of its features: never that of others while the process runs; 0: outside the catalogue. Derived */
    /* times shown, times rewarded, and sums of those rewards and of their squares: over all users, for /stats */
    uint64_t decided, rewarded;
    double reward_sum, square_sum; /* square_sum NaN: not known, as of a log of before it was counted */
};

/* One row per interned arm id, in the order of kb_ids: the row number is the arm's index everywhere in the
 * core. */
struct kb_arms {
    struct kb_arm *arm; /* [n], one per interned arm id */
    size_t n, cap;
    size_t n_catalogue, n_active, n_stopped;
    size_t rules_bytes; /* of the eligibility rules and the values in the catalogue */
    uint64_t n_changes; /* arms put into the catalogue and taken out of it; not saved. The last stamp, or more */
};

void kb_arms_init(struct kb_arms *a);
void kb_arms_close(struct kb_arms *a);

/* The same beside readers: a larger array is added to m when one is needed (moves.h). */
enum kb_err kb_arms_grow(struct kb_arms *a, size_t n_more, struct kb_moves *m);

/* Makes arms 0..n-1 known (room reserved); new ones are outside the catalogue. */
void kb_arms_extend(struct kb_arms *a, size_t n);

/* Puts arm ix into the catalogue; takes *parts over. Returns the old ones, which are the caller's. */
struct kb_arm_parts kb_arms_put(struct kb_arms *a, uint32_t ix, const struct kb_arm_parts *parts, bool is_active,
                                bool is_stopped);
/* Takes arm ix out of the catalogue; its counts stay. Returns its parts, which are the caller's. No-op for one that is
 * not in it. */
struct kb_arm_parts kb_arms_remove(struct kb_arms *a, uint32_t ix);
/* For an arm of the catalogue. */
void kb_arms_stop(struct kb_arms *a, uint32_t ix, bool is_stopped);
/* NULL: no memory. */
char *kb_arm_value_copy(const char *value);
void kb_arm_parts_free(const struct kb_arm_parts *parts);

/* dim is the tenant's arm_dim, the length of every features array; it is not stored here. */
uint64_t kb_arms_digest(const struct kb_arms *a, size_t dim, uint64_t h);
void kb_arms_save(const struct kb_arms *a, size_t dim, struct kb_writer *w);
enum kb_err kb_arms_load(struct kb_arms *a, size_t dim, size_t n, struct kb_reader *r); /* a fresh from init */

#endif
