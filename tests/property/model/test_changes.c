/* Changes of what arms earn (engine_changes.c): that one is noticed and its event forgets, that hardly any is where
 * nothing changes, and that surprise is state like any other. Oracles: the definition of surprise over what decisions
 * are told, a model built anew from the history, folds and snapshots. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kbt.h"
#include "kbt_log.h"
#include "model/engine_state.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define N_USERS 5u
#define N_ARMS 3u
#define DIM 2u
#define BOUND 5000.0 /* of surprise, and rewards between false alarms */

/* The rows that find their own scales, in the forms that differ. */
static const struct subject {
    const char *preset;
    uint32_t context_dim, arm_dim;
    enum kb_forgetting_type type;
} subjects[] = {{"laplaced", 0, 0, KB_FORGET_DISCOUNT},  {"laplaced", DIM, 0, KB_FORGET_DISCOUNT},
                {"laplaced", 0, 0, KB_FORGET_HALF_LIFE}, {"laplaced", 0, DIM, KB_FORGET_DISCOUNT},
                {"ts", 0, 0, KB_FORGET_DISCOUNT},        {"ucb", 0, 0, KB_FORGET_DISCOUNT}};
#define N_SUBJECTS (int)(sizeof subjects / sizeof *subjects)

static double uniform(uint64_t i)
{
    return kb_rng_uniform(77, KB_STREAM_SIMULATION, i);
}

static double normal(uint64_t i)
{
    return kb_rng_normal(78, KB_STREAM_SIMULATION, i);
}

static struct kb_spec spec_of(const struct subject *s)
{
    struct kb_spec spec;

    ck_assert_int_eq(kb_spec_preset(&spec, s->preset, s->context_dim, s->arm_dim), KB_OK);
    ck_assert(spec.forgetting.detects_changes);
    spec.forgetting.type = s->type;
    spec.forgetting.half_life_s = 1;
    return spec;
}

static void live(struct kbt_log *log, struct kb_event ev)
{
    struct kb_errmsg msg = {.text = ""};

    ck_assert_msg(kbt_log_live(log, ev, &msg) == KB_OK, "%s %s", msg.pointer, msg.text);
}

static const char *const arm_names[N_ARMS] = {"a0", "a1", "a2"};
static const double places[N_ARMS][DIM] = {{0, 0}, {1, 0}, {0, 1}};

static void open_log(struct kbt_log *log, const struct kb_spec *spec)
{
    struct kb_ev_arm arms[N_ARMS];

    kbt_log_open(log);
    live(log, kbt_configured(spec, 1));
    for (size_t a = 0; a < N_ARMS; a++)
        arms[a] =
            (struct kb_ev_arm){.id = arm_names[a], .is_active = true, .features = spec->arm_dim > 0 ? places[a] : NULL};
    live(log, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = N_ARMS}});
}

/* The i-th reward, of one of the arms. */
static void teach(struct kbt_log *log, size_t i, size_t arm, double reward)
{
    const double x[DIM] = {normal(2 * i), normal(2 * i + 1)};
    char user[8];

    snprintf(user, sizeof user, "u%zu", i % N_USERS);
    log->now_ms++;
    live(log, (struct kb_event){.type = KB_EV_OBSERVED,
                                .as.observed = {.user = user,
                                                .context = kb_engine_spec(log->live)->context_dim > 0 ? x : NULL,
                                                .arm = {arm_names[arm], places[arm]},
                                                .reward = reward,
                                                .propensity = 0.4}});
    kbt_log_finish_builds(log);
}

static double click(size_t i, double rate)
{
    return uniform(i) < rate;
}

static size_t count_changes(const struct kbt_log *log)
{
    size_t n = 0;

    for (size_t i = 0; i < log->n; i++)
        n += log->event[i].type == KB_EV_CHANGED;
    return n;
}

/* n rewards of all arms in turn, of rates .7, .4 and .2 or of those. */
static void teach_rates(struct kbt_log *log, size_t from, size_t n, const double *rate)
{
    for (size_t i = from; i < from + n; i++)
        teach(log, i, i % N_ARMS, click(i, rate[i % N_ARMS]));
}

static const double before[N_ARMS] = {.7, .4, .2}, after[N_ARMS] = {.1, .4, .2};

/* ---- noticing --------------------------------------------------------------------------------------------- */

static void expect_fold(const struct kbt_log *log, bool is_quiet)
{
    struct kb_engine *fold = kbt_log_fold(log, NULL, 0, is_quiet);

    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log->live));
    kb_engine_free(fold);
}

START_TEST(an_arm_that_earns_less_is_noticed_and_all_is_forgotten)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[_i]);
    size_t i = 600;

    open_log(&log, &spec);
    teach_rates(&log, 0, i, before);
    ck_assert_uint_eq(count_changes(&log), 0);
    double weight = 0, left = 0;
    for (size_t n = i + 300; i < n && count_changes(&log) == 0; i++) {
        left = weight = 0;
        for (size_t row = 0; row < log.live->history.n; row++)
            weight += kb_history_count(&log.live->history, row);
        teach_rates(&log, i, 1, after);
    }
    ck_assert_uint_eq(count_changes(&log), 1);
    const struct kb_event *ev = &log.event[log.n - 1];
    ck_assert(ev->type == KB_EV_OBSERVED && ev[-1].type == KB_EV_CHANGED); /* between two batches */
    ck_assert_str_eq(ev[-1].as.changed.arm, "a0");
    for (size_t row = 0; row < log.live->history.n; row++)
        left += kb_history_count(&log.live->history, row);
    ck_assert_double_le(left, 0.002 * weight + 1.2); /* one reward has come since */
    ck_assert_uint_eq(log.live->decay.n_changes, 1);
    ck_assert_uint_eq(log.live->decay.last_change, ev[-1].seq);
    expect_fold(&log, false);
    expect_fold(&log, true);
    kbt_log_close(&log);
}
END_TEST

/* What the change leaves is what a model built from the history has. */
START_TEST(what_is_left_is_a_model_of_the_weights)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[_i]);
    struct kb_event reset = {.type = KB_EV_NONE};
    struct kb_scratch s;
    struct kb_decision d;
    double mean[N_ARMS], sd[N_ARMS];
    const double x[DIM] = {0.3, -0.2};
    const struct kb_query q = {.user = "u1", .context = x, .key = 5};

    open_log(&log, &spec);
    teach_rates(&log, 0, 600, before);
    for (size_t i = 600; i < 900 && count_changes(&log) == 0; i++)
        teach_rates(&log, i, 1, after);
    kb_scratch_init(&s);
    ck_assert_int_eq(kb_engine_fit_scratch(log.live, &s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(log.live, &q, &s, &d, NULL), KB_OK);
    memcpy(mean, d.mean, sizeof mean);
    memcpy(sd, d.sd, sizeof sd);
    ck_assert_int_eq(kb_engine_rebuild(log.live, log.n + 1, &reset), KB_OK);
    live(&log, reset);
    kbt_log_finish_builds(&log);
    ck_assert_int_eq(kb_engine_fit_scratch(log.live, &s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(log.live, &q, &s, &d, NULL), KB_OK);
    /* A dictionary is chosen anew; elsewhere it is the same sums. */
    const double tolerance = subjects[_i].arm_dim > 0 ? 0.05 : 1e-9;
    ck_assert_double_le(kbt_distance(N_ARMS, mean, d.mean), tolerance);
    ck_assert_double_le(kbt_distance(N_ARMS, sd, d.sd), tolerance);
    kb_scratch_close(&s);
    kbt_log_close(&log);
}
END_TEST

/* Within its definition, with means and deviations that decisions are told; 300 rewards do not move the unit. */
START_TEST(surprise_is_what_its_definition_says)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(&subjects[_i]);
    struct kb_scratch s;
    struct kb_decision d;
    double want[N_ARMS] = {0};
    size_t n_tuned = 0;

    spec.forgetting.type = KB_FORGET_DISCOUNT;
    spec.forgetting.discount = 0.9999;
    spec.rule.type = KB_RULE_RAND_UCB; /* which is told of all arms */
    open_log(&log, &spec);
    kb_scratch_init(&s);
    for (size_t i = 0; i < 300; i++) {
        const double x[DIM] = {normal(2 * i), normal(2 * i + 1)}, reward = click(i, before[i % N_ARMS]);
        const struct kb_ev_slot slot = {arm_names[0], places[0]};
        char user[8], id[24];
        size_t n;

        snprintf(user, sizeof user, "u%zu", i % N_USERS);
        snprintf(id, sizeof id, "d%zu", i); /* what is due comes before it, and so not before the reward */
        live(&log, (struct kb_event){.type = KB_EV_DECIDED,
                                     .as.decided = {.decision = id,
                                                    .user = user,
                                                    .context = spec.context_dim > 0 ? x : NULL,
                                                    .slots = &slot,
                                                    .n_slots = 1,
                                                    .propensity = 0.4,
                                                    .expires_at_ms = INT64_MAX / 2}});
        kbt_log_finish_builds(&log);
        (void)kb_engine_tunings(log.live, &n);
        for (size_t a = 0; a < N_ARMS && n != n_tuned; a++)
            want[a] = 0;
        const bool was_tuned = n > 0;
        n_tuned = n;
        const struct kb_query q = {.user = user, .context = x, .key = i};
        ck_assert_int_eq(kb_engine_fit_scratch(log.live, &s, 0, 0), KB_OK);
        ck_assert_int_eq(kb_engine_decide(log.live, &q, &s, &d, NULL), KB_OK);
        const size_t a = i % N_ARMS;
        const double noise = kb_engine_spec(log.live)->repr.lambda;
        const double t = -0.4 * (reward - d.mean[a]) / sqrt(noise + d.sd[a] * d.sd[a]);
        want[a] = was_tuned ? (1 + want[a]) * (t > 0 ? 1 + t + t * t / 2 : exp(t)) / 1.08 : 0;
        teach(&log, i, a, reward);
        for (size_t k = 0; k < N_ARMS && was_tuned; k++)
            ck_assert_msg(kbt_close(log.live->surprise[k], want[k], 1e-6), "reward %zu, arm %zu: %g, not %g", i, k,
                          log.live->surprise[k], want[k]);
    }
    ck_assert_uint_gt(n_tuned, 5);
    kb_scratch_close(&s);
    kbt_log_close(&log);
}
END_TEST

/* Clicks of every rate, and what is skewed to either side. */
static double draw(int kind, size_t i, size_t arm)
{
    static const double rate[3] = {.02, .3, .9};

    if (kind < 3)
        return click(i, rate[kind] * (1 - .1 * (double)arm));
    return (kind == 3 ? -1 : 1) * log(1 - uniform(i)) + (double)arm;
}

START_TEST(hardly_any_alarm_is_false)
{
    const struct kb_spec spec = spec_of(&subjects[0]);
    const size_t n = 10000;
    size_t n_false = 0;

    for (size_t run = 0; run < 2; run++) {
        struct kbt_log log;

        open_log(&log, &spec);
        for (size_t i = 0; i < n; i++)
            teach(&log, run * n + i, i % N_ARMS, draw(_i, 50000000 + run * n + i, i % N_ARMS));
        n_false += count_changes(&log);
        expect_fold(&log, true);
        kbt_log_close(&log);
    }
    ck_assert_msg((double)n_false <= 2 * (double)n / BOUND + 2, "kind %d: %zu", _i, n_false);
}
END_TEST

/* ---- decisions ---------------------------------------------------------------------------------------------- */

static const char *name_of(size_t i)
{
    static char id[24];

    snprintf(id, sizeof id, "d%zu", i);
    return id;
}

static void decide(struct kbt_log *log, size_t i, size_t arm)
{
    const struct kb_ev_slot slot = {arm_names[arm], places[arm]};

    log->now_ms++;
    live(log, (struct kb_event){.type = KB_EV_DECIDED,
                                .as.decided = {.decision = name_of(i),
                                               .user = "u",
                                               .slots = &slot,
                                               .n_slots = 1,
                                               .propensity = 0.5,
                                               .expires_at_ms = INT64_MAX / 2}});
}

static void reward(struct kbt_log *log, size_t i, double value)
{
    live(log, kbt_rewarded(name_of(i), value));
    kbt_log_finish_builds(log);
}

/* Where each decision has one reward, and nothing is learned of it when its window closes. */
START_TEST(rewards_of_decisions_are_watched)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(&subjects[0]);

    spec.has_default_reward = false;
    open_log(&log, &spec);
    for (size_t i = 0; i < 900; i++) {
        decide(&log, i, i % N_ARMS);
        reward(&log, i, click(i, (i < 600 ? before : after)[i % N_ARMS]));
        ck_assert(i >= 600 || count_changes(&log) == 0);
    }
    ck_assert_uint_ge(count_changes(&log), 1);
    expect_fold(&log, false);
    kbt_log_close(&log);
}
END_TEST

/* The first part of a reward falls short of the whole, though nothing changes. */
START_TEST(rewards_in_parts_give_no_alarm)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(&subjects[0]);

    spec.has_default_reward = false;
    spec.aggregation = _i == 0 ? KB_AGG_SUM : KB_AGG_LAST;
    open_log(&log, &spec);
    for (size_t i = 0; i < 1000; i++) {
        decide(&log, i, i % 2);
        for (size_t k = 0; k < 3; k++)
            reward(&log, i, _i == 0 ? click(3 * i + k, .5) : (double)k + click(3 * i + k, .5));
    }
    ck_assert_uint_eq(count_changes(&log), 0);
    kbt_log_close(&log);
}
END_TEST

/* Rewards come at once, and zeros when windows close: first there are rewards alone, and at the end zeros alone. */
START_TEST(a_start_and_an_end_of_traffic_give_no_alarm)
{
    enum { N = 1200, WINDOW = 400 };
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[0]);

    ck_assert(spec.has_default_reward);
    open_log(&log, &spec);
    for (size_t i = 0; i < N + WINDOW; i++) {
        if (i < N)
            decide(&log, i, i % 2);
        if (i < N && click(i, .3))
            reward(&log, i, 1);
        if (i < WINDOW || click(i - WINDOW, .3))
            continue;
        live(&log, (struct kb_event){.type = KB_EV_EXPIRED,
                                     .as.expired = {.decision = name_of(i - WINDOW), .has_reward = true}});
        kbt_log_finish_builds(&log);
    }
    ck_assert_uint_eq(count_changes(&log), 0);
    for (size_t i = 0; i < 600; i++) /* observations are told when they are made */
        teach(&log, i, i % 2, i < 300 || i % 2 == 1);
    ck_assert_uint_ge(count_changes(&log), 1);
    expect_fold(&log, false);
    expect_fold(&log, true);
    kbt_log_close(&log);
}
END_TEST

/* ---- state ------------------------------------------------------------------------------------------------- */

/* From a snapshot in the middle of what surprises, over the change, a fold ends where the live model does. */
START_TEST(snapshots_know_surprise)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[_i]);
    struct kb_engine *saved[4] = {NULL};
    size_t at[4], i = 600;

    open_log(&log, &spec);
    teach_rates(&log, 0, i, before);
    for (size_t k = 0; k < 4; k++, i += 40) {
        saved[k] = kbt_log_reload(log.live);
        at[k] = log.n;
        ck_assert_uint_eq(kb_engine_digest(saved[k]), kb_engine_digest(log.live));
        teach_rates(&log, i, 40, after);
    }
    ck_assert_uint_ge(count_changes(&log), 1);
    for (size_t k = 0; k < 4; k++) {
        struct kb_engine *fold = kbt_log_fold(&log, saved[k], at[k], false);

        ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
        kb_engine_free(fold);
    }
    log.live->surprise[1] += 1e-9;
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_ne(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

/* Where the line may not be written, what else is due is told in its place. */
START_TEST(a_change_that_may_not_be_written_is_not_due)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[0]);
    struct kb_event next;

    open_log(&log, &spec);
    teach_rates(&log, 0, 600, before);
    for (size_t i = 600; i < 900 && !(log.live->surprise[0] >= BOUND); i++)
        teach_rates(&log, i, 1, after);
    ck_assert_int_eq(kb_engine_due(log.live, log.n + 1, false, &next), KB_OK);
    ck_assert_int_eq(next.type, KB_EV_NONE);
    ck_assert_int_eq(kb_engine_due(log.live, log.n + 1, true, &next), KB_OK);
    ck_assert_int_eq(next.type, KB_EV_CHANGED);
    kbt_log_close(&log);
}
END_TEST

/* An erasure folds the log quietly, without the user, who alone has had the arm of the alarm. */
START_TEST(a_log_without_the_user_of_the_alarm_folds)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[0]);
    struct kb_engine *fold = NULL;
    struct kb_errmsg msg = {.text = ""};

    open_log(&log, &spec);
    teach_rates(&log, 0, 300, before);
    for (size_t i = 0; i < 400 && count_changes(&log) == 0; i++)
        live(&log,
             (struct kb_event){
                 .type = KB_EV_OBSERVED,
                 .as.observed = {.user = "alone", .arm = {"elsewhere", NULL}, .reward = i < 200, .propensity = 1}});
    ck_assert_uint_eq(count_changes(&log), 1);
    ck_assert_int_eq(kb_engine_new(&fold, kbt_key), KB_OK);
    kb_engine_fold_quietly_until(fold, log.n + 1);
    for (size_t i = 0; i < log.n; i++) {
        struct kb_event ev = log.event[i];

        ck_assert(ev.type != KB_EV_CHANGED || strcmp(ev.as.changed.arm, "elsewhere") == 0);
        if (ev.type == KB_EV_OBSERVED && strcmp(ev.as.observed.user, "alone") == 0)
            ev = (struct kb_event){.type = KB_EV_REDACTED, .seq = ev.seq, .at_ms = ev.at_ms};
        ck_assert_msg(kb_engine_fold(fold, &ev, &msg) == KB_OK, "event %zu: %s %s", i + 1, msg.pointer, msg.text);
    }
    ck_assert_uint_eq(fold->decay.n_changes, 1);
    ck_assert_uint_eq(kb_ids_find(&fold->arm_ids, "elsewhere"), KB_ID_NONE);
    kb_engine_free(fold);
    kbt_log_close(&log);
}
END_TEST

/* Builds that take their time: the change waits for their end, and folds follow. */
START_TEST(a_change_waits_for_a_build)
{
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[1]);
    uint64_t begun = 0;

    kbt_delay = 7;
    open_log(&log, &spec);
    for (size_t i = 0; i < 1100; i++) {
        const double x[DIM] = {normal(2 * i), normal(2 * i + 1)};

        live(&log, (struct kb_event){.type = KB_EV_OBSERVED,
                                     .as.observed = {.user = "u",
                                                     .context = x,
                                                     .arm = {arm_names[i % N_ARMS], NULL},
                                                     .reward = click(i, (i < 690 ? before : after)[i % N_ARMS]),
                                                     .propensity = 0.4}});
        if (i % 20 == 0)
            kbt_log_finish_builds(&log);
    }
    kbt_log_finish_builds(&log);
    kbt_delay = 0;
    ck_assert_uint_ge(count_changes(&log), 1);
    for (size_t i = 0; i < log.n; i++) {
        const struct kb_event *ev = &log.event[i];

        ck_assert(ev->type != KB_EV_CHANGED || begun == 0);
        if (kb_event_is_dictionary(ev) && ev->as.dictionary.is_reset)
            begun = ev->as.dictionary.is_begun ? ev->seq : 0;
    }
    expect_fold(&log, false);
    expect_fold(&log, true);
    kbt_log_close(&log);
}
END_TEST

/* ---- where nothing is watched ---------------------------------------------------------------------------------- */

START_TEST(who_does_not_ask_for_it_has_none)
{
    struct kbt_log log;
    struct kb_spec spec = spec_of(&subjects[0]);

    if (_i == 0)
        spec.forgetting.type = KB_FORGET_NONE;
    else if (_i == 1)
        spec.forgetting.detects_changes = false;
    else
        spec.is_tuned = false;
    open_log(&log, &spec);
    teach_rates(&log, 0, 600, before);
    teach_rates(&log, 600, 400, after);
    ck_assert_uint_eq(count_changes(&log), 0);
    ck_assert(log.live->surprise == NULL && log.live->cap_surprise == 0);
    const double base = log.live->decay.base;
    live(&log, (struct kb_event){.type = KB_EV_CHANGED, .as.changed = {"a0", 0.5}}); /* it stands, whoever reads it */
    ck_assert_double_eq_tol(log.live->decay.base, _i == 0 ? base : base + 1, 1e-15);
    teach_rates(&log, 1000, 30, after);
    expect_fold(&log, false);
    expect_fold(&log, true);
    kbt_log_close(&log);
}
END_TEST

START_TEST(what_no_model_takes_is_refused)
{
    static const struct {
        const char *arm;
        double left;
        enum kb_err rc;
    } wrong[] = {{"a0", 0, KB_EINVAL},
                 {"a0", 1, KB_EINVAL},
                 {"a0", -1, KB_EINVAL},
                 {"a0", NAN, KB_EINVAL},
                 {"a0", 1e-13, KB_EINVAL}};
    struct kbt_log log;
    const struct kb_spec spec = spec_of(&subjects[0]);

    open_log(&log, &spec);
    teach_rates(&log, 0, 60, before);
    const uint64_t digest = kb_engine_digest(log.live);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct kb_event ev = {.type = KB_EV_CHANGED, .as.changed = {wrong[i].arm, wrong[i].left}};
        struct kb_errmsg msg = {.text = ""};

        ck_assert_int_eq(kbt_log_live(&log, ev, &msg), wrong[i].rc);
    }
    ck_assert_uint_eq(kb_engine_digest(log.live), digest);
    live(&log,
         (struct kb_event){.type = KB_EV_CHANGED, .as.changed = {"nobody", 0.5}}); /* nothing depends on the arm */
    ck_assert_double_eq_tol(log.live->decay.base, 1, 1e-15);
    live(&log, (struct kb_event){.type = KB_EV_FORGOTTEN}); /* and all of it, which begins anew */
    ck_assert_uint_eq(log.live->decay.n_changes, 0);
    expect_fold(&log, false);
    kbt_log_close(&log);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "changes", 0, {an_arm_that_earns_less_is_noticed_and_all_is_forgotten, N_SUBJECTS},
        {what_is_left_is_a_model_of_the_weights, N_SUBJECTS}, {surprise_is_what_its_definition_says, N_SUBJECTS},
        {hardly_any_alarm_is_false, 5}, {rewards_of_decisions_are_watched, 1}, {rewards_in_parts_give_no_alarm, 2},
        {a_start_and_an_end_of_traffic_give_no_alarm, 1}, {snapshots_know_surprise, N_SUBJECTS},
        {a_change_that_may_not_be_written_is_not_due, 1}, {a_log_without_the_user_of_the_alarm_folds, 1},
        {a_change_waits_for_a_build, 1}, {who_does_not_ask_for_it_has_none, 3}, {what_no_model_takes_is_refused, 1});
}
