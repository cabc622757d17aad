/* Traffic to requests: the three kinds of lines, our own log paired up, faults with file and line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "ctl/replay_source.h"

static char bodies[8192];

/* All requests of `text`, each as "S<body>\n" or "O<body>\n"; a fault ends it as "!why". *skipped may be NULL. */
static const char *requests_of(const char *text, const char *ids, size_t *skipped)
{
    struct lc_source s;
    struct lc_task task;
    size_t n = 0;
    int rc;
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    lc_source_open_stream(&s, f, "t.ndjson", ids);
    bodies[0] = '\0';
    while ((rc = lc_source_next(&s, &task)) == 1) {
        n += (size_t)snprintf(bodies + n, sizeof bodies - n, "%c%s\n", task.kind == LC_TASK_SELECT ? 'S' : 'O',
                              task.body.data);
        lc_task_close(&task);
    }
    if (rc < 0)
        snprintf(bodies + n, sizeof bodies - n, "!%s", s.why);
    if (skipped != NULL)
        *skipped = s.n_skipped;
    lc_source_close(&s); /* closes f */
    return bodies;
}

START_TEST(full_information_lines_become_selects)
{
    ck_assert_str_eq(requests_of("{\"user\":\"u1\",\"rewards\":{\"a\":0.5,\"b\":1}}\n", NULL, NULL),
                     "S{\"user\":\"u1\",\"candidates\":[\"a\",\"b\"]}\n");
    ck_assert_str_eq(
        requests_of("{\"user\":\"u\",\"context\":[0.1,2],\"candidates\":[{\"id\":\"a\",\"features\":[1.5]},\"b\"],"
                    "\"exclude\":[\"c\"],\"rewards\":{\"a\":1}}",
                    "run", NULL),
        "S{\"user\":\"u\",\"context\":[0.1,2],\"candidates\":[{\"id\":\"a\",\"features\":[1.5]},\"b\"],"
        "\"exclude\":[\"c\"],\"decision\":\"run-1\"}\n");
}
END_TEST

START_TEST(the_chosen_arm_earns_its_reward_or_the_default)
{
    char text[] = "{\"user\":\"u\",\"rewards\":{\"a\":0.5},\"default\":-1}\n{\"user\":\"u\",\"rewards\":{\"a\":0.5}}\n";
    struct lc_source s;
    struct lc_task task;
    lc_source_open_stream(&s, fmemopen(text, strlen(text), "r"), "t", NULL);
    ck_assert_int_eq(lc_source_next(&s, &task), 1);
    ck_assert_double_eq(lc_task_reward(&task, "a"), 0.5);
    ck_assert_double_eq(lc_task_reward(&task, "z"), -1.0);
    lc_task_close(&task);
    ck_assert_int_eq(lc_source_next(&s, &task), 1);
    ck_assert_double_eq(lc_task_reward(&task, "z"), 0.0);
    ck_assert_uint_eq(task.line, 2);
    lc_task_close(&task);
    ck_assert_int_eq(lc_source_next(&s, &task), 0);
    lc_source_close(&s);
}
END_TEST

START_TEST(logged_lines_become_observations)
{
    ck_assert_str_eq(requests_of("{\"user\":\"u\",\"context\":[],\"arm\":\"a\",\"reward\":1,\"propensity\":0.25}\n\n"
                                 "{\"user\":\"u\",\"arm\":{\"id\":\"b\",\"features\":[1]},\"reward\":0}\n",
                                 NULL, NULL),
                     "O{\"user\":\"u\",\"arm\":\"a\",\"reward\":1,\"propensity\":0.25}\n"
                     "O{\"user\":\"u\",\"arm\":{\"id\":\"b\",\"features\":[1]},\"reward\":0}\n");
}
END_TEST

#define DECIDED(seq, id, arm, more)                                                                                    \
    "{\"seq\":" seq ",\"type\":\"decided\",\"decision\":\"" id "\",\"user\":\"u\",\"context\":[],\"arm\":\"" arm       \
    "\"," more "}\n"
#define REWARDED(seq, id, more) "{\"seq\":" seq ",\"type\":\"rewarded\",\"decision\":\"" id "\"," more "}\n"

START_TEST(our_log_pairs_decisions_with_their_rewards)
{
    size_t skipped = 0;
    const char *log = "{\"seq\":1,\"type\":\"configured\",\"version\":1,\"configuration\":{}}\n" DECIDED(
        "2", "d1", "a", "\"features\":[1,2],\"propensity\":0.5")
        DECIDED("3", "d2", "b", "\"features\":null,\"propensity\":1") REWARDED("4", "d2", "\"reward\":0.5")
            REWARDED("5", "d1", "\"reward\":1") REWARDED("6", "d1", "\"reward\":2")
                REWARDED("7", "d9",
                         "\"reward\":2") "{\"seq\":8,\"type\":\"observed\",\"user\":\"v\",\"context\":[],\"arm\":\"c\","
                                         "\"features\":[3],\"reward\":7}\n";
    ck_assert_str_eq(requests_of(log, NULL, &skipped),
                     "O{\"user\":\"u\",\"arm\":\"b\",\"reward\":0.5,\"propensity\":1}\n"
                     "O{\"user\":\"u\",\"arm\":{\"id\":\"a\",\"features\":[1,2]},\"reward\":1,\"propensity\":0.5}\n"
                     "O{\"user\":\"v\",\"arm\":{\"id\":\"c\",\"features\":[3]},\"reward\":7}\n");
    ck_assert_uint_eq(skipped, 5); /* configured, two decided, a second reward, a reward of no decision */
}
END_TEST

START_TEST(slots_of_a_slate_are_rewarded_one_by_one)
{
    const char *log = DECIDED("1", "d1", "a",
                              "\"features\":null,\"propensity\":1,\"slate\":[{\"arm\":\"a\",\"features\":null},"
                              "{\"arm\":\"b\",\"features\":[4]}]") REWARDED("2", "d1", "\"arm\":\"b\",\"reward\":3")
        REWARDED("3", "d1", "\"reward\":1") REWARDED("4", "d1", "\"arm\":\"zz\",\"reward\":1");
    ck_assert_str_eq(requests_of(log, NULL, NULL),
                     "O{\"user\":\"u\",\"arm\":{\"id\":\"b\",\"features\":[4]},\"reward\":3}\n"
                     "O{\"user\":\"u\",\"arm\":\"a\",\"reward\":1,\"propensity\":1}\n");
}
END_TEST

/* Each by its own context, else that of the line, and by its own conditional propensity. */
START_TEST(slots_with_names_teach_by_what_they_were_drawn_by)
{
    const char *log =
        "{\"seq\":1,\"type\":\"decided\",\"decision\":\"d1\",\"user\":\"u\",\"context\":[1],\"arm\":\"a\",\"features\":"
        "null,"
        "\"propensity\":0.5,\"slate\":[{\"arm\":\"a\",\"features\":null},{\"arm\":\"b\",\"features\":[4]},"
        "{\"arm\":\"c\",\"features\":null}],\"slots\":[{\"id\":\"x\",\"propensity\":0.5},"
        "{\"id\":\"y\",\"propensity\":0.25,\"context\":[2]},{\"id\":\"z\",\"propensity\":1}]}\n" REWARDED(
            "2", "d1", "\"arm\":\"b\",\"reward\":3") REWARDED("3", "d1", "\"arm\":\"c\",\"reward\":2")
            REWARDED("4", "d1", "\"arm\":\"a\",\"reward\":1") REWARDED("5", "d1", "\"reward\":0");
    ck_assert_str_eq(
        requests_of(log, NULL, NULL),
        "O{\"user\":\"u\",\"context\":[2],\"arm\":{\"id\":\"b\",\"features\":[4]},\"reward\":3,\"propensity\":0.25}\n"
        "O{\"user\":\"u\",\"context\":[1],\"arm\":\"c\",\"reward\":2,\"propensity\":1}\n"
        "O{\"user\":\"u\",\"context\":[1],\"arm\":\"a\",\"reward\":1,\"propensity\":0.5}\n"
        "O{\"user\":\"u\",\"context\":[1],\"arm\":\"a\",\"reward\":0,\"propensity\":0.5}\n");
}
END_TEST

START_TEST(users_that_are_numbers_go_through_as_they_are)
{
    ck_assert_str_eq(
        requests_of("{\"user\":42,\"rewards\":{\"a\":1}}\n{\"user\":42,\"arm\":\"a\",\"reward\":1}\n", NULL, NULL),
        "S{\"user\":42,\"candidates\":[\"a\"]}\nO{\"user\":42,\"arm\":\"a\",\"reward\":1}\n");
}
END_TEST

START_TEST(an_expiry_teaches_its_default_reward)
{
    const char *log = DECIDED("1", "d1", "a", "\"features\":null,\"propensity\":1") DECIDED(
        "2", "d2", "a",
        "\"features\":null,\"propensity\":1") "{\"seq\":3,\"type\":\"expired\",\"decision\":\"d1\"}\n"
                                              "{\"seq\":4,\"type\":\"expired\",\"decision\":\"d2\",\"reward\":0}\n";
    ck_assert_str_eq(requests_of(log, NULL, NULL), "O{\"user\":\"u\",\"arm\":\"a\",\"reward\":0,\"propensity\":1}\n");
}
END_TEST

/* Of a decision the time of its reward: that is when it could be learned. */
START_TEST(requests_know_when_they_happened)
{
    char text[] = "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1,\"at\":\"2026-11-22T10:00:00.250Z\"}\n"
                  "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1,\"time\":\"2026-11-22 10:00:01+00:00\"}\n"
                  "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1,\"at\":\"yesterday\"}\n" DECIDED(
                      "1", "d1", "a", "\"features\":null,\"at\":\"2026-11-22T10:00:02.000Z\"")
                      REWARDED("2", "d1", "\"reward\":1,\"at\":\"2026-11-22T10:00:09.000Z\"");
    const int64_t ten = 1795341600000, want[] = {ten + 250, ten + 1000, 0, ten + 9000};
    struct lc_source s;
    struct lc_task task;

    lc_source_open_stream(&s, fmemopen(text, strlen(text), "r"), "t", NULL);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(lc_source_next(&s, &task), 1);
        ck_assert_int_eq(task.at_ms, want[i]);
        lc_task_close(&task);
    }
    ck_assert_int_eq(lc_source_next(&s, &task), 0);
    lc_source_close(&s);
}
END_TEST

START_TEST(faults_name_the_line_and_stop_the_replay)
{
    ck_assert_ptr_nonnull(
        strstr(requests_of("{\"user\":\"u\",\"arm\":\"a\",\"reward\":1}\n{oops\n", NULL, NULL), "!t.ndjson:2: "));
    ck_assert_ptr_nonnull(
        strstr(requests_of("{\"arm\":\"a\",\"reward\":1}\n", NULL, NULL), "!t.ndjson:1: \"user\" is missing"));
    ck_assert_ptr_nonnull(strstr(requests_of("{\"user\":\"u\",\"arm\":\"a\"}\n", NULL, NULL), "!t.ndjson:1: neither"));
    ck_assert_ptr_nonnull(
        strstr(requests_of("{\"user\":\"u\",\"rewards\":[1]}\n", NULL, NULL), "!t.ndjson:1: \"rewards\" is an object"));
    ck_assert_ptr_nonnull(
        strstr(requests_of(DECIDED("1", "d", "a", "\"features\":null") DECIDED("2", "d", "a", "\"features\":null"),
                           NULL, NULL),
               "!t.ndjson:2: a decision that was there before"));
}
END_TEST

/* --- configuration paths (json.h) ------------------------------------------------------------------------ */

START_TEST(dotted_paths_set_fields_and_keep_the_others)
{
    char why[LC_WHY] = "";
    struct lc_text out = {0};
    struct json_t *v = lc_json_parse("{\"a\":{\"x\":1},\"n\":3}", 19, why);
    ck_assert_int_eq(lc_json_set(v, "a.y", "0.5", why), 0);
    ck_assert_int_eq(lc_json_set(v, "b.c.d", "true", why), 0);
    ck_assert_int_eq(lc_json_set(v, "algorithm", "lk-gp-ucb", why), 0);
    ck_assert_int_eq(lc_json_set(v, "n.x", "1", why), -1);
    ck_assert_ptr_nonnull(strstr(why, "n is not an object"));
    lc_json_write(v, false, &out);
    ck_assert_str_eq(out.data,
                     "{\"a\":{\"x\":1,\"y\":0.5},\"n\":3,\"b\":{\"c\":{\"d\":true}},\"algorithm\":\"lk-gp-ucb\"}");
    lc_text_close(&out);
    lc_json_free(v);
}
END_TEST

START_TEST(numbers_are_written_so_that_they_read_back)
{
    const double v[] = {0.1, 1.0 / 3.0, 1e-300, -2.5, 12345678901234567.0, 5e-324};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct lc_text t = {0};
        lc_text_number(&t, v[i]);
        ck_assert_double_eq(strtod(t.data, NULL), v[i]);
        lc_text_close(&t);
    }
    struct lc_text t = {0};
    lc_text_json(&t, "a\"b\\c\n\xC3\xA9");
    ck_assert_str_eq(t.data, "\"a\\\"b\\\\c\\u000a\xC3\xA9\"");
    lc_text_close(&t);
    ck_assert_str_eq(lc_thousands(1234567), "1,234,567");
    ck_assert_str_eq(lc_thousands(0), "0");
}
END_TEST

START_TEST(logs_of_other_formats_are_recognized_and_told)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"user,arm,reward\nu,a,1\n", "!t.ndjson:1: this looks like CSV: give --format csv"},
        {"who;what;clicked\nu;a;1\n",
         "!t.ndjson:1: this looks like CSV: give --format csv --map arm=COLUMN,reward=COLUMN,user=COLUMN; its columns "
         "are who;what;clicked"},
        {"\xef\xbb\xbf\"user\",\"arm\",\"reward\"\r\n", "!t.ndjson:1: this looks like CSV: give --format csv"},
        {"timestamp,item_id,position,click,propensity_score\n",
         "!t.ndjson:1: this looks like CSV of the Open Bandit Dataset: give --format obd"},
        {"{\"_label_cost\":-1,\"_label_Action\":1}\n",
         "!t.ndjson:1: this looks like Vowpal Wabbit's dsjson: give --format dsjson"},
        {"{\"c\":{\"_multi\":[{}]}}\n", "!t.ndjson:1: this looks like Vowpal Wabbit's dsjson: give --format dsjson"},
        {"\x1f\x8b\x08", "!t.ndjson:1: this file is packed: give --format obd, dsjson, ndjson or csv, which unpack it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(requests_of(cases[i].text, NULL, NULL), cases[i].want);
}
END_TEST

/* Behind a line that was understood the file is what it is, and a fault is a fault. */
START_TEST(a_file_that_began_well_is_not_guessed_at)
{
    const char *got = requests_of("{\"user\":\"u\",\"rewards\":{\"a\":1}}\nuser,arm,reward\n", NULL, NULL);
    ck_assert_ptr_nonnull(strstr(got, "!t.ndjson:2: "));
    ck_assert_ptr_null(strstr(got, "looks like"));
    ck_assert_ptr_null(strstr(requests_of("word\n", NULL, NULL), "looks like"));
    ck_assert_ptr_null(strstr(requests_of("{\"user\":\"u\"}\n", NULL, NULL), "looks like"));
}
END_TEST

int main(void)
{
    return KBT_RUN("replay", full_information_lines_become_selects, the_chosen_arm_earns_its_reward_or_the_default,
                   logged_lines_become_observations, our_log_pairs_decisions_with_their_rewards,
                   slots_of_a_slate_are_rewarded_one_by_one, slots_with_names_teach_by_what_they_were_drawn_by,
                   users_that_are_numbers_go_through_as_they_are, an_expiry_teaches_its_default_reward,
                   requests_know_when_they_happened, faults_name_the_line_and_stop_the_replay,
                   logs_of_other_formats_are_recognized_and_told, a_file_that_began_well_is_not_guessed_at) |
           KBT_RUN("text", dotted_paths_set_fields_and_keep_the_others, numbers_are_written_so_that_they_read_back);
}
