/* The line of a request:
 *
 *     ts=... level=info msg=request method=POST route=/select status=200 duration_s=0.0021 bytes_in=64 bytes_out=310
 *     tenant=shop key=2XJ4K... peer=127.0.0.1:40022 trace=4bf92f3577b34da6a3ce929d0e0e4736
 *
 * The route and not the path, for paths have ids of users; a tenant's name if it is a valid one, and the id of the key,
 * not the key. What a client can make up has no place in it: a method that no route has is "other".
 *
 * Answers of 5xx are warnings, all else is information: refusals are the clients' business, and whoever scans the port
 * must not fill the log. How often they come is in /metrics. */
#include <string.h>

#include "api/call.h"
#include "base/log.h"
#include "base/names.h"
#include "base/trace.h"

static bool is_wanted(const struct ld_limits *limits, const struct ld_outcome *o)
{
    const bool is_failure = o->status >= 500;
    switch ((enum ld_log_requests)limits->log_requests) {
    case LD_LOG_ALL:
        return true;
    case LD_LOG_SLOW:
        return is_failure || o->us >= limits->slow_us;
    case LD_LOG_ERRORS:
        return is_failure;
    default:
        return false;
    }
}

/* The library knows no limit to methods. */
static const char *method_of(const struct ld_request *r)
{
    static const char *const known[] = {"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(ld_request_method(r), known[i]) == 0)
            return known[i];
    return "other";
}

/* Counts the answer under its route (requests that reached no route share the last row). Only lines that are wanted
 * cost more than a comparison. */
void ld_server_completed(void *arg, const struct ld_request *r, const struct ld_outcome *o)
{
    struct ld_server *s = arg;
    const struct ld_call *c = ld_request_context(r);
    char peer[LD_PEER_BYTES];
    if (o->status != 0)
        ld_count_request(&s->metrics, c->route != NULL ? (int)(c->route - ld_routes) : -1, o->status, o->us);
    if (!is_wanted(&s->limits, o))
        return;
    ld_request_peer(r, peer);
    const struct ld_log_member members[] = {
        {.key = "method", .text = method_of(r)},
        {.key = "route", .text = c->route != NULL ? c->route->path : "none"},
        {.key = "status", .number = o->status},
        {.key = "duration_s", .number = (double)o->us / 1e6},
        {.key = "bytes_in", .number = (double)o->n_in},
        {.key = "bytes_out", .number = (double)o->n_out},
        {.key = "tenant", .text = ld_tenant_name_is_valid(c->name) ? c->name : ""},
        {.key = "key", .text = c->caller.key},
        {.key = "peer", .text = peer},
    };
    ld_trace_enter(ld_request_trace(r));
    ld_log_members(o->status >= 500 ? LD_LOG_WARN : LD_LOG_INFO, "request", s->limits.log_requests == LD_LOG_ALL,
                   members, sizeof members / sizeof *members);
    ld_trace_enter(NULL);
}
