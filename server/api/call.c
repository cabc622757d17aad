/* What the handlers share: the body, the op for the tenant's writer, the price, and what a path and a query say.
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
#include "base/names.h"
#include "base/text.h"
#include "tenant/price.h"

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

/* --- what it costs ------------------------------------------------------------------------------------------- */

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
    return ld_charge(c, ld_price_events(&size, n), p);
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

/* --- path and query ------------------------------------------------------------------------------------------ */

/* Strict: no sign, no blanks, no second spelling of a number; 19 digits cannot overflow. A parameter without a value
 * counts as a wrong one, not as absent. */
int ld_call_number(const struct ld_call *c, const char *name, uint64_t *out, struct ld_problem *p)
{
    const struct ld_query *q = ld_route_query(c->route, name);
    const char *text = ld_request_query(c->request, name);
    *out = q->preset;
    if (text == NULL)
        return 0;
    size_t n = strspn(text, "0123456789");
    *out = n > 0 && n <= 19 ? strtoull(text, NULL, 10) : 0;
    if (n > 0 && n <= 19 && text[n] == '\0' && *out >= q->min && *out <= q->max)
        return 0;
    ld_problem_set(p, 400, "query parameter %s: expected a whole number from %llu to %llu", name,
                   (unsigned long long)q->min, (unsigned long long)q->max);
    if (*out > q->max)
        ld_problem_limit(p, name, (double)q->max);
    return -1;
}

/* "a, b, c" of all words but the one that stands for none; cut. */
static void list_words(const struct kb_words *words, char out[256])
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < words->n && n < 256; i++)
        if (words->word[i] != NULL)
            n += (size_t)snprintf(out + n, 256 - n, "%s%s", n > 0 ? ", " : "", words->word[i]);
}

/* Its bit; 0: there is no such word. */
static unsigned bit_of(const struct kb_words *words, const char *text, size_t n)
{
    for (int i = 0; i < words->n; i++)
        if (words->word[i] != NULL && strlen(words->word[i]) == n && memcmp(words->word[i], text, n) == 0)
            return 1u << i;
    return 0;
}

int ld_call_words(const struct ld_call *c, const char *name, const struct kb_words *words, unsigned *out,
                  struct ld_problem *p)
{
    const char *text = ld_request_query(c->request, name);
    char known[256];
    *out = 0;
    for (bool is_last = text == NULL; !is_last;) {
        const size_t n = strcspn(text, ",");
        const unsigned bit = bit_of(words, text, n);
        if (bit == 0) {
            list_words(words, known);
            ld_problem_set(p, 400, "query parameter %s: expected some of %s, with commas between them", name, known);
            return -1;
        }
        *out |= bit;
        is_last = text[n] == '\0';
        text += n + 1;
    }
    return 0;
}

int ld_call_word(const struct ld_call *c, const char *name, const struct kb_words *words, int preset, int *out,
                 struct ld_problem *p)
{
    const char *text = ld_request_query(c->request, name);
    char known[256];
    *out = text != NULL ? kb_word_value(words, text) : preset;
    if (text == NULL || *out >= 0)
        return 0;
    list_words(words, known);
    ld_problem_set(p, 400, "query parameter %s: expected one of %s", name, known);
    return -1;
}

/* As ids are in bodies: UTF-8 without control characters, those of U+0080 to U+009F among them. */
static bool is_id(const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        const unsigned char *at = (const unsigned char *)text + i;
        const size_t length = ld_text_utf8_length(at);
        if (length == 0 || *at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
            return false;
        i += length;
    }
    return n > 0 && n <= KB_ID_MAX_BYTES;
}

const char *ld_call_id(const struct ld_call *c, const char *name, struct ld_problem *p)
{
    const char *text = ld_request_query(c->request, name);
    if (text != NULL && is_id(text))
        return text;
    if (text == NULL) {
        ld_problem_set(p, 400, "query parameter %s: required", name);
        return NULL;
    }
    ld_problem_set(p, 400, "query parameter %s: expected 1 to %u bytes of UTF-8 without control characters", name,
                   KB_ID_MAX_BYTES);
    if (strlen(text) > KB_ID_MAX_BYTES)
        ld_problem_limit(p, "string_bytes", KB_ID_MAX_BYTES);
    return NULL;
}

void ld_call_rest(const struct ld_call *c, char out[LD_PATH_REST_BYTES])
{
    ld_route_rest(c->route, ld_request_path(c->request), out);
}

bool ld_call_check_name(const char *tenant, struct ld_problem *p)
{
    if (!ld_tenant_name_is_valid(tenant))
        ld_problem_set(p, 400,
                       "a tenant's name is 1 to 64 letters, digits, dots, underscores and dashes, "
                       "the first a letter or digit");
    return p->status == 0;
}

bool ld_call_may_make(const struct ld_call *c, const char *tenant, struct ld_problem *p)
{
    if (ld_call_check_name(tenant, p) && ld_tenants_has(c->server->tenants, tenant))
        ld_problem_set(p, 409, "there is a tenant \"%s\": delete it first, or take another name", tenant);
    return p->status == 0;
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

/* Keys that were made count as soon as there is one. */
bool ld_access_wants_keys(struct ld_server *s)
{
    return ld_auth_has_had_file(s->auth) || ld_keys_exist(s->keys);
}

#define OWN_KEY_BYTES 600

/* Clients of other protocols may send the key in a header of its own. */
static const char *key_of(const struct ld_call *c, char own[OWN_KEY_BYTES])
{
    const char *header = ld_request_header(c->request, "Authorization"), *key = NULL;
    if (header == NULL && ld_flag_is_path(c->request))
        key = ld_request_header(c->request, "X-API-Key");
    else if (header == NULL && ld_rank_is_path(c->request))
        key = ld_request_header(c->request, "Ocp-Apim-Subscription-Key");
    if (key == NULL || strlen(key) + sizeof "Bearer " > OWN_KEY_BYTES)
        return header;
    return strcat(strcpy(own, "Bearer "), key);
}

/* Both kinds of keys are tried always: which of them it was shows in no time. */
bool ld_access_identify(struct ld_call *c, struct ld_problem *p)
{
    struct ld_server *s = c->server;
    char own[OWN_KEY_BYTES];
    const char *header = key_of(c, own), *token = ld_auth_token(header);
    ld_caller_set(&c->caller, 0);
    bool is_known = ld_keys_allow(s->keys, token != NULL ? token : "", s->world.now_ms(), &c->caller);
    if (ld_auth_allows(s->auth, header) || !ld_access_wants_keys(s)) {
        ld_caller_set(&c->caller, LD_ALL_ROLES);
        is_known = true;
    }
    if (!is_known && (token != NULL || !ld_auth_has_had_file(s->auth)) && ld_keys_are_guessed(s->keys))
        ld_problem_set(p, 503, "this server has not heard from the shared log yet whether there are keys");
    else if (!is_known)
        ld_problem_set(p, 401, "this server asks for a key: Authorization: Bearer KEY");
    return is_known;
}

bool ld_access_holds(struct ld_server *s, const char *authorization, const char *tenant, unsigned role)
{
    const char *token = ld_auth_token(authorization);
    struct ld_caller caller;
    if (ld_auth_allows(s->auth, authorization) || !ld_access_wants_keys(s))
        return true;
    return ld_keys_allow(s->keys, token != NULL ? token : "", s->world.now_ms(), &caller) &&
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

bool ld_access_spans(const struct ld_call *c, const char *tenant)
{
    return ld_caller_spans(&c->caller, tenant);
}

/* A route whose row forgot its role has none that a key could have, but an admin has all: it is theirs alone. */
bool ld_access_allow(const struct ld_call *c, struct ld_problem *p)
{
    const bool is_about_one = c->name[0] != '\0' || ld_route_reads_header(c->route);
    if (is_about_one && !ld_access_spans(c, c->name))
        ld_problem_no_tenant(p, c->name);
    else if ((c->caller.roles & (unsigned)c->route->role) == 0 && c->caller.roles != LD_ALL_ROLES)
        refuse_role(c->route, p);
    return p->status == 0;
}
