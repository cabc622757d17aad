/* See own_evaluation.h. */
#include "evaluate/own_evaluation.h"

#include <math.h>
#include <stdlib.h>

#include "evaluate/ope_report.h"
#include "evaluate/own_source.h"

#define DEFAULT_CLIP 10.0
#define DEFAULT_UNSUPPORTED 0.05
#define LEVEL 0.95
#define RESAMPLES 1000u

/* One policy, for as long as the report is made. */
struct ld_own_entry {
    struct ld_own_source source;
    struct ld_ope_policy *policy;
};

void ld_own_evaluation_cancel(struct ld_own_evaluation *e)
{
    for (size_t i = 0; i < 2; i++)
        if (e->learning[i] != NULL)
            ld_ope_policy_cancel(e->learning[i]);
}

/* ---- hooks -------------------------------------------------------------------------------------------- */

static bool is_over(void *arg)
{
    const struct ld_own_evaluation *e = arg;

    return atomic_load(&e->is_too_large) || e->is_ended(e->arg);
}

/* Three passes for each policy, of which some make two, and one more before the first where arms are counted. Never
 * backwards, and never whole before the end. */
static void note_progress(struct ld_own_evaluation *e, uint64_t seq)
{
    const double passes = (double)(e->pass < 3 ? e->pass : 2) + (double)seq / (double)(e->last + 1);
    const double whole = ((double)e->at + passes / 3) / (double)e->request->n;

    if (whole > atomic_load(&e->progress))
        atomic_store(&e->progress, fmin(whole, 0.999));
}

static void follow(void *arg, uint64_t seq)
{
    struct ld_own_evaluation *e = arg;
    size_t bytes = 0;

    if (seq < e->seen)
        e->pass++;
    e->seen = seq;
    note_progress(e, seq);
    for (size_t i = 0; i < 2; i++)
        bytes += e->learning[i] != NULL ? ld_ope_policy_bytes(e->learning[i]) : 0;
    atomic_store(e->bytes, e->request->n * LD_OWN_POLICY_BYTES + bytes);
    if (e->max_bytes > 0 && bytes > e->max_bytes)
        atomic_store(&e->is_too_large, true);
}

static void show(struct ld_own_evaluation *e, size_t i, struct ld_ope_policy *learning)
{
    pthread_mutex_lock(e->lock);
    e->learning[i] = learning;
    if (learning != NULL && is_over(e))
        ld_ope_policy_cancel(learning);
    pthread_mutex_unlock(e->lock);
}

static void show_model(void *arg, struct ld_ope_policy *model)
{
    show(arg, 1, model);
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */

static struct ld_decisions_options reading_of(const struct ld_evaluation_policy *policy)
{
    const bool learns = policy->kind == LD_POLICY_CONFIGURATION;

    return (struct ld_decisions_options){.context_dim = learns ? policy->settings->spec.context_dim : 0,
                                         .arm_dim = learns ? policy->settings->spec.arm_dim : 0,
                                         .default_reward = (double)NAN,
                                         .draws_only = true,
                                         .needs_candidates = true};
}

static struct ld_ope_policy *make_policy(const struct ld_evaluation_policy *policy, struct ld_message *why)
{
    switch (policy->kind) {
    case LD_POLICY_CONFIGURATION:
        return ld_ope_policy_learning(&policy->settings->spec, NULL, why);
    case LD_POLICY_ARM:
        return ld_ope_policy_arm(policy->arm, why);
    case LD_POLICY_FIRST:
        return ld_ope_policy_first(why);
    default:
        return ld_ope_policy_even(policy->kind == LD_POLICY_LOGGED, why);
    }
}

static struct ld_ope_options options_of(struct ld_own_evaluation *e)
{
    struct ld_ope_options o = {.level = LEVEL,
                               .n_resamples = RESAMPLES,
                               .seed = 1,
                               .clip = DEFAULT_CLIP,
                               .max_unsupported = DEFAULT_UNSUPPORTED,
                               .reward_lo = e->has_metric ? e->metric.low : (double)NAN,
                               .reward_hi = e->has_metric ? e->metric.high : (double)NAN,
                               .is_over = is_over,
                               .show_model = show_model,
                               .arg = e};

    for (int i = 0; i < LD_OPE_N; i++)
        o.is_wanted[i] = e->request->is_wanted[i];
    return o;
}

/* 0, or -1 with e->why. */
static int evaluate(struct ld_own_evaluation *e, const struct ld_ope_options *options)
{
    const struct ld_evaluation_policy *asked = &e->request->policy[e->at];
    struct ld_ope_report_entry *told = &e->report->entry[e->at];
    struct ld_own_entry *own = &e->entry[e->at];
    const struct ld_decisions_options reading = reading_of(asked);
    struct ld_ope_options o = *options;

    e->pass = 0;
    e->seen = 0;
    o.model = asked->kind == LD_POLICY_CONFIGURATION ? &asked->settings->spec : NULL;
    if (ld_own_source_init(&own->source, &reading) != 0)
        return ld_fail(&e->why, "%s", own->source.base.why.text);
    own->source.store = e->store;
    own->source.metric = e->has_metric ? &e->metric : NULL;
    own->source.from = e->request->from;
    own->source.to = e->request->to;
    own->source.last = e->last;
    own->source.is_over = is_over;
    own->source.at = follow;
    own->source.arg = e;
    if ((own->policy = make_policy(asked, &e->why)) == NULL)
        return -1;
    *told = (struct ld_ope_report_entry){.name = asked->name, .policy = own->policy, .log = &own->source.base};
    show(e, 0, own->policy);
    const int rc = ld_ope_evaluate(&own->source.base, own->policy, &o, &told->result, &e->why);
    show(e, 0, NULL);
    return rc;
}

/* Names of the estimators as the client has them in its option; "": all. */
static void name_estimators(const struct ld_own_evaluation *e, struct ld_text *out)
{
    const char *between = "";

    for (int i = 0; i < LD_OPE_N; i++)
        if (e->request->is_wanted[i]) {
            ld_text_lit(out, between);
            ld_text_lit(out, ld_ope_name(i));
            between = ",";
        }
}

static int tell(struct ld_own_evaluation *e)
{
    struct ld_text json, estimators;
    size_t n = 0;

    ld_text_init(&json);
    ld_text_init(&estimators);
    name_estimators(e, &estimators);
    char *names = ld_text_take(&estimators, &n);
    const struct ld_ope_origin from = {.format = "ndjson",
                                       .estimators = names,
                                       .metric = e->request->metric,
                                       .level_percent = 100 * LEVEL,
                                       .read = reading_of(&e->request->policy[0])};
    int rc = names != NULL ? ld_ope_report_prepare(e->report) : -1;
    if (rc == 0) {
        ld_ope_report_describe(e->report, &from);
        ld_ope_report_json(e->report, &json);
        e->result = ld_text_take(&json, &n);
        rc = e->result != NULL ? 0 : -1;
    }
    ld_text_close(&json);
    free(names);
    return rc == 0 ? 0 : ld_fail(&e->why, "%s", kb_strerror((int)KB_ENOMEM));
}

static void close_entries(struct ld_own_evaluation *e)
{
    for (size_t i = 0; e->entry != NULL && e->report != NULL && i < e->request->n; i++) {
        if (e->report->entry != NULL)
            ld_ope_close(&e->report->entry[i].result);
        if (e->entry[i].policy != NULL)
            ld_ope_policy_free(e->entry[i].policy);
        if (e->entry[i].source.base.pass != NULL)
            ld_decisions_close(&e->entry[i].source.base);
    }
    if (e->report != NULL)
        free(e->report->entry);
    free(e->report);
    free(e->entry);
    e->report = NULL;
    e->entry = NULL;
}

void ld_own_evaluation_run(struct ld_own_evaluation *e)
{
    const struct ld_ope_options o = options_of(e);
    int rc = -1;

    e->report = calloc(1, sizeof *e->report);
    e->entry = calloc(e->request->n, sizeof *e->entry);
    if (e->report != NULL && e->entry != NULL)
        e->report->entry = calloc(e->request->n, sizeof *e->report->entry);
    if (e->report != NULL && e->report->entry != NULL) {
        e->report->o = &o;
        for (e->at = 0, rc = 0; rc == 0 && e->at < e->request->n; e->at++)
            rc = evaluate(e, &o);
        e->report->n = e->request->n;
        if (rc == 0)
            (void)tell(e);
    } else {
        (void)ld_fail(&e->why, "%s", kb_strerror((int)KB_ENOMEM));
    }
    close_entries(e);
}
