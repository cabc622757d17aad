/* Parts of a summary -> struct kb_ev_summary: the inverse of json_out_summary.c, as strict as every line of the log.
 * Lists of a part are columns of one length; numbers of users and arms are judged by the engine, which knows how many
 * there are. */
#include "json/json_util.h"

#include <math.h>
#include <string.h>

#include "base/ids.h"
#include "json/json_out.h"
#include "json/json_routing.h"
#include "base/time_text.h"

#define MAX_COUNT UINT64_C(9007199254740991) /* 2^53 - 1: what a double counts */

struct part {
    struct ld_in *in;
    const struct ld_value *line;
    uint32_t context_dim, arm_dim;
    struct kb_ev_summary *out;
};

/* ---- columns -------------------------------------------------------------------------------------------- */

/* Whole numbers up to `most`; *n is their count when it is SIZE_MAX, else what it must be. NULL when there are none. */
static uint64_t *read_wholes(struct part *p, const char *key, uint64_t most, size_t *n)
{
    const struct ld_value *v = ld_in_array(p->in, p->line, key, *n == SIZE_MAX ? 0 : *n, *n, true);
    uint64_t *out = NULL;

    *n = ld_n_items(v);
    if (*n > 0)
        out = ld_in_alloc(p->in, *n, sizeof *out);
    if (out == NULL)
        return NULL;
    const size_t mark = ld_in_key(p->in, key);
    for (size_t i = 0; i < *n; i++) {
        const struct ld_value *item = ld_item_of(v, i);
        const double x = ld_is(item, LD_V_NUMBER) ? ld_number_of(item) : -1;
        const size_t here = ld_in_item(p->in, v, i);

        if (x < 0 || x > (double)most || x != floor(x))
            ld_in_fault(p->in, NULL, "expected a whole number from 0 to %llu", (unsigned long long)most);
        else
            out[i] = (uint64_t)x;
        ld_in_leave(p->in, here);
    }
    ld_in_leave(p->in, mark);
    return out;
}

/* The same, narrowed in place. */
static const uint32_t *read_numbers(struct part *p, const char *key, size_t *n)
{
    const uint64_t *wide = read_wholes(p, key, UINT32_MAX - 1, n);
    uint32_t *out = wide != NULL ? ld_in_alloc(p->in, *n, sizeof *out) : NULL;

    for (size_t i = 0; out != NULL && i < *n; i++)
        out[i] = (uint32_t)wide[i];
    return out;
}

static const double *read_doubles(struct part *p, const char *key, size_t n)
{
    if (n > UINT32_MAX) {
        ld_in_fault(p->in, key, "too many numbers");
        return NULL;
    }
    return n > 0 ? ld_in_vector(p->in, p->line, key, (uint32_t)n, true) : NULL;
}

/* ---- one function a part ----------------------------------------------------------------------------------- */

static double read_positive(struct part *p, const char *key)
{
    const double x = ld_in_number(p->in, p->line, key, 1, true);

    if (!(x > 0))
        ld_in_fault(p->in, key, "expected a number > 0");
    return x;
}

static void read_begin(struct part *p)
{
    struct ld_settings *settings = ld_in_alloc(p->in, 1, sizeof *settings);
    const struct ld_value *v = ld_in_get(p->in, p->line, "configuration", true);
    const char *name = ld_in_id(p->in, p->line, "representation", 32, true);
    const int repr = name != NULL ? kb_word_value(&kb_repr_words, name) : -1;

    p->out->version = ld_in_whole(p->in, p->line, "version", 1, MAX_COUNT, 1, true);
    if (name != NULL && repr < 0)
        ld_in_fault(p->in, "representation", "unknown representation");
    p->out->repr = repr < 0 ? KB_REPR_EXACT : (enum kb_repr_type)repr;
    p->out->context_lengthscale = read_positive(p, "context_lengthscale");
    p->out->arm_lengthscale = read_positive(p, "arm_lengthscale");
    if (settings == NULL || v == NULL)
        return;
    const size_t mark = ld_in_key(p->in, "configuration");
    ld_in_settings(p->in, v, settings);
    ld_in_leave(p->in, mark);
    p->out->spec = &settings->spec;
}

static void read_users(struct part *p)
{
    p->out->users = ld_in_ids(p->in, p->line, "users", SIZE_MAX, &p->out->n_users, true);
    p->out->squares = read_doubles(p, "squares", p->out->n_users);
}

/* [u, v, weight] by users' numbers. */
static void read_link(struct part *p, const struct ld_value *v, struct kb_ev_link *out)
{
    uint32_t *ends[] = {&out->u, &out->v};

    if (!ld_is(v, LD_V_ARRAY) || ld_n_items(v) != 3) {
        ld_in_fault(p->in, NULL, "expected [user, user, weight]");
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        const struct ld_value *end = ld_item_of(v, i);
        const double x = ld_is(end, LD_V_NUMBER) ? ld_number_of(end) : -1;

        if (x < 0 || x >= UINT32_MAX || x != floor(x))
            ld_in_fault(p->in, NULL, "expected a user's number");
        else
            *ends[i] = (uint32_t)x;
    }
    (void)ld_in_number_value(p->in, ld_item_of(v, 2), &out->weight);
}

static void read_graph(struct part *p)
{
    const struct ld_value *edges = ld_in_array(p->in, p->line, "edges", 0, SIZE_MAX, true);
    size_t n = ld_n_items(edges);

    p->out->n_nodes = SIZE_MAX;
    p->out->nodes = read_numbers(p, "nodes", &p->out->n_nodes);
    struct kb_ev_link *links = n > 0 ? ld_in_alloc(p->in, n, sizeof *links) : NULL;
    if (links == NULL)
        n = 0;
    const size_t mark = ld_in_key(p->in, "edges");
    for (size_t i = 0; i < n; i++) {
        const size_t here = ld_in_item(p->in, edges, i);

        read_link(p, ld_item_of(edges, i), &links[i]);
        ld_in_leave(p->in, here);
    }
    ld_in_leave(p->in, mark);
    p->out->links = links;
    p->out->n_links = n;
}

static void read_points(struct part *p)
{
    struct kb_ev_points *points = &p->out->points;
    size_t n = SIZE_MAX;

    points->user = read_numbers(p, "user", &n);
    points->n = n;
    points->arm = read_numbers(p, "arm", &n);
    points->level = read_numbers(p, "level", &n);
    points->event = read_wholes(p, "event", MAX_COUNT, &n);
    points->count = read_doubles(p, "count", points->n);
    points->sum = read_doubles(p, "sum", points->n);
    points->x = read_doubles(p, "x", points->n * (p->context_dim + p->arm_dim));
    if (ld_member_of(p->line, "halvings") != NULL)
        points->halvings = read_doubles(p, "halvings", points->n);
    if (points->n == 0)
        ld_in_fault(p->in, "user", "expected one point or more");
}

static void read_slot(struct part *p, const struct ld_value *v, struct kb_ev_open_slot *out)
{
    static const char *const names[] = {"arm", "x", "reward", "halvings", NULL};

    if (!ld_in_object(p->in, v, names))
        return;
    out->arm = ld_in_id(p->in, v, "arm", KB_ID_MAX_BYTES, true);
    out->x = ld_in_vector(p->in, v, "x", p->context_dim + p->arm_dim, true);
    out->has_reward = ld_member_of(v, "reward") != NULL;
    out->reward = ld_in_number(p->in, v, "reward", 0, false);
    out->halvings = ld_in_number(p->in, v, "halvings", 0, false);
}

static void read_decision(struct part *p)
{
    const struct ld_value *v = ld_in_array(p->in, p->line, "slots", 1, KB_MAX_SLOTS, true);
    const size_t n = ld_n_items(v);
    struct kb_ev_open_slot *slots = n > 0 ? ld_in_alloc(p->in, n, sizeof *slots) : NULL;

    p->out->decision = ld_in_id(p->in, p->line, "decision", LD_DECISION_MAX_BYTES, true);
    p->out->user = ld_in_id(p->in, p->line, "user", KB_ID_MAX_BYTES, true);
    const char *arm = ld_in_id(p->in, p->line, "arm", KB_ID_MAX_BYTES, true);
    p->out->expires_at_ms = ld_in_time(p->in, p->line, "expires_at");
    p->out->is_deferred = ld_in_bool(p->in, p->line, "deferred", false, true);
    p->out->level = (uint32_t)ld_in_whole(p->in, p->line, "level", 0, KB_MAX_LEVEL, 0, true);
    p->out->route = ld_in_route(p->in, p->line);
    if (slots == NULL)
        return;
    const size_t mark = ld_in_key(p->in, "slots");
    for (size_t i = 0; i < n; i++) {
        const size_t here = ld_in_item(p->in, v, i);

        read_slot(p, ld_item_of(v, i), &slots[i]);
        ld_in_leave(p->in, here);
    }
    ld_in_leave(p->in, mark);
    p->out->slots = slots;
    p->out->n_slots = n;
    if (arm != NULL && slots[0].arm != NULL && strcmp(arm, slots[0].arm) != 0)
        ld_in_fault(p->in, "arm", "expected that of the first slot");
}

static void read_arm(struct part *p, const struct ld_value *v, struct kb_ev_known_arm *out)
{
    static const char *const names[] = {"id",       "features",   "in_catalogue", "active",      "decided",
                                        "rewarded", "reward_sum", "stopped",      "eligibility", NULL};

    if (!ld_in_object(p->in, v, names))
        return;
    out->id = ld_in_id(p->in, v, "id", KB_ID_MAX_BYTES, true);
    out->features = ld_in_vector(p->in, v, "features", p->arm_dim, false);
    out->is_in_catalogue = ld_in_bool(p->in, v, "in_catalogue", false, true);
    out->is_active = ld_in_bool(p->in, v, "active", false, true);
    out->is_stopped = ld_in_bool(p->in, v, "stopped", false, false);
    const struct ld_value *rules = ld_in_get(p->in, v, "eligibility", false);
    const size_t mark = ld_in_key(p->in, "eligibility");
    if (rules != NULL)
        out->eligibility = ld_in_eligibility(p->in, rules);
    ld_in_leave(p->in, mark);
    out->decided = ld_in_whole(p->in, v, "decided", 0, MAX_COUNT, 0, true);
    out->rewarded = ld_in_whole(p->in, v, "rewarded", 0, MAX_COUNT, 0, true);
    out->reward_sum = ld_in_number(p->in, v, "reward_sum", 0, true);
}

static void read_arms(struct part *p)
{
    const struct ld_value *v = ld_in_array(p->in, p->line, "arms", 0, SIZE_MAX, true);
    size_t n = ld_n_items(v);
    struct kb_ev_known_arm *arms = n > 0 ? ld_in_alloc(p->in, n, sizeof *arms) : NULL;

    if (arms == NULL)
        n = 0;
    const size_t mark = ld_in_key(p->in, "arms");
    for (size_t i = 0; i < n; i++) {
        const size_t here = ld_in_item(p->in, v, i);

        read_arm(p, ld_item_of(v, i), &arms[i]);
        ld_in_leave(p->in, here);
    }
    ld_in_leave(p->in, mark);
    p->out->arms = arms;
    p->out->n_arms = n;
}

/* A column of words: times, or names of routes. */
static void read_words(struct part *p, const char *key, size_t n, void *out,
                       bool (*read)(const char *word, void *out, size_t i))
{
    const struct ld_value *v = ld_in_array(p->in, p->line, key, n, n, true);
    const size_t mark = ld_in_key(p->in, key);

    for (size_t i = 0; out != NULL && i < ld_n_items(v); i++) {
        const struct ld_value *word = ld_item_of(v, i);
        const size_t here = ld_in_item(p->in, v, i);

        if (ld_string_of(word) == NULL || !read(ld_string_of(word), out, i))
            ld_in_fault(p->in, NULL, "expected a route, or a time such as 2026-11-21T10:00:00.123Z");
        ld_in_leave(p->in, here);
    }
    ld_in_leave(p->in, mark);
}

static bool read_until(const char *word, void *out, size_t i)
{
    return ld_parse_time(word, &((int64_t *)out)[i]) == 0;
}

static bool read_route(const char *word, void *out, size_t i)
{
    const int route = kb_word_value(&kb_route_words, word);

    ((enum kb_route *)out)[i] = route >= 0 ? (enum kb_route)route : KB_ROUTE_POLICY;
    return route >= 0;
}

static void read_assigned(struct part *p)
{
    struct kb_ev_assigned *out = &p->out->assigned;
    size_t n = SIZE_MAX;

    out->user = read_numbers(p, "user", &n);
    out->arm = read_numbers(p, "arm", &n);
    out->propensity = read_doubles(p, "propensity", n);
    enum kb_route *route = ld_in_alloc(p->in, n + 1, sizeof *route);
    int64_t *until_ms = ld_in_alloc(p->in, n + 1, sizeof *until_ms);
    read_words(p, "route", n, route, read_route);
    read_words(p, "until", n, until_ms, read_until);
    out->route = route;
    out->until_ms = until_ms;
    out->n = n;
}

static void read_route_totals(struct part *p, const struct ld_value *routes, int route, struct kb_route_stats *out)
{
    static const char *const names[] = {"decided", "repeated", "rewarded", "reward_sum", "square_sum", NULL};
    const char *name = kb_word(&kb_route_words, route);
    const struct ld_value *v = ld_member_of(routes, name);
    const size_t mark = ld_in_key(p->in, name);

    if (v != NULL && ld_in_object(p->in, v, names)) {
        out->decided = ld_in_whole(p->in, v, "decided", 0, MAX_COUNT, 0, true);
        out->repeated = ld_in_whole(p->in, v, "repeated", 0, MAX_COUNT, 0, true);
        out->rewarded = ld_in_whole(p->in, v, "rewarded", 0, MAX_COUNT, 0, true);
        out->reward_sum = ld_in_number(p->in, v, "reward_sum", 0, true);
        out->square_sum = ld_in_number(p->in, v, "square_sum", 0, true);
    }
    ld_in_leave(p->in, mark);
}

/* Left out in logs of versions that did not count them. */
static void read_routes(struct part *p, struct kb_ev_totals *t)
{
    static const char *const names[] = {"policy", "holdout", "stopped", NULL};
    const struct ld_value *v = ld_member_of(p->line, "routes");

    if (v == NULL)
        return;
    const size_t mark = ld_in_key(p->in, "routes");
    if (ld_in_object(p->in, v, names))
        for (int i = 0; i < KB_ROUTE_N; i++)
            read_route_totals(p, v, i, &t->routes[i]);
    ld_in_leave(p->in, mark);
}

/* Left out where nothing was forgotten. */
static void read_forgetting(struct part *p, struct kb_ev_totals *t)
{
    static const char *const names[] = {"begun", "halvings", "events", "first", "latest", "observations", NULL};
    const struct ld_value *v = ld_member_of(p->line, "forgetting");

    if (v == NULL)
        return;
    const size_t mark = ld_in_key(p->in, "forgetting");
    if (ld_in_object(p->in, v, names)) {
        t->decay.has_begun = ld_in_bool(p->in, v, "begun", false, true);
        t->decay.base = ld_in_number(p->in, v, "halvings", 0, true);
        t->decay.steps = ld_in_whole(p->in, v, "events", 0, MAX_COUNT, 0, true);
        t->decay.first_ms = ld_in_time(p->in, v, "first");
        t->decay.last_ms = ld_in_time(p->in, v, "latest");
        t->n_learned = ld_in_number(p->in, v, "observations", 0, true);
    }
    ld_in_leave(p->in, mark);
}

static void read_end(struct part *p)
{
    struct kb_ev_totals *t = &p->out->totals;

    t->decided = ld_in_whole(p->in, p->line, "decided", 0, MAX_COUNT, 0, true);
    t->rewarded = ld_in_whole(p->in, p->line, "rewarded", 0, MAX_COUNT, 0, true);
    t->observed = ld_in_whole(p->in, p->line, "observed", 0, MAX_COUNT, 0, true);
    t->expired = ld_in_whole(p->in, p->line, "expired", 0, MAX_COUNT, 0, true);
    t->late = ld_in_whole(p->in, p->line, "late", 0, MAX_COUNT, 0, true);
    t->reward_sum = ld_in_number(p->in, p->line, "reward_sum", 0, true);
    t->square_sum = ld_in_number(p->in, p->line, "square_sum", 0, true);
    t->reset_rows = ld_in_whole(p->in, p->line, "reset_rows", 0, MAX_COUNT, 0, true);
    t->reset_count = ld_in_number(p->in, p->line, "reset_observations", 0, true);
    read_routes(p, t);
    read_forgetting(p, t);
}

/* ---- the table of parts ------------------------------------------------------------------------------------ */

#define COMMON "seq", "type", "at", "part"

static const struct row {
    void (*read)(struct part *p);
    const char *names[20];
} rows[KB_PART_N] = {
    [KB_PART_BEGIN] = {read_begin,
                       {COMMON, "version", "representation", "context_lengthscale", "arm_lengthscale",
                        "configuration"}},
    [KB_PART_USERS] = {read_users, {COMMON, "users", "squares"}},
    [KB_PART_GRAPH] = {read_graph, {COMMON, "nodes", "edges"}},
    [KB_PART_POINTS] = {read_points, {COMMON, "user", "arm", "level", "event", "count", "sum", "x", "halvings"}},
    [KB_PART_DECISION] = {read_decision,
                          {COMMON, "decision", "user", "arm", "expires_at", "deferred", "level", "route", "slots"}},
    [KB_PART_ARMS] = {read_arms, {COMMON, "arms"}},
    [KB_PART_ASSIGNED] = {read_assigned, {COMMON, "user", "arm", "route", "propensity", "until"}},
    [KB_PART_END] = {read_end,
                     {COMMON, "decided", "rewarded", "observed", "expired", "late", "reward_sum", "square_sum",
                      "reset_rows", "reset_observations", "routes", "forgetting"}},
};

void ld_in_summary(struct ld_in *in, const struct ld_value *line, uint32_t context_dim, uint32_t arm_dim,
                   struct kb_event *ev)
{
    struct part p = {.in = in, .line = line, .context_dim = context_dim, .arm_dim = arm_dim};
    const char *name = ld_in_id(in, line, "part", 32, true);
    const int part = name != NULL ? kb_word_value(&kb_part_words, name) : -1;

    if (name != NULL && part < 0)
        ld_in_fault(in, "part", "unknown part of a summary");
    p.out = part >= 0 ? ld_in_alloc(in, 1, sizeof *p.out) : NULL;
    if (p.out == NULL)
        return;
    p.out->part = (enum kb_summary_part)part;
    ev->as.summary = p.out;
    (void)ld_in_object(in, line, rows[part].names);
    rows[part].read(&p);
}
