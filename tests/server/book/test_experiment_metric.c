/* Metrics in the book of an experiment: what is counted of each, when a guardrail says something, and that all of it is
 * the same after it was saved. The sums are compared with those of core/inference, fed by what the test has told. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "book/experiment_impl.h"
#include "kbt.h"

#define WINDOW_MS 60000

/* A book, and the log that it is fed. */
struct log {
    struct ld_experiment book;
    struct ld_settings settings;
    uint64_t seq;
};

static void feed(struct log *l, struct kb_event ev)
{
    ev.seq = ++l->seq;
    ev.at_ms = 1000;
    ck_assert_int_eq(ld_experiment_book.take(&l->book, &ev), KB_OK);
}

static void configure(struct log *l)
{
    feed(l, (struct kb_event){.type = KB_EV_CONFIGURED, .as.configured = {.spec = &l->settings.spec, .version = 1}});
}

/* A guardrail, a metric that is summed up, and one that keeps its last value. */
static void begin(struct log *l)
{
    const struct kb_ev_arm arms[] = {{.id = "a", .is_active = true}, {.id = "b", .is_active = true}};

    memset(l, 0, sizeof *l);
    ld_settings_init(&l->settings);
    kb_spec_preset(&l->settings.spec, "random", 0, 0);
    l->settings.experiment = (struct ld_experiment_settings){
        .is_on = true, .difference = 0.1, .level = 0.05, .traffic_level = 0.01, .low = 0, .high = 1};
    l->settings.n_metrics = 3;
    l->settings.metric[0] = (struct ld_metric_settings){
        .name = "loyal", .role = LD_GUARDRAIL, .weight = 1, .high = 1, .harm = 0.25, .level = 0.1};
    l->settings.metric[1] = (struct ld_metric_settings){
        .name = "paid", .weight = 1, .low = -10, .high = 30, .aggregation = KB_AGG_SUM, .missing = -2, .level = 0.05};
    l->settings.metric[2] =
        (struct ld_metric_settings){.name = "time", .weight = 1, .high = 4, .aggregation = KB_AGG_LAST, .level = 0.05};
    l->settings.spec.has_metrics = true;
    configure(l);
    feed(l, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = 2}});
}

static void decide_for(struct log *l, const char *id, const char *user, const char *arm, enum kb_route route)
{
    const struct kb_ev_slot slot = {arm, NULL};
    const struct kb_ev_odds odds[] = {{"a", 0.5}, {"b", 0.5}};

    feed(l, (struct kb_event){.type = KB_EV_DECIDED,
                              .as.decided = {.decision = id,
                                             .user = user,
                                             .slots = &slot,
                                             .n_slots = 1,
                                             .route = route,
                                             .expires_at_ms = 1000 + WINDOW_MS,
                                             .odds = odds,
                                             .n_odds = 2}});
}

static void decide(struct log *l, const char *id, const char *arm)
{
    decide_for(l, id, "u", arm, KB_ROUTE_POLICY);
}

static void reward(struct log *l, const char *id, double r)
{
    feed(l, (struct kb_event){.type = KB_EV_REWARDED, .as.rewarded = {.decision = id, .reward = r}});
}

static void measure(struct log *l, const char *id, struct kb_ev_metric metric)
{
    feed(l, (struct kb_event){.type = KB_EV_MEASURED, .as.measured = {.decision = id, .metric = metric}});
}

static void expire(struct log *l, const char *id)
{
    feed(l, (struct kb_event){.type = KB_EV_EXPIRED, .as.expired = {.decision = id}});
}

static void close_log(struct log *l)
{
    ld_experiment_book.close(&l->book);
}

static const struct kb_pair *pair_of(const struct log *l, size_t metric)
{
    return &l->book.metric[metric].against[1].pair;
}

START_TEST(a_decision_counts_for_all_metrics_when_its_window_closes)
{
    struct kb_pair want[3] = {{0}, {0}, {0}};
    struct log l;
    begin(&l);
    ck_assert_uint_eq(l.book.n_metrics, 3);
    decide(&l, "1", "b");
    decide(&l, "2", "a");
    reward(&l, "1", 1);
    measure(&l, "1", (struct kb_ev_metric){.name = "loyal", .value = 1});
    measure(&l, "1", (struct kb_ev_metric){.name = "paid", .value = 4});
    measure(&l, "1",
            (struct kb_ev_metric){
                .name = "paid", .value = 6, .has_before = true, .before = 4, .has_total = true, .total = 10});
    measure(&l, "1", (struct kb_ev_metric){.name = "time", .value = 1});
    measure(&l, "1", (struct kb_ev_metric){.name = "time", .value = 3, .has_before = true, .before = 1});
    measure(&l, "1", (struct kb_ev_metric){.name = "nothing of ours", .value = 3});
    measure(&l, "2", (struct kb_ev_metric){.name = "time", .value = 9}); /* beyond its range */
    ck_assert_uint_eq(l.book.n_counted, 0); /* `first` has its reward, and metrics may still come */
    expire(&l, "1");
    expire(&l, "2");
    const double value[3][2] = {{1, 0}, {(10 + 10) / 40.0, (-2 + 10) / 40.0}, {0.75, 1}};
    for (size_t m = 0; m < 3; m++) {
        kb_pair_add(&want[m], 0.5, 0.5, true, value[m][0], 0.5);
        kb_pair_add(&want[m], 0.5, 0.5, false, value[m][1], 0.5);
        ck_assert_mem_eq(pair_of(&l, m), &want[m], sizeof want[m]);
        ck_assert(l.book.metric[m].shown[1][LD_SIDE_POLICY].reward == value[m][0]);
    }
    ck_assert_uint_eq(l.book.metric[2].n_clipped, 1);
    ck_assert(l.book.sums[1].against.pair.reward == 1);
    close_log(&l);
}
END_TEST

START_TEST(what_came_late_or_of_another_slot_does_not_count)
{
    struct log l;
    begin(&l);
    decide(&l, "1", "b");
    feed(&l, (struct kb_event){.type = KB_EV_MEASURED,
                               .as.measured = {.decision = "1", .arm = "a", .metric = {.name = "loyal", .value = 1}}});
    feed(&l,
         (struct kb_event){.type = KB_EV_MEASURED,
                           .as.measured = {.decision = "1", .metric = {.name = "loyal", .value = 1}, .is_late = true}});
    expire(&l, "1");
    measure(&l, "1", (struct kb_ev_metric){.name = "loyal", .value = 1});
    ck_assert_uint_eq(pair_of(&l, 0)->n, 1);
    ck_assert(pair_of(&l, 0)->reward == 0);
    close_log(&l);
}
END_TEST

/* A metric of a weighted sum is told by the reward's line, whose own value is the change of the sum. */
START_TEST(a_metric_of_a_weighted_sum_counts_whole_and_by_itself)
{
    struct log l;
    begin(&l);
    l.settings.spec.aggregation = KB_AGG_SUM;
    l.settings.metric[2].role = LD_OBJECTIVE;
    l.settings.metric[2].weight = 0.125;
    configure(&l);
    decide(&l, "1", "b");
    for (int i = 1; i <= 2; i++) {
        struct kb_event ev = {.type = KB_EV_REWARDED, .as.rewarded = {.decision = "1", .reward = 0.25}};
        ev.as.rewarded.metric =
            (struct kb_ev_metric){.name = "time", .is_told = true, .value = 2 * i, .has_before = i > 1, .before = 2};
        feed(&l, ev);
    }
    expire(&l, "1");
    ck_assert(pair_of(&l, 2)->reward == 1);
    ck_assert(l.book.sums[1].against.pair.reward == 0.5);
    close_log(&l);
}
END_TEST

START_TEST(a_guardrail_says_once_that_it_is_harmed_or_holds)
{
    struct ld_experiment_view *view = malloc(sizeof *view);
    struct log l;
    char id[32];
    begin(&l);
    ck_assert_ptr_nonnull(view);
    for (int i = 0; i < 400; i++) {
        const bool is_b = i % 2;
        snprintf(id, sizeof id, "%d", i);
        decide(&l, id, is_b ? "b" : "a");
        measure(&l, id, (struct kb_ev_metric){.name = "loyal", .value = is_b ? 0 : 1});
        expire(&l, id);
    }
    ld_experiment_look(&l.book, view);
    const struct ld_experiment_difference *d = &view->metric[0].difference[1];
    double low, high;
    ck_assert_int_eq(d->verdict, KB_WORSE);
    ck_assert_uint_gt(d->stop.n, 10);
    ck_assert_uint_lt(d->stop.n, 400);
    ck_assert_double_lt(d->stop.high, -0.25);
    kb_pair_interval(pair_of(&l, 0), 0.5, log(1 / 0.1), &low, &high); /* one treatment, each end at the level */
    ck_assert(d->low == low && d->high == high);
    ck_assert_int_eq(view->metric[1].difference[1].verdict, KB_GO_ON); /* never told: the same for both */
    ck_assert_uint_eq(view->n_tests, 2);
    ck_assert_uint_eq(view->n_changes, 0);
    free(view);
    close_log(&l);
}
END_TEST

/* Users by turns, each twice, of whom every fourth is of the holdout, which is disloyal; arms by turns as well. */
static void play_holdout(struct log *l, int n_users, struct kb_pair *loyal)
{
    char id[32], user[32];

    for (int i = 0; i < 2 * n_users; i++) {
        const bool is_holdout = i / 2 % 4 == 0;
        snprintf(id, sizeof id, "%d", i);
        snprintf(user, sizeof user, "u%d", i / 2);
        decide_for(l, id, user, i / 8 % 2 ? "b" : "a", is_holdout ? KB_ROUTE_HOLDOUT : KB_ROUTE_POLICY);
        measure(l, id, (struct kb_ev_metric){.name = "loyal", .value = is_holdout ? 0 : 1});
        expire(l, id);
        if (i % 2 == 0)
            kb_pair_add(loyal, 0.25, 0.75, !is_holdout, is_holdout ? 0 : 1, 0.75);
    }
}

static void begin_with_holdout(struct log *l)
{
    begin(l);
    l->settings.spec.routing.holdout = 0.25;
    configure(l);
}

START_TEST(the_policy_is_compared_with_the_holdout_by_the_first_decision_of_each_user)
{
    struct ld_experiment_view *view = malloc(sizeof *view);
    struct kb_pair want = {.n = 0};
    struct log l;
    double low, high;
    begin_with_holdout(&l);
    ck_assert_ptr_nonnull(view);
    play_holdout(&l, 300, &want);
    ck_assert_mem_eq(&l.book.metric[0].policy.pair, &want, sizeof want);
    ld_experiment_look(&l.book, view);
    const struct ld_experiment_difference *d = &view->metric[0].policy;
    kb_pair_interval(&want, 0.75, log(2 / 0.1), &low, &high); /* one treatment and the policy share each end's level */
    ck_assert(d->low == low && d->high == high);
    ck_assert_int_eq(d->verdict, KB_NO_DIFFERENCE); /* it holds: the policy is better */
    ck_assert_uint_lt(d->stop.n, 300);
    ck_assert(isnan(d->lift)); /* of a holdout whose mean is 0 */
    ck_assert_uint_eq(view->n_tests, 4);
    free(view);
    close_log(&l);
}
END_TEST

static void save(const struct ld_experiment *book, struct kb_writer *w)
{
    kb_writer_init(w);
    ld_experiment_book.save(book, w);
    ck_assert_int_eq(w->rc, KB_OK);
}

/* Saved while some decisions wait, read, and both books fed the rest: the same bytes, also of a book that had none. */
START_TEST(a_book_with_metrics_is_the_same_after_it_was_saved)
{
    struct ld_experiment again = {.n_arms = 0};
    struct kb_writer a, b;
    struct kb_reader r;
    struct log l;
    begin(&l);
    for (int n_waiting = 0; n_waiting < 3; n_waiting++) {
        decide(&l, n_waiting == 0 ? "1" : n_waiting == 1 ? "2" : "3", n_waiting % 2 ? "b" : "a");
        measure(&l, n_waiting == 0 ? "1" : "2", (struct kb_ev_metric){.name = "paid", .value = 3});
        if (n_waiting == 0)
            expire(&l, "1");
        save(&l.book, &a);
        kb_reader_init(&r, a.data, a.n);
        memset(&again, 0, sizeof again);
        ck_assert_int_eq(ld_experiment_book.load(&again, &r), KB_OK);
        ck_assert(r.rc == KB_OK && r.pos == r.n);
        save(&again, &b);
        ck_assert_uint_eq(a.n, b.n);
        ck_assert_mem_eq(a.data, b.data, a.n);
        kb_writer_close(&a);
        kb_writer_close(&b);
        struct ld_experiment live = l.book;
        l.book = again;
        const uint64_t seq = l.seq;
        expire(&l, "2");
        again = l.book;
        l.book = live;
        l.seq = seq;
        expire(&l, "2");
        save(&l.book, &a);
        save(&again, &b);
        ck_assert_uint_eq(a.n, b.n);
        ck_assert_mem_eq(a.data, b.data, a.n);
        kb_writer_close(&a);
        kb_writer_close(&b);
        ld_experiment_book.close(&again);
    }
    close_log(&l);
}
END_TEST

static const size_t comparison_bytes = 18 * 8; /* the words of each, with the lengths of two arrays */

static void load(struct ld_experiment *book, const struct kb_writer *w, size_t n)
{
    struct kb_reader r;

    memset(book, 0, sizeof *book);
    kb_reader_init(&r, w->data, n);
    ck_assert_int_eq(ld_experiment_book.load(book, &r), KB_OK);
    ck_assert(r.rc == KB_OK && r.pos == r.n);
}

/* A book of before there were any has promised all of a metric's level to the arms: it goes on as it was, also through
 * its file, until its sums begin anew. */
START_TEST(a_body_without_comparisons_of_the_policy_has_none_until_the_sums_begin_anew)
{
    struct ld_experiment_view *view = malloc(sizeof *view);
    struct kb_pair none = {.n = 0};
    struct kb_writer w;
    struct log l;
    double low, high;
    begin_with_holdout(&l);
    ck_assert_ptr_nonnull(view);
    play_holdout(&l, 10, &none);
    for (int times = 0; times < 2; times++) {
        save(&l.book, &w);
        close_log(&l);
        load(&l.book, &w, w.n - (times == 0 ? 3 * comparison_bytes : 0));
        kb_writer_close(&w);
        decide_for(&l, times == 0 ? "x" : "y", times == 0 ? "new" : "newer", "b", KB_ROUTE_POLICY);
        expire(&l, times == 0 ? "x" : "y");
    }
    ld_experiment_look(&l.book, view);
    ck_assert(view->has_holdout && !view->has_metric_policies);
    ck_assert_uint_eq(view->n_tests, 2);
    for (size_t m = 0; m < 3; m++)
        ck_assert_uint_eq(l.book.metric[m].policy.pair.n, 0);
    kb_pair_interval(pair_of(&l, 0), 0.5, log(1 / 0.1), &low, &high); /* one treatment alone */
    ck_assert(view->metric[0].difference[1].low == low && view->metric[0].difference[1].high == high);
    l.settings.metric[0].harm = 0.2;
    configure(&l);
    decide_for(&l, "z", "u", "b", KB_ROUTE_POLICY);
    expire(&l, "z");
    ld_experiment_look(&l.book, view);
    ck_assert(view->has_metric_policies);
    ck_assert_uint_eq(view->metric[0].policy.n, 1);
    ck_assert_uint_eq(view->n_tests, 4);
    free(view);
    close_log(&l);
}
END_TEST

/* Every prefix and every changed byte is refused or read, and never more than read. */
START_TEST(a_damaged_body_does_no_harm)
{
    struct kb_writer w;
    struct log l;
    begin(&l);
    decide(&l, "1", "b");
    measure(&l, "1", (struct kb_ev_metric){.name = "paid", .value = 3});
    save(&l.book, &w);
    for (size_t i = 0; i < w.n; i++)
        for (int kind = 0; kind < 2; kind++) {
            struct ld_experiment again = {.n_arms = 0};
            struct kb_reader r;
            const unsigned char kept = w.data[i];
            w.data[i] = kind == 1 ? kept ^ 0x81 : kept;
            kb_reader_init(&r, w.data, kind == 0 ? i : w.n);
            (void)ld_experiment_book.load(&again, &r);
            ld_experiment_book.close(&again);
            w.data[i] = kept;
        }
    kb_writer_close(&w);
    close_log(&l);
}
END_TEST

START_TEST(other_metrics_begin_the_sums_anew_and_another_order_does_not)
{
    struct log l;
    begin(&l);
    decide(&l, "1", "b");
    expire(&l, "1");
    const struct ld_metric_settings first = l.settings.metric[0];
    l.settings.metric[0] = l.settings.metric[1];
    l.settings.metric[1] = first;
    configure(&l);
    ck_assert_uint_eq(l.book.n_counted, 1);
    l.settings.metric[0].high = 31;
    configure(&l);
    ck_assert_uint_eq(l.book.n_counted, 0);
    ck_assert_uint_eq(l.book.n_metrics, 3);
    l.settings.n_metrics = 0;
    l.settings.spec.has_metrics = false;
    configure(&l);
    ck_assert_uint_eq(l.book.n_metrics, 0);
    close_log(&l);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("experiment_metric", 0, {a_decision_counts_for_all_metrics_when_its_window_closes, 1},
                         {what_came_late_or_of_another_slot_does_not_count, 1},
                         {a_metric_of_a_weighted_sum_counts_whole_and_by_itself, 1},
                         {a_guardrail_says_once_that_it_is_harmed_or_holds, 1},
                         {the_policy_is_compared_with_the_holdout_by_the_first_decision_of_each_user, 1},
                         {a_body_without_comparisons_of_the_policy_has_none_until_the_sums_begin_anew, 1},
                         {a_book_with_metrics_is_the_same_after_it_was_saved, 1}, {a_damaged_body_does_no_harm, 1},
                         {other_metrics_begin_the_sums_anew_and_another_order_does_not, 1});
}
