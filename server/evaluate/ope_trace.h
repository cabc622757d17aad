/* What a report plots of an evaluation, gathered in its one pass and of constant size (but for two numbers an arm):
 *
 *   parts    at most LC_TRACE_PARTS stretches of the log; a stretch is a run of the series' blocks, so that what it
 *            was worth, with its interval, comes out of sums that are there already
 *   bins     importance weights, four bins a decade from 1e-5 to 1e5 (the first and the last hold what is beyond), and
 *            those that are 0; `mass` is the sum of the weights in a bin
 *   shares   how often an arm was shown, and how often the target would have shown it */
#ifndef LC_OPE_TRACE_H
#define LC_OPE_TRACE_H

#include "evaluate/decisions.h"
#include "evaluate/ope_series.h"

#define LC_TRACE_PARTS 20u
#define LC_TRACE_BINS 40u

struct lc_trace_arm {
    size_t shown;
    double target; /* sum of its probabilities */
};

struct lc_trace {
    size_t n_parts, n_begun;
    size_t block[LC_TRACE_PARTS + 1]; /* first block of each part; the last: their number */
    size_t from[LC_TRACE_PARTS + 1];  /* first event */
    int64_t at_ms[LC_TRACE_PARTS];    /* of that event, Unix time; 0: not told */
    size_t n_zero, count[LC_TRACE_BINS];
    double mass[LC_TRACE_BINS];
    struct lc_trace_arm *arm; /* [cap] by number in the log */
    size_t cap;
};

/* A stretch's value; is_bounded: with an interval (nothing varied otherwise). NaN: nothing to divide by. */
struct lc_trace_point {
    double value;
    struct lc_interval interval;
    bool is_bounded;
};

void lc_trace_close(struct lc_trace *t);
/* Room for arms below n, which the functions below need: 0, or -1 without memory. */
int lc_trace_reserve(struct lc_trace *t, size_t n);
void lc_trace_shown(struct lc_trace *t, uint32_t arm);
void lc_trace_plan(struct lc_trace *t, size_t n); /* n: events to come */

/* Event k from 0 with the target's probabilities pi [ev->n] and its weight. */
void lc_trace_event(struct lc_trace *t, const struct ld_logged *ev, const double *pi, double weight, size_t k);

/* Lower edge of a bin, LC_TRACE_BINS included. */
double lc_trace_edge(size_t bin);

/* One point for each part of a series that had all the events. Costs a bootstrap of the series. */
void lc_trace_points(const struct lc_trace *t, const struct lc_series *s, const struct lc_bootstrap *how,
                     struct lc_trace_point *out);

#endif
