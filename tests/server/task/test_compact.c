/* Compaction through a tenant: over every preset the model after it is the model before, after a restart as well, and
 * what was closed is forgotten while what is open is not; a disk that refuses leaves the log as it was. Oracle: the
 * engine that served, which a compaction does not touch. */
#include "spec/spec.h"
#include "tenant_fixture.h"

static struct fixture f;

static struct ld_op *op_compact(uint64_t keep)
{
    struct ld_op *op = op_task(&ld_compaction);

    op->keep_events = keep;
    return op;
}

static struct ld_op *op_rebuild(void)
{
    struct ld_op *op = ld_op_new(LD_OP_REBUILD);

    op->done = mark_done;
    return op;
}

static void traffic(size_t from, size_t to, const char *context)
{
    char text[160], reply[160];

    for (size_t i = from; i < to; i++) {
        snprintf(text, sizeof text, "{\"user\":\"u%zu\",\"decision\":\"d%zu\"%s}", i % 5, i, context);
        expect_status(f.t, op_select(f.t, text, NULL), 200);
        clock_ms += 10;
        if (i % 4 == 0)
            continue;
        snprintf(reply, sizeof reply, "{\"decision\":\"d%zu\",\"reward\":%g}", i, (double)(i % 7) / 8);
        expect_status(f.t, op_rewards(f.t, reply), 200);
    }
}

static void open_preset(int i)
{
    char text[160];
    const char *name = kb_preset_name((size_t)i);
    struct kb_spec spec;
    const bool takes_context = kb_spec_preset(&spec, name, 1, 0) == KB_OK && kb_spec_check(&spec, NULL) == KB_OK;

    snprintf(text, sizeof text, "{\"algorithm\":\"%s\"%s}", name, takes_context ? ",\"context_dim\":1" : "");
    fixture_open(&f, text);
    expect_status(f.t, op_graph(f.t, "{\"edges\":[[\"u0\",\"u1\"],[\"u1\",\"u2\",0.5]]}"), 200);
    expect_status(f.t, op_arms(f.t, "[\"a\",\"b\",\"c\"]"), 200);
}

static const char *context_of(void)
{
    uint32_t context_dim, arm_dim;

    ld_tenant_dims(f.t, NULL, &context_dim, &arm_dim);
    return context_dim > 0 ? ",\"context\":[0.25]" : "";
}

/* The answer's `compacted`. */
static bool compact(uint64_t keep)
{
    struct ld_op *op = op_compact(keep);

    ck_assert_int_eq(settle_op(f.t, op), 200);
    const bool is_done = strstr(op->reply, "\"compacted\":true") != NULL;
    ld_op_free(op);
    return is_done;
}

START_TEST(the_model_of_every_preset_outlives_its_events)
{
    open_preset(_i);
    traffic(0, 60, context_of());
    expect_status(f.t, op_rebuild(), 200);
    traffic(60, 70, context_of());
    uint64_t digest = digest_of(f.t);
    ck_assert(compact(25));
    ck_assert_uint_eq(digest_of(f.t), digest); /* the reset behind what goes was there */
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    traffic(70, 80, context_of());
    ck_assert(compact(0));
    digest = digest_of(f.t);
    f.world.verify_on_start = true;
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    ck_assert_uint_eq(counts_of(f.t).decided, 80);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"d0\",\"reward\":0.5}"), 200);
    fixture_close(&f);
}
END_TEST

START_TEST(what_was_closed_is_unknown_and_what_is_open_is_answered_as_before)
{
    open_preset(0);
    traffic(0, 40, context_of());
    ck_assert(compact(0));
    char text[96];
    snprintf(text, sizeof text, "{\"user\":\"u4\",\"decision\":\"d4\"%s}", context_of());
    struct ld_op *first = op_select(f.t, text, NULL), *again = op_select(f.t, text, NULL);
    ck_assert_int_eq(settle_op(f.t, first), 200);
    ck_assert_int_eq(settle_op(f.t, again), 200);
    ck_assert_str_eq(first->reply, again->reply);
    ck_assert_uint_eq(counts_of(f.t).decided, 40); /* not decided anew */
    ld_op_free(first);
    ld_op_free(again);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"d5\",\"reward\":0.5}"), 404);
    expect_reply(f.t, op_rewards(f.t, "{\"decision\":\"d4\",\"reward\":0.5}"), APPLIED);
    fixture_close(&f);
}
END_TEST

START_TEST(a_disk_that_refuses_leaves_the_log_as_it_was)
{
    open_preset(0);
    traffic(0, 60, context_of());
    expect_status(f.t, op_rebuild(), 200);
    traffic(60, 62, context_of());
    const uint64_t digest = digest_of(f.t);
    limit_files(1);
    expect_status(f.t, op_compact(10), 503);
    mend_disk();
    clock_ms += 1000;
    ld_tenant_tick(f.t, clock_ms);
    run_all(f.t);
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    ck_assert(compact(10));
    fixture_restart(&f);
    ck_assert_uint_eq(digest_of(f.t), digest);
    fixture_close(&f);
}
END_TEST

int main(void)
{
    int n = 0;
    while (kb_preset_name((size_t)n) != NULL)
        n++;

    return KBT_RUN_TIMES("compact", 60, {the_model_of_every_preset_outlives_its_events, n},
                         {what_was_closed_is_unknown_and_what_is_open_is_answered_as_before, 1},
                         {a_disk_that_refuses_leaves_the_log_as_it_was, 1});
}
