/* The configuration of a tenant from the command line of a contextual bandit of Vowpal Wabbit's. */
#ifndef LC_FROM_VW_H
#define LC_FROM_VW_H

#include "common/text.h"

/* `flags` as one text -> the configuration in *out, and in *remarks a line for each flag that means something else
 * here, or nothing. 0, or 1 after a printed error: a flag that VW does not have, or a task that no tenant does. */
int lc_from_vw(const char *flags, struct lc_text *out, struct lc_text *remarks);

#endif
