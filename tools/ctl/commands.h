/* The commands of laplacectl, which main.c lists, and what they share (request.c). */
#ifndef LC_COMMANDS_H
#define LC_COMMANDS_H

#include "common/args.h"
#include "common/json.h"
#include "common/text.h"

extern const struct lc_command lc_cmd_tenant;                                                 /* cmd_tenant.c */
extern const struct lc_command lc_cmd_key;                                                    /* cmd_key.c */
extern const struct lc_command lc_cmd_graph;                                                  /* cmd_graph.c */
extern const struct lc_command lc_cmd_arms;                                                   /* cmd_arms.c */
extern const struct lc_command lc_cmd_select, lc_cmd_reward, lc_cmd_observe;                  /* cmd_decide.c */
extern const struct lc_command lc_cmd_activate;                                               /* cmd_decide.c */
extern const struct lc_command lc_cmd_events, lc_cmd_model, lc_cmd_stats;                     /* cmd_log.c */
extern const struct lc_command lc_cmd_health, lc_cmd_ready;                                   /* cmd_log.c */
extern const struct lc_command lc_cmd_experiment;                                             /* cmd_experiment.c */
extern const struct lc_command lc_cmd_verify;                                                 /* cmd_verify.c */
extern const struct lc_command lc_cmd_repair;                                                 /* cmd_repair.c */
extern const struct lc_command lc_cmd_snapshot, lc_cmd_restore, lc_cmd_export, lc_cmd_import; /* cmd_move.c */
extern const struct lc_command lc_cmd_cluster;                                                /* cmd_cluster.c */
extern const struct lc_command lc_cmd_replay;                                                 /* cmd_replay.c */
extern const struct lc_command lc_cmd_demo;                                                   /* cmd_demo.c */
extern const struct lc_command lc_cmd_evaluate;                                               /* cmd_evaluate.c */

/* A request and its answer, printed; the exit status. body NULL: none, of no type. */
int lc_request(const struct lc_session *s, const char *method, const char *path, const char *type,
               const struct lc_text *body);
/* The same of a route of the session's tenant. */
int lc_tenant_request(const struct lc_session *s, const char *method, const char *rest, const char *type,
                      const struct lc_text *body);

/* verify: whether the snapshots in a data folder are what the logs beside them say. Prints a line a tenant (name NULL:
 * all of them, in order). The exit status: 0 when all are equal. Writes nothing. */
int lc_verify_files(const struct lc_session *s, const char *data_dir, const char *name);

/* The same of the chains of logs in PostgreSQL; data NULL: no copy is looked at. */
int lc_verify_log(const char *url, const char *data, const char *name);

/* replay --shadow: a log through a model inside the server, told as it goes. The exit status; all is printed. */
struct lc_shadow_options {
    const char *configuration; /* file with that of the shadow */
    const char *commit;        /* name of the tenant to be made of it; NULL: none */
    const char *file;          /* the log; NULL: the tenant's own, "-": standard input */
    bool is_quiet;
};
int lc_shadow_replay(const struct lc_session *s, const struct lc_shadow_options *o);

/* A list of the server as a table for people: `header`, then `print` for each item of the answer's member. With --json
 * the answer as it is. The exit status; `what` names the request in errors. */
int lc_list(const struct lc_session *s, const char *path, const char *what, const char *member, const char *header,
            void (*print)(const struct json_t *item));

/* The JSON in a file; NULL after a printed error. To be freed. */
struct json_t *lc_json_from_file(const char *file);

/* Content type by the file's name: JSON (.json), NDJSON (.ndjson, .jsonl), else NULL. */
const char *lc_type_of(const char *file);

/* POST /tenants/{t}/repair; the answer is the server's JSON, whatever the output: cmd_repair.c. */
struct ld_repair;
int lc_ask_repair(const struct lc_session *s, const char *name, const struct ld_repair *wanted);

#endif
