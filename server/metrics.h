/* Counters and histograms of the process, as relaxed atomics; exported as Prometheus text by metrics.c. */
#ifndef LD_METRICS_H
#define LD_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define LD_HIST_BUCKETS 20 /* 1, 2 and 5 of each decade, from 10 us to 20 s */

/* Count and sum are kept besides the buckets; readers trust the buckets (metrics.c). */
struct ld_histogram {
    _Atomic uint64_t bucket[LD_HIST_BUCKETS + 1]; /* the last is +Inf */
    _Atomic uint64_t count, sum_us, max_us;
};

#define LD_MAX_ROUTES 64    /* the last row counts requests without a route */
#define LD_STATUS_CLASSES 6 /* 1xx..5xx at 1..5 */

/* One for the process, part of the app. Rows of routes are those of ld_routes. */
struct ld_metrics {
    _Atomic uint64_t requests[LD_MAX_ROUTES][LD_STATUS_CLASSES];
    struct ld_histogram request_time[LD_MAX_ROUTES];
    struct ld_histogram commit_time;   /* one transaction */
    struct ld_histogram write_lock;    /* holds of a tenant's write lock */
    struct ld_histogram snapshot_time; /* writing one, beside the writer */
    struct ld_histogram build_time;    /* runs beside the writer: models, points that enter a dictionary */
    struct ld_histogram open_time;     /* of tenants, failed ones included */
    _Atomic uint64_t write_lock_cpu_max_us;
    _Atomic uint64_t compactions;
    _Atomic uint64_t builds_running, build_failures;
    _Atomic uint64_t opens, open_failures, evictions; /* of tenants */
    _Atomic uint64_t commits, committed_rows, commit_failures, snapshots, snapshot_failures;
    _Atomic uint64_t snapshots_refused; /* at a start */
    _Atomic uint64_t verifications, verifications_different;
    _Atomic uint64_t refused_busy; /* a queue was full */
    _Atomic uint64_t in_flight;    /* requests accepted, not yet answered */
    _Atomic int64_t tls_expires_s; /* the certificate, seconds since 1970; 0: no TLS */
    int64_t started_ms;
};

/* A duration in microseconds; from any thread. */
void ld_histogram_add(struct ld_histogram *h, int64_t us);
int64_t ld_monotonic_us(void);
/* The largest value so far. */
void ld_raise(_Atomic uint64_t *max, int64_t value);

struct ld_tenants;

/* Everything in the Prometheus text format 0.0.4, malloc'd; NULL on no memory. tenants may be NULL. Takes the
 * read lock of each tenant in memory for a moment, and opens none. */
char *ld_metrics_text(const struct ld_metrics *m, struct ld_tenants *tenants, size_t *n);

#endif
