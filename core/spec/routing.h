/* How an arm comes before a user: by the policy, or past it. A share of the users is held out and gets a baseline, an
 * arm once drawn for a user may stay theirs, and a tenant may be stopped. docs/ROUTING.md says what each means for the
 * propensity. */
#ifndef KB_ROUTING_H
#define KB_ROUTING_H

#include <stdint.h>

#include "base/words.h"

/* X(enum, name in answers and in the log). Numbers are stored in snapshots: new ones at the end. */
#define KB_ROUTE_MAP(X)                                                                                                \
    X(KB_ROUTE_POLICY, "policy")                                                                                       \
    X(KB_ROUTE_HOLDOUT, "holdout")                                                                                     \
    X(KB_ROUTE_STICKY, "sticky")                                                                                       \
    X(KB_ROUTE_STOPPED, "stopped")

enum kb_route { KB_ROUTE_MAP(KB_WORD_ENUM) KB_ROUTE_N };
extern const struct kb_words kb_route_words;

/* Where a user stands in [0, 1) under a salt: held out while this is less than the share, so a larger share keeps who
 * was in. A function of the two strings alone, the same on every machine and in every version. O(length). */
double kb_holdout_place(const char *salt, const char *user);

/* Decisions and rewards of one route, for /stats: an arm that stuck counts to the route which had drawn it. Of slates
 * the first slot alone, which is what was routed. */
struct kb_route_stats {
    uint64_t decided;
    uint64_t repeated; /* of them by an arm that stuck */
    uint64_t rewarded; /* decisions whose reward has come, the default one included */
    double reward_sum, square_sum;
};

#endif
