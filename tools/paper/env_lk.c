/* The environments of [LK]: readings of the text, and the rounds.
 *
 *   round t   a uniform user u_t, C of the M items without repetition, pseudo-regret on f            [LK, sec. 5]
 *   reward    f(u_t, x) + sigma eps_t, one eps_t a round: every algorithm meets the same (u_t, D_t, eps_t)  [LK, F.2]
 *   arms      id "i7" and the item's d coordinates; no context; users "u0", "u1", ...
 *
 *   task     M   d    C as printed
 *   easy     10   5   5
 *   medium   20  10   5
 *   hard     50  20   5
 *
 * Readings. The text gives some values twice; the rows of `readings` are the ways to take them together.
 *   fitted    f ~ GP(L_rho^(-1/2) (x) SE), rho .1, items as drawn, half of the pool shown, sigma .01 of the range of f:
 *             the one that gives Table 1 at its printed level (docs/REPRODUCTION.md)
 *   literal   F.1.2 as it stands: L_rho^(-1/2), rho .01, items on the sphere, 5 shown; sigma .01 of the range for the
 *             GP draw (F.1.2 A) and .1 otherwise (sec. 5)
 *   theorem   the same with Theorem 2.1's kernel L_rho^-1
 *
 * Every number is keyed by (seed, purpose, index), nothing depends on what was chosen, and any round can be asked for.
 * Cost: O(M + C d) a round. */
#include "paper/env_lk.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"

#define MAX_USERS 2000u
#define ID_BYTES 12u
#define APART 1e-7 /* moves k by 1e-14: a numerical twin that is not bitwise equal */

/* [LK, sec. 5]; n_shown is the printed number, which a reading may replace by half of the pool. */
static const struct {
    size_t n_items, dim, n_shown;
} tasks[PB_LK_N_TASKS] = {[PB_LK_EASY] = {10, 5, 5}, [PB_LK_MEDIUM] = {20, 10, 5}, [PB_LK_HARD] = {50, 20, 5}};

/* The readings of the header. */
static const struct {
    double rho, power;
    bool is_normalized, shows_half;
    double relative_noise, other_noise; /* of the range of f, and absolute; relative 0: the absolute one */
    bool is_relative_for_gp_only;
} readings[PB_LK_N_READINGS] = {
    [PB_LK_FITTED] = {.1, .5, false, true, .01, .1, false},
    [PB_LK_LITERAL] = {.01, .5, true, false, .01, .1, true},
    [PB_LK_THEOREM] = {.01, 1, true, false, .01, .1, true},
};

/* The environment: the world, names, and room for the round in hand. */
struct lk_env {
    struct pb_env base; /* first: a pb_env of ours is an lk_env */
    struct pb_lk_world world;
    uint64_t user_key, arm_key, noise_key, apart_key;
    char (*user_id)[ID_BYTES], (*item_id)[ID_BYTES];
    const char **user_name;
    struct kb_ev_edge *edge;
    /* the round in hand */
    size_t t, user;
    size_t *item;           /* [M], the first C are shown */
    const char **arm;       /* [C] */
    const double **feature; /* [C] */
    double *moved;          /* [C][d], when apart */
    double *mean;           /* [C] */
};

/* A place of `value` as an index below its limit; clears *is_valid otherwise (NaN fails both comparisons). */
static size_t index_below(const double *value, enum pb_lk_value at, size_t limit, bool *is_valid)
{
    const bool fits = value[at] >= 0.0 && value[at] < (double)limit;
    *is_valid = *is_valid && fits;
    return fits ? (size_t)value[at] : 0;
}

/* All faults end in the one answer: settings are tables in this program, so a bad one is found by the first test. */
enum kb_err pb_lk_shape_of(const double *value, struct pb_lk_shape *out)
{
    bool is_valid = value[PB_LK_AT_USERS] >= 2.0;
    const size_t task = index_below(value, PB_LK_AT_TASK, PB_LK_N_TASKS, &is_valid);
    const size_t r = index_below(value, PB_LK_AT_READING, PB_LK_N_READINGS, &is_valid);
    *out = (struct pb_lk_shape){
        .n_users = index_below(value, PB_LK_AT_USERS, MAX_USERS + 1, &is_valid),
        .n_items = tasks[task].n_items,
        .n_shown = readings[r].shows_half ? tasks[task].n_items / 2 : tasks[task].n_shown,
        .dim = tasks[task].dim,
        .graph = (enum pb_lk_graph)index_below(value, PB_LK_AT_GRAPH, PB_LK_N_GRAPHS, &is_valid),
        .regime = (enum pb_lk_regime)index_below(value, PB_LK_AT_REGIME, PB_LK_N_REGIMES, &is_valid),
        .rho = readings[r].rho,
        .power = readings[r].power,
        .is_normalized = readings[r].is_normalized,
        .is_apart = index_below(value, PB_LK_AT_APART, 2, &is_valid) == 1,
    };
    out->is_relative = out->regime == PB_LK_GP || !readings[r].is_relative_for_gp_only;
    out->noise = out->is_relative ? readings[r].relative_noise : readings[r].other_noise;
    return is_valid ? KB_OK : KB_EINVAL;
}

/* --- rounds ----------------------------------------------------------------------------------------------- */

/* The first C of a shuffle that stops there (Fisher-Yates from the order of the pool, afresh each round). */
static void draw_items(struct lk_env *e, size_t t)
{
    const size_t m = e->world.shape.n_items;
    for (size_t i = 0; i < m; i++)
        e->item[i] = i;
    for (size_t i = 0; i < e->world.shape.n_shown; i++) {
        const size_t j = i + (size_t)(pb_lk_uniform(e->arm_key, t * m + i) * (double)(m - i));
        const size_t item = e->item[j];
        e->item[j] = e->item[i];
        e->item[i] = item;
    }
}

/* The item's own coordinates, or a copy moved by less than anybody can measure, along the diagonal. */
static const double *features_of(struct lk_env *e, size_t slot)
{
    const struct pb_lk_shape *shape = &e->world.shape;
    const double *x = e->world.item + e->item[slot] * shape->dim;
    if (!shape->is_apart)
        return x;
    const double by = APART * pb_lk_uniform(e->apart_key, e->t * shape->n_items + slot);
    for (size_t j = 0; j < shape->dim; j++)
        e->moved[slot * shape->dim + j] = x[j] + by;
    return e->moved + slot * shape->dim;
}

/* The best of the items shown, not of the pool: what a round's regret compares with. */
static void lk_round(struct pb_env *env, size_t t, struct pb_round *out)
{
    struct lk_env *e = (struct lk_env *)env;
    const struct pb_lk_shape *shape = &e->world.shape;
    double best = -INFINITY;
    e->t = t;
    e->user = (size_t)(pb_lk_uniform(e->user_key, t) * (double)shape->n_users);
    draw_items(e, t);
    for (size_t i = 0; i < shape->n_shown; i++) {
        e->arm[i] = e->item_id[e->item[i]];
        e->feature[i] = features_of(e, i);
        e->mean[i] = e->world.truth[e->user * shape->n_items + e->item[i]];
        best = fmax(best, e->mean[i]);
    }
    *out = (struct pb_round){.user = e->user_name[e->user],
                             .n_arms = shape->n_shown,
                             .arm = e->arm,
                             .features = e->feature,
                             .mean = e->mean,
                             .best = best};
}

/* One draw of noise a round, whichever arm: learners that differ in one choice stay comparable in all others. */
static double lk_reward(struct pb_env *env, size_t chosen)
{
    const struct lk_env *e = (const struct lk_env *)env;
    assert(chosen < e->world.shape.n_shown);
    return e->mean[chosen] + e->world.noise * pb_lk_normal(e->noise_key, e->t);
}

/* Also for an environment that was opened halfway: everything it has not got is NULL. */
static void lk_close(struct pb_env *env)
{
    struct lk_env *e = (struct lk_env *)env;
    pb_lk_world_close(&e->world);
    kb_free(e->user_id);
    kb_free(e->item_id);
    kb_free((void *)e->user_name);
    kb_free(e->edge);
    kb_free(e->item);
    kb_free((void *)e->arm);
    kb_free((void *)e->feature);
    kb_free(e->moved);
    kb_free(e->mean);
    kb_free(e);
}

static const struct pb_env_ops lk_ops = {.round = lk_round, .reward = lk_reward, .close = lk_close};

const struct pb_lk_world *pb_lk_world_of(const struct pb_env *env)
{
    assert(env->ops == &lk_ops);
    return &((const struct lk_env *)env)->world;
}

/* --- opening ------------------------------------------------------------------------------------------------ */

/* Everything but the world, of the sizes that its shape says; what was allocated before a failure is left to lk_close.
 */
static enum kb_err allocate(struct lk_env *e)
{
    const struct pb_lk_shape *shape = &e->world.shape;
    const size_t n = shape->n_users, m = shape->n_items, c = shape->n_shown;
    e->user_id = kb_array(n, ID_BYTES, 1);
    e->item_id = kb_array(m, ID_BYTES, 1);
    e->user_name = kb_array(n, 1, sizeof *e->user_name);
    e->edge = kb_array(n, (n + 1) / 2, sizeof *e->edge); /* n (n - 1) / 2 at most */
    e->item = kb_array(m, 1, sizeof *e->item);
    e->arm = kb_array(c, 1, sizeof *e->arm);
    e->feature = kb_array(c, 1, sizeof *e->feature);
    e->moved = kb_array(c, shape->dim, sizeof *e->moved);
    e->mean = kb_array(c, 1, sizeof *e->mean);
    return e->user_id != NULL && e->item_id != NULL && e->user_name != NULL && e->edge != NULL && e->item != NULL &&
                   e->arm != NULL && e->feature != NULL && e->moved != NULL && e->mean != NULL
               ? KB_OK
               : KB_ENOMEM;
}

static void name_all(struct lk_env *e)
{
    const size_t n = e->world.shape.n_users;
    for (size_t i = 0; i < e->world.shape.n_items; i++)
        snprintf(e->item_id[i], ID_BYTES, "i%u", (unsigned)i);
    for (size_t u = 0; u < n; u++) {
        snprintf(e->user_id[u], ID_BYTES, "u%u", (unsigned)u);
        e->user_name[u] = e->user_id[u];
    }
    for (size_t u = 0; u < n; u++)
        for (size_t v = u + 1; v < n; v++)
            if (e->world.weight[u * n + v] > 0.0)
                e->edge[e->base.n_edges++] =
                    (struct kb_ev_edge){e->user_id[u], e->user_id[v], e->world.weight[u * n + v]};
}

/* base.norm stays 0: |f| is whatever the draw makes it, and no learner of the paper is told. */
static void describe(struct lk_env *e, uint64_t seed)
{
    e->base.ops = &lk_ops;
    e->base.arm_dim = (uint32_t)e->world.shape.dim;
    e->base.n_users = e->world.shape.n_users;
    e->base.users = e->user_name;
    e->base.edges = e->edge;
    e->base.noise = e->world.noise;
    e->base.lengthscale = e->world.lengthscale;
    e->user_key = pb_lk_key(seed, PB_LK_KEY_USERS);
    e->arm_key = pb_lk_key(seed, PB_LK_KEY_ARMS);
    e->noise_key = pb_lk_key(seed, PB_LK_KEY_NOISE);
    e->apart_key = pb_lk_key(seed, PB_LK_KEY_APART);
}

/* *out is written last: on failure the caller holds nothing. */
enum kb_err pb_lk_open(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out)
{
    struct pb_lk_shape shape;
    enum kb_err rc = KB_OK;
    (void)rounds; /* rounds are keyed: there is no end to them */
    struct lk_env *e = kb_array(1, 1, sizeof *e);
    if (e == NULL)
        return KB_ENOMEM;
    KB_TRY(pb_lk_shape_of(s->value, &shape));
    KB_TRY(pb_lk_world_open(&e->world, &shape, seed));
    KB_TRY(allocate(e));
    name_all(e);
    describe(e, seed);
    *out = &e->base;
    return KB_OK;
out:
    lk_close(&e->base);
    return rc;
}
