/* The commit cycle: batches, what depends on what, aggregation, windows, and a disk that refuses. */
#include "tenant_fixture.h"
#include "tenant/batch.h"
#include "tenant/line.h"
#include "tenant/tenant_state.h"

/* The C library's own, and ours before it: where `failing` is set the next allocation of that size fails. Sanitizers
 * have allocators of their own. */
static size_t failing;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_FAILING_MALLOC 1
void *__libc_malloc(size_t n);

void *malloc(size_t n)
{
    const bool fails = failing != 0 && n == failing;

    failing = fails ? 0 : failing;
    return fails ? NULL : __libc_malloc(n);
}
#else
#define HAS_FAILING_MALLOC 0
#endif

#define PLAIN "{\"algorithm\":\"ucb\"}"
#define LEARNING                                                                                                       \
    "{\"algorithm\":\"laplaced\",\"context_dim\":2,\"arm_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},"               \
    "\"arm_kernel\":{\"type\":\"rbf\"}}"

#define SELECT_AB "{\"user\":\"u\",\"candidates\":[\"a\",\"b\"]}"

static void decide(struct fixture *f, const char *id)
{
    expect_status(f->t, op_select(f->t, SELECT_AB, id), 200);
}

/* ---- batches ----------------------------------------------------------------------------------------- */

enum { N_TRAFFIC = 40 };

/* Decisions over contexts and then their rewards, with observations between; `turn` ops share a turn. */
static uint64_t run_traffic(size_t turn, uint64_t *n_commits)
{
    struct fixture f;
    struct ld_op *op[3 * N_TRAFFIC];
    char text[256], id[16];
    size_t n = 0;

    fixture_open(&f, LEARNING);
    expect_status(f.t, op_graph(f.t, "{\"edges\":[[\"u0\",\"u1\"],[\"u1\",\"u2\",2.5]]}"), 200);
    for (int i = 0; i < N_TRAFFIC; i++) {
        snprintf(id, sizeof id, "d%d", i);
        snprintf(text, sizeof text,
                 "{\"user\":\"u%d\",\"context\":[%d,0.5],\"candidates\":[{\"id\":\"a\",\"features\":[1]}]}", i % 4,
                 i % 7);
        op[n++] = op_select(f.t, text, id);
    }
    for (int i = 0; i < N_TRAFFIC; i++) {
        snprintf(text, sizeof text, "{\"decision\":\"d%d\",\"reward\":%d}", i, i % 3);
        op[n++] = op_rewards(f.t, text);
        snprintf(text, sizeof text,
                 "{\"user\":\"u%d\",\"context\":[0,%d],\"arm\":{\"id\":\"b\",\"features\":[2]},\"reward\":0.25}", i % 3,
                 i % 5);
        op[n++] = op_observe(f.t, text, false);
    }
    for (size_t i = 0; i < n; i++) {
        ld_tenant_submit(f.t, op[i]);
        if ((i + 1) % turn == 0)
            run_all(f.t);
    }
    run_all(f.t);
    for (size_t i = 0; i < n; i++) {
        ck_assert_ptr_eq(op[i]->arg, op[i]);
        ck_assert_msg(op[i]->problem->status == 0, "%zu: %s", i, op[i]->problem->detail);
        ld_op_free(op[i]);
    }
    ck_assert_uint_eq(counts_of(f.t).learned, 2 * N_TRAFFIC);
    ck_assert_uint_eq(counts_of(f.t).pending, 0);
    *n_commits = f.metrics.commits;
    ck_assert_uint_eq(f.metrics.committed_rows, counts_of(f.t).seq);
    const uint64_t digest = digest_of(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    fixture_close(&f);
    return digest;
}

START_TEST(a_batch_of_selects_and_rewards_equals_one_by_one)
{
    uint64_t n_single, n_seven, n_all;
    const uint64_t digest = run_traffic(1, &n_single);

    ck_assert_uint_eq(run_traffic(7, &n_seven), digest);
    ck_assert_uint_eq(run_traffic(3 * N_TRAFFIC, &n_all), digest);
    ck_assert_uint_ge(n_single, 3 * N_TRAFFIC);
    ck_assert_uint_lt(n_seven, n_single);
    ck_assert_uint_lt(n_all, n_single / 3);
}
END_TEST

START_TEST(ops_of_one_turn_share_one_commit)
{
    struct fixture f;
    struct ld_op *op[100];
    char id[16];

    fixture_open(&f, PLAIN);
    const uint64_t before = f.metrics.commits;
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "d%d", i);
        op[i] = op_select(f.t, SELECT_AB, id);
        ld_tenant_submit(f.t, op[i]);
    }
    ck_assert_uint_eq(ld_tenant_queue_depth(f.t), 100);
    run_all(f.t);
    ck_assert_uint_eq(ld_tenant_queue_depth(f.t), 0);
    ck_assert_uint_eq(f.metrics.commits, before + 1);
    ck_assert_uint_eq(counts_of(f.t).pending, 100);
    for (int i = 0; i < 100; i++)
        ld_op_free(op[i]);
    fixture_close(&f);
}
END_TEST

/* An op's end in the middle of a turn brings the next one into the line. */
static struct ld_op *late_comer;
static struct ld_tenant *late_tenant;

static void submit_late_comer(struct ld_op *op)
{
    mark_done(op);
    ld_tenant_submit(late_tenant, late_comer);
}

START_TEST(what_comes_while_others_are_staged_shares_their_commit)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    struct ld_op *first = op_select(f.t, SELECT_AB, "first"),
                 *unknown = op_rewards(f.t, "{\"decision\":\"nobody\",\"reward\":1}");
    late_comer = op_select(f.t, SELECT_AB, "late");
    late_tenant = f.t;
    unknown->done = submit_late_comer;
    ld_tenant_submit(f.t, first);
    ld_tenant_submit(f.t, unknown);
    const uint64_t before = f.metrics.commits;
    ck_assert(!ld_tenant_run_writer(f.t));
    ck_assert_int_eq(unknown->problem->status, 404);
    ck_assert_ptr_eq(first->arg, first);
    ck_assert_ptr_eq(late_comer->arg, late_comer);
    ck_assert_uint_eq(f.metrics.commits, before + 1);
    ck_assert_uint_eq(counts_of(f.t).pending, 2);
    ld_op_free(first);
    ld_op_free(unknown);
    ld_op_free(late_comer);
    fixture_close(&f);
}
END_TEST

/* LD_TURN_OPS of them (line.h); the rest waits for the next turn. */
/* What the tenant says of its size when it answers. */
static size_t arms_when_told;

static void look_at_arms(struct ld_op *op)
{
    struct ld_size size;

    mark_done(op);
    ld_tenant_size(late_tenant, &size);
    arms_when_told = size.active_arms;
}

START_TEST(who_is_told_of_a_catalogue_is_judged_by_it)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    struct ld_op *op = op_arms(f.t, "{\"arms\":[\"a\",\"b\",\"c\"]}");
    late_tenant = f.t;
    op->done = look_at_arms;
    ld_tenant_submit(f.t, op);
    ck_assert(!ld_tenant_run_writer(f.t));
    ck_assert_uint_eq(arms_when_told, 3);
    ld_op_free(op);
    fixture_close(&f);
}
END_TEST

START_TEST(a_turn_takes_no_more_than_its_share)
{
    enum { N = 2500 };
    static struct ld_op *op[N];
    struct fixture f;
    size_t n_turns = 1;
    char id[16];

    fixture_open(&f, PLAIN);
    for (int i = 0; i < N; i++) {
        snprintf(id, sizeof id, "d%d", i);
        op[i] = op_select(f.t, SELECT_AB, id);
        ld_tenant_submit(f.t, op[i]);
    }
    while (ld_tenant_run_writer(f.t))
        n_turns++;
    ck_assert_uint_eq(n_turns, 3);
    ck_assert_uint_eq(counts_of(f.t).pending, N);
    for (int i = 0; i < N; i++) {
        ck_assert_ptr_eq(op[i]->arg, op[i]);
        ld_op_free(op[i]);
    }
    fixture_close(&f);
}
END_TEST

START_TEST(a_reward_behind_its_decision_in_one_turn_is_applied)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    struct ld_op *select = op_select(f.t, SELECT_AB, "d"),
                 *reward = op_rewards(f.t, "{\"decision\":\"d\",\"reward\":1}");
    struct ld_op *again = op_rewards(f.t, "[{\"decision\":\"d\",\"reward\":1},{\"decision\":\"d\",\"reward\":2}]");
    ld_tenant_submit(f.t, select);
    ld_tenant_submit(f.t, reward);
    ld_tenant_submit(f.t, again);
    run_all(f.t);
    ck_assert_str_eq(reward->reply, APPLIED);
    ck_assert_msg(strstr(again->reply, "{\"applied\":false,\"duplicate\":true}") != NULL, "%s", again->reply);
    ck_assert_msg(strstr(again->reply, "409") != NULL, "%s", again->reply);
    ck_assert_uint_eq(counts_of(f.t).learned, 1);
    ld_op_free(select);
    ld_op_free(reward);
    ld_op_free(again);
    fixture_close(&f);
}
END_TEST

START_TEST(a_full_queue_refuses_at_once)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    f.world.max_queue = 1;
    struct ld_op *first = op_select(f.t, SELECT_AB, "d1"), *second = op_select(f.t, SELECT_AB, "d2");
    ld_tenant_submit(f.t, first);
    ld_tenant_submit(f.t, second);
    ck_assert_ptr_eq(second->arg, second);
    ck_assert_int_eq(second->problem->status, 503);
    ck_assert_int_gt(second->problem->retry_after_s, 0);
    ck_assert_str_eq(second->problem->limit, "queue");
    ck_assert_double_eq(second->problem->max, 1);
    ck_assert_uint_eq(f.metrics.refused_busy, 1);
    ck_assert_uint_eq(f.metrics.limited[LD_LIMITED_QUEUE], 1);
    run_all(f.t);
    ck_assert_int_eq(first->reply_status, 200);
    ld_op_free(first);
    ld_op_free(second);
    fixture_close(&f);
}
END_TEST

/* Else a job would have ended, and nobody would ever hear of it. */
START_TEST(the_end_of_a_job_is_heard_whatever_waits)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    f.world.max_queue = 1;
    struct ld_op *verify = op_task(&ld_verification), *first = op_select(f.t, SELECT_AB, "d1"),
                 *second = op_select(f.t, SELECT_AB, "d2");
    ld_tenant_submit(f.t, verify);
    ck_assert(ld_tenant_run_writer(f.t)); /* the job has run: it waits for a turn */
    ck_assert_ptr_null(verify->arg);
    ld_tenant_submit(f.t, first);
    ld_tenant_submit(f.t, second);
    ck_assert_int_eq(second->problem->status, 503);
    ck_assert(!ld_tenant_run_writer(f.t));
    ck_assert_ptr_eq(verify->arg, verify);
    ck_assert_int_eq(verify->problem->status, 0);
    ck_assert_int_eq(first->reply_status, 200);
    ld_op_free(verify);
    ld_op_free(first);
    ld_op_free(second);
    fixture_close(&f);
}
END_TEST

/* Of bodies that are too large together the first has room in any case, and what is taken from the line makes room. */
START_TEST(a_queue_of_large_bodies_refuses_at_once)
{
    struct fixture f;
    struct ld_op *op[4];

    fixture_open(&f, PLAIN);
    f.world.max_queue_bytes = 1000;
    for (int i = 0; i < 4; i++) {
        char id[] = {'d', (char)('0' + i), '\0'};
        op[i] = op_select(f.t, SELECT_AB, id);
        op[i]->bytes = i == 0 ? 5000 : 600;
    }
    ld_tenant_submit(f.t, op[0]);
    ld_tenant_submit(f.t, op[1]);
    ck_assert_int_eq(op[1]->problem->status, 503);
    ck_assert_str_eq(op[1]->problem->limit, "queue_bytes");
    ck_assert_int_gt(op[1]->problem->retry_after_s, 0);
    run_all(f.t);
    ck_assert_int_eq(op[0]->reply_status, 200);
    ld_tenant_submit(f.t, op[2]);
    op[3]->bytes = 401;
    ld_tenant_submit(f.t, op[3]);
    ck_assert_int_eq(op[3]->problem->status, 503);
    run_all(f.t);
    ck_assert_int_eq(op[2]->reply_status, 200);
    ck_assert_uint_eq(f.metrics.limited[LD_LIMITED_QUEUE_BYTES], 2);
    for (int i = 0; i < 4; i++)
        ld_op_free(op[i]);
    fixture_close(&f);
}
END_TEST

/* A turn that takes two seconds for one op foretells ten for five of them. */
START_TEST(who_is_refused_is_told_how_long_the_line_takes)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    f.world.max_queue = 5;
    struct ld_op *op[6];
    atomic_store(&f.t->queue->us_per_op, 2000000);
    for (int i = 0; i < 6; i++) {
        char id[] = {'d', (char)('0' + i), '\0'};
        op[i] = op_select(f.t, SELECT_AB, id);
        ld_tenant_submit(f.t, op[i]);
    }
    ck_assert_int_eq(op[5]->problem->retry_after_s, 10);
    run_all(f.t);
    ck_assert_int_lt(atomic_load(&f.t->queue->us_per_op), 2000000);
    ck_assert_int_eq(atomic_load(&f.t->queue->turn_us), 0);
    for (int i = 0; i < 6; i++)
        ld_op_free(op[i]);
    fixture_close(&f);
}
END_TEST

START_TEST(open_decisions_are_bounded)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    f.world.max_pending = 2;
    decide(&f, "d1");
    decide(&f, "d2");
    expect_status(f.t, op_select(f.t, SELECT_AB, "d3"), 503);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":1}"), APPLIED);
    decide(&f, "d3");
    fixture_close(&f);
}
END_TEST

/* ---- decisions --------------------------------------------------------------------------------------- */

#define NAMED "{\"user\":\"u\",\"candidates\":[\"a\",\"b\"],\"decision\":\"mine\"}"

START_TEST(a_named_select_is_answered_once_and_for_all)
{
    struct fixture f;

    fixture_open(&f, "{\"algorithm\":\"ts\"}");
    struct ld_op *first = op_select(f.t, NAMED, NULL), *twin = op_select(f.t, NAMED, NULL);
    ld_tenant_submit(f.t, first);
    ld_tenant_submit(f.t, twin);
    run_all(f.t);
    ck_assert_int_eq(first->reply_status, 200);
    ck_assert_str_eq(twin->reply, first->reply);
    ck_assert_uint_eq(counts_of(f.t).decided, 1);
    expect_reply(f.t, op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"c\"],\"decision\":\"mine\"}", NULL),
                 first->reply);
    expect_status(f.t, op_select(f.t, "{\"user\":\"v\",\"candidates\":[\"c\"],\"decision\":\"mine\"}", NULL), 409);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"mine\",\"reward\":1}"), APPLIED);
    fixture_restart(&f);
    expect_reply(f.t, op_select(f.t, NAMED, NULL), first->reply);
    ck_assert_uint_eq(counts_of(f.t).decided, 1);
    ld_op_free(first);
    ld_op_free(twin);
    fixture_close(&f);
}
END_TEST

START_TEST(an_id_that_the_server_gave_is_refused_to_callers)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    decide(&f, "mine");
    expect_status(f.t, op_select(f.t, NAMED, NULL), 409);
    fixture_close(&f);
}
END_TEST

START_TEST(a_dry_run_leaves_no_trace)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    const uint64_t digest = digest_of(f.t);
    struct ld_op *op = op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"a\"],\"dry_run\":true}", "d");
    ck_assert_int_eq(op->reply_status, 200);
    ck_assert_ptr_nonnull(strstr(op->reply, "\"arm\":\"a\""));
    ld_op_free(op);
    ck_assert_uint_eq(digest_of(f.t), digest);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":1}"), 404);
    fixture_close(&f);
}
END_TEST

static struct ld_op *op_slot_reward(struct ld_tenant *t, char arm)
{
    char body[80];

    (void)snprintf(body, sizeof body, "{\"decision\":\"d\",\"arm\":\"%c\",\"reward\":%d}", arm, arm);
    return op_rewards(t, body);
}

START_TEST(slots_of_a_slate_are_rewarded_by_arm)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"a\",\"b\",\"c\"],\"top\":2}", "d"), 200);
    const struct kb_engine *e = ld_tenant_read_lock(f.t, NULL);
    bool has_reward;
    double reward;
    char left = 0; /* the arm that the slate does not show */
    for (char arm[2] = "a"; arm[0] <= 'c'; arm[0]++)
        if (kb_engine_slot_reward(e, "d", arm, &has_reward, &reward) != KB_OK) {
            ck_assert_int_eq(left, 0);
            left = arm[0];
        }
    ld_tenant_read_unlock(f.t);
    for (char arm = 'a'; arm <= 'c'; arm++) {
        if (arm == left)
            expect_status(f.t, op_slot_reward(f.t, arm), 404);
        else
            expect_reply(f.t, op_slot_reward(f.t, arm), APPLIED);
    }
    expect_reply(f.t, op_slot_reward(f.t, left == 'b' ? 'c' : 'b'), DUPLICATE);
    fixture_close(&f);
}
END_TEST

/* ---- aggregation ------------------------------------------------------------------------------------- */

START_TEST(first_keeps_the_first_reward)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    decide(&f, "d");
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":1.5}"), APPLIED);
    const uint64_t digest = digest_of(f.t);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":1.5}"), DUPLICATE);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":2}"), 409);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"nobody\",\"reward\":2}"), 404);
    ck_assert_uint_eq(digest_of(f.t), digest);
    fixture_close(&f);
}
END_TEST

START_TEST(sum_adds_rewards_up)
{
    struct fixture f;

    fixture_open(&f, "{\"algorithm\":\"ucb\",\"aggregation\":\"sum\"}");
    decide(&f, "d");
    for (int i = 0; i < 3; i++)
        expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":0.5}"), APPLIED);
    ck_assert_double_eq_tol(counts_of(f.t).reward_sum, 1.5, 1e-12);
    ck_assert_uint_eq(counts_of(f.t).learned, 1);
    fixture_close(&f);
}
END_TEST

START_TEST(last_replaces_the_reward)
{
    struct fixture f;

    fixture_open(&f, "{\"algorithm\":\"ucb\",\"aggregation\":\"last\"}");
    decide(&f, "d");
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":5}"), APPLIED);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":2}"), APPLIED);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":2}"), DUPLICATE);
    ck_assert_double_eq_tol(counts_of(f.t).reward_sum, 2, 1e-12);
    ck_assert_uint_eq(counts_of(f.t).learned, 1);
    fixture_close(&f);
}
END_TEST

START_TEST(an_array_of_rewards_is_answered_in_place)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    decide(&f, "d1");
    decide(&f, "d2");
    struct ld_op *op = op_rewards(f.t, "[{\"decision\":\"d1\",\"reward\":1},{\"decision\":\"no\",\"reward\":1},"
                                       "{\"decision\":\"d1\",\"reward\":1},{\"decision\":\"d2\",\"reward\":3}]");
    ck_assert_int_eq(settle_op(f.t, op), 200);
    static const char begin[] = "[" APPLIED ",{\"applied\":false,\"type\":\"/problems/no-decision\",\"status\":404,";
    ck_assert_msg(strncmp(op->reply, begin, strlen(begin)) == 0, "%s", op->reply);
    ck_assert_msg(strstr(op->reply, "," DUPLICATE "," APPLIED "]") != NULL, "%s", op->reply);
    ck_assert_uint_eq(counts_of(f.t).learned, 2);
    ld_op_free(op);
    fixture_close(&f);
}
END_TEST

/* ---- windows ----------------------------------------------------------------------------------------- */

static void tick(struct fixture *f, int64_t after_ms)
{
    clock_ms += after_ms;
    ld_tenant_tick(f->t, clock_ms);
    run_all(f->t);
}

START_TEST(a_window_closes_with_the_default_reward)
{
    struct fixture f;

    fixture_open(&f, "{\"algorithm\":\"ucb\",\"reward_window_s\":10,\"default_reward\":-1}");
    decide(&f, "d1");
    decide(&f, "d2");
    tick(&f, 9999);
    ck_assert_uint_eq(counts_of(f.t).pending, 2);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":4}"), APPLIED);
    tick(&f, 1);
    ck_assert_uint_eq(counts_of(f.t).pending, 0);
    ck_assert_uint_eq(counts_of(f.t).expired, 1);
    ck_assert_uint_eq(counts_of(f.t).learned, 2);
    ck_assert_double_eq_tol(counts_of(f.t).reward_sum, 3, 1e-12);
    const uint64_t digest = digest_of(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    fixture_close(&f);
}
END_TEST

START_TEST(a_late_reward_is_kept_and_not_learned)
{
    struct fixture f;

    fixture_open(&f, "{\"algorithm\":\"ucb\",\"reward_window_s\":10,\"default_reward\":null}");
    decide(&f, "d");
    tick(&f, 10000);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"d\",\"reward\":1}"), 410);
    ck_assert_uint_eq(counts_of(f.t).late, 1);
    ck_assert_uint_eq(counts_of(f.t).learned, 0);
    ck_assert_double_eq(counts_of(f.t).reward_sum, 0);
    fixture_close(&f);
}
END_TEST

START_TEST(more_windows_than_one_turn_takes_all_close)
{
    struct fixture f;
    char id[16];

    fixture_open(&f, "{\"algorithm\":\"ucb\",\"reward_window_s\":1}");
    for (int i = 0; i < 2500; i++) {
        snprintf(id, sizeof id, "d%d", i);
        struct ld_op *op = op_select(f.t, SELECT_AB, id);
        op->done = ld_op_free;
        ld_tenant_submit(f.t, op);
    }
    run_all(f.t);
    ck_assert_uint_eq(counts_of(f.t).pending, 2500);
    tick(&f, 1000);
    ck_assert_uint_eq(counts_of(f.t).pending, 0);
    ck_assert_uint_eq(counts_of(f.t).expired, 2500);
    fixture_close(&f);
}
END_TEST

START_TEST(a_deferred_decision_learns_only_once_activated)
{
    struct fixture f;

    fixture_open(&f, "{\"algorithm\":\"ucb\",\"reward_window_s\":10,\"default_reward\":0.5}");
    expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"a\"],\"defer\":true}", "d1"), 200);
    expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"a\"],\"defer\":true}", "d2"), 200);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":1}"), 409);
    expect_reply(f.t, op_activate(f.t, "{\"decision\":\"d1\"}"), "{\"activated\":true}");
    expect_reply(f.t, op_activate(f.t, "{\"decision\":\"d1\"}"), "{\"activated\":false,\"duplicate\":true}");
    expect_status(f.t, op_activate(f.t, "{\"decision\":\"no\"}"), 404);
    tick(&f, 10000);
    ck_assert_uint_eq(counts_of(f.t).expired, 2);
    ck_assert_uint_eq(counts_of(f.t).learned, 1);
    ck_assert_double_eq_tol(counts_of(f.t).reward_sum, 0.5, 1e-12);
    expect_status(f.t, op_activate(f.t, "{\"decision\":\"d2\"}"), 410);
    fixture_close(&f);
}
END_TEST

/* ---- observations ------------------------------------------------------------------------------------ */

START_TEST(observations_are_all_or_nothing)
{
    struct fixture f;

    fixture_open(&f, LEARNING);
    expect_status(f.t, op_arms(f.t, "{\"arms\":[{\"id\":\"known\",\"features\":[3]}]}"), 200);
    const uint64_t digest = digest_of(f.t);
    struct ld_op *op = op_observe(f.t,
                                  "{\"user\":\"u\",\"context\":[0,1],\"arm\":\"known\",\"reward\":1}\n"
                                  "{\"user\":\"u\",\"context\":[5,1],\"arm\":\"known\",\"reward\":1}\n"
                                  "{\"user\":\"u\",\"context\":[0,2],\"arm\":\"unknown\",\"reward\":1}\n",
                                  true);
    ck_assert_int_eq(settle_op(f.t, op), 400);
    ck_assert_str_eq(op->problem->errors[0].pointer, "/2/arm");
    ld_op_free(op);
    ck_assert_uint_eq(digest_of(f.t), digest);
    expect_reply(
        f.t,
        op_observe(f.t,
                   "{\"user\":\"u\",\"context\":[0,1],\"arm\":\"known\",\"reward\":1}\n"
                   "{\"user\":\"u\",\"context\":[0,2],\"arm\":{\"id\":\"new\",\"features\":[1]},\"reward\":1}\n",
                   true),
        "{\"observed\":2}");
    ck_assert_uint_eq(counts_of(f.t).learned, 2);
    fixture_close(&f);
}
END_TEST

static int keep_features(void *arg, const struct ld_row *row)
{
    if (row->type == KB_EV_OBSERVED)
        strcat(strcat(arg, strstr(row->text, "\"features\":")), "\n");
    return 0;
}

START_TEST(an_observation_is_logged_with_the_features_of_its_time)
{
    struct fixture f;
    char lines[1024] = "";

    fixture_open(&f, LEARNING);
    expect_status(f.t, op_arms(f.t, "{\"arms\":[{\"id\":\"a\",\"features\":[3]}]}"), 200);
    const char *body = "{\"user\":\"u\",\"context\":[0,1],\"arm\":\"a\",\"reward\":1}";
    struct ld_op *op[3] = {op_observe(f.t, body, false), op_arms(f.t, "{\"arms\":[{\"id\":\"a\",\"features\":[4]}]}"),
                           op_observe(f.t, body, false)};
    for (size_t i = 0; i < 3; i++)
        ld_tenant_submit(f.t, op[i]);
    run_all(f.t);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(op[i]->problem->status, 0);
        ld_op_free(op[i]);
    }
    ck_assert_int_eq(ld_store_read(ld_tenant_store(f.t), 0, 100, keep_features, lines), 0);
    ck_assert_str_eq(lines, "\"features\":[3],\"reward\":1}\n\"features\":[4],\"reward\":1}\n");
    fixture_close(&f);
}
END_TEST

/* ---- settings ---------------------------------------------------------------------------------------- */

START_TEST(settings_that_change_nothing_write_nothing)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    const uint64_t seq = counts_of(f.t).seq;
    expect_status(f.t, op_settings(PLAIN), 200);
    ck_assert_uint_eq(counts_of(f.t).seq, seq);
    expect_status(f.t, op_settings("{\"algorithm\":\"ucb\",\"durability\":\"relaxed\"}"), 200);
    ck_assert_uint_eq(counts_of(f.t).seq, seq + 1);
    ck_assert_uint_eq(counts_of(f.t).version, 2);
    fixture_restart(&f);
    const struct ld_settings *settings;
    ld_tenant_read_lock(f.t, &settings);
    ck_assert(settings->is_relaxed);
    ld_tenant_read_unlock(f.t);
    fixture_close(&f);
}
END_TEST

START_TEST(dimensions_move_only_while_nothing_is_known)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    struct ld_op *early = op_select(f.t, SELECT_AB, "d");
    expect_status(f.t, op_settings(LEARNING), 200);
    expect_status(f.t, early, 409); /* decided for the dimensions of before */
    const char *body = "{\"user\":\"u\",\"context\":[0,1],\"candidates\":[{\"id\":\"a\",\"features\":[1]}]}";
    expect_status(f.t, op_select(f.t, body, "d"), 200);
    struct ld_op *op = op_settings(PLAIN);
    ck_assert_int_eq(settle_op(f.t, op), 409);
    ck_assert_str_eq(op->problem->errors[0].pointer, "/context_dim");
    ld_op_free(op);
    fixture_close(&f);
}
END_TEST

START_TEST(a_body_decoded_for_other_dimensions_is_not_decided)
{
    struct fixture f;
    struct ld_select select;
    uint32_t context_dim, arm_dim;

    fixture_open(&f, PLAIN);
    struct ld_op *op = op_from(f.t, LD_OP_EVENT, SELECT_AB, false, &context_dim, &arm_dim);
    ck_assert_int_eq(ld_decode_select(op->doc, context_dim, arm_dim, &select, ld_op_problem(op)), 0);
    expect_status(f.t, op_settings(LEARNING), 200); /* the query's vectors are too short from here on */
    ck_assert_int_eq(ld_tenant_select(f.t, &select, "d", op, ld_op_problem(op)), -1);
    ck_assert_int_eq(op->problem->status, 409);
    ld_op_free(op);
    fixture_close(&f);
}
END_TEST

START_TEST(dimensions_that_change_in_the_same_turn_are_seen)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    struct ld_op *settings = op_settings(LEARNING), *select = op_select(f.t, SELECT_AB, "d");
    struct ld_op *observe = op_observe(f.t, "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1}", false);
    ld_tenant_submit(f.t, settings);
    ld_tenant_submit(f.t, select);
    ld_tenant_submit(f.t, observe);
    run_all(f.t);
    ck_assert_int_eq(settings->problem->status, 0);
    ck_assert_int_eq(select->problem->status, 409);
    ck_assert_int_eq(observe->problem->status, 409);
    ld_op_free(settings);
    ld_op_free(select);
    ld_op_free(observe);
    fixture_close(&f);
}
END_TEST

/* ---- durability -------------------------------------------------------------------------------------- */

START_TEST(relaxed_answers_before_the_commit_and_commit_after_it)
{
    for (int is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        struct fixture f;

        fixture_open(&f, is_relaxed ? "{\"algorithm\":\"ucb\",\"durability\":\"relaxed\"}" : PLAIN);
        struct ld_op *op = op_select(f.t, SELECT_AB, "d");
        limit_files(0);
        ld_tenant_submit(f.t, op);
        run_all(f.t);
        mend_disk();
        ck_assert_int_eq(op->problem->status, is_relaxed ? 0 : 503);
        ck_assert_uint_eq(counts_of(f.t).decided, 0); /* the price of relaxed: this answer is lost */
        ld_op_free(op);
        op = op_select(f.t, SELECT_AB, "e");
        op->done = ld_op_free;
        ld_tenant_submit(f.t, op);
        run_all(f.t);
        ck_assert_uint_eq(counts_of(f.t).decided, 1);
        fixture_close(&f);
    }
}
END_TEST

START_TEST(a_disk_that_refuses_changes_nothing_and_heals)
{
    struct fixture f;
    struct ld_op *op[6];
    int status[6];
    const char *body = "{\"user\":\"u\",\"context\":[0,1],\"candidates\":[{\"id\":\"a\",\"features\":[1]}]}";

    fixture_open(&f, LEARNING);
    expect_status(f.t, op_select(f.t, body, "d1"), 200);
    const uint64_t digest = digest_of(f.t);
    op[0] = op_select(f.t, body, "d2");
    op[1] = op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":1}");
    op[2] = op_rewards(f.t, "[{\"decision\":\"d1\",\"reward\":1},{\"decision\":\"no\",\"reward\":1}]");
    op[3] = op_arms(f.t, "{\"arms\":[{\"id\":\"x\",\"features\":[3]}]}");
    op[4] = op_settings("{\"algorithm\":\"laplaced\",\"context_dim\":2,\"arm_dim\":1,\"seed\":5}");
    op[5] = op_rewards(f.t, "{\"decision\":\"no\",\"reward\":1}"); /* needs no commit */
    limit_files(0); /* no assertions until it is mended: Check writes a file, too */
    for (size_t i = 0; i < 6; i++) {
        ld_tenant_submit(f.t, op[i]);
        run_all(f.t);
        status[i] = op[i]->problem->status;
    }
    tick(&f, 250);
    const bool is_failing = ld_tenant_is_failing(f.t);
    mend_disk();
    for (size_t i = 0; i < 6; i++) {
        ck_assert_msg(status[i] == (i < 5 ? 503 : 404), "%zu: %d", i, status[i]);
        ck_assert((op[i]->problem->retry_after_s > 0) == (i < 5));
        ld_op_free(op[i]);
    }
    ck_assert_msg(is_failing, "the probe was taken in by a disk that still refuses");
    ck_assert_uint_eq(digest_of(f.t), digest);
    tick(&f, 250);
    ck_assert(!ld_tenant_is_failing(f.t));
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":1}"), APPLIED);
    const uint64_t after = digest_of(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), after);
    fixture_close(&f);
}
END_TEST

/* The arms stand in a batch of their own, whose commit fails before the rewards are looked at. */
START_TEST(what_needs_no_commit_is_answered_in_the_turn_whose_disk_has_failed)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    expect_status(f.t, op_select(f.t, SELECT_AB, "d1"), 200);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":1}"), APPLIED);
    struct ld_op *lost = op_arms(f.t, "{\"arms\":[{\"id\":\"x\"}]}");
    struct ld_op *again = op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":1}");
    struct ld_op *other = op_rewards(f.t, "{\"decision\":\"d1\",\"reward\":2}");
    struct ld_op *unknown = op_rewards(f.t, "{\"decision\":\"no\",\"reward\":1}");
    limit_files(0);
    ld_tenant_submit(f.t, lost);
    ld_tenant_submit(f.t, again);
    ld_tenant_submit(f.t, other);
    ld_tenant_submit(f.t, unknown);
    run_all(f.t);
    mend_disk();
    ck_assert_int_eq(lost->problem->status, 503);
    ck_assert_int_eq(again->problem->status, 0);
    ck_assert_int_eq(again->reply_status, 200);
    ck_assert_int_eq(other->problem->status, 409);
    ck_assert_int_eq(unknown->problem->status, 404);
    ld_op_free(lost);
    ld_op_free(again);
    ld_op_free(other);
    ld_op_free(unknown);
    fixture_close(&f);
}
END_TEST

#define SEEN(id, reward) "{\"user\":\"u\",\"arm\":\"a\",\"reward\":" #reward ",\"id\":\"" id "\"}"

/* What is in the batch counts like what is in the log. */
START_TEST(an_observation_is_known_in_the_batch_that_holds_it)
{
    struct fixture f;
    struct ld_op *op[4];

    fixture_open(&f, PLAIN);
    op[0] = op_observe(f.t, SEEN("one", 1), false);
    op[1] = op_observe(f.t, SEEN("two", 1), false);
    op[2] = op_observe(f.t, SEEN("one", 1), false);
    op[3] = op_observe(f.t, SEEN("two", 2), false);
    for (size_t i = 0; i < 4; i++)
        ld_tenant_submit(f.t, op[i]);
    run_all(f.t);
    ck_assert_str_eq(op[0]->reply, "{\"observed\":1}");
    ck_assert_str_eq(op[1]->reply, "{\"observed\":1}");
    ck_assert_str_eq(op[2]->reply, "{\"observed\":0,\"duplicates\":1}");
    ck_assert_int_eq(op[3]->problem->status, 409);
    ck_assert_str_eq(op[3]->problem->errors[0].pointer, "/id");
    ck_assert_uint_eq(counts_of(f.t).observed, 2);
    for (size_t i = 0; i < 4; i++)
        ld_op_free(op[i]);
    fixture_close(&f);
}
END_TEST

/* And what was lost with its batch is not known. */
START_TEST(an_observation_that_a_disk_refused_may_be_sent_again)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    struct ld_op *op = op_observe(f.t, SEEN("one", 1), false);
    struct ld_op *twin = op_observe(f.t, SEEN("one", 1), false);
    limit_files(0);
    ld_tenant_submit(f.t, op);
    ld_tenant_submit(f.t, twin);
    run_all(f.t);
    mend_disk();
    ck_assert_int_eq(op->problem->status, 503);
    ck_assert_int_eq(twin->problem->status, 503);
    ld_op_free(op);
    ld_op_free(twin);
    tick(&f, 250);
    expect_reply(f.t, op_observe(f.t, SEEN("one", 1), false), "{\"observed\":1}");
    expect_reply(f.t, op_observe(f.t, SEEN("one", 1) "\n" SEEN("one", 1) "\n" SEEN("two", 1), true),
                 "{\"observed\":1,\"duplicates\":2}");
    ck_assert_uint_eq(counts_of(f.t).observed, 2);
    fixture_close(&f);
}
END_TEST

/* A WAL that has its blocks already takes a small transaction on a full disk. */
START_TEST(a_full_disk_is_not_taken_for_a_healed_one)
{
    struct fixture f;
    struct ld_op *op[500];
    struct stat wal;
    char path[128], id[16];
    bool is_failing[3];

    fixture_open(&f, PLAIN);
    for (int i = 0; i < 500; i++) {
        snprintf(id, sizeof id, "d%d", i);
        op[i] = op_select(f.t, SELECT_AB, id);
        op[i]->done = ld_op_free;
    }
    ld_tenant_checkpoint(f.t);
    snprintf(path, sizeof path, "%s/tenants/t.db-wal", f.dir);
    ck_assert_int_eq(stat(path, &wal), 0);
    limit_files((rlim_t)wal.st_size); /* no assertions until it is mended: Check writes a file, too */
    for (int i = 0; i < 500; i++)
        ld_tenant_submit(f.t, op[i]);
    run_all(f.t);
    is_failing[0] = ld_tenant_is_failing(f.t);
    tick(&f, 250);
    is_failing[1] = ld_tenant_is_failing(f.t);
    mend_disk();
    tick(&f, 250);
    is_failing[2] = ld_tenant_is_failing(f.t);
    ck_assert(is_failing[0]);
    ck_assert(is_failing[1]);
    ck_assert(!is_failing[2]);
    ck_assert_uint_eq(counts_of(f.t).decided, 0);
    fixture_close(&f);
}
END_TEST

/* Rewards that teach new points close batches by admissions, so an array spans several commits; the disk breaks in
 * between. Under `sum` the items of the commits before must not be called lost, or a retry would add them twice. */
START_TEST(an_array_that_spans_a_failing_commit_tells_which_items_are_in)
{
    struct fixture f;
    char text[1024] = "[";
    int n_applied = 0, n_lost = 0;

    fixture_open(&f, LEARNING);
    for (int i = 0; i < 6; i++) {
        char select[128], id[16];
        snprintf(select, sizeof select,
                 "{\"user\":\"u\",\"context\":[%d,0],\"candidates\":[{\"id\":\"a\",\"features\":[1]}]}", 10 * i);
        snprintf(id, sizeof id, "d%d", i);
        expect_status(f.t, op_select(f.t, select, id), 200);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s{\"decision\":\"d%d\",\"reward\":1}",
                 i > 0 ? "," : "", i);
    }
    strcat(text, "]");
    struct ld_op *op = op_rewards(f.t, text);
    limit_files((rlim_t)ld_store_wal_bytes(f.t->store) + 50000); /* room for some of the commits */
    ld_tenant_submit(f.t, op);
    run_all(f.t);
    mend_disk();
    ck_assert_int_eq(op->reply_status, 200);
    for (const char *at = op->reply; (at = strstr(at, "{\"applied\":")) != NULL; at++)
        *(strncmp(at, APPLIED, strlen(APPLIED)) == 0 ? &n_applied : &n_lost) += 1;
    ck_assert_int_gt(n_applied, 0);
    ck_assert_int_gt(n_lost, 0);
    ck_assert_ptr_nonnull(strstr(op->reply, "\"status\":503"));
    ck_assert_uint_eq(counts_of(f.t).learned, (uint64_t)n_applied);
    ld_op_free(op);
    fixture_close(&f);
}
END_TEST

START_TEST(a_deleted_tenant_answers_404_and_takes_its_files_along)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    struct ld_op *waiting = op_select(f.t, SELECT_AB, "d1"), *after = op_select(f.t, SELECT_AB, "d2");
    ld_tenant_submit(f.t, waiting);
    struct ld_tenant *held = ld_tenant_hold(f.t);
    ld_tenant_doom(f.t);
    run_all(f.t);
    ck_assert_int_eq(waiting->problem->status, 404);
    ld_tenant_submit(f.t, after);
    ck_assert_int_eq(after->problem->status, 404);
    ck_assert(fixture_has_file(&f, "tenants/t.db"));
    ld_tenant_release(held);
    ck_assert(fixture_has_file(&f, "tenants/t.db"));
    ld_op_free(waiting);
    ld_op_free(after);
    ld_tenant_release(f.t);
    ck_assert(!fixture_has_file(&f, "tenants/t.db"));
    ck_assert(!fixture_has_file(&f, "tenants/t.db-wal"));
    f.t = NULL;
    fixture_close(&f);
}
END_TEST

/* ---- quota ---------------------------------------------------------------------------------------------- */

#define QUOTA (1u << 20)

START_TEST(what_would_take_memory_beyond_the_quota_is_refused_and_changes_nothing)
{
    struct fixture f;
    int n = 0, status = 200;
    char json[128];

    fixture_world(&f);
    f.world.tenant_quota = QUOTA;
    f.settings = fixture_settings("{\"algorithm\":\"ucb\"}");
    fixture_start(&f);
    struct ld_op *op = NULL;
    for (; n < 100000 && status == 200; n++) {
        ld_op_free(op);
        snprintf(json, sizeof json, "{\"user\":\"u%d\",\"arm\":\"a\",\"reward\":1}", n);
        op = op_observe(f.t, json, false);
        status = settle_op(f.t, op);
    }
    ck_assert_int_eq(status, 507);
    ck_assert_msg(strstr(op->problem->detail, "1048576") != NULL, "%s", op->problem->detail);
    ld_op_free(op);
    const uint64_t digest = digest_of(f.t);
    const size_t bytes = kb_engine_bytes(ld_tenant_read_lock(f.t, NULL));
    ld_tenant_read_unlock(f.t);
    ck_assert_uint_le(bytes, QUOTA);
    expect_status(f.t, op_observe(f.t, json, false), 507);
    expect_status(f.t, op_arms(f.t, "{\"arms\":[\"b\",\"c\"]}"), 200); /* arms are few: there is room for them */
    ck_assert(digest_of(f.t) != digest);
    /* What is known goes on: it takes nothing. */
    expect_status(f.t, op_observe(f.t, "{\"user\":\"u1\",\"arm\":\"a\",\"reward\":0}", false), 200);
    expect_status(f.t, op_select(f.t, "{\"user\":\"u1\",\"candidates\":[\"a\",\"b\"],\"dry_run\":true}", "x"), 200);
    fixture_restart(&f);
    expect_status(f.t, op_observe(f.t, json, false), 507);
    f.world.tenant_quota = 0;
    expect_status(f.t, op_observe(f.t, json, false), 200);
    fixture_close(&f);
}
END_TEST

/* A refusal has several parts; memory that is there again for the second must not make it a success. */
START_TEST(an_op_that_there_is_no_memory_to_refuse_in_words_is_refused_all_the_same)
{
    struct ld_op *op = ld_op_new(LD_OP_EVENT);

    failing = HAS_FAILING_MALLOC ? sizeof(struct ld_problem) : 0;
    ld_op_refuse_busy(op, "the tenant's queue is full");
    ck_assert_uint_eq(failing, 0);
    ck_assert_int_eq(op->problem->status, 503);
    ck_assert_int_ge(op->problem->retry_after_s, 1);
    ld_problem_add(ld_op_problem(op), "/a", "nobody reads this");
    ck_assert_int_eq(op->problem->status, 503);
    ld_op_free(op);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "commit", an_op_that_there_is_no_memory_to_refuse_in_words_is_refused_all_the_same,
        what_would_take_memory_beyond_the_quota_is_refused_and_changes_nothing,
        a_batch_of_selects_and_rewards_equals_one_by_one, ops_of_one_turn_share_one_commit,
        what_comes_while_others_are_staged_shares_their_commit, who_is_told_of_a_catalogue_is_judged_by_it,
        a_turn_takes_no_more_than_its_share, a_reward_behind_its_decision_in_one_turn_is_applied,
        a_full_queue_refuses_at_once, the_end_of_a_job_is_heard_whatever_waits, a_queue_of_large_bodies_refuses_at_once,
        who_is_refused_is_told_how_long_the_line_takes, open_decisions_are_bounded,
        a_named_select_is_answered_once_and_for_all, an_id_that_the_server_gave_is_refused_to_callers,
        a_dry_run_leaves_no_trace, slots_of_a_slate_are_rewarded_by_arm, first_keeps_the_first_reward,
        sum_adds_rewards_up, last_replaces_the_reward, an_array_of_rewards_is_answered_in_place,
        a_window_closes_with_the_default_reward, a_late_reward_is_kept_and_not_learned,
        more_windows_than_one_turn_takes_all_close, a_deferred_decision_learns_only_once_activated,
        observations_are_all_or_nothing, an_observation_is_logged_with_the_features_of_its_time,
        dimensions_that_change_in_the_same_turn_are_seen, settings_that_change_nothing_write_nothing,
        dimensions_move_only_while_nothing_is_known, a_body_decoded_for_other_dimensions_is_not_decided,
        relaxed_answers_before_the_commit_and_commit_after_it, a_disk_that_refuses_changes_nothing_and_heals,
        what_needs_no_commit_is_answered_in_the_turn_whose_disk_has_failed,
        an_observation_is_known_in_the_batch_that_holds_it, an_observation_that_a_disk_refused_may_be_sent_again,
        a_full_disk_is_not_taken_for_a_healed_one, an_array_that_spans_a_failing_commit_tells_which_items_are_in,
        a_deleted_tenant_answers_404_and_takes_its_files_along);
}
