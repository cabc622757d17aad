/* Changes of the configuration: PUT, PATCH, the switch, promotions. Each makes the settings that it asks for of those
 * in force in the writer's turn, and all end in expand_settings: one event, or none where nothing changes. So no change
 * overwrites another that it has not seen. */
#include <string.h>

#include "base/hash.h"
#include "base/metrics.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"
#include "json/json_in.h"
#include "json/json_out.h"

/* By names and values, in their order. */
static bool same_challengers(const struct ld_settings *a, const struct ld_settings *b)
{
    if (a->n_challengers != b->n_challengers)
        return false;
    for (size_t i = 0; i < a->n_challengers; i++)
        if (strcmp(a->challenger[i].spec.algorithm, b->challenger[i].spec.algorithm) != 0 ||
            !ld_challenger_is_same(&a->challenger[i], &b->challenger[i]))
            return false;
    return a->is_logging_candidates == b->is_logging_candidates &&
           strcmp(a->guardrail.baseline, b->guardrail.baseline) == 0 && a->guardrail.level == b->guardrail.level &&
           a->guardrail.min_decisions == b->guardrail.min_decisions &&
           a->guardrail.has_range == b->guardrail.has_range &&
           (!a->guardrail.has_range ||
            (a->guardrail.low == b->guardrail.low && a->guardrail.high == b->guardrail.high)) &&
           strcmp(a->promotion.challenger, b->promotion.challenger) == 0 && a->promotion.reason == b->promotion.reason;
}

static bool same_metrics(const struct ld_settings *a, const struct ld_settings *b)
{
    for (size_t i = 0; i < a->n_metrics && i < b->n_metrics; i++)
        if (!ld_metric_is_same(&a->metric[i], &b->metric[i]))
            return false;
    return a->n_metrics == b->n_metrics;
}

/* Every value that the log keeps of a configuration. The digest covers the numbers; the name of the algorithm is
 * compared besides, since two presets may resolve to the same values. */
static bool same_settings(const struct ld_settings *a, const struct ld_settings *b)
{
    return a->is_relaxed == b->is_relaxed && a->keep_events == b->keep_events && a->keep_age_ms == b->keep_age_ms &&
           strcmp(a->spec.algorithm, b->spec.algorithm) == 0 &&
           kb_spec_digest(&a->spec, KB_HASH_INIT) == kb_spec_digest(&b->spec, KB_HASH_INIT) && same_challengers(a, b) &&
           ld_experiment_is_same(&a->experiment, &b->experiment) && same_metrics(a, b) &&
           ld_name_map_is_same(&a->features, &b->features) &&
           ld_personalizer_is_same(&a->personalizer, &b->personalizer);
}

/* Dimensions are part of every vector in the log: they may move only while there is none. Before the first
 * configuration, and as long as nothing was decided or learned, any dimensions will do. */
static bool refuse_dims(const struct ld_tenant *t, const struct kb_engine_counts *counts, struct ld_op *op)
{
    const struct kb_spec *now = &t->settings.spec, *next = &op->settings->spec;
    const bool is_context = now->context_dim != next->context_dim;

    if (counts->version == 0 || (!is_context && now->arm_dim == next->arm_dim))
        return false;
    if (counts->decided == 0 && counts->observed == 0 && counts->history_rows == 0)
        return false;
    /* The pointer names the first field that would have to go back. */
    ld_problem_set(ld_op_problem(op), 409, "dimensions cannot change once the tenant has decisions or has learned");
    ld_problem_add(ld_op_problem(op), is_context ? "/context_dim" : "/arm_dim", "is %u in this tenant",
                   is_context ? now->context_dim : now->arm_dim);
    return true;
}

/* Vectors in the log and in the catalogue were mapped by the mapping in force, and are not mapped anew. Of a tenant
 * that had none nobody knows how its vectors were made, so it may get one. */
static bool refuse_features(const struct ld_tenant *t, const struct kb_engine_counts *counts, struct ld_op *op)
{
    const struct ld_name_map *now = &t->settings.features, *next = &op->settings->features;

    if (counts->version == 0 || now->dim == 0 || next->dim == 0 || ld_name_map_is_same(now, next))
        return false;
    if (counts->decided == 0 && counts->observed == 0 && counts->history_rows == 0 && counts->arms == 0)
        return false;
    ld_problem_set(ld_op_problem(op), 409,
                   "features cannot change once the tenant has arms, has decided or has learned");
    ld_problem_add(ld_op_problem(op), "/features", "is another mapping in this tenant");
    return true;
}

/* Where servers share the log, one of before would not read what it does not know. */
static bool refuse_version(const struct ld_tenant *t, struct ld_op *op)
{
    const struct ld_settings *next = op->settings;

    if ((next->features.user[0] == '\0' && !next->personalizer.is_explained) ||
        ld_shared_version(t) >= LD_LOG_VERSION_RANKS)
        return false;
    ld_op_refuse_busy(op,
                      "`features.user` and explanations of ranks wait until all servers know them (laplacectl cluster "
                      "upgrade); nothing was changed");
    return true;
}

/* Settings equal to those in force are answered like a change and leave no event: PUT is idempotent. Versions count
 * the configurations in the log, without gaps. A change of the model's parts may bring a dictionary reset behind it,
 * which the engine draws up and commit_stage.c stages. */
static int expand_settings(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_entry entry = {.ev = {.type = KB_EV_CONFIGURED}, .settings = op->settings};
    if (op->by[0] != '\0')
        entry.ev.by = op->by;
    struct kb_engine_counts counts;
    struct kb_errmsg msg = {.text = ""};

    ld_batch_flush(t); /* the checks below want the state with everything applied */
    kb_engine_counts(t->engine, &counts);
    if (counts.version > 0 && same_settings(&t->settings, op->settings))
        return 0;
    if (refuse_dims(t, &counts, op) || refuse_features(t, &counts, op) || refuse_version(t, op))
        return 0;
    entry.ev.as.configured.spec = &op->settings->spec;
    entry.ev.as.configured.version = counts.version + 1;
    return ld_op_conclude(op, ld_batch_stage(t, &entry, &msg), &msg);
}

/* A PUT without `algorithm` asks for the default one, which is seldom meant where a tenant has learned with another. */
static bool forgets_algorithm(const struct ld_tenant *t, const struct kb_engine_counts *counts, struct ld_op *op)
{
    const char *now = t->settings.spec.algorithm, *next = op->settings->spec.algorithm;

    if (op->doc == NULL || ld_doc_has_member(op->doc, "algorithm")) /* without a document the settings are whole */
        return false;
    if (t->seq == counts->version || strcmp(now, next) == 0)
        return false;
    ld_problem_set(ld_op_problem(op), 409,
                   "without `algorithm` this would change the tenant's from %s to %s: name the one that is meant, or "
                   "change single fields by PATCH",
                   now, next);
    ld_problem_add(ld_op_problem(op), "/algorithm", "is \"%s\" in this tenant, which has learned", now);
    return true;
}

/* Each configuration is one event; where there are others, there is something to lose. */
int ld_settings_expand(struct ld_tenant *t, struct ld_op *op)
{
    struct kb_engine_counts counts;

    ld_batch_flush(t);
    kb_engine_counts(t->engine, &counts);
    return forgets_algorithm(t, &counts, op) ? 0 : expand_settings(t, op);
}

/* The handler has merged the patch before, to tell faults early; what counts is the configuration in force now. */
int ld_patch_expand(struct ld_tenant *t, struct ld_op *op)
{
    struct kb_engine_counts counts;
    struct ld_problem p;

    ld_batch_flush(t);
    kb_engine_counts(t->engine, &counts);
    ld_problem_init(&p);
    if (ld_decode_patch(op->doc, &t->settings, counts.version, op->settings, &p) == 0)
        return expand_settings(t, op);
    *ld_op_problem(op) = p;
    return 0;
}

/* The rest of the configuration is not read again: the switch works whatever stands there. */
int ld_switch_expand(struct ld_tenant *t, struct ld_op *op)
{
    ld_batch_flush(t);
    *op->settings = t->settings;
    op->settings->spec.routing.is_stopped = op->is_stopping;
    if (op->is_stopping && t->settings.spec.routing.baseline == KB_BASELINE_NONE) {
        ld_problem_set(ld_op_problem(op), 409,
                       "a stopped tenant shows its baseline, and this one has none: PATCH it with {\"routing\": "
                       "{\"stopped\": true, \"holdout\": {\"baseline\": {\"arm\": ID}}}}, or with {\"rule\": "
                       "\"uniform\"} as the baseline");
        return 0;
    }
    return expand_settings(t, op);
}

/* A promotion is a configuration that is made of the one in force when its turn has come: two of them, or one beside a
 * PUT, come one after the other. */
int ld_promote_expand(struct ld_tenant *t, struct ld_op *op)
{
    struct kb_engine_counts counts;
    struct ld_problem p;

    ld_batch_flush(t);
    kb_engine_counts(t->engine, &counts);
    ld_problem_init(&p);
    const int rc = ld_promote(&t->settings, counts.version, &op->promotion, op->settings, &p);
    if (rc == 0)
        return expand_settings(t, op);
    if (rc < 0)
        *ld_op_problem(op) = p;
    return 0;
}

/* The tenant as GET would show it. No lock: the writer is the one who could change it. */
void ld_settings_answer(struct ld_tenant *t, struct ld_op *op)
{
    struct kb_engine_counts counts;
    struct ld_tenant_view view = {.name = t->name, .settings = &t->settings, .counts = &counts};
    size_t n = 0;
    char *text;

    kb_engine_counts(t->engine, &counts);
    kb_engine_build_state(t->engine, &view.build);
    ld_tenant_graph(t, &view.graph);
    ld_tenant_log(t, &view.log);
    view.in_force = kb_engine_spec(t->engine);
    text = ld_encode_tenant(&view, &n);
    ld_op_reply_text(op, text, n);
}

void ld_promote_answer(struct ld_tenant *t, struct ld_op *op)
{
    struct ld_metrics *m = t->world->metrics;

    ld_settings_answer(t, op);
    atomic_fetch_add_explicit(&m->promotions, 1, memory_order_relaxed);
    if (op->promotion.reason == LD_PROMOTED_BY_GUARDRAIL)
        atomic_fetch_add_explicit(&m->guardrail_promotions, 1, memory_order_relaxed);
}
