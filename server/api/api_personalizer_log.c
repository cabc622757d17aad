/* The model and the log in the words of Azure Personalizer: beginning anew, deleting, and from when to when there is
 * something (docs/PERSONALIZER.md). */
#include "api/api.h"

#include <string.h>

#include "base/text.h"
#include "base/time_text.h"
#include "store/store.h"
#include "task/tasks.h"

/* In the connection's thread. A log that is shorter than its summary stays as it is. Servers that have not read the
 * summary yet are named, as a compaction names them. */
static void reply_deleted(void *arg)
{
    struct ld_op *op = arg;
    const bool is_kept = op->reply != NULL && strstr(op->reply, "\"compacted\":false") != NULL;
    const struct ld_header word = {"Laplaced-Log", is_kept ? "kept" : "compacted"};
    if (op->problem->status != 0) {
        ld_reply_problem(op->arg, op->problem);
    } else if (op->reply_status == 202) {
        ld_reply(op->arg, &(struct ld_reply){.status = 202, .text = op->reply, .n = op->n_reply});
        op->reply = NULL; /* the reply has taken it */
    } else {
        ld_reply(op->arg, &(struct ld_reply){.status = 204, .headers = &word, .n_headers = 1});
    }
    ld_op_free(op);
}

static void deleted(struct ld_op *op)
{
    ld_request_reply_by(op->arg, reply_deleted, op);
}

/* DELETE /personalizer/{v}/model: as DELETE /tenants/{t}/model. */
bool api_rank_model_delete(struct ld_call *c, struct ld_reply *out)
{
    struct ld_op *op = ld_call_op(c, LD_OP_EVENT, out->problem);
    if (op == NULL)
        return true;
    op->event.type = KB_EV_FORGOTTEN;
    return ld_call_submit_by(c, op, ld_rank_done);
}

/* DELETE /personalizer/{v}/logs: as a compaction that keeps no event; what was learned stays. */
bool api_rank_logs_delete(struct ld_call *c, struct ld_reply *out)
{
    struct ld_op *op = ld_charge_fold(c, out->problem) ? ld_call_op(c, LD_OP_TASK, out->problem) : NULL;
    if (op == NULL)
        return true;
    op->task = &ld_compaction;
    op->keep_events = 0;
    return ld_call_submit_by(c, op, deleted);
}

/* Of one line. */
static int take_time(void *at_ms, const struct ld_row *row)
{
    *(int64_t *)at_ms = row->at_ms;
    return LD_STORE_OK;
}

bool ld_rank_find_span(struct ld_tenant *t, unsigned types, int64_t span[2])
{
    for (int i = 0; i < 2; i++) {
        const struct ld_page page = {.types = types, .is_backwards = i == 1, .limit = 1};
        span[i] = INT64_MIN;
        if (ld_store_page(ld_tenant_store(t), &page, take_time, &span[i]) < 0)
            return false;
    }
    return true;
}

static bool reply_span(const int64_t span[2], const char *object, const char *const names[2], struct ld_reply *out)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    if (object != NULL) {
        ld_text_key(&t, object);
        ld_text_lit(&t, "{");
    }
    for (int i = 0; i < 2; i++) {
        char at[32];
        ld_format_time(span[i], at);
        ld_text_put_string(&t, names[i], at);
    }
    ld_text_lit(&t, object != NULL ? "}}" : "}");
    out->text = ld_text_take(&t, &out->n);
    if (out->text == NULL)
        ld_problem_set(out->problem, 503, "out of memory");
    return true;
}

/* GET /personalizer/{v}/model/properties: of the log's first and last line. */
bool api_rank_model_properties(struct ld_call *c, struct ld_reply *out)
{
    static const char *const names[2] = {"creationTime", "lastModifiedTime"};
    int64_t span[2];
    if (ld_rank_find_span(c->tenant, 0, span))
        return reply_span(span, NULL, names, out);
    ld_problem_set(out->problem, 503, "the tenant's file cannot be read now");
    return true;
}

/* GET /personalizer/{v}/logs/properties: of the traffic that the log still has. */
bool api_rank_logs_properties(struct ld_call *c, struct ld_reply *out)
{
    static const char *const names[2] = {"from", "to"};
    const unsigned types = 1u << KB_EV_DECIDED | 1u << KB_EV_REWARDED | 1u << KB_EV_OBSERVED | 1u << KB_EV_EXPIRED |
                           1u << KB_EV_ACTIVATED | 1u << KB_EV_LATE | 1u << KB_EV_MEASURED;
    int64_t span[2];
    if (!ld_rank_find_span(c->tenant, types, span)) {
        ld_problem_set(out->problem, 503, "the tenant's file cannot be read now");
        return true;
    }
    if (span[0] != INT64_MIN)
        return reply_span(span, "dateRange", names, out);
    c->flag_code = "LogsPropertiesNotFound";
    ld_problem_set(out->problem, 404, "the log has no decisions and no rewards");
    return true;
}
