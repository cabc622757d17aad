/* The scheduler: real threads, real tenants; each op is answered once, each tenant has one writer at a time. */
#include <pthread.h>
#include <stdatomic.h>

#include "tenant/sched.h"
#include "tenant_fixture.h"

enum { N_TENANTS = 3, N_CLIENTS = 4, N_ROUNDS = 150 };

static struct ld_sched *sched;
static atomic_int n_ticks, n_terminations, n_reloads;

static atomic_bool is_loop_held, has_loop_stopped;

static void on_tick(void *arg, int64_t now_ms)
{
    (void)arg;
    while (atomic_load(&is_loop_held)) {
        atomic_store(&has_loop_stopped, true);
        usleep(1000);
    }
    ck_assert_int_gt(now_ms, 1700000000000);
    atomic_fetch_add(&n_ticks, 1);
}

static void on_terminate(void *arg)
{
    (void)arg;
    atomic_fetch_add(&n_terminations, 1);
    ld_sched_stop(sched);
}

static void on_reload(void *arg)
{
    (void)arg;
    atomic_fetch_add(&n_reloads, 1);
}

static void new_sched(void)
{
    const struct ld_sched_hooks hooks = {.tick = on_tick, .terminate = on_terminate, .reload = on_reload};

    ck_assert_int_eq(ld_sched_new(&sched, &hooks), 0);
}

static void *run_loop(void *arg)
{
    (void)arg;
    ld_sched_run(sched);
    return NULL;
}

/* Waits up to ten seconds for *value to reach want. */
static bool wait_for(atomic_int *value, int want)
{
    for (int i = 0; i < 10000 && atomic_load(value) < want; i++)
        usleep(1000);
    return atomic_load(value) >= want;
}

/* ---- work -------------------------------------------------------------------------------------------- */

static atomic_int n_worked;

static void work(void *arg)
{
    usleep(2000);
    atomic_fetch_add(&n_worked, *(int *)arg);
}

START_TEST(stopping_waits_for_the_work_that_was_given)
{
    int one = 1;

    new_sched();
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(ld_sched_give(sched, LD_POOL, work, &one, SIZE_MAX), 0);
    ld_sched_stop(sched);
    ld_sched_run(sched);
    ck_assert_int_eq(atomic_load(&n_worked), 50);
    ld_sched_free(sched);
}
END_TEST

static atomic_int n_inside, most_inside, may_leave;

static void stay(void *arg)
{
    const int n = atomic_fetch_add(&n_inside, 1) + 1;
    int most = atomic_load(&most_inside);

    while (n > most && !atomic_compare_exchange_weak(&most_inside, &most, n))
        ;
    while (!atomic_load(&may_leave))
        usleep(1000);
    atomic_fetch_sub(&n_inside, 1);
    atomic_fetch_add(&n_worked, *(int *)arg);
}

/* Requests that take their time have half of the pool, and a line with an end; other work finds a thread all the same.
 */
START_TEST(requests_never_have_more_than_half_of_the_pool)
{
    int one = 1, thousand = 1000, n_in = 0, n_out = 0;
    pthread_t loop;

    setenv("UV_THREADPOOL_SIZE", "6", 1);
    new_sched();
    ck_assert_int_eq(pthread_create(&loop, NULL, run_loop, NULL), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ld_sched_give(sched, LD_POOL_SERVES, stay, &one, 10), 0);
    ck_assert(wait_for(&n_inside, 3));
    for (int i = 0; i < 30; i++)
        *(ld_sched_give(sched, LD_POOL_SERVES, stay, &one, 10) == 0 ? &n_in : &n_out) += 1;
    ck_assert_int_eq(n_in, 10);
    ck_assert_int_eq(n_out, 20);
    ck_assert_int_eq(ld_sched_give(sched, LD_POOL, work, &thousand, SIZE_MAX), 0);
    ck_assert(wait_for(&n_worked, 1000));
    ck_assert_int_eq(atomic_load(&n_inside), 3);
    atomic_store(&may_leave, 1);
    ck_assert(wait_for(&n_worked, 1013));
    ck_assert_int_eq(atomic_load(&most_inside), 3);
    ld_sched_stop(sched);
    pthread_join(loop, NULL);
    ld_sched_free(sched);
}
END_TEST

START_TEST(a_line_of_transfers_has_an_end)
{
    int one = 1, n_in = 0;

    new_sched();
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(ld_sched_give(sched, LD_TRANSFERS, stay, &one, 3), 0);
    ck_assert(wait_for(&n_inside, 2));
    for (int i = 0; i < 10; i++)
        n_in += ld_sched_give(sched, LD_TRANSFERS, stay, &one, 3) == 0;
    ck_assert_int_eq(n_in, 3);
    atomic_store(&may_leave, 1);
    ld_sched_stop(sched);
    ld_sched_run(sched);
    ck_assert_int_eq(atomic_load(&n_worked), 5);
    ld_sched_free(sched);
}
END_TEST

START_TEST(a_scheduler_that_never_ran_can_be_freed)
{
    new_sched();
    ld_sched_free(sched);
}
END_TEST

/* ---- timer and signals -------------------------------------------------------------------------------- */

START_TEST(ticks_and_signals_reach_their_hooks)
{
    pthread_t loop;

    new_sched();
    ck_assert_int_eq(pthread_create(&loop, NULL, run_loop, NULL), 0);
    ck_assert(wait_for(&n_ticks, 2));
    kill(getpid(), SIGHUP);
    ck_assert(wait_for(&n_reloads, 1));
    ck_assert_int_eq(atomic_load(&n_terminations), 0);
    kill(getpid(), SIGTERM);
    pthread_join(loop, NULL);
    ck_assert_int_eq(atomic_load(&n_terminations), 1);
    ld_sched_free(sched);
}
END_TEST

/* ---- tenants ----------------------------------------------------------------------------------------- */

static struct fixture f[N_TENANTS];
static atomic_int n_answered, n_refused;
static atomic_int last_turn[N_TENANTS][N_CLIENTS]; /* order of answers, by tenant and client */

struct tag {
    int tenant, client, round;
};

static void count_answer(struct ld_op *op)
{
    struct tag *tag = op->arg;

    if (op->problem->status != 0)
        atomic_fetch_add(&n_refused, 1);
    else if (atomic_exchange(&last_turn[tag->tenant][tag->client], tag->round) > tag->round)
        atomic_fetch_add(&n_refused, 1); /* answered out of order */
    free(tag);
    ld_op_free(op);
    atomic_fetch_add(&n_answered, 1);
}

static void submit(struct ld_op *op, int tenant, int client, int round)
{
    struct tag *tag = malloc(sizeof *tag);

    *tag = (struct tag){tenant, client, round};
    op->done = count_answer;
    op->arg = tag;
    ld_tenant_submit(f[tenant].t, op);
}

/* Decisions, each followed by its reward, which may share a batch with it. */
static void *be_client(void *arg)
{
    const int client = *(int *)arg;
    char text[256], id[32];

    for (int i = 0; i < N_ROUNDS; i++) {
        const int tenant = i % N_TENANTS;
        snprintf(id, sizeof id, "c%d-%d", client, i);
        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"context\":[%d],\"candidates\":[\"a\",\"b\",\"c\"]}", client,
                 i % 5);
        submit(op_select(f[tenant].t, text, id), tenant, client, 2 * i);
        snprintf(text, sizeof text, "{\"decision\":\"%s\",\"reward\":%d}", id, i % 2);
        submit(op_rewards(f[tenant].t, text), tenant, client, 2 * i + 1);
    }
    return NULL;
}

static void open_tenants(void)
{
    for (int i = 0; i < N_TENANTS; i++) {
        fixture_open(&f[i], "{\"algorithm\":\"laplaced\",\"context_dim\":1,\"context_kernel\":{\"type\":\"rbf\"}}");
        f[i].world.sched = sched;
        f[i].world.snapshot_events = 40;
        for (int c = 0; c < N_CLIENTS; c++)
            last_turn[i][c] = -1;
    }
}

START_TEST(clients_beside_the_writer_are_answered_once_and_in_order)
{
    pthread_t loop, client[N_CLIENTS];
    int number[N_CLIENTS];

    new_sched();
    open_tenants();
    ck_assert_int_eq(pthread_create(&loop, NULL, run_loop, NULL), 0);
    for (int c = 0; c < N_CLIENTS; c++) {
        number[c] = c;
        ck_assert_int_eq(pthread_create(&client[c], NULL, be_client, &number[c]), 0);
    }
    for (int c = 0; c < N_CLIENTS; c++)
        pthread_join(client[c], NULL);
    ck_assert(wait_for(&n_answered, 2 * N_CLIENTS * N_ROUNDS));
    ld_sched_stop(sched);
    pthread_join(loop, NULL);
    ck_assert_int_eq(atomic_load(&n_answered), 2 * N_CLIENTS * N_ROUNDS);
    ck_assert_int_eq(atomic_load(&n_refused), 0);
    for (int i = 0; i < N_TENANTS; i++) {
        f[i].world.sched = ld_sched_inline();
        ck_assert_uint_eq(ld_tenant_n_holders(f[i].t), 1);
        ck_assert_uint_eq(counts_of(f[i].t).learned, N_CLIENTS * N_ROUNDS / N_TENANTS);
        ck_assert_uint_gt(f[i].metrics.snapshots, 0);
        const uint64_t digest = digest_of(f[i].t);
        f[i].world.verify_on_start = true;
        fixture_restart(&f[i]);
        ck_assert_uint_eq(digest_of(f[i].t), digest);
        fixture_close(&f[i]);
    }
    ld_sched_free(sched);
}
END_TEST

#define N_LINES 200
#define N_BODIES 400

/* Rewards of users with long names: pages by the hundred in each commit. */
static struct ld_op *op_of_lines(int first)
{
    static char text[N_LINES * 400], name[256];
    size_t n = 0;

    memset(name, 'u', sizeof name - 1);
    for (int i = 0; i < N_LINES; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"user\":\"%s\",\"arm\":\"a\",\"reward\":%d,\"id\":\"o%d\"}\n", name, i % 2, first + i);
    return op_observe(f[0].t, text, true);
}

/* A writer that never rests, so that no move of the log finds it at its end. */
START_TEST(a_log_that_is_moved_beside_its_writer_begins_anew)
{
    pthread_t loop;
    int64_t most = 0;

    new_sched();
    fixture_open(&f[0], "{\"algorithm\":\"ucb\"}");
    f[0].world.sched = sched;
    ck_assert_int_eq(pthread_create(&loop, NULL, run_loop, NULL), 0);
    last_turn[0][0] = -1;
    for (int i = 0; i < N_BODIES; i++) {
        submit(op_of_lines(i * N_LINES), 0, 0, i);
        ck_assert(wait_for(&n_answered, i > 0 ? i : 0)); /* one is always in line */
        const int64_t bytes = ld_store_wal_bytes(ld_tenant_store(f[0].t));
        most = bytes > most ? bytes : most;
    }
    ck_assert(wait_for(&n_answered, N_BODIES));
    ld_sched_stop(sched);
    pthread_join(loop, NULL);
    ck_assert_int_eq(atomic_load(&n_refused), 0);
    f[0].world.sched = ld_sched_inline();
    ck_assert_uint_eq(ld_tenant_n_holders(f[0].t), 1);
    const int64_t all = ld_store_bytes(ld_tenant_store(f[0].t)); /* went through the log */
    ck_assert_int_gt(all, 60 << 20);
    ck_assert_int_lt(most, all / 2); /* which begins anew at 8 MiB, and grows while those are moved */
    const uint64_t digest = digest_of(f[0].t);
    fixture_restart(&f[0]);
    ck_assert_uint_eq(digest_of(f[0].t), digest);
    ck_assert_uint_eq(counts_of(f[0].t).learned, N_BODIES * N_LINES);
    fixture_close(&f[0]);
    ld_sched_free(sched);
}
END_TEST

static atomic_int n_done, may_end;

static void end_slowly(struct ld_op *op)
{
    while (atomic_load(&may_end) == 0)
        usleep(1000);
    ld_op_free(op);
    atomic_fetch_add(&n_done, 1);
}

/* The turn has ended on the pool, but the loop has not heard of it yet. */
START_TEST(a_wake_between_a_turn_and_its_end_is_not_lost)
{
    pthread_t loop;

    new_sched();
    fixture_open(&f[0], "{\"algorithm\":\"ucb\"}");
    f[0].world.sched = sched;
    struct ld_op *first = op_select(f[0].t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", "d1");
    struct ld_op *second = op_select(f[0].t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", "d2");
    first->done = second->done = end_slowly;
    ck_assert_int_eq(pthread_create(&loop, NULL, run_loop, NULL), 0);
    ld_tenant_submit(f[0].t, first); /* its turn runs until may_end */
    usleep(50000);
    atomic_store(&is_loop_held, true);
    while (!atomic_load(&has_loop_stopped))
        usleep(1000);
    atomic_store(&may_end, 1);
    ck_assert(wait_for(&n_done, 1));
    usleep(50000);
    ld_tenant_submit(f[0].t, second);
    atomic_store(&is_loop_held, false);
    ck_assert(wait_for(&n_done, 2));
    ld_sched_stop(sched);
    pthread_join(loop, NULL);
    fixture_close(&f[0]);
    ld_sched_free(sched);
}
END_TEST

enum { N_SLOW = 16 };

static void end_among_others(struct ld_op *op)
{
    atomic_fetch_add(&n_inside, 1);
    end_slowly(op);
}

/* Turns that wait for the disk, or whose client is slow to be answered, hold up nobody: all that come in one burst run
 * side by side, from the first burst on. */
START_TEST(many_tenants_have_their_turns_at_a_time)
{
    static struct fixture slow[N_SLOW];
    struct ld_op *op[N_SLOW];
    pthread_t loop;

    new_sched();
    for (int i = 0; i < N_SLOW; i++) {
        fixture_open(&slow[i], "{\"algorithm\":\"ucb\"}");
        slow[i].world.sched = sched;
        op[i] = op_select(slow[i].t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", "d");
        op[i]->done = end_among_others;
    }
    ck_assert_int_eq(pthread_create(&loop, NULL, run_loop, NULL), 0);
    for (int i = 0; i < N_SLOW; i++)
        ld_tenant_submit(slow[i].t, op[i]);
    const bool are_all_inside = wait_for(&n_inside, N_SLOW);
    atomic_store(&may_end, 1);
    ck_assert(are_all_inside);
    ck_assert(wait_for(&n_done, N_SLOW));
    ld_sched_stop(sched);
    pthread_join(loop, NULL);
    for (int i = 0; i < N_SLOW; i++)
        fixture_close(&slow[i]);
    ld_sched_free(sched);
}
END_TEST

int main(void)
{
    return KBT_RUN("sched", stopping_waits_for_the_work_that_was_given, requests_never_have_more_than_half_of_the_pool,
                   a_line_of_transfers_has_an_end, a_scheduler_that_never_ran_can_be_freed,
                   ticks_and_signals_reach_their_hooks, a_wake_between_a_turn_and_its_end_is_not_lost,
                   many_tenants_have_their_turns_at_a_time, a_log_that_is_moved_beside_its_writer_begins_anew,
                   clients_beside_the_writer_are_answered_once_and_in_order);
}
