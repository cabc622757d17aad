/* A game with real people: who likes what, half of it held out, on a connected sample of their network. */
#ifndef LC_PEOPLE_H
#define LC_PEOPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "demo/likes.h"
#include "common/network.h"

/* The same options and files give the same game. */
struct lc_people_options {
    uint64_t seed;
    /* all counts are wishes: the data may have fewer */
    size_t n_users;      /* of the sample; 0: all */
    size_t n_candidates; /* per round, at least 2 */
    size_t dim;          /* of the arms' features; 0: none */
    size_t max_arms;     /* the most liked of those allowed are kept */
    double rare_share;   /* only arms liked by less than this share of those who like anything; 0: all arms */
};

struct lc_people {
    struct lc_people_options o;
    const struct kb_ids *users; /* borrowed, as are the likes */
    const struct lc_likes *likes;
    uint32_t *member; /* [n_members] sampled users (ids) */
    size_t n_members;
    struct kb_edge *edges; /* between members, by their index */
    size_t n_edges;
    uint32_t *arm; /* [n_arms] kept arms (ids) */
    size_t n_arms;
    size_t *train_start, *held_start; /* [n_members + 1] */
    uint32_t *train, *held;           /* kept-arm indices, ascending within a member */
    uint32_t *player;                 /* [n_players] members who have a held-out like and enough other arms */
    size_t n_players;
    double *features; /* [n_arms x dim] or NULL */
};

/* Draws the sample, splits the likes and makes features from the training half. 0, or -1 with `why`. Borrows users and
 * likes until close; the network is only read here. */
int lc_people_new(struct lc_people *p, const struct lc_network *net, const struct kb_ids *users,
                  const struct lc_likes *likes, const struct lc_people_options *o, char *why);
/* Also after a failure of lc_people_new. */
void lc_people_close(struct lc_people *p);

/* Round t, the same for every policy: a player, and candidates out of the arms that are not in its training half. Pure
 * functions of (game, t): callable from any thread. */
uint32_t lc_people_player(const struct lc_people *p, size_t t); /* member index */
size_t lc_people_candidates(const struct lc_people *p, size_t t, size_t *arms);
bool lc_people_likes(const struct lc_people *p, uint32_t member, size_t arm); /* held out */

/* Features of arms from who likes them together. co: symmetric m x m counts, co[i * m + j] = users who like both i and
 * j (the diagonal is not read). out: m x dim, row-major; rows of arms with any association have length 1, others are
 * zero. dim <= m. Deterministic. O(iterations m^2 dim). */
void lc_arm_features(size_t m, const double *co, size_t dim, double *out);

/* Share of the first n rounds in which some candidate is a held-out like: the best any policy can reach; and the mean
 * share of such candidates: what uniform choice reaches on average. */
void lc_people_bounds(const struct lc_people *p, size_t n_rounds, double *best, double *uniform);

#endif
