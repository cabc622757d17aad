/* laplacectl experiment: what an experiment has proved, as tables in plain words; with --json the answer as it is. */
#include <math.h>
#include <stdio.h>

#include "ctl/commands.h"
#include "common/http_client.h"

/* A member's number, or a dash where it is not known. */
static const char *number(const struct json_t *v, const char *key, int digits, char out[32])
{
    double x;

    if (!lc_json_number(lc_json_get(v, key), &x))
        return "-";
    (void)snprintf(out, 32, "%.*g", digits, x);
    return out;
}

/* log10 of the evidence in tenths; what rounds to 0 has no sign. */
static double evidence(const struct json_t *v)
{
    return round(10 * lc_json_real(v, "log10_e")) / 10 + 0.0;
}

static void print_side(const char *arm, const char *side, const struct json_t *v, const struct json_t *odds)
{
    char mean[32], best[32], loss[32];

    if (odds == NULL && !(lc_json_real(v, "decisions") > 0))
        return;
    lc_say("  %-24s %-8s %10.0f  %10s   %.5g .. %.5g   %6s  %10s", arm, side, lc_json_real(v, "decisions"),
           number(v, "mean", 5, mean), lc_json_real(v, "low"), lc_json_real(v, "high"),
           odds != NULL ? number(odds, "p_best", 3, best) : "",
           odds != NULL ? number(odds, "expected_loss", 3, loss) : "");
}

static void print_arms(const struct json_t *arms)
{
    puts("");
    lc_say("Means over the decisions where the arm was shown, with intervals that hold at every look:");
    lc_say("  %-24s %-8s %10s  %10s   %s   %6s  %10s", "arm", "side", "decisions", "mean", "low .. high", "p best",
           "loss");
    for (size_t i = 0; i < lc_json_length(arms); i++) {
        const struct json_t *a = lc_json_at(arms, i);

        print_side(lc_json_text(a, "arm"), "policy", lc_json_get(a, "policy"), a);
        print_side(lc_json_text(a, "arm"), "holdout", lc_json_get(a, "holdout"), NULL);
    }
}

/* A metric's does not tell how many decisions it still needs. */
static void print_difference(const char *name, const struct json_t *v, bool tells_needed)
{
    char estimate[32], lift[32] = "-", needed[32], need[40] = "";
    double ratio;

    if (lc_json_number(lc_json_get(v, "lift"), &ratio))
        (void)snprintf(lift, sizeof lift, "%+.1f %%", 100 * ratio);
    if (tells_needed)
        (void)snprintf(need, sizeof need, " %10s", number(v, "needed", 12, needed));
    lc_say("  %-24s %10.0f  %10s  %8s   %+.5g .. %+.5g   10^%-6.1f%s   %s", name, lc_json_real(v, "decisions"),
           number(v, "estimate", 5, estimate), lift, lc_json_real(v, "low"), lc_json_real(v, "high"), evidence(v), need,
           lc_json_text(v, "sentence"));
    const struct json_t *stop = lc_json_get(v, "stop");
    if (lc_json_is_object(stop))
        lc_say("  %-24s first at event %.0f (%s), after %.0f decisions: %+.5g .. %+.5g", "", lc_json_real(stop, "seq"),
               lc_json_text(stop, "at"), lc_json_real(stop, "decisions"), lc_json_real(stop, "low"),
               lc_json_real(stop, "high"));
}

static void print_differences(const struct json_t *e)
{
    const struct json_t *all = lc_json_get(e, "differences"), *policy = lc_json_get(e, "policy");

    puts("");
    lc_say("Differences to %s:", lc_json_text(lc_json_get(e, "settings"), "baseline"));
    lc_say("  %-24s %10s  %10s  %8s   %s   %-8s %10s   %s", "arm", "decisions", "estimate", "lift", "low .. high",
           "evidence", "needed", "verdict");
    for (size_t i = 0; i < lc_json_length(all); i++)
        print_difference(lc_json_text(lc_json_at(all, i), "arm"), lc_json_at(all, i), true);
    if (lc_json_is_object(policy))
        print_difference("policy - holdout", policy, true);
}

static void print_metric(const struct json_t *m)
{
    const struct json_t *arms = lc_json_get(m, "arms"), *differences = lc_json_get(m, "differences");
    char mean[32];
    double harm;

    puts("");
    if (lc_json_number(lc_json_get(m, "harm"), &harm))
        lc_say("Metric %s (guardrail: a fall of %g is tolerated); %.0f clipped:", lc_json_text(m, "metric"), harm,
               lc_json_real(m, "clipped"));
    else
        lc_say("Metric %s (%s); %.0f clipped:", lc_json_text(m, "metric"), lc_json_text(m, "role"),
               lc_json_real(m, "clipped"));
    for (size_t i = 0; i < lc_json_length(arms); i++) {
        const struct json_t *a = lc_json_at(arms, i), *side = lc_json_get(a, "policy");

        lc_say("  %-24s %10.0f  %10s   %.5g .. %.5g", lc_json_text(a, "arm"), lc_json_real(side, "decisions"),
               number(side, "mean", 5, mean), lc_json_real(side, "low"), lc_json_real(side, "high"));
    }
    lc_say("  differences:");
    for (size_t i = 0; i < lc_json_length(differences); i++)
        print_difference(lc_json_text(lc_json_at(differences, i), "arm"), lc_json_at(differences, i), false);
    if (lc_json_is_object(lc_json_get(m, "policy")))
        print_difference("policy - holdout", lc_json_get(m, "policy"), false);
    lc_say("%s", lc_json_text(m, "statement"));
}

static void print_experiment(const char *name, const struct json_t *e)
{
    const struct json_t *settings = lc_json_get(e, "settings"), *n = lc_json_get(e, "decisions");
    const struct json_t *since = lc_json_get(e, "since"), *traffic = lc_json_get(e, "traffic");
    const char *waiting_since = lc_json_text(n, "waiting_since"), *advice = lc_json_text(e, "advice");

    lc_say("Experiment of %s since %s (event %.0f). A difference below %g does not matter.", name,
           lc_json_text(since, "at"), lc_json_real(since, "seq"), lc_json_real(settings, "difference"));
    lc_say("%.0f decisions are counted; %.0f wait%s%s; %.0f were left out, %.0f clipped, %.0f beyond the reach.",
           lc_json_real(n, "counted"), lc_json_real(n, "waiting"), waiting_since != NULL ? ", the oldest since " : "",
           waiting_since != NULL ? waiting_since : "", lc_json_real(n, "left_out"), lc_json_real(n, "clipped"),
           lc_json_real(n, "beyond_reach"));
    print_arms(lc_json_get(e, "arms"));
    lc_say("%s", lc_json_text(e, "betting_odds"));
    print_differences(e);
    for (size_t i = 0; i < lc_json_length(lc_json_get(e, "metrics")); i++)
        print_metric(lc_json_at(lc_json_get(e, "metrics"), i));
    puts("");
    lc_say("Traffic %s (p = %.3g).",
           lc_json_is_true(lc_json_get(traffic, "void")) ? "DOES NOT MATCH the told propensities"
                                                         : "matches the told propensities",
           lc_json_real(traffic, "p_value"));
    lc_say("%s", lc_json_text(e, "statement"));
    if (advice != NULL)
        lc_say("%s", advice);
}

static int run_experiment(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_words w;
    int rc = lc_args_parse(self, s, NULL, 0, argc, argv, &w, 0, 1);
    if (rc != LC_GO)
        return rc;
    const char *name = w.n > 0 ? w.word[0] : lc_tenant_name(s);
    struct lc_client *c = lc_client_new(s, NULL);
    struct lc_text path = lc_tenant_path(name, "/experiment");
    const struct lc_reply *r = lc_client_get(c, path.data);
    if (s->is_json || !lc_reply_ok(r)) {
        rc = lc_reply_print(s, r, name);
    } else {
        struct json_t *doc = lc_reply_json(r);
        const struct json_t *e = lc_json_get(doc, "experiment");
        if (lc_json_is_object(e))
            print_experiment(name, e);
        else
            lc_say("%s: nothing is counted: %s", name, lc_json_text(doc, "why"));
        lc_json_free(doc);
        rc = 0;
    }
    lc_text_close(&path);
    lc_client_free(c);
    return rc;
}

const struct lc_command lc_cmd_experiment = {
    .name = "experiment",
    .synopsis = "experiment [NAME]",
    .about = "whether an arm is better than the baseline, and whether to stop",
    .text =
        "Prints what the tenant's experiment has proved so far: what each arm earned, how much better it is than the\n"
        "baseline, and a verdict in words. It may be asked as often as one likes: that makes no sentence wrong.\n"
        "`needed` is about how many further decisions a verdict takes. docs/EXPERIMENTS.md explains it.\n\n"
        "  laplacectl tenant patch shop '{\"experiment\": {\"difference\": 0.01}}'\n"
        "  laplacectl experiment shop\n",
    .run = run_experiment,
};
