/* Evaluations of the tenant's own log: begun and removed by its writer (task/evaluation.c), read from its file. Of
 * several servers that share a log each has those that it was asked for, and its name begins the ids that it makes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/ulid.h"
#include "evaluate/shadow.h"
#include "json/json_evaluation.h"
#include "store/store_evaluations.h"
#include "task/evaluation.h"

/* ---- begun ------------------------------------------------------------------------------------------------------- */

/* Configurations that can learn from another's log. */
static bool can_be_fed(const struct ld_evaluation_request *r, struct ld_problem *p)
{
    for (size_t i = 0; i < r->n; i++) {
        struct kb_errmsg msg = {"", ""}, here = {"", ""};
        const enum kb_err rc =
            r->policy[i].kind == LD_POLICY_CONFIGURATION ? ld_shadow_check(&r->policy[i].settings->spec, &msg) : KB_OK;

        if (rc == KB_OK)
            continue;
        here = msg;
        (void)snprintf(here.pointer, sizeof here.pointer, "/policies/%zu/configuration%.80s", i, msg.pointer);
        ld_problem_from_core(p, (int)rc, &here);
        return false;
    }
    return true;
}

/* Each policy folds the log by itself. */
static bool charge(struct ld_call *c, size_t n, struct ld_problem *p)
{
    struct ld_size size;

    ld_tenant_size(c->tenant, &size);
    return ld_charge(c, (double)n * ld_price_fold(&size), p);
}

static void make_id(const struct ld_server *s, char id[LD_EVALUATION_ID_BYTES])
{
    char ulid[LD_ULID_BYTES];

    ld_ulid(s->world.now_ms(), ulid);
    if (s->world.shared != NULL)
        (void)snprintf(id, LD_EVALUATION_ID_BYTES, "%.*s-%s", (int)(LD_EVALUATION_ID_BYTES - LD_ULID_BYTES - 1),
                       s->world.node, ulid);
    else
        (void)snprintf(id, LD_EVALUATION_ID_BYTES, "%s", ulid);
}

/* POST /tenants/{t}/evaluations: 202 when it is in the file and on its way. */
bool fill_evaluation(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    uint32_t context_dim, arm_dim;

    (void)ld_tenant_dims(c->tenant, NULL, &context_dim, &arm_dim);
    op->evaluation = calloc(1, sizeof *op->evaluation);
    if (op->evaluation == NULL) {
        ld_problem_set(p, 503, "out of memory");
        return false;
    }
    if (ld_decode_evaluation(op->doc, context_dim, arm_dim, op->evaluation, p) != 0 || !can_be_fed(op->evaluation, p) ||
        !charge(c, op->evaluation->n, p))
        return false;
    if (op->evaluation->id[0] == '\0')
        make_id(c->server, op->evaluation->id);
    const size_t n = strlen(c->name) + LD_EVALUATION_ID_BYTES + 32;
    if ((op->location = malloc(n)) != NULL)
        (void)snprintf(op->location, n, "/tenants/%s/evaluations/%s", c->name, op->evaluation->id);
    else
        ld_problem_set(p, 503, "out of memory");
    return op->location != NULL;
}

/* ---- gone -------------------------------------------------------------------------------------------------------- */

/* DELETE /tenants/{t}/evaluations/{e}: ended, or forgotten. */
bool fill_no_evaluation(struct ld_call *c, struct ld_op *op, struct ld_problem *p)
{
    char id[LD_PATH_REST_BYTES];

    (void)p;
    ld_call_rest(c, id);
    (void)snprintf(op->user, sizeof op->user, "%.*s", (int)sizeof op->user - 1, id);
    return true;
}

/* ---- shown ------------------------------------------------------------------------------------------------------- */

struct look {
    struct ld_text t;
    struct ld_evaluation_live live;
    bool is_list;
    size_t n;
};

/* One without an end that is not under way: the process that worked on it has ended. */
static int put(void *arg, const struct ld_evaluation_row *row)
{
    struct look *x = arg;
    const bool is_live = strcmp(row->id, x->live.id) == 0,
               is_done = row->state != NULL && strcmp(row->state, "done") == 0;
    const bool has_failed = row->state != NULL && strcmp(row->state, "failed") == 0;
    const struct ld_evaluation_view v = {.id = row->id,
                                         .by = row->by,
                                         .begun_ms = row->begun_ms,
                                         .ended_ms = row->ended_ms,
                                         .request = row->request,
                                         .state = row->state != NULL     ? row->state
                                                  : !is_live             ? "interrupted"
                                                  : x->live.is_cancelled ? "cancelled"
                                                                         : "running",
                                         .progress = is_done                         ? 1
                                                     : row->state == NULL && is_live ? x->live.progress
                                                                                     : (double)NAN,
                                         .result = is_done ? row->outcome : NULL,
                                         .problem = has_failed ? row->outcome : NULL,
                                         .is_short = x->is_list};

    x->n++;
    if (x->is_list)
        ld_text_item(&x->t);
    ld_text_evaluation(&x->t, &v);
    return 0;
}

/* What the file has and what is under way are of one moment when the latter is the same before and behind. */
static int look(const struct ld_call *c, const char *id, struct look *x)
{
    struct ld_evaluation_live behind;
    int rc;

    ld_evaluation_look(c->tenant, &behind);
    do {
        x->live = behind;
        x->n = 0;
        ld_text_close(&x->t);
        ld_text_init(&x->t);
        ld_text_lit(&x->t, x->is_list ? "{\"evaluations\":[" : "");
        rc = ld_store_each_evaluation(ld_tenant_store(c->tenant), id, put, x);
        ld_evaluation_look(c->tenant, &behind);
    } while (rc == 0 && strcmp(x->live.id, behind.id) != 0);
    ld_text_lit(&x->t, x->is_list ? "]}" : "");
    return rc;
}

/* The reply is the text, but where the file could not be read. */
static void answer(struct look *x, int rc, struct ld_reply *out)
{
    if (rc == 0)
        out->text = ld_text_take(&x->t, &out->n);
    else
        ld_problem_set(out->problem, 503, "the tenant's file cannot be read now");
    ld_text_close(&x->t);
}

bool api_evaluations_get(struct ld_call *c, struct ld_reply *out)
{
    struct look x = {.is_list = true};

    ld_text_init(&x.t);
    answer(&x, look(c, NULL, &x), out);
    return true;
}

bool api_evaluation_get(struct ld_call *c, struct ld_reply *out)
{
    struct look x = {.is_list = false};
    char id[LD_PATH_REST_BYTES];

    ld_call_rest(c, id);
    ld_text_init(&x.t);
    const int rc = look(c, id, &x);
    if (rc == 0 && x.n == 0)
        ld_evaluation_miss(c->server->world.shared != NULL ? c->server->world.node : NULL, id, out->problem);
    if (out->problem->status == 0)
        answer(&x, rc, out);
    ld_text_close(&x.t);
    return true;
}
