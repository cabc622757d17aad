/* The environments of [LK, sec. 5 and F.1]: users on a graph, a pool of items, rewards that are smooth over both.
 *
 * A setting's `value` holds the six numbers of enum pb_lk_value. What the text leaves open or says in two ways is a
 * *reading*, a row of a table in env_lk.c, so that Table 1 can be run under several of them side by side. */
#ifndef PB_ENV_LK_H
#define PB_ENV_LK_H

#include "base/rng.h"
#include "paper/paper.h"

enum pb_lk_graph { PB_LK_ER, PB_LK_RBF, PB_LK_SBM, PB_LK_COMPLETE, PB_LK_ALONE, PB_LK_N_GRAPHS };
enum pb_lk_task { PB_LK_EASY, PB_LK_MEDIUM, PB_LK_HARD, PB_LK_N_TASKS };
enum pb_lk_regime { PB_LK_LINEAR, PB_LK_GP, PB_LK_REPRESENTER, PB_LK_N_REGIMES };
enum pb_lk_reading { PB_LK_FITTED, PB_LK_LITERAL, PB_LK_THEOREM, PB_LK_N_READINGS };

/* Places in pb_setting.value. APART: 1 = no two rounds show an item with the same bits, as where features are measured
 * and not looked up; exact models then hold every round instead of every distinct (user, item). */
enum pb_lk_value { PB_LK_AT_USERS, PB_LK_AT_GRAPH, PB_LK_AT_TASK, PB_LK_AT_REGIME, PB_LK_AT_READING, PB_LK_AT_APART };

/* pb_setting.open of every LK setting. KB_EINVAL for values out of range (users: 2..2000), KB_ENOMEM, KB_ENOTPD.
 * O(n^3 + n^2 M + n M^2). */
enum kb_err pb_lk_open(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out);

/* A setting resolved: the task's sizes and the reading's constants. */
struct pb_lk_shape {
    size_t n_users, n_items, n_shown, dim;
    enum pb_lk_graph graph;
    enum pb_lk_regime regime;
    double rho, power;  /* prior covariance over users: (L + rho I)^-power */
    bool is_normalized; /* items scaled to the unit sphere */
    double noise;       /* sigma; of the range of f when is_relative */
    bool is_relative;
    bool is_apart;
};

/* KB_EINVAL when a value is out of range. */
enum kb_err pb_lk_shape_of(const double *value, struct pb_lk_shape *out);

/* What a seed draws once: graph, pool and f. Arrays are the world's own. */
struct pb_lk_world {
    struct pb_lk_shape shape;
    double *weight;     /* n x n, symmetric, zero diagonal */
    double *eigenvalue; /* [n] of L = D - W, ascending, clipped at 0 */
    double *basis;      /* n x n, column-major: the eigenvectors */
    double *item;       /* [M][d] */
    double *truth;      /* [n][M]: f(u, i) */
    double ratio;       /* lambda_2 / lambda_max of L, lambda_2 the smallest eigenvalue that is not 0; no edges: 1 */
    double lengthscale; /* median distance between items */
    double noise;       /* sigma in reward units */
};

/* On failure *w is empty. To be closed by pb_lk_world_close (also when empty). */
enum kb_err pb_lk_world_open(struct pb_lk_world *w, const struct pb_lk_shape *shape, uint64_t seed);
void pb_lk_world_close(struct pb_lk_world *w);

/* g = (L + rho I)^-power, n x n, both triangles. KB_ENOMEM. O(n^3). */
enum kb_err pb_lk_user_covariance(const struct pb_lk_world *w, double rho, double power, double *g);

/* The world behind an environment that pb_lk_open made; any other is a bug (asserted). */
const struct pb_lk_world *pb_lk_world_of(const struct pb_env *env);

/* One independent key for each purpose of a seed; numbers enter the keys, a new purpose goes to the end. */
enum pb_lk_purpose {
    PB_LK_KEY_GRAPH = 1,
    PB_LK_KEY_PLACES,
    PB_LK_KEY_ITEMS,
    PB_LK_KEY_TRUTH,
    PB_LK_KEY_USERS,
    PB_LK_KEY_ARMS,
    PB_LK_KEY_NOISE,
    PB_LK_KEY_APART
};
uint64_t pb_lk_key(uint64_t seed, enum pb_lk_purpose purpose);

/* The i-th draw of a key: on [0, 1); standard normal. */
static inline double pb_lk_uniform(uint64_t key, uint64_t i)
{
    return kb_rng_uniform(key, KB_STREAM_SIMULATION, i);
}
static inline double pb_lk_normal(uint64_t key, uint64_t i)
{
    return kb_rng_normal(key, KB_STREAM_SIMULATION, i);
}

#endif
