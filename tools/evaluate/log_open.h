/* Decisions of a log that wait for their reward: by id, and in the order in which they were made. */
#ifndef LC_LOG_OPEN_H
#define LC_LOG_OPEN_H

#include <stdbool.h>
#include <stddef.h>

struct lc_open {
    char *id, *line; /* of the decided event; owned */
    double reward;   /* so far */
    bool has_reward;
    bool is_deferred;               /* and not activated: nobody was shown it */
    struct lc_open *before, *after; /* in order */
};

/* Zeroed = empty. */
struct lc_open_set {
    void *tree; /* tsearch(3), by id */
    struct lc_open *first, *last;
};

void lc_open_close(struct lc_open_set *s);
struct lc_open *lc_open_find(const struct lc_open_set *s, const char *id);
struct lc_open *lc_open_add(struct lc_open_set *s, const char *id, const char *line, size_t n);
void lc_open_remove(struct lc_open_set *s, struct lc_open *o);

#endif
