/* Who likes what: pairs (user, arm) from CSV or JSON, and their split into a part to learn from and a part held out. */
#ifndef LC_LIKES_H
#define LC_LIKES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ids.h"
#include "common/text.h"

struct lc_likes {
    struct kb_ids arms;
    size_t n_users; /* ids of *users when reading ended */
    size_t *start;  /* [n_users + 1] */
    uint32_t *arm;  /* [n] distinct and ascending within a user */
    size_t n, n_repeats;
    size_t n_fans_total; /* users with at least one like */
    size_t *n_fans;      /* [arms.n] users who like it */
};

/* A file that ends in .json holds {user: [arm, ...]}, any other CSV `user,arm[,count]` (rows with count <= 0 are left
 * out). Users are interned into *users, behind those already there. 0, or -1 with `why`. */
int lc_likes_read(struct lc_likes *l, struct kb_ids *users, const char *path, char *why);
void lc_likes_close(struct lc_likes *l);

/* Whether a like is in the training half. A user's likes are ranked by a hash of (seed, user's id, arm's id); the first
 * half, rounded up, is training: so one like alone is training, and the split does not depend on the order of the
 * files. Fills is_training[n], parallel to l->arm. */
void lc_likes_split(const struct lc_likes *l, const struct kb_ids *users, uint64_t seed, bool *is_training);

#endif
