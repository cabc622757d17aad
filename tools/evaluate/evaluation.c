/* The work of `laplacectl evaluate`: see evaluation.h. Each policy has passes of its own over the log, since vectors
 * may differ in their dimensions; what is kept of a pass is constant, so several are compared in constant memory, too.
 */
#include "evaluate/evaluation.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/fingerprint.h"
#include "evaluate/policy_table.h"
#include "evaluate/report.h"
#include "evaluate/users_graph.h"

static bool has_file(const struct lc_target *g)
{
    return g->is_log || g->is_learning || strncmp(g->what, "distribution:", 13) == 0;
}

static const char *file_of(const struct lc_target *g)
{
    return g->what + (g->is_log || g->is_learning ? 0 : 13);
}

static const struct kb_spec *model_of(const struct lc_evaluation *q, const struct lc_target *g)
{
    return q->model != NULL ? &q->model_spec : g->is_learning ? &g->spec : NULL;
}

int lc_evaluation_dimensions(const struct lc_evaluation *q, const struct lc_target *g, struct lc_log_options *log,
                             struct ld_message *why)
{
    const struct kb_spec *b = model_of(q, g), *a = g->is_learning ? &g->spec : b;

    *log = q->log;
    if (b == NULL)
        return 0;
    log->read.names = g->is_learning && g->names.dim > 0 ? g->names : q->model_names;
    if (q->model_names.dim > 0 && !ld_name_map_is_same(&log->read.names, &q->model_names))
        return ld_fail(why, "--model: features must be those of the policy");
    log->read.context_dim = a->context_dim > 0 ? a->context_dim : b->context_dim;
    log->read.arm_dim = a->arm_dim > 0 ? a->arm_dim : b->arm_dim;
    if ((b->context_dim > 0 && b->context_dim != log->read.context_dim) ||
        (b->arm_dim > 0 && b->arm_dim != log->read.arm_dim))
        return ld_fail(why, "--model: context_dim and arm_dim must be 0 or those of the policy");
    return 0;
}

/* --- work --------------------------------------------------------------------------------------------- */

static struct ld_ope_policy *make_policy(const struct lc_evaluation *q, const struct lc_target *g,
                                         struct ld_message *why)
{
    struct lc_log_options other = q->log;

    if (g->is_log) {
        other.path = g->what;
        other.input = NULL;
        other.read.context_dim = other.read.arm_dim = 0;
        other.read.propensity = 0; /* arms are counted, whatever their propensities and values */
        other.read.needs_candidates = false;
        other.metric = NULL;
        return lc_policy_from_log(lc_log_format(q->format), &other, why);
    }
    if (g->is_learning)
        return ld_ope_policy_learning(&g->spec, q->ope.graph, why);
    if (strcmp(g->what, "uniform") == 0)
        return ld_ope_policy_even(false, why);
    if (strncmp(g->what, "arm:", 4) == 0)
        return ld_ope_policy_arm(g->what + 4, why);
    return strcmp(g->what, "logged") == 0 ? ld_ope_policy_even(true, why) : lc_policy_from_file(file_of(g), why);
}

/* What it is called in reports: without the folders of its file. */
static char *name_of(const struct lc_target *g)
{
    const char *slash = has_file(g) ? strrchr(g->what, '/') : NULL;
    struct lc_text t = {0};

    lc_text_puts(&t, g->is_log ? "policy-log:" : has_file(g) && !g->is_learning ? "distribution:" : "");
    lc_text_puts(&t, slash != NULL ? slash + 1 : has_file(g) ? file_of(g) : g->what);
    return t.data;
}

/* What a policy is judged with, for as long as the report is made. */
struct entry {
    char *name;
    struct ld_ope_policy *policy;
    struct lc_log log;
};

/* One policy over the log. Standard input, once copied to a file, goes from entry to entry. 0, or -1 with why. */
static int evaluate(struct lc_evaluation *q, const struct lc_target *g, struct entry *own,
                    struct ld_ope_report_entry *e, struct ld_message *why)
{
    struct ld_ope_options o = q->ope;
    struct lc_log_options options;
    const struct ld_decisions *log = &own->log.base;

    e->name = own->name = name_of(g);
    e->log = log;
    o.model = model_of(q, g);
    if (lc_evaluation_dimensions(q, g, &options, why) != 0 || (own->policy = make_policy(q, g, why)) == NULL)
        return -1;
    e->policy = own->policy;
    const int opened = lc_log_open(&own->log, lc_log_format(q->format), &options);
    if (opened != 0)
        *why = log->why;
    const int rc = opened == 0 ? ld_ope_evaluate(&own->log.base, own->policy, &o, &e->result, why) : -1;
    q->log.input = own->log.spool;
    own->log.spool = NULL;
    for (size_t i = 0; rc != 0 && i < LD_DECISIONS_REASONS && log->skipped[i].reason != NULL; i++)
        lc_fail("skipped: %zu %s", log->skipped[i].n, log->skipped[i].reason);
    return rc;
}

static void close_entry(struct entry *own, struct ld_ope_report_entry *e)
{
    ld_ope_close(&e->result);
    if (own->log.ops != NULL)
        lc_log_close(&own->log);
    ld_ope_policy_free(own->policy);
    free(own->name);
}

/* --- report ------------------------------------------------------------------------------------------- */

static void add_parameters(struct ld_ope_report *r, const struct lc_evaluation *q)
{
    const struct ld_ope_origin from = {.format = q->format,
                                       .estimators = q->estimators,
                                       .range = q->range,
                                       .propensity = q->propensity,
                                       .map = q->log.map,
                                       .metric = q->metric,
                                       .level_percent = q->level_percent,
                                       .read = q->log.read};

    ld_ope_report_describe(r, &from);
}

static int add_file(struct ld_ope_report *r, const char *role, const char *path, FILE *f, struct ld_message *why)
{
    return path == NULL ? 0 : lc_fingerprint(&r->file[r->n_files++], role, path, f, why->text);
}

static int add_files(struct ld_ope_report *r, const struct lc_evaluation *q, struct ld_message *why)
{
    int rc = add_file(r, "log", q->log.path, q->log.input, why);

    for (size_t i = 0; rc == 0 && i < q->n; i++)
        if (has_file(&q->target[i]))
            rc = add_file(r, q->target[i].is_log ? "policy-log" : "policy", file_of(&q->target[i]), NULL, why);
    if (rc == 0)
        rc = add_file(r, "model", q->model, NULL, why);
    if (rc == 0)
        rc = add_file(r, "graph", q->graph, NULL, why);
    return rc == 0 ? add_file(r, "items", q->log.items, NULL, why) : rc;
}

/* False with errno. */
static bool write_page(const struct ld_ope_report *r, FILE *f)
{
    struct lc_text t = {0};

    lc_report_page(r, &t);
    const bool is_written = fwrite(t.data, 1, t.n, f) == t.n;
    lc_text_close(&t);
    return is_written;
}

static void print(const struct ld_ope_report *r, bool is_json)
{
    struct lc_text t = {0};

    if (!is_json) {
        lc_report_print(r);
        return;
    }
    lc_report_text(r, &t);
    puts(t.data);
    lc_text_close(&t);
}

static int fail_page(const struct lc_evaluation *q, struct ld_message *why)
{
    return ld_fail(why, "--html: %.160s: %s", q->html, strerror(errno));
}

/* What is told of the policies that were judged. page: NULL: none. */
static int tell(struct lc_evaluation *q, struct ld_ope_report *r, bool is_json, struct lc_part *page,
                struct ld_message *why)
{
    int rc = 0;

    if (is_json || page != NULL) {
        add_parameters(r, q);
        rc = add_files(r, q, why);
    }
    if (rc == 0 && (is_json || page != NULL || r->n > 1) && ld_ope_report_prepare(r) != 0)
        lc_out_of_memory(q->ope.n_resamples, sizeof(double));
    if (rc == 0 && page != NULL && !write_page(r, page->file))
        rc = fail_page(q, why);
    return rc;
}

/* All policies, then everything that is told of them. */
static int work(struct lc_evaluation *q, bool is_json, struct lc_part *page, struct ld_message *why)
{
    struct ld_ope_report *r = lc_alloc(1, sizeof *r);
    struct entry *own = lc_alloc(q->n, sizeof *own);
    int rc = 0;

    r->entry = lc_alloc(q->n, sizeof *r->entry);
    r->o = &q->ope;
    for (; rc == 0 && r->n < q->n; r->n++)
        rc = evaluate(q, &q->target[r->n], &own[r->n], &r->entry[r->n], why);
    if (rc == 0)
        rc = tell(q, r, is_json, page, why);
    if (page != NULL && lc_part_close(page, rc == 0) != 0 && rc == 0)
        rc = fail_page(q, why);
    if (rc == 0)
        print(r, is_json);
    for (size_t i = 0; i < r->n; i++)
        close_entry(&own[i], &r->entry[i]);
    if (q->log.input != NULL)
        fclose(q->log.input);
    free(own);
    free(r->entry);
    free(r);
    return rc;
}

static int run(struct lc_evaluation *q, bool is_json, struct ld_message *why)
{
    struct lc_part page;

    if (q->html != NULL && lc_part_open(&page, q->html) != 0)
        return fail_page(q, why);
    return work(q, is_json, q->html != NULL ? &page : NULL, why);
}

/* The metric that is judged in place of the rewards, whose range is that of what is judged. */
static int find_metric(struct lc_evaluation *q, struct ld_message *why)
{
    if (q->metric == NULL)
        return 0;
    if (lc_metric_find(&q->judged, &q->log, why) != 0)
        return -1;
    if (q->judged.is_reward)
        return 0;
    q->log.metric = &q->judged;
    if (q->range == NULL) {
        q->ope.reward_lo = q->judged.is.low;
        q->ope.reward_hi = q->judged.is.high;
    }
    return 0;
}

/* Where the page will be written is found out first: evaluations may take long. */
int lc_evaluation_run(struct lc_evaluation *q, bool is_json, struct ld_message *why)
{
    struct lc_users_graph graph = {0};
    int rc = q->graph != NULL ? lc_users_graph_read(&graph, q->graph, why) : 0;

    q->ope.graph = q->graph != NULL ? &graph.event : NULL;
    if (rc == 0)
        rc = find_metric(q, why);
    if (rc == 0)
        rc = run(q, is_json, why);
    lc_users_graph_close(&graph);
    return rc;
}
