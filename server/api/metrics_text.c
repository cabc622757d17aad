/* The Prometheus text format 0.0.4: heads, single series, histograms, requests by route.
 *
 * Labels come from the route table and from tenants' names, whose characters need no escaping. The text is built in
 * memory, some 25 lines for each route in use and 20 for each tenant: a few megabytes for a thousand tenants. */
#include "api/metrics_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "linalg/linalg.h"
#include "api/route.h"
#include "base/version.h"

/* Relaxed: see the header of metrics.c. */
static uint64_t load(const _Atomic uint64_t *x)
{
    return atomic_load_explicit(x, memory_order_relaxed);
}

void ld_metrics_put(struct ld_text *t, const char *fmt, ...)
{
    char line[512];
    va_list args;
    va_start(args, fmt);
    /* Cut rather than overrun, should a route's pattern ever be that long. */
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    ld_text_raw(t, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
}

/* Prometheus refuses a text in which a name has two of them. */
void ld_metrics_put_head(struct ld_text *t, const char *name, const char *type, const char *help)
{
    ld_metrics_put(t, "# HELP laplaced_%s %s\n# TYPE laplaced_%s %s\n", name, help, name, type);
}

/* One histogram's series from its own buckets. labels: NULL or a="b". Buckets are cumulative in the text, not in
 * memory; the count is the sum of what was just read. */
static void put_histogram(struct ld_text *t, const char *name, const char *labels, double unit,
                          const uint64_t bucket[LD_HIST_BUCKETS + 1], uint64_t sum)
{
    const char *comma = labels != NULL ? "," : "", *inner = labels != NULL ? labels : "";
    uint64_t count = 0;
    for (size_t i = 0; i <= LD_HIST_BUCKETS; i++) {
        char bound[32] = "+Inf";
        if (i < LD_HIST_BUCKETS)
            snprintf(bound, sizeof bound, "%.9g", (double)ld_hist_bound[i] / unit);
        count += bucket[i];
        ld_metrics_put(t, "laplaced_%s_bucket{%s%sle=\"%s\"} %" PRIu64 "\n", name, inner, comma, bound, count);
    }
    const char *open = labels != NULL ? "{" : "", *close = labels != NULL ? "}" : "";
    ld_metrics_put(t, "laplaced_%s_sum%s%s%s %.6f\n", name, open, inner, close, (double)sum / unit);
    ld_metrics_put(t, "laplaced_%s_count%s%s%s %" PRIu64 "\n", name, open, inner, close, count);
}

/* --- what the process counts ---------------------------------------------------------------------------- */

static void put_value(struct ld_text *t, const struct ld_metric *row, uint64_t value)
{
    ld_metrics_put(t, "laplaced_%s%s%s%s ", row->name, row->labels != NULL ? "{" : "",
                   row->labels != NULL ? row->labels : "", row->labels != NULL ? "}" : "");
    if (row->unit > 1)
        ld_metrics_put(t, "%.6f\n", (double)value / row->unit);
    else
        ld_metrics_put(t, "%" PRIu64 "\n", value);
}

static void put_row(struct ld_text *t, const struct ld_metrics *m, const struct ld_metric *row)
{
    const void *field = (const char *)m + row->at;
    uint64_t bucket[LD_HIST_BUCKETS + 1];
    if (row->kind != LD_HISTOGRAM) {
        put_value(t, row, load(field));
        return;
    }
    const struct ld_histogram *h = field;
    for (size_t i = 0; i <= LD_HIST_BUCKETS; i++)
        bucket[i] = load(&h->bucket[i]);
    put_histogram(t, row->name, row->labels, row->unit, bucket, load(&h->sum));
}

/* A gauge that is not set has neither head nor series. */
static void put_table(struct ld_text *t, const struct ld_metrics *m, const struct ld_metric *table, size_t n)
{
    static const char *const types[] = {"counter", "gauge", "gauge", "histogram"};
    for (const struct ld_metric *row = table; row < table + n; row++) {
        const void *field = (const char *)m + row->at;
        if (row->kind == LD_GAUGE_IF_SET && load(field) == 0)
            continue;
        if (row == table || strcmp(row[-1].name, row->name) != 0)
            ld_metrics_put_head(t, row->name, types[row->kind], row->help);
        put_row(t, m, row);
    }
}

/* --- requests ------------------------------------------------------------------------------------------- */

/* Method and pattern of the row, as label pairs. The pattern and not the path: {t} keeps the number of series
 * independent of the number of tenants, and no client can invent labels. */
static void route_labels(size_t route, char out[128])
{
    if (route < ld_n_routes)
        snprintf(out, 128, "method=\"%s\",route=\"%s\"", ld_routes[route].method, ld_routes[route].path);
    else
        snprintf(out, 128, "method=\"none\",route=\"none\"");
}

/* The cells of one route, by code and by bucket. */
struct taken {
    uint64_t by_status[LD_N_STATUSES], by_bucket[LD_HIST_BUCKETS + 1], count;
};

static void take(const struct ld_request_counts *row, struct taken *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < LD_N_STATUSES; i++)
        for (size_t k = 0; k <= LD_HIST_BUCKETS; k++) {
            const uint64_t n = load(&row->n[i][k]);
            out->by_status[i] += n;
            out->by_bucket[k] += n;
            out->count += n;
        }
}

/* Codes that were given, and no others: an unused route costs no series. */
static void put_codes(struct ld_text *t, const struct ld_metrics *m)
{
    char labels[128], code[16];
    struct taken taken;
    ld_metrics_put_head(t, "http_requests_total", "counter", "Requests answered, by route and status code.");
    for (size_t i = 0; i < LD_MAX_ROUTES; i++) {
        take(&m->requests[i], &taken);
        route_labels(i, labels);
        for (size_t s = 0; taken.count > 0 && s < LD_N_STATUSES; s++) {
            if (taken.by_status[s] == 0)
                continue;
            snprintf(code, sizeof code, "%d", ld_status_of_slot(s));
            ld_metrics_put(t, "laplaced_http_requests_total{%s,code=\"%s\"} %" PRIu64 "\n", labels,
                           ld_status_of_slot(s) > 0 ? code : "other", taken.by_status[s]);
        }
    }
}

static void put_requests(struct ld_text *t, const struct ld_metrics *m)
{
    static const char name[] = "http_request_duration_seconds";
    char labels[128];
    struct taken taken;
    put_codes(t, m);
    ld_metrics_put_head(t, name, "histogram", "From the headers read to the answer sent.");
    for (size_t i = 0; i < LD_MAX_ROUTES; i++) {
        take(&m->requests[i], &taken);
        route_labels(i, labels);
        if (taken.count > 0)
            put_histogram(t, name, labels, 1e6, taken.by_bucket, load(&m->requests[i].sum_us));
    }
}

/* --- all ------------------------------------------------------------------------------------------------ */

/* The labels of an info are the information; its value is always 1. */
static void put_infos(struct ld_text *t)
{
    ld_metrics_put_head(t, "build_info", "gauge", "Version, and the kernels that OpenBLAS runs on this processor.");
    ld_metrics_put(t, "laplaced_build_info{version=\"%s\",blas_core=\"%s\"} 1\n", LD_VERSION, kb_blas_core_name());
}

/* Walks the tenants once for all their series: each name is consistent with the others of its tenant. O(tenants +
 * routes in use). */
char *ld_metrics_text(const struct ld_metrics *m, struct ld_tenants *tenants, size_t max_listed, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    put_infos(&t);
    ld_metrics_put_process(&t);
    put_requests(&t, m);
    put_table(&t, m, ld_metric_table, ld_n_metrics);
    if (load(&m->shared.polls) > 0)
        put_table(&t, m, ld_shared_metric_table, ld_n_shared_metrics);
    if (tenants != NULL && !ld_metrics_put_tenants(&t, tenants, max_listed)) {
        /* Half a list would look as if tenants had vanished: no text at all is better. */
        ld_text_close(&t);
        return NULL;
    }
    return ld_text_take(&t, n);
}
