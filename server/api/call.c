/* What nearly every call comes to: its body, the op for the tenant's writer, the price, and whose key it is.
 *
 * An op lives from the handler to its done(): the handler fills it, the tenant's writer answers it, done() replies and
 * frees it. The request is kept by the HTTP server until that reply, whether or not its client is still there.
 *
 * Faults of one request are all told together where that is possible: the decoders collect them in one problem. Memory
 * that is short answers 503 and never a half-made op.
 *
 * A request is charged once, by one compare-and-swap: where its price is in its route before the body is parsed, else
 * when the body has been decoded and before anything is computed or queued. A refusal has done nothing but that.
 * Whoever asks, the tenant pays: an operator's key is no way around it. What is no tenant's work is not charged: lists,
 * keys, metrics, limits, the making and deleting of tenants. */
#include "api/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/limit.h"

/* --- the body and its op ------------------------------------------------------------------------------------- */

/* Cost: the parse, about 30 ns a byte. */
int ld_call_parse(const struct ld_call *c, struct ld_doc **doc, struct ld_problem *p)
{
    size_t n;
    const char *body = ld_request_body(c->request, &n);
    return ld_doc_parse(doc, body, n, c->media == LD_MEDIA_NDJSON, p);
}

/* The doc keeps what the decoders point into, so it belongs to the op and dies with it; the body itself may go as
 * soon as it is parsed. */
struct ld_op *ld_call_op(const struct ld_call *c, enum ld_op_type type, struct ld_problem *p)
{
    struct ld_op *op = ld_op_new(type);
    if (op == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return NULL;
    }
    if (c->route->body == LD_BODY_NONE)
        return op;
    ld_request_body(c->request, &op->bytes);
    if (ld_call_parse(c, &op->doc, p) == 0) {
        ld_doc_bound(op->doc, c->server->limits.magnitude);
        return op;
    }
    ld_op_free(op);
    return NULL;
}

struct ld_op *ld_call_op_of(const struct ld_call *c, enum ld_op_type type, char *text, size_t n, struct ld_problem *p)
{
    struct ld_op *op = text != NULL ? ld_op_new(type) : NULL;
    if (op == NULL)
        ld_problem_set(p, 503, "out of memory"); /* unless a fault was told */
    else if (ld_doc_parse(&op->doc, text, n, false, p) == 0)
        ld_doc_bound(op->doc, c->server->limits.magnitude);
    free(text);
    if (p->status == 0)
        return op;
    ld_op_free(op);
    return NULL;
}

/* In the connection's thread. Only the writer sets a status that is neither 200 nor a problem's. */
static void reply_op(void *arg)
{
    struct ld_op *op = arg;
    const struct ld_header made = {"Location", op->location};
    const struct ld_reply reply = {.status = op->reply_status,
                                   .text = op->reply,
                                   .n = op->n_reply,
                                   .headers = &made,
                                   .n_headers = op->location != NULL ? 1 : 0};
    if (op->problem->status != 0) {
        ld_reply_problem(op->arg, op->problem);
    } else {
        op->reply = NULL; /* the reply takes it */
        ld_reply(op->arg, &reply);
    }
    ld_op_free(op);
}

/* In the writer's thread, which has others to answer, or in the submitting one when the queue refuses. */
static void op_done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_op, op);
}

/* Afterwards neither op nor call may be touched: done() may have run already, in another thread. The queue has its own
 * hold of the tenant. */
void ld_call_submit(struct ld_call *c, struct ld_tenant *t, struct ld_op *op)
{
    if (op->done == NULL) {
        op->done = op_done;
        op->arg = c->request;
    }
    if (c->caller.key[0] != '\0') {
        strcpy(op->by, c->caller.key);
        if (op->event.type == KB_EV_GRAPH || op->event.type == KB_EV_ARMS || op->event.type == KB_EV_FORGOTTEN)
            op->event.by = op->by;
    }
    ld_tenant_submit(t, op);
}

bool ld_call_submit_by(struct ld_call *c, struct ld_op *op, void (*done)(struct ld_op *op))
{
    op->done = done;
    op->arg = c->request;
    ld_call_submit(c, c->tenant, op);
    return false;
}

/* --- what it costs ------------------------------------------------------------------------------------------- */

/* The weights are those of docs/SPEED.md: ten multiply-adds a nanosecond, 0.1 ms for a request and 10 us for an event
 * besides its update. They need not be exact: they are to make a tenant of 1,000 points pay for what it does to the
 * others. */
#define REQUEST 1.0
#define WORK_OF_TOKEN 1e6 /* multiply-adds */
#define EVENT 0.1
#define LINE 0.01   /* of the log, read or folded; an edge or an arm */
#define SYSTEM 10.0 /* of a user whose diagonal entry is not known */
#define LOOK 10.0   /* what reads much and computes little */

static double update(const struct ld_size *size)
{
    const double m = (double)size->points;

    return (3 * m * m + m * size->dims) / WORK_OF_TOKEN;
}

double ld_price_decision(const struct ld_size *size, size_t n_candidates, size_t n_slots)
{
    const double m = (double)size->points;
    const double n = (double)(n_candidates > 0 ? n_candidates : size->active_arms);

    return REQUEST + n * (double)(n_slots > 1 ? n_slots : 1) * (m * m + m * size->dims) / WORK_OF_TOKEN;
}

double ld_price_neighbours(double work)
{
    return work / WORK_OF_TOKEN;
}

double ld_price_lines(uint64_t n)
{
    return REQUEST + (double)n * LINE;
}

double ld_price_near(size_t n, bool is_solved)
{
    return LOOK + (double)n * (is_solved ? SYSTEM : LINE);
}

double ld_price_fold(const struct ld_size *size)
{
    return REQUEST + (double)size->learned * (LINE + update(size));
}

double ld_price_work(const struct ld_size *size, enum ld_work work)
{
    const double m = (double)size->points;

    switch (work) {
    case LD_WORK_TOLD:
        return 0;
    case LD_WORK_REQUEST:
        return REQUEST;
    case LD_WORK_MODEL:
        return REQUEST + m * m * m / WORK_OF_TOKEN;
    case LD_WORK_LOOK:
        return LOOK;
    case LD_WORK_COPY:
        return ld_price_lines(size->learned);
    case LD_WORK_FOLD:
        return ld_price_fold(size);
    }
    return REQUEST;
}

static bool refuse(struct ld_call *c, double tokens, int64_t wait_ns, struct ld_problem *p)
{
    struct ld_rate limit;
    if (wait_ns == 0)
        return true;
    ld_bucket_get(ld_tenant_bucket(c->tenant), &limit);
    ld_problem_set(p, 429, "the tenant's rate of %g tokens a second (burst %g) is used up; this costs %.3g", limit.rate,
                   limit.burst, tokens < limit.burst ? tokens : limit.burst);
    ld_problem_limit(p, "rate", limit.rate);
    p->retry_after_s = ld_retry_after_s(wait_ns);
    ld_count(&c->server->metrics.limited[LD_LIMITED_RATE], 1);
    return false;
}

bool ld_charge(struct ld_call *c, double tokens, struct ld_problem *p)
{
    if (c->tenant == NULL)
        return true;
    return refuse(c, tokens, ld_bucket_take(ld_tenant_bucket(c->tenant), tokens, ld_monotonic_ns()), p);
}

bool ld_charge_fold(struct ld_call *c, struct ld_problem *p)
{
    struct ld_size size;
    if (c->tenant == NULL)
        return true;
    ld_tenant_size(c->tenant, &size);
    return ld_charge(c, ld_price_fold(&size), p);
}

bool ld_charge_events(struct ld_call *c, size_t n, struct ld_problem *p)
{
    struct ld_size size;
    ld_tenant_size(c->tenant, &size);
    return ld_charge(c, REQUEST + (double)n * (EVENT + update(&size)), p);
}

bool ld_charge_route(struct ld_call *c, struct ld_problem *p)
{
    struct ld_size size;
    if (c->tenant == NULL)
        return true;
    ld_tenant_size(c->tenant, &size);
    const double price = ld_price_work(&size, c->route->work);
    if (price > 0)
        return ld_charge(c, price, p);
    return refuse(c, 1, ld_bucket_look(ld_tenant_bucket(c->tenant), 1, ld_monotonic_ns()), p);
}

/* --- access ---------------------------------------------------------------------------------------------------- */

/* Who may call which route. The order of the questions is the point:
 *
 *   1. whose key is it?               nobody's: 401, whatever was asked for
 *   2. is there such a route?         404, 405 (dispatch.c)
 *   3. is it the key's own tenant,    any other: 404, without looking whether there is one
 *      or one of those that it spans?
 *   4. has the key the route's role?  403
 *
 * So a tenant's key hears the same about a tenant of others as about one that never was, in the same time, before a
 * byte of the body is read. A key of the server itself (an admin's, or one for metrics) stops at 4 when it lacks the
 * role, hence learns nothing either. */

#define OWN_KEY_BYTES 600

/* Clients of other protocols may send the key in a header of its own. */
static const char *key_of(const struct ld_call *c, char own[OWN_KEY_BYTES])
{
    const char *header = ld_request_header(c->request, "Authorization"), *key = NULL;
    if (header == NULL && c->door != NULL)
        key = ld_request_header(c->request, c->door->key_header);
    if (key == NULL || strlen(key) + sizeof "Bearer " > OWN_KEY_BYTES)
        return header;
    return strcat(strcpy(own, "Bearer "), key);
}

bool ld_access_identify(struct ld_call *c, struct ld_problem *p)
{
    struct ld_server *s = c->server;
    char own[OWN_KEY_BYTES];
    switch (ld_keys_who(s->keys, s->auth, key_of(c, own), s->world.now_ms(), &c->caller)) {
    case LD_WHO_KNOWN:
        break;
    case LD_WHO_NOBODY:
        ld_problem_set(p, 401, "this server asks for a key: Authorization: Bearer KEY");
        break;
    case LD_WHO_NOT_TOLD:
        ld_problem_set(p, 503, "this server has not heard from the shared log yet whether there are keys");
        break;
    }
    return p->status == 0;
}

bool ld_access_holds(struct ld_server *s, const char *authorization, const char *tenant, unsigned role)
{
    struct ld_caller caller;
    return ld_keys_who(s->keys, s->auth, authorization, s->world.now_ms(), &caller) == LD_WHO_KNOWN &&
           (caller.roles == LD_ALL_ROLES || (caller.roles & role) != 0) && ld_caller_spans(&caller, tenant);
}

/* Names the roles that would do, so that whoever made the key knows what to add. */
static void refuse_role(const struct ld_route *route, struct ld_problem *p)
{
    const char *name = "admin";
    for (size_t i = 0; i < LD_N_ROLES; i++)
        if (route->role == 1u << i)
            name = ld_role_name(i);
    ld_problem_set(p, 403, "the key lacks the role `%s`", name);
}

/* A route whose row forgot its role has none that a key could have, but an admin has all: it is theirs alone. */
bool ld_access_allow(const struct ld_call *c, struct ld_problem *p)
{
    const bool is_about_one = c->name[0] != '\0' || ld_route_reads_header(c->route);
    if (is_about_one && !ld_caller_spans(&c->caller, c->name))
        ld_problem_no_tenant(p, c->name);
    else if ((c->caller.roles & (unsigned)c->route->role) == 0 && c->caller.roles != LD_ALL_ROLES)
        refuse_role(c->route, p);
    return p->status == 0;
}
