/* Load on a server from few threads over many kept connections, one request at a time on each: closed loop (a client
 * asks again when it is answered) or open loop (requests arrive by a schedule, whatever the server does).
 *
 * In an open loop the time of a request counts from its place in the schedule. Were it counted from when it is sent, a
 * server that stands still would be sent nothing meanwhile, and its pause would be the one slow answer among thousands
 * of quick ones: coordinated omission. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/histogram.h"

/* When requests are due: Poisson arrivals, or at once as soon as a client is idle. Pure: the clock is the caller's. */
struct bench_arrivals {
    double rate; /* a second; 0: a closed loop */
    uint64_t seed, end_ns, limit, n_taken, due_ns;
};

/* Arrivals lie in [start_ns, end_ns), and are `limit` at most. */
void bench_arrivals_begin(struct bench_arrivals *a, double rate, uint64_t seed, uint64_t start_ns, uint64_t end_ns,
                          uint64_t limit);
/* The next one's time, which may be long past; UINT64_MAX when there is none any more. */
uint64_t bench_arrivals_due(const struct bench_arrivals *a, uint64_t now_ns);
/* Takes it; from where its latency counts: its place in the schedule, or now in a closed loop. */
uint64_t bench_arrivals_take(struct bench_arrivals *a, uint64_t now_ns);

/* Head and body as they are sent. */
struct bench_text {
    const char *bytes;
    size_t n;
};

struct bench_plan {
    int port, status; /* of 127.0.0.1; the status that counts as an answer */
    const struct bench_text *request;
    size_t n_requests; /* played in turn, over and over */
    uint64_t limit;    /* requests in all at most */
    unsigned n_clients, n_threads;
    double rate, seconds; /* rate 0: closed loop */
    double grace_s;       /* given beyond the seconds to what is under way or in line */
};

struct bench_outcome {
    struct lc_histogram latency; /* ns; those that were never answered count with what they had waited */
    struct lc_histogram late;    /* ns from an arrival to its sending while a client was idle: the bench's own fault */
    uint64_t n_answered, n_refused, n_unanswered;
    uint64_t n_bytes; /* of answers */
    double seconds;   /* until the last answer */
};

/* Plays the plan. Ends the process when a connection breaks: its figures would mean nothing. */
void bench_loop_run(const struct bench_plan *plan, struct bench_outcome *out);

#endif
