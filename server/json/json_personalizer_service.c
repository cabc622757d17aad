/* The service configuration of Azure Personalizer, to and from the configuration of a tenant.
 *
 *   rewardWaitTime          reward_window_s        an ISO 8601 duration, 5 s to 2 days
 *   defaultReward           default_reward         -1 to 1
 *   rewardAggregation       aggregation            earliest is first, sum is sum
 *   explorationPercentage   rule.epsilon           0 to 1
 *   logRetentionDays        retention.age_s        -1: for ever
 *   modelExportFrequency, modelRetrainDays, autoOptimization...    personalizer.*, and nobody reads it
 *   isInferenceExplainabilityEnabled    personalizer.explain_inference
 *   learningMode            Online                 the policy shows and learns
 *                           Apprentice             routing.stopped and .apprentice, the first action for everybody
 *                           LoggingOnly            learn is false
 *
 * What else that configuration has is either of no effect here, and taken, or would promise what is not done: that is
 * refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_personalizer.h"
#include "json/json_personalizer_time.h"
#include "json/json_util.h"

#define DAY_S 86400.0
#define MOST_WAIT_S (2 * DAY_S)
#define LEAST_WAIT_S 5.0
#define MOST_KEPT_BYTES 64u

/* --- to a tenant's ---------------------------------------------------------------------------------------- */

/* What is asked for, and what is told of the tenant now. */
struct service {
    const struct ld_value *body, *now;
};

static bool is_same(const struct ld_value *a, const struct ld_value *b)
{
    if (a == NULL || b == NULL || a->kind != b->kind)
        return false;
    if (a->kind == LD_V_NUMBER)
        return a->as.number == b->as.number;
    return a->kind == LD_V_STRING && strcmp(a->as.string, b->as.string) == 0;
}

/* The member if it is there, not null, and another one than now, whatever that is: who writes back what was told
 * changes nothing. A fault unless it is of that kind. */
static const struct ld_value *member(struct ld_in *in, const struct service *s, const char *key,
                                     enum ld_value_kind kind, const char *expected)
{
    const struct ld_value *v = ld_member_of(s->body, key);
    if (v == NULL || ld_is(v, LD_V_NULL) || is_same(v, ld_member_of(s->now, key)))
        return NULL;
    if (ld_is(v, kind))
        return v;
    ld_in_fault(in, key, "%s", expected);
    return NULL;
}

static void read_wait(struct ld_in *in, const struct service *s, struct ld_text *t)
{
    static const char expected[] = "expected an ISO 8601 duration from PT5S to P2D";
    const struct ld_value *v = member(in, s, "rewardWaitTime", LD_V_STRING, expected);
    const double seconds = ld_duration_of(ld_string_of(v));
    if (v == NULL)
        return;
    if (seconds < LEAST_WAIT_S || seconds > MOST_WAIT_S)
        ld_in_fault(in, "rewardWaitTime", "%s", expected);
    else
        ld_text_put_number(t, "reward_window_s", seconds);
}

/* A number that stands under another name in a tenant's configuration, in an object if `object` is not NULL. */
static void read_number(struct ld_in *in, const struct service *s, const char *key, double lo, struct ld_text *t,
                        const char *object, const char *name)
{
    const char *expected = lo < 0 ? "expected a number from -1 to 1" : "expected a number from 0 to 1";
    const struct ld_value *v = member(in, s, key, LD_V_NUMBER, expected);
    if (v == NULL)
        return;
    if (ld_number_of(v) < lo || ld_number_of(v) > 1) {
        ld_in_fault(in, key, "%s", expected);
        return;
    }
    if (object != NULL) {
        ld_text_key(t, object);
        ld_text_lit(t, "{");
    }
    ld_text_put_number(t, name, ld_number_of(v));
    if (object != NULL)
        ld_text_lit(t, "}");
}

static void read_aggregation(struct ld_in *in, const struct service *s, struct ld_text *t)
{
    static const char expected[] = "expected \"earliest\" or \"sum\"";
    const struct ld_value *v = member(in, s, "rewardAggregation", LD_V_STRING, expected);
    if (v == NULL)
        return;
    if (strcmp(ld_string_of(v), "earliest") == 0)
        ld_text_put_string(t, "aggregation", "first");
    else if (strcmp(ld_string_of(v), "sum") == 0)
        ld_text_put_string(t, "aggregation", "sum");
    else
        ld_in_fault(in, "rewardAggregation", "%s", expected);
}

static void read_retention(struct ld_in *in, const struct service *s, struct ld_text *t)
{
    static const char expected[] = "expected -1, or a whole number of days from 1 to 36500";
    const struct ld_value *v = member(in, s, "logRetentionDays", LD_V_NUMBER, expected);
    const double days = ld_number_of(v);
    if (v == NULL)
        return;
    if (days != floor(days) || days > 36500 || (days < 1 && days != -1)) {
        ld_in_fault(in, "logRetentionDays", "%s", expected);
        return;
    }
    ld_text_key(t, "retention");
    ld_text_lit(t, days < 0 ? "{\"age_s\":null}" : "{");
    if (days > 0) {
        ld_text_put_number(t, "age_s", days * DAY_S);
        ld_text_lit(t, "}");
    }
}

/* --- modes of learning ------------------------------------------------------------------------------------- */

enum mode { ONLINE, APPRENTICE, LOGGING_ONLY, N_MODES };
static const char *const modes[N_MODES] = {"Online", "Apprentice", "LoggingOnly"};
/* As a patch of a tenant; a baseline of one arm gives way to the rule. */
static const char *const patch_of[N_MODES] = {"\"learn\":true,\"routing\":{\"stopped\":false,\"apprentice\":false}",
                                              "\"learn\":true,\"routing\":{\"stopped\":true,\"apprentice\":true,"
                                              "\"holdout\":{\"baseline\":{\"rule\":\"first\",\"arm\":"
                                              "null}}}",
                                              "\"learn\":false"};

static enum mode mode_of(const struct ld_value *configuration)
{
    const struct ld_value *routing = ld_member_of(configuration, "routing");
    if (ld_is(ld_member_of(configuration, "learn"), LD_V_FALSE))
        return LOGGING_ONLY;
    return ld_is(ld_member_of(routing, "stopped"), LD_V_TRUE) && ld_is(ld_member_of(routing, "apprentice"), LD_V_TRUE)
               ? APPRENTICE
               : ONLINE;
}

static bool is_changed(const struct service *s, const char *key)
{
    const struct ld_value *v = ld_member_of(s->body, key);
    return v != NULL && !ld_is(v, LD_V_NULL) && !is_same(v, ld_member_of(s->now, key));
}

/* As there, not together with what a reward is. */
static void read_mode(struct ld_in *in, const struct service *s, struct ld_text *t, const char **code)
{
    static const char expected[] = "expected \"Online\", \"Apprentice\" or \"LoggingOnly\"";
    static const char *const apart[] = {"rewardWaitTime", "defaultReward", "rewardAggregation"};
    const struct ld_value *v = member(in, s, "learningMode", LD_V_STRING, expected);
    size_t mode = 0;
    if (v == NULL)
        return;
    while (mode < N_MODES && strcmp(ld_string_of(v), modes[mode]) != 0)
        mode++;
    if (mode == N_MODES) {
        ld_in_fault(in, "learningMode", "%s", expected);
        return;
    }
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        if (!is_changed(s, apart[i]))
            continue;
        *code = "InvalidLearningModeServiceConfiguration";
        ld_in_fault(in, "learningMode", "expected no other %s in the same request", apart[i]);
        return;
    }
    ld_text_item(t);
    ld_text_lit(t, patch_of[mode]);
}

/* What would promise something that is not done here. */
static void refuse_promises(struct ld_in *in, const struct service *s, const char **code)
{
    const struct ld_value *body = s->body;
    if (ld_is(ld_member_of(body, "logMirrorEnabled"), LD_V_TRUE)) {
        *code = "InvalidSasUri";
        ld_in_fault(in, "logMirrorEnabled", "expected false: GET /tenants/{tenant}/export has the log");
    }
    if (ld_is(ld_member_of(body, "isAutoOptimizationEnabled"), LD_V_TRUE))
        ld_in_fault(in, "isAutoOptimizationEnabled", "expected false: challengers with a guardrail are set by PATCH");
}

/* --- what is kept and told again ------------------------------------------------------------------------------- */

/* A text that is told again. */
static void keep_text(struct ld_in *in, const struct service *s, const char *key, const char *name, bool is_duration,
                      struct ld_text *t)
{
    const char *expected =
        is_duration ? "expected an ISO 8601 duration" : "expected a time such as 2026-11-22T09:00:00Z";
    const struct ld_value *v = member(in, s, key, LD_V_STRING, expected);
    int64_t at_ms;
    if (v == NULL)
        return;
    if (ld_string_bytes(v) <= MOST_KEPT_BYTES &&
        (is_duration ? ld_duration_of(ld_string_of(v)) > 0 : ld_moment_of(ld_string_of(v), &at_ms)))
        ld_text_put_string(t, name, ld_string_of(v));
    else
        ld_in_fault(in, key, "%s", expected);
}

static void keep_days(struct ld_in *in, const struct service *s, struct ld_text *t)
{
    static const char expected[] = "expected a whole number of days from 0 to 2147483647";
    const struct ld_value *v = member(in, s, "modelRetrainDays", LD_V_NUMBER, expected);
    const double days = ld_number_of(v);
    if (v != NULL && (days < 0 || days > 2147483647 || days != floor(days)))
        ld_in_fault(in, "modelRetrainDays", "%s", expected);
    else if (v != NULL)
        ld_text_put_number(t, "model_retrain_days", days);
}

static void read_explained(struct ld_in *in, const struct service *s, struct ld_text *t)
{
    static const char key[] = "isInferenceExplainabilityEnabled";
    const struct ld_value *v = ld_member_of(s->body, key);
    if (v == NULL || ld_is(v, LD_V_NULL))
        return;
    if (ld_is_bool(v))
        ld_text_put_bool(t, "explain_inference", ld_is(v, LD_V_TRUE));
    else
        ld_in_fault(in, key, "expected true or false");
}

static void keep_words(struct ld_in *in, const struct service *s, struct ld_text *t)
{
    ld_text_key(t, "personalizer");
    ld_text_lit(t, "{");
    keep_text(in, s, "modelExportFrequency", "model_export_frequency", true, t);
    keep_days(in, s, t);
    keep_text(in, s, "autoOptimizationFrequency", "auto_optimization_frequency", true, t);
    keep_text(in, s, "autoOptimizationStartDate", "auto_optimization_start_date", false, t);
    read_explained(in, s, t);
    ld_text_lit(t, "}");
}

/* --- both ways ---------------------------------------------------------------------------------------------------- */

static char *encode_patch(struct ld_doc *doc, const struct ld_doc *now, size_t *n, const char **code,
                          struct ld_problem *p)
{
    const struct ld_value *body = &doc->root;
    const struct service s = {body, &now->root};
    struct ld_in in;
    struct ld_text t;
    ld_in_init(&in, doc, p);
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    if (!ld_is(body, LD_V_OBJECT))
        ld_in_fault(&in, NULL, "expected an object");
    read_wait(&in, &s, &t);
    read_number(&in, &s, "defaultReward", -1, &t, NULL, "default_reward");
    read_aggregation(&in, &s, &t);
    read_number(&in, &s, "explorationPercentage", 0, &t, "rule", "epsilon");
    read_retention(&in, &s, &t);
    read_mode(&in, &s, &t, code);
    keep_words(&in, &s, &t);
    refuse_promises(&in, &s, code);
    ld_text_lit(&t, "}");
    if (ld_in_done(&in) == 0)
        return ld_text_take(&t, n);
    ld_text_close(&t);
    return NULL;
}

/* What is told now is what is compared with. */
char *ld_decode_service(struct ld_doc *doc, const struct ld_told_tenant *now, size_t *n, const char **code,
                        struct ld_problem *p)
{
    size_t n_told = 0;
    char *told = ld_encode_service(now, &n_told), *patch = NULL;
    struct ld_doc *shown = NULL;
    if (told != NULL && ld_doc_parse(&shown, told, n_told, false, p) == 0)
        patch = encode_patch(doc, shown, n, code, p);
    ld_doc_free(shown);
    free(told);
    return patch;
}

/* A member that is there only where somebody has set it. */
static void put_kept(struct ld_text *t, const char *key, const struct ld_value *kept, const char *name)
{
    const char *text = ld_string_of(ld_member_of(kept, name));
    if (text != NULL)
        ld_text_put_string(t, key, text);
}

static void put_numbers(struct ld_text *t, const struct ld_value *now)
{
    const char *aggregation = ld_string_of(ld_member_of(now, "aggregation"));
    ld_text_duration(t, "rewardWaitTime", ld_number_of(ld_member_of(now, "reward_window_s")));
    if (ld_is(ld_member_of(now, "default_reward"), LD_V_NUMBER))
        ld_text_put_number(t, "defaultReward", ld_number_of(ld_member_of(now, "default_reward")));
    else
        ld_text_put_string(t, "defaultReward", NULL);
    ld_text_put_string(t, "rewardAggregation",
                       aggregation != NULL && strcmp(aggregation, "first") != 0 ? aggregation : "earliest");
    ld_text_put_number(t, "explorationPercentage", ld_number_of(ld_member_of(ld_member_of(now, "rule"), "epsilon")));
}

/* A model is in force as soon as it has learned; so that is told until somebody says otherwise. */
char *ld_encode_service(const struct ld_told_tenant *tenant, size_t *n)
{
    const struct ld_value *now = ld_member_of(&tenant->doc->root, "configuration"),
                          *age = ld_member_of(ld_member_of(now, "retention"), "age_s"),
                          *kept = ld_member_of(now, "personalizer");
    const char *frequency = ld_string_of(ld_member_of(kept, "model_export_frequency"));
    const double days = ld_number_of(ld_member_of(kept, "model_retrain_days"));
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    put_numbers(&t, now);
    ld_text_put_string(&t, "modelExportFrequency", frequency != NULL ? frequency : "PT1S");
    ld_text_put_number(&t, "logRetentionDays", ld_is(age, LD_V_NUMBER) ? ld_number_of(age) / DAY_S : -1);
    ld_text_put_bool(&t, "logMirrorEnabled", false);
    if (tenant->edited_ms != INT64_MIN) {
        ld_text_key(&t, "lastConfigurationEditDate");
        ld_text_time(&t, tenant->edited_ms);
    }
    ld_text_put_string(&t, "learningMode", modes[mode_of(now)]);
    ld_text_put_bool(&t, "isAutoOptimizationEnabled", false);
    put_kept(&t, "autoOptimizationFrequency", kept, "auto_optimization_frequency");
    put_kept(&t, "autoOptimizationStartDate", kept, "auto_optimization_start_date");
    if (tenant->has_retrain_days || days > 0)
        ld_text_put_number(&t, "modelRetrainDays", days);
    if (ld_is(ld_member_of(kept, "explain_inference"), LD_V_TRUE)) /* as there, told where it was asked for */
        ld_text_put_bool(&t, "isInferenceExplainabilityEnabled", true);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}
