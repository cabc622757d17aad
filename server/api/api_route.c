/* GET /route/{t}: a decision for proxies, which ask by a request of their own before they pass a visitor's on, and read
 * headers alone.
 *
 *   Laplaced-Arm         the arm; octets that are no letter, digit, dash, dot, underscore or tilde stand as %XX
 *   Laplaced-Decision    its id, likewise, for the reward
 *   Laplaced-Propensity
 *   Laplaced-Fallback    true: no decision was made, and the arm is the one that `fallback` names
 *   Laplaced-Problem     then: why, a problem's type
 *
 * The parameters of the query are made the body of a /select, so they mean the same and are judged by the same rules.
 * Whatever the refusal, and wherever it comes from, with `fallback` the answer is that arm: a proxy has a visitor to
 * serve. Nothing is recorded then, so nothing is learned from those visitors.
 *
 * Cost: that of a /select; its answer is read back for the headers. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "json/json_in.h"

#define USER_HEADER "Laplaced-User"
#define ESCAPED_BYTES (3 * (size_t)KB_ID_MAX_BYTES + 1)

/* --- the answer ------------------------------------------------------------------------------------------------ */

/* As a header's value may be (RFC 9110 5.5), and as a URL has it (RFC 3986 2.3). Cut to what out holds. */
static const char *escape(const char *text, char out[ESCAPED_BYTES])
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p != '\0' && n + 3 < ESCAPED_BYTES; p++) {
        if (strchr(plain, *p) != NULL) {
            out[n++] = (char)*p;
            continue;
        }
        out[n++] = '%';
        out[n++] = digits[*p >> 4];
        out[n++] = digits[*p & 15];
    }
    out[n] = '\0';
    return out;
}

/* No cache may give one visitor another's answer: a GET is what proxies can send, and this one changes something. */
static void reply(struct ld_request *r, struct ld_header *headers, size_t n)
{
    headers[n++] = (struct ld_header){"Cache-Control", "no-store"};
    const struct ld_reply out = {.status = 204, .headers = headers, .n_headers = n};
    ld_reply(r, &out);
}

static void reply_fallback(struct ld_request *r, struct ld_metrics *metrics, const char *arm,
                           const struct ld_problem *p)
{
    char escaped[ESCAPED_BYTES];
    struct ld_header headers[4] = {{"Laplaced-Arm", escape(arm, escaped)},
                                   {"Laplaced-Fallback", "true"},
                                   {"Laplaced-Problem", ld_problem_type(p->status, p->type)}};
    ld_count(&metrics->route_fallbacks, 1);
    reply(r, headers, 3);
}

static void reply_told(struct ld_request *r, const struct ld_told *told)
{
    char arm[ESCAPED_BYTES], decision[ESCAPED_BYTES];
    struct ld_text number;
    size_t n;
    ld_text_init(&number);
    ld_text_number(&number, told->propensity);
    char *propensity = ld_text_take(&number, &n);
    struct ld_header headers[4] = {{"Laplaced-Arm", escape(told->arm, arm)},
                                   {"Laplaced-Decision", escape(told->decision, decision)},
                                   {"Laplaced-Propensity", propensity}};
    if (propensity != NULL)
        reply(r, headers, 3);
    else
        ld_reply_status(r, 503, "no memory for the answer");
    free(propensity);
}

/* --- refusals -------------------------------------------------------------------------------------------------- */

/* The arm that a query names in place of a refusal; "": none, or none that an arm's id could be. */
static void read_fallback(const struct ld_call *c, char out[KB_ID_MAX_BYTES + 1])
{
    const char *text = ld_request_query(c->request, "fallback");
    out[0] = '\0';
    if (text != NULL && strlen(text) <= KB_ID_MAX_BYTES)
        strcpy(out, text);
}

/* In the thread that has the request, before anything is queued. */
void ld_call_refuse(struct ld_call *c, const struct ld_problem *p)
{
    char fallback[KB_ID_MAX_BYTES + 1] = "";
    if (c->route != NULL && c->route->handle == api_route)
        read_fallback(c, fallback);
    if (fallback[0] != '\0')
        reply_fallback(c->request, &c->server->metrics, fallback, p);
    else
        ld_reply_problem(c->request, p);
}

/* --- the query --------------------------------------------------------------------------------------------------- */

static void put_user(const struct ld_call *c, struct ld_text *t, struct ld_problem *p)
{
    const char *user = ld_request_query(c->request, "user");
    if (user == NULL)
        user = ld_request_header(c->request, USER_HEADER);
    if (user != NULL)
        ld_text_put_string(t, "user", user);
    else
        ld_problem_set(p, 400, "query parameter user: required, or the header " USER_HEADER);
}

/* An object of named features stands in the body as it came: only what is JSON by itself may. */
static void put_named_context(const char *text, struct ld_text *t, struct ld_problem *p)
{
    struct ld_doc *doc = NULL;
    struct ld_problem why;
    ld_problem_init(&why);
    if (ld_doc_parse(&doc, text, strlen(text), false, &why) == 0)
        ld_text_raw(t, text, strlen(text));
    else
        ld_problem_set(p, why.status == 503 ? 503 : 400, "query parameter context: %s",
                       why.n_errors > 0 ? why.errors[0].detail : why.detail);
    ld_doc_free(doc);
}

static void put_context(const struct ld_call *c, struct ld_text *t, struct ld_problem *p)
{
    const char *at = ld_request_query(c->request, "context");
    bool has_more = at != NULL;
    if (at == NULL)
        return;
    ld_text_key(t, "context");
    if (*at == '{') {
        put_named_context(at, t, p);
        return;
    }
    ld_text_lit(t, "[");
    while (has_more && p->status == 0) {
        char *end;
        const double x = strtod(at, &end);
        has_more = *end == ',';
        if (end == at || (*end != ',' && *end != '\0') || strspn(at, "+-.0123456789eE") < (size_t)(end - at))
            ld_problem_set(p, 400, "query parameter context: expected numbers with commas between them");
        else
            ld_text_item(t);
        if (p->status == 0)
            ld_text_number(t, x);
        at = end + 1;
    }
    ld_text_lit(t, "]");
}

/* From *at up to the next separator, of which the last is a NUL, into out; *at goes behind it. False: it is too long
 * for any id. */
static bool take_word(const char **at, const char *separators, char out[KB_ID_MAX_BYTES + 1])
{
    const size_t n = strcspn(*at, separators);
    if (n > KB_ID_MAX_BYTES)
        return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n;
    return true;
}

static void put_candidates(const struct ld_call *c, struct ld_text *t, struct ld_problem *p)
{
    const char *at = ld_request_query(c->request, "candidates");
    char arm[KB_ID_MAX_BYTES + 1];
    if (at == NULL)
        return;
    ld_text_key(t, "candidates");
    ld_text_lit(t, "[");
    for (bool has_more = true; has_more && p->status == 0; at++) {
        if (!take_word(&at, ",", arm)) {
            ld_problem_set(p, 400,
                           "query parameter candidates: expected arms of at most %u bytes with commas between them",
                           KB_ID_MAX_BYTES);
            ld_problem_limit(p, "string_bytes", KB_ID_MAX_BYTES);
            break;
        }
        has_more = *at == ',';
        ld_text_item(t);
        ld_text_string(t, arm);
    }
    ld_text_lit(t, "]");
}

/* name:value,name:value. A value may have colons, a name has none. */
static void put_attributes(const struct ld_call *c, struct ld_text *t, struct ld_problem *p)
{
    const char *at = ld_request_query(c->request, "attributes");
    char name[KB_ID_MAX_BYTES + 1], value[KB_ID_MAX_BYTES + 1];
    if (at == NULL)
        return;
    ld_text_key(t, "attributes");
    ld_text_lit(t, "{");
    for (bool has_more = true; has_more; at++) {
        if (!take_word(&at, ",:", name) || *at++ != ':' || !take_word(&at, ",", value)) {
            ld_problem_set(p, 400, "query parameter attributes: expected name:value with commas between them");
            break;
        }
        has_more = *at == ',';
        ld_text_item(t);
        ld_text_string(t, name);
        ld_text_lit(t, ":");
        ld_text_string(t, value);
    }
    ld_text_lit(t, "}");
}

/* The body of the /select that it stands for; NULL with *p. */
static char *body_of(const struct ld_call *c, size_t *n, struct ld_problem *p)
{
    const char *decision = ld_request_query(c->request, "decision");
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    put_user(c, &t, p);
    put_context(c, &t, p);
    put_candidates(c, &t, p);
    put_attributes(c, &t, p);
    if (decision != NULL)
        ld_text_put_string(&t, "decision", decision);
    ld_text_lit(&t, "}");
    if (p->status != 0) {
        ld_text_close(&t);
        return NULL;
    }
    char *text = ld_text_take(&t, n);
    if (text == NULL)
        ld_problem_set(p, 400, "query parameter context: expected finite numbers");
    return text;
}

/* --- the decision ------------------------------------------------------------------------------------------------ */

/* In the connection's thread. */
static void reply_op(void *arg)
{
    struct ld_op *op = arg;
    struct ld_request *r = op->arg;
    const struct ld_call *c = ld_request_context(r);
    struct ld_doc *doc = NULL;
    struct ld_problem p;
    struct ld_told told;
    ld_problem_init(&p);
    if (op->problem->status != 0)
        p = *op->problem;
    else if (ld_decode_told(&doc, op->reply, op->n_reply, &told) != 0)
        ld_problem_set(&p, 503, "no memory for the answer");
    if (p.status == 0)
        reply_told(r, &told);
    else if (op->user[0] != '\0')
        reply_fallback(r, &c->server->metrics, op->user, &p);
    else
        ld_reply_problem(r, &p);
    ld_doc_free(doc);
    ld_op_free(op);
}

static void done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_op, op);
}

static struct ld_op *make_op(const struct ld_call *c, struct ld_problem *p)
{
    size_t n = 0;
    char *body = body_of(c, &n, p);
    struct ld_op *op = ld_call_op_of(c, LD_OP_EVENT, body, n, p);
    if (op != NULL) {
        read_fallback(c, op->user);
        op->done = done;
        op->arg = c->request;
    }
    return op;
}

/* 204 with the headers above, once the decision is durable; the problems of /select, or the fallback. */
bool api_route(struct ld_call *c, struct ld_reply *out)
{
    const char *fallback = ld_request_query(c->request, "fallback");
    struct ld_select select = {.decision = NULL};
    if (fallback != NULL && (fallback[0] == '\0' || strlen(fallback) > KB_ID_MAX_BYTES)) {
        ld_problem_set(out->problem, 400, "query parameter fallback: expected an arm of 1 to %u bytes",
                       KB_ID_MAX_BYTES);
        if (fallback[0] != '\0')
            ld_problem_limit(out->problem, "string_bytes", KB_ID_MAX_BYTES);
        return true;
    }
    struct ld_op *op = make_op(c, out->problem);
    const int rc = op != NULL ? ld_call_decide(c, op, &select, out->problem) : -1;
    if (rc == 0) {
        ld_tenant_submit(c->tenant, op);
        return false;
    }
    ld_op_free(op);
    if (rc > 0)
        ld_call_beside(c);
    return rc <= 0;
}
