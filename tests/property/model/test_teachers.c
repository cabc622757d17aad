/* Who taught an engine its mean, over every preset: terms sum to it after each event, also while a model is being built
 * beside and after changes of configuration and graph; the largest are named, the others added up. */
#include <math.h>
#include <stdio.h>

#include "base/rng.h"
#include "kbt.h"
#include "kbt_log.h"
#include "model/teachers.h"

#define N_USERS 30u
#define N_EVENTS 90u
#define N_ARMS 4u

static char user_id[N_USERS][8];
static const char *const arm_id[N_ARMS] = {"a", "b", "c", "d"};
static double x[N_ARMS][3], context[3];

static double number(uint64_t i)
{
    return 2 * kb_rng_uniform(i * 0x9e3779b97f4a7c15u, KB_STREAM_ARM, 5) - 1;
}

static void observe(struct kbt_log *log, uint32_t context_dim, uint32_t arm_dim, uint64_t i)
{
    const uint32_t arm = (uint32_t)(number(5 * i) * 1000 + 1000) % N_ARMS;
    double at[3] = {number(7 * (i % 11)), number(9 * (i % 11)), 0.5};
    struct kb_event ev = {.type = KB_EV_OBSERVED};
    ev.as.observed.user = user_id[(size_t)(number(3 * i + 1) * 1000 + 1000) % N_USERS];
    ev.as.observed.context = context_dim > 0 ? at : NULL;
    ev.as.observed.arm = (struct kb_ev_slot){.arm = arm_id[arm], .features = arm_dim > 0 ? x[arm] : NULL};
    ev.as.observed.reward = number(11 * i + 3) + 0.5;
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
}

/* Terms of one user and arm: the sum, and what asking for fewer leaves the same. Returns how many users have a part. */
static size_t check(const struct kb_engine *e, const char *user, size_t arm, uint32_t arm_dim)
{
    struct kb_scratch *s = NULL;
    struct kb_decision d;
    struct kb_teachers all, few;
    const struct kb_candidate one = {.arm = arm_id[arm], .features = arm_dim > 0 ? x[arm] : NULL};
    const struct kb_query q = {
        .user = user, .is_unrouted = true, .context = context, .candidates = &one, .n_candidates = 1};
    ck_assert_int_eq(kb_engine_scratch_new(&s), KB_OK);
    ck_assert_int_eq(kb_engine_fit_scratch(e, s, 1, 0), KB_OK);
    ck_assert_int_eq(kb_engine_decide(e, &q, s, &d, NULL), KB_OK);
    ck_assert_int_eq(kb_teachers_find(e, &q, &d, 0, KB_MOST_TEACHERS, s, &all), KB_OK);
    ck_assert_int_eq(kb_teachers_find(e, &q, &d, 0, 3, s, &few), KB_OK);
    double sum = all.prior + all.others, size = fabs(all.prior) + fabs(all.others), rest = all.others;
    for (size_t i = 0; i < all.n; i++) {
        sum += all.of[i].term;
        size += fabs(all.of[i].term);
        ck_assert(i == 0 || fabs(all.of[i].term) <= fabs(all.of[i - 1].term));
        if (i < few.n)
            ck_assert(all.of[i].user == few.of[i].user && all.of[i].term == few.of[i].term);
        else
            rest += all.of[i].term;
    }
    ck_assert_msg(fabs(sum - d.mean[0]) <= 1e-10 * (size + 1e-3), "terms sum to %.17g, mean %.17g", sum, d.mean[0]);
    ck_assert_double_eq(all.mean, d.mean[0]);
    ck_assert_uint_eq(few.n, all.n < 3 ? all.n : 3);
    ck_assert_uint_eq(few.n + few.n_others, all.n + all.n_others);
    ck_assert(kbt_close(few.others, rest, 1e-12));
    kb_engine_scratch_free(s);
    return all.n + all.n_others;
}

static void put_graph(struct kbt_log *log)
{
    struct kb_ev_edge edge[N_USERS - 1];
    for (size_t i = 0; i + 1 < N_USERS; i++)
        edge[i] = (struct kb_ev_edge){user_id[i], user_id[i + 1], 1};
    const struct kb_event ev = {.type = KB_EV_GRAPH,
                                .as.graph = {.is_replace = true, .add = edge, .n_add = N_USERS - 1}};
    ck_assert_int_eq(kbt_log_live(log, ev, NULL), KB_OK);
}

/* Everybody is taught by their own rewards alone. */
static bool is_alone(const struct kb_spec *spec)
{
    return spec->user_kernel.type == KB_USER_IDENTITY;
}

static void check_preset(const char *name, uint32_t context_dim, uint32_t arm_dim)
{
    struct kb_spec spec;
    struct kbt_log log;
    size_t most = 0;
    ck_assert_int_eq(kb_spec_preset(&spec, name, context_dim, arm_dim), KB_OK);
    kbt_log_open(&log);
    ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
    for (uint64_t i = 0; i < N_EVENTS; i++) {
        observe(&log, context_dim, arm_dim, i);
        if (i == 30)
            put_graph(&log);
        if (i == 60) {
            spec.repr.lambda *= 2;
            ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 2), NULL), KB_OK);
        }
        (void)check(log.live, i % 5 == 0 ? "nobody" : user_id[i % N_USERS], i % N_ARMS, arm_dim);
    }
    kbt_log_finish_builds(&log);
    for (size_t u = 0; u < N_USERS; u++) {
        const size_t n = check(log.live, user_id[u], u % N_ARMS, arm_dim);
        most = n > most ? n : most;
    }
    ck_assert_msg(most > 1 || is_alone(&spec), "%s: %zu users", name, most);
    kbt_log_close(&log);
}

static void name_all(void)
{
    for (size_t u = 0; u < N_USERS; u++)
        snprintf(user_id[u], sizeof user_id[u], "u%zu", u);
    for (size_t a = 0; a < N_ARMS; a++)
        for (size_t k = 0; k < 3; k++)
            x[a][k] = number(20 + 3 * a + k);
    for (size_t k = 0; k < 3; k++)
        context[k] = number(40 + k);
}

static void check_every_preset(size_t delay)
{
    static const uint32_t dims[][2] = {{0, 0}, {2, 3}, {0, 2}, {3, 0}};
    kbt_delay = delay;
    name_all();
    for (size_t i = 0; kb_preset_name(i) != NULL; i++)
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
            check_preset(kb_preset_name(i), dims[d][0], dims[d][1]);
}

START_TEST(terms_sum_to_the_mean_after_every_event)
{
    check_every_preset(0);
}
END_TEST

START_TEST(terms_sum_to_the_mean_while_a_model_is_built_beside)
{
    check_every_preset(9);
}
END_TEST

/* Two passes over all users of the tenant, and then one over what was learned. */
START_TEST(users_cost_work_and_so_does_what_they_taught)
{
    name_all();
    for (size_t i = 0; kb_preset_name(i) != NULL; i++) {
        struct kb_spec spec;
        struct kbt_log log;
        ck_assert_int_eq(kb_spec_preset(&spec, kb_preset_name(i), 0, 0), KB_OK);
        kbt_log_open(&log);
        ck_assert_int_eq(kbt_log_live(&log, kbt_configured(&spec, 1), NULL), KB_OK);
        put_graph(&log);
        const double of_users = kb_teachers_work(log.live);
        ck_assert_double_ge(of_users, 50.0 * N_USERS);
        for (uint64_t k = 0; k < 20; k++)
            observe(&log, 0, 0, k);
        kbt_log_finish_builds(&log);
        ck_assert_msg(kb_teachers_work(log.live) > of_users + 200, "%s", kb_preset_name(i));
        kbt_log_close(&log);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN_EACH("teachers", 120, NULL, NULL, terms_sum_to_the_mean_after_every_event,
                        terms_sum_to_the_mean_while_a_model_is_built_beside,
                        users_cost_work_and_so_does_what_they_taught);
}
