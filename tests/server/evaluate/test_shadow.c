/* Shadows: a shadow of the tenant's own configuration draws what the tenant drew, so its digest is the tenant's; any
 * other one is a function of the log and its configuration, however it was fed; its own log folds to it; how rewards
 * are booked is the log's; summaries, slices and other dimensions are taken or refused as shadow.h says.
 *
 * Oracles: the engine that served, a fold of the shadow's own log, and a shadow of the whole log. */
#include <math.h>
#include <pthread.h>

#include "evaluate/shadow.h"
#include "spec/spec.h"
#include "model/summary.h"
#include "tenant_fixture.h"
#include "model/commit.h"
#include "model/engine_write.h"
#include "json/json_out.h"

/* ---- a tenant with a log ---------------------------------------------------------------------------------- */

static struct fixture f;

/* In steps, so that what expires does so by itself, as a batch of its own. */
static void advance(struct fixture *x, int64_t ms)
{
    for (int64_t i = 0; i < ms; i += 5) {
        clock_ms += 5;
        ld_tenant_tick(x->t, clock_ms);
        run_all(x->t);
    }
}

/* Decisions, some of them slates or deferred, rewards, what is left to expire, and observations in one batch. */
static void traffic(int from, int to, const char *context)
{
    char text[320];

    for (int i = from; i < to; i++) {
        snprintf(text, sizeof text, "{\"user\":\"u%d\",\"decision\":\"d%d\"%s%s%s}", i % 5, i, context,
                 i % 7 == 3 ? ",\"top\":2" : "", i % 9 == 4 ? ",\"defer\":true" : "");
        expect_status(f.t, op_select(f.t, text, NULL), 200);
        clock_ms += 10;
        snprintf(text, sizeof text, "{\"decision\":\"d%d\"}", i);
        if (i % 9 == 4)
            expect_status(f.t, op_activate(f.t, text), 200);
        snprintf(text, sizeof text, "{\"decision\":\"d%d\",\"reward\":%g}", i, (double)(i * 5 % 11) / 8);
        if (i % 4 != 0)
            expect_status(f.t, op_rewards(f.t, text), 200);
        snprintf(text, sizeof text, "{\"user\":\"v%d\"%s,\"arm\":\"b\",\"reward\":0.5}", i % 3, context);
        if (i % 10 == 9)
            expect_status(f.t, op_observe(f.t, text, false), 200);
    }
}

static void open_tenant(const char *configuration, const char *arms)
{
    fixture_open(&f, configuration);
    expect_status(f.t, op_graph(f.t, "{\"edges\":[[\"u0\",\"u1\"],[\"u1\",\"u2\",0.5]]}"), 200);
    expect_status(f.t, op_arms(f.t, arms), 200);
}

static uint64_t content_of(struct ld_tenant *t)
{
    const uint64_t digest = kb_engine_content_digest(ld_tenant_read_lock(t, NULL));

    ld_tenant_read_unlock(t);
    return digest;
}

/* ---- a shadow of it --------------------------------------------------------------------------------------- */

static struct ld_shadow *new_shadow(const char *configuration)
{
    const struct ld_settings settings = fixture_settings(configuration);
    struct kb_errmsg msg = {"", ""};
    struct ld_shadow *s = NULL;

    ck_assert_msg(ld_shadow_new(&s, &settings.spec, &msg) == KB_OK, "%s: %s", msg.pointer, msg.text);
    return s;
}

/* Lines behind `after`, up to n of them; the problem's status. */
static int feed(struct ld_shadow *s, uint64_t after, size_t n, struct ld_problem *p)
{
    struct ld_store *store = NULL;
    char path[128];
    struct ld_message why = {""};
    struct ld_fold x = {.sink = ld_shadow_sink(s)};

    snprintf(path, sizeof path, "%s/tenants/t.db", f.dir);
    ck_assert_msg(ld_store_open(&store, path, false, &why) == 0, "%s", why.text);
    (void)ld_fold_store(&x, store, after, n);
    ld_store_close(store);
    if (p != NULL)
        *p = x.fault;
    else
        ck_assert_msg(x.fault.status == 0, "%s %s: %s", x.fault.detail, x.fault.errors[0].pointer,
                      x.fault.errors[0].detail);
    return x.fault.status;
}

static struct ld_shadow *shadow_of_all(const char *configuration)
{
    struct ld_shadow *s = new_shadow(configuration);

    feed(s, 0, SIZE_MAX, NULL);
    return s;
}

static uint64_t shadow_digest(const struct ld_shadow *s)
{
    return kb_engine_digest(ld_shadow_engine(s));
}

/* Means of arms a to c for a user. */
static void means(struct ld_shadow *s, const char *user, const double *context, double mean[3])
{
    const struct kb_candidate candidates[3] = {{"a", NULL}, {"b", NULL}, {"c", NULL}};
    const struct kb_query q = {.user = user, .context = context, .candidates = candidates, .n_candidates = 3};
    struct kb_scratch *scratch = NULL;
    struct kb_decision d;

    ck_assert_int_eq(kb_engine_scratch_new(&scratch), KB_OK);
    ck_assert_int_eq(ld_shadow_decide(s, &q, scratch, &d, NULL), KB_OK);
    memcpy(mean, d.mean, 3 * sizeof *mean);
    kb_engine_scratch_free(scratch);
}

/* ---- the tenant's own configuration ------------------------------------------------------------------------- */

/* Each operation was a batch of its own, so the tenant's writer was asked what is due as often as the shadow is. */
static void shadow_preset(const char *name)
{
    char configuration[192];
    struct kb_spec spec;
    const bool takes_context = kb_spec_preset(&spec, name, 1, 0) == KB_OK && kb_spec_check(&spec, NULL) == KB_OK;

    snprintf(configuration, sizeof configuration, "{\"algorithm\":\"%s\"%s,\"reward_window_s\":1%s}", name,
             takes_context ? ",\"context_dim\":1" : "",
             spec.conf.type == KB_CONF_FIXED ? ",\"default_reward\":0.125" : "");
    open_tenant(configuration, "[\"a\",\"b\",\"c\"]");
    traffic(0, 60, takes_context ? ",\"context\":[0.25]" : "");
    advance(&f, 2000);
    struct ld_shadow *s = shadow_of_all(configuration);
    const struct kb_engine_counts want = counts_of(f.t);
    struct kb_engine_counts got;
    kb_engine_counts(ld_shadow_engine(s), &got);
    ck_assert_uint_gt(want.expired, 5);
    ck_assert_msg(shadow_digest(s) == digest_of(f.t), "%s: %llu events beside %llu", name, (unsigned long long)got.seq,
                  (unsigned long long)want.seq);
    ck_assert_uint_eq(ld_shadow_counts(s).cursor, want.seq);
    ld_shadow_free(s);
    fixture_close(&f);
}

START_TEST(a_shadow_of_the_same_configuration_is_the_tenant)
{
    struct kb_spec spec;

    for (size_t i = 0; kb_preset_name(i) != NULL; i++) {
        ck_assert_int_eq(kb_spec_preset(&spec, kb_preset_name(i), 0, 0), KB_OK);
        if (!kb_rule_reads_levels(spec.rule.type))
            shadow_preset(kb_preset_name(i));
    }
}
END_TEST

/* All its values but the number of the event, by which both logs count on their own. */
static uint64_t values_of(const struct kb_tuning *t)
{
    struct kb_tuning copy = *t;

    copy.event = 0;
    return kb_tuning_digest(&copy, 0);
}

/* The tenant draws nearly all arms alike, and the challenger, of the same model, hardly ever: what they learn of is one
 * log, so they find the same scales at the same rewards. */
START_TEST(a_challenger_that_tunes_finds_what_a_tenant_finds)
{
    static const struct {
        const char *model, *arms, *context;
    } cases[] = {
        {"\"algorithm\":\"laplaced\"", "[\"a\",\"b\",\"c\"]", ""},
        {"\"algorithm\":\"laplaced\",\"context_dim\":1", "[\"a\",\"b\",\"c\"]", ",\"context\":[0.25]"},
        {"\"algorithm\":\"laplaced\",\"arm_dim\":1",
         "[{\"id\":\"a\",\"features\":[0.1]},{\"id\":\"b\",\"features\":[0.5]},{\"id\":\"c\",\"features\":[-1]}]", ""},
        {"\"algorithm\":\"ts\"", "[\"a\",\"b\",\"c\"]", ""}};
    char live[192], challenger[192];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_live = 0, n_own = 0;
        snprintf(live, sizeof live, "{%s,\"rule\":{\"epsilon\":0.9},\"reward_window_s\":1}", cases[i].model);
        snprintf(challenger, sizeof challenger, "{%s,\"rule\":{\"type\":\"igw\"},\"confidence\":{\"beta\":0.3}}",
                 cases[i].model);
        open_tenant(live, cases[i].arms);
        traffic(0, 90, cases[i].context);
        advance(&f, 2000);
        struct ld_shadow *s = shadow_of_all(challenger);
        const struct kb_engine *served = ld_tenant_read_lock(f.t, NULL);
        const struct kb_tuning *want = kb_engine_tunings(served, &n_live),
                               *got = kb_engine_tunings(ld_shadow_engine(s), &n_own);
        ck_assert_uint_eq(n_live, 7); /* 8 12 18 27 41 62 93 */
        ck_assert_uint_eq(n_own, n_live);
        for (size_t k = 0; k < n_live; k++)
            ck_assert_msg(values_of(&got[k]) == values_of(&want[k]), "case %zu, refit %zu: noise %g for %g", i, k,
                          got[k].noise, want[k].noise);
        ck_assert(want[6].noise != want[5].noise);
        ld_tenant_read_unlock(f.t);
        ld_shadow_free(s);
        fixture_close(&f);
    }
}
END_TEST

/* Batches of the tenant's and a rebuild move the numbers of events, but not what an exact model holds. */
START_TEST(an_exact_model_holds_the_same_however_it_was_written)
{
    static const char CONFIGURATION[] = "{\"algorithm\":\"k-ucb\",\"context_dim\":1}";
    char lines[4096] = "";

    open_tenant(CONFIGURATION, "[\"a\",\"b\",\"c\"]");
    for (int i = 0; i < 50; i++)
        snprintf(lines + strlen(lines), sizeof lines - strlen(lines),
                 "{\"user\":\"w%d\",\"context\":[%d],\"arm\":\"%c\",\"reward\":%d}\n", i % 4, i % 3, 'a' + i % 3,
                 i % 2);
    expect_status(f.t, op_observe(f.t, lines, true), 200);
    traffic(0, 20, ",\"context\":[1]");
    struct ld_shadow *s = shadow_of_all(CONFIGURATION);
    ck_assert_uint_eq(kb_engine_content_digest(ld_shadow_engine(s)), content_of(f.t));
    ld_shadow_free(s);
    fixture_close(&f);
}
END_TEST

/* ---- another configuration ---------------------------------------------------------------------------------- */

#define LIVE "{\"algorithm\":\"ucb\",\"tune\":false,\"context_dim\":1,\"reward_window_s\":1}"
#define OTHER                                                                                                          \
    "{\"algorithm\":\"ek-ucb\",\"context_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},\"arm_kernel\":{\"type\":"      \
    "\"delta\"},\"seed\":9}"

static void open_live(void)
{
    open_tenant(LIVE, "[\"a\",\"b\",\"c\"]");
    traffic(0, 40, ",\"context\":[0.25]");
    traffic(40, 80, ",\"context\":[-1.5]");
    advance(&f, 2000);
}

/* Half of it, and from the line that it has come to the other half. */
static struct ld_shadow *shadow_in_two(const char *configuration)
{
    struct ld_shadow *s = new_shadow(configuration);

    feed(s, 0, 70, NULL);
    feed(s, ld_shadow_counts(s).cursor, SIZE_MAX, NULL);
    return s;
}

START_TEST(a_shadow_is_a_function_of_log_and_configuration)
{
    double one[3], two[3];
    const double context = 0.25;

    open_live();
    struct ld_shadow *a = shadow_of_all(OTHER), *b = shadow_in_two(OTHER);
    struct kb_engine_counts live = counts_of(f.t), own;
    kb_engine_counts(ld_shadow_engine(a), &own);
    ck_assert_uint_eq(shadow_digest(a), shadow_digest(b));
    ck_assert_uint_ne(shadow_digest(a), digest_of(f.t));
    ck_assert_uint_eq(own.learned, live.learned);
    ck_assert_uint_gt(own.n_support, 1);
    means(a, "u1", &context, one);
    means(b, "u1", &context, two);
    ck_assert_mem_eq(one, two, sizeof one);
    ck_assert(one[0] != one[1]);
    ld_shadow_free(a);
    ld_shadow_free(b);
    fixture_close(&f);
}
END_TEST

/* What is told is what a tenant's log would hold: encoded, decoded and folded it is the same model. */
struct told {
    struct kb_engine *engine;
    const struct kb_spec *spec;
    size_t n_dictionaries;
};

static enum kb_err fold_told(void *arg, const struct kb_event *ev)
{
    struct told *x = arg;
    const struct ld_settings settings = {.spec = ev->type == KB_EV_CONFIGURED ? *ev->as.configured.spec : *x->spec};
    struct ld_problem problem;
    struct ld_doc *doc = NULL;
    struct kb_event again;
    size_t n = 0;
    char *text = ld_encode_event(ev, x->spec->context_dim, x->spec->arm_dim, &settings, &n);

    ld_problem_init(&problem);
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(ld_doc_parse(&doc, text, n, false, &problem), 0);
    ck_assert_int_eq(ld_decode_event(doc, x->spec->context_dim, x->spec->arm_dim, &again, &problem), 0);
    const enum kb_err rc = kb_engine_fold(x->engine, &again, NULL);
    ld_doc_free(doc);
    free(text);
    x->n_dictionaries += ev->type == KB_EV_DICTIONARY;
    return rc;
}

START_TEST(its_own_log_folds_to_it)
{
    const struct ld_settings settings = fixture_settings(OTHER);
    struct told told = {.spec = &settings.spec};

    open_live();
    ck_assert_int_eq(kb_engine_new(&told.engine, kbt_key), KB_OK);
    struct ld_shadow *s = new_shadow(OTHER);
    ld_shadow_keep_log(s, fold_told, &told);
    feed(s, 0, SIZE_MAX, NULL);
    ck_assert_uint_gt(told.n_dictionaries, 1);
    ck_assert_uint_eq(kb_engine_digest(told.engine), shadow_digest(s));
    kb_engine_free(told.engine);
    ld_shadow_free(s);
    fixture_close(&f);
}
END_TEST

static enum kb_err refuse(void *arg, const struct kb_event *ev)
{
    (void)arg;
    return ev->type == KB_EV_DECIDED ? KB_EFULL : KB_OK;
}

START_TEST(an_event_that_is_not_kept_does_not_count)
{
    struct ld_problem p;

    open_live();
    struct ld_shadow *s = new_shadow(LIVE), *until = new_shadow(LIVE);
    ld_shadow_keep_log(s, refuse, NULL);
    ck_assert_int_ne(feed(s, 0, SIZE_MAX, &p), 0);
    feed(until, 0, ld_shadow_counts(s).n_read, NULL);
    ck_assert_uint_eq(shadow_digest(s), shadow_digest(until));
    ld_shadow_free(s);
    ld_shadow_free(until);
    fixture_close(&f);
}
END_TEST

/* ---- rewards are booked as the log has them ------------------------------------------------------------------ */

START_TEST(sums_and_corrections_mean_what_they_meant)
{
    static const char *const BOOKS[] = {"first", "sum", "last"};
    struct kb_engine_counts own;
    char configuration[160];

    for (size_t i = 0; i < 3; i++) {
        snprintf(configuration, sizeof configuration,
                 "{\"algorithm\":\"ucb\",\"aggregation\":\"%s\",\"reward_window_s\":1,\"default_reward\":-2}",
                 BOOKS[i]);
        open_tenant(configuration, "[\"a\",\"b\",\"c\"]");
        expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"decision\":\"x\"}", NULL), 200);
        expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"decision\":\"y\"}", NULL), 200);
        expect_status(f.t, op_rewards(f.t, "{\"decision\":\"x\",\"reward\":4}"), 200);
        expect_status(f.t, op_rewards(f.t, "{\"decision\":\"x\",\"reward\":1}"), i == 0 ? 409 : 200);
        advance(&f, 2000);
        struct ld_shadow *s = shadow_of_all("{\"algorithm\":\"ts\"}");
        kb_engine_counts(ld_shadow_engine(s), &own);
        ck_assert_double_eq(own.reward_sum, counts_of(f.t).reward_sum);
        ck_assert_double_eq(own.reward_sum, i == 0 ? 2 : i == 1 ? 3 : -1);
        ck_assert_uint_eq(own.pending, 0);
        ld_shadow_free(s);
        fixture_close(&f);
    }
}
END_TEST

START_TEST(a_change_of_the_books_counts_from_where_it_stands)
{
    struct kb_engine_counts own;

    open_tenant("{\"algorithm\":\"ucb\"}", "[\"a\",\"b\",\"c\"]");
    expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"decision\":\"x\"}", NULL), 200);
    expect_status(f.t, op_rewards(f.t, "{\"decision\":\"x\",\"reward\":1}"), 200);
    expect_status(f.t, op_settings("{\"algorithm\":\"lin-ucb\",\"aggregation\":\"sum\"}"), 200);
    expect_status(f.t, op_select(f.t, "{\"user\":\"u\",\"decision\":\"y\"}", NULL), 200);
    expect_status(f.t, op_rewards(f.t, "[{\"decision\":\"y\",\"reward\":1},{\"decision\":\"y\",\"reward\":5}]"), 200);
    struct ld_shadow *s = shadow_of_all("{\"algorithm\":\"ts\"}");
    kb_engine_counts(ld_shadow_engine(s), &own);
    ck_assert_double_eq(own.reward_sum, 7);
    ck_assert_uint_eq(own.version, 2);
    ck_assert_str_eq(kb_engine_spec(ld_shadow_engine(s))->algorithm, "ts");
    ld_shadow_free(s);
    fixture_close(&f);
}
END_TEST

/* ---- logs that are not whole, or of another kind --------------------------------------------------------------- */

START_TEST(a_summary_leaves_the_model_that_its_events_leave)
{
    static const char *const CONFIGURATIONS[] = {
        "{\"algorithm\":\"k-ucb\",\"context_dim\":1,\"context_kernel\":{\"type\":\"rbf\",\"lengthscale\":2}}",
        "{\"algorithm\":\"lk-gp-ucb\",\"context_dim\":1,\"representation\":{\"type\":\"threshold\",\"threshold\":1e-9}"
        "}",
        OTHER};
    double before[2][3], after[2][3];
    const double context = 0.25;

    for (size_t i = 0; i < 3; i++) {
        open_live();
        struct ld_shadow *whole = shadow_of_all(CONFIGURATIONS[i]);
        struct ld_op *op = op_task(&ld_compaction);
        op->keep_events = 10;
        expect_status(f.t, op, 200);
        struct ld_shadow *cut = shadow_of_all(CONFIGURATIONS[i]);
        ck_assert_uint_lt(ld_shadow_counts(cut).n_read, ld_shadow_counts(whole).n_read / 2);
        for (int u = 0; u < 2; u++) {
            means(whole, u == 0 ? "u1" : "v2", &context, before[u]);
            means(cut, u == 0 ? "u1" : "v2", &context, after[u]);
        }
        for (int u = 0; u < 2 && i < 2; u++)
            ck_assert_double_le(kbt_distance(3, after[u], before[u]), 1e-6);
        struct kb_engine_counts a, b;
        kb_engine_counts(ld_shadow_engine(whole), &a);
        kb_engine_counts(ld_shadow_engine(cut), &b);
        ck_assert(a.history_rows == b.history_rows && a.reward_sum == b.reward_sum && a.decided == b.decided);
        ck_assert_uint_gt(b.n_support, 1);
        ld_shadow_free(whole);
        ld_shadow_free(cut);
        fixture_close(&f);
    }
}
END_TEST

/* Alarms that a summary tells are those of the tenant's model. */
START_TEST(a_summary_tells_a_shadow_of_no_change)
{
    struct kb_ev_summary part;
    struct kb_event ev = {.type = KB_EV_SUMMARY, .as.summary = &part};
    struct kb_engine_counts counts;
    struct kb_errmsg msg = {.text = ""};
    struct kb_summarizer *parts;

    open_live();
    struct ld_shadow *from = shadow_of_all(OTHER), *s = new_shadow(OTHER);
    kb_engine_counts(ld_shadow_engine(from), &counts);
    ev.seq = 1000000; /* its rows name events before it */
    ck_assert_int_eq(kb_summarizer_new(&parts, ld_shadow_engine(from)), KB_OK);
    for (struct kb_event next; kb_summarizer_next(parts, &next);) {
        part = *next.as.summary;
        if (part.part == KB_PART_END) {
            part.totals.decay.base = 1;
            part.totals.decay.n_changes = 3;
            part.totals.decay.last_change = 2;
        }
        ev.seq++;
        ck_assert_msg(ld_shadow_feed(s, &ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
    }
    kb_summarizer_free(parts);
    kb_engine_counts(ld_shadow_engine(s), &counts);
    ck_assert_uint_eq(counts.n_changes, 0);
    ck_assert_uint_eq(counts.last_change, 0);
    ld_shadow_free(s);
    ld_shadow_free(from);
    fixture_close(&f);
}
END_TEST

START_TEST(a_slice_passes_over_what_is_said_of_decisions_before_it)
{
    struct kb_engine_counts own;
    struct ld_problem p;

    open_live();
    struct ld_shadow *s = new_shadow(OTHER);
    feed(s, 60, SIZE_MAX, NULL);
    kb_engine_counts(ld_shadow_engine(s), &own);
    ck_assert_uint_gt(ld_shadow_counts(s).n_passed, 0);
    ck_assert_uint_gt(own.learned, 20);
    ck_assert_uint_lt(own.learned, counts_of(f.t).learned);
    ck_assert_int_eq(feed(s, 70, 1, &p), 400);
    ck_assert_str_eq(p.errors[0].pointer, "/seq");
    ld_shadow_free(s);
    fixture_close(&f);
}
END_TEST

START_TEST(vectors_are_left_out_or_refused)
{
    struct kb_engine_counts own;
    struct ld_problem p;

    open_live();
    struct ld_shadow *s = shadow_of_all("{\"algorithm\":\"lk-gp-ucb\"}");
    kb_engine_counts(ld_shadow_engine(s), &own);
    ck_assert_uint_eq(own.learned, counts_of(f.t).learned);
    ck_assert_uint_le(own.history_rows, 8 * 3);
    ld_shadow_free(s);
    s = new_shadow("{\"algorithm\":\"lk-gp-ucb\",\"context_dim\":2}");
    ck_assert_int_eq(feed(s, 0, SIZE_MAX, &p), 400);
    ck_assert_str_eq(p.errors[0].pointer, "/configuration/context_dim");
    ck_assert_uint_eq(ld_shadow_counts(s).n_read, 0);
    ld_shadow_free(s);
    fixture_close(&f);
}
END_TEST

START_TEST(levels_are_refused)
{
    const struct ld_settings settings = fixture_settings("{\"algorithm\":\"sup-kernel-ucb\"}");
    struct kb_errmsg msg = {"", ""};
    struct ld_shadow *s = NULL;

    ck_assert_int_eq(ld_shadow_new(&s, &settings.spec, &msg), KB_EUNSUPPORTED);
    ck_assert_str_eq(msg.pointer, "/rule/type");
    ck_assert_ptr_null(s);
}
END_TEST

/* ---- ending ----------------------------------------------------------------------------------------------------- */

static void *cancel_soon(void *arg)
{
    usleep(2000);
    ld_shadow_cancel(arg);
    return NULL;
}

/* Resets over so many rows that they are builds, again and again: the end falls into one of them, or between two. */
START_TEST(it_ends_when_it_is_told_to)
{
    struct ld_shadow *s = new_shadow("{\"algorithm\":\"k-ucb\",\"context_dim\":1,\"context_kernel\":{\"type\":\"rbf\"},"
                                     "\"representation\":{\"type\":\"exact\"}}");
    struct kb_event observed = {.type = KB_EV_OBSERVED, .as.observed = {.user = "u", .arm = {"a", NULL}}};
    pthread_t thread;
    enum kb_err rc = KB_OK;
    double x = 0;

    ck_assert_int_eq(pthread_create(&thread, NULL, cancel_soon, s), 0);
    for (; rc == KB_OK && x < 1e6; x++) {
        observed.as.observed.context = &x;
        rc = ld_shadow_feed(s, &observed, NULL);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(rc, KB_ECANCELLED);
    ck_assert_int_eq(ld_shadow_feed(s, &observed, NULL), KB_ECANCELLED);
    ld_shadow_free(s);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "shadow", a_shadow_of_the_same_configuration_is_the_tenant, a_challenger_that_tunes_finds_what_a_tenant_finds,
        an_exact_model_holds_the_same_however_it_was_written, a_shadow_is_a_function_of_log_and_configuration,
        its_own_log_folds_to_it, an_event_that_is_not_kept_does_not_count, sums_and_corrections_mean_what_they_meant,
        a_change_of_the_books_counts_from_where_it_stands, a_summary_leaves_the_model_that_its_events_leave,
        a_summary_tells_a_shadow_of_no_change, a_slice_passes_over_what_is_said_of_decisions_before_it,
        vectors_are_left_out_or_refused, levels_are_refused, it_ends_when_it_is_told_to);
}
