/* Logs of other formats into a tenant, and a tenant's log in other formats. */
#ifndef LC_MOVE_LOGS_H
#define LC_MOVE_LOGS_H

#include "common/args.h"
#include "evaluate/log_reader.h"

struct lc_move_options {
    const char *format; /* of the log outside; NULL: the tenant's own lines (cmd_move.c) */
    struct lc_log_options log;
    size_t hash_seed;
    double default_reward; /* < 0: none */
};

struct lc_client;

/* The dimensions of the tenant's vectors and its mapping of names into o->log, with what else the readers want. 0, or
 * the exit status. */
int lc_move_dimensions(const struct lc_session *s, struct lc_client *c, struct lc_move_options *o);

/* Learns the log into the session's tenant by POST /observe, in batches. The exit status; all is printed. */
int lc_move_in(const struct lc_session *s, struct lc_move_options *o, const char *file);
/* The decisions of the session's tenant with their rewards as lines of the format. */
int lc_move_out(const struct lc_session *s, struct lc_move_options *o, FILE *out);

#endif
