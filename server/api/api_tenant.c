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
#include "task/repair.h"
#include "json/rules.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    struct ld_overview *overview; /* owned; NULL: not asked for */
};

/* Grows by doubling; is_failed remembers that some tenant could not be added. */
struct rows {
    struct row *row;
    size_t n, cap;
    bool has_stats, is_failed;
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
                                   .overview = row->overview,
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
    if (t == NULL)
        return;
    read_row(row, t);
    if (rows->has_stats)
        rows->is_failed |= (row->overview = ld_overview_of(t)) == NULL;
}

/* GET /tenants, ascending by name; for a tenant's key that tenant alone. Each row is consistent in itself; the list is
 * of no single moment. Opens no tenant: of those that are not in memory it has name and state. O(tenants), each held up
 * for one copy of its settings and counters; with `stats` some tens of microseconds more of each that is in memory. */
bool api_tenant_list(struct ld_call *c, struct ld_reply *out)
{
    struct rows rows = {.row = NULL};
    uint64_t stats;
    if (ld_call_number(c, "stats", &stats, out->problem) != 0)
        return true;
    rows.has_stats = stats > 0;
    rows.is_failed |= !ld_tenants_list(c->server->tenants, c->caller.tenant, add_row, &rows);
    struct ld_tenant_view *views = calloc(rows.n + 1, sizeof *views);
    if (views != NULL && !rows.is_failed) {
        for (size_t i = 0; i < rows.n; i++)
            views[i] = view_of(&rows.row[i]);
        out->text = ld_encode_tenants(views, rows.n, &out->n);
    }
    for (size_t i = 0; i < rows.n; i++)
        free(rows.row[i].overview);
    free(views);
    free(rows.row);
    return true;
}

/* GET /tenants/{t}: the configuration as resolved, and the parameters in force. */
static bool show(struct ld_tenant *t, struct ld_reply *out)
{
    struct row row = {.counts = {0}};
    read_row(&row, t);
    struct ld_tenant_view view = view_of(&row);
    out->text = ld_encode_tenant(&view, &out->n);
    return true;
}

bool api_tenant_get(struct ld_call *c, struct ld_reply *out)
{
    return show(c->tenant, out);
}

/* Makes the tenant, possibly finding one that another request has made a moment ago. Held, *is_new telling, or NULL
 * with *p. A 409 of the creation has two causes: another request was faster, and its tenant is found here; or files of
 * a removal are still being taken away, and there is none: then 503, since a moment later the name is free. On the
 * pool, so that the tenant may be opened here if it was closed again already. */
static struct ld_tenant *create(struct ld_call *c, const struct ld_settings *settings, bool *is_new,
                                struct ld_problem *p)
{
    struct ld_tenants *tenants = c->server->tenants;
    if ((c->caller.roles & LD_ROLE_ADMIN) == 0) { /* deleted since the key was checked */
        ld_problem_no_tenant(p, c->name);
        return NULL;
    }
    *is_new = ld_tenants_create(tenants, c->name, settings, p) == 0;
    if (!*is_new && p->status != 409)
        return NULL;
    ld_problem_init(p);
    struct ld_tenant *t = ld_tenants_get(tenants, c->name, p);
    if (t == NULL && p->status == 404) { /* made and deleted meanwhile */
        ld_problem_init(p);
        ld_problem_set(p, 503, "the tenant was deleted while it was configured");
    }
    return t;
}

static void check_dim(size_t max, const char *pointer, uint32_t dim, struct ld_problem *p)
{
    if (dim <= max)
        return;
    ld_problem_add(p, pointer, "expected a whole number from 0 to %zu", max);
    ld_problem_limit(p, strrchr(pointer, '/') + 1, (double)max);
}

/* Whether the configuration is no larger than the operator lets one be; a tenant that is larger already stays. */
static bool is_bounded(const struct ld_call *c, const struct ld_settings *settings, struct ld_problem *p)
{
    const size_t max = c->server->limits.dim;
    check_dim(max, "/features/dim", settings->features.dim, p);
    if (settings->features.dim == 0) {
        check_dim(max, "/context_dim", settings->spec.context_dim, p);
        check_dim(max, "/arm_dim", settings->spec.arm_dim, p);
    }
    return p->status == 0;
}

/* What needs one server alone for a tenant has no place in a configuration that several share. */
static bool is_shareable(const struct ld_call *c, const struct ld_settings *settings, struct ld_problem *p)
{
    const char *const alone = "cannot be had yet where several servers share a log (--log)";
    if (c->server->world.shared == NULL)
        return true;
    if (settings->is_relaxed) {
        ld_problem_set(p, 422, "the configuration asks for what servers that share a log cannot do yet");
        ld_problem_add(p, "/durability", "relaxed %s", alone);
    }
    return p->status == 0;
}

/* PUT /tenants/{t}. 201 for a new tenant, which only an admin may make; 200 for a change, which the tenant's writer
 * validates against what it has learned (409 when the dimensions cannot change any more) and puts in the log. The same
 * configuration again changes nothing. Two requests that create one name at a time: one makes it, the other configures
 * it. The body is decoded before the tenant is made: a faulty one creates nothing. The settings of a new tenant are its
 * first event, durable before the 201. */
bool api_tenant_put(struct ld_call *c, struct ld_reply *out)
{
    struct ld_problem *p = out->problem;
    struct ld_op *op = ld_call_op(c, LD_OP_SETTINGS, p);
    struct ld_tenant *t = c->tenant;
    bool is_new = false;
    if (op == NULL)
        return true;
    if (ld_call_check_name(c->name, p) && ld_decode_settings(op->doc, op->settings, p) == 0 &&
        is_bounded(c, op->settings, p) && is_shareable(c, op->settings, p) && ld_charge_fold(c, p) && t == NULL)
        t = create(c, op->settings, &is_new, p);
    const bool is_ours = t != c->tenant; /* held by create */
    if (p->status == 0 && !is_new) {
        ld_call_submit(c, t, op);
        if (is_ours)
            ld_tenant_release(t);
        return false;
    }
    ld_op_free(op);
    if (is_ours) {
        out->status = 201;
        (void)show(t, out);
        ld_tenant_release(t);
    }
    return true;
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

/* PATCH /tenants/{t}: the fields that the patch names. Patches of one tenant come one after the other, so that none
 * undoes another's fields. Faults are told before the tenant pays, and what is paid for depends on what the patch makes
 * of the configuration in force. The writer merges it once more, into what is in force then. */
bool fill_patch(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    struct ld_settings now;
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    struct ld_size size;
    kb_engine_counts(ld_tenant_read_lock(c->tenant, &settings), &counts);
    now = *settings;
    ld_tenant_read_unlock(c->tenant);
    if (ld_decode_patch(op->doc, &now, counts.version, op->settings, p) != 0)
        return false;
    if (!is_shareable(c, op->settings, p))
        return false;
    const struct kb_spec *next = &op->settings->spec;
    if ((next->context_dim > now.spec.context_dim || next->arm_dim > now.spec.arm_dim) &&
        !is_bounded(c, op->settings, p))
        return false;
    if (takes_fold(&now, op->settings))
        return ld_charge_fold(c, p);
    ld_tenant_size(c->tenant, &size);
    return ld_charge(c, ld_price_work(&size, LD_WORK_REQUEST), p);
}

/* POST /tenants/{t}/stop: no decision asks the model from its answer on. Without this, /start: the policy decides
 * again. */
bool fill_stop(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    (void)c;
    (void)p;
    op->is_stopping = true;
    return true;
}

/* DELETE /tenants/{t}/model: a line of the log, from which on learning starts anew. */
bool fill_forget(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    (void)c;
    (void)p;
    op->event.type = KB_EV_FORGOTTEN;
    return true;
}

/* POST /tenants/{t}/compact: answered when the log starts with a summary, which takes a fold of what goes. */
bool fill_compact(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    return ld_decode_compact(op->doc, &op->keep_events, p) == 0 && ld_charge_fold(c, p);
}

/* DELETE /tenants/{t}/users/{u}: answered when nothing of the user is left, which takes a fold of the whole log. */
bool fill_erase(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    char user[LD_PATH_REST_BYTES];
    ld_call_rest(c, user);
    if (strlen(user) > KB_ID_MAX_BYTES)
        ld_problem_set_as(p, LD_NO_USER, "the tenant has no data of such a user: ids have at most 256 bytes");
    else
        strcpy(op->user, user);
    return p->status == 0;
}

/* {"action", "seq"?, "fault"?, "lines"?, "file"?, "opens", "detail"?} */
static char *encode_repair(const struct ld_repair *done, const char *fault, const struct ld_repaired *log,
                           const struct ld_problem *opening, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "action", ld_repair_rules.rule[LD_REPAIR_ACTION].choices[done->action]);
    if (done->seq > 0)
        ld_text_put_count(&t, "seq", done->seq);
    if (fault[0] != '\0')
        ld_text_put_string(&t, "fault", fault);
    if (done->action >= LD_REPAIR_PUSH)
        ld_text_put_count(&t, "lines", log->n_lines);
    if (log->file[0] != '\0')
        ld_text_put_string(&t, "file", log->file);
    ld_text_put_bool(&t, "opens", opening->status == 0);
    if (opening->status != 0)
        ld_text_put_string(&t, "detail", opening->detail);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

/* POST /tenants/{t}/repair: answered when the tenant has been opened again, or has been found not to open. */
bool api_tenant_repair(struct ld_call *c, struct ld_reply *out)
{
    struct ld_tenants *tenants = c->server->tenants;
    struct ld_doc *doc = NULL;
    struct ld_problem opening;
    struct ld_repair wanted;
    struct ld_repaired done;
    struct ld_message fault;
    bool is_done = ld_call_parse(c, &doc, out->problem) == 0 && ld_decode_repair(doc, &wanted, out->problem) == 0;
    if (is_done && wanted.action < LD_REPAIR_PUSH && c->server->world.shared != NULL) {
        ld_problem_alone(out->problem, "repair of a line");
        is_done = false;
    } else if (is_done) {
        strcpy(wanted.by, c->caller.key);
        is_done = ld_tenants_repair(tenants, c->name, &wanted, &fault, &done, out->problem) == 0;
    }
    ld_doc_free(doc);
    if (!is_done)
        return true;
    ld_problem_init(&opening);
    ld_tenant_release(ld_tenants_get(tenants, c->name, &opening));
    out->text = encode_repair(&wanted, fault.text, &done, &opening, &out->n);
    return true;
}

/* DELETE /tenants/{t}. 204. Requests that hold the tenant finish or answer 404; then its files go. It waits up to two
 * seconds for them, so that the name can be used again when it answers (registry.c: let_go). */
bool api_tenant_delete(struct ld_call *c, struct ld_reply *out)
{
    (void)ld_tenants_delete(c->server->tenants, c->name, out->problem);
    out->status = 204;
    return true;
}
