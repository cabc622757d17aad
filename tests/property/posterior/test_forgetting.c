/* Forgetting against dense algebra: the model of observations with weights w_s, by their definition alone.
 *
 *   exact        mean = k^T (K + lambda W^-1)^-1 y               W = diag(w_s) over every observation, repeats and all
 *   dictionary   Phi = K_Zt W K_tZ + lambda K_ZZ,  mean = k_Z^T Phi^-1 K_Zt W y,
 *                variance = k - k_Z^T K_ZZ^-1 k_Z + lambda k_Z^T Phi^-1 k_Z
 *
 * Weights are relative to the unit, so that of the last observation is between 1 and 1/0.9 (decay.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "spec/decay.h"
#include "kbt_world.h"
#include "base/rng.h"
#include "posterior/learning.h"

#define N_EVENTS 150u
#define N_QUERIES 12u
#define N_USERS 6u
#define N_ARMS 4u

/* --- worlds that forget --------------------------------------------------------------------------------- */

struct forgetful {
    struct kbt_world w;
    double halvings[2 * N_EVENTS]; /* when each of w.seen was learned */
    double now;
};

/* What forgets: each representation, and the exact one without a factor. */
static const struct kind {
    enum kb_repr_type repr;
    bool is_diagonal;
} kinds[] = {{KB_REPR_EXACT, false},
             {KB_REPR_THRESHOLD, false},
             {KB_REPR_KORS, false},
             {KB_REPR_EXACT, true},
             {KB_REPR_BY_COMPONENT, false}};
#define N_KINDS (int)(sizeof kinds / sizeof kinds[0])

static struct kb_spec spec_of(struct kind kind)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "lk-gp-ucb", 2, 2), KB_OK);
    spec.repr.type = kind.repr;
    if (kind.is_diagonal) {
        spec.user_kernel.type = KB_USER_IDENTITY;
        spec.context_kernel.type = KB_VEC_ONES;
        spec.arm_kernel.type = KB_VEC_DELTA;
    }
    spec.repr.lambda = spec.repr.mu = 0.3;
    spec.repr.threshold = 0.2;
    spec.conf.type = KB_CONF_FIXED;
    return spec;
}

static void open(struct forgetful *f, struct kind kind)
{
    struct kb_spec spec = spec_of(kind);
    ck_assert(kb_spec_is_diagonal(&spec) == kind.is_diagonal);
    memset(f, 0, sizeof *f);
    kbt_world_open(&f->w, &spec, N_USERS, N_ARMS, true, 21);
}

/* Moves the posterior to the unit of now, as an engine does before a learning event. */
static void move_unit(struct forgetful *f)
{
    struct kb_posterior *p = f->w.posterior;
    f->w.history.unit = kb_decay_unit(f->now);
    if (!(f->w.history.unit > kb_posterior_unit(p)))
        return;
    ck_assert_int_eq(kb_posterior_reserve_spare(p), KB_OK);
    kb_posterior_prepare_unit(p, f->w.history.unit, &f->w.scratch);
    kb_posterior_take_unit(p, &f->w.scratch);
}

/* d_count 0: a correction of what was learned `halvings` ago. */
static void teach(struct forgetful *f, const struct kbt_observation *o, double d_count, double d_sum, double halvings)
{
    struct kbt_world *w = &f->w;
    struct kb_point pt = kbt_point(w, o);
    ck_assert_int_eq(kb_posterior_stage_learn(w->posterior, &pt, &w->scratch), KB_OK);
    ck_assert_int_eq(kb_history_reserve(&w->history, 1), KB_OK);
    ck_assert_int_eq(kbt_grow(w->posterior, &w->scratch), KB_OK);
    move_unit(f);
    double weight = exp2(halvings - w->history.unit);
    kb_history_add_then(&w->history, o->user, o->arm, 0, o->x, d_count, d_sum, halvings, w->n_seen + 1);
    kb_posterior_learn(w->posterior, &pt, weight * d_count, weight * d_sum, 0, &w->scratch);
}

static void learn(struct forgetful *f, struct kbt_observation o, double halvings_more)
{
    struct kbt_world *w = &f->w;
    f->now += w->n_seen > 0 ? halvings_more : 0;
    teach(f, &o, 1, o.reward, f->now);
    if (w->n_seen == w->cap_seen) {
        w->cap_seen = 2 * w->cap_seen + 64;
        w->seen = realloc(w->seen, w->cap_seen * sizeof *w->seen);
    }
    f->halvings[w->n_seen] = f->now;
    w->seen[w->n_seen++] = o;
}

/* --- the oracle ------------------------------------------------------------------------------------------- */

static void dense_gp(const struct forgetful *f, const struct kbt_observation *query, double *mean, double *variance)
{
    const struct kbt_world *w = &f->w;
    size_t t = w->n_seen;
    double unit = kb_decay_unit(f->now), *k = kbt_array(t * t), *column = kbt_array(t), *solved = kbt_array(t);
    for (size_t i = 0; i < t; i++)
        for (size_t j = 0; j < t; j++)
            k[i * t + j] = kbt_world_kernel(w, &w->seen[i], &w->seen[j]) +
                           (i == j ? fmin(1e12, w->spec.repr.lambda * exp2(unit - f->halvings[i])) : 0);
    for (size_t i = 0; i < t; i++)
        column[i] = kbt_world_kernel(w, &w->seen[i], query);
    kbt_solve(t, k, column, solved);
    *mean = 0;
    *variance = kbt_world_kernel(w, query, query);
    for (size_t i = 0; i < t; i++) {
        *mean += solved[i] * w->seen[i].reward;
        *variance -= solved[i] * column[i];
    }
    free(k), free(column), free(solved);
}

static void dense_dictionary(const struct forgetful *f, const struct kbt_observation *z, size_t m,
                             const struct kbt_observation *query, double *mean, double *variance)
{
    const struct kbt_world *w = &f->w;
    double unit = kb_decay_unit(f->now), *k_zz = kbt_array(m * m), *phi = kbt_array(m * m), *target = kbt_array(m);
    double *column = kbt_array(m), *by_gram = kbt_array(m), *by_phi = kbt_array(m);
    for (size_t i = 0; i < m; i++) {
        column[i] = kbt_world_kernel(w, &z[i], query);
        for (size_t j = 0; j < m; j++)
            phi[i * m + j] = w->spec.repr.lambda * (k_zz[i * m + j] = kbt_world_kernel(w, &z[i], &z[j]));
    }
    for (size_t s = 0; s < w->n_seen; s++) {
        double weight = exp2(f->halvings[s] - unit);
        for (size_t i = 0; i < m; i++) {
            double k_i = weight * kbt_world_kernel(w, &z[i], &w->seen[s]);
            target[i] += k_i * w->seen[s].reward;
            for (size_t j = 0; j < m; j++)
                phi[i * m + j] += k_i * kbt_world_kernel(w, &z[j], &w->seen[s]);
        }
    }
    kbt_solve(m, k_zz, column, by_gram);
    kbt_solve(m, phi, column, by_phi);
    *mean = 0;
    *variance = kbt_world_kernel(w, query, query);
    for (size_t i = 0; i < m; i++) {
        *mean += by_phi[i] * target[i];
        *variance += column[i] * (w->spec.repr.lambda * by_phi[i] - by_gram[i]);
    }
    free(k_zz), free(phi), free(target), free(column), free(by_gram), free(by_phi);
}

/* The rows by the weights that are left of them add up to the mean, but for points of which KB_LEAST_COUNT is kept. */
static void expect_terms(struct forgetful *f, const struct kbt_observation *query, double mean)
{
    double term[N_USERS], sum = kbt_terms(&f->w, query, term), size = fabs(sum);
    for (size_t u = 0; u < N_USERS; u++) {
        sum += term[u];
        size += fabs(term[u]);
    }
    ck_assert_msg(fabs(sum - mean) <= 1e-9 * (1 + size), "terms sum to %.15g, mean %.15g", sum, mean);
}

static void expect_dense(struct forgetful *f, const struct kb_posterior *p, double tol)
{
    struct kbt_observation atoms[2 * N_EVENTS * (KB_N_PARTS - 1)];
    size_t m = kbt_support(p, atoms);
    for (uint64_t i = 0; i < N_QUERIES; i++) {
        struct kbt_observation query = kbt_world_draw(&f->w, 9, i);
        double mean, variance, got_mean, got_sd;
        if (f->w.spec.repr.type == KB_REPR_EXACT)
            dense_gp(f, &query, &mean, &variance);
        else
            dense_dictionary(f, atoms, m, &query, &mean, &variance);
        kbt_predict(p, &f->w.scratch, &f->w, &query, &got_mean, &got_sd);
        ck_assert_msg(kbt_close(got_mean, mean, tol), "mean %.15g, expected %.15g", got_mean, mean);
        ck_assert_msg(kbt_close(got_sd * got_sd, variance, tol), "variance %.15g, expected %.15g", got_sd * got_sd,
                      variance);
        if (p == f->w.posterior)
            expect_terms(f, &query, got_mean);
    }
}

/* --- models ------------------------------------------------------------------------------------------------ */

/* Halvings from one observation to the next: discounts 0.999, 0.95, 0.5, and 1e-6. */
static const double rates[] = {0.00144, 0.074, 1, 20};

/* Admission as the engine does it: right after what was learned. */
static void run(struct forgetful *f, double rate)
{
    for (uint64_t i = 0; i < N_EVENTS; i++) {
        struct kbt_observation o = kbt_world_draw(&f->w, 5, i);
        learn(f, o, rate);
        kbt_world_admit(&f->w, &o, kb_rng_uniform(5, KB_STREAM_DICTIONARY, i));
    }
}

START_TEST(weights_are_those_of_the_definition)
{
    struct forgetful f;
    struct kb_posterior_facts facts;
    open(&f, kinds[_i % N_KINDS]);
    run(&f, rates[_i / N_KINDS]);
    ck_assert_uint_gt(kb_posterior_n_support(f.w.posterior), 5);
    expect_dense(&f, f.w.posterior, 1e-8);
    ck_assert_int_eq(kb_posterior_facts(f.w.posterior, &facts), KB_OK);
    ck_assert_uint_eq(facts.n_clamped, 0);
    kbt_world_close(&f.w);
}
END_TEST

/* A reset builds from the rows what learning has come to, one step after the other. */
START_TEST(a_model_built_at_once_is_the_one_that_has_learned)
{
    struct forgetful f;
    struct kb_atom atoms[N_EVENTS * (KB_N_PARTS - 1)];
    struct kbt_observation points[2 * N_EVENTS * (KB_N_PARTS - 1)];
    open(&f, kinds[_i % N_KINDS]);
    run(&f, rates[_i / N_KINDS]);
    size_t m = kbt_support(f.w.posterior, points);
    for (size_t i = 0; i < m; i++)
        atoms[i] = (struct kb_atom){kb_history_find(&f.w.history, points[i].user, points[i].arm, points[i].x), 1};
    struct kb_posterior *p = kbt_world_fill(&f.w, atoms, f.w.spec.repr.type == KB_REPR_EXACT ? 0 : m);
    ck_assert_double_eq(kb_posterior_unit(p), kb_posterior_unit(f.w.posterior));
    for (uint64_t i = 0; i < N_QUERIES; i++) {
        struct kbt_observation query = kbt_world_draw(&f.w, 9, i);
        double mean[2], sd[2];
        kbt_predict(f.w.posterior, &f.w.scratch, &f.w, &query, &mean[0], &sd[0]);
        kbt_predict(p, &f.w.scratch, &f.w, &query, &mean[1], &sd[1]);
        ck_assert(kbt_close(mean[0], mean[1], 1e-8) && kbt_close(sd[0], sd[1], 1e-8));
    }
    kb_posterior_free(p);
    kbt_world_close(&f.w);
}
END_TEST

/* A pause after which nothing is left: the prior, but for what is learned from then on; points that had faded away
 * learn again. */
START_TEST(what_has_faded_away_learns_again)
{
    static const double pauses[] = {14, 40, 300, 5000};
    struct forgetful f;
    open(&f, kinds[_i]);
    run(&f, 0.01);
    for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
        for (uint64_t k = 0; k < 4; k++)
            learn(&f, kbt_world_draw(&f.w, 5, 7 * k + i), k == 0 ? pauses[i] : 0.1);
        for (size_t k = 0; k + 4 < f.w.n_seen && pauses[i] > 100; k++)
            f.halvings[k] = -1e9;
        expect_dense(&f, f.w.posterior, 1e-8);
    }
    kbt_world_close(&f.w);
}
END_TEST

/* A correction finds its observation at the weight that it has by now. */
START_TEST(a_correction_weighs_what_its_observation_does)
{
    struct forgetful f;
    open(&f, kinds[_i]);
    run(&f, 0.074);
    for (size_t i = 3; i < N_EVENTS; i += 11) {
        struct kbt_observation *o = &f.w.seen[i];
        teach(&f, o, 0, 2.5 - o->reward, f.halvings[i]);
        o->reward = 2.5;
    }
    expect_dense(&f, f.w.posterior, 1e-8);
    kbt_world_close(&f.w);
}
END_TEST

/* A point whose sweep takes as long as 6 observations, under a rate at which the unit moves meanwhile. */
START_TEST(a_point_that_enters_slowly_finds_the_weights_of_its_end)
{
    struct forgetful f;
    uint64_t next = 0;
    size_t n_entered = 0;
    open(&f, kinds[1 + _i]);
    for (size_t round = 0; round < 40; round++) {
        struct kbt_observation o = kbt_world_draw(&f.w, 5, next++);
        learn(&f, o, 0.074);
        if (!kbt_world_begin(&f.w, &o, kb_rng_uniform(5, KB_STREAM_DICTIONARY, round)))
            continue;
        struct kb_history view = f.w.history;
        double *copies = kbt_array(3 * view.n);
        view.count = memcpy(copies, view.count, view.n * sizeof *copies);
        view.sum = memcpy(copies + view.n, view.sum, view.n * sizeof *copies);
        view.halvings = memcpy(copies + 2 * view.n, view.halvings, view.n * sizeof *copies);
        for (size_t i = 0; i < 6; i++)
            learn(&f, kbt_world_draw(&f.w, 5, next++), 0.074);
        view.user = f.w.history.user, view.arm = f.w.history.arm, view.level = f.w.history.level;
        view.x = f.w.history.x;
        kbt_world_end(&f.w, &view);
        free(copies);
        n_entered++;
        expect_dense(&f, f.w.posterior, 1e-8);
    }
    ck_assert_uint_gt(n_entered, 5);
    kbt_world_close(&f.w);
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES("forgetting", 60, {weights_are_those_of_the_definition, 4 * N_KINDS},
                         {a_model_built_at_once_is_the_one_that_has_learned, 4 * N_KINDS},
                         {what_has_faded_away_learns_again, N_KINDS},
                         {a_correction_weighs_what_its_observation_does, N_KINDS},
                         {a_point_that_enters_slowly_finds_the_weights_of_its_end, 2});
}
