/* Bodies in: what is well formed is decoded, what is not is named by pointer, all of it in one answer. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "kbt.h"

#define CONTEXT_DIM 2
#define ARM_DIM 3

enum body {
    SELECT,
    REWARD,
    ACTIVATE,
    OBSERVE,
    OBSERVE_LINES,
    GRAPH,
    GRAPH_PATCH,
    GRAPH_LINES,
    ARMS,
    ARMS_PATCH,
    ARMS_LINES
};

/* Parses and decodes and forgets: what counts is the problem. */
static int decode(enum body kind, const char *text, size_t n, struct ld_problem *p)
{
    bool is_lines = kind == OBSERVE_LINES || kind == GRAPH_LINES || kind == ARMS_LINES, is_array;
    struct ld_doc *doc = NULL;
    struct ld_select select;
    struct ld_reward *rewards;
    struct kb_event ev, *events;
    const char *decision;
    size_t n_items;
    ld_problem_init(p);
    int rc = ld_doc_parse(&doc, text, n, is_lines, p);
    if (rc != 0)
        return rc;
    switch (kind) {
    case SELECT:
        rc = ld_decode_select(doc, CONTEXT_DIM, ARM_DIM, &select, p);
        break;
    case REWARD:
        rc = ld_decode_rewards(doc, &rewards, &n_items, &is_array, p);
        break;
    case ACTIVATE:
        rc = ld_decode_activate(doc, &decision, p);
        break;
    case OBSERVE:
    case OBSERVE_LINES:
        rc = ld_decode_observe(doc, is_lines, CONTEXT_DIM, ARM_DIM, &events, &n_items, p);
        break;
    case GRAPH:
    case GRAPH_PATCH:
    case GRAPH_LINES:
        rc = ld_decode_graph(doc, kind == GRAPH_PATCH, &ev, p);
        break;
    case ARMS:
    case ARMS_PATCH:
    case ARMS_LINES:
        rc = ld_decode_arms(doc, kind == ARMS_PATCH, ARM_DIM, &ev, p);
        break;
    }
    ld_doc_free(doc);
    return rc;
}

/* Pointers of all faults in the order found, each followed by a space. */
static const char *pointers(const struct ld_problem *p)
{
    static char list[LD_PROBLEM_MAX_ERRORS * 168];
    list[0] = '\0';
    for (size_t i = 0; i < p->n_errors; i++) {
        strcat(list, p->errors[i].pointer);
        strcat(list, " ");
    }
    return list;
}

static const struct {
    enum body kind;
    const char *text, *pointers;
} broken[] = {
    /* not JSON */
    {SELECT, "", " "},
    {SELECT, "{", " "},
    {SELECT, "nonsense", " "},
    {SELECT, "\"user\"", " "},
    {SELECT, "{\"user\":\"u\"} trailing", " "},
    {SELECT, "{\"user\":NaN}", "/user "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,1e999]}", "/context/1 "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,-1e999,3]}", "/context/1 "},
    {SELECT, "{\"user\":\"u\",\"context\":[Infinity,0]}", "/context/0 "},
    {SELECT, "{\"user\":\"u\",\"user\":\"v\"}", "/user "},
    {SELECT, "{\"user\":\"u\",\"candidates\":[\"a\",{\"id\":\"b\",\"id\":\"c\"}]}", "/candidates/1/id "},
    {SELECT, "{\"user\":\"u\",\"candidates\":[\"a\",]}", "/candidates/1 "},
    {SELECT, "{\"user\":\"\\ud800\"}", "/user "},
    {SELECT, "{\"user\":\"a\\u0000b\"}", "/user "},
    {SELECT, "{\"user\":\"\xff\"}", "/user "},
    {SELECT, "[[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]]]", "/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0 "},
    /* /select */
    {SELECT, "[]", " "},
    {SELECT, "{}", "/user /context "},
    {SELECT, "{\"user\":\"\",\"context\":[1,2]}", "/user "},
    {SELECT, "{\"user\":7.5,\"context\":[1,2]}", "/user "},
    {SELECT, "{\"user\":-7,\"context\":[1,2]}", "/user "},
    {SELECT, "{\"user\":\"a\\nb\",\"context\":[1,2]}", "/user "},
    {SELECT, "{\"user\":\"u\",\"context\":[1]}", "/context "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2,3]}", "/context "},
    {SELECT, "{\"user\":\"u\",\"context\":null}", "/context "},
    {SELECT, "{\"user\":\"u\",\"context\":[\"1\",true]}", "/context/0 /context/1 "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"candidates\":[]}", "/candidates "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"candidates\":\"a\"}", "/candidates "},
    {SELECT,
     "{\"user\":\"u\",\"context\":[1,2],\"candidates\":[\"a\",1,{\"features\":[1,2,3]},{\"id\":\"b\",\"features\":[1]},"
     "{\"id\":\"c\",\"weight\":1}]}",
     "/candidates/1 /candidates/2/id /candidates/3/features /candidates/4/weight "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"exclude\":[\"a\",null]}", "/exclude/1 "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"top\":0}", "/top "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"top\":17}", "/top "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"top\":1.5}", "/top "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"top\":\"1\"}", "/top "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"explain\":1,\"dry_run\":null,\"defer\":\"no\"}",
     "/explain /dry_run /defer "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"decision\":\"\"}", "/decision "},
    {SELECT, "{\"user\":\"u\",\"context\":[1,2],\"a/b~c\":1}", "/a~1b~0c "},
    /* /reward, /activate */
    {REWARD, "{}", "/decision /reward "},
    {REWARD, "{\"decision\":\"d\",\"reward\":\"1\"}", "/reward "},
    {REWARD, "{\"decision\":\"d\",\"reward\":null}", "/reward "},
    {REWARD, "{\"reward\":1}", "/decision "},
    {REWARD, "{\"user\":\"u\",\"decision\":\"d\",\"reward\":1}", "/user "},
    {REWARD, "{\"decision\":\"d\",\"reward\":1,\"all\":true}", "/all "},
    {REWARD, "{\"user\":\"u\",\"reward\":1,\"all\":1,\"id\":\"\",\"event\":0,\"at\":\"now\"}", "/all /id /event /at "},
    {REWARD, "[]", " "},
    {REWARD, "[{\"decision\":\"d\",\"reward\":1},7,{\"decision\":\"d\",\"rewart\":1}]", "/1 /2/rewart /2/reward "},
    {ACTIVATE, "{}", "/decision "},
    {ACTIVATE, "[]", " "},
    {ACTIVATE, "{\"decision\":1,\"more\":2}", "/decision /more "},
    /* /observe */
    {OBSERVE, "{\"user\":\"u\",\"context\":[1,2],\"arm\":\"a\"}", "/reward "},
    {OBSERVE, "{\"user\":\"u\",\"context\":[1,2],\"arm\":[],\"reward\":1}", "/arm "},
    {OBSERVE, "{\"user\":\"u\",\"context\":[1,2],\"arm\":{\"id\":\"a\",\"features\":[1,2]},\"reward\":1}",
     "/arm/features "},
    {OBSERVE, "{\"user\":\"u\",\"context\":[1,2],\"arm\":\"a\",\"reward\":1,\"propensity\":0}", "/propensity "},
    {OBSERVE, "{\"user\":\"u\",\"context\":[1,2],\"arm\":\"a\",\"reward\":1,\"propensity\":1.01}", "/propensity "},
    {OBSERVE_LINES, "", " "},
    {OBSERVE_LINES, "\n  \n\r\n", " "},
    {OBSERVE_LINES,
     "{\"user\":\"u\",\"context\":[1,2],\"arm\":\"a\",\"reward\":1}\n\n{\"user\":\"u\",\"context\":[1,2],\"arm\":\"a\","
     "\"reward\":\"x\"}\n",
     "/2/reward "},
    {OBSERVE_LINES, "{\"user\":\"u\"\n{\"reward\":1e999}\n", "/0/user /1/reward "},
    /* graph */
    {GRAPH, "{}", "/edges "},
    {GRAPH, "{\"edges\":{}}", "/edges "},
    {GRAPH, "{\"edges\":[],\"add\":[]}", "/add "},
    {GRAPH, "{\"edges\":[[\"a\"],[\"a\",\"b\",1,2],7,[\"a\",\"\"],[\"a\",\"a\"]]}",
     "/edges/0 /edges/1 /edges/2 /edges/3/1 /edges/4 "},
    {GRAPH, "{\"users\":[\"a\",1],\"edges\":[[\"a\",\"b\",0],[\"a\",\"b\",-1],[\"a\",\"b\",\"1\"]]}",
     "/users/1 /edges/0/2 /edges/1/2 /edges/2/2 "},
    {GRAPH_LINES, "[\"a\",\"b\"]\n\n[\"a\"]\n", "/2 "},
    {GRAPH_PATCH, "[]", " "},
    {GRAPH_PATCH, "{\"edges\":[]}", "/edges "},
    {GRAPH_PATCH, "{\"add\":[[\"a\",\"b\"]],\"remove\":[[\"a\",\"b\",1]]}", "/remove/0 "},
    /* arms */
    {ARMS, "{}", "/arms "},
    {ARMS, "{\"arms\":[\"a\",{\"id\":\"b\",\"features\":[1,2]},{\"features\":[1,2,3]},3,{\"id\":\"c\",\"active\":1}]}",
     "/arms/1/features /arms/2/id /arms/3 /arms/4/active "},
    {ARMS, "[\"a\",\"b\",\"a\"]", "/2 "},
    {ARMS, "{\"arms\":[],\"remove\":[]}", "/remove "},
    {ARMS_LINES, "\"a\"\n\n7\n", "/2 "}, /* a line may be a string, as an item may */
    {ARMS_LINES, "{\"id\":\"a\"}\n{\"id\":\"a\"}\n", "/1 "},
    {ARMS_PATCH, "{\"arms\":[\"a\"],\"remove\":[\"\"]}", "/remove/0 "},
    {ARMS_PATCH, "[]", " "},
};

START_TEST(broken_bodies_are_refused_by_pointer)
{
    struct ld_problem p;
    ck_assert_int_eq(decode(broken[_i].kind, broken[_i].text, strlen(broken[_i].text), &p), -1);
    ck_assert_msg(p.status == 400, "%s: status %d", broken[_i].text, p.status);
    ck_assert_msg(strcmp(pointers(&p), broken[_i].pointers) == 0, "%s: %s, not %s", broken[_i].text, pointers(&p),
                  broken[_i].pointers);
    for (size_t i = 0; i < p.n_errors; i++)
        ck_assert_uint_gt(strlen(p.errors[i].detail), 0);
}
END_TEST

/* A good body, cut anywhere or with any one byte replaced, is refused or decoded, never more than that. */
START_TEST(damaged_bodies_do_no_harm)
{
    static const char good[] = "{\"user\":\"u\\u00e9\",\"context\":[0.5,-1e3],\"candidates\":[\"a\",{\"id\":\"b\","
                               "\"features\":[1,2,3]}],\"exclude\":[\"x\"],\"top\":2,\"explain\":true}";
    static const char replacements[] = {'"', '{', '}', '[', ']', ',', ':', '\\', '0', '\0', (char)0xff};
    struct ld_problem p;
    size_t n = strlen(good);
    ck_assert_int_eq(decode(SELECT, good, n, &p), 0);
    for (size_t cut = 0; cut < n; cut++)
        ck_assert_int_eq(decode(SELECT, good, cut, &p), -1);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof replacements; k++) {
            char text[sizeof good];
            memcpy(text, good, sizeof good);
            text[i] = replacements[k];
            int rc = decode(SELECT, text, n, &p);
            ck_assert((rc == 0) == (p.status == 0));
        }
    }
}
END_TEST

START_TEST(ids_may_have_256_bytes_and_no_more)
{
    char text[400], id[300];
    struct ld_problem p;
    for (size_t n = 255; n <= 257; n++) {
        memset(id, 'x', n);
        id[n] = '\0';
        (void)snprintf(text, sizeof text, "{\"user\":\"%s\",\"context\":[1,2]}", id);
        ck_assert_int_eq(decode(SELECT, text, strlen(text), &p), n <= 256 ? 0 : -1);
    }
    for (size_t n = 127; n <= 129; n++) {
        memset(id, 'x', n);
        id[n] = '\0';
        (void)snprintf(text, sizeof text, "{\"decision\":\"%s\"}", id);
        ck_assert_int_eq(decode(ACTIVATE, text, strlen(text), &p), n <= 128 ? 0 : -1);
    }
}
END_TEST

static char *repeated(const char *item, size_t n, const char *open, const char *separator, const char *close)
{
    char *text = malloc(strlen(open) + n * (strlen(item) + strlen(separator)) + strlen(close) + 1), *at = text;
    at += sprintf(at, "%s", open);
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, "%s%s", i > 0 ? separator : "", item);
    (void)sprintf(at, "%s", close);
    return text;
}

START_TEST(lists_have_limits)
{
    static const struct {
        enum body kind;
        size_t limit;
        const char *item, *open, *separator, *close;
    } rows[] = {
        {SELECT, 1024, "\"a\"", "{\"user\":\"u\",\"context\":[1,2],\"candidates\":[", ",", "]}"},
        {SELECT, 1024, "\"a\"", "{\"user\":\"u\",\"context\":[1,2],\"exclude\":[", ",", "]}"},
        {REWARD, 1000, "{\"decision\":\"d\",\"reward\":1}", "[", ",", "]"},
        {OBSERVE_LINES, 10000, "{\"user\":\"u\",\"context\":[1,2],\"arm\":\"a\",\"reward\":1}", "", "\n", "\n"},
    };
    struct ld_problem p;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t more = 0; more < 2; more++) {
            char *text = repeated(rows[i].item, rows[i].limit + more, rows[i].open, rows[i].separator, rows[i].close);
            ck_assert_int_eq(decode(rows[i].kind, text, strlen(text), &p), more == 0 ? 0 : -1);
            free(text);
        }
    }
}
END_TEST

static struct ld_doc *parse(const char *text, bool is_lines)
{
    struct ld_doc *doc = NULL;
    struct ld_problem p;
    ld_problem_init(&p);
    ck_assert_msg(ld_doc_parse(&doc, text, strlen(text), is_lines, &p) == 0, "%s", p.detail);
    return doc;
}

START_TEST(select_reads_every_field)
{
    struct ld_doc *doc =
        parse("{\"user\":\"u1\",\"context\":[0.25,-1],\"candidates\":[\"a\",{\"id\":\"b\",\"features\":[1,2,3.5]},"
              "{\"id\":\"c\"}],\"exclude\":[\"x\",\"y\"],\"top\":3.0,\"explain\":true,\"dry_run\":true,"
              "\"defer\":true,\"decision\":\"mine\"}",
              false);
    struct ld_problem p;
    struct ld_select s;
    ld_problem_init(&p);
    ck_assert_int_eq(ld_decode_select(doc, CONTEXT_DIM, ARM_DIM, &s, &p), 0);
    ck_assert_str_eq(s.query.user, "u1");
    ck_assert(s.query.context[0] == 0.25 && s.query.context[1] == -1);
    ck_assert_uint_eq(s.query.n_candidates, 3);
    ck_assert_str_eq(s.query.candidates[1].arm, "b");
    ck_assert(s.query.candidates[1].features[2] == 3.5);
    ck_assert_ptr_null(s.query.candidates[0].features);
    ck_assert_ptr_null(s.query.candidates[2].features);
    ck_assert_uint_eq(s.query.n_exclude, 2);
    ck_assert_str_eq(s.query.exclude[1], "y");
    ck_assert_uint_eq(s.top, 3);
    ck_assert(s.is_explained && s.is_dry_run && s.is_deferred);
    ck_assert_str_eq(s.decision, "mine");
    ld_doc_free(doc);
}
END_TEST

START_TEST(select_without_dimensions_needs_a_user_only)
{
    static const char *const texts[] = {
        "{\"user\":\"u\"}", "{\"user\":\"u\",\"context\":[]}",
        "{\"user\":\"u\",\"context\":null,\"candidates\":[{\"id\":\"a\",\"features\":[]}]}"};
    for (size_t i = 0; i < 3; i++) {
        struct ld_doc *doc = parse(texts[i], false);
        struct ld_problem p;
        struct ld_select s;
        ld_problem_init(&p);
        ck_assert_int_eq(ld_decode_select(doc, 0, 0, &s, &p), 0);
        ck_assert_uint_eq(s.top, 1);
        ck_assert(!s.is_explained && !s.is_dry_run && !s.is_deferred);
        ck_assert_ptr_null(s.query.context);
        ck_assert_ptr_null(s.decision);
        ck_assert_uint_eq(s.query.n_candidates, i == 2 ? 1 : 0);
        ld_doc_free(doc);
    }
    struct ld_doc *doc = parse("{\"user\":\"u\",\"context\":[1]}", false);
    struct ld_problem p;
    struct ld_select s;
    ld_problem_init(&p);
    ck_assert_int_eq(ld_decode_select(doc, 0, 0, &s, &p), -1);
    ck_assert_str_eq(pointers(&p), "/context ");
    ld_doc_free(doc);
}
END_TEST

START_TEST(rewards_come_alone_or_in_arrays)
{
    struct ld_problem p;
    struct ld_reward *r;
    size_t n;
    bool is_array;
    ld_problem_init(&p);
    struct ld_doc *doc = parse("{\"decision\":\"d\",\"reward\":-2.5,\"arm\":\"a\"}", false);
    ck_assert_int_eq(ld_decode_rewards(doc, &r, &n, &is_array, &p), 0);
    ck_assert(n == 1 && !is_array && r[0].reward == -2.5);
    ck_assert_str_eq(r[0].decision, "d");
    ck_assert_str_eq(r[0].arm, "a");
    ld_doc_free(doc);
    doc = parse("[{\"decision\":\"d\",\"reward\":1},{\"decision\":\"e\",\"reward\":5e-324}]", false);
    ck_assert_int_eq(ld_decode_rewards(doc, &r, &n, &is_array, &p), 0);
    ck_assert(n == 2 && is_array && r[1].reward == 5e-324);
    ck_assert_ptr_null(r[1].arm);
    ld_doc_free(doc);
}
END_TEST

START_TEST(observations_come_alone_or_in_lines)
{
    struct ld_problem p;
    struct kb_event *ev;
    size_t n;
    ld_problem_init(&p);
    struct ld_doc *doc =
        parse("{\"user\":\"u\",\"context\":[1,2],\"arm\":{\"id\":\"a\",\"features\":[1,2,3]},\"reward\":0.5}\n\n"
              "{\"user\":\"v\",\"context\":[3,4],\"arm\":\"b\",\"reward\":1,\"propensity\":0.125}",
              true);
    ck_assert_int_eq(ld_decode_observe(doc, true, CONTEXT_DIM, ARM_DIM, &ev, &n, &p), 0);
    ck_assert_uint_eq(n, 2);
    ck_assert(ev[0].type == KB_EV_OBSERVED && ev[0].as.observed.reward == 0.5 && isnan(ev[0].as.observed.propensity));
    ck_assert(ev[0].as.observed.arm.features[2] == 3 && ev[1].as.observed.arm.features == NULL);
    ck_assert_str_eq(ev[1].as.observed.arm.arm, "b");
    ck_assert_str_eq(ev[1].as.observed.user, "v");
    ck_assert(ev[1].as.observed.context[1] == 4 && ev[1].as.observed.propensity == 0.125);
    ld_doc_free(doc);
}
END_TEST

/* The same graph in the three ways in which it may be put. */
START_TEST(graphs_come_as_object_array_or_lines)
{
    static const struct {
        const char *text;
        bool is_lines;
    } rows[] = {{"{\"edges\":[[\"a\",\"b\"],[\"b\",\"c\",0.5]]}", false},
                {"[[\"a\",\"b\"],[\"b\",\"c\",0.5]]", false},
                {"[\"a\",\"b\"]\n[\"b\",\"c\",0.5]\n", true}};
    for (size_t i = 0; i < 3; i++) {
        struct ld_doc *doc = parse(rows[i].text, rows[i].is_lines);
        struct ld_problem p;
        struct kb_event ev;
        ld_problem_init(&p);
        ck_assert_int_eq(ld_decode_graph(doc, false, &ev, &p), 0);
        ck_assert(ev.type == KB_EV_GRAPH && ev.as.graph.is_replace && ev.as.graph.n_add == 2 &&
                  ev.as.graph.n_users == 0);
        ck_assert(ev.as.graph.add[0].weight == 1 && ev.as.graph.add[1].weight == 0.5);
        ck_assert_str_eq(ev.as.graph.add[1].u, "b");
        ck_assert_str_eq(ev.as.graph.add[1].v, "c");
        ld_doc_free(doc);
    }
}
END_TEST

START_TEST(patches_add_and_remove)
{
    struct ld_problem p;
    struct kb_event ev;
    ld_problem_init(&p);
    struct ld_doc *doc = parse("{\"users\":[\"hermit\"],\"add\":[[\"a\",\"b\",2]],\"remove\":[[\"c\",\"d\"]]}", false);
    ck_assert_int_eq(ld_decode_graph(doc, true, &ev, &p), 0);
    ck_assert(!ev.as.graph.is_replace && ev.as.graph.n_users == 1 && ev.as.graph.n_add == 1 &&
              ev.as.graph.n_remove == 1);
    ck_assert_str_eq(ev.as.graph.users[0], "hermit");
    ck_assert_str_eq(ev.as.graph.remove[0].v, "d");
    ld_doc_free(doc);
    doc = parse("{\"arms\":[\"a\",{\"id\":\"b\",\"features\":[1,2,3],\"active\":false}],\"remove\":[\"c\"]}", false);
    ck_assert_int_eq(ld_decode_arms(doc, true, ARM_DIM, &ev, &p), 0);
    ck_assert(ev.type == KB_EV_ARMS && !ev.as.arms.is_replace && ev.as.arms.n_put == 2 && ev.as.arms.n_remove == 1);
    ck_assert(ev.as.arms.put[0].is_active && ev.as.arms.put[0].features == NULL);
    ck_assert(!ev.as.arms.put[1].is_active && ev.as.arms.put[1].features[1] == 2);
    ck_assert_str_eq(ev.as.arms.remove[0], "c");
    ld_doc_free(doc);
}
END_TEST

/* Blocks of memory are joined by size: large requests among small ones stay apart and aligned. */
START_TEST(memory_of_a_document_is_zeroed_aligned_and_apart)
{
    struct ld_doc *doc = parse("{}", false);
    unsigned char *last = NULL;
    size_t last_bytes = 0;
    for (size_t i = 1; i < 3000; i += 37) {
        unsigned char *m = ld_doc_alloc(doc, i, 9);
        ck_assert_ptr_nonnull(m);
        ck_assert_uint_eq((uintptr_t)m % 16, 0);
        for (size_t k = 0; k < i * 9; k++)
            ck_assert_uint_eq(m[k], 0);
        for (size_t k = 0; k < last_bytes; k++)
            ck_assert_uint_eq(last[k], 0xaa);
        memset(m, 0xaa, i * 9);
        last = m;
        last_bytes = i * 9;
    }
    ck_assert_ptr_null(ld_doc_alloc(doc, SIZE_MAX / 8, 16));
    ld_doc_free(doc);
    ld_doc_free(NULL);
}
END_TEST

/* A document may be decoded again, under what the tenant has by then. */
START_TEST(a_mapping_of_names_goes_with_the_tenants)
{
    static const char text[] = "{\"arms\":[{\"id\":\"a\",\"features\":{\"k\":1}},{\"id\":\"b\",\"features\":{}}]}";
    const struct ld_name_map map = {.dim = ARM_DIM}, none = {.dim = 0};
    struct ld_doc *doc = NULL;
    struct ld_problem p;
    struct kb_event ev;

    ld_problem_init(&p);
    ck_assert_int_eq(ld_doc_parse(&doc, text, strlen(text), false, &p), 0);
    for (int i = 0; i < 3; i++) {
        ld_doc_map_names(doc, &map, 2 * ARM_DIM * sizeof(double));
        ck_assert(ld_doc_maps_names(doc));
        ck_assert_int_eq(ld_decode_arms(doc, false, ARM_DIM, &ev, &p), 0);
        ck_assert_uint_eq(ld_doc_mapped_bytes(doc), 2 * ARM_DIM * sizeof(double));
    }
    ld_doc_map_names(doc, &none, 0);
    ck_assert(!ld_doc_maps_names(doc));
    ck_assert_int_eq(ld_decode_arms(doc, false, ARM_DIM, &ev, &p), -1);
    ck_assert_str_eq(p.errors[0].pointer, "/arms/0/features");
    ck_assert_uint_eq(ld_doc_mapped_bytes(doc), 0);
    ld_problem_init(&p);
    ld_doc_map_names(doc, &map, 2 * ARM_DIM * sizeof(double) - 1);
    ck_assert_int_eq(ld_decode_arms(doc, false, ARM_DIM, &ev, &p), -1);
    ck_assert_str_eq(p.errors[0].pointer, "/arms/1/features");
    ck_assert_str_eq(p.limit, "feature_bytes");
    ld_doc_free(doc);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("json_in", 0, {broken_bodies_are_refused_by_pointer, sizeof broken / sizeof *broken},
                         {damaged_bodies_do_no_harm, 1}, {ids_may_have_256_bytes_and_no_more, 1},
                         {lists_have_limits, 1}, {select_reads_every_field, 1},
                         {select_without_dimensions_needs_a_user_only, 1}, {rewards_come_alone_or_in_arrays, 1},
                         {observations_come_alone_or_in_lines, 1}, {graphs_come_as_object_array_or_lines, 1},
                         {patches_add_and_remove, 1}, {a_mapping_of_names_goes_with_the_tenants, 1},
                         {memory_of_a_document_is_zeroed_aligned_and_apart, 1});
}
