/* The registries of two servers that share a log: which tenants each of them knows after which question. */
#include "kbt_shared_log.h"
#include "store/folder.h"
#include "tenant_fixture.h"
#include "tenants/registry.h"
#include "tenant/recover.h"

struct server {
    struct fixture f;
    struct ld_tenants *tenants;
};

static struct kbt_shared_log shared;
static struct server a, b;

static void start(struct server *s)
{
    struct ld_message why = {""};

    ck_assert_msg(ld_tenants_open(&s->tenants, &s->f.world, &why) == 0, "%s", why.text);
}

/* A server with an empty folder; first: the tenant that it makes by itself, "" for none. */
static void begin_server(struct server *s, const char *node, const char *first)
{
    fixture_world(&s->f);
    remove_dir(s->f.dir);
    s->f.world.shared = &shared.base;
    s->f.world.node = node;
    s->f.world.is_finishing_builds = true;
    s->f.world.default_tenant = first;
    s->f.world.max_opening = 8;
    start(s);
}

static void begin_with(const char *first)
{
    kbt_shared_log_init(&shared, 1);
    begin_server(&a, "a", first);
    begin_server(&b, "b", first);
}

static void begin(void)
{
    begin_with("");
}

static void end(void)
{
    ld_tenants_close(a.tenants);
    ld_tenants_close(b.tenants);
    remove_dir(a.f.dir);
    remove_dir(b.f.dir);
    kbt_shared_log_close(&shared);
}

static int create(struct server *s, const char *name, const char *configuration)
{
    const struct ld_settings settings = fixture_settings(configuration);
    struct ld_problem problem;

    ld_problem_init(&problem);
    return ld_tenants_create(s->tenants, name, &settings, &problem) == 0 ? 201 : problem.status;
}

static int delete (struct server *s, const char *name)
{
    struct ld_problem problem;

    ld_problem_init(&problem);
    return ld_tenants_delete(s->tenants, name, &problem) == 0 ? 204 : problem.status;
}

/* Held. */
static struct ld_tenant *tenant(struct server *s, const char *name)
{
    struct ld_problem problem;

    ld_problem_init(&problem);
    struct ld_tenant *t = ld_tenants_get(s->tenants, name, &problem);
    ck_assert_msg(t != NULL, "%s: %d %s", name, problem.status, problem.detail);
    return t;
}

static void decide(struct server *s, const char *name, const char *id)
{
    struct ld_tenant *t = tenant(s, name);

    expect_status(t, op_select(t, "{\"user\":\"u\",\"candidates\":[\"a\",\"b\"]}", id), 200);
    ld_tenant_release(t);
}

static uint64_t n_decided(struct server *s, const char *name)
{
    struct ld_tenant *t = tenant(s, name);
    const uint64_t n = counts_of(t).decided;

    ld_tenant_release(t);
    return n;
}

/* Somebody who waits: the status of the answer, 200 for a tenant, 0 for none yet. */
struct client {
    struct ld_tenant_wait wait; /* the first */
    int status;
};

static void answer(struct ld_tenant_wait *wait, struct ld_tenant *t, const struct ld_problem *p)
{
    struct client *c = (struct client *)(void *)wait;

    ck_assert_int_eq(c->status, 0);
    c->status = t != NULL ? 200 : p->status;
    ld_tenant_release(t);
}

static void ask(struct client *c, struct server *s, const char *name)
{
    *c = (struct client){.wait = {.done = answer}};
    ck_assert(ld_tenants_await(s->tenants, name, &c->wait));
}

START_TEST(a_tenant_that_one_server_makes_is_the_others_after_a_question)
{
    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    decide(&a, "shop", "d1");
    ck_assert(!ld_tenants_has(b.tenants, "shop"));
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert(ld_tenants_has(b.tenants, "shop"));
    ck_assert_uint_eq(n_decided(&b, "shop"), 1);
    decide(&b, "shop", "d2");
    struct ld_tenant *t = tenant(&b, "shop");
    const uint64_t digest = digest_of(t);
    ld_tenant_release(t);
    ck_assert(ld_tenants_poll(a.tenants));
    t = tenant(&a, "shop");
    ld_tenant_run_writer(t); /* which was told to follow */
    ck_assert_uint_eq(digest_of(t), digest);
    ld_tenant_release(t);
    end();
}
END_TEST

START_TEST(a_name_that_nobody_here_knows_waits_for_the_next_question)
{
    struct client known, stranger;

    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ask(&known, &b, "shop");
    ask(&stranger, &b, "nobodys");
    ck_assert_int_eq(known.status, 0);
    ck_assert_int_eq(stranger.status, 0);
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_int_eq(known.status, 200);
    ck_assert_int_eq(stranger.status, 404);
    stranger = (struct client){.wait = {.done = answer}};
    ck_assert(!ld_tenants_await(b.tenants, "no name", &stranger.wait)); /* no question for what can be no tenant */
    end();
}
END_TEST

START_TEST(whether_there_is_a_tenant_is_not_known_while_the_log_is_away)
{
    struct client c, late[9];

    begin();
    shared.odds.untaken = 1;
    ask(&c, &b, "shop");
    ck_assert(!ld_tenants_poll(b.tenants));
    ck_assert_int_eq(c.status, 503);
    ck_assert_int_eq(create(&b, "shop", "{}"), 503);
    ck_assert_int_eq(delete (&b, "shop"), 503);
    struct ld_nodes_view view;
    ld_tenants_nodes(b.tenants, &view);
    ck_assert_int_gt(view.down_us, 0);
    for (int i = 0; i < 9; i++) /* as many as --max-opening */
        ask(&late[i], &b, "shop");
    ck_assert_int_eq(late[7].status, 0);
    ck_assert_int_eq(late[8].status, 503);
    ld_tenants_halt(b.tenants);
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(late[i].status, 503);
    ask(&c, &b, "shop");
    ck_assert_int_eq(c.status, 503);
    shared.odds.untaken = 0;
    ck_assert(ld_tenants_poll(b.tenants));
    ld_tenants_nodes(b.tenants, &view);
    ck_assert_int_eq(view.down_us, 0);
    end();
}
END_TEST

START_TEST(who_makes_a_tenant_that_is_there_is_told_so_and_knows_it)
{
    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ck_assert_int_eq(create(&b, "shop", "{\"algorithm\":\"ts\"}"), 409);
    struct ld_tenant *t = tenant(&b, "shop");
    const struct ld_settings *settings;
    ck_assert_str_eq(kb_engine_spec(ld_tenant_read_lock(t, &settings))->algorithm, "ucb");
    ld_tenant_read_unlock(t);
    ld_tenant_release(t);
    end();
}
END_TEST

START_TEST(a_creation_that_was_cut_off_is_seen_by_nobody_and_made_whole_by_the_next)
{
    struct ld_shared_tenant found;
    struct ld_message why;
    struct client c;
    bool is_new;

    begin();
    ck_assert_int_eq(shared.base.ops->find(&shared.base, "shop", true, &found, &is_new, &why), LD_SHARED_OK);
    ask(&c, &a, "shop");
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert_int_eq(c.status, 404);
    ck_assert_int_eq(create(&b, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    decide(&b, "shop", "d");
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert_uint_eq(n_decided(&a, "shop"), 1);
    end();
}
END_TEST

START_TEST(a_tenant_that_is_deleted_goes_everywhere_with_its_files_and_its_name_is_free)
{
    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert(ld_tenants_poll(b.tenants));
    decide(&b, "shop", "d");
    ck_assert_int_eq(delete (&b, "shop"), 204);
    ck_assert_int_eq(delete (&b, "shop"), 404);
    ck_assert(ld_folder_has(a.f.dir, "shop"));
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert(!ld_tenants_has(a.tenants, "shop"));
    ck_assert(!ld_folder_has(a.f.dir, "shop"));
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ts\"}"), 201);
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(n_decided(&b, "shop"), 0);
    end();
}
END_TEST

START_TEST(another_tenant_under_the_name_takes_its_place)
{
    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ck_assert(ld_tenants_poll(b.tenants));
    decide(&b, "shop", "d");
    ck_assert_int_eq(delete (&a, "shop"), 204);
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ck_assert(ld_tenants_poll(b.tenants)); /* which had no time to see that it was away */
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(n_decided(&b, "shop"), 0);
    end();
}
END_TEST

/* The log answers, and while its answer is on the way a tenant is made here. */
static enum ld_shared_rc answer_late(struct ld_shared_log *log,
                                     void (*fn)(void *arg, const char *name, const struct ld_shared_tenant *t),
                                     void *arg, uint64_t *generation, struct ld_message *why)
{
    static const struct ld_shared_ops *own;

    if (own == NULL) {
        struct kbt_shared_log fresh;
        kbt_shared_log_init(&fresh, 1);
        own = fresh.base.ops;
        kbt_shared_log_close(&fresh);
    }
    const enum ld_shared_rc rc = own->tips(log, fn, arg, generation, why);
    if (!ld_tenants_has(a.tenants, "new"))
        ck_assert_int_eq(create(&a, "new", "{\"algorithm\":\"ucb\"}"), 201);
    return rc;
}

START_TEST(a_tenant_that_is_made_while_the_log_is_asked_is_not_missed_in_its_answer)
{
    begin();
    struct ld_shared_ops late = *shared.base.ops;
    late.tips = answer_late;
    shared.base.ops = &late;
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert(ld_tenants_has(a.tenants, "new"));
    decide(&a, "new", "d");
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert_uint_eq(n_decided(&a, "new"), 1);
    end();
}
END_TEST

START_TEST(a_log_that_was_set_back_removes_nothing)
{
    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ck_assert(ld_tenants_poll(a.tenants));
    kbt_shared_log_close(&shared);
    kbt_shared_log_init(&shared, 1); /* it knows of nothing */
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert(ld_tenants_has(a.tenants, "shop"));
    ck_assert(ld_folder_has(a.f.dir, "shop"));
    ck_assert_uint_eq(n_decided(&a, "shop"), 0); /* and is read as before */
    end();
}
END_TEST

START_TEST(a_tenant_that_was_deleted_while_the_server_was_down_goes_with_its_copy)
{
    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(n_decided(&b, "shop"), 0);
    ld_tenants_close(b.tenants);
    ck_assert_int_eq(delete (&a, "shop"), 204);
    start(&b);
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert(!ld_tenants_has(b.tenants, "shop"));
    ck_assert(!ld_folder_has(b.f.dir, "shop"));
    ck_assert_int_eq(create(&b, "shop", "{\"algorithm\":\"ts\"}"), 201);
    ck_assert_uint_eq(n_decided(&b, "shop"), 0);
    end();
}
END_TEST

START_TEST(the_first_tenant_is_made_once_by_whichever_server_asks_first)
{
    begin_with("default");
    ck_assert(!ld_tenants_has(a.tenants, "default"));
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert(ld_tenants_has(a.tenants, "default"));
    ck_assert(ld_tenants_poll(b.tenants));
    decide(&b, "default", "d");
    ck_assert_uint_eq(shared.n_tenants, 1);
    ck_assert_int_eq(delete (&a, "default"), 204);
    ck_assert(ld_tenants_poll(a.tenants));
    ck_assert(!ld_tenants_has(a.tenants, "default")); /* a tenant that was deleted does not come back */
    end();
}
END_TEST

static void erase(struct server *s, const char *name)
{
    struct ld_tenant *t = tenant(s, name);
    struct ld_op *op = op_task(&ld_erasure);

    strcpy(op->user, "u");
    expect_status(t, op, 200);
    ld_tenant_tick(t, clock_ms);
    run_all(t);
    ld_tenant_release(t);
}

/* What a question finds to be renewed, and what the log is told of it. */
static void expect_renewed(struct server *s, uint64_t n_old, uint64_t reported)
{
    shared.reported = 0;
    ck_assert(ld_tenants_poll(s->tenants));
    ck_assert_uint_eq(s->f.metrics.shared.generation_lag, n_old);
    ck_assert_uint_eq(shared.reported, reported);
}

START_TEST(copies_from_before_an_erasure_are_renewed_or_removed_and_the_log_is_told)
{
    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    decide(&a, "shop", "d1");
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(n_decided(&b, "shop"), 1);
    erase(&a, "shop");
    expect_renewed(&a, 0, 1);
    expect_renewed(&b, 1, 0); /* its writer is asked to */
    struct ld_tenant *t = tenant(&b, "shop");
    run_all(t);
    ck_assert_uint_eq(counts_of(t).decided, 0);
    ld_tenant_release(t);
    expect_renewed(&b, 0, 1);
    expect_renewed(&b, 0, 0); /* once is enough */
    decide(&a, "shop", "d2");
    ck_assert_uint_eq(n_decided(&b, "shop"), 0);
    ld_tenants_close(b.tenants);
    start(&b); /* and has it closed */
    erase(&a, "shop");
    ck_assert(fixture_has_file(&b.f, "tenants/shop.db"));
    expect_renewed(&b, 0, 2);
    ck_assert(!fixture_has_file(&b.f, "tenants/shop.db"));
    ck_assert(ld_tenants_has(b.tenants, "shop"));
    t = tenant(&b, "shop");
    ck_assert_uint_eq(counts_of(t).decided, 0);
    ld_tenant_tick(t, clock_ms); /* what SQLite wrote goes into the file */
    run_all(t);
    ld_tenant_release(t);
    expect_renewed(&b, 0, 0);
    end();
}
END_TEST

/* What a server says of the tenant: of events all, of time the least. */
static void expect_lag(struct server *s, uint64_t n_events, int64_t us)
{
    struct ld_tenant *t = tenant(s, "shop");
    struct ld_log_view log;

    ld_tenant_log(t, &log);
    ck_assert(log.is_shared);
    ck_assert_uint_eq(log.lag_events, n_events);
    if (us > 0)
        ck_assert_int_ge(log.lag_us, us);
    else
        ck_assert_int_eq(log.lag_us, 0);
    ld_tenant_release(t);
}

START_TEST(who_has_not_read_what_is_there_lags)
{
    struct ld_nodes_view view;

    begin();
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(n_decided(&b, "shop"), 0);
    ck_assert(ld_tenants_poll(b.tenants));
    ld_tenants_nodes(b.tenants, &view);
    ck_assert_int_eq(view.lag.us, 0);
    expect_lag(&a, 0, 0);
    expect_lag(&b, 0, 0);
    decide(&a, "shop", "d");
    ck_assert(ld_tenants_poll(b.tenants)); /* sees the line for the first time */
    usleep(2000);
    decide(&a, "shop", "e");
    decide(&a, "shop", "f");
    ck_assert(ld_tenants_poll(b.tenants));
    ld_tenants_nodes(b.tenants, &view);
    ck_assert_int_ge(view.lag.us, 2000);
    ck_assert_uint_eq(view.lag.events, 3);
    expect_lag(&a, 0, 0); /* which wrote them, and has not asked since */
    expect_lag(&b, 3, 2000);
    struct ld_tenant *t = tenant(&b, "shop");
    ld_tenant_run_writer(t);
    ld_tenant_release(t);
    expect_lag(&b, 0, 0); /* before it asks again */
    ck_assert(ld_tenants_poll(b.tenants));
    ld_tenants_nodes(b.tenants, &view);
    ck_assert_int_eq(view.lag.us, 0);
    ck_assert_uint_eq(view.lag.events, 0);
    end();
}
END_TEST

/* b follows what a writes and what it erases, as a server does whose start is not over. */
static void expect_uncounted(const struct ld_progress *progress, uint64_t n_lines)
{
    struct ld_tenant *t = tenant(&b, "shop");

    decide(&a, "shop", "live");
    ld_tenant_follow(t);
    while (ld_tenant_run_writer(t))
        continue;
    ck_assert_uint_eq(counts_of(t).decided, 8);
    erase(&a, "shop");
    decide(&a, "shop", "later");
    ck_assert(ld_tenants_poll(b.tenants));
    ld_tenant_follow(t);
    while (ld_tenant_run_writer(t))
        continue;
    ck_assert_uint_eq(counts_of(t).decided, 1);
    ck_assert_uint_eq(progress->n_lines, n_lines);
    ck_assert_uint_eq(progress->n_renewed, 0);
    ld_tenant_release(t);
}

START_TEST(openings_count_the_lines_that_they_read_from_the_log)
{
    struct ld_progress progress = {.is_stopping = false};
    struct ld_message why = {""};

    begin();
    b.f.world.progress = &progress;
    ck_assert_int_eq(create(&a, "shop", "{\"algorithm\":\"ucb\"}"), 201);
    decide(&a, "shop", "d1");
    decide(&a, "shop", "d2");
    ck_assert(ld_tenants_poll(b.tenants));
    ck_assert_uint_eq(n_decided(&b, "shop"), 2); /* on an empty folder */
    ck_assert_uint_eq(progress.n_lines, 3);
    ld_tenants_close(b.tenants); /* with a snapshot */
    for (int i = 0; i < 5; i++)
        decide(&a, "shop", (const char *[]){"e1", "e2", "e3", "e4", "e5"}[i]);
    progress = (struct ld_progress){.is_stopping = false};
    start(&b); /* on a copy that is behind */
    ck_assert_msg(ld_tenants_open_all(b.tenants, &why) == 0, "%s", why.text);
    ck_assert_uint_eq(progress.n_lines, 5);
    ck_assert_uint_eq(progress.n_tenants, 1);
    ck_assert_uint_eq(n_decided(&b, "shop"), 7);
    expect_uncounted(&progress, 5); /* by traffic behind it */
    erase(&a, "shop");
    ld_tenants_close(b.tenants);
    progress = (struct ld_progress){.is_stopping = false};
    start(&b); /* on one of lines that were rewritten: it is read anew, and folded */
    ck_assert_msg(ld_tenants_open_all(b.tenants, &why) == 0, "%s", why.text);
    ck_assert_uint_eq(progress.n_lines, progress.n_renewed);
    ck_assert_uint_ge(progress.n_lines, 8);
    ck_assert_uint_eq(n_decided(&b, "shop"), 0);
    end();
}
END_TEST

int main(void)
{
    return KBT_RUN("nodes", a_tenant_that_one_server_makes_is_the_others_after_a_question,
                   a_name_that_nobody_here_knows_waits_for_the_next_question,
                   whether_there_is_a_tenant_is_not_known_while_the_log_is_away,
                   who_makes_a_tenant_that_is_there_is_told_so_and_knows_it,
                   a_creation_that_was_cut_off_is_seen_by_nobody_and_made_whole_by_the_next,
                   a_tenant_that_is_deleted_goes_everywhere_with_its_files_and_its_name_is_free,
                   another_tenant_under_the_name_takes_its_place,
                   a_tenant_that_is_made_while_the_log_is_asked_is_not_missed_in_its_answer,
                   a_log_that_was_set_back_removes_nothing,
                   a_tenant_that_was_deleted_while_the_server_was_down_goes_with_its_copy,
                   the_first_tenant_is_made_once_by_whichever_server_asks_first, who_has_not_read_what_is_there_lags,
                   openings_count_the_lines_that_they_read_from_the_log,
                   copies_from_before_an_erasure_are_renewed_or_removed_and_the_log_is_told);
}
