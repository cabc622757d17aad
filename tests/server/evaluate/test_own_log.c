/* A tenant's events as decisions: which reward a decision has, and what becomes of all of it when memory is out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "evaluate/own_log.h"
#include "kbt.h"

/* --- memory that fails at the n-th request -------------------------------------------------------------- */

static size_t left, live;

static void *take(void *ptr, size_t bytes)
{
    if (left == 0)
        return NULL;
    left--;
    live += ptr == NULL ? 1 : 0;
    return realloc(ptr, bytes);
}

static void give(void *ptr)
{
    live--;
    free(ptr);
}

/* --- a log ------------------------------------------------------------------------------------------------ */

#define N_EVENTS 7

static struct kb_event events[N_EVENTS];

static void make_events(void)
{
    static const struct kb_ev_arm arms[] = {{.id = "a", .is_active = true}, {.id = "b", .is_active = true}};
    static const struct kb_ev_slot first = {"a", NULL}, second = {"b", NULL};
    static const struct kb_ev_slot among[] = {{"b", NULL}, {"c", NULL}};
    static struct kb_spec spec;

    spec.aggregation = KB_AGG_FIRST;
    events[0] = (struct kb_event){.type = KB_EV_CONFIGURED, .seq = 1, .as.configured.spec = &spec};
    events[1] =
        (struct kb_event){.type = KB_EV_ARMS, .seq = 2, .as.arms = {.is_replace = true, .put = arms, .n_put = 2}};
    events[2] = (struct kb_event){
        .type = KB_EV_DECIDED,
        .seq = 3,
        .as.decided = {.decision = "d1", .user = "u", .slots = &first, .n_slots = 1, .propensity = 0.5}};
    events[3] = (struct kb_event){.type = KB_EV_DECIDED,
                                  .seq = 4,
                                  .as.decided = {.decision = "d2",
                                                 .user = "v",
                                                 .slots = &second,
                                                 .n_slots = 1,
                                                 .propensity = 0.25,
                                                 .among = among,
                                                 .n_among = 2}};
    events[4] = (struct kb_event){.type = KB_EV_REWARDED, .seq = 5, .as.rewarded = {.decision = "d2", .reward = 3}};
    events[5] = (struct kb_event){.type = KB_EV_REWARDED, .seq = 6, .as.rewarded = {.decision = "d9", .reward = 1}};
    events[6] = (struct kb_event){
        .type = KB_EV_EXPIRED, .seq = 7, .as.expired = {.decision = "d1", .has_reward = true, .reward = -1}};
}

struct seen {
    size_t n;
    double reward[4];
    size_t n_candidates[4];
    char user[4];
};

/* The rest of the log, unless it breaks: 0, or what broke it. */
static int read_all(struct ld_decisions *d, struct seen *seen)
{
    const struct ld_decisions_options o = {.default_reward = (double)NAN, .arm_dim = 2, .draws_only = true};
    int rc = ld_decisions_init(d, &o) == 0 ? 0 : LD_DECISIONS_BROKEN;
    struct ld_own_log own = {.d = d};

    for (size_t i = 0; rc >= 0 && i < N_EVENTS; i++) {
        struct ld_logged ev = {.propensity = (double)NAN};

        ld_own_log_next(&own);
        rc = ld_own_log_take(&own, &events[i], &ev);
        if (rc == 1) {
            seen->reward[seen->n] = ev.reward;
            seen->user[seen->n] = ev.user[0];
            seen->n_candidates[seen->n++] = ev.n;
        }
    }
    ld_own_log_close(&own);
    return rc < 0 ? rc : 0;
}

START_TEST(a_decision_comes_with_its_reward_and_its_candidates)
{
    struct ld_decisions d;
    struct seen seen = {0};

    make_events();
    ck_assert_int_eq(read_all(&d, &seen), 0);
    ck_assert_uint_eq(seen.n, 2);
    ck_assert(seen.user[0] == 'v' && seen.reward[0] == 3 && seen.n_candidates[0] == 2);
    ck_assert(seen.user[1] == 'u' && seen.reward[1] == -1 && seen.n_candidates[1] == 2);
    ck_assert_str_eq(d.skipped[0].reason, "rewards of decisions that are not open");
    ck_assert_uint_eq(d.skipped[0].n, 1);
    ck_assert_uint_eq(d.arms.n, 3);
    ld_decisions_close(&d);
}
END_TEST

/* Each window has its line there, also of a decision that has had its reward: nothing is skipped for it. */
START_TEST(where_there_are_metrics_the_end_of_a_window_that_was_rewarded_is_no_reward)
{
    for (int has_metrics = 0; has_metrics < 2; has_metrics++) {
        struct ld_decisions d;
        struct seen seen = {0};
        struct kb_spec spec = {.aggregation = KB_AGG_FIRST, .has_metrics = has_metrics == 1};

        make_events();
        events[0].as.configured.spec = &spec;
        events[5] = (struct kb_event){.type = KB_EV_EXPIRED, .seq = 6, .as.expired = {.decision = "d2"}};
        ck_assert_int_eq(read_all(&d, &seen), 0);
        ck_assert_uint_eq(seen.n, 2);
        ck_assert(seen.reward[0] == 3 && seen.reward[1] == -1);
        ck_assert((d.skipped[0].reason == NULL) == (has_metrics == 1));
        ld_decisions_close(&d);
    }
}
END_TEST

/* Each slot has its own reward, and the decision is over with the last of them: what is left of the candidates of the
 * first stands in the second, and its arm. */
START_TEST(a_decision_with_slots_has_them_all)
{
    static const struct kb_ev_slot slots[] = {{"b", NULL}, {"a", NULL}, {"z", NULL}};
    static const struct kb_ev_draw draws[] = {{.id = "top", .propensity = 0.5, .mean = 0, .level = 0},
                                              {.id = "left", .propensity = 0.25, .mean = 0, .level = 0},
                                              {.id = "right", .propensity = 1, .mean = 0, .level = 0}};
    static const char *const rewarded[] = {"a", "z", NULL};
    const struct ld_decisions_options o = {.default_reward = (double)NAN};
    struct ld_decisions d;
    struct ld_logged ev = {.n = 0};

    make_events();
    events[3].as.decided.among = NULL;
    events[3].as.decided.slots = slots;
    events[3].as.decided.draws = draws;
    events[3].as.decided.n_slots = 3;
    events[3].as.decided.propensity = 0.5;
    ck_assert_int_eq(ld_decisions_init(&d, &o), 0);
    struct ld_own_log own = {.d = &d};
    for (size_t i = 0; i < 4; i++)
        ck_assert_int_eq(ld_own_log_take(&own, &events[i], &ev), 0);
    for (size_t i = 0; i < 3; i++) {
        const struct kb_event got = {.type = KB_EV_REWARDED,
                                     .seq = 5 + i,
                                     .as.rewarded = {.decision = "d2", .arm = rewarded[i], .reward = (double)i}};
        ld_own_log_next(&own);
        ck_assert_int_eq(ld_own_log_take(&own, &got, &ev), i == 2 ? 1 : 0);
    }
    ck_assert(ev.n_more == 2 && strcmp(ev.slot, "top") == 0 && strcmp(ev.more[0].slot, "left") == 0);
    ck_assert(ev.reward == 2 && ev.more[0].reward == 0 && ev.more[1].reward == 1);
    ck_assert(ev.propensity == 0.5 && ev.more[0].propensity == 0.25 && ev.more[1].propensity == 1);
    ck_assert(ev.n == 2 && ev.more[0].n == 1 && ev.more[1].n == 1);
    ck_assert_str_eq(kb_ids_str(&d.arms, ev.more[1].arm[ev.more[1].chosen]), "z");
    ck_assert_str_eq(kb_ids_str(&d.arms, ev.more[0].arm[ev.more[0].chosen]), "a");
    ld_own_log_close(&own);
    ld_decisions_close(&d);
}
END_TEST

/* The second slot is drawn from one arm more than is left of the first one's candidates, from as many, and from nobody
 * knows how many. */
START_TEST(a_slot_drawn_from_other_candidates_has_no_propensity)
{
    static const struct kb_ev_slot slots[] = {{"b", NULL}, {"a", NULL}};
    static const uint32_t told[] = {2, 1, 0};
    const struct ld_decisions_options o = {.default_reward = (double)NAN};

    for (size_t i = 0; i < 3; i++) {
        const struct kb_ev_draw draws[] = {{.id = "top", .propensity = 0.5, .n_candidates = 2},
                                           {.id = "left", .propensity = 0.25, .n_candidates = told[i]}};
        struct ld_logged ev = {.n = 0};
        struct ld_decisions d;

        make_events();
        events[3].as.decided = events[2].as.decided;
        events[3].as.decided.decision = "d2";
        events[3].as.decided.slots = slots;
        events[3].as.decided.draws = draws;
        events[3].as.decided.n_slots = 2;
        ck_assert_int_eq(ld_decisions_init(&d, &o), 0);
        struct ld_own_log own = {.d = &d};
        for (size_t k = 0; k < 5; k++)
            ck_assert_int_eq(ld_own_log_take(&own, &events[k], &ev), 0);
        events[5].as.rewarded.decision = "d2";
        events[5].as.rewarded.arm = "a";
        ck_assert_int_eq(ld_own_log_take(&own, &events[5], &ev), 1);
        ck_assert(ev.n == 2 && ev.propensity == 0.5 && ev.n_more == 1 && ev.more[0].n == 1);
        ck_assert(told[i] == 2 ? isnan(ev.more[0].propensity) : ev.more[0].propensity == 0.25);
        ld_own_log_close(&own);
        ld_decisions_close(&d);
    }
}
END_TEST

/* Of a decision with inline arms and no candidates told: 20 decisions of 4 slots, and each arm is new to the log, so
 * that the tables of arms grow in slots behind the first. */
START_TEST(arms_first_seen_in_a_later_slot_move_nothing_that_was_read)
{
    enum { N = 20, SLOTS = 4 };
    static const char *const names[SLOTS] = {"p", "q", "r", "s"};
    const struct ld_decisions_options o = {.default_reward = (double)NAN, .arm_dim = 1};
    struct ld_decisions d;

    ck_assert_int_eq(ld_decisions_init(&d, &o), 0);
    struct ld_own_log own = {.d = &d, .arm_dim = 1};
    for (size_t i = 0; i < N; i++) {
        struct kb_ev_slot slots[SLOTS];
        struct kb_ev_draw draws[SLOTS];
        char id[SLOTS][16];
        double x[SLOTS];
        struct kb_event ev = {.type = KB_EV_DECIDED,
                              .as.decided = {.decision = "d", .user = "u", .n_slots = SLOTS, .propensity = 0.5}};
        struct ld_logged out = {.n = 0};

        for (size_t k = 0; k < SLOTS; k++) {
            snprintf(id[k], sizeof id[k], "a%zu", i * SLOTS + k);
            x[k] = (double)(i * SLOTS + k);
            slots[k] = (struct kb_ev_slot){id[k], &x[k]};
            draws[k] = (struct kb_ev_draw){.id = names[k], .propensity = 0.5};
        }
        ev.as.decided.slots = slots;
        ev.as.decided.draws = draws;
        ck_assert_int_eq(ld_own_log_take(&own, &ev, &out), 0);
        for (size_t k = 0; k < SLOTS; k++) {
            const struct kb_event got = {.type = KB_EV_REWARDED,
                                         .as.rewarded = {.decision = "d", .arm = id[k], .reward = 1}};
            ld_own_log_next(&own);
            ck_assert_int_eq(ld_own_log_take(&own, &got, &out), k + 1 == SLOTS ? 1 : 0);
        }
        for (size_t k = 0; k < SLOTS; k++) {
            const struct ld_logged *slot = k == 0 ? &out : &out.more[k - 1];
            ck_assert_str_eq(kb_ids_str(&d.arms, slot->arm[slot->chosen]), id[k]);
            ck_assert(slot->features[slot->chosen][0] == x[k]);
        }
    }
    ck_assert_uint_eq(d.arms.n, N * SLOTS);
    ld_own_log_close(&own);
    ld_decisions_close(&d);
}
END_TEST

START_TEST(memory_that_is_out_is_told_and_nothing_is_left)
{
    static const struct kb_alloc_hook hook = {take, give};
    int rc = LD_DECISIONS_BROKEN;

    make_events();
    for (size_t n = 0; rc != 0; n++) {
        struct ld_decisions d;
        struct seen seen = {0};

        ck_assert_uint_lt(n, 200);
        kb_alloc_set_hook(&hook);
        left = n;
        live = 0;
        rc = read_all(&d, &seen);
        if (rc != 0)
            ck_assert_str_eq(d.why.text, kb_strerror((int)KB_ENOMEM));
        ld_decisions_close(&d);
        kb_alloc_set_hook(NULL);
        ck_assert_uint_eq(live, 0);
        ck_assert(rc == 0 ? seen.n == 2 : seen.n < 2);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("own log", a_decision_comes_with_its_reward_and_its_candidates,
                   where_there_are_metrics_the_end_of_a_window_that_was_rewarded_is_no_reward,
                   a_decision_with_slots_has_them_all, a_slot_drawn_from_other_candidates_has_no_propensity,
                   arms_first_seen_in_a_later_slot_move_nothing_that_was_read,
                   memory_that_is_out_is_told_and_nothing_is_left);
}
