/* Drives replayed traffic through the HTTP API with several connections, and measures it.
 *
 * cmd_replay.c reads the options and prints the report; replay_source.c makes requests of lines. */
#ifndef LC_REPLAY_H
#define LC_REPLAY_H

#include "common/args.h"
#include "common/histogram.h"
#include "common/progress.h"
#include "ctl/replay_source.h"

/* Checked by cmd_replay.c: 1 to 1024 connections, max_errors at least 1. */
struct lc_replay_options {
    size_t concurrency; /* connections, one thread each */
    double rate;        /* lines a second, open loop; 0: closed loop */
    double pace;        /* of the log's own times, open loop: 1 as it was; 0: not by them. At most one of both */
    size_t bulk;        /* lines of one /observe; 0: each is a request of its own */
    size_t limit;       /* lines; 0: all */
    size_t max_errors;  /* stop after so many */
};

/* Filled by each thread for itself and added up at the end; big, so it lives on the heap. */
struct lc_replay_result {
    struct lc_histogram select, reward, observe; /* nanoseconds; failed requests are not in them */
    uint64_t n_requests, n_errors;
    uint64_t n_lines;      /* taken from the file and sent */
    uint64_t n_earned;     /* rewards told */
    double earned;         /* their sum */
    uint64_t n_late_start; /* open loop: lines that were sent later than intended, since all connections were busy */
    uint64_t late_ns;      /* the most that a line was late */
    double log_s;          /* by pace: from the first line's time to the last one's */
    double sent_s;         /* and from the first request to the beginning of the last */
    double seconds;
    char first_error[LC_WHY];
};

static inline bool lc_replay_is_open(const struct lc_replay_options *o)
{
    return o->rate > 0.0 || o->pace > 0.0;
}

/* Runs until the source ends or errors pile up. 0, or -1 with src->why when a line is faulty. Refused requests do not
 * make it fail: they are counted, up to max_errors. */
int lc_replay_run(const struct lc_session *s, const struct lc_replay_options *o, struct lc_source *src,
                  struct lc_progress *progress, struct lc_replay_result *out);

#endif
