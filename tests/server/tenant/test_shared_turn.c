/* Tenants whose log several servers write, by turns: three servers in one process, each with a folder of its own, on
 * a log in memory whose outcomes are drawn. */
#include "shared_fixture.h"

#include "model/engine_background.h"
#include "tenant/batch.h"

enum { MOST_KEYS = 20000, MOST_OPS = 8 };

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
        size_t n_late;
        const size_t n = n_lines_with(wish[i].text, lines.data, &n_late);

        /* One that is late is kept and not learned; of those nothing is promised but "not twice in a row". */
        ck_assert_msg(n <= 1 || (n == n_late && wish[i].is_unsure), "%s stands in the log %zu times", wish[i].text, n);
        ck_assert_msg(n > 0 || !wish[i].is_acknowledged, "%s was acknowledged and is not in the log", wish[i].text);
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

/* ---- one thing at a time ----------------------------------------------------------------------------------------- */

#define PLAIN "{\"algorithm\":\"ucb\"}"
#define KEEPING "{\"algorithm\":\"ts\",\"routing\":{\"sticky\":{\"ttl_s\":3600}}}"
#define FOUR "{\"arms\":[\"a\",\"b\",\"c\",\"d\"]}"

/* Three servers, and a catalogue that all of them know. */
static void begin_with(const char *configuration, const char *arms)
{
    begin(1, configuration);
    expect_status(node[0].t, op_arms(node[0].t, arms), 200);
    for (int i = 1; i < N_NODES; i++)
        follow(i);
}

static void arm_of(const struct ld_op *op, char *out, size_t cap)
{
    const char *at = strstr(op->reply != NULL ? op->reply : op->answer, "\"arm\":\"");

    ck_assert_ptr_nonnull(at);
    snprintf(out, cap, "%.*s", (int)strcspn(at + 7, "\""), at + 7);
}

START_TEST(a_reward_finds_the_decision_that_another_server_has_made_just_now)
{
    begin_with(PLAIN, FOUR);
    for (int i = 0; i < 30; i++) {
        char text[64], id[16];

        snprintf(id, sizeof id, "d%d", i);
        snprintf(text, sizeof text, "{\"decision\":\"d%d\",\"reward\":1}", i);
        expect_status(node[i % 3].t, op_select(node[i % 3].t, "{\"user\":\"u\"}", id), 200);
        expect_reply(node[(i + 1) % 3].t, op_rewards(node[(i + 1) % 3].t, text), APPLIED);
        expect_reply(node[(i + 2) % 3].t, op_rewards(node[(i + 2) % 3].t, text), DUPLICATE);
    }
    end();
}
END_TEST

START_TEST(one_decision_id_at_two_servers_is_one_decision)
{
    begin_with(PLAIN, FOUR);
    struct ld_op *first = op_select(node[0].t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL);
    struct ld_op *second = op_select(node[1].t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL);
    ck_assert_int_eq(settle_op(node[0].t, first), 200);
    ck_assert_int_eq(settle_op(node[1].t, second), 200);
    ck_assert_str_eq(first->reply, second->reply);
    ld_op_free(first);
    ld_op_free(second);
    follow(0);
    ck_assert_uint_eq(counts_of(node[0].t).decided, 1);
    end();
}
END_TEST

START_TEST(an_arm_that_another_server_took_away_is_shown_nowhere_afterwards)
{
    char arm[32];

    begin_with(PLAIN, FOUR);
    for (int i = 0; i < 20; i++) {
        char id[16];

        snprintf(id, sizeof id, "d%d", i);
        struct ld_op *op = op_select(node[1].t, "{\"user\":\"u\"}", id); /* by a model that knows of nothing yet */
        expect_status(node[0].t, op_arms(node[0].t, i % 2 == 0 ? "{\"arms\":[\"e\",\"f\"]}" : FOUR), 200);
        ck_assert_int_eq(settle_op(node[1].t, op), 200);
        arm_of(op, arm, sizeof arm);
        ck_assert_msg((strpbrk(arm, "ef") != NULL) == (i % 2 == 0), "%s", arm);
        ck_assert_str_eq(op->event.as.decided.slots[0].arm, arm);
        ld_op_free(op);
    }
    ck_assert_uint_ge(node[1].metrics.shared.decided_anew, 20);
    struct ld_op *op = op_select(node[1].t, "{\"user\":\"u\",\"candidates\":[\"e\"]}", "last");
    expect_status(node[0].t,
                  op_settings("{\"algorithm\":\"ucb\",\"routing\":{\"stopped\":true,\"holdout\":"
                              "{\"baseline\":{\"rule\":\"uniform\"}}}}"),
                  200);
    ck_assert_int_eq(settle_op(node[1].t, op), 200);
    ck_assert_int_eq((int)op->event.as.decided.route, (int)KB_ROUTE_STOPPED);
    ld_op_free(op);
    end();
}
END_TEST

START_TEST(a_user_keeps_the_arm_that_whichever_server_drew_first)
{
    char user[64], arm[4][32], id[32];
    size_t n_others = 0;

    begin_with(KEEPING, "{\"arms\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]}");
    for (int i = 0; i < 40; i++) {
        struct ld_op *op[4]; /* the last two at one server, in one turn */

        snprintf(user, sizeof user, "{\"user\":\"u%d\"}", i);
        for (int k = 0; k < 4; k++) {
            snprintf(id, sizeof id, "d%d-%d", i, k);
            op[k] = op_select(node[k < 2 ? k : 2].t, user, id);
        }
        arm_of(op[0], arm[0], sizeof arm[0]);
        for (int k = 1; k < 4; k++) {
            arm_of(op[k], arm[k], sizeof arm[k]);
            n_others += strcmp(arm[0], arm[k]) != 0;
        }
        for (int k = 0; k < 4; k++)
            ld_tenant_submit(node[k < 2 ? k : 2].t, op[k]);
        for (int k = N_NODES - 1; k >= 0; k--)
            run_all(node[k].t);
        arm_of(op[2], arm[0], sizeof arm[0]);
        for (int k = 0; k < 4; k++) {
            arm_of(op[k], arm[k], sizeof arm[k]);
            ck_assert_str_eq(arm[k], arm[k == 2 ? 0 : 2]);
            ld_op_free(op[k]);
        }
    }
    ck_assert_uint_gt(n_others, 40); /* they had been drawn apart */
    end();
}
END_TEST

/* Lines that are looked up before the first is staged are looked up again when others have written meanwhile. */
static void write_the_same(void *arg)
{
    shared.meddle = NULL;
    expect_status(node[1].t, op_observe(node[1].t, arg, false), 200);
}

START_TEST(an_observation_that_two_servers_were_told_is_learned_once)
{
    char text[2048] = "", last[128] = "", want[64];
    enum { N = 12 };

    begin_with(CONFIGURATION, ARMS);
    for (int i = 0; i < N; i++) { /* each brings a point of the dictionary, which ends a commit */
        snprintf(last, sizeof last, "{\"id\":\"o%d\",\"user\":\"u\",\"context\":[%d],\"arm\":\"a\",\"reward\":1}\n", i,
                 5 * i);
        strcat(text, last);
    }
    struct ld_op *op = op_observe(node[0].t, text, true);
    shared.n_takes = 0;
    shared.meddle_at = 2 + (size_t)_i; /* in the middle of the op */
    shared.meddle = write_the_same;
    shared.arg = last;
    ck_assert_int_eq(settle_op(node[0].t, op), 200);
    ck_assert_ptr_null(shared.meddle);
    snprintf(want, sizeof want, "{\"observed\":%d,\"duplicates\":1}", N - 1);
    ck_assert_str_eq(op->reply, want);
    ld_op_free(op);
    follow(1);
    ck_assert_uint_eq(counts_of(node[1].t).observed, N);
    follow(2);
    compare_nodes();
    end();
}
END_TEST

START_TEST(a_model_that_a_dead_server_began_to_build_is_finished_by_another)
{
    begin_with(CONFIGURATION, ARMS);
    for (int i = 0; i < N_NODES; i++)
        node[i].world.inline_work = 1; /* nothing is done at once */
    for (int i = 0; i < 8; i++) {
        char text[128];

        snprintf(text, sizeof text, "{\"user\":\"u\",\"context\":[%d],\"arm\":\"a\",\"reward\":1}", i);
        expect_status(node[0].t, op_observe(node[0].t, text, false), 200);
    }
    node[0].world.is_finishing_builds = false; /* it dies before it can */
    struct ld_op *op = op_settings("{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":{"
                                   "\"type\":\"rbf\",\"lengthscale\":4},\"arm_kernel\":{\"type\":\"rbf\"}}");
    ld_tenant_submit(node[0].t, op);
    ld_tenant_run_writer(node[0].t);
    ck_assert_int_eq(op->problem->status, 0);
    ld_op_free(op);
    ck_assert(kb_engine_is_building(node[0].t->engine));
    const size_t n_before = the_tenant()->n;
    ld_tenant_release(node[0].t);
    follow(1);
    ck_assert(!kb_engine_is_building(node[1].t->engine));
    ck_assert_uint_gt(the_tenant()->n, n_before);
    ck_assert_str_eq(the_tenant()->batch[the_tenant()->n - 1].node, "b");
    open_node(0, NULL);
    ck_assert(!kb_engine_is_building(node[0].t->engine));
    follow(2);
    compare_nodes();
    end();
}
END_TEST

static void reward_the_same(void *arg)
{
    shared.meddle = NULL;
    expect_status(node[1].t, op_rewards(node[1].t, arg), 200);
}

/* Under `sum` nothing but its id keeps a reward from being learned twice. */
START_TEST(a_reward_of_a_user_that_two_servers_were_told_is_learned_once)
{
    static char last[] = "{\"user\":\"u5\",\"all\":true,\"reward\":7,\"id\":\"once\"}";
    char text[1024] = "[", item[128];

    begin_with("{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"arm_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},"
               "\"arm_kernel\":{\"type\":\"rbf\"},\"aggregation\":\"sum\"}",
               ARMS);
    for (int i = 0; i < 12; i++) { /* two open decisions of each user */
        snprintf(item, sizeof item, "{\"user\":\"u%d\",\"context\":[%d]}", i % 6, 4 * i);
        char id[16];
        snprintf(id, sizeof id, "d%d", i);
        expect_status(node[0].t, op_select(node[0].t, item, id), 200);
    }
    follow(1);
    for (int i = 0; i < 5; i++) {
        snprintf(item, sizeof item, "{\"user\":\"u%d\",\"reward\":%d,\"id\":\"r%d\"},", i, i, i);
        strcat(text, item);
    }
    strcat(text, last);
    strcat(text, "]");
    struct ld_op *op = op_rewards(node[0].t, text);
    shared.n_takes = 0;
    shared.meddle_at = 1 + (size_t)_i;
    shared.meddle = reward_the_same;
    shared.arg = last;
    ck_assert_int_eq(settle_op(node[0].t, op), 200);
    for (size_t i = 0; i < op->n; i++)
        ck_assert_int_eq(op->results[i].status, 200);
    ck_assert_ptr_null(shared.meddle);
    ld_op_free(op);
    follow(1);
    struct ld_text lines;
    size_t n_late;
    all_lines(&lines);
    ck_assert_uint_eq(n_lines_with("\"id\":\"once\"", lines.data, &n_late), 2); /* of each decision one */
    ld_text_close(&lines);
    follow(2);
    compare_nodes();
    end();
}
END_TEST

/* The batch is nearly full, so that it is committed between the look for the id and the first line of the reward. */
START_TEST(a_reward_behind_a_full_batch_is_looked_up_again)
{
    static char last[] = "{\"user\":\"u\",\"all\":true,\"reward\":7,\"id\":\"once\"}";
    enum { N_LINES = 2045 };
    char *lines = malloc((size_t)N_LINES * 64), *at = lines;

    begin_with("{\"algorithm\":\"ucb\",\"aggregation\":\"sum\",\"tune\":false}", FOUR);
    for (int i = 0; i < 2; i++)
        expect_status(node[0].t, op_select(node[0].t, "{\"user\":\"u\"}", i == 0 ? "d0" : "d1"), 200);
    follow(1);
    for (int i = 0; i < N_LINES; i++)
        at += sprintf(at, "{\"user\":\"v\",\"arm\":\"a\",\"reward\":0}\n");
    struct ld_op *observed = op_observe(node[0].t, lines, true), *op = op_rewards(node[0].t, last);
    shared.n_takes = 0;
    shared.meddle_at = 2;
    shared.meddle = reward_the_same;
    shared.arg = last;
    ld_tenant_submit(node[0].t, observed);
    ck_assert_int_eq(settle_op(node[0].t, op), 200);
    ck_assert_ptr_null(shared.meddle);
    ck_assert_uint_eq(counts_of(node[0].t).observed, N_LINES);
    struct ld_text all;
    size_t n_late;
    all_lines(&all);
    ck_assert_uint_eq(n_lines_with("\"id\":\"once\"", all.data, &n_late), 2); /* of each decision one */
    ld_text_close(&all);
    ld_op_free(op);
    ld_op_free(observed);
    free(lines);
    follow(1);
    follow(2);
    compare_nodes();
    end();
}
END_TEST

static int64_t now_tomorrow(void)
{
    return clock_ms + 86400000;
}

START_TEST(a_clock_that_is_far_ahead_closes_no_window_before_its_time)
{
    begin_with("{\"algorithm\":\"ucb\",\"reward_window_s\":60}", FOUR);
    expect_status(node[0].t, op_select(node[0].t, "{\"user\":\"u\"}", "old"), 200);
    node[2].world.now_ms = now_tomorrow;
    follow(2);
    expect_status(node[2].t, op_observe(node[2].t, "{\"user\":\"u\",\"arm\":\"a\",\"reward\":1}\n", true), 200);
    clock_ms += 61000;
    expect_status(node[0].t, op_select(node[0].t, "{\"user\":\"u\"}", "new"), 200);
    ld_tenant_tick(node[0].t, clock_ms);
    run_all(node[0].t);
    ck_assert_uint_eq(counts_of(node[0].t).expired, 1);
    expect_reply(node[1].t, op_rewards(node[1].t, "{\"decision\":\"new\",\"reward\":1}"), APPLIED);
    clock_ms += 86400000 + 61000;
    node[2].world.now_ms = fixture_now;
    expect_status(node[0].t, op_select(node[0].t, "{\"user\":\"u\"}", "later"), 200);
    clock_ms += 61000;
    ld_tenant_tick(node[0].t, clock_ms);
    run_all(node[0].t);
    ck_assert_uint_eq(counts_of(node[0].t).pending, 0); /* time goes on once the clocks are right */
    follow(0);
    follow(1);
    follow(2);
    compare_nodes();
    end();
}
END_TEST

/* A change of the graph that is made beside the writer rests on a graph that another server changes meanwhile. */
static struct ld_op *op_patch_graph(struct ld_tenant *t, const char *json)
{
    uint32_t context_dim, arm_dim;
    struct ld_op *op = op_from(t, LD_OP_EVENT, json, false, &context_dim, &arm_dim);

    ck_assert_int_eq(ld_decode_graph(op->doc, true, &op->event, ld_op_problem(op)), 0);
    return op;
}

static void change_the_graph(void *arg)
{
    (void)arg;
    shared.meddle = NULL;
    expect_status(node[1].t, op_patch_graph(node[1].t, "{\"add\":[[\"new\",\"u1\",2],[\"u2\",\"other\",1]]}"), 200);
}

START_TEST(a_large_graph_is_changed_though_another_server_was_faster)
{
    enum { N = 6000 };
    static char text[64 * N];
    size_t n = (size_t)snprintf(text, sizeof text, _i < 4 ? "{\"edges\":[" : "{\"add\":[");

    begin_with("{\"algorithm\":\"laplaced\"}", FOUR);
    expect_status(node[0].t, op_graph(node[0].t, "{\"edges\":[[\"u1\",\"u2\",1],[\"old\",\"u2\",3]]}"), 200);
    follow(1);
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s[\"v%d\",\"u%d\",1]", i > 0 ? "," : "", i, i % 97);
    snprintf(text + n, sizeof text - n, "]}");
    struct ld_op *op = _i < 4 ? op_graph(node[0].t, text) : op_patch_graph(node[0].t, text);
    shared.n_takes = 0;
    shared.meddle_at = 1 + (size_t)_i % 4;
    shared.meddle = change_the_graph;
    ck_assert_int_eq(settle_op(node[0].t, op), 200);
    ld_op_free(op);
    shared.meddle = NULL;
    for (int i = 0; i < N_NODES; i++)
        follow(i);
    ck_assert(kb_engine_knows_user(node[2].t->engine, "v5999"));
    compare_nodes();
    end();
}
END_TEST

START_TEST(a_copy_is_refused_without_its_log_and_put_aside_under_another)
{
    struct ld_message why = {""};
    struct ld_shared_tenant found;
    bool is_new;

    begin_with(PLAIN, FOUR);
    ld_tenant_release(node[2].t);
    node[2].world.shared = NULL;
    ck_assert_int_eq(ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why), LD_STORE_FOREIGN);
    ck_assert_ptr_nonnull(strstr(why.text, "copy of a shared log"));
    struct ld_store *store = NULL; /* as what is restored from its snapshot: a log of its own */
    char path[96];
    snprintf(path, sizeof path, "%s/tenants/t.db", node[2].dir);
    ck_assert_int_eq(ld_store_open(&store, path, false, &why), LD_STORE_OK);
    ck_assert_int_eq(ld_store_be_no_copy(store, &why), LD_STORE_OK);
    ld_store_close(store);
    ck_assert_int_eq(ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why), LD_STORE_OK);
    ck_assert_uint_eq(digest_of(node[2].t), digest_of(node[0].t));
    ld_tenant_release(node[2].t);
    node[2].world.shared = &shared.base;
    ck_assert_int_eq(ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why), LD_STORE_FOREIGN);
    ck_assert_ptr_nonnull(strstr(why.text, "log of its own"));
    remove_dir(node[2].dir);
    ck_assert_int_eq(mkdir(node[2].dir, 0700), 0);
    snprintf(path, sizeof path, "%s/tenants", node[2].dir);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    open_node(2, NULL);
    ld_tenant_release(node[2].t);
    ck_assert_int_eq(shared.base.ops->drop(&shared.base, the_tenant()->id, &why), LD_SHARED_OK);
    ck_assert_int_eq(ld_tenant_open(&node[2].t, &node[2].world, "t", NULL, &why), LD_STORE_GONE);
    expect_status(node[0].t, op_select(node[0].t, "{\"user\":\"u\"}", "d"), 404);
    ck_assert_int_eq(shared.base.ops->find(&shared.base, "t", true, &found, &is_new, &why), LD_SHARED_OK);
    const struct ld_settings initial = fixture_settings(PLAIN);
    open_node(2, &initial);
    ck_assert_uint_eq(counts_of(node[2].t).seq, 1);
    char aside[64];
    snprintf(aside, sizeof aside, "tenants/t.db.copy-%d", 101);
    ck_assert(fixture_has_file(&node[2], aside));
    ck_assert_int_eq(ld_tenant_open(&node[3].t, &node[3].world, "t", &initial, &why), LD_STORE_TAKEN);
    open_node(N_NODES, NULL);
    ck_assert_uint_eq(digest_of(node[N_NODES].t), digest_of(node[2].t));
    end();
}
END_TEST

START_TEST(a_log_with_other_lines_stops_changes_and_leaves_reading)
{
    struct ld_tenant_shared view;
    uint64_t digest;

    begin_with(PLAIN, FOUR);
    struct kbt_shared_batch *last = &the_tenant()->batch[the_tenant()->n - 1];
    digest = digest_of(node[1].t);
    last->at.hash[0] ^= 1;
    struct ld_op *op = op_select(node[1].t, "{\"user\":\"u\"}", "d");
    ck_assert_int_eq(settle_op(node[1].t, op), 503);
    ck_assert_ptr_nonnull(strstr(op->problem->detail, "other lines"));
    ld_op_free(op);
    ld_tenant_shared(node[1].t, &view);
    ck_assert(view.is_forked);
    ck_assert_uint_eq(digest_of(node[1].t), digest);
    ld_tenant_release(node[1].t); /* and so after a start */
    open_node(1, NULL);
    ld_tenant_shared(node[1].t, &view);
    ck_assert(view.is_forked);
    ck_assert_uint_eq(digest_of(node[1].t), digest);
    last->at.hash[0] ^= 1;
    expect_status(node[1].t, op_select(node[1].t, "{\"user\":\"u\"}", "d"), 200);
    ld_tenant_shared(node[1].t, &view);
    ck_assert(!view.is_forked);
    end();
}
END_TEST

/* n observations by the server, 500 a request. */
static void observe_many(int i, size_t n)
{
    static char text[40000];
    static size_t number;

    for (size_t k = 0; k < n; k += 500) {
        size_t at = 0;
        for (size_t j = 0; j < 500; j++)
            at += (size_t)snprintf(text + at, sizeof text - at, "{\"user\":\"u%zu\",\"arm\":\"x\",\"reward\":%d}\n",
                                   number++ % 7, (int)(j % 2));
        expect_status(node[i].t, op_observe(node[i].t, text, true), 200);
    }
}

static void observe_more(void *arg)
{
    const size_t *n = arg;

    if (shared.n_takes >= 400) /* it ends at last */
        return;
    shared.meddle = NULL; /* of the other's own takes */
    observe_many(1, *n);
    shared.meddle = observe_more;
}

START_TEST(who_is_far_behind_reads_on_before_it_keeps_others_from_the_row)
{
    begin_with(PLAIN, FOUR);
    observe_many(1, 20000);
    shared.most_held = 0;
    expect_status(node[0].t, op_select(node[0].t, "{\"user\":\"u\"}", "d0"), 200);
    ck_assert_uint_le(shared.most_held, 2 * LD_BATCH_EVENTS);
    follow(1);
    follow(2);
    compare_nodes();
    end();
}
END_TEST

START_TEST(who_writes_without_a_pause_keeps_nobody_out)
{
    size_t n = 6000; /* more than is followed under the row, whenever it is asked for */

    begin_with(PLAIN, FOUR);
    shared.n_takes = 0;
    shared.meddle_at = 1;
    shared.meddle = observe_more;
    shared.arg = &n;
    expect_status(node[0].t, op_select(node[0].t, "{\"user\":\"u\"}", "d0"), 200);
    shared.meddle = NULL;
    ck_assert_uint_gt(shared.most_held, 2 * LD_BATCH_EVENTS); /* at the last of its tries */
    follow(1);
    follow(2);
    compare_nodes();
    end();
}
END_TEST

START_TEST(a_full_disk_of_a_copy_loses_nothing_that_the_log_has)
{
    begin_with(PLAIN, FOUR);
    struct ld_op *op = op_select(node[1].t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL);
    limit_files(1);
    const int status = settle_op(node[1].t, op);
    const bool is_failing = ld_tenant_is_failing(node[1].t);
    mend_disk();
    ck_assert_int_eq(status, 503);
    ck_assert_ptr_nonnull(strstr(op->problem->detail, "ask again with the same id"));
    ck_assert(is_failing);
    ld_op_free(op);
    op = op_select(node[1].t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL);
    ck_assert_int_eq(settle_op(node[1].t, op), 200);
    ld_op_free(op);
    follow(0);
    ck_assert_uint_eq(counts_of(node[0].t).decided, 1);
    ck_assert_uint_eq(counts_of(node[1].t).decided, 1);
    ld_tenant_tick(node[1].t, clock_ms);
    run_all(node[1].t);
    ck_assert(!ld_tenant_is_failing(node[1].t));
    follow(2);
    compare_nodes();
    end();
}
END_TEST

#define ALONE "{\"algorithm\":\"ts\",\"on_log_failure\":\"decide\"}"

static struct ld_op *op_plain(struct ld_tenant *t, const char *json, const char *id)
{
    struct ld_op *op = op_select(t, json, id);

    op->is_plain = true;
    return op;
}

/* It has the arm that was drawn, and no id that a reward could name. */
static void expect_unrecorded(struct ld_tenant *t, struct ld_op *op)
{
    char arm[64];

    ck_assert_int_eq(settle_op(t, op), 200);
    ck_assert_int_eq(strncmp(op->reply, "{\"recorded\":false,\"decision\":\"\",\"arm\":", 38), 0);
    snprintf(arm, sizeof arm, "\"arm\":\"%s\"", op->event.as.decided.slots[0].arm);
    ck_assert_ptr_nonnull(strstr(op->reply, arm));
    ld_op_free(op);
}

/* Of a log that gives no turn, and of one that takes no batch. */
START_TEST(a_tenant_that_chose_so_decides_while_the_log_is_away_and_records_nothing)
{
    struct ld_tenant *t;

    begin_with(ALONE, FOUR);
    t = node[1].t;
    expect_status(t, op_plain(t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL), 200);
    const uint64_t before = counts_of(t).decided;
    *(_i == 0 ? &shared.odds.untaken : &shared.odds.down) = 1;
    expect_unrecorded(t, op_plain(t, "{\"user\":\"u\"}", "d1"));
    expect_unrecorded(t, op_plain(t, "{\"user\":\"u\",\"decision\":\"other\"}", NULL));
    ck_assert_uint_eq(node[1].metrics.shared.unrecorded, 2);
    expect_status(t, op_select(t, "{\"user\":\"u\"}", "d2"), 503); /* of another route, whose answer has no such form */
    expect_status(t, op_rewards(t, "{\"decision\":\"mine\",\"reward\":1}"), 503);
    if (_i == 0) { /* what the log has under the id is the answer, as long as the copy has it */
        struct ld_op *op = op_plain(t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL);
        ck_assert_int_eq(settle_op(t, op), 200);
        ck_assert_int_eq(strncmp(op->reply, "{\"decision\":\"mine\"", 18), 0);
        ld_op_free(op);
    }
    shared.odds = (struct kbt_shared_odds){.behind = 0};
    ck_assert_uint_eq(counts_of(t).decided, before);
    expect_status(t, op_rewards(t, "{\"decision\":\"other\",\"reward\":1}"), 404);
    expect_status(t, op_plain(t, "{\"user\":\"u\",\"decision\":\"other\"}", NULL), 200);
    expect_reply(t, op_rewards(t, "{\"decision\":\"other\",\"reward\":1}"), APPLIED);
    follow(0);
    ck_assert_uint_eq(counts_of(node[0].t).decided, before + 1);
    end();
}
END_TEST

/* Nobody knows whether the decision was recorded, so nobody is told that it was not. */
START_TEST(a_decision_whose_outcome_is_unknown_is_not_called_unrecorded)
{
    begin_with(ALONE, FOUR);
    shared.odds = (struct kbt_shared_odds){.unknown_in = 1, .unsettled = 1};
    struct ld_op *op = op_plain(node[1].t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL);
    ck_assert_int_eq(settle_op(node[1].t, op), 503);
    ld_op_free(op);
    shared.odds = (struct kbt_shared_odds){.behind = 0};
    expect_status(node[1].t, op_plain(node[1].t, "{\"user\":\"u\",\"decision\":\"mine\"}", NULL), 200);
    follow(0);
    ck_assert_uint_eq(counts_of(node[0].t).decided, 1);
    end();
}
END_TEST

START_TEST(a_tenant_that_chose_nothing_refuses_while_the_log_is_away)
{
    begin_with(PLAIN, FOUR);
    shared.odds.untaken = 1;
    expect_status(node[1].t, op_plain(node[1].t, "{\"user\":\"u\"}", "d1"), 503);
    shared.odds.untaken = 0;
    end();
}
END_TEST

/* It is there, and others learn from it what this server does not follow: it is not away. */
START_TEST(a_log_that_is_newer_is_not_away)
{
    begin_with(ALONE, FOUR);
    expect_status(node[1].t, op_plain(node[1].t, "{\"user\":\"u\"}", "d1"), 200);
    setenv("LAPLACED_LOG_VERSION", "1", 1);
    for (int i = 0; i < 2; i++) {
        struct ld_op *op = op_plain(node[1].t, "{\"user\":\"u\"}", "d2");
        ck_assert_int_eq(settle_op(node[1].t, op), 503);
        ck_assert_ptr_nonnull(strstr(op->problem->detail, "upgraded"));
        ld_op_free(op);
    }
    ck_assert_uint_eq(node[1].metrics.shared.unrecorded, 0);
    unsetenv("LAPLACED_LOG_VERSION");
    expect_status(node[1].t, op_plain(node[1].t, "{\"user\":\"u\"}", "d2"), 200);
    end();
}
END_TEST

/* Rewards of arm a and b in turn, through the servers in turn; a's rate is in percent. */
static void observe_rates(int from, int n, int percent)
{
    char text[80 * 20];

    for (int i = from; i < from + n; i += 20) {
        text[0] = '\0';
        for (int k = i; k < i + 20; k++)
            snprintf(text + strlen(text), 80, "{\"user\":\"u\",\"arm\":\"%s\",\"reward\":%d}\n", k % 2 ? "a" : "b",
                     (int)draw(100) < (k % 2 ? percent : 40));
        struct ld_op *op = op_observe(node[i / 20 % N_NODES].t, text, true);
        expect_status(node[i / 20 % N_NODES].t, op, 200);
    }
}

static size_t n_changed(void)
{
    struct ld_text lines;
    size_t n_late;

    all_lines(&lines);
    const size_t n = n_lines_with("\"type\":\"changed\"", lines.data, &n_late);
    ld_text_close(&lines);
    return n;
}

/* An alarm waits until all servers know its line, and all servers stay the same meanwhile. */
START_TEST(an_alarm_waits_until_the_log_is_upgraded)
{
    begin_with("{\"algorithm\":\"ucb\",\"forgetting\":{\"type\":\"discount\"}}", FOUR);
    shared.version = 1;
    observe_rates(0, 600, 80);
    observe_rates(600, 300, 5);
    ck_assert_uint_eq(n_changed(), 0);
    shared.version = 2;
    observe_rates(900, 60, 5);
    ck_assert_uint_ge(n_changed(), 1);
    for (int i = 0; i < N_NODES; i++)
        follow(i);
    compare_nodes();
    end();
}
END_TEST

/* Slots are of version 2 of the lines. Who knows version 1 alone (LAPLACED_LOG_VERSION) goes on beside others until the
 * log allows 2, and then neither reads nor writes; nothing is a fork, and it goes on where it was when it is a newer
 * one. */
START_TEST(a_newer_server_writes_what_older_ones_know_and_an_older_one_keeps_away)
{
    static const char slots[] = "{\"user\":\"u\",\"decision\":\"two\",\"slots\":[{\"id\":\"s\"},{\"id\":\"t\"}]}";
    struct ld_op *op;

    begin_with(PLAIN, FOUR);
    shared.version = 1;
    op = op_plain(node[0].t, slots, NULL);
    ck_assert_int_eq(settle_op(node[0].t, op), 503);
    ck_assert_ptr_nonnull(strstr(op->problem->detail, "cluster upgrade"));
    ld_op_free(op);
    setenv("LAPLACED_LOG_VERSION", "1", 1); /* both, for a while: there is one environment */
    expect_status(node[1].t, op_plain(node[1].t, "{\"user\":\"u\",\"decision\":\"one\"}", NULL), 200);
    follow(0);
    ck_assert_uint_eq(counts_of(node[0].t).decided, 1);

    shared.version = 2;
    op = op_plain(node[1].t, "{\"user\":\"u\",\"decision\":\"later\"}", NULL);
    ck_assert_int_eq(settle_op(node[1].t, op), 503);
    ck_assert_ptr_nonnull(strstr(op->problem->detail, "upgraded"));
    ld_op_free(op);
    unsetenv("LAPLACED_LOG_VERSION");
    expect_status(node[0].t, op_plain(node[0].t, slots, NULL), 200);
    setenv("LAPLACED_LOG_VERSION", "1", 1);
    ld_tenant_follow(node[1].t);
    run_all(node[1].t);
    ck_assert_uint_eq(counts_of(node[1].t).decided, 1);
    unsetenv("LAPLACED_LOG_VERSION");
    follow(1);
    ck_assert_uint_eq(counts_of(node[1].t).decided, 2);
    ck_assert_uint_eq(node[1].metrics.shared.chain_breaks, 0);
    expect_status(node[1].t, op_plain(node[1].t, "{\"user\":\"u\",\"decision\":\"later\"}", NULL), 200);
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
    TCase *single = tcase_create("single");
    tcase_set_timeout(single, 30);
    tcase_add_test(single, a_reward_finds_the_decision_that_another_server_has_made_just_now);
    tcase_add_test(single, one_decision_id_at_two_servers_is_one_decision);
    tcase_add_test(single, an_arm_that_another_server_took_away_is_shown_nowhere_afterwards);
    tcase_add_test(single, a_user_keeps_the_arm_that_whichever_server_drew_first);
    tcase_add_loop_test(single, an_observation_that_two_servers_were_told_is_learned_once, 0, 8);
    tcase_add_test(single, a_model_that_a_dead_server_began_to_build_is_finished_by_another);
    tcase_add_loop_test(single, a_large_graph_is_changed_though_another_server_was_faster, 0, 8);
    tcase_add_loop_test(single, a_reward_of_a_user_that_two_servers_were_told_is_learned_once, 0, 6);
    tcase_add_test(single, a_reward_behind_a_full_batch_is_looked_up_again);
    tcase_add_test(single, a_clock_that_is_far_ahead_closes_no_window_before_its_time);
    tcase_add_test(single, a_copy_is_refused_without_its_log_and_put_aside_under_another);
    tcase_add_test(single, a_log_with_other_lines_stops_changes_and_leaves_reading);
    tcase_add_test(single, who_is_far_behind_reads_on_before_it_keeps_others_from_the_row);
    tcase_add_test(single, who_writes_without_a_pause_keeps_nobody_out);
    tcase_add_loop_test(single, a_tenant_that_chose_so_decides_while_the_log_is_away_and_records_nothing, 0, 2);
    tcase_add_test(single, a_decision_whose_outcome_is_unknown_is_not_called_unrecorded);
    tcase_add_test(single, a_tenant_that_chose_nothing_refuses_while_the_log_is_away);
    tcase_add_test(single, a_log_that_is_newer_is_not_away);
    tcase_add_test(single, an_alarm_waits_until_the_log_is_upgraded);
    tcase_add_test(single, a_newer_server_writes_what_older_ones_know_and_an_older_one_keeps_away);
    tcase_add_test(single, a_full_disk_of_a_copy_loses_nothing_that_the_log_has);
    suite_add_tcase(suite, single);
    return kbt_run_suite(suite);
}
