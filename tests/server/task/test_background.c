/* Models built beside the writer, users erased and models verified beside it: real threads, a real pool; under
 * ThreadSanitizer as well. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "task/challenger.h"
#include "tenant/sched.h"
#include "tenant_fixture.h"

#define N_CLIENTS 3
#define N_ROUNDS 400
#define N_CHANGES 12
#define N_AUDITS 6

static struct ld_sched *sched;
static struct fixture f;
static atomic_int n_answered, n_failed, n_erased, n_equal, n_verified;

static void on_tick(void *arg, int64_t now_ms)
{
    (void)arg;
    ld_tenant_tick(f.t, now_ms);
}

static void *run_loop(void *arg)
{
    (void)arg;
    ld_sched_run(sched);
    return NULL;
}

static void start_pool(pthread_t *loop)
{
    const struct ld_sched_hooks hooks = {.tick = on_tick};

    ck_assert_int_eq(ld_sched_new(&sched, &hooks), 0);
    f.world.sched = sched;
    ck_assert_int_eq(pthread_create(loop, NULL, run_loop, NULL), 0);
}

static void stop_pool(pthread_t loop)
{
    ld_tenant_halt(f.t);
    ld_sched_stop(sched);
    pthread_join(loop, NULL);
    f.world.sched = ld_sched_inline();
    ck_assert_uint_eq(ld_tenant_n_holders(f.t), 1);
    ld_sched_free(sched);
}

static void open_tenant(double inline_work)
{
    fixture_world(&f);
    f.settings = fixture_settings("{\"algorithm\":\"laplaced\",\"context_dim\":1}");
    f.world.inline_work = inline_work;
    fixture_start(&f);
}

static void count(struct ld_op *op)
{
    if (op->problem->status != 0 && op->problem->status != 404)
        atomic_fetch_add(&n_failed, 1);
    if (op->problem->status == 0 && op->type == LD_OP_TASK)
        atomic_fetch_add(&n_erased, 1);
    ld_op_free(op);
    atomic_fetch_add(&n_answered, 1);
}

static void submit(struct ld_op *op)
{
    op->done = count;
    ld_tenant_submit(f.t, op);
}

static bool wait_for(int want)
{
    for (int i = 0; i < 60000 && atomic_load(&n_answered) < want; i++)
        usleep(1000);
    return atomic_load(&n_answered) >= want;
}

/* Beside the job that feeds them, and whoever erases what they know. */
static void look_at_challengers(void)
{
    struct ld_challenger_view view[LD_MAX_CHALLENGERS];
    const size_t n = ld_challengers_view(f.t, view);

    ck_assert_uint_le(n, 2);
    for (size_t i = 0; i < n; i++)
        ck_assert_str_eq(view[i].why, "");
}

/* Decisions at points of their own, so that the dictionary has reason to grow, and their rewards. */
static void *be_client(void *arg)
{
    const int client = *(int *)arg;
    char text[256], id[32];

    for (int i = 0; i < N_ROUNDS; i++) {
        struct kb_build_state state;

        snprintf(id, sizeof id, "c%d-%d", client, i);
        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"context\":[%.3f],\"candidates\":[\"a\",\"b\"]}",
                 (client + i) % 5, 0.37 * i * (client + 1));
        submit(op_select(f.t, text, id));
        snprintf(text, sizeof text, "{\"decision\":\"%s\",\"reward\":%.2f}", id, (i % 7) / 7.0);
        submit(op_rewards(f.t, text));
        kb_engine_build_state(ld_tenant_read_lock(f.t, NULL), &state);
        ld_tenant_read_unlock(f.t);
        ck_assert(state.progress >= 0 && state.progress <= 1);
        if (i % 20 == 0)
            look_at_challengers();
        usleep(1000);
    }
    return NULL;
}

/* Every kind of change that begins a build, one on top of the other. */
static void *be_operator(void *arg)
{
    char text[160];

    (void)arg;
    for (int i = 0; i < N_CHANGES; i++) {
        struct ld_op *op = NULL;

        if (i % 4 == 0) {
            snprintf(text, sizeof text,
                     "{\"algorithm\":\"laplaced\",\"context_dim\":1,\"representation\":{\"lambda\":%.2f},"
                     "\"challengers\":{\"still\":{\"algorithm\":\"gp-ucb\"},\"other\":{\"seed\":%d}}}",
                     0.3 + 0.05 * i, i);
            op = op_settings(text);
        } else if (i % 4 == 1) {
            snprintf(text, sizeof text, "{\"edges\":[[\"u0\",\"u1\",%d],[\"u1\",\"u2\",1]]}", 1 + i);
            op = op_graph(f.t, text);
        } else {
            op = i % 4 == 2 ? ld_op_new(LD_OP_REBUILD) : op_task(&ld_erasure);
            snprintf(op->user, sizeof op->user, "u%d", i % 5);
        }
        submit(op);
        usleep(40000);
    }
    return NULL;
}

static void count_verified(struct ld_op *op)
{
    if (op->problem->status == 0) {
        ck_assert_msg(strstr(op->reply, "\"equal\":true") != NULL, "%s", op->reply);
        atomic_fetch_add(&n_equal, 1);
    }
    ld_op_free(op);
    atomic_fetch_add(&n_verified, 1);
}

/* One after the other; an erasure in between makes one worthless, which it says. */
static void *be_auditor(void *arg)
{
    (void)arg;
    for (int i = 0; i < N_AUDITS; i++) {
        struct ld_op *op = op_task(&ld_verification);

        op->done = count_verified;
        ld_tenant_submit(f.t, op);
        for (int ms = 0; ms < 60000 && atomic_load(&n_verified) <= i; ms++)
            usleep(1000);
    }
    return NULL;
}

static bool is_building(void)
{
    const bool is = kb_engine_is_building(ld_tenant_read_lock(f.t, NULL));

    ld_tenant_read_unlock(f.t);
    return is;
}

/* One that nothing else is in the way of: those before may have waited for erasures all the time. */
static void rebuild_to_its_end(int n_before)
{
    submit(ld_op_new(LD_OP_REBUILD));
    ck_assert(wait_for(n_before + 1));
    for (int i = 0; i < 60000 && is_building(); i++)
        usleep(1000);
}

START_TEST(traffic_changes_and_erasures_side_by_side_leave_what_a_fold_finds)
{
    pthread_t loop, client[N_CLIENTS], operator_thread, auditor;
    int number[N_CLIENTS];

    open_tenant(0);
    f.world.snapshot_events = 10;
    start_pool(&loop);
    for (int c = 0; c < N_CLIENTS; c++) {
        number[c] = c;
        ck_assert_int_eq(pthread_create(&client[c], NULL, be_client, &number[c]), 0);
    }
    ck_assert_int_eq(pthread_create(&operator_thread, NULL, be_operator, NULL), 0);
    ck_assert_int_eq(pthread_create(&auditor, NULL, be_auditor, NULL), 0);
    for (int c = 0; c < N_CLIENTS; c++)
        pthread_join(client[c], NULL);
    pthread_join(operator_thread, NULL);
    pthread_join(auditor, NULL);
    ck_assert(wait_for(2 * N_CLIENTS * N_ROUNDS + N_CHANGES));
    rebuild_to_its_end(2 * N_CLIENTS * N_ROUNDS + N_CHANGES);
    stop_pool(loop);
    ck_assert_int_ge(atomic_load(&n_erased), 1);
    ck_assert_int_eq(atomic_load(&n_verified), N_AUDITS);
    ck_assert_int_ge(atomic_load(&n_equal), 1);
    ck_assert_uint_eq(f.metrics.verifications, (uint64_t)atomic_load(&n_equal));
    ck_assert_uint_gt(ld_histogram_count(&f.metrics.build_time), 0);
    const uint64_t digest = digest_of(f.t);
    ck_assert_uint_gt(atomic_load(&f.metrics.snapshots), 0);
    ck_assert_uint_eq(atomic_load(&f.metrics.snapshot_failures), 0);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    f.world.verify_on_start = true;
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    fixture_close(&f);
}
END_TEST

static void observe_some(int n)
{
    char text[128];

    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"context\":[%.2f],\"arm\":\"a\",\"reward\":%d}", i % 9,
                 0.11 * i, i % 2);
        struct ld_op *op = op_observe(f.t, text, false);

        submit(op);
    }
}

/* Snapshots follow one another while the tenant learns; the last of them and the tail make the model that was served.
 */
START_TEST(snapshots_beside_the_writer_are_of_one_moment)
{
    pthread_t loop;

    atomic_store(&n_answered, 0);
    open_tenant(1e300);
    f.world.snapshot_events = 5;
    start_pool(&loop);
    for (int i = 0; i < 20; i++) {
        observe_some(30);
        ck_assert(wait_for(30 * (i + 1)));
        usleep(2000);
    }
    stop_pool(loop);
    ck_assert_uint_gt(atomic_load(&f.metrics.snapshots), 0);
    ck_assert_uint_eq(atomic_load(&f.metrics.snapshots), ld_histogram_count(&f.metrics.snapshot_time));
    const uint64_t digest = digest_of(f.t);
    ck_assert(fixture_has_file(&f, "tenants/t.snapshot"));
    ck_assert(!fixture_has_file(&f, "tenants/t.snapshot.tmp"));
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    fixture_close(&f);
}
END_TEST

START_TEST(a_tenant_that_is_deleted_while_its_snapshot_is_written_leaves_nothing)
{
    pthread_t loop;

    for (int i = 0; i < 5; i++) {
        atomic_store(&n_answered, 0);
        open_tenant(1e300);
        f.world.snapshot_events = 1;
        start_pool(&loop);
        observe_some(50);
        ck_assert(wait_for(50 - 10 * i));
        ld_tenant_doom(f.t);
        stop_pool(loop);
        ld_tenant_release(f.t);
        ck_assert(!fixture_has_file(&f, "tenants/t.snapshot"));
        ck_assert(!fixture_has_file(&f, "tenants/t.db"));
        remove_dir(f.dir);
    }
}
END_TEST

/* Both have run before the writer hears of either. */
START_TEST(an_erasure_goes_on_when_the_snapshot_in_its_way_has_been_written)
{
    open_tenant(KB_INLINE_WORK);
    f.world.snapshot_events = 1;
    struct ld_op *observe = op_observe(f.t, "{\"user\":\"u1\",\"context\":[1],\"arm\":\"a\",\"reward\":1}", false),
                 *erase = op_task(&ld_erasure);
    strcpy(erase->user, "u1");
    ld_tenant_submit(f.t, observe);
    ld_tenant_submit(f.t, erase);
    run_all(f.t);
    ck_assert_ptr_eq(erase->arg, erase);
    ck_assert_int_eq(erase->problem->status, 0);
    ck_assert_uint_gt(atomic_load(&f.metrics.snapshots), 0);
    ck_assert_uint_eq(counts_of(f.t).learned, 0);
    ld_op_free(observe);
    ld_op_free(erase);
    fixture_close(&f);
}
END_TEST

/* n rewards at points of their own; from here on each change of the model is a build. */
static void teach_and_restart(int n)
{
    char text[128];

    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"context\":[%.2f],\"arm\":\"a\",\"reward\":%d}", i % 9,
                 0.11 * i, i % 2);
        expect_status(f.t, op_observe(f.t, text, false), 200);
    }
    f.world.inline_work = 0;
    fixture_restart(&f);
}

/* The process ends in the middle: the next one finds the build open in the log, and ends it. */
START_TEST(a_build_that_was_cut_off_is_done_by_the_next_start)
{
    pthread_t loop;

    open_tenant(KB_INLINE_WORK);
    teach_and_restart(200);
    f.world.sched = ld_sched_inline();
    ld_tenant_halt(f.t); /* no job is to start */
    expect_status(f.t,
                  op_settings("{\"algorithm\":\"laplaced\",\"context_dim\":1,\"representation\":"
                              "{\"lambda\":0.9}}"),
                  200);
    ck_assert(is_building());
    const uint64_t digest = digest_of(f.t);
    fixture_restart(&f);
    ck_assert(is_building());
    ck_assert_uint_eq(digest_of(f.t), digest);
    start_pool(&loop);
    for (int i = 0; i < 10000 && is_building(); i++)
        usleep(1000);
    ck_assert(!is_building());
    stop_pool(loop);
    ck_assert_double_eq(kb_engine_spec(ld_tenant_read_lock(f.t, NULL))->repr.lambda, 0.9);
    ld_tenant_read_unlock(f.t);
    const uint64_t done = digest_of(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), done);
    fixture_close(&f);
}
END_TEST

/* --- without memory ---------------------------------------------------------------------------------- */

static atomic_bool is_short;

static void *short_realloc(void *ptr, size_t bytes)
{
    char name[16] = "";

    if (atomic_load(&is_short) && pthread_getname_np(pthread_self(), name, sizeof name) == 0 &&
        strcmp(name, "long work") == 0)
        return NULL;
    return realloc(ptr, bytes);
}

/* Once there is memory again, a failed build need not wait any longer. */
static int64_t now_of_builds(void)
{
    return clock_ms + (atomic_load(&is_short) ? 0 : 10000);
}

static int compacted_status;

static void note_compacted(struct ld_op *op)
{
    compacted_status = op->problem->status;
    count(op);
}

static int compact(void)
{
    struct ld_op *op = op_task(&ld_compaction);
    const int before = atomic_load(&n_answered);

    op->keep_events = 5;
    op->done = note_compacted;
    ld_tenant_submit(f.t, op);
    ck_assert(wait_for(before + 1));
    return compacted_status;
}

START_TEST(a_compaction_does_not_wait_for_a_model_that_there_is_no_memory_for)
{
    static const struct kb_alloc_hook hook = {.realloc = short_realloc, .free = free};
    pthread_t loop;

    kb_alloc_set_hook(&hook);
    open_tenant(KB_INLINE_WORK);
    teach_and_restart(60);
    f.world.now_ms = now_of_builds;
    start_pool(&loop);
    atomic_store(&is_short, true);
    ck_assert_int_eq(compact(), 503);
    atomic_store(&is_short, false);
    ck_assert_int_eq(compact(), 0);
    stop_pool(loop);
    fixture_close(&f);
    kb_alloc_set_hook(NULL);
}
END_TEST

int main(void)
{
    return KBT_RUN("background", traffic_changes_and_erasures_side_by_side_leave_what_a_fold_finds,
                   a_compaction_does_not_wait_for_a_model_that_there_is_no_memory_for,
                   an_erasure_goes_on_when_the_snapshot_in_its_way_has_been_written,
                   a_build_that_was_cut_off_is_done_by_the_next_start, snapshots_beside_the_writer_are_of_one_moment,
                   a_tenant_that_is_deleted_while_its_snapshot_is_written_leaves_nothing);
}
