/* A tenant's own file as a source of decisions (decisions.h): each pass folds the log from its first line on, up to the
 * event that was its last when the evaluation began.
 *
 * With a metric decisions count that were made while the configuration had it with the same range, default and
 * aggregation.
 *
 * Decisions are those that were made from `from` on and before `to`; what else the lines say - arms, configurations,
 * the graph - counts from the beginning, and rewards whenever they came. */
#ifndef LD_OWN_SOURCE_H
#define LD_OWN_SOURCE_H

#include <stdatomic.h>

#include "evaluate/decisions.h"
#include "evaluate/own_log.h"
#include "types/evaluation.h"

struct ld_store;

struct ld_own_source {
    struct ld_decisions base; /* the first */
    struct ld_store *store;
    struct ld_evaluation_span from, to;
    const struct ld_metric_settings *metric; /* that is judged; NULL: the reward */
    uint64_t last;                           /* event that a pass ends with */
    bool (*is_over)(void *arg);              /* asked at each line: true ends the pass. NULL: nobody */
    void (*at)(void *arg, uint64_t seq);     /* told now and then how far a pass has come; NULL: nobody */
    void *arg;
};

/* The rest is set by the caller: store, from, to, last, is_over, at, arg. As ld_decisions_init; close by
 * ld_decisions_close. */
int ld_own_source_init(struct ld_own_source *x, const struct ld_decisions_options *o);

#endif
