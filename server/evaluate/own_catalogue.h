/* The arms of a tenant's own log (own_log.h): which of them stand in the catalogue, and what their vectors are. */
#ifndef LD_OWN_CATALOGUE_H
#define LD_OWN_CATALOGUE_H

#include "evaluate/decisions.h"
#include "spec/event.h"

/* Zeroed, but for `d` and the dimension, one that nothing is known of. */
struct ld_own_catalogue {
    struct ld_decisions *d;
    uint32_t arm_dim;     /* of the vectors in events */
    bool is_told;         /* the log says who is offered */
    unsigned char *flags; /* [cap] by arm */
    size_t cap;
};
void ld_own_catalogue_close(struct ld_own_catalogue *c);

/* The arm's number, and its vector, of `dim` numbers, where it is told. KB_ID_NONE with why. */
uint32_t ld_own_arm(struct ld_decisions *d, uint32_t dim, const char *id, const double *features);

/* An event `arms`, and the part of a summary that has them, which is no catalogue where none of them stands in one. 0,
 * -1 or LD_DECISIONS_BROKEN with why. */
int ld_own_catalogue_change(struct ld_own_catalogue *c, const struct kb_event *ev);
int ld_own_catalogue_summary(struct ld_own_catalogue *c, const struct kb_ev_summary *part);

#endif
