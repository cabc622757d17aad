/* What each row of the history adds to a mean, over every preset: the terms sum to the mean, and the terms of a user
 * are what a dense model loses when all his rewards become the prior mean. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt_world.h"
#include "posterior/influence.h"

#define N_USERS 9u
#define N_ARMS 6u
#define N_EVENTS 70u
#define N_QUERIES 12u
#define MOST_POINTS (N_EVENTS * (KB_N_PARTS - 1))

static bool holds_all_points(const struct kb_spec *spec)
{
    return spec->repr.type == KB_REPR_EXACT || spec->repr.type == KB_REPR_BY_ARM;
}

/* Every preset in four pairs of dimensions, under a prior mean where there is one. */
static void for_each_preset(void (*fn)(const struct kb_spec *spec))
{
    static const uint32_t dims[][2] = {{0, 0}, {2, 3}, {0, 2}, {3, 0}};
    for (size_t i = 0; kb_preset_name(i) != NULL; i++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
            struct kb_spec spec;
            ck_assert_int_eq(kb_spec_preset(&spec, kb_preset_name(i), dims[d][0], dims[d][1]), KB_OK);
            ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
            spec.repr.lambda = 0.3;
            if (spec.repr.type == KB_REPR_BY_ARM || spec.repr.type == KB_REPR_BY_COMPONENT)
                spec.prior.mean = 0.7;
            fn(&spec);
        }
}

static void dense(const struct kbt_world *w, const struct kbt_observation *query, double *mean)
{
    static struct kbt_observation atoms[MOST_POINTS];
    double variance[N_QUERIES];
    if (holds_all_points(&w->spec))
        kbt_dense_gp(w, query, N_QUERIES, mean, variance);
    else
        kbt_dense_nystrom(w, atoms, kbt_support(w->posterior, atoms), query, N_QUERIES, mean, variance);
}

/* What the dense means lose without the rewards of `user`. */
static void expect_loss(struct kbt_world *w, const struct kbt_observation *query, uint32_t user, double prior,
                        const double *with, double (*term)[N_USERS])
{
    double without[N_QUERIES], reward[N_EVENTS];
    for (size_t i = 0; i < w->n_seen; i++) {
        reward[i] = w->seen[i].reward;
        if (w->seen[i].user == user)
            w->seen[i].reward = prior;
    }
    dense(w, query, without);
    for (size_t q = 0; q < N_QUERIES; q++)
        ck_assert_msg(kbt_close(term[q][user], with[q] - without[q], 1e-8), "%s: user %u adds %.17g, expected %.17g",
                      w->spec.algorithm, user, term[q][user], with[q] - without[q]);
    for (size_t i = 0; i < w->n_seen; i++)
        w->seen[i].reward = reward[i];
}

static void check_terms(const struct kb_spec *spec)
{
    struct kbt_world w;
    struct kbt_observation query[N_QUERIES];
    double term[N_QUERIES][N_USERS], with[N_QUERIES], prior = 0;
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 11);
    kbt_world_run(&w, N_EVENTS, 12);
    ck_assert_uint_eq(w.n_seen, N_EVENTS);
    for (size_t q = 0; q < N_QUERIES; q++) {
        double sum, size, mean, sd;
        query[q] = kbt_world_draw(&w, 4242, q);
        prior = kbt_terms(&w, &query[q], term[q]);
        kbt_predict(w.posterior, &w.scratch, &w, &query[q], &mean, &sd);
        sum = size = prior;
        for (size_t u = 0; u < N_USERS; u++) {
            sum += term[q][u];
            size += fabs(term[q][u]);
        }
        ck_assert_msg(fabs(sum - mean) <= 1e-10 * (size + 1e-3), "%s: terms sum to %.17g, mean %.17g", spec->algorithm,
                      sum, mean);
    }
    dense(&w, query, with);
    for (uint32_t user = 0; user < N_USERS; user += 3)
        expect_loss(&w, query, user, prior, with, term);
    kbt_world_close(&w);
}

START_TEST(terms_sum_to_the_mean_and_are_what_a_dense_model_loses)
{
    for_each_preset(check_terms);
}
END_TEST

/* Terms do not hang on the user where the kernel compares none, and do elsewhere. */
static void check_users(const struct kb_spec *spec)
{
    struct kbt_world w;
    double one[N_USERS], other[N_USERS];
    bool is_alike = true;
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 21);
    kbt_world_run(&w, N_EVENTS, 22);
    for (size_t q = 0; q < N_QUERIES; q++) {
        struct kbt_observation o = kbt_world_draw(&w, 4242, q);
        o.user = 0;
        (void)kbt_terms(&w, &o, one);
        o.user = 3;
        (void)kbt_terms(&w, &o, other);
        is_alike = is_alike && memcmp(one, other, sizeof one) == 0;
    }
    ck_assert_msg(is_alike != kb_posterior_tells_users(w.posterior), "%s", spec->algorithm);
    kbt_world_close(&w);
}

START_TEST(it_is_told_whether_users_are_compared)
{
    for_each_preset(check_users);
}
END_TEST

/* Two arms at a limit of four points each: rewards at the others teach nothing, and add nothing. */
START_TEST(what_an_arm_has_no_room_for_adds_nothing)
{
    struct kb_spec spec;
    struct kbt_world w;
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-by-arm", 2, 0), KB_OK);
    spec.prior = (struct kb_prior_spec){.mean = 0.7, .arm = 0.4, .user = 0.9, .context = 1.3};
    spec.repr.exact_limit = 4;
    ck_assert_int_eq(kb_spec_check(&spec, NULL), KB_OK);
    kbt_world_open(&w, &spec, N_USERS, 2, true, 5);
    kbt_world_run(&w, N_EVENTS, 6);
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 8);
    for (size_t q = 0; q < N_QUERIES; q++) {
        const struct kbt_observation o = kbt_world_draw(&w, 99, q);
        double term[N_USERS], mean, sd, sum = kbt_terms(&w, &o, term);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean, &sd);
        for (size_t u = 0; u < N_USERS; u++)
            sum += term[u];
        ck_assert(kbt_close(sum, mean, 1e-12));
    }
    kbt_world_close(&w);
}
END_TEST

/* A row is found by its point, whose coordinates are hashed and compared. */
static void check_work(const struct kb_spec *spec)
{
    struct kb_spec wide = *spec;
    struct kb_posterior *p = NULL;
    struct kbt_world w;
    if (!holds_all_points(spec) || spec->arm_dim > 0)
        return;
    wide.arm_dim = 4096;
    kbt_world_open(&w, spec, N_USERS, N_ARMS, true, 31);
    ck_assert_int_eq(kb_posterior_new(&p, &wide, w.graph, kbt_key), KB_OK);
    const double more = kb_posterior_influence_work(p, 1000) - kb_posterior_influence_work(w.posterior, 1000);
    ck_assert_msg(more >= 14.0 * 4096 * 1000, "%s: %g more", spec->algorithm, more);
    kb_posterior_free(p);
    kbt_world_close(&w);
}

START_TEST(the_work_of_a_row_grows_with_the_coordinates_of_its_point)
{
    for_each_preset(check_work);
}
END_TEST

int main(void)
{
    return KBT_RUN("influence", terms_sum_to_the_mean_and_are_what_a_dense_model_loses,
                   it_is_told_whether_users_are_compared, what_an_arm_has_no_room_for_adds_nothing,
                   the_work_of_a_row_grows_with_the_coordinates_of_its_point);
}
