/* Flags by the OpenFeature Remote Evaluation Protocol: a flag is a tenant, its variants are the arms.
 *
 * One flag is a decision like that of /select: made in the serving thread, recorded by the tenant's writer, answered
 * when it is durable. All flags of a context are one such decision for each tenant that the key is good for, made on
 * the pool and joined by the last of the writers. They are deferred: a page asks for all flags before it shows any.
 *
 * The entity tag of such an answer is a hash of keys, reasons, variants and values, not of the decisions' ids. A
 * request that brings it is decided dry first: where every arm is the user's already, or certain, and the hash is the
 * same, the answer is 304, and nothing is recorded. What is drawn anew has no such answer, so arms must stick to users
 * (`routing.sticky`) for all flags together: the flag of a tenant where they do not is a failure that says so. */
#include "api/api.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "base/ulid.h"

#define MOST_FLAGS 256u

/* --- one decision -------------------------------------------------------------------------------------------- */

/* A new op with the body's context in *select. NULL with *p. */
static struct ld_op *read_context(struct ld_call *c, struct ld_select *select, struct ld_problem *p)
{
    struct ld_op *op = ld_call_op(c, LD_OP_EVENT, p);
    if (op == NULL) {
        c->flag_code = "PARSE_ERROR";
        return NULL;
    }
    if (ld_decode_flag_context(op->doc, select, &c->flag_code, p) == 0)
        return op;
    ld_op_free(op);
    return NULL;
}

/* Of the catalogue's active arms; 0: more than the operator lets a decision have, and *p says so. */
static double price_of(const struct ld_call *c, const struct ld_size *size, struct ld_problem *p)
{
    const size_t max = c->server->limits.arms;
    if (size->active_arms <= max)
        return ld_price_decision(size, 0);
    ld_problem_set(p, 400, "the catalogue has %zu active arms, and a decision may have %zu", size->active_arms, max);
    ld_problem_limit(p, "arms", (double)max);
    return 0;
}

/* Decides: afterwards op has the whole answer in `reply`, or what is to be recorded before `answer` is one. -1 with *p.
 */
static int decide(struct ld_call *c, struct ld_tenant *t, struct ld_op *op, const struct ld_select *select,
                  struct ld_problem *p)
{
    uint32_t context_dim, arm_dim;
    struct ld_select own = *select;
    struct ld_size size;
    op->dims_epoch = ld_tenant_dims(t, op->doc, &context_dim, &arm_dim);
    ld_tenant_size(t, &size);
    if (context_dim > 0 && !ld_doc_maps_names(op->doc)) {
        ld_problem_set(p, 400, "decisions of this tenant want a context of %u numbers, which no flag has", context_dim);
        return -1;
    }
    if (context_dim > 0 && ld_decode_flag_features(op->doc, context_dim, &own, p) != 0) {
        c->flag_code = "INVALID_CONTEXT";
        return -1;
    }
    if (size.active_arms == 0) {
        op->reply = ld_encode_flag_default(select->flag, "UNKNOWN", &op->n_reply);
        op->n_tagged = op->n_reply;
        op->is_settled = true;
        return op->reply != NULL ? 0 : -1;
    }
    char *id = ld_doc_alloc(op->doc, LD_ULID_BYTES, 1);
    if (id == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return -1;
    }
    ld_ulid(c->server->world.now_ms(), id);
    return ld_tenant_select(t, &own, id, op, p);
}

/* POST /ofrep/v1/evaluate/flags/{key}. What takes long goes to the pool, as under /select. */
bool api_flag(struct ld_call *c, struct ld_reply *out)
{
    struct ld_select select;
    struct ld_size size;
    ld_tenant_size(c->tenant, &size);
    const double price = price_of(c, &size, out->problem);
    if (ld_call_is_long(c, price)) {
        ld_call_beside(c);
        return false;
    }
    struct ld_op *op = out->problem->status == 0 ? read_context(c, &select, out->problem) : NULL;
    if (op == NULL)
        return true;
    select.flag = c->name;
    c->flag_code = NULL;
    if (ld_charge(c, price, out->problem) && decide(c, c->tenant, op, &select, out->problem) == 0 &&
        op->reply == NULL) {
        ld_call_submit(c, c->tenant, op);
        return false;
    }
    out->text = op->reply;
    out->n = op->n_reply;
    op->reply = NULL;
    ld_op_free(op);
    return true;
}

/* --- all of them --------------------------------------------------------------------------------------------- */

struct flag {
    struct bulk *bulk;
    struct ld_tenant *tenant; /* held; NULL: it was not opened, and `text` says why */
    char key[LD_PATH_TENANT_BYTES];
    char *text; /* its part of the answer */
    size_t n, n_tagged;
    bool is_failed;
};

/* `left` counts those whose text is to come, and the handler itself: who takes the last one answers, and frees. */
struct bulk {
    struct ld_call *call;
    struct ld_op *context; /* the body, read once: what `select` points into */
    struct ld_select select;
    atomic_size_t left;
    size_t n;
    bool is_over; /* more than may be asked for at once */
    struct flag flag[MOST_FLAGS];
};

static void fail(struct flag *f, const char *why)
{
    f->text = ld_encode_flag_failure(f->key, "GENERAL", why, NULL, &f->n);
    f->is_failed = true;
}

static void list_flag(void *arg, const char *name, enum ld_tenant_state state, struct ld_tenant *t, const char *why)
{
    struct bulk *b = arg;
    (void)state;
    (void)t;
    (void)why;
    if (!ld_caller_spans(&b->call->caller, name))
        return;
    b->is_over |= b->n == MOST_FLAGS;
    if (b->n == MOST_FLAGS)
        return;
    b->flag[b->n].bulk = b;
    (void)snprintf(b->flag[b->n].key, sizeof b->flag[b->n].key, "%s", name);
    b->n++;
}

/* Every tenant is opened, and pays, before anything is decided. */
static bool open_flag(struct ld_call *c, struct flag *f, struct ld_problem *p)
{
    struct ld_problem why;
    const struct ld_settings *settings;
    struct ld_size size;
    ld_problem_init(&why);
    f->tenant = ld_tenants_get(c->server->tenants, f->key, &why);
    if (f->tenant == NULL) {
        fail(f, why.detail);
        return true;
    }
    (void)ld_tenant_read_lock(f->tenant, &settings);
    const bool is_sticky = settings->spec.routing.sticky_ms > 0;
    ld_tenant_read_unlock(f->tenant);
    ld_tenant_size(f->tenant, &size);
    const double price = price_of(c, &size, &why);
    if (why.status != 0)
        fail(f, why.detail);
    else if (!is_sticky && size.active_arms > 0)
        fail(f, "flags are evaluated together where their arms stick to users: set routing.sticky of this tenant");
    if (f->is_failed)
        return true;
    c->tenant = f->tenant;
    const bool is_paid = ld_charge(c, price, p);
    c->tenant = NULL;
    return is_paid;
}

/* An op for one flag's decision. What its event keeps of the context is its own: it may outlive the answer. */
static struct ld_op *new_op(const struct bulk *b, struct ld_select *select)
{
    struct ld_op *op = ld_op_new(LD_OP_EVENT);
    char *user = NULL;
    if (op != NULL && (op->doc = ld_doc_new()) != NULL)
        user = ld_doc_alloc(op->doc, strlen(b->select.query.user) + 1, 1);
    if (user == NULL) {
        ld_op_free(op);
        return NULL;
    }
    ld_doc_bound(op->doc, b->call->server->limits.magnitude);
    op->bytes = b->context->bytes;
    select->query.user = strcpy(user, b->select.query.user);
    return op;
}

/* A dry run puts the whole text into the reply; else what is not in the reply at once is still to be recorded. */
static struct ld_op *decide_flag(struct ld_call *c, struct flag *f, bool is_dry_run)
{
    struct ld_problem why;
    struct ld_select select = f->bulk->select;
    ld_problem_init(&why);
    struct ld_op *op = new_op(f->bulk, &select);
    if (op != NULL) {
        select.flag = f->key;
        select.is_dry_run = is_dry_run;
        select.is_deferred = true;
        if (decide(c, f->tenant, op, &select, &why) == 0)
            return op;
    }
    ld_op_free(op);
    if (!is_dry_run)
        fail(f, why.n_errors > 0 ? why.errors[0].detail : why.status != 0 ? why.detail : "out of memory");
    return NULL;
}

static uint64_t hash_flag(uint64_t h, const char *text, size_t n)
{
    return kb_hash_u64(kb_hash_bytes(h, text, n), n);
}

static void put_tag(struct ld_call *c, uint64_t h)
{
    (void)snprintf(c->etag, sizeof c->etag, "\"%016llx\"", (unsigned long long)h);
}

/* Whether the caller has the answer that it would get: its tag is in c->etag then. */
static bool is_unchanged(struct bulk *b)
{
    struct ld_call *c = b->call;
    const char *tags = ld_request_header(c->request, "If-None-Match");
    uint64_t h = KB_HASH_INIT;
    bool is_settled = tags != NULL;
    for (size_t i = 0; is_settled && i < b->n; i++) {
        struct flag *f = &b->flag[i];
        struct ld_op *op = !f->is_failed ? decide_flag(c, f, true) : NULL;
        is_settled = op != NULL && op->is_settled;
        if (is_settled)
            h = hash_flag(h, op->reply, op->n_tagged);
        ld_op_free(op);
    }
    put_tag(c, h);
    return is_settled && strstr(tags, c->etag) != NULL;
}

/* By the last of the writers, or by the handler. What has failed may go better the next time: such an answer has no
 * tag.
 */
static void answer(struct bulk *b)
{
    struct ld_call *c = b->call;
    struct ld_text t;
    uint64_t h = KB_HASH_INIT;
    bool is_whole = true;
    ld_text_init(&t);
    ld_text_lit(&t, "{\"flags\":[");
    for (size_t i = 0; i < b->n; i++) {
        struct flag *f = &b->flag[i];
        is_whole &= !f->is_failed && f->text != NULL;
        ld_text_item(&t);
        if (f->text != NULL)
            ld_text_raw(&t, f->text, f->n);
        else
            t.is_failed = true;
        h = hash_flag(h, f->text, f->text != NULL ? f->n_tagged : 0);
        free(f->text);
    }
    ld_text_lit(&t, "]}");
    ld_op_free(b->context);
    free(b);
    struct ld_reply reply = {.status = 200};
    reply.text = ld_text_take(&t, &reply.n);
    put_tag(c, h);
    if (is_whole)
        ld_flag_tag(c);
    ld_reply(c->request, &reply);
}

static void let_go(struct bulk *b)
{
    if (atomic_fetch_sub(&b->left, 1) == 1)
        answer(b);
}

static void take_text(struct flag *f, struct ld_op *op)
{
    f->text = op->reply;
    f->n = op->n_reply;
    f->n_tagged = op->n_tagged;
    op->reply = NULL;
    ld_op_free(op);
}

/* In the writer's thread. */
static void flag_done(struct ld_op *op)
{
    struct flag *f = op->arg;
    if (op->problem->status != 0)
        fail(f, op->problem->detail);
    if (!f->is_failed)
        take_text(f, op);
    else
        ld_op_free(op);
    let_go(f->bulk);
}

static void decide_all(struct bulk *b)
{
    for (size_t i = 0; i < b->n; i++) {
        struct flag *f = &b->flag[i];
        struct ld_op *op = !f->is_failed ? decide_flag(b->call, f, false) : NULL;
        if (op != NULL && op->reply != NULL) {
            take_text(f, op);
        } else if (op != NULL) {
            atomic_fetch_add(&b->left, 1);
            op->done = flag_done;
            op->arg = f;
            ld_tenant_submit(f->tenant, op);
        }
    }
}

/* With the context read. NULL with *p, or without memory. */
static struct bulk *new_bulk(struct ld_call *c, struct ld_problem *p)
{
    struct bulk *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->call = c;
    atomic_init(&b->left, 1);
    b->context = read_context(c, &b->select, p);
    if (b->context != NULL) {
        c->flag_code = NULL;
        return b;
    }
    free(b);
    return NULL;
}

/* Which flags there are, opened and paid for. */
static bool open_flags(struct bulk *b, struct ld_problem *p)
{
    if (!ld_tenants_list(b->call->server->tenants, b->call->caller.tenant, list_flag, b))
        ld_problem_set(p, 503, "out of memory");
    if (b->is_over)
        ld_problem_set(p, 400, "more than %u flags: evaluate them with a key that is good for fewer tenants",
                       MOST_FLAGS);
    for (size_t i = 0; p->status == 0 && i < b->n; i++)
        (void)open_flag(b->call, &b->flag[i], p);
    return p->status == 0;
}

/* POST /ofrep/v1/evaluate/flags. */
bool api_flags(struct ld_call *c, struct ld_reply *out)
{
    struct ld_tenant *held[MOST_FLAGS];
    struct bulk *b = new_bulk(c, out->problem);
    if (b == NULL)
        return true;
    const bool is_open = open_flags(b, out->problem), is_same = is_open && is_unchanged(b);
    const size_t n = b->n;
    for (size_t i = 0; i < n; i++)
        held[i] = b->flag[i].tenant;
    if (is_open && !is_same) {
        decide_all(b);
        let_go(b);
    } else {
        for (size_t i = 0; i < n; i++)
            free(b->flag[i].text);
        ld_op_free(b->context);
        free(b);
    }
    for (size_t i = 0; i < n; i++)
        ld_tenant_release(held[i]);
    if (is_same)
        ld_flag_tag(c);
    out->status = 304;
    return !is_open || is_same;
}
