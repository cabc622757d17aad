/* A tenant's configuration in the words of Azure Personalizer: the service configuration, and the policy
 * (docs/PERSONALIZER.md). What is put becomes a patch of the tenant's, logged as one. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "json/json_personalizer.h"

/* --- told ----------------------------------------------------------------------------------------------------------
 */

/* Of a text that ld_encode_tenant has made. False: no memory. Freed by its document. */
static bool read_tenant(struct ld_call *c, const char *text, size_t n, struct ld_doc **doc, struct ld_told_tenant *out)
{
    struct ld_problem p;
    ld_problem_init(&p);
    *doc = NULL;
    if (text == NULL || ld_doc_parse(doc, text, n, false, &p) != 0)
        return false;
    *out = (struct ld_told_tenant){.doc = *doc, .edited_ms = c->edited_ms, .has_retrain_days = c->is_of_2022};
    return true;
}

/* From any thread that may wait for the disk, or the writer's. */
static void note_edit(struct ld_call *c)
{
    int64_t span[2];
    c->edited_ms = ld_rank_find_span(c->tenant, 1u << KB_EV_CONFIGURED, span) ? span[1] : INT64_MIN;
}

bool ld_rank_look(struct ld_call *c, struct ld_doc **doc, struct ld_told_tenant *out, struct ld_problem *p)
{
    struct ld_reply shown = {.problem = p};
    note_edit(c);
    (void)api_tenant_get(c, &shown);
    const bool is_read = p->status == 0 && read_tenant(c, shown.text, shown.n, doc, out);
    if (p->status == 0 && !is_read)
        ld_problem_set(p, 503, "out of memory");
    free(shown.text);
    return is_read;
}

static bool tell(struct ld_call *c, char *(*encode)(const struct ld_told_tenant *, size_t *), struct ld_reply *out)
{
    struct ld_told_tenant now;
    struct ld_doc *doc;
    if (!ld_rank_look(c, &doc, &now, out->problem))
        return true;
    out->text = encode(&now, &out->n);
    if (out->text == NULL)
        ld_problem_set(out->problem, 503, "out of memory");
    ld_doc_free(doc);
    return true;
}

/* --- changed -------------------------------------------------------------------------------------------------------
 */

/* In the connection's thread: of what the tenant is now. name_ignored: of the header's text. */
static void reply_by(struct ld_op *op, char *(*encode)(const struct ld_told_tenant *, size_t *),
                     void (*name_ignored)(const struct ld_told_tenant *, char *))
{
    struct ld_call *c = ld_request_context(op->arg);
    char ignored[LD_IGNORED_BYTES] = "";
    const struct ld_header header = {"Laplaced-Ignored", ignored};
    struct ld_reply reply = {.status = 200, .headers = &header};
    struct ld_told_tenant now;
    struct ld_doc *doc = NULL;
    if (op->problem->status == 0 && read_tenant(c, op->reply, op->n_reply, &doc, &now)) {
        reply.text = encode(&now, &reply.n);
        name_ignored(&now, ignored);
        reply.n_headers = ignored[0] != '\0' ? 1 : 0;
    }
    if (op->problem->status != 0)
        ld_reply_problem(op->arg, op->problem);
    else if (reply.text == NULL)
        ld_reply_status(op->arg, 503, "out of memory");
    else
        ld_reply(op->arg, &reply);
    ld_doc_free(doc);
    ld_op_free(op);
}

static void name_idle_members(const struct ld_told_tenant *now, char *out)
{
    (void)now;
    strcpy(out, "modelExportFrequency, modelRetrainDays, autoOptimizationFrequency, autoOptimizationStartDate");
}

static void reply_service(void *op)
{
    reply_by(op, ld_encode_service, name_idle_members);
}

static void reply_policy(void *op)
{
    reply_by(op, ld_encode_policy, ld_policy_ignored);
}

/* In the writer's thread. */
static void service_done(struct ld_op *op)
{
    note_edit(ld_request_context(op->arg));
    ld_request_reply_by(op->arg, reply_service, op);
}

static void policy_done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_policy, op);
}

/* body NULL: what is asked for stands in none; else it is freed. */
static bool change(struct ld_call *c, struct ld_reply *out, struct ld_doc *body,
                   char *(*decode)(struct ld_doc *, const struct ld_told_tenant *, size_t *, const char **,
                                   struct ld_problem *),
                   void (*done)(struct ld_op *op))
{
    struct ld_problem *p = out->problem;
    struct ld_told_tenant now;
    struct ld_doc *doc = NULL;
    char *patch = NULL;
    size_t n = 0;
    if (ld_rank_look(c, &doc, &now, p))
        patch = decode(body, &now, &n, &c->flag_code, p);
    ld_doc_free(body);
    ld_doc_free(doc);
    struct ld_op *op = ld_call_op_of(c, LD_OP_PATCH, patch, n, p);
    if (op != NULL && fill_patch(c, op, p))
        return ld_call_submit_by(c, op, done);
    ld_op_free(op);
    return true;
}

/* In the connection's thread: of what has nothing to say. */
static void reply_nothing(void *arg)
{
    struct ld_op *op = arg;
    if (op->problem->status != 0)
        ld_reply_problem(op->arg, op->problem);
    else
        ld_reply(op->arg, &(struct ld_reply){.status = 204});
    ld_op_free(op);
}

void ld_rank_done(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_nothing, op);
}

bool ld_rank_put_policy(struct ld_call *c, const char *text, size_t n, struct ld_reply *out)
{
    struct ld_doc *body = NULL;
    return ld_doc_parse(&body, text, n, false, out->problem) != 0 ||
           change(c, out, body, ld_decode_policy, ld_rank_done);
}

/* GET and PUT /personalizer/{v}/configurations/service. */
bool api_service_get(struct ld_call *c, struct ld_reply *out)
{
    return tell(c, ld_encode_service, out);
}

bool api_service_put(struct ld_call *c, struct ld_reply *out)
{
    struct ld_doc *body = NULL;
    return ld_call_parse(c, &body, out->problem) != 0 || change(c, out, body, ld_decode_service, service_done);
}

/* GET, PUT and DELETE /personalizer/{v}/configurations/policy. */
bool api_policy_get(struct ld_call *c, struct ld_reply *out)
{
    return tell(c, ld_encode_policy, out);
}

bool api_policy_put(struct ld_call *c, struct ld_reply *out)
{
    struct ld_doc *body = NULL;
    return ld_call_parse(c, &body, out->problem) != 0 || change(c, out, body, ld_decode_policy, policy_done);
}

bool api_policy_delete(struct ld_call *c, struct ld_reply *out)
{
    return change(c, out, NULL, ld_decode_policy, policy_done);
}
