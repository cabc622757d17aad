/* From a request to its handler and back: key, route, role, media type, size, thread, answer.
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
#include "base/clock.h"
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

/* What no server of several may do for all of them yet (docs/CLUSTER.md). */
static bool check_alone(const struct ld_call *c, struct ld_problem *p)
{
    if (c->route->alone != NULL && c->server->world.shared != NULL)
        ld_problem_alone(p, c->route->alone);
    return p->status == 0;
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

/* The order matters: a client without a key learns nothing of which routes exist; one with a key gets 404 or 405, or
 * hears that it may not, before its body is looked at. Public routes are answered before the key is looked at, since
 * probes and readers of the contract have none. False with *p, or without a route. */
static bool check_head(struct ld_call *c, struct ld_problem *p)
{
    struct ld_request *r = c->request;
    if (c->route != NULL && c->route->role == LD_ROLE_PUBLIC)
        return ld_stray_query_allow(c, p);
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
    return ld_access_allow(c, p) && check_alone(c, p) && ld_rank_version_allow(c, p) && ld_stray_query_allow(c, p) &&
           ld_stray_header_allow(c, p) && check_name(c, p) && check_media(c, p);
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
    ld_rank_door(c);
    if (ld_flag_door(c))
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
static void run(struct ld_call *c)
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

/* --- the pool ------------------------------------------------------------------------------------------------- */

static void leave_line(struct ld_call *c)
{
    if (c->is_counted)
        atomic_fetch_sub(ld_tenant_n_served(c->tenant), 1);
    c->is_counted = false;
}

/* A mean over the last jobs; two at once may lose one of them. */
static void note_pace(_Atomic int64_t *us_per_job, int64_t us)
{
    const int64_t mean = atomic_load_explicit(us_per_job, memory_order_relaxed);
    atomic_store_explicit(us_per_job, mean + (us - mean) / 8, memory_order_relaxed);
}

/* Refused, or answered by a stop while it waited: the tenant is let go. The call may be gone afterwards. */
static void give_up(struct ld_call *c, const struct ld_problem *p)
{
    struct ld_tenant *t = c->tenant;
    ld_call_refuse(c, p);
    ld_tenant_release(t);
}

/* On the work pool. The pool waits for it at shutdown, so it always finds the server. */
static void run_job(void *arg)
{
    struct ld_call *c = arg;
    struct ld_server *s = c->server;
    _Atomic int64_t *us_per_job = c->route->place == LD_AS_TRANSFER ? &s->us_per_transfer : &s->us_per_work;
    const int64_t start_us = ld_monotonic_us();
    struct ld_problem p;
    leave_line(c);
    if (!ld_request_is_answered(c->request)) {
        run(c);
        note_pace(us_per_job, ld_monotonic_us() - start_us);
        return;
    }
    ld_problem_init(&p);
    ld_problem_set(&p, 503, "the server is stopping");
    give_up(c, &p);
}

/* Seconds until a full line of n has moved on by half, two threads working at it at the pace of the last jobs. */
static int line_s(const _Atomic int64_t *us_per_job, uint64_t n)
{
    const int64_t us = atomic_load_explicit(us_per_job, memory_order_relaxed) * (int64_t)n / 4;
    return us < 1000000 ? 1 : us > 60000000 ? 60 : (int)(us / 1000000);
}

/* 503: what is asked for would wait in a line that is full. */
static void refuse_line(struct ld_call *c)
{
    struct ld_server *s = c->server;
    const bool is_transfer = c->route->place == LD_AS_TRANSFER;
    const size_t max = is_transfer ? s->limits.transfers : s->limits.work;
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, 503,
                   is_transfer ? "too many copies and imports wait already" : "too many requests wait already");
    ld_problem_limit(&p, is_transfer ? "transfers" : "work", (double)max);
    p.retry_after_s = line_s(is_transfer ? &s->us_per_transfer : &s->us_per_work, max);
    ld_count(&s->metrics.limited[is_transfer ? LD_LIMITED_TRANSFERS : LD_LIMITED_WORK], 1);
    leave_line(c);
    give_up(c, &p);
}

/* Half of the line is the most that one tenant may have of it, so that another finds room. Who has waited for the
 * tenant does not wait in that line as well for what a serving thread would have done at once. */
static bool enter_line(struct ld_call *c)
{
    const struct ld_limits *limits = &c->server->limits;
    struct ld_sched *sched = c->server->sched;
    if (c->route->place == LD_AS_TRANSFER)
        return ld_sched_give(sched, LD_TRANSFERS, run_job, c, limits->transfers) == 0;
    if (c->was_waiting)
        return ld_sched_give(sched, c->route->place == LD_IN_SERVING ? LD_POOL : LD_POOL_SERVES, run_job, c,
                             SIZE_MAX) == 0;
    c->is_counted = c->tenant != NULL;
    if (c->is_counted && atomic_fetch_add(ld_tenant_n_served(c->tenant), 1) >= (limits->work + 1) / 2)
        return false;
    return ld_sched_give(sched, LD_POOL_SERVES, run_job, c, limits->work) == 0;
}

/* Work of another thread, for which the client may not wait. False after a 503, and the tenant is let go. */
static bool leave_connection(struct ld_call *c)
{
    struct ld_problem p;
    if (ld_request_keep_head(c->request) == 0)
        return true;
    ld_problem_init(&p);
    ld_problem_set(&p, 503, "the server cannot take more work now");
    give_up(c, &p);
    return false;
}

/* A pool that cannot take it means 503, not a lost request. The connection waits meanwhile (http.c) and costs no
 * thread. */
static void put_on_pool(struct ld_call *c)
{
    if (leave_connection(c) && !enter_line(c))
        refuse_line(c);
}

void ld_call_beside(struct ld_call *c)
{
    (void)ld_tenant_hold(c->tenant); /* for the other thread */
    put_on_pool(c);
}

/* --- the body ------------------------------------------------------------------------------------------------- */

/* False after a 429. Where there is no tenant nobody pays. */
static bool pay(struct ld_call *c)
{
    struct ld_problem p;
    ld_problem_init(&p);
    if (ld_charge_route(c, &p))
        return true;
    give_up(c, &p);
    return false;
}

/* In the thread that opened the tenant, which has others to open: the handler runs in another. The line takes it in any
 * case: how many wait for a tenant has a bound of its own. */
static void opened(struct ld_tenant_wait *wait, struct ld_tenant *t, const struct ld_problem *p)
{
    struct ld_call *c = (struct ld_call *)(void *)wait;
    const bool is_to_make = c->server->world.shared != NULL && c->route->opens == LD_TENANT_OR_NEW &&
                            p->status == 404; /* the shared log does not know it either */
    c->tenant = t;
    c->was_waiting = true;
    if (t == NULL && !is_to_make)
        ld_call_refuse(c, p);
    else if (!ld_after_waits(c) && pay(c))
        put_on_pool(c);
}

void ld_call_resume(struct ld_call *c, const struct ld_problem *p)
{
    c->was_waiting = true;
    if (p->status != 0)
        give_up(c, p);
    else if (pay(c))
        put_on_pool(c);
}

/* Handlers that wait, and large bodies, go to the pool. */
static void go_on(struct ld_call *c)
{
    size_t n;
    if (ld_after_waits(c) || !pay(c))
        return;
    ld_request_body(c->request, &n);
    if (c->route->place == LD_IN_SERVING && (c->route->body == LD_BODY_NONE || n <= INLINE_BODY_BYTES))
        run(c);
    else
        put_on_pool(c);
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
        (c->tenant = ld_tenants_find_open(s->tenants, c->name)) == NULL) {
        c->wait.done = opened;
        if (!leave_connection(c) || ld_tenants_await(s->tenants, c->name, &c->wait))
            return;
    }
    go_on(c);
}

const struct ld_http_hooks ld_server_hooks = {
    .n_context = sizeof(struct ld_call), .admit = admit, .handle = handle, .completed = ld_server_completed};
