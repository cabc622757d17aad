/* The simulated town.
 *
 *   users     n, in neighbourhoods of about 20 (stochastic block model): expected degree 6 inside, 1 outside;
 *             components are joined by one edge each, so the graph is connected
 *   arms      M points on the unit sphere of R^d
 *   truth     f ~ GP(0, (L + rho I)^-1 (x) exp(-|x - x'|^2 / 2 l^2))          [LK, Thm 2.1, regime 2A]
 *             drawn exactly: L + rho I = C C^T, Gram of the arms = A A^T, f = C^-T Z A^T with Z iid normal;
 *             then divided by its root mean square: a prior variance of 1, which every policy assumes, is right
 *   round t   a uniform user, n_candidates of the M arms without replacement
 *   reward    f + noise * normal(seed, t, arm): two policies that choose the same arm in a round see the same reward
 *
 * Everything is a function of the seed (keyed randomness, core/base/rng.h): no generator runs along, so four policies
 * in four threads see one and the same town. Numerical note: the arms' Gram gets 1e-9 on its diagonal.
 *
 * Cost: the factor of the users, O(n^3 / 3), is all that counts beyond a few hundred of them; memory n^2
 * doubles while the truth is drawn, n arms doubles afterwards. */
#include "demo/town.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "linalg/chol.h"
#include "base/hash.h"
#include "linalg/linalg.h"
#include "base/rng.h"

#define BLOCK_SIZE 20u
#define DEGREE_INSIDE 6.0
#define DEGREE_OUTSIDE 1.0
#define MAX_USERS 3000u /* the truth is drawn by a dense factor */
#define JITTER 1e-9

/* numbers enter the keys: a new purpose goes to the end */
enum purpose { EDGES = 1, BRIDGES, FEATURES, TRUTH, USERS, CANDIDATES, NOISE };

/* Independent streams for each purpose from the one seed. */
static uint64_t key_of(uint64_t seed, enum purpose p)
{
    return kb_hash_u64(kb_hash_u64(KB_HASH_INIT, seed), (uint64_t)p);
}

static double uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}

/* Small enough that a dense draw takes no time, large enough for six neighbourhoods. */
struct lc_town_options lc_town_defaults(void)
{
    return (struct lc_town_options){.seed = 1,
                                    .n_users = 120,
                                    .n_arms = 20,
                                    .dim = 5,
                                    .n_candidates = 10,
                                    .rho = 0.1,
                                    .lengthscale = 1.0,
                                    .noise = 0.2};
}

/* --- graph ------------------------------------------------------------------------------------------ */

static void add_edge(struct lc_town *town, size_t *cap, size_t u, size_t v)
{
    town->edges = lc_room(town->edges, cap, town->n_edges + 1, sizeof *town->edges);
    town->edges[town->n_edges++] = (struct kb_edge){(uint32_t)u, (uint32_t)v, 1.0};
}

/* Union-find with path halving. The representative of i's component; shortens the path behind it. */
static size_t root_of(size_t *parent, size_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* Joins every component to that of node 0 by one edge from its lowest node to a random node before it. Every node that
 * is its own root starts a component, and all nodes below it belong to node 0's by then. */
static void connect(struct lc_town *town, size_t *cap)
{
    size_t n = town->o.n_users;
    size_t *parent = lc_alloc(n, sizeof *parent);
    uint64_t key = key_of(town->o.seed, BRIDGES);
    for (size_t i = 0; i < n; i++)
        parent[i] = i;
    for (size_t i = 0; i < town->n_edges; i++) {
        size_t a = root_of(parent, town->edges[i].u), b = root_of(parent, town->edges[i].v);
        parent[a > b ? a : b] = a > b ? b : a; /* the lowest node is the root */
    }
    for (size_t i = 1; i < n; i++) {
        if (root_of(parent, i) != i)
            continue;
        size_t to = (size_t)(uniform(key, i) * (double)i);
        add_edge(town, cap, to, i); /* everything below i belongs to node 0's component by now */
        parent[i] = 0;
    }
    free(parent);
}

/* Every pair is tossed for by its own keyed number: O(n^2). */
static void make_graph(struct lc_town *town)
{
    size_t n = town->o.n_users, cap = 0;
    town->n_blocks = n / BLOCK_SIZE > 1 ? n / BLOCK_SIZE : 1;
    double block = (double)n / (double)town->n_blocks, rest = (double)n - block;
    double inside = block > 1.0 ? DEGREE_INSIDE / (block - 1.0) : 0.0;
    double outside = rest > 0.0 ? DEGREE_OUTSIDE / rest : 0.0;
    uint64_t key = key_of(town->o.seed, EDGES);
    for (size_t u = 0; u < n; u++)
        for (size_t v = u + 1; v < n; v++) {
            double p = u * town->n_blocks / n == v * town->n_blocks / n ? inside : outside;
            if (uniform(key, u * n + v) < p)
                add_edge(town, &cap, u, v);
        }
    connect(town, &cap);
}

/* --- arms and truth --------------------------------------------------------------------------------- */

/* Normal vectors scaled to length 1 are uniform on the sphere. */
static void make_features(struct lc_town *town)
{
    size_t m = town->o.n_arms, d = town->o.dim;
    uint64_t key = key_of(town->o.seed, FEATURES);
    town->features = lc_alloc(m * d, sizeof *town->features);
    for (size_t a = 0; a < m; a++) {
        double *x = town->features + a * d, norm = 0.0;
        for (size_t j = 0; j < d; j++) {
            x[j] = kb_rng_normal(key, KB_STREAM_SIMULATION, a * d + j);
            norm += x[j] * x[j];
        }
        for (size_t j = 0; j < d; j++)
            x[j] /= sqrt(norm);
    }
}

/* Factor of the arms' Gram matrix. Lower triangle only, column-major: gram[b * m + a] with b <= a. Not through
 * vec_kernel.c: the truth is written down independently of the code that has to find it. */
static enum kb_err factor_arms(const struct lc_town *town, struct kb_chol *out)
{
    size_t m = town->o.n_arms, d = town->o.dim;
    double *gram = lc_alloc(m * m, sizeof *gram);
    for (size_t a = 0; a < m; a++)
        for (size_t b = 0; b <= a; b++) {
            double r2 = 0.0;
            for (size_t j = 0; j < d; j++) {
                double diff = town->features[a * d + j] - town->features[b * d + j];
                r2 += diff * diff;
            }
            gram[b * m + a] = exp(-r2 / (2.0 * town->o.lengthscale * town->o.lengthscale)) + (a == b ? JITTER : 0.0);
        }
    enum kb_err rc = kb_chol_factor(out, gram, m, m);
    free(gram);
    return rc;
}

/* Cholesky factor of L + rho I, dense: O(n^3 / 3). rho > 0 makes it positive definite, whatever the graph. */
static enum kb_err factor_users(const struct lc_town *town, struct kb_chol *out, struct kb_errmsg *msg)
{
    size_t n = town->o.n_users;
    struct kb_graph *graph = NULL;
    double *dense = lc_alloc(n * n, sizeof *dense);
    enum kb_err rc = KB_OK;
    KB_TRY(kb_graph_new(&graph, n, town->edges, town->n_edges, msg));
    kb_graph_dense(graph, town->o.rho, 0.0, dense);
    KB_TRY(kb_chol_factor(out, dense, n, n));
out:
    kb_graph_free(graph);
    free(dense);
    return rc;
}

/* truth = C^-T Z A^T, column by column: f_a = sum_{b <= a} A[a][b] C^-T z_b. Cov(C^-T z) = (C C^T)^-1, which is the
 * user kernel. O(n^2 m + n m^2). z: n x m, one column per arm. */
static void draw_truth(struct lc_town *town, const struct kb_chol *users, const struct kb_chol *arms)
{
    size_t n = town->o.n_users, m = town->o.n_arms;
    uint64_t key = key_of(town->o.seed, TRUTH);
    double *z = lc_alloc(n * m, sizeof *z);
    town->truth = lc_alloc(n * m, sizeof *town->truth);
    for (size_t i = 0; i < n * m; i++)
        z[i] = kb_rng_normal(key, KB_STREAM_SIMULATION, i);
    for (size_t b = 0; b < m; b++)
        kb_chol_solve_lt(users, z + b * n);
    for (size_t a = 0; a < m; a++)
        for (size_t b = 0; b <= a; b++)
            for (size_t u = 0; u < n; u++)
                town->truth[u * m + a] += arms->l[b * arms->cap + a] * z[b * n + u];
    double rms = sqrt(kb_dot(n * m, town->truth, town->truth) / (double)(n * m));
    for (size_t i = 0; i < n * m; i++)
        town->truth[i] /= rms;
    free(z);
}

/* Both factors, then the draw. KB_ENOTPD would mean two arms closer than the jitter can part. */
static enum kb_err make_truth(struct lc_town *town, struct kb_errmsg *msg)
{
    struct kb_chol users, arms;
    enum kb_err rc = KB_OK;
    kb_chol_init(&users);
    kb_chol_init(&arms);
    KB_TRY(factor_arms(town, &arms));
    KB_TRY(factor_users(town, &users, msg));
    draw_truth(town, &users, &arms);
out:
    kb_chol_close(&users);
    kb_chol_close(&arms);
    return rc;
}

/* The options are checked first, as everything below relies on them. Deterministic on one machine; another BLAS may
 * change the truth's last bits. */
int lc_town_new(struct lc_town *town, const struct lc_town_options *o, char *why)
{
    struct kb_errmsg msg = {"", ""};
    *town = (struct lc_town){.o = *o};
    if (o->n_users < 2 || o->n_users > MAX_USERS || o->n_arms < 2 || o->dim < 1 || o->n_candidates < 2 ||
        o->n_candidates > o->n_arms) {
        snprintf(why, LC_WHY, "a town has 2 to %u users, and 2 candidates or more out of its arms", MAX_USERS);
        return -1;
    }
    make_graph(town);
    make_features(town);
    enum kb_err rc = make_truth(town, &msg);
    if (rc != KB_OK)
        snprintf(why, LC_WHY, "the town's truth cannot be drawn: %s %.120s", kb_strerror(rc), msg.text);
    return rc == KB_OK ? 0 : -1;
}

void lc_town_close(struct lc_town *town)
{
    free(town->edges);
    free(town->features);
    free(town->truth);
    *town = (struct lc_town){0};
}

/* --- rounds ----------------------------------------------------------------------------------------- */

size_t lc_town_user(const struct lc_town *town, size_t t)
{
    return (size_t)(uniform(key_of(town->o.seed, USERS), t) * (double)town->o.n_users);
}

void lc_town_candidates(const struct lc_town *town, size_t t, size_t *arms)
{
    size_t m = town->o.n_arms;
    size_t *deck = lc_alloc(m, sizeof *deck);
    uint64_t key = key_of(town->o.seed, CANDIDATES);
    for (size_t i = 0; i < m; i++)
        deck[i] = i;
    for (size_t i = 0; i < town->o.n_candidates; i++) {
        size_t j = i + (size_t)(uniform(key, t * m + i) * (double)(m - i));
        arms[i] = deck[j];
        deck[j] = deck[i];
    }
    free(deck);
}

/* Only the chosen arm's noise is looked at, but every arm of every round has its own. Never clipped: rewards may be
 * negative. */
double lc_town_reward(const struct lc_town *town, size_t t, size_t arm)
{
    size_t m = town->o.n_arms;
    double z = kb_rng_normal(key_of(town->o.seed, NOISE), KB_STREAM_SIMULATION, t * m + arm);
    return town->truth[lc_town_user(town, t) * m + arm] + town->o.noise * z;
}

/* Against the best of the candidates, not of all arms: what was on offer is not the policy's fault. */
double lc_town_regret(const struct lc_town *town, size_t t, size_t chosen)
{
    const double *f = town->truth + lc_town_user(town, t) * town->o.n_arms;
    size_t *arms = lc_alloc(town->o.n_candidates, sizeof *arms);
    double best = f[chosen];
    lc_town_candidates(town, t, arms);
    for (size_t i = 0; i < town->o.n_candidates; i++)
        best = fmax(best, f[arms[i]]);
    free(arms);
    return best - f[chosen];
}
