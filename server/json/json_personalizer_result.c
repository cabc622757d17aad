/* A tenant's evaluations in the words of Azure Personalizer. What was asked for is read out of the note that
 * json_personalizer_evaluation.c has left; sums are those of the estimator `ips`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_flag_value.h"
#include "json/json_personalizer.h"
#include "json/json_util.h"

static void put_copy(struct ld_text *t, const char *key, const struct ld_value *v)
{
    if (v == NULL)
        return;
    ld_text_key(t, key);
    ld_text_value(t, v);
}

static bool is_estimate(const struct ld_value *ips)
{
    return ld_is(ld_member_of(ips, "estimate"), LD_V_NUMBER);
}

/* The sums over all events. Where the log says too little there is no estimate. */
static void put_summary(struct ld_text *t, const struct ld_value *result, const char *at)
{
    const struct ld_value *ips = ld_member_of(result, "ips"), *weights = ld_member_of(result, "weights");
    const double n = ld_number_of(ld_member_of(result, "n")), mean = ld_number_of(ld_member_of(ips, "estimate"));
    const double error = ld_number_of(ld_member_of(ips, "standard_error")),
                 none = ld_number_of(ld_member_of(ld_member_of(weights, "histogram"), "zero"));
    ld_text_lit(t, "{");
    ld_text_put_string(t, "timeStamp", at);
    ld_text_put_string(t, "aggregateTimeWindow", "");
    ld_text_put_number(t, "ipsEstimatorDenominator", n);
    ld_text_put_number(t, "snipsEstimatorDenominator", n * ld_number_of(ld_member_of(weights, "mean")));
    ld_text_put_number(t, "nonZeroProbability", n - none);
    if (is_estimate(ips)) {
        ld_text_put_number(t, "ipsEstimatorNumerator", n * mean);
        ld_text_put_number(t, "sumOfSquares", n * n * error * error + n * mean * mean);
        ld_text_put_number(t, "averageReward", mean);
        ld_text_put_number(t, "confidenceInterval",
                           (ld_number_of(ld_member_of(ips, "upper")) - ld_number_of(ld_member_of(ips, "lower"))) / 2);
    }
    ld_text_lit(t, "}");
}

/* The same in the words of 2022. */
static void put_expected(struct ld_text *t, const struct ld_value *result)
{
    const struct ld_value *ips = ld_member_of(result, "ips");
    ld_text_lit(t, "{");
    if (is_estimate(ips)) {
        put_copy(t, "expectedReward", ld_member_of(ips, "estimate"));
        ld_text_key(t, "confidenceInterval");
        ld_text_lit(t, "[");
        ld_text_number(t, ld_number_of(ld_member_of(ips, "lower")));
        ld_text_lit(t, ",");
        ld_text_number(t, ld_number_of(ld_member_of(ips, "upper")));
        ld_text_lit(t, "]");
    }
    ld_text_lit(t, "}");
}

/* An evaluation of the tenant's, and the note that this file has written into it; NULL: somebody else began it. */
struct native {
    const struct ld_value *row, *result;
    struct ld_doc *note;
    bool is_of_2022;
};

static const struct ld_value *named(const struct native *e, size_t i)
{
    return e->note != NULL ? ld_item_of(ld_member_of(&e->note->root, "policies"), i) : NULL;
}

static void put_result(struct ld_text *t, const struct native *e, size_t i, const struct ld_value *result)
{
    const struct ld_value *policy = named(e, i);
    ld_text_item(t);
    ld_text_lit(t, "{");
    put_copy(t, "name", policy != NULL ? ld_member_of(policy, "name") : ld_member_of(result, "name"));
    if (policy != NULL) {
        put_copy(t, "arguments", ld_member_of(policy, "arguments"));
        put_copy(t, "policySource", ld_member_of(policy, "policySource"));
    } else {
        ld_text_put_string(t, "arguments", "");
        ld_text_put_string(t, "policySource", "Custom");
    }
    if (e->is_of_2022) {
        ld_text_put_string(t, "slotId", "");
        ld_text_key(t, "summary");
        put_expected(t, result);
        ld_text_lit(t, ",\"timeseries\":{\"data\":[]}");
    } else {
        ld_text_lit(t, ",\"summary\":[]");
        ld_text_key(t, "totalSummary");
        put_summary(t, result, ld_string_of(ld_member_of(e->row, "ended_at")));
    }
    ld_text_lit(t, "}");
}

/* Of one policy its members stand at the top. */
static size_t n_results(const struct ld_value *result)
{
    const struct ld_value *list = ld_member_of(result, "policies");
    return list != NULL ? ld_n_items(list) : ld_is(result, LD_V_OBJECT);
}

static const struct ld_value *result_of(const struct ld_value *result, size_t i)
{
    const struct ld_value *list = ld_member_of(result, "policies");
    return list != NULL ? ld_item_of(list, i) : result;
}

static void put_results(struct ld_text *t, const char *key, const struct native *e)
{
    ld_text_key(t, key);
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n_results(e->result); i++)
        put_result(t, e, i, result_of(e->result, i));
    ld_text_lit(t, "]");
}

/* That with the greatest estimate, of those that somebody could put in force. */
static void put_best(struct ld_text *t, const struct native *e)
{
    const char *best = NULL;
    double most = -HUGE_VAL;
    for (size_t i = 0; e->note != NULL && i < n_results(e->result); i++) {
        const struct ld_value *ips = ld_member_of(result_of(e->result, i), "ips");
        const char *arguments = ld_string_of(ld_member_of(named(e, i), "arguments"));
        if (arguments == NULL || arguments[0] == '\0' || !is_estimate(ips) ||
            ld_number_of(ld_member_of(ips, "estimate")) <= most)
            continue;
        most = ld_number_of(ld_member_of(ips, "estimate"));
        best = ld_string_of(ld_member_of(named(e, i), "name"));
    }
    if (best != NULL)
        ld_text_put_string(t, "optimalPolicy", best);
}

static const char *status_of(const struct native *e)
{
    static const char *const words[][3] = {{"running", "pending", "Running"},
                                           {"done", "completed", "Succeeded"},
                                           {"cancelled", "notSubmitted", "Canceled"}};
    const char *state = ld_string_of(ld_member_of(e->row, "state"));
    for (size_t i = 0; state != NULL && i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], state) == 0)
            return words[i][e->is_of_2022 ? 2 : 1];
    return e->is_of_2022 ? "Failed" : "failed";
}

static void put_head(struct ld_text *t, const struct native *e)
{
    const struct ld_value *id = ld_member_of(e->row, "id"), *told = e->note != NULL ? &e->note->root : NULL;
    put_copy(t, "id", id);
    put_copy(t, "name", told != NULL ? ld_member_of(told, "name") : id);
    put_copy(t, "startTime", told != NULL ? ld_member_of(told, "startTime") : ld_member_of(e->row, "begun_at"));
    put_copy(t, "endTime", told != NULL ? ld_member_of(told, "endTime") : ld_member_of(e->row, "begun_at"));
    put_copy(t, "creationTime", ld_member_of(e->row, "begun_at"));
    ld_text_put_string(t, "status", status_of(e));
    ld_text_put_string(t, "evaluationType", "Manual");
}

static void put_content(struct ld_text *t, const struct native *e)
{
    const struct ld_value *told = e->note != NULL ? &e->note->root : NULL;
    ld_text_key(t, "content");
    ld_text_lit(t, "{");
    put_copy(t, "startTime", told != NULL ? ld_member_of(told, "startTime") : ld_member_of(e->row, "begun_at"));
    put_copy(t, "endTime", told != NULL ? ld_member_of(told, "endTime") : ld_member_of(e->row, "ended_at"));
    put_results(t, "value", e);
    ld_text_lit(t, "}");
}

static void put_evaluation(struct ld_text *t, struct native *e)
{
    const struct ld_value *problem = ld_member_of(e->row, "problem");
    ld_text_lit(t, "{");
    put_head(t, e);
    if (!e->is_of_2022)
        put_copy(t, "jobId", ld_member_of(e->row, "id"));
    if (ld_is(e->result, LD_V_OBJECT)) {
        put_best(t, e);
        if (e->is_of_2022)
            put_content(t, e);
        else
            put_results(t, "policyResults", e);
    }
    if (ld_is(problem, LD_V_OBJECT))
        put_copy(t, "description", ld_member_of(problem, "detail"));
    ld_text_lit(t, "}");
}

/* A note is any text of the tenant's caller. */
static bool are_policies(const struct ld_value *list)
{
    for (size_t i = 0; i < ld_n_items(list); i++)
        if (ld_string_of(ld_member_of(ld_item_of(list, i), "name")) == NULL ||
            ld_string_of(ld_member_of(ld_item_of(list, i), "arguments")) == NULL)
            return false;
    return ld_n_items(list) > 0;
}

/* The note, if it is of this file's making. */
static struct ld_doc *read_note(const struct ld_value *row)
{
    const char *text = ld_string_of(ld_member_of(ld_member_of(row, "request"), "note"));
    struct ld_doc *doc = NULL;
    struct ld_problem p;
    ld_problem_init(&p);
    if (text == NULL || ld_doc_parse(&doc, text, strlen(text), false, &p) != 0)
        return NULL;
    if (ld_string_of(ld_member_of(&doc->root, "name")) != NULL && are_policies(ld_member_of(&doc->root, "policies")))
        return doc;
    ld_doc_free(doc);
    return NULL;
}

static void put_row(struct ld_text *t, const struct ld_value *row, bool is_of_2022)
{
    struct native e = {
        .row = row, .result = ld_member_of(row, "result"), .note = read_note(row), .is_of_2022 = is_of_2022};
    put_evaluation(t, &e);
    ld_doc_free(e.note);
}

char *ld_encode_rank_evaluation(const struct ld_doc *told, bool is_of_2022, size_t *n)
{
    const struct ld_value *list = ld_member_of(&told->root, "evaluations");
    struct ld_text t;
    ld_text_init(&t);
    if (list == NULL) {
        put_row(&t, &told->root, is_of_2022);
        return ld_text_take(&t, n);
    }
    ld_text_lit(&t, is_of_2022 ? "{\"value\":[" : "[");
    for (size_t i = 0; i < ld_n_items(list); i++) {
        ld_text_item(&t);
        put_row(&t, ld_item_of(list, i), is_of_2022);
    }
    ld_text_lit(&t, is_of_2022 ? "]}" : "]");
    return ld_text_take(&t, n);
}

char *ld_encode_evaluated_policy(const struct ld_doc *told, const char *name, size_t *n)
{
    struct ld_doc *note = read_note(&told->root);
    const struct ld_value *list = note != NULL ? ld_member_of(&note->root, "policies") : NULL;
    char *text = NULL;
    for (size_t i = 0; text == NULL && i < ld_n_items(list); i++) {
        const char *arguments = ld_string_of(ld_member_of(ld_item_of(list, i), "arguments"));
        struct ld_text t;
        if (strcmp(ld_string_of(ld_member_of(ld_item_of(list, i), "name")), name) != 0 || arguments[0] == '\0')
            continue;
        ld_text_init(&t);
        ld_text_lit(&t, "{");
        ld_text_put_string(&t, "name", name);
        ld_text_put_string(&t, "arguments", arguments);
        ld_text_lit(&t, "}");
        text = ld_text_take(&t, n);
    }
    ld_doc_free(note);
    return text;
}
