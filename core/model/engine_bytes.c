/* What an engine takes of memory, and what it would take after an event: from sizes alone, so that a quota can refuse
 * before anything is taken.
 *
 * Arrays grow by doubling (grow.h), and what counts is their room, not what is in it: most events take nothing, and one
 * in so many takes as much as there is. The figure for an event is what the engine will take at most once it
 * is applied with the change of the dictionary that it may bring along:
 *
 *   a reward, an observation   a row of the history when the point is new, and room for one more point in the posterior
 *   a decision                 its entry, its user and arms
 *   a graph, a configuration   with everything that is built for it while the old one still serves
 *
 * A factor of n points takes n^2: of a posterior that grows from c to n points all that it holds is scaled by (n /
 * c)^2, which bounds the parts that grow more slowly. Small parts are rounded up. The figures are right to three per
 * cent for exact models without bounds to make; the cache of a dictionary's sweeps, and the working memory of a
 * spectrum, are foretold to a third (test: bytes_are_those_of_the_allocator_and_foretold).
 *
 * The writer's calls: they look at what readers do not see. */
#include "model/engine_impl.h"

#include <string.h>

#include "base/grow.h"
#include "graph/user_anchors.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

#define LOOK_UP_DIM 512u
#define SMALL 16384u       /* roundings of the working memory */
#define SWEEP_COLUMNS 8u   /* that a dictionary's cache grows by */
#define NEAR_COLUMN 65536u /* of a kernel with a tolerance: a table of two thousand entries */
#define MOST_SQUARES 8u    /* matrices of its order that a dictionary holds, or an exact model */
#define ROOM 2u            /* of arrays by points, at most, beside what is in them */
#define FIRST_MODEL 65536u /* a posterior over nothing, with its kernel and working memory */

/* ---- containers --------------------------------------------------------------------------------------- */

static size_t table_for(size_t n_slots, size_t n)
{
    size_t want = n_slots > 0 ? n_slots : 64;

    while (want < 2 * n)
        want *= 2;
    return want;
}

/* With n more ids of n_bytes, behind those that are staged. */
static size_t ids_with(const struct kb_ids *ids, const struct kb_ids *fresh, size_t n, size_t n_bytes)
{
    const size_t n_all = ids->n + fresh->n + n, bytes = ids->n_bytes + fresh->n_bytes + n_bytes;

    return kb_grown_cap(ids->cap_bytes, bytes, 256) + kb_grown_cap(ids->cap, n_all, 64) * sizeof *ids->offset +
           table_for(ids->n_slots, n_all) * sizeof *ids->slot;
}

/* With n more rows. */
static size_t history_with(const struct kb_history *h, size_t n)
{
    struct kb_history larger = *h;

    larger.cap = kb_grown_cap(h->cap, h->n + n, 64);
    larger.n_slots = table_for(h->n_slots, h->n + n);
    return kb_history_bytes(&larger);
}

/* The writer's working memory: a block of columns over the support, above all. */
static size_t scratch_with(const struct kb_engine *e, size_t n_points)
{
    const size_t now = e->scratch.arena.cap;
    const size_t then = e->posterior != NULL ? kb_posterior_scratch_with(e->posterior, n_points) : 0;

    return n_points > 0 && then > now ? then + SMALL : now;
}

/* A build that is with its worker is not looked into: it will hold about what the model in force does. */
static size_t build_bytes(const struct kb_engine *e)
{
    const struct kb_build *b = e->build;

    if (b == NULL)
        return 0;
    const size_t view = b->rows.n * 2 * sizeof(double) + b->n_nodes * sizeof *b->node_of;
    if (b->is_point)
        return sizeof *b + view;
    return sizeof *b + view + (e->posterior != NULL ? kb_posterior_bytes(e->posterior) : 0);
}

/* ---- the engine ---------------------------------------------------------------------------------------- */

/* What an event adds to the containers. */
struct more {
    size_t users, user_bytes, arms, arm_bytes;
    size_t rows;   /* of the history */
    size_t points; /* that the posterior may get */
    size_t entries, pending_bytes;
    size_t assigned; /* users to have an assignment: the largest number + 1 */
    size_t held;     /* besides: features, a graph, a model that is built */
};

static size_t bytes_with(const struct kb_engine *e, const struct more *m)
{
    const struct kb_staged *s = e->staged;
    const size_t n_users = e->users.n + s->fresh_users.n + m->users, n_arms = e->arms.n + s->fresh_arms.n + m->arms;
    const size_t n_entries = e->pending.n + s->n_entries + m->entries;
    size_t bytes = sizeof(struct kb_engine_whole) + ids_with(&e->users, &s->fresh_users, m->users, m->user_bytes) +
                   ids_with(&e->arm_ids, &s->fresh_arms, m->arms, m->arm_bytes);

    bytes += kb_grown_cap(e->cap_nodes, n_users, 64) * sizeof *e->node_of;
    bytes += kb_grown_cap(e->cap_squares, n_users, 64) * sizeof *e->square_of;
    bytes += kb_grown_cap(e->arms.cap, n_arms, 64) * sizeof(struct kb_arm) +
             e->arms.n_catalogue * e->spec.arm_dim * sizeof(double) + e->arms.rules_bytes;
    bytes += kb_grown_cap(e->assignments.cap, m->assigned > s->n_assigned ? m->assigned : s->n_assigned, 64) *
             sizeof(struct kb_assignment);
    bytes += e->pending.bytes + (s->n_entries + 1) * m->pending_bytes +
             table_for(e->pending.n_slots, n_entries) * KB_PENDING_SLOT_BYTES;
    bytes +=
        kb_grown_cap(e->pending.cap_users, s->n_entries + m->entries > 0 ? n_users : 0, 64) * sizeof *e->pending.newest;
    bytes += history_with(&e->history, s->n_points + m->rows) + kb_user_graph_bytes(&e->graph);
    bytes += scratch_with(e, m->points) + build_bytes(e) + m->held;
    if (e->posterior != NULL)
        bytes += kb_posterior_bytes_with(e->posterior, m->points);
    return bytes;
}

size_t kb_engine_kept_bytes(const struct kb_engine *e)
{
    return e->posterior != NULL ? kb_posterior_kept_bytes(e->posterior) : 0;
}

size_t kb_engine_bytes(const struct kb_engine *e)
{
    return bytes_with(e, &(struct more){0});
}

/* ---- events -------------------------------------------------------------------------------------------- */

static void add_user(const struct kb_engine *e, const char *id, struct more *m)
{
    if (kb_ids_find(&e->users, id) != KB_ID_NONE || kb_ids_find(&e->staged->fresh_users, id) != KB_ID_NONE)
        return;
    m->users++;
    m->user_bytes += strlen(id) + 1;
}

static void add_arm(const struct kb_engine *e, const char *id, struct more *m)
{
    if (kb_ids_find(&e->arm_ids, id) != KB_ID_NONE || kb_ids_find(&e->staged->fresh_arms, id) != KB_ID_NONE)
        return;
    m->arms++;
    m->arm_bytes += strlen(id) + 1;
}

/* Of a user who is known, or staged. */
static size_t number_of(const struct kb_engine *e, const char *user)
{
    const uint32_t known = kb_ids_find(&e->users, user);

    return known != KB_ID_NONE ? known : e->users.n + kb_ids_find(&e->staged->fresh_users, user);
}

static void more_of_decided(const struct kb_engine *e, const struct kb_event *ev, struct more *m)
{
    const size_t n = ev->as.decided.n_slots;

    add_user(e, ev->as.decided.user, m);
    for (size_t i = 0; i < n; i++)
        add_arm(e, ev->as.decided.slots[i].arm, m);
    m->entries = 1;
    if (kb_engine_counts_open(e) && !kb_posterior_is_sketch(e->posterior))
        m->points = n;
    if (ev->as.decided.assigned_until_ms != 0)
        m->assigned = m->users > 0 ? e->users.n + e->staged->fresh_users.n + 1 : number_of(e, ev->as.decided.user) + 1;
    m->pending_bytes = sizeof(struct kb_pending_entry) + strlen(ev->as.decided.decision) + 1 + kb_event_name_bytes(ev) +
                       n * (sizeof(struct kb_pending_slot) + kb_engine_dim(e) * sizeof(double));
}

/* A new row teaches an exact model a new point; a dictionary may let any point in until it is full, and then keeps
 * columns of its sweep over the history for a block of points. */
static void add_point(const struct kb_engine *e, bool is_new, struct more *m)
{
    const bool is_sketch = e->posterior != NULL && kb_posterior_is_sketch(e->posterior);

    m->rows = is_new;
    m->points = is_sketch ? kb_posterior_n_support(e->posterior) < e->spec.repr.max_dictionary : is_new;
    if (is_sketch && m->points > 0)
        m->held = kb_grown_cap(e->history.cap, e->history.n + 1, 64) * SWEEP_COLUMNS * sizeof(double);
}

/* Whether the history has it. Long vectors are not put together for the question: they count as new. */
static bool is_known(const struct kb_engine *e, const struct kb_event *ev)
{
    const uint32_t user = kb_ids_find(&e->users, ev->as.observed.user);
    const uint32_t arm = kb_ids_find(&e->arm_ids, ev->as.observed.arm.arm);
    const size_t n_context = e->spec.context_dim,
                 n_features = ev->as.observed.arm.features != NULL ? e->spec.arm_dim : 0;
    double x[LOOK_UP_DIM];

    if (user == KB_ID_NONE || arm == KB_ID_NONE || n_context + n_features != kb_engine_dim(e) ||
        n_context + n_features > LOOK_UP_DIM)
        return false;
    if (n_context > 0)
        memcpy(x, ev->as.observed.context, n_context * sizeof *x);
    if (n_features > 0)
        memcpy(x + n_context, ev->as.observed.arm.features, n_features * sizeof *x);
    return kb_history_find(&e->history, user, arm, x) != SIZE_MAX;
}

static void more_of_observed(const struct kb_engine *e, const struct kb_event *ev, struct more *m)
{
    add_user(e, ev->as.observed.user, m);
    add_arm(e, ev->as.observed.arm.arm, m);
    add_point(e, !is_known(e, ev), m);
}

/* Slot by name, or the first. A decision that is not open teaches nothing. */
static void more_of_rewarded(const struct kb_engine *e, const struct kb_event *ev, struct more *m)
{
    const struct kb_pending_entry *entry = kb_pending_find(&e->pending, ev->as.rewarded.decision);
    const uint32_t arm = ev->as.rewarded.arm != NULL ? kb_ids_find(&e->arm_ids, ev->as.rewarded.arm) : KB_ID_NONE;

    for (size_t i = 0; entry != NULL && i < entry->n_slots; i++) {
        const struct kb_pending_slot *slot = &entry->slot[i];
        if (ev->as.rewarded.arm != NULL ? slot->arm == arm : i == 0)
            add_point(e, kb_history_find_at(&e->history, entry->user, slot->arm, slot->level, slot->x) == SIZE_MAX, m);
    }
}

/* A value of a metric that the decision may not have yet. */
static void more_of_metric(const struct kb_ev_metric *metric, struct more *m)
{
    if (metric->name != NULL && !metric->has_before)
        m->pending_bytes += sizeof(struct kb_pending_value) + strlen(metric->name) + 1;
}

/* Arms have at most as many points as rewards; with one point for all users, one. */
static size_t by_arm_bytes(const struct kb_engine *e, const struct kb_spec *spec)
{
    const struct kb_spec parts = kb_spec_of_parts(spec, kb_engine_graph(e) != NULL || e->staged->graph != NULL);
    const bool is_one = parts.user_kernel.type == KB_USER_ONES && parts.context_kernel.type == KB_VEC_ONES;
    const size_t most = is_one ? 1 : spec->repr.exact_limit;
    size_t bytes = 0;

    for (size_t a = 0; a < e->arms.n; a++) {
        const uint64_t n = e->arms.arm[a].rewarded;

        if (n > 0)
            bytes += kb_posterior_arm_bytes(spec, n < most ? (size_t)n : most);
    }
    return bytes + e->arms.n * 2 * sizeof(void *) + e->history.n * 4 * (8 + kb_engine_dim(e)) * sizeof(double);
}

/* A second posterior over n points, for as long as the first one serves. */
static size_t second_posterior(const struct kb_engine *e, const struct kb_spec *spec)
{
    const size_t n = e->history.n;

    if (spec->repr.type == KB_REPR_BY_ARM)
        return FIRST_MODEL + by_arm_bytes(e, spec);
    if (kb_spec_is_unbounded(spec))
        return FIRST_MODEL + n * ROOM * (8 + kb_engine_dim(e)) * sizeof(double);
    const bool is_exact = spec->repr.type == KB_REPR_EXACT && n <= spec->repr.exact_limit;
    const size_t n_points = spec->repr.type == KB_REPR_BY_COMPONENT ? n * (KB_N_PARTS - 1) : n;
    const size_t most = is_exact || n_points < spec->repr.max_dictionary ? n_points : spec->repr.max_dictionary;

    if (e->posterior == NULL || n == 0)
        return FIRST_MODEL;
    /* A dictionary becomes about as large as the one there is, if there is one; but that of a sum, to which rewards add
     * a point for one component each, one for all of them. */
    const bool is_like = !is_exact && spec->repr.type != KB_REPR_BY_COMPONENT && kb_posterior_is_sketch(e->posterior);
    const size_t m = is_like ? kb_posterior_n_support(e->posterior) : most;
    const size_t like = kb_posterior_bytes_for(e->posterior, m), square = m * m * sizeof(double);
    return (e->spec.repr.type == KB_REPR_BY_ARM ? MOST_SQUARES * square : 0) + like + m * 3 * sizeof(double);
}

static size_t kernel_of_graph(const struct kb_engine *e, size_t n_nodes)
{
    const size_t n_anchors = e->posterior != NULL ? kb_posterior_n_support(e->posterior) : 0;
    const size_t n_columns = (n_anchors / KB_CG_PANEL + 1) * KB_CG_PANEL;
    const size_t column = n_nodes * sizeof(double);

    if (n_nodes > KB_GRAPH_DENSE_MAX && kb_engine_coming_spec(e)->user_kernel.tolerance > 0)
        return 2 * column + n_anchors * (column < NEAR_COLUMN ? column : NEAR_COLUMN);
    return n_nodes <= KB_GRAPH_DENSE_MAX ? n_nodes * n_nodes * sizeof(double)
                                         : n_nodes * (n_columns + 2) * sizeof(double);
}

/* The old graph and its kernel serve until the new ones are there. Names are counted as if none were known: nodes of
 * the graph are at most those that there are, and those that the event names. */
static void more_of_graph(const struct kb_engine *e, const struct kb_event *ev, struct more *m)
{
    const bool is_replace = ev->as.graph.is_replace;
    const struct kb_graph *old = kb_engine_graph(e);
    size_t n_edges = ev->as.graph.n_add + (!is_replace && old != NULL ? kb_graph_n_edges(old) : 0);

    for (size_t i = 0; i < ev->as.graph.n_users; i++)
        add_user(e, ev->as.graph.users[i], m);
    for (size_t i = 0; i < ev->as.graph.n_add; i++) {
        add_user(e, ev->as.graph.add[i].u, m);
        add_user(e, ev->as.graph.add[i].v, m);
    }
    size_t n_nodes =
        (!is_replace && old != NULL ? kb_graph_n_nodes(old) : 0) + ev->as.graph.n_users + 2 * ev->as.graph.n_add;
    if (n_nodes > e->users.n + m->users)
        n_nodes = e->users.n + m->users;
    m->held =
        n_edges * 40 + n_nodes * 20 + kernel_of_graph(e, n_nodes) + second_posterior(e, &e->configured) + FIRST_MODEL;
}

static void more_of_arms(const struct kb_engine *e, const struct kb_event *ev, struct more *m)
{
    for (size_t i = 0; i < ev->as.arms.n_put; i++)
        add_arm(e, ev->as.arms.put[i].id, m);
    m->held = ev->as.arms.n_put * e->spec.arm_dim * sizeof(double);
    for (size_t i = 0; i < ev->as.arms.n_put; i++)
        if (ev->as.arms.put[i].eligibility != NULL)
            m->held += kb_eligibility_bytes(ev->as.arms.put[i].eligibility);
    for (size_t i = 0; i < ev->as.arms.n_put; i++)
        if (ev->as.arms.put[i].value != NULL)
            m->held += strlen(ev->as.arms.put[i].value) + 1;
}

size_t kb_engine_bytes_after(const struct kb_engine *e, const struct kb_event *ev)
{
    struct more m = {0};

    switch (ev->type) {
    case KB_EV_DECIDED:
        more_of_decided(e, ev, &m);
        break;
    case KB_EV_OBSERVED:
        more_of_observed(e, ev, &m);
        break;
    case KB_EV_REWARDED:
        more_of_rewarded(e, ev, &m);
        more_of_metric(&ev->as.rewarded.metric, &m);
        break;
    case KB_EV_MEASURED:
        more_of_metric(&ev->as.measured.metric, &m);
        break;
    case KB_EV_GRAPH:
        more_of_graph(e, ev, &m);
        break;
    case KB_EV_ARMS:
        more_of_arms(e, ev, &m);
        break;
    case KB_EV_CONFIGURED:
        if (!e->is_configured || !kb_spec_same_model(&e->configured, ev->as.configured.spec))
            m.held = second_posterior(e, ev->as.configured.spec);
        break;
    default: /* the engine's own, and what only closes decisions */
        break;
    }
    return bytes_with(e, &m);
}
