/* The tables of routes, of doors and of queries. route.c searches them; metrics name a route by its row, so that no
 * client can invent labels. */
#include "api/api.h"
#include "api/route.h"
#include "task/tasks.h"

#define HANDLED(handle) handle, LD_OP_EVENT, NULL, NULL, NULL
#define QUEUED(op, fill) NULL, op, NULL, fill, NULL
#define TASK(kind, fill) NULL, LD_OP_TASK, &kind, fill, NULL
/* Of another protocol than ours. */
#define AT_DOOR(door, handle) handle, LD_OP_EVENT, NULL, NULL, &door
#define TASK_AT_DOOR(door, kind, fill) NULL, LD_OP_TASK, &kind, fill, &door

/* clang-format off */
/* The role is what a key must have; call.c says what else is asked. */
const struct ld_route ld_routes[] = {
    /* method   path                        body              role              place           opens                 work             handler */
    {"POST",   "/select",                  LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    HANDLED(api_select)},
    {"POST",   "/reward",                  LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    QUEUED(LD_OP_REWARDS, fill_rewards)},
    {"POST",   "/activate",                LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    QUEUED(LD_OP_ACTIVATE, fill_activate)},
    {"POST",   "/observe",                 LD_BODY_OBSERVE,  LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    QUEUED(LD_OP_OBSERVE, fill_observe)},
    {"POST",   "/ofrep/v1/evaluate/flags/{t}", LD_BODY_JSON, LD_ROLE_DECIDE,  LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_TOLD,    AT_DOOR(ld_flag_door, api_flag)},
    {"POST",   "/ofrep/v1/evaluate/flags", LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    AT_DOOR(ld_flag_door, api_flags)},
    {"POST",   "/ofrep/v1/track",          LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    AT_DOOR(ld_flag_door, api_track)},
    {"POST",   "/personalizer/{v}/rank",   LD_BODY_JSON,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    AT_DOOR(ld_rank_door, api_rank)},
    {"POST",   "/personalizer/{v}/events/{i}/reward", LD_BODY_JSON, LD_ROLE_DECIDE, LD_IN_SERVING, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_rank_reward)},
    {"POST",   "/personalizer/{v}/events/{i}/activate", LD_BODY_NONE, LD_ROLE_DECIDE, LD_IN_SERVING, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_rank_activate)},
    {"POST",   "/personalizer/{v}/multislot/rank", LD_BODY_JSON, LD_ROLE_DECIDE, LD_IN_SERVING, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_rank_slots)},
    {"POST",   "/personalizer/{v}/multislot/events/{i}/reward", LD_BODY_JSON, LD_ROLE_DECIDE, LD_IN_SERVING, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_rank_slots_reward)},
    {"POST",   "/personalizer/{v}/multislot/events/{i}/activate", LD_BODY_NONE, LD_ROLE_DECIDE, LD_IN_SERVING, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_rank_activate)},
    {"GET",    "/personalizer/{v}/configurations/service", LD_BODY_NONE, LD_ROLE_READ, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_REQUEST, AT_DOOR(ld_rank_door, api_service_get)},
    {"PUT",    "/personalizer/{v}/configurations/service", LD_BODY_JSON, LD_ROLE_MANAGE, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_service_put)},
    {"GET",    "/personalizer/{v}/configurations/policy", LD_BODY_NONE, LD_ROLE_READ, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_REQUEST, AT_DOOR(ld_rank_door, api_policy_get)},
    {"PUT",    "/personalizer/{v}/configurations/policy", LD_BODY_JSON, LD_ROLE_MANAGE, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_policy_put)},
    {"DELETE", "/personalizer/{v}/configurations/policy", LD_BODY_NONE, LD_ROLE_MANAGE, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_TOLD, AT_DOOR(ld_rank_door, api_policy_delete)},
    {"POST",   "/personalizer/{v}/configurations/applyFromEvaluation", LD_BODY_JSON, LD_ROLE_MANAGE, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_REQUEST, AT_DOOR(ld_rank_door, api_rank_apply)},
    {"POST",   "/personalizer/{v}/evaluations", LD_BODY_JSON, LD_ROLE_MANAGE,  LD_ON_POOL,     LD_TENANT_OF_HEADER,  LD_WORK_REQUEST,    AT_DOOR(ld_rank_door, api_rank_evaluation_begin)},
    {"GET",    "/personalizer/{v}/evaluations", LD_BODY_NONE, LD_ROLE_READ,    LD_ON_POOL,     LD_TENANT_OF_HEADER,  LD_WORK_LOOK,    AT_DOOR(ld_rank_door, api_rank_evaluations_get)},
    {"PUT",    "/personalizer/{v}/evaluations/{e}", LD_BODY_JSON, LD_ROLE_MANAGE, LD_ON_POOL,  LD_TENANT_OF_HEADER,  LD_WORK_REQUEST,    AT_DOOR(ld_rank_door, api_rank_evaluation_begin)},
    {"GET",    "/personalizer/{v}/evaluations/{e}", LD_BODY_NONE, LD_ROLE_READ, LD_ON_POOL,    LD_TENANT_OF_HEADER,  LD_WORK_LOOK,    AT_DOOR(ld_rank_door, api_rank_evaluation_get)},
    {"DELETE", "/personalizer/{v}/evaluations/{e}", LD_BODY_NONE, LD_ROLE_MANAGE, LD_IN_SERVING, LD_TENANT_OF_HEADER, LD_WORK_REQUEST, TASK_AT_DOOR(ld_rank_door, ld_evaluating, fill_rank_no_evaluation)},
    {"GET",    "/personalizer/{v}/model",  LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_AS_TRANSFER, LD_TENANT_OF_HEADER,  LD_WORK_COPY,    AT_DOOR(ld_rank_door, api_rank_model_get)},
    {"PUT",    "/personalizer/{v}/model",  LD_BODY_DATABASE, LD_ROLE_MANAGE,   LD_AS_TRANSFER, LD_TENANT_TO_REPLACE, LD_WORK_TOLD,    AT_DOOR(ld_rank_door, api_rank_model_put)},
    {"DELETE", "/personalizer/{v}/model",  LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_REQUEST, AT_DOOR(ld_rank_door, api_rank_model_delete)},
    {"GET",    "/personalizer/{v}/model/properties", LD_BODY_NONE, LD_ROLE_READ, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_LOOK, AT_DOOR(ld_rank_door, api_rank_model_properties)},
    {"DELETE", "/personalizer/{v}/logs",   LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_HEADER,  LD_WORK_TOLD,    AT_DOOR(ld_rank_door, api_rank_logs_delete)},
    {"GET",    "/personalizer/{v}/logs/properties", LD_BODY_NONE, LD_ROLE_READ, LD_ON_POOL, LD_TENANT_OF_HEADER, LD_WORK_LOOK, AT_DOOR(ld_rank_door, api_rank_logs_properties)},
    {"GET",    "/route/{t}",               LD_BODY_NONE,     LD_ROLE_DECIDE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_route)},
    {"GET",    "/tenants",                 LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_tenant_list)},
    {"PUT",    "/tenants/{t}",             LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OR_NEW,     LD_WORK_TOLD,    HANDLED(api_tenant_put)},
    {"PATCH",  "/tenants/{t}",             LD_BODY_MERGE,    LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    QUEUED(LD_OP_PATCH, fill_patch)},
    {"GET",    "/tenants/{t}",             LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_REQUEST, HANDLED(api_tenant_get)},
    {"DELETE", "/tenants/{t}",             LD_BODY_NONE,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_tenant_delete)},
    {"PUT",    "/tenants/{t}/graph",       LD_BODY_BULK,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_graph_put)},
    {"PATCH",  "/tenants/{t}/graph",       LD_BODY_PATCH,    LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_graph_patch)},
    {"GET",    "/tenants/{t}/graph",       LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_graph_get)},
    {"GET",    "/tenants/{t}/graph/near",  LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_near)},
    {"PUT",    "/tenants/{t}/arms",        LD_BODY_BULK,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    QUEUED(LD_OP_EVENT, fill_arms_put)},
    {"PATCH",  "/tenants/{t}/arms",        LD_BODY_PATCH,    LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    QUEUED(LD_OP_EVENT, fill_arms_patch)},
    {"GET",    "/tenants/{t}/arms",        LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_arms_get)},
    {"GET",    "/tenants/{t}/limits",      LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_limits_get)},
    {"PUT",    "/tenants/{t}/limits",      LD_BODY_JSON,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_limits_put)},
    {"POST",   "/tenants/{t}/rebuild",     LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    QUEUED(LD_OP_REBUILD, NULL)},
    {"POST",   "/tenants/{t}/compact",     LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_TOLD,    TASK(ld_compaction, fill_compact)},
    {"POST",   "/tenants/{t}/verify",      LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    TASK(ld_verification, NULL)},
    {"GET",    "/tenants/{t}/verify",      LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_REQUEST, HANDLED(api_verification_get)},
    {"DELETE", "/tenants/{t}/verify",      LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_REQUEST, HANDLED(api_verification_delete)},
    {"POST",   "/tenants/{t}/repair",      LD_BODY_JSON,     LD_ROLE_ADMIN,    LD_AS_TRANSFER, LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_tenant_repair)},
    {"GET",    "/tenants/{t}/challengers", LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_challengers_get)},
    {"GET",    "/tenants/{t}/experiment",  LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_experiment_get)},
    {"POST",   "/tenants/{t}/evaluations", LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_TOLD,    TASK(ld_evaluating, fill_evaluation)},
    {"GET",    "/tenants/{t}/evaluations", LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_evaluations_get)},
    {"GET",    "/tenants/{t}/evaluations/{e}", LD_BODY_NONE, LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_evaluation_get)},
    {"DELETE", "/tenants/{t}/evaluations/{e}", LD_BODY_NONE, LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_REQUEST, TASK(ld_evaluating, fill_no_evaluation)},
    {"POST",   "/tenants/{t}/promote",     LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    QUEUED(LD_OP_PROMOTE, fill_promote)},
    {"POST",   "/tenants/{t}/rollback",    LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    QUEUED(LD_OP_PROMOTE, fill_rollback)},
    {"POST",   "/tenants/{t}/stop",        LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_REQUEST, QUEUED(LD_OP_SWITCH, fill_stop)},
    {"POST",   "/tenants/{t}/start",       LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_REQUEST, QUEUED(LD_OP_SWITCH, NULL)},
    {"DELETE", "/tenants/{t}/users/{u}",   LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_FOLD,    TASK(ld_erasure, fill_erase)},
    {"POST",   "/tenants/{t}/posterior",   LD_BODY_JSON,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_posterior)},
    {"GET",    "/tenants/{t}/model",       LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_MODEL,   HANDLED(api_model)},
    {"DELETE", "/tenants/{t}/model",       LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_IN_SERVING,  LD_TENANT_OF_PATH,    LD_WORK_REQUEST, QUEUED(LD_OP_EVENT, fill_forget)},
    {"GET",    "/tenants/{t}/stats",       LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_stats)},
    {"GET",    "/tenants/{t}/events",      LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_TOLD,    HANDLED(api_events)},
    {"GET",    "/tenants/{t}/series",      LD_BODY_NONE,     LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_series)},
    {"GET",    "/tenants/{t}/decisions/{d}", LD_BODY_NONE,   LD_ROLE_READ,     LD_ON_POOL,     LD_TENANT_OF_PATH,    LD_WORK_LOOK,    HANDLED(api_decision)},
    {"GET",    "/tenants/{t}/export",      LD_BODY_NONE,     LD_ROLE_READ,     LD_AS_TRANSFER, LD_TENANT_OF_PATH,    LD_WORK_COPY,    HANDLED(api_export)},
    {"POST",   "/tenants/{t}/import",      LD_BODY_LOG,      LD_ROLE_ADMIN,    LD_AS_TRANSFER, LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_import)},
    {"POST",   "/tenants/{t}/replay",      LD_BODY_LOG,      LD_ROLE_MANAGE,   LD_AS_TRANSFER, LD_TENANT_OF_PATH,    LD_WORK_FOLD,    HANDLED(api_replay)},
    {"POST",   "/tenants/{t}/snapshot",    LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_AS_TRANSFER, LD_TENANT_OF_PATH,    LD_WORK_COPY,    HANDLED(api_snapshot_post)},
    {"PUT",    "/tenants/{t}/snapshot",    LD_BODY_DATABASE, LD_ROLE_ADMIN,    LD_AS_TRANSFER, LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_snapshot_put)},
    {"POST",   "/keys",                    LD_BODY_JSON,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_keys_post)},
    {"GET",    "/keys",                    LD_BODY_NONE,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_keys_get)},
    {"DELETE", "/keys/{k}",                LD_BODY_NONE,     LD_ROLE_ADMIN,    LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_key_delete)},
    {"POST",   "/tenants/{t}/keys",        LD_BODY_JSON,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_TOLD,    HANDLED(api_keys_post)},
    {"GET",    "/tenants/{t}/keys",        LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_keys_get)},
    {"DELETE", "/tenants/{t}/keys/{k}",    LD_BODY_NONE,     LD_ROLE_MANAGE,   LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_key_delete)},
    {"GET",    "/healthz",                 LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_healthz)},
    {"GET",    "/readyz",                  LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_readyz)},
    {"GET",    "/metrics",                 LD_BODY_NONE,     LD_ROLE_METRICS,  LD_ON_POOL,     LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_metrics)},
    {"GET",    "/openapi.yaml",            LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_openapi)},
    {"GET",    "/openapi-3.0.yaml",        LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_openapi30)},
    {"GET",    "/problems",                LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_problems)},
    {"GET",    "/problems/{p}",            LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_problem)},
    {"GET",    "/",                        LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_front)},
    {"GET",    "/favicon.ico",             LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_favicon)},
    {"GET",    "/console",                 LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_console)},
    {"GET",    "/console/",                LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_console_file)},
    {"GET",    "/console/{f}",             LD_BODY_NONE,     LD_ROLE_PUBLIC,   LD_IN_SERVING,  LD_TENANT_NOT_OPENED, LD_WORK_REQUEST, HANDLED(api_console_file)},
};
/* clang-format on */
const size_t ld_n_routes = sizeof ld_routes / sizeof *ld_routes;

const struct ld_door *const ld_doors[] = {&ld_flag_door, &ld_rank_door};
const size_t ld_n_doors = sizeof ld_doors / sizeof *ld_doors;

/* clang-format off */
/* The parameters of their queries. A route that does not stand here takes none; what it does not take is refused
 * (stray.c). */
const struct ld_query ld_queries[] = {
    /* method path                    name        min  max        preset */
    {"POST",  "/ofrep/v1/evaluate/flags", "flagConfigEtag",         0, 0, 0}, /* of streams of events, which there are not */
    {"POST",  "/ofrep/v1/evaluate/flags", "flagConfigLastModified", 0, 0, 0},
    {"GET",   "/personalizer/{v}/model", "signed", 0, 0,       0}, /* of no effect, like those of evaluations */
    {"GET",   "/personalizer/{v}/evaluations", "filter", 0, 0, 0},
    {"GET",   "/personalizer/{v}/evaluations", "top",  0, 0,   0},
    {"GET",   "/personalizer/{v}/evaluations", "skip", 0, 0,   0},
    {"GET",   "/personalizer/{v}/evaluations", "maxpagesize", 0, 0, 0},
    {"GET",   "/personalizer/{v}/evaluations/{e}", "startTime", 0, 0, 0},
    {"GET",   "/personalizer/{v}/evaluations/{e}", "endTime", 0, 0, 0},
    {"GET",   "/personalizer/{v}/evaluations/{e}", "intervalInMinutes", 0, 0, 0},
    {"GET",   "/personalizer/{v}/evaluations/{e}", "window", 0, 0, 0},
    {"GET",   "/route/{t}",           "user",       0, 0,       0},
    {"GET",   "/route/{t}",           "candidates", 0, 0,       0},
    {"GET",   "/route/{t}",           "context",    0, 0,       0},
    {"GET",   "/route/{t}",           "attributes", 0, 0,       0},
    {"GET",   "/route/{t}",           "decision",   0, 0,       0},
    {"GET",   "/route/{t}",           "fallback",   0, 0,       0},
    {"GET",   "/tenants",             "stats",    0,   1,         0},
    {"GET",   "/tenants/{t}/graph/near", "user",  0, 0,       0},
    {"GET",   "/tenants/{t}/graph/near", "hops",  0, 8,       2},
    {"GET",   "/tenants/{t}/graph/near", "limit", 1, 1000,    300},
    {"GET",   "/tenants/{t}/challengers", "history", 0, 1,      0},
    {"GET",   "/tenants/{t}/model",   "history",  0,   1,         0},
    {"GET",   "/tenants/{t}/stats",   "window_s", 1,   31536000,  3600},
    {"GET",   "/tenants/{t}/series",  "from",     0,   INT64_MAX, 0},
    {"GET",   "/tenants/{t}/series",  "to",       0,   INT64_MAX, INT64_MAX},
    {"GET",   "/tenants/{t}/series",  "step",     0,   0,         0}, /* words */
    {"GET",   "/tenants/{t}/series",  "by",       0,   0,         0},
    {"GET",   "/tenants/{t}/events",  "after",    0,   INT64_MAX, 0},
    {"GET",   "/tenants/{t}/events",  "before",   1,   INT64_MAX, INT64_MAX},
    {"GET",   "/tenants/{t}/events",  "type",     0,   0,         0}, /* words */
    {"GET",   "/tenants/{t}/events",  "limit",    1,   100000,    10000},
};
/* clang-format on */
const size_t ld_n_queries = sizeof ld_queries / sizeof *ld_queries;
