/* Lines of a summary: a state that is written as lines and folded from them is the same state, bit for bit, whatever
 * doubles it holds; and a line that is not a part is refused by pointer. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_in.h"
#include "json/json_out.h"
#include "kbt.h"
#include "base/magnitude.h"
#include "base/rng.h"
#include "model/summary.h"
#include "model/commit.h"
#include "model/engine_write.h"

#define CONTEXT_DIM 2
#define ARM_DIM 1
#define N_ROUNDS 20

static double any_double(uint64_t key, uint64_t at)
{
    static const double edges[] = {0.0, -0.0, 5e-324, -2.2250738585072009e-308, KB_MOST_MAGNITUDE, 0.1, 1.0 / 3};
    uint64_t b = kb_rng_bits(key, KB_STREAM_SIMULATION, at);
    double x;

    if (b % 3 == 0)
        return edges[(b >> 8) % (sizeof edges / sizeof *edges)];
    memcpy(&x, &b, sizeof x);
    return kb_is_measurable(x) ? x : 0.25;
}

static void fold(struct kb_engine *e, struct kb_event ev, uint64_t seq)
{
    struct kb_errmsg msg = {.text = ""};

    ev.seq = seq;
    ev.at_ms = 1795255200123 + 7777777 * (int64_t)seq;
    ck_assert_msg(kb_engine_fold(e, &ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static struct kb_engine *quiet_engine(void)
{
    struct kb_engine *e = NULL;

    ck_assert_int_eq(kb_engine_new(&e, kbt_key), KB_OK);
    kb_engine_fold_quietly_until(e, UINT64_MAX);
    return e;
}

static struct ld_settings settings_of(uint64_t key)
{
    struct ld_settings settings;

    ld_settings_init(&settings);
    settings.is_relaxed = key % 2 == 1;
    ck_assert_int_eq(kb_spec_preset(&settings.spec, key % 2 ? "lk-gp-ucb" : "coop-kernel-ucb", CONTEXT_DIM, ARM_DIM),
                     KB_OK);
    settings.spec.aggregation = KB_AGG_LAST;
    settings.spec.conf.type = KB_CONF_FIXED;
    settings.spec.forgetting.type = (enum kb_forgetting_type)(key % KB_FORGET_N);
    settings.spec.forgetting.discount = 1.0 / 3;
    settings.spec.forgetting.half_life_s = 1e5 / 3;
    return settings;
}

/* A state of some size with numbers of every kind. */
static struct kb_engine *some_engine(const struct ld_settings *settings, uint64_t key)
{
    struct kb_engine *e = quiet_engine();
    struct kb_ev_edge edges[3] = {{"a", "quote\"d", 1.0 / 3}, {"a", "b", 5e-324}, {"caf\xc3\xa9", "b", 1e12}};
    static const char *const plans[] = {"free", "caf\xc3\xa9"};
    static const struct kb_attribute_rule deny = {"plan\"", plans, 2};
    const struct kb_eligibility rules = {
        .deny = &deny, .n_deny = 1, .from_ms = INT64_MIN, .until_ms = 1795255200123, .days = 65};
    double x[4];
    char id[24];

    fold(e, (struct kb_event){.type = KB_EV_CONFIGURED, .as.configured = {&settings->spec, 1}}, 1);
    fold(e, (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = true, .add = edges, .n_add = 3}}, 2);
    for (size_t i = 0; i < 4; i++)
        x[i] = any_double(key, i);
    struct kb_ev_arm arms[2] = {
        {.id = "arm", .features = x, .is_active = true},
        {.id = "idle", .features = x + 1, .is_stopped = true, .eligibility = &rules, .value = "{\"a\":null}"}};
    fold(e, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = 2}}, 3);
    for (uint64_t i = 4; i < 4 + 2 * N_ROUNDS; i += 2) {
        const double v[3] = {any_double(key, 10 * i), any_double(key, 10 * i + 1), any_double(key, 10 * i + 2)};
        struct kb_ev_slot slots[2] = {{"arm", v + 2}, {"gone", x + 2}};

        snprintf(id, sizeof id, "d/%llu~", (unsigned long long)i);
        fold(e,
             (struct kb_event){.type = KB_EV_DECIDED,
                               .as.decided = {.decision = id,
                                              .user = i % 3 ? "b" : "new",
                                              .context = v,
                                              .slots = slots,
                                              .n_slots = 1 + i % 2,
                                              .propensity = 1.0 / (double)i,
                                              .route = i % 8 == 0 ? KB_ROUTE_HOLDOUT : KB_ROUTE_POLICY,
                                              .assigned_until_ms = i % 3 ? 1795255200123 + (int64_t)i : 0,
                                              .expires_at_ms = 1795255200123 + (int64_t)i,
                                              .is_deferred = i % 5 == 0,
                                              .level = (uint32_t)(i % 3)}},
             i);
        const struct kb_event reward = {.type = KB_EV_REWARDED,
                                        .as.rewarded = {.decision = id, .reward = any_double(key, 10 * i + 3)}};
        const struct kb_event late = {.type = KB_EV_LATE, .as.late = {.decision = id, .reward = 1}};
        fold(e, i % 5 == 0 ? late : reward, i + 1);
    }
    return e;
}

/* One line decoded into *ev, in a document that the caller frees. */
static struct ld_doc *decode(const char *line, struct kb_event *ev, struct ld_problem *p)
{
    struct ld_doc *doc = NULL;

    ld_problem_init(p);
    if (ld_doc_parse(&doc, line, strlen(line), false, p) == 0)
        (void)ld_decode_event(doc, CONTEXT_DIM, ARM_DIM, ev, p);
    return doc;
}

START_TEST(a_state_comes_back_from_its_lines_bit_for_bit)
{
    const struct ld_settings settings = settings_of((uint64_t)_i);
    struct kb_engine *e = some_engine(&settings, (uint64_t)_i), *back = quiet_engine();
    struct kb_summarizer *s = NULL;
    struct kb_event ev, again;
    struct ld_problem problem;
    struct kb_engine_counts counts;
    uint64_t first = 0, n_parts = 0;

    kb_engine_counts(e, &counts);
    for (int pass = 0; pass < 2; pass++, first = counts.seq - n_parts + 1) {
        ck_assert_int_eq(kb_summarizer_new(&s, e), KB_OK);
        for (uint64_t seq = first; kb_summarizer_next(s, &ev); seq++) {
            size_t n = 0, n_again = 0;

            n_parts += pass == 0;
            if (pass == 0)
                continue;
            ev.seq = seq;
            ev.at_ms = 1795255200123;
            char *line = ld_encode_event(&ev, CONTEXT_DIM, ARM_DIM, &settings, &n);
            ck_assert_ptr_nonnull(line);
            struct ld_doc *doc = decode(line, &again, &problem);
            ck_assert_msg(problem.n_errors == 0, "%s: %s %s", line, problem.errors[0].pointer,
                          problem.errors[0].detail);
            char *text = ld_encode_event(&again, CONTEXT_DIM, ARM_DIM, &settings, &n_again);
            ck_assert_str_eq(text, line);
            if (ev.as.summary->part == KB_PART_BEGIN)
                ck_assert_int_eq(((const struct ld_settings *)(const void *)again.as.summary->spec)->is_relaxed,
                                 settings.is_relaxed);
            fold(back, again, seq);
            ld_doc_free(doc);
            free(line);
            free(text);
        }
        kb_summarizer_free(s);
    }
    ck_assert_uint_gt(n_parts, 7);
    ck_assert_uint_eq(kb_engine_digest(back), kb_engine_digest(e));
    kb_engine_free(e);
    kb_engine_free(back);
}
END_TEST

#define HEAD "{\"seq\":7,\"type\":\"summary\",\"at\":\"2026-11-21T10:00:00.123Z\",\"part\":"
#define ROW "\"user\":[0],\"arm\":[0],\"level\":[0],\"event\":[4],\"count\":[1],\"sum\":[1]"

static const struct {
    const char *line, *pointers;
} broken[] = {
    {HEAD "\"middle\"}", "/part"},
    {HEAD "\"end\",\"decided\":1,\"rewarded\":1,\"observed\":0,\"expired\":-1,\"late\":0.5,\"reward_sum\":1,"
          "\"square_sum\":1,\"reset_rows\":0,\"reset_observations\":\"0\"}",
     "/expired/late/reset_observations"},
    {HEAD "\"users\",\"users\":[\"a\",\"\"],\"squares\":[1,2]}", "/users/1"},
    {HEAD "\"users\",\"users\":[\"a\"],\"squares\":[1,2]}", "/squares"},
    {HEAD "\"graph\",\"nodes\":[0,-1],\"edges\":[[0,1]]}", "/nodes/1/edges/0"},
    {HEAD "\"graph\",\"nodes\":[0],\"edges\":[[0,1.5,1]],\"weights\":[]}", "/weights/edges/0"},
    {HEAD "\"points\"," ROW ",\"x\":[1,2]}", "/x"},
    {HEAD "\"points\"," ROW ",\"x\":[1,2,3],\"x\":[1,2,3]}", "/x"},
    {HEAD "\"points\",\"user\":[0,1],\"arm\":[0],\"level\":[0],\"event\":[1],\"count\":[1],\"sum\":[1],\"x\":[]}",
     NULL},
    {HEAD
     "\"decision\",\"decision\":\"d\",\"user\":\"u\",\"arm\":\"a\",\"expires_at\":\"soon\",\"deferred\":1,\"level\":17,"
     "\"slots\":[]}",
     "/slots/expires_at/deferred/level"},
    {HEAD "\"decision\",\"decision\":\"d\",\"user\":\"u\",\"arm\":\"a\",\"expires_at\":\"2026-11-21T10:00:00.123Z\","
          "\"deferred\":false,"
          "\"level\":0,\"slots\":[{\"arm\":\"b\",\"x\":[1]}]}",
     "/slots/0/x/arm"},
    {HEAD "\"arms\",\"arms\":[{\"id\":\"a\",\"features\":null,\"in_catalogue\":true,\"active\":true,\"decided\":0,"
          "\"rewarded\":0}]}",
     "/arms/0/reward_sum"},
    {HEAD "\"begin\",\"version\":0,\"representation\":\"none\",\"context_lengthscale\":0,\"arm_lengthscale\":1,"
          "\"configuration\":{\"algorithm\":\"none\"}}",
     "/version/representation/context_lengthscale/configuration/algorithm"},
};

START_TEST(broken_parts_are_refused_by_pointer)
{
    struct kb_event ev;
    struct ld_problem problem;
    char pointers[1024] = "";
    struct ld_doc *doc = decode(broken[_i].line, &ev, &problem);

    ck_assert_int_ne(problem.status, 0);
    for (size_t i = 0; i < problem.n_errors; i++)
        strcat(pointers, problem.errors[i].pointer);
    if (broken[_i].pointers != NULL)
        ck_assert_msg(strcmp(pointers, broken[_i].pointers) == 0, "%s: %s", broken[_i].line, pointers);
    ld_doc_free(doc);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("json_summary", 0, {a_state_comes_back_from_its_lines_bit_for_bit, 30},
                         {broken_parts_are_refused_by_pointer, sizeof broken / sizeof *broken});
}
