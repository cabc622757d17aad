/* Lines of our own log (/events and /export) out of a file: as events for evaluate/own_log.h, which says what becomes
 * of them. They are read more loosely here than by the server: a line may lack what no decision needs, and features may
 * be an object. */
#ifndef LC_LOG_OWN_H
#define LC_LOG_OWN_H

#include "common/json.h"
#include "evaluate/log_reader.h"
#include "evaluate/own_log.h"

struct lc_own {
    struct ld_own_log log;
    /* of the line in hand */
    struct kb_ev_arm *put;
    struct kb_ev_known_arm *known; /* of a summary, with what stands in a catalogue */
    struct kb_ev_summary summary;
    struct kb_ev_slot *among, slots[KB_MAX_SLOTS];
    struct kb_ev_draw draws[KB_MAX_SLOTS];
    const char **remove, **stop, **start;
    double **vector;   /* [n_vectors]: that of the line's own arm, and one for each that it lists */
    double **contexts; /* [n_contexts] of slots that have their own */
    size_t cap_put, cap_known, cap_among, cap_remove, cap_stop, cap_start, n_vectors, n_contexts;
};

void lc_own_open(struct lc_own *s, struct lc_log *log);
void lc_own_close(struct lc_own *s);

/* The line in hand, of n bytes, but no observation: as ld_own_log_take. */
int lc_own_take(struct lc_own *s, struct lc_log *log, const struct json_t *doc, size_t n, struct ld_logged *ev);

/* The id of an arm: itself, or the member of an object; a number stands for its digits, in `text`. NULL with why. */
const char *lc_log_id(struct lc_log *log, const struct json_t *v, char text[32]);

#endif
