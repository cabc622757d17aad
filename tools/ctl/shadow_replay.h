/* laplacectl replay --shadow: a log through a model inside the server, told as it goes. */
#ifndef LC_SHADOW_REPLAY_H
#define LC_SHADOW_REPLAY_H

#include <stdbool.h>

#include "common/args.h"

struct lc_shadow_options {
    const char *configuration; /* file with that of the shadow */
    const char *commit;        /* name of the tenant to be made of it; NULL: none */
    const char *file;          /* the log; NULL: the tenant's own, "-": standard input */
    bool is_quiet;
};

/* The exit status; all is printed. */
int lc_shadow_replay(const struct lc_session *s, const struct lc_shadow_options *o);

#endif
