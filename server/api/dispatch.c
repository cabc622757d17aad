/* From a request to its handler: route, key, role, media type, size, thread. beside.c has calls that leave the thread
 * of their connection.
 *
 * admit() sees the headers only, so that a body is not even read for a client that has no key or asks for what does
 * not exist. handle() has the body. Handlers that wait for the disk or compute for long, and bodies whose decoding
 * alone takes long, go to the work pool; the others run in the thread that serves the connection.
 *
 * A tenant that is not in memory is opened before the handler is called (registry_opening.c); the request waits for it
 * like one that waits for a commit. So handlers find their tenant at once, in whatever thread.
 *
 * Two hooks a request, both in the library's thread: admit with the headers, handle with the body; a request refused by
 * the first never reaches the second. What is found out on the way stands in the call (call.h), which is the request's
 * own memory. */
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "base/hash.h"
#include "base/trace.h"

/* Bodies up to this are decoded in the thread that read them; longer ones would hold up its other connections. */
#define INLINE_BODY_BYTES ((size_t)256 << 10) /* about 20 ms of decoding */

/* --- the head ------------------------------------------------------------------------------------------------- */

/* 404, 405, or what OPTIONS asks for. allow: the methods that the path has. OPTIONS is answered here for every path,
 * so that no row of the table needs it. */
static void refuse_route(struct ld_request *r, const char *allow)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set_as(&p, LD_NO_ROUTE, "there is no such resource; /openapi.yaml describes what there is");
    if (allow[0] == '\0')
        ld_reply_problem(r, &p);
    else
        ld_reply_allow(r, strcmp(ld_request_method(r), "OPTIONS") == 0 ? 204 : 405, allow);
}

/* Whether the header's media type is `type`, parameters such as charset aside. "application/jsonx" is another type:
 * what follows the name must end it. */
static bool is_media(const char *header, const char *type)
{
    size_t n = strlen(type);
    if (strncasecmp(header, type, n) != 0)
        return false;
    const char *rest = header + n + strspn(header + n, " \t");
    return *rest == '\0' || *rest == ';';
}

/* What the header says the body is. Types are compared without case; parameters do not matter, since JSON is UTF-8 by
 * its own rule (RFC 8259) and a wrong charset shows as bad UTF-8 in the decoder.
 *
 * `curl -d` labels every body as a form, and some clients give no type at all; a newcomer's first call should work all
 * the same. A page in a browser could send such a body to a server on loopback without asking it first (no preflight),
 * but not without an Origin header. */
static void read_media(struct ld_call *c)
{
    static const struct {
        const char *type;
        enum ld_media media;
    } types[] = {{"application/json", LD_MEDIA_JSON},
                 {"application/merge-patch+json", LD_MEDIA_MERGE_PATCH},
                 {"application/vnd.sqlite3", LD_MEDIA_DATABASE},
                 {"application/octet-stream", LD_MEDIA_DATABASE},
                 {"application/x-ndjson", LD_MEDIA_NDJSON}};
    const char *header = ld_request_header(c->request, "Content-Type");
    const bool is_loose = header == NULL || is_media(header, "application/x-www-form-urlencoded");
    c->is_labelled = !is_loose || ld_request_header(c->request, "Origin") != NULL;
    c->media = c->is_labelled ? LD_MEDIA_OTHER : LD_MEDIA_JSON;
    for (size_t i = 0; c->is_labelled && header != NULL && i < sizeof types / sizeof *types; i++)
        if (is_media(header, types[i].type))
            c->media = types[i].media;
}

/* What a kind of body may be: of which media type beside JSON, and how large. A graph is sent once and large, a
 * decision often and small: one limit for both would fit neither. */
struct kind {
    bool is_spooled; /* too long for memory, and no JSON: a body without a label is taken for the one type */
    enum ld_media media;
    const char *refusal;
};

#define IS_JSON "the body is to be application/json (Content-Type; with curl, --json)"
#define IS_LINES "the body is to be application/json or application/x-ndjson (Content-Type)"
static const struct kind kinds[] = {
    [LD_BODY_JSON] = {false, LD_MEDIA_JSON, IS_JSON},
    [LD_BODY_PATCH] = {false, LD_MEDIA_JSON, IS_JSON},
    [LD_BODY_MERGE] = {false, LD_MEDIA_MERGE_PATCH,
                       "the body is to be application/merge-patch+json or application/json (Content-Type)"},
    [LD_BODY_OBSERVE] = {false, LD_MEDIA_NDJSON, IS_LINES},
    [LD_BODY_BULK] = {false, LD_MEDIA_NDJSON, IS_LINES},
    [LD_BODY_LOG] = {true, LD_MEDIA_NDJSON, "the body is to be application/x-ndjson (Content-Type)"},
    [LD_BODY_DATABASE] = {true, LD_MEDIA_DATABASE,
                          "the body is to be application/vnd.sqlite3 or application/octet-stream (Content-Type)"},
};

/* 415 where the media type does not fit the route. Routes that take no body are not asked. */
static bool check_media(struct ld_call *c, struct ld_problem *p)
{
    const struct kind *kind = &kinds[c->route->body];
    if (c->route->body == LD_BODY_NONE)
        return true;
    read_media(c);
    if (c->media == kind->media || (c->media == LD_MEDIA_JSON && !(kind->is_spooled && c->is_labelled)))
        return true;
    ld_problem_set(p, 415, "%s", kind->refusal);
    return false;
}

/* The cap in bytes that the options put on the body. */
static size_t limit_of(const struct ld_call *c)
{
    const struct ld_limits *limits = &c->server->limits;
    const enum ld_body body = c->route->body;
    if (kinds[body].is_spooled)
        return limits->import_body;
    if (body == LD_BODY_BULK || body == LD_BODY_PATCH)
        return limits->bulk_body;
    return body == LD_BODY_OBSERVE && c->media == LD_MEDIA_NDJSON ? limits->observe_body : limits->body;
}

/* Which tenant the call is about: the name in the path goes before the header, by which who has several names one, the
 * header before the key's own tenant, that before --default-tenant. */
static void find_name(struct ld_call *c)
{
    const char *name = ld_request_header(c->request, "Laplaced-Tenant");
    if (name == NULL)
        name = c->caller.tenant[0] != '\0' ? c->caller.tenant : c->server->world.default_tenant;
    if (ld_route_reads_header(c->route))
        strncat(c->name, name, sizeof c->name - 1);
    else
        ld_route_tenant(c->route, ld_request_path(c->request), c->name);
}

void ld_problem_alone(struct ld_problem *p, const char *what)
{
    ld_problem_set(p, 501, "%s: this cannot be done yet where several servers share a log (--log)", what);
}

/* Without --default-tenant a request may be about no tenant. */
static bool check_name(const struct ld_call *c, struct ld_problem *p)
{
    if (ld_route_reads_header(c->route) && c->name[0] == '\0' &&
        ld_request_header(c->request, "Laplaced-Tenant") == NULL)
        ld_problem_set_as(
            p, LD_TENANT_NOT_NAMED,
            "the request names no tenant, and this server has no default: send the header Laplaced-Tenant");
    return p->status == 0;
}

/* stray.c is for what strays: most requests have no query, and no header that could. */
static bool has_no_stray_query(const struct ld_call *c, struct ld_problem *p)
{
    return !ld_request_has_query(c->request) || ld_stray_query_allow(c, p);
}

static bool has_no_stray_header(const struct ld_call *c, struct ld_problem *p)
{
    const bool is_asked = ld_route_reads_header(c->route) && ld_request_is_odd(c->request);
    return !is_asked || ld_stray_header_allow(c, p);
}

/* The order matters: a client without a key learns nothing of which routes exist; one with a key gets 404 or 405, or
 * hears that it may not, before its body is looked at. Public routes are answered before the key is looked at, since
 * probes and readers of the contract have none. False with *p, or without a route. */
static bool check_head(struct ld_call *c, struct ld_problem *p)
{
    struct ld_request *r = c->request;
    if (c->route != NULL && c->route->role == LD_ROLE_PUBLIC)
        return has_no_stray_query(c, p);
    if (!atomic_load(&c->server->is_ready)) { /* said to everybody: nothing is known yet, keys included */
        ld_problem_set(p, 503, "the server is recovering its tenants");
        return false;
    }
    if (!ld_access_identify(c, p))
        return false;
    if (ld_route_hides(c->route, ld_request_path(r))) {
        ld_request_end_connection(r);
        ld_problem_set(p, 400, "of the names in a path only a user's id may have a slash or a percent sign, escaped");
        return false;
    }
    if (c->route == NULL) {
        ld_rank_tell_missing(c, p);
        return false;
    }
    find_name(c);
    return ld_access_allow(c, p) && (!c->is_of_2022 || ld_rank_version_allow(c, p)) && has_no_stray_query(c, p) &&
           has_no_stray_header(c, p) && check_name(c, p) && check_media(c, p);
}

/* Whose turn it is when the request is complete: the tenant's that is named. What is done elsewhere, or for nobody,
 * waits for nobody here. */
static size_t admit(void *arg, struct ld_request *r)
{
    struct ld_call *c = ld_request_context(r);
    struct ld_server *s = arg;
    struct ld_problem p;
    char allow[LD_ALLOW_BYTES];
    const int i = ld_route_find(ld_request_method(r), ld_request_path(r), allow);
    c->server = s;
    c->request = r;
    c->route = i >= 0 ? &ld_routes[i] : NULL;
    ld_problem_init(&p);
    c->door = c->route != NULL ? c->route->door : ld_door_of(ld_request_path(r));
    if (c->door != NULL && c->door->enter(c))
        return 0;
    if (!check_head(c, &p)) {
        if (p.status != 0)
            ld_call_refuse(c, &p);
        else
            refuse_route(r, allow);
        return 0;
    }
    if (c->route->opens != LD_TENANT_NOT_OPENED && c->route->place == LD_IN_SERVING)
        ld_request_set_share(r, kb_hash_str(KB_HASH_INIT, c->name) | 1);
    if (kinds[c->route->body].is_spooled) {
        char path[LD_PATH_MAX];
        ld_spool_path(s->spool, path);
        ld_request_spool(r, path);
    }
    return limit_of(c);
}

/* --- the handler ---------------------------------------------------------------------------------------------- */

/* The common way of what is only queued: the handler's thread does the parsing alone; all that depends on the model is
 * left to the writer. */
static bool queue(struct ld_call *c, struct ld_reply *out)
{
    struct ld_op *op = ld_call_op(c, c->route->op, out->problem);
    if (op == NULL)
        return true;
    op->task = c->route->task;
    if (c->route->fill == NULL || c->route->fill(c, op, out->problem)) {
        ld_call_submit(c, c->tenant, op);
        return false;
    }
    ld_op_free(op);
    return true;
}

/* The tenant is held until the handler returns, by which it has a hold of its own or is through with it. The call may
 * be gone then. In the thread that serves HTTP, or on the pool. */
void ld_call_run(struct ld_call *c)
{
    struct ld_request *r = c->request;
    struct ld_tenant *t = c->tenant;
    struct ld_problem p;
    struct ld_reply reply = {.problem = &p};
    ld_problem_init(&p);
    ld_trace_enter(ld_request_trace(r)); /* copied: the handler may answer, and the request be gone, before it logs */
    if (t == NULL && (c->route->opens == LD_TENANT_OF_PATH || c->route->opens == LD_TENANT_OF_HEADER))
        ld_problem_no_tenant(&p, c->name);
    if (p.status == 0 && !(c->route->handle != NULL ? c->route->handle(c, &reply) : queue(c, &reply)))
        r = NULL; /* it was passed on */
    if (r != NULL && p.status != 0)
        ld_call_refuse(c, &p);
    else if (r != NULL)
        ld_reply(r, &reply);
    ld_trace_enter(NULL);
    ld_tenant_release(t);
}

/* --- the body ------------------------------------------------------------------------------------------------- */

/* False after a 429. Where there is no tenant nobody pays. */
bool ld_call_pay(struct ld_call *c)
{
    struct ld_problem p;
    ld_problem_init(&p);
    if (ld_charge_route(c, &p))
        return true;
    ld_call_give_up(c, &p);
    return false;
}

/* Handlers that wait, and large bodies, go to the pool. */
static void go_on(struct ld_call *c)
{
    size_t n;
    if ((c->server->world.shared != NULL && ld_after_waits(c)) || !ld_call_pay(c))
        return;
    ld_request_body(c->request, &n);
    if (c->route->place == LD_IN_SERVING && (c->route->body == LD_BODY_NONE || n <= INLINE_BODY_BYTES))
        ld_call_run(c);
    else
        ld_call_put_on_pool(c);
}

/* The request waits for its tenant without a thread; of one that does not exist the handler knows what to say. In a
 * thread that serves HTTP: what takes long here holds up every connection of that thread. A body of a route that takes
 * none was read up to its cap and is ignored. The key is asked for again, since a body may have taken its time: one
 * that was revoked meanwhile opens nothing any more. */
static void handle(void *arg, struct ld_request *r)
{
    struct ld_call *c = ld_request_context(r);
    struct ld_server *s = arg;
    struct ld_problem p;
    size_t n;
    ld_problem_init(&p);
    ld_request_body(r, &n);
    if (c->route->role != LD_ROLE_PUBLIC && ld_access_identify(c, &p))
        (void)ld_access_allow(c, &p);
    if (c->route->body != LD_BODY_NONE && n == 0)
        ld_problem_set(&p, 400,
                       kinds[c->route->body].is_spooled ? "the body is empty" : "the body is empty; JSON is expected");
    if (p.status != 0) {
        ld_call_refuse(c, &p);
        return;
    }
    c->is_let_in = true;
    if (c->route->opens != LD_TENANT_NOT_OPENED && c->route->opens != LD_TENANT_TO_REPLACE &&
        (c->tenant = ld_tenants_find_open(s->tenants, c->name)) == NULL && ld_call_await(c))
        return;
    go_on(c);
}

const struct ld_http_hooks ld_server_hooks = {.odd = LD_STRAY_LETTERS,
                                              .n_context = sizeof(struct ld_call),
                                              .admit = admit,
                                              .handle = handle,
                                              .completed = ld_server_completed};
