/* laplacectl evaluate: what policies would have earned, estimated from a log with propensities. No server is asked.
 *
 * Order of work: options -> configurations of the policies that learn -> for each policy the log, read twice (ope.c) ->
 * the report. Exit status 0 also when every estimator was refused: that is an answer. */
#include "ctl/commands.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/evaluation.h"
#include "json/json_in.h"
#include "evaluate/log_guess.h"

#define DEFAULT_CLIP 10.0
#define DEFAULT_UNSUPPORTED 0.05
#define MAX_RESAMPLES 100000u

static int usage(const char *what)
{
    lc_fail("%s", what);
    fputs("(laplacectl evaluate --help tells more)\n", stderr);
    return 2;
}

/* --- options ------------------------------------------------------------------------------------------ */

/* A tenant's configuration as PUT /tenants/{t} would take it. 0 or -1, printed. */
static int read_spec(const char *path, struct kb_spec *out, struct ld_name_map *names)
{
    struct lc_text text = {0};
    struct ld_doc *doc = NULL;
    struct ld_settings settings;
    struct ld_problem p;
    char why[LC_WHY];

    ld_problem_init(&p);
    if (lc_read_file(path, &text, why) != 0) {
        lc_fail("%s", why);
        return -1;
    }
    int rc = ld_doc_parse(&doc, text.data, text.n, false, &p);
    if (rc == 0)
        rc = ld_decode_settings(doc, &settings, &p);
    if (rc == 0) {
        *out = settings.spec;
        *names = settings.features;
    } else {
        lc_fail("%s: %s%s%s%s%s", path, p.detail, p.n_errors > 0 ? ": " : "", p.n_errors > 0 ? p.errors[0].pointer : "",
                p.n_errors > 0 ? " " : "", p.n_errors > 0 ? p.errors[0].detail : "");
    }
    ld_doc_free(doc);
    lc_text_close(&text);
    return rc;
}

static int read_estimators(struct lc_evaluation *q)
{
    if (q->estimators == NULL) {
        for (int i = 0; i < LD_OPE_N; i++)
            q->ope.is_wanted[i] = true;
        return 0;
    }
    char *copy = lc_copy(q->estimators), *rest = NULL;
    int rc = 0;
    for (const char *name = strtok_r(copy, ",", &rest); name != NULL && rc == 0; name = strtok_r(NULL, ",", &rest)) {
        int i = 0;
        while (i < LD_OPE_N && strcmp(ld_ope_name(i), name) != 0)
            i++;
        rc = i < LD_OPE_N ? 0 : -1;
        q->ope.is_wanted[rc == 0 ? i : 0] = true;
    }
    free(copy);
    return rc;
}

static int read_range(struct lc_evaluation *q)
{
    double lo, hi;
    int n = 0;

    if (q->range == NULL)
        return 0;
    if (sscanf(q->range, "%lf:%lf%n", &lo, &hi, &n) != 2 || q->range[n] != '\0' || !(lo < hi) || !isfinite(hi - lo))
        return -1;
    q->ope.reward_lo = lo;
    q->ope.reward_hi = hi;
    return 0;
}

/* "uniform", or a number in (0, 1]. */
static int read_propensity(struct lc_evaluation *q)
{
    char *end = NULL;

    if (q->propensity == NULL)
        return 0;
    if (strcmp(q->propensity, "uniform") == 0) {
        q->log.read.propensity = LD_DECISIONS_UNIFORM;
        return 0;
    }
    q->log.read.propensity = strtod(q->propensity, &end);
    return end != q->propensity && *end == '\0' && q->log.read.propensity > 0 && q->log.read.propensity <= 1 ? 0 : -1;
}

/* The format is asked for, not guessed: a guess that is wrong would give numbers all the same. */
static int ask_for_format(const struct lc_evaluation *q)
{
    char guess[LC_WHY], text[LC_WHY + 64];

    if (q->format != NULL || !lc_log_guess_file(q->log.path, guess))
        return usage("--format: expected obd, dsjson, ndjson or csv");
    snprintf(text, sizeof text, "--format is missing: %s", guess);
    return usage(text);
}

static int check_metric(struct lc_evaluation *q)
{
    struct ld_message why = {""};

    if (q->metric == NULL)
        return 0;
    if (strcmp(q->format, "ndjson") != 0)
        return usage(
            "--metric: expected --format ndjson, our own log; of other logs --map reward=NAME says what counts");
    if (!isnan(q->log.read.default_reward))
        return usage("--metric, --default-reward: a metric has a default of its own");
    return lc_metric_read(&q->judged, q->metric, &why) == 0 ? 0 : usage(why.text);
}

static int check(struct lc_evaluation *q)
{
    q->ope.level = q->level_percent / 100;
    if (q->format == NULL || lc_log_format(q->format) == NULL)
        return ask_for_format(q);
    if (q->policies.n + q->policy_logs.n == 0)
        return usage("expected --policy uniform|logged|arm:ID|distribution:FILE|CONFIG.json, or --policy-log FILE");
    if (q->policies.n + q->policy_logs.n > LC_MAX_POLICIES)
        return usage("--policy, --policy-log: expected at most 8 together");
    if (!(q->ope.level >= 0.5 && q->ope.level <= 0.9999))
        return usage("--level: expected percent from 50 to 99.99");
    if (q->ope.n_resamples < 50 || q->ope.n_resamples > MAX_RESAMPLES)
        return usage("--resamples: expected 50 to 100000");
    if (!(q->ope.clip > 0))
        return usage("--clip: expected a number > 0");
    if (!(q->ope.max_unsupported <= 1))
        return usage("--max-unsupported: expected a share from 0 to 1");
    if (read_estimators(q) != 0)
        return usage("--estimators: expected some of replay,ips,snips,clipped_ips,dr,ips_by_slot,pseudo_inverse");
    if (read_range(q) != 0)
        return usage("--reward-range: expected LO:HI, LO below HI");
    if (read_propensity(q) != 0)
        return usage("--propensity: expected uniform, or a number greater than 0 and at most 1");
    return check_metric(q);
}

/* --- configurations ----------------------------------------------------------------------------------- */

static int add_target(struct lc_evaluation *q, const char *what, bool is_log)
{
    struct lc_target *g = &q->target[q->n++];

    g->what = what;
    g->is_log = is_log;
    g->is_learning = !is_log && strcmp(what, "uniform") != 0 && strcmp(what, "logged") != 0 &&
                     strncmp(what, "distribution:", 13) != 0 && strncmp(what, "arm:", 4) != 0;
    return g->is_learning ? read_spec(what, &g->spec, &g->names) : 0;
}

/* All of them before the log is read. 0 or -1, printed. */
static int read_specs(struct lc_evaluation *q)
{
    struct lc_log_options log;
    struct ld_message why;

    if (q->model != NULL && read_spec(q->model, &q->model_spec, &q->model_names) != 0)
        return -1;
    for (size_t i = 0; i < q->policies.n; i++)
        if (add_target(q, q->policies.item[i], false) != 0)
            return -1;
    for (size_t i = 0; i < q->policy_logs.n; i++)
        if (add_target(q, q->policy_logs.item[i], true) != 0)
            return -1;
    for (size_t i = 0; i < q->n; i++)
        if (lc_evaluation_dimensions(q, &q->target[i], &log, &why) != 0) {
            lc_fail("%s", why.text);
            return -1;
        }
    return 0;
}

static struct lc_evaluation defaults(void)
{
    return (struct lc_evaluation){
        .log.read = {.default_reward = (double)NAN, .draws_only = true, .needs_candidates = true},
        .ope = {.n_resamples = 1000,
                .seed = 1,
                .clip = DEFAULT_CLIP,
                .max_unsupported = DEFAULT_UNSUPPORTED,
                .reward_lo = (double)NAN,
                .reward_hi = (double)NAN},
        .level_percent = 95};
}

static int run_evaluate(const struct lc_command *self, struct lc_session *s, int argc, char **argv)
{
    struct lc_evaluation q = defaults();
    size_t seed = 1, hash_seed = 0;
    double default_reward = -1;
    bool has_all = false;
    struct ld_message why = {""};
    struct lc_words w;
    const struct lc_opt opts[] = {
        {"format", LC_OPT_TEXT, &q.format, "NAME", "obd, dsjson, ndjson or csv"},
        {"policy", LC_OPT_LIST, &q.policies, "WHAT",
         "uniform, logged, arm:ID, distribution:FILE.csv, or CONFIG.json; several are compared with the first"},
        {"policy-log", LC_OPT_LIST, &q.policy_logs, "FILE",
         "the policy that shows arms as often as this log does, by position"},
        {"html", LC_OPT_TEXT, &q.html, "FILE", "write a page with plots as well"},
        {"model", LC_OPT_TEXT, &q.model, "CONFIG",
         "configuration of the model by which dr expects rewards (default: the policy's, else a mean per arm)"},
        {"graph", LC_OPT_TEXT, &q.graph, "FILE", "edge list of the users (CSV), for configurations that use a graph"},
        {"items", LC_OPT_TEXT, &q.log.items, "FILE", "obd: item_context.csv, the arms and their features"},
        {"map", LC_OPT_TEXT, &q.log.map, "MAP", "csv, ndjson: user=..,arm=..,reward=..,propensity=..,context=a+b"},
        {"estimators", LC_OPT_TEXT, &q.estimators, "LIST",
         "some of replay,ips,snips,clipped_ips,dr,ips_by_slot,pseudo_inverse (default all)"},
        {"metric", LC_OPT_TEXT, &q.metric, "NAME",
         "ndjson: judge this metric of our own log, by name or {\"name\":..,\"range\":..}; default: the reward"},
        {"level", LC_OPT_REAL, &q.level_percent, "PERCENT", "confidence of the intervals (default 95)"},
        {"resamples", LC_OPT_COUNT, &q.ope.n_resamples, "N", "samples of the bootstrap (default 1000)"},
        {"bernstein", LC_OPT_FLAG, &q.ope.is_bernstein, NULL,
         "empirical Bernstein intervals in place of the bootstrap's"},
        {"reward-range", LC_OPT_TEXT, &q.range, "LO:HI",
         "what rewards can be (default: as seen, 0:1 if that holds all)"},
        {"clip", LC_OPT_REAL, &q.ope.clip, "M", "largest weight of clipped_ips (default 10)"},
        {"min-ess", LC_OPT_REAL, &q.ope.min_ess, "N",
         "least effective sample size of an estimate (default: n/100, but 2 to 10)"},
        {"max-unsupported", LC_OPT_REAL, &q.ope.max_unsupported, "SHARE",
         "largest share of the policy's choices that the log never shows (default 0.05)"},
        {"default-reward", LC_OPT_REAL, &default_reward, "R",
         "reward of decisions without one (default: they are left out)"},
        {"propensity", LC_OPT_TEXT, &q.propensity, "P",
         "propensity of all decisions of a log that tells none: a number, or uniform (1 / number of arms)"},
        {"all-routes", LC_OPT_FLAG, &has_all, NULL,
         "ndjson: take repeats of arms that stuck, and baselines of one arm, as well"},
        {"skip-bad", LC_OPT_COUNT, &q.log.read.skip_bad, "N", "faulty lines to pass over and count (default 0)"},
        {"hash-seed", LC_OPT_COUNT, &hash_seed, "N", "seed of the hashing of features (default 0)"},
        {"seed", LC_OPT_COUNT, &seed, "N", "of replay and bootstrap (default 1)"},
    };
    int rc = lc_args_parse(self, s, opts, sizeof opts / sizeof opts[0], argc, argv, &w, 1, 1);
    if (rc != LC_GO)
        return rc;
    q.log.path = w.word[0];
    q.log.read.hash_seed = (uint32_t)hash_seed;
    q.ope.seed = seed;
    q.log.read.draws_only = !has_all;
    if (default_reward >= 0)
        q.log.read.default_reward = default_reward;
    rc = check(&q);
    if (rc != 0)
        return rc;
    if (read_specs(&q) != 0)
        return 1;
    return lc_evaluation_run(&q, s->is_json, &why) == 0 ? 0 : lc_fail("%s", why.text);
}

const struct lc_command lc_cmd_evaluate = {
    .name = "evaluate",
    .synopsis = "evaluate --format NAME (--policy WHAT | --policy-log FILE)... [--html FILE] [options] LOG",
    .about = "estimate from a log what other policies would have earned",
    .text =
        "LOG (\"-\": standard input; gzip and zstd are unpacked) is read twice. Formats:\n"
        "  obd      Open Bandit Dataset, CSV        dsjson  Vowpal Wabbit's contextual-bandit lines\n"
        "  ndjson   our own log (events, export), or objects with arm, reward, propensity, user?, context?\n"
        "  csv      any, by --map; context=a+b: numbers or categories, categories=c+d: always categories\n"
        "Estimators: replay by rejection, IPS, SNIPS, clipped IPS, doubly robust. Where the log cannot support an\n"
        "estimate, the reason stands in its place. docs/REPLAY.md has the definitions and an example.\n\n"
        "  laplacectl evaluate --format obd --policy uniform --json bts_men.csv\n"
        "  laplacectl evaluate --format ndjson --policy ts.json shop.ndjson.gz\n"
        "  laplacectl evaluate --format ndjson --policy ucb.json --policy ts.json --html shop.html shop.ndjson.gz\n",
    .run = run_evaluate,
};
