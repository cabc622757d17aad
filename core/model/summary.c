/* Writes the summary of an engine, part by part (summary.h). Columns of the history are handed out as they lie in
 * memory; ids, edges and arms are gathered into arrays of one part. Parts hold up to PART_ITEMS items, and points fewer
 * where their vectors are long, so that a line stays within a few hundred kilobytes. */
#include "model/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "model/engine_state.h"
#include "base/magnitude.h"

#define PART_ITEMS 1000u
#define PART_NUMBERS 16384u /* of all vectors of a part */

struct kb_summarizer {
    const struct kb_engine *e;
    enum kb_summary_part part; /* to be written next */
    size_t next;               /* item of it */
    struct kb_ev_summary out;
    const char *user[PART_ITEMS];
    double square[PART_ITEMS];
    struct kb_ev_link link[PART_ITEMS];
    struct kb_ev_known_arm arm[PART_ITEMS];
    struct { /* columns of assignments */
        uint32_t user[PART_ITEMS], arm[PART_ITEMS];
        enum kb_route route[PART_ITEMS];
        double propensity[PART_ITEMS];
        int64_t until_ms[PART_ITEMS];
    } assigned;
    struct kb_pending_entry **open; /* decisions, as they were shown, before them those that were not */
    struct kb_ev_open_slot slot[KB_MAX_SLOTS];
    struct kb_ev_open_value value[KB_MOST_VALUES];
    struct kb_tuning in_force;
};

enum kb_err kb_summarizer_new(struct kb_summarizer **out, const struct kb_engine *e)
{
    struct kb_summarizer *s = kb_array(1, 1, sizeof *s);

    if (s == NULL)
        return KB_ENOMEM;
    s->open = kb_array(e->pending.n + 1, 1, sizeof *s->open);
    if (s->open == NULL) {
        kb_free(s);
        return KB_ENOMEM;
    }
    for (size_t i = 0; i < e->pending.n; i++)
        s->open[i] = e->pending.due[i].entry;
    qsort(s->open, e->pending.n, sizeof *s->open, kb_pending_compare_shown);
    s->e = e;
    *out = s;
    return KB_OK;
}

void kb_summarizer_free(struct kb_summarizer *s)
{
    if (s != NULL)
        kb_free(s->open);
    kb_free(s);
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

/* As a summary is read: squares may be beyond what proves anything, and rounding may have taken off more than there
 * was, where rewards were corrected. */
static double bounded(double square)
{
    return fmin(fmax(square, 0), KB_MOST_SQUARES);
}

/* ---- one function a part: false when there is nothing left of its kind ------------------------------------- */

static bool put_begin(struct kb_summarizer *s)
{
    const struct kb_engine *e = s->e;

    s->out.spec = &e->configured;
    s->out.version = e->version;
    s->out.repr = e->spec.repr.type;
    s->out.context_lengthscale = e->spec.context_kernel.lengthscale;
    s->out.arm_lengthscale = e->spec.arm_kernel.lengthscale;
    kb_tuning_take(&s->in_force, &e->spec);
    s->out.in_force = e->spec.learned != 0 ? &s->in_force : NULL;
    s->out.scale = e->spec.n_scaled > 0 ? e->spec.scale : NULL;
    s->out.n_scale = e->spec.n_scaled;
    s->out.tunings = e->tuning;
    s->out.n_tunings = e->n_tunings;
    return s->next++ == 0;
}

static bool put_users(struct kb_summarizer *s)
{
    const struct kb_ids *ids = &s->e->users;
    const size_t n = at_most(ids->n - s->next, PART_ITEMS);

    for (size_t i = 0; i < n; i++) {
        s->user[i] = kb_ids_str(ids, (uint32_t)(s->next + i));
        s->square[i] = bounded(s->e->square_of[s->next + i]);
    }
    s->out.users = s->user;
    s->out.squares = s->square;
    s->out.n_users = n;
    s->next += n;
    return n > 0;
}

/* Nodes first, then edges; a part holds one of the two. */
static bool put_graph(struct kb_summarizer *s)
{
    const struct kb_user_graph *g = &s->e->graph;
    const size_t n_edges = g->graph != NULL ? kb_graph_n_edges(g->graph) : 0;
    const size_t first = s->next;

    if (first < g->n) {
        s->out.nodes = g->user_of + first;
        s->out.n_nodes = at_most(g->n - first, PART_ITEMS);
        s->next += s->out.n_nodes;
        return true;
    }
    s->out.n_links = at_most(n_edges - (first - g->n), PART_ITEMS);
    for (size_t i = 0; i < s->out.n_links; i++) {
        const struct kb_edge edge = kb_graph_edge(g->graph, first - g->n + i);

        s->link[i] = (struct kb_ev_link){g->user_of[edge.u], g->user_of[edge.v], edge.weight};
    }
    s->out.links = s->link;
    s->next += s->out.n_links;
    return s->out.n_links > 0;
}

static bool put_points(struct kb_summarizer *s)
{
    const struct kb_history *h = &s->e->history;
    const size_t most = h->dim > PART_NUMBERS / PART_ITEMS ? PART_NUMBERS / h->dim : PART_ITEMS;
    const size_t n = at_most(h->n - s->next, most > 0 ? most : 1), i = s->next;

    if (n == 0)
        return false;
    s->out.points = (struct kb_ev_points){.n = n,
                                          .user = h->user + i,
                                          .arm = h->arm + i,
                                          .level = h->level + i,
                                          .event = h->first_seq + i,
                                          .count = h->count + i,
                                          .sum = h->sum + i,
                                          .halvings = h->halvings + i,
                                          .x = h->x + i * h->dim};
    s->next += n;
    return true;
}

/* In the order in which they were shown: a fold of the summary finds the one that a user was shown last, too. */
static bool put_decision(struct kb_summarizer *s)
{
    if (s->next == s->e->pending.n)
        return false;
    const struct kb_pending_entry *entry = s->open[s->next++];
    for (size_t i = 0; i < entry->n_slots; i++)
        s->slot[i] = (struct kb_ev_open_slot){
            .arm = kb_ids_str(&s->e->arm_ids, entry->slot[i].arm),
            .id = entry->slot[i].name,
            .level = i > 0 ? entry->slot[i].level : 0,
            .importance = i > 0 ? entry->slot[i].importance : 0,
            .has_reward = entry->slot[i].has_reward,
            .reward = entry->slot[i].reward,
            .halvings = entry->slot[i].halvings,
            .has_model = !kb_pending_is_level(&entry->slot[i]) && entry->slot[i].taught == KB_TAUGHT,
            .model = entry->slot[i].model,
            .is_unlearned = entry->slot[i].has_reward && entry->slot[i].taught == KB_UNTAUGHT,
            .is_forgotten = entry->slot[i].taught == KB_VOID,
            .x = entry->slot[i].x};
    s->out.n_values = 0;
    for (const struct kb_pending_value *v = entry->values; v != NULL; v = v->next)
        if (v->has_value)
            s->value[s->out.n_values++] = (struct kb_ev_open_value){v->metric, v->slot, v->value};
    s->out.values = s->out.n_values > 0 ? s->value : NULL;
    s->out.decision = entry->id;
    s->out.user = kb_ids_str(&s->e->users, entry->user);
    s->out.level = entry->slot[0].level;
    s->out.importance = entry->slot[0].importance;
    s->out.route = (enum kb_route)entry->route;
    s->out.expires_at_ms = entry->expires_at_ms;
    s->out.is_deferred = entry->is_deferred;
    s->out.slots = s->slot;
    s->out.n_slots = entry->n_slots;
    return true;
}

static bool put_arms(struct kb_summarizer *s)
{
    const size_t n = at_most(s->e->arms.n - s->next, PART_ITEMS);

    for (size_t i = 0; i < n; i++) {
        const struct kb_arm *arm = &s->e->arms.arm[s->next + i];

        s->arm[i] =
            (struct kb_ev_known_arm){.id = kb_ids_str(&s->e->arm_ids, (uint32_t)(s->next + i)),
                                     .features = arm->parts.features,
                                     .eligibility = arm->parts.eligibility,
                                     .value = arm->parts.value,
                                     .is_in_catalogue = arm->is_in_catalogue,
                                     .is_active = arm->is_active,
                                     .is_stopped = arm->is_stopped,
                                     .decided = arm->decided,
                                     .rewarded = arm->rewarded,
                                     .reward_sum = arm->reward_sum,
                                     .square_sum = isnan(arm->square_sum) ? arm->square_sum : bounded(arm->square_sum)};
    }
    s->out.arms = s->arm;
    s->out.n_arms = n;
    s->next += n;
    return n > 0;
}

static bool put_assigned(struct kb_summarizer *s)
{
    const struct kb_assignments *a = &s->e->assignments;
    size_t n = 0;

    for (; s->next < a->cap && n < PART_ITEMS; s->next++) {
        const struct kb_assignment *of = kb_assignments_find(a, (uint32_t)s->next);

        if (of == NULL)
            continue;
        s->assigned.user[n] = (uint32_t)s->next;
        s->assigned.arm[n] = of->arm;
        s->assigned.route[n] = (enum kb_route)of->route;
        s->assigned.propensity[n] = of->propensity;
        s->assigned.until_ms[n++] = of->until_ms;
    }
    s->out.assigned = (struct kb_ev_assigned){
        n, s->assigned.user, s->assigned.arm, s->assigned.route, s->assigned.propensity, s->assigned.until_ms};
    return n > 0;
}

static bool put_end(struct kb_summarizer *s)
{
    const struct kb_engine *e = s->e;

    s->out.totals = (struct kb_ev_totals){.decided = e->n_decided,
                                          .rewarded = e->n_rewarded,
                                          .observed = e->n_observed,
                                          .expired = e->n_expired,
                                          .late = e->n_late,
                                          .reward_sum = e->reward_sum,
                                          .square_sum = bounded(e->square_sum),
                                          .reset_rows = e->reset_rows,
                                          .reset_count = e->reset_count,
                                          .decay = e->decay,
                                          .n_learned = e->history.n_observed,
                                          .unlearned = e->n_unlearned,
                                          .compared = e->n_compared,
                                          .match_sum = e->match_sum,
                                          .sums = e->sums};
    memcpy(s->out.totals.routes, e->routes, sizeof e->routes);
    return s->next++ == 0;
}

static bool (*const PARTS[KB_PART_N])(struct kb_summarizer *s) = {
    [KB_PART_BEGIN] = put_begin,       [KB_PART_USERS] = put_users,       [KB_PART_GRAPH] = put_graph,
    [KB_PART_POINTS] = put_points,     [KB_PART_DECISION] = put_decision, [KB_PART_ARMS] = put_arms,
    [KB_PART_ASSIGNED] = put_assigned, [KB_PART_END] = put_end,
};

bool kb_summarizer_next(struct kb_summarizer *s, struct kb_event *ev)
{
    for (; s->part < KB_PART_N; s->part++, s->next = 0) {
        s->out = (struct kb_ev_summary){.part = s->part};
        if (!PARTS[s->part](s))
            continue;
        *ev = (struct kb_event){.type = KB_EV_SUMMARY, .as.summary = &s->out};
        return true;
    }
    return false;
}
