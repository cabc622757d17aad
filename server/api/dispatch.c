/* From a request to its handler: key, route, role, media type, size, thread.
 *
 * admit() sees the headers only, so that a body is not even read for a client that has no key or asks for what does
 * not exist. handle() has the body. Handlers that wait for the disk or compute for long, and bodies whose decoding
 * alone takes long, go to the work pool; the others run in the thread that serves the connection.
 *
 * A tenant that is not in memory is opened before the handler is called (registry_opening.c); the request waits for it
 * like one that waits for a commit. So handlers find their tenant at once, in whatever thread.
 *
 * Two calls a request, both in the library's thread: admit with the headers, handle with the body; a request refused
 * by the first never reaches the second. The route found in admit is kept in the request as its row, which is also
 * its label in the metrics. */
#include <stdlib.h>
#include <string.h>

#include "api/access.h"
#include "api/api.h"
#include "api/charge.h"
#include "base/clock.h"
#include "base/hash.h"
#include "api/stray.h"
#include "base/trace.h"

/* Bodies up to this are decoded in the thread that read them; longer ones would hold up its other connections. */
#define INLINE_BODY_BYTES ((size_t)256 << 10) /* about 20 ms of decoding */

/* A request on its way through the work pool, or waiting for its tenant to be opened. */
struct job {
    struct ld_tenant_wait wait; /* the first: see opened() */
    struct ld_app *app;
    struct ld_request *request;
    const struct ld_route *route;
    struct ld_tenant *tenant; /* held; NULL: none is needed, or there is none */
    bool was_waiting;         /* for its tenant */
    bool is_counted;          /* among those of its tenant that stand in the line */
};

/* 404, 405, or what OPTIONS asks for. allow: the methods that the path has. OPTIONS is answered here for every path,
 * so that no row of the table needs it. */
static void refuse_route(struct ld_request *r, const char *allow)
{
    if (allow[0] == '\0')
        ld_reply_as(r, LD_NO_ROUTE, "there is no such resource; /openapi.yaml describes what there is");
    else if (strcmp(ld_request_method(r), "OPTIONS") == 0)
        ld_reply_allow(r, 204, allow);
    else
        ld_reply_allow(r, 405, allow);
}

/* NDJSON is for bodies of many rows. */
static bool takes_lines(enum ld_body body)
{
    return body == LD_BODY_OBSERVE || body == LD_BODY_BULK;
}

/* Too long for memory. */
static bool is_spooled(enum ld_body body)
{
    return body == LD_BODY_LOG || body == LD_BODY_DATABASE;
}

/* The type told must be the one; none told is taken for it. */
static bool check_file_media(struct ld_request *r, enum ld_body body, enum ld_media media)
{
    if (media == (body == LD_BODY_LOG ? LD_MEDIA_NDJSON : LD_MEDIA_DATABASE) ||
        (media == LD_MEDIA_JSON && !ld_request_has_label(r)))
        return true;
    ld_reply_status(r, 415,
                    body == LD_BODY_LOG
                        ? "the body is to be application/x-ndjson (Content-Type)"
                        : "the body is to be application/vnd.sqlite3 or application/octet-stream (Content-Type)");
    return false;
}

/* Whether the media type fits the route; replies 415 when not. Without a body there is nothing to check: routes that
 * take none are not asked. */
static bool check_media(struct ld_request *r, enum ld_body body)
{
    enum ld_media media = ld_request_media(r);
    if (is_spooled(body))
        return check_file_media(r, body, media);
    if (media == LD_MEDIA_JSON || (media == LD_MEDIA_NDJSON && takes_lines(body)) ||
        (media == LD_MEDIA_MERGE_PATCH && body == LD_BODY_MERGE))
        return true;
    ld_reply_status(r, 415,
                    body == LD_BODY_MERGE
                        ? "the body is to be application/merge-patch+json or application/json (Content-Type)"
                    : takes_lines(body) ? "the body is to be application/json or application/x-ndjson (Content-Type)"
                                        : "the body is to be application/json (Content-Type; with curl, --json)");
    return false;
}

/* The cap in bytes that the options put on this route and media type. A graph is sent once and large, a decision
 * often and small: one cap for both would fit neither. */
static size_t limit_of(const struct ld_limits *limits, const struct ld_request *r, enum ld_body body)
{
    if (is_spooled(body))
        return limits->import_body;
    if (body == LD_BODY_BULK || body == LD_BODY_PATCH)
        return limits->bulk_body;
    if (body == LD_BODY_OBSERVE && ld_request_media(r) == LD_MEDIA_NDJSON)
        return limits->observe_body;
    return limits->body;
}

/* Whose turn it is when the request is complete: the tenant's that is named. What is done elsewhere, or for nobody,
 * waits for nobody here. */
static void set_share(const struct ld_app *app, struct ld_request *r, const struct ld_route *route)
{
    char tenant[LD_PATH_TENANT_BYTES];
    if (route->opens == LD_TENANT_NOT_OPENED || route->place != LD_IN_SERVING)
        return;
    ld_route_tenant(route, ld_request_path(r), tenant);
    ld_request_set_share(r, kb_hash_str(KB_HASH_INIT, ld_api_tenant_name(app, r, tenant)) | 1);
}

/* Without --default-tenant a request may be about no tenant. */
static bool check_name(const struct ld_app *app, struct ld_request *r, const struct ld_route *route)
{
    if (route->opens != LD_TENANT_OF_HEADER || *ld_access_tenant(app, r) != '\0' ||
        ld_request_header(r, "Laplaced-Tenant") != NULL)
        return true;
    ld_reply_as(r, LD_TENANT_NOT_NAMED,
                "the request names no tenant, and this server has no default: send the header Laplaced-Tenant");
    return false;
}

/* The order matters: a client without a key learns nothing of which routes exist; one with a key gets 404 or 405, or
 * hears that it may not, before its body is looked at. Public routes are answered before the key is looked at, since
 * probes and readers of the contract have none. After a refusal the number only adds to what is thrown away of the
 * body. */
size_t ld_app_admit(void *arg, struct ld_request *r)
{
    struct ld_app *app = arg;
    char allow[LD_ALLOW_BYTES];
    int i = ld_route_find(ld_request_method(r), ld_request_path(r), allow);
    const struct ld_route *route = i >= 0 ? &ld_routes[i] : NULL;
    ld_request_set_route(r, i);
    if (route != NULL && route->role == LD_ROLE_PUBLIC) {
        (void)ld_stray_query_allow(r, route);
        return app->limits.body;
    }
    if (!atomic_load(&app->is_ready)) { /* said to everybody: nothing is known yet, keys included */
        ld_reply_status(r, 503, "the server is recovering its tenants");
        return 0;
    }
    if (!ld_access_identify(app, r))
        return 0;
    if (ld_route_hides(route, ld_request_path(r))) {
        ld_request_end_connection(r);
        ld_reply_status(r, 400, "of the names in a path only a user's id may have a slash or a percent sign, escaped");
        return 0;
    }
    if (route == NULL) {
        refuse_route(r, allow);
        return 0;
    }
    if (!ld_access_allow(app, r, route) || !ld_stray_query_allow(r, route) || !ld_stray_header_allow(r, route) ||
        !check_name(app, r, route) || (route->body != LD_BODY_NONE && !check_media(r, route->body)))
        return 0;
    set_share(app, r, route);
    if (is_spooled(route->body)) {
        char path[LD_PATH_MAX];
        ld_spool_path(app->spool, path);
        ld_request_spool(r, path);
    }
    return limit_of(&app->limits, r, route->body);
}

/* The tenant's name of the path lives on this stack: handlers copy it where they keep it. The tenant is held until the
 * handler returns, by which it has a hold of its own or is through with it. In the thread that serves HTTP, or on the
 * pool. */
static void call(struct ld_app *app, struct ld_request *r, const struct ld_route *route, struct ld_tenant *t)
{
    char tenant[LD_PATH_TENANT_BYTES];
    ld_route_tenant(route, ld_request_path(r), tenant);
    ld_request_set_context(r, t);
    ld_trace_enter(ld_request_trace(r)); /* copied: the handler may answer, and the request be gone, before it logs */
    route->handle(app, r, tenant);
    ld_trace_enter(NULL);
    ld_tenant_release(t);
}

static void leave_line(struct job *job)
{
    if (job->is_counted)
        atomic_fetch_sub(ld_tenant_n_served(job->tenant), 1);
    job->is_counted = false;
}

/* A mean over the last jobs; two at once may lose one of them. */
static void note_pace(_Atomic int64_t *us_per_job, int64_t us)
{
    const int64_t mean = atomic_load_explicit(us_per_job, memory_order_relaxed);
    atomic_store_explicit(us_per_job, mean + (us - mean) / 8, memory_order_relaxed);
}

/* For a request that a stop has answered while it waited. */
static void drop_job(const struct job *job)
{
    ld_reply_status(job->request, 503, "the server is stopping");
    ld_tenant_release(job->tenant);
}

/* On the work pool. The pool waits for it at shutdown, so it always finds the app. */
static void run_job(void *arg)
{
    struct job job = *(struct job *)arg;
    const int64_t start_us = ld_monotonic_us();
    free(arg);
    leave_line(&job);
    if (ld_request_is_answered(job.request)) {
        drop_job(&job);
        return;
    }
    call(job.app, job.request, job.route, job.tenant);
    note_pace(job.route->place == LD_AS_TRANSFER ? &job.app->us_per_transfer : &job.app->us_per_work,
              ld_monotonic_us() - start_us);
}

/* Work of another thread, for which the client may not wait. NULL after a 503. */
static struct job *job_new(struct ld_app *app, struct ld_request *r, const struct ld_route *route)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL || ld_request_keep_head(r) != 0) {
        ld_reply_status(r, 503, "the server cannot take more work now");
        free(job);
        return NULL;
    }
    *job = (struct job){.app = app, .request = r, .route = route};
    return job;
}

/* Seconds until a full line of n has moved on by half, two threads working at it at the pace of the last jobs. */
static int line_s(const _Atomic int64_t *us_per_job, uint64_t n)
{
    const int64_t us = atomic_load_explicit(us_per_job, memory_order_relaxed) * (int64_t)n / 4;
    return us < 1000000 ? 1 : us > 60000000 ? 60 : (int)(us / 1000000);
}

/* 503: what is asked for would wait in a line that is full. */
static void refuse_line(struct ld_app *app, struct ld_request *r, bool is_transfer)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, 503,
                   is_transfer ? "too many copies and imports wait already" : "too many requests wait already");
    ld_problem_limit(&p, is_transfer ? "transfers" : "work",
                     (double)(is_transfer ? app->limits.transfers : app->limits.work));
    p.retry_after_s = is_transfer ? line_s(&app->us_per_transfer, app->limits.transfers)
                                  : line_s(&app->us_per_work, app->limits.work);
    ld_count(&app->metrics.limited[is_transfer ? LD_LIMITED_TRANSFERS : LD_LIMITED_WORK], 1);
    ld_reply_problem(r, &p);
}

/* Half of the line is the most that one tenant may have of it, so that another finds room. Who has waited for the
 * tenant does not wait in that line as well for what a serving thread would have done at once. */
static bool enter_line(struct job *job)
{
    const struct ld_limits *limits = &job->app->limits;
    if (job->route->place == LD_AS_TRANSFER)
        return ld_sched_give(job->app->sched, LD_TRANSFERS, run_job, job, limits->transfers) == 0;
    if (job->was_waiting && job->route->place == LD_IN_SERVING)
        return ld_sched_give(job->app->sched, LD_POOL, run_job, job, SIZE_MAX) == 0;
    if (job->was_waiting)
        return ld_sched_give(job->app->sched, LD_POOL_SERVES, run_job, job, SIZE_MAX) == 0;
    job->is_counted = job->tenant != NULL;
    if (job->is_counted && atomic_fetch_add(ld_tenant_n_served(job->tenant), 1) >= (limits->work + 1) / 2)
        return false;
    return ld_sched_give(job->app->sched, LD_POOL_SERVES, run_job, job, limits->work) == 0;
}

/* Owns the job until the pool has it; a pool that cannot take it means 503, not a lost request. The connection
 * waits meanwhile (http.c) and costs no thread. */
static void put_on_pool(struct job *job)
{
    if (enter_line(job))
        return;
    refuse_line(job->app, job->request, job->route->place == LD_AS_TRANSFER);
    leave_line(job);
    ld_tenant_release(job->tenant);
    free(job);
}

void ld_app_handle_beside(struct ld_app *app, struct ld_request *r, struct ld_tenant *t)
{
    struct job *job = job_new(app, r, &ld_routes[ld_request_route(r)]);
    if (job == NULL)
        return;
    job->tenant = ld_tenant_hold(t);
    put_on_pool(job);
}

/* t NULL: there is no tenant that could pay. False after a 429; then t is let go. */
static bool pay(struct ld_app *app, struct ld_request *r, const struct ld_route *route, struct ld_tenant *t)
{
    struct ld_problem p;
    ld_problem_init(&p);
    if (t == NULL || ld_charge_route(app, t, route, &p))
        return true;
    ld_reply_problem(r, &p);
    ld_tenant_release(t);
    return false;
}

/* In the thread that opened the tenant, which has others to open: the handler runs in another. The line takes it in any
 * case: how many wait for a tenant has a bound of its own. */
static void opened(struct ld_tenant_wait *wait, struct ld_tenant *t, const struct ld_problem *p)
{
    struct job *job = (struct job *)(void *)wait;
    job->tenant = t;
    if (t == NULL)
        ld_reply_problem(job->request, p);
    else if (pay(job->app, job->request, job->route, t)) {
        job->was_waiting = true;
        put_on_pool(job);
        return;
    }
    free(job);
}

/* Handlers that wait, and large bodies, go to the pool; t is the job's hold from here on. */
static void go_on(struct ld_app *app, struct ld_request *r, const struct ld_route *route, struct ld_tenant *t)
{
    size_t n;
    if (!pay(app, r, route, t))
        return;
    ld_request_body(r, &n);
    if (route->place == LD_IN_SERVING && (route->body == LD_BODY_NONE || n <= INLINE_BODY_BYTES)) {
        call(app, r, route, t);
        return;
    }
    struct job *job = job_new(app, r, route);
    if (job == NULL) {
        ld_tenant_release(t);
        return;
    }
    job->tenant = t;
    put_on_pool(job);
}

/* The request waits for its tenant without a thread; of one that does not exist the handler knows what to say. */
static void wait_for_tenant(struct ld_app *app, struct ld_request *r, const struct ld_route *route, const char *name)
{
    struct job *job = job_new(app, r, route);
    if (job == NULL)
        return;
    job->wait.done = opened;
    if (ld_tenants_await(app->tenants, name, &job->wait))
        return;
    free(job);
    go_on(app, r, route, NULL);
}

/* In a thread that serves HTTP: what takes long here holds up every connection of that thread. A body of a route that
 * takes none was read up to its cap and is ignored. */
void ld_app_handle(void *arg, struct ld_request *r)
{
    struct ld_app *app = arg;
    const struct ld_route *route = &ld_routes[ld_request_route(r)]; /* admitted: it has one */
    char tenant[LD_PATH_TENANT_BYTES];
    struct ld_tenant *t;
    size_t n;
    /* Asked again, since a body may have taken its time: a key that was revoked meanwhile opens nothing any more. */
    if (route->role != LD_ROLE_PUBLIC && (!ld_access_identify(app, r) || !ld_access_allow(app, r, route)))
        return;
    ld_request_body(r, &n);
    if (route->body != LD_BODY_NONE && n == 0) {
        ld_reply_status(r, 400, is_spooled(route->body) ? "the body is empty" : "the body is empty; JSON is expected");
        return;
    }
    if (route->opens == LD_TENANT_NOT_OPENED) {
        go_on(app, r, route, NULL);
        return;
    }
    ld_route_tenant(route, ld_request_path(r), tenant);
    const char *name = ld_api_tenant_name(app, r, tenant);
    if ((t = ld_tenants_find_open(app->tenants, name)) != NULL)
        go_on(app, r, route, t);
    else
        wait_for_tenant(app, r, route, name);
}
