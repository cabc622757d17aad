/* What the handlers share: finding the tenant, parsing a body into an op, and turning an op's outcome into a reply.
 *
 * An op lives from the handler to its done(): the handler fills it, the tenant's writer answers it, done() replies and
 * frees it. The request is kept by the HTTP server until that reply, whether or not its client is still there.
 *
 * Faults of one request are all told together where that is possible: the decoders collect them in op->problem, and
 * ld_api_refuse sends them as one document. Memory that is short answers 503 and never a half-made op. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/access.h"
#include "api/route.h"

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

/* `curl -d` labels every body as a form, and some clients give no type at all; a newcomer's first call should work all
 * the same. A page in a browser could send such a body to a server on loopback without asking it first (no preflight),
 * but not without an Origin header. */
static bool is_unlabelled(const struct ld_request *r, const char *header)
{
    bool is_loose = header == NULL || is_media(header, "application/x-www-form-urlencoded");
    return is_loose && ld_request_header(r, "Origin") == NULL;
}

/* What the header says the body is. Types are compared without case; parameters do not matter, since JSON is UTF-8 by
 * its own rule (RFC 8259) and a wrong charset shows as bad UTF-8 in the decoder. The one answer for both who ask:
 * dispatch.c for the route's own list and its cap, ld_api_op for how to parse. */
enum ld_media ld_request_media(const struct ld_request *r)
{
    const char *header = ld_request_header(r, "Content-Type");
    if (is_unlabelled(r, header))
        return LD_MEDIA_JSON;
    if (header == NULL)
        return LD_MEDIA_OTHER;
    if (is_media(header, "application/json"))
        return LD_MEDIA_JSON;
    if (is_media(header, "application/merge-patch+json"))
        return LD_MEDIA_MERGE_PATCH;
    if (is_media(header, "application/vnd.sqlite3") || is_media(header, "application/octet-stream"))
        return LD_MEDIA_DATABASE;
    return is_media(header, "application/x-ndjson") ? LD_MEDIA_NDJSON : LD_MEDIA_OTHER;
}

bool ld_request_has_label(const struct ld_request *r)
{
    return !is_unlabelled(r, ld_request_header(r, "Content-Type"));
}

/* The name in the path goes before the header, the header before the key's own tenant, that before the default. */
const char *ld_api_tenant_name(const struct ld_app *app, const struct ld_request *r, const char *name)
{
    return name[0] != '\0' ? name : ld_access_tenant(app, r);
}

/* Dispatch has found it, and opened it where it was not in memory. The hold outlives a deletion: ops submitted
 * afterwards are answered 404 by the tenant itself. A name that no tenant can have is simply not found. */
struct ld_tenant *ld_api_tenant(struct ld_app *app, struct ld_request *r, const char *name)
{
    struct ld_tenant *t = ld_request_context(r);
    if (t != NULL)
        return ld_tenant_hold(t);
    ld_access_no_tenant(r, ld_api_tenant_name(app, r, name));
    return NULL;
}

/* The doc keeps what the decoders point into, so it belongs to the op and dies with it; the body itself may go as
 * soon as it is parsed. Cost: the parse, about 30 ns a byte. A NULL has been answered: 503 for memory, 400 with
 * pointers for a text that is not JSON. */
struct ld_op *ld_api_op(struct ld_app *app, struct ld_request *r, enum ld_op_type type)
{
    struct ld_op *op = ld_op_new(type);
    if (op == NULL) {
        ld_reply_status(r, 503, "out of memory");
        return NULL;
    }
    size_t n;
    const char *body = ld_request_body(r, &n);
    op->bytes = n;
    if (ld_doc_parse(&op->doc, body, n, ld_request_media(r) == LD_MEDIA_NDJSON, &op->problem) == 0) {
        ld_doc_bound(op->doc, app->limits.magnitude);
        return op;
    }
    ld_api_refuse(r, op);
    return NULL;
}

/* A decoder fills op->problem with every fault that it found, each by its pointer. The tenant stays the caller's to
 * release. */
void ld_api_refuse(struct ld_request *r, struct ld_op *op)
{
    ld_reply_problem(r, &op->problem);
    ld_op_free(op);
}

/* In the connection's thread. A status of 0 in a successful op means 200; only the writer's own answers set another. */
static void reply_op(void *arg)
{
    struct ld_op *op = arg;
    struct ld_request *r = op->arg;
    if (op->problem.status != 0) {
        ld_reply_problem(r, &op->problem);
    } else {
        char *text = op->reply;
        op->reply = NULL; /* the reply takes it */
        ld_reply_json(r, op->reply_status != 0 ? op->reply_status : 200, text, op->n_reply);
    }
    ld_op_free(op);
}

/* In the writer's thread, which has others to answer, or in the submitting one when the queue refuses. */
static void op_done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_op, op);
}

/* After ld_tenant_submit neither op nor request may be touched: done() may have run already, in another thread. */
void ld_api_submit(struct ld_request *r, struct ld_tenant *t, struct ld_op *op)
{
    op->done = op_done;
    op->arg = r;
    ld_tenant_submit(t, op);
    ld_tenant_release(t); /* the queue has its own hold */
}

void ld_api_submit_to(struct ld_app *app, struct ld_request *r, const char *name, struct ld_op *op)
{
    struct ld_tenant *t = ld_api_tenant(app, r, name);
    if (t != NULL && op != NULL) {
        ld_api_submit(r, t, op);
        return;
    }
    if (t != NULL) {
        ld_tenant_release(t);
        ld_reply_status(r, 503, "out of memory");
    }
    ld_op_free(op);
}

/* Strict: no sign, no blanks, no second spelling of a number; 19 digits cannot overflow. A parameter without a value
 * counts as a wrong one, not as absent. */
int ld_api_number(struct ld_request *r, const char *name, uint64_t *out)
{
    const struct ld_query *q = ld_route_query(&ld_routes[ld_request_route(r)], name);
    const char *text = ld_request_query(r, name);
    *out = q->preset;
    if (text == NULL)
        return 0;
    size_t n = strspn(text, "0123456789");
    *out = n > 0 && n <= 19 ? strtoull(text, NULL, 10) : 0;
    if (n > 0 && n <= 19 && text[n] == '\0' && *out >= q->min && *out <= q->max)
        return 0;
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, 400, "query parameter %s: expected a whole number from %llu to %llu", name,
                   (unsigned long long)q->min, (unsigned long long)q->max);
    if (*out > q->max)
        ld_problem_limit(&p, name, (double)q->max);
    ld_reply_problem(r, &p);
    return -1;
}
