/* A simulated town in the regime of Laplacian Kernelized Bandits: neighbours like similar things. */
#ifndef LC_TOWN_H
#define LC_TOWN_H

#include <stddef.h>
#include <stdint.h>

#include "graph/graph.h"
#include "common/text.h"

/* lambda and beta of the policies are no part of it: the town is the same whoever lives in it. */
struct lc_town_options {
    uint64_t seed;
    size_t n_users, n_arms, dim, n_candidates;
    double rho;         /* of the truth's user kernel (L + rho I)^-1 */
    double lengthscale; /* of the truth's arm kernel */
    double noise;       /* standard deviation of a reward around the truth */
};

/* All owned; freed by close. */
struct lc_town {
    struct lc_town_options o;
    size_t n_blocks;       /* neighbourhoods */
    struct kb_edge *edges; /* weight 1, connected */
    size_t n_edges;
    double *features; /* n_arms x dim, rows on the unit sphere */
    double *truth;    /* truth[user * n_arms + arm], of root mean square 1 */
};

struct lc_town_options lc_town_defaults(void);

/* Builds the town; the same options give the same town. 0, or -1 with `why`. O(n^3 + n^2 arms). A failure leaves what
 * was made to lc_town_close. */
int lc_town_new(struct lc_town *town, const struct lc_town_options *o, char *why);
void lc_town_close(struct lc_town *town);

/* What round t brings, the same for every policy. arms: n_candidates distinct arms. */
size_t lc_town_user(const struct lc_town *town, size_t t);
/* Both are pure functions of (options, t) and may be called from any thread. */
void lc_town_candidates(const struct lc_town *town, size_t t, size_t *arms);
/* Truth plus noise keyed by (seed, t, arm). */
double lc_town_reward(const struct lc_town *town, size_t t, size_t arm);
/* Truth of the best candidate minus truth of the chosen one, >= 0. */
double lc_town_regret(const struct lc_town *town, size_t t, size_t chosen);

#endif
