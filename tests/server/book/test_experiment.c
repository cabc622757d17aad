/* The book of an experiment: what is counted, in which order, and that it is the same after it was saved. The sums are
 * compared with those of core/inference, which has its own oracles, fed by a list that the test keeps. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/rng.h"
#include "book/experiment_impl.h"
#include "kbt.h"
#include "spec/event.h"

#define MINUTE 60000

/* A book, and the log that it is fed. */
struct log {
    struct ld_experiment book;
    uint64_t seq;
    int64_t at_ms;
    struct ld_settings settings;
};

static void feed(struct log *l, struct kb_event *ev)
{
    ev->seq = ++l->seq;
    ev->at_ms = l->at_ms;
    ck_assert_int_eq(ld_experiment_book.take(&l->book, ev), KB_OK);
}

static void configure(struct log *l)
{
    struct kb_event ev = {.type = KB_EV_CONFIGURED};

    ev.as.configured.spec = &l->settings.spec;
    feed(l, &ev);
}

static void put_arms(struct log *l, bool is_replace, size_t n)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    struct kb_ev_arm arms[4];
    struct kb_event ev = {.type = KB_EV_ARMS};

    for (size_t i = 0; i < n; i++)
        arms[i] = (struct kb_ev_arm){.id = names[i], .is_active = true};
    ev.as.arms.is_replace = is_replace;
    ev.as.arms.put = arms;
    ev.as.arms.n_put = n;
    feed(l, &ev);
}

/* Two arms, uniform, an experiment that has begun. */
static void begin(struct log *l)
{
    memset(l, 0, sizeof *l);
    l->at_ms = 1000;
    ld_settings_init(&l->settings);
    kb_spec_preset(&l->settings.spec, "random", 0, 0);
    l->settings.experiment = (struct ld_experiment_settings){
        .is_on = true, .difference = 0.1, .level = 0.05, .traffic_level = 0.01, .low = 0, .high = 1};
    configure(l);
    put_arms(l, true, 2);
}

struct shown {
    const char *id, *user, *arm;
    double p[2]; /* of a and b */
    enum kb_route route;
    bool is_deferred;
};

static void decide(struct log *l, struct shown s)
{
    const struct kb_ev_slot slot = {s.arm, NULL};
    const struct kb_ev_odds odds[] = {{"a", s.p[0]}, {"b", s.p[1]}};
    struct kb_event ev = {.type = KB_EV_DECIDED};

    ev.as.decided.decision = s.id;
    ev.as.decided.user = s.user != NULL ? s.user : "u";
    ev.as.decided.slots = &slot;
    ev.as.decided.n_slots = 1;
    ev.as.decided.route = s.route;
    ev.as.decided.is_deferred = s.is_deferred;
    ev.as.decided.expires_at_ms = l->at_ms + MINUTE;
    ev.as.decided.odds = s.p[0] > 0 ? odds : odds + 1;
    ev.as.decided.n_odds = (size_t)(s.p[0] > 0) + (s.p[1] > 0);
    feed(l, &ev);
}

static void reward(struct log *l, const char *id, double r)
{
    struct kb_event ev = {.type = KB_EV_REWARDED};

    ev.as.rewarded.decision = id;
    ev.as.rewarded.reward = r;
    feed(l, &ev);
}

static void expire(struct log *l, const char *id)
{
    struct kb_event ev = {.type = KB_EV_EXPIRED};

    ev.as.expired.decision = id;
    feed(l, &ev);
}

static void close_log(struct log *l)
{
    ld_experiment_book.close(&l->book);
}

static const struct kb_pair *pair_of(const struct log *l)
{
    return &l->book.sums[1].against.pair;
}

/* Saved, read into another book and saved again: the same bytes, but for the order of users. */
static void assert_saved(const struct log *l, struct ld_experiment *again)
{
    struct kb_writer a, b;
    struct kb_reader r;

    kb_writer_init(&a);
    kb_writer_init(&b);
    ld_experiment_book.save(&l->book, &a);
    kb_reader_init(&r, a.data, a.n);
    memset(again, 0, sizeof *again);
    ck_assert_int_eq(ld_experiment_book.load(again, &r), KB_OK);
    ck_assert(r.rc == KB_OK && r.pos == r.n);
    ld_experiment_book.save(again, &b);
    ck_assert_uint_eq(a.n, b.n);
    ck_assert_mem_eq(a.data, b.data, a.n - l->book.users.n * sizeof(uint64_t));
    kb_writer_close(&a);
    kb_writer_close(&b);
}

/* ---- the watermark ----------------------------------------------------------------------------------------- */

START_TEST(a_decision_is_counted_when_its_reward_and_all_before_it_are_final)
{
    struct kb_pair want = {.n = 0};
    struct log l;
    begin(&l);
    decide(&l, (struct shown){.id = "1", .arm = "a", .p = {0.25, 0.75}});
    decide(&l, (struct shown){.id = "2", .arm = "b", .p = {0.5, 0.5}});
    decide(&l, (struct shown){.id = "3", .arm = "b", .p = {0.5, 0.5}});
    l.book.sums[1].against.reach = 1; /* odds that the rule does not promise */
    reward(&l, "2", 1);
    ck_assert_uint_eq(pair_of(&l)->n, 0);
    expire(&l, "1");
    ck_assert_uint_eq(pair_of(&l)->n, 2);
    reward(&l, "3", 0.5);
    kb_pair_add(&want, 0.25, 0.75, false, 0, 1);
    kb_pair_add(&want, 0.5, 0.5, true, 1, 1);
    kb_pair_add(&want, 0.5, 0.5, true, 0.5, 1);
    ck_assert_mem_eq(pair_of(&l), &want, sizeof want);
    ck_assert_uint_eq(l.book.sums[0].shown[LD_SIDE_POLICY].n, 1);
    ck_assert_uint_eq(l.book.sums[1].shown[LD_SIDE_POLICY].n, 2);
    ck_assert(l.book.sums[1].shown[LD_SIDE_POLICY].reward == 1.5);
    close_log(&l);
}
END_TEST

START_TEST(what_is_told_last_or_summed_up_counts_when_the_window_closes)
{
    for (int is_sum = 0; is_sum < 2; is_sum++) {
        struct log l;
        begin(&l);
        l.settings.spec.aggregation = is_sum ? KB_AGG_SUM : KB_AGG_LAST;
        configure(&l);
        decide(&l, (struct shown){.id = "1", .arm = "b", .p = {0.5, 0.5}});
        reward(&l, "1", 0.25);
        reward(&l, "1", 0.5);
        ck_assert_uint_eq(pair_of(&l)->n, 0);
        expire(&l, "1");
        ck_assert_uint_eq(pair_of(&l)->n, 1);
        ck_assert(pair_of(&l)->reward == (is_sum ? 0.75 : 0.5));
        close_log(&l);
    }
}
END_TEST

/* Its user was erased: the line that would close it never comes. */
START_TEST(a_decision_that_nobody_closes_counts_an_hour_behind_its_window)
{
    struct log l;
    begin(&l);
    decide(&l, (struct shown){.id = "1", .arm = "a", .p = {0.5, 0.5}});
    decide(&l, (struct shown){.id = "2", .arm = "b", .p = {0.5, 0.5}});
    l.at_ms += 61 * MINUTE;
    reward(&l, "2", 1);
    ck_assert_uint_eq(pair_of(&l)->n, 0);
    l.at_ms += 1;
    configure(&l);
    ck_assert_uint_eq(pair_of(&l)->n, 2);
    close_log(&l);
}
END_TEST

/* ---- what counts ------------------------------------------------------------------------------------------- */

START_TEST(arms_that_stuck_and_what_was_not_shown_do_not_count)
{
    struct log l;
    begin(&l);
    decide(&l, (struct shown){.id = "1", .arm = "a", .route = KB_ROUTE_STICKY});
    decide(&l, (struct shown){.id = "2", .arm = "a", .route = KB_ROUTE_STOPPED});
    decide(&l, (struct shown){.id = "3", .arm = "a", .p = {0.5, 0.5}, .is_deferred = true});
    decide(&l, (struct shown){.id = "4", .arm = "b", .p = {0.5, 0.5}, .is_deferred = true});
    struct kb_event ev = {.type = KB_EV_ACTIVATED};
    ev.as.activated.decision = "4";
    feed(&l, &ev);
    reward(&l, "4", 1);
    ck_assert_uint_eq(l.book.n_counted, 0);
    expire(&l, "3");
    ck_assert_uint_eq(l.book.n_counted, 1);
    ck_assert(l.book.traffic[1].deviation == 0.5 && l.book.traffic[0].deviation == -0.5);
    close_log(&l);
}
END_TEST

/* The share is the propensity of the side, and a user has one draw. */
START_TEST(a_holdout_counts_the_first_decision_of_each_user)
{
    struct kb_pair want = {.n = 0};
    struct log l;
    begin(&l);
    l.settings.spec.routing.holdout = 0.25;
    configure(&l);
    decide(&l, (struct shown){.id = "1", .user = "u", .arm = "a", .p = {0.5, 0.5}});
    decide(&l, (struct shown){.id = "2", .user = "u", .arm = "b", .p = {0.5, 0.5}});
    decide(&l, (struct shown){.id = "3", .user = "v", .arm = "a", .p = {1, 0}, .route = KB_ROUTE_HOLDOUT});
    reward(&l, "1", 1);
    reward(&l, "2", 0);
    reward(&l, "3", 0.5);
    kb_pair_add(&want, 0.25, 0.75, true, 1, 0.75);
    kb_pair_add(&want, 0.25, 0.75, false, 0.5, 0.75);
    ck_assert_mem_eq(&l.book.policy.pair, &want, sizeof want);
    ck_assert_uint_eq(pair_of(&l)->n, 2);
    ck_assert_uint_eq(l.book.sums[0].shown[LD_SIDE_HOLDOUT].n, 1);
    ck_assert(l.book.traffic[2].deviation == 1 - 2 * 0.25 && l.book.traffic[2].variance == 2 * 0.25 * 0.75);
    close_log(&l);
}
END_TEST

START_TEST(rewards_beyond_the_range_are_clipped_and_counted)
{
    struct log l;
    begin(&l);
    l.settings.experiment.low = -1;
    l.settings.experiment.high = 3;
    configure(&l);
    const double told[] = {-2, 0, 5}, scaled[] = {0, 0.25, 1};
    double sum = 0;
    for (size_t i = 0; i < 3; i++) {
        decide(&l, (struct shown){.id = (const char *[]){"1", "2", "3"}[i], .arm = "b", .p = {0.5, 0.5}});
        reward(&l, (const char *[]){"1", "2", "3"}[i], told[i]);
        sum += scaled[i];
    }
    ck_assert(pair_of(&l)->reward == sum);
    ck_assert_uint_eq(l.book.n_clipped, 2);
    close_log(&l);
}
END_TEST

/* ---- beginning ----------------------------------------------------------------------------------------------- */

START_TEST(another_experiment_or_another_set_of_arms_starts_the_sums_anew)
{
    struct log l;
    begin(&l);
    const uint64_t since = l.seq;
    ck_assert(l.book.state == LD_EXPERIMENT_RUNS && l.book.since_seq == since);
    decide(&l, (struct shown){.id = "1", .arm = "b", .p = {0.5, 0.5}});
    reward(&l, "1", 1);
    l.settings.spec.reward_window_ms = 5;
    configure(&l);
    put_arms(&l, false, 2); /* the same */
    ck_assert(l.book.since_seq == since && pair_of(&l)->n == 1);
    put_arms(&l, false, 3);
    ck_assert(l.book.since_seq == l.seq && pair_of(&l)->n == 0 && l.book.n_arms == 3);
    l.settings.experiment.difference = 0.2;
    configure(&l);
    ck_assert(l.book.since_seq == l.seq);
    l.settings.spec.rule.type = KB_RULE_THOMPSON; /* may show an arm as rarely as it likes */
    configure(&l);
    ck_assert(l.book.since_seq == l.seq && l.book.sums[1].against.reach == 1);
    l.settings.spec.rule.type = KB_RULE_UNIFORM;
    configure(&l);
    ck_assert(l.book.since_seq == l.seq - 1);
    strcpy(l.settings.experiment.baseline, "d");
    configure(&l);
    ck_assert_int_eq(l.book.state, LD_EXPERIMENT_NO_BASELINE);
    put_arms(&l, true, 1);
    ck_assert_int_eq(l.book.state, LD_EXPERIMENT_FEW_ARMS);
    l.settings.experiment.is_on = false;
    configure(&l);
    ck_assert_int_eq(l.book.state, LD_EXPERIMENT_OFF);
    close_log(&l);
}
END_TEST

/* ---- many decisions ---------------------------------------------------------------------------------------- */

/* n decisions of an even split of which `share` shows b, rewarded in another order. */
static void play(struct log *l, size_t n, double share, double rate_a, double rate_b, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        const bool is_b = kb_rng_uniform(key, KB_STREAM_SIMULATION, 2 * i) < share;
        const double r = kb_rng_uniform(key, KB_STREAM_SIMULATION, 2 * i + 1) < (is_b ? rate_b : rate_a);
        char id[24];

        snprintf(id, sizeof id, "k%llu-%zu", (unsigned long long)key, i);
        decide(l, (struct shown){.id = id, .arm = is_b ? "b" : "a", .p = {0.5, 0.5}});
        if (i % 2 == 1) /* in the other order */
            reward(l, id, r);
        if (i % 2 == 1 || i + 1 == n) {
            const size_t k = i % 2 == 1 ? i - 1 : i;
            const bool was_b = kb_rng_uniform(key, KB_STREAM_SIMULATION, 2 * k) < share;

            snprintf(id, sizeof id, "k%llu-%zu", (unsigned long long)key, k);
            reward(l, id, kb_rng_uniform(key, KB_STREAM_SIMULATION, 2 * k + 1) < (was_b ? rate_b : rate_a));
        }
    }
}

START_TEST(a_difference_is_found_and_its_first_stop_stays)
{
    struct ld_experiment_view *v = calloc(1, sizeof *v);
    struct log l;
    begin(&l);
    play(&l, 4000, 0.5, 0.2, 0.9, 7);
    ld_experiment_look(&l.book, v);
    const struct ld_experiment_difference *d = &v->difference[1];
    ck_assert_int_eq(d->verdict, KB_BETTER);
    ck_assert(d->stop.verdict == KB_BETTER && d->stop.n < d->n && d->stop.low > 0 && d->stop.seq < l.seq);
    ck_assert(d->low > d->stop.low && d->log10_e > 2 && v->arm[1].p_best > 0.99 && v->arm[0].loss > 0.1);
    ck_assert(!v->is_void && v->traffic_log10_e < 2 && v->n_waiting == 0 && v->n_counted == 4000);
    const struct ld_experiment_stop stop = d->stop;
    play(&l, 1, 0.5, 0, 0, 9);
    ld_experiment_look(&l.book, v);
    ck_assert_mem_eq(&v->difference[1].stop, &stop, sizeof stop);
    free(v);
    close_log(&l);
}
END_TEST

START_TEST(traffic_that_does_not_match_voids_the_verdict_for_good)
{
    struct ld_experiment_view *v = calloc(1, sizeof *v);
    struct log l;
    begin(&l);
    play(&l, 4000, 0.6, 0.2, 0.9, 7);
    ld_experiment_look(&l.book, v);
    ck_assert(v->is_void && v->void_seq > 0 && ld_experiment_is_void(&l.book));
    ck_assert_int_eq(v->difference[1].verdict, KB_VOID);
    free(v);
    close_log(&l);
}
END_TEST

/* ---- the file ------------------------------------------------------------------------------------------------ */

/* With decisions that wait, and users. */
static void fill(struct log *l)
{
    begin(l);
    l->settings.spec.routing.holdout = 0.25;
    configure(l);
    for (size_t i = 0; i < 300; i++) {
        char id[24], user[24];

        snprintf(id, sizeof id, "d%zu", i);
        snprintf(user, sizeof user, "u%zu", i / 2);
        decide(l, (struct shown){.id = id, .user = user, .arm = i % 3 == 0 ? "b" : "a", .p = {0.5, 0.5}});
        if (i < 100 || i % 7 != 0)
            reward(l, id, (double)(i % 2));
    }
}

START_TEST(a_saved_book_goes_on_as_the_one_that_was_not)
{
    struct log l, again;
    fill(&l);
    ck_assert(ld_waiting_head(&l.book.waiting) != NULL && l.book.users.n > 0);
    again = l;
    assert_saved(&l, &again.book);
    for (size_t i = 100; i < 300; i++) {
        char id[24];

        snprintf(id, sizeof id, "d%zu", i);
        if (i % 7 == 0) {
            expire(&l, id);
            expire(&again, id);
        }
    }
    ck_assert(ld_waiting_head(&l.book.waiting) == NULL && ld_waiting_head(&again.book.waiting) == NULL);
    ck_assert_mem_eq(l.book.sums, again.book.sums, sizeof l.book.sums);
    ck_assert_mem_eq(l.book.traffic, again.book.traffic, sizeof l.book.traffic);
    ck_assert_mem_eq(&l.book.policy, &again.book.policy, sizeof l.book.policy);
    ck_assert_uint_eq(l.book.n_counted, 300);
    close_log(&l);
    close_log(&again);
}
END_TEST

/* Whatever a byte becomes, the book is refused or one that can be used; cut short, it is refused. */
START_TEST(a_damaged_book_is_refused_or_harmless)
{
    struct ld_experiment_view *v = calloc(1, sizeof *v);
    struct kb_writer w;
    struct log l;
    fill(&l);
    kb_writer_init(&w);
    ld_experiment_book.save(&l.book, &w);
    for (size_t i = 0; i < w.n; i += i < 3000 ? 1 : 41) {
        struct ld_experiment again = {.n_arms = 0};
        struct kb_reader r;

        kb_reader_init(&r, w.data, i);
        ck_assert(ld_experiment_book.load(&again, &r) != KB_OK || r.rc != KB_OK);
        ld_experiment_book.close(&again);
        w.data[i] ^= 0xff;
        kb_reader_init(&r, w.data, w.n);
        if (ld_experiment_book.load(&again, &r) == KB_OK)
            ld_experiment_look(&again, v);
        ld_experiment_book.close(&again);
        w.data[i] ^= 0xff;
    }
    kb_writer_close(&w);
    free(v);
    close_log(&l);
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------------------------- */

/* Each event is taken at last, and the book is the one that had memory all along. */
START_TEST(without_memory_an_event_is_taken_later)
{
    static struct log with, without;
    fill(&with);
    memset(&without, 0, sizeof without);
    for (size_t fail_at = 1; fail_at < 4; fail_at++) {
        struct kb_event ev = {.type = KB_EV_CONFIGURED, .seq = 1};

        ev.as.configured.spec = &with.settings.spec;
        kbt_alloc_watch(fail_at);
        struct kb_ev_arm arms[] = {{.id = "a"}, {.id = "b"}};
        enum kb_err rc = ld_experiment_book.take(&without.book, &ev);
        ck_assert_int_eq(rc, KB_OK); /* no arms yet */
        ev = (struct kb_event){.type = KB_EV_ARMS, .seq = 2};
        ev.as.arms.put = arms;
        ev.as.arms.n_put = 2;
        rc = ld_experiment_book.take(&without.book, &ev);
        ck_assert_int_eq(rc, KB_ENOMEM);
        ck_assert(without.book.state != LD_EXPERIMENT_RUNS);
        kbt_alloc_unwatch();
        ck_assert_int_eq(ld_experiment_book.take(&without.book, &ev), KB_OK);
        ck_assert(without.book.state == LD_EXPERIMENT_RUNS && without.book.n_arms == 2);
        ld_experiment_book.close(&without.book);
    }
    close_log(&with);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "experiment", 0, {a_decision_is_counted_when_its_reward_and_all_before_it_are_final, 1},
        {what_is_told_last_or_summed_up_counts_when_the_window_closes, 1},
        {a_decision_that_nobody_closes_counts_an_hour_behind_its_window, 1},
        {arms_that_stuck_and_what_was_not_shown_do_not_count, 1}, {a_holdout_counts_the_first_decision_of_each_user, 1},
        {rewards_beyond_the_range_are_clipped_and_counted, 1},
        {another_experiment_or_another_set_of_arms_starts_the_sums_anew, 1},
        {a_difference_is_found_and_its_first_stop_stays, 1},
        {traffic_that_does_not_match_voids_the_verdict_for_good, 1}, {a_saved_book_goes_on_as_the_one_that_was_not, 1},
        {a_damaged_book_is_refused_or_harmless, 1}, {without_memory_an_event_is_taken_later, 1});
}
