/* Runs of experiments that are looked at after every decision (kbt_peeking.h). */
#include "kbt_peeking.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/rng.h"
#include "inference/sequences.h"
#include "inference/verdict.h"
#include "kbt.h"
#include "rules/policy.h"

const char *const kbt_peek_policy_names[KBT_PEEK_N_POLICIES] = {
    [KBT_PEEK_SPLIT] = "split",
    [KBT_PEEK_UNEVEN] = "split 4:1",
    [KBT_PEEK_THOMPSON_10] = "thompson, epsilon 0.1",
    [KBT_PEEK_THOMPSON_2] = "thompson, epsilon 0.02",
    [KBT_PEEK_GREEDY_30] = "greedy, epsilon 0.3",
    [KBT_PEEK_GREEDY_5] = "greedy, epsilon 0.05",
    [KBT_PEEK_RAND_UCB] = "rand_ucb, epsilon 0.05",
    [KBT_PEEK_RAND_UCB_FREE] = "rand_ucb, epsilon 0",
};

const char *const kbt_peek_fault_names[KBT_PEEK_N_FAULTS] = {"pair", "above", "shown", "normal", "provisional"};

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* In loops of millions: libcheck keeps a record of every assertion. */
static void must(bool is_so)
{
    if (!is_so)
        ck_abort_msg("a decision of the simulation was refused");
}

/* --- looks -------------------------------------------------------------------------------------------------- */

/* Whether log E may reach `level` at all, which most looks need no logarithms for. With |g| <= c, |S3| <= S2, and each
 * term's exponent is at most l x - l^2 S2 (1/2 - l/3), l <= 0.95; so log E <= x^2 / (0.7333 S2), and it is below 0 for
 * x < 0. */
static bool may_reach(const struct kb_pair *p, double reach, double sign, double effect, double level)
{
    const double x = sign * (p->score - effect * p->weight) / reach, square = p->square / (reach * reach);
    return x > 0 && x * x >= 0.733 * level * square;
}

static bool is_refuted(const struct kb_pair *p, double reach, double effect, bool is_above, double level)
{
    return may_reach(p, reach, is_above ? 1 : -1, effect, level) && kb_pair_log_e(p, reach, effect, is_above) >= level;
}

static bool is_missed(const struct kb_pair *p, double reach, double effect, double level)
{
    return is_refuted(p, reach, effect, true, level) || is_refuted(p, reach, effect, false, level);
}

/* M(m) is at most exp(n KL), the likelihood's ratio at its maximum; and KL is at most chi squared, which needs no
 * logarithms. */
static bool is_shown_missed(const struct kb_shown *s, double rate, double alpha, double level)
{
    const double n = (double)s->n, mean = s->reward / n, gap = mean - rate;
    if (n * gap * gap < level * rate * (1 - rate))
        return false;
    const double kl =
        (mean > 0 ? mean * log(mean / rate) : 0) + (mean < 1 ? (1 - mean) * log((1 - mean) / (1 - rate)) : 0);
    double low, high;
    if (n * kl < level)
        return false;
    kb_shown_interval(s, alpha, &low, &high);
    return rate < low || rate > high;
}

struct sums {
    double n, sum, square;
};

static bool is_normal_missed(const struct sums *a, const struct sums *b, double effect)
{
    if (a->n < 30 || b->n < 30)
        return false;
    const double mean_a = a->sum / a->n, mean_b = b->sum / b->n;
    const double variance = (a->square / a->n - mean_a * mean_a) / a->n + (b->square / b->n - mean_b * mean_b) / b->n;
    const double gap = mean_b - mean_a - effect;
    return variance > 0 && gap * gap > 1.96 * 1.96 * variance;
}

/* --- a run -------------------------------------------------------------------------------------------------- */

struct decision {
    double p[KBT_PEEK_MOST_ARMS];
    double reward;
    size_t arm, next; /* next decision that becomes known in the same round; SIZE_MAX: none */
    bool is_known;
    double score, weighted; /* of the control: g with a zero, and what a one adds to it */
};

#define RING (KBT_PEEK_WINDOW + 1u)

struct run {
    const struct kbt_peek_cell *cell;
    uint64_t key;
    size_t n, made, folded;
    double reach, epsilon, level, shown_level;
    struct kb_shown known[KBT_PEEK_MOST_ARMS];
    struct kb_pair pair[KBT_PEEK_MOST_ARMS]; /* [1 ..] against arm 0 */
    struct kb_pair provisional;
    struct kb_shown shown[KBT_PEEK_MOST_ARMS];
    struct sums sums[KBT_PEEK_MOST_ARMS];
    struct decision ring[RING];
    size_t due[RING]; /* the first decision that becomes known in a round */
    bool fault[KBT_PEEK_N_FAULTS];
    struct kb_arena arena;
};

static double epsilon_of(enum kbt_peek_policy policy)
{
    switch (policy) {
    case KBT_PEEK_THOMPSON_10:
        return 0.1;
    case KBT_PEEK_THOMPSON_2:
        return 0.02;
    case KBT_PEEK_GREEDY_30:
        return 0.3;
    case KBT_PEEK_GREEDY_5:
    case KBT_PEEK_RAND_UCB:
        return 0.05;
    default:
        return 0;
    }
}

static double reach_of(const struct kbt_peek_cell *cell)
{
    if (cell->policy == KBT_PEEK_SPLIT)
        return kb_reach_of_split(1, 1);
    if (cell->policy == KBT_PEEK_UNEVEN)
        return kb_reach_of_split(4, 1);
    return kb_reach_of_floor(epsilon_of(cell->policy), cell->n_arms);
}

static double normal_cdf(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}

/* Of two arms in closed form: tests/unit/rules/test_quad.c holds the rule's quadrature to it. */
static void thompson(const struct run *r, const double *mean, const double *sd, double *p)
{
    must(r->cell->n_arms == 2);
    p[1] = normal_cdf((mean[1] - mean[0]) / hypot(sd[0], sd[1]));
    p[0] = 1 - p[1];
}

static void rand_ucb(struct run *r, const double *mean, const double *sd, double *p)
{
    const struct kb_rule_spec rule = {.type = KB_RULE_RAND_UCB, .epsilon = 0};
    kb_policy_propensities(&rule, 1, r->cell->n_arms, mean, sd, NULL, p, &r->arena);
}

static void greedy(const struct run *r, const double *mean, double *p)
{
    size_t best = 0;
    for (size_t a = 0; a < r->cell->n_arms; a++) {
        p[a] = 0;
        if (mean[a] > mean[best])
            best = a;
    }
    p[best] = 1;
}

static void propensities(struct run *r, double *p)
{
    const size_t n_arms = r->cell->n_arms;
    double mean[KBT_PEEK_MOST_ARMS], sd[KBT_PEEK_MOST_ARMS];
    for (size_t a = 0; a < n_arms; a++)
        kb_shown_posterior(&r->known[a], &mean[a], &sd[a]);
    switch (r->cell->policy) {
    case KBT_PEEK_SPLIT:
        for (size_t a = 0; a < n_arms; a++)
            p[a] = 1 / (double)n_arms;
        break;
    case KBT_PEEK_UNEVEN:
        p[0] = 0.8, p[1] = 0.2;
        break;
    case KBT_PEEK_THOMPSON_10:
    case KBT_PEEK_THOMPSON_2:
        thompson(r, mean, sd, p);
        break;
    case KBT_PEEK_GREEDY_30:
    case KBT_PEEK_GREEDY_5:
        greedy(r, mean, p);
        break;
    default:
        rand_ucb(r, mean, sd, p);
    }
    for (size_t a = 0; a < n_arms; a++)
        p[a] = (1 - r->epsilon) * p[a] + r->epsilon / (double)n_arms;
}

static double reward_of(const struct run *r, size_t t, size_t arm)
{
    const struct kbt_peek_cell *cell = r->cell;
    const double u = uniform(r->key, 4 * t + 1);
    const double rate = cell->is_doubling && 2 * t < r->n ? cell->rate / 2 : cell->rate;
    if (cell->is_graded)
        return u * u * u;
    return u < rate + (arm > 0 ? cell->effect : 0);
}

/* Decisions until a reward is known: exponential for those above 0, cut at the window, which is when a zero is final.
 */
static size_t delay_of(const struct run *r, size_t t, size_t arm, double reward)
{
    if (!r->cell->is_late)
        return 0;
    if (reward == 0)
        return KBT_PEEK_WINDOW;
    return (size_t)fmin(KBT_PEEK_WINDOW, -log1p(-uniform(r->key, 4 * t + 2)) * (arm == 0 ? 50 : 1000));
}

/* --- the control that folds zeros --------------------------------------------------------------------------- */

static void provisional_add(struct run *r, double sign, double score)
{
    struct kb_pair *p = &r->provisional;
    p->score += sign * score;
    p->square += sign * score * score;
    p->cube += sign * score * score * score;
    p->fourth += sign * score * score * score * score;
}

static void provisional_make(struct run *r, struct decision *d)
{
    struct kb_pair *p = &r->provisional;
    const double pi = d->p[1] / (d->p[0] + d->p[1]), z = d->arm == 1, guess = (p->reward + 0.5) / ((double)p->n + 1);
    if (d->arm > 1)
        return;
    d->weighted = z - pi;
    d->score = -d->weighted * guess;
    provisional_add(r, 1, d->score);
    p->weight += pi * (1 - pi);
    p->n++;
}

static void provisional_correct(struct run *r, struct decision *d)
{
    if (d->arm > 1 || d->reward == 0)
        return;
    provisional_add(r, -1, d->score);
    provisional_add(r, 1, d->score + d->weighted * d->reward);
    r->provisional.reward += d->reward;
}

/* --- rounds ------------------------------------------------------------------------------------------------- */

static double level_of(const struct kbt_peek_cell *cell)
{
    return log(2 * (double)(cell->n_arms - 1) / KBT_PEEK_ALPHA);
}

static void make_decision(struct run *r)
{
    const size_t t = r->made++;
    struct decision *d = &r->ring[t % RING];
    *d = (struct decision){.next = SIZE_MAX};
    propensities(r, d->p);
    d->arm = kb_policy_draw(r->cell->n_arms, d->p, uniform(r->key, 4 * t));
    d->reward = reward_of(r, t, d->arm);
    size_t *due = &r->due[(t + delay_of(r, t, d->arm, d->reward)) % RING];
    d->next = *due;
    *due = t;
    if (r->cell->is_late)
        provisional_make(r, d);
}

/* What becomes known in a round, which the policy learns. */
static void hear(struct run *r, size_t round)
{
    size_t *due = &r->due[round % RING];
    while (*due != SIZE_MAX) {
        struct decision *d = &r->ring[*due % RING];
        *due = d->next;
        d->is_known = true;
        must(kb_shown_add(&r->known[d->arm], d->reward));
        if (r->cell->is_late)
            provisional_correct(r, d);
    }
}

static void fold(struct run *r, const struct decision *d)
{
    const size_t a = d->arm;
    for (size_t b = 1; b < r->cell->n_arms; b++)
        if (a == 0 || a == b)
            must(kb_pair_add(&r->pair[b], d->p[0], d->p[b], a == b, d->reward, r->reach));
    must(kb_shown_add(&r->shown[a], d->reward));
    r->sums[a].n++;
    r->sums[a].sum += d->reward;
    r->sums[a].square += d->reward * d->reward;
}

/* After a fold of a decision that showed arm a: only what it changed can have become wrong. */
static void look(struct run *r, size_t a)
{
    const struct kbt_peek_cell *cell = r->cell;
    const double level = r->level, effect = cell->effect;
    bool *fault = r->fault;
    for (size_t b = 1; b < cell->n_arms && !fault[KBT_PEEK_PAIR]; b++)
        fault[KBT_PEEK_PAIR] = (a == 0 || a == b) && is_missed(&r->pair[b], r->reach, effect, level);
    if (a <= 1 && !fault[KBT_PEEK_ABOVE])
        fault[KBT_PEEK_ABOVE] = is_refuted(&r->pair[1], r->reach, effect, true, log(1 / KBT_PEEK_ALPHA));
    if (a <= 1 && !fault[KBT_PEEK_NORMAL])
        fault[KBT_PEEK_NORMAL] = is_normal_missed(&r->sums[0], &r->sums[1], effect);
    if (!fault[KBT_PEEK_SHOWN] && kbt_peek_has(cell, KBT_PEEK_SHOWN))
        fault[KBT_PEEK_SHOWN] = is_shown_missed(&r->shown[a], cell->rate + (a > 0 ? effect : 0),
                                                KBT_PEEK_ALPHA / (double)cell->n_arms, r->shown_level);
}

static void fold_known(struct run *r)
{
    while (r->folded < r->made && r->ring[r->folded % RING].is_known) {
        const struct decision *d = &r->ring[r->folded++ % RING];
        fold(r, d);
        look(r, d->arm);
    }
    if (r->cell->is_late && !r->fault[KBT_PEEK_PROVISIONAL])
        r->fault[KBT_PEEK_PROVISIONAL] = is_missed(&r->provisional, r->reach, r->cell->effect, r->level);
}

static void run_start(struct run *r, const struct kbt_peek_cell *cell, uint64_t key, size_t n)
{
    const struct kb_arena arena = r->arena;
    memset(r, 0, sizeof *r);
    r->arena = arena;
    r->cell = cell;
    r->key = key;
    r->n = n;
    r->reach = reach_of(cell);
    r->epsilon = epsilon_of(cell->policy);
    r->level = level_of(cell);
    r->shown_level = log((double)cell->n_arms / KBT_PEEK_ALPHA);
    for (size_t i = 0; i < RING; i++)
        r->due[i] = SIZE_MAX;
}

bool kbt_peek_has(const struct kbt_peek_cell *cell, enum kbt_peek_fault fault)
{
    return fault == KBT_PEEK_PROVISIONAL ? cell->is_late
                                         : fault != KBT_PEEK_SHOWN || !(cell->is_doubling || cell->is_graded);
}

void kbt_peek_count(const struct kbt_peek_cell *cell, uint64_t key, unsigned n_runs, size_t n_decisions,
                    unsigned count[KBT_PEEK_N_FAULTS])
{
    struct run *r = calloc(1, sizeof *r);
    const struct kb_rule_spec rule = {.type = KB_RULE_RAND_UCB};
    ck_assert_ptr_nonnull(r);
    ck_assert_int_eq(kb_arena_fit(&r->arena, kb_policy_bytes(&rule, KBT_PEEK_MOST_ARMS)), KB_OK);
    memset(count, 0, KBT_PEEK_N_FAULTS * sizeof *count);
    for (unsigned i = 0; i < n_runs; i++) {
        run_start(r, cell, key + i, n_decisions);
        for (size_t round = 0; round < n_decisions + KBT_PEEK_WINDOW + 1 && r->folded < n_decisions; round++) {
            if (round < n_decisions)
                make_decision(r);
            hear(r, round);
            fold_known(r);
        }
        ck_assert_uint_eq(r->folded, n_decisions);
        for (size_t f = 0; f < KBT_PEEK_N_FAULTS; f++)
            count[f] += r->fault[f];
    }
    kb_arena_close(&r->arena);
    free(r);
}

/* --- users -------------------------------------------------------------------------------------------------------- */

/* Beta(1/2, 19/2) by z^2 / (sum of 20 squares of normals). */
static double user_rate(uint64_t key, uint64_t user)
{
    double first = 0, sum = 0;
    for (uint64_t i = 0; i < 20; i++) {
        const double z = kb_rng_normal(key, KB_STREAM_SIMULATION, 20 * user + i);
        sum += z * z;
        if (i == 0)
            first = sum;
    }
    return first / sum;
}

unsigned kbt_peek_users(uint64_t key, unsigned n_runs, size_t n_decisions, size_t per_user, bool is_conditional)
{
    const size_t n_users = n_decisions / per_user;
    double *rate = kbt_array(n_users);
    unsigned n_missed = 0;
    for (unsigned run = 0; run < n_runs; run++) {
        struct kb_pair p = {0};
        bool is_wrong = false;
        for (size_t u = 0; u < n_users; u++)
            rate[u] = user_rate(key + run, u);
        for (size_t t = 0; t < n_decisions && !is_wrong; t++) {
            const size_t user = t % n_users; /* each comes once before any comes again */
            const bool is_arm = uniform(~(key + run), user) < 0.5;
            const double later = is_arm ? 1 : 0, p_arm = is_conditional && t >= n_users ? later : 0.5;
            must(kb_pair_add(&p, 1 - p_arm, p_arm, is_arm, uniform(key + run, (UINT64_C(1) << 40) + t) < rate[user],
                             0.5));
            is_wrong = is_missed(&p, 0.5, 0, log(2 / KBT_PEEK_ALPHA));
        }
        n_missed += is_wrong;
    }
    free(rate);
    return n_missed;
}

/* --- traffic ------------------------------------------------------------------------------------------------------ */

/* Bennett's exponent is at most X^2 / (2 W): no alarm below that. */
static bool is_alarm(const struct kb_traffic *t, bool is_naive, size_t n)
{
    const double ratio = t->deviation * t->deviation / t->variance;
    if (is_naive)
        return n >= 100 && ratio > 1.96 * 1.96;
    return ratio >= -2 * log(KBT_PEEK_TRAFFIC_ALPHA) && kb_traffic_log_e(t, 2) >= -log(KBT_PEEK_TRAFFIC_ALPHA);
}

void kbt_peek_traffic(uint64_t key, unsigned n_runs, size_t n_decisions, bool is_changing, double shift, bool is_naive,
                      size_t *at)
{
    for (unsigned run = 0; run < n_runs; run++) {
        struct kb_traffic t[2] = {{0}};
        at[run] = 0;
        for (size_t i = 0; i < n_decisions && at[run] == 0; i++) {
            const double p = is_changing ? 0.01 + 0.98 * uniform(key + run, 2 * i) : 0.5;
            const bool is_first = uniform(key + run, 2 * i + 1) < p + shift;
            kb_traffic_add(&t[0], p, is_first);
            kb_traffic_add(&t[1], 1 - p, !is_first);
            if (is_alarm(t, is_naive, i + 1))
                at[run] = i + 1;
        }
    }
}

/* --- a split ------------------------------------------------------------------------------------------------ */

static void split_add(struct kb_pair *p, uint64_t key, size_t t, double rate, double effect)
{
    const bool is_arm = uniform(key, 2 * t) < 0.5;
    must(kb_pair_add(p, 0.5, 0.5, is_arm, uniform(key, 2 * t + 1) < rate + (is_arm ? effect : 0), 0.5));
}

double kbt_peek_half_width(uint64_t key, unsigned n_runs, size_t n_decisions, double rate)
{
    double sum = 0;
    for (unsigned run = 0; run < n_runs; run++) {
        struct kb_pair p = {0};
        double low, high;
        for (size_t t = 0; t < n_decisions; t++)
            split_add(&p, key + run, t, rate, 0);
        kb_pair_interval(&p, 0.5, log(2 / KBT_PEEK_ALPHA), &low, &high);
        sum += (high - low) / 2;
    }
    return sum / n_runs;
}

void kbt_peek_stops(uint64_t key, unsigned n_runs, size_t n_decisions, double rate, double effect, size_t *at)
{
    for (unsigned run = 0; run < n_runs; run++) {
        struct kb_pair p = {0};
        at[run] = 0;
        for (size_t t = 0; t < n_decisions && at[run] == 0; t++) {
            split_add(&p, key + run, t, rate, effect);
            if (is_refuted(&p, 0.5, 0, true, log(2 / KBT_PEEK_ALPHA)))
                at[run] = t + 1;
        }
    }
}

unsigned kbt_peek_allowed(unsigned n_runs, double level, double tail)
{
    double chance = exp(n_runs * log1p(-level)), left = 1 - chance;
    unsigned k = 0;
    while (left > tail && k < n_runs) {
        chance *= (n_runs - k) / (k + 1.0) * level / (1 - level);
        left -= chance;
        k++;
    }
    return k;
}
