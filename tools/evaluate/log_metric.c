/* See log_metric.h. */
#include "evaluate/log_metric.h"

#include <string.h>

#include "common/json.h"
#include "evaluate/log_strict.h"
#include "evaluate/own_log.h"
#include "json/json_in.h"

/* The settings stand beside an objective of another name, so that they may have any role. */
#define BESIDE "{\"algorithm\":\"ucb\",\"aggregation\":\"sum\",\"metrics\":["
#define OTHER ",{\"name\":\"the objective beside it\",\"role\":\"objective\"}]}"
#define PLACE "/metrics/0" /* of the settings there */

static int blame(const struct ld_problem *p, struct ld_message *why)
{
    const struct ld_problem_error *first = &p->errors[0];
    const bool is_inside = p->n_errors > 0 && strncmp(first->pointer, PLACE, strlen(PLACE)) == 0;

    if (p->n_errors == 0)
        return ld_fail(why, "--metric: %.200s", p->detail);
    return ld_fail(why, "--metric: %.80s%s%.160s", first->pointer + (is_inside ? strlen(PLACE) : 0),
                   is_inside && first->pointer[strlen(PLACE)] == '\0' ? "" : " ", first->detail);
}

static int read_settings(struct lc_metric *m, const char *text, struct ld_message *why)
{
    struct lc_text whole = {0};
    struct ld_doc *doc = NULL;
    struct ld_settings settings;
    struct ld_problem p;

    ld_problem_init(&p);
    lc_text_puts(&whole, BESIDE);
    lc_text_puts(&whole, text);
    lc_text_puts(&whole, OTHER);
    int rc = ld_doc_parse(&doc, whole.data, whole.n, false, &p);
    if (rc == 0)
        rc = ld_decode_settings(doc, &settings, &p);
    if (rc == 0 && settings.n_metrics != 2)
        rc = ld_fail(why, "--metric: expected the settings of one metric");
    else if (rc == 0)
        m->is = settings.metric[0];
    else
        (void)blame(&p, why);
    m->is_told = true;
    ld_doc_free(doc);
    lc_text_close(&whole);
    return rc;
}

int lc_metric_read(struct lc_metric *m, const char *what, struct ld_message *why)
{
    *m = (struct lc_metric){.is_told = false};
    if (what[0] == '{')
        return read_settings(m, what, why);
    if (what[0] == '\0' || strlen(what) > KB_METRIC_MAX_BYTES)
        return ld_fail(why, "--metric: expected a name of 1 to %u bytes, or its settings in JSON", KB_METRIC_MAX_BYTES);
    strcpy(m->is.name, what);
    return 0;
}

bool lc_metric_counts(const struct lc_metric *m, const struct ld_settings *s)
{
    const struct ld_metric_settings *here = ld_settings_metric(s, m->is.name);

    if (!m->is_told)
        return ld_own_log_measures(s, &m->is);
    return here != NULL && ld_metric_is_measured(s, here) && here->aggregation == m->is.aggregation;
}

/* --- what the log says of it ------------------------------------------------------------------------------- */

struct search {
    struct lc_metric *m;
    bool has_configuration, has_metric; /* the last configuration; it has the metric */
    bool has_value;
};

static void take_settings(void *arg, const struct ld_settings *s)
{
    struct search *x = arg;
    const struct ld_metric_settings *here = ld_settings_metric(s, x->m->is.name);

    x->has_configuration = true;
    x->has_metric = here != NULL;
    x->m->is_reward = here != NULL && !ld_metric_is_measured(s, here);
    if (here != NULL && !x->m->is_told)
        x->m->is = *here;
}

/* A line that is faulty is told by the passes behind this one. */
static void look(struct search *x, struct lc_log *log, size_t n)
{
    char why[LC_WHY];
    struct json_t *doc = lc_json_parse(log->buffer, n, why);
    const char *type = lc_json_text(doc, "type"), *metric = lc_json_text(doc, "metric");

    if (type != NULL && lc_json_get(doc, "configuration") != NULL)
        (void)lc_log_settings(log, n, take_settings, x);
    if (type != NULL && metric != NULL && strcmp(metric, x->m->is.name) == 0 &&
        !lc_json_is_true(lc_json_get(doc, "late")))
        x->has_value = true;
    lc_json_free(doc);
}

static int conclude(const struct search *x, struct ld_message *why)
{
    const char *name = x->m->is.name;

    if (x->m->is_told && x->m->is_reward)
        return ld_fail(why, "--metric: \"%.64s\" is the log's single objective: give its name alone", name);
    if (x->has_metric || (x->m->is_told && x->has_value))
        return 0;
    if (x->m->is_told)
        return ld_fail(why, "--metric: the log has no value of \"%.64s\"", name);
    return ld_fail(why, "--metric: %s \"%.64s\"%s",
                   x->has_configuration ? "the log's last configuration has no metric"
                                        : "the log has no configuration that says what is",
                   name, x->has_value ? ", but there are values of it: give its settings in JSON" : "");
}

int lc_metric_find(struct lc_metric *m, struct lc_log_options *o, struct ld_message *why)
{
    const struct lc_log_options plain = {.path = o->path, .input = o->input};
    struct search x = {.m = m};
    struct lc_log log;
    size_t n;
    int rc = lc_log_open(&log, &lc_log_ndjson, &plain);

    while (rc == 0 && (rc = lc_log_line(&log, &n)) == 1) {
        look(&x, &log, n);
        rc = 0;
    }
    if (rc != 0)
        *why = log.base.why;
    o->input = log.spool;
    log.spool = NULL;
    lc_log_close(&log);
    return rc != 0 ? -1 : conclude(&x, why);
}
