/* A small environment for tests of the frame: a few users on a path, three arms with features, known means, and counts
 * of what was chosen. Every third round is another user's. */
#ifndef TOY_ENV_H
#define TOY_ENV_H

#include <stdlib.h>

#include "kbt.h"
#include "paper/paper.h"
#include "base/rng.h"

#define TOY_ARMS 3u
#define TOY_USERS 3u

struct toy_env {
    struct pb_env base;
    double context[1], feature[TOY_ARMS][2];
    const double *features[TOY_ARMS];
    size_t round, n_chosen[TOY_ARMS];
    bool dies; /* at round 5, by a signal */
};

static const char *const toy_users[TOY_USERS] = {"u0", "u1", "u2"};
static const char *const toy_arms[TOY_ARMS] = {"a0", "a1", "a2"};
static const struct kb_ev_edge toy_edges[] = {{"u0", "u1", 1}, {"u1", "u2", 2}};
static const double toy_means[TOY_ARMS] = {0.25, 1.0, 0.5};
static struct toy_env toy; /* the one opened last: tests look at it after a run */

static void toy_round(struct pb_env *env, size_t t, struct pb_round *out)
{
    struct toy_env *e = (struct toy_env *)env;

    e->round = t;
    if (e->dies && t == 5)
        abort();
    e->context[0] = kb_rng_uniform(1, KB_STREAM_SIMULATION, t);
    *out = (struct pb_round){.user = toy_users[t % TOY_USERS],
                             .context = e->context,
                             .n_arms = TOY_ARMS,
                             .arm = toy_arms,
                             .features = e->features,
                             .mean = toy_means,
                             .best = 1.0};
}

static double toy_reward(struct pb_env *env, size_t chosen)
{
    struct toy_env *e = (struct toy_env *)env;

    e->n_chosen[chosen]++;
    return toy_means[chosen] + 0.1 * kb_rng_normal(2, KB_STREAM_SIMULATION, e->round);
}

static void toy_close(struct pb_env *env)
{
    (void)env;
}

static const struct pb_env_ops toy_ops = {.round = toy_round, .reward = toy_reward, .close = toy_close};

/* value[0]: whether it dies; value[1]: whether there is a graph. */
static enum kb_err toy_open(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out)
{
    (void)seed, (void)rounds;
    toy = (struct toy_env){.base = {.ops = &toy_ops, .context_dim = 1, .arm_dim = 2, .noise = 0.1},
                           .feature = {{0, 0}, {1, 0.5}, {0.25, 1}},
                           .dies = s->value[0] > 0};
    if (s->value[1] > 0) {
        toy.base.n_users = TOY_USERS;
        toy.base.users = toy_users;
        toy.base.edges = toy_edges;
        toy.base.n_edges = 2;
    }
    for (size_t i = 0; i < TOY_ARMS; i++)
        toy.features[i] = toy.feature[i];
    *out = &toy.base;
    return KB_OK;
}

static const struct pb_setting toy_plain = {.name = "toy", .open = toy_open};
static const struct pb_setting toy_graph = {.name = "toy-graph", .open = toy_open, .value = {0, 1}};

#endif
