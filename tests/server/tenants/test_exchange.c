/* A tenant whose place another takes in a shared log: two servers have the one or the other, whatever the log answers.
 */
#include "kbt_shared_log.h"
#include "store/folder.h"
#include "tenant_fixture.h"
#include "tenants/registry.h"

struct server {
    struct fixture f;
    struct ld_tenants *tenants;
};

static struct kbt_shared_log shared;
static struct server a, b;
static char file[128]; /* of the tenant that comes */
static struct fixture alone;
static int n_forgotten, n_replaced;

static void note_removal(void *arg, const char *name, bool is_replaced)
{
    (void)arg;
    (void)name;
    n_forgotten++;
    n_replaced += is_replaced;
}

static void begin_server(struct server *s, const char *node)
{
    struct ld_message why = {""};

    fixture_world(&s->f);
    remove_dir(s->f.dir);
    s->f.world.shared = &shared.base;
    s->f.world.node = node;
    s->f.world.is_finishing_builds = true;
    s->f.world.default_tenant = "";
    s->f.world.max_opening = 8;
    ck_assert_msg(ld_tenants_open(&s->tenants, &s->f.world, &why) == 0, "%s", why.text);
    ld_tenants_on_removal(s->tenants, note_removal, NULL);
}

/* Held. */
static struct ld_tenant *tenant(struct server *s)
{
    struct ld_problem problem;

    ld_problem_init(&problem);
    struct ld_tenant *t = ld_tenants_get(s->tenants, "shop", &problem);
    ck_assert_msg(t != NULL, "%d %s", problem.status, problem.detail);
    return t;
}

static struct ld_op *decision(struct ld_tenant *t, const char *id)
{
    return op_select(t, "{\"user\":\"u\",\"candidates\":[\"a\",\"b\"]}", id);
}

static uint64_t digest(struct server *s)
{
    struct ld_tenant *t = tenant(s);
    const uint64_t found = digest_of(t);

    ld_tenant_release(t);
    return found;
}

/* Two servers with a tenant of a decision, and a file of another, whose digest this is. */
static uint64_t begin(void)
{
    const struct ld_settings settings = fixture_settings("{\"algorithm\":\"ucb\"}");
    const struct ld_rate rate = {.rate = 17, .burst = 34};
    struct ld_problem problem;

    n_forgotten = n_replaced = 0;
    fixture_open(&alone, "{\"algorithm\":\"ucb\",\"seed\":5}");
    for (int i = 0; i < 5; i++)
        expect_status(alone.t, decision(alone.t, (const char *[]){"d1", "d2", "d3", "d4", "d5"}[i]), 200);
    const uint64_t found = digest_of(alone.t);
    snprintf(file, sizeof file, "%s/tenants/t.db", alone.dir);
    ld_tenant_release(alone.t);
    alone.t = NULL;
    kbt_shared_log_init(&shared, 9);
    begin_server(&a, "a");
    begin_server(&b, "b");
    ld_problem_init(&problem);
    ck_assert_int_eq(ld_tenants_create(a.tenants, "shop", &settings, &problem), 0);
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert(ld_tenants_poll(a.tenants));
    struct ld_tenant *t = tenant(&a);
    expect_status(t, decision(t, "old"), 200);
    ld_tenant_release(t);
    ld_tenants_set_rate(a.tenants, "shop", &rate, &problem);
    ck_assert_int_eq(problem.status, 0);
    ck_assert_uint_eq(digest(&b), digest(&a));
    return found;
}

static void end(void)
{
    ld_tenants_close(a.tenants);
    ld_tenants_close(b.tenants);
    remove_dir(a.f.dir);
    remove_dir(b.f.dir);
    remove_dir(alone.dir);
    kbt_shared_log_close(&shared);
}

static int replace(struct server *s, struct ld_problem *p)
{
    ld_problem_init(p);
    return ld_tenants_replace(s->tenants, "shop", &(struct ld_tenant_file){file, "", NULL, NULL}, p) == 0 ? 204
                                                                                                          : p->status;
}

static void expect_rate(struct server *s)
{
    struct ld_rate rate;
    bool is_own;
    double fill;

    ck_assert(ld_tenants_get_rate(s->tenants, "shop", &rate, &is_own, &fill));
    ck_assert(is_own && rate.rate == 17 && rate.burst == 34);
}

START_TEST(whoever_asks_meanwhileis_told_to_ask_again_and_finds_the_other)
{
    struct ld_problem p;
    const uint64_t want = begin(), was = digest(&b);

    struct ld_tenant *t = tenant(&b); /* in somebody's hands */
    ck_assert_uint_ne(want, was);
    ck_assert_int_eq(replace(&a, &p), 204);
    ck_assert_uint_eq(digest(&a), want);
    expect_rate(&a);
    struct ld_op *op = decision(t, "late"); /* which b has not heard of */
    ck_assert_int_eq(settle_op(t, op), 503);
    ck_assert_msg(strstr(op->problem->detail, "ask again") != NULL, "%s", op->problem->detail);
    ld_op_free(op);
    ck_assert_uint_eq(digest_of(t), was); /* reading goes on */
    ck_assert(ld_tenants_poll(b.tenants));
    op = decision(t, "later");
    ck_assert_int_eq(settle_op(t, op), 503);
    ck_assert_msg(strstr(op->problem->detail, "ask again") != NULL, "%s", op->problem->detail);
    ld_op_free(op);
    ld_tenant_release(t);
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(digest(&b), want);
    ck_assert(ld_tenants_poll(b.tenants));
    expect_rate(&b);
    ck_assert_int_eq(n_forgotten, 2);
    ck_assert_int_eq(n_replaced, 2); /* whose keys are the log's to tell */
    t = tenant(&b);
    expect_status(t, decision(t, "new"), 200);
    ld_tenant_release(t);
    end();
}
END_TEST

/* 0: others have written, or it was lost; 1: it is down; 2, 3: nobody knows, and it is not there, or is. */
START_TEST(an_exchange_is_there_whole_or_not_at_all)
{
    struct ld_problem p;
    const uint64_t want = begin(), was = digest(&b);

    shared.odds =
        (struct kbt_shared_odds){.behind = _i == 0, .down = _i == 1, .unknown_out = _i == 2, .unknown_in = _i == 3};
    const int status = replace(&a, &p);
    shared.odds = (struct kbt_shared_odds){.down = 0};
    ck_assert_int_eq(status, _i == 3 ? 204 : 503);
    ck_assert_msg(_i == 3 || strstr(p.detail, "not exchanged, ask again") != NULL, "%s", p.detail);
    for (int i = 0; i < 3; i++) {
        ck_assert(ld_tenants_poll(a.tenants));
        ck_assert(ld_tenants_poll(b.tenants));
    }
    ck_assert_uint_eq(digest(&a), _i == 3 ? want : was);
    ck_assert_uint_eq(digest(&b), _i == 3 ? want : was);
    ck_assert_int_eq(replace(&b, &p), 204);
    for (int i = 0; i < 2; i++)
        ck_assert(ld_tenants_poll(a.tenants));
    ck_assert_uint_eq(digest(&a), want);
    ck_assert_uint_eq(digest(&b), want);
    end();
}
END_TEST

START_TEST(a_tenant_that_is_gone_is_nobodys_to_exchange)
{
    struct ld_problem p;

    (void)begin();
    ld_problem_init(&p);
    ck_assert_int_eq(ld_tenants_delete(b.tenants, "shop", &p), 0);
    ck_assert_int_eq(replace(&a, &p), 404);
    shared.odds.untaken = 1;
    ck_assert_int_eq(replace(&a, &p), 503);
    ck_assert_ptr_nonnull(strstr(p.detail, "nothing was changed"));
    shared.odds.untaken = 0;
    end();
}
END_TEST

/* ---- while it is opened -------------------------------------------------------------------------------------------
 */

static const struct ld_shared_ops *usual;
static struct ld_shared_ops meddling;
static bool is_armed, is_early, is_told;

/* Of the opening: the tenant is exchanged before the log is asked for it, or behind that. */
static enum ld_shared_rc find_and_exchange(struct ld_shared_log *l, const char *name, bool is_made,
                                           struct ld_shared_tenant *out, bool *is_new, struct ld_message *why)
{
    struct ld_problem p;
    enum ld_shared_rc rc = LD_SHARED_OK;

    if (!is_armed)
        return usual->find(l, name, is_made, out, is_new, why);
    is_armed = false;
    if (!is_early)
        rc = usual->find(l, name, is_made, out, is_new, why);
    ck_assert_int_eq(replace(&a, &p), 204);
    if (is_told)
        ck_assert(ld_tenants_poll(b.tenants));
    return is_early ? usual->find(l, name, is_made, out, is_new, why) : rc;
}

/* 0, 1: this server hears of it meanwhile; 2: it does not. */
START_TEST(whoever_waits_for_its_opening_is_told_to_ask_again)
{
    struct ld_problem p;
    const uint64_t want = begin();

    ld_tenants_close(b.tenants);
    begin_server(&b, "b");
    for (int i = 0; i < 2; i++)
        ck_assert(ld_tenants_poll(b.tenants));
    usual = shared.base.ops;
    meddling = *usual;
    meddling.find = find_and_exchange;
    shared.base.ops = &meddling;
    is_armed = true;
    is_early = _i == 0;
    is_told = _i < 2;
    ld_problem_init(&p);
    ck_assert_ptr_null(ld_tenants_get(b.tenants, "shop", &p));
    ck_assert_msg(p.status == 503 && strstr(p.detail, "ask again") != NULL, "%d %s", p.status, p.detail);
    ck_assert(!is_armed);
    shared.base.ops = usual;
    for (int i = 0; i < 2; i++)
        ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(digest(&b), want);
    end();
}
END_TEST

/* Between the look for the number and the limits. */
START_TEST(limits_that_are_set_meanwhile_are_those_of_the_other)
{
    const struct ld_rate rate = {.rate = 23, .burst = 46};
    struct ld_problem p;

    (void)begin();
    usual = shared.base.ops;
    meddling = *usual;
    meddling.find = find_and_exchange;
    shared.base.ops = &meddling;
    is_armed = true;
    is_early = is_told = false;
    ld_problem_init(&p);
    ld_tenants_set_rate(b.tenants, "shop", _i == 0 ? &rate : NULL, &p);
    ck_assert_msg(p.status == 0 && !is_armed, "%d %s", p.status, p.detail);
    shared.base.ops = usual;
    const struct kbt_shared_tenant *t = kbt_shared_log_tenant(&shared, "shop");
    ck_assert(t->has_rate == (_i == 0) && (_i > 0 || t->rate.rate == 23));
    end();
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "exchange", 60, {whoever_asks_meanwhileis_told_to_ask_again_and_finds_the_other, 1},
        {an_exchange_is_there_whole_or_not_at_all, 4}, {whoever_waits_for_its_opening_is_told_to_ask_again, 3},
        {limits_that_are_set_meanwhile_are_those_of_the_other, 2}, {a_tenant_that_is_gone_is_nobodys_to_exchange, 1});
}
