/* Answers out: every shape of the contract, filled from a live engine where it shows one. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_out.h"
#include "kbt.h"
#include "kbt_log.h"

#define CONTEXT_DIM 1
#define ARM_DIM 2

/* Parsed, and the text freed; the length must be right. */
static json_t *parsed(char *text, const size_t *length)
{
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(strlen(text), *length);
    json_t *v = json_loadb(text, *length, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    ck_assert_msg(v != NULL, "not JSON: %s", text);
    free(text);
    return v;
}

static const char *text_at(const json_t *v, const char *key)
{
    return json_string_value(json_object_get(v, key));
}

static double number_at(const json_t *v, const char *key)
{
    const json_t *x = json_object_get(v, key);
    ck_assert_msg(json_is_number(x), "%s", key);
    return json_number_value(x);
}

/* --- without an engine ------------------------------------------------------------------------------- */

static const char *const arm[] = {"a", "b\"", "c"};
static const double mean[] = {0.5, -0.0, 1e-310}, sd[] = {0.1, 0.2, 0.3}, lower[] = {1, 2, 3}, upper[] = {4, 5, 6},
                    score[] = {7, 8, 9}, propensity[] = {0.25, 0.7, 0.05};
static const size_t order[] = {1, 2, 0};

static const struct kb_decision decision = {.n = 3,
                                            .chosen = 1,
                                            .arm = arm,
                                            .mean = mean,
                                            .sd = sd,
                                            .lower = lower,
                                            .upper = upper,
                                            .score = score,
                                            .propensity = propensity,
                                            .order = order,
                                            .n_learned = 1234,
                                            .n_support = 57};

START_TEST(select_answers_rank_the_chosen_first)
{
    for (size_t top = 1; top <= 4; top++) {
        size_t n;
        json_t *v = parsed(ld_encode_select("d-1", &decision, top, NULL, &n), &n);
        const json_t *ranking = json_object_get(v, "ranking");
        ck_assert_str_eq(text_at(v, "decision"), "d-1");
        ck_assert_str_eq(text_at(v, "arm"), "b\"");
        ck_assert(number_at(v, "propensity") == 0.7);
        ck_assert_uint_eq(json_array_size(ranking), top < 3 ? top : 3);
        for (size_t i = 0; i < json_array_size(ranking); i++) {
            const json_t *r = json_array_get(ranking, i);
            ck_assert_uint_eq(json_object_size(r), 7);
            ck_assert_str_eq(text_at(r, "arm"), arm[order[i]]);
            ck_assert(number_at(r, "mean") == mean[order[i]] && number_at(r, "sd") == sd[order[i]]);
            ck_assert(number_at(r, "lower") == lower[order[i]] && number_at(r, "upper") == upper[order[i]]);
            ck_assert(number_at(r, "score") == score[order[i]] && number_at(r, "propensity") == propensity[order[i]]);
        }
        const json_t *model = json_object_get(v, "model");
        ck_assert(number_at(model, "events") == 1234 && number_at(model, "dictionary") == 57);
        json_decref(v);
    }
}
END_TEST

START_TEST(an_answer_that_is_not_finite_is_none)
{
    double bad[] = {0.5, (double)NAN, 1};
    struct kb_decision d = decision;
    size_t n;
    d.mean = bad;
    ck_assert_ptr_null(ld_encode_select("d", &d, 1, NULL, &n));
}
END_TEST

START_TEST(rewards_are_answered_in_place)
{
    static const struct ld_reward_result results[] = {
        {.status = 200},
        {.status = 208},
        {.status = 404, .type = LD_NO_DECISION, .detail = "no such decision"},
        {.status = 410}};
    size_t n;
    char *text = ld_encode_rewards(results, 4, &n);
    ck_assert_str_eq(text, "[{\"applied\":true},{\"applied\":false,\"duplicate\":true},"
                           "{\"applied\":false,\"type\":\"/problems/no-decision\",\"status\":404,"
                           "\"detail\":\"no such decision\"},"
                           "{\"applied\":false,\"type\":\"/problems/reward-window-passed\",\"status\":410,"
                           "\"detail\":\"Gone\"}]");
    free(text);
    text = ld_encode_reward(&results[0], &n);
    ck_assert_str_eq(text, "{\"applied\":true}");
    free(text);
    text = ld_encode_reward(&results[1], &n);
    ck_assert_str_eq(text, "{\"applied\":false,\"duplicate\":true}");
    free(text);
}
END_TEST

START_TEST(lists_of_tenants_may_be_empty)
{
    struct ld_settings settings = {.is_relaxed = false};
    struct kb_engine_counts counts = {.version = 3, .learned = 5, .decided = 9};
    ck_assert_int_eq(kb_spec_preset(&settings.spec, "ucb", 0, 0), KB_OK);
    struct ld_tenant_view views[] = {
        {.name = "a", .state = "failed", .detail = "it is not a database"},
        {.name = "b", .state = "open", .detail = "", .settings = &settings, .counts = &counts}};
    size_t n;
    char *text = ld_encode_tenants(views, 0, &n);
    ck_assert_str_eq(text, "{\"tenants\":[]}");
    free(text);
    json_t *v = parsed(ld_encode_tenants(views, 2, &n), &n);
    const json_t *first = json_array_get(json_object_get(v, "tenants"), 0);
    const json_t *second = json_array_get(json_object_get(v, "tenants"), 1);
    ck_assert_uint_eq(json_object_size(first), 3); /* of a tenant that is not in memory nothing else is known */
    ck_assert_str_eq(text_at(first, "state"), "failed");
    ck_assert_str_eq(text_at(first, "detail"), "it is not a database");
    ck_assert_str_eq(text_at(second, "state"), "open");
    ck_assert_ptr_null(json_object_get(second, "detail"));
    ck_assert_str_eq(text_at(second, "name"), "b");
    ck_assert_str_eq(text_at(second, "algorithm"), "ucb");
    ck_assert(number_at(second, "version") == 3 && number_at(second, "events") == 5 &&
              number_at(second, "decisions") == 9);
    json_decref(v);
}
END_TEST

/* --- with an engine ---------------------------------------------------------------------------------- */

static struct kbt_log town;
static struct ld_settings settings;

static void live(struct kb_event ev)
{
    struct kb_errmsg msg = {"", ""};
    ck_assert_msg(kbt_log_live(&town, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static struct kb_event observed(const char *user, const char *id, const double *features, double context, double reward)
{
    static double room[8];
    static size_t at;
    struct kb_event ev = {.type = KB_EV_OBSERVED};
    at = (at + 1) % 8;
    room[at] = context;
    ev.as.observed.user = user;
    ev.as.observed.context = &room[at];
    ev.as.observed.arm = (struct kb_ev_slot){id, features};
    ev.as.observed.reward = reward;
    ev.as.observed.propensity = (double)NAN;
    return ev;
}

/* Three users in a row, two arms in the catalogue and one beside it, three observations. */
static void open_town(void)
{
    static const double x[][ARM_DIM] = {{1, 0}, {0, 1}, {0.5, 0.25}};
    static const struct kb_ev_edge edges[] = {{"ann", "bob", 2}, {"bob", "cat", 0.5}};
    static const struct kb_ev_arm arms[] = {{.id = "a1", .features = x[0], .is_active = true},
                                            {.id = "a2", .features = x[1]}};
    static const char *const users[] = {"hermit"};
    kbt_log_open(&town);
    ck_assert_int_eq(kb_spec_preset(&settings.spec, "lk-gp-ucb", CONTEXT_DIM, ARM_DIM), KB_OK);
    live(kbt_configured(&settings.spec, 1));
    live((struct kb_event){.type = KB_EV_GRAPH,
                           .as.graph = {.is_replace = true, .users = users, .n_users = 1, .add = edges, .n_add = 2}});
    live((struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = 2}});
    live(observed("ann", "a1", x[0], 0.125, 1));
    live(observed("bob", "a2", x[1], 0.25, 0.5));
    live(observed("ann", "a9", x[2], 0.375, 0));
}

static void close_town(void)
{
    kbt_log_close(&town);
}

START_TEST(graph_summaries_count_users_edges_and_parts)
{
    size_t n;
    json_t *v = parsed(ld_encode_graph_summary(town.live, &n), &n);
    const json_t *degree = json_object_get(v, "degree");
    ck_assert(number_at(v, "users") == 4 && number_at(v, "edges") == 2 && number_at(v, "components") == 2);
    ck_assert(number_at(degree, "min") == 0 && number_at(degree, "max") == 2.5);
    ck_assert_double_eq_tol(number_at(degree, "mean"), (2 + 2.5 + 0.5 + 0) / 4, 1e-15);
    json_decref(v);
}
END_TEST

START_TEST(without_a_graph_the_summary_is_zero)
{
    struct kbt_log empty;
    size_t n;
    kbt_log_open(&empty);
    json_t *v = parsed(ld_encode_graph_summary(empty.live, &n), &n);
    ck_assert(number_at(v, "users") == 0 && number_at(v, "edges") == 0 && number_at(v, "components") == 0);
    json_decref(v);
    kbt_log_close(&empty);
}
END_TEST

START_TEST(the_catalogue_lists_its_own_arms_only)
{
    size_t n;
    struct ld_text t;
    ld_text_init(&t);
    ck_assert_uint_eq(ld_put_arms(town.live, 0, SIZE_MAX, &t), SIZE_MAX);
    char *text = ld_text_take(&t, &n);
    json_t *v = parsed(text, &n);
    const json_t *arms = json_object_get(v, "arms");
    ck_assert_uint_eq(json_array_size(arms), 2);
    ck_assert_str_eq(text_at(json_array_get(arms, 0), "id"), "a1");
    ck_assert(json_is_true(json_object_get(json_array_get(arms, 0), "active")));
    ck_assert(json_is_false(json_object_get(json_array_get(arms, 1), "active")));
    ck_assert(json_number_value(json_array_get(json_object_get(json_array_get(arms, 1), "features"), 1)) == 1);
    json_decref(v);
    v = parsed(ld_encode_arms_summary(town.live, &n), &n);
    ck_assert(number_at(v, "arms") == 2 && number_at(v, "active") == 1);
    json_decref(v);
}
END_TEST

START_TEST(models_show_every_point_with_its_coordinates)
{
    struct kb_engine_counts counts;
    kb_engine_counts(town.live, &counts);
    struct ld_tenant_view view = {
        .name = "town", .settings = &settings, .in_force = kb_engine_spec(town.live), .counts = &counts};
    size_t n;
    char digest[24];
    struct ld_model_text model;
    ck_assert_int_eq(ld_begin_model(&view, town.live, &model), 0);
    json_t *v = parsed(ld_end_model(&model, NULL, &n), &n);
    const json_t *points = json_object_get(v, "dictionary"), *p = json_array_get(points, 2);
    ck_assert_uint_eq(json_array_size(points), 3);
    ck_assert_str_eq(text_at(p, "user"), "ann");
    ck_assert_str_eq(text_at(p, "arm"), "a9");
    ck_assert(json_number_value(json_array_get(json_object_get(p, "context"), 0)) == 0.375);
    ck_assert(json_number_value(json_array_get(json_object_get(p, "features"), 1)) == 0.25);
    ck_assert(number_at(v, "events") == 3 && number_at(v, "seq") == 6 && number_at(v, "version") == 1);
    ck_assert(number_at(v, "effective_dimension") > 0 && number_at(v, "information_gain") > 0);
    (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)kb_engine_digest(town.live));
    ck_assert_str_eq(text_at(v, "digest"), digest);
    (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)kb_engine_content_digest(town.live));
    ck_assert_str_eq(text_at(v, "content_digest"), digest);
    (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)kb_engine_logical_digest(town.live));
    ck_assert_str_eq(text_at(v, "logical_digest"), digest);
    ck_assert_str_eq(text_at(v, "algorithm"), "lk-gp-ucb");
    const json_t *confidence = json_object_get(v, "confidence");
    ck_assert(number_at(confidence, "norm_bound") == 1 && number_at(confidence, "norm_least") == 0);
    ck_assert(number_at(confidence, "empty_sets") == 0 && json_object_size(confidence) == 5);
    ck_assert_uint_eq(json_object_size(v), 16);
    json_decref(v);
}
END_TEST

START_TEST(statistics_average_what_was_learned)
{
    static const struct ld_arm_stats in_window[] = {{"a1", 4, 2, 3, 5}, {"a2", 1, 0, 0, 0}};
    struct ld_window_stats w = {.seconds = 60,
                                .decided = 5,
                                .rewarded = 2,
                                .reward_sum = 3,
                                .arms = in_window,
                                .n_arms = 2,
                                .is_traffic_void = true};
    size_t n;
    json_t *v = parsed(ld_encode_stats(town.live, &w, 0, &n), &n);
    const json_t *window = json_object_get(v, "window"), *arms = json_object_get(v, "arms");
    ck_assert(number_at(v, "decisions") == 0 && number_at(v, "observations") == 3);
    ck_assert_double_eq_tol(number_at(v, "mean_reward"), 0.5, 1e-15);
    ck_assert_uint_eq(json_array_size(arms), 3);
    ck_assert_uint_eq(json_array_size(json_object_get(v, "warnings")), 1); /* of the experiment's traffic */
    ck_assert(number_at(json_array_get(arms, 0), "mean_reward") == 1);
    ck_assert(number_at(window, "seconds") == 60 && number_at(window, "decisions") == 5 &&
              number_at(window, "rewards") == 2);
    ck_assert(number_at(window, "mean_reward") == 1.5);
    ck_assert(json_is_null(json_object_get(json_array_get(json_object_get(window, "arms"), 1), "mean_reward")));
    json_decref(v);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("json_out");
    TCase *plain = tcase_create("plain"), *engine = tcase_create("engine");
    tcase_add_test(plain, select_answers_rank_the_chosen_first);
    tcase_add_test(plain, an_answer_that_is_not_finite_is_none);
    tcase_add_test(plain, rewards_are_answered_in_place);
    tcase_add_test(plain, lists_of_tenants_may_be_empty);
    tcase_add_checked_fixture(engine, open_town, close_town);
    tcase_add_test(engine, graph_summaries_count_users_edges_and_parts);
    tcase_add_test(engine, without_a_graph_the_summary_is_zero);
    tcase_add_test(engine, the_catalogue_lists_its_own_arms_only);
    tcase_add_test(engine, models_show_every_point_with_its_coordinates);
    tcase_add_test(engine, statistics_average_what_was_learned);
    suite_add_tcase(s, plain);
    suite_add_tcase(s, engine);
    return kbt_run_suite(s);
}
