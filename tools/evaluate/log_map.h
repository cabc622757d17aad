/* Which column (csv) or member (ndjson) of a generic log is what. */
#ifndef LC_LOG_MAP_H
#define LC_LOG_MAP_H

#include "common/text.h"

#define LC_MAP_MAX 64

enum lc_map_key {
    LC_MAP_ARM,
    LC_MAP_REWARD,
    LC_MAP_USER,
    LC_MAP_PROPENSITY,
    LC_MAP_POSITION,
    LC_MAP_TIME,
    LC_MAP_CANDIDATES,
    LC_MAP_N
};

extern const char *const lc_map_keys[LC_MAP_N]; /* "arm" and so on: what stands before "=", and the default names */

struct lc_map {
    char *copy;                                             /* holds the names */
    const char *name[LC_MAP_N];                             /* NULL: there is none */
    const char *context[LC_MAP_MAX], *category[LC_MAP_MAX]; /* numbers where they are; always categories */
    size_t n_context, n_category;
};

/* "user=uid,arm=item,reward=click,propensity=p,context=age+hour,categories=country". text NULL: the default names. 0,
 * or -1 with `why` (LC_WHY bytes). */
int lc_map_parse(struct lc_map *m, const char *text, char *why);
void lc_map_close(struct lc_map *m);

#endif
