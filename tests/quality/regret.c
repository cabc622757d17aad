/* Regret of the rows that find their own scales, and of Beta-Bernoulli Thompson sampling, on arms of given rates: the
 * engine itself behind no server, so that twenty seeds of everything take minutes. A line of JSON for each task, row
 * and seed on standard output; tests/quality/table.py makes docs/REGRET.md of them (`make regret`).
 *
 *   regret [SEEDS [STEP [FIRST [TASK]]]]     seeds FIRST (0), FIRST + STEP (1), ... below SEEDS (20); TASK: that alone
 *
 * A reward is 1 with the arm's rate. It is drawn from seed, round and arm, so all rows meet the same ones. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kbt.h"
#include "kernel/kernel.h"
#include "model/commit.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define MOST_ARMS 100u
#define FEW_ARMS 20u /* of all tasks but the maps, whose draws are numbered by it */
#define LATE 500u
#define MAP_SIDE 10u /* arms stand on a square grid */
#define MAP_LENGTHSCALE 0.2
#define DISCOUNT 0.999 /* the server's usual one */

/* n_arms rates from lo to hi, evenly spaced, or by equal ratios; or those that are listed. */
struct task {
    const char *group, *name;
    size_t n_rounds, n_arms;
    bool is_geometric, is_changing; /* changing: rates change places at half time */
    size_t delay;                   /* decisions between one and its reward */
    double lo, hi, discount;        /* discount: of `forgetting`, 0: none */
    double rate[FEW_ARMS];          /* 0: see above */
};

static const struct task tasks[] = {
    {"ab", "ctr5", 20000, 5, .lo = .01, .hi = .03},
    {"ab", "half", 4000, 2, .lo = .3, .hi = .5},
    {"ab", "mid", 8000, 10, .lo = .03, .hi = .08},
    {"ab", "ctr20", 20000, 20, .lo = .005, .hi = .03},
    {"ab", "fresh2", 8000, 2, .lo = .05, .hi = .06},
    {"ab", "fresh3", 8000, 3, .rate = {.1, .12, .15}},
    {"ab", "fresh8", 8000, 8, .lo = .008, .hi = .052},
    {"ab", "low2", 20000, 2, .lo = .005, .hi = .01},
    {"ab", "high4", 4000, 4, .lo = .35, .hi = .5},
    {"ab", "wide10", 4000, 10, .lo = .005, .hi = .5, .is_geometric = true},
    {"ab", "needle20", 20000, 20,
     .rate = {.06, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02, .02}},
    {"drift", "drift", 8000, 5, .lo = .1, .hi = .3, .discount = DISCOUNT, .is_changing = true},
    {"drift", "steady", 8000, 5, .lo = .1, .hi = .3, .discount = DISCOUNT},
    {"drift", "drift, low", 20000, 5, .lo = .01, .hi = .03, .discount = DISCOUNT, .is_changing = true},
    {"drift", "drift, two", 8000, 2, .lo = .3, .hi = .5, .discount = DISCOUNT, .is_changing = true},
    {"drift", "drift, ten", 8000, 10, .lo = .03, .hi = .3, .discount = DISCOUNT, .is_changing = true},
    {"drift", "drift, 0.998", 8000, 5, .lo = .1, .hi = .3, .discount = .998, .is_changing = true},
    {"drift", "steady, 0.998", 8000, 5, .lo = .1, .hi = .3, .discount = .998},
    {"late", "late", 8000, 5, .lo = .1, .hi = .3, .delay = LATE},
    {"late", "prompt", 8000, 5, .lo = .1, .hi = .3},
    {"late", "late, low", 20000, 5, .lo = .01, .hi = .03, .delay = LATE},
    {"late", "prompt, low", 20000, 5, .lo = .01, .hi = .03},
    {"far", "far", 3000, 2, .lo = .1, .hi = .5},
    {"map", "late, map", 4000, MAP_SIDE *MAP_SIDE, .delay = LATE},
    {"map", "prompt, map", 4000, MAP_SIDE *MAP_SIDE, .delay = 0},
};
#define N_TASKS (sizeof tasks / sizeof *tasks)

/* preset NULL: Beta-Bernoulli Thompson sampling. epsilon < 0: the preset's own. group: that plays it; NULL: all but
 * those that have rows of their own. */
static const struct row {
    const char *name, *preset;
    double epsilon;
    bool is_hallucinating;
    const char *group;
    bool is_blind; /* looks for no change */
} rows[] = {{"Beta-TS", NULL, 0, false, NULL, false},
            {"laplaced", "laplaced", -1, false, NULL, false},
            {"laplaced, eps 0", "laplaced", 0, false, NULL, false},
            {"laplaced, no alarms", "laplaced", -1, false, "drift", true},
            {"laplaced, hallucinate", "laplaced", -1, true, "late", false},
            {"ucb", "ucb", -1, false, "late", false},
            {"ucb, hallucinate", "ucb", -1, true, "late", false},
            {"ts", "ts", -1, false, "late", false},
            {"ts, hallucinate", "ts", -1, true, "late", false},
            {"laplaced", "laplaced", -1, false, "map", false},
            {"laplaced, hallucinate", "laplaced", -1, true, "map", false},
            {"ek-ucb", "ek-ucb", -1, false, "map", false},
            {"ek-ucb, hallucinate", "ek-ucb", -1, true, "map", false},
            {"bbkb", "bbkb", -1, false, "map", false},
            {"bbkb, hallucinate", "bbkb", -1, true, "map", false}};
#define N_ROWS (sizeof rows / sizeof *rows)

/* --- the world ---------------------------------------------------------------------------------------------- */

static bool is_map(const struct task *task)
{
    return strcmp(task->group, "map") == 0;
}

/* Where an arm of a map stands, in [0, 1]^2; its rate is a hill with its top near (0.7, 0.3). */
static void place_of(size_t arm, double *x)
{
    x[0] = (double)(arm % MAP_SIDE) / (MAP_SIDE - 1);
    x[1] = (double)(arm / MAP_SIDE) / (MAP_SIDE - 1);
}

static double height_of(size_t arm)
{
    double x[2];

    place_of(arm, x);
    return .05 + .5 * exp(-((x[0] - .7) * (x[0] - .7) + (x[1] - .3) * (x[1] - .3)) / (2 * .2 * .2));
}

static double rate_of(const struct task *task, size_t arm, size_t round)
{
    if (is_map(task))
        return height_of(arm);
    const size_t at = task->is_changing && 2 * round >= task->n_rounds ? task->n_arms - 1 - arm : arm;
    const double part = (double)at / (double)(task->n_arms - 1);

    if (task->rate[at] > 0)
        return task->rate[at];
    return task->is_geometric ? task->lo * pow(task->hi / task->lo, part) : task->lo + part * (task->hi - task->lo);
}

static double best_rate(const struct task *task)
{
    double best = 0;

    for (size_t a = 0; a < task->n_arms; a++)
        best = fmax(best, rate_of(task, a, 0));
    return best;
}

static double reward_of(const struct task *task, uint64_t seed, size_t arm, size_t round)
{
    const size_t stride = is_map(task) ? MOST_ARMS : FEW_ARMS;

    return kb_rng_uniform(seed, KB_STREAM_SIMULATION, round * stride + arm) < rate_of(task, arm, round);
}

/* --- players -------------------------------------------------------------------------------------------------- */

struct player {
    const struct task *task;
    const struct row *row;
    uint64_t seed;
    /* Beta-TS */
    double won[FEW_ARMS], lost[FEW_ARMS];
    uint64_t n_drawn;
    /* an engine */
    struct kb_engine *engine;
    struct kb_commit commit;
    struct kb_scratch *scratch;
    uint64_t seq;
    size_t *shown; /* [n_rounds] */
    int64_t now_ms;
};

static double draw(struct player *p)
{
    return kb_rng_uniform(p->seed + 1, KB_STREAM_FEATURES, p->n_drawn++);
}

/* Marsaglia and Tsang; shape >= 1. */
static double draw_gamma(struct player *p, double shape)
{
    const double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);

    for (;;) {
        const double x = kb_rng_normal(p->seed + 2, KB_STREAM_FEATURES, p->n_drawn++), v = pow(1 + c * x, 3);

        if (v > 0 && log(1 - draw(p)) < x * x / 2 + d - d * v + d * log(v))
            return d * v;
    }
}

static size_t choose_by_beta(struct player *p)
{
    size_t best = 0;
    double most = -1;

    for (size_t a = 0; a < p->task->n_arms; a++) {
        const double won = draw_gamma(p, 1 + p->won[a]), value = won / (won + draw_gamma(p, 1 + p->lost[a]));

        if (value > most) {
            most = value;
            best = a;
        }
    }
    return best;
}

static void learn_by_beta(struct player *p, size_t arm, double reward)
{
    for (size_t a = 0; p->task->discount > 0 && a < p->task->n_arms; a++) {
        p->won[a] *= p->task->discount;
        p->lost[a] *= p->task->discount;
    }
    p->won[arm] += reward;
    p->lost[arm] += 1 - reward;
}

static enum kb_err append(void *arg, const struct kb_event *event, size_t n)
{
    struct player *p = arg;

    p->seq = event[n - 1].seq;
    return KB_OK;
}

static void must(enum kb_err rc, const char *why)
{
    if (rc == KB_OK)
        return;
    fprintf(stderr, "regret: %s %s\n", kb_strerror(rc), why);
    exit(1);
}

/* With what is due before it, finished where it begins. */
static void put(struct player *p, struct kb_event ev)
{
    const struct kb_commit_hooks hooks = {.append = append, .arg = p};
    struct kb_errmsg msg = {.text = ""};

    kb_commit_begin(&p->commit, p->engine, p->seq);
    must(kb_commit_due(&p->commit, p->now_ms, &hooks, NULL), "");
    must(kb_commit_finish_builds(&p->commit, p->now_ms, &hooks, NULL), "");
    must(kb_commit_one(&p->commit, &ev, p->now_ms, &hooks, &msg), msg.text);
}

static const char *arm_name(size_t arm)
{
    static char names[MOST_ARMS][8];

    snprintf(names[arm], sizeof names[arm], "a%zu", arm);
    return names[arm];
}

/* A model that finds no scales is told that rewards lie in [0, 1], and how wide the hill of a map is. */
static struct kb_spec spec_of(const struct player *p)
{
    struct kb_spec spec;

    must(kb_spec_preset(&spec, p->row->preset, 0, is_map(p->task) ? 2 : 0), "");
    spec.seed = p->seed % 1000;
    if (p->row->epsilon >= 0)
        spec.rule.epsilon = p->row->epsilon;
    if (p->row->is_hallucinating)
        spec.pending = KB_PENDING_HALLUCINATE;
    if (p->task->discount > 0) {
        spec.forgetting.type = KB_FORGET_DISCOUNT;
        spec.forgetting.discount = p->task->discount;
        spec.forgetting.detects_changes &= !p->row->is_blind;
    }
    spec.has_default_reward = false; /* each decision has a reward of its own, so that changes are looked for */
    if (!spec.is_tuned) {
        spec.repr.lambda = spec.repr.mu = 0.25;
        spec.arm_kernel.lengthscale = MAP_LENGTHSCALE;
    }
    return spec;
}

static void open_engine(struct player *p)
{
    const struct kb_spec spec = spec_of(p);
    struct kb_ev_arm arms[MOST_ARMS];
    double place[MOST_ARMS][2];

    must(kb_engine_new(&p->engine, kbt_key), "");
    must(kb_engine_scratch_new(&p->scratch), "");
    put(p, (struct kb_event){.type = KB_EV_CONFIGURED, .as.configured = {.spec = &spec, .version = 1}});
    for (size_t a = 0; a < p->task->n_arms; a++) {
        place_of(a, place[a]);
        arms[a] =
            (struct kb_ev_arm){.id = arm_name(a), .is_active = true, .features = is_map(p->task) ? place[a] : NULL};
    }
    put(p,
        (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = p->task->n_arms}});
}

static void close_engine(struct player *p)
{
    kb_commit_free(&p->commit);
    kb_engine_scratch_free(p->scratch);
    kb_engine_free(p->engine);
}

static size_t choose_by_engine(struct player *p, size_t round)
{
    const struct kb_query q = {
        .user = "u", .key = kb_rng_bits(p->seed + 3, KB_STREAM_FEATURES, round), .now_ms = p->now_ms, .n_shown = 1};
    struct kb_decision d;
    char id[24];

    must(kb_engine_fit_scratch(p->engine, p->scratch, 0, 0), "");
    must(kb_engine_decide(p->engine, &q, p->scratch, &d, NULL), "");
    const size_t arm = d.chosen;
    double place[2];
    place_of(arm, place);
    const struct kb_ev_slot slot = {arm_name(arm), is_map(p->task) ? place : NULL};
    snprintf(id, sizeof id, "d%zu", round);
    put(p, (struct kb_event){.type = KB_EV_DECIDED,
                             .as.decided = {.decision = id,
                                            .user = "u",
                                            .slots = &slot,
                                            .n_slots = 1,
                                            .propensity = d.propensity[arm],
                                            .expires_at_ms = INT64_MAX / 2}});
    return arm;
}

static void learn_by_engine(struct player *p, size_t round, double reward)
{
    char id[24];

    snprintf(id, sizeof id, "d%zu", round);
    put(p, (struct kb_event){.type = KB_EV_REWARDED, .as.rewarded = {.decision = id, .reward = reward}});
}

/* --- a run ---------------------------------------------------------------------------------------------------- */

static void learn(struct player *p, size_t round)
{
    const size_t arm = p->shown[round];
    const double reward = reward_of(p->task, p->seed, arm, round);

    if (p->row->preset != NULL)
        learn_by_engine(p, round, reward);
    else
        learn_by_beta(p, arm, reward);
}

static void play(const struct task *task, const struct row *row, uint64_t seed)
{
    struct player p = {.task = task, .row = row, .seed = kb_rng_bits(seed, KB_STREAM_SIMULATION, task->n_rounds)};
    const double best = best_rate(task);
    double half[2] = {0, 0};

    p.shown = calloc(task->n_rounds, sizeof *p.shown);
    if (row->preset != NULL)
        open_engine(&p);
    for (size_t t = 0; t < task->n_rounds; t++) {
        p.now_ms = (int64_t)t;
        p.shown[t] = row->preset != NULL ? choose_by_engine(&p, t) : choose_by_beta(&p);
        half[2 * t >= task->n_rounds] += best - rate_of(task, p.shown[t], t);
        if (t >= task->delay)
            learn(&p, t - task->delay);
    }
    printf("{\"group\": \"%s\", \"task\": \"%s\", \"row\": \"%s\", \"seed\": %" PRIu64 ", \"halves\": [%.6f, %.6f]}\n",
           task->group, task->name, row->name, seed, half[0], half[1]);
    fflush(stdout);
    if (row->preset != NULL)
        close_engine(&p);
    free(p.shown);
}

static uint64_t number(int argc, char **argv, int i, uint64_t usual)
{
    return argc > i ? strtoull(argv[i], NULL, 10) : usual;
}

static bool plays(const struct row *row, const struct task *task)
{
    return row->group != NULL ? strcmp(row->group, task->group) == 0 : !is_map(task);
}

int main(int argc, char **argv)
{
    const uint64_t n_seeds = number(argc, argv, 1, 20), step = number(argc, argv, 2, 1),
                   first = number(argc, argv, 3, 0);

    for (size_t i = 0; i < N_TASKS; i++)
        for (size_t k = 0; k < N_ROWS && (argc <= 4 || strcmp(argv[4], tasks[i].name) == 0); k++)
            for (uint64_t seed = first; plays(&rows[k], &tasks[i]) && seed < n_seeds; seed += step)
                play(&tasks[i], &rows[k], seed);
    return 0;
}
