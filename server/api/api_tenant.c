/* Tenants: list, configure, patch, stop and start, show, delete. They run on the work pool: creating and deleting wait
 * for the disk.
 *
 * Creation is a matter of the registry (files and rows); configuring a tenant that exists is an event like any other
 * and goes through its queue. PUT joins the two and is idempotent: sent twice, the second finds nothing to change. In
 * a view, `settings` are what was asked for and `in_force` what the model uses: a dictionary reset may have put other
 * lengthscales in force (docs/decisions/0007-dictionary-resets.md).
 *
 * Names are checked in PUT alone: in the other calls one that no tenant can have is not found. */
#include "api/api.h"
#include "task/tasks.h"
#include "task/challenger.h"
#include "api/charge.h"
#include "tenant/price.h"
#include "task/repair.h"
#include "json/rules.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "api/route.h"
#include "json/json_out.h"

/* A view of one tenant that outlives its lock: the list is encoded after the last one was read. */
struct row {
    char name[LD_PATH_TENANT_BYTES];
    enum ld_tenant_state state;
    char why[512]; /* of one that cannot be opened, or is read-only */
    uint64_t read_only_from;
    bool is_in_memory; /* else there is nothing but the above */
    struct ld_settings settings;
    struct kb_spec in_force;
    struct kb_engine_counts counts;
    bool is_rebuilding;
    struct kb_build_state build;
    struct ld_graph_view graph;
    struct ld_log_view log;
};

/* Grows by doubling; is_failed remembers that some tenant could not be added. */
struct rows {
    struct row *row;
    size_t n, cap;
    bool is_failed;
};

/* Copies under the read lock; settings and spec are plain values, so a struct assignment is a deep copy. The lock is
 * held for the copy only. Names of 64 bytes fit with their NUL; the row was zeroed by the caller. */
static void read_row(struct row *row, struct ld_tenant *t)
{
    const struct ld_settings *settings;
    const struct kb_engine *e = ld_tenant_read_lock(t, &settings);
    strncpy(row->name, ld_tenant_name(t), sizeof row->name - 1);
    row->is_in_memory = true;
    row->settings = *settings;
    row->in_force = *kb_engine_spec(e);
    kb_engine_counts(e, &row->counts);
    row->is_rebuilding = ld_tenant_is_rebuilding(t);
    kb_engine_build_state(e, &row->build);
    ld_tenant_read_unlock(t);
    ld_tenant_graph(t, &row->graph);
    ld_tenant_log(t, &row->log);
    const char *fault;
    row->read_only_from = ld_tenant_read_only(t, &fault);
    if (row->read_only_from > 0)
        snprintf(row->why, sizeof row->why, "%s", fault);
}

/* The row as the encoder wants it; borrows from the row. Rows move when their array grows, so views are made after
 * the last row. */
static struct ld_tenant_view view_of(const struct row *row)
{
    return (struct ld_tenant_view){.name = row->name,
                                   .state = ld_tenant_state_name(row->state),
                                   .detail = row->why,
                                   .read_only_from = row->read_only_from,
                                   .settings = row->is_in_memory ? &row->settings : NULL,
                                   .in_force = &row->in_force,
                                   .counts = &row->counts,
                                   .is_rebuilding = row->is_rebuilding,
                                   .build = row->build,
                                   .graph = row->graph,
                                   .log = row->log};
}

/* t is NULL for a tenant that is not in memory. A failed growth is remembered and ends in a 503. */
static void add_row(void *arg, const char *name, enum ld_tenant_state state, struct ld_tenant *t, const char *why)
{
    struct rows *rows = arg;
    if (rows->n == rows->cap) {
        size_t cap = rows->cap > 0 ? 2 * rows->cap : 16;
        struct row *grown = realloc(rows->row, cap * sizeof *grown);
        if (grown == NULL) {
            rows->is_failed = true;
            return;
        }
        rows->row = grown;
        rows->cap = cap;
    }
    struct row *row = &rows->row[rows->n++];
    memset(row, 0, sizeof *row);
    row->state = state;
    strncpy(row->name, name, sizeof row->name - 1);
    strncpy(row->why, why, sizeof row->why - 1);
    if (t != NULL)
        read_row(row, t);
}

/* GET /tenants, ascending by name; for a tenant's key that tenant alone. Each row is consistent in itself; the list is
 * of no single moment. Opens no tenant: of those that are not in memory it has name and state. O(tenants), each held up
 * for one copy of its settings and counters; a NULL text is answered 503. */
void api_tenant_list(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct rows rows = {.row = NULL};
    char *text = NULL;
    size_t n = 0;
    (void)tenant;
    rows.is_failed |= !ld_tenants_list(app->tenants, ld_request_caller(r)->tenant, add_row, &rows);
    struct ld_tenant_view *views = calloc(rows.n + 1, sizeof *views);
    if (views != NULL && !rows.is_failed) {
        for (size_t i = 0; i < rows.n; i++)
            views[i] = view_of(&rows.row[i]);
        text = ld_encode_tenants(views, rows.n, &n);
    }
    free(views);
    free(rows.row);
    ld_reply_json(r, 200, text, n);
}

/* Answers with the tenant's view; takes the caller's hold. The tenant is let go before encoding: nothing of it is
 * borrowed by then. */
static void reply_view(struct ld_request *r, int status, struct ld_tenant *t)
{
    struct row row = {.counts = {0}};
    size_t n = 0;
    read_row(&row, t);
    ld_tenant_release(t);
    struct ld_tenant_view view = view_of(&row);
    char *text = ld_encode_tenant(&view, &n);
    ld_reply_json(r, status, text, n);
}

/* GET /tenants/{t}: the configuration as resolved, and the parameters in force. */
void api_tenant_get(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t != NULL)
        reply_view(r, 200, t);
}

/* Makes the tenant unless it exists (possibly since a moment ago, by another request). The held tenant, *is_new
 * telling, or NULL with op->problem filled. A 409 of the creation has two causes: another request was faster, and its
 * tenant is found here; or files of a removal are still being taken away, and there is none: then 503, since a moment
 * later the name is free. On the pool, so that the tenant may be opened here if it was closed again already. */
static struct ld_tenant *find_or_create(struct ld_app *app, struct ld_tenant *t, const char *name,
                                        const struct ld_caller *caller, struct ld_op *op, bool *is_new)
{
    *is_new = false;
    if (t != NULL)
        return ld_tenant_hold(t);
    if ((caller->roles & LD_ROLE_ADMIN) == 0) { /* deleted since the key was checked */
        ld_problem_no_tenant(&op->problem, name);
        return NULL;
    }
    *is_new = ld_tenants_create(app->tenants, name, &op->settings, &op->problem) == 0;
    if (!*is_new && op->problem.status != 409)
        return NULL;
    ld_problem_init(&op->problem);
    t = ld_tenants_get(app->tenants, name, &op->problem);
    if (t == NULL && op->problem.status == 404) { /* made and deleted meanwhile */
        ld_problem_init(&op->problem);
        ld_problem_set(&op->problem, 503, "the tenant was deleted while it was configured");
    }
    return t;
}

static void check_dim(size_t max, const char *pointer, uint32_t dim, struct ld_problem *p)
{
    if (dim <= max)
        return;
    ld_problem_add(p, pointer, "expected a whole number from 0 to %zu", max);
    ld_problem_limit(p, pointer + 1, (double)max);
}

/* Whether the configuration is no larger than the operator lets one be; a tenant that is larger already stays. */
static bool is_bounded(const struct ld_app *app, struct ld_op *op)
{
    const struct kb_spec *spec = &op->settings.spec;
    check_dim(app->limits.dim, "/context_dim", spec->context_dim, &op->problem);
    check_dim(app->limits.dim, "/arm_dim", spec->arm_dim, &op->problem);
    return op->problem.status == 0;
}

/* What may make the model anew. A tenant that is not there yet has nothing to fold. */
static bool pay_fold(struct ld_app *app, struct ld_tenant *t, struct ld_op *op)
{
    struct ld_size size;
    if (t == NULL)
        return true;
    ld_tenant_size(t, &size);
    return ld_charge(app, t, ld_price_fold(&size), &op->problem);
}

/* PUT /tenants/{t}. 201 for a new tenant, which only an admin may make; 200 for a change, which the tenant's writer
 * validates against what it has learned (409 when the dimensions cannot change any more) and puts in the log. The same
 * configuration again changes nothing. Two requests that create one name at a time: one makes it, the other configures
 * it. The body is decoded before the tenant is looked for: a faulty one creates nothing. The settings of a new tenant
 * are its first event, durable before the 201. */
void api_tenant_put(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    bool is_new = false;
    struct ld_op *op = ld_api_op(app, r, LD_OP_SETTINGS);
    if (op == NULL)
        return;
    if (!ld_tenant_name_is_valid(tenant))
        ld_problem_set(&op->problem, 400,
                       "a tenant's name is 1 to 64 letters, digits, dots, underscores and dashes, "
                       "the first a letter or digit");
    struct ld_tenant *t = NULL;
    if (op->problem.status == 0 && ld_decode_settings(op->doc, &op->settings, &op->problem) == 0 &&
        is_bounded(app, op) && pay_fold(app, ld_request_context(r), op))
        t = find_or_create(app, ld_request_context(r), tenant, ld_request_caller(r), op, &is_new);
    if (t == NULL) {
        ld_api_refuse(r, op);
    } else if (is_new) {
        ld_op_free(op);
        reply_view(r, 201, t);
    } else {
        ld_api_submit(r, t, op);
    }
}

/* Whether a model has to be made for it: the tenant's, or that of a challenger. */
static bool takes_fold(const struct ld_settings *now, struct ld_settings *next)
{
    bool is_same = kb_spec_same_model(&now->spec, &next->spec);
    for (size_t i = 0; i < next->n_challengers; i++) {
        const struct ld_challenger_settings *had =
            ld_settings_challenger((struct ld_settings *)(uintptr_t)now, next->challenger[i].name);
        is_same &= had != NULL && ld_challenger_is_same(had, &next->challenger[i]);
    }
    return !is_same;
}

/* Faults are told before the tenant pays, and what is paid for depends on what the patch makes of the configuration in
 * force. The writer merges it once more, into what is in force then. */
static bool prepare_patch(struct ld_app *app, struct ld_tenant *t, struct ld_op *op)
{
    struct ld_settings now;
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    struct ld_size size;
    kb_engine_counts(ld_tenant_read_lock(t, &settings), &counts);
    now = *settings;
    ld_tenant_read_unlock(t);
    if (ld_decode_patch(op->doc, &now, counts.version, &op->settings, &op->problem) != 0)
        return false;
    const bool is_larger =
        op->settings.spec.context_dim > now.spec.context_dim || op->settings.spec.arm_dim > now.spec.arm_dim;
    if (is_larger && !is_bounded(app, op))
        return false;
    if (takes_fold(&now, &op->settings))
        return pay_fold(app, t, op);
    ld_tenant_size(t, &size);
    return ld_charge(app, t, ld_price_work(&size, LD_WORK_REQUEST), &op->problem);
}

/* PATCH /tenants/{t}: the fields that the patch names, of a tenant that exists. Patches of one tenant come one after
 * the other, so that none undoes another's fields. */
void api_tenant_patch(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    struct ld_op *op = ld_api_op(app, r, LD_OP_PATCH);
    if (op != NULL && prepare_patch(app, t, op)) {
        ld_api_submit(r, t, op);
        return;
    }
    ld_tenant_release(t);
    if (op != NULL)
        ld_api_refuse(r, op);
}

static void turn(struct ld_app *app, struct ld_request *r, const char *tenant, bool is_stopping)
{
    struct ld_op *op = ld_op_new(LD_OP_SWITCH);
    if (op != NULL)
        op->is_stopping = is_stopping;
    ld_api_submit_to(app, r, tenant, op);
}

/* POST /tenants/{t}/stop: no decision asks the model from its answer on. */
void api_tenant_stop(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    turn(app, r, tenant, true);
}

/* POST /tenants/{t}/start: the policy decides again. */
void api_tenant_start(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    turn(app, r, tenant, false);
}

/* POST /tenants/{t}/compact: answered when the log starts with a summary, which takes a fold of what goes. */
void api_tenant_compact(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_op *op = ld_api_op(app, r, LD_OP_COMPACT);
    if (op == NULL)
        return;
    if (ld_decode_compact(op->doc, &op->keep_events, &op->problem) != 0 || !pay_fold(app, ld_request_context(r), op))
        ld_api_refuse(r, op);
    else
        ld_api_submit_to(app, r, tenant, op);
}

/* POST /tenants/{t}/rebuild: the tenant, once the rebuild, or its beginning, is durable. */
void api_tenant_rebuild(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    ld_api_submit_to(app, r, tenant, ld_op_new(LD_OP_REBUILD));
}

/* POST /tenants/{t}/verify: answered when the log has been folded, which takes its time. */
void api_tenant_verify(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_op *op = ld_op_new(LD_OP_TASK);
    if (op != NULL)
        op->task = &ld_verification;
    ld_api_submit_to(app, r, tenant, op);
}

/* {"action", "seq"?, "fault"?, "opens", "detail"?} */
static char *encode_repair(const struct ld_repair *done, const char *fault, const struct ld_problem *opening, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "action", ld_repair_rules.rule[LD_REPAIR_ACTION].choices[done->action]);
    if (done->seq > 0)
        ld_text_put_count(&t, "seq", done->seq);
    if (fault[0] != '\0')
        ld_text_put_string(&t, "fault", fault);
    ld_text_put_bool(&t, "opens", opening->status == 0);
    if (opening->status != 0)
        ld_text_put_string(&t, "detail", opening->detail);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

/* POST /tenants/{t}/repair: answered when the tenant has been opened again, or has been found not to open. */
void api_tenant_repair(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_doc *doc = NULL;
    struct ld_problem p, opening;
    struct ld_repair wanted;
    char fault[512];
    size_t n;
    const char *body = ld_request_body(r, &n);
    ld_problem_init(&p);
    ld_problem_init(&opening);
    if (ld_doc_parse(&doc, body, n, false, &p) == 0 && ld_decode_repair(doc, &wanted, &p) == 0)
        (void)ld_tenants_repair(app->tenants, tenant, &wanted, fault, &p);
    ld_doc_free(doc);
    if (p.status != 0) {
        ld_reply_problem(r, &p);
        return;
    }
    ld_tenant_release(ld_tenants_get(app->tenants, tenant, &opening));
    char *text = encode_repair(&wanted, fault, &opening, &n);
    ld_reply_json(r, 200, text, n);
}

/* DELETE /tenants/{t}/users/{u}: answered when nothing of the user is left, which takes a fold of the whole log. */
void api_user_delete(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    char user[LD_PATH_REST_BYTES];
    ld_route_rest(&ld_routes[ld_request_route(r)], ld_request_path(r), user);
    if (strlen(user) > KB_ID_MAX_BYTES) {
        ld_reply_as(r, LD_NO_USER, "the tenant has no data of such a user: ids have at most 256 bytes");
        return;
    }
    struct ld_op *op = ld_op_new(LD_OP_TASK);
    if (op != NULL) {
        op->task = &ld_erasure;
        strcpy(op->user, user);
    }
    ld_api_submit_to(app, r, tenant, op);
}

/* DELETE /tenants/{t}. 204. Requests that hold the tenant finish or answer 404; then its files go. It waits up to two
 * seconds for them, so that the name can be used again when it answers (registry.c: let_go). */
void api_tenant_delete(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_problem p;
    ld_problem_init(&p);
    if (ld_tenants_delete(app->tenants, tenant, &p) != 0)
        ld_reply_problem(r, &p);
    else
        ld_reply(r, 204, NULL, NULL, 0);
}
