/* Drafts of graphs (graph_draft.h): names, and who they are. The cost is that of the names: two look-ups an edge, in a
 * table that is larger than any cache when there are a million users. Lists are often by the first user, who is then
 * looked up once.
 *
 * Users come while a draft is made. Those that were there when its first name was looked for have numbers below n_seen;
 * in the turn the later ones are looked for among the draft's names, which are few times as many look-ups as users have
 * come. Names that are nobody's get numbers behind all users then; so the table of all ids, which takes longest to
 * make, has them as n_seen + name, and one pass puts the numbers in. */
#include "model/graph_draft.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#define SPARE_SLOTS 1024u

/* ---- names -------------------------------------------------------------------------------------------- */

/* The name's number, a new one when it has none yet. */
static enum kb_err number(struct kb_graph_draft *d, const char *name, uint32_t *at)
{
    *at = kb_ids_find(&d->names, name);
    if (*at != KB_ID_NONE)
        return KB_OK;
    enum kb_err rc = kb_ids_reserve(&d->names, 1, strlen(name) + 1);
    if (rc == KB_OK)
        *at = kb_ids_add(&d->names, name);
    return rc;
}

static enum kb_err number_edges(struct kb_graph_draft *d, const struct kb_event *ev)
{
    const char *last = "";
    uint32_t u = KB_ID_NONE, v;
    enum kb_err rc = KB_OK;

    for (size_t i = 0; i < ev->as.graph.n_add; i++) {
        const struct kb_ev_edge *e = &ev->as.graph.add[i];

        if (i == 0 || strcmp(e->u, last) != 0)
            KB_TRY(number(d, e->u, &u));
        KB_TRY(number(d, e->v, &v));
        d->edge[i] = (struct kb_edge){u, v, e->weight};
        last = e->u;
    }
out:
    return rc;
}

static enum kb_err number_all(struct kb_graph_draft *d, const struct kb_event *ev)
{
    enum kb_err rc = KB_OK;
    uint32_t at;

    for (size_t i = 0; i < ev->as.graph.n_users; i++)
        KB_TRY(number(d, ev->as.graph.users[i], &at));
    KB_TRY(number_edges(d, ev));
    d->n_named = d->names.n;
    for (size_t i = 0; i < ev->as.graph.n_remove && d->base != NULL; i++) {
        KB_TRY(number(d, ev->as.graph.remove[i].u, &at));
        KB_TRY(number(d, ev->as.graph.remove[i].v, &at));
    }
    d->user = kb_regrow(NULL, d->names.n + 1, sizeof *d->user);
    rc = d->user != NULL ? KB_OK : KB_ENOMEM;
out:
    return rc;
}

enum kb_err kb_graph_draft_new(struct kb_graph_draft **out, const struct kb_event *ev, const struct kb_user_graph *base,
                               struct kb_graph_ref *held, struct kb_hash_key key, struct kb_errmsg *msg)
{
    struct kb_graph_draft *d = kb_array(1, 1, sizeof *d);
    enum kb_err rc = d != NULL ? KB_OK : KB_ENOMEM;

    assert(ev->type == KB_EV_GRAPH && ev->as.graph.is_replace == (base == NULL));
    if (d == NULL) {
        kb_graph_ref_release(held);
        return rc;
    }
    kb_ids_init(&d->names, key);
    d->base = base;
    d->held = held;
    d->edge = kb_regrow(NULL, ev->as.graph.n_add + 1, sizeof *d->edge);
    if (d->edge == NULL)
        rc = KB_ENOMEM;
    KB_TRY(rc);
    KB_TRY(number_all(d, ev));
    if (base == NULL && d->n_named > 0)
        KB_TRY(kb_graph_new(&d->graph, d->n_named, d->edge, ev->as.graph.n_add, msg));
    d->n_new = d->n_named;
    *out = d;
    d = NULL;
out:
    kb_graph_draft_free(d);
    return rc;
}

void kb_graph_draft_free(struct kb_graph_draft *d)
{
    if (d == NULL)
        return;
    kb_graph_free(d->graph);
    kb_graph_ref_release(d->held);
    kb_ids_close(&d->names);
    kb_free(d->edge);
    kb_free(d->name_of);
    kb_free(d->user);
    kb_free(d->slot);
    kb_free(d);
}

/* ---- who they are ------------------------------------------------------------------------------------- */

/* Behind the users; in the turn they get the numbers that they have by then. */
static void place_names(struct kb_graph_draft *d)
{
    for (size_t i = 0; i < d->n_named; i++)
        if (d->user[i] == KB_ID_NONE || d->user[i] >= d->n_seen)
            kb_ids_place(d->slot, d->n_slots, d->names.key, kb_ids_str(&d->names, (uint32_t)i),
                         (uint32_t)(d->n_seen + i));
}

/* Room for the table when it is worth it; without memory there is none, and the turn does without. */
static void begin_places(struct kb_graph_draft *d)
{
    size_t n_unknown = 0;

    for (size_t i = 0; i < d->n_named; i++)
        n_unknown += d->user[i] == KB_ID_NONE || d->user[i] >= d->n_seen;
    if (n_unknown <= KB_SMALL_CHANGE || n_unknown >= KB_ID_NONE - d->n_seen)
        return;
    const size_t n = d->n_seen + n_unknown;
    d->n_slots = kb_ids_slots_for(n + n / 64 + SPARE_SLOTS);
    d->slot = kb_ids_slots_new(d->n_slots);
    if (d->slot != NULL)
        place_names(d);
}

/* Users for the table. */
static size_t n_to_place(const struct kb_graph_draft *d)
{
    return d->slot != NULL ? d->n_seen : 0;
}

bool kb_graph_draft_meet(struct kb_graph_draft *d, const struct kb_ids *users, size_t most)
{
    assert(memcmp(&d->names.key, &users->key, sizeof users->key) == 0);
    if (d->n_met == 0)
        d->n_seen = users->n;
    if (d->n_met < d->names.n) {
        for (; d->n_met < d->names.n && most > 0; most--, d->n_met++)
            d->user[d->n_met] = kb_ids_find(users, kb_ids_str(&d->names, (uint32_t)d->n_met));
        if (d->n_met == d->names.n)
            begin_places(d);
        return d->n_met < d->names.n || d->n_placed < n_to_place(d);
    }
    for (; d->n_placed < n_to_place(d) && most > 0; most--, d->n_placed++)
        kb_ids_place(d->slot, d->n_slots, d->names.key, kb_ids_str(users, (uint32_t)d->n_placed),
                     (uint32_t)d->n_placed);
    return d->n_placed < n_to_place(d);
}

/* Those who came after the first name was looked for. */
static void meet_newcomers(struct kb_graph_draft *d, const struct kb_ids *users)
{
    for (size_t u = d->n_seen; u < users->n; u++) {
        const uint32_t name = kb_ids_find(&d->names, kb_ids_str(users, (uint32_t)u));

        if (name != KB_ID_NONE)
            d->user[name] = (uint32_t)u;
    }
}

/* ---- the turn ----------------------------------------------------------------------------------------- */

static uint32_t name_of_node(const struct kb_graph_draft *d, size_t i)
{
    return d->name_of != NULL ? d->name_of[i] : (uint32_t)i;
}

/* Room for those among the new nodes whose names are nobody's. */
static enum kb_err reserve_fresh(const struct kb_graph_draft *d, struct kb_ids *fresh)
{
    size_t n = 0, n_bytes = 0;

    for (size_t i = 0; i < d->n_new; i++) {
        const uint32_t name = name_of_node(d, i);

        if (d->user[name] != KB_ID_NONE)
            continue;
        n++;
        n_bytes += strlen(kb_ids_str(&d->names, name)) + 1;
    }
    return kb_ids_list(fresh, n, n_bytes);
}

/* Of a draft that is made: appends to `fresh` the names that are nobody's, and gives the nodes their users. The draft
 * is used up, on success alone. O(nodes), a few passes at the speed of memory. */
static enum kb_err take(struct kb_graph_draft *d, const struct kb_ids *users, struct kb_ids *fresh,
                        struct kb_user_graph *out)
{
    const size_t n_old = d->base != NULL ? d->base->n : 0, n = n_old + d->n_new;
    uint32_t *user_of = kb_regrow(NULL, n, sizeof *user_of);
    enum kb_err rc = user_of != NULL ? KB_OK : KB_ENOMEM;

    assert(d->is_made && d->n_met == d->names.n);
    meet_newcomers(d, users);
    if (rc == KB_OK)
        rc = reserve_fresh(d, fresh);
    if (rc == KB_OK && n >= KB_ID_NONE - users->n - fresh->n)
        rc = KB_ELIMIT;
    if (rc != KB_OK) {
        kb_free(user_of);
        return rc;
    }
    if (n_old > 0)
        memcpy(user_of, d->base->user_of, n_old * sizeof *user_of);
    for (size_t i = 0; i < d->n_new; i++) {
        const uint32_t name = name_of_node(d, i);

        if (d->user[name] == KB_ID_NONE)
            d->user[name] = (uint32_t)users->n + kb_ids_put(fresh, kb_ids_str(&d->names, name));
        user_of[n_old + i] = d->user[name];
    }
    *out = (struct kb_user_graph){.graph = d->graph, .user_of = user_of, .n = n};
    d->graph = NULL;
    d->is_made = false;
    return KB_OK;
}

enum kb_err kb_graph_draft_join(struct kb_graph_draft *d, struct kb_ids *users, const struct kb_ids *fresh,
                                struct kb_moves *m)
{
    if (d->slot == NULL || d->n_placed < n_to_place(d) || d->n_slots < kb_ids_slots_for(users->n + fresh->n))
        return kb_ids_join(users, fresh, m);
    for (size_t at = 0; at < d->n_slots; at++)
        if (d->slot[at] != KB_ID_NONE && d->slot[at] >= d->n_seen)
            d->slot[at] = d->user[d->slot[at] - d->n_seen];
    for (size_t u = d->n_seen; u < users->n; u++) {
        const char *id = kb_ids_str(users, (uint32_t)u);
        const uint32_t name = kb_ids_find(&d->names, id);

        if (name == KB_ID_NONE || name >= d->n_named)
            kb_ids_place(d->slot, d->n_slots, d->names.key, id, (uint32_t)u);
    }
    uint32_t *slot = d->slot;
    d->slot = NULL;
    return kb_ids_join_placed(users, fresh, slot, d->n_slots, m);
}

/* Whether the event's draft can be put in force: it is there, not used up by an attempt that failed later, and patches
 * the graph that it would take the place of. */
static bool is_of(const struct kb_graph_draft *d, const struct kb_user_graph *old)
{
    return d != NULL && d->is_made && (d->base == NULL || d->base->graph == old->graph);
}

/* Here and now. */
static enum kb_err draft(const struct kb_user_graph *old, const struct kb_ids *users, const struct kb_event *ev,
                         struct kb_graph_draft **out, struct kb_errmsg *msg)
{
    struct kb_graph_draft *d = NULL;
    enum kb_err rc = kb_graph_draft_new(&d, ev, ev->as.graph.is_replace ? NULL : old, NULL, users->key, msg);

    KB_TRY(rc);
    while (kb_graph_draft_meet(d, users, SIZE_MAX))
        continue;
    KB_TRY(kb_graph_draft_make(d, ev, msg));
    *out = d;
    d = NULL;
out:
    kb_graph_draft_free(d);
    return rc;
}

/* An event that leaves no node gives "no graph" (NULL), as at the start of a tenant. */
enum kb_err kb_user_graph_edit(const struct kb_user_graph *old, const struct kb_ids *users, struct kb_ids *fresh,
                               const struct kb_event *ev, struct kb_graph_draft **made, struct kb_user_graph *out,
                               struct kb_errmsg *msg)
{
    enum kb_err rc = KB_OK;

    assert(ev->type == KB_EV_GRAPH);
    if (!is_of(*made, old))
        rc = draft(old, users, ev, made, msg);
    return rc == KB_OK ? take(*made, users, fresh, out) : rc;
}
