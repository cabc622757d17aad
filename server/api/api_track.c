/* Tracking events of OpenFeature's clients: what a user did, as the reward of the decision that showed them a flag.
 *
 * The protocol has no such request yet; its form is that of a client's call, track(name, context, details). An event
 * names its decision in its attributes, and its flag where the key is good for several. It counts as the decision's
 * exposure, since who buys has seen: a decision that waits to be activated is, before its reward. `$exposure` is that
 * alone.
 *
 * Every event is one or two operations of its tenant's queue, which keeps their order; the last of the writers answers.
 * An event that fails is told in its place, and the others are done. */
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

/* In the writer's thread: of the operation that the event is answered by. */
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

/* Of an activation on the way to a reward, which says it all. */
static void done(struct ld_op *op)
{
    struct track *k = ((struct tracked *)op->arg)->track;
    ld_op_free(op);
    let_go(k);
}

/* With the decision's id in memory of its own. NULL: no memory. */
static struct ld_op *new_op(enum ld_op_type type, const char *decision, double reward)
{
    struct ld_op *op = ld_op_new(type);
    char *id = NULL;
    if (op != NULL && (op->doc = ld_doc_new()) != NULL)
        id = ld_doc_alloc(op->doc, strlen(decision) + 1, 1);
    op = id != NULL ? op : (ld_op_free(op), NULL);
    if (op == NULL)
        return NULL;
    strcpy(id, decision);
    if (type == LD_OP_ACTIVATE) {
        op->event.type = KB_EV_ACTIVATED;
        op->event.as.activated.decision = id;
        return op;
    }
    op->rewards = ld_doc_alloc(op->doc, 1, sizeof *op->rewards);
    if (op->rewards == NULL) {
        ld_op_free(op);
        return NULL;
    }
    op->rewards[0] = (struct ld_reward){.decision = id, .reward = reward};
    op->n = 1;
    return op;
}

static void submit(struct tracked *e, struct ld_op *op, void (*then)(struct ld_op *op))
{
    atomic_fetch_add(&e->track->left, 1);
    op->done = then;
    op->arg = e;
    ld_tenant_submit(e->tenant, op);
}

static void send(struct tracked *e, const struct ld_track_event *event)
{
    struct ld_op *activation = new_op(LD_OP_ACTIVATE, event->decision, 0);
    struct ld_op *reward = event->is_exposure ? NULL : new_op(LD_OP_REWARDS, event->decision, event->value);
    if (activation == NULL || (reward == NULL && !event->is_exposure)) {
        struct ld_problem p;
        ld_problem_init(&p);
        ld_problem_set(&p, 503, "out of memory");
        fail(e, &p);
        ld_op_free(activation);
        ld_op_free(reward);
        return;
    }
    submit(e, activation, event->is_exposure ? told : done);
    if (reward != NULL)
        submit(e, reward, told);
}

/* Before any of them is done: each tenant is opened, and pays. */
static bool open_event(struct ld_call *c, struct tracked *e, const struct ld_track_event *event, struct ld_problem *p)
{
    const char *flag = event->flag != NULL ? event->flag : c->caller.tenant;
    struct ld_problem why;
    ld_problem_init(&why);
    if (flag[0] == '\0')
        ld_problem_set(&why, 400, "the event names no flag: expected the tenant's name in attributes.flag");
    else if (!ld_access_spans(c, flag))
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
