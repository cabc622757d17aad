/* The arm that sticks to each user: drawn once, and shown again until its time is over, as long as it may be shown at
 * all. By interned user index; 24 bytes a user from the first assignment on, and nothing before it.
 *
 * Written in `apply` under the tenant's write lock, by what the log says; read by decisions under the read lock. One
 * that is over stays until another takes its place: the core has no clock. */
#ifndef KB_ASSIGNMENTS_H
#define KB_ASSIGNMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/ids.h"
#include "base/moves.h"
#include "spec/routing.h"

struct kb_assignment {
    uint32_t arm;      /* interned; KB_ID_NONE: none */
    uint32_t route;    /* enum kb_route that had drawn it: policy, holdout or stopped */
    double propensity; /* of that draw, in (0, 1] */
    int64_t until_ms;  /* shown again before this */
};

struct kb_assignments {
    struct kb_assignment *of; /* [cap] by user */
    size_t cap, n;            /* n: users that have one */
    uint64_t digest;          /* sum over them: the order is irrelevant */
};

void kb_assignments_init(struct kb_assignments *a);
void kb_assignments_close(struct kb_assignments *a);

/* Room for users 0..n_users-1, beside readers (moves.h). KB_ENOMEM. */
enum kb_err kb_assignments_grow(struct kb_assignments *a, size_t n_users, struct kb_moves *m);
/* The same for a table that nobody reads. */
enum kb_err kb_assignments_reserve(struct kb_assignments *a, size_t n_users);

/* Replaces what the user had. Room must be there. */
void kb_assignments_put(struct kb_assignments *a, uint32_t user, const struct kb_assignment *assignment);

/* What the user has, over or not; NULL: nothing, or a user beyond the table. */
static inline const struct kb_assignment *kb_assignments_find(const struct kb_assignments *a, uint32_t user)
{
    return user < a->cap && a->of[user].arm != KB_ID_NONE ? &a->of[user] : NULL;
}

/* A copy that stays as it is, for a snapshot; close frees it. KB_ENOMEM. O(users). */
enum kb_err kb_assignments_copy(const struct kb_assignments *a, struct kb_assignments *out);

uint64_t kb_assignments_digest(const struct kb_assignments *a, uint64_t h); /* O(1) */
void kb_assignments_save(const struct kb_assignments *a, struct kb_writer *w);
/* a fresh from init; users and arms are numbered below n_users and n_arms. KB_ECORRUPT, KB_ENOMEM. */
enum kb_err kb_assignments_load(struct kb_assignments *a, size_t n_users, size_t n_arms, struct kb_reader *r);

#endif
