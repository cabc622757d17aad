/* The dictionary posterior of a sum of components, beyond what tests/property/ proves of every row: with all points it
 * is the Gaussian process itself, each mix of components against dense solves, the share of each component in the
 * dictionary, arms that were never shown, a correction, what its variances are learned from. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kbt_world.h"
#include "posterior/learning.h"
#include "posterior/nystrom.h"
#include "posterior/scale_search.h"

#define N_QUERIES 40u
#define N_MIXES 32u
#define MOST_POINTS 512u

/* Components as the bits of `mix`: arm, feature, user, context, linear. */
static struct kb_spec spec_of(unsigned mix)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-by-component", 2, 3), KB_OK);
    spec.prior = (struct kb_prior_spec){.mean = 0.7,
                                        .arm = mix & 1 ? 0.4 : 0,
                                        .feature = mix & 2 ? 1.1 : 0,
                                        .user = mix & 4 ? 0.9 : 0,
                                        .context = mix & 8 ? 1.3 : 0,
                                        .linear = mix & 16 ? 0.6 : 0};
    spec.repr.lambda = 0.3;
    spec.repr.threshold = 1e-7;
    ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
    return spec;
}

typedef void oracle(const struct kbt_world *w, const struct kbt_observation *query, size_t n, double *mean,
                    double *variance);

static void by_dictionary(const struct kbt_world *w, const struct kbt_observation *query, size_t n, double *mean,
                          double *variance)
{
    struct kbt_observation *atoms = calloc(MOST_POINTS, sizeof *atoms);
    ck_assert_uint_le(kb_posterior_n_support(w->posterior), MOST_POINTS);
    const size_t m = kbt_support(w->posterior, atoms);
    kbt_dense_nystrom(w, atoms, m, query, n, mean, variance);
    free(atoms);
}

static void expect(struct kbt_world *w, oracle *dense, double tolerance)
{
    struct kbt_observation query[N_QUERIES];
    double mean[N_QUERIES], variance[N_QUERIES], m, sd;
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(w, 99, q);
    dense(w, query, N_QUERIES, mean, variance);
    for (size_t q = 0; q < N_QUERIES; q++) {
        kbt_predict(w->posterior, &w->scratch, w, &query[q], &m, &sd);
        ck_assert_msg(kbt_close(m, mean[q], tolerance), "mean %.17g, expected %.17g", m, mean[q]);
        ck_assert_msg(kbt_close(sd * sd, variance[q], tolerance), "variance %.17g, expected %.17g", sd * sd,
                      variance[q]);
    }
}

/* Chosen and filled anew from all that the world has seen. */
static void rebuild(struct kbt_world *w)
{
    struct kb_posterior *p = NULL;
    struct kb_atom *atoms = NULL;
    size_t n = 0;
    ck_assert_int_eq(kb_posterior_new(&p, &w->spec, w->graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_fit_scratch(p, &w->scratch, 0), KB_OK);
    ck_assert_int_eq(kb_posterior_choose(p, &w->history, w->node_of, 5, &w->scratch, &atoms, &n), KB_OK);
    ck_assert_int_eq(kb_posterior_fill(p, &w->history, w->node_of, atoms, n, &w->scratch), KB_OK);
    kb_posterior_free(w->posterior);
    w->posterior = p;
    /* the same points from the log */
    p = kbt_world_fill(w, atoms, n);
    ck_assert(kb_posterior_digest(p, 1) == kb_posterior_digest(w->posterior, 1));
    kb_posterior_free(p);
    kb_free(atoms);
}

START_TEST(with_all_points_every_mix_of_components_is_the_process_itself)
{
    for (unsigned mix = 1; mix < N_MIXES; mix++) {
        struct kbt_world w;
        struct kb_spec spec = spec_of(mix);
        spec.user_kernel.is_normalized = mix % 2 == 0;
        kbt_world_open(&w, &spec, 7, 5, true, 3 + mix);
        kbt_world_run(&w, 60, 4 + mix);
        rebuild(&w);
        expect(&w, kbt_dense_gp, 1e-8);
        ck_assert_uint_eq(kb_posterior_n_clamped(w.posterior), 0);
        kbt_world_run(&w, 20, 40 + mix); /* and on from there */
        expect(&w, by_dictionary, 1e-9);
        kbt_world_close(&w);
    }
}
END_TEST

START_TEST(a_dictionary_that_grew_point_by_point_is_its_dense_solve)
{
    for (unsigned mix = 1; mix < N_MIXES; mix++) {
        struct kbt_world w;
        struct kb_spec spec = spec_of(mix);
        spec.repr.threshold = 0.1;
        kbt_world_open(&w, &spec, 7, 5, true, 3 + mix);
        kbt_world_run(&w, 120, 4 + mix);
        expect(&w, by_dictionary, 1e-9);
        kbt_world_close(&w);
    }
}
END_TEST

/* Deviations are never below those of the process, whose kernel the features do not exceed. */
START_TEST(no_deviation_is_below_that_of_the_process)
{
    struct kbt_world w;
    struct kbt_observation query[N_QUERIES];
    double mean[N_QUERIES], variance[N_QUERIES], m, sd;
    struct kb_spec spec = spec_of(N_MIXES - 1);
    spec.repr.max_dictionary = 12;
    kbt_world_open(&w, &spec, 9, 6, true, 8);
    kbt_world_run(&w, 150, 9);
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 12);
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(&w, 77, q);
    kbt_dense_gp(&w, query, N_QUERIES, mean, variance);
    for (size_t q = 0; q < N_QUERIES; q++) {
        kbt_predict(w.posterior, &w.scratch, &w, &query[q], &m, &sd);
        ck_assert_double_ge(sd * sd, variance[q] * (1 - 1e-9));
    }
    kbt_world_close(&w);
}
END_TEST

/* Users and contexts would each fill the dictionary alone: they share what arms and features leave. */
START_TEST(no_component_takes_the_room_of_another)
{
    struct kbt_world w;
    struct kbt_observation *atoms = calloc(MOST_POINTS, sizeof *atoms);
    struct kb_spec spec = spec_of(1 | 2 | 4 | 8);
    size_t n_of[KB_N_PARTS] = {0};
    spec.repr.max_dictionary = 40;
    kbt_world_open(&w, &spec, 30, 6, true, 8);
    kbt_world_run(&w, 400, 9);
    for (int round = 0; round < 2; round++) {
        memset(n_of, 0, sizeof n_of);
        for (size_t i = kbt_support(w.posterior, atoms); i-- > 0;)
            n_of[atoms[i].part]++;
        ck_assert_uint_eq(n_of[KB_PART_ALL] + n_of[KB_PART_LINEAR], 0);
        ck_assert_uint_le(n_of[KB_PART_ARM], 6);
        ck_assert(n_of[KB_PART_ARM] >= 5 && n_of[KB_PART_FEATURE] >= 5);
        ck_assert(n_of[KB_PART_USER] >= 13 && n_of[KB_PART_CONTEXT] >= 13);
        ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 40);
        rebuild(&w);
    }
    free(atoms);
    kbt_world_close(&w);
}
END_TEST

/* An arm without rewards is told by the features that it has in common with others; its own part is open. */
START_TEST(arms_never_shown_are_known_by_their_features)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(1 | 2);
    double mean, sd, other, other_sd;
    kbt_world_open(&w, &spec, 7, 5, true, 8);
    kbt_world_run(&w, 80, 9);
    struct kbt_observation twin = w.seen[0];
    kbt_predict(w.posterior, &w.scratch, &w, &twin, &mean, &sd);
    twin.arm = 77;
    kbt_predict(w.posterior, &w.scratch, &w, &twin, &other, &other_sd);
    ck_assert_double_gt(fabs(other - spec.prior.mean), 0.1);
    ck_assert(other_sd * other_sd > 0.4 && sd * sd < 0.4);
    for (size_t d = 0; d < 3; d++)
        twin.x[2 + d] += 100;
    kbt_predict(w.posterior, &w.scratch, &w, &twin, &other, &other_sd);
    ck_assert(other == spec.prior.mean && kbt_close(other_sd * other_sd, 0.4 + 1.1, 1e-12));
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_correction_moves_the_mean_alone)
{
    struct kbt_world w;
    struct kb_spec spec = spec_of(N_MIXES - 1);
    kbt_world_open(&w, &spec, 7, 5, true, 8);
    kbt_world_run(&w, 60, 9);
    w.seen[3].reward += 2.5;
    kbt_world_correct(&w, &w.seen[3], 2.5);
    expect(&w, by_dictionary, 1e-9);
    rebuild(&w);
    expect(&w, kbt_dense_gp, 1e-8);
    kbt_world_close(&w);
}
END_TEST

/* Mass and what is missed, kept over learning, admissions and builds, are what one pass over all points says. */
START_TEST(sums_of_components_are_those_of_one_pass)
{
    for (int round = 0; round < 2; round++) {
        struct kbt_world w;
        struct kb_spec spec = spec_of(N_MIXES - 1);
        spec.repr.threshold = 0.3;
        kbt_world_open(&w, &spec, 7, 5, true, 8);
        kbt_world_run(&w, 90, 9);
        if (round == 1)
            rebuild(&w);
        const struct kb_nystrom *n = kb_nystrom_of(w.posterior);
        const size_t m = kb_posterior_n_support(w.posterior);
        struct kb_part_sums want = {.mass = kbt_array(m)};
        double *z = kbt_array(m);
        w.seen[5].reward += 1.5;
        kbt_world_correct(&w, &w.seen[5], 1.5);
        for (size_t i = 0; i < w.n_seen; i++) {
            want.count += 1;
            want.sum += w.seen[i].reward;
            const struct kb_point pt = kbt_point(&w, &w.seen[i]);
            kb_posterior_column(w.posterior, m, &pt, &w.scratch, z);
            kb_features_map(&n->features, z);
            for (size_t j = 0; j < m; j++)
                want.mass[j] += z[j];
            for (uint32_t part = 1; part < KB_N_PARTS; part++) {
                struct kbt_observation of_part = w.seen[i];
                of_part.part = part;
                double missed = kbt_world_kernel(&w, &of_part, &w.seen[i]);
                for (size_t j = 0; j < m; j++)
                    missed -= w.posterior->support.part[j] == part ? z[j] * z[j] : 0;
                want.missed[part] += missed;
            }
        }
        ck_assert(kbt_close(n->parts.count, want.count, 1e-12) && kbt_close(n->parts.sum, want.sum, 1e-12));
        for (size_t j = 0; j < m; j++)
            ck_assert(kbt_close(n->parts.mass[j], want.mass[j], 1e-9));
        for (uint32_t part = 1; part < KB_N_PARTS; part++)
            ck_assert(kbt_close(n->parts.missed[part], want.missed[part], 1e-9));
        free(want.mass);
        free(z);
        kbt_world_close(&w);
    }
}
END_TEST

/* Minus the log density of rewards and scales by dense algebra, with all points known; variances as in `prior`. */
static double dense_density(struct kbt_world *w, const struct kb_prior_spec *prior, double noise, double range)
{
    const size_t n = w->n_seen;
    const struct kb_prior_spec kept = w->spec.prior;
    const double variance[] = {prior->arm, prior->feature, prior->user, prior->context, prior->linear};
    const double ratio[] = {1, 1, 0.3, 3, 3};
    double *k = kbt_array(n * n), *y = kbt_array(n), *alpha = kbt_array(n),
           value = log(noise) + range * range / 4 / noise;
    w->spec.prior = *prior;
    for (size_t c = 0; c < n; c++) {
        y[c] = w->seen[c].reward - prior->mean;
        for (size_t r = 0; r < n; r++)
            k[c * n + r] = kbt_world_kernel(w, &w->seen[r], &w->seen[c]) + (r == c ? noise : 0);
    }
    w->spec.prior = kept;
    kbt_solve(n, k, y, alpha);
    for (size_t i = 0; i < n; i++)
        value += y[i] * alpha[i] / 2;
    value += kbt_logdet(n, k) / 2;
    for (size_t j = 0; j < 5; j++)
        value += variance[j] > 0 ? pow(log(variance[j] / noise / ratio[j]) / 1.5, 2) / 2 : 0;
    free(k);
    free(y);
    free(alpha);
    return -value;
}

/* At both ends of a search, before and after, first of all and later on. */
START_TEST(scales_are_judged_by_the_density_of_the_process)
{
    for (unsigned mix = 1; mix < N_MIXES; mix += 3)
        for (int is_first = 0; is_first < 2; is_first++) {
            struct kbt_world w;
            struct kb_tuning found;
            struct kb_spec spec = spec_of(mix);
            spec.learned = KB_LEARNED_ALL;
            kbt_world_open(&w, &spec, 6, 4, true, 3 + mix);
            kbt_world_run(&w, 50, 4 + mix);
            rebuild(&w);
            struct kb_scale_search search = {.spec = &spec, .is_first = is_first, .mean = 0.25, .range = 3};
            for (size_t i = 0; i < w.n_seen; i++) {
                search.square += w.seen[i].reward * w.seen[i].reward;
                search.count += 1;
            }
            ck_assert(kb_posterior_has_scales(w.posterior));
            ck_assert_int_eq(kb_posterior_find_scales(w.posterior, &search, &w.scratch, &found), KB_OK);
            struct kb_prior_spec start = spec.prior;
            const double unit = is_first ? 9 : 1;
            start.mean = 0.25;
            start.arm *= unit, start.feature *= unit, start.user *= unit, start.context *= unit, start.linear *= unit;
            const double before = dense_density(&w, &start, spec.repr.lambda * unit, 3);
            const double after = dense_density(&w, &found.prior, found.noise, 3);
            ck_assert_msg(kbt_close(found.before, before, 1e-5), "%u: %.12g, expected %.12g", mix, found.before,
                          before);
            ck_assert_msg(kbt_close(found.after, after, 1e-5), "%u: %.12g, expected %.12g", mix, found.after, after);
            ck_assert(found.after > found.before && found.prior.mean == 0.25);
            ck_assert((found.prior.user > 0) == (spec.prior.user > 0) && found.range == 3);
            kbt_world_close(&w);
        }
}
END_TEST

START_TEST(scales_that_are_fixed_stay)
{
    struct kbt_world w;
    struct kb_tuning found;
    struct kb_spec spec = spec_of(N_MIXES - 1);
    spec.learned = KB_LEARNED_FEATURE | KB_LEARNED_CONTEXT;
    kbt_world_open(&w, &spec, 6, 4, true, 3);
    kbt_world_run(&w, 50, 4);
    const struct kb_scale_search search = {
        .spec = &spec, .is_first = true, .mean = 9, .range = 3, .square = 80, .count = 50};
    ck_assert_int_eq(kb_posterior_find_scales(w.posterior, &search, &w.scratch, &found), KB_OK);
    ck_assert(found.noise == spec.repr.lambda && found.prior.mean == spec.prior.mean);
    ck_assert(found.prior.arm == spec.prior.arm && found.prior.user == spec.prior.user);
    ck_assert(found.prior.linear == spec.prior.linear && found.rho == spec.user_kernel.rho);
    ck_assert(found.prior.feature != spec.prior.feature && found.prior.context != spec.prior.context);
    kbt_world_close(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN("post_by_component", with_all_points_every_mix_of_components_is_the_process_itself,
                   a_dictionary_that_grew_point_by_point_is_its_dense_solve, no_deviation_is_below_that_of_the_process,
                   no_component_takes_the_room_of_another, arms_never_shown_are_known_by_their_features,
                   scales_are_judged_by_the_density_of_the_process, scales_that_are_fixed_stay,
                   a_correction_moves_the_mean_alone, sums_of_components_are_those_of_one_pass);
}
