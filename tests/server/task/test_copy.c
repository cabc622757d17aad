/* Copies and restores without HTTP: what a full disk, a stop, a mangled line or a busy writer leaves behind. */
#include <dirent.h>
#include <fcntl.h>

#include "task/copy.h"
#include "tenants/registry.h"
#include "task/restore.h"
#include "store/folder.h"
#include "store/snapshot.h"
#include "store/spool.h"
#include "tenant_fixture.h"
#include "base/text.h"
#include "json/json_out.h"

#define CONFIGURATION "{\"algorithm\":\"laplaced\",\"context_dim\":1,\"arm_dim\":1}"

static struct fixture f;
static struct ld_spool *spool;
static int n_asked, asked_limit; /* of is_over: true from the limit on */

static bool is_over(void *arg)
{
    (void)arg;
    return ++n_asked > asked_limit;
}

static void learn(int from, int to)
{
    char text[256], id[32];

    for (int i = from; i < to; i++) {
        snprintf(id, sizeof id, "d%d", i);
        snprintf(text, sizeof text,
                 "{\"user\":\"u%d\",\"context\":[%.2f],\"candidates\":[{\"id\":\"a\",\"features\":[0.5]},"
                 "{\"id\":\"b\",\"features\":[-0.5]}]%s%s%s}",
                 i % 4, 0.1 * (i % 9), i % 2 ? ",\"decision\":\"" : "", i % 2 ? id : "", i % 2 ? "\"" : "");
        struct ld_op *op = op_select(f.t, text, id);
        op->is_named = i % 2;
        expect_status(f.t, op, 200);
        snprintf(text, sizeof text, "{\"decision\":\"%s\",\"reward\":%.2f}", id, (i % 5) / 4.0);
        expect_reply(f.t, op_rewards(f.t, text), APPLIED);
    }
}

static void start(void)
{
    struct ld_message why = {""};

    fixture_open(&f, CONFIGURATION);
    learn(0, 30);
    ck_assert_msg(ld_spool_open(&spool, f.dir, &why) == 0, "%s", why.text);
    n_asked = 0;
    asked_limit = 1000000;
}

static void finish(void)
{
    ld_spool_close(spool);
    fixture_close(&f);
}

/* Files in a folder below the tenant's. */
static int n_files(const char *folder)
{
    char path[128];
    int n = 0;

    snprintf(path, sizeof path, "%s/%s", f.dir, folder);
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *item = readdir(dir); item != NULL; item = readdir(dir))
        n += item->d_name[0] != '.';
    closedir(dir);
    return n;
}

static int make(struct ld_copy *copy, enum ld_copy_kind kind)
{
    char path[LD_PATH_MAX];
    struct ld_problem p;

    ld_problem_init(&p);
    ld_spool_path(spool, path);
    return ld_copy_make(copy, f.t, kind, path, is_over, NULL, &p) == 0 ? 200 : p.status;
}

/* The copy's bytes in a file of the spool; closes it. */
static void save(const struct ld_copy *copy, const char *path)
{
    char *bytes = malloc((size_t)copy->bytes);
    FILE *out = fopen(path, "wb");

    ck_assert(bytes != NULL && out != NULL);
    ck_assert_int_eq(pread(copy->fd, bytes, (size_t)copy->bytes, 0), (ssize_t)copy->bytes);
    ck_assert_uint_eq(fwrite(bytes, 1, (size_t)copy->bytes, out), copy->bytes);
    fclose(out);
    free(bytes);
    close(copy->fd);
}

static void put_text(const char *path, const char *text, size_t n)
{
    FILE *out = fopen(path, "wb");

    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(text, 1, n, out), n);
    fclose(out);
}

/* Restores a file, or lines when there are any. 201 or the problem's status. */
static int take_in(const char *path, const char *lines, struct ld_restored *out, struct ld_problem *p)
{
    const struct ld_restore how = {.path = path, .lines = lines, .max_line = 1 << 20, .is_over = is_over};

    ld_problem_init(p);
    return ld_restore(&how, out, p) == 0 ? 201 : p->status;
}

/* The exported log in memory. */
static char *exported(size_t *n)
{
    struct ld_copy copy;

    ck_assert_int_eq(make(&copy, LD_COPY_LOG), 200);
    char *text = malloc((size_t)copy.bytes + 1);
    ck_assert_int_eq(pread(copy.fd, text, (size_t)copy.bytes, 0), (ssize_t)copy.bytes);
    text[copy.bytes] = '\0';
    *n = (size_t)copy.bytes;
    close(copy.fd);
    return text;
}

/* --- copies ------------------------------------------------------------------------------------------- */

START_TEST(a_file_with_a_line_beyond_the_limit_is_refused)
{
    char path[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    struct ld_copy copy;
    const struct ld_restore how = {.path = path, .max_line = 100, .is_over = is_over};

    ck_assert_int_eq(make(&copy, LD_COPY_FILE), 200);
    ld_spool_path(spool, path);
    save(&copy, path);
    ld_problem_init(&p);
    ck_assert_int_eq(ld_restore(&how, &restored, &p), -1);
    ck_assert_int_eq(p.status, 400);
    ck_assert_ptr_nonnull(strstr(p.errors[0].detail, "longer than this server takes"));
    ld_spool_remove(path);
}
END_TEST

START_TEST(both_kinds_fold_to_the_digest_that_is_told)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    struct ld_copy copy;

    for (int kind = LD_COPY_FILE; kind <= LD_COPY_LOG; kind++) {
        ck_assert_int_eq(make(&copy, (enum ld_copy_kind)kind), 200);
        ck_assert_int_eq(n_files("spool"), 0); /* no name while it is sent */
        ck_assert(copy.has_digest && copy.digest == digest_of(f.t) && copy.seq == counts_of(f.t).seq);
        ld_spool_path(spool, from);
        save(&copy, from);
        ld_spool_path(spool, path);
        const int status =
            kind == LD_COPY_LOG ? take_in(path, from, &restored, &p) : take_in(from, NULL, &restored, &p);
        ck_assert_msg(status == 201, "%d %s", status, p.detail);
        ck_assert(restored.digest == copy.digest && restored.seq == copy.seq && restored.events == copy.seq);
        ld_spool_remove(from);
        ld_spool_remove(path);
        ck_assert_int_eq(n_files("spool"), 0);
    }
}
END_TEST

/* A stop at any of the moments at which it is asked for. */
START_TEST(a_stop_leaves_nothing)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    struct ld_copy copy;

    ck_assert_int_eq(make(&copy, LD_COPY_LOG), 200);
    ld_spool_path(spool, from);
    save(&copy, from);
    for (asked_limit = 0; asked_limit < 1000; asked_limit = 2 * asked_limit + 1) {
        for (int kind = LD_COPY_FILE; kind <= LD_COPY_LOG; kind++) {
            n_asked = 0;
            const int status = make(&copy, (enum ld_copy_kind)kind);
            ck_assert_int_eq(n_files("spool"), 1);
            if (status == 200)
                close(copy.fd);
            else
                ck_assert_int_eq(status, 503);
        }
        n_asked = 0;
        ld_spool_path(spool, path);
        const int status = take_in(path, from, &restored, &p);
        ck_assert_int_eq(status, n_asked > asked_limit ? 503 : 201);
        ld_spool_remove(path);
        ck_assert_int_eq(n_files("spool"), 1);
    }
}
END_TEST

START_TEST(a_disk_that_fills_up_anywhere_leaves_nothing)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    struct ld_copy copy;
    int n_refused = 0;

    ck_assert_int_eq(make(&copy, LD_COPY_LOG), 200);
    const rlim_t whole = (rlim_t)copy.bytes;
    ld_spool_path(spool, from);
    save(&copy, from);
    for (rlim_t limit = 1; limit < 40 * whole; limit = limit * 5 / 3 + 1) {
        limit_files(limit);
        for (int kind = LD_COPY_FILE; kind <= LD_COPY_LOG; kind++) {
            const int status = make(&copy, (enum ld_copy_kind)kind);
            ck_assert_msg(status == 200 || status == 507, "%d", status);
            n_refused += status == 507;
            if (status == 200)
                close(copy.fd);
        }
        ld_spool_path(spool, path);
        const int status = take_in(path, from, &restored, &p);
        ck_assert_msg(status == 201 || status == 507, "%d %s", status, p.detail);
        n_refused += status == 507;
        mend_disk();
        ld_spool_remove(path);
        ck_assert_int_eq(n_files("spool"), 1);
    }
    ck_assert_int_ge(n_refused, 10);
    learn(30, 32); /* the tenant has noticed nothing */
}
END_TEST

/* --- mangled lines ------------------------------------------------------------------------------------ */

/* Whatever is taken in must come out again and fold to the same. */
static void expect_round_trip(const char *path, uint64_t digest)
{
    struct ld_restored again;
    struct ld_problem p;

    ck_assert_msg(take_in(path, NULL, &again, &p) == 201, "%s %s", p.detail, p.n_errors > 0 ? p.errors[0].detail : "");
    ck_assert_uint_eq(again.digest, digest);
}

START_TEST(bytes_that_are_changed_are_refused_or_folded)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    size_t n = 0;
    int n_taken = 0;
    uint64_t random = 7;
    char *text = exported(&n);

    ld_spool_path(spool, from);
    for (int i = 0; i < 150; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const size_t at = (size_t)(random >> 33) % n;
        const char old = text[at];
        static const char bytes[] = "\"{},:19 \n\\x[\x80";
        text[at] = bytes[(random >> 20) % (sizeof bytes - 1)];
        put_text(from, text, n);
        ld_spool_path(spool, path);
        const int status = take_in(path, from, &restored, &p);
        ck_assert_msg(status == 201 || (status == 400 && p.n_errors > 0), "%d %s", status, p.detail);
        if (status == 201)
            expect_round_trip(path, restored.digest);
        n_taken += status == 201;
        ld_spool_remove(path);
        text[at] = old;
    }
    ck_assert_int_lt(n_taken, 75);
    ld_spool_remove(from);
    free(text);
}
END_TEST

/* Cut after any line the log is a log, with its newline or without; cut within a line it is none. */
START_TEST(a_log_that_is_cut_off_is_taken_up_to_its_last_whole_line)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    size_t n = 0;
    uint64_t lines = 0;
    char *text = exported(&n);

    ld_spool_path(spool, from);
    for (size_t at = 0; at < n; at += 97) {
        lines = 0;
        for (size_t i = 0; i < at; i++)
            lines += text[i] == '\n';
        put_text(from, text, at);
        ld_spool_path(spool, path);
        const bool is_whole = at > 0 && (text[at - 1] == '\n' || text[at] == '\n'); /* but for its newline */
        const int status = take_in(path, from, &restored, &p);
        ck_assert_int_eq(status, is_whole ? 201 : 400);
        if (!is_whole && at > 0)
            ck_assert_msg(strtoull(p.errors[0].pointer + 1, NULL, 10) == lines, "%s", p.errors[0].pointer);
        ld_spool_remove(path);
    }
    ld_spool_remove(from);
    free(text);
}
END_TEST

START_TEST(a_line_beyond_the_limit_is_refused_by_its_number)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    char *text = malloc(3 << 20);

    memset(text, ' ', 3 << 20);
    text[0] = '\n';
    ld_spool_path(spool, from);
    put_text(from, text, 3 << 20);
    ld_spool_path(spool, path);
    ck_assert_int_eq(take_in(path, from, &restored, &p), 400);
    ck_assert_str_eq(p.errors[0].pointer, "/1");
    free(text);
}
END_TEST

/* --- lines with answers ------------------------------------------------------------------------------- */

/* One line through the exporter's text and back. */
static void cross(const char *line, const char *answer)
{
    struct ld_text out;
    struct ld_problem p;
    struct ld_doc *doc = NULL;
    const char *back = NULL;

    ld_text_init(&out);
    ld_problem_init(&p);
    ck_assert_int_eq(ld_text_export(&out, line, strlen(line), answer), 0);
    size_t n = out.n - 1; /* the newline */
    ck_assert_int_eq(ld_doc_parse(&doc, out.data, n, false, &p), 0);
    ck_assert_msg(ld_split_export(doc, out.data, &n, &back, &p) == 0, "%s", p.errors[0].detail);
    ck_assert_uint_eq(n, strlen(line));
    ck_assert_int_eq(memcmp(out.data, line, n - 1), 0);
    ck_assert(answer == NULL ? back == NULL : back != NULL && strcmp(back, answer) == 0);
    ld_doc_free(doc);
    ld_text_close(&out);
}

START_TEST(an_answer_is_cut_off_where_it_was_put_on)
{
    cross("{\"seq\":1}", NULL);
    cross("{\"decision\":\"d\",\"arm\":\"a\"}", "{\"decision\":\"d\",\"arm\":\"a\"}");
    cross("{\"decision\":\"d,\\\"answer\\\":{\",\"arm\":\"a\",\"user\":\"u,\"}",
          "{\"decision\":\"d,\\\"answer\\\":{\",\"arm\":\"a\"}");
    cross("{\"arm\":\"}\",\"decision\":\",\"}", "{\"decision\":\",\",\"arm\":\"}\",\"ranking\":[{\"arm\":\"}\"}]}");
}
END_TEST

/* --- the spool ---------------------------------------------------------------------------------------- */

START_TEST(the_spool_forgets_what_was_cut_off_and_knows_who_copies)
{
    char path[LD_PATH_MAX], other[LD_PATH_MAX];
    struct ld_message why;

    ld_spool_path(spool, path);
    ld_spool_path(spool, other);
    ck_assert_str_ne(path, other);
    put_text(path, "x", 1);
    snprintf(other, sizeof other, "%.1000s-wal", path);
    put_text(other, "x", 1);
    ck_assert_int_eq(n_files("spool"), 2);
    ck_assert(ld_spool_claim(spool, "t") && !ld_spool_claim(spool, "t") && ld_spool_claim(spool, "u"));
    ld_spool_let_go(spool, "t");
    ld_spool_let_go(spool, "nobody");
    ck_assert(ld_spool_claim(spool, "t") && !ld_spool_claim(spool, "u"));
    ld_spool_close(spool);
    ck_assert_int_eq(ld_spool_open(&spool, f.dir, &why), 0);
    ck_assert_int_eq(n_files("spool"), 0);
    ck_assert(ld_spool_claim(spool, "u"));
    struct ld_spool *none = NULL;
    ck_assert(ld_spool_open(&none, "/nonexistent", &why) != 0 && none == NULL &&
              strstr(why.text, "/nonexistent/spool") != NULL);
}
END_TEST

/* --- into the registry -------------------------------------------------------------------------------- */

START_TEST(a_tenant_is_adopted_whole_or_not_at_all)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX], snapshot[LD_PATH_MAX + 16];
    struct ld_message why;
    struct ld_restored restored;
    struct ld_tenants *tenants = NULL;
    struct ld_problem p;
    struct ld_copy copy;
    struct ld_world world = f.world;
    char dir[96];

    ck_assert_int_eq(make(&copy, LD_COPY_LOG), 200);
    ld_spool_path(spool, from);
    save(&copy, from);
    snprintf(dir, sizeof dir, "%s/elsewhere", f.dir);
    world.data_dir = dir;
    ck_assert_int_eq(ld_tenants_open(&tenants, &world, &why), 0);
    for (int is_full = 1; is_full >= 0; is_full--) {
        ld_spool_path(spool, path);
        ck_assert_int_eq(take_in(path, from, &restored, &p), 201);
        snprintf(snapshot, sizeof snapshot, "%s" LD_RESTORE_SNAPSHOT, path);
        ck_assert_int_eq(access(snapshot, F_OK), 0);
        if (is_full)
            limit_files(1);
        const int rc = ld_tenants_adopt(tenants, "t", &(struct ld_tenant_file){path, snapshot, NULL, NULL}, &p);
        mend_disk();
        struct ld_tenant *t = ld_tenants_find(tenants, "t");
        ck_assert_int_eq(rc, is_full ? -1 : 0);
        ck_assert(is_full ? t == NULL && p.status == 503 : t != NULL && digest_of(t) == restored.digest);
        ld_tenant_release(t);
        ld_spool_remove(path);
    }
    put_text(path, "x", 1);
    ck_assert(ld_tenants_adopt(tenants, "t", &(struct ld_tenant_file){path, snapshot, NULL, NULL}, &p) != 0 &&
              p.status == 409);
    ld_problem_init(&p);
    ck_assert(ld_tenants_adopt(tenants, "../t", &(struct ld_tenant_file){path, snapshot, NULL, NULL}, &p) != 0 &&
              p.status == 400);
    ld_tenants_close(tenants);
    ck_assert_int_eq(ld_tenants_open(&tenants, &world, &why), 0);
    struct ld_tenant *t = ld_tenants_find(tenants, "t");
    ck_assert(t != NULL && digest_of(t) == restored.digest);
    ld_tenant_release(t);
    ld_tenants_close(tenants);
}
END_TEST

/* A model that is larger than a tenant's may be is found out while it grows, and not when all of it is there. */
START_TEST(a_model_beyond_the_quota_ends_the_fold)
{
    char path[LD_PATH_MAX], from[LD_PATH_MAX];
    struct ld_restored restored;
    struct ld_problem p;
    struct ld_copy copy;
    const enum ld_copy_kind kind = _i == 0 ? LD_COPY_FILE : LD_COPY_LOG;

    learn(30, 700);
    ck_assert_int_eq(make(&copy, kind), 200);
    ld_spool_path(spool, from);
    save(&copy, from);
    ld_spool_path(spool, path);
    struct ld_restore how = {.path = kind == LD_COPY_FILE ? from : path,
                             .lines = kind == LD_COPY_FILE ? NULL : from,
                             .max_bytes = (size_t)1 << 40,
                             .max_line = 1 << 20,
                             .is_over = is_over};
    n_asked = 0;
    ld_problem_init(&p);
    if (_i == 0) { /* a file is not changed by a fold */
        ck_assert_int_eq(ld_restore(&how, &restored, &p), 0);
        ck_assert_uint_gt(restored.events, 1200);
        ck_assert_int_gt(n_asked, 1200);
    }
    how.max_bytes = 1000;
    n_asked = 0;
    ck_assert_int_eq(ld_restore(&how, &restored, &p), -1);
    ck_assert_int_eq(p.status, 507);
    ck_assert_ptr_nonnull(strstr(p.detail, "1000 bytes"));
    ck_assert_int_lt(n_asked, 600);
    ld_spool_remove(from);
    ld_spool_remove(path);
}
END_TEST

/* A line that no fold took is the old log's. */
START_TEST(a_tenant_that_is_replaced_is_read_only_no_more)
{
    char file[LD_PATH_MAX], path[LD_PATH_MAX], from[LD_PATH_MAX], snapshot[LD_PATH_MAX + 16];
    struct ld_message why;
    struct ld_restored restored;
    struct ld_tenants *tenants = NULL;
    struct ld_problem p;
    struct ld_copy copy;
    struct ld_world world = f.world;
    char dir[96];
    uint64_t seq = 0;

    ck_assert_int_eq(make(&copy, LD_COPY_LOG), 200);
    ld_spool_path(spool, from);
    save(&copy, from);
    snprintf(dir, sizeof dir, "%s/elsewhere", f.dir);
    world.data_dir = dir;
    ck_assert_int_eq(ld_tenants_open(&tenants, &world, &why), 0);
    for (int i = 0; i < 2; i++) {
        ld_spool_path(spool, path);
        ck_assert_int_eq(take_in(path, from, &restored, &p), 201);
        snprintf(snapshot, sizeof snapshot, "%s" LD_RESTORE_SNAPSHOT, path);
        if (i == 0)
            ck_assert_int_eq(ld_tenants_adopt(tenants, "t", &(struct ld_tenant_file){path, snapshot, NULL, NULL}, &p),
                             0);
        else
            ck_assert_int_eq(ld_tenants_replace(tenants, "t", &(struct ld_tenant_file){path, snapshot, NULL, NULL}, &p),
                             0);
        ck_assert_int_eq(ld_folder_path(dir, "t", LD_READ_ONLY_SUFFIX, file), 0);
        if (i == 0)
            ck_assert_int_eq(ld_snapshot_write(file, 9, "why", 3, &why), 0);
    }
    ck_assert_int_eq(ld_quarantine(dir, "t", &seq, &why), LD_STORE_OK);
    ck_assert_uint_eq(seq, 0);
    struct ld_tenant *t = ld_tenants_find(tenants, "t");
    ck_assert(t != NULL && digest_of(t) == restored.digest);
    ld_tenant_release(t);
    ld_tenants_close(tenants);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("copy");
    TCase *tc = tcase_create("copy");
    const TTest *const cases[] = {
        both_kinds_fold_to_the_digest_that_is_told,
        a_stop_leaves_nothing,
        a_disk_that_fills_up_anywhere_leaves_nothing,
        bytes_that_are_changed_are_refused_or_folded,
        a_log_that_is_cut_off_is_taken_up_to_its_last_whole_line,
        a_line_beyond_the_limit_is_refused_by_its_number,
        a_file_with_a_line_beyond_the_limit_is_refused,
        an_answer_is_cut_off_where_it_was_put_on,
        the_spool_forgets_what_was_cut_off_and_knows_who_copies,
        a_tenant_is_adopted_whole_or_not_at_all,
        a_tenant_that_is_replaced_is_read_only_no_more,
    };

    tcase_add_checked_fixture(tc, start, finish);
    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tcase_add_test(tc, cases[i]);
    tcase_add_loop_test(tc, a_model_beyond_the_quota_ends_the_fold, 0, 2);
    suite_add_tcase(s, tc);
    return kbt_run_suite(s);
}
