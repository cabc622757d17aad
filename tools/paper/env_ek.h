/* EK's three synthetic environments: what they show and pay is in env_ek.c. */
#ifndef PB_ENV_EK_H
#define PB_ENV_EK_H

#include "paper/paper.h"

/* `open` of settings, whose one value is a kind. KB_EINVAL for seeds that are none of numpy's RandomState, from 2^32
 * on. T of the paper is T + 2 rounds here: one forced arm, then t = 0..T. */
enum pb_ek_kind { PB_EK_BUMP, PB_EK_CHESSBOARD, PB_EK_STEP };
enum kb_err pb_ek_open(const struct pb_setting *s, uint64_t seed, size_t rounds, struct pb_env **out);

/* The noisy best reward of the round shown last, which the paper's own regret is counted against; on Chessboard and
 * Step Diagonal 1 + noise, whether an arm reaches 1 or not. */
double pb_ek_best_reward(const struct pb_env *env);

#define PB_EK_MAX_POINTS 4096 /* more than there are rounds: what is exact stays exact, what is admitted gets in */

/* `tune` of EK's rows (exp_ek.c): its kernel and width for any of the presets. value: lambda, mu, gamma, largest
 * dictionary (0: PB_EK_MAX_POINTS), q and C of bkb and bbkb (q 0: the preset's). */
void pb_ek_tune(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);

#endif
