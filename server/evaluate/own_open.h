/* Decisions of a log whose rewards may still come (own_log.h), by id and in their order. Each is one block of memory:
 * its texts, vectors and rewards stand behind it. */
#ifndef LD_OWN_OPEN_H
#define LD_OWN_OPEN_H

#include <stdbool.h>
#include <stddef.h>

#include "spec/event.h"

struct ld_own_open {
    struct kb_event ev;            /* decided, with its slots: of a slate without names the first alone */
    uint32_t context_dim, arm_dim; /* of its vectors: those of the log may be others by its end */
    double *reward;                /* [n_slots] so far; NaN: none */
    bool is_deferred;              /* and not activated: nobody was shown it */
    bool is_named;                 /* it was made among candidates that the line does not tell */
    struct ld_own_open *before, *after;
};

/* Zeroed: none. */
struct ld_own_opens {
    void *tree; /* by id (tsearch(3)) */
    struct ld_own_open *first, *last;
};

/* NULL: no memory. No other one may have the id. */
struct ld_own_open *ld_own_opens_add(struct ld_own_opens *s, const struct kb_event *decided, uint32_t context_dim,
                                     uint32_t arm_dim);
struct ld_own_open *ld_own_opens_find(const struct ld_own_opens *s, const char *id); /* or NULL */
void ld_own_opens_unlink(struct ld_own_opens *s, struct ld_own_open *o);             /* to be freed by kb_free */
void ld_own_opens_close(struct ld_own_opens *s);

#endif
