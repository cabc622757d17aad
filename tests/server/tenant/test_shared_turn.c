/* Tenants whose log several servers write, by turns: three servers in one process, each with a folder of its own, on
 * a log in memory whose outcomes are drawn. */
#include "tenant_fixture.h"

#include "base/rng.h"
#include "base/text.h"
#include "json/json_out.h"
#include "kbt_shared_log.h"
#include "tenant/tenant_impl.h"

enum { N_NODES = 3, MOST_KEYS = 20000, MOST_OPS = 8 };

static struct kbt_shared_log shared;
static struct fixture node[N_NODES + 1]; /* the last one folds anew */
static uint64_t key, n_draws;

static uint64_t draw(uint64_t n)
{
    return kb_rng_bits(key, KB_STREAM_SIMULATION, n_draws++) % n;
}

/* Servers' clocks differ. */
static int64_t now_behind(void)
{
    return clock_ms - 1700;
}

static int64_t now_ahead(void)
{
    return clock_ms + 900;
}

static void make_nodes(void)
{
    static int64_t (*const clocks[])(void) = {fixture_now, now_behind, now_ahead, fixture_now};
    static const char *const names[] = {"a", "b", "c", "d"};

    for (int i = 0; i <= N_NODES; i++) {
        fixture_world(&node[i]);
        node[i].world.shared = &shared.base;
        node[i].world.node = names[i];
        node[i].world.now_ms = clocks[i];
        node[i].world.is_finishing_builds = true;
    }
}

/* A log that is down now may be there at the next try. */
static void open_node(int i, const struct ld_settings *initial)
{
    struct ld_message why = {""};
    int rc = LD_STORE_IO;

    for (int n = 0; n < 100 && rc == LD_STORE_IO; n++)
        rc = ld_tenant_open(&node[i].t, &node[i].world, "t", initial, &why);
    ck_assert_msg(rc == LD_STORE_OK, "node %d: %s", i, why.text);
}

static void begin(uint64_t seed, const char *configuration)
{
    const struct ld_settings initial = fixture_settings(configuration);
    struct ld_shared_tenant found;
    struct ld_message why;
    bool is_new;

    key = seed;
    n_draws = 0;
    clock_ms = 1800000000000;
    kbt_shared_log_init(&shared, seed);
    make_nodes();
    ck_assert_int_eq(shared.base.ops->find(&shared.base, "t", true, &found, &is_new, &why), LD_SHARED_OK);
    open_node(0, &initial);
    for (int i = 1; i < N_NODES; i++)
        open_node(i, NULL);
}

static void end(void)
{
    for (int i = 0; i <= N_NODES; i++)
        fixture_close(&node[i]);
    kbt_shared_log_close(&shared);
}

static void follow(int i)
{
    ld_tenant_follow(node[i].t);
    run_all(node[i].t);
}

/* ---- what the log has -------------------------------------------------------------------------------------- */

static struct kbt_shared_tenant *the_tenant(void)
{
    return kbt_shared_log_tenant(&shared, "t");
}

static void all_lines(struct ld_text *out)
{
    const struct kbt_shared_tenant *t = the_tenant();

    ld_text_init(out);
    for (size_t i = 0; i < t->n; i++)
        ld_text_raw(out, t->batch[i].body, t->batch[i].n_body);
    ld_text_raw(out, "", 1);
}

/* Lines of the log that have the text. */
static size_t n_lines_with(const char *text, const char *lines)
{
    size_t n = 0;

    for (const char *at = strstr(lines, text); at != NULL; at = strstr(at, text)) {
        const char *stop = strchr(at, '\n');

        n++;
        at = stop != NULL ? stop : at + strlen(at);
    }
    return n;
}

static int add_line(void *arg, const struct ld_row *row)
{
    return ld_text_export(arg, row->text, row->n_text, row->answer);
}

static int check_time(void *arg, const struct ld_row *row)
{
    int64_t *last = arg;

    ck_assert_int_ge(row->at_ms, *last);
    *last = row->at_ms;
    return 0;
}

/* All copies are the log, and all models the same. */
static void compare_nodes(void)
{
    struct ld_text want;
    int64_t last = 0;

    all_lines(&want);
    open_node(N_NODES, NULL);
    for (int i = 0; i <= N_NODES; i++) {
        struct ld_text got;

        ld_text_init(&got);
        ck_assert_int_eq(ld_store_read(ld_tenant_store(node[i].t), 0, SIZE_MAX, add_line, &got), LD_STORE_OK);
        ck_assert_uint_eq(got.n + 1, want.n);
        ck_assert_mem_eq(got.data, want.data, got.n);
        ld_text_close(&got);
        ck_assert_msg(digest_of(node[i].t) == digest_of(node[0].t), "node %d has another model", i);
    }
    ck_assert_int_eq(ld_store_read(ld_tenant_store(node[0].t), 0, SIZE_MAX, check_time, &last), LD_STORE_OK);
    for (int i = 0; i < N_NODES; i++) {
        ld_tenant_release(node[i].t);
        open_node(i, NULL);
        ck_assert_uint_eq(digest_of(node[i].t), digest_of(node[N_NODES].t));
    }
    ld_text_close(&want);
}

/* ---- random ops ---------------------------------------------------------------------------------------------- */

/* What a client wants to be recorded once, however often it asks: a text that its line has, and what it was told. */
struct wish {
    char text[64];
    bool is_acknowledged, is_unsure;
};

static struct wish wish[MOST_KEYS];
static size_t n_wishes;
static char decided[MOST_KEYS][16];
static size_t n_decided;

struct asked {
    struct ld_op *op;
    size_t first, n; /* wishes */
    int decision;    /* number of a decision; -1: none */
    char text[192];  /* that it was made of, of a single one that may be asked for again; "": none */
};

/* Nobody knows what became of it: it is asked for again. */
static struct asked again[MOST_OPS];
static size_t n_again;

static size_t new_wish(const char *before, size_t number, const char *after)
{
    ck_assert_uint_lt(n_wishes, MOST_KEYS);
    wish[n_wishes] = (struct wish){.text = ""};
    snprintf(wish[n_wishes].text, sizeof wish->text, "%s%zu%s", before, number, after);
    return n_wishes++;
}

static struct asked ask_select(struct ld_tenant *t, int number)
{
    struct asked a = {.first = new_wish("\"decision\":\"d", (size_t)number, "\",\"user\""), .n = 1};
    char id[16], named[32] = "";

    snprintf(id, sizeof id, "d%d", number);
    if (number % 3 == 0)
        snprintf(named, sizeof named, "\"decision\":\"d%d\",", number);
    snprintf(a.text, sizeof a.text, "{%s\"user\":\"u%d\",\"context\":[%d.25]}", named, (int)draw(9), (int)draw(5));
    a.op = op_select(t, a.text, id);
    if (named[0] == '\0')
        a.text[0] = '\0';
    a.decision = number;
    return a;
}

static size_t reward_item(char *out, size_t cap)
{
    const size_t w = new_wish("\"reward\":0.", 1000001 + 10 * n_wishes, "");

    snprintf(out, cap, "{\"decision\":\"%s\",%s}", decided[draw(n_decided)], wish[w].text);
    return w;
}

static struct asked ask_rewards(struct ld_tenant *t, size_t n)
{
    struct asked a = {.first = n_wishes, .n = n, .decision = -1};
    char text[1024] = "[", item[128];

    for (size_t i = 0; i < n; i++) {
        reward_item(item, sizeof item);
        strcat(text, i > 0 ? "," : "");
        strcat(text, item);
    }
    strcat(text, "]");
    if (n == 1)
        snprintf(a.text, sizeof a.text, "%s", item);
    a.op = op_rewards(t, n == 1 ? item : text);
    return a;
}

static struct asked ask_observe(struct ld_tenant *t, size_t n)
{
    struct asked a = {.first = n_wishes, .n = n, .decision = -1};
    char text[2048] = "", item[192];

    for (size_t i = 0; i < n; i++) {
        const size_t w = new_wish("\"id\":\"o", n_wishes, "\"");

        snprintf(item, sizeof item, "{%s,\"user\":\"u%d\",\"context\":[%d.5],\"arm\":\"a\",\"reward\":0.%d}\n",
                 wish[w].text, (int)draw(9), (int)draw(7), (int)draw(10));
        strcat(text, item);
    }
    if (n == 1)
        snprintf(a.text, sizeof a.text, "%s", item);
    a.op = op_observe(t, text, n > 1);
    return a;
}

static struct asked ask_change(struct ld_tenant *t)
{
    struct asked a = {.first = n_wishes, .n = 1, .decision = -1};
    char text[512];

    if (draw(3) == 0) {
        const size_t w = new_wish("\"reward_window_s\":", 10000 + n_wishes, "");

        snprintf(text, sizeof text,
                 "{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":{\"type\":\"rbf\","
                 "\"lengthscale\":%d.5},\"arm_kernel\":{\"type\":\"rbf\"},%s}",
                 1 + (int)draw(3), wish[w].text);
        a.op = op_settings(text);
    } else if (draw(2) == 0) {
        const size_t w = new_wish("\"id\":\"x", n_wishes, "\"");

        snprintf(text, sizeof text, "{\"arms\":[{\"id\":\"a\",\"features\":[%d]},{%s,\"features\":[%d]}]}",
                 (int)draw(3), wish[w].text, (int)draw(5));
        a.op = op_arms(t, text);
    } else {
        const size_t w = new_wish("\"g", n_wishes, "\"");

        snprintf(text, sizeof text, "{\"edges\":[[\"u1\",\"u2\"],[\"u%d\",%s]]}", (int)draw(9), wish[w].text);
        a.op = op_graph(t, text);
    }
    return a;
}

static struct asked ask_again(struct ld_tenant *t)
{
    struct asked a = again[--n_again];
    const enum ld_op_type type = a.op->type;
    char id[16];

    ld_op_free(a.op);
    snprintf(id, sizeof id, "d%d", a.decision);
    a.op = type == LD_OP_REWARDS   ? op_rewards(t, a.text)
           : type == LD_OP_OBSERVE ? op_observe(t, a.text, false)
                                   : op_select(t, a.text, id);
    return a;
}

static struct asked ask(struct ld_tenant *t)
{
    static int number;
    const uint64_t kind = draw(20);

    if (n_again > 0)
        return ask_again(t);
    if (kind == 0)
        return ask_change(t);
    if (kind < 4)
        return ask_observe(t, 1 + draw(2) * draw(6));
    if (kind < 11 && n_decided > 0)
        return ask_rewards(t, 1 + draw(2) * draw(4));
    return ask_select(t, number++);
}

/* What a reward of an array was told counts for it alone. */
static void note_rewards(const struct asked *a)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct ld_reward_result *r = &a->op->results[i];

        ck_assert_msg(r->status != 404, "a decision that was acknowledged is unknown: %s", a->op->rewards[i].decision);
        wish[a->first + i].is_acknowledged |= r->status == 200 || r->status == 410 || r->status == LD_DUPLICATE;
        wish[a->first + i].is_unsure |= r->status == 503 && a->op->is_unsure;
    }
}

static void note(const struct asked *a)
{
    const struct ld_op *op = a->op;
    const bool is_ok = op->problem->status == 0;

    ck_assert_msg(op->arg == op, "an op was not answered");
    ck_assert_msg(!op->is_unsure || op->problem->status == 503 || op->type == LD_OP_REWARDS, "%d", op->problem->status);
    if (op->type == LD_OP_REWARDS && op->results != NULL) {
        note_rewards(a);
        return;
    }
    for (size_t i = 0; i < a->n; i++) {
        wish[a->first + i].is_acknowledged |= is_ok || (op->type == LD_OP_OBSERVE && i < op->n_safe);
        wish[a->first + i].is_unsure |= op->is_unsure;
    }
    if (is_ok && a->decision >= 0)
        snprintf(decided[n_decided++], sizeof decided[0], "d%d", a->decision);
}

/* Some ops in one turn. */
static void run_ops(int i, size_t n)
{
    struct asked asked[MOST_OPS];
    size_t n_asked = 0;

    for (size_t k = 0; k < n; k++) {
        asked[n_asked] = ask(node[i].t);
        if (asked[n_asked].op->problem->status == 0)
            ld_tenant_submit(node[i].t, asked[n_asked++].op);
        else
            ld_op_free(asked[n_asked].op);
    }
    run_all(node[i].t);
    for (size_t k = 0; k < n_asked; k++) {
        note(&asked[k]);
        if (asked[k].op->is_unsure && asked[k].text[0] != '\0' && n_again < MOST_OPS)
            again[n_again++] = asked[k];
        else
            ld_op_free(asked[k].op);
    }
}

/* While one server waits for its turn, another has one. */
static bool is_meddling;
static int running;

static void meddle(void *arg)
{
    (void)arg;
    if (is_meddling || draw(3) != 0)
        return;
    is_meddling = true;
    run_ops((running + 1 + (int)draw(N_NODES - 1)) % N_NODES, 1 + draw(3));
    is_meddling = false;
}

static void step(void)
{
    running = (int)draw(N_NODES);
    struct fixture *f = &node[running];

    clock_ms += (int64_t)draw(50);
    switch (draw(12)) {
    case 0:
        follow(running);
        break;
    case 1:
        ld_tenant_release(f->t);
        open_node(running, NULL);
        break;
    case 2:
        clock_ms += draw(6) == 0 ? 3000000 : 0;
        ld_tenant_tick(f->t, f->world.now_ms());
        run_all(f->t);
        break;
    default:
        run_ops(running, 1 + draw(MOST_OPS));
    }
}

static void check_wishes(void)
{
    struct ld_text lines;

    all_lines(&lines);
    for (size_t i = 0; i < n_wishes; i++) {
        const size_t n = n_lines_with(wish[i].text, lines.data);

        ck_assert_msg(n <= 1, "%s stands in the log %zu times", wish[i].text, n);
        ck_assert_msg(n == 1 || !wish[i].is_acknowledged, "%s was acknowledged and is not in the log", wish[i].text);
        ck_assert_msg(n == 0 || wish[i].is_acknowledged || wish[i].is_unsure,
                      "%s is in the log, and was told that nothing was recorded", wish[i].text);
    }
    ld_text_close(&lines);
}

#define CONFIGURATION                                                                                                  \
    "{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},"                 \
    "\"arm_kernel\":{\"type\":\"rbf\"},\"reward_window_s\":1000}"
#define ARMS "{\"arms\":[{\"id\":\"a\",\"features\":[1]},{\"id\":\"b\",\"features\":[2]}]}"

START_TEST(what_was_acknowledged_is_in_the_log_once_and_all_servers_have_it)
{
    n_wishes = n_decided = n_again = 0;
    begin(17 + (uint64_t)_i, CONFIGURATION);
    for (int i = 0; i < N_NODES; i++)
        node[i].world.inline_work = _i % 2 == 0 ? KB_INLINE_WORK : 1;
    expect_status(node[0].t, op_arms(node[0].t, ARMS), 200);
    follow(1);
    follow(2);
    shared.meddle = meddle;
    shared.odds = (struct kbt_shared_odds){
        .behind = 0.04, .down = 0.03, .unknown_in = 0.06, .unknown_out = 0.06, .unsettled = 0.4, .untaken = 0.03};
    for (int i = 0; i < 400; i++)
        step();
    ck_assert(shared.n_ok > 200 && shared.n_behind > 0 && shared.n_down > 0 && shared.n_unknown_in > 0 &&
              shared.n_unknown_out > 0 && shared.n_unsettled > 0 && shared.n_untaken > 0);
    shared.odds = (struct kbt_shared_odds){.down = 0};
    shared.meddle = NULL;
    for (int i = 0; i < N_NODES; i++)
        run_ops(i, MOST_OPS);
    ck_assert_uint_eq(n_again, 0);
    for (int i = 0; i < N_NODES; i++)
        follow(i);
    check_wishes();
    compare_nodes();
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared_turn");
    TCase *random = tcase_create("random");

    tcase_set_timeout(random, 120);
    tcase_add_loop_test(random, what_was_acknowledged_is_in_the_log_once_and_all_servers_have_it, 0, 4);
    suite_add_tcase(suite, random);
    return kbt_run_suite(suite);
}
