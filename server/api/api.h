/* The handlers of the routes, and what they share. Each replies exactly once. */
#ifndef LD_API_H
#define LD_API_H

#include <stdbool.h>

#include "app/app.h"
#include "json/json_in.h"

void api_select(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_reward(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_activate(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_observe(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_list(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_put(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_patch(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_stop(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_start(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_get(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_delete(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_user_delete(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_rebuild(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_compact(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_repair(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_tenant_verify(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_challengers_get(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_promote(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_rollback(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_graph_put(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_graph_patch(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_graph_get(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_arms_put(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_arms_patch(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_arms_get(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_model(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_stats(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_events(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_limits_get(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_limits_put(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_keys_post(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_keys_get(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_key_delete(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_export(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_import(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_replay(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_snapshot_post(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_snapshot_put(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_healthz(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_readyz(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_metrics(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_openapi(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_problems(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_problem(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_front(struct ld_app *app, struct ld_request *r, const char *tenant);
void api_favicon(struct ld_app *app, struct ld_request *r, const char *tenant);

/* --- shared (api_common.c) -------------------------------------------------------------------------- */

/* Everything below that replies has then answered the request: the handler returns and touches it no more. */
/* The media type of a body. */
enum ld_media { LD_MEDIA_JSON, LD_MEDIA_MERGE_PATCH, LD_MEDIA_NDJSON, LD_MEDIA_DATABASE, LD_MEDIA_OTHER };
bool ld_request_has_label(const struct ld_request *r);      /* the media type was told, and is not that of a form */
enum ld_media ld_request_media(const struct ld_request *r); /* see api_common.c on absent types */

/* Which tenant the request means; name: of its path, or "": then that of the header Laplaced-Tenant, else the key's
 * own, else --default-tenant. Borrowed. */
const char *ld_api_tenant_name(const struct ld_app *app, const struct ld_request *r, const char *name);
/* That tenant, held, or NULL after a 404. For routes that open it (route.h). */
struct ld_tenant *ld_api_tenant(struct ld_app *app, struct ld_request *r, const char *name);

/* Whether a tenant of that name may be made of a file; the problem tells why not. Known before any work is done, and
 * asked again by ld_tenants_adopt, which alone decides. */
bool ld_api_may_be_made(struct ld_app *app, const char *tenant, struct ld_problem *p);

/* A new op of the type with the parsed body as its doc, or NULL after a reply. The decoders read op->doc. */
struct ld_op *ld_api_op(struct ld_app *app, struct ld_request *r, enum ld_op_type type);

/* Replies with what a decoder refused and frees the op. */
void ld_api_refuse(struct ld_request *r, struct ld_op *op);

/* Queues the op; its outcome becomes the reply. Takes the op, and the caller's hold of t. */
void ld_api_submit(struct ld_request *r, struct ld_tenant *t, struct ld_op *op);
/* The same to the tenant of that name; takes the op. Where there is none (404), or op is NULL (503), that is the reply.
 */
void ld_api_submit_to(struct ld_app *app, struct ld_request *r, const char *name, struct ld_op *op);

/* The number in a parameter that the request's route has (route.h: ld_queries). 0, or -1 after a 400. */
int ld_api_number(struct ld_request *r, const char *name, uint64_t *out);

#endif
