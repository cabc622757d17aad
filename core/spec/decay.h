/* How much of an observation is left: forgetting as a count of halvings  [docs/decisions/0015].
 *
 *   e_s      halvings that had passed when observation s was learned; e that have passed by now
 *   weight   2^(e_s - e): 1 for what was learned last, 1/2 one halving ago
 *
 *   none        e stands still; nothing is counted
 *   discount    e grows by -log2 g with every event that teaches, so a weight is g^(events since)
 *   half_life   e grows by elapsed / half_life, on the times that stand in the log; a clock that was set back does not
 *               run until it has caught up
 *
 * Time passes with what is learned and not with what is asked: a model at rest stays as it is. A change of the setting
 * counts from the first event that is learned under it; what is forgotten stays forgotten.
 *
 * Models do not hold weights, which would all change with every event, but weights times 2^(e - u): the unit u is e
 * rounded down to a grid, so an observation enters with a weight of 1 to 1/0.9 that then stays, until u moves on and
 * everything is multiplied by one factor. u depends on e alone, so a model that has learned step by step and one that
 * was built at once are in the same unit. */
#ifndef KB_DECAY_H
#define KB_DECAY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "spec/spec.h"

#define KB_DECAY_STEP 0.15200309344504995 /* the grid: log2(1 / 0.9) */

struct kb_decay {
    double base;                     /* halvings before the present setting */
    uint64_t steps;                  /* events that have taught under it */
    int64_t first_ms, last_ms;       /* when it began, and the latest time since */
    bool has_begun;                  /* something has been learned under it */
    uint64_t n_changes, last_change; /* events `changed`, under any setting, and the number of the last one */
};

/* Halvings by now, under the setting in force. */
double kb_decay_halvings(const struct kb_decay *d, const struct kb_forgetting_spec *f);
double kb_decay_unit(double halvings);
/* One event teaches at at_ms. */
void kb_decay_step(struct kb_decay *d, const struct kb_forgetting_spec *f, int64_t at_ms);
/* Event `seq` leaves `left` of all that was learned so far. */
void kb_decay_jump(struct kb_decay *d, double left, uint64_t seq);
/* Another setting from here on; `from` is the one so far. */
void kb_decay_change(struct kb_decay *d, const struct kb_forgetting_spec *from);

bool kb_forgetting_is_same(const struct kb_forgetting_spec *a, const struct kb_forgetting_spec *b);

bool kb_decay_is_none(const struct kb_decay *d); /* nothing forgotten, nothing counted */
bool kb_decay_is_valid(const struct kb_decay *d);
uint64_t kb_decay_digest(const struct kb_decay *d, uint64_t h);
uint64_t kb_decay_events_digest(const struct kb_decay *d, uint64_t h); /* without the halvings, which were computed */
void kb_decay_save(const struct kb_decay *d, struct kb_writer *w);
enum kb_err kb_decay_load(struct kb_decay *d, struct kb_reader *r); /* KB_ECORRUPT */

#endif
