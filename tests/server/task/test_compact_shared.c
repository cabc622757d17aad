/* A log that three servers write is compacted: all copies begin with its summary, no model changes by a bit, whatever
 * the log answers and whoever writes or erases meanwhile. */
#include "shared_fixture.h"

#define CONFIGURATION "{\"algorithm\":\"laplaced\",\"reward_window_s\":1000}"
#define BY_ARM                                                                                                         \
    "{\"algorithm\":\"laplaced-by-arm\",\"reward_window_s\":1000,\"routing\":{\"holdout\":{\"share\":0.3,"             \
    "\"baseline\":{\"arm\":\"a\"}}}}"
#define ARMS "{\"arms\":[{\"id\":\"a\"},{\"id\":\"b\"}]}"

static struct ld_op *op_compact(uint64_t keep)
{
    struct ld_op *op = op_task(&ld_compaction);

    op->keep_events = keep;
    return op;
}

static struct ld_op *op_erase(const char *user)
{
    struct ld_op *op = op_task(&ld_erasure);

    snprintf(op->user, sizeof op->user, "%s", user);
    return op;
}

static void begin_log(uint64_t seed, const char *configuration)
{
    begin(seed, configuration);
    expect_status(node[0].t, op_arms(node[0].t, ARMS), 200);
    expect_status(node[0].t, op_graph(node[0].t, "{\"edges\":[[\"u1\",\"u2\"],[\"u2\",\"u3\"]]}"), 200);
    for (int i = 0; i <= N_NODES; i++) {
        node[i].world.snapshot_events = 7;
        node[i].world.books = ld_book_kinds;
    }
    for (int i = 0; i < N_NODES; i++) {
        ld_tenant_release(node[i].t);
        open_node(i, NULL);
    }
}

/* The reset that a compaction would ask for itself. */
static struct ld_op *op_rebuild(void)
{
    struct ld_op *op = ld_op_new(LD_OP_REBUILD);

    op->done = mark_done;
    return op;
}

static size_t n_number;

/* A decision with its reward, or without. */
static void visit(int i, int want)
{
    char text[128], id[32];
    struct ld_tenant *t = node[i].t;

    snprintf(id, sizeof id, "d%zu", n_number++);
    snprintf(text, sizeof text, "{\"user\":\"u%d\"}", (int)draw(9));
    struct ld_op *op = op_select(t, text, id);
    int status = settle_op(t, op);
    ck_assert_msg(status == 200 || (want == 0 && status == 503), "%d %s", status, op->problem->detail);
    ld_op_free(op);
    if (status != 200 || draw(4) == 0)
        return;
    snprintf(text, sizeof text, "{\"decision\":\"%s\",\"reward\":%.2f}", id, (double)draw(100) / 100);
    op = op_rewards(t, text);
    status = settle_op(t, op);
    ck_assert_msg(status == 200 || (want == 0 && (status == 503 || status == 404)), "%d %s", status,
                  op->problem->detail);
    ld_op_free(op);
}

static void follow_all(void)
{
    for (int n = 0; n < 3; n++)
        for (int i = 0; i < N_NODES; i++) {
            follow(i);
            ld_tenant_tick(node[i].t, clock_ms);
            run_all(node[i].t);
        }
}

static bool compact(int i, uint64_t keep)
{
    struct ld_op *op = op_compact(keep);
    const int status = settle_op(node[i].t, op);
    const bool is_done = status == 200 && strstr(op->reply, "\"compacted\":true") != NULL;

    ck_assert_msg(status == 200 || status == 503, "%d %s", status, op->problem->detail);
    ld_op_free(op);
    return is_done;
}

static int by_value(const void *a, const void *b)
{
    return memcmp(a, b, 8);
}

/* What the books of a tenant count, as text: words in order, since open decisions stand where they met others in a
 * table of hashes, behind all names. */
static char *books_of(struct ld_tenant *t)
{
    static char text[1 << 20];
    struct ld_book_rows rows;
    size_t n = 0;

    for (int k = 0; k < 10 && ld_books_are_behind(&t->books); k++) {
        ld_tenant_tick(t, clock_ms);
        run_all(t);
    }
    ck_assert(!ld_books_are_behind(&t->books));
    ck_assert_int_eq(ld_books_pack(&t->books, &rows), KB_OK);
    text[0] = '\0';
    for (size_t i = 0; i < rows.n; i++)
        if (strcmp(rows.row[i].name, LD_UNKNOWN_BOOK) != 0) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s %llu:", rows.row[i].name,
                                  (unsigned long long)rows.row[i].seq);
            unsigned char *body = rows.row[i].body;
            const size_t n_odd = rows.row[i].n_body % 8;
            qsort(body + n_odd, rows.row[i].n_body / 8, 8, by_value);
            for (size_t k = 0; k < rows.row[i].n_body && n + 3 < sizeof text; k++)
                n += (size_t)snprintf(text + n, sizeof text - n, "%02x", body[k]);
        }
    ld_book_rows_close(&rows);
    return strdup(text);
}

START_TEST(all_copies_begin_with_the_summary_and_no_model_changes)
{
    begin_log(30 + (uint64_t)_i, _i % 2 == 0 ? CONFIGURATION : BY_ARM);
    n_number = 0;
    for (int i = 0; i < 60; i++)
        visit((int)draw(N_NODES), 200);
    expect_status(node[0].t, op_rebuild(), 200);
    follow_all();
    struct ld_text was;
    all_lines(&was);
    const uint64_t decided = counts_of(node[0].t).decided, epoch = node[2].t->engine_epoch;
    ck_assert(compact(0, _i < 2 ? 20 : 0));
    ck_assert_uint_eq(shared.n_compactions, 1);
    follow_all();
    struct ld_text is;
    all_lines(&is);
    ck_assert_uint_lt(is.n, was.n);
    ck_assert_ptr_nonnull(strstr(is.data, "\"summary\""));
    for (int i = 0; i < N_NODES; i++) {
        uint64_t first = 0, kept = 0;
        bool has_leftovers = true;
        ck_assert_int_eq(ld_store_start(node[i].t->store, &first, &kept), LD_STORE_OK);
        ck_assert_uint_gt(first, 1);
        ck_assert_uint_gt(kept, first);
        ck_assert_int_eq(ld_store_has_leftovers(node[i].t->store, &has_leftovers), LD_STORE_OK);
        ck_assert(!has_leftovers);
        ck_assert_uint_eq(counts_of(node[i].t).decided, decided);
        expect_status(node[i].t, op_task(&ld_verification), 200);
    }
    if (_i < 2) /* whoever had read the reset before has folded nothing anew */
        ck_assert_uint_eq(node[2].t->engine_epoch, epoch);
    for (int i = 0; i < 20; i++)
        visit((int)draw(N_NODES), 200);
    follow_all();
    compare_nodes();
    char *now = books_of(node[0].t), *books = books_of(node[N_NODES].t); /* which has never seen what is gone */
    ck_assert_str_eq(now, books);
    ck_assert(compact(2, 3));
    follow_all();
    compare_nodes();
    free(now);
    free(books);
    ld_text_close(&was);
    ld_text_close(&is);
    end();
}
END_TEST

START_TEST(a_server_that_was_away_takes_the_summary_and_goes_on)
{
    begin_log(40, CONFIGURATION);
    n_number = 0;
    for (int i = 0; i < 40; i++)
        visit((int)draw(N_NODES), 200);
    follow_all();
    ld_tenant_release(node[2].t);
    node[2].t = NULL;
    for (int i = 0; i < 30; i++)
        visit(i % 2, 200);
    ck_assert(compact(_i % 2, _i < 2 ? 10 : 60)); /* behind what it has, or before its end */
    visit(0, 200);
    open_node(2, NULL);
    for (int i = 0; i < 10; i++)
        visit((int)draw(N_NODES), 200);
    follow_all();
    compare_nodes();
    char *one = books_of(node[0].t), *other = books_of(node[2].t);
    ck_assert_str_eq(one, other);
    free(one);
    free(other);
    end();
}
END_TEST

/* What was counted over the lines that go is each server's own; the compactor's is ahead of the others'. */
START_TEST(what_a_server_behind_has_counted_stays)
{
    begin_log(45 + (uint64_t)_i, _i == 0 ? CONFIGURATION : BY_ARM);
    n_number = 0;
    for (int i = 0; i < 60; i++)
        visit((int)draw(N_NODES), 200);
    expect_status(node[0].t, op_rebuild(), 200);
    follow_all();
    if (_i == 2) { /* it begins with the compactor's, which are ahead of what it has read */
        ld_tenant_release(node[1].t);
        node[1].t = NULL;
    }
    for (int i = 0; i < 3; i++)
        visit(0, 200);
    ck_assert(compact(0, 20));
    if (_i == 2)
        open_node(1, NULL);
    follow_all();
    char *want = books_of(node[0].t);
    for (int i = 1; i < N_NODES; i++) {
        char *got = books_of(node[i].t);
        ck_assert_msg(strcmp(got, want) == 0, "server %d has counted otherwise", i);
        free(got);
    }
    free(want);
    compare_nodes();
    char *one = books_of(node[0].t), *other = books_of(node[1].t);
    ck_assert_msg(strcmp(one, other) == 0, "server 1 has counted otherwise");
    free(one);
    free(other);
    end();
}
END_TEST

/* ---- at random --------------------------------------------------------------------------------------------------- */

static bool is_meddling;
static int running;
static size_t n_compacted, n_erased;

static void act(int i)
{
    struct ld_op *op = NULL;
    char user[16];

    switch (draw(16)) {
    case 0:
    case 1:
        n_compacted += compact(i, draw(30));
        return;
    case 2:
        snprintf(user, sizeof user, "u%d", (int)draw(9));
        op = op_erase(user);
        break;
    default:
        visit(i, 0);
        return;
    }
    const int status = settle_op(node[i].t, op);
    n_erased += status == 200;
    ck_assert_msg(status == 200 || status == 404 || status == 503, "%d %s", status, op->problem->detail);
    ld_op_free(op);
}

static void meddle(void *arg)
{
    (void)arg;
    if (is_meddling || draw(3) != 0)
        return;
    is_meddling = true;
    act((running + 1 + (int)draw(N_NODES - 1)) % N_NODES);
    is_meddling = false;
}

START_TEST(compactions_and_erasures_at_three_servers_leave_one_log_and_one_model)
{
    n_compacted = n_erased = n_number = 0;
    begin_log(50 + (uint64_t)_i, _i % 2 == 0 ? CONFIGURATION : BY_ARM);
    shared.meddle = meddle;
    shared.odds = (struct kbt_shared_odds){
        .behind = 0.03, .down = 0.03, .unknown_in = 0.05, .unknown_out = 0.05, .unsettled = 0.4, .untaken = 0.03};
    for (int i = 0; i < 250; i++) {
        running = (int)draw(N_NODES);
        clock_ms += (int64_t)draw(50);
        if (draw(12) == 0) {
            ld_tenant_release(node[running].t);
            open_node(running, NULL);
        } else {
            act(running);
        }
    }
    shared.odds = (struct kbt_shared_odds){.down = 0};
    shared.meddle = NULL;
    ck_assert_msg(n_compacted > 3 && n_erased > 3, "%zu compactions, %zu erasures", n_compacted, n_erased);
    expect_status(node[0].t, op_observe(node[0].t, "{\"user\":\"ghost\",\"arm\":\"a\",\"reward\":1}", false), 200);
    follow_all();
    expect_status(node[1].t, op_erase("ghost"), 200);
    follow_all();
    compare_nodes();
    struct ld_text lines;
    all_lines(&lines);
    ck_assert_ptr_null(strstr(lines.data, "ghost"));
    ld_text_close(&lines);
    end();
}
END_TEST

START_TEST(servers_that_have_not_read_the_compaction_are_named)
{
    begin_log(60, CONFIGURATION);
    n_number = 0;
    for (int i = 0; i < 40; i++)
        visit((int)draw(N_NODES), 200);
    follow_all();
    shared.laggard = "c";
    struct ld_op *op = op_compact(5);
    ck_assert_int_eq(settle_op(node[0].t, op), 202);
    ck_assert_msg(strstr(op->reply, "\"compacted\":true") != NULL &&
                      strstr(op->reply, "\"waiting_for\":[\"c\"]") != NULL,
                  "%s", op->reply);
    ld_op_free(op);
    follow_all();
    compare_nodes();
    end();
}
END_TEST

START_TEST(a_log_that_takes_no_summary_is_as_it_was)
{
    begin_log(61, CONFIGURATION);
    n_number = 0;
    for (int i = 0; i < 40; i++)
        visit((int)draw(N_NODES), 200);
    expect_status(node[0].t, op_compact(1000), 200); /* nothing to do */
    expect_status(node[0].t, op_rebuild(), 200);
    follow_all();
    struct ld_text was, is;
    all_lines(&was);
    shared.odds =
        (struct kbt_shared_odds){.down = _i == 0, .behind = _i == 1, .unknown_out = _i == 2, .unsettled = _i == 2};
    expect_status(node[0].t, op_compact(5), 503);
    shared.odds = (struct kbt_shared_odds){.down = 0};
    all_lines(&is);
    ck_assert_uint_eq(is.n, was.n);
    ck_assert_mem_eq(is.data, was.data, was.n);
    follow_all();
    ck_assert(compact(1, 5));
    follow_all();
    compare_nodes();
    ld_text_close(&was);
    ld_text_close(&is);
    end();
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "compact_shared", 240, {all_copies_begin_with_the_summary_and_no_model_changes, 4},
        {a_server_that_was_away_takes_the_summary_and_goes_on, 4}, {what_a_server_behind_has_counted_stays, 3},
        {servers_that_have_not_read_the_compaction_are_named, 1}, {a_log_that_takes_no_summary_is_as_it_was, 3},
        {compactions_and_erasures_at_three_servers_leave_one_log_and_one_model, 6});
}
