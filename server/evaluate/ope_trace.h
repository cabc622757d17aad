/* What a report plots of an evaluation, gathered in its one pass and of constant size (but for two numbers an arm):
 *
 *   parts    at most LD_OPE_TRACE_PARTS stretches of the log; a stretch is a run of the series' blocks, so that what it
 *            was worth, with its interval, comes out of sums that are there already
 *   bins     importance weights, four bins a decade from 1e-5 to 1e5 (the first and the last hold what is beyond), and
 *            those that are 0; `mass` is the sum of the weights in a bin
 *   shares   how often an arm was shown, and how often the target would have shown it */
#ifndef LD_OPE_TRACE_H
#define LD_OPE_TRACE_H

#include "evaluate/decisions.h"
#include "evaluate/ope_series.h"

#define LD_OPE_TRACE_PARTS 20u
#define LD_OPE_TRACE_BINS 40u

struct ld_ope_trace_arm {
    size_t shown;
    double target; /* sum of its probabilities */
};

struct ld_ope_trace {
    size_t n_parts, n_begun;
    size_t block[LD_OPE_TRACE_PARTS + 1]; /* first block of each part; the last: their number */
    size_t from[LD_OPE_TRACE_PARTS + 1];  /* first event */
    int64_t at_ms[LD_OPE_TRACE_PARTS];    /* of that event, Unix time; 0: not told */
    size_t n_zero, count[LD_OPE_TRACE_BINS];
    double mass[LD_OPE_TRACE_BINS];
    struct ld_ope_trace_arm *arm; /* [cap] by number in the log */
    size_t cap;
};

/* A stretch's value; is_bounded: with an interval (nothing varied otherwise). NaN: nothing to divide by. */
struct ld_ope_trace_point {
    double value;
    struct ld_ope_interval interval;
    bool is_bounded;
};

void ld_ope_trace_close(struct ld_ope_trace *t);
/* Room for arms below n, which the functions below need: 0, or -1 without memory. */
int ld_ope_trace_reserve(struct ld_ope_trace *t, size_t n);
void ld_ope_trace_shown(struct ld_ope_trace *t, uint32_t arm);
void ld_ope_trace_plan(struct ld_ope_trace *t, size_t n); /* n: events to come */

/* Event k from 0 with the target's probabilities pi [ev->n] and its weight. */
void ld_ope_trace_event(struct ld_ope_trace *t, const struct ld_logged *ev, const double *pi, double weight, size_t k);

/* Lower edge of a bin, LD_OPE_TRACE_BINS included. */
double ld_ope_trace_edge(size_t bin);

/* One point for each part of a series that had all the events. Costs a bootstrap of the series. */
void ld_ope_trace_points(const struct ld_ope_trace *t, const struct ld_ope_series *s,
                         const struct ld_ope_bootstrap *how, struct ld_ope_trace_point *out);

#endif
