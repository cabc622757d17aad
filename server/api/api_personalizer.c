/* Azure Personalizer's Rank, Reward and Activate, for code that called that service (docs/PERSONALIZER.md).
 *
 * Rank is a decision as of /select: its body is written anew as one, and its answer again in Rank's form, so that an
 * event that is ranked twice has the same answer. Reward and Activate are the operations of /reward and /activate. What
 * their callers do not expect as a failure (a reward that is late, of an event that nobody knows, a second one) is 204
 * there; `Laplaced-Reward` says what came of it. */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "base/secret.h"
#include "json/json_personalizer.h"
#include "types/views.h"

/* Ids of decisions are shorter than those of events may be. */
#define MOST_DECISION_BYTES 128u
#define DECISION_BYTES (MOST_DECISION_BYTES + 1)

/* The id itself; of one that is longer the name of its hash, which is the same for every call. */
static void decision_of(const char *event, char out[DECISION_BYTES])
{
    unsigned char hash[LD_KEY_HASH_BYTES];
    if (strlen(event) <= MOST_DECISION_BYTES) {
        strcpy(out, event);
        return;
    }
    ld_secret_hash(event, hash);
    int n = snprintf(out, DECISION_BYTES, "event-");
    for (size_t i = 0; i < sizeof hash; i++)
        n += snprintf(out + n, DECISION_BYTES - (size_t)n, "%02x", hash[i]);
}

/* --- Rank ---------------------------------------------------------------------------------------------------- */

/* In the memory of the body's document, which it keeps until the answer. */
struct ranking {
    struct ld_request *request;
    struct ld_doc *doc;
    struct ld_rank rank;
    bool has_features, is_to_explain;
};

static const struct ld_header ignored = {"Laplaced-Ignored", "contextFeatures, actions.features"},
                              ignored_of_slots = {"Laplaced-Ignored",
                                                  "contextFeatures, actions.features, slots.features"},
                              unexplained = {"Laplaced-Ignored", "isInferenceExplainabilityEnabled"};

/* With the document that it lives in. */
static void free_ranking(const struct ranking *k)
{
    struct ld_doc *doc = k->doc;
    ld_doc_free(k->rank.explanation);
    ld_doc_free(doc);
}

/* In the connection's thread. */
static void reply_rank(void *arg)
{
    struct ld_op *op = arg;
    const struct ranking *k = op->arg;
    const bool has_slots = k->rank.n_slots > 0;
    bool is_explained = false;
    struct ld_reply reply = {
        .status = 201, .headers = has_slots ? &ignored_of_slots : &ignored, .n_headers = k->has_features ? 0 : 1};
    struct ld_problem p = *op->problem;
    if (p.status == 0)
        reply.text = ld_encode_ranking(&k->rank, op->reply, op->n_reply, &reply.n, &is_explained, &p);
    if (k->is_to_explain && !is_explained) {
        reply.headers = &unexplained;
        reply.n_headers = 1;
    }
    if (reply.text == NULL)
        ld_reply_problem(k->request, &p);
    else
        ld_reply(k->request, &reply);
    free_ranking(k);
    ld_op_free(op);
}

static void rank_done(struct ld_op *op)
{
    ld_request_reply_by(((const struct ranking *)op->arg)->request, reply_rank, op);
}

/* An op with /select's body as its document. NULL with *p. */
static struct ld_op *new_decision(struct ld_call *c, struct ranking *k, struct ld_problem *p)
{
    char decision[DECISION_BYTES];
    size_t n = 0;
    if (k->rank.event != NULL)
        decision_of(k->rank.event, decision);
    char *text = ld_encode_rank_select(k->doc, &k->rank, k->rank.event != NULL ? decision : NULL, k->has_features, &n);
    struct ld_op *op = ld_call_op_of(c, LD_OP_EVENT, text, n, p);
    if (op == NULL)
        return NULL;
    ld_request_body(c->request, &op->bytes);
    op->done = rank_done;
    op->arg = k;
    return op;
}

/* Of the body in doc. NULL with *p. */
static struct ranking *read_rank(struct ld_call *c, bool has_slots, struct ld_doc *doc, struct ld_problem *p)
{
    uint32_t context_dim, arm_dim;
    struct ranking *k = ld_doc_alloc(doc, 1, sizeof *k);
    if (k == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return NULL;
    }
    *k = (struct ranking){.request = c->request, .doc = doc};
    (void)ld_tenant_dims(c->tenant, doc, &context_dim, &arm_dim);
    k->has_features = context_dim > 0 || arm_dim > 0;
    k->is_to_explain = k->has_features && !has_slots && ld_request_is_kept(c->request) && ld_tenant_explains(c->tenant);
    return ld_decode_rank(doc, has_slots, &k->rank, p) == 0 ? k : NULL;
}

/* What cannot be explained, of too many features or for the tenant's rate, is decided all the same: a decision that is
 * thrown away was paid for. 0, or -1 with *p: nothing was recorded. */
static int explain(struct ld_call *c, struct ranking *k, const struct ld_op *op, struct ld_problem *p)
{
    struct ld_doc *doc = NULL;
    size_t n = 0;
    char *text = ld_encode_rank_question(k->doc, &k->rank, op->answer, op->n_answer, &n);
    char *answer = text != NULL && ld_doc_parse(&doc, text, n, false, p) == 0 ? ld_call_ask(c, doc, &n, p) : NULL;
    if (answer != NULL)
        (void)ld_decode_rank_explanation(&k->rank, answer, n, p);
    else if (p->status == 0)
        ld_problem_set(p, 503, "out of memory");
    free(answer);
    ld_doc_free(doc);
    free(text);
    if (p->status == 400 || p->status == 429)
        ld_problem_init(p);
    return p->status == 0 ? 0 : -1;
}

static int decide_and_explain(struct ld_call *c, struct ranking *k, struct ld_op *op, struct ld_problem *p)
{
    struct ld_select select = {.decision = NULL};
    const int rc = ld_call_decide(c, op, &select, p);
    return rc == 0 && k->is_to_explain && op->answer != NULL ? explain(c, k, op, p) : rc;
}

/* Explaining maps the whole body once for each feature, however small the model is: not in a serving thread. */
static bool is_beside(const struct ld_call *c, bool has_slots)
{
    return !has_slots && ld_tenant_explains(c->tenant) && !ld_request_is_kept(c->request);
}

static bool decide(struct ld_call *c, bool has_slots, struct ld_reply *out)
{
    if (is_beside(c, has_slots)) {
        ld_call_beside(c);
        return false;
    }
    struct ld_problem *p = out->problem;
    struct ld_doc *doc = NULL;
    struct ranking *k = ld_call_parse(c, &doc, p) == 0 ? read_rank(c, has_slots, doc, p) : NULL;
    struct ld_op *op = k != NULL ? new_decision(c, k, p) : NULL;
    const int rc = op != NULL ? decide_and_explain(c, k, op, p) : -1;
    if (rc == 0) {
        ld_call_submit(c, c->tenant, op);
        return false;
    }
    ld_op_free(op);
    if (k != NULL)
        free_ranking(k);
    else
        ld_doc_free(doc);
    if (rc > 0)
        ld_call_beside(c);
    return rc < 0;
}

/* POST /personalizer/{v}/rank. */
bool api_rank(struct ld_call *c, struct ld_reply *out)
{
    return decide(c, false, out);
}

/* POST /personalizer/{v}/multislot/rank. */
bool api_rank_slots(struct ld_call *c, struct ld_reply *out)
{
    return decide(c, true, out);
}

/* --- Reward, Activate ------------------------------------------------------------------------------------------ */

/* The decision of the event in the path, in the op's memory. NULL with *p. */
static const char *decision_in(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    char event[LD_PATH_REST_BYTES];
    char *decision =
        op->doc != NULL || (op->doc = ld_doc_new()) != NULL ? ld_doc_alloc(op->doc, DECISION_BYTES, 1) : NULL;
    ld_call_rest(c, event);
    if (decision == NULL)
        ld_problem_set(p, 503, "out of memory");
    else if (strlen(event) > LD_EVENT_BYTES)
        ld_problem_set(p, 400, "an event's id has at most %u bytes", LD_EVENT_BYTES);
    else
        decision_of(event, decision);
    return p->status == 0 ? decision : NULL;
}

/* What the header says of it: NULL of what is a failure there, too. */
static const char *word_of(const struct ld_op *op)
{
    const struct ld_reward_result *result = op->results;
    if (op->problem->status == 0)
        return result != NULL && result->status == LD_DUPLICATE ? "duplicate" : "learned";
    switch (op->problem->status) {
    case 404:
        return op->problem->type == LD_NO_DECISION ? "unknown" : NULL;
    case 409:
        return "ignored";
    case 410:
        return "late";
    default:
        return NULL;
    }
}

static void count_reward(const struct ld_request *r, const char *word)
{
    static const char *const words[LD_N_RANK_REWARDS] = LD_RANK_REWARDS;
    const struct ld_call *c = ld_request_context(r);
    for (size_t i = 0; i < LD_N_RANK_REWARDS; i++)
        if (strcmp(words[i], word) == 0)
            ld_count(&c->server->metrics.rank_rewards[i], 1);
}

/* In the connection's thread. */
static void reply_reward(void *arg)
{
    struct ld_op *op = arg;
    const char *word = word_of(op);
    const struct ld_header header = {"Laplaced-Reward", word};
    if (word != NULL)
        count_reward(op->arg, word);
    if (word == NULL)
        ld_reply_problem(op->arg, op->problem);
    else
        ld_reply(op->arg, &(struct ld_reply){.status = 204, .headers = &header, .n_headers = 1});
    ld_op_free(op);
}

static void reward_done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_reward, op);
}

/* What the header says of the rewards of several slots, in their order; of one that the event does not have, too. */
static const char *word_of_result(const struct ld_reward_result *result)
{
    return result->status == 200            ? "learned"
           : result->status == LD_DUPLICATE ? "duplicate"
           : result->status == 404          ? "unknown"
           : result->status == 409          ? "ignored"
                                            : "late";
}

/* In the connection's thread. */
static void reply_slot_rewards(void *arg)
{
    struct ld_op *op = arg;
    char words[LD_MOST_ACTIONS * 12] = "";
    const struct ld_header header = {"Laplaced-Reward", words};
    bool is_lost = op->problem->status != 0;
    for (size_t i = 0; !is_lost && i < op->n; i++)
        is_lost = op->results[i].status == 503;
    for (size_t i = 0; !is_lost && i < op->n; i++) {
        count_reward(op->arg, word_of_result(&op->results[i]));
        strcat(strcat(words, i > 0 ? ", " : ""), word_of_result(&op->results[i]));
    }
    if (op->problem->status != 0)
        ld_reply_problem(op->arg, op->problem);
    else if (is_lost)
        ld_reply_status(op->arg, 503, "not every reward was recorded: send them again");
    else
        ld_reply(op->arg, &(struct ld_reply){.status = 204, .headers = &header, .n_headers = 1});
    ld_op_free(op);
}

static void slot_rewards_done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_slot_rewards, op);
}

/* An event that is not known is a fault of the request; one whose window has passed is none. */
static void reply_activation(void *arg)
{
    struct ld_op *op = arg;
    const int status = op->problem->status;
    if (status == 404 && op->problem->type == LD_NO_DECISION)
        ld_reply_status(op->arg, 400, "there is no such event to activate");
    else if (status != 0 && status != 410)
        ld_reply_problem(op->arg, op->problem);
    else
        ld_reply(op->arg, &(struct ld_reply){.status = 204});
    ld_op_free(op);
}

static void activation_done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_activation, op);
}

/* POST /personalizer/{v}/events/{i}/reward. */
bool api_rank_reward(struct ld_call *c, struct ld_reply *out)
{
    struct ld_problem *p = out->problem;
    struct ld_op *op = ld_call_op(c, LD_OP_REWARDS, p);
    double value = 0;
    const char *decision = op != NULL && ld_decode_rank_reward(op->doc, &value, p) == 0 ? decision_in(c, op, p) : NULL;
    if (decision != NULL && (op->rewards = ld_doc_alloc(op->doc, 1, sizeof *op->rewards)) == NULL)
        ld_problem_set(p, 503, "out of memory");
    if (p->status == 0 && ld_charge_events(c, 1, p)) {
        op->rewards[0] = (struct ld_reward){.decision = decision, .reward = value};
        op->n = 1;
        return ld_call_submit_by(c, op, reward_done);
    }
    ld_op_free(op);
    return true;
}

/* POST /personalizer/{v}/multislot/events/{i}/reward. */
bool api_rank_slots_reward(struct ld_call *c, struct ld_reply *out)
{
    struct ld_problem *p = out->problem;
    struct ld_op *op = ld_call_op(c, LD_OP_REWARDS, p);
    const char *decision = op != NULL ? decision_in(c, op, p) : NULL;
    if (decision != NULL && ld_decode_slot_rewards(op->doc, decision, &op->rewards, &op->n, p) == 0 &&
        ld_charge_events(c, op->n, p)) {
        op->is_array = true;
        return ld_call_submit_by(c, op, slot_rewards_done);
    }
    ld_op_free(op);
    return true;
}

/* POST /personalizer/{v}/events/{i}/activate, and the same of multislot/events. */
bool api_rank_activate(struct ld_call *c, struct ld_reply *out)
{
    struct ld_problem *p = out->problem;
    struct ld_op *op = ld_op_new(LD_OP_ACTIVATE);
    if (op == NULL)
        ld_problem_set(p, 503, "out of memory");
    const char *decision = op != NULL ? decision_in(c, op, p) : NULL;
    if (decision != NULL && ld_charge_events(c, 0, p)) {
        op->event.type = KB_EV_ACTIVATED;
        op->event.as.activated.decision = decision;
        return ld_call_submit_by(c, op, activation_done);
    }
    ld_op_free(op);
    return true;
}
