/* Parts of a summary as lines of the log (schema/event.schema.json), each with all its members: the inverse of
 * json_summary.c. Points are columns, since their names would weigh more than they do. */
#include "json/json_routing.h"

#include <stdlib.h>

#include "json/json_out.h"
#include "base/time_text.h"

static void put_u32s(struct ld_text *t, const char *name, const uint32_t *v, size_t n)
{
    ld_text_key(t, name);
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_count(t, v[i]);
    }
    ld_text_lit(t, "]");
}

static void put_u64s(struct ld_text *t, const char *name, const uint64_t *v, size_t n)
{
    ld_text_key(t, name);
    ld_text_lit(t, "[");
    for (size_t i = 0; i < n; i++) {
        ld_text_item(t);
        ld_text_count(t, v[i]);
    }
    ld_text_lit(t, "]");
}

static void put_doubles(struct ld_text *t, const char *name, const double *v, size_t n)
{
    ld_text_key(t, name);
    ld_text_vector(t, v, n);
}

static void put_begin(struct ld_text *t, const struct kb_ev_summary *s, const struct ld_settings *settings)
{
    size_t n = 0;
    char *configuration = ld_encode_settings(settings, &n);

    ld_text_put_count(t, "version", s->version);
    ld_text_put_string(t, "representation", kb_word(&kb_repr_words, (int)s->repr));
    ld_text_put_number(t, "context_lengthscale", s->context_lengthscale);
    ld_text_put_number(t, "arm_lengthscale", s->arm_lengthscale);
    ld_text_key(t, "configuration");
    if (configuration == NULL)
        t->is_failed = true;
    ld_text_raw(t, configuration, n);
    free(configuration);
}

static void put_users(struct ld_text *t, const struct kb_ev_summary *s)
{
    ld_text_put_strings(t, "users", s->users, s->n_users);
    put_doubles(t, "squares", s->squares, s->n_users);
}

static void put_graph(struct ld_text *t, const struct kb_ev_summary *s)
{
    put_u32s(t, "nodes", s->nodes, s->n_nodes);
    ld_text_key(t, "edges");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < s->n_links; i++) {
        ld_text_item(t);
        ld_text_lit(t, "[");
        ld_text_item(t);
        ld_text_count(t, s->links[i].u);
        ld_text_item(t);
        ld_text_count(t, s->links[i].v);
        ld_text_item(t);
        ld_text_number(t, s->links[i].weight);
        ld_text_lit(t, "]");
    }
    ld_text_lit(t, "]");
}

static void put_points(struct ld_text *t, const struct kb_ev_points *p, size_t dim)
{
    put_u32s(t, "user", p->user, p->n);
    put_u32s(t, "arm", p->arm, p->n);
    put_u32s(t, "level", p->level, p->n);
    put_u64s(t, "event", p->event, p->n);
    put_doubles(t, "count", p->count, p->n);
    put_doubles(t, "sum", p->sum, p->n);
    put_doubles(t, "x", p->x, p->n * dim);
    bool has_halvings = false;
    for (size_t i = 0; p->halvings != NULL && i < p->n; i++)
        has_halvings |= p->halvings[i] > 0;
    if (has_halvings)
        put_doubles(t, "halvings", p->halvings, p->n);
}

static void put_decision(struct ld_text *t, const struct kb_ev_summary *s, size_t dim)
{
    char at[32];

    ld_format_time(s->expires_at_ms, at);
    ld_text_put_string(t, "decision", s->decision);
    ld_text_put_string(t, "user", s->user);
    ld_text_put_string(t, "arm", s->slots[0].arm); /* as in `decided` */
    ld_text_put_string(t, "expires_at", at);
    ld_text_put_bool(t, "deferred", s->is_deferred);
    ld_text_put_count(t, "level", s->level);
    if (s->route != KB_ROUTE_POLICY)
        ld_text_put_string(t, "route", kb_word(&kb_route_words, (int)s->route));
    ld_text_key(t, "slots");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < s->n_slots; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "arm", s->slots[i].arm);
        put_doubles(t, "x", s->slots[i].x, dim);
        if (s->slots[i].has_reward)
            ld_text_put_number(t, "reward", s->slots[i].reward);
        if (s->slots[i].has_reward && s->slots[i].halvings > 0)
            ld_text_put_number(t, "halvings", s->slots[i].halvings);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

static void put_arms(struct ld_text *t, const struct kb_ev_summary *s, uint32_t arm_dim)
{
    ld_text_key(t, "arms");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < s->n_arms; i++) {
        const struct kb_ev_known_arm *arm = &s->arms[i];

        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "id", arm->id);
        ld_text_key(t, "features");
        if (arm->features != NULL && arm_dim > 0)
            ld_text_vector(t, arm->features, arm_dim);
        else
            ld_text_lit(t, "null");
        ld_text_put_bool(t, "in_catalogue", arm->is_in_catalogue);
        ld_text_put_bool(t, "active", arm->is_active);
        ld_text_put_restrictions(t, arm->is_stopped, arm->eligibility);
        ld_text_put_count(t, "decided", arm->decided);
        ld_text_put_count(t, "rewarded", arm->rewarded);
        ld_text_put_number(t, "reward_sum", arm->reward_sum);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

static void put_time(struct ld_text *t, const char *name, int64_t ms)
{
    char at[32];

    ld_format_time(ms, at);
    ld_text_put_string(t, name, at);
}

static void put_assigned(struct ld_text *t, const struct kb_ev_assigned *a)
{
    char at[32];

    put_u32s(t, "user", a->user, a->n);
    put_u32s(t, "arm", a->arm, a->n);
    put_doubles(t, "propensity", a->propensity, a->n);
    ld_text_key(t, "route");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < a->n; i++) {
        ld_text_item(t);
        ld_text_string(t, kb_word(&kb_route_words, (int)a->route[i]));
    }
    ld_text_lit(t, "]");
    ld_text_key(t, "until");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < a->n; i++) {
        ld_format_time(a->until_ms[i], at);
        ld_text_item(t);
        ld_text_string(t, at);
    }
    ld_text_lit(t, "]");
}

static void put_routes(struct ld_text *t, const struct kb_route_stats *routes)
{
    ld_text_key(t, "routes");
    ld_text_lit(t, "{");
    for (int i = 0; i < KB_ROUTE_N; i++) {
        if (routes[i].decided == 0)
            continue;
        ld_text_key(t, kb_word(&kb_route_words, i));
        ld_text_lit(t, "{");
        ld_text_put_count(t, "decided", routes[i].decided);
        ld_text_put_count(t, "repeated", routes[i].repeated);
        ld_text_put_count(t, "rewarded", routes[i].rewarded);
        ld_text_put_number(t, "reward_sum", routes[i].reward_sum);
        ld_text_put_number(t, "square_sum", routes[i].square_sum);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "}");
}

static void put_forgetting(struct ld_text *t, const struct kb_ev_totals *totals)
{
    if (kb_decay_is_none(&totals->decay))
        return;
    ld_text_key(t, "forgetting");
    ld_text_lit(t, "{");
    ld_text_put_bool(t, "begun", totals->decay.has_begun);
    ld_text_put_number(t, "halvings", totals->decay.base);
    ld_text_put_count(t, "events", totals->decay.steps);
    put_time(t, "first", totals->decay.first_ms);
    put_time(t, "latest", totals->decay.last_ms);
    ld_text_put_number(t, "observations", totals->n_learned);
    ld_text_lit(t, "}");
}

static void put_end(struct ld_text *t, const struct kb_ev_totals *totals)
{
    ld_text_put_count(t, "decided", totals->decided);
    ld_text_put_count(t, "rewarded", totals->rewarded);
    ld_text_put_count(t, "observed", totals->observed);
    ld_text_put_count(t, "expired", totals->expired);
    ld_text_put_count(t, "late", totals->late);
    ld_text_put_number(t, "reward_sum", totals->reward_sum);
    ld_text_put_number(t, "square_sum", totals->square_sum);
    ld_text_put_count(t, "reset_rows", totals->reset_rows);
    ld_text_put_number(t, "reset_observations", totals->reset_count);
    put_routes(t, totals->routes);
    put_forgetting(t, totals);
}

void ld_text_summary(struct ld_text *t, const struct kb_ev_summary *s, uint32_t context_dim, uint32_t arm_dim,
                     const struct ld_settings *settings)
{
    const size_t dim = (size_t)context_dim + arm_dim;

    ld_text_put_string(t, "part", kb_word(&kb_part_words, (int)s->part));
    switch (s->part) {
    case KB_PART_BEGIN:
        put_begin(t, s, settings);
        break;
    case KB_PART_USERS:
        put_users(t, s);
        break;
    case KB_PART_GRAPH:
        put_graph(t, s);
        break;
    case KB_PART_POINTS:
        put_points(t, &s->points, dim);
        break;
    case KB_PART_DECISION:
        put_decision(t, s, dim);
        break;
    case KB_PART_ARMS:
        put_arms(t, s, arm_dim);
        break;
    case KB_PART_ASSIGNED:
        put_assigned(t, &s->assigned);
        break;
    case KB_PART_END:
        put_end(t, &s->totals);
        break;
    case KB_PART_N:
        break;
    }
}
