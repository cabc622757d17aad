/* The model against a fold of its log: equal for every preset and in the middle of a build; a log or a model that was
 * tampered with is found; a log that changes under the fold, and a tenant that goes, are told as such. */
#include <sqlite3.h>

#include "json/json_out.h"
#include "spec/spec.h"
#include "tenant_fixture.h"

#define PLAIN "{\"algorithm\":\"ucb\"}"

static void exec_on_file(const struct fixture *f, const char *sql)
{
    char path[128];
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/tenants/t.db", f->dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static struct ld_op *op_plain(enum ld_op_type type)
{
    struct ld_op *op = ld_op_new(type);

    op->done = mark_done;
    return op;
}

/* The whole answer; borrowed until the next call. */
static const char *verify(struct fixture *f)
{
    static char text[1024];
    struct ld_op *op = op_task(&ld_verification);

    ck_assert_msg(settle_op(f->t, op) == 200, "%d %s", op->problem->status, op->problem->detail);
    snprintf(text, sizeof text, "%s", op->reply);
    ld_op_free(op);
    return text;
}

static void expect_equal(struct fixture *f)
{
    char want[200];
    const struct kb_engine_counts counts = counts_of(f->t);

    snprintf(want, sizeof want,
             "{\"equal\":true,\"seq\":%llu,\"events\":%llu,\"digest\":\"%016llx\",\"logical_digest\":\"%016llx\"}",
             (unsigned long long)counts.seq, (unsigned long long)counts.seq, (unsigned long long)digest_of(f->t),
             (unsigned long long)logical_digest_of(f->t));
    ck_assert_str_eq(verify(f), want);
}

static void traffic(struct fixture *f, int n)
{
    char text[160], id[16];

    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof id, "d%d", i);
        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"candidates\":[\"a\",\"b\",\"c\"]}", i % 5);
        expect_status(f->t, op_select(f->t, text, id), 200);
        snprintf(text, sizeof text, "{\"decision\":\"%s\",\"reward\":%.3f}", id, (i * 7 % 11) / 11.0);
        if (i % 6 != 5)
            expect_status(f->t, op_rewards(f->t, text), 200);
    }
}

static void verify_preset(const char *name)
{
    struct fixture f;
    char text[96];

    snprintf(text, sizeof text, "{\"algorithm\":\"%s\"}", name);
    fixture_open(&f, text);
    expect_status(f.t, op_graph(f.t, "{\"edges\":[[\"u0\",\"u1\"],[\"u1\",\"u2\",2.5]]}"), 200);
    expect_equal(&f);
    traffic(&f, 40);
    expect_equal(&f);
    expect_status(f.t, op_plain(LD_OP_REBUILD), 200);
    fixture_restart(&f);
    expect_equal(&f);
    ck_assert_uint_eq(f.metrics.verifications, 3);
    ck_assert_uint_eq(f.metrics.verifications_different, 0);
    fixture_close(&f);
}

START_TEST(every_preset_equals_its_fold)
{
    for (size_t i = 0; kb_preset_name(i) != NULL; i++)
        verify_preset(kb_preset_name(i));
}
END_TEST

START_TEST(a_build_that_is_open_is_part_of_it)
{
    struct fixture f;

    fixture_open(&f, "{\"algorithm\":\"laplaced\"}");
    traffic(&f, 40);
    f.world.inline_work = 0;
    fixture_restart(&f);
    ld_tenant_halt(f.t); /* nobody builds: a verification would be cut off as well */
    expect_status(f.t, op_plain(LD_OP_REBUILD), 200);
    ck_assert(kb_engine_is_building(ld_tenant_read_lock(f.t, NULL)));
    ld_tenant_read_unlock(f.t);
    expect_status(f.t, op_task(&ld_verification), 503);
    fixture_restart(&f); /* the first turn would build it: the verification goes first */
    ck_assert(kb_engine_is_building(ld_tenant_read_lock(f.t, NULL)));
    ld_tenant_read_unlock(f.t);
    expect_equal(&f);
    ck_assert(!kb_engine_is_building(ld_tenant_read_lock(f.t, NULL)));
    ld_tenant_read_unlock(f.t);
    expect_equal(&f);
    fixture_close(&f);
}
END_TEST

START_TEST(a_line_that_was_changed_is_found)
{
    struct fixture f;
    char want[64];

    fixture_open(&f, PLAIN);
    traffic(&f, 8);
    const uint64_t digest = digest_of(f.t);
    exec_on_file(&f, "UPDATE events SET text = replace(text, '\"reward\":0.636', '\"reward\":0.637'),"
                     " reward = iif(reward = 0.636, 0.637, reward)");
    const char *answer = verify(&f);
    ck_assert_msg(strstr(answer, "{\"equal\":false,") == answer, "%s", answer);
    snprintf(want, sizeof want, "\"digest\":\"%016llx\",", (unsigned long long)digest);
    ck_assert_msg(strstr(answer, want) != NULL && strstr(answer, ",\"folded_digest\":\"") != NULL, "%s", answer);
    ck_assert_uint_eq(f.metrics.verifications_different, 1);
    ck_assert_uint_eq(digest_of(f.t), digest); /* it only tells */
    exec_on_file(&f, "UPDATE events SET text = replace(text, '\"reward\":0.637', '\"reward\":0.636'),"
                     " reward = iif(reward = 0.637, 0.636, reward)");
    expect_equal(&f);
    fixture_close(&f);
}
END_TEST

START_TEST(a_line_that_cannot_be_folded_is_named)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    traffic(&f, 4);
    exec_on_file(&f, "UPDATE events SET text = replace(text, '{', '[') WHERE seq = 3");
    const char *answer = verify(&f);
    ck_assert_msg(strstr(answer, "{\"equal\":false,") == answer && strstr(answer, "\"fault\":\"event 3 ") != NULL, "%s",
                  answer);
    ck_assert_uint_eq(f.metrics.verifications_different, 1);
    expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", "later"), 200);
    fixture_close(&f);
}
END_TEST

/* All in one turn: the erasure's end comes before that of the verification. */
START_TEST(lines_that_are_rewritten_meanwhile_make_it_worthless)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    traffic(&f, 12);
    struct ld_op *erase = op_task(&ld_erasure), *op = op_task(&ld_verification);
    strcpy(erase->user, "u1");
    ld_tenant_submit(f.t, erase);
    ld_tenant_submit(f.t, op);
    run_all(f.t);
    ck_assert_int_eq(erase->problem->status, 0);
    ck_assert_int_eq(op->problem->status, 503);
    ck_assert_int_gt(op->problem->retry_after_s, 0);
    ck_assert_msg(strstr(op->problem->detail, "rewritten") != NULL, "%s", op->problem->detail);
    ck_assert_uint_eq(f.metrics.verifications, 0);
    ld_op_free(erase);
    ld_op_free(op);
    expect_equal(&f);
    fixture_close(&f);
}
END_TEST

START_TEST(one_at_a_time_and_with_what_others_did_before_the_answer)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    traffic(&f, 6);
    struct ld_op *op = op_task(&ld_verification), *second = op_task(&ld_verification),
                 *select = op_select(f.t, "{\"user\":\"u\",\"candidates\":[\"a\"]}", "meanwhile");
    const uint64_t before = counts_of(f.t).seq;
    char want[48];
    ld_tenant_submit(f.t, op);
    ld_tenant_submit(f.t, second);
    ld_tenant_submit(f.t, select);
    run_all(f.t);
    snprintf(want, sizeof want, "{\"equal\":true,\"seq\":%llu,", (unsigned long long)before + 1);
    ck_assert_msg(op->problem->status == 0 && strstr(op->reply, want) == op->reply, "%s", op->reply);
    ck_assert_int_eq(second->problem->status, 503);
    ck_assert_int_eq(select->problem->status, 0);
    ld_op_free(op);
    ld_op_free(second);
    ld_op_free(select);
    fixture_close(&f);
}
END_TEST

static struct fixture *doomed;

static void doom(struct ld_op *op)
{
    mark_done(op);
    ld_tenant_doom(doomed->t);
}

START_TEST(a_tenant_that_is_deleted_answers_404)
{
    struct fixture f;

    fixture_open(&f, PLAIN);
    traffic(&f, 6);
    doomed = &f;
    struct ld_op *op = op_task(&ld_verification), *refused = op_rewards(f.t, "{\"decision\":\"nobody\",\"reward\":1}"),
                 *after = op_task(&ld_verification);
    refused->done = doom; /* answered at once, between the job and its end */
    ld_tenant_submit(f.t, op);
    ld_tenant_submit(f.t, refused);
    run_all(f.t);
    ck_assert_int_eq(op->problem->status, 404);
    ld_tenant_submit(f.t, after);
    ck_assert_int_eq(after->problem->status, 404);
    ld_op_free(op);
    ld_op_free(refused);
    ld_op_free(after);
    fixture_close(&f);
}
END_TEST

/* What GET /model shows; malloc'd. */
static char *model_of(struct ld_tenant *t)
{
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    struct ld_model_text text;
    size_t n = 0;
    const struct kb_engine *e = ld_tenant_read_lock(t, &settings);

    kb_engine_counts(e, &counts);
    const struct ld_tenant_view view = {
        .name = ld_tenant_name(t), .settings = settings, .in_force = kb_engine_spec(e), .counts = &counts};
    ck_assert_int_eq(ld_begin_model(&view, e, &text), 0);
    ld_tenant_read_unlock(t);
    char *json = ld_end_model(&text, NULL, &n);
    ck_assert_ptr_nonnull(json);
    return json;
}

/* Live, from a snapshot with its tail, and folded from the first line. */
static void expect_same_models(struct fixture *f)
{
    char path[128], *live = model_of(f->t);

    snprintf(path, sizeof path, "%s/tenants/t.snapshot", f->dir);
    for (int i = 0; i < 2; i++) {
        fixture_restart(f);
        char *again = model_of(f->t);
        ck_assert_str_eq(again, live);
        free(again);
        unlink(path);
    }
    free(live);
}

/* The digest is of what decides; bounds that are only shown rest on a spectrum made now and then. */
START_TEST(bounds_are_the_same_on_every_way_to_a_model)
{
    struct fixture f;

    fixture_world(&f);
    f.settings = fixture_settings("{\"algorithm\":\"laplaced\"}");
    f.world.inline_work = 0; /* points enter in events of their own, behind all rewards */
    fixture_start(&f);
    expect_same_models(&f);
    ld_tenant_checkpoint(f.t);
    expect_same_models(&f);
    for (int i = 0; i < 4; i++) {
        char text[96];
        for (int k = 0; k < 6; k++) {
            snprintf(text, sizeof text, "{\"user\":\"u%d\",\"arm\":\"a%d\",\"reward\":0.25}", k, i);
            expect_status(f.t, op_observe(f.t, text, false), 200);
            if (k == 3 && i == 2)
                ld_tenant_checkpoint(f.t);
        }
        expect_same_models(&f);
    }
    fixture_close(&f);
}
END_TEST

int main(void)
{
    return KBT_RUN("verify", every_preset_equals_its_fold, a_build_that_is_open_is_part_of_it,
                   a_line_that_was_changed_is_found, a_line_that_cannot_be_folded_is_named,
                   lines_that_are_rewritten_meanwhile_make_it_worthless,
                   one_at_a_time_and_with_what_others_did_before_the_answer, a_tenant_that_is_deleted_answers_404,
                   bounds_are_the_same_on_every_way_to_a_model);
}
