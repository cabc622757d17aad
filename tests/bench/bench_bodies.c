/* What is read and written for the hot requests, a few times each and nothing else, for callgrind to count the
 * instructions of: tests/bench/counts.py collects inside of measured_KIND.
 *
 *   bench_bodies candidates|named|user|reward|line|answer|event
 *
 * Read: /select with 20 candidates of 16 features with four decimals each, the same with 8 named features each and a
 * context of 8 (docs/FEATURES.md), mapped to 256 coordinates, /select of a user alone, one reward, a line
 * of /observe with 16 features, as tests/bench/room.py sends them. Written: an answer of one arm; the log's line of its
 * decision with 16 features. All of a document is in it, from text to struct and its memory given back. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "json/json_out.h"
#include "base/rng.h"

#define NAME "bench_bodies"
#define N_CANDIDATES 20
#define DIM 16
#define DECISION "01KAN0F4ZV3N8Q1R5M7X2Y6W9T"
#define CALLS 20 /* counts.py divides by it: as it is printed */

/* Global and not inlined: callgrind knows them by their names. */
void measured_candidates(const char *body, uint32_t arm_dim);
void measured_named(const char *body);
void measured_user(const char *body);
void measured_reward(const char *body);
void measured_line(const char *body);
void measured_answer(const struct kb_decision *d);
void measured_event(const struct kb_event *ev);

static void expect(bool is_well)
{
    if (is_well)
        return;
    fprintf(stderr, NAME ": refused\n");
    exit(1);
}

static void read_select(const char *body, uint32_t arm_dim, size_t n_candidates)
{
    struct ld_doc *doc = NULL;
    struct ld_select select;
    struct ld_problem p;

    ld_problem_init(&p);
    expect(ld_doc_parse(&doc, body, strlen(body), false, &p) == 0 &&
           ld_decode_select(doc, 0, arm_dim, &select, &p) == 0 && select.query.n_candidates == n_candidates);
    ld_doc_free(doc);
}

__attribute__((noinline)) void measured_candidates(const char *body, uint32_t arm_dim)
{
    read_select(body, arm_dim, N_CANDIDATES);
}

__attribute__((noinline)) void measured_named(const char *body)
{
    const struct ld_name_map map = {.dim = LD_NAMES_DIM};
    struct ld_doc *doc = NULL;
    struct ld_select select;
    struct ld_problem p;

    ld_problem_init(&p);
    expect(ld_doc_parse(&doc, body, strlen(body), false, &p) == 0);
    ld_doc_map_names(doc, &map, 0);
    expect(ld_decode_select(doc, map.dim, map.dim, &select, &p) == 0 && select.query.n_candidates == N_CANDIDATES);
    ld_doc_free(doc);
}

__attribute__((noinline)) void measured_user(const char *body)
{
    read_select(body, 0, 0);
}

__attribute__((noinline)) void measured_reward(const char *body)
{
    struct ld_doc *doc = NULL;
    struct ld_reward *rewards;
    struct ld_problem p;
    bool is_array;
    size_t n;

    ld_problem_init(&p);
    expect(ld_doc_parse(&doc, body, strlen(body), false, &p) == 0 &&
           ld_decode_rewards(doc, &rewards, &n, &is_array, &p) == 0 && n == 1);
    ld_doc_free(doc);
}

__attribute__((noinline)) void measured_line(const char *body)
{
    struct ld_doc *doc = NULL;
    struct kb_event *events;
    struct ld_problem p;
    size_t n;

    ld_problem_init(&p);
    expect(ld_doc_parse(&doc, body, strlen(body), true, &p) == 0 &&
           ld_decode_observe(doc, true, 0, DIM, &events, &n, &p) == 0 && n == 1);
    ld_doc_free(doc);
}

__attribute__((noinline)) void measured_answer(const struct kb_decision *d)
{
    size_t n;
    char *text = ld_encode_select(DECISION, d, 1, NULL, &n);

    expect(text != NULL);
    free(text);
}

__attribute__((noinline)) void measured_event(const struct kb_event *ev)
{
    size_t n;
    char *text = ld_encode_event(ev, 0, DIM, NULL, &n);

    expect(text != NULL);
    free(text);
}

/* Four decimals, as people round. */
static double feature(uint64_t key)
{
    return round(1e4 * kb_rng_normal(1, KB_STREAM_SIMULATION, key)) / 1e4;
}

/* ,"features":[16 numbers]}: of the numbers 0 to 15 from key on. */
static void put_features(struct ld_text *t, uint64_t key)
{
    double x[DIM];

    for (uint64_t i = 0; i < DIM; i++)
        x[i] = feature(key + i);
    ld_text_key(t, "features");
    ld_text_vector(t, x, DIM);
    ld_text_lit(t, "}");
}

static char *select_body(void)
{
    struct ld_text t;
    char id[32];
    size_t n;

    ld_text_init(&t);
    ld_text_lit(&t, "{\"user\":\"u17\",\"candidates\":[");
    for (uint64_t c = 0; c < N_CANDIDATES; c++) {
        snprintf(id, sizeof id, "%s{\"id\":\"c%d\"", c > 0 ? "," : "", (int)c);
        ld_text_lit(&t, id);
        put_features(&t, c * DIM);
    }
    ld_text_lit(&t, "]}");
    return ld_text_take(&t, &n);
}

/* What tests/bench/names.py sends. */
static char *named_body(void)
{
    static const char *const topic[] = {"sport", "politics", "weather", "science"}, *const language[] = {"en", "de",
                                                                                                         "fr"};
    struct ld_text t;
    char text[256];
    size_t n;

    ld_text_init(&t);
    ld_text_lit(&t,
                "{\"user\":\"u17\",\"context\":{\"device\":\"phone\",\"hour\":13,\"weekday\":\"tue\",\"premium\":true,"
                "\"user\":{\"age\":41,\"country\":\"at\",\"visits\":97,\"language\":\"de\"}},\"candidates\":[");
    for (int c = 0; c < N_CANDIDATES; c++) {
        snprintf(text, sizeof text,
                 "%s{\"id\":\"a%d\",\"features\":{\"article\":{\"topic\":\"%s\",\"language\":\"%s\",\"age_h\":%d,"
                 "\"words\":%d},\"source\":{\"name\":\"paper%d\",\"rank\":0.%03d},\"breaking\":%s,\"position\":%d}}",
                 c > 0 ? "," : "", 7 * c, topic[c % 4], language[c % 3], 3 * c + 1, 50 + 211 * c, c % 17, 47 * c + 13,
                 c % 10 == 0 ? "true" : "false", c % 10);
        ld_text_lit(&t, text);
    }
    ld_text_lit(&t, "]}");
    return ld_text_take(&t, &n);
}

static char *observe_body(void)
{
    struct ld_text t;
    size_t n;

    ld_text_init(&t);
    ld_text_lit(&t, "{\"user\":\"u17\",\"arm\":{\"id\":\"c0\"");
    put_features(&t, 0);
    ld_text_lit(&t, ",\"reward\":0.375}\n");
    return ld_text_take(&t, &n);
}

static void answer(void)
{
    static const char *const arm[] = {"c7"};
    static const size_t order[] = {0};
    static const double mean[] = {0.52348190123}, sd[] = {1 / 3.0}, lower[] = {0.19014856789},
                        upper[] = {0.85681523456}, score[] = {0.85681523456}, propensity[] = {0.05 + 1 / 7.0};
    const struct kb_decision d = {.n = 1,
                                  .arm = arm,
                                  .mean = mean,
                                  .sd = sd,
                                  .lower = lower,
                                  .upper = upper,
                                  .score = score,
                                  .propensity = propensity,
                                  .order = order,
                                  .n_learned = 1000,
                                  .n_support = 256};

    for (int i = 0; i < CALLS; i++)
        measured_answer(&d);
}

static void event(void)
{
    double x[DIM];
    const struct kb_ev_slot slot = {.arm = "c7", .features = x};
    const struct kb_event ev = {.type = KB_EV_DECIDED,
                                .seq = 1001,
                                .at_ms = 1764000000123,
                                .as.decided = {.decision = DECISION,
                                               .user = "u17",
                                               .slots = &slot,
                                               .n_slots = 1,
                                               .propensity = 0.05 + 1 / 7.0,
                                               .mean = 0.52348190123,
                                               .expires_at_ms = 1764086400123}};

    for (uint64_t i = 0; i < DIM; i++)
        x[i] = feature(i);
    for (int i = 0; i < CALLS; i++)
        measured_event(&ev);
}

static void read_bodies(const char *kind, const char *select, const char *named, const char *observe)
{
    for (int i = 0; i < CALLS; i++) {
        if (strcmp(kind, "candidates") == 0)
            measured_candidates(select, DIM);
        else if (strcmp(kind, "named") == 0)
            measured_named(named);
        else if (strcmp(kind, "user") == 0)
            measured_user("{\"user\":\"u17\"}");
        else if (strcmp(kind, "reward") == 0)
            measured_reward("{\"decision\":\"" DECISION "\",\"reward\":0.5}");
        else if (strcmp(kind, "line") == 0)
            measured_line(observe);
    }
}

int main(int argc, char **argv)
{
    char *select = select_body(), *named = named_body(), *observe = observe_body();
    const char *kind = argc == 2 ? argv[1] : "";

    if (strcmp(kind, "answer") == 0)
        answer();
    else if (strcmp(kind, "event") == 0)
        event();
    else
        read_bodies(kind, select, named, observe);
    printf("{\"calls\":%d,\"candidates\":%d,\"dim\":%d}\n", CALLS, N_CANDIDATES, DIM);
    free(select);
    free(named);
    free(observe);
    return 0;
}
