/* Events that change the model: configured, graph (and arms, in engine_arms.c).
 *
 * While the history is empty they install a new, empty posterior themselves. Otherwise the posterior must be built
 * anew from the history, with a dictionary that chance had a hand in: the event is then followed in the log by a
 * dictionary reset (engine_reset.c), and what readers see (graph, posterior) changes at that reset, in one step. */
#include "model/engine_impl.h"
#include "base/magnitude.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "model/graph_draft.h"
#include "base/grow.h"
#include "spec/fields.h"

const struct kb_spec *kb_engine_coming_spec(const struct kb_engine *e)
{
    if (e->staged->has_spec)
        return &e->staged->spec;
    return kb_engine_is_rebuilding(e) ? &e->build->spec : &e->spec;
}

const struct kb_graph *kb_engine_coming_graph(const struct kb_engine *e, const struct kb_spec *spec)
{
    if (!kb_user_kernel_reads_graph(spec->user_kernel.type))
        return NULL;
    return e->staged->graph != NULL ? e->staged->graph->graph.graph : e->graph.graph;
}

const struct kb_user_graph *kb_engine_last_graph(const struct kb_engine *e)
{
    return kb_engine_is_rebuilding(e) && e->build->has_graph ? &e->build->graph->graph : &e->graph;
}

bool kb_engine_changes_model(const struct kb_engine *e)
{
    const struct kb_staged *s = e->staged;

    if (kb_engine_is_rebuilding(e) && (s->graph != NULL || s->has_spec))
        return true; /* what is on its way begins anew with it */
    if (s->graph != NULL)
        return kb_user_kernel_reads_graph(e->spec.user_kernel.type);
    return s->has_spec && (!e->is_configured || !kb_spec_same_model(&e->configured, &s->configured));
}

void kb_engine_drop_model_stage(struct kb_engine *e)
{
    struct kb_staged *s = e->staged;

    kb_posterior_free(s->posterior);
    s->posterior = NULL;
    kb_graph_ref_release(s->graph);
    s->graph = NULL;
    kb_build_free(s->build);
    s->build = NULL;
    kb_free(s->node_of);
    s->node_of = NULL;
    s->cap_nodes = 0;
    kb_free(s->atoms);
    s->atoms = NULL;
    kb_anew_free(s->anew);
    s->anew = NULL;
    s->has_spec = s->is_planned = s->has_tuning = false;
}

enum kb_err kb_engine_begin_heavy(struct kb_engine *e)
{
    if (e->staged->n_events > 0)
        return KB_EBUSY;
    e->staged->is_heavy = true;
    return KB_OK;
}

/* Builds the empty posterior that a change installs by itself when there is no history to rebuild from. */
static enum kb_err build_empty(struct kb_engine *e, const struct kb_event *ev)
{
    const struct kb_spec *spec = kb_engine_coming_spec(e);
    struct kb_staged *s = e->staged;
    enum kb_err rc = KB_OK;

    if (e->history.n > 0 || kb_engine_is_quiet(e, ev->seq) || !kb_engine_changes_model(e))
        return KB_OK;
    KB_TRY(kb_posterior_new(&s->posterior, spec, kb_engine_coming_graph(e, spec), e->key));
    KB_TRY(kb_engine_open_all(e, s->posterior, s->graph != NULL ? s->node_of : e->node_of, e->users.n, &e->scratch));
out:
    return rc;
}

/* Swaps the staged empty posterior in, and the graph with it; or leaves both to the reset that follows: true. */
static bool install_or_wait(struct kb_engine *e)
{
    struct kb_staged *s = e->staged;
    const bool waits = e->history.n > 0 && kb_engine_changes_model(e);

    if (s->posterior != NULL && !waits) {
        kb_engine_retire_posterior(e, e->posterior);
        e->posterior = s->posterior;
        s->posterior = NULL;
        kb_engine_mark_open(e);
    }
    if (s->graph != NULL && !waits)
        kb_engine_install_graph(e, s->graph);
    s->awaits_reset |= waits;
    return waits;
}

/* ---- configured ------------------------------------------------------------------------------------ */

static enum kb_err check_dimensions(const struct kb_engine *e, const struct kb_spec *spec, struct kb_errmsg *msg)
{
    const bool is_other_context = spec->context_dim != e->spec.context_dim,
               is_other_arm = spec->arm_dim != e->spec.arm_dim;
    const char *pointer = is_other_context ? "/context_dim" : "/arm_dim";

    if (!e->is_configured || (!is_other_context && !is_other_arm))
        return KB_OK;
    if (e->history.n > 0 || e->n_decided > 0)
        return kb_fail(KB_ECONFLICT, msg, pointer, "dimensions are fixed once decisions or rewards are recorded");
    if (is_other_arm && e->arms.n_catalogue > 0)
        return kb_fail(KB_ECONFLICT, msg, "/arm_dim", "empty the catalogue before its features change their dimension");
    return KB_OK;
}

/* Bounds count every reward in full, and what is forgotten does not come back. */
static enum kb_err check_forgotten(const struct kb_engine *e, const struct kb_spec *spec, struct kb_errmsg *msg)
{
    if (spec->conf.type == KB_CONF_FIXED || !(kb_decay_halvings(&e->decay, &e->spec.forgetting) > 0))
        return KB_OK;
    return kb_fail(KB_ECONFLICT, msg, "/confidence/type",
                   "rewards of this tenant have been forgotten in part, and bounds count them in full: take fixed");
}

/* A log may begin anywhere below the bound, or leave some out; from there on it counts by one. */
static enum kb_err check_version(const struct kb_engine *e, uint64_t version, struct kb_errmsg *msg)
{
    if (version <= KB_MOST_NUMBER || version == e->version + 1)
        return KB_OK;
    return kb_fail(KB_ERANGE, msg, "/version", "expected at most %llu", (unsigned long long)KB_MOST_NUMBER);
}

static enum kb_err reserve_configured(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_staged *s = e->staged;
    enum kb_err rc = kb_spec_check(ev->as.configured.spec, msg);

    KB_TRY(rc);
    KB_TRY(check_version(e, ev->as.configured.version, msg));
    KB_TRY(check_dimensions(e, ev->as.configured.spec, msg));
    KB_TRY(check_forgotten(e, ev->as.configured.spec, msg));
    KB_TRY(kb_engine_measure_all(e, ev->as.configured.spec, msg));
    KB_TRY(kb_engine_begin_heavy(e));
    KB_TRY(kb_user_kernel_check(&ev->as.configured.spec->user_kernel, kb_engine_last_graph(e)->n, "/user_kernel/type",
                                msg));
    KB_TRY(kb_user_kernel_check_solvable(&ev->as.configured.spec->user_kernel, kb_engine_last_graph(e)->graph,
                                         "/user_kernel", msg));
    s->has_spec = true;
    s->configured = s->spec = *ev->as.configured.spec;
    /* what was found out is not forgotten; what was fixed, of a model that has such values, is where the search begins
     */
    if (e->is_configured && kb_spec_has_prior(&e->spec))
        kb_spec_keep_learned(&s->spec, &e->spec);
    if (!kb_engine_changes_model(e)) { /* what resets have moved stays in force */
        s->spec.repr.type = e->spec.repr.type;
        s->spec.context_kernel.lengthscale = e->spec.context_kernel.lengthscale;
        s->spec.arm_kernel.lengthscale = e->spec.arm_kernel.lengthscale;
        kb_spec_drop_unserved_confidence(&s->spec);
        if (kb_spec_reads_spectrum(&s->spec) && !kb_spec_reads_spectrum(&e->spec))
            s->spec.conf.type = KB_CONF_FIXED; /* a reset has moved to what keeps none for it: until the next one */
    }
    KB_TRY(build_empty(e, ev));
out:
    return rc;
}

static void apply_configured(struct kb_engine *e, const struct kb_event *ev)
{
    struct kb_staged *s = e->staged;
    const size_t dim = (size_t)s->spec.context_dim + s->spec.arm_dim;

    if (e->history.dim != dim) {
        assert(e->history.n == 0);
        kb_history_close(&e->history);
        kb_history_init(&e->history, dim, e->key);
        e->decay = (struct kb_decay){0};
    }
    if (install_or_wait(e))
        kb_spec_take_books(&e->spec, &s->spec); /* the rest is in force with the new model */
    else
        kb_engine_put_spec(e, &s->spec);
    e->configured = s->configured;
    e->version = ev->as.configured.version;
    e->is_configured = true;
}

/* ---- graph ----------------------------------------------------------------------------------------- */

/* As many as there is room for after `grow`. */
enum kb_err kb_engine_stage_nodes(struct kb_engine *e, const struct kb_user_graph *g)
{
    struct kb_staged *s = e->staged;
    const size_t cap = kb_grown_cap(e->cap_nodes, e->users.n + s->fresh_users.n + 1, 64);

    kb_free(s->node_of);
    s->node_of = kb_regrow(NULL, cap, sizeof *s->node_of);
    if (s->node_of == NULL)
        return KB_ENOMEM;
    s->cap_nodes = cap;
    memset(s->node_of, 0xff, cap * sizeof *s->node_of); /* KB_ID_NONE is all ones */
    for (size_t i = 0; i < g->n; i++)
        s->node_of[g->user_of[i]] = (uint32_t)i;
    return KB_OK;
}

static enum kb_err reserve_graph(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_staged *s = e->staged;
    struct kb_graph_draft *draft = ev->as.graph.draft;
    struct kb_user_graph graph;
    enum kb_err rc = KB_OK;

    kb_user_graph_init(&graph);
    KB_TRY(kb_engine_begin_heavy(e));
    KB_TRY(kb_user_graph_edit(kb_engine_last_graph(e), &e->users, &s->fresh_users, ev, &draft, &graph, msg));
    s->graph = kb_graph_ref_new(&graph);
    if (s->graph == NULL) {
        rc = KB_ENOMEM;
        goto out;
    }
    KB_TRY(kb_user_kernel_check(&kb_engine_coming_spec(e)->user_kernel, s->graph->graph.n, "", msg));
    KB_TRY(kb_user_kernel_check_solvable(&kb_engine_coming_spec(e)->user_kernel, s->graph->graph.graph, "", msg));
    KB_TRY(kb_engine_stage_nodes(e, &s->graph->graph));
    s->has_users = s->fresh_users.n > KB_SMALL_CHANGE;
    if (s->has_users)
        KB_TRY(kb_graph_draft_join(draft, &e->users, &s->fresh_users, &s->moves));
    KB_TRY(build_empty(e, ev));
out:
    if (draft != ev->as.graph.draft)
        kb_graph_draft_free(draft);
    kb_user_graph_close(&graph);
    return rc;
}

static void release_graph(void *graph)
{
    kb_graph_ref_release(graph);
}

void kb_engine_install_graph(struct kb_engine *e, struct kb_graph_ref *graph)
{
    struct kb_staged *s = e->staged;
    struct kb_graph_ref *old = e->graph_ref;

    e->graph_ref = kb_graph_ref_hold(graph);
    e->graph = graph->graph;
    kb_engine_retire(e, old, release_graph);
    if (s->node_of != NULL) {
        assert(s->cap_nodes >= e->users.n);
        kb_engine_retire(e, e->node_of, kb_free);
        e->node_of = s->node_of;
        e->cap_nodes = s->cap_nodes;
        s->node_of = NULL;
        return;
    }
    for (size_t i = 0; i < e->cap_nodes; i++)
        e->node_of[i] = KB_ID_NONE;
    for (size_t i = 0; i < e->graph.n; i++)
        e->node_of[e->graph.user_of[i]] = (uint32_t)i;
}

void kb_engine_swap_staged(struct kb_engine *e)
{
    struct kb_moves *m = &e->staged->moves;

    kb_moves_swap(m);
    for (size_t i = 0; i < m->n; i++)
        kb_engine_retire(e, m->move[i].block, kb_free);
    m->n = 0;
}

static void apply_graph(struct kb_engine *e, const struct kb_event *ev)
{
    const struct kb_ids *fresh = &e->staged->fresh_users;

    (void)ev;
    if (e->staged->has_users)
        kb_engine_swap_staged(e);
    for (size_t i = 0; i < fresh->n && !e->staged->has_users; i++)
        kb_engine_intern_user(e, kb_ids_str(fresh, (uint32_t)i));
    e->staged->has_users = false;
    install_or_wait(e);
}

const struct kb_event_ops kb_ops_configured = {.reserve = reserve_configured, .apply = apply_configured};
const struct kb_event_ops kb_ops_graph = {.reserve = reserve_graph, .apply = apply_graph};
