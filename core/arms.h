/* Arms by interned index: the catalogue (who is offered by default, with which features) and the counts that
 * /stats shows. An arm stays known after it leaves the catalogue, since its rewards do. */
#ifndef KB_ARMS_H
#define KB_ARMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

struct kb_arm {
    double *features; /* arm_dim values, owned; NULL when it has none */
    bool is_in_catalogue, is_active;
    uint64_t decided, rewarded;
    double reward_sum;
};

struct kb_arms {
    struct kb_arm *arm; /* [n], one per interned arm id */
    size_t n, cap;
    size_t n_catalogue, n_active;
};

void kb_arms_init(struct kb_arms *a);
void kb_arms_close(struct kb_arms *a);

enum kb_err kb_arms_reserve(struct kb_arms *a, size_t n_more);

/* Makes arms 0..n-1 known (room reserved); new ones are outside the catalogue. */
void kb_arms_extend(struct kb_arms *a, size_t n);

/* Puts arm ix into the catalogue; takes *features over (may be NULL) and frees the old ones. */
void kb_arms_put(struct kb_arms *a, uint32_t ix, double *features, bool is_active);
void kb_arms_remove(struct kb_arms *a, uint32_t ix);

uint64_t kb_arms_digest(const struct kb_arms *a, size_t dim, uint64_t h);
void kb_arms_save(const struct kb_arms *a, size_t dim, struct kb_writer *w);
enum kb_err kb_arms_load(struct kb_arms *a, size_t dim, size_t n, struct kb_reader *r); /* a fresh from init */

#endif
