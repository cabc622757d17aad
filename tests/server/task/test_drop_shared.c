/* A line of a shared log that no fold takes: servers that meet it take no changes of the tenant and go on reading, and
 * one that is asked drops it for all of them. */
#include "shared_fixture.h"

#include "store/folder.h"
#include "task/drop_shared.h"
#include "task/repair.h"

#define CONFIGURATION "{\"algorithm\":\"laplaced\",\"reward_window_s\":1000}"
#define MANY 40

static struct ld_op *observation(int i, int n)
{
    char text[96];

    snprintf(text, sizeof text, "{\"user\":\"u%d\",\"arm\":\"%s\",\"reward\":%.2f}", n % 7, n % 2 != 0 ? "a" : "b",
             n % 10 / 10.0);
    return op_observe(node[i].t, text, false);
}

static void fill(int from, int n)
{
    for (int i = from; i < from + n; i++)
        expect_status(node[i % N_NODES].t, observation(i % N_NODES, i), 200);
    for (int i = 0; i < N_NODES; i++)
        follow(i);
}

/* ---- what a server of another version has written -------------------------------------------------------------- */

/* The last observation of the log with another number and reward: JSON, with a line feed. */
static void write_line(struct ld_text *out, uint64_t seq, const char *reward)
{
    struct ld_text all;
    char text[700];

    all_lines(&all);
    const char *line = NULL;
    for (const char *next = all.data; (next = strstr(next, "\"observed\"")) != NULL; next++)
        line = next;
    ck_assert_ptr_nonnull(line);
    const char *end = strchr(line, '\n');
    while (line[-1] != '\n')
        line--;
    const char *at = strstr(line, "\"seq\":"), *pays = strstr(line, "\"reward\":");
    ck_assert(at != NULL && pays != NULL && at < pays && pays < end);
    const char *behind = at + strcspn(at, ",}"), *rest = pays + strcspn(pays, ",}");
    snprintf(text, sizeof text, "%.*s\"seq\":%llu%.*s\"reward\":%s%.*s\n", (int)(at - line), line,
             (unsigned long long)seq, (int)(pays - behind), behind, reward, (int)(end - rest), rest);
    ld_text_raw(out, text, strlen(text));
    ld_text_close(&all);
}

static enum ld_shared_rc ignore(void *arg, const struct ld_shared_batch *b)
{
    *(struct ld_shared_place *)arg = b->at;
    return LD_SHARED_OK;
}

/* Batches of a line at the log's end, which have these rewards; the number of the first of them. */
static uint64_t write_lines(const char *const *rewards, uint64_t n)
{
    const struct ld_shared_place start = {.generation = LD_ANY_GENERATION};
    struct ld_shared_place tip = {.seq = 0};
    struct ld_shared_turn *turn;
    struct ld_message why;

    for (uint64_t i = 0; i < n; i++) {
        struct ld_text body;
        ck_assert_int_eq(shared.base.ops->take(&shared.base, the_tenant()->id, &start, ignore, &tip, &turn, &why),
                         LD_SHARED_OK);
        ld_text_init(&body);
        write_line(&body, tip.seq + 1, rewards[i]);
        struct ld_shared_batch b = {.at = {.seq = tip.seq + 1, .generation = tip.generation},
                                    .n = 1,
                                    .at_ms = the_tenant()->batch[the_tenant()->n - 1].at_ms,
                                    .node = "older",
                                    .nonce = 4711 + tip.seq,
                                    .body = body.data,
                                    .n_body = body.n};
        ld_chain(b.at.hash, tip.hash, body.data, body.n);
        ck_assert_int_eq(shared.base.ops->append(turn, &b, &why), LD_SHARED_OK);
        ld_text_close(&body);
    }
    return tip.seq + 2 - n;
}

static const char *const bad[] = {"0.5", "1.5e308", "0.25"};

/* ---- what is asked ------------------------------------------------------------------------------------------------
 */

static struct ld_message told;

static int drop(uint64_t seq, struct ld_problem *p)
{
    const struct ld_repair wanted = {.action = LD_REPAIR_DROP, .seq = seq, .by = "key-1"};

    ld_problem_init(p);
    return ld_drop_shared(&shared.base, "t", &wanted, NULL, &told, p) == 0 ? 200 : p->status;
}

static int repair_copy(int i, enum ld_repair_action action, uint64_t seq, struct ld_problem *p)
{
    const struct ld_repair wanted = {.action = action, .seq = seq};

    ld_tenant_release(node[i].t);
    node[i].t = NULL;
    ld_problem_init(p);
    return ld_repair(node[i].dir, "t", &wanted, NULL, &told, p) == 0 ? 200 : p->status;
}

static void check_is_stuck(int i, uint64_t line)
{
    struct ld_tenant_shared view;
    char word[64];

    follow(i);
    ld_tenant_shared(node[i].t, &view);
    ck_assert(view.is_forked);
    struct ld_op *op = observation(i, 3);
    ck_assert_int_eq(settle_op(node[i].t, op), 503);
    snprintf(word, sizeof word, "laplacectl repair t --drop %llu", (unsigned long long)line);
    ck_assert_msg(strstr(op->problem->detail, word) != NULL && strstr(op->problem->detail, "1e+30") != NULL, "%s",
                  op->problem->detail);
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

/* The line of that number, with a line feed. */
static char *line_of(uint64_t seq)
{
    struct ld_text text;

    all_lines(&text);
    const char *at = text.data;
    for (uint64_t i = the_tenant()->batch[0].at.seq - the_tenant()->batch[0].n + 1; i < seq; i++)
        at = strchr(at, '\n') + 1;
    char *line = strndup(at, strcspn(at, "\n"));
    ld_text_close(&text);
    return line;
}

static void check_is_dropped(uint64_t seq)
{
    char *line = line_of(seq), number[32];

    snprintf(number, sizeof number, "\"seq\":%llu,", (unsigned long long)seq);
    ck_assert_msg(strstr(line, number) != NULL && strstr(line, "\"redacted\"") != NULL &&
                      strstr(line, "observed: event") != NULL && strstr(line, "1e+30") != NULL &&
                      strstr(line, "key-1") != NULL,
                  "%s", line);
    free(line);
}

/* 0: all goes well; 1: the log is down now and then; 2, 3: nobody knows what became of it, and it is not there, or is;
 * 4: it is, and the log is away when it is asked. */
START_TEST(a_line_that_no_fold_takes_is_dropped_for_all_servers)
{
    struct ld_problem p;

    begin(40, CONFIGURATION);
    fill(0, MANY);
    const uint64_t line = write_lines(bad, 3) + 1;
    char *before = line_of(line - 1), *behind = line_of(line + 1);
    for (int i = 0; i < N_NODES; i++)
        check_is_stuck(i, line);
    ck_assert_int_eq(drop(line - 1, &p), 409);
    ck_assert_ptr_nonnull(strstr(p.detail, "another one"));
    shared.odds = (struct kbt_shared_odds){
        .down = _i == 1 ? 0.5 : 0, .untaken = _i == 1 ? 0.3 : 0, .unknown_out = _i == 2, .unknown_in = _i >= 3};
    if (_i == 4)
        shared.odds.untaken = 0.4;
    int status = drop(line, &p), n_unknown = 0;
    for (int n = 0; status != 200 && n < 100; n++) {
        ck_assert_int_ne(_i, 0);
        ck_assert_int_ne(_i, 3); /* the next turn tells */
        ck_assert_int_eq(status, 503);
        n_unknown += strstr(p.detail, "not known") != NULL;
        shared.odds.unknown_out = 0;
        status = drop(line, &p);
    }
    shared.odds = (struct kbt_shared_odds){.down = 0};
    ck_assert_msg(status == 200, "%d %s", status, p.detail);
    ck_assert(_i == 4 || n_unknown == 0);
    ck_assert_msg(strstr(told.text, "1e+30") != NULL, "%s", told.text);
    const size_t n_rewrites = shared.n_rewrites;
    ck_assert_int_eq(drop(line, &p), 200); /* who asks again is told the same, and nothing is done twice */
    ck_assert_uint_eq(shared.n_rewrites, n_rewrites);
    ck_assert_int_eq(drop(line - 1, &p), 409);
    ck_assert_ptr_nonnull(strstr(p.detail, "nothing to repair"));
    check_is_dropped(line);
    char *same[] = {line_of(line - 1), line_of(line + 1)};
    ck_assert_str_eq(same[0], before);
    ck_assert_str_eq(same[1], behind);
    open_all();
    fill(MANY, 10);
    compare_nodes();
    free(before), free(behind), free(same[0]), free(same[1]);
    end();
}
END_TEST

START_TEST(one_faulty_line_after_the_other_is_named)
{
    static const char *const two[] = {"1.5e308", "0.5", "-1e300"};
    struct ld_problem p;

    begin(41, CONFIGURATION);
    fill(0, MANY);
    const uint64_t line = write_lines(two, 3);
    ck_assert_int_eq(drop(line + 2, &p), 409);
    ck_assert_int_eq(drop(line, &p), 200);
    check_is_stuck(1, line + 2);
    ck_assert_int_eq(drop(line + 2, &p), 200);
    open_all();
    fill(MANY, 10);
    compare_nodes();
    end();
}
END_TEST

/* Lines were rewritten, so copies have the line: a server that is started cannot open the tenant. */
START_TEST(a_server_whose_copy_has_the_line_is_read_only_until_it_is_dropped)
{
    struct ld_message why;
    struct ld_problem p;
    const char *fault;

    begin(42, CONFIGURATION);
    fill(0, MANY);
    const uint64_t last = node[2].t->seq, line = write_lines(bad, 3) + 1;
    ck_assert_int_eq(repair_copy(2, LD_REPAIR_READ_ONLY, line, &p), 409); /* it has not come so far */
    the_tenant()->generation = the_tenant()->rewritten = shared.generation = 1;
    check_is_stuck(0, line);
    const size_t n_takes = shared.n_takes;
    for (int i = 0; i < 5; i++)
        check_is_stuck(0, line); /* from what it knows: the log is not folded each time */
    ck_assert_uint_ge(shared.n_takes, n_takes);
    ck_assert_int_eq(ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why), LD_STORE_CORRUPT);
    node[2].t = NULL;
    ck_assert_int_eq(repair_copy(2, LD_REPAIR_DROP, line, &p), 409); /* a copy alone is not changed */
    ck_assert_ptr_nonnull(strstr(p.detail, "copy of a shared log"));
    ck_assert_int_eq(repair_copy(2, LD_REPAIR_READ_ONLY, line, &p), 200);
    open_node(2, NULL);
    ck_assert_uint_eq(ld_tenant_read_only(node[2].t, &fault), line);
    ck_assert_uint_eq(node[2].t->seq, last + 1);
    expect_status(node[2].t, observation(2, 1), 503);
    ck_assert_int_eq(repair_copy(2, LD_REPAIR_LIFT, 0, &p), 200);
    ck_assert_int_eq(ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why), LD_STORE_CORRUPT);
    node[2].t = NULL;
    ck_assert_int_eq(repair_copy(2, LD_REPAIR_READ_ONLY, line, &p), 200);
    if (_i == 1) /* as the registry does where lines are rewritten meanwhile: the mark stays */
        ld_folder_remove_copy(node[2].dir, "t");
    open_node(2, NULL);
    ck_assert_uint_eq(ld_tenant_read_only(node[2].t, &fault), line);
    ck_assert_int_eq(drop(line, &p), 200);
    ld_tenant_release(node[2].t);
    open_node(2, NULL);
    ck_assert_uint_eq(ld_tenant_read_only(node[2].t, &fault), 0);
    ck_assert(!fixture_has_file(&node[2], "tenants/t.readonly"));
    open_all();
    fill(MANY, 10);
    compare_nodes();
    end();
}
END_TEST

/* ---- a line that cannot be read ---------------------------------------------------------------------------------- */

static const struct ld_shared_ops *usual;
static struct ld_shared_ops counting;
static size_t n_readings; /* of the whole log, for a copy */
static bool is_read_away;

static enum ld_shared_rc read_and_count(struct ld_shared_log *l, uint64_t id, const struct ld_shared_place *after,
                                        size_t bytes, ld_shared_take_fn fn, void *arg, struct ld_message *why)
{
    n_readings += after->generation == LD_ANY_GENERATION && after->seq == 0;
    return is_read_away ? LD_SHARED_DOWN : usual->read(l, id, after, bytes, fn, arg, why);
}

static void begin_counting(void)
{
    usual = shared.base.ops;
    counting = *usual;
    counting.read = read_and_count;
    shared.base.ops = &counting;
    n_readings = 0;
}

static void end_counting(void)
{
    shared.base.ops = usual;
    is_read_away = false;
}

/* As a server of another version rewrites it: the line's type is one that nobody here knows, or is known again. */
static void rename_type(uint64_t seq, const char *from, const char *to)
{
    struct kbt_shared_tenant *s = the_tenant();
    unsigned char hash[LD_CHAIN_BYTES] = {0};

    for (size_t i = 0; i < s->n; i++) {
        struct kbt_shared_batch *b = &s->batch[i];
        if (b->at.seq == seq) {
            char *at = strstr(b->body, from);
            ck_assert(b->n == 1 && at != NULL && strlen(from) == strlen(to));
            memcpy(at, to, strlen(to));
        }
        ld_chain(hash, hash, b->body, b->n_body);
        memcpy(b->at.hash, hash, sizeof hash);
    }
    s->generation = s->rewritten = ++shared.generation;
}

static void expect_unread(int i, uint64_t line)
{
    struct ld_op *op = observation(i, 3);
    char word[64];

    follow(i);
    ck_assert_int_eq(settle_op(node[i].t, op), 503);
    snprintf(word, sizeof word, "laplacectl repair t --drop %llu", (unsigned long long)line);
    ck_assert_msg(strstr(op->problem->detail, word) != NULL && strstr(op->problem->detail, "event") != NULL, "%s",
                  op->problem->detail);
    ld_op_free(op);
}

START_TEST(a_line_that_cannot_be_read_is_named_and_read_once)
{
    struct ld_problem p;

    begin(44, CONFIGURATION);
    fill(0, MANY);
    const uint64_t line = write_lines(bad, 1);
    for (int i = 0; i < N_NODES; i++)
        follow(i);
    rename_type(line, "\"observed\"", "\"obserfed\"");
    begin_counting();
    for (int n = 0; n < 5; n++)
        expect_unread(0, line);
    ck_assert_uint_eq(n_readings, 1);
    ck_assert_int_eq(drop(line, &p), 200);
    end_counting();
    open_all();
    fill(MANY, 10);
    compare_nodes();
    end();
}
END_TEST

/* 0: the copy is there, and cannot be renewed; 1: it has gone; 2: and the log is away when it is to be read. */
START_TEST(a_line_that_cannot_be_read_leaves_a_tenant_read_only)
{
    struct ld_message why;
    struct ld_problem p;
    const char *fault;

    begin(45, CONFIGURATION);
    fill(0, MANY);
    const uint64_t line = write_lines(bad, 3) + 1;
    the_tenant()->generation = the_tenant()->rewritten = shared.generation = 1;
    ld_tenant_release(node[2].t);
    ck_assert_int_eq(ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why), LD_STORE_CORRUPT);
    node[2].t = NULL;
    ck_assert_int_eq(repair_copy(2, LD_REPAIR_READ_ONLY, line, &p), 200);
    rename_type(line, "\"observed\"", "\"obserfed\"");
    ck_assert_uint_eq(ld_tenant_renew_closed(&node[2].world, "t"), 1);
    if (_i > 0)
        ld_folder_remove_copy(node[2].dir, "t");
    if (_i == 2)
        begin_counting(), is_read_away = true;
    for (int n = 0; n < 2; n++) {
        const int rc = ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why);
        ck_assert_int_eq(rc, _i == 0 ? LD_STORE_OK : LD_STORE_IO);
        ck_assert(_i > 0 || ld_tenant_read_only(node[2].t, &fault) == line);
        ck_assert(fixture_has_file(&node[2], "tenants/t.readonly"));
        if (_i == 0)
            ld_tenant_release(node[2].t);
        node[2].t = NULL;
    }
    if (_i == 2)
        end_counting();
    ck_assert_int_eq(drop(line, &p), 200);
    ck_assert_uint_eq(ld_tenant_renew_closed(&node[2].world, "t"), shared.generation);
    open_node(2, NULL);
    ck_assert_uint_eq(ld_tenant_read_only(node[2].t, &fault), 0);
    ck_assert(!fixture_has_file(&node[2], "tenants/t.readonly"));
    open_all();
    fill(MANY, 10);
    compare_nodes();
    end();
}
END_TEST

START_TEST(what_is_not_there_is_told)
{
    struct ld_problem p;

    begin(43, CONFIGURATION);
    fill(0, MANY);
    ck_assert_int_eq(drop(3, &p), 409);
    shared.odds.untaken = 1;
    ck_assert_int_eq(drop(3, &p), 503);
    ck_assert_ptr_nonnull(strstr(p.detail, "nothing was changed"));
    shared.odds.untaken = 0;
    the_tenant()->is_dropped = true;
    ck_assert_int_eq(drop(3, &p), 404);
    shared.tenant[0].is_dropped = false;
    compare_nodes();
    end();
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("drop_shared", 60, {a_line_that_no_fold_takes_is_dropped_for_all_servers, 5},
                         {one_faulty_line_after_the_other_is_named, 1},
                         {a_server_whose_copy_has_the_line_is_read_only_until_it_is_dropped, 2},
                         {a_line_that_cannot_be_read_is_named_and_read_once, 1},
                         {a_line_that_cannot_be_read_leaves_a_tenant_read_only, 3}, {what_is_not_there_is_told, 1});
}
