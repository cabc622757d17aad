/* A shared log that has lost lines which copies have: it is told by name, mended when asked, and never by itself. */
#include "shared_fixture.h"

#include <dirent.h>

#include "store/folder.h"
#include "task/repair_shared.h"

#define CONFIGURATION "{\"algorithm\":\"laplaced\",\"reward_window_s\":1000}"
#define MANY 40

static void observe_at(int i, int n, int want)
{
    struct ld_tenant *t = node[i].t;
    char text[96];

    snprintf(text, sizeof text, "{\"user\":\"u%d\",\"arm\":\"%s\",\"reward\":%.2f}", n % 7, n % 2 != 0 ? "a" : "b",
             n % 10 / 10.0);
    expect_status(t, op_observe(t, text, false), want);
}

static void fill(int from, int n)
{
    for (int i = from; i < from + n; i++)
        observe_at(i % N_NODES, i, 200);
    for (int i = 0; i < N_NODES; i++)
        follow(i);
}

/* The log without its last n batches, which stay in `lost`. */
static struct kbt_shared_batch lost[64];

static void lose(size_t n)
{
    struct kbt_shared_tenant *t = the_tenant();

    ck_assert_uint_lt(n, t->n);
    t->n -= n;
    memcpy(lost, &t->batch[t->n], n * sizeof *lost);
}

static void forget_lost(size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(lost[i].body);
}

static int repair(int i, enum ld_repair_action action, struct ld_repaired *out, struct ld_problem *p)
{
    ld_tenant_release(node[i].t);
    node[i].t = NULL;
    ld_problem_init(p);
    const int rc = ld_repair_shared(&shared.base, node[i].world.node, node[i].dir, "t", action, NULL, out, p);
    return rc == 0 ? 200 : p->status;
}

static void check_is_forked(int i, const char *word)
{
    struct ld_tenant_shared view;

    follow(i);
    ld_tenant_shared(node[i].t, &view);
    ck_assert(view.is_forked);
    struct ld_op *op = op_observe(node[i].t, "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1}", false);
    ck_assert_int_eq(settle_op(node[i].t, op), 503);
    ck_assert_msg(strstr(op->problem->detail, "tenant 't'") != NULL && strstr(op->problem->detail, word) != NULL &&
                      strstr(op->problem->detail, "laplacectl cluster repair") != NULL,
                  "%s", op->problem->detail);
    ld_op_free(op);
}

static void open_all(void)
{
    for (int i = 0; i < N_NODES; i++) {
        if (node[i].t == NULL)
            open_node(i, NULL);
        follow(i);
    }
}

static struct ld_text log_text(void)
{
    struct ld_text text;

    all_lines(&text);
    return text;
}

START_TEST(lines_that_the_log_has_lost_come_back_from_a_copy_when_asked)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(20, CONFIGURATION);
    fill(0, MANY);
    struct ld_text was = log_text();
    lose(7);
    const uint64_t n_lines = node[1].t->seq - the_tenant()->batch[the_tenant()->n - 1].at.seq;
    for (int i = 0; i < N_NODES; i++)
        check_is_forked(i, "no batch ends there");
    shared.odds = (struct kbt_shared_odds){.down = _i == 1 ? 0.3 : 0, .unknown_out = _i == 2, .unknown_in = _i == 3};
    int status = repair(1, LD_REPAIR_PUSH, &out, &p);
    for (int n = 0; status == 503 && n < 100; n++) {
        ck_assert_int_ne(_i, 0);
        shared.odds.unknown_out = 0;
        status = repair(1, LD_REPAIR_PUSH, &out, &p);
    }
    shared.odds = (struct kbt_shared_odds){.down = 0};
    ck_assert_msg(status == 200, "%d %s", status, p.detail);
    ck_assert_uint_eq(out.n_lines, n_lines);
    ck_assert_str_eq(out.file, "");
    struct ld_text is = log_text();
    ck_assert_uint_eq(is.n, was.n);
    ck_assert_mem_eq(is.data, was.data, was.n);
    ck_assert_int_eq(repair(1, LD_REPAIR_PUSH, &out, &p), 409); /* once is enough */
    ck_assert_int_eq(repair(1, LD_REPAIR_REWIND, &out, &p), 409);
    open_all();
    fill(MANY, 10);
    compare_nodes();
    ld_text_close(&was);
    ld_text_close(&is);
    forget_lost(7);
    end();
}
END_TEST

START_TEST(a_copy_that_has_more_than_what_another_has_put_back_goes_on_from_there)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(21, CONFIGURATION);
    fill(0, MANY);
    for (int i = 0; i < 4; i++) /* which server 0 alone has seen */
        observe_at(0, i, 200);
    lose(9);
    ck_assert_int_eq(repair(2, LD_REPAIR_PUSH, &out, &p), 200);
    follow(0);
    check_is_forked(0, "fewer lines");
    ck_assert_int_eq(repair(0, LD_REPAIR_PUSH, &out, &p), 200);
    ck_assert_uint_ge(out.n_lines, 4);
    open_all();
    fill(MANY, 10);
    compare_nodes();
    forget_lost(9);
    end();
}
END_TEST

START_TEST(lines_that_are_given_up_are_kept_in_a_file_that_is_named)
{
    struct ld_repaired out;
    struct ld_problem p;
    char path[512];
    static char text[1 << 16];

    begin(22, CONFIGURATION);
    fill(0, MANY);
    lose(5);
    struct ld_text is = log_text();
    for (int i = 0; i < N_NODES; i++) {
        ck_assert_int_eq(repair(i, LD_REPAIR_REWIND, &out, &p), 200);
        snprintf(path, sizeof path, "%.63s/tenants/%.150s", node[i].dir, out.file);
        FILE *f = fopen(path, "rb");
        ck_assert_ptr_nonnull(f);
        size_t n = fread(text, 1, sizeof text, f), at = 0, n_lines = 0;
        fclose(f);
        for (size_t k = 0; k < 5; k++) { /* what was lost, to the letter */
            ck_assert_mem_eq(text + at, lost[k].body, lost[k].n_body);
            at += lost[k].n_body;
            n_lines += lost[k].n;
        }
        ck_assert_uint_eq(at, n);
        ck_assert_uint_eq(n_lines, out.n_lines);
    }
    open_all();
    fill(MANY, 10);
    struct ld_text now = log_text();
    ck_assert_mem_eq(now.data, is.data, is.n - 1);
    compare_nodes();
    ld_text_close(&is);
    ld_text_close(&now);
    forget_lost(5);
    end();
}
END_TEST

/* Others have written where lines were lost: the copy is a branch of its own. */
START_TEST(a_copy_with_other_lines_is_rewound_and_not_pushed)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(23, CONFIGURATION);
    fill(0, MANY);
    const uint64_t last = node[0].t->seq;
    ld_tenant_release(node[2].t);
    node[2].t = NULL;
    observe_at(0, 1, 200);
    observe_at(0, 2, 200);
    follow(1);
    size_t n_lost = 0;
    while (the_tenant()->batch[the_tenant()->n - 1 - n_lost].at.seq > last)
        n_lost++;
    lose(n_lost);
    open_node(2, NULL);
    for (int i = 0; i < 5; i++) /* and more than was lost */
        observe_at(2, 10 * i + 3, 200);
    struct ld_text is = log_text();
    check_is_forked(0, "");
    ck_assert_int_eq(repair(0, LD_REPAIR_PUSH, &out, &p), 409);
    char word[32];
    snprintf(word, sizeof word, "another line %llu", (unsigned long long)last + 1);
    ck_assert_msg(strstr(p.detail, word) != NULL, "%s: %s", word, p.detail);
    ck_assert_int_eq(repair(0, LD_REPAIR_REWIND, &out, &p), 200);
    ck_assert_int_eq(repair(1, LD_REPAIR_REWIND, &out, &p), 200);
    ck_assert_uint_gt(out.n_lines, 0);
    ck_assert_int_eq(repair(2, LD_REPAIR_REWIND, &out, &p), 409);
    open_all();
    struct ld_text now = log_text();
    ck_assert_uint_eq(now.n, is.n);
    compare_nodes();
    ld_text_close(&is);
    ld_text_close(&now);
    forget_lost(n_lost);
    end();
}
END_TEST

START_TEST(a_copy_that_is_behind_or_another_tenants_is_left_alone)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(24, CONFIGURATION);
    fill(0, MANY);
    ld_tenant_release(node[2].t);
    node[2].t = NULL;
    observe_at(0, 1, 200);
    ck_assert_int_eq(repair(2, LD_REPAIR_PUSH, &out, &p), 409);
    ck_assert_ptr_nonnull(strstr(p.detail, "nothing to put back"));
    ck_assert_int_eq(repair(2, LD_REPAIR_REWIND, &out, &p), 409);
    const uint64_t id = the_tenant()->id;
    the_tenant()->id = 4711;
    ck_assert_int_eq(repair(2, LD_REPAIR_PUSH, &out, &p), 409);
    ck_assert_ptr_nonnull(strstr(p.detail, "4711"));
    ck_assert_int_eq(repair(2, LD_REPAIR_REWIND, &out, &p), 409);
    the_tenant()->id = id;
    the_tenant()->is_dropped = true;
    ck_assert_int_eq(repair(2, LD_REPAIR_REWIND, &out, &p), 404);
    shared.tenant[0].is_dropped = false;
    shared.odds.untaken = 1;
    ck_assert_int_eq(repair(2, LD_REPAIR_PUSH, &out, &p), 503);
    shared.odds.untaken = 0;
    open_all();
    compare_nodes();
    end();
}
END_TEST

/* Copies that have what was erased, of a log that has not: generations of before come again. */
START_TEST(a_log_that_was_set_back_behind_a_push_is_mended_again)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(25, CONFIGURATION);
    fill(0, MANY);
    lose(3);
    ck_assert_int_eq(repair(0, LD_REPAIR_PUSH, &out, &p), 200);
    forget_lost(3);
    open_all();
    fill(MANY, 3);
    the_tenant()->generation = shared.generation = 0; /* a backup of before */
    lose(4);
    ck_assert_int_eq(repair(1, LD_REPAIR_PUSH, &out, &p), 200);
    ck_assert_uint_gt(the_tenant()->generation, 1);
    open_all();
    fill(MANY, 3);
    compare_nodes();
    forget_lost(4);
    end();
}
END_TEST

/* ---- logs that were compacted, or that have erased ---------------------------------------------------------- */

static void run_task(int i, const struct ld_task_kind *kind, const char *user, uint64_t keep)
{
    struct ld_op *op = op_task(kind);

    op->keep_events = keep;
    snprintf(op->user, sizeof op->user, "%s", user);
    expect_status(node[i].t, op, 200);
}

static size_t n_kept_files(int i)
{
    char path[512];
    size_t n = 0;

    snprintf(path, sizeof path, "%s/tenants", node[i].dir);
    DIR *dir = opendir(path);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *item = readdir(dir); item != NULL; item = readdir(dir))
        n += strstr(item->d_name, ".lost-") != NULL;
    closedir(dir);
    return n;
}

START_TEST(a_summary_is_not_put_into_a_log_that_never_had_the_tenant)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(26, CONFIGURATION);
    fill(0, MANY);
    run_task(0, &ld_compaction, "", 5);
    fill(MANY, 3);
    struct kbt_shared_tenant *t = the_tenant(), was = *t;
    strcpy(t->name, "other");
    t->id = 4711;
    ck_assert_int_eq(repair(0, LD_REPAIR_PUSH, &out, &p), 409);
    ck_assert_msg(strstr(p.detail, "summary") != NULL, "%s", p.detail);
    t->id = was.id;
    strcpy(t->name, was.name);
    open_all();
    compare_nodes();
    end();
}
END_TEST

/* A log that was set back gives its numbers once more. */
START_TEST(a_number_that_another_tenant_has_by_now_tells_nothing)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(27, CONFIGURATION);
    fill(0, MANY);
    struct kbt_shared_tenant *t = the_tenant();
    strcpy(t->name, "other");
    t->generation = 3;
    ck_assert_int_eq(repair(0, LD_REPAIR_REWIND, &out, &p), 200);
    ck_assert_uint_eq(n_kept_files(0), 1);
    strcpy(t->name, "t");
    t->generation = 0;
    open_all();
    compare_nodes();
    end();
}
END_TEST

static void check_file(int i, const char *name, const char *body, size_t n_body)
{
    static char text[1 << 16];
    char path[512];

    snprintf(path, sizeof path, "%.63s/tenants/%.150s", node[i].dir, name);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    ck_assert_uint_eq(n, n_body);
    ck_assert_mem_eq(text, body, n);
}

START_TEST(lines_that_were_kept_are_kept_when_others_of_their_numbers_are)
{
    struct ld_repaired out[2];
    struct ld_problem p;
    struct ld_text body[2];

    begin(28, CONFIGURATION);
    fill(0, MANY);
    for (int k = 0; k < 2; k++) {
        observe_at(0, 3 + 4 * k, 200);
        lose(1);
        ck_assert_int_eq(repair(0, LD_REPAIR_REWIND, &out[k], &p), 200);
        ld_text_init(&body[k]);
        ld_text_raw(&body[k], lost[0].body, lost[0].n_body);
        forget_lost(1);
        open_node(0, NULL);
        follow(0);
    }
    ck_assert_int_eq(strncmp(out[0].file, out[1].file, strlen(out[0].file)), 0); /* the same numbers */
    ck_assert_uint_eq(n_kept_files(0), 2);
    for (int k = 0; k < 2; k++) {
        check_file(0, out[k].file, body[k].data, body[k].n);
        ld_text_close(&body[k]);
    }
    open_all();
    compare_nodes();
    ld_tenant_release(node[0].t);
    node[0].t = NULL;
    ld_folder_remove(node[0].dir, "t"); /* as for a copy that is made anew */
    ck_assert_uint_eq(n_kept_files(0), 2);
    ck_assert_int_eq(ld_folder_mark_deleted(node[0].dir, "t"), 0);
    ld_folder_remove(node[0].dir, "t");
    ck_assert_uint_eq(n_kept_files(0), 0);
    end();
}
END_TEST

START_TEST(a_copy_that_only_lacks_an_erasure_keeps_nothing_of_the_user)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(29, CONFIGURATION);
    fill(0, MANY);
    ld_tenant_release(node[2].t);
    node[2].t = NULL;
    run_task(0, &ld_erasure, "u1", 0);
    ck_assert_int_eq(repair(2, LD_REPAIR_REWIND, &out, &p), 409);
    ck_assert_msg(strstr(p.detail, "start the server") != NULL, "%s", p.detail);
    ck_assert_uint_eq(n_kept_files(2), 0);
    open_all();
    compare_nodes();
    end();
}
END_TEST

/* A backup may be from before the log allowed the lines that the copies have. */
START_TEST(lines_are_put_back_where_the_log_allows_the_newest_alone)
{
    struct ld_repaired out;
    struct ld_problem p;

    begin(30, CONFIGURATION);
    fill(0, MANY);
    lose(5);
    const size_t n = the_tenant()->n;
    shared.version = LD_LOG_VERSION - 1;
    ck_assert_int_eq(repair(1, LD_REPAIR_PUSH, &out, &p), 503);
    ck_assert_msg(strstr(p.detail, "laplacectl cluster upgrade, and ask again") != NULL, "%s", p.detail);
    ck_assert_uint_eq(the_tenant()->n, n);
    shared.version = LD_LOG_VERSION;
    ck_assert_int_eq(repair(1, LD_REPAIR_PUSH, &out, &p), 200);
    open_all();
    fill(MANY, 10);
    compare_nodes();
    forget_lost(5);
    end();
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("repair_shared", 60, {lines_that_the_log_has_lost_come_back_from_a_copy_when_asked, 4},
                         {a_copy_that_has_more_than_what_another_has_put_back_goes_on_from_there, 1},
                         {lines_that_are_given_up_are_kept_in_a_file_that_is_named, 1},
                         {a_copy_with_other_lines_is_rewound_and_not_pushed, 1},
                         {a_copy_that_is_behind_or_another_tenants_is_left_alone, 1},
                         {a_log_that_was_set_back_behind_a_push_is_mended_again, 1},
                         {a_summary_is_not_put_into_a_log_that_never_had_the_tenant, 1},
                         {a_number_that_another_tenant_has_by_now_tells_nothing, 1},
                         {lines_that_were_kept_are_kept_when_others_of_their_numbers_are, 1},
                         {a_copy_that_only_lacks_an_erasure_keeps_nothing_of_the_user, 1},
                         {lines_are_put_back_where_the_log_allows_the_newest_alone, 1});
}
