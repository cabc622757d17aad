/* What a tenant is and has learned: views of tenants, the model. Schemas: openapi.yaml.
 *
 * Called under the tenant's read lock: the engine does not move. Only ld_end_model, whose facts cost O(m^3 / 3) for m
 * points, wants none. The digest passes over the posterior and the catalogue; what it says of rows, open decisions and
 * the graph is kept with every change.
 *
 * The configuration is shown twice: as it was given, defaults filled in, and as it is in force, where a median
 * lengthscale is a number and an exact representation may have become a dictionary. */
#include "json/json_split.h"
#include "json/json_out.h"
#include "json/json_out_stats.h"

#include <math.h>
#include <stdio.h>

#include "json/json_util.h"

/* --- tenants ----------------------------------------------------------------------------------------- */

/* The configuration as it was given, and the parameters that it amounts to now. */
static void put_configuration(struct ld_text *t, const struct ld_tenant_view *v)
{
    ld_text_put_count(t, "version", v->counts->version);
    ld_text_key(t, "configuration");
    ld_text_settings(t, v->settings);
    ld_text_key(t, "parameters");
    ld_text_parameters(t, v->in_force);
}

/* How far a new model is, while one is built beside the writer. */
static void put_rebuild(struct ld_text *t, const struct kb_build_state *build)
{
    if (!build->is_open || !build->is_reset)
        return;
    ld_text_key(t, "rebuild");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "from", build->from);
    ld_text_put_count(t, "points", build->rows);
    ld_text_put_number(t, "progress", build->progress);
    ld_text_lit(t, "}");
}

/* And how far a new graph is. */
static void put_graph(struct ld_text *t, const struct ld_graph_view *graph)
{
    if (graph->n_changes == 0)
        return;
    ld_text_key(t, "graph");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "changes", graph->n_changes);
    ld_text_put_string(t, "stage", graph->stage);
    ld_text_put_number(t, "progress", graph->progress);
    ld_text_lit(t, "}");
}

static void put_log(struct ld_text *t, const struct ld_log_view *log)
{
    ld_text_key(t, "log");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "first", log->first);
    ld_text_put_count(t, "summarized", log->summarized);
    ld_text_put_count(t, "bytes", log->bytes);
    ld_text_put_bool(t, "compacting", log->is_compacting);
    if (log->is_shared) {
        ld_text_put_count(t, "lag_events", log->lag_events);
        ld_text_put_number(t, "lag_seconds", (double)log->lag_us / 1e6);
    }
    ld_text_lit(t, "}");
}

/* Only of a tenant that is: before which line, and why. */
static void put_read_only(struct ld_text *t, const struct ld_tenant_view *v)
{
    if (v->read_only_from == 0)
        return;
    ld_text_key(t, "read_only");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "seq", v->read_only_from);
    ld_text_put_string(t, "fault", v->detail);
    ld_text_lit(t, "}");
}

char *ld_encode_tenant(const struct ld_tenant_view *v, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "name", v->name);
    put_configuration(&t, v);
    ld_text_put_count(&t, "seq", v->counts->seq);
    ld_text_put_count(&t, "events", v->counts->learned);
    ld_text_put_bool(&t, "rebuilding", v->is_rebuilding || (v->build.is_open && v->build.is_reset));
    put_rebuild(&t, &v->build);
    put_graph(&t, &v->graph);
    put_log(&t, &v->log);
    put_read_only(&t, v);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

static void put_list_row(struct ld_text *t, const struct ld_tenant_view *v)
{
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "name", v->name);
    ld_text_put_string(t, "state", v->state);
    if (v->detail[0] != '\0')
        ld_text_put_string(t, "detail", v->detail);
    if (v->settings != NULL) {
        ld_text_put_string(t, "algorithm", v->settings->spec.algorithm);
        ld_text_put_count(t, "version", v->counts->version);
        ld_text_put_count(t, "events", v->counts->learned);
        ld_text_put_count(t, "decisions", v->counts->decided);
        if (v->overview != NULL)
            ld_put_overview(t, v);
    }
    ld_text_lit(t, "}");
}

/* One row a tenant: what a list on a screen shows, as far as it is known without opening the tenant. */
char *ld_encode_tenants(const struct ld_tenant_view *v, size_t n_tenants, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{\"tenants\":[");
    for (size_t i = 0; i < n_tenants; i++) {
        put_list_row(&t, &v[i]);
    }
    ld_text_lit(&t, "]}");
    return ld_text_take(&t, n);
}

/* --- the model --------------------------------------------------------------------------------------- */

/* The coordinates of a point are its context, then its arm's features. */
static void put_point(struct ld_text *t, const struct kb_engine *e, const struct kb_point *p)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "user", kb_engine_user(e, p->user.index));
    ld_text_key(t, "context");
    ld_text_vector(t, p->x, spec->context_dim);
    ld_text_key(t, "features");
    if (spec->arm_dim > 0)
        ld_text_vector(t, p->x + spec->context_dim, spec->arm_dim);
    else
        ld_text_lit(t, "null");
    ld_text_put_string(t, "arm", kb_engine_arm_id(e, p->arm));
    ld_text_lit(t, "}");
}

/* Under `exact` these are all distinct points; the list is as long as the model is large. */
static void put_dictionary(struct ld_text *t, const struct kb_engine *e, const struct kb_posterior *posterior)
{
    ld_text_key(t, "dictionary");
    ld_text_lit(t, "[");
    size_t n = posterior != NULL ? kb_posterior_n_support(posterior) : 0;
    for (size_t i = 0; i < n; i++) {
        struct kb_point p = kb_posterior_support_point(posterior, i);
        put_point(t, e, &p);
    }
    ld_text_lit(t, "]");
}

static void put_confidence(struct ld_text *t, const struct kb_conf_facts *facts, uint64_t n_empty)
{
    ld_text_key(t, "confidence");
    ld_text_lit(t, "{");
    ld_text_put_number(t, "norm_bound", facts->norm_bound);
    ld_text_put_number(t, "norm_least", facts->norm_least);
    ld_text_put_number(t, "radius", facts->radius);
    ld_text_put_number(t, "projection_error", facts->projection_error);
    ld_text_put_count(t, "empty_sets", n_empty);
    ld_text_lit(t, "}");
}

/* Of an arm's variance before anything is learned, at a user and a context like any other. */
static void put_shares(struct ld_text *t, const struct kb_spec *spec, bool has_graph)
{
    const struct kb_spec parts = kb_spec_of_parts(spec, has_graph);
    const bool is_sum = kb_repr_is_of_components(spec->repr.type),
               has_users = is_sum && parts.user_kernel.type != KB_USER_ONES,
               has_contexts = is_sum && parts.context_kernel.type != KB_VEC_ONES;
    const struct {
        const char *name, *words;
        double variance;
    } part[] = {{"arm", "the arm alone, whoever asks", spec->prior.arm},
                {"feature", "what arms with like features have in common",
                 spec->repr.type == KB_REPR_BY_COMPONENT ? spec->prior.feature : 0},
                {"user",
                 kb_user_kernel_reads_graph(parts.user_kernel.type) ? "the users and their friends" : "the users",
                 has_users ? spec->prior.user : 0},
                {"context", "contexts that are alike", has_contexts ? spec->prior.context : 0},
                {"linear", "contexts, in a straight line", has_contexts ? spec->prior.linear : 0}};
    const size_t n = sizeof part / sizeof *part;
    char words[320] = "";
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += part[i].variance;
    ld_text_key(t, "shares");
    ld_text_lit(t, "{");
    for (size_t i = 0; i < n; i++)
        ld_text_put_number(t, part[i].name, sum > 0 ? part[i].variance / sum : 0);
    ld_text_lit(t, "}");
    for (size_t i = 0; i < n && sum > 0; i++) {
        const size_t at = strlen(words);
        if (part[i].variance > 0)
            (void)snprintf(words + at, sizeof words - at, "%s%.0f %% %s",
                           at > 0 ? ", " : "What an arm earns is expected to depend on: ", 100 * part[i].variance / sum,
                           part[i].words);
    }
    ld_text_put_string(t, "words", words);
}

/* What a model that has a prior has found out of itself. */
static void put_scales(struct ld_text *t, const struct kb_engine *e)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    size_t n = 0;
    const struct kb_tuning *history = kb_engine_tunings(e, &n);
    struct kb_tuning in_force = {0};

    if (!kb_spec_has_prior(spec))
        return;
    ld_text_key(t, "scales");
    ld_text_lit(t, "{");
    ld_text_key(t, "in_force");
    kb_tuning_take(&in_force, spec);
    ld_text_tuning(t, &in_force, false);
    if (spec->n_scaled > 0 && spec->spaces.n > 0) {
        struct kb_split weights = spec->spaces;
        for (uint32_t g = 0; g < weights.n; g++)
            weights.weight[g] = 1 / (spec->scale[g] * spec->scale[g]);
        ld_text_key(t, "namespaces");
        ld_text_split(t, &weights);
    } else if (spec->n_scaled > 0) {
        ld_text_key(t, "scale");
        ld_text_lit(t, "[");
        for (size_t j = 0; j < spec->n_scaled; j++) {
            ld_text_item(t);
            ld_text_number(t, spec->scale[j]);
        }
        ld_text_lit(t, "]");
    }
    put_shares(t, spec, kb_engine_graph(e) != NULL);
    ld_text_key(t, "next");
    if (spec->is_tuned && spec->learned != 0)
        ld_text_number(t, kb_tuning_next(n > 0 ? history[n - 1].rewards : 0));
    else
        ld_text_lit(t, "null");
    ld_text_key(t, "history");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_tuning(t, &history[i], true);
    }
    ld_text_lit(t, "]}");
}

/* Where it has happened: that arms earned less than foretold, and what became of what was learned (`changed`). */
static void put_changes(struct ld_text *t, const struct kb_engine_counts *counts)
{
    char words[160];

    if (counts->n_changes == 0)
        return;
    (void)snprintf(words, sizeof words,
                   "What arms earn has changed %llu time%s, last by event %llu: what was learned before it counts next "
                   "to nothing.",
                   (unsigned long long)counts->n_changes, counts->n_changes > 1 ? "s" : "",
                   (unsigned long long)counts->last_change);
    ld_text_key(t, "changes");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "count", counts->n_changes);
    ld_text_put_count(t, "last", counts->last_change);
    ld_text_put_string(t, "words", words);
    ld_text_lit(t, "}");
}

/* What takes long is left to ld_end_model. */
int ld_begin_model(const struct ld_tenant_view *v, const struct kb_engine *e, struct ld_model_text *m)
{
    const struct kb_posterior *posterior = kb_engine_posterior(e);
    char digest[24], content[24], logical[24];

    *m = (struct ld_model_text){.work = NULL};
    if (posterior != NULL) {
        kb_confidence_facts(posterior, &kb_engine_spec(e)->conf, &m->confidence);
        if (kb_posterior_look(posterior, &m->work) != KB_OK)
            return -1;
    }
    (void)snprintf(digest, sizeof digest, "%016llx", (unsigned long long)kb_engine_digest(e));
    (void)snprintf(content, sizeof content, "%016llx", (unsigned long long)kb_engine_content_digest(e));
    (void)snprintf(logical, sizeof logical, "%016llx", (unsigned long long)kb_engine_logical_digest(e));
    struct ld_text *t = &m->text;
    ld_text_init(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "tenant", v->name);
    ld_text_put_string(t, "algorithm", v->settings->spec.algorithm);
    put_configuration(t, v);
    ld_text_put_count(t, "events", v->counts->learned);
    ld_text_put_count(t, "seq", v->counts->seq);
    put_dictionary(t, e, posterior);
    put_scales(t, e);
    put_changes(t, v->counts);
    ld_text_put_string(t, "digest", digest);
    ld_text_put_string(t, "content_digest", content);
    ld_text_put_string(t, "logical_digest", logical);
    return 0;
}

/* As the confidence rule saw it last; null where none reads it. */
static void put_spectrum(struct ld_text *t, const struct kb_posterior_facts *facts)
{
    ld_text_key(t, "spectrum");
    if (facts->n_top == 0) {
        ld_text_lit(t, "null");
        return;
    }
    ld_text_lit(t, "{");
    ld_text_put_number(t, "observations", facts->n_seen);
    ld_text_key(t, "eigenvalues");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < facts->n_top; i++) {
        ld_text_item(t);
        ld_text_number(t, facts->top[i]);
    }
    ld_text_lit(t, "]}");
}

static void put_history(struct ld_text *t, const struct ld_model_history *h)
{
    if (h == NULL)
        return;
    ld_text_key(t, "history");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < h->n; i++) {
        const struct ld_model_point *p = &h->point[i];
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_count(t, "seq", p->seq);
        ld_text_put_time(t, "at", p->at_ms);
        ld_text_put_count(t, "version", p->version);
        ld_text_put_count(t, "events", p->learned);
        ld_text_put_count(t, "points", p->points);
        ld_text_put_known(t, "cap", p->cap);
        ld_text_put_known(t, "effective_dimension", p->effective_dimension);
        ld_text_put_known(t, "information_gain", p->information_gain);
        ld_text_put_known(t, "first_weight", p->first_weight);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

char *ld_end_model(struct ld_model_text *m, const struct ld_model_history *history, size_t *n)
{
    struct kb_posterior_facts facts = {0};

    if (m->work != NULL && kb_facts_finish(m->work, &facts) != KB_OK)
        m->text.is_failed = true;
    ld_text_put_number(&m->text, "effective_dimension", facts.effective_dimension);
    ld_text_put_number(&m->text, "information_gain", facts.information_gain);
    ld_text_put_count(&m->text, "clamped", facts.n_clamped);
    put_spectrum(&m->text, &facts);
    put_confidence(&m->text, &m->confidence, facts.n_empty);
    put_history(&m->text, history);
    ld_text_lit(&m->text, "}");
    return ld_text_take(&m->text, n);
}
