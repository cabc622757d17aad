/* laplacectl replay: options, and the report of a replay in words or as JSON.
 *
 * Order of work: options -> replay_source.c opens the file and makes requests of its lines -> replay.c sends
 * them over its threads and measures -> the report, on standard output. The progress line goes to standard
 * error.
 *
 * Exit status 0 means that every line was understood and every request succeeded. */
#include "ctl/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/http_client.h"
#include "ctl/move_logs.h"
#include "ctl/replay.h"

#define LC_BULK_MAX 10000u /* lines that one /observe may have */

/* --- report ----------------------------------------------------------------------------------------- */

/* the columns of the report, and the members of its JSON form */
static const double quantiles[] = {0.5, 0.9, 0.99, 0.999, 1.0};
static const char *const quantile_names[] = {"p50", "p90", "p99", "p99.9", "max"};

/* p50 to max: what the table has columns for */
#define N_QUANTILES (sizeof quantiles / sizeof quantiles[0])

/* Operations that did not happen have none. Quantiles are within 0.4 % of a measured value (histogram.h). */
static void print_latency(const char *what, const struct lc_histogram *h)
{
    if (h->count == 0)
        return;
    printf("  %-8s %10s", what, lc_thousands(h->count));
    for (size_t i = 0; i < N_QUANTILES; i++)
        printf(" %9.3f", (double)lc_histogram_quantile(h, quantiles[i]) * 1e-6);
    puts("");
}

/* States which loop was run: the two kinds of latency must not be compared. The throughput counts failed requests too;
 * latencies and rewards do not. */
static void print_report(const struct lc_replay_options *o, const struct lc_source *src,
                         const struct lc_replay_result *r)
{
    double per_second = r->seconds > 0.0 ? (double)r->n_requests / r->seconds : 0.0;
    printf("%s lines replayed, %s skipped; %s requests in %.2f s: %.0f a second, %s errors\n", lc_thousands(r->n_lines),
           lc_thousands(src->n_skipped), lc_thousands(r->n_requests), r->seconds, per_second,
           lc_thousands(r->n_errors));
    if (o->pace > 0.0)
        printf("open loop at %.6g times the log's pace: %.2f s of it, intended in %.2f s, sent in %.2f s over %zu\n"
               "connections; latency counts from the intended moment; %s lines were late, by %.3f s at most\n",
               o->pace, r->log_s, r->log_s / o->pace, r->sent_s, o->concurrency, lc_thousands(r->n_late_start),
               (double)r->late_ns * 1e-9);
    else if (o->rate > 0.0)
        printf("open loop, %.6g lines a second over %zu connections; latency counts from the intended moment;\n"
               "%s lines found every connection busy\n",
               o->rate, o->concurrency, lc_thousands(r->n_late_start));
    else
        printf("closed loop over %zu connection%s: latency is that of the request alone (--rate measures queueing)\n",
               o->concurrency, o->concurrency == 1 ? "" : "s");
    printf("\n  %-8s %10s %9s %9s %9s %9s %9s   ms\n", "latency", "requests", "p50", "p90", "p99", "p99.9", "max");
    print_latency("select", &r->select);
    print_latency("reward", &r->reward);
    print_latency("observe", &r->observe);
    if (r->n_earned > 0)
        printf("\nreward: mean %.6g, total %.6g over %s\n", r->earned / (double)r->n_earned, r->earned,
               lc_thousands(r->n_earned));
}

static void json_latency(struct lc_text *t, const char *what, const struct lc_histogram *h)
{
    lc_text_printf(t, ",\"%s\":{\"requests\":%llu", what, (unsigned long long)h->count);
    for (size_t i = 0; i < N_QUANTILES; i++)
        lc_text_printf(t, ",\"%s_ms\":%.6f", quantile_names[i], (double)lc_histogram_quantile(h, quantiles[i]) * 1e-6);
    lc_text_printf(t, ",\"mean_ms\":%.6f}", lc_histogram_mean(h) * 1e-6);
}

/* Unrounded. For benchmarks (tests/bench/commit.py) and scripts, which rely on the names of the fields. */
static void print_json(const struct lc_replay_options *o, const struct lc_source *src, const struct lc_replay_result *r)
{
    struct lc_text t = {0};
    lc_text_printf(&t, "{\"lines\":%llu,\"skipped\":%zu,\"requests\":%llu,\"errors\":%llu,\"seconds\":%.6f",
                   (unsigned long long)r->n_lines, src->n_skipped, (unsigned long long)r->n_requests,
                   (unsigned long long)r->n_errors, r->seconds);
    lc_text_printf(&t, ",\"loop\":\"%s\",\"rate\":%.6g,\"concurrency\":%zu,\"busy\":%llu",
                   lc_replay_is_open(o) ? "open" : "closed", o->rate, o->concurrency,
                   (unsigned long long)r->n_late_start);
    lc_text_printf(&t, ",\"bulk\":%zu,\"late_ms\":%.6f", o->bulk, (double)r->late_ns * 1e-6);
    if (o->pace > 0.0)
        lc_text_printf(&t, ",\"pace\":{\"factor\":%.6g,\"log_s\":%.3f,\"intended_s\":%.6f,\"sent_s\":%.6f}", o->pace,
                       r->log_s, r->log_s / o->pace, r->sent_s);
    lc_text_printf(&t, ",\"requests_per_second\":%.3f", r->seconds > 0.0 ? (double)r->n_requests / r->seconds : 0.0);
    json_latency(&t, "select", &r->select);
    json_latency(&t, "reward", &r->reward);
    json_latency(&t, "observe", &r->observe);
    lc_text_printf(&t, ",\"rewards\":{\"count\":%llu,\"total\":", (unsigned long long)r->n_earned);
    lc_text_number(&t, r->earned);
    lc_put_number(&t, "mean", r->n_earned > 0 ? r->earned / (double)r->n_earned : (double)NAN);
    lc_text_puts(&t, "}");
    if (r->first_error[0] != '\0')
        lc_put_text(&t, "first_error", r->first_error);
    else
        lc_put_number(&t, "first_error", (double)NAN);
    lc_text_puts(&t, "}");
    puts(t.data);
    lc_text_close(&t);
}

/* --- command ---------------------------------------------------------------------------------------- */

/* What is replayed, as the options have it. */
struct what {
    const char *file, *ids;
    struct lc_move_options move; /* the format and its options */
    bool is_quiet;
};

/* Vectors of another format are as long as the tenant's. */
static int open_source(struct lc_session *s, const struct what *what, struct lc_source *src)
{
    struct lc_move_options o = what->move;
    if (o.format == NULL)
        return lc_source_open(src, what->file, what->ids);
    struct lc_client *client = lc_client_new(s, lc_tenant_name(s));
    const int rc = lc_move_dimensions(s, client, &o);
    lc_client_free(client);
    o.log.path = what->file;
    if (rc == 0)
        return lc_source_open_log(src, lc_log_format(o.format), &o.log);
    lc_source_open_stream(src, NULL, what->file, NULL);
    return -1;
}

/* A faulty line ends the replay, but what was measured until then is still reported. */
static int replay_file(struct lc_session *s, const struct lc_replay_options *o, const struct what *what)
{
    struct lc_source src;
    struct lc_progress progress;
    int status = 1;
    struct lc_replay_result *result = lc_alloc(1, sizeof *result);
    lc_progress_init(&progress, what->is_quiet || s->is_json);
    if (open_source(s, what, &src) == 0) {
        int rc = lc_replay_run(s, o, &src, &progress, result);
        if (s->is_json)
            print_json(o, &src, result);
        else if (rc == 0 || result->n_requests > 0)
            print_report(o, &src, result);
        if (result->n_errors > 0)
            lc_fail("%s errors, the first at %s", lc_thousands(result->n_errors), result->first_error);
        status = rc == 0 && result->n_errors == 0 ? 0 : 1;
    }
    if (src.why[0] != '\0')
        lc_fail("%s", src.why);
    lc_source_close(&src);
    free(result);
    return status;
}

static bool is_fine(const struct lc_replay_options *o, const struct what *what)
{
    const char *format = what->move.format;
    if (o->concurrency < 1 || o->concurrency > 1024 || o->max_errors < 1)
        lc_fail("--concurrency: expected 1 to 1024; --max-errors: at least 1");
    else if ((o->rate > 0.0 && o->pace > 0.0) || o->bulk > LC_BULK_MAX)
        lc_fail("expected --rate or --pace, not both; --bulk: at most %u", LC_BULK_MAX);
    else if (format != NULL && lc_log_format(format) == NULL)
        lc_fail("--format: expected obd, dsjson, ndjson or csv");
    else
        return true;
    return false;
}

static bool is_one_log(bool is_shadow, bool is_own, bool has_commit, size_t n_files)
{
    if ((is_shadow || !(is_own || has_commit)) && (n_files == 0) == is_own)
        return true;
    lc_fail("expected one FILE, or --shadow with --own; --commit needs --shadow");
    return false;
}

static int run_replay(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_replay_options o = {.concurrency = 1, .max_errors = 100};
    struct what what = {.move = {.default_reward = -1}};
    struct lc_shadow_options shadow = {.configuration = NULL};
    bool is_own = false;
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"concurrency", LC_OPT_COUNT, &o.concurrency, "N", "connections (default 1: in order)"},
        {"rate", LC_OPT_REAL, &o.rate, "R",
         "lines a second, however long answers take (default: as fast as answers come)"},
        {"pace", LC_OPT_REAL, &o.pace, "X", "at the times of the log, X times as fast"},
        {"bulk", LC_OPT_COUNT, &o.bulk, "N", "send observations, N in one body"},
        {"format", LC_OPT_TEXT, &what.move.format, "NAME", "obd, dsjson, ndjson or csv: as `evaluate` reads it"},
        {"map", LC_OPT_TEXT, &what.move.log.map, "MAP", "csv, ndjson: user=..,arm=..,reward=..,time=..,context=a+b"},
        {"items", LC_OPT_TEXT, &what.move.log.items, "FILE", "obd: item_context.csv, the arms and their features"},
        {"hash-seed", LC_OPT_COUNT, &what.move.hash_seed, "N", "seed of the hashing of features (default 0)"},
        {"skip-bad", LC_OPT_COUNT, &what.move.log.read.skip_bad, "N",
         "with --format: faulty lines to pass over (default 0)"},
        {"shadow", LC_OPT_TEXT, &shadow.configuration, "CONFIG",
         "let the server learn the log under this configuration, beside the tenant"},
        {"own", LC_OPT_FLAG, &is_own, NULL, "with --shadow: take the tenant's own log instead of FILE"},
        {"commit", LC_OPT_TEXT, &shadow.commit, "NAME", "with --shadow: make a tenant of what was learned"},
        {"limit", LC_OPT_COUNT, &o.limit, "N", "stop after N lines"},
        {"ids", LC_OPT_TEXT, &what.ids, "PREFIX",
         "decisions have the ids PREFIX-<line>, so that a run can be repeated"},
        {"max-errors", LC_OPT_COUNT, &o.max_errors, "N", "give up after so many (default 100)"},
        {"quiet", LC_OPT_FLAG, &what.is_quiet, NULL, "no progress line"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof opts[0], argc, argv, &w, 0, 1);
    if (rc != LC_GO)
        return rc;
    const bool is_shadow = shadow.configuration != NULL;
    if (!is_fine(&o, &what) || !is_one_log(is_shadow, is_own, shadow.commit != NULL, w.n))
        return 2;
    if (is_shadow) {
        shadow.file = is_own ? NULL : w.word[0];
        shadow.is_quiet = what.is_quiet;
        return lc_shadow_replay(s, &shadow);
    }
    what.file = w.word[0];
    return replay_file(s, &o, &what);
}

/* The help's text stands beside the parser of the lines (replay_source.c), so the two stay in step. */
const struct lc_command lc_cmd_replay = {
    .name = "replay",
    .synopsis = "replay FILE [--rate R | --pace X] [--bulk N] [--format NAME] [--json] | --shadow CONFIG (FILE | "
                "--own) [--commit NAME]",
    .about = "send logged or simulated traffic through the API; tells latencies and rewards",
    .text = lc_source_help,
    .run = run_replay,
};
