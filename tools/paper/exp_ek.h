/* What EK's experiments share. */
#ifndef PB_EXP_EK_H
#define PB_EXP_EK_H

#include "paper/paper.h"

#define PB_EK_MAX_POINTS 4096 /* more than there are rounds: what is exact stays exact, what is admitted gets in */

/* EK's kernel and width for any of the presets. value: lambda, mu, gamma, largest dictionary (0: PB_EK_MAX_POINTS), q
 * and C of bkb and bbkb (q 0: the preset's). */
void pb_ek_tune(struct kb_spec *spec, const struct pb_env *env, size_t rounds, const double *value);

#endif
