/* The environment of TC: a function of known norm in a known kernel's space, and fresh arms every round. */
#ifndef PB_ENV_TC_H
#define PB_ENV_TC_H

#include "paper/paper.h"

#define PB_TC_CENTRES 20u
#define PB_TC_ARMS 100u
#define PB_TC_MAX_DIM 8u

/* Where a setting's values stand. */
enum pb_tc_value { PB_TC_KERNEL, PB_TC_LENGTHSCALE, PB_TC_DIM, PB_TC_NOISE, PB_TC_NORM };

/* A row for a kernel in d dimensions, the noise's sigma and the norm B. */
#define PB_TC_SETTING(name_, type, lengthscale, d, sigma, b)                                                           \
    {                                                                                                                  \
        .value = {type, lengthscale, d, sigma, b}, .name = name_, .open = pb_tc_open                                   \
    }

/* Open to tests, which compute f and its norm by themselves. */
struct pb_tc_env {
    struct pb_env base;
    struct kb_vec_kernel_spec kernel;
    double centre[PB_TC_CENTRES][PB_TC_MAX_DIM]; /* z_i */
    double weight[PB_TC_CENTRES];                /* b w_i */
    double arm[PB_TC_ARMS][PB_TC_MAX_DIM];       /* of the round shown last, likewise the rest */
    const double *features[PB_TC_ARMS];
    double mean[PB_TC_ARMS];
    double reward_noise;
    uint64_t arm_key, noise_key;
};

/* f(x); a multiple of it while the weights are not scaled yet. */
double pb_tc_value(const struct pb_tc_env *e, const double *x);

/* KB_EINVAL when the setting has a dimension beyond PB_TC_MAX_DIM. */
enum kb_err pb_tc_open(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out);

#endif
