/* Confidence rules against their formulas in plain dense algebra over all t observations, repeats and all. */
#include "rules/confidence.h"

#include <math.h>
#include <stdlib.h>

#include "kbt_world.h"
#include "posterior/spectrum.h"
#include "posterior/learning.h"

#define N_QUERIES 12u
#define SIGMA 0.3
#define DELTA 0.05
#define LAMBDA 0.2

/* A world of one population over contexts and arms whose rule is `type`; points repeat. */
static void open_world_at(struct kbt_world *w, enum kb_conf_type type, double lambda, size_t n_events)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "gp-ucb", 2, 3), KB_OK);
    spec.repr.lambda = lambda;
    spec.conf = (struct kb_conf_spec){.type = type, .beta = 1.5, .norm_bound = 9, .noise = SIGMA, .delta = DELTA};
    kbt_world_open(w, &spec, 4, 5, false, 9);
    kbt_world_run(w, n_events, 17);
    ck_assert_int_eq(kb_posterior_settle(w->posterior, &w->scratch), KB_OK);
    kb_posterior_publish(w->posterior);
}

static void open_world(struct kbt_world *w, enum kb_conf_type type, size_t n_events)
{
    open_world_at(w, type, LAMBDA, n_events);
}

/* Mean and bounds of one point, as a decision with a single candidate. */
static void bounds_of(struct kbt_world *w, const struct kbt_observation *o, double *mean, double *lower, double *upper)
{
    double sd, score;
    const double *features = o->x + w->spec.context_dim;
    struct kb_point pt = kbt_point(w, o);
    const struct kb_candidates cand = {
        .user = pt.user, .context = o->x, .n = 1, .arms = &pt.arm, .features = &features};
    kbt_predict(w->posterior, &w->scratch, w, o, mean, &sd);
    ck_assert_int_eq(kb_posterior_fit_scratch(w->posterior, &w->scratch, 0), KB_OK);
    kb_confidence_bounds(w->posterior, &w->spec.conf, &cand, &w->scratch, mean, &sd, lower, upper, &score);
    ck_assert_double_eq(score, *upper);
}

/* B in force and B_min. */
static void norm_of(const struct kb_posterior *p, const struct kb_conf_spec *conf, double *bound, double *least)
{
    struct kb_conf_facts facts;
    kb_confidence_facts(p, conf, &facts);
    *bound = facts.norm_bound;
    *least = facts.norm_least;
}

/* --- the dense oracle ------------------------------------------------------------------------------------ */

struct dense {
    double mean, sd, energy, log_det, effective_dimension, largest_diag;
};

/* y^T (K + a I)^-1 y over all observations. */
static double dense_energy(const struct kbt_world *w, double a)
{
    size_t n = w->n_seen;
    double *k = kbt_array(n * n), *y = kbt_array(n), *x = kbt_array(n), sum = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++)
            k[i * n + j] = kbt_world_kernel(w, &w->seen[i], &w->seen[j]) + (i == j ? a : 0);
        y[i] = w->seen[i].reward;
    }
    kbt_solve(n, k, y, x);
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    free(k), free(y), free(x);
    return sum;
}

/* All that the formulas name, at ridge a. */
static struct dense dense_at(struct kbt_world *w, const struct kbt_observation *o, double a)
{
    struct dense d = {0};
    double variance;
    w->spec.repr.lambda = a;
    kbt_dense_gp(w, o, 1, &d.mean, &variance);
    d.sd = sqrt(variance);
    d.log_det = 2 * kbt_dense_information_gain(w);
    d.effective_dimension = kbt_dense_effective_dimension(w);
    w->spec.repr.lambda = LAMBDA;
    d.energy = dense_energy(w, a);
    for (size_t i = 0; i < w->n_seen; i++)
        d.largest_diag = fmax(d.largest_diag, kbt_world_kernel(w, &w->seen[i], &w->seen[i]));
    return d;
}

/* R_a / sqrt(a) of TC eq. 12 with the scatter of repeats left in. */
static double dense_radius(const struct kbt_world *w, const struct dense *at_0, const struct dense *at_a, double a)
{
    double b = w->spec.conf.norm_bound;
    double r_sq = LAMBDA * at_0->energy + SIGMA * SIGMA * at_0->log_det + 2 * SIGMA * SIGMA * log(1 / DELTA);
    return sqrt((r_sq + a * b * b - a * at_a->energy) / a);
}

/* The least upper and the largest lower bound over n ridges. */
static void dense_minimum(struct kbt_world *w, const struct kbt_observation *o, const double *a, size_t n,
                          double *lower, double *upper)
{
    struct dense at_0 = dense_at(w, o, LAMBDA);
    *lower = -INFINITY, *upper = INFINITY;
    for (size_t i = 0; i < n; i++) {
        struct dense d = dense_at(w, o, a[i]);
        double half = dense_radius(w, &at_0, &d, a[i]) * d.sd;
        *lower = fmax(*lower, d.mean - half);
        *upper = fmin(*upper, d.mean + half);
    }
}

static void expect_bounds(struct kbt_world *w, const struct kbt_observation *o, double lower, double upper, double tol)
{
    double mean, l, u;
    bounds_of(w, o, &mean, &l, &u);
    ck_assert_msg(kbt_close(u, upper, tol), "upper %.15g, expected %.15g", u, upper);
    ck_assert_msg(kbt_close(l, lower, tol), "lower %.15g, expected %.15g", l, lower);
}

/* --- one radius for all candidates ------------------------------------------------------------------------- */

/* Radius of rule `type` in units of sd, from the formulas of the header of conf_radius.c, by hand. */
static double closed_radius(enum kb_conf_type type, const struct dense *d, const struct kbt_world *w)
{
    double t = (double)w->n_seen, b = 9;
    switch ((int)type) {
    case KB_CONF_FIXED:
        return 1.5;
    case KB_CONF_LK:
    case KB_CONF_AY:
        return b + sqrt(SIGMA * SIGMA / LAMBDA * (2 * log(1 / DELTA) + d->log_det));
    case KB_CONF_IGP:
        return b + SIGMA / sqrt(fmin(1, LAMBDA)) * sqrt(d->log_det + 2 + 2 * log(1 / DELTA));
    case KB_CONF_EK:
        return (sqrt(LAMBDA) * b + SIGMA * sqrt(2 * log(1 / DELTA) + log(M_E + M_E * t * d->largest_diag / LAMBDA) *
                                                                         d->effective_dimension)) /
               sqrt(LAMBDA);
    default:
        return sqrt(b * b + SIGMA * SIGMA / LAMBDA * (d->log_det + 2 * log(1 / DELTA)));
    }
}

START_TEST(closed_forms_equal_their_formulas_on_repeated_points)
{
    static const enum kb_conf_type types[] = {KB_CONF_FIXED, KB_CONF_LK,  KB_CONF_EK,
                                              KB_CONF_AY,    KB_CONF_IGP, KB_CONF_AMM};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct kbt_world w;
        open_world(&w, types[i], 60);
        ck_assert_uint_lt(kb_posterior_n_support(w.posterior), 55); /* some repeat */
        for (size_t q = 0; q < N_QUERIES; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            struct dense d = dense_at(&w, &o, LAMBDA);
            double half = closed_radius(types[i], &d, &w) * d.sd;
            expect_bounds(&w, &o, d.mean - half, d.mean + half, 1e-9);
        }
        kbt_world_close(&w);
    }
}
END_TEST

/* At a ridge of 1 and more it is the paper's; below 1 the paper's number is no bound. */
START_TEST(igp_is_never_below_theorem_4_1_of_lk_at_any_ridge)
{
    static const double ridges[] = {1e-4, 0.01, 0.5, 1, 1.002, 4};
    for (size_t i = 0; i < sizeof ridges / sizeof *ridges; i++) {
        struct kbt_world igp, lk;
        double mean, lower, upper, l, u;
        open_world_at(&igp, KB_CONF_IGP, ridges[i], 60);
        open_world_at(&lk, KB_CONF_LK, ridges[i], 60);
        struct kbt_observation o = kbt_world_draw(&igp, 99, 0);
        double gain = 2 * kbt_dense_information_gain(&igp), sd;
        double paper = igp.spec.conf.norm_bound + SIGMA * sqrt(gain + 2 + 2 * log(1 / DELTA));
        kbt_predict(igp.posterior, &igp.scratch, &igp, &o, &mean, &sd);
        bounds_of(&lk, &o, &mean, &l, &u);
        bounds_of(&igp, &o, &mean, &lower, &upper);
        ck_assert_msg(upper >= u && lower <= l, "lambda %g", ridges[i]);
        ck_assert_int_eq(kbt_close(upper, mean + paper * sd, 1e-9), ridges[i] >= 1);
        kbt_world_close(&igp);
        kbt_world_close(&lk);
    }
}
END_TEST

START_TEST(ek_is_lemma_3_1_on_the_observed_points)
{
    struct kbt_world w;
    open_world(&w, KB_CONF_EK, 40);
    const struct kb_spectrum *sp = kb_posterior_spectrum(w.posterior);
    struct kbt_observation o = kbt_world_draw(&w, 99, 0);
    struct dense d = dense_at(&w, &o, LAMBDA);
    ck_assert_double_eq(sp->n_observed, 40);
    ck_assert(kbt_close(sp->largest_diag, d.largest_diag, 1e-14));
    /* what the lemma uses kappa for: ln det(I + K/a) <= d_eff ln(e + e t kappa^2 / a) */
    ck_assert_double_le(d.log_det, d.effective_dimension * log(M_E * (1 + 40 * d.largest_diag / LAMBDA)));
    kbt_world_close(&w);
}
END_TEST

/* --- minima over the ridge --------------------------------------------------------------------------------- */

START_TEST(amm_is_the_ridge_lambda_of_the_dual)
{
    struct kbt_world w;
    double lower, upper;
    open_world(&w, KB_CONF_AMM, 45);
    for (size_t q = 0; q < N_QUERIES; q++) {
        struct kbt_observation o = kbt_world_draw(&w, 99, q);
        dense_minimum(&w, &o, (const double[]){LAMBDA}, 1, &lower, &upper);
        expect_bounds(&w, &o, lower, upper, 1e-9);
    }
    kbt_world_close(&w);
}
END_TEST

/* Norms from just above what the data prove upwards: the smaller, the larger the ridge that wins. */
START_TEST(dmm_is_the_best_of_its_five_ridges_and_each_wins_somewhere)
{
    const double a[] = {LAMBDA, 3 * LAMBDA, 10 * LAMBDA, 30 * LAMBDA, 100 * LAMBDA};
    struct kbt_world w;
    double lower, upper, one_lower, one_upper, norm, least;
    size_t n_won[5] = {0};
    open_world(&w, KB_CONF_DMM, 0);
    for (uint64_t i = 0; i < 30; i++) { /* small rewards: small norms are possible, too */
        struct kbt_observation o = kbt_world_draw(&w, 17, i);
        o.reward *= 0.1;
        kbt_world_learn(&w, &o);
    }
    ck_assert_int_eq(kb_posterior_settle(w.posterior, &w.scratch), KB_OK);
    kb_posterior_publish(w.posterior);
    norm_of(w.posterior, &w.spec.conf, &norm, &least);
    for (double b = fmax(0.05, 1.01 * least); b < 20; b *= 1.7) {
        w.spec.conf.norm_bound = b;
        for (size_t q = 0; q < N_QUERIES; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            dense_minimum(&w, &o, a, 5, &lower, &upper);
            expect_bounds(&w, &o, lower, upper, 1e-9);
            for (size_t i = 0; i < 5; i++) {
                dense_minimum(&w, &o, &a[i], 1, &one_lower, &one_upper);
                n_won[i] += one_upper == upper;
            }
        }
    }
    for (size_t i = 0; i < 5; i++)
        ck_assert_msg(n_won[i] > 0, "the ridge %g lambda never wins", a[i] / LAMBDA);
    kbt_world_close(&w);
}
END_TEST

/* TC's own grid, a tenth of ours: the larger the norm, the smaller the ridge that wins. */
START_TEST(dmm_starts_its_grid_where_it_is_told_to)
{
    const double own[] = {0.1 * LAMBDA, 0.3 * LAMBDA, LAMBDA, 3 * LAMBDA, 10 * LAMBDA};
    struct kbt_world w;
    double lower, upper, one_lower, one_upper;
    size_t n_won = 0; /* by a ridge that is not in ours */
    open_world(&w, KB_CONF_DMM, 30);
    w.spec.conf.grid_start = 0.1;
    for (double b = 9; b < 1000; b *= 10) {
        w.spec.conf.norm_bound = b;
        for (size_t q = 0; q < N_QUERIES; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            dense_minimum(&w, &o, own, 5, &lower, &upper);
            expect_bounds(&w, &o, lower, upper, 1e-9 * b);
            dense_minimum(&w, &o, own, 2, &one_lower, &one_upper);
            n_won += one_upper == upper;
        }
    }
    ck_assert_uint_gt(n_won, 0);
    kbt_world_close(&w);
}
END_TEST

START_TEST(cmm_is_the_minimum_over_a_fine_grid_of_ridges)
{
    double a[300], lower, upper, mean, l, u;
    struct kbt_world w;
    open_world(&w, KB_CONF_CMM, 30);
    for (size_t i = 0; i < 300; i++)
        a[i] = LAMBDA * pow(10, -6 + 10 * (double)i / 299);
    for (size_t q = 0; q < 6; q++) {
        struct kbt_observation o = kbt_world_draw(&w, 99, q);
        dense_minimum(&w, &o, a, 300, &lower, &upper);
        bounds_of(&w, &o, &mean, &l, &u);
        ck_assert_double_le(u, upper + 1e-6 * (1 + fabs(upper)));
        ck_assert_double_ge(l, lower - 1e-6 * (1 + fabs(lower)));
        ck_assert(kbt_close(u, upper, 2e-3) && kbt_close(l, lower, 2e-3)); /* the grid's own coarseness */
    }
    kbt_world_close(&w);
}
END_TEST

START_TEST(widths_fall_from_ay_over_amm_and_dmm_to_cmm)
{
    static const enum kb_conf_type order[] = {KB_CONF_AY, KB_CONF_AMM, KB_CONF_DMM, KB_CONF_CMM};
    double lower[4][N_QUERIES], upper[4][N_QUERIES], mean;
    for (size_t r = 0; r < 4; r++) {
        struct kbt_world w;
        open_world(&w, order[r], 60);
        for (size_t q = 0; q < N_QUERIES; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            bounds_of(&w, &o, &mean, &lower[r][q], &upper[r][q]);
            if (r > 0) {
                ck_assert_double_le(upper[r][q], upper[r - 1][q] + 1e-9);
                ck_assert_double_ge(lower[r][q], lower[r - 1][q] - 1e-9);
            }
        }
        kbt_world_close(&w);
    }
}
END_TEST

START_TEST(without_data_the_bound_is_the_prior_of_norm_b)
{
    struct kbt_world w;
    open_world(&w, KB_CONF_CMM, 0);
    struct kbt_observation o = kbt_world_draw(&w, 99, 1);
    double limit = 9 * sqrt(kbt_world_kernel(&w, &o, &o));
    expect_bounds(&w, &o, -limit, limit, 1e-8);
    kbt_world_close(&w);
}
END_TEST

START_TEST(no_candidates_are_fine)
{
    struct kbt_world w;
    double untouched = 7;
    const struct kb_candidates none = {0};
    open_world(&w, KB_CONF_FIXED, 3);
    kb_confidence_bounds(w.posterior, &w.spec.conf, &none, &w.scratch, NULL, NULL, NULL, NULL, &untouched);
    ck_assert_double_eq(untouched, 7);
    kbt_world_close(&w);
}
END_TEST

/* --- the norm ----------------------------------------------------------------------------------------------- */

START_TEST(a_norm_below_what_the_data_prove_falls_back_to_fixed_and_is_counted)
{
    struct kbt_world w;
    struct kb_posterior_facts facts;
    double norm, least, mean, lower, upper, m, sd;
    open_world(&w, KB_CONF_CMM, 60);
    w.spec.conf.noise = 0.01; /* the rewards are far noisier: no smooth function explains them */
    norm_of(w.posterior, &w.spec.conf, &norm, &least);
    ck_assert_double_eq(norm, 9);
    ck_assert_double_gt(least, 0);
    struct kbt_observation o = kbt_world_draw(&w, 99, 1);
    for (int k = 0; k < 2; k++) {
        w.spec.conf.norm_bound = least * (k == 0 ? 0.999 : 1.001);
        bounds_of(&w, &o, &mean, &lower, &upper);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &m, &sd);
        ck_assert(kbt_close(upper, m + 1.5 * sd, 1e-12) == (k == 0));
        ck_assert_int_eq(kb_posterior_facts(w.posterior, &facts), KB_OK);
        ck_assert_uint_eq(facts.n_empty, 1);
    }
    kbt_world_close(&w);
}
END_TEST

START_TEST(the_least_norm_is_where_the_dual_turns_negative)
{
    struct kbt_world w;
    double norm, least, best = 0;
    open_world(&w, KB_CONF_DMM, 40);
    w.spec.conf.noise = SIGMA / 10;
    norm_of(w.posterior, &w.spec.conf, &norm, &least);
    struct kbt_observation o = kbt_world_draw(&w, 99, 1);
    struct dense at_0 = dense_at(&w, &o, LAMBDA);
    double r_sq = LAMBDA * at_0.energy + SIGMA * SIGMA / 100 * (at_0.log_det + 2 * log(1 / DELTA));
    for (int i = 0; i < 200; i++) {
        double a = LAMBDA * pow(10, -3 + 5.0 * i / 199);
        best = fmax(best, dense_energy(&w, a) - r_sq / a);
    }
    ck_assert_double_gt(best, 0);
    ck_assert_double_ge(least * least, best * (1 - 1e-9));
    ck_assert(kbt_close_relative(least, sqrt(best), 1e-3));
    kbt_world_close(&w);
}
END_TEST

START_TEST(auto_follows_the_least_norm_where_the_rule_finds_one)
{
    struct kbt_world w;
    double norm, least;
    open_world(&w, KB_CONF_DMM, 60);
    w.spec.conf.norm_bound = 0;
    w.spec.conf.noise = 0.01;
    norm_of(w.posterior, &w.spec.conf, &norm, &least);
    ck_assert_double_gt(least, 1);
    ck_assert_double_eq(norm, 1.2 * least);
    w.spec.conf.noise = 10; /* so much noise that nothing is proved */
    norm_of(w.posterior, &w.spec.conf, &norm, &least);
    ck_assert_double_eq(least, 0);
    ck_assert_double_eq(norm, 1);
    w.spec.conf.type = KB_CONF_AMM;
    norm_of(w.posterior, &w.spec.conf, &norm, &least);
    ck_assert_double_eq(norm, 1);
    kbt_world_close(&w);
}
END_TEST

/* --- settling ------------------------------------------------------------------------------------------------- */

/* What was found for one rule is taken for it and for no other; a new spectrum knows nothing of it. */
START_TEST(what_a_rule_finds_is_found_once_for_each_spectrum_and_rule)
{
    struct kbt_world w, fresh;
    double mean, lower[4], upper[4];
    open_world(&w, KB_CONF_CMM, 40);
    open_world(&fresh, KB_CONF_CMM, 40);
    const struct kbt_observation o = kbt_world_draw(&w, 99, 1);
    const struct kb_spectrum *sp = kb_posterior_spectrum(w.posterior);
    bounds_of(&w, &o, &mean, &lower[0], &upper[0]);
    ck_assert_int_eq(atomic_load(&sp->memo.stage), KB_MEMO_THERE);
    bounds_of(&w, &o, &mean, &lower[1], &upper[1]);
    ck_assert(lower[0] == lower[1] && upper[0] == upper[1]);
    w.spec.conf.noise = fresh.spec.conf.noise = 2 * SIGMA;
    bounds_of(&w, &o, &mean, &lower[2], &upper[2]);
    bounds_of(&fresh, &o, &mean, &lower[3], &upper[3]);
    ck_assert(lower[2] == lower[3] && upper[2] == upper[3] && upper[2] > upper[0]);
    w.spec.conf.noise = SIGMA;
    ((struct kb_spectrum *)sp)->memo.finding.norm_least = 1e9; /* a finding that shows when it is taken */
    bounds_of(&w, &o, &mean, &lower[3], &upper[3]);
    ck_assert(upper[3] != upper[0]);
    kbt_world_learn(&w, &o);
    ck_assert_int_eq(kb_posterior_settle(w.posterior, &w.scratch), KB_OK);
    kb_posterior_publish(w.posterior);
    ck_assert_int_eq(atomic_load(&kb_posterior_spectrum(w.posterior)->memo.stage), KB_MEMO_EMPTY);
    kbt_world_close(&fresh);
    kbt_world_close(&w);
}
END_TEST

START_TEST(bounds_are_those_of_the_last_published_spectrum)
{
    struct kbt_world w;
    double mean, lower, upper, l, u;
    open_world(&w, KB_CONF_CMM, 30);
    struct kbt_observation o = kbt_world_draw(&w, 99, 1);
    bounds_of(&w, &o, &mean, &lower, &upper);
    kbt_world_run(&w, 30, 71); /* new points, and more of known ones */
    expect_bounds(&w, &o, lower, upper, 1e-13);
    ck_assert_int_eq(kb_posterior_settle(w.posterior, &w.scratch), KB_OK);
    ck_assert(kb_posterior_has_settled(w.posterior));
    expect_bounds(&w, &o, lower, upper, 1e-13);
    kb_posterior_publish(w.posterior);
    bounds_of(&w, &o, &mean, &l, &u);
    ck_assert_double_lt(u - l, upper - lower);
    ck_assert_int_eq(kb_posterior_settle(w.posterior, &w.scratch), KB_OK); /* nothing new: nothing to do */
    ck_assert(!kb_posterior_has_settled(w.posterior));
    kbt_world_close(&w);
}
END_TEST

START_TEST(without_memory_the_last_spectrum_stays_and_the_next_try_goes_on)
{
    struct kbt_world w;
    double mean, lower, upper;
    size_t at = 1;
    open_world(&w, KB_CONF_DMM, 30);
    struct kbt_observation o = kbt_world_draw(&w, 99, 1);
    bounds_of(&w, &o, &mean, &lower, &upper);
    kbt_world_run(&w, 10, 71);
    for (;; at++) {
        kbt_alloc_watch(at);
        enum kb_err rc = kb_posterior_settle(w.posterior, &w.scratch);
        kbt_alloc_unwatch();
        if (rc == KB_OK)
            break;
        ck_assert_int_eq(rc, KB_ENOMEM);
        ck_assert(!kb_posterior_has_settled(w.posterior));
        expect_bounds(&w, &o, lower, upper, 1e-13);
    }
    ck_assert_uint_gt(at, 5);
    ck_assert(kb_posterior_has_settled(w.posterior));
    kbt_world_close(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "confidence", closed_forms_equal_their_formulas_on_repeated_points,
        igp_is_never_below_theorem_4_1_of_lk_at_any_ridge, ek_is_lemma_3_1_on_the_observed_points,
        amm_is_the_ridge_lambda_of_the_dual, dmm_is_the_best_of_its_five_ridges_and_each_wins_somewhere,
        dmm_starts_its_grid_where_it_is_told_to, cmm_is_the_minimum_over_a_fine_grid_of_ridges,
        widths_fall_from_ay_over_amm_and_dmm_to_cmm, without_data_the_bound_is_the_prior_of_norm_b,
        no_candidates_are_fine, a_norm_below_what_the_data_prove_falls_back_to_fixed_and_is_counted,
        the_least_norm_is_where_the_dual_turns_negative, auto_follows_the_least_norm_where_the_rule_finds_one,
        bounds_are_those_of_the_last_published_spectrum, what_a_rule_finds_is_found_once_for_each_spectrum_and_rule,
        without_memory_the_last_spectrum_stays_and_the_next_try_goes_on);
}
