/* Recovery: whichever way it goes, the model is the one that was served. */
#include "tenant/recover.h"
#include "store/snapshot.h"
#include "tenant_fixture.h"
#include "model/engine_write.h"

#define RELAXED                                                                                                        \
    "{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},"                 \
    "\"arm_kernel\":{\"type\":\"rbf\"},\"reward_window_s\":1000,\"durability\":\"relaxed\"}"

static char *path_in(const struct fixture *f, const char *name)
{
    static char path[4][128];
    static int next;
    char *out = path[next++ % 4];

    snprintf(out, sizeof path[0], "%s/tenants/%s", f->dir, name);
    return out;
}

/* Recovers from the tenant's files beside the tenant itself. The engine is freed; its digest stays. */
static int recover(const struct fixture *f, bool is_verified, struct ld_recovered *out, uint64_t *digest,
                   struct ld_message *why)
{
    struct ld_store *store = NULL;
    const char *db = path_in(f, "t.db"), *snapshot = path_in(f, "t.snapshot");
    int rc = ld_store_open(&store, db, false, why);

    ck_assert_msg(rc == 0, "%s", why->text);
    rc = ld_recover(out, store, db, snapshot, is_verified, NULL, why);
    if (rc == 0) {
        *digest = kb_engine_digest(out->engine);
        kb_engine_free(out->engine);
    }
    ld_store_close(store);
    return rc;
}

static struct ld_recovered recover_well(const struct fixture *f, bool is_verified, uint64_t want)
{
    struct ld_recovered r;
    uint64_t digest = 0;
    struct ld_message why = {""};

    ck_assert_msg(recover(f, is_verified, &r, &digest, &why) == 0, "%s", why.text);
    ck_assert_uint_eq(digest, want);
    return r;
}

START_TEST(snapshot_and_tail_equal_a_fold_of_the_log)
{
    struct fixture f;

    fixture_open(&f, FIXTURE_TRAFFIC);
    fixture_run_traffic(&f, 0, 60);
    ld_tenant_checkpoint(f.t);
    const uint64_t at_snapshot = counts_of(f.t).seq;
    fixture_run_traffic(&f, 60, 100);
    const uint64_t digest = digest_of(f.t), seq = counts_of(f.t).seq;
    struct ld_recovered r = recover_well(&f, true, digest);
    ck_assert_uint_eq(r.snapshot_seq, at_snapshot);
    ck_assert_uint_eq(r.seq, seq);
    ck_assert_int_eq(unlink(path_in(&f, "t.snapshot")), 0);
    r = recover_well(&f, false, digest);
    ck_assert_uint_eq(r.snapshot_seq, 0);
    ck_assert_uint_eq(r.seq, seq);
    fixture_close(&f);
}
END_TEST

START_TEST(a_recovered_tenant_goes_on_as_if_nothing_had_been)
{
    struct fixture through, restarted;

    fixture_open(&through, FIXTURE_TRAFFIC);
    fixture_open(&restarted, FIXTURE_TRAFFIC);
    fixture_run_traffic(&through, 0, 50);
    fixture_run_traffic(&restarted, 0, 20);
    fixture_restart(&restarted);
    fixture_run_traffic(&restarted, 20, 35);
    ld_tenant_checkpoint(restarted.t);
    fixture_restart(&restarted);
    fixture_run_traffic(&restarted, 35, 50);
    ck_assert_uint_eq(digest_of(restarted.t), digest_of(through.t));
    fixture_close(&through);
    fixture_close(&restarted);
}
END_TEST

START_TEST(snapshots_are_taken_as_rows_come)
{
    struct fixture f;

    fixture_world(&f);
    f.world.snapshot_events = 10;
    f.settings = fixture_settings(FIXTURE_TRAFFIC);
    fixture_start(&f);
    fixture_run_traffic(&f, 0, 3);
    ck_assert_uint_eq(f.metrics.snapshots, 0);
    fixture_run_traffic(&f, 3, 30);
    ck_assert_uint_ge(f.metrics.snapshots, 3);
    const struct ld_recovered r = recover_well(&f, false, digest_of(f.t));
    ck_assert_uint_gt(r.snapshot_seq, r.seq - 20);
    fixture_close(&f);
}
END_TEST

/* Each copies all that are open: by numbers that grow with them, 600 decisions take few. */
START_TEST(open_decisions_put_the_next_snapshot_off)
{
    struct fixture f;
    char id[16];

    fixture_world(&f);
    f.world.snapshot_events = 10;
    f.settings = fixture_settings(FIXTURE_TRAFFIC);
    fixture_start(&f);
    for (int i = 0; i < 600; i++) {
        snprintf(id, sizeof id, "d%d", i);
        expect_status(
            f.t,
            op_select(f.t, "{\"user\":\"u\",\"context\":[1],\"candidates\":[{\"id\":\"a\",\"features\":[1]}]}", id),
            200);
    }
    ck_assert_uint_ge(f.metrics.snapshots, 8);
    ck_assert_uint_le(f.metrics.snapshots, 24); /* 4 up to the fortieth, then one for each quarter more; not 60 */
    const struct ld_recovered r = recover_well(&f, false, digest_of(f.t));
    ck_assert_uint_gt(r.snapshot_seq, r.seq - 200);
    fixture_close(&f);
}
END_TEST

START_TEST(settings_behind_the_snapshot_are_found)
{
    struct fixture f;

    fixture_open(&f, RELAXED);
    fixture_run_traffic(&f, 0, 5);
    ld_tenant_checkpoint(f.t);
    struct ld_recovered r = recover_well(&f, false, digest_of(f.t));
    ck_assert(r.settings.is_relaxed);
    ck_assert_int_eq((int)r.settings.spec.reward_window_ms, 1000000);
    expect_status(f.t, op_settings(FIXTURE_TRAFFIC), 200);
    r = recover_well(&f, false, digest_of(f.t));
    ck_assert_uint_gt(r.snapshot_seq, 0);
    ck_assert(!r.settings.is_relaxed);
    fixture_close(&f);
}
END_TEST

START_TEST(a_damaged_snapshot_costs_only_time)
{
    struct fixture f;

    fixture_open(&f, FIXTURE_TRAFFIC);
    fixture_run_traffic(&f, 0, 20);
    ld_tenant_checkpoint(f.t);
    FILE *file = fopen(path_in(&f, "t.snapshot"), "r+b");
    ck_assert_ptr_nonnull(file);
    fseek(file, -20, SEEK_END);
    const int c = fgetc(file);
    fseek(file, -20, SEEK_END);
    fputc(c ^ 1, file);
    fclose(file);
    ck_assert_uint_eq(recover_well(&f, false, digest_of(f.t)).snapshot_seq, 0);
    fixture_close(&f);
}
END_TEST

/* Puts the snapshot of `from` beside the log of `to`. */
static void move_snapshot(const struct fixture *from, const struct fixture *to)
{
    ck_assert_int_eq(rename(path_in(from, "t.snapshot"), path_in(to, "t.snapshot")), 0);
}

START_TEST(a_snapshot_of_another_log_is_not_believed)
{
    struct fixture f, other;

    fixture_open(&f, FIXTURE_TRAFFIC);
    fixture_open(&other, FIXTURE_TRAFFIC);
    fixture_run_traffic(&other, 100, 120);
    fixture_run_traffic(&f, 0, 5);
    ld_tenant_checkpoint(other.t);
    move_snapshot(&other, &f); /* newer than the log */
    ck_assert_uint_eq(recover_well(&f, false, digest_of(f.t)).snapshot_seq, 0);
    fixture_run_traffic(&f, 5, 40);
    ck_assert_uint_eq(recover_well(&f, false, digest_of(f.t)).snapshot_seq, 0); /* not newer any more */
    fixture_close(&f);
    fixture_close(&other);
}
END_TEST

/* A snapshot that passes every check but holds the state of another log: what a fault in the codec would look like. */
START_TEST(verification_prefers_the_fold)
{
    struct fixture f, other;
    struct ld_recovered r;
    uint64_t seq, digest = 0;
    void *mine, *theirs;
    size_t n_mine, n_theirs;
    struct ld_message why;

    fixture_open(&f, FIXTURE_TRAFFIC);
    fixture_open(&other, FIXTURE_TRAFFIC);
    fixture_run_traffic(&f, 0, 20);
    fixture_run_traffic(&other, 100, 120);
    ck_assert_uint_eq(counts_of(f.t).seq, counts_of(other.t).seq);
    ld_tenant_checkpoint(f.t);
    ld_tenant_checkpoint(other.t);
    ck_assert_int_eq(ld_snapshot_read(path_in(&f, "t.snapshot"), &seq, &mine, &n_mine, &why), 0);
    ck_assert_int_eq(ld_snapshot_read(path_in(&other, "t.snapshot"), &seq, &theirs, &n_theirs, &why), 0);
    memcpy(theirs, mine, LD_SNAPSHOT_PREFIX);
    ck_assert_int_eq(ld_snapshot_write(path_in(&f, "t.snapshot"), seq, theirs, n_theirs, &why), 0);
    ck_assert_int_eq(recover(&f, false, &r, &digest, &why), 0);
    ck_assert_uint_eq(digest, digest_of(other.t)); /* unverified, it is believed */
    ck_assert_uint_eq(recover_well(&f, true, digest_of(f.t)).snapshot_seq, 0);
    free(mine);
    free(theirs);
    fixture_close(&f);
    fixture_close(&other);
}
END_TEST

START_TEST(a_line_that_cannot_be_read_is_named)
{
    static const char *const lines[] = {
        ",\"type\":\"nonsense\",\"at\":\"2026-11-21T10:00:00.000Z\"}",
        "7,\"type\":\"activated\",\"at\":\"2026-11-21T10:00:00.000Z\",\"decision\":\"d0\"}",
        ",\"type\":\"rewarded\",\"at\":\"2026-11-21T10:00:00.000Z\",\"decision\":\"never\",\"reward\":1}",
        "",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct fixture f;
        struct ld_recovered r;
        uint64_t digest = 0;
        char text[256], want[32];
        struct ld_message why = {""};

        fixture_open(&f, FIXTURE_TRAFFIC);
        fixture_run_traffic(&f, 0, 3);
        const unsigned seq = (unsigned)counts_of(f.t).seq + 1;
        snprintf(text, sizeof text, "{\"seq\":%u%s", seq, lines[i]);
        snprintf(want, sizeof want, "event %u ", seq);
        const struct ld_row row = {
            .seq = seq, .at_ms = 1, .type = KB_EV_ACTIVATED, .text = text, .n_text = strlen(text)};
        ck_assert_int_eq(ld_store_append(ld_tenant_store(f.t), &row, 1, &why), 0);
        ck_assert_int_eq(recover(&f, false, &r, &digest, &why), LD_STORE_CORRUPT);
        ck_assert_msg(strstr(why.text, "t.db") != NULL && strstr(why.text, want) != NULL, "%s", why.text);
        fixture_close(&f);
    }
}
END_TEST

/* The fold from the start skips the posterior before the last reset; it must not matter. */
START_TEST(a_fold_over_resets_equals_the_live_model)
{
    struct fixture f;

    fixture_open(&f, FIXTURE_TRAFFIC);
    fixture_run_traffic(&f, 0, 15);
    expect_status(f.t, op_graph(f.t, "{\"edges\":[[\"u0\",\"u1\"]]}"), 200);
    fixture_run_traffic(&f, 15, 25);
    expect_status(f.t,
                  op_settings("{\"algorithm\":\"lk-gp-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":"
                              "{\"type\":\"rbf\",\"lengthscale\":2},\"arm_kernel\":{\"type\":\"rbf\"}}"),
                  200);
    fixture_run_traffic(&f, 25, 40);
    recover_well(&f, false, digest_of(f.t));
    ld_tenant_checkpoint(f.t);
    fixture_run_traffic(&f, 40, 45);
    ck_assert_uint_gt(recover_well(&f, true, digest_of(f.t)).snapshot_seq, 0);
    fixture_close(&f);
}
END_TEST

/* It is counted line by line, and ends at the next one. */
START_TEST(a_recovery_that_is_told_to_stop_says_so_and_leaves_nothing)
{
    struct fixture f;
    struct ld_progress progress = {.is_stopping = false};
    struct ld_recovered r;
    struct ld_store *store = NULL;
    struct ld_message why = {""};

    fixture_open(&f, FIXTURE_TRAFFIC);
    fixture_run_traffic(&f, 0, 15);
    ck_assert_int_eq(ld_store_open(&store, path_in(&f, "t.db"), false, &why), 0);
    ck_assert_int_eq(ld_recover(&r, store, path_in(&f, "t.db"), "", true, &progress, &why), 0);
    ck_assert_uint_eq(progress.n_lines, counts_of(f.t).seq);
    ck_assert_uint_eq(kb_engine_digest(r.engine), digest_of(f.t));
    kb_engine_free(r.engine);
    progress.is_stopping = true;
    ck_assert_int_eq(ld_recover(&r, store, path_in(&f, "t.db"), "", false, &progress, &why), LD_STORE_STOPPED);
    ck_assert_uint_eq(progress.n_lines, counts_of(f.t).seq);
    ck_assert_msg(strstr(why.text, "t.db: the server is stopping") != NULL, "%s", why.text);
    ld_store_close(store);
    fixture_close(&f);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "recover", snapshot_and_tail_equal_a_fold_of_the_log, a_recovered_tenant_goes_on_as_if_nothing_had_been,
        snapshots_are_taken_as_rows_come, open_decisions_put_the_next_snapshot_off,
        settings_behind_the_snapshot_are_found, a_damaged_snapshot_costs_only_time,
        a_snapshot_of_another_log_is_not_believed, verification_prefers_the_fold, a_line_that_cannot_be_read_is_named,
        a_fold_over_resets_equals_the_live_model, a_recovery_that_is_told_to_stop_says_so_and_leaves_nothing);
}
