/* Metrics: buckets, and the text as a Prometheus server would read it. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "base/metrics.h"
#include "api/metrics_text.h"
#include "api/route.h"

static struct ld_metrics m;

/* Value of the line "name value", or NaN. */
static double value_of(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return atof(line + n + 1);
    return 0.0 / 0.0;
}

START_TEST(durations_fall_into_buckets)
{
    struct ld_histogram h;
    memset(&h, 0, sizeof h);
    static const int64_t us[] = {-5, 0, 10, 11, 20, 21, 20000000, 20000001, INT64_MAX / 2};
    for (size_t i = 0; i < sizeof us / sizeof *us; i++)
        ld_histogram_add(&h, us[i]);
    ck_assert_uint_eq(h.bucket[0], 3);
    ck_assert_uint_eq(h.bucket[1], 2);
    ck_assert_uint_eq(h.bucket[2], 1);
    ck_assert_uint_eq(h.bucket[LD_HIST_BUCKETS - 1], 1);
    ck_assert_uint_eq(h.bucket[LD_HIST_BUCKETS], 2);
    ck_assert_uint_eq(ld_histogram_count(&h), 9);
    ck_assert_uint_eq(h.max, INT64_MAX / 2);
    ld_histogram_add(&h, 4999);
    ld_histogram_add(&h, 5001);
    ck_assert_uint_eq(h.bucket[8], 1); /* up to 5 ms, which is what the write lock is held against */
    ck_assert_uint_eq(h.bucket[9], 1);
    ck_assert_uint_eq(h.max, INT64_MAX / 2);
}
END_TEST

START_TEST(text_tells_what_was_counted)
{
    size_t n;
    int route = ld_route_find("GET", "/tenants/x/graph", (char[LD_ALLOW_BYTES]){0});
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 7; i++)
        ld_count_request(&m, route, 200, i == 0 ? 3000000 : 100);
    ld_count_request(&m, route, 404, 30);
    ld_count_request(&m, route, 409, -1);
    for (int i = 0; i < 5; i++)
        ld_count_request(&m, -1, 404, 1);
    ld_count_request(&m, LD_MAX_ROUTES, 299, 1); /* no such row, no such code */
    m.commits = 11;
    m.committed_rows = 44;
    m.in_flight = 3;
    ld_histogram_add(&m.commit_time, 20);
    ld_histogram_add(&m.write_lock, 70);
    ld_histogram_add(&m.write_lock, 30);
    ld_histogram_add(&m.commit_tenths, 10 * 3);
    char *text = ld_metrics_text(&m, NULL, 0, &n);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(strlen(text), n);
#define GRAPH "method=\"GET\",route=\"/tenants/{t}/graph\""
    static const struct {
        const char *name;
        double value;
    } want[] = {
        {"laplaced_http_requests_total{" GRAPH ",code=\"200\"}", 7},
        {"laplaced_http_requests_total{" GRAPH ",code=\"404\"}", 1},
        {"laplaced_http_requests_total{" GRAPH ",code=\"409\"}", 1},
        {"laplaced_http_requests_total{method=\"none\",route=\"none\",code=\"404\"}", 5},
        {"laplaced_http_requests_total{method=\"none\",route=\"none\",code=\"other\"}", 1},
        {"laplaced_http_request_duration_seconds_bucket{" GRAPH ",le=\"1e-05\"}", 1},
        {"laplaced_http_request_duration_seconds_bucket{" GRAPH ",le=\"5e-05\"}", 2},
        {"laplaced_http_request_duration_seconds_bucket{" GRAPH ",le=\"0.0001\"}", 8},
        {"laplaced_http_request_duration_seconds_bucket{" GRAPH ",le=\"+Inf\"}", 9},
        {"laplaced_http_request_duration_seconds_sum{" GRAPH "}", 3.00063},
        {"laplaced_http_request_duration_seconds_count{" GRAPH "}", 9},
        {"laplaced_commit_events_bucket{le=\"2\"}", 0},
        {"laplaced_commit_events_bucket{le=\"5\"}", 1},
        {"laplaced_commit_events_sum", 3},
        {"laplaced_commit_duration_seconds_count", 1},
        {"laplaced_write_lock_max_seconds", 7e-5},
        {"laplaced_commits_total", 11},
        {"laplaced_committed_events_total", 44},
        {"laplaced_http_requests_in_flight", 3},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        ck_assert_msg(kbt_close(value_of(text, want[i].name), want[i].value, 1e-12), "%s", want[i].name);
    ck_assert_ptr_nonnull(strstr(text, "blas_core=\""));
    free(text);
}
END_TEST

/* Length of the metric's name that a line starts with, without the histogram's suffixes. */
static size_t base_length(const char *line)
{
    static const char *const suffixes[] = {"_bucket", "_sum", "_count"};
    size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz_");
    for (size_t i = 0; i < 3; i++) {
        size_t k = strlen(suffixes[i]);
        if (n > k && memcmp(line + n - k, suffixes[i], k) == 0)
            return n - k;
    }
    return n;
}

/* Every sample stands below the TYPE line of its metric, every metric is announced once, buckets never fall. */
START_TEST(text_keeps_to_the_exposition_format)
{
    size_t n;
    memset(&m, 0, sizeof m);
    for (int i = 0; i < LD_MAX_ROUTES; i++)
        ld_count_request(&m, i, 200, 1 << i % 20);
    char *text = ld_metrics_text(&m, NULL, 0, &n), current[128] = "", seen[8192] = "", type[32];
    double last = 0;
    ck_assert_int_eq(text[n - 1], '\n');
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strncmp(line, "# HELP ", 7) == 0)
            continue;
        if (strncmp(line, "# TYPE ", 7) == 0) {
            ck_assert_int_eq(sscanf(line, "# TYPE %127s %31s", current, type), 2);
            ck_assert_ptr_null(strstr(seen, current));
            strcat(strcat(seen, current), "\n");
            continue;
        }
        ck_assert_msg(base_length(line) == strlen(current) && memcmp(line, current, strlen(current)) == 0, "%s", line);
        char *space = strrchr(line, ' '), *end;
        double value = strtod(space + 1, &end);
        ck_assert_msg(end > space + 1 && *end == '\0', "%s", line);
        bool is_bucket = strstr(line, "_bucket{") != NULL;
        ck_assert_msg(!is_bucket || value >= last, "%s", line);
        last = is_bucket && strstr(line, "+Inf") == NULL ? value : 0;
    }
    free(text);
}
END_TEST

int main(void)
{
    return KBT_RUN("metrics", durations_fall_into_buckets, text_tells_what_was_counted,
                   text_keeps_to_the_exposition_format);
}
