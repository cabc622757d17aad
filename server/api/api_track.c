/* Tracking events of OpenFeature's clients: what a user did, as the reward of the decision that showed them a flag.
 *
 * The protocol has no such request yet; its form is that of a client's call, track(name, context, details). An event
 * is of the decision in its attributes, else of its user's: as rewards by user, of the one that they were shown last.
 * Its flag stands in the attributes, too, where the key is good for several. It counts as the decision's exposure,
 * since who acts has seen: a decision that waits to be activated is, before its reward. `$exposure` is that alone.
 *
 * Every event is an operation of its tenant's queue, which keeps their order; the last of the writers answers. An event
 * that fails is told in its place, and the others are done.
 */
#include "api/api.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct tracked {
    struct track *track;
    struct ld_tenant *tenant; /* held; NULL: there is none, and `text` says so */
    char *text;               /* its part of the answer */
    size_t n;
};

/* `left` counts operations on their way, and the handler: who takes the last one answers, and frees. */
struct track {
    struct ld_call *call;
    atomic_size_t left;
    size_t n;
    struct tracked event[];
};

static void fail(struct tracked *e, const struct ld_problem *p)
{
    const bool is_absent = p->status == 404 && p->type == LD_NO_TENANT;
    e->text = ld_encode_flag_failure(NULL, is_absent ? "FLAG_NOT_FOUND" : "GENERAL", p->detail, NULL, &e->n);
}

static void answer(struct track *k)
{
    struct ld_call *c = k->call;
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{\"results\":[");
    for (size_t i = 0; i < k->n; i++) {
        ld_text_item(&t);
        if (k->event[i].text != NULL)
            ld_text_raw(&t, k->event[i].text, k->event[i].n);
        else
            t.is_failed = true;
        free(k->event[i].text);
    }
    ld_text_lit(&t, "]}");
    free(k);
    struct ld_reply reply = {.status = 200};
    reply.text = ld_text_take(&t, &reply.n);
    ld_reply(c->request, &reply);
}

static void let_go(struct track *k)
{
    if (atomic_fetch_sub(&k->left, 1) == 1)
        answer(k);
}

/* In the writer's thread. */
static void told(struct ld_op *op)
{
    struct tracked *e = op->arg;
    struct track *k = e->track;
    if (op->problem->status != 0) {
        fail(e, op->problem);
    } else {
        e->text = op->reply;
        e->n = op->n_reply;
        op->reply = NULL;
    }
    ld_op_free(op);
    let_go(k);
}

/* In memory of the op's own: the events' goes with the handler. NULL stays NULL; false: no memory. */
static bool take_text(struct ld_op *op, const char **text)
{
    char *copy = *text != NULL ? ld_doc_alloc(op->doc, strlen(*text) + 1, 1) : NULL;
    if (*text != NULL && copy == NULL)
        return false;
    *text = copy != NULL ? strcpy(copy, *text) : NULL;
    return true;
}

/* NULL: no memory. */
static struct ld_op *new_op(const struct ld_track_event *event)
{
    struct ld_op *op = ld_op_new(event->is_exposure ? LD_OP_ACTIVATE : LD_OP_REWARDS);
    if (op != NULL && (op->doc = ld_doc_new()) != NULL)
        op->rewards = ld_doc_alloc(op->doc, 1, sizeof *op->rewards);
    if (op == NULL || op->rewards == NULL) {
        ld_op_free(op);
        return NULL;
    }
    struct ld_reward *r = op->rewards;
    *r = event->reward;
    op->n = 1;
    if (!take_text(op, &r->decision) || !take_text(op, &r->user) || !take_text(op, &r->id) ||
        !take_text(op, &r->event)) {
        ld_op_free(op);
        return NULL;
    }
    if (event->is_exposure) {
        op->event.type = KB_EV_ACTIVATED;
        op->event.as.activated.decision = r->decision;
        op->rewards = r->decision == NULL ? r : NULL;
    }
    return op;
}

static void send(struct tracked *e, const struct ld_track_event *event)
{
    struct ld_op *op = new_op(event);
    if (op == NULL) {
        struct ld_problem p;
        ld_problem_init(&p);
        ld_problem_set(&p, 503, "out of memory");
        fail(e, &p);
        return;
    }
    atomic_fetch_add(&e->track->left, 1);
    op->done = told;
    op->arg = e;
    ld_tenant_submit(e->tenant, op);
}

/* Before any of them is done: each tenant is opened, and pays. */
static bool open_event(struct ld_call *c, struct tracked *e, const struct ld_track_event *event, struct ld_problem *p)
{
    const char *flag = event->flag != NULL ? event->flag : c->caller.tenant;
    struct ld_problem why;
    ld_problem_init(&why);
    if (flag[0] == '\0')
        ld_problem_set(&why, 400, "the event names no flag: expected the tenant's name in attributes.flag");
    else if (!ld_caller_spans(&c->caller, flag))
        ld_problem_no_tenant(&why, flag);
    else
        e->tenant = ld_tenants_get(c->server->tenants, flag, &why);
    if (e->tenant == NULL) {
        fail(e, &why);
        return true;
    }
    c->tenant = e->tenant;
    const bool is_paid = ld_charge_events(c, 1, p);
    c->tenant = NULL;
    return is_paid;
}

static bool read_events(struct ld_call *c, struct ld_doc **doc, struct ld_track_event **events, size_t *n,
                        struct ld_problem *p)
{
    c->flag_code = "PARSE_ERROR";
    if (ld_call_parse(c, doc, p) != 0)
        return false;
    ld_doc_bound(*doc, c->server->limits.magnitude);
    c->flag_code = "GENERAL";
    return ld_decode_track(*doc, events, n, p) == 0;
}

/* POST /ofrep/v1/track. */
bool api_track(struct ld_call *c, struct ld_reply *out)
{
    struct ld_doc *doc = NULL;
    struct ld_track_event *events;
    size_t n = 0;
    struct track *k = NULL;
    struct ld_tenant **held = NULL;
    bool is_open = read_events(c, &doc, &events, &n, out->problem);
    if (is_open) {
        k = calloc(1, sizeof *k + n * sizeof *k->event);
        held = calloc(n, sizeof *held);
        is_open = k != NULL && held != NULL;
    }
    for (size_t i = 0; is_open && i < n; i++) {
        k->event[i].track = k;
        is_open = open_event(c, &k->event[i], &events[i], out->problem);
        held[i] = k->event[i].tenant;
        k->n = i + 1;
    }
    if (is_open) {
        k->call = c;
        atomic_init(&k->left, 1);
        for (size_t i = 0; i < n; i++)
            if (k->event[i].tenant != NULL)
                send(&k->event[i], &events[i]);
        let_go(k);
    } else {
        for (size_t i = 0; k != NULL && i < k->n; i++)
            free(k->event[i].text);
        free(k);
    }
    for (size_t i = 0; held != NULL && i < n; i++)
        ld_tenant_release(held[i]);
    free(held);
    ld_doc_free(doc);
    return !is_open;
}
