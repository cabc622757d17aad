/* When commits wait for company: what the process has of its processors, and turns of a writer whose rests are the
 * test's. */
#include "base/pace.h"
#include "tenant_fixture.h"

#define PLAIN "{\"algorithm\":\"ucb\"}"
#define RELAXED "{\"algorithm\":\"ucb\",\"durability\":\"relaxed\"}"
#define SELECT_AB "{\"user\":\"u\",\"candidates\":[\"a\",\"b\"]}"

/* ---- the share -------------------------------------------------------------------------------------- */

static int64_t now_us, cpu_us;

static int64_t fake_now(void)
{
    return now_us;
}

static int64_t fake_cpu(void)
{
    return cpu_us;
}

/* A look after so many us, in which the process had a processor so long. */
static bool look(struct ld_pace *p, int64_t us, int64_t had_us)
{
    now_us += us;
    cpu_us += had_us;
    return ld_pace_is_short(p);
}

static struct ld_pace pace_of(unsigned n_processors)
{
    return (struct ld_pace){.now_us = fake_now,
                            .cpu_us = fake_cpu,
                            .n_processors = n_processors,
                            .looked_us = now_us,
                            .looked_cpu_us = cpu_us};
}

START_TEST(processors_are_short_when_the_process_has_three_quarters_of_them)
{
    struct ld_pace p = pace_of(4);

    ck_assert(!look(&p, 20000, 59000));
    ck_assert(look(&p, 20000, 61000));
    ck_assert(look(&p, 4000, 0)); /* too early to look: what was seen last holds */
    ck_assert(look(&p, 4000, 0));
    ck_assert(!look(&p, 4000, 35000)); /* 35 ms of 48 */
    ck_assert(look(&p, 10000, 40000));
    ck_assert(!look(&p, 3600000000, 40000)); /* an hour's sleep, and a busy moment at its end */
}
END_TEST

START_TEST(clocks_are_real_without_a_test)
{
    struct ld_pace p;

    ld_pace_init(&p);
    ck_assert_uint_ge(p.n_processors, 1);
    const int64_t began_us = p.now_us(), had_us = p.cpu_us();
    p.rest();
    ck_assert_int_ge(p.now_us() - began_us, 100);
    while (p.cpu_us() - had_us < 20000)
        ;
    (void)ld_pace_is_short(&p);
    ck_assert_int_ge(atomic_load(&p.looked_us), began_us); /* it has looked */
}
END_TEST

/* ---- turns ------------------------------------------------------------------------------------------ */

#define MOST_OPS 64

static struct {
    struct fixture f;
    struct ld_pace pace;
    struct ld_op *op[MOST_OPS];
    size_t n, n_coming, n_rests,
        n_answered; /* n_coming: one with each of the next rests; n_answered: before the last */
} w;

static void submit(size_t n)
{
    char id[16];

    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof id, "d%zu", w.n);
        ck_assert_uint_lt(w.n, MOST_OPS);
        w.op[w.n] = op_select(w.f.t, SELECT_AB, id);
        ld_tenant_submit(w.f.t, w.op[w.n++]);
    }
}

static void rest(void)
{
    w.n_rests++;
    w.n_answered = 0;
    for (size_t i = 0; i < w.n; i++)
        w.n_answered += w.op[i]->arg == w.op[i];
    if (w.n_coming > 0) {
        w.n_coming--;
        submit(1);
    }
}

static void open_turns(const char *configuration, bool is_short)
{
    memset(&w, 0, sizeof w);
    fixture_world(&w.f);
    w.pace = pace_of(2);
    w.pace.rest = rest;
    atomic_store(&w.pace.is_short, is_short);
    w.f.world.pace = &w.pace;
    w.f.settings = fixture_settings(configuration);
    fixture_start(&w.f);
}

/* A turn with n ops in line at its beginning, and one more with each of so many rests: returns the commits of it. */
static uint64_t turn(size_t n, size_t n_coming)
{
    const uint64_t before = w.f.metrics.commits;

    w.n_coming = n_coming;
    w.n_rests = 0;
    submit(n);
    ck_assert(!ld_tenant_run_writer(w.f.t));
    for (size_t i = 0; i + w.n_coming < w.n; i++)
        ck_assert_ptr_eq(w.op[i]->arg, w.op[i]);
    return w.f.metrics.commits - before;
}

static void close_turns(void)
{
    ck_assert_uint_eq(counts_of(w.f.t).decided, w.n);
    for (size_t i = 0; i < w.n; i++) {
        ck_assert_int_eq(w.op[i]->problem->status, 0);
        ld_op_free(w.op[i]);
    }
    fixture_close(&w.f);
}

START_TEST(a_commit_waits_as_long_as_others_come)
{
    open_turns(PLAIN, true);
    ck_assert_uint_eq(turn(5, 0), 1);
    ck_assert_uint_eq(w.n_rests, 0); /* nothing said that there are others */
    ck_assert_uint_eq(turn(1, 3), 1);
    ck_assert_uint_eq(w.n_rests, 4); /* the last one brought nobody */
    ck_assert_uint_eq(turn(1, 0), 1);
    ck_assert_uint_eq(w.n_rests, 1);
    ck_assert_uint_eq(turn(1, 1), 1);
    ck_assert_uint_eq(w.n_rests, 0); /* it was alone in the last turn */
    close_turns();
}
END_TEST

START_TEST(no_commit_waits_for_ever)
{
    open_turns(PLAIN, true);
    turn(5, 0);
    submit(1);
    w.n_coming = 40;
    const uint64_t before = w.f.metrics.commits;
    ck_assert(!ld_tenant_run_writer(w.f.t));
    ck_assert_uint_eq(w.f.metrics.commits - before, 1);
    ck_assert_uint_lt(w.n_rests, 10);
    ck_assert_uint_eq(w.n_coming, 40 - w.n_rests);
    close_turns();
}
END_TEST

START_TEST(with_processors_to_spare_nobody_waits)
{
    open_turns(PLAIN, false);
    turn(5, 0);
    ck_assert_uint_eq(turn(5, 3), 1);
    ck_assert_uint_eq(w.n_rests, 0);
    close_turns();
}
END_TEST

START_TEST(who_is_answered_before_the_commit_does_not_wait_for_it)
{
    for (int is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        open_turns(is_relaxed ? RELAXED : PLAIN, true);
        turn(5, 0);
        ck_assert_uint_eq(turn(3, 1), 1);
        ck_assert_uint_eq(w.n_rests, 2);
        ck_assert_uint_eq(w.n_answered, is_relaxed ? 9 : 5);
        close_turns();
    }
}
END_TEST

START_TEST(a_disk_that_refuses_is_not_waited_with)
{
    open_turns(PLAIN, true);
    turn(5, 0);
    submit(1);
    limit_files(0);
    w.n_coming = 1;
    ck_assert(!ld_tenant_run_writer(w.f.t));
    mend_disk();
    ck_assert_uint_eq(w.n_rests, 2); /* before the commit that it refuses, not after it */
    ck_assert_int_eq(w.op[w.n - 1]->problem->status, 503);
    ck_assert_int_eq(w.op[w.n - 2]->problem->status, 503);
    for (size_t i = 0; i < w.n; i++)
        ld_op_free(w.op[i]);
    fixture_close(&w.f);
}
END_TEST

int main(void)
{
    return KBT_RUN("pace", processors_are_short_when_the_process_has_three_quarters_of_them,
                   clocks_are_real_without_a_test, a_commit_waits_as_long_as_others_come, no_commit_waits_for_ever,
                   with_processors_to_spare_nobody_waits, who_is_answered_before_the_commit_does_not_wait_for_it,
                   a_disk_that_refuses_is_not_waited_with);
}
