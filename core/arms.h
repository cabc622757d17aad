/* Arms by interned index: the catalogue (who is offered by default, with which features) and the counts that
 * /stats shows. An arm stays known after it leaves the catalogue, since its rewards do. */
#ifndef KB_ARMS_H
#define KB_ARMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "moves.h"

struct kb_arm {
    double *features; /* arm_dim values, owned; NULL when it has none */
    /* active implies in the catalogue */
    bool is_in_catalogue, is_active;
    /* times shown, times rewarded, and the sum of those rewards: over all users, for /stats */
    uint64_t decided, rewarded;
    double reward_sum;
};

/* One row per interned arm id, in the order of kb_ids: the row number is the arm's index everywhere in the
 * core. */
struct kb_arms {
    struct kb_arm *arm; /* [n], one per interned arm id */
    size_t n, cap;
    size_t n_catalogue, n_active;
};

void kb_arms_init(struct kb_arms *a);
void kb_arms_close(struct kb_arms *a);

/* Room for n_more arms behind those known. KB_ENOMEM changes nothing that is seen. */
enum kb_err kb_arms_reserve(struct kb_arms *a, size_t n_more);
/* The same beside readers: a larger array is added to m when one is needed (moves.h). */
enum kb_err kb_arms_grow(struct kb_arms *a, size_t n_more, struct kb_moves *m);

/* Makes arms 0..n-1 known (room reserved); new ones are outside the catalogue. */
void kb_arms_extend(struct kb_arms *a, size_t n);

/* Puts arm ix into the catalogue; takes *features over (may be NULL). Returns the old ones, which are the caller's. */
double *kb_arms_put(struct kb_arms *a, uint32_t ix, double *features, bool is_active);
/* Takes arm ix out of the catalogue; its counts stay. Returns its features, which are the caller's. No-op for one that
 * is not in it. */
double *kb_arms_remove(struct kb_arms *a, uint32_t ix);

/* dim is the tenant's arm_dim, the length of every features array; it is not stored here. */
uint64_t kb_arms_digest(const struct kb_arms *a, size_t dim, uint64_t h);
void kb_arms_save(const struct kb_arms *a, size_t dim, struct kb_writer *w);
enum kb_err kb_arms_load(struct kb_arms *a, size_t dim, size_t n, struct kb_reader *r); /* a fresh from init */

#endif
