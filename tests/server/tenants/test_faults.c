/* A disk that fails at any call: the first, the second, ... until none does. At each of them a commit succeeds entirely
 * or fails entirely; what is in memory is what was acknowledged; and a crash right behind the fault leaves files that
 * hold all that was acknowledged and nothing else. The crash is a copy of the files as they are at that moment. */
#include <dirent.h>

#include "fault_vfs.h"
#include "tenants/registry.h"
#include "tenant_fixture.h"
#include "kbt_files.h"

#define MOST_CALLS 400
#define LEARNING "{\"algorithm\":\"laplaced\",\"context_dim\":1}"

/* In place of the C library's, for what is synced by other hands than SQLite's (fault_vfs.h). */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

static const enum fault_kind commit_faults[] = {FAULT_WRITE, FAULT_SHORT, FAULT_FULL, FAULT_SYNC, FAULT_SHM};
#define N_COMMIT_FAULTS (sizeof commit_faults / sizeof *commit_faults)

/* ---- images of a crash -------------------------------------------------------------------------------------- */

static void copy_entries(const char *from, const char *to)
{
    char a[400], b[400];
    DIR *dir = opendir(from);

    ck_assert_ptr_nonnull(dir);
    for (struct dirent *item = readdir(dir); item != NULL; item = readdir(dir)) {
        snprintf(a, sizeof a, "%s/%s", from, item->d_name);
        snprintf(b, sizeof b, "%s/%s", to, item->d_name);
        if (item->d_type == DT_REG && strstr(item->d_name, "-shm") == NULL)
            kbt_copy_file(a, b);
    }
    closedir(dir);
}

/* The files of a folder as a killed process leaves them: the -shm is made anew from the log by whoever comes next. */
static void copy_folder(const char *from, char *to)
{
    char a[160], b[160];

    strcpy(to, "/tmp/laplaced-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(to));
    snprintf(a, sizeof a, "%s/tenants", from);
    snprintf(b, sizeof b, "%s/tenants", to);
    ck_assert_int_eq(mkdir(b, 0700), 0);
    copy_entries(from, to);
    copy_entries(a, b);
}

/* What a start makes of f's files at this moment; its log folded from the first line. */
static uint64_t digest_after_crash(const struct fixture *f, uint64_t *seq)
{
    struct fixture image = *f;
    struct ld_message why = {""};

    copy_folder(f->dir, image.dir);
    image.world.data_dir = image.dir;
    image.world.verify_on_start = true;
    ck_assert_msg(ld_tenant_open(&image.t, &image.world, "t", NULL, &why) == 0, "%s", why.text);
    const uint64_t digest = digest_of(image.t);
    *seq = counts_of(image.t).seq;
    fixture_close(&image);
    return digest;
}

/* ---- commits ------------------------------------------------------------------------------------------------ */

#define N_OPS 5

struct round {
    struct fixture f;
    struct ld_op *op[N_OPS];
    const char *what;
    size_t n;
};

static void prepare(struct round *r)
{
    fixture_open(&r->f, LEARNING);
    for (int i = 0; i < 6; i++) {
        char text[128], id[16];

        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"context\":[%d],\"candidates\":[\"a\",\"b\"]}", i % 3, i);
        snprintf(id, sizeof id, "d%d", i);
        expect_status(r->f.t, op_select(r->f.t, text, id), 200);
    }
    expect_status(r->f.t, op_rewards(r->f.t, "{\"decision\":\"d0\",\"reward\":1}"), 200);
}

static void make_ops(struct round *r)
{
    struct ld_tenant *t = r->f.t;

    r->op[0] = op_select(t, "{\"user\":\"u1\",\"context\":[3],\"candidates\":[\"a\",\"b\"],\"decision\":\"mine\"}", "");
    r->op[1] = op_rewards(t, "{\"decision\":\"d1\",\"reward\":0.5}"); /* with a point of the dictionary, perhaps */
    r->op[2] = op_observe(t, "{\"user\":\"new\",\"context\":[9],\"arm\":\"z\",\"reward\":1}", false);
    r->op[3] = op_arms(t, "{\"arms\":[{\"id\":\"a\"},{\"id\":\"q\",\"active\":false}]}");
    r->op[4] = op_settings("{\"algorithm\":\"laplaced\",\"context_dim\":1,\"representation\":{\"lambda\":0.5}}");
}

/* One op, in a turn of its own. Whatever came of it, memory and files agree on it. */
static void run_one(struct round *r, size_t i)
{
    const uint64_t digest = digest_of(r->f.t), before = counts_of(r->f.t).seq;
    uint64_t seq;

    ld_tenant_submit(r->f.t, r->op[i]);
    run_all(r->f.t);
    ck_assert_ptr_eq(r->op[i]->arg, r->op[i]);
    const int status = r->op[i]->problem->status;
    ck_assert_msg(status == 0 || status == 503, "%s at %zu, op %zu: %d %s", r->what, r->n, i, status,
                  r->op[i]->problem->detail);
    ck_assert_msg((digest_of(r->f.t) == digest) == (status != 0), "%s at %zu, op %zu: %d", r->what, r->n, i, status);
    ck_assert((r->op[i]->problem->retry_after_s > 0) == (status != 0));
    const enum fault_kind kind = fault.kind;
    fault.kind = FAULT_NONE; /* the next process finds a sound disk */
    const uint64_t after = digest_after_crash(&r->f, &seq);
    fault.kind = kind;
    ck_assert_msg(after == digest_of(r->f.t),
                  "%s at %zu, op %zu answered %d: event %llu in memory, %llu in the file (%llu before)", r->what, r->n,
                  i, status, (unsigned long long)counts_of(r->f.t).seq, (unsigned long long)seq,
                  (unsigned long long)before);
}

/* The disk is whole again: the timer finds out, and all goes on; named requests that were refused are repeated. */
static void recover_and_close(struct round *r)
{
    clock_ms += 250;
    ld_tenant_tick(r->f.t, clock_ms);
    run_all(r->f.t);
    ck_assert_msg(!ld_tenant_is_failing(r->f.t), "%s at %zu", r->what, r->n);
    for (size_t i = 0; i < N_OPS; i++)
        ld_op_free(r->op[i]);
    expect_status(
        r->f.t,
        op_select(r->f.t, "{\"user\":\"u1\",\"context\":[3],\"candidates\":[\"a\",\"b\"],\"decision\":\"mine\"}", ""),
        200);
    struct ld_op *again = op_rewards(r->f.t, "{\"decision\":\"d1\",\"reward\":0.5}");
    ck_assert_int_eq(settle_op(r->f.t, again), 200); /* applied, or a duplicate */
    ld_op_free(again);
    const uint64_t digest = digest_of(r->f.t);
    ck_assert_uint_eq(counts_of(r->f.t).rewarded, 2);
    r->f.world.verify_on_start = true;
    fixture_restart(&r->f);
    ck_assert_uint_eq(digest_of(r->f.t), digest);
    fixture_close(&r->f);
}

/* True when the fault was met. */
static bool commit_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    struct round r = {.what = fault_names[kind], .n = n};

    prepare(&r);
    make_ops(&r);
    fault_arm(kind, n, is_lasting);
    for (size_t i = 0; i < N_OPS; i++)
        run_one(&r, i);
    const bool has_failed = fault_disarm();
    recover_and_close(&r);
    return has_failed;
}

START_TEST(every_commit_is_all_or_nothing_wherever_the_disk_fails)
{
    const enum fault_kind kind = commit_faults[_i / 2];
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && commit_under(kind, n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
    if (kind != FAULT_SHM)
        ck_assert_uint_ge(n, N_OPS); /* each of the commits writes and syncs */
}
END_TEST

/* ---- erasures ---------------------------------------------------------------------------------------------- */

/* Two transactions: the beginning of a reset, then the lines rewritten with its end. */
static bool erase_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    struct round r = {.what = fault_names[kind], .n = n};
    struct ld_op *op = op_task(&ld_erasure);
    uint64_t seq;

    prepare(&r);
    strcpy(op->user, "u1");
    fault_arm(kind, n, is_lasting);
    ld_tenant_submit(r.f.t, op);
    run_all(r.f.t);
    const bool has_failed = fault_disarm(), is_known = kb_engine_knows_user(ld_tenant_read_lock(r.f.t, NULL), "u1");
    ld_tenant_read_unlock(r.f.t);
    ck_assert_msg(op->problem->status == 0 || op->problem->status == 503, "%s at %zu: %d", r.what, n,
                  op->problem->status);
    ck_assert_msg(is_known == (op->problem->status != 0), "%s at %zu: %d", r.what, n, op->problem->status);
    ck_assert_msg(digest_after_crash(&r.f, &seq) == digest_of(r.f.t), "%s at %zu: %d, %llu in the file", r.what, n,
                  op->problem->status, (unsigned long long)seq);
    ld_op_free(op);
    fixture_close(&r.f);
    return has_failed;
}

START_TEST(a_user_is_erased_or_not_wherever_the_disk_fails)
{
    const enum fault_kind kind = commit_faults[_i / 2];
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && erase_under(kind, n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
}
END_TEST

/* ---- upkeep, and the way back ------------------------------------------------------------------------------- */

/* The log is moved into the file: nothing that was acknowledged depends on how far that goes. */
static bool checkpoint_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    struct round r = {.what = fault_names[kind], .n = n};
    uint64_t seq;

    prepare(&r);
    fault_arm(kind, n, is_lasting);
    ld_tenant_checkpoint(r.f.t);
    const bool has_failed = fault_disarm();
    ck_assert_msg(digest_after_crash(&r.f, &seq) == digest_of(r.f.t), "%s at %zu", r.what, n);
    make_ops(&r);
    for (size_t i = 0; i < N_OPS; i++) {
        run_one(&r, i);
        ck_assert_int_eq(r.op[i]->problem->status, 0);
    }
    recover_and_close(&r);
    return has_failed;
}

START_TEST(a_checkpoint_that_fails_loses_nothing)
{
    static const enum fault_kind kinds[] = {FAULT_WRITE, FAULT_SHORT, FAULT_FULL, FAULT_SYNC, FAULT_READ};
    const enum fault_kind kind = kinds[_i / 2];
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && checkpoint_under(kind, n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
    ck_assert_uint_gt(n, 0);
}
END_TEST

static const enum fault_kind open_faults[] = {FAULT_WRITE, FAULT_SHORT, FAULT_FULL, FAULT_SYNC,
                                              FAULT_SHM,   FAULT_OPEN,  FAULT_READ, FAULT_TRUNCATE};
#define N_OPEN_FAULTS (sizeof open_faults / sizeof *open_faults)

/* A start on what a crash has left, with a log to be read anew. It goes well, or says what failed, and the next one
 * finds everything. */
static bool open_under(const struct round *r, uint64_t digest, enum fault_kind kind, size_t n, bool is_lasting)
{
    struct fixture image = r->f;
    struct ld_message why = {""};
    uint64_t seq;

    copy_folder(r->f.dir, image.dir);
    image.world.data_dir = image.dir;
    image.t = NULL;
    fault_arm(kind, n, is_lasting);
    const int rc = ld_tenant_open(&image.t, &image.world, "t", NULL, &why);
    const bool has_failed = fault_disarm();
    if (rc == 0)
        ck_assert_uint_eq(digest_of(image.t), digest);
    else
        ck_assert_msg(rc == LD_STORE_IO && strstr(why.text, "t.db") != NULL, "%s at %zu: %d %s", fault_names[kind], n,
                      rc, why.text);
    ck_assert_uint_eq(digest_after_crash(&image, &seq), digest);
    ld_tenant_release(image.t);
    remove_dir(image.dir);
    return has_failed;
}

START_TEST(an_opening_that_fails_is_told_and_the_next_one_finds_everything)
{
    const enum fault_kind kind = open_faults[_i / 2];
    struct round r = {.what = fault_names[kind]};
    size_t n = 0;

    fault_vfs_install();
    prepare(&r);
    while (n < MOST_CALLS && open_under(&r, digest_of(r.f.t), kind, n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
    fixture_close(&r.f);
}
END_TEST

/* ---- tenants that come and go -------------------------------------------------------------------------------- */

static struct ld_tenants *start_registry(const struct ld_world *world)
{
    struct ld_tenants *tenants = NULL;
    struct ld_message why = {""};

    ck_assert_msg(ld_tenants_open(&tenants, world, &why) == 0, "%s", why.text);
    return tenants;
}

static bool has(struct ld_tenants *tenants, const char *name)
{
    struct ld_tenant *t = ld_tenants_find(tenants, name);

    if (t != NULL)
        run_all(t); /* an opening leaves the writer a first turn to do */
    ld_tenant_release(t);
    return t != NULL;
}

static bool has_after_crash(const struct fixture *f, const char *name)
{
    struct fixture image = *f;

    copy_folder(f->dir, image.dir);
    image.world.data_dir = image.dir;
    struct ld_tenants *tenants = start_registry(&image.world);
    const bool is = has(tenants, name);
    ld_tenants_close(tenants);
    remove_dir(image.dir);
    return is;
}

static int create(struct ld_tenants *tenants)
{
    const struct ld_settings settings = fixture_settings(LEARNING);
    struct ld_problem p;

    ld_problem_init(&p);
    return ld_tenants_create(tenants, "new", &settings, &p) == 0 ? 201 : p.status;
}

/* A creation that was refused leaves nothing, not even for the next start; one that was acknowledged is there. */
static bool create_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    struct fixture f;

    fixture_world(&f);
    remove_dir(f.dir);
    struct ld_tenants *tenants = start_registry(&f.world);
    fault_arm(kind, n, is_lasting);
    const int status = create(tenants);
    const bool has_failed = fault_disarm();
    ck_assert_msg(status == 201 || status == 503, "%s at %zu: %d", fault_names[kind], n, status);
    ck_assert_msg(has(tenants, "new") == (status == 201), "%s at %zu: %d", fault_names[kind], n, status);
    ck_assert_msg(has_after_crash(&f, "new") == (status == 201), "%s at %zu: %d", fault_names[kind], n, status);
    if (status == 503) {
        const int again = create(tenants);
        ck_assert_msg(again == 201, "%s at %zu: %d", fault_names[kind], n, again);
        ck_assert(has_after_crash(&f, "new"));
    }
    ld_tenants_close(tenants);
    remove_dir(f.dir);
    return has_failed;
}

START_TEST(a_tenant_is_made_or_not_wherever_the_disk_fails)
{
    const enum fault_kind kind = open_faults[_i / 2];
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && create_under(kind, n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
}
END_TEST

/* The marker of a removal is no file of SQLite's: after 503 the next start may finish it, after 204 it must. */
static bool delete_under(enum fault_kind kind, size_t n, bool is_lasting)
{
    struct fixture f;
    struct ld_problem p;

    fixture_world(&f);
    remove_dir(f.dir);
    struct ld_tenants *tenants = start_registry(&f.world);
    ck_assert_int_eq(create(tenants), 201);
    ld_problem_init(&p);
    fault_arm(kind, n, is_lasting);
    const int rc = ld_tenants_delete(tenants, "new", &p);
    const bool has_failed = fault_disarm();
    ck_assert_msg(rc == 0 || p.status == 503, "%s at %zu: %d", fault_names[kind], n, p.status);
    ck_assert_msg(has(tenants, "new") == (rc != 0), "%s at %zu", fault_names[kind], n);
    if (rc == 0)
        ck_assert(!has_after_crash(&f, "new"));
    ld_tenants_close(tenants);
    tenants = start_registry(&f.world);
    ck_assert(!has(tenants, "new"));
    ck_assert_int_eq(create(tenants), 201);
    ld_tenants_close(tenants);
    remove_dir(f.dir);
    return has_failed;
}

START_TEST(a_tenant_goes_or_stays_wherever_the_disk_fails)
{
    const enum fault_kind kind = commit_faults[_i / 2];
    size_t n = 0;

    fault_vfs_install();
    while (n < MOST_CALLS && delete_under(kind, n, _i % 2))
        n++;
    ck_assert_uint_lt(n, MOST_CALLS);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("faults", 0, {every_commit_is_all_or_nothing_wherever_the_disk_fails, 2 * N_COMMIT_FAULTS},
                         {a_user_is_erased_or_not_wherever_the_disk_fails, 2 * N_COMMIT_FAULTS},
                         {a_checkpoint_that_fails_loses_nothing, 10},
                         {an_opening_that_fails_is_told_and_the_next_one_finds_everything, 2 * N_OPEN_FAULTS},
                         {a_tenant_is_made_or_not_wherever_the_disk_fails, 2 * N_OPEN_FAULTS},
                         {a_tenant_goes_or_stays_wherever_the_disk_fails, 2 * N_COMMIT_FAULTS});
}
