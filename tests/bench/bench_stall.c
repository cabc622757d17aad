/* Bench of stalls: how long do a tenant's decisions wait while its model changes, over a history of a million events?
 *
 *   bench_stall PROGRAM FOLDER FILE [EVENTS [SECONDS]]
 *
 * A real server (PROGRAM) on real files (below FOLDER, which must not exist) is filled over HTTP with EVENTS distinct
 * observations, and asked for a dictionary of about 512 points over them. Then, SECONDS each:
 *
 *   start    SIGTERM and a start: seconds until the server is ready, and its first decision, which opens the tenant
 *   idle     closed loops of decisions alone: two connections durable, one dry (computed and answered, not recorded)
 *   load     the same, while another connection teaches: decisions with their rewards, and one observation in twenty at
 * a place that nobody has seen, which enters the dictionary by a sweep over the whole history; meanwhile the catalogue
 * is patched, the graph is patched (a new model from the whole history), and snapshots are written start    SIGKILL and
 * a start, with what came since the last snapshot to fold exact    a tenant without a dictionary learns 1,500 distinct
 * points, the longest that its preset goes
 *
 * and the write lock's holds by the server's own metrics. JSON lines to FILE; nothing here judges them. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench_http.h"
#include "bench_machine.h"
#include "base/rng.h"

#define N_USERS 8
#define N_ARMS 16
#define N_PLACES 4 /* contexts that the fill is scattered around, by a hair each */
#define N_GRAPH 400
#define N_CATALOGUE 5000
#define LINES 10000 /* of one request */
#define EXACT_POINTS 1500
#define N_DURABLE 2

#define JSON "application/json"
#define NDJSON "application/x-ndjson"
#define DIMENSIONS "\"context_dim\":4,\"context_kernel\":{\"type\":\"rbf\",\"lengthscale\":1}"
/* Filled under a model that costs nothing, and with answers before the commit. */
#define FILLING "{\"algorithm\":\"random\",\"context_dim\":4,\"durability\":\"relaxed\"}"
#define SERVING "{\"algorithm\":\"laplaced\"," DIMENSIONS "}"
#define EXACT "{\"algorithm\":\"lk-gp-ucb\"," DIMENSIONS "}"

static struct bench_server server;
static FILE *out;
static atomic_bool is_over;
static char core_name[32]; /* of the server's linear algebra */

/* --- traffic -------------------------------------------------------------------------------------------------- */

/* Observation i: every user meets every arm in every place; no two contexts are equal. */
static int put_line(char *text, size_t room, uint64_t i, uint64_t place)
{
    double x[4];

    for (size_t d = 0; d < 4; d++)
        x[d] =
            5.0 * (double)((place * (2 * d + 3) + d) % 23) + 5e-4 * kb_rng_uniform(1, KB_STREAM_SIMULATION, 4 * i + d);
    return snprintf(
        text, room,
        "{\"user\":\"u%" PRIu64 "\",\"context\":[%.9f,%.9f,%.9f,%.9f],\"arm\":\"a%" PRIu64 "\",\"reward\":%.3f}\n",
        i % N_USERS, x[0], x[1], x[2], x[3], i / N_USERS % N_ARMS, kb_rng_uniform(2, KB_STREAM_SIMULATION, i));
}

static void expect(struct bench_client *c, int status)
{
    if (status == 200 || status == 201 || status == 204)
        return;
    fprintf(stderr, "status %d: %.300s\n", status, c->body);
    bench_die("bench_stall", "a request");
}

static void put(struct bench_client *c, const char *method, const char *path, const char *body)
{
    expect(c, bench_call(c, method, path, JSON, body, strlen(body)));
}

static void observe(struct bench_client *c, uint64_t first, size_t n, uint64_t place_from)
{
    char *text = malloc(n * 160);
    size_t at = 0;

    if (text == NULL)
        bench_die("bench_stall", "memory");
    for (size_t i = 0; i < n; i++)
        at += (size_t)put_line(text + at, 160, first + i,
                               place_from + (first + i) / ((uint64_t)N_USERS * N_ARMS) % N_PLACES);
    expect(c, bench_call(c, "POST", "/observe", NDJSON, text, at));
    free(text);
}

/* A decision; its id in *decision unless it is dry. Microseconds. */
static double decide(struct bench_client *c, uint64_t i, bool is_dry, char decision[64])
{
    char body[256];
    const double start = bench_now_us();

    snprintf(body, sizeof body, "{\"user\":\"u%" PRIu64 "\",\"context\":[%.3f,5.0,10.0,15.0],\"dry_run\":%s}",
             i % N_USERS, 0.001 * (double)(i % 1000), is_dry ? "true" : "false");
    expect(c, bench_call(c, "POST", "/select", JSON, body, strlen(body)));
    const double us = bench_now_us() - start;
    const char *id = strstr(c->body, "\"decision\":\"");
    if (decision != NULL && (id == NULL || sscanf(id + 12, "%63[^\"]", decision) != 1))
        bench_die("bench_stall", "a decision's id");
    return us;
}

/* --- filling -------------------------------------------------------------------------------------------------- */

static void put_graph(struct bench_client *c)
{
    char *text = malloc((size_t)N_GRAPH * 64);
    size_t n = 0;

    n += (size_t)sprintf(text + n, "{\"edges\":[");
    for (int i = 0; i < N_GRAPH; i++)
        n += (size_t)sprintf(text + n, "%s[\"u%d\",\"u%d\",1]", i > 0 ? "," : "", i, (i + 1) % N_GRAPH);
    sprintf(text + n, "]}");
    put(c, "PUT", "/tenants/stall/graph", text);
    free(text);
}

/* The first few are offered, the others only known. */
static void put_arms(struct bench_client *c, const char *path, int n_arms)
{
    char *text = malloc((size_t)n_arms * 64 + 64);
    size_t n = 0;

    n += (size_t)sprintf(text + n, "{\"arms\":[");
    for (int i = 0; i < n_arms; i++)
        n += (size_t)sprintf(text + n, "%s{\"id\":\"a%d\",\"active\":%s}", i > 0 ? "," : "", i,
                             i < N_ARMS ? "true" : "false");
    sprintf(text + n, "]}");
    put(c, "PUT", path, text);
    free(text);
}

static double number_after(const char *text, const char *key)
{
    const char *at = text != NULL ? strstr(text, key) : NULL;
    return at != NULL ? strtod(at + strlen(key), NULL) : -1;
}

/* Bounded: ten minutes. */
static void wait_until_built(struct bench_client *c)
{
    const double start = bench_now_us();

    while (bench_now_us() - start < 600e6) {
        expect(c, bench_call(c, "GET", "/tenants/stall", NULL, "", 0));
        if (strstr(c->body, "\"rebuilding\":false") != NULL)
            break;
        usleep(20000);
    }
}

static size_t n_points(struct bench_client *c)
{
    expect(c, bench_call(c, "GET", "/metrics", NULL, "", 0));
    return (size_t)number_after(c->body, "\nlaplaced_dictionary_points{tenant=\"stall\"} ");
}

static void ask_core_name(struct bench_client *c)
{
    expect(c, bench_call(c, "GET", "/metrics", NULL, "", 0));
    const char *at = strstr(c->body, "blas_core=\"");

    if (at == NULL || sscanf(at, "blas_core=\"%31[^\"]", core_name) != 1)
        bench_die("bench_stall", "the BLAS core's name");
}

static void fill(uint64_t n_events)
{
    struct bench_client c;
    const double start = bench_now_us();

    bench_client_open(&c, &server, "stall");
    ask_core_name(&c);
    put(&c, "PUT", "/tenants/stall", FILLING);
    put_arms(&c, "/tenants/stall/arms", N_CATALOGUE);
    put_graph(&c);
    for (uint64_t i = 0; i < n_events; i += LINES)
        observe(&c, i, (size_t)(n_events - i < LINES ? n_events - i : LINES), 0);
    const double filled = (bench_now_us() - start) * 1e-6;
    put(&c, "PUT", "/tenants/stall", SERVING);
    wait_until_built(&c);
    const double built = (bench_now_us() - start) * 1e-6 - filled;
    fprintf(out,
            "{\"bench\":\"fill\",\"events\":%" PRIu64
            ",\"points\":%zu,\"fill_s\":%.2f,\"build_s\":%.2f,\"load\":%.2f,\"blas_core\":\"%s\"}\n",
            n_events, n_points(&c), filled, built, bench_load(), core_name);
    bench_client_close(&c);
}

/* --- closed loops --------------------------------------------------------------------------------------------- */

struct loop {
    pthread_t thread;
    bool is_dry;
    uint64_t first;
    struct bench_times times;
};

static void *run_loop(void *arg)
{
    struct loop *l = arg;
    struct bench_client c;
    char decision[64];

    bench_client_open(&c, &server, "stall");
    for (uint64_t i = l->first; !atomic_load(&is_over); i++)
        bench_times_add(&l->times, decide(&c, i, l->is_dry, l->is_dry ? NULL : decision));
    bench_client_close(&c);
    return NULL;
}

static void report(const char *phase, const char *kind, struct bench_times *t, double seconds)
{
    fprintf(out,
            "{\"bench\":\"select\",\"phase\":\"%s\",\"kind\":\"%s\",\"n\":%zu,\"rate\":%.0f,\"p50_us\":%.0f,\"p99_us\":"
            "%.0f,"
            "\"p999_us\":%.0f,\"max_us\":%.0f,\"load\":%.2f,\"blas_core\":\"%s\"}\n",
            phase, kind, t->n, (double)t->n / seconds, bench_times_at(t, 0.5), bench_times_at(t, 0.99),
            bench_times_at(t, 0.999), bench_times_at(t, 1), bench_load(), core_name);
    bench_times_close(t);
}

/* The loops for as long as `beside` runs; it tells when it has had enough. */
static void measure(const char *phase, void (*beside)(double until_us), double seconds)
{
    struct loop loop[N_DURABLE + 1] = {0};
    struct bench_times durable = {0};
    const double start = bench_now_us();

    atomic_store(&is_over, false);
    for (size_t i = 0; i <= N_DURABLE; i++) {
        loop[i].is_dry = i == N_DURABLE;
        loop[i].first = 1000 * i;
        pthread_create(&loop[i].thread, NULL, run_loop, &loop[i]);
    }
    beside(start + seconds * 1e6);
    atomic_store(&is_over, true);
    for (size_t i = 0; i <= N_DURABLE; i++)
        pthread_join(loop[i].thread, NULL);
    const double took = (bench_now_us() - start) * 1e-6;
    for (size_t i = 0; i < N_DURABLE; i++)
        bench_times_join(&durable, &loop[i].times);
    report(phase, "durable", &durable, took);
    report(phase, "dry", &loop[N_DURABLE].times, took);
    fflush(out);
}

static void do_nothing(double until_us)
{
    while (bench_now_us() < until_us)
        usleep(10000);
}

/* --- updates -------------------------------------------------------------------------------------------------- */

/* One step of teaching; microseconds until it was answered. */
static double teach(struct bench_client *c, uint64_t i)
{
    char decision[64], body[160];

    if (i % 20 == 19) {
        const double start = bench_now_us();
        observe(c, 2000000000 + i, 1, 100 + i / 20);
        return bench_now_us() - start;
    }
    decide(c, i, false, decision);
    snprintf(body, sizeof body, "{\"decision\":\"%s\",\"reward\":%.2f}", decision, (double)(i % 2));
    const double start = bench_now_us();
    put(c, "POST", "/reward", body);
    return bench_now_us() - start;
}

/* At one third the catalogue changes, at two thirds the graph, whose model is being built when the phase ends. */
static void update(double until_us)
{
    struct bench_client c;
    struct bench_times times = {0};
    const double start = bench_now_us(), third = (until_us - start) / 3;
    double patch_us[2] = {0, 0};
    size_t before;

    bench_client_open(&c, &server, "stall");
    before = n_points(&c);
    for (uint64_t i = 0; bench_now_us() < until_us; i++) {
        bench_times_add(&times, teach(&c, i));
        const double now = bench_now_us();
        if (patch_us[0] == 0 && now > start + third) {
            put(&c, "PATCH", "/tenants/stall/arms",
                "{\"arms\":[{\"id\":\"a17\",\"active\":false},{\"id\":\"new\",\"active\":false}]}");
            patch_us[0] = bench_now_us() - now;
        } else if (patch_us[1] == 0 && now > start + 2 * third) {
            fprintf(out, "{\"bench\":\"admissions\",\"before\":%zu,\"after\":%zu}\n", before, n_points(&c));
            put(&c, "PATCH", "/tenants/stall/graph", "{\"add\":[[\"u1\",\"u5\",1],[\"u2\",\"x\",1]]}");
            patch_us[1] = bench_now_us() - now;
        }
    }
    fprintf(out,
            "{\"bench\":\"updates\",\"n\":%zu,\"p50_us\":%.0f,\"p99_us\":%.0f,\"p999_us\":%.0f,\"max_us\":%.0f,\"arms_"
            "patch_us\":%.0f,"
            "\"graph_patch_us\":%.0f}\n",
            times.n, bench_times_at(&times, 0.5), bench_times_at(&times, 0.99), bench_times_at(&times, 0.999),
            bench_times_at(&times, 1), patch_us[0], patch_us[1]);
    bench_times_close(&times);
    bench_client_close(&c);
}

/* --- the server's own figures ------------------------------------------------------------------------------------ */

static void report_lock(const char *phase)
{
    struct bench_client c;
    const char *separator = "";

    bench_client_open(&c, &server, "stall");
    expect(&c, bench_call(&c, "GET", "/metrics", NULL, "", 0));
    fprintf(out,
            "{\"bench\":\"write_lock\",\"phase\":\"%s\",\"max_us\":%.0f,\"cpu_max_us\":%.0f,\"snapshots\":%.0f,"
            "\"seconds_le\":{",
            phase, 1e6 * number_after(c.body, "\nlaplaced_write_lock_max_seconds "),
            1e6 * number_after(c.body, "\nlaplaced_write_lock_cpu_max_seconds "),
            number_after(c.body, "\nlaplaced_snapshots_total "));
    for (const char *at = c.body; (at = strstr(at, "laplaced_write_lock_seconds_bucket{le=\"")) != NULL; at++) {
        char bound[32];
        unsigned long count = 0;

        if (sscanf(at, "laplaced_write_lock_seconds_bucket{le=\"%31[^\"]\"} %lu", bound, &count) == 2)
            fprintf(out, "%s\"%s\":%lu", separator, bound, count);
        separator = ",";
    }
    fprintf(out, "}}\n");
    fflush(out);
    bench_client_close(&c);
}

static void restart(const char *kind, int signal)
{
    struct bench_client c;

    bench_server_stop(&server, signal);
    const double seconds = bench_server_start(&server);
    bench_client_open(&c, &server, "stall");
    const double first_us = decide(&c, 1, true, NULL);
    fprintf(out,
            "{\"bench\":\"start\",\"after\":\"%s\",\"ready_s\":%.3f,\"cpu_s\":%.2f,\"first_select_us\":%.0f,\"points\":"
            "%zu}\n",
            kind, seconds, server.start_cpu_s, first_us, n_points(&c));
    fflush(out);
    bench_client_close(&c);
}

static void teach_exact(void)
{
    struct bench_client c;

    bench_client_open(&c, &server, "exact");
    put(&c, "PUT", "/tenants/exact", EXACT);
    put_arms(&c, "/tenants/exact/arms", N_ARMS);
    for (uint64_t i = 0; i < EXACT_POINTS; i += 50)
        observe(&c, 3000000000 + i, 50, i / 50);
    bench_client_close(&c);
    report_lock("exact");
}

int main(int argc, char **argv)
{
    const uint64_t n_events = argc > 4 ? strtoull(argv[4], NULL, 10) : 1000000;
    const double seconds = argc > 5 ? atof(argv[5]) : 30;

    if (argc < 4 || (out = fopen(argv[3], "w")) == NULL) {
        fprintf(stderr, "usage: %s PROGRAM FOLDER FILE [EVENTS [SECONDS]]\n", argv[0]);
        return 1;
    }
    server = (struct bench_server){.program = argv[1], .folder = argv[2]};
    /* The model of the fill is built at once and at full priority. */
    server.option[0] = "--inline-work";
    server.option[1] = "1000000000000000";
    bench_server_start(&server);
    fill(n_events);
    server.option[0] = NULL;
    restart("term", SIGTERM);
    measure("idle", do_nothing, seconds / 2);
    report_lock("idle");
    measure("load", update, seconds);
    report_lock("load");
    restart("kill", SIGKILL);
    teach_exact();
    bench_server_stop(&server, SIGTERM);
    fclose(out);
    return 0;
}
