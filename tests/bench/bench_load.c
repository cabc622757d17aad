/* Load on a server that is running: plays the lines of a file at a path, by bench_loop.h, and prints one JSON object.
 *
 *   bench_load PORT METHOD PATH FILE [--tenant T] [--tenants N] [--clients N] [--threads N] [--rate R] [--seconds S]
 *              [--limit N] [--status N]
 *
 * FILE: a body in each line, "-" for requests without one; played in turn, over and over unless --limit says how many.
 * --tenants: request i is of tenant T-(i mod N).
 * --rate: arrivals a second (Poisson), latencies from the schedule; without it a closed loop. Microseconds. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench_loop.h"
#include "bench_machine.h"

#define NAME "bench_load"

struct requests {
    struct bench_text *text;
    size_t n;
};

static void add_request(struct requests *r, const char *method, const char *path, const char *tenant, const char *body,
                        size_t n_body)
{
    char *text = NULL;
    const int n = asprintf(&text,
                           "%s %s HTTP/1.1\r\nHost: bench\r\nLaplaced-Tenant: %s\r\nContent-Type: application/json\r\n"
                           "Content-Length: %zu\r\n\r\n%.*s",
                           method, path, tenant, n_body, (int)n_body, body);

    r->text = realloc(r->text, (r->n + 1) * sizeof *r->text);
    if (n < 0 || r->text == NULL)
        bench_die(NAME, "memory");
    r->text[r->n++] = (struct bench_text){text, (size_t)n};
}

/* Whose requests they are: one tenant's (n 0), or those of `name`-0 to `name`-(n-1) in turn. */
struct tenants {
    const char *name;
    size_t n;
};

static void add_next(struct requests *r, char **argv, const struct tenants *tenants, const char *body, size_t n_body)
{
    char name[128];

    snprintf(name, sizeof name, "%s-%zu", tenants->name, tenants->n > 0 ? r->n % tenants->n : 0);
    add_request(r, argv[1], argv[2], tenants->n > 0 ? name : tenants->name, body, n_body);
}

/* Once through the file, and again until every tenant has had a turn. */
static void read_requests(struct requests *r, char **argv, const struct tenants *tenants)
{
    FILE *f = strcmp(argv[3], "-") != 0 ? fopen(argv[3], "r") : NULL;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;

    if (f == NULL && strcmp(argv[3], "-") != 0)
        bench_die(NAME, "opening the file of bodies");
    do {
        const size_t before = r->n;
        if (f == NULL)
            add_next(r, argv, tenants, "", 0);
        while (f != NULL && (n = getline(&line, &cap, f)) > 0)
            add_next(r, argv, tenants, line, (size_t)n - (line[n - 1] == '\n'));
        if (r->n == before)
            bench_die(NAME, "a file of bodies with a line");
        if (f != NULL)
            rewind(f);
    } while (r->n < tenants->n);
    free(line);
    if (f != NULL)
        fclose(f);
}

static void print_histogram(const char *name, const struct lc_histogram *h)
{
    static const struct {
        const char *label;
        double q;
    } at[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1}};

    printf(",\"%s_mean_us\":%.1f", name, lc_histogram_mean(h) * 1e-3);
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
        printf(",\"%s_%s_us\":%.1f", name, at[i].label, (double)lc_histogram_quantile(h, at[i].q) * 1e-3);
}

static double own_cpu_us(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void print(const struct bench_plan *p, const struct bench_outcome *o, double cpu_us)
{
    const uint64_t n = o->n_answered + o->n_refused;

    printf("{\"loop\":\"%s\",\"clients\":%u,\"asked_rate\":%.1f,\"answered\":%llu,\"refused\":%llu,\"unanswered\":%llu,"
           "\"seconds\":%.3f,\"rate\":%.1f,\"answer_bytes\":%.0f,\"client_cpu_us\":%.2f",
           p->rate > 0 ? "open" : "closed", p->n_clients, p->rate, (unsigned long long)o->n_answered,
           (unsigned long long)o->n_refused, (unsigned long long)o->n_unanswered, o->seconds, (double)n / o->seconds,
           n > 0 ? (double)o->n_bytes / (double)n : 0, n > 0 ? cpu_us / (double)n : 0);
    print_histogram("latency", &o->latency);
    print_histogram("late", &o->late);
    printf("}\n");
}

static void usage(void)
{
    fprintf(stderr,
            "usage: %s PORT METHOD PATH FILE [--tenant T] [--tenants N] [--clients N] [--threads N] [--rate R] "
            "[--seconds S] [--limit N] [--status N]\n",
            NAME);
    exit(2);
}

static struct tenants parse(struct bench_plan *p, int argc, char **argv)
{
    static const struct option options[] = {
        {"tenants", 1, NULL, 'T'}, {"tenant", 1, NULL, 't'}, {"clients", 1, NULL, 'c'},
        {"threads", 1, NULL, 'n'}, {"rate", 1, NULL, 'r'},   {"seconds", 1, NULL, 's'},
        {"limit", 1, NULL, 'l'},   {"status", 1, NULL, 'x'}, {NULL, 0, NULL, 0}};
    struct tenants tenants = {.name = "default"};

    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;)
        switch (c) {
        case 't':
            tenants.name = optarg;
            break;
        case 'T':
            tenants.n = strtoul(optarg, NULL, 10);
            break;
        case 'c':
            p->n_clients = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'n':
            p->n_threads = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            p->rate = strtod(optarg, NULL);
            break;
        case 's':
            p->seconds = strtod(optarg, NULL);
            break;
        case 'l':
            p->limit = strtoull(optarg, NULL, 10);
            break;
        case 'x':
            p->status = (int)strtol(optarg, NULL, 10);
            break;
        default:
            usage();
        }
    if (argc - optind != 4 || p->n_threads == 0 || p->n_clients < p->n_threads)
        usage();
    p->port = (int)strtol(argv[optind], NULL, 10);
    return tenants;
}

int main(int argc, char **argv)
{
    static struct bench_outcome outcome;
    struct bench_plan plan = {
        .n_clients = 1, .n_threads = 1, .seconds = 1, .grace_s = 10, .limit = UINT64_MAX, .status = 200};
    struct requests r = {0};
    const struct tenants tenants = parse(&plan, argc, argv);

    read_requests(&r, argv + optind, &tenants);
    plan.request = r.text;
    plan.n_requests = r.n;
    const double cpu_us = own_cpu_us();
    bench_loop_run(&plan, &outcome);
    print(&plan, &outcome, own_cpu_us() - cpu_us);
    for (size_t i = 0; i < r.n; i++)
        free((void *)(uintptr_t)r.text[i].bytes);
    free(r.text);
    return outcome.n_answered > 0 && outcome.n_refused + outcome.n_unanswered == 0 ? 0 : 1;
}
