/* Counters and histograms of the process, as relaxed atomics; exported as Prometheus text.
 *
 *   metrics.c           counting, and the table of what the process counts
 *   metrics_text.c      the text format: heads, series, histograms, requests by route
 *   metrics_tenants.c   series of tenants
 *   metrics_process.c   what the kernel knows of the process
 *
 * A new metric of the process is a field here, a row of ld_metric_table in metrics.c and a line in docs/METRICS.md. */
#ifndef LD_METRICS_H
#define LD_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define LD_HIST_BUCKETS 20 /* 1, 2 and 5 of each decade, from 10 to 2e7: of microseconds, 10 us to 20 s */

extern const uint64_t ld_hist_bound[LD_HIST_BUCKETS]; /* inclusive */

/* Its count is the sum of its buckets. */
struct ld_histogram {
    _Atomic uint64_t bucket[LD_HIST_BUCKETS + 1]; /* the last is +Inf */
    _Atomic uint64_t sum, max;
};

#define LD_MAX_ROUTES 96 /* the last row counts requests without a route */
/* Why a request was turned away before its work was begun. */
enum ld_limited {
    LD_LIMITED_RATE,        /* the tenant's bucket is empty */
    LD_LIMITED_QUEUE,       /* its queue is full, by number */
    LD_LIMITED_QUEUE_BYTES, /* or by bytes */
    LD_LIMITED_OPENING,     /* too many wait for it to be opened */
    LD_LIMITED_WORK,        /* the work pool's line is full */
    LD_LIMITED_TRANSFERS,   /* that of copies and imports */
    LD_LIMITED_BODY_MEMORY, /* bodies take all the memory that there is for them */
    LD_N_LIMITED
};

#define LD_N_STATUSES 32 /* codes that are told apart; the last slot is for all others */

/* The answers of one route. A request adds to two numbers: to its cell, which is its code and its bucket in one, and to
 * the sum. */
struct ld_request_counts {
    _Atomic uint64_t n[LD_N_STATUSES][LD_HIST_BUCKETS + 1];
    _Atomic uint64_t sum_us;
};

/* What connections run out of time at. */
enum ld_timed_phase { LD_TIMED_HEADERS, LD_TIMED_BODY, LD_TIMED_ANSWER, LD_TIMED_IDLE, LD_N_TIMED_PHASES };

/* What became of a turn at the shared log (shared_log.h). */
enum ld_log_outcome { LD_LOG_OK, LD_LOG_BEHIND, LD_LOG_UNKNOWN, LD_LOG_DOWN, LD_N_LOG_OUTCOMES };

/* Of the log that several servers share. Rows of ld_shared_metric_table. */
struct ld_shared_metrics {
    struct ld_histogram take_time, append_time;   /* of its calls that came back OK */
    _Atomic uint64_t outcomes[LD_N_LOG_OUTCOMES]; /* of appends; LD_LOG_DOWN: of takes, too */
    _Atomic uint64_t resolved[2];                 /* unknown outcomes that were settled: it was not there; it was */
    _Atomic uint64_t followed_rows;               /* lines of other servers that were folded */
    _Atomic uint64_t decided_anew;                /* decisions that were out of date when their turn came */
    _Atomic uint64_t unrecorded;                  /* decisions that were answered while the log was away */
    _Atomic uint64_t chain_breaks;                /* takes that found another log than the copy's */
    _Atomic uint64_t polls, poll_failures;
    _Atomic uint64_t is_up, n_standbys, has_standbys, n_nodes, lag_us, generation_lag; /* read for a scrape */
};

/* What comes of a reward under /personalizer. */
#define LD_N_RANK_REWARDS 5
#define LD_RANK_REWARDS                                                                                                \
    {                                                                                                                  \
        "learned", "duplicate", "ignored", "late", "unknown"                                                           \
    }

/* One for the process, part of the app. Rows of routes are those of ld_routes. */
struct ld_metrics {
    struct ld_request_counts requests[LD_MAX_ROUTES];
    struct ld_histogram commit_time;   /* one transaction */
    struct ld_histogram commit_tenths; /* ten for each of its events: the buckets begin at ten */
    struct ld_histogram write_lock;    /* holds of a tenant's write lock */
    struct ld_histogram snapshot_time; /* writing one, beside the writer */
    struct ld_histogram build_time;    /* runs beside the writer: models, points that enter a dictionary */
    struct ld_histogram open_time;     /* of tenants, failed ones included */
    _Atomic uint64_t write_lock_cpu_max_us;
    _Atomic uint64_t promotions, guardrail_promotions;
    _Atomic uint64_t compactions, resets, admissions;
    _Atomic uint64_t builds_running, build_failures;
    _Atomic uint64_t opens, open_failures, evictions; /* of tenants */
    _Atomic uint64_t commits, committed_rows, commit_failures, snapshots, snapshot_failures;
    _Atomic uint64_t snapshots_refused; /* at a start */
    _Atomic uint64_t verifications, verifications_different;
    _Atomic uint64_t replays_running, replays, replay_failures;
    _Atomic uint64_t evaluations_running, evaluations, evaluation_failures; /* the first bounds them, too */
    _Atomic uint64_t log_limited, log_lost;                                 /* copied from log.c for a scrape */
    _Atomic uint64_t data_free_bytes, data_size_bytes, memory_cap_bytes, queue_limit; /* read for a scrape as well */
    _Atomic uint64_t refused_busy;                                                    /* a queue was full */
    _Atomic uint64_t connections, connections_refused, connections_gave_way;
    _Atomic uint64_t connections_timed_out[LD_N_TIMED_PHASES];
    _Atomic uint64_t limited[LD_N_LIMITED];
    _Atomic uint64_t rank_rewards[LD_N_RANK_REWARDS]; /* under /personalizer, by what came of them */
    _Atomic uint64_t route_fallbacks;                 /* refusals that a proxy was told an arm in place of */
    _Atomic uint64_t reloads, reload_failures;        /* of the configuration */
    _Atomic uint64_t configured_ms;                   /* when it was last read without a fault */
    _Atomic uint64_t in_flight;                       /* requests accepted, not yet answered */
    _Atomic uint64_t tls_expires_s;                   /* of the certificate in force, since 1970; 0: no TLS */
    struct ld_shared_metrics shared;
};

/* Adds n, or sets a gauge. Relaxed: a scrape sees each at some recent moment. */
static inline void ld_count(_Atomic uint64_t *x, uint64_t n)
{
    atomic_fetch_add_explicit(x, n, memory_order_relaxed);
}
static inline void ld_gauge_set(_Atomic uint64_t *x, uint64_t value)
{
    atomic_store_explicit(x, value, memory_order_relaxed);
}

/* A duration in microseconds; from any thread. */
void ld_histogram_add(struct ld_histogram *h, int64_t us);
uint64_t ld_histogram_count(const struct ld_histogram *h);
int64_t ld_monotonic_us(void);
/* The largest value so far. */
void ld_raise(_Atomic uint64_t *max, int64_t value);

/* A request that was answered: route is its row, or any other number for none. */
void ld_count_request(struct ld_metrics *m, int route, int status, int64_t us);

/* Code of a slot of ld_request_counts, 0 for the last one; and the slot of a code. */
int ld_status_of_slot(size_t slot);
size_t ld_slot_of_status(int status);

enum ld_metric_kind {
    LD_COUNTER,
    LD_GAUGE,
    LD_GAUGE_IF_SET, /* left out while it is 0: there is no such thing in this process */
    LD_HISTOGRAM     /* the field is a struct ld_histogram */
};

/* One series of the process. Series that differ by labels only stand below each other, with one help. */
struct ld_metric {
    const char *name;   /* without "laplaced_"; base units, counters with _total */
    const char *labels; /* pairs such as reason="full", NULL without */
    enum ld_metric_kind kind;
    double unit;      /* this many of what the field counts are one of what the metric is in */
    size_t at;        /* the field in struct ld_metrics: uint64_t unless it is a histogram */
    const char *help; /* of the first row of a name */
};
extern const struct ld_metric ld_metric_table[];
extern const size_t ld_n_metrics;
/* Those that are there where a log is shared. docs/CLUSTER.md lists them. */
extern const struct ld_metric ld_shared_metric_table[];
extern const size_t ld_n_shared_metrics;

#endif
