/* Elimination by levels: the engine plays random streams, and an oracle that keeps one dense Gaussian process per level
 * and shares no code with the core must name the same arms and the same levels. Then what lies around it: the last
 * level, exploration, slates, observations, the limit, and a change of the rule. */
#include "rules/elimination.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "kbt.h"
#include "kbt_log.h"
#include "base/rng.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define N_ARMS 5u
#define N_CONTEXTS 3u
#define N_ROUNDS 300u
#define DIM 4u /* two of the context, two of the arm */

static const char *const ARM[N_ARMS] = {"a", "b", "c", "d", "e"};

static double number(uint64_t key, uint64_t i)
{
    return 2 * kb_rng_uniform(key, KB_STREAM_SIMULATION, i) - 1;
}

/* --- the oracle ------------------------------------------------------------------------------------------- */

/* What was played: the point, its level and its reward. */
struct play {
    double x[DIM], reward;
    uint32_t level;
};

struct oracle {
    struct play play[N_ROUNDS];
    size_t n;
    double lambda, beta, scale;
};

/* The product of two Gaussians of lengthscale 1 is one over the joined vectors. */
static double gaussian(const double *a, const double *b)
{
    double d2 = 0;
    for (size_t k = 0; k < DIM; k++)
        d2 += (a[k] - b[k]) * (a[k] - b[k]);
    return exp(-d2 / 2);
}

/* Mean and sd at x by the plays of one level: k^T (K + lambda I)^-1 y with every play a row of its own. */
static void ask(const struct oracle *o, uint32_t level, const double x[][DIM], size_t n_x, double *mean, double *sd)
{
    size_t n = 0, pick[N_ROUNDS];
    for (size_t i = 0; i < o->n; i++)
        if (o->play[i].level == level)
            pick[n++] = i;
    double *gram = kbt_array(n * n + 1), *inverse = kbt_array(n * n + 1), *k = kbt_array(n + 1);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            gram[i + j * n] = gaussian(o->play[pick[i]].x, o->play[pick[j]].x) + (i == j ? o->lambda : 0);
    if (n > 0)
        kbt_inverse(n, gram, inverse);
    for (size_t c = 0; c < n_x; c++) {
        double variance = 1;
        mean[c] = 0;
        for (size_t i = 0; i < n; i++)
            k[i] = gaussian(o->play[pick[i]].x, x[c]);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                mean[c] += k[i] * inverse[i + j * n] * o->play[pick[j]].reward;
                variance -= k[i] * inverse[i + j * n] * k[j];
            }
        sd[c] = sqrt(fmax(variance, 0));
    }
    free(gram);
    free(inverse);
    free(k);
}

/* The step as the paper has it, on flags instead of lists; mean and sd as each arm was last seen. */
static size_t step(const struct oracle *o, const double x[][DIM], double *mean, double *sd, uint32_t *level)
{
    bool is_in[N_ARMS] = {true, true, true, true, true};
    const double last = o->scale / sqrt((double)o->n + 1);
    double m[N_ARMS], s[N_ARMS];
    for (uint32_t at = 1;; at++) {
        const double bar = o->scale / pow(2, at);
        double top = -INFINITY, width = -INFINITY;
        size_t best = 0, widest = 0;
        ask(o, at, x, N_ARMS, m, s);
        for (size_t i = 0; i < N_ARMS; i++) {
            if (!is_in[i])
                continue;
            mean[i] = m[i];
            sd[i] = s[i];
            if (m[i] + o->beta * s[i] > top)
                top = m[i] + o->beta * s[best = i];
            if (o->beta * s[i] > width)
                width = o->beta * s[widest = i];
        }
        *level = 0;
        if (width <= last)
            return best;
        *level = at;
        if (width > bar)
            return widest;
        for (size_t i = 0; i < N_ARMS; i++)
            is_in[i] &= m[i] + o->beta * s[i] >= top - 2 * bar;
    }
}

/* Two arms that a level has looked at equally often from equally far are equally wide, but for rounding. */
static bool is_tie(const struct oracle *o, uint32_t level, const double *mean, const double *sd, size_t a, size_t b)
{
    return level > 0 ? kbt_close(sd[a], sd[b], 1e-10)
                     : kbt_close(mean[a] + o->beta * sd[a], mean[b] + o->beta * sd[b], 1e-10);
}

/* --- the engine's side -------------------------------------------------------------------------------------- */

static double features[N_ARMS][2], contexts[N_CONTEXTS][2];

static void open_log(struct kbt_log *log, const struct kb_spec *spec, uint64_t key)
{
    struct kb_ev_arm arms[N_ARMS];
    for (size_t i = 0; i < N_ARMS; i++) {
        features[i][0] = 2 * number(key, 2 * i);
        features[i][1] = 2 * number(key, 2 * i + 1);
        arms[i] = (struct kb_ev_arm){.id = ARM[i], .features = features[i], .is_active = true};
    }
    for (size_t i = 0; i < 2 * N_CONTEXTS; i++)
        contexts[i / 2][i % 2] = 2 * number(key, 50 + i);
    kbt_log_open(log);
    ck_assert_int_eq(kbt_log_live(log, kbt_configured(spec, 1), NULL), KB_OK);
    const struct kb_event ev = {.type = KB_EV_ARMS, .as.arms = {.is_replace = true, .put = arms, .n_put = N_ARMS}};
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
}

static struct kb_spec sup_spec(double beta, double lambda)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "sup-kernel-ucb", 2, 2), KB_OK);
    spec.conf.beta = beta;
    spec.repr.lambda = lambda;
    return spec;
}

/* The decision over the catalogue; its arrays live in *s. */
static void decide(const struct kb_engine *e, const double *context, uint64_t key, struct kb_scratch *s,
                   struct kb_decision *out)
{
    const struct kb_query q = {.user = "u", .context = context, .key = key};
    ck_assert_int_eq(kb_engine_fit_scratch(e, s, 0, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(e, &q, s, out, NULL), KB_OK);
    ck_assert_uint_eq(out->n, N_ARMS);
}

static enum kb_err record(struct kbt_log *log, const char *id, const double *context, const size_t *arms, size_t n_arms,
                          uint32_t level)
{
    struct kb_ev_slot slots[N_ARMS];
    for (size_t i = 0; i < n_arms; i++)
        slots[i] = (struct kb_ev_slot){ARM[arms[i]], features[arms[i]]};
    const struct kb_event ev = {.type = KB_EV_DECIDED,
                                .as.decided = {.decision = id,
                                               .user = "u",
                                               .context = context,
                                               .slots = slots,
                                               .n_slots = n_arms,
                                               .propensity = 1,
                                               .expires_at_ms = INT64_MAX,
                                               .level = level}};
    return kbt_log_live(log, ev, NULL);
}

static void play(struct kbt_log *log, size_t round, const double *context, size_t arm, uint32_t level, double reward)
{
    char id[24];
    (void)snprintf(id, sizeof id, "d%zu", round);
    ck_assert_int_eq(record(log, id, context, &arm, 1, level), KB_OK);
    ck_assert_int_eq(kbt_log_live(log, kbt_rewarded(id, reward), NULL), KB_OK);
}

static double reward_of(const double *context, size_t arm, uint64_t key, uint64_t round)
{
    return 0.5 + 0.5 * sin(2 * context[0] + 3 * features[arm][0] - features[arm][1]) +
           0.1 * kb_rng_normal(key, KB_STREAM_SIMULATION, 10000 + round);
}

/* --- the rule ------------------------------------------------------------------------------------------------ */

/* Plays N_ROUNDS rounds; counts[level] rewards were taught to that level. */
static void play_against_the_oracle(double scale, uint64_t key, size_t counts[KB_MAX_LEVEL + 1])
{
    struct kb_spec spec = sup_spec(0.8, 0.05);
    struct oracle *o = (struct oracle *)kbt_array(sizeof *o / sizeof(double) + 1);
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    struct kbt_log log;
    size_t n_ties = 0;
    spec.rule.scale = scale;
    o->lambda = spec.repr.lambda;
    o->beta = spec.conf.beta;
    o->scale = scale;
    open_log(&log, &spec, key);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    for (size_t t = 0; t < N_ROUNDS; t++) {
        const double *context = contexts[kb_rng_bits(key, KB_STREAM_SIMULATION, 500 + t) % N_CONTEXTS];
        double x[N_ARMS][DIM], mean[N_ARMS], sd[N_ARMS];
        uint32_t level;
        for (size_t i = 0; i < N_ARMS; i++)
            memcpy(x[i], (double[DIM]){context[0], context[1], features[i][0], features[i][1]}, sizeof x[i]);
        const size_t arm = step(o, (const double(*)[DIM])x, mean, sd, &level);
        decide(log.live, context, t, s, &d);
        ck_assert_msg((d.chosen == arm || is_tie(o, level, mean, sd, d.chosen, arm)) && d.level == level,
                      "round %zu: arm %zu of level %u, expected %zu of %u", t, d.chosen, d.level, arm, level);
        n_ties += d.chosen != arm;
        size_t k = 0;
        for (size_t i = 0; i < N_ARMS; i++)
            k += d.propensity[i] > 0;
        for (size_t i = 0; i < N_ARMS; i++)
            ck_assert(d.propensity[i] == 0 ||
                      (d.propensity[i] == 1.0 / (double)k && (i == arm || is_tie(o, level, mean, sd, i, arm))));
        for (size_t i = 0; i < N_ARMS; i++) {
            ck_assert(kbt_close(d.mean[i], mean[i], 1e-9) && kbt_close(d.sd[i], sd[i], 1e-7));
            ck_assert(kbt_close(d.upper[i], mean[i] + o->beta * sd[i], 1e-7));
            ck_assert(kbt_close(d.lower[i], mean[i] - o->beta * sd[i], 1e-7));
        }
        struct play *now = &o->play[o->n++];
        *now = (struct play){.reward = reward_of(context, d.chosen, key, t), .level = level};
        memcpy(now->x, x[d.chosen], sizeof now->x);
        counts[level]++;
        play(&log, t, context, d.chosen, level, now->reward);
    }
    ck_assert_uint_le(n_ties, N_ROUNDS / 15);
    struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, false);
    ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
    kb_engine_free(fold);
    kb_engine_scratch_free(s);
    kbt_log_close(&log);
    free(o);
}

START_TEST(choices_and_levels_are_those_of_one_dense_model_per_level)
{
    for (uint64_t key = 1; key <= 3; key++) {
        size_t counts[KB_MAX_LEVEL + 1] = {0};
        play_against_the_oracle(1.0, key, counts);
        /* a stream that never leaves the first level would prove little */
        ck_assert_uint_gt(counts[1], 5);
        ck_assert_uint_gt(counts[2], 5);
        ck_assert_uint_gt(counts[3], 5);
        ck_assert_uint_gt(counts[0], 5);
    }
}
END_TEST

START_TEST(the_scale_is_that_of_the_rewards)
{
    size_t one[KB_MAX_LEVEL + 1] = {0}, two[KB_MAX_LEVEL + 1] = {0};
    play_against_the_oracle(1.0, 4, one);
    play_against_the_oracle(0.5, 4, two);
    ck_assert(memcmp(one, two, sizeof one) != 0);
}
END_TEST

/* An elimination on a model that has learned nothing but the mean of some arms at every level. */
START_TEST(the_last_level_exploits)
{
    struct kb_spec spec = sup_spec(2, 1);
    struct kbt_log log;
    struct kb_scratch *s = NULL;
    double mean[N_ARMS], sd[N_ARMS], share[N_ARMS];
    uint32_t arms[N_ARMS] = {0, 1, 2, 3, 4}, asked[N_ARMS];
    const double *const vectors[N_ARMS] = {features[0], features[1], features[2], features[3], features[4]};
    open_log(&log, &spec, 7);
    for (size_t level = 1; level <= KB_MAX_LEVEL; level++)
        play(&log, level, contexts[0], 3, (uint32_t)level, 0.5);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(log.live, s, N_ARMS, 0), KB_OK);
    const struct kb_candidates cand = {
        .user = {0, KB_ID_NONE}, .context = contexts[0], .n = N_ARMS, .arms = arms, .features = vectors};
    struct kb_elimination how = {.beta = 1e-5, .scale = 1, .round = 1e14, .may_explore = true};
    ck_assert_uint_eq(kb_eliminate(kb_engine_posterior(log.live), &how, &cand, s, mean, sd, asked, share), 0);
    ck_assert_double_eq(share[3], 1);
    how.beta = 4e-5; /* the unseen arms are wider than 2^-15 = 3.05e-5, and out by then; arm 3 is not */
    ck_assert_uint_eq(kb_eliminate(kb_engine_posterior(log.live), &how, &cand, s, mean, sd, asked, share), 16);
    ck_assert_double_eq(share[3], 1);
    for (size_t i = 0; i < N_ARMS; i++)
        ck_assert(i == 3 ? asked[i] == 16 : asked[i] >= 1 && asked[i] < 16);
    how.may_explore = false;
    ck_assert_uint_eq(kb_eliminate(kb_engine_posterior(log.live), &how, &cand, s, mean, sd, asked, share), 0);
    kb_engine_scratch_free(s);
    kbt_log_close(&log);
}
END_TEST

START_TEST(an_arm_that_exploration_draws_teaches_no_level)
{
    struct kb_spec spec = sup_spec(2, 1);
    struct kbt_log log;
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    size_t n_taught = 0, n_drawn = 0;
    spec.rule.epsilon = 0.5;
    open_log(&log, &spec, 8);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    for (size_t arm = 1; arm < N_ARMS; arm++) /* so that the first is the widest */
        play(&log, arm, contexts[0], arm, 1, 0.5);
    for (uint64_t key = 0; key < 200; key++) {
        decide(log.live, contexts[0], key, s, &d);
        const bool is_best = d.propensity[d.chosen] > 0.5;
        ck_assert_double_eq_tol(d.propensity[d.chosen], is_best ? 0.6 : 0.1, 1e-12);
        ck_assert_uint_eq(d.level, is_best ? 1 : 0);
        ck_assert(!is_best || d.chosen == 0);
        n_taught += is_best;
        n_drawn += !is_best;
    }
    ck_assert_uint_gt(n_taught, 90);
    ck_assert_uint_gt(n_drawn, 50);
    kb_engine_scratch_free(s);
    kbt_log_close(&log);
}
END_TEST

/* Nothing is known: all are equally wide, and whichever is drawn has been asked for. */
START_TEST(equally_wide_arms_are_drawn_alike)
{
    struct kb_spec spec = sup_spec(2, 1);
    struct kbt_log log;
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    size_t n_chosen[N_ARMS] = {0};
    open_log(&log, &spec, 8);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    for (uint64_t key = 0; key < 200; key++) {
        decide(log.live, contexts[0], key, s, &d);
        n_chosen[d.chosen]++;
        ck_assert_uint_eq(d.level, 1);
        for (size_t i = 0; i < N_ARMS; i++)
            ck_assert_double_eq(d.propensity[i], 1.0 / N_ARMS);
    }
    for (size_t i = 0; i < N_ARMS; i++)
        ck_assert_uint_gt(n_chosen[i], 15);
    kb_engine_scratch_free(s);
    kbt_log_close(&log);
}
END_TEST

/* --- what teaches what -------------------------------------------------------------------------------------- */

static size_t support_of(const struct kbt_log *log)
{
    return kb_posterior_n_support(kb_engine_posterior(log->live));
}

START_TEST(level_zero_and_the_rest_of_a_slate_are_kept_and_teach_nothing)
{
    struct kb_spec spec = sup_spec(2, 1);
    struct kbt_log log;
    struct kb_engine_counts c;
    const size_t slate[2] = {1, 2};
    open_log(&log, &spec, 9);
    play(&log, 1, contexts[0], 0, 0, 1);
    ck_assert_uint_eq(support_of(&log), 0);
    ck_assert_int_eq(record(&log, "s", contexts[1], slate, 2, 3), KB_OK);
    for (size_t i = 0; i < 2; i++) {
        struct kb_event ev = kbt_rewarded("s", 0.5);
        ev.as.rewarded.arm = ARM[slate[i]];
        ck_assert_int_eq(kbt_log_live(&log, ev, NULL), KB_OK);
        ck_assert_uint_eq(support_of(&log), 1);
    }
    ck_assert_uint_eq(kb_posterior_support_point(kb_engine_posterior(log.live), 0).level, 3);
    kb_engine_counts(log.live, &c);
    ck_assert_uint_eq(c.learned, 3);
    ck_assert_uint_eq(c.history_rows, 3);
    ck_assert_int_eq(record(&log, "t", contexts[1], slate, 1, KB_MAX_LEVEL + 1), KB_EINVAL);
    kbt_log_close(&log);
}
END_TEST

static struct kb_event observed(size_t context, size_t arm, double reward)
{
    return (struct kb_event){.type = KB_EV_OBSERVED,
                             .as.observed = {.user = "u",
                                             .context = contexts[context],
                                             .arm = {ARM[arm], features[arm]},
                                             .reward = reward,
                                             .propensity = NAN}};
}

START_TEST(observations_teach_the_first_level)
{
    struct kb_spec spec = sup_spec(2, 1);
    struct kbt_log log;
    open_log(&log, &spec, 10);
    ck_assert_int_eq(kbt_log_live(&log, observed(0, 1, 1), NULL), KB_OK);
    ck_assert_uint_eq(support_of(&log), 1);
    ck_assert_uint_eq(kb_posterior_support_point(kb_engine_posterior(log.live), 0).level, 1);
    kbt_log_close(&log);
}
END_TEST

START_TEST(a_full_model_exploits_and_never_becomes_a_dictionary)
{
    struct kb_spec spec = sup_spec(2, 1);
    struct kbt_log log;
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    spec.repr.exact_limit = 6;
    open_log(&log, &spec, 11);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    for (size_t t = 0; t < 40; t++) {
        const bool is_full = support_of(&log) >= 6;
        decide(log.live, contexts[t % N_CONTEXTS], t, s, &d);
        ck_assert_uint_eq(d.level, is_full ? 0 : 1);
        play(&log, t, contexts[t % N_CONTEXTS], d.chosen, d.level, 0.5);
    }
    ck_assert_uint_eq(support_of(&log), 6);
    for (size_t i = 0; i < N_CONTEXTS * N_ARMS; i++)
        ck_assert_int_eq(kbt_log_live(&log, observed(i / N_ARMS, i % N_ARMS, 0.5), NULL), KB_OK);
    ck_assert_uint_gt(support_of(&log), 6);
    spec.repr.lambda = 0.5; /* a rebuild looks at the limit, too */
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 2), NULL), KB_OK);
    ck_assert_int_eq(kb_engine_spec(log.live)->repr.type, KB_REPR_EXACT);
    for (size_t i = 0; i < log.n; i++)
        if (log.event[i].type == KB_EV_DICTIONARY)
            ck_assert_int_eq(log.event[i].as.dictionary.repr, KB_REPR_EXACT);
    kb_engine_scratch_free(s);
    kbt_log_close(&log);
}
END_TEST

/* Rewards of several levels at one point are one point to a rule without levels. */
START_TEST(another_rule_sees_all_levels_as_one_and_hands_them_back_apart)
{
    struct kb_spec spec = sup_spec(2, 1), plain;
    struct kbt_log log;
    struct kb_scratch *s = NULL;
    struct kb_decision before, after;
    double mean[N_ARMS];
    ck_assert_int_eq(kb_spec_preset(&plain, "k-ucb", 2, 2), KB_OK);
    open_log(&log, &spec, 12);
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    for (size_t t = 0; t < 12; t++)
        play(&log, t, contexts[t % 2], t % 3, (uint32_t)t % 4, (double)t / 12);
    ck_assert_uint_eq(support_of(&log), 9); /* t mod 4, less level 0 */
    decide(log.live, contexts[0], 1, s, &before);
    memcpy(mean, before.mean, sizeof mean);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&plain, 2), NULL), KB_OK);
    ck_assert_uint_eq(support_of(&log), 6);
    play(&log, 12, contexts[0], 0, 0, 0.25); /* taught under the other rule: no level's */
    ck_assert_uint_eq(support_of(&log), 6);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 3), NULL), KB_OK);
    ck_assert_uint_eq(support_of(&log), 9);
    decide(log.live, contexts[0], 1, s, &after);
    ck_assert(kbt_distance(N_ARMS, after.mean, mean) < 1e-12);
    for (int quiet = 0; quiet < 2; quiet++) {
        struct kb_engine *fold = kbt_log_fold(&log, NULL, 0, quiet);
        ck_assert_uint_eq(kb_engine_digest(fold), kb_engine_digest(log.live));
        kb_engine_free(fold);
    }
    kb_engine_scratch_free(s);
    kbt_log_close(&log);
}
END_TEST

int main(void)
{
    return KBT_RUN("elimination", choices_and_levels_are_those_of_one_dense_model_per_level,
                   the_scale_is_that_of_the_rewards, the_last_level_exploits,
                   an_arm_that_exploration_draws_teaches_no_level, equally_wide_arms_are_drawn_alike,
                   level_zero_and_the_rest_of_a_slate_are_kept_and_teach_nothing, observations_teach_the_first_level,
                   a_full_model_exploits_and_never_becomes_a_dictionary,
                   another_rule_sees_all_levels_as_one_and_hands_them_back_apart);
}
