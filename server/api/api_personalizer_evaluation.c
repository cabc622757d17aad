/* Evaluations in the words of Azure Personalizer: those of the tenant (api_evaluation.c), by other bodies and answers.
 */
#include "api/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_personalizer.h"
#include "task/tasks.h"

/* What the tenant's server shows, as that service would. False with *p. */
static bool encode(const struct ld_call *c, const char *text, size_t n, struct ld_reply *out)
{
    struct ld_doc *doc = NULL;
    if (text != NULL && ld_doc_parse(&doc, text, n, false, out->problem) == 0)
        out->text = ld_encode_rank_evaluation(doc, c->is_of_2022, &out->n);
    ld_doc_free(doc);
    if (out->text == NULL && out->problem->status == 0)
        ld_problem_set(out->problem, 503, "out of memory");
    return out->text != NULL;
}

/* GET /personalizer/{v}/evaluations, and /{e}. */
static bool tell(struct ld_call *c, bool (*get)(struct ld_call *, struct ld_reply *), struct ld_reply *out)
{
    struct ld_reply shown = {.problem = out->problem};
    c->flag_code = "EvaluationNotFound";
    (void)get(c, &shown);
    if (out->problem->status == 0)
        (void)encode(c, shown.text, shown.n, out);
    free(shown.text);
    return true;
}

bool api_rank_evaluations_get(struct ld_call *c, struct ld_reply *out)
{
    return tell(c, api_evaluations_get, out);
}

bool api_rank_evaluation_get(struct ld_call *c, struct ld_reply *out)
{
    return tell(c, api_evaluation_get, out);
}

bool fill_rank_no_evaluation(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    c->flag_code = "EvaluationNotFound";
    return fill_no_evaluation(c, op, p);
}

/* --- begun -----------------------------------------------------------------------------------------------------------
 */

/* In the connection's thread. The interface of 2022 names the evaluation itself, and answers 200. */
static void reply_begun(void *arg)
{
    struct ld_op *op = arg;
    struct ld_call *c = ld_request_context(op->arg);
    struct ld_problem p = *op->problem;
    char where[LD_PATH_MAX] = "";
    const struct ld_header location = {"Location", where};
    struct ld_reply reply = {
        .status = c->is_of_2022 ? 200 : 201, .headers = &location, .n_headers = c->is_of_2022 ? 0 : 1, .problem = &p};
    const char *path = ld_request_path(c->request), *id = op->location != NULL ? strrchr(op->location, '/') : NULL;
    if (p.status == 0 && id != NULL)
        (void)snprintf(where, sizeof where, "%.200s%.100s", path, id);
    if (p.status == 409)
        c->flag_code = c->is_of_2022 && p.n_errors > 0 ? "EvaluationAlreadyExists" : "OperationNotAllowed";
    if (p.status == 0 && encode(c, op->reply, op->n_reply, &reply))
        ld_reply(op->arg, &reply);
    else
        ld_reply_problem(op->arg, &p);
    ld_op_free(op);
}

static void begun(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_begun, op);
}

/* POST /personalizer/{v}/evaluations; in the interface of 2022 PUT /personalizer/evaluations/{e}. */
bool api_rank_evaluation_begin(struct ld_call *c, struct ld_reply *out)
{
    char id[LD_PATH_REST_BYTES], *text = NULL;
    struct ld_problem *p = out->problem;
    struct ld_told_tenant now;
    struct ld_doc *body = NULL, *doc = NULL;
    size_t n = 0;
    ld_call_rest(c, id);
    if (ld_call_parse(c, &body, p) == 0 && ld_rank_look(c, &doc, &now, p))
        text = ld_decode_rank_evaluation(body, &now, id[0] != '\0' ? id : NULL, &n, &c->flag_code, p);
    ld_doc_free(body);
    ld_doc_free(doc);
    struct ld_op *op = ld_call_op_of(c, LD_OP_TASK, text, n, p);
    if (op != NULL && fill_evaluation(c, op, p)) {
        op->task = &ld_evaluating;
        return ld_call_submit_by(c, op, begun);
    }
    ld_op_free(op);
    return true;
}

/* --- put in force ----------------------------------------------------------------------------------------------------
 */

/* The policy's body that a reference means, malloc'd. NULL with *p. */
static char *find_policy(struct ld_call *c, size_t *n, struct ld_problem *p)
{
    struct ld_reply shown = {.problem = p};
    struct ld_doc *body = NULL, *told = NULL;
    char id[LD_EVALUATION_ID_BYTES], *name = NULL, *policy = NULL;
    if (ld_call_parse(c, &body, p) == 0)
        name = ld_decode_rank_reference(body, id, p);
    if (name != NULL) {
        c->flag_code = "EvaluationNotFound";
        ld_evaluation_tell(c, id, &shown);
    }
    if (p->status == 0 && ld_doc_parse(&told, shown.text, shown.n, false, p) == 0) {
        policy = ld_encode_evaluated_policy(told, name, n);
        c->flag_code = policy == NULL ? "LearningSettingsNotFound" : NULL;
        if (policy == NULL)
            ld_problem_set(p, 404, "the evaluation has no policy \"%.100s\" that can be put in force", name);
    }
    free(name);
    free(shown.text);
    ld_doc_free(body);
    ld_doc_free(told);
    return policy;
}

/* POST /personalizer/{v}/configurations/applyFromEvaluation: as a PUT of that policy. */
bool api_rank_apply(struct ld_call *c, struct ld_reply *out)
{
    size_t n = 0;
    char *policy = find_policy(c, &n, out->problem);
    const bool is_replied = policy == NULL || ld_rank_put_policy(c, policy, n, out);
    free(policy);
    return is_replied;
}
