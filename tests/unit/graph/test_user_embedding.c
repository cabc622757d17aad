/* Mean embeddings of users and the kernel between them, against definitions: the draws from the keyed words one by one,
 * the inner products against the exact kernel's double sums, who is embedded against a count by hand. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "kbt.h"
#include "graph/user_embedding.h"
#include "graph/user_kernel.h"

#define DIM 3
#define N_USERS 9
#define SEED 77

static const struct kb_user_kernel_spec plain = {
    .type = KB_USER_MMD, .rho = 0.1, .power = 1, .tau = 1, .n_features = 24, .refresh = 200, .min_observations = 5};

/* --- histories ---------------------------------------------------------------------------------------- */

static struct kb_history history;

/* One more row: a fresh arm, so that equal vectors stand in rows of their own. */
static void show(uint32_t user, const double *x, double count)
{
    uint32_t arm = (uint32_t)history.n;
    ck_assert_int_eq(kb_history_reserve(&history, 1), KB_OK);
    for (double i = 0; i < count; i++)
        kb_history_add(&history, user, arm, x, 1, 0.5, history.n + 1);
}

/* User u has seen 2 u rows, most of them once, around a place of his own; x has a coordinate more than DIM. */
static void open_history(void)
{
    double x[DIM + 1];
    kb_history_init(&history, DIM + 1, kbt_key);
    for (uint32_t round = 0; round < 2 * N_USERS; round++)
        for (uint32_t user = 0; user < N_USERS; user++) {
            if (round >= 2 * user)
                continue;
            kbt_random_normal(DIM + 1, 1000 * user + round, x);
            x[0] += 0.4 * user;
            show(user, x, round % 3 == 1 ? 2 : 1);
        }
}

static void close_history(void)
{
    kb_history_close(&history);
}

static double observations(uint32_t user)
{
    double sum = 0;
    for (size_t row = 0; row < history.n; row++)
        sum += history.user[row] == user ? history.count[row] : 0;
    return sum;
}

/* --- oracles -------------------------------------------------------------------------------------------- */

/* The keyed words as rng.c's header states them, written again. */
static double word(uint64_t index)
{
    uint64_t z = SEED, parts[3] = {0, 6, index};
    for (int i = 0; i < 3; i++) {
        z += (i == 0 ? 1 : parts[i]) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        z ^= z >> 31;
    }
    return (double)(z >> 11) / 9007199254740992.0;
}

static double normal(uint64_t index)
{
    return sqrt(-2 * log(1 - word(2 * index))) * cos(2 * acos(-1.0) * word(2 * index + 1));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of all pairwise distances of n rows (of at most 512). */
static double median(size_t n, size_t dim, const double *x, size_t stride)
{
    double *d = kbt_array(n * n);
    size_t n_d = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            double sum = 0;
            for (size_t k = 0; k < dim; k++)
                sum += pow(x[i * stride + k] - x[j * stride + k], 2);
            if (sum > 0)
                d[n_d++] = sqrt(sum);
        }
    qsort(d, n_d, sizeof *d, ascending);
    double value = 0.5 * (d[(n_d - 1) / 2] + d[n_d / 2]);
    free(d);
    return value;
}

/* mu of a user, from the definition, for features of lengthscale l. */
static void naive_embedding(uint32_t user, size_t n_features, double l, double *mu)
{
    for (size_t j = 0; j < n_features; j++) {
        double sum = 0;
        for (size_t row = 0; row < history.n; row++) {
            if (history.user[row] != user)
                continue;
            double angle = 2 * acos(-1.0) * word(2 * (j * (DIM + 1) + DIM));
            for (size_t d = 0; d < DIM; d++)
                angle += normal(j * (DIM + 1) + d) / l * history.x[row * (DIM + 1) + d];
            sum += history.count[row] * cos(angle);
        }
        mu[j] = sqrt(2.0 / (double)n_features) * sum / observations(user);
    }
}

/* Exact squared MMD of two users' samples under the RBF of lengthscale l, by double sums. */
static double mean_kernel(uint32_t u, uint32_t v, double l)
{
    double sum = 0;
    for (size_t i = 0; i < history.n; i++)
        for (size_t j = 0; j < history.n; j++) {
            double d2 = 0;
            if (history.user[i] != u || history.user[j] != v)
                continue;
            for (size_t k = 0; k < DIM; k++)
                d2 += pow(history.x[i * (DIM + 1) + k] - history.x[j * (DIM + 1) + k], 2);
            sum += history.count[i] * history.count[j] * exp(-d2 / (2 * l * l));
        }
    return sum / observations(u) / observations(v);
}

static double exact_mmd2(uint32_t u, uint32_t v, double l)
{
    return mean_kernel(u, u, l) - 2 * mean_kernel(u, v, l) + mean_kernel(v, v, l);
}

static double distance2(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += pow(a[i] - b[i], 2);
    return sum;
}

/* --- embeddings -------------------------------------------------------------------------------------------- */

static struct kb_user_embedding learn(const struct kb_user_kernel_spec *spec)
{
    struct kb_user_embedding m = {0};
    ck_assert_int_eq(kb_user_embedding_learn(&m, spec, SEED, DIM, &history), KB_OK);
    return m;
}

START_TEST(embeddings_equal_their_definition_from_the_documented_draws)
{
    double mu[24];
    open_history();
    struct kb_user_kernel_spec spec = plain;
    spec.lengthscale = _i == 0 ? 0 : 1.7;
    struct kb_user_embedding m = learn(&spec);
    double l = _i == 0 ? median(history.n, DIM, history.x, DIM + 1) : 1.7;
    ck_assert_uint_eq(m.n, N_USERS - 2); /* 0 and 2 observations are too few */
    for (size_t i = 0; i < m.n; i++) {
        naive_embedding(m.user[i], 24, l, mu);
        ck_assert_double_le(kbt_distance(24, m.mean + 24 * i, mu), 1e-12);
    }
    ck_assert(kbt_close(m.bandwidth, median(m.n, 24, m.mean, 24), 1e-12));
    kb_user_embedding_close(&m);
    close_history();
}
END_TEST

/* Hoeffding: each inner product is a mean of D terms within [-2, 2]. */
START_TEST(distances_approach_the_maximum_mean_discrepancy)
{
    struct kb_user_kernel_spec spec = plain;
    double worst[2] = {0, 0};
    open_history();
    spec.lengthscale = 1.1;
    for (int k = 0; k < 2; k++) {
        spec.n_features = k == 0 ? 64 : 4096;
        struct kb_user_embedding m = learn(&spec);
        for (size_t i = 0; i < m.n; i++)
            for (size_t j = 0; j < i; j++) {
                double got = distance2(m.n_features, m.mean + i * m.n_features, m.mean + j * m.n_features);
                worst[k] = fmax(worst[k], fabs(got - exact_mmd2(m.user[i], m.user[j], 1.1)));
            }
        ck_assert_double_le(worst[k], 4 / sqrt((double)spec.n_features));
        kb_user_embedding_close(&m);
    }
    ck_assert_double_lt(worst[1], worst[0] / 2);
    close_history();
}
END_TEST

START_TEST(users_of_few_observations_are_not_embedded)
{
    open_history();
    for (size_t least = 1; least < 30; least++) {
        struct kb_user_kernel_spec spec = plain;
        spec.min_observations = least;
        struct kb_user_embedding m = learn(&spec);
        size_t n = 0;
        for (uint32_t u = 0; u < N_USERS + 3; u++) {
            bool is_in = observations(u) >= (double)least;
            ck_assert_uint_eq(kb_user_embedding_find(&m, u), is_in ? n : KB_ID_NONE);
            n += is_in;
        }
        ck_assert_uint_eq(m.n, n);
        kb_user_embedding_close(&m);
    }
    close_history();
}
END_TEST

/* Every third user, from 3 on, is seen twice; of those seen once the first ones fill what is left. */
START_TEST(of_too_many_users_the_most_observed_are_embedded)
{
    struct kb_user_kernel_spec spec = plain;
    const uint32_t n_users = 2400;
    size_t n_once = 0;
    kb_history_init(&history, 1, kbt_key);
    spec.n_features = spec.min_observations = 1;
    for (uint32_t u = 0; u < n_users; u++)
        show(u, &(double){(double)u}, u % 3 == 0 && u > 0 ? 2 : 1);
    struct kb_user_embedding m = {0};
    ck_assert_int_eq(kb_user_embedding_learn(&m, &spec, SEED, 1, &history), KB_OK);
    ck_assert_uint_eq(m.n, KB_EMBEDDED_MAX);
    for (uint32_t u = 0; u < n_users; u++) {
        bool is_twice = u % 3 == 0 && u > 0;
        bool is_in = is_twice || n_once < KB_EMBEDDED_MAX - 799;
        n_once += !is_twice;
        ck_assert_int_eq(kb_user_embedding_find(&m, u) != KB_ID_NONE, is_in);
    }
    kb_user_embedding_close(&m);
    kb_history_close(&history);
}
END_TEST

START_TEST(what_is_seen_twice_counts_twice)
{
    double x[2][DIM + 1] = {{1, 2, 3, 4}, {-1, 0, 0.5, 6}};
    kb_history_init(&history, DIM + 1, kbt_key);
    for (int i = 0; i < 2; i++) {
        show(4, x[i], i == 0 ? 5 : 1);
        for (int repeat = 0; repeat < (i == 0 ? 5 : 1); repeat++)
            show(7, x[i], 1);
        show(9, x[i], 3);
    }
    struct kb_user_embedding m = learn(&plain);
    ck_assert_uint_eq(m.n, 3);
    ck_assert_double_le(distance2(24, m.mean, m.mean + 24), 1e-28);
    ck_assert_double_gt(distance2(24, m.mean, m.mean + 48), 1e-3);
    kb_user_embedding_close(&m);
    close_history();
}
END_TEST

/* Rounding must not be blown up to a difference by a median of rounding. */
START_TEST(users_who_saw_the_same_in_any_order_are_alike)
{
    const uint64_t step[4] = {1, 3, 7, 9}; /* coprime to 40: the same vectors in four orders */
    double x[DIM + 1], g[16];
    kb_history_init(&history, DIM + 1, kbt_key);
    for (uint64_t i = 0; i < 40; i++)
        for (uint32_t user = 0; user < 4; user++) {
            kbt_random_normal(DIM + 1, i * step[user] % 40, x);
            show(user, x, 1);
        }
    struct kb_user_embedding m = learn(&plain);
    ck_assert_uint_eq(m.n, 4);
    kb_user_embedding_gram(&m, g);
    for (int i = 0; i < 16; i++)
        ck_assert_double_eq_tol(g[i], 1, 1e-12);
    kb_user_embedding_close(&m);
    close_history();
}
END_TEST

START_TEST(coordinates_beyond_the_contexts_are_not_read)
{
    open_history();
    struct kb_user_embedding a = learn(&plain);
    for (size_t row = 0; row < history.n; row++)
        history.x[row * (DIM + 1) + DIM] *= -3;
    struct kb_user_embedding b = learn(&plain);
    ck_assert_uint_eq(kb_user_embedding_digest(&a, 1), kb_user_embedding_digest(&b, 1));
    history.x[5 * (DIM + 1)] += 0.1;
    kb_user_embedding_close(&b);
    b = learn(&plain);
    ck_assert_uint_ne(kb_user_embedding_digest(&a, 1), kb_user_embedding_digest(&b, 1));
    kb_user_embedding_close(&a);
    kb_user_embedding_close(&b);
    close_history();
}
END_TEST

/* --- the kernel ---------------------------------------------------------------------------------------------- */

static double value(const struct kb_user_kernel *k, struct kb_user u, uint32_t slot)
{
    double out, diag = kb_user_kernel_diag(k, u, NULL);
    ck_assert(diag == 1.0);
    kb_user_kernel_row_at(k, u, diag, &slot, 1, &out);
    return out;
}

/* Users as the engine has them: some with a node of a graph that this kernel must not look at. */
static struct kb_user user_at(uint32_t index)
{
    return (struct kb_user){.index = index, .node = index % 2 ? 40000 : KB_ID_NONE};
}

static struct kb_user_kernel *learned_kernel(const struct kb_user_kernel_spec *spec)
{
    struct kb_user_kernel *k = NULL;
    ck_assert_int_eq(kb_user_kernel_new(&k, spec, NULL, kbt_key), KB_OK);
    ck_assert_int_eq(kb_user_kernel_learn(k, SEED, DIM, &history), KB_OK);
    return k;
}

/* Against the naive embeddings; users 0, 1 and those never seen stand alone. */
START_TEST(the_kernel_is_an_rbf_of_the_embeddings_and_the_others_stand_alone)
{
    double mu[N_USERS][24];
    struct kb_user_kernel_spec spec = plain;
    uint32_t slot = KB_ID_NONE;
    open_history();
    spec.bandwidth = _i == 0 ? 0 : 0.8;
    double l = median(history.n, DIM, history.x, DIM + 1);
    for (uint32_t u = 2; u < N_USERS; u++)
        naive_embedding(u, 24, l, mu[u]);
    double s = _i == 0 ? median(N_USERS - 2, 24, mu[2], 24) : 0.8;
    struct kb_user_kernel *k = learned_kernel(&spec);
    for (uint32_t v = 0; v < N_USERS + 2; v++) {
        ck_assert_int_eq(kb_user_kernel_stage_anchor(k, user_at(v), NULL, &slot), KB_OK);
        kb_user_kernel_commit_anchor(k, slot);
        for (uint32_t u = 0; u < N_USERS + 2; u++) {
            bool is_embedded = u >= 2 && v >= 2 && u < N_USERS && v < N_USERS;
            double want = is_embedded ? exp(-distance2(24, mu[u], mu[v]) / (2 * s * s)) : u == v;
            ck_assert_double_le(fabs(value(k, user_at(u), slot) - want), is_embedded ? 1e-11 : 0);
        }
    }
    kb_user_kernel_free(k);
    close_history();
}
END_TEST

START_TEST(everybody_is_alone_until_something_is_learned)
{
    struct kb_user_kernel *k = NULL;
    struct kb_graph *graph = NULL;
    const struct kb_edge edge = {0, 1, 1.0};
    uint32_t slot = KB_ID_NONE;
    ck_assert_int_eq(kb_graph_new(&graph, 2, &edge, 1, NULL), KB_OK);
    ck_assert_int_eq(kb_user_kernel_new(&k, &plain, graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_user_kernel_stage_anchor(k, (struct kb_user){0, 0}, NULL, &slot), KB_OK);
    kb_user_kernel_commit_anchor(k, slot);
    ck_assert(value(k, (struct kb_user){0, 0}, slot) == 1 && value(k, (struct kb_user){1, 1}, slot) == 0);
    kb_user_kernel_free(k);
    kb_graph_free(graph);
}
END_TEST

START_TEST(the_gram_matrix_is_symmetric_and_positive_semidefinite)
{
    double g[49], e[49], vectors[49];
    open_history();
    struct kb_user_embedding m = learn(&plain);
    ck_assert_uint_eq(m.n, 7);
    kb_user_embedding_gram(&m, g);
    for (size_t i = 0; i < 7; i++)
        for (size_t j = 0; j < 7; j++)
            ck_assert(g[i * 7 + j] == g[j * 7 + i] && (i == j ? g[i * 7 + j] == 1 : g[i * 7 + j] < 1));
    kbt_eigen(7, g, e, vectors);
    for (size_t i = 0; i < 7; i++)
        ck_assert_double_gt(e[i], -1e-14);
    kb_user_embedding_close(&m);
    close_history();
}
END_TEST

/* --- snapshots ------------------------------------------------------------------------------------------------ */

START_TEST(a_snapshot_gives_the_same_kernel_back)
{
    struct kb_writer w;
    struct kb_reader r;
    struct kb_user_kernel *copy = NULL;
    uint32_t a = 0, b = 0;
    open_history();
    struct kb_user_kernel *k = learned_kernel(&plain);
    kb_writer_init(&w);
    kb_user_kernel_save(k, &w);
    ck_assert_int_eq(kb_user_kernel_new(&copy, &plain, NULL, kbt_key), KB_OK);
    ck_assert_uint_ne(kb_user_kernel_digest(k, 3), kb_user_kernel_digest(copy, 3));
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_user_kernel_load(copy, &r), KB_OK);
    ck_assert_uint_eq(r.pos, w.n);
    ck_assert_uint_eq(kb_user_kernel_digest(k, 3), kb_user_kernel_digest(copy, 3));
    for (uint32_t v = 0; v < N_USERS; v++) {
        ck_assert_int_eq(kb_user_kernel_stage_anchor(k, user_at(v), NULL, &a), KB_OK);
        ck_assert_int_eq(kb_user_kernel_stage_anchor(copy, user_at(v), NULL, &b), KB_OK);
        for (uint32_t u = 0; u < N_USERS; u++)
            ck_assert(value(k, user_at(u), a) == value(copy, user_at(u), b));
    }
    for (size_t cut = 0; cut < w.n; cut += 7) { /* cut short anywhere: refused, nothing leaks, the old one stays */
        struct kb_user_kernel *other = NULL;
        ck_assert_int_eq(kb_user_kernel_new(&other, &plain, NULL, kbt_key), KB_OK);
        kb_reader_init(&r, w.data, cut);
        ck_assert_int_eq(kb_user_kernel_load(other, &r), KB_ECORRUPT);
        kb_user_kernel_free(other);
    }
    kb_writer_close(&w);
    kb_user_kernel_free(copy);
    kb_user_kernel_free(k);
    close_history();
}
END_TEST

START_TEST(the_least_lengthscale_gives_numbers)
{
    struct kb_user_kernel_spec spec = plain;
    open_history();
    spec.lengthscale = 4.9e-324;
    struct kb_user_embedding m = learn(&spec);
    ck_assert_uint_gt(m.n, 0);
    for (size_t i = 0; i < m.n * m.n_features; i++)
        ck_assert(isfinite(m.mean[i]));
    kb_user_embedding_close(&m);
    close_history();
}
END_TEST

/* What load promises to those who look things up in it. */
START_TEST(embeddings_that_cannot_be_are_refused)
{
    for (int fault = 0; fault < 7; fault++) {
        struct kb_user_embedding m, copy = {0};
        struct kb_writer w;
        struct kb_reader r;
        open_history();
        m = learn(&plain);
        if (fault == 1)
            m.user[3] = m.user[2];
        if (fault == 2)
            m.bandwidth = 0;
        if (fault == 3)
            m.bandwidth = INFINITY;
        if (fault == 4)
            m.mean[30] = (double)NAN;
        if (fault == 6)
            m.bandwidth = 1e-200; /* its square is none */
        if (fault == 5)
            m.user[m.n - 1] = KB_ID_NONE;
        kb_writer_init(&w);
        kb_user_embedding_save(&m, &w);
        kb_reader_init(&r, w.data, w.n);
        ck_assert_int_eq(kb_user_embedding_load(&copy, 24, &r), fault == 0 ? KB_OK : KB_ECORRUPT);
        kb_user_embedding_close(&copy);
        kb_user_embedding_close(&m);
        kb_writer_close(&w);
        close_history();
    }
}
END_TEST

/* --- memory ------------------------------------------------------------------------------------------------- */

static struct kb_user_kernel *brutal_kernel;

static enum kb_err make_and_learn(void *arg)
{
    enum kb_err rc = kb_user_kernel_new(&brutal_kernel, arg, NULL, kbt_key);
    return rc == KB_OK ? kb_user_kernel_learn(brutal_kernel, SEED, DIM, &history) : rc;
}

static void let_go(void *arg)
{
    (void)arg;
    kb_user_kernel_free(brutal_kernel);
    brutal_kernel = NULL;
}

START_TEST(each_allocation_may_fail)
{
    struct kb_user_kernel_spec spec = plain;
    open_history();
    ck_assert_uint_ge(kbt_brutal(make_and_learn, let_go, &spec), 8);
    close_history();
}
END_TEST

int main(void)
{
    return KBT_RUN_TIMES(
        "user_embedding", 30, {embeddings_equal_their_definition_from_the_documented_draws, 2},
        {distances_approach_the_maximum_mean_discrepancy, 1}, {users_of_few_observations_are_not_embedded, 1},
        {of_too_many_users_the_most_observed_are_embedded, 1}, {what_is_seen_twice_counts_twice, 1},
        {users_who_saw_the_same_in_any_order_are_alike, 1}, {coordinates_beyond_the_contexts_are_not_read, 1},
        {the_kernel_is_an_rbf_of_the_embeddings_and_the_others_stand_alone, 2},
        {everybody_is_alone_until_something_is_learned, 1}, {the_gram_matrix_is_symmetric_and_positive_semidefinite, 1},
        {a_snapshot_gives_the_same_kernel_back, 1}, {embeddings_that_cannot_be_are_refused, 1},
        {the_least_lengthscale_gives_numbers, 1}, {each_allocation_may_fail, 1});
}
