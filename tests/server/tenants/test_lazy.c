/* Tenants that are opened at their first use and closed when memory is short. */
#include <pthread.h>
#include <stdatomic.h>

#include "tenants/registry.h"
#include "tenant/sched.h"
#include "tenant_fixture.h"
#include "kbt_files.h"

#define N_MANY 1000
#define CONFIGURATION "{\"algorithm\":\"laplaced\",\"representation\":{\"lambda\":0.2}}"

static struct fixture f;
static struct ld_tenants *tenants;

static void start(void)
{
    struct ld_message why = {""};

    ck_assert_msg(ld_tenants_open(&tenants, &f.world, &why) == 0, "%s", why.text);
}

/* A server on a new folder, with the tenant `default`. */
static void begin(void)
{
    fixture_world(&f);
    remove_dir(f.dir);
    start();
}

static void restart(void)
{
    ld_tenants_close(tenants);
    start();
}

static void finish(void)
{
    ld_tenants_close(tenants);
    remove_dir(f.dir);
}

static void create(const char *name)
{
    const struct ld_settings settings = fixture_settings(CONFIGURATION);
    struct ld_problem problem;

    ld_problem_init(&problem);
    ck_assert_int_eq(ld_tenants_create(tenants, name, &settings, &problem), 0);
}

static struct ld_tenant *get(const char *name)
{
    struct ld_tenant *t = ld_tenants_find(tenants, name);

    ck_assert_msg(t != NULL, "%s", name);
    return t;
}

/* 0, or the status with which it cannot be had. */
static int status_of(const char *name)
{
    struct ld_problem problem;
    struct ld_tenant *t;

    ld_problem_init(&problem);
    t = ld_tenants_get(tenants, name, &problem);
    ck_assert(t == NULL || problem.status == 0);
    ck_assert(t != NULL || strstr(problem.detail, name) != NULL);
    ld_tenant_release(t);
    return problem.status;
}

static void learn(struct ld_tenant *t, int n)
{
    for (int i = 0; i < n; i++) {
        char json[128];

        snprintf(json, sizeof json, "{\"user\":\"u%d\",\"arm\":\"a%d\",\"reward\":%d}", i % 17, i % 5, i % 2);
        expect_status(t, op_observe(t, json, false), 200);
    }
}

static struct ld_tenants_counts count(void)
{
    struct ld_tenants_counts counts;

    ld_tenants_count(tenants, &counts);
    return counts;
}

static bool is_open(const char *name)
{
    struct ld_tenant *t = ld_tenants_find_open(tenants, name);

    ld_tenant_release(t);
    return t != NULL;
}

static uint64_t load(const _Atomic uint64_t *x)
{
    return atomic_load(x);
}

/* ---- opening ----------------------------------------------------------------------------------------- */

static void copy_default(const char *name)
{
    char from[128], to[160];

    snprintf(from, sizeof from, "%s/tenants/default.db", f.dir);
    snprintf(to, sizeof to, "%s/tenants/%s.db", f.dir, name);
    kbt_copy_file(from, to);
}

static void add_closed(void *arg, const char *name, enum ld_tenant_state state, struct ld_tenant *t, const char *why)
{
    ck_assert(name[0] != '\0' && why[0] == '\0');
    ck_assert((t != NULL) == (state == LD_TENANT_OPEN));
    *(int *)arg += state == LD_TENANT_CLOSED;
}

START_TEST(a_start_among_a_thousand_tenants_opens_none)
{
    char name[32];
    int n_closed = 0;

    begin();
    ld_tenants_close(tenants);
    for (int i = 0; i < N_MANY; i++) {
        snprintf(name, sizeof name, "copy%d", i);
        copy_default(name);
    }
    start();
    restart();
    ck_assert_uint_eq(load(&f.metrics.opens), 0);
    ck_assert_uint_eq(count().n[LD_TENANT_CLOSED], N_MANY + 1);
    ck_assert_int_eq(status_of("copy517"), 0);
    ck_assert_int_eq(status_of("copy517"), 0);
    ck_assert_int_eq(status_of("copy9999"), 404);
    ck_assert_uint_eq(load(&f.metrics.opens), 1);
    ck_assert(ld_tenants_list(tenants, "", add_closed, &n_closed));
    ck_assert_int_eq(n_closed, N_MANY);
    ck_assert(is_open("copy517") && !is_open("copy516"));
    finish();
}
END_TEST

static void spoil(const char *name, const char *bytes)
{
    char path[160];
    FILE *file;

    snprintf(path, sizeof path, "%s/tenants/%s.db", f.dir, name);
    file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fputs(bytes, file);
    fclose(file);
}

START_TEST(a_tenant_that_cannot_be_opened_fails_alone_and_comes_back_when_mended)
{
    char path[160];

    begin();
    create("damaged");
    create("missing");
    create("whole");
    ld_tenants_close(tenants);
    spoil("damaged", "not a database");
    snprintf(path, sizeof path, "%s/tenants/missing.db", f.dir);
    ck_assert_int_eq(unlink(path), 0);
    start();
    ck_assert_int_eq(status_of("damaged"), 500);
    ck_assert_int_eq(status_of("missing"), 503);
    ck_assert_int_eq(status_of("whole"), 0);
    ck_assert_uint_eq(count().n[LD_TENANT_FAILED], 2);
    ck_assert_uint_eq(load(&f.metrics.open_failures), 2);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(status_of("damaged"), 500); /* answered from memory for a while */
    ck_assert_uint_eq(load(&f.metrics.open_failures), 2);
    copy_default("damaged");
    for (int i = 0; i < 100 && status_of("damaged") != 0; i++)
        usleep(100000);
    ck_assert_int_eq(status_of("damaged"), 0);
    finish();
}
END_TEST

START_TEST(a_tenant_is_deleted_without_being_opened_whatever_its_state)
{
    static const char *const names[] = {"closed", "failed", "open"};
    struct ld_problem p;

    begin();
    for (size_t i = 0; i < 3; i++)
        create(names[i]);
    ld_tenants_close(tenants);
    spoil("failed", "not a database");
    start();
    ck_assert_int_eq(status_of("failed"), 500);
    ck_assert_int_eq(status_of("open"), 0);
    for (size_t i = 0; i < 3; i++) {
        char file[64];

        ld_problem_init(&p);
        ck_assert_int_eq(ld_tenants_delete(tenants, names[i], &p), 0);
        snprintf(file, sizeof file, "tenants/%s.db", names[i]);
        ck_assert(!fixture_has_file(&f, file));
        ck_assert_int_eq(status_of(names[i]), 404);
        create(names[i]);
    }
    ck_assert_uint_eq(load(&f.metrics.opens), 1);
    finish();
}
END_TEST

/* Its window closed while nobody had it in memory: a reward is late, as if the timer had come by in time. */
START_TEST(windows_that_closed_meanwhile_are_closed_before_anything_else)
{
    begin();
    create("t");
    struct ld_tenant *t = get("t");
    expect_status(t, op_select(t, "{\"user\":\"u\",\"candidates\":[\"a\"],\"decision\":\"d\"}", "d"), 200);
    ld_tenant_release(t);
    restart();
    clock_ms += 3600 * 1000 + 1;
    t = get("t");
    expect_status(t, op_rewards(t, "{\"decision\":\"d\",\"reward\":1}"), 410);
    ck_assert_uint_eq(counts_of(t).expired, 1);
    ld_tenant_release(t);
    finish();
}
END_TEST

/* ---- closing ------------------------------------------------------------------------------------------ */

static const char *const FIVE[] = {"a", "b", "c", "d", "e"};

/* Five tenants with something learned, all open, used in the order of their names. */
static void open_five(uint64_t digest[5])
{
    begin();
    for (size_t i = 0; i < 5; i++) {
        create(FIVE[i]);
        struct ld_tenant *t = get(FIVE[i]);
        learn(t, 20 + (int)i);
        if (digest != NULL)
            digest[i] = digest_of(t);
        ld_tenant_release(t);
        ld_tenants_tick(tenants);
    }
}

START_TEST(the_least_used_are_closed_and_come_back_the_same)
{
    uint64_t digest[5];

    open_five(digest);
    const size_t all = count().bytes;
    ck_assert_uint_gt(all, 5 * 10000);
    ck_assert_int_eq(status_of("a"), 0); /* used last */
    f.world.memory_cap = all / 2;
    ld_tenants_tick(tenants);
    ck_assert_uint_le(count().bytes, all / 2);
    ck_assert(is_open("a") && is_open("e") && !is_open("b") && !is_open("c") && !is_open("d"));
    ck_assert_uint_eq(load(&f.metrics.evictions), 3);
    ck_assert(fixture_has_file(&f, "tenants/b.snapshot"));
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < 5; i++) {
            struct ld_tenant *t = get(FIVE[i]);
            ck_assert_uint_eq(digest_of(t), digest[i]);
            learn(t, 3);
            digest[i] = digest_of(t);
            ld_tenant_release(t);
            ld_tenants_tick(tenants);
            ck_assert_uint_le(count().bytes, all / 2);
        }
    f.world.memory_cap = 1; /* not even one */
    ld_tenants_tick(tenants);
    ck_assert_uint_eq(count().bytes, 0);
    finish();
}
END_TEST

START_TEST(a_snapshot_is_written_only_when_something_was_learned_since)
{
    open_five(NULL);
    f.world.memory_cap = 1;
    ld_tenants_tick(tenants);
    const uint64_t n = load(&f.metrics.snapshots);
    ck_assert_uint_eq(n, 5);
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(status_of(FIVE[i]), 0);
    ld_tenants_tick(tenants);
    ck_assert_uint_ge(load(&f.metrics.evictions), 10);
    ck_assert_uint_eq(load(&f.metrics.snapshots), n);
    finish();
}
END_TEST

START_TEST(a_tenant_in_use_is_not_closed)
{
    open_five(NULL);
    struct ld_tenant *held = get("b"), *waiting = get("c"), *failing = get("d");
    struct ld_op *op = op_observe(waiting, "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1}", false);

    limit_files(1);
    expect_status(failing, op_observe(failing, "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1}", false), 503);
    mend_disk();
    ck_assert(ld_tenant_is_failing(failing));
    ld_tenant_release(failing);
    f.world.memory_cap = 1;
    ld_tenants_tick(tenants);
    ck_assert(is_open("b") && is_open("c") && is_open("d") && !is_open("a") && !is_open("e"));
    ld_tenant_submit(waiting, op);
    run_all(waiting);
    ld_op_free(op);
    ld_tenant_release(held);
    ld_tenant_release(waiting);
    ld_tenants_tick(tenants);
    ck_assert(!is_open("b") && !is_open("c") && is_open("d"));
    finish();
}
END_TEST

/* ---- many threads ------------------------------------------------------------------------------------- */

enum { N_CLIENTS = 4, N_ROUNDS = 60, N_SHARED = 6 };

static struct ld_sched *sched;
static atomic_int n_answered[N_SHARED];
static atomic_bool is_over;

static void on_tick(void *arg, int64_t now_ms)
{
    (void)arg;
    (void)now_ms;
    ld_tenants_tick(tenants);
}

static void *run_loop(void *arg)
{
    (void)arg;
    ld_sched_run(sched);
    return NULL;
}

static void begin_with_pool(pthread_t *loop)
{
    const struct ld_sched_hooks hooks = {.tick = on_tick};

    fixture_world(&f);
    remove_dir(f.dir);
    ck_assert_int_eq(ld_sched_new(&sched, &hooks), 0);
    f.world.sched = sched;
    start();
    ck_assert_int_eq(pthread_create(loop, NULL, run_loop, NULL), 0);
}

/* Jobs that are given wait: nobody runs the loop. */
static void begin_without_threads(void)
{
    const struct ld_sched_hooks hooks = {.tick = NULL};

    fixture_world(&f);
    remove_dir(f.dir);
    ck_assert_int_eq(ld_sched_new(&sched, &hooks), 0);
    f.world.sched = sched;
    start();
}

/* Their jobs find that it is too late. */
static void finish_without_threads(void)
{
    ld_sched_free(sched);
    f.world.sched = ld_sched_inline();
    finish();
}

static void finish_with_pool(pthread_t loop)
{
    ld_tenants_halt(tenants);
    ld_sched_stop(sched);
    pthread_join(loop, NULL);
    finish();
    ld_sched_free(sched);
}

struct call {
    pthread_mutex_t lock;
    pthread_cond_t is_done;
    int status;
};

static void end_call(struct ld_op *op)
{
    struct call *call = op->arg;

    pthread_mutex_lock(&call->lock);
    call->status = op->problem->status != 0 ? op->problem->status : 200;
    pthread_cond_signal(&call->is_done);
    pthread_mutex_unlock(&call->lock);
    ld_op_free(op);
}

/* Observes in a tenant, as a client would: opened when it has to be, and answered once. */
static void observe(int shared)
{
    struct call call = {.status = 0};
    char name[16];

    snprintf(name, sizeof name, "s%d", shared);
    struct ld_tenant *t = get(name);
    struct ld_op *op = op_observe(t, "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1}", false);
    pthread_mutex_init(&call.lock, NULL);
    pthread_cond_init(&call.is_done, NULL);
    op->done = end_call;
    op->arg = &call;
    ld_tenant_submit(t, op);
    ld_tenant_release(t);
    pthread_mutex_lock(&call.lock);
    while (call.status == 0)
        pthread_cond_wait(&call.is_done, &call.lock);
    pthread_mutex_unlock(&call.lock);
    ck_assert_int_eq(call.status, 200);
    atomic_fetch_add(&n_answered[shared], 1);
}

/* Until tenants have been closed often enough, too: that is the disturber's work, who may be slow. */
static void *client(void *arg)
{
    for (int i = 0; i < N_ROUNDS || (load(&f.metrics.evictions) <= N_SHARED && i < 100 * N_ROUNDS); i++)
        observe((*(int *)arg * 7 + i * 5) % N_SHARED);
    return NULL;
}

/* Makes and deletes a tenant of its own all the while, and asks for others' names. */
static void *disturber(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over)) {
        const struct ld_settings settings = fixture_settings(CONFIGURATION);
        struct ld_tenants_counts counts;
        struct ld_problem p;

        ld_problem_init(&p);
        ck_assert_int_eq(ld_tenants_create(tenants, "mine", &settings, &p), 0);
        ld_tenant_release(ld_tenants_find(tenants, "mine"));
        ld_tenants_tick(tenants);
        ck_assert_int_eq(ld_tenants_delete(tenants, "mine", &p), 0);
        ld_tenants_count(tenants, &counts);
        ck_assert_uint_le(counts.n[LD_TENANT_OPEN], N_SHARED + 2);
    }
    return NULL;
}

START_TEST(clients_of_tenants_that_come_and_go_lose_nothing)
{
    pthread_t loop, threads[N_CLIENTS], other;
    int id[N_CLIENTS];

    begin_with_pool(&loop);
    for (int i = 0; i < N_SHARED; i++) {
        char name[16];

        snprintf(name, sizeof name, "s%d", i);
        create(name);
    }
    f.world.memory_cap = count().bytes / 3;
    pthread_create(&other, NULL, disturber, NULL);
    for (int i = 0; i < N_CLIENTS; i++) {
        id[i] = i;
        pthread_create(&threads[i], NULL, client, &id[i]);
    }
    for (int i = 0; i < N_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&is_over, true);
    pthread_join(other, NULL);
    ck_assert_uint_gt(load(&f.metrics.evictions), N_SHARED);
    for (int i = 0; i < N_SHARED; i++) {
        char name[16];

        snprintf(name, sizeof name, "s%d", i);
        struct ld_tenant *t = get(name);
        ck_assert_uint_eq(counts_of(t).observed, (uint64_t)atomic_load(&n_answered[i]));
        ld_tenant_release(t);
    }
    finish_with_pool(loop);
}
END_TEST

struct many {
    struct ld_tenant_wait wait;
    int status;
};

static atomic_int n_told;

static void told(struct ld_tenant_wait *wait, struct ld_tenant *t, const struct ld_problem *p)
{
    struct many *m = (struct many *)(void *)wait;

    m->status = t != NULL ? 200 : p->status;
    ld_tenant_release(t);
    atomic_fetch_add(&n_told, 1);
}

START_TEST(all_who_wait_for_one_tenant_wait_for_one_opening)
{
    enum { N = 200 };
    static struct many m[N];
    pthread_t loop;

    begin_with_pool(&loop);
    for (int i = 0; i < N; i++) {
        m[i].wait.done = told;
        ck_assert(ld_tenants_await(tenants, "default", &m[i].wait));
    }
    for (int i = 0; i < 10000 && atomic_load(&n_told) < N; i++)
        usleep(1000);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(m[i].status, 200);
    ck_assert_uint_eq(load(&f.metrics.opens), 1);
    ck_assert(!ld_tenants_await(tenants, "nobody", &m[0].wait));
    finish_with_pool(loop);
}
END_TEST

/* Nobody takes from the line: those in it are told when the server stops. */
START_TEST(who_still_waits_when_the_server_stops_is_told)
{
    static struct many m[3];

    begin_without_threads();
    for (int i = 0; i < 3; i++) {
        m[i].wait.done = told;
        ck_assert(ld_tenants_await(tenants, "default", &m[i].wait));
    }
    ck_assert_int_eq(atomic_load(&n_told), 0);
    ld_tenants_halt(tenants);
    ck_assert_int_eq(atomic_load(&n_told), 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(m[i].status, 503);
    finish_without_threads();
}
END_TEST

START_TEST(more_than_so_many_do_not_wait_for_one_tenant)
{
    struct many m[4] = {{.status = 0}};

    begin_without_threads();
    f.world.max_opening = 2;
    atomic_store(&n_told, 0);
    for (int i = 0; i < 4; i++) {
        m[i].wait.done = told;
        ck_assert(ld_tenants_await(tenants, "default", &m[i].wait));
    }
    ck_assert_int_eq(atomic_load(&n_told), 2);
    ck_assert_int_eq(m[2].status, 503);
    ck_assert_int_eq(m[3].status, 503);
    ck_assert_uint_eq(load(&f.metrics.limited[LD_LIMITED_OPENING]), 2);
    ck_assert_int_eq(status_of("default"), 503); /* nor in a thread that would open it */
    ld_tenants_halt(tenants);
    ck_assert_int_eq(atomic_load(&n_told), 4);
    finish_without_threads();
}
END_TEST

int main(void)
{
    return KBT_RUN("lazy", a_start_among_a_thousand_tenants_opens_none,
                   a_tenant_that_cannot_be_opened_fails_alone_and_comes_back_when_mended,
                   a_tenant_is_deleted_without_being_opened_whatever_its_state,
                   windows_that_closed_meanwhile_are_closed_before_anything_else,
                   the_least_used_are_closed_and_come_back_the_same,
                   a_snapshot_is_written_only_when_something_was_learned_since, a_tenant_in_use_is_not_closed,
                   clients_of_tenants_that_come_and_go_lose_nothing, all_who_wait_for_one_tenant_wait_for_one_opening,
                   who_still_waits_when_the_server_stops_is_told, more_than_so_many_do_not_wait_for_one_tenant);
}
