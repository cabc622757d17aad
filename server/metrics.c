/* Metrics: adding to a histogram, and the Prometheus text.
 *
 * Buckets go by 1, 2 and 5 from 10 us to 20 s. Counters are relaxed atomics: a scrape sees each of them at some recent
 * moment, not all at the same one, so that the text recomputes a histogram's count from its buckets (Prometheus wants
 * them to agree). Labels come from the route table and from tenants' names, whose characters need no escaping.
 *
 * The text is built in memory, some 25 lines for each route in use and 11 for each tenant: below a megabyte for a
 * thousand tenants. Names and help stand beside each other here and nowhere else. */
#include "metrics.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linalg.h"
#include "registry.h"
#include "route.h"
#include "text.h"
#include "version.h"

/* Bounds are inclusive above, as `le` says: bucket i holds what is over bound i - 1 and up to bound i. */
static const uint64_t bound_us[LD_HIST_BUCKETS] = {
    10,    20,    50,     100,    200,    500,     1000,    2000,    5000,     10000,
    20000, 50000, 100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000, 20000000,
};

/* It never falls. Negative values count as 0. */
void ld_raise(_Atomic uint64_t *max, int64_t value)
{
    uint64_t seen = atomic_load_explicit(max, memory_order_relaxed);
    while (
        value > 0 && (uint64_t)value > seen &&
        !atomic_compare_exchange_weak_explicit(max, &seen, (uint64_t)value, memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Negative durations (a clock that stepped back) count as 0. Relaxed operations. From any thread. They need not be seen
 * together: a scrape in between is off by one request. */
void ld_histogram_add(struct ld_histogram *h, int64_t us)
{
    uint64_t value = us > 0 ? (uint64_t)us : 0;
    size_t i = 0;
    while (i < LD_HIST_BUCKETS && value > bound_us[i])
        i++;
    ld_raise(&h->max_us, us);
    atomic_fetch_add_explicit(&h->bucket[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->sum_us, value, memory_order_relaxed);
}

/* Relaxed: see the file header. */
static uint64_t load(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

/* Appends a formatted line; our lines stay far below 512 bytes. A failure of memory sticks in the text. */
static __attribute__((format(printf, 2, 3))) void put(struct ld_text *t, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    /* Cut rather than overrun, should a route's pattern ever be that long. */
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    ld_text_raw(t, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

/* HELP and TYPE stand once before all series of a name. Prometheus refuses a text in which a name has two of them. */
static void put_head(struct ld_text *t, const char *name, const char *type, const char *help)
{
    put(t, "# HELP laplaced_%s %s\n# TYPE laplaced_%s %s\n", name, help, name, type);
}

/* A counter without labels, whole. */
static void put_counter(struct ld_text *t, const char *name, const char *help, uint64_t value)
{
    put_head(t, name, "counter", help);
    put(t, "laplaced_%s %" PRIu64 "\n", name, value);
}

/* One histogram's series. labels: "" or "a=\"b\"". Buckets are cumulative in the text, not in memory. Times go out in
 * seconds, the base unit that Prometheus asks for. */
static void put_histogram(struct ld_text *t, const char *name, const char *labels, const struct ld_histogram *h)
{
    const char *comma = labels[0] != '\0' ? "," : "";
    uint64_t count = 0;
    for (size_t i = 0; i <= LD_HIST_BUCKETS; i++) {
        char bound[32] = "+Inf";
        if (i < LD_HIST_BUCKETS)
            snprintf(bound, sizeof bound, "%.9g", (double)bound_us[i] / 1e6);
        /* The sum of what was just read, not h->count, which may have moved on. */
        count += load(&h->bucket[i]);
        put(t, "laplaced_%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, labels, comma, bound, count);
    }
    const char *open = labels[0] != '\0' ? "{" : "", *close = labels[0] != '\0' ? "}" : "";
    put(t, "laplaced_%s_sum%s%s%s %.6f\n", name, open, labels, close, (double)load(&h->sum_us) / 1e6);
    put(t, "laplaced_%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

/* Method and pattern of the row, as label pairs. The pattern and not the path: {t} keeps the number of series
 * independent of the number of tenants. */
static void route_labels(size_t route, char out[128])
{
    if (route < ld_n_routes)
        snprintf(out, 128, "method=\"%s\",route=\"%s\"", ld_routes[route].method, ld_routes[route].path);
    else
        snprintf(out, 128, "method=\"\",route=\"none\"");
}

/* Rows between the table's end and the last one are never used. The last row belongs to requests that reached no
 * route. */
static bool is_counted(size_t route)
{
    return route < ld_n_routes || route == LD_MAX_ROUTES - 1;
}

/* Only what has happened: an unused route costs no series. Status classes, not statuses, keep the series few; the
 * exact ones are a question for the log of a proxy. */
static void put_requests(struct ld_text *t, const struct ld_metrics *m)
{
    char labels[128];
    put_head(t, "http_requests_total", "counter", "Requests answered, by route and class of status.");
    for (size_t i = 0; i < LD_MAX_ROUTES; i++)
        for (int class = 1; is_counted(i) && class < LD_STATUS_CLASSES; class ++) {
            uint64_t n = load(&m->requests[i][class]);
            route_labels(i, labels);
            if (n > 0)
                put(t, "laplaced_http_requests_total{%s,status=\"%dxx\"} %" PRIu64 "\n", labels, class, n);
        }
    put_head(t, "http_request_duration_seconds", "histogram", "From the headers read to the answer sent.");
    for (size_t i = 0; i < LD_MAX_ROUTES; i++)
        if (is_counted(i) && load(&m->request_time[i].count) > 0) {
            route_labels(i, labels);
            put_histogram(t, "http_request_duration_seconds", labels, &m->request_time[i]);
        }
}

/* What the process is and since when. build_info is always 1: its labels are the information. */
static void put_process(struct ld_text *t, const struct ld_metrics *m)
{
    put_head(t, "build_info", "gauge", "Version, and the kernels that OpenBLAS runs on this processor.");
    put(t, "laplaced_build_info{version=\"%s\",blas_core=\"%s\"} 1\n", LD_VERSION, kb_blas_core_name());
    put_head(t, "start_time_seconds", "gauge", "When the process started, in seconds since 1970.");
    put(t, "laplaced_start_time_seconds %.3f\n", (double)m->started_ms / 1e3);
    put_head(t, "http_requests_in_flight", "gauge", "Requests accepted and not yet answered.");
    put(t, "laplaced_http_requests_in_flight %" PRIu64 "\n", load(&m->in_flight));
    int64_t expires_s = atomic_load_explicit(&m->tls_expires_s, memory_order_relaxed);
    if (expires_s == 0)
        return;
    put_head(t, "tls_certificate_expiry_timestamp_seconds", "gauge",
             "When the certificate in force expires, in seconds since 1970.");
    put(t, "laplaced_tls_certificate_expiry_timestamp_seconds %" PRId64 "\n", expires_s);
}

/* The commit cycle over all tenants. Events by commits is the size of a group; commit_duration against the disk's own
 * time shows what SQLite adds. */
static void put_commits(struct ld_text *t, const struct ld_metrics *m)
{
    put_counter(t, "commits_total", "Transactions committed.", load(&m->commits));
    put_counter(t, "committed_events_total", "Events in them.", load(&m->committed_rows));
    put_counter(t, "commit_failures_total", "Transactions that the disk refused.", load(&m->commit_failures));
    put_counter(t, "snapshots_total", "Snapshots written.", load(&m->snapshots));
    put_counter(t, "snapshot_failures_total", "Snapshots that could not be written.", load(&m->snapshot_failures));
    put_counter(t, "snapshots_refused_total", "Snapshots not believed at a start: the log was folded instead.",
                load(&m->snapshots_refused));
    put_counter(t, "verifications_total", "Models compared with a fold of their log.", load(&m->verifications));
    put_counter(t, "verifications_different_total", "Those that differed: the server's log names the tenant.",
                load(&m->verifications_different));
    put_counter(t, "refused_busy_total", "Requests refused because a queue was full.", load(&m->refused_busy));
    put_head(t, "commit_duration_seconds", "histogram", "One transaction, fsync included.");
    put_histogram(t, "commit_duration_seconds", "", &m->commit_time);
    put_head(t, "write_lock_seconds", "histogram", "How long a tenant's decisions were held up by a change.");
    put_histogram(t, "write_lock_seconds", "", &m->write_lock);
    put_head(t, "write_lock_max_seconds", "gauge", "The longest of them since the start.");
    put(t, "laplaced_write_lock_max_seconds %.6f\n", (double)load(&m->write_lock.max_us) / 1e6);
    put_head(t, "write_lock_cpu_max_seconds", "gauge", "The most that one of them took at the processor.");
    put(t, "laplaced_write_lock_cpu_max_seconds %.6f\n", (double)load(&m->write_lock_cpu_max_us) / 1e6);
    put_head(t, "snapshot_seconds", "histogram", "Writing a snapshot beside the tenant's writer.");
    put_histogram(t, "snapshot_seconds", "", &m->snapshot_time);
    put_head(t, "build_seconds", "histogram", "Work on a tenant's model beside its writer, by run.");
    put_histogram(t, "build_seconds", "", &m->build_time);
    put_head(t, "builds_running", "gauge", "Such runs under way.");
    put(t, "laplaced_builds_running %" PRIu64 "\n", load(&m->builds_running));
    put_counter(t, "compactions_total", "Logs that were made to start with a summary.", load(&m->compactions));
    put_counter(t, "build_failures_total", "Such runs that failed, mostly for want of memory; tried again.",
                load(&m->build_failures));
}

/* --- tenants ---------------------------------------------------------------------------------------- */

/* Those that are not in memory are counted here and nowhere else: a scrape opens none. */
static void put_registry(struct ld_text *t, const struct ld_metrics *m, struct ld_tenants *tenants)
{
    struct ld_tenants_counts counts;
    ld_tenants_count(tenants, &counts);
    put_head(t, "tenants", "gauge", "Tenants, by whether they are in memory.");
    for (int i = 0; i < LD_N_TENANT_STATES; i++)
        put(t, "laplaced_tenants{state=\"%s\"} %zu\n", ld_tenant_state_name((enum ld_tenant_state)i), counts.n[i]);
    put_head(t, "tenants_bytes", "gauge", "Memory of the tenants that are open: models, connections, queues.");
    put(t, "laplaced_tenants_bytes %zu\n", counts.bytes);
    put_counter(t, "tenant_opens_total", "Tenants opened at a use.", load(&m->opens));
    put_counter(t, "tenant_open_failures_total", "Openings that failed.", load(&m->open_failures));
    put_counter(t, "tenant_evictions_total", "Tenants closed to make room.", load(&m->evictions));
    put_head(t, "tenant_open_seconds", "histogram", "From the file to a model that serves.");
    put_histogram(t, "tenant_open_seconds", "", &m->open_time);
}

/* All fields after the name are uint64_t: the table in put_tenants reads them by offset. */
struct sample {
    char name[65];
    uint64_t decided, rewarded, observed, expired, late;
    uint64_t pending, learned, support, bytes, depth;
    uint64_t is_failing;
    uint64_t file_bytes, log_events;
};

/* Grows by doubling; a failure is remembered and makes the whole scrape fail rather than look as if tenants were
 * gone. */
struct samples {
    struct sample *sample;
    size_t n, cap;
    bool is_failed;
};

/* Counters of one tenant, at one moment, under its read lock. The queue's depth and the failing flag are read after
 * the lock and may be a moment younger. */
static void take_sample(struct sample *s, struct ld_tenant *t)
{
    struct kb_engine_counts c;
    struct ld_log_view log;
    const struct ld_settings *settings;
    kb_engine_counts(ld_tenant_read_lock(t, &settings), &c);
    ld_tenant_read_unlock(t);
    ld_tenant_log(t, &log);
    *s = (struct sample){.decided = c.decided,
                         .rewarded = c.rewarded,
                         .observed = c.observed,
                         .expired = c.expired,
                         .late = c.late,
                         .pending = c.pending,
                         .learned = c.learned,
                         .support = c.n_support,
                         .bytes = c.bytes,
                         .depth = ld_tenant_queue_depth(t),
                         .is_failing = ld_tenant_is_failing(t),
                         .file_bytes = log.bytes,
                         .log_events = c.seq - log.summarized};
    strncpy(s->name, ld_tenant_name(t), sizeof s->name - 1);
}

/* Called with the tenant held. Waits for the tenant's read lock, hence at most for one apply of its writer. */
static void add_sample(void *arg, struct ld_tenant *t)
{
    struct samples *all = arg;
    if (all->n == all->cap) {
        size_t cap = all->cap > 0 ? 2 * all->cap : 16;
        struct sample *grown = realloc(all->sample, cap * sizeof *grown);
        if (grown == NULL) {
            all->is_failed = true;
            return;
        }
        all->sample = grown;
        all->cap = cap;
    }
    take_sample(&all->sample[all->n++], t);
}

/* One metric after the other, each over all tenants, as the format wants its lines grouped. Counters of events
 * survive a restart, since they are part of the model that the log gives back. */
static void put_tenants(struct ld_text *t, const struct samples *all)
{
    /* One row a series: name, type, help, and where the sample has its number. */
    static const struct {
        const char *name, *type, *help;
        size_t at;
    } series[] = {
        {"decisions_total", "counter", "Decisions recorded.", offsetof(struct sample, decided)},
        {"rewards_total", "counter", "Rewards learned from decisions.", offsetof(struct sample, rewarded)},
        {"observations_total", "counter", "Observations learned without a decision.",
         offsetof(struct sample, observed)},
        {"expired_total", "counter", "Decisions whose window closed.", offsetof(struct sample, expired)},
        {"late_rewards_total", "counter", "Rewards after their window.", offsetof(struct sample, late)},
        {"pending_decisions", "gauge", "Open decisions.", offsetof(struct sample, pending)},
        {"learned_rewards", "gauge", "Rewards in the model.", offsetof(struct sample, learned)},
        {"dictionary_points", "gauge", "Points that represent the model.", offsetof(struct sample, support)},
        {"model_bytes", "gauge", "Memory of the model.", offsetof(struct sample, bytes)},
        {"file_bytes", "gauge", "The tenant's files: log, write-ahead log and snapshot.",
         offsetof(struct sample, file_bytes)},
        {"log_events", "gauge", "Events in the log, behind its summary if there is one.",
         offsetof(struct sample, log_events)},
        {"queue_depth", "gauge", "Changes waiting for the writer.", offsetof(struct sample, depth)},
        {"tenant_failing", "gauge", "1 when the last commit failed.", offsetof(struct sample, is_failing)},
    };
    for (size_t k = 0; k < sizeof series / sizeof *series; k++) {
        put_head(t, series[k].name, series[k].type, series[k].help);
        for (size_t i = 0; i < all->n; i++) {
            /* memcpy instead of a cast: the table knows an offset, not a type. */
            uint64_t value;
            memcpy(&value, (const char *)&all->sample[i] + series[k].at, sizeof value);
            put(t, "laplaced_%s{tenant=\"%s\"} %" PRIu64 "\n", series[k].name, all->sample[i].name, value);
        }
    }
}

/* Walks the tenants once for all their series: each name is consistent with the others of its tenant. O(tenants +
 * routes in use). */
char *ld_metrics_text(const struct ld_metrics *m, struct ld_tenants *tenants, size_t *n)
{
    struct ld_text t;
    struct samples all = {.sample = NULL};
    ld_text_init(&t);
    put_process(&t, m);
    put_requests(&t, m);
    put_commits(&t, m);
    if (tenants != NULL) {
        put_registry(&t, m, tenants);
        ld_tenants_each(tenants, add_sample, &all);
        put_tenants(&t, &all);
    }
    free(all.sample);
    /* Half a list would look as if tenants had vanished: no text at all is better. */
    if (all.is_failed) {
        ld_text_close(&t);
        return NULL;
    }
    return ld_text_take(&t, n);
}
