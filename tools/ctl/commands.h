/* The commands of laplacectl; main.c lists them. */
#ifndef LC_COMMANDS_H
#define LC_COMMANDS_H

#include "common/args.h"

/* cmd_tenant.c */
extern const struct lc_command lc_cmd_tenant;
/* cmd_key.c */
extern const struct lc_command lc_cmd_key;
/* cmd_graph.c */
extern const struct lc_command lc_cmd_graph;
/* cmd_arms.c */
extern const struct lc_command lc_cmd_arms;
/* cmd_decide.c */
extern const struct lc_command lc_cmd_select, lc_cmd_reward, lc_cmd_observe, lc_cmd_activate;
/* cmd_log.c */
extern const struct lc_command lc_cmd_events, lc_cmd_model, lc_cmd_stats, lc_cmd_health, lc_cmd_ready;
/* cmd_verify.c */
extern const struct lc_command lc_cmd_verify;
/* cmd_repair.c */
extern const struct lc_command lc_cmd_repair;
/* cmd_move.c */
extern const struct lc_command lc_cmd_snapshot, lc_cmd_restore, lc_cmd_export, lc_cmd_import;
/* cmd_replay.c, cmd_demo.c */
extern const struct lc_command lc_cmd_replay, lc_cmd_demo;
/* cmd_evaluate.c */
extern const struct lc_command lc_cmd_evaluate;

/* The tenant a /tenants/{t}/... route is asked for: the session's, else "default". */
const char *lc_tenant_name(const struct lc_session *s);

/* GET /tenants/{t}/<rest>, printed. Returns the exit status. */
int lc_get_and_print(const struct lc_session *s, const char *rest);

#endif
