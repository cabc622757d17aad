/* The two passes of an evaluation: see ope.h.
 *
 *   survey   n, arms shown, least propensities, range of rewards: what refusals and c need to know in advance
 *   judge    the target's probabilities, the terms of every estimator, acceptance, learning
 *
 * What becomes of the sums, refusals included, is ope_result.c.
 * Memory: the series' blocks and two numbers per arm. Cost: an event costs its parsing twice, the target's decision,
 * and for dr a prediction and a learning step of the reward model. */
#include "evaluate/ope_impl.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "spec/spec.h"

#define MEAN_ARM_PRESET "ucb"

const char *ld_ope_name(int kind)
{
    static const char *const names[LD_OPE_N] = {"replay", "ips",         "snips",         "clipped_ips",
                                                "dr",     "ips_by_slot", "pseudo_inverse"};

    return kind >= 0 && kind < LD_OPE_N ? names[kind] : NULL;
}

static double seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* --- survey ------------------------------------------------------------------------------------------- */

static int no_memory(struct ld_message *why)
{
    return ld_fail(why, "%s", kb_strerror((int)KB_ENOMEM));
}

/* A whole pass over the log. 0, or -1 with why. */
static int pass_over(struct ld_ope_run *u, const struct ld_decisions_pass *pass)
{
    u->why->text[0] = '\0';
    const int rc = u->log->pass(u->log, pass);

    if (rc != 0 && u->why->text[0] == '\0')
        *u->why = u->log->why;
    return rc;
}

/* Before each decision. */
static int go_on(struct ld_ope_run *u)
{
    return u->o->is_over != NULL && u->o->is_over(u->o->arg) ? ld_fail(u->why, "%s", kb_strerror((int)KB_ECANCELLED))
                                                             : 0;
}

static int look(void *arg, const struct ld_logged *ev)
{
    struct ld_ope_run *u = arg;
    struct ld_ope_result *r = u->r;

    if (go_on(u) != 0)
        return -1;
    if (ld_ope_trace_reserve(&r->trace, u->log->arms.n) != 0)
        return no_memory(u->why);
    r->n++;
    ld_ope_trace_shown(&r->trace, ev->arm[ev->chosen]);
    r->slots.most = ev->n_more < r->slots.most ? r->slots.most : ev->n_more + 1;
    ld_ope_series_add(&r->rewards, ev->reward, 1);
    u->reward_min = fmin(u->reward_min, ev->reward);
    u->reward_max = fmax(u->reward_max, ev->reward);
    for (size_t k = 0; k <= ev->n_more; k++) { /* NaN counts for neither */
        u->slot_min = fmin(u->slot_min, ld_logged_slot(ev, k)->reward);
        u->slot_max = fmax(u->slot_max, ld_logged_slot(ev, k)->reward);
    }
    if (isnan(ev->propensity)) {
        r->n_missing++;
        return 0;
    }
    r->min_propensity = fmin(r->min_propensity, ev->propensity);
    r->max_propensity = fmax(r->max_propensity, ev->propensity);
    ld_ope_digits_add(&u->digits, ev->propensity);
    u->is_random = u->is_random || ev->propensity < LD_OPE_ONE;
    return 0;
}

/* What rewards can be: as the caller knows it, else 0 to 1 where that holds all of them, else what was seen and 0. */
static void settle_range(const struct ld_ope_options *o, double min, double max, double *lo, double *hi)
{
    const bool is_unit = min >= 0 && max <= 1;

    *lo = !isnan(o->reward_lo) ? o->reward_lo : is_unit ? 0 : fmin(min, 0);
    *hi = !isnan(o->reward_hi) ? o->reward_hi : is_unit ? 1 : fmax(max, 0);
}

static int survey(struct ld_ope_run *u)
{
    const struct ld_decisions_pass pass = {.decision = look, .arg = u};

    u->reward_min = u->slot_min = u->r->min_propensity = (double)INFINITY;
    u->reward_max = u->slot_max = u->r->max_propensity = -(double)INFINITY;
    if (pass_over(u, &pass) != 0)
        return -1;
    u->r->n_arms = u->log->arms.n;
    if (u->r->n > 0)
        ld_ope_trace_plan(&u->r->trace, u->r->n);
    settle_range(u->o, u->reward_min, u->reward_max, &u->r->reward_lo, &u->r->reward_hi);
    settle_range(u->o, u->slot_min, u->slot_max, &u->r->slots.reward_lo, &u->r->slots.reward_hi);
    return u->r->slots.most > 1 && ld_ope_slots_init(&u->r->slots) != 0 ? no_memory(u->why) : 0;
}

static int accept_all(void *arg, const struct ld_logged *ev)
{
    struct ld_ope_run *u = arg;
    const double *pi;

    if (go_on(u) != 0 || u->policy->ops->propensities(u->policy, u->log, ev, &pi, u->why) != 0)
        return -1;
    if (pi[ev->chosen] > 0)
        u->r->acceptance = fmin(u->r->acceptance, ev->propensity / pi[ev->chosen]);
    return 0;
}

/* c of a policy that never learns: the least p / pi of the log as it is, known only after a pass with all arms. That of
 * one that learns is min p, since pi may come to 1. */
static int find_acceptance(struct ld_ope_run *u)
{
    const struct ld_decisions_pass pass = {.decision = accept_all, .arg = u};
    struct ld_ope_result *r = u->r;

    r->acceptance = fmin(r->min_propensity, 1);
    if (u->policy->ops->learn != NULL || u->policy->is_logging || !u->o->is_wanted[LD_OPE_REPLAY])
        return 0;
    r->acceptance = (double)INFINITY;
    return pass_over(u, &pass);
}

/* --- judge -------------------------------------------------------------------------------------------- */

/* Mass of the target on arms that the log cannot tell of: never shown where only shown arms are known, or of logged
 * probability 0; and what a distribution gives to arms that are no candidates. */
static double unsupported(const struct ld_ope_run *u, const struct ld_logged *ev, const double *pi)
{
    const struct ld_ope_trace *t = &u->r->trace;
    double lost = 0, sum = 0;

    for (size_t i = 0; i < ev->n; i++) {
        const bool is_known =
            ev->logged != NULL ? ev->logged[i] > 0 : ev->arm[i] < t->cap && t->arm[ev->arm[i]].shown > 0;
        sum += pi[i];
        lost += is_known || i == ev->chosen ? 0 : pi[i];
    }
    return lost + (sum < 1 - 1e-6 ? 1 - sum : 0);
}

/* The direct part sum pi q and q of the arm shown; arms of no mass are not predicted. -1 with why. */
static int predict(struct ld_ope_run *u, const struct ld_logged *ev, const double *pi, double *direct, double *q)
{
    size_t n = 0;

    if (kb_grow((void **)&u->which, &u->cap_terms, ev->n, 16, sizeof *u->which) != 0 ||
        kb_grow((void **)&u->mean, &u->cap_mean, ev->n, 16, sizeof *u->mean) != 0)
        return no_memory(u->why);
    for (size_t i = 0; i < ev->n; i++)
        if (pi[i] > 0 || i == ev->chosen)
            u->which[n++] = i;
    if (ld_ope_policy_predict(u->model, u->log, ev, u->which, n, u->mean, u->why) != 0)
        return -1;
    *direct = 0;
    for (size_t i = 0; i < n; i++) {
        *direct += pi[u->which[i]] * u->mean[i];
        if (u->which[i] == ev->chosen)
            *q = u->mean[i];
    }
    return 0;
}

/* dr's term, and the model learns the event behind it. On the log's own policy all that is known of pi is the arm
 * shown, and the term is the reward. */
static int add_robust(struct ld_ope_run *u, const struct ld_logged *ev, const double *pi, double w)
{
    double direct = 0, q = 0;

    if (u->policy->is_logging) {
        ld_ope_series_add(&u->r->series[LD_OPE_DR], ev->reward, 1);
        return 0;
    }
    if (u->model == NULL)
        return 0;
    if (predict(u, ev, pi, &direct, &q) != 0)
        return -1;
    ld_ope_series_add(&u->r->series[LD_OPE_DR], direct + w * (ev->reward - q), 1);
    return u->model->ops->learn(u->model, u->log, ev, u->why);
}

static void add_weighted(struct ld_ope_run *u, double w, double reward)
{
    struct ld_ope_result *r = u->r;

    ld_ope_series_add(&u->weights, w, 1);
    ld_ope_series_add(&u->clipped, fmin(w, u->o->clip), 1);
    ld_ope_series_add(&u->r->series[LD_OPE_IPS], w * reward, 1);
    ld_ope_series_add(&u->r->series[LD_OPE_SNIPS], w * reward, w);
    ld_ope_series_add(&u->r->series[LD_OPE_CLIPPED], fmin(w, u->o->clip) * reward, 1);
    r->max_weight = fmax(r->max_weight, w);
    r->n_clipped += w > u->o->clip ? 1 : 0;
}

static int judge_event(struct ld_ope_run *u, const struct ld_logged *ev, uint64_t k)
{
    const double *pi;

    if (u->policy->ops->propensities(u->policy, u->log, ev, &pi, u->why) != 0)
        return -1;
    const double w = u->policy->is_logging ? 1 : pi[ev->chosen] / ev->propensity;
    const double c = u->policy->is_logging ? 1 : u->r->acceptance;
    const bool is_accepted = kb_rng_uniform(u->o->seed, KB_STREAM_ARM, k) < c * w * (1 + 1e-12);

    if (ld_ope_trace_reserve(&u->r->trace, u->log->arms.n) != 0)
        return no_memory(u->why);
    u->unsupported += u->policy->is_logging ? 0 : unsupported(u, ev, pi);
    u->rounding += u->policy->is_logging ? 0 : w * ld_ope_digits_error(&u->digits, ev->propensity);
    add_weighted(u, w, ev->reward);
    ld_ope_trace_event(&u->r->trace, ev, pi, w, k);
    ld_ope_series_add(&u->r->series[LD_OPE_REPLAY], is_accepted ? ev->reward : 0, is_accepted ? 1 : 0);
    if (add_robust(u, ev, pi, w) != 0)
        return -1;
    const bool is_weighed = u->o->is_wanted[LD_OPE_BY_SLOT] || u->o->is_wanted[LD_OPE_PSEUDO];
    struct ld_ope_policy *of_slots = is_weighed && !u->policy->is_logging ? u->policy : NULL;
    if (u->r->slots.most > 1 && ld_ope_slots_add(&u->r->slots, of_slots, u->log, ev, w, u->why) != 0)
        return -1;
    if (!is_accepted)
        return 0;
    u->r->n_accepted++;
    return u->policy->ops->learn != NULL ? u->policy->ops->learn(u->policy, u->log, ev, u->why) : 0;
}

/* The log's own graph counts where no other was given. */
static int take_graph(void *arg, const struct kb_event *ev, struct ld_message *why)
{
    struct ld_ope_run *u = arg;
    const int rc = u->policy->ops->graph != NULL ? u->policy->ops->graph(u->policy, ev, why) : 0;

    return rc == 0 && u->model != NULL ? u->model->ops->graph(u->model, ev, why) : rc;
}

static int judge_next(void *arg, const struct ld_logged *ev)
{
    struct ld_ope_run *u = arg;
    struct ld_message why = {""};

    if (go_on(u) != 0)
        return -1;
    if (judge_event(u, ev, u->k++) == 0)
        return 0;
    why = *u->why;
    return ld_fail(u->why, "%s %zu: %s", u->log->title != NULL ? "line" : "event", ev->line, why.text);
}

static int judge(struct ld_ope_run *u)
{
    const struct ld_decisions_pass pass = {
        .decision = judge_next, .graph = u->o->graph == NULL ? take_graph : NULL, .arg = u};

    return pass_over(u, &pass);
}

/* --- passes ------------------------------------------------------------------------------------------- */

static void show_model(struct ld_ope_run *u, struct ld_ope_policy *model)
{
    if (u->o->show_model != NULL)
        u->o->show_model(u->o->arg, model);
}

static int open_model(struct ld_ope_run *u)
{
    struct kb_spec spec;

    if (u->policy->is_logging || !u->o->is_wanted[LD_OPE_DR])
        return 0;
    if (u->o->model != NULL)
        spec = *u->o->model;
    else
        (void)kb_spec_preset(&spec, MEAN_ARM_PRESET, 0, 0);
    if (u->o->model == NULL)
        kb_spec_tune(&spec, false);
    /* only its mean is read */
    spec.rule = (struct kb_rule_spec){.type = KB_RULE_UNIFORM, .scale = 1};
    spec.conf.type = KB_CONF_FIXED;
    spec.conf.score = KB_SCORE_UPPER;
    spec.conf.is_mixture = false;
    u->model = ld_ope_policy_learning(&spec, u->o->model != NULL ? u->o->graph : NULL, u->why);
    show_model(u, u->model);
    return u->model != NULL ? 0 : -1;
}

static int pass_by(void *arg, const struct ld_logged *ev)
{
    struct ld_ope_run *u = arg;
    const struct ld_decisions *log = u->log;

    (void)ev;
    u->is_counted = log->has_catalogue || (log->o.propensity != LD_DECISIONS_UNIFORM && !log->is_own);
    return u->is_counted ? -1 : go_on(u);
}

/* Where each arm was as likely as the others, or decisions tell the number of their candidates alone, that of the log's
 * arms has to be known before the first event. A log is counted once. */
static int count_arms(struct ld_ope_run *u)
{
    const struct ld_decisions_pass pass = {.decision = pass_by, .arg = u};
    struct ld_decisions *log = u->log;

    if (log->is_counted || (log->o.propensity != LD_DECISIONS_UNIFORM && !log->o.needs_candidates))
        return 0;
    log->is_counting = true;
    int rc = pass_over(u, &pass);
    log->is_counting = false;
    if (rc != 0 && u->is_counted)
        rc = 0;
    if (rc == 0 && !log->has_catalogue)
        ld_decisions_count(log);
    log->is_counted = rc == 0;
    return rc;
}

static int survey_whole(struct ld_ope_run *u)
{
    if (count_arms(u) != 0 || survey(u) != 0)
        return -1;
    if (u->r->n > 0)
        return 0;
    const size_t most = ld_decisions_most_skipped(u->log);
    const char *title = u->log->title != NULL ? u->log->title : "the log";
    if (u->log->skipped[most].n == 0)
        return ld_fail(u->why, "%.120s: no decision with a reward in it", title);
    return ld_fail(u->why, "%.120s: no decision with a reward in it; %zu passed over: %s", title,
                   u->log->skipped[most].n, u->log->skipped[most].reason);
}

static int evaluate(struct ld_ope_run *u)
{
    struct ld_ope_result *r = u->r;
    char reason[LD_OPE_WHY];
    double start = seconds();

    if (survey_whole(u) != 0)
        return -1;
    ld_ope_refuse(u, false, reason);
    if (reason[0] == '\0' && (find_acceptance(u) != 0 || open_model(u) != 0))
        return -1;
    r->seconds[LD_OPE_SURVEY] = seconds() - start;
    start = seconds();
    if (reason[0] == '\0' && judge(u) != 0)
        return -1;
    r->seconds[LD_OPE_JUDGE] = seconds() - start;
    start = seconds();
    if (reason[0] == '\0') {
        ld_ope_sum_up(u);
        ld_ope_refuse(u, true, reason);
    }
    for (int i = 0; i < LD_OPE_N; i++) {
        memcpy(r->estimate[i].refused, reason, LD_OPE_WHY);
        ld_ope_conclude(u, i, &r->estimate[i]);
    }
    ld_ope_conclude_logged(u);
    r->seconds[LD_OPE_INTERVALS] = seconds() - start;
    return 0;
}

static int begin(struct ld_ope_run *u)
{
    int rc = ld_ope_bootstrap_init(&u->bootstrap);

    for (int i = 0; i < LD_OPE_BY_SLOT; i++)
        rc |= ld_ope_series_init(&u->r->series[i]);
    rc |= ld_ope_series_init(&u->r->rewards);
    rc |= ld_ope_series_init(&u->weights);
    rc |= ld_ope_series_init(&u->clipped);
    return rc == 0 ? 0 : no_memory(u->why);
}

int ld_ope_evaluate(struct ld_decisions *log, struct ld_ope_policy *policy, const struct ld_ope_options *o,
                    struct ld_ope_result *out, struct ld_message *why)
{
    struct ld_ope_run u = {.log = log, .policy = policy, .o = o, .r = out, .why = why};

    *out = (struct ld_ope_result){.ess = (double)NAN, .mean_weight = (double)NAN, .unsupported = (double)NAN};
    u.bootstrap = ld_ope_bootstrap(o);
    int rc = begin(&u) == 0 ? evaluate(&u) : -1;
    if (rc == 0)
        rc = go_on(&u);
    ld_ope_bootstrap_close(&u.bootstrap);
    ld_ope_series_close(&u.weights);
    ld_ope_series_close(&u.clipped);
    show_model(&u, NULL);
    ld_ope_policy_free(u.model);
    kb_free(u.which);
    kb_free(u.mean);
    return rc;
}

struct ld_ope_bootstrap ld_ope_bootstrap(const struct ld_ope_options *o)
{
    return (struct ld_ope_bootstrap){
        .level = o->level, .n = o->n_resamples, .seed = o->seed, .is_over = o->is_over, .arg = o->arg};
}

void ld_ope_close(struct ld_ope_result *r)
{
    for (int i = 0; i < LD_OPE_BY_SLOT; i++)
        ld_ope_series_close(&r->series[i]);
    ld_ope_slots_close(&r->slots);
    ld_ope_series_close(&r->rewards);
    ld_ope_trace_close(&r->trace);
}
