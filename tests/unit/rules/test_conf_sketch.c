/* Bounds over a dictionary against their definitions in plain dense algebra: the running sums of the prequential
 * radius, the projection error, and every form of the rules, whose maximum over |q| is sought here by brute force. */
#include "rules/confidence.h"

#include <math.h>
#include <stdlib.h>

#include "kbt_world.h"
#include "posterior/posterior_impl.h"
#include "posterior/projection_error.h"
#include "base/rng.h"
#include "posterior/spectrum.h"

#define SIGMA 0.3
#define DELTA 0.05
#define LAMBDA 0.2
#define NORM 9.0
#define N_QUERIES 6u

static void settle(struct kbt_world *w)
{
    ck_assert_int_eq(kb_posterior_settle(w->posterior, &w->scratch), KB_OK);
    kb_posterior_publish(w->posterior);
}

static struct kb_spec spec_of(enum kb_repr_type repr, enum kb_conf_type type)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "ek-ucb", 2, 3), KB_OK);
    spec.user_kernel.type = KB_USER_LAPLACIAN;
    spec.repr.type = repr;
    spec.repr.lambda = LAMBDA;
    spec.repr.mu = 2;
    spec.repr.gamma = 0.5; /* a coarse dictionary: much is missed */
    spec.repr.threshold = 0.3;
    spec.conf = (struct kb_conf_spec){.type = type, .beta = 1.5, .norm_bound = NORM, .noise = SIGMA, .delta = DELTA};
    return spec;
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

/* K_t (t x t), its part F F^T = K_tZ K_ZZ^-1 K_Zt, and the dictionary. */
struct dense {
    size_t t, m;
    double *k, *part, *y;
    struct kbt_observation *z;
    double *k_zz;
};

static struct dense dense_open(const struct kbt_world *w, const struct kb_posterior *p)
{
    struct dense d = {.t = w->n_seen, .m = kb_posterior_n_support(p)};
    d.k = kbt_array(d.t * d.t + 1), d.part = kbt_array(d.t * d.t + 1), d.y = kbt_array(d.t + 1);
    d.z = calloc(d.m + 1, sizeof *d.z), d.k_zz = kbt_array(d.m * d.m + 1);
    kbt_support(p, d.z);
    double *column = kbt_array(d.m + 1), *solved = kbt_array(d.m + 1);
    for (size_t i = 0; i < d.m * d.m; i++)
        d.k_zz[i] = kbt_world_kernel(w, &d.z[i / d.m], &d.z[i % d.m]);
    for (size_t i = 0; i < d.t; i++) {
        for (size_t a = 0; a < d.m; a++)
            column[a] = kbt_world_kernel(w, &d.z[a], &w->seen[i]);
        kbt_solve(d.m, d.k_zz, column, solved);
        for (size_t j = 0; j < d.t; j++) {
            d.k[i * d.t + j] = kbt_world_kernel(w, &w->seen[i], &w->seen[j]);
            for (size_t a = 0; a < d.m; a++)
                d.part[i * d.t + j] += solved[a] * kbt_world_kernel(w, &d.z[a], &w->seen[j]);
        }
        d.y[i] = w->seen[i].reward;
    }
    free(column), free(solved);
    return d;
}

static void dense_close(struct dense *d)
{
    free(d->k), free(d->part), free(d->y), free(d->z), free(d->k_zz);
}

static double dense_trace(const struct dense *d)
{
    double sum = 0;
    for (size_t i = 0; i < d->t; i++)
        sum += d->k[i * (d->t + 1)] - d->part[i * (d->t + 1)];
    return sum;
}

/* Eigenvalues of K_t - F F^T (is_rest) or F F^T. */
static double *dense_values(const struct dense *d, bool is_rest)
{
    double *a = kbt_array(d->t * d->t + 1), *values = kbt_array(d->t + 1), *vectors = kbt_array(d->t * d->t + 1);
    for (size_t i = 0; i < d->t * d->t; i++)
        a[i] = is_rest ? d->k[i] - d->part[i] : d->part[i];
    kbt_eigen(d->t, a, values, vectors);
    free(a), free(vectors);
    return values;
}

static double largest(const struct dense *d)
{
    double *values = dense_values(d, true), most = 0;
    for (size_t i = 0; i < d->t; i++)
        most = fmax(most, values[i]);
    free(values);
    return most;
}

/* ln det(I + F F^T / a), and tr F F^T (F F^T + a)^-1. */
static double dense_log_det(const struct dense *d, double a, double *dimension)
{
    double *values = dense_values(d, false), sum = 0;
    *dimension = 0;
    for (size_t i = 0; i < d->t; i++) {
        sum += log1p(fmax(0, values[i]) / a);
        *dimension += fmax(0, values[i]) / (fmax(0, values[i]) + a);
    }
    free(values);
    return sum;
}

/* mean, w2, r of a query at ridge a, and a y^T (F F^T + a I)^-1 y. */
struct at {
    double mean, spread, residual, sse;
};

static struct at dense_at(struct kbt_world *w, const struct dense *d, const struct kbt_observation *q, double a)
{
    struct at at = {0};
    double *shifted = kbt_array(d->t * d->t + 1), *x = kbt_array(d->t + 1), *column = kbt_array(d->m + 1);
    double *solved = kbt_array(d->m + 1), variance;
    for (size_t i = 0; i < d->t * d->t; i++)
        shifted[i] = d->part[i] + (i % (d->t + 1) == 0 ? a : 0);
    kbt_solve(d->t, shifted, d->y, x);
    for (size_t i = 0; i < d->t; i++)
        at.sse += a * d->y[i] * x[i];
    for (size_t i = 0; i < d->m; i++)
        column[i] = kbt_world_kernel(w, &d->z[i], q);
    kbt_solve(d->m, d->k_zz, column, solved);
    at.residual = kbt_world_kernel(w, q, q);
    for (size_t i = 0; i < d->m; i++)
        at.residual -= column[i] * solved[i];
    w->spec.repr.lambda = a;
    kbt_dense_nystrom(w, d->z, d->m, q, 1, &at.mean, &variance);
    w->spec.repr.lambda = LAMBDA;
    at.spread = (variance - at.residual) / a;
    free(shifted), free(x), free(column), free(solved);
    return at;
}

/* --- the sums ---------------------------------------------------------------------------------------------- */

/* Every reward foretold by the dense posterior over the dictionary of its time, at a ridge. */
static void expect_foretold(size_t component, bool is_mixture)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_THRESHOLD, KB_CONF_CMM);
    spec.conf.is_mixture = is_mixture;
    kbt_world_open(&w, &spec, 4, 5, true, 9);
    double energy = 0, log_det = 0, square = 0, a = LAMBDA * kb_mixture_ridge[component];
    for (uint64_t i = 0; i < 70; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 17, i), z[80];
        double mean = 0, variance = kbt_world_kernel(&w, &o, &o);
        size_t m = kbt_support(w.posterior, z);
        w.spec.repr.lambda = a;
        if (m > 0)
            kbt_dense_nystrom(&w, z, m, &o, 1, &mean, &variance);
        w.spec.repr.lambda = LAMBDA;
        energy += (o.reward - mean) * (o.reward - mean) / (1 + variance / a);
        log_det += log(1 + variance / a);
        square += o.reward * o.reward;
        kbt_world_learn(&w, &o);
        kbt_world_admit(&w, &o, 0.5);
    }
    struct kb_evidence e;
    ck_assert_int_eq(kb_posterior_evidence(w.posterior, &w.scratch, &e), KB_OK);
    ck_assert(kbt_close(e.energy[component], energy, 1e-8) && kbt_close(e.log_det[component], log_det, 1e-8));
    ck_assert(kbt_close(e.square, square, 1e-12) && !e.is_void);
    kbt_world_close(&w);
}

START_TEST(every_reward_is_foretold_by_the_dictionary_of_its_time_before_it_is_learned)
{
    expect_foretold(0, false);
    for (size_t i = 0; i < KB_N_MIXTURE; i++)
        expect_foretold(i, true);
}
END_TEST

START_TEST(with_every_point_in_the_dictionary_the_sums_are_those_of_the_exact_posterior)
{
    struct kbt_world exact, all;
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_CONF_CMM);
    kbt_world_open(&exact, &spec, 4, 5, true, 9);
    spec.repr.type = KB_REPR_THRESHOLD;
    spec.repr.threshold = 1e-5;
    kbt_world_open(&all, &spec, 4, 5, true, 9);
    kbt_world_run(&exact, 80, 17);
    kbt_world_run(&all, 80, 17);
    struct kb_evidence a, b;
    ck_assert_int_eq(kb_posterior_evidence(exact.posterior, &exact.scratch, &a), KB_OK);
    ck_assert_int_eq(kb_posterior_evidence(all.posterior, &all.scratch, &b), KB_OK);
    /* a point enters after its first reward, which it foretold by its residual: the chain rule holds to 1e-5 */
    ck_assert_msg(kbt_close(b.energy[0], a.energy[0], 1e-3), "%g, %g", b.energy[0], a.energy[0]);
    ck_assert_msg(kbt_close(b.log_det[0], a.log_det[0], 1e-3), "%g, %g", b.log_det[0], a.log_det[0]);
    kbt_world_close(&exact);
    kbt_world_close(&all);
}
END_TEST

/* lambda_i y^T (K + lambda_i I)^-1 y and ln det(I + K/lambda_i), from all observations; by the spectrum in force, and
 * where that is older than what was learned, by one of the moment. */
START_TEST(an_exact_posterior_tells_the_sums_of_every_ridge_of_the_mixture)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_CONF_CMM);
    spec.conf.is_mixture = true;
    kbt_world_open(&w, &spec, 4, 5, true, 9);
    kbt_world_run(&w, 50, 17);
    settle(&w);
    for (int is_stale = 0; is_stale < 2; is_stale++) {
        struct kb_evidence e;
        if (is_stale)
            kbt_world_run(&w, 20, 18);
        ck_assert_int_eq(kb_posterior_evidence(w.posterior, &w.scratch, &e), KB_OK);
        for (size_t i = 0; i < KB_N_MIXTURE; i++) {
            const size_t t = w.n_seen;
            const double a = LAMBDA * kb_mixture_ridge[i];
            double *k = kbt_array(t * t), *y = kbt_array(t), *x = kbt_array(t), energy = 0;
            for (size_t p = 0; p < t; p++) {
                for (size_t q = 0; q < t; q++)
                    k[p * t + q] = kbt_world_kernel(&w, &w.seen[p], &w.seen[q]) + (p == q ? a : 0);
                y[p] = w.seen[p].reward;
            }
            kbt_solve(t, k, y, x);
            for (size_t p = 0; p < t; p++)
                energy += a * x[p] * y[p];
            ck_assert_msg(kbt_close(e.energy[i], energy, 1e-8), "%zu: %g, %g", i, e.energy[i], energy);
            ck_assert(kbt_close(e.log_det[i], kbt_logdet(t, k) - (double)t * log(a), 1e-8));
            free(k), free(y), free(x);
        }
    }
    kbt_world_close(&w);
}
END_TEST

/* Without memory for a spectrum nothing is told, and the next try tells it. */
static struct kbt_world *brutal_world;

static enum kb_err ask_evidence(void *out)
{
    return kb_posterior_evidence(brutal_world->posterior, &brutal_world->scratch, out);
}

static void check_nothing(void *out)
{
    (void)out;
}

START_TEST(sums_that_need_memory_say_so_when_there_is_none)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_EXACT, KB_CONF_CMM);
    struct kb_evidence e;
    spec.conf.is_mixture = true;
    kbt_world_open(&w, &spec, 4, 5, true, 9);
    kbt_world_run(&w, 30, 17);
    brutal_world = &w;
    ck_assert_uint_gt(kbt_brutal(ask_evidence, check_nothing, &e), 1);
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_correction_voids_what_was_foretold_and_the_bounds_fall_back)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_KORS, KB_CONF_DMM);
    struct kb_evidence e;
    double mean, sd, lower, upper, score;
    kbt_world_open(&w, &spec, 4, 5, true, 9);
    kbt_world_run(&w, 30, 17);
    kbt_world_correct(&w, &w.seen[3], 0.5);
    settle(&w);
    ck_assert_int_eq(kb_posterior_evidence(w.posterior, &w.scratch, &e), KB_OK);
    ck_assert(e.is_void);
    struct kbt_observation o = kbt_world_draw(&w, 5, 1);
    const double *features = o.x + 2;
    struct kb_point pt = kbt_point(&w, &o);
    const struct kb_candidates cand = {.user = pt.user, .context = o.x, .n = 1, .arms = &o.arm, .features = &features};
    kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
    kb_confidence_bounds(w.posterior, &w.spec.conf, &cand, &w.scratch, &mean, &sd, &lower, &upper, &score);
    ck_assert(kbt_close(upper, mean + 1.5 * sd, 1e-12));
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_mixture_costs_no_more_than_its_share_over_its_best_component)
{
    const double energy[] = {40, 3, 70, 90}, log_det[] = {5, 400, 1, 0};
    double best = INFINITY, all = kb_evidence_radius_sq(energy, log_det, 4, SIGMA, DELTA);
    for (size_t i = 0; i < 4; i++)
        best = fmin(best, kb_evidence_radius_sq(energy + i, log_det + i, 1, SIGMA, DELTA));
    ck_assert(all >= best && all <= best + 2 * SIGMA * SIGMA * log(4) + 1e-12);
    ck_assert(kbt_close(kb_evidence_radius_sq(energy, log_det, 1, SIGMA, DELTA),
                        40 + SIGMA * SIGMA * 5 + 2 * SIGMA * SIGMA * log(1 / DELTA), 1e-14));
}
END_TEST

/* --- the projection error -------------------------------------------------------------------------------- */

/* After a run, and after a rebuild from the history with the same dictionary. */
static void expect_error(const struct kbt_world *w, const struct kb_posterior *p, const struct kb_spectrum *sp)
{
    struct dense d = dense_open(w, p);
    double most = largest(&d), trace = dense_trace(&d);
    ck_assert_msg(kbt_close(sp->sketch.trace, trace, 1e-7), "trace %g, expected %g", sp->sketch.trace, trace);
    ck_assert_msg(sp->sketch.error >= most * (1 - 1e-9), "error %g below %g", sp->sketch.error, most);
    ck_assert_msg(sp->sketch.error <= trace + 1e-9, "error %g above the trace %g", sp->sketch.error, trace);
    ck_assert_double_eq(sp->n_observed, (double)w->n_seen);
    dense_close(&d);
}

START_TEST(the_error_lies_between_the_largest_residual_eigenvalue_and_the_trace)
{
    static const enum kb_repr_type reprs[] = {KB_REPR_KORS, KB_REPR_THRESHOLD};
    static const size_t lengths[] = {5, 63, 64, 65, 150};
    for (size_t r = 0; r < 2; r++) {
        for (size_t l = 0; l < 5; l++) {
            struct kbt_world w;
            struct kb_spec spec = spec_of(reprs[r], KB_CONF_CMM);
            kbt_world_open(&w, &spec, 5, 6, true, 11 + l);
            kbt_world_run(&w, lengths[l], 19);
            settle(&w);
            expect_error(&w, w.posterior, kb_posterior_spectrum(w.posterior));
            kbt_world_close(&w);
        }
    }
}
END_TEST

/* One block and one observation of each point: then it is the largest eigenvalue, to the 3.3 % of its power. */
START_TEST(of_one_full_block_the_error_is_the_largest_eigenvalue_from_above)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_THRESHOLD, KB_CONF_CMM);
    spec.repr.threshold = 0.6;
    kbt_world_open(&w, &spec, 5, 6, true, 3);
    kbt_world_run(&w, KB_ERROR_BLOCK, 23);
    settle(&w);
    struct dense d = dense_open(&w, w.posterior);
    double most = largest(&d), error = kb_posterior_spectrum(w.posterior)->sketch.error;
    ck_assert(most > 1); /* something is missed */
    ck_assert_msg(error >= most && error <= most * 1.034, "%g, %g", error, most);
    dense_close(&d);
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_rebuild_from_the_history_bounds_the_error_anew)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_THRESHOLD, KB_CONF_CMM);
    struct kb_atom atoms[200];
    struct kbt_observation z[200];
    kbt_world_open(&w, &spec, 5, 6, true, 3);
    kbt_world_run(&w, 150, 23);
    size_t m = kbt_support(w.posterior, z);
    for (size_t i = 0; i < m; i++)
        atoms[i] = (struct kb_atom){kb_history_find(&w.history, z[i].user, z[i].arm, z[i].x), 1};
    struct kb_posterior *p = kbt_world_fill(&w, atoms, m);
    expect_error(&w, p, kb_posterior_spectrum(p));
    kb_posterior_free(p);
    kbt_world_close(&w);
}
END_TEST

/* --- the rules --------------------------------------------------------------------------------------------- */

/* The half-width at ridge a, its maximum over beta by steps. */
static double brute_half_width(const struct at *at, double a, double r_sq, double h, double e)
{
    double best = -INFINITY;
    for (int i = 0; i <= 200000; i++) {
        double beta = NORM * i / 200000.0;
        double inner = r_sq + 2 * h * beta - (a - e) * beta * beta + a * NORM * NORM - at->sse;
        if (inner >= 0)
            best = fmax(best, sqrt(at->residual) * beta + sqrt(at->spread * inner));
    }
    return best;
}

static double brute_cross(const struct dense *d, double error)
{
    double least = INFINITY, dimension;
    for (int i = -2; i <= 5; i++) {
        double a = LAMBDA * pow(10, i), gain = dense_log_det(d, a, &dimension) + dense_trace(d) / a;
        least = fmin(least, SIGMA * sqrt(2 * log(16 / DELTA) + gain) * sqrt(error + a));
    }
    return least;
}

/* lower, upper of a form by its definition over the ridges given. */
static void brute_bounds(struct kbt_world *w, const struct dense *d, enum kb_sketch_form form,
                         const struct kbt_observation *q, const double *ridge, size_t n, double *lower, double *upper)
{
    const struct kb_sketch_facts *f = &kb_posterior_spectrum(w->posterior)->sketch;
    double s = f->evidence.energy[0] + SIGMA * SIGMA * f->evidence.log_det[0];
    double r_sq = s + 2 * SIGMA * SIGMA * log((form == KB_SKETCH_CROSS ? 2 : 1) / DELTA);
    double h = form == KB_SKETCH_CROSS ? brute_cross(d, f->error) : sqrt(r_sq * f->error);
    *lower = -INFINITY, *upper = INFINITY;
    for (size_t i = 0; i < n; i++) {
        struct at at = dense_at(w, d, q, ridge[i]);
        double ball = sqrt(r_sq) + NORM * sqrt(f->error);
        double half = form == KB_SKETCH_SIMPLE
                          ? sqrt((ball * ball + ridge[i] * NORM * NORM - at.sse) * (at.spread + at.residual / ridge[i]))
                          : brute_half_width(&at, ridge[i], r_sq, h, f->error);
        *lower = fmax(*lower, at.mean - half);
        *upper = fmin(*upper, at.mean + half);
    }
}

static void bounds_of(struct kbt_world *w, const struct kbt_observation *o, double *lower, double *upper)
{
    double mean, sd, score;
    const double *features = o->x + w->spec.context_dim;
    struct kb_point pt = kbt_point(w, o);
    const struct kb_candidates cand = {
        .user = pt.user, .context = o->x, .n = 1, .arms = &o->arm, .features = &features};
    kbt_predict(w->posterior, &w->scratch, w, o, &mean, &sd);
    kb_confidence_bounds(w->posterior, &w->spec.conf, &cand, &w->scratch, &mean, &sd, lower, upper, &score);
    ck_assert_double_eq(score, *upper);
}

static const enum kb_sketch_form forms[] = {KB_SKETCH_CROSS, KB_SKETCH_SPLIT, KB_SKETCH_SIMPLE};

static void expect_rule(enum kb_conf_type type, const double *ridge, size_t n)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_KORS, type);
    struct kb_posterior_facts facts;
    kbt_world_open(&w, &spec, 4, 5, true, 9);
    kbt_world_run(&w, 60, 17);
    settle(&w);
    struct dense d = dense_open(&w, w.posterior);
    ck_assert_uint_lt(d.m, 40);
    for (size_t form = 0; form < 3; form++) {
        w.spec.conf.form = forms[form];
        for (uint64_t q = 0; q < N_QUERIES; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            double lower, upper, l, u;
            brute_bounds(&w, &d, forms[form], &o, ridge, n, &lower, &upper);
            bounds_of(&w, &o, &l, &u);
            ck_assert_msg(kbt_close(u, upper, 1e-6), "form %zu: upper %.12g, expected %.12g", form, u, upper);
            ck_assert_msg(kbt_close(l, lower, 1e-6), "form %zu: lower %.12g, expected %.12g", form, l, lower);
        }
    }
    ck_assert_int_eq(kb_posterior_facts(w.posterior, &facts), KB_OK);
    ck_assert_uint_eq(facts.n_empty, 0);
    dense_close(&d);
    kbt_world_close(&w);
}

START_TEST(amm_and_dmm_over_a_dictionary_are_their_definitions_in_every_form)
{
    double ridge[10] = {LAMBDA};
    expect_rule(KB_CONF_AMM, ridge, 1);
    for (int i = 0; i < 9; i++)
        ridge[i] = LAMBDA * pow(10, i / 2.0);
    ridge[9] = LAMBDA * 1e5;
    expect_rule(KB_CONF_DMM, ridge, 10);
}
END_TEST

/* The search may not miss what a fine grid finds, and every value it returns is a bound of some ridge. */
START_TEST(cmm_over_a_dictionary_is_no_wider_than_the_best_of_a_fine_grid)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_KORS, KB_CONF_CMM);
    kbt_world_open(&w, &spec, 4, 5, true, 9);
    kbt_world_run(&w, 50, 17);
    settle(&w);
    struct dense d = dense_open(&w, w.posterior);
    double ridge[40];
    for (int i = 0; i < 40; i++)
        ridge[i] = LAMBDA * pow(10, -1 + 0.15 * i);
    for (size_t form = 0; form < 2; form++) {
        w.spec.conf.form = forms[form];
        for (uint64_t q = 0; q < 2; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            double lower, upper, l, u;
            brute_bounds(&w, &d, forms[form], &o, ridge, 40, &lower, &upper);
            bounds_of(&w, &o, &l, &u);
            ck_assert_msg(u <= upper + 1e-9 && u >= upper - 0.02 * fabs(upper), "%g, %g", u, upper);
            ck_assert_msg(l >= lower - 1e-9 && l <= lower + 0.02 * fabs(lower), "%g, %g", l, lower);
        }
    }
    dense_close(&d);
    kbt_world_close(&w);
}
END_TEST

/* An arm of which the dictionary has nothing, z(x) = 0, has one value, sqrt(r) B, at all ridges whose maximum is at
 * beta = B. A search that compares neighbours cannot leave that plateau; what dmm finds below it cmm must find, too. */
START_TEST(cmm_is_no_wider_than_dmm_where_the_dictionary_has_nothing_of_an_arm)
{
    static const double multiples[] = {1.01, 1.1, 1.3}; /* of the least norm that agrees with the rewards */
    size_t n_below = 0;
    for (uint64_t world = 0; world < 12; world++) {
        struct kbt_world w;
        struct kb_spec spec = spec_of(KB_REPR_KORS, KB_CONF_CMM);
        spec.arm_kernel.type = KB_VEC_DELTA;
        spec.repr.lambda = world % 2 ? 1e-3 : LAMBDA;
        kbt_world_open(&w, &spec, 4, 5, true, 9 + world);
        for (uint64_t i = 0; i < 60; i++) {
            struct kbt_observation o = kbt_world_draw(&w, 17, i);
            if (o.arm == 4)
                continue;
            kbt_world_learn(&w, &o);
            kbt_world_admit(&w, &o, kb_rng_uniform(world, KB_STREAM_DICTIONARY, i));
        }
        settle(&w);
        for (size_t n = 0; n < 3; n++)
            for (size_t form = 0; form < 3; form++) {
                struct kbt_observation o = kbt_world_draw(&w, 99, n);
                double lower, upper, l, u, norm, least;
                o.arm = 4;
                w.spec.conf.form = forms[form];
                w.spec.conf.type = KB_CONF_DMM;
                w.spec.conf.norm_bound = 1;
                norm_of(w.posterior, &w.spec.conf, &norm, &least);
                w.spec.conf.norm_bound = norm = multiples[n] * least;
                bounds_of(&w, &o, &lower, &upper);
                w.spec.conf.type = KB_CONF_CMM;
                bounds_of(&w, &o, &l, &u);
                n_below += upper < norm * (1 - 1e-9) * sqrt(kbt_world_kernel(&w, &o, &o));
                ck_assert_msg(u <= upper + 1e-9 && l >= lower - 1e-9,
                              "norm %g, form %zu: [%.9g, %.9g], dmm [%.9g, %.9g]", norm, form, l, u, lower, upper);
            }
        kbt_world_close(&w);
    }
    ck_assert_uint_gt(n_below, 0);
}
END_TEST

/* Radius rules by their formulas with the dictionary's own numbers from dense algebra. What the dictionary misses is
 * below BKB's 1/(1 - epsilon) in the fine one, and above it in the others. */
START_TEST(the_radii_over_a_dictionary_are_the_lemmas)
{
    static const enum kb_conf_type types[] = {KB_CONF_EK, KB_CONF_EK_PLUS, KB_CONF_BKB, KB_CONF_BKB};
    for (size_t i = 0; i < 4; i++) {
        struct kbt_world w;
        struct kb_spec spec = spec_of(KB_REPR_KORS, types[i]);
        double dimension, kappa = 0;
        if (i == 3)
            spec.repr.gamma = 20;
        kbt_world_open(&w, &spec, 4, 5, true, 9);
        kbt_world_run(&w, 60, 17);
        settle(&w);
        struct dense d = dense_open(&w, w.posterior);
        double log_det = dense_log_det(&d, LAMBDA, &dimension) + dense_trace(&d) / LAMBDA, t = (double)w.n_seen;
        double e = kb_posterior_spectrum(w.posterior)->sketch.error, a = LAMBDA, ln = log(1 / DELTA);
        dimension += dense_trace(&d) / a;
        for (size_t j = 0; j < d.t; j++)
            kappa = fmax(kappa, d.k[j * (d.t + 1)]);
        double radius[] = {
            ((sqrt(a) + sqrt(e)) * NORM + SIGMA * sqrt(4 * ln + 2 * log(M_E + M_E * t * kappa / a) * dimension)) /
                sqrt(a),
            (NORM * (sqrt(e) + sqrt(e + 4 * a)) / 2 + SIGMA * sqrt(2 * ln + log_det)) / sqrt(a),
            (2 * SIGMA * sqrt(1.5 / 0.5 * (1 + log(1 + kappa * t / a)) * dimension + ln) + (sqrt(a) + sqrt(e)) * NORM) /
                sqrt(a),
            (2 * SIGMA * sqrt(1.5 / 0.5 * (1 + log(1 + kappa * t / a)) * dimension + ln) +
             (1 + 1 / sqrt(0.5)) * sqrt(a) * NORM) /
                sqrt(a),
        };
        ck_assert_msg(i != 2 || e / a > 3, "%g", e / a);
        ck_assert_msg(i != 3 || e / a < 1.5, "%g", e / a);
        for (uint64_t q = 0; q < N_QUERIES; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            struct at at = dense_at(&w, &d, &o, a);
            double half = radius[i] * sqrt(at.residual + a * at.spread), lower, upper;
            bounds_of(&w, &o, &lower, &upper);
            ck_assert_msg(kbt_close(upper, at.mean + half, 1e-7), "%zu: %g, %g", i, upper, at.mean + half);
            ck_assert(kbt_close(lower, at.mean - half, 1e-7));
        }
        dense_close(&d);
        kbt_world_close(&w);
    }
}
END_TEST

/* The half-width that the self-normalised bound on the noise and the measured misfit ask for of any dictionary
 * whatever: (1 + sqrt(e/a)) B + (sigma/sqrt(a)) sqrt(2 ln 1/delta + ln det(I + K/a)), with all of K_t. */
START_TEST(bkb_is_never_below_what_any_dictionary_asks_for)
{
    static const struct {
        double lambda, gamma, scale, norm; /* scale of the features: a small one makes k(s,s) small */
    } cases[] = {
        {1e-8, 0.5, 0.002, 1e-5}, {1e-8, 20, 0.002, 1e-5}, {0.25, 0.05, 1, 9}, {0.01, 0.5, 0.1, 1}, {1, 20, 1, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kbt_world w;
        struct kb_spec spec = spec_of(KB_REPR_KORS, KB_CONF_BKB);
        double dimension, lower, upper, a = cases[i].lambda, kappa = cases[i].scale * cases[i].scale;
        spec.context_kernel.type = KB_VEC_ONES;
        spec.arm_kernel.type = KB_VEC_LINEAR;
        spec.conf.norm_bound = cases[i].norm;
        spec.repr.lambda = a;
        spec.repr.mu = 2 * kappa;
        spec.repr.gamma = cases[i].gamma;
        kbt_world_open(&w, &spec, 4, 12, true, 9);
        for (size_t j = 0; j < w.n_arms * spec.arm_dim; j++)
            w.arm_features[j] *= cases[i].scale;
        kbt_world_run(&w, 90, 17);
        settle(&w);
        struct dense d = dense_open(&w, w.posterior);
        double e = kb_posterior_spectrum(w.posterior)->sketch.error;
        double log_det = dense_log_det(&d, a, &dimension) + dense_trace(&d) / a;
        double radius = (1 + sqrt(e / a)) * cases[i].norm + SIGMA / sqrt(a) * sqrt(2 * log(1 / DELTA) + log_det);
        for (uint64_t q = 0; q < N_QUERIES; q++) {
            struct kbt_observation o = kbt_world_draw(&w, 99, q);
            double mean, sd;
            kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
            bounds_of(&w, &o, &lower, &upper);
            ck_assert_msg((upper - lower) / 2 >= radius * sd * (1 - 1e-9), "case %zu: %g, %g", i, (upper - lower) / 2,
                          radius * sd);
        }
        dense_close(&d);
        kbt_world_close(&w);
    }
}
END_TEST

/* Whether some ridge leaves no |q| in [0, b] with a radicand that is not negative. */
static bool brute_is_empty(struct kbt_world *w, const struct dense *d, enum kb_sketch_form form, double b)
{
    const struct kb_sketch_facts *f = &kb_posterior_spectrum(w->posterior)->sketch;
    double sigma = w->spec.conf.noise, s = f->evidence.energy[0] + sigma * sigma * f->evidence.log_det[0];
    double r_sq = s + 2 * sigma * sigma * log((form == KB_SKETCH_CROSS ? 2 : 1) / DELTA);
    double h = form == KB_SKETCH_CROSS ? brute_cross(d, f->error) * sigma / SIGMA : sqrt(r_sq * f->error);
    for (int i = 0; i < 21; i++) {
        double a = LAMBDA * 0.1 * pow(10, 0.4 * i), most = -INFINITY;
        struct at at = dense_at(w, d, &w->seen[0], a);
        for (int k = 0; k <= 20000; k++) {
            double beta = b * k / 20000.0;
            most = fmax(most, r_sq + 2 * h * beta - (a - f->error) * beta * beta + a * b * b - at.sse);
        }
        if (form == KB_SKETCH_SIMPLE)
            most = pow(sqrt(r_sq) + b * sqrt(f->error), 2) + a * b * b - at.sse;
        if (most < 0)
            return true;
    }
    return false;
}

START_TEST(the_least_norm_empties_the_set_just_below_it_and_not_above)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_KORS, KB_CONF_CMM);
    spec.conf.noise = 0.02;
    spec.conf.norm_bound = 0;
    kbt_world_open(&w, &spec, 4, 5, true, 9);
    kbt_world_run(&w, 80, 17);
    settle(&w);
    struct dense d = dense_open(&w, w.posterior);
    for (size_t form = 0; form < 3; form++) {
        double bound, least;
        struct kb_posterior_facts before, below, above;
        w.spec.conf.form = forms[form];
        w.spec.conf.norm_bound = 0;
        norm_of(w.posterior, &w.spec.conf, &bound, &least);
        ck_assert(least > 1e-3 && isfinite(least) && kbt_close(bound, fmax(1, 1.2 * least), 1e-12));
        ck_assert(brute_is_empty(&w, &d, forms[form], least * 0.999));
        ck_assert(!brute_is_empty(&w, &d, forms[form], least * 1.001));
        struct kbt_observation o = kbt_world_draw(&w, 99, 1);
        double lower, upper;
        ck_assert_int_eq(kb_posterior_facts(w.posterior, &before), KB_OK);
        w.spec.conf.norm_bound = least * 0.999;
        bounds_of(&w, &o, &lower, &upper);
        ck_assert_int_eq(kb_posterior_facts(w.posterior, &below), KB_OK);
        w.spec.conf.norm_bound = least * 1.001;
        bounds_of(&w, &o, &lower, &upper);
        ck_assert_int_eq(kb_posterior_facts(w.posterior, &above), KB_OK);
        ck_assert_uint_eq(below.n_empty, before.n_empty + 1);
        ck_assert_uint_eq(above.n_empty, below.n_empty);
    }
    dense_close(&d);
    kbt_world_close(&w);
}
END_TEST

/* How often `settle` made a spectrum in 24 steps of learning after 160, with a large dictionary or a small one. */
static size_t n_made(enum kb_score score, bool is_large)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(KB_REPR_THRESHOLD, KB_CONF_DMM);
    size_t made = 0;
    spec.conf.score = score;
    spec.repr.threshold = is_large ? 1e-4 : 0.5;
    spec.arm_kernel.lengthscale = spec.context_kernel.lengthscale = is_large ? 0.3 : 3;
    spec.user_kernel.type = is_large ? KB_USER_LAPLACIAN : KB_USER_ONES;
    kbt_world_open(&w, &spec, 12, 12, true, 9);
    kbt_world_run(&w, 160, 17);
    ck_assert(is_large == (kb_posterior_n_support(w.posterior) > 64));
    settle(&w);
    for (uint64_t i = 160; i < 184; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 17, i);
        kbt_world_learn(&w, &o);
        ck_assert_int_eq(kb_posterior_settle(w.posterior, &w.scratch), KB_OK);
        made += kb_posterior_has_settled(w.posterior);
        kb_posterior_publish(w.posterior);
    }
    kbt_world_close(&w);
    return made;
}

START_TEST(bounds_to_read_over_a_large_dictionary_are_made_anew_when_a_sixteenth_was_learned)
{
    size_t made = n_made(KB_SCORE_FIXED, true);
    ck_assert_uint_ge(made, 2);
    ck_assert_uint_le(made, 3); /* the settle before the steps may itself have been put off */
    ck_assert_uint_eq(n_made(KB_SCORE_UPPER, true), 24);
    ck_assert_uint_eq(n_made(KB_SCORE_FIXED, false), 24);
}
END_TEST

int main(void)
{
    return KBT_RUN("conf_sketch", every_reward_is_foretold_by_the_dictionary_of_its_time_before_it_is_learned,
                   with_every_point_in_the_dictionary_the_sums_are_those_of_the_exact_posterior,
                   a_correction_voids_what_was_foretold_and_the_bounds_fall_back,
                   a_mixture_costs_no_more_than_its_share_over_its_best_component,
                   the_error_lies_between_the_largest_residual_eigenvalue_and_the_trace,
                   of_one_full_block_the_error_is_the_largest_eigenvalue_from_above,
                   a_rebuild_from_the_history_bounds_the_error_anew,
                   amm_and_dmm_over_a_dictionary_are_their_definitions_in_every_form,
                   cmm_over_a_dictionary_is_no_wider_than_the_best_of_a_fine_grid,
                   cmm_is_no_wider_than_dmm_where_the_dictionary_has_nothing_of_an_arm,
                   the_radii_over_a_dictionary_are_the_lemmas, bkb_is_never_below_what_any_dictionary_asks_for,
                   an_exact_posterior_tells_the_sums_of_every_ridge_of_the_mixture,
                   sums_that_need_memory_say_so_when_there_is_none,
                   the_least_norm_empties_the_set_just_below_it_and_not_above,
                   bounds_to_read_over_a_large_dictionary_are_made_anew_when_a_sixteenth_was_learned);
}
