/* Decisions, computed in the serving thread under the tenant's lock for decisions, beside each other.
 *
 * The scratch of a decision comes from a pool and returns to it, grown to the largest decision it has seen: once warm,
 * a decision calls no allocator but for its own event and answer. The event is a copy in the op's document, since
 * ids and features of the catalogue may change as soon as the lock is let go.
 *
 * Chance: the draw is keyed by a hash of the decision id and the tenant's seed, so it depends on nothing that another
 * request does, and the arm drawn stands in the event.
 *
 * Cost of the lock: one pair of atomic operations, shared by all readers of a tenant. Failure: *p, and the
 * op is the caller's as before; nothing was recorded, so the request may be sent again. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/metrics.h"
#include "tenant/batch.h"
#include "tenant/readers.h"
#include "tenant/tenant_state.h"
#include "base/text.h"
#include "json/json_in.h"
#include "json/json_out.h"

struct kb_scratch *ld_tenant_take_scratch(struct ld_tenant *t)
{
    struct kb_scratch *s = NULL;

    pthread_mutex_lock(&t->readers->pool_lock);
    if (t->readers->n_scratches > 0)
        s = t->readers->scratch[--t->readers->n_scratches];
    pthread_mutex_unlock(&t->readers->pool_lock);
    if (s == NULL && kb_engine_scratch_new(&s) != KB_OK)
        return NULL;
    return s;
}

/* Beyond LD_POOL_SCRATCHES it is freed: a burst of readers should not be paid for ever. NULL is fine. */
void ld_tenant_give_scratch(struct ld_tenant *t, struct kb_scratch *s)
{
    bool is_kept;

    pthread_mutex_lock(&t->readers->pool_lock);
    is_kept = s != NULL && t->readers->n_scratches < LD_POOL_SCRATCHES;
    if (is_kept)
        t->readers->scratch[t->readers->n_scratches++] = s;
    pthread_mutex_unlock(&t->readers->pool_lock);
    if (!is_kept)
        kb_engine_scratch_free(s);
}

/* Copies n bytes into the document. NULL: no memory. */
static void *copy(struct ld_doc *doc, const void *from, size_t n)
{
    void *to = ld_doc_alloc(doc, n, 1);

    return to != NULL ? memcpy(to, from, n) : NULL;
}

/* Candidate i of the decision as a slot whose id and features are the document's. False: no memory. In a tenant whose
 * arms have features, a slot without any cannot be: the engine has refused it. */
static bool copy_slot(struct ld_doc *doc, const struct kb_decision *d, size_t i, uint32_t arm_dim,
                      struct kb_ev_slot *out)
{
    out->arm = copy(doc, d->arm[i], strlen(d->arm[i]) + 1);
    out->features = NULL;
    if (arm_dim > 0 && d->features[i] != NULL)
        out->features = copy(doc, d->features[i], arm_dim * sizeof(double));
    return out->arm != NULL && (arm_dim == 0 || out->features != NULL);
}

/* The candidates, where they are not simply the active catalogue; features where the request has them. Those of the
 * decision stand in the request's order, without the ones that were left out. */
static enum kb_err copy_among(struct ld_tenant *t, const struct kb_query *q, const struct kb_decision *d,
                              struct ld_op *op)
{
    if (q->n_candidates == 0 && d->n == kb_engine_active_arms(t->engine))
        return KB_OK;
    struct kb_ev_slot *among = ld_doc_alloc(op->doc, d->n, sizeof *among);
    for (size_t i = 0, j = 0; among != NULL && i < d->n; i++) {
        among[i].arm = copy(op->doc, d->arm[i], strlen(d->arm[i]) + 1);
        if (among[i].arm == NULL)
            return KB_ENOMEM;
        while (j < q->n_candidates && strcmp(q->candidates[j].arm, d->arm[i]) != 0)
            j++;
        among[i].features = j < q->n_candidates ? q->candidates[j].features : NULL;
    }
    op->event.as.decided.among = among;
    op->event.as.decided.n_among = d->n;
    return among != NULL ? KB_OK : KB_ENOMEM;
}

/* Where the candidates are not kept, how many there were: else a reader takes them for the active catalogue. */
static void count_candidates(const struct ld_tenant *t, const struct kb_query *q, const struct kb_decision *d,
                             struct ld_op *op)
{
    op->n_among = (uint32_t)d->n;
    if (!ld_settings_log_candidates(&t->settings) && (q->n_candidates > 0 || d->n != kb_engine_active_arms(t->engine)))
        op->event.as.decided.n_candidates = (uint32_t)d->n;
}

/* What could be drawn, for an experiment or a guardrail. Nothing was drawn for an arm that sticks, or from a tenant
 * that is stopped.
 */
static enum kb_err copy_odds(const struct kb_decision *d, struct ld_op *op)
{
    if (d->route == KB_ROUTE_STICKY || d->route == KB_ROUTE_STOPPED || d->n > KB_MOST_ODDS)
        return KB_OK;
    struct kb_ev_odds *odds = ld_doc_alloc(op->doc, d->n, sizeof *odds);
    size_t n = 0;
    for (size_t i = 0; odds != NULL && i < d->n; i++) {
        if (!(d->propensity[i] > 0))
            continue;
        odds[n].arm = copy(op->doc, d->arm[i], strlen(d->arm[i]) + 1);
        odds[n].propensity = d->propensity[i];
        if (odds[n++].arm == NULL)
            return KB_ENOMEM;
    }
    op->event.as.decided.odds = odds;
    op->event.as.decided.n_odds = n;
    return odds != NULL ? KB_OK : KB_ENOMEM;
}

/* The event of a decision with the arms put before the user: the arm drawn, and of a slate those that follow it.
 * User and context stay borrowed: they are the request's own, in the same document. seq and time are the writer's to
 * give; the window for the reward begins now. */
static enum kb_err build_event(struct ld_tenant *t, const struct ld_select *q, const struct kb_decision *d,
                               const char *decision, int64_t now_ms, struct ld_op *op)
{
    const struct kb_spec *spec = &t->settings.spec;
    size_t n_slots = q->top < d->n ? q->top : d->n;
    struct kb_event *ev = &op->event;
    struct kb_ev_slot *slots;

    n_slots = n_slots < 1 ? 1 : n_slots > KB_MAX_SLOTS ? KB_MAX_SLOTS : n_slots;
    slots = ld_doc_alloc(op->doc, n_slots, sizeof *slots);
    *ev = (struct kb_event){.type = KB_EV_DECIDED};
    ev->as.decided.decision = copy(op->doc, decision, strlen(decision) + 1);
    if (slots == NULL || ev->as.decided.decision == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < n_slots; i++)
        if (!copy_slot(op->doc, d, d->order[i], spec->arm_dim, &slots[i]))
            return KB_ENOMEM;
    ev->as.decided.user = q->query.user;
    ev->as.decided.context = q->query.context;
    ev->as.decided.slots = slots;
    ev->as.decided.n_slots = n_slots;
    ev->as.decided.propensity = d->propensity[d->chosen];
    ev->as.decided.mean = d->mean[d->chosen];
    ev->as.decided.route = d->route;
    ev->as.decided.assigned_until_ms = d->assigned_until_ms;
    ev->as.decided.expires_at_ms = now_ms + spec->reward_window_ms;
    ev->as.decided.is_deferred = q->is_deferred;
    ev->as.decided.level = d->level;
    ev->as.decided.has_match = d->has_match;
    ev->as.decided.match = d->match;
    op->arms_epoch = t->arms_epoch;
    op->version = kb_engine_version(t->engine);
    if (ld_settings_log_odds(&t->settings) && copy_odds(d, op) != KB_OK)
        return KB_ENOMEM;
    return ld_settings_log_candidates(&t->settings) ? copy_among(t, &q->query, d, op) : KB_OK;
}

/* Slots on their way into event and answer. */
struct filling {
    struct ld_tenant *t;
    const struct ld_select *q;
    const char *decision;
    int64_t now_ms;
    struct ld_op *op;
    struct ld_text text;
    struct kb_ev_slot *slots;
    struct kb_ev_draw *draws;
};

/* NULL: it is that of the first, or none. */
static const double *other_context(const struct filling *f, size_t i)
{
    const double *own = f->q->slots[i].context != NULL ? f->q->slots[i].context : f->q->query.context;
    const double *first = f->op->event.as.decided.context;
    const size_t bytes = f->t->settings.spec.context_dim * sizeof *own;

    return i == 0 || bytes == 0 || memcmp(own, first, bytes) == 0 ? NULL : own;
}

/* The event begins as that of a decision for slot 0. */
static enum kb_err record_slot(struct filling *f, size_t i, const struct kb_decision *d)
{
    struct kb_event *ev = &f->op->event;

    if (i == 0) {
        struct ld_select first = *f->q;
        if (first.slots[0].context != NULL)
            first.query.context = first.slots[0].context;
        const enum kb_err rc = build_event(f->t, &first, d, f->decision, f->now_ms, f->op);
        if (rc != KB_OK)
            return rc;
        f->slots[0] = ev->as.decided.slots[0];
        ev->as.decided.slots = f->slots;
        ev->as.decided.draws = f->draws;
    } else if (!copy_slot(f->op->doc, d, d->chosen, f->t->settings.spec.arm_dim, &f->slots[i])) {
        return KB_ENOMEM;
    }
    ev->as.decided.n_slots = i + 1;
    f->draws[i] = (struct kb_ev_draw){.id = f->q->slots[i].id,
                                      .context = other_context(f, i),
                                      .propensity = d->propensity[d->chosen],
                                      .mean = d->mean[d->chosen],
                                      .level = d->level,
                                      .n_candidates = (uint32_t)d->n};
    return KB_OK;
}

static enum kb_err fill_slot(void *arg, size_t i, const struct kb_decision *d)
{
    struct filling *f = arg;

    ld_put_slot(&f->text, f->decision, f->q->slots[i].id, i, d, f->q->is_explained ? d->n : 1);
    if (i + 1 == f->q->n_slots)
        ld_put_slots_end(&f->text, d);
    return f->q->is_dry_run ? KB_OK : record_slot(f, i, d);
}

/* Under the read lock, as decide. */
static enum kb_err decide_slots(struct ld_tenant *t, const struct ld_select *q, const struct kb_query *query,
                                const char *decision, struct ld_op *op, struct kb_scratch *scratch,
                                struct kb_errmsg *msg)
{
    const size_t n = q->n_slots;
    struct filling f = {.t = t,
                        .q = q,
                        .decision = decision,
                        .now_ms = query->now_ms,
                        .op = op,
                        .slots = ld_doc_alloc(op->doc, n, sizeof *f.slots),
                        .draws = ld_doc_alloc(op->doc, n, sizeof *f.draws)};
    enum kb_err rc = f.slots != NULL && f.draws != NULL ? KB_OK : KB_ENOMEM;

    ld_text_init(&f.text);
    KB_TRY(rc);
    KB_TRY(kb_engine_fit_slots(t->engine, scratch, query, q->slots, n));
    KB_TRY(kb_engine_decide_slots(t->engine, query, q->slots, n, scratch, fill_slot, &f, msg));
    op->answer = ld_text_take(&f.text, &op->n_answer);
    rc = op->answer != NULL ? KB_OK : KB_ENOMEM;
    if (rc != KB_OK || !q->is_dry_run)
        return rc;
    ld_op_reply_text(op, op->answer, op->n_answer);
    op->answer = NULL;
    return KB_OK;
out:
    ld_text_close(&f.text);
    return rc;
}

/* A flag of which no arm may be shown has no value, and nothing is decided: whoever asks takes their own default. */
static enum kb_err answer_no_arm(struct ld_tenant *t, const struct ld_select *q, struct ld_op *op)
{
    size_t n;
    char *text = ld_encode_flag_default(q->flag, kb_engine_has_targets(t->engine) ? "TARGETING_MATCH" : "DISABLED", &n);

    if (text == NULL)
        return KB_ENOMEM;
    op->n_tagged = n;
    op->is_settled = true;
    ld_op_reply_text(op, text, n);
    return KB_OK;
}

/* The answer's text, with who taught the model what it expects of the arm, where that was asked for and the model was.
 */
static enum kb_err answer(struct ld_tenant *t, const struct ld_select *q, const struct kb_query *query,
                          const char *decision, const struct kb_decision *d, struct kb_scratch *scratch,
                          struct ld_op *op)
{
    const size_t n_shown = q->is_explained ? d->n : q->top;
    struct ld_taught taught = {.engine = t->engine, .arm = d->arm[d->chosen]};
    const bool is_taught = q->n_neighbours > 0 && !d->is_unasked;
    enum kb_err rc = KB_OK;

    if (is_taught)
        rc = kb_teachers_find(t->engine, query, d, d->chosen, (size_t)q->n_neighbours, scratch, &taught.by);
    if (rc == KB_OK)
        op->answer = ld_encode_select(decision, d, n_shown, is_taught ? &taught : NULL, &op->n_answer);
    return rc != KB_OK || op->answer != NULL ? rc : KB_ENOMEM;
}

/* Under the read lock: decide, and put event and answer (of a dry run: the reply) into op. The answer is made before
 * the event is durable and shown after (unless durability is relaxed): the writer drops it when the commit fails. */
static enum kb_err decide(struct ld_tenant *t, const struct ld_select *q, const char *decision, struct ld_op *op,
                          struct kb_scratch *scratch, struct kb_errmsg *msg)
{
    struct kb_query query = q->query;
    struct kb_decision d;
    enum kb_err rc;

    /* The seed makes two tenants with the same ids draw differently, and one tenant the same again. */
    query.key = kb_hash_str(kb_hash_u64(KB_HASH_INIT, t->settings.spec.seed), decision);
    query.n_shown = q->is_explained ? 0 : q->top;
    query.now_ms = t->world->now_ms();
    if (q->n_slots > 0)
        return decide_slots(t, q, &query, decision, op, scratch, msg);
    KB_TRY(kb_engine_fit_scratch(t->engine, scratch, query.n_candidates, query.n_exclude));
    rc = kb_engine_decide(t->engine, &query, scratch, &d, msg);
    if (rc == KB_EINVAL && q->flag != NULL)
        return answer_no_arm(t, q, op);
    KB_TRY(rc);
    op->is_settled = d.route == KB_ROUTE_STICKY || d.propensity[d.chosen] >= 1;
    if (q->flag != NULL)
        op->answer = ld_encode_flag(t->engine, q->flag, decision, &d, &op->n_tagged, &op->n_answer);
    else
        KB_TRY(answer(t, q, &query, decision, &d, scratch, op));
    if (op->answer == NULL)
        return KB_ENOMEM;
    if (!q->is_dry_run) {
        rc = build_event(t, q, &d, decision, query.now_ms, op);
        count_candidates(t, &query, &d, op);
        return rc;
    }
    ld_op_reply_text(op, op->answer, op->n_answer);
    op->answer = NULL;
out:
    return rc;
}

/* With a shared log others may change what the decision rests on before it is written: its request is kept. False: no
 * memory. */
static bool keep_request(const struct ld_tenant *t, const struct ld_select *select, struct ld_op *op)
{
    if (t->world->shared == NULL || select->is_dry_run || op->again != NULL)
        return true;
    struct ld_select *again = ld_doc_alloc(op->doc, 1, sizeof *again);
    if (again == NULL)
        return false;
    *again = *select;
    if (select->flag != NULL && (again->flag = copy(op->doc, select->flag, strlen(select->flag) + 1)) == NULL)
        return false;
    op->again = again;
    return true;
}

/* The arm may have gone, or be stopped, and the rules be others; and who is to keep the arm that was drawn may have got
 * another by now. */
bool ld_tenant_is_stale(const struct ld_tenant *t, const struct ld_op *op)
{
    return op->arms_epoch != t->arms_epoch || op->version != kb_engine_version(t->engine) ||
           (op->event.as.decided.assigned_until_ms > 0 && op->seen_seq != t->seq);
}

/* The decision keeps its id, and so its draw. */
int ld_tenant_select_again(struct ld_tenant *t, struct ld_op *op, struct ld_problem *p)
{
    free(op->answer);
    op->answer = NULL;
    ld_count(&t->world->metrics->shared.decided_anew, 1);
    return ld_tenant_select(t, op->again, op->event.as.decided.decision, op, p);
}

/* Cost: that of kb_engine_decide, plus the JSON of the answer. The lock is held for both, because the answer names arms
 * by pointers into the engine; nothing else is done under it. */
int ld_tenant_select(struct ld_tenant *t, const struct ld_select *select, const char *decision, struct ld_op *op,
                     struct ld_problem *p)
{
    struct kb_scratch *scratch = ld_tenant_take_scratch(t);
    struct kb_errmsg msg = {.text = ""};
    enum kb_err rc = KB_ENOMEM;
    bool is_current = true;

    op->is_named = select->decision != NULL;
    op->seen_seq = ld_tenant_tip(t); /* or what is applied meanwhile */
    if (scratch != NULL && keep_request(t, select, op)) {
        pthread_rwlock_rdlock(&t->readers->deciding);
        is_current = op->dims_epoch == t->dims_epoch;
        if (is_current)
            rc = decide(t, select, decision, op, scratch, &msg);
        pthread_rwlock_unlock(&t->readers->deciding);
    }
    ld_tenant_give_scratch(t, scratch);
    if (!is_current)
        ld_problem_set(p, 409, "the configuration has changed since the request came: try again");
    else if (rc != KB_OK)
        ld_problem_from_core(p, rc, msg.text[0] != '\0' ? &msg : NULL);
    return p->status == 0 ? 0 : -1;
}
