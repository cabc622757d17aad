/* Summaries folded: the parts that a log may begin with instead of its events (summary.h).
 *
 * A summary is folded into an engine that nobody reads yet. Ids, vectors and open decisions go through the same staging
 * as those of any event; rows of the history are put in place as they come; graph and totals wait in a draft until the
 * last part, when all users are known. Numbers of users and arms are those of the summary, which has the ids in their
 * order, so they are the engine's own.
 *
 * A part is checked as any line from outside is: a row of an unknown user, a number that comes twice or an order that
 * cannot have been is refused, and the fold ends there. */
#include "model/engine_impl.h"
#include "model/engine_summary_check.h"
#include "base/magnitude.h"
#include "model/summary.h"
#include "spec/fields.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

void kb_draft_free(struct kb_draft *d)
{
    if (d == NULL)
        return;
    kb_free(d->node);
    kb_free(d->link);
    kb_free(d);
}

bool kb_engine_can_be_summarized(const struct kb_engine *e)
{
    return e->is_configured && e->staged->n_events == 0 && !e->staged->awaits_reset && e->build == NULL &&
           e->draft == NULL;
}

bool kb_engine_is_whole(const struct kb_engine *e)
{
    return e->is_configured && e->draft == NULL && e->posterior != NULL;
}

/* ---- begin -------------------------------------------------------------------------------------------- */

/* What was in force: the configuration with what resets had moved, as spec_of_reset has it. */
static struct kb_spec spec_in_force(const struct kb_ev_summary *s)
{
    struct kb_spec spec = *s->spec;

    spec.repr.type = s->repr;
    spec.context_kernel.lengthscale = s->context_lengthscale;
    spec.arm_kernel.lengthscale = s->arm_lengthscale;
    if (s->in_force != NULL)
        kb_tuning_put(s->in_force, &spec);
    kb_spec_put_scales(&spec, s->scale, s->n_scale);
    kb_spec_drop_unserved_confidence(&spec);
    return spec;
}

static enum kb_err reserve_begin(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    enum kb_err rc = kb_spec_check(s->spec, msg);

    if (rc != KB_OK)
        return rc;
    if (s->version > KB_MOST_NUMBER)
        return kb_fail(KB_ERANGE, msg, "/version", "expected at most %llu", (unsigned long long)KB_MOST_NUMBER);
    if ((int)s->repr < 0 || s->repr >= KB_REPR_N)
        return kb_fail(KB_EINVAL, msg, "/representation", "unknown representation");
    if (s->n_tunings > KB_MOST_TUNINGS)
        return kb_fail(KB_EINVAL, msg, "/tunings", "expected at most %u", KB_MOST_TUNINGS);
    for (size_t i = 0; i < s->n_tunings; i++)
        if ((rc = kb_tuning_check(&s->tunings[i], msg)) != KB_OK)
            return kb_fail_within(rc, msg, "/tunings", i);
    rc = kb_scales_check(s->spec, s->scale, s->n_scale, msg);
    if (rc != KB_OK)
        return rc;
    const struct kb_spec in_force = spec_in_force(s);
    rc = kb_spec_check(&in_force, msg);
    if (rc != KB_OK)
        return rc;
    kb_draft_free(e->draft);
    e->draft = kb_array(1, 1, sizeof *e->draft);
    return e->draft != NULL ? KB_OK : KB_ENOMEM;
}

static void apply_begin(struct kb_engine *e, const struct kb_ev_summary *s)
{
    e->configured = *s->spec;
    e->spec = spec_in_force(s);
    e->version = s->version;
    for (size_t i = 0; i < s->n_tunings; i++)
        kb_engine_keep_tuning(e, &s->tunings[i]);
    e->is_configured = e->is_summarized = true;
    kb_history_close(&e->history); /* what the room for a first row has taken */
    kb_history_init(&e->history, kb_engine_dim(e), e->key);
}

/* ---- users, arms -------------------------------------------------------------------------------------- */

static enum kb_err reserve_users(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    uint32_t ix = 0;

    for (size_t i = 0; i < s->n_users; i++) {
        const enum kb_err rc = kb_engine_stage_user(e, s->users[i], &ix);

        if (rc != KB_OK)
            return rc;
        if (ix != e->users.n + i)
            return kb_fail_item(KB_EINVAL, msg, "/users", i, "", "'%.100s' stands twice", s->users[i]);
        if (!(s->squares[i] >= 0 && kb_is_square_measurable(s->squares[i])))
            return kb_fail_item(KB_EINVAL, msg, "/squares", i, "", "expected 0 to %g", KB_MOST_SQUARES);
    }
    return KB_OK;
}

static void apply_users(struct kb_engine *e, const struct kb_ev_summary *s)
{
    for (size_t i = 0; i < s->n_users; i++)
        e->square_of[kb_engine_intern_user(e, s->users[i])] = s->squares[i];
}

static enum kb_err reserve_arms(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    const size_t dim = e->spec.arm_dim;
    uint32_t ix = 0;

    e->staged->parts = kb_array(s->n_arms + 1, 1, sizeof *e->staged->parts);
    if (e->staged->parts == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < s->n_arms; i++) {
        struct kb_arm_parts *parts = &e->staged->parts[e->staged->n_parts++];
        enum kb_err rc = kb_summary_check_arm(e, &s->arms[i], i, msg);

        if (rc == KB_OK)
            rc = kb_engine_stage_arm(e, s->arms[i].id, &ix);
        if (rc != KB_OK)
            return rc;
        if (ix != e->arm_ids.n + i)
            return kb_fail_item(KB_EINVAL, msg, "/arms", i, "/id", "'%.100s' stands twice", s->arms[i].id);
        if (s->arms[i].eligibility != NULL && kb_eligibility_copy(s->arms[i].eligibility, &parts->eligibility) != KB_OK)
            return KB_ENOMEM;
        if (s->arms[i].value != NULL && (parts->value = kb_arm_value_copy(s->arms[i].value)) == NULL)
            return KB_ENOMEM;
        if (dim == 0 || s->arms[i].features == NULL)
            continue;
        parts->features = kb_array(dim, 1, sizeof *parts->features);
        if (parts->features == NULL)
            return KB_ENOMEM;
        memcpy(parts->features, s->arms[i].features, dim * sizeof *parts->features);
    }
    return KB_OK;
}

static void apply_arms(struct kb_engine *e, const struct kb_ev_summary *s)
{
    for (size_t i = 0; i < s->n_arms; i++) {
        const struct kb_ev_known_arm *from = &s->arms[i];
        const uint32_t ix = kb_engine_intern_arm(e, from->id);
        struct kb_arm *arm = &e->arms.arm[ix];

        if (from->is_in_catalogue)
            kb_arms_put(&e->arms, ix, &e->staged->parts[i], from->is_active, from->is_stopped);
        else
            kb_arm_parts_free(&e->staged->parts[i]);
        e->staged->parts[i] = (struct kb_arm_parts){0};
        arm->decided = from->decided;
        arm->rewarded = from->rewarded;
        arm->reward_sum = from->reward_sum;
        arm->square_sum = from->square_sum;
    }
}

/* ---- assigned ------------------------------------------------------------------------------------------ */

static enum kb_err reserve_assigned(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    const struct kb_ev_assigned *a = &s->assigned;
    size_t next = 0;

    for (size_t i = 0; i < a->n; i++) {
        if (a->user[i] >= e->users.n || a->user[i] < next || kb_assignments_find(&e->assignments, a->user[i]) != NULL)
            return kb_fail_item(KB_EINVAL, msg, "/user", i, "", "expected ascending numbers of users");
        if (a->arm[i] >= e->arm_ids.n)
            return kb_fail_item(KB_EINVAL, msg, "/arm", i, "", "no such arm");
        if (a->route[i] >= KB_ROUTE_N || a->route[i] == KB_ROUTE_STICKY)
            return kb_fail_item(KB_EINVAL, msg, "/route", i, "", "expected a route that draws");
        if (!(a->propensity[i] > 0 && a->propensity[i] <= 1))
            return kb_fail_item(KB_EINVAL, msg, "/propensity", i, "", "expected a number > 0 and <= 1");
        next = (size_t)a->user[i] + 1;
    }
    return kb_assignments_reserve(&e->assignments, next);
}

static void apply_assigned(struct kb_engine *e, const struct kb_ev_summary *s)
{
    const struct kb_ev_assigned *a = &s->assigned;

    for (size_t i = 0; i < a->n; i++) {
        const struct kb_assignment of = {a->arm[i], a->route[i], a->propensity[i], a->until_ms[i]};

        kb_assignments_put(&e->assignments, a->user[i], &of);
    }
}

/* ---- graph -------------------------------------------------------------------------------------------- */

static enum kb_err reserve_graph(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    struct kb_draft *d = e->draft;

    for (size_t i = 0; i < s->n_nodes; i++)
        if (s->nodes[i] >= e->users.n)
            return kb_fail_item(KB_EINVAL, msg, "/nodes", i, "", "no such user");
    for (size_t i = 0; i < s->n_links; i++)
        if (s->links[i].u >= e->users.n || s->links[i].v >= e->users.n)
            return kb_fail_item(KB_EINVAL, msg, "/edges", i, "", "no such user");
    if (kb_grow((void **)&d->node, &d->cap_nodes, d->n_nodes + s->n_nodes, 64, sizeof *d->node) != 0 ||
        kb_grow((void **)&d->link, &d->cap_links, d->n_links + s->n_links, 64, sizeof *d->link) != 0)
        return KB_ENOMEM;
    return KB_OK;
}

static void apply_graph(struct kb_engine *e, const struct kb_ev_summary *s)
{
    struct kb_draft *d = e->draft;

    if (s->n_nodes > 0)
        memcpy(d->node + d->n_nodes, s->nodes, s->n_nodes * sizeof *d->node);
    if (s->n_links > 0)
        memcpy(d->link + d->n_links, s->links, s->n_links * sizeof *d->link);
    d->n_nodes += s->n_nodes;
    d->n_links += s->n_links;
}

/* The node of each user into node_of, which has room for all of them. */
static enum kb_err number_nodes(const struct kb_draft *d, uint32_t *node_of, size_t n_users, struct kb_errmsg *msg)
{
    for (size_t i = 0; i < n_users; i++)
        node_of[i] = KB_ID_NONE;
    for (size_t i = 0; i < d->n_nodes; i++) {
        if (node_of[d->node[i]] != KB_ID_NONE)
            return kb_fail(KB_EINVAL, msg, "/part", "a user has two nodes in the graph");
        node_of[d->node[i]] = (uint32_t)i;
    }
    for (size_t i = 0; i < d->n_links; i++)
        if (node_of[d->link[i].u] == KB_ID_NONE || node_of[d->link[i].v] == KB_ID_NONE)
            return kb_fail(KB_EINVAL, msg, "/part", "an edge of the graph ends at a user without a node");
    return KB_OK;
}

/* Into the stage. The draft's nodes become the graph's own. */
static enum kb_err make_graph(struct kb_engine *e, struct kb_errmsg *msg)
{
    struct kb_draft *d = e->draft;
    struct kb_edge *edge = kb_array(d->n_links + 1, 1, sizeof *edge);
    uint32_t *node_of = kb_array(e->users.n + 1, 1, sizeof *node_of);
    struct kb_user_graph graph = {.n = d->n_nodes};
    enum kb_err rc = edge != NULL && node_of != NULL ? KB_OK : KB_ENOMEM;

    KB_TRY(rc);
    KB_TRY(number_nodes(d, node_of, e->users.n, msg));
    for (size_t i = 0; i < d->n_links; i++)
        edge[i] = (struct kb_edge){node_of[d->link[i].u], node_of[d->link[i].v], d->link[i].weight};
    KB_TRY(kb_graph_new(&graph.graph, d->n_nodes, edge, d->n_links, msg));
    graph.user_of = d->node;
    d->node = NULL;
    d->n_nodes = d->cap_nodes = 0;
    e->staged->graph = kb_graph_ref_new(&graph);
    if (e->staged->graph == NULL)
        rc = KB_ENOMEM;
out:
    kb_user_graph_close(&graph);
    kb_free(edge);
    kb_free(node_of);
    return rc;
}

/* ---- points and open decisions ---------------------------------------------------------------------------- */

static enum kb_err reserve_points(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    const struct kb_ev_points *p = &s->points;
    uint64_t last = e->history.n > 0 ? e->history.first_seq[e->history.n - 1] : 1;

    for (size_t i = 0; i < p->n; i++) {
        const enum kb_err rc = kb_summary_check_point(e, p, i, last, msg);

        if (rc != KB_OK)
            return rc;
        if (kb_history_find_at(&e->history, p->user[i], p->arm[i], p->level[i], kb_summary_vector(e, p, i)) != SIZE_MAX)
            return kb_fail_item(KB_EINVAL, msg, "/x", i, "", "the point stands twice");
        last = p->event[i];
    }
    return kb_history_reserve(&e->history, p->n);
}

static void note_arm(struct kb_draft *d, uint32_t arm)
{
    if (arm >= d->n_arms)
        d->n_arms = (size_t)arm + 1;
}

static void apply_points(struct kb_engine *e, const struct kb_ev_summary *s)
{
    const struct kb_ev_points *p = &s->points;

    for (size_t i = 0; i < p->n; i++) {
        const double halvings = p->halvings != NULL ? p->halvings[i] : 0;

        kb_history_add_then(&e->history, p->user[i], p->arm[i], p->level[i], kb_summary_vector(e, p, i), p->count[i],
                            p->sum[i], halvings, p->event[i]);
        note_arm(e->draft, p->arm[i]);
        e->draft->halvings = fmax(e->draft->halvings, halvings);
    }
}

/* What the model has of it is the reward, unless the summary says otherwise. */
static void take_slot(const struct kb_ev_open_slot *from, struct kb_pending_slot *slot)
{
    slot->has_reward = from->has_reward;
    slot->reward = from->has_reward ? from->reward : 0;
    slot->halvings = from->has_reward ? from->halvings : 0;
    slot->taught = from->has_reward ? KB_TAUGHT : KB_UNTAUGHT;
    slot->model = from->has_model ? from->model : slot->reward;
    if (!from->is_unlearned && !from->is_forgotten)
        return;
    slot->taught = from->is_forgotten ? KB_VOID : KB_UNTAUGHT;
    slot->model = 0;
}

static enum kb_err keep_values(struct kb_pending_entry *entry, const struct kb_ev_summary *s)
{
    enum kb_err rc = KB_OK;

    for (size_t i = 0; i < s->n_values && rc == KB_OK; i++) {
        struct kb_pending_value *v;

        rc = kb_pending_keep_value(entry, s->values[i].slot, s->values[i].metric, &v);
        if (rc == KB_OK)
            kb_pending_set_value(NULL, entry, v, s->values[i].value);
    }
    return rc;
}

static size_t name_bytes(const struct kb_ev_summary *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_slots; i++)
        n += s->slots[i].id != NULL ? strlen(s->slots[i].id) + 1 : 0;
    return n;
}

static enum kb_err reserve_decision(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    struct kb_staged *stage = e->staged;
    const size_t dim = kb_engine_dim(e);
    enum kb_err rc = kb_summary_check_decision(e, s, msg);

    if (rc != KB_OK)
        return rc;
    if (kb_grow((void **)&stage->entry, &stage->cap_entries, stage->n_entries + 1, 16, sizeof *stage->entry) != 0)
        return KB_ENOMEM;
    struct kb_pending_entry *entry = kb_pending_entry_new(s->decision, s->n_slots, name_bytes(s), dim);
    if (entry == NULL)
        return KB_ENOMEM;
    entry->user = kb_ids_find(&e->users, s->user);
    entry->route = s->route;
    entry->expires_at_ms = s->expires_at_ms;
    entry->is_deferred = s->is_deferred;
    for (size_t i = 0; i < s->n_slots; i++) {
        entry->slot[i].arm = kb_ids_find(&e->arm_ids, s->slots[i].arm);
        take_slot(&s->slots[i], &entry->slot[i]);
        entry->slot[i].level = i > 0 ? s->slots[i].level : s->level;
        entry->slot[i].importance = i > 0 ? s->slots[i].importance : s->importance;
        if (s->slots[i].id != NULL)
            kb_pending_name(entry, i, s->slots[i].id, strlen(s->slots[i].id));
        if (dim > 0)
            memcpy(entry->x + i * dim, s->slots[i].x, dim * sizeof *entry->x);
    }
    if ((rc = keep_values(entry, s)) != KB_OK) {
        kb_pending_entry_free(entry);
        return rc;
    }
    stage->entry[stage->n_entries++] = entry;
    return KB_OK;
}

static void apply_decision(struct kb_engine *e, const struct kb_ev_summary *s)
{
    for (size_t i = 0; i < s->n_slots; i++)
        if (s->slots[i].has_reward)
            e->draft->halvings = fmax(e->draft->halvings, s->slots[i].halvings);
    kb_pending_insert(&e->pending, e->staged->entry[e->staged->next_entry++]);
}

/* ---- end ---------------------------------------------------------------------------------------------- */

/* Where nothing was learned there may be no reset to come, and the posterior is the empty one. */
static enum kb_err reserve_end(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg)
{
    enum kb_err rc = kb_summary_check_totals(e, &s->totals, msg);

    KB_TRY(rc);
    if (e->draft->n_nodes > 0)
        KB_TRY(make_graph(e, msg));
    const struct kb_graph *graph = kb_engine_coming_graph(e, &e->spec);
    KB_TRY(kb_user_kernel_check(&e->spec.user_kernel, graph != NULL ? kb_graph_n_nodes(graph) : 0, "/part", msg));
    KB_TRY(kb_user_kernel_check_solvable(&e->spec.user_kernel, graph, "/part", msg));
    if (e->history.n == 0 && e->seq + 1 >= e->quiet_until)
        KB_TRY(kb_posterior_new(&e->staged->posterior, &e->spec, graph, e->key));
    if (e->staged->graph != NULL && e->spec.pending == KB_PENDING_HALLUCINATE)
        KB_TRY(kb_engine_stage_nodes(e, &e->staged->graph->graph));
    if (e->staged->posterior != NULL)
        KB_TRY(kb_engine_open_all(e, e->staged->posterior, e->staged->graph != NULL ? e->staged->node_of : e->node_of,
                                  e->users.n, &e->scratch));
out:
    return rc;
}

static void apply_end(struct kb_engine *e, const struct kb_ev_summary *s)
{
    if (e->staged->graph != NULL)
        kb_engine_install_graph(e, e->staged->graph);
    e->posterior = e->staged->posterior;
    e->staged->posterior = NULL;
    kb_engine_mark_open(e);
    e->n_decided = s->totals.decided;
    e->n_rewarded = s->totals.rewarded;
    e->n_observed = s->totals.observed;
    e->n_expired = s->totals.expired;
    e->n_late = s->totals.late;
    memcpy(e->routes, s->totals.routes, sizeof e->routes);
    e->reward_sum = s->totals.reward_sum;
    e->square_sum = s->totals.square_sum;
    e->sums = s->totals.sums;
    e->n_unlearned = s->totals.unlearned;
    e->n_compared = s->totals.compared;
    e->match_sum = s->totals.match_sum;
    e->reset_rows = (size_t)s->totals.reset_rows;
    e->reset_count = s->totals.reset_count;
    if (!kb_decay_is_none(&s->totals.decay)) {
        e->decay = s->totals.decay;
        e->history.n_observed = s->totals.n_learned;
        e->history.unit = kb_decay_unit(kb_decay_halvings(&e->decay, &e->spec.forgetting));
    }
    kb_draft_free(e->draft);
    e->draft = NULL;
}

/* ---- the event ---------------------------------------------------------------------------------------- */

static const struct part_ops {
    enum kb_err (*reserve)(struct kb_engine *e, const struct kb_ev_summary *s, struct kb_errmsg *msg);
    void (*apply)(struct kb_engine *e, const struct kb_ev_summary *s);
} PARTS[KB_PART_N] = {
    [KB_PART_BEGIN] = {reserve_begin, apply_begin},          [KB_PART_USERS] = {reserve_users, apply_users},
    [KB_PART_GRAPH] = {reserve_graph, apply_graph},          [KB_PART_POINTS] = {reserve_points, apply_points},
    [KB_PART_DECISION] = {reserve_decision, apply_decision}, [KB_PART_ARMS] = {reserve_arms, apply_arms},
    [KB_PART_ASSIGNED] = {reserve_assigned, apply_assigned}, [KB_PART_END] = {reserve_end, apply_end},
};

/* A batch of its own: what comes next rests on it. */
static enum kb_err reserve_summary(struct kb_engine *e, const struct kb_event *ev, struct kb_errmsg *msg)
{
    const struct kb_ev_summary *s = ev->as.summary;

    if ((int)s->part < 0 || s->part >= KB_PART_N)
        return kb_fail(KB_EINVAL, msg, "/part", "unknown part of a summary");
    if (e->staged->n_events > 0)
        return KB_EBUSY;
    if (s->part == KB_PART_BEGIN ? e->is_configured : e->draft == NULL)
        return kb_fail(KB_EINVAL, msg, "/part", "a summary stands at the beginning of a log, and begins once");
    e->staged->is_closed = true;
    return PARTS[s->part].reserve(e, s, msg);
}

static void apply_summary(struct kb_engine *e, const struct kb_event *ev)
{
    PARTS[ev->as.summary->part].apply(e, ev->as.summary);
}

const struct kb_event_ops kb_ops_summary = {.reserve = reserve_summary, .apply = apply_summary};
