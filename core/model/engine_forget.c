/* The event that makes a model forget: `forgotten`. Learning starts anew under the configuration and the graph as they
 * stand, as if no reward had come; the log, the catalogue, open decisions and all that is counted stay.
 *
 * What was taught goes: rows of the history, posterior, evidence, sums for refits and what these have found, halvings.
 * A build that is open ends. Open decisions whose reward was told are void for the model: a correction of what it has
 * forgotten would teach a difference to nothing. Those without a reward teach the new model as ever.
 *
 * An empty history and an empty posterior are made beside readers and put in place in apply; what they replace is
 * retired. Marking the open decisions is O(open). */
#include "model/engine_impl.h"

#include "base/alloc.h"

/* What takes the place of what was learned, and then holds the old ones until they are freed. */
struct kb_anew {
    struct kb_history history;
    double *square_of;
};

void kb_anew_free(void *ptr)
{
    struct kb_anew *a = ptr;

    if (a == NULL)
        return;
    kb_history_close(&a->history);
    kb_free(a->square_of);
    kb_free(a);
}

/* The graph of a build that will not come to its end is in force from here on. */
static enum kb_err stage_graph(struct kb_engine *e)
{
    if (!kb_engine_is_rebuilding(e) || !e->build->has_graph)
        return KB_OK;
    e->staged->graph = kb_graph_ref_hold(e->build->graph);
    return kb_engine_stage_nodes(e, &e->staged->graph->graph);
}

static enum kb_err reserve_forgotten(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    struct kb_staged *s = e->staged;
    enum kb_err rc = kb_engine_begin_heavy(e);

    (void)msg;
    KB_TRY(rc);
    s->is_closed = true;
    s->anew = kb_array(1, 1, sizeof *s->anew);
    if (s->anew == NULL)
        return KB_ENOMEM;
    kb_history_init(&s->anew->history, e->history.dim, e->key);
    s->anew->square_of = e->cap_squares > 0 ? kb_array(e->cap_squares, 1, sizeof *s->anew->square_of) : NULL;
    if (e->cap_squares > 0 && s->anew->square_of == NULL)
        return KB_ENOMEM;
    KB_TRY(stage_graph(e));
    if (ev->seq >= e->quiet_until)
        KB_TRY(kb_posterior_new(&s->posterior, &e->configured, kb_engine_coming_graph(e, &e->configured), e->key));
    if (s->posterior != NULL)
        KB_TRY(kb_posterior_fit_scratch(s->posterior, &e->scratch, 0));
    if (s->posterior != NULL)
        KB_TRY(
            kb_engine_open_all(e, s->posterior, s->graph != NULL ? s->node_of : e->node_of, e->users.n, &e->scratch));
out:
    return rc;
}

/* Corrections of what they were told come to nothing from here on. */
static void void_open_decisions(struct kb_engine *e)
{
    for (size_t i = 0; i < e->pending.n; i++) {
        struct kb_pending_entry *entry = e->pending.due[i].entry;
        bool is_changed = false;

        for (size_t k = 0; k < entry->n_slots; k++) {
            struct kb_pending_slot *slot = &entry->slot[k];

            if (!slot->has_reward || slot->taught == KB_VOID)
                continue;
            slot->taught = KB_VOID;
            slot->model = slot->halvings = 0;
            is_changed = true;
        }
        if (is_changed)
            kb_pending_changed(&e->pending, entry);
    }
}

static void put_anew(struct kb_engine *e)
{
    struct kb_anew *a = e->staged->anew;
    const struct kb_history old = e->history;
    double *squares = e->square_of;

    e->history = a->history;
    e->square_of = a->square_of;
    a->history = old;
    a->square_of = squares;
    e->staged->anew = NULL;
    kb_engine_retire(e, a, kb_anew_free);
    kb_engine_retire_posterior(e, e->posterior);
    e->posterior = e->staged->posterior;
    e->staged->posterior = NULL;
}

static void apply_forgotten(struct kb_engine *e, const struct kb_event *ev)
{
    (void)ev;
    kb_engine_close_build(e);
    if (e->staged->graph != NULL)
        kb_engine_install_graph(e, e->staged->graph);
    e->n_unlearned += (uint64_t)e->history.n_observed;
    put_anew(e);
    e->spec = e->configured;
    e->decay = (struct kb_decay){.has_begun = false};
    kb_reward_sums_init(&e->sums);
    e->square_sum = e->reset_count = 0;
    e->reset_rows = e->checked_rows = e->n_tunings = e->n_waiting = 0;
    void_open_decisions(e);
    kb_engine_mark_open(e);
}

const struct kb_event_ops kb_ops_forgotten = {.reserve = reserve_forgotten, .apply = apply_forgotten};
