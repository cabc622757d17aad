/* A user who is erased from a log that three servers write: in all copies and models nothing is left of them, whatever
 * the log answers and whoever writes meanwhile. */
#include "shared_fixture.h"

#include <dirent.h>

#include "model/engine_read.h"

#define CONFIGURATION                                                                                                  \
    "{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},"                 \
    "\"arm_kernel\":{\"type\":\"rbf\"},\"reward_window_s\":1000}"
#define TUNED "{\"algorithm\":\"laplaced-by-arm\",\"reward_window_s\":1000}"
#define ARMS "{\"arms\":[{\"id\":\"a\",\"features\":[1]},{\"id\":\"b\",\"features\":[2]}]}"
#define PLAIN_ARMS "{\"arms\":[{\"id\":\"a\"},{\"id\":\"b\"}]}"
#define GRAPH "{\"edges\":[[\"u1\",\"u2\"],[\"u2\",\"u3\"]]}"
/* Somebody whose erasure changes nothing but that scales are found anew. */
#define GRAPH_WITH_ZED "{\"edges\":[[\"u1\",\"u2\"],[\"u2\",\"u3\"],[\"u1\",\"zed\"]]}"

static const char *const ghosts[] = {"ghost-0", "ghost-1", "ghost-2"};
static bool has_vectors;

static struct ld_op *op_erase(const char *user)
{
    struct ld_op *op = op_task(&ld_erasure);

    snprintf(op->user, sizeof op->user, "%s", user);
    return op;
}

static uint64_t content_of(struct ld_tenant *t)
{
    const uint64_t digest = kb_engine_content_digest(ld_tenant_read_lock(t, NULL));

    ld_tenant_read_unlock(t);
    return digest;
}

static void begin_log(uint64_t seed, const char *configuration)
{
    has_vectors = strcmp(configuration, CONFIGURATION) == 0;
    begin(seed, configuration);
    expect_status(node[0].t, op_arms(node[0].t, has_vectors ? ARMS : PLAIN_ARMS), 200);
    expect_status(node[0].t, op_graph(node[0].t, GRAPH), 200);
    for (int i = 0; i < N_NODES; i++) {
        node[i].world.snapshot_events = 7;
        follow(i);
    }
}

static void observe_at(struct ld_tenant *t, const char *user, int context, double reward, int want)
{
    char text[192], vector[32] = "";

    if (has_vectors)
        snprintf(vector, sizeof vector, "\"context\":[%d.5],", context);
    snprintf(text, sizeof text, "{\"user\":\"%s\",%s\"arm\":\"%s\",\"reward\":%.3f}", user, vector,
             context % 2 == 0 ? "a" : "b", reward);
    struct ld_op *op = op_observe(t, text, false);
    const int status = settle_op(t, op);
    ck_assert_msg(status == want || (want == 0 && (status == 200 || status == 503)), "%d: %s", status,
                  op->problem->detail);
    ld_op_free(op);
}

/* ---- what is left of them ------------------------------------------------------------------------------------ */

static bool has_text(const char *data, size_t n, const char *text)
{
    return memmem(data, n, text, strlen(text)) != NULL;
}

static void check_log(const char *text)
{
    struct ld_text lines;

    all_lines(&lines);
    ck_assert_msg(!has_text(lines.data, lines.n, text), "the log has %s", text);
    ld_text_close(&lines);
}

static void check_files(int i, const char *text)
{
    char path[400];
    struct dirent *entry;
    snprintf(path, sizeof path, "%s/tenants", node[i].dir);
    DIR *dir = opendir(path);

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/tenants/%.200s", node[i].dir, entry->d_name);
        FILE *f = fopen(path, "rb");
        static char data[8 << 20];
        const size_t n = f != NULL ? fread(data, 1, sizeof data, f) : 0;
        ck_assert_uint_lt(n, sizeof data);
        ck_assert_msg(!has_text(data, n, text), "%s has %s", path, text);
        if (f != NULL)
            fclose(f);
    }
    closedir(dir);
}

/* The model of a log of one server, which never had them. */
static uint64_t content_without(const char *configuration)
{
    struct fixture f;
    struct ld_text lines;

    fixture_open(&f, configuration);
    f.world.is_finishing_builds = true;
    expect_status(f.t, op_arms(f.t, has_vectors ? ARMS : PLAIN_ARMS), 200);
    expect_status(f.t, op_graph(f.t, GRAPH_WITH_ZED), 200);
    all_lines(&lines);
    for (char *at = lines.data, *stop; (stop = strchr(at, '\n')) != NULL; at = stop + 1) {
        *stop = '\0';
        if (strstr(at, "\"type\":\"observed\"") == NULL)
            continue;
        char user[16], arm[8], text[400];
        double context = 0, reward = 0;
        const char *facts = strstr(at, "\"user\"");
        ck_assert_ptr_nonnull(facts);
        ck_assert_int_eq(sscanf(facts, "\"user\":\"%15[^\"]\"", user), 1);
        ck_assert_int_eq(sscanf(strstr(at, "\"arm\""), "\"arm\":\"%7[^\"]\"", arm), 1);
        ck_assert_int_eq(sscanf(strstr(at, "\"reward\""), "\"reward\":%lf", &reward), 1);
        if (has_vectors)
            ck_assert_int_eq(sscanf(strstr(at, "\"context\""), "\"context\":[%lf]", &context), 1);
        snprintf(text, sizeof text,
                 has_vectors ? "{\"user\":\"%s\",\"arm\":\"%s\",\"reward\":%.3f,\"context\":[%.1f]}"
                             : "{\"user\":\"%s\",\"arm\":\"%s\",\"reward\":%.3f}",
                 user, arm, reward, context);
        expect_status(f.t, op_observe(f.t, text, false), 200);
    }
    ld_text_close(&lines);
    expect_status(f.t, op_erase("zed"), 200);
    const uint64_t digest = content_of(f.t);
    fixture_close(&f);
    return digest;
}

/* ---- random ops ---------------------------------------------------------------------------------------------- */

static bool is_meddling;
static int running;
static size_t n_erased, n_refused, n_number;

/* Of ghosts everything, of others what the other log is told as well. */
static void act(int i)
{
    struct ld_tenant *t = node[i].t;
    const char *ghost = ghosts[draw(3)];
    char text[192], id[32];
    struct ld_op *op = NULL;

    switch (draw(10)) {
    case 0:
        op = op_erase(ghost);
        break;
    case 1:
    case 2:
        snprintf(id, sizeof id, "ghost-d%zu", n_number++);
        snprintf(text, sizeof text, "{\"user\":\"%s\"%s}", ghost, has_vectors ? ",\"context\":[0.5]" : "");
        op = op_select(t, text, id);
        break;
    case 3:
        snprintf(text, sizeof text, "{\"decision\":\"ghost-d%zu\",\"reward\":0.5}", n_number > 0 ? draw(n_number) : 0);
        op = op_rewards(t, text);
        break;
    case 4:
        observe_at(t, ghost, (int)draw(5), 1, 0);
        return;
    default:
        snprintf(text, sizeof text, "u%d", (int)draw(9));
        observe_at(t, text, (int)draw(5), (double)draw(1000) / 1000, 0);
        return;
    }
    const int status = settle_op(t, op);
    n_erased += op->type == LD_OP_TASK && status == 200;
    n_refused += op->type == LD_OP_TASK && status == 503;
    ck_assert_msg(status == 200 || status == 404 || status == 410 || status == 503, "%d %s", status,
                  op->problem->detail);
    ld_op_free(op);
}

static void meddle(void *arg)
{
    (void)arg;
    if (is_meddling || draw(3) != 0)
        return;
    is_meddling = true;
    act((running + 1 + (int)draw(N_NODES - 1)) % N_NODES);
    is_meddling = false;
}

static void step(void)
{
    running = (int)draw(N_NODES);
    clock_ms += (int64_t)draw(50);
    switch (draw(16)) {
    case 0:
        follow(running);
        break;
    case 1:
        ld_tenant_release(node[running].t);
        open_node(running, NULL);
        break;
    case 2:
        ld_tenant_tick(node[running].t, node[running].world.now_ms());
        run_all(node[running].t);
        break;
    default:
        act(running);
    }
}

/* Everybody is gone, for good. */
static void erase_all(void)
{
    for (size_t i = 0; i < 3; i++) {
        struct ld_op *op = op_erase(ghosts[i]);
        const int status = settle_op(node[0].t, op);
        ck_assert_msg(status == 200 || status == 404, "%d %s", status, op->problem->detail);
        ld_op_free(op);
    }
    expect_status(node[0].t, op_erase("u4"), 200); /* scales are found anew in any case */
    expect_status(node[0].t, op_erase("u4"), 404);
}

START_TEST(what_is_erased_is_gone_from_all_servers_whatever_the_log_answers)
{
    const char *configuration = _i % 2 == 0 ? CONFIGURATION : TUNED;

    n_erased = n_refused = n_number = 0;
    begin_log(170 + (uint64_t)_i, configuration);
    for (int i = 0; i < N_NODES; i++)
        node[i].world.inline_work = _i % 4 < 2 ? KB_INLINE_WORK : 1;
    shared.meddle = meddle;
    shared.odds = (struct kbt_shared_odds){
        .behind = 0.04, .down = 0.03, .unknown_in = 0.06, .unknown_out = 0.06, .unsettled = 0.4, .untaken = 0.03};
    for (int i = 0; i < 300; i++)
        step();
    ck_assert(n_erased > 5 && n_refused > 0 && shared.n_rewrites >= n_erased && shared.n_unknown_in > 0 &&
              shared.n_unknown_out > 0 && shared.n_unsettled > 0);
    shared.odds = (struct kbt_shared_odds){.down = 0};
    shared.meddle = NULL;
    erase_all();
    for (int i = 0; i < N_NODES; i++) {
        follow(i);
        ld_tenant_tick(node[i].t, clock_ms);
        run_all(node[i].t);
        check_files(i, "ghost-");
        ck_assert_uint_eq(content_of(node[i].t), content_of(node[0].t));
    }
    check_log("ghost-");
    ck_assert_uint_eq(content_of(node[0].t), content_without(configuration));
    compare_nodes();
    end();
}
END_TEST

/* ---- one thing at a time ----------------------------------------------------------------------------------------- */

static void fill(int n)
{
    for (int i = 0; i < n; i++) {
        char user[16];

        snprintf(user, sizeof user, "u%d", i % 5);
        observe_at(node[i % N_NODES].t, i % 3 == 0 ? ghosts[0] : user, i % 7, i / (double)n, 200);
    }
    for (int i = 0; i < N_NODES; i++)
        follow(i);
}

static void check_all_are_renewed(void)
{
    for (int i = 0; i < N_NODES; i++) {
        struct ld_tenant_shared view;

        follow(i);
        ld_tenant_tick(node[i].t, clock_ms);
        run_all(node[i].t);
        ld_tenant_shared(node[i].t, &view);
        ck_assert_uint_eq(view.generation, the_tenant()->generation);
        ck_assert(!view.is_forked);
        ck_assert(!kb_engine_knows_user(node[i].t->engine, ghosts[0]));
        check_files(i, ghosts[0]);
    }
    check_log(ghosts[0]);
    compare_nodes();
}

START_TEST(a_server_that_was_down_meanwhile_renews_its_copy_when_it_starts)
{
    begin_log(5, CONFIGURATION);
    fill(30);
    ld_tenant_release(node[2].t);
    expect_status(node[0].t, op_erase(ghosts[0]), 200);
    observe_at(node[1].t, "u1", 3, 0.25, 200); /* renews it first */
    open_node(2, NULL);
    ck_assert_uint_eq(digest_of(node[2].t), digest_of(node[1].t));
    check_all_are_renewed();
    end();
}
END_TEST

START_TEST(an_outcome_that_nobody_knows_is_told_so_and_is_the_logs)
{
    begin_log(6, CONFIGURATION);
    fill(30);
    shared.odds = (struct kbt_shared_odds){.unknown_out = _i == 0, .unknown_in = _i == 1, .unsettled = 1};
    struct ld_op *op = op_erase(ghosts[0]);
    ck_assert_int_eq(settle_op(node[0].t, op), 503);
    ck_assert_ptr_nonnull(strstr(op->problem->detail, "not known whether"));
    ld_op_free(op);
    shared.odds = (struct kbt_shared_odds){.down = 0};
    follow(1);
    observe_at(node[1].t, "u1", 3, 0.25, 200);
    expect_status(node[0].t, op_erase(ghosts[0]), _i == 0 ? 200 : 404);
    check_all_are_renewed();
    end();
}
END_TEST

START_TEST(a_log_that_takes_nothing_has_nothing_changed)
{
    begin_log(7, CONFIGURATION);
    fill(30);
    const uint64_t before = digest_of(node[0].t);
    shared.odds = (struct kbt_shared_odds){.down = _i == 0, .behind = _i == 1, .untaken = _i == 2};
    expect_status(node[0].t, op_erase(ghosts[0]), 503);
    shared.odds = (struct kbt_shared_odds){.down = 0};
    ck_assert_uint_eq(digest_of(node[0].t), before);
    ck_assert_uint_eq(the_tenant()->generation, 0);
    compare_nodes();
    expect_status(node[1].t, op_erase(ghosts[0]), 200);
    check_all_are_renewed();
    end();
}
END_TEST

static void erase_another(void *arg)
{
    shared.meddle = NULL;
    expect_status(node[1].t, op_erase(arg), 200);
}

/* The other one is done while the first is about to take the turn to ask, or to write. */
START_TEST(two_users_who_are_erased_at_two_servers_at_once_are_both_gone)
{
    static char other[] = "ghost-1";

    begin_log(8, CONFIGURATION);
    observe_at(node[1].t, other, 2, 1, 200);
    fill(30);
    shared.n_takes = 0;
    shared.meddle_at = 1 + (size_t)_i;
    shared.arg = other;
    shared.meddle = erase_another;
    expect_status(node[0].t, op_erase(ghosts[0]), 200);
    ck_assert_ptr_null(shared.meddle);
    check_log(other);
    check_all_are_renewed();
    ck_assert_uint_eq(shared.n_rewrites, 2);
    end();
}
END_TEST

static void observe_ghost(void *arg)
{
    (void)arg;
    shared.meddle = NULL;
    observe_at(node[1].t, ghosts[0], 6, 0.75, 200);
}

START_TEST(what_the_user_does_elsewhere_while_it_goes_on_is_erased_too)
{
    begin_log(9, CONFIGURATION);
    fill(30);
    shared.n_takes = 0;
    shared.meddle_at = 1 + (size_t)_i;
    shared.meddle = observe_ghost;
    expect_status(node[0].t, op_erase(ghosts[0]), 200);
    ck_assert_ptr_null(shared.meddle);
    check_all_are_renewed();
    end();
}
END_TEST

START_TEST(a_user_whom_another_server_has_just_met_is_known)
{
    begin_log(10, CONFIGURATION);
    observe_at(node[1].t, ghosts[0], 1, 1, 200);
    expect_status(node[0].t, op_erase(ghosts[0]), 200);
    expect_status(node[2].t, op_erase(ghosts[0]), 404);
    check_all_are_renewed();
    end();
}
END_TEST

START_TEST(servers_that_have_not_read_it_are_named)
{
    begin_log(11, CONFIGURATION);
    fill(30);
    shared.laggard = "b";
    struct ld_op *op = op_erase(ghosts[0]);
    ck_assert_int_eq(settle_op(node[0].t, op), 202);
    char want[96];
    snprintf(want, sizeof want, "{\"erased\":true,\"events\":10,\"seq\":%llu,\"waiting_for\":[\"b\"]}",
             (unsigned long long)node[0].t->seq);
    ck_assert_str_eq(op->reply, want);
    ld_op_free(op);
    check_all_are_renewed();
    end();
}
END_TEST

/* The log has it; the copy follows when the disk takes writes again. */
START_TEST(a_full_disk_of_the_server_that_erases_keeps_nothing)
{
    begin_log(12, CONFIGURATION);
    fill(30);
    limit_files(1);
    struct ld_op *op = op_erase(ghosts[0]);
    const int status = settle_op(node[0].t, op);
    mend_disk();
    ck_assert_msg(status == 200 || status == 503, "%d", status);
    ld_op_free(op);
    ld_tenant_tick(node[0].t, clock_ms);
    run_all(node[0].t);
    if (status == 503)
        expect_status(node[0].t, op_erase(ghosts[0]), 200);
    check_all_are_renewed();
    end();
}
END_TEST

START_TEST(a_log_that_was_set_back_behind_an_erasure_is_found_out)
{
    struct ld_tenant_shared view;

    begin_log(13, CONFIGURATION);
    fill(30);
    expect_status(node[0].t, op_erase(ghosts[0]), 200);
    the_tenant()->generation = 0;
    follow(0);
    ld_tenant_shared(node[0].t, &view);
    ck_assert(view.is_forked);
    the_tenant()->generation = 1;
    follow(0);
    ld_tenant_shared(node[0].t, &view);
    ck_assert(!view.is_forked);
    check_all_are_renewed();
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_erase");
    TCase *random = tcase_create("random");

    tcase_set_timeout(random, 240);
    tcase_add_loop_test(random, what_is_erased_is_gone_from_all_servers_whatever_the_log_answers, 0, 16);
    suite_add_tcase(suite, random);
    TCase *single = tcase_create("single");
    tcase_set_timeout(single, 60);
    tcase_add_test(single, a_server_that_was_down_meanwhile_renews_its_copy_when_it_starts);
    tcase_add_loop_test(single, an_outcome_that_nobody_knows_is_told_so_and_is_the_logs, 0, 2);
    tcase_add_loop_test(single, a_log_that_takes_nothing_has_nothing_changed, 0, 3);
    tcase_add_loop_test(single, two_users_who_are_erased_at_two_servers_at_once_are_both_gone, 0, 2);
    tcase_add_loop_test(single, what_the_user_does_elsewhere_while_it_goes_on_is_erased_too, 0, 2);
    tcase_add_test(single, a_user_whom_another_server_has_just_met_is_known);
    tcase_add_test(single, servers_that_have_not_read_it_are_named);
    tcase_add_test(single, a_full_disk_of_the_server_that_erases_keeps_nothing);
    tcase_add_test(single, a_log_that_was_set_back_behind_an_erasure_is_found_out);
    suite_add_tcase(suite, single);
    return kbt_run_suite(suite);
}
