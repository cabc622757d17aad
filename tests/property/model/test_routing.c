/* Propensities under routing against a million draws: holdouts, arms that stick, epsilon, all rules that draw,
 * with arms that are excluded, stopped, or for some users only. Each user comes four times:
 *
 *   first      a draw: by the policy, or for who is held out by the baseline
 *   again      within the term: the arm that was drawn
 *   excluded   with the first arm excluded: a draw where it was theirs, else a repeat
 *   late       after the term: a draw
 *
 * Of each visit the arms are counted and set beside the propensities told: of a draw those that it told itself, of a
 * repeat those of the draw that it repeats. A count's deviation over its own standard deviation is a normal number. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/commit.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "kbt.h"
#include "base/rng.h"

#define N_ARMS 6u
#define N_USERS 50000u
#define TTL_MS 1000
#define MOST_SIGMA 5.0 /* one of a few hundred numbers is beyond with probability 1e-4; the seeds are fixed */

/* As ck_assert, which notes each place that it passes with a write to a file: a million of them take longer than what
 * is tested. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ck_abort_msg("%s", #condition);                                                                            \
    } while (0)

enum visit { FIRST, AGAIN, EXCLUDED, LATE, N_VISITS };

static const char *const ARM[N_ARMS] = {"a", "b", "c", "control", "gold", "gone"};

/* Scenarios: eight times two hundred thousand decisions. The rule is the preset's where none is named. */
static const struct scenario {
    const char *algorithm;
    double epsilon, share;
    enum kb_baseline baseline;
    const char *arm;
    enum kb_rule_type rule;
} SCENARIOS[] = {{"ucb", 0.3, 0.4, KB_BASELINE_UNIFORM, "", KB_RULE_N},
                 {"ucb", 0.5, 0.3, KB_BASELINE_ARM, "control", KB_RULE_N},
                 {"ts", 0, 0.2, KB_BASELINE_ARM, "b", KB_RULE_N},
                 {"ts", 0.2, 0.5, KB_BASELINE_UNIFORM, "", KB_RULE_N},
                 {"ucb", 0.02, 0.2, KB_BASELINE_ARM, "control", KB_RULE_RAND_UCB},
                 {"ucb", 0, 0.2, KB_BASELINE_ARM, "b", KB_RULE_IGW},
                 {"random", 0, 0.5, KB_BASELINE_ARM, "gone", KB_RULE_N},
                 {"ucb", 0.1, 0.2, KB_BASELINE_UNIFORM, "", KB_RULE_SPLIT}};
#define N_SCENARIOS (int)(sizeof SCENARIOS / sizeof *SCENARIOS)

/* What is known of a user between visits. */
struct person {
    double p[N_ARMS]; /* of the last draw, by arm */
    uint32_t arm;     /* that it gave */
};

/* Deviations of counts from propensities, and their variance. */
struct cell {
    double deviation, variance;
    size_t n;
};

struct world {
    struct kb_engine *e;
    struct kb_scratch *s;
    uint64_t seq;
    int64_t now_ms;
    struct person *person;
    struct cell cell[N_VISITS][KB_ROUTE_N][N_ARMS];
    size_t n_decided, n_held_out;
};

static void fold(struct world *w, struct kb_event ev)
{
    struct kb_errmsg msg = {.text = ""};

    ev.seq = ++w->seq;
    ev.at_ms = w->now_ms;
    if (kb_engine_fold(w->e, &ev, &msg) != KB_OK)
        ck_abort_msg("%s %s", msg.pointer, msg.text);
}

/* A model that has learned a little, and differs between users in nothing but their rules. */
static void open_world(struct world *w, const struct scenario *s)
{
    static const char *const gold[] = {"gold"};
    static const struct kb_attribute_rule allow = {"plan", gold, 1};
    const struct kb_eligibility rules = {.allow = &allow, .n_allow = 1, .from_ms = INT64_MIN, .until_ms = INT64_MAX};
    struct kb_ev_arm arms[N_ARMS];
    struct kb_spec spec;

    *w = (struct world){.now_ms = 1795255200000, .person = calloc(N_USERS, sizeof *w->person)};
    ck_assert_int_eq(kb_engine_new(&w->e, kbt_key), KB_OK);
    ck_assert_int_eq(kb_engine_scratch_new(&w->s), KB_OK);
    ck_assert_int_eq(kb_spec_preset(&spec, s->algorithm, 0, 0), KB_OK);
    kb_spec_tune(&spec, false);
    spec.rule.epsilon = s->epsilon;
    spec.rule.type = s->rule < KB_RULE_N ? s->rule : spec.rule.type;
    spec.routing = (struct kb_routing_spec){.holdout = s->share, .baseline = s->baseline, .sticky_ms = TTL_MS};
    strcpy(spec.routing.arm, s->arm);
    for (size_t i = 0; i + 1 < N_ARMS; i++) /* control has 0, gone none */
        ck_assert_int_eq(kb_split_put(&spec.rule.split, ARM[i], i == 3 ? 0 : (double)(1 + i * i)), KB_OK);
    fold(w, (struct kb_event){.type = KB_EV_CONFIGURED, .as.configured = {&spec, 1}});
    for (size_t i = 0; i < N_ARMS; i++)
        arms[i] = (struct kb_ev_arm){
            .id = ARM[i], .is_active = true, .is_stopped = i == 5, .eligibility = i == 4 ? &rules : NULL};
    fold(w, (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = N_ARMS}});
    for (uint64_t i = 0; i < 24; i++)
        fold(w, (struct kb_event){.type = KB_EV_OBSERVED,
                                  .as.observed = {.user = "teacher",
                                                  .arm = {ARM[i % N_ARMS], NULL},
                                                  .reward = kb_rng_normal(3, KB_STREAM_SIMULATION, i),
                                                  .propensity = 1}});
}

static void close_world(struct world *w)
{
    kb_engine_scratch_free(w->s);
    kb_engine_free(w->e);
    free(w->person);
}

static uint32_t arm_of(const char *id)
{
    uint32_t i = 0;

    while (strcmp(ARM[i], id) != 0)
        i++;
    return i;
}

static void add(struct cell *c, bool has_come, double p)
{
    c->deviation += has_come - p;
    c->variance += p * (1 - p);
    c->n++;
}

/* By the first scenario's share. */
static bool is_held_out(size_t i)
{
    char user[16];

    snprintf(user, sizeof user, "u%zu", i);
    return kb_holdout_place("", user) < SCENARIOS[0].share;
}

/* The arm that came, beside p. */
static void count(struct world *w, enum visit visit, enum kb_route route, uint32_t arm, const double *p)
{
    for (uint32_t i = 0; i < N_ARMS; i++) {
        EXPECT(i != arm || p[i] > 0);
        add(&w->cell[visit][route][i], i == arm, p[i]);
    }
}

/* A draw: what was told of all candidates, by arm; nothing of those that are none. */
static void take_draw(const struct kb_decision *d, struct person *person)
{
    double sum = 0;

    memset(person->p, 0, sizeof person->p);
    for (size_t i = 0; i < d->n; i++) {
        person->p[arm_of(d->arm[i])] = d->propensity[i];
        sum += d->propensity[i];
    }
    EXPECT(fabs(sum - 1) < 1e-9);
    person->arm = arm_of(d->arm[d->chosen]);
}

static void record(struct world *w, const struct kb_query *q, const struct kb_decision *d, const char *id)
{
    const struct kb_ev_slot slot = {d->arm[d->chosen], NULL};

    fold(w, (struct kb_event){.type = KB_EV_DECIDED,
                              .as.decided = {.decision = id,
                                             .user = q->user,
                                             .slots = &slot,
                                             .n_slots = 1,
                                             .propensity = d->propensity[d->chosen],
                                             .mean = d->mean[d->chosen],
                                             .route = d->route,
                                             .assigned_until_ms = d->assigned_until_ms,
                                             .expires_at_ms = w->now_ms + TTL_MS}});
}

static void visit(struct world *w, enum visit visit, size_t i)
{
    struct person *person = &w->person[i];
    const struct kb_attribute plan = {"plan", i % 2 ? "gold" : "free"};
    char user[16], id[32];
    struct kb_decision d;

    snprintf(user, sizeof user, "u%zu", i);
    snprintf(id, sizeof id, "%zu at %d", i, (int)visit);
    const struct kb_query q = {.user = user,
                               .attributes = &plan,
                               .n_attributes = 1,
                               .now_ms = w->now_ms,
                               .exclude = ARM,
                               .n_exclude = visit == EXCLUDED,
                               .key = kb_rng_bits(11, KB_STREAM_SIMULATION, 4 * i + visit)};
    EXPECT(kb_engine_fit_scratch(w->e, w->s, 0, 1) == KB_OK);
    EXPECT(kb_engine_decide(w->e, &q, w->s, &d, NULL) == KB_OK);
    EXPECT(d.n == 4u + i % 2 - (visit == EXCLUDED));
    const bool is_repeat = d.route == KB_ROUTE_STICKY;
    if (is_repeat) {
        EXPECT(arm_of(d.arm[d.chosen]) == person->arm);
        EXPECT(d.propensity[d.chosen] == person->p[person->arm]);
    } else {
        take_draw(&d, person);
    }
    if (!is_repeat || visit == AGAIN)
        count(w, visit, d.route, person->arm, person->p);
    w->n_held_out += visit == FIRST && d.route == KB_ROUTE_HOLDOUT;
    w->n_decided++;
    record(w, &q, &d, id);
}

static void expect_counts(const struct world *w)
{
    size_t n_cells = 0;

    for (int v = 0; v < N_VISITS; v++)
        for (int route = 0; route < KB_ROUTE_N; route++)
            for (size_t i = 0; i < N_ARMS; i++) {
                const struct cell *c = &w->cell[v][route][i];
                const double z = c->variance > 0 ? c->deviation / sqrt(c->variance) : 0;

                n_cells += c->variance > 0;
                ck_assert_msg(fabs(z) < MOST_SIGMA && (c->variance > 0 || fabs(c->deviation) < 1e-6),
                              "visit %d, %s, %s: z %g of %zu", v, kb_word(&kb_route_words, route), ARM[i], z, c->n);
            }
    ck_assert_uint_ge(n_cells, 14);
}

/* Which side repeats: all of the policy's users, and those who are held out where their baseline was a draw. */
START_TEST(arms_come_as_often_as_their_propensities_say)
{
    const struct scenario *s = &SCENARIOS[_i];
    const bool is_drawn = s->baseline == KB_BASELINE_UNIFORM || strcmp(s->arm, "gone") == 0;
    struct world w;

    open_world(&w, s);
    for (int v = 0; v < N_VISITS; v++, w.now_ms += v == EXCLUDED ? TTL_MS : 1)
        for (size_t i = 0; i < N_USERS; i++)
            visit(&w, (enum visit)v, i);
    ck_assert_uint_eq(w.n_decided, 200000);
    const double sd = sqrt(N_USERS * s->share * (1 - s->share));
    ck_assert_double_lt(fabs((double)w.n_held_out - s->share * N_USERS), MOST_SIGMA * sd);
    ck_assert_uint_eq(w.cell[AGAIN][KB_ROUTE_STICKY][0].n, is_drawn ? N_USERS : N_USERS - w.n_held_out);
    ck_assert_uint_eq(w.cell[LATE][KB_ROUTE_STICKY][0].n, 0);
    expect_counts(&w);
    close_world(&w);
}
END_TEST

/* What a log would hold that tells the policy's propensities for draws of the baseline: the counts must see it. */
START_TEST(false_propensities_are_found)
{
    struct world w;
    struct cell false_cell[N_ARMS] = {{0}};
    double most = 0;

    open_world(&w, &SCENARIOS[0]);
    for (size_t i = 0; i < N_USERS / 10; i++)
        visit(&w, FIRST, i);
    const struct person *policy[2] = {NULL, NULL};
    for (size_t i = 0; i < N_USERS / 10; i++)
        if (!is_held_out(i))
            policy[i % 2] = &w.person[i];
    ck_assert(policy[0] != NULL && policy[1] != NULL);
    for (size_t i = 0; i < N_USERS / 10; i++)
        for (uint32_t k = 0; k < N_ARMS && is_held_out(i); k++)
            add(&false_cell[k], k == w.person[i].arm, policy[i % 2]->p[k]);
    for (size_t k = 0; k < N_ARMS; k++)
        if (false_cell[k].variance > 0)
            most = fmax(most, fabs(false_cell[k].deviation) / sqrt(false_cell[k].variance));
    ck_assert_double_gt(most, 2 * MOST_SIGMA);
    close_world(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("routing", 120, {arms_come_as_often_as_their_propensities_say, N_SCENARIOS},
                         {false_propensities_are_found, 1});
}
