/* What the LK experiments share: rows of algorithms, how a row is tuned, settings. */
#ifndef PB_EXP_LK_H
#define PB_EXP_LK_H

#include "paper/env_lk.h"

/* Width of UCB and base of the schedule in every row with an SE kernel; how they were chosen: exp_lk_rows.c. */
#define PB_LK_BETA 2
#define PB_LK_BASE .1

/* Places in pb_algorithm.value of LK's rows. */
enum pb_lk_row_value {
    PB_LK_ROW_BETA,   /* width of UCB, nu of Thompson */
    PB_LK_ROW_LAMBDA, /* kernel rows: base of the schedule; linear rows: the ridge */
    PB_LK_ROW_USER,   /* coop rows: enum kb_user_kernel_type */
    PB_LK_ROW_SHARE,  /* dictionary rows: the threshold, or KORS's mu in units of lambda */
    PB_LK_ROW_GAMMA   /* KORS rows */
};

/* pb_algorithm.tune of the rows, and the schedule of lambda that the kernel rows share (exp_lk_rows.c). */
void pb_lk_tune_kernel(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);
void pb_lk_tune_threshold(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);
void pb_lk_tune_kors(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);
bool pb_lk_schedule(struct kb_spec *spec, const struct pb_env *env, size_t t, size_t rounds, const double *value);

/* lambda at round t: clip(base S T / (T + t), 1e-6, 1e-1), S = lambda_2 / lambda_max  [LK, F.5]. */
double pb_lk_lambda(const struct pb_env *env, size_t t, size_t rounds, double base);

/* The systems of LK's Table 1 and `random`; and COOP's user kernels beside LK-GP-UCB. */
#define PB_LK_N_SYSTEMS 9u
#define PB_LK_N_COOP 7u
extern const struct pb_algorithm pb_lk_systems[PB_LK_N_SYSTEMS];
extern const struct pb_algorithm pb_lk_coop[PB_LK_N_COOP];

/* A setting: name, users, then enum constants of env_lk.h without their prefix. */
#define PB_LK_SETTING(name_, n, graph, task, regime, reading, apart)                                                   \
    {                                                                                                                  \
        .value = {n, PB_LK_##graph, PB_LK_##task, PB_LK_##regime, PB_LK_##reading, apart}, .name = name_,              \
        .open = pb_lk_open                                                                                             \
    }

/* A row whose lambda follows the schedule; then its width and what it has behind PB_LK_ROW_LAMBDA. */
#define PB_LK_KERNEL_ROW(name_, preset_, tune_, width, ...)                                                            \
    {                                                                                                                  \
        .value = {width, PB_LK_BASE, __VA_ARGS__}, .name = name_, .preset = preset_, .tune = tune_,                    \
        .schedule = pb_lk_schedule                                                                                     \
    }

#endif
