/* Graphs and catalogues of arms -> events: bodies of PUT and PATCH, and the lists that log lines share with
 * them. A PUT replaces: its body is an object, a bare array, or NDJSON (which is parsed into one). Whether edges
 * agree with each other and with what is recorded is the engine's to judge; here each item is judged alone,
 * except that an arm may not stand twice in one catalogue.
 *
 *   edge   ["u", "v"] or ["u", "v", weight]; weight > 0, 1 when left out; u and v differ
 *   pair   ["u", "v"], in removals
 *   arm    "id" or {"id", "features"?, "active"?, "stopped"?, "eligibility"?}; features have arm_dim numbers; active
 *          unless told otherwise
 *
 * Both resources are large (hundreds of thousands of items), so every function is linear, and memory is that of the
 * items: 24 bytes an edge or arm and 8 a feature, besides the parsed document that their strings are borrowed from. */
#include "json/json_in.h"
#include "json/json_util.h"

#include <string.h>

#include "base/hash_key.h"
#include "base/ids.h"
#include "json/json_routing.h"

/* --- edges ------------------------------------------------------------------------------------------- */

/* ["u", "v", w?] or, in removals, ["u", "v"]. The graph is undirected: ["u", "v"] and ["v", "u"] are one edge, which
 * the engine sees to. A faulty edge keeps what was read of it; the fault keeps the list from being used. */
static void read_edge(struct ld_in *in, const struct ld_value *v, bool is_removal, struct kb_ev_edge *out)
{
    const struct ld_rule *rule = is_removal ? &ld_pair_rule : &ld_edge_rule;
    const size_t n = ld_n_items(v);
    out->weight = 1;
    if (!ld_is(v, LD_V_ARRAY) || (double)n < rule->lo || (double)n > rule->hi) {
        ld_in_fault(in, NULL, is_removal ? "expected [user, user]" : "expected [user, user] or [user, user, weight]");
        return;
    }
    /* Both ends are read the same way, each under its own index in the pointer. */
    const char **ends[] = {&out->u, &out->v};
    for (size_t i = 0; i < 2; i++) {
        size_t mark = ld_in_item(in, v, i);
        *ends[i] = ld_in_text(in, ld_item_of(v, i), &ld_id_rule);
        ld_in_leave(in, mark);
    }
    if (out->u != NULL && out->v != NULL && strcmp(out->u, out->v) == 0)
        ld_in_fault(in, NULL, "a user cannot be tied to itself");
    /* No weight was given: 1. */
    if (n < 3)
        return;
    size_t mark = ld_in_item(in, v, 2);
    (void)ld_in_real(in, ld_item_of(v, 2), &ld_weight_rule, &out->weight);
    ld_in_leave(in, mark);
}

/* The items of an array of edges; array NULL holds none. O(n). The place in hand is the array's own; each item adds
 * its index while it is read. */
const struct kb_ev_edge *ld_in_edges(struct ld_in *in, const struct ld_value *array, bool is_removal, size_t *n)
{
    *n = ld_n_items(array);
    struct kb_ev_edge *edges = *n > 0 ? ld_in_alloc(in, *n, sizeof *edges) : NULL;
    if (edges == NULL) {
        *n = 0;
        return NULL;
    }
    for (size_t i = 0; i < *n; i++) {
        size_t here = ld_in_item(in, array, i);
        read_edge(in, ld_item_of(array, i), is_removal, &edges[i]);
        ld_in_leave(in, here);
    }
    return edges;
}

/* Users who have no edge, and so stand in no pair, are named by `users`; those in pairs need not be. */
static void read_graph(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    struct kb_event *ev = arg;
    if (i == LD_GRAPH_USERS)
        ev->as.graph.users = ld_in_id_list(in, v, &ld_graph_rules.rule[i], &ev->as.graph.n_users);
    else if (ld_in_list(in, v, &ld_graph_rules.rule[i]))
        ev->as.graph.add = ld_in_edges(in, v, false, &ev->as.graph.n_add);
}

static void read_graph_patch(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct ld_rule *rule = &ld_graph_patch_rules.rule[i];
    struct kb_event *ev = arg;
    if (i == LD_GRAPH_PATCH_USERS)
        ev->as.graph.users = ld_in_id_list(in, v, rule, &ev->as.graph.n_users);
    else if (ld_in_list(in, v, rule) && i == LD_GRAPH_PATCH_ADD)
        ev->as.graph.add = ld_in_edges(in, v, false, &ev->as.graph.n_add);
    else if (ld_is(v, LD_V_ARRAY))
        ev->as.graph.remove = ld_in_edges(in, v, true, &ev->as.graph.n_remove);
}

/* An NDJSON body has edges only, like the bare array that it is parsed into. seq and time of the event are given by
 * the writer. */
int ld_decode_graph(struct ld_doc *doc, bool is_patch, struct kb_event *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = !is_patch}};
    if (is_patch)
        (void)ld_in_members(&in, &doc->root, &ld_graph_patch_rules, read_graph_patch, out);
    else if (ld_is(&doc->root, LD_V_ARRAY))
        out->as.graph.add = ld_in_edges(&in, &doc->root, false, &out->as.graph.n_add);
    else
        (void)ld_in_members(&in, &doc->root, &ld_graph_rules, read_graph, out);
    return ld_in_done(&in);
}

/* --- arms -------------------------------------------------------------------------------------------- */

/* An arm of the catalogue, and how many features it has when it brings any. */
struct arm_reading {
    struct kb_ev_arm *out;
    uint32_t dim;
};

static void read_arm_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct arm_reading *arm = arg;
    if (i == LD_ARM_ID)
        arm->out->id = ld_in_text(in, v, &ld_id_rule);
    else if (i == LD_ARM_ACTIVE)
        arm->out->is_active = ld_in_flag(in, v);
    else if (i == LD_ARM_STOPPED)
        arm->out->is_stopped = ld_in_flag(in, v);
    else if (i == LD_ARM_ELIGIBILITY)
        arm->out->eligibility = ld_in_eligibility(in, v);
    else
        arm->out->features = ld_in_vector_value(in, v, arm->dim, "arm_dim", true);
}

/* A string is short for {"id": string}: an active arm without features. Unknown members are faults here as elsewhere,
 * so that a misspelt "feature" is not an arm without any. */
static void read_arm(struct ld_in *in, const struct ld_value *v, uint32_t arm_dim, struct kb_ev_arm *out)
{
    struct arm_reading arm = {out, arm_dim};
    out->is_active = true;
    if (ld_is(v, LD_V_STRING) || (ld_is(v, LD_V_NUMBER) && !in->is_log))
        out->id = ld_in_text(in, v, &ld_id_rule);
    else if (ld_is(v, LD_V_OBJECT))
        (void)ld_in_members(in, v, &ld_arm_rules, read_arm_member, &arm);
    else
        ld_in_fault(in, NULL, "expected an arm: a string, or an object with id and what there is of it");
}

/* Within one list an id may stand once: of two features for one arm neither is more true. O(n) by a hash set. The
 * items are in the document's memory; NULL and *n = 0 for an empty list. */
const struct kb_ev_arm *ld_in_arms(struct ld_in *in, const struct ld_value *array, uint32_t arm_dim, size_t *n)
{
    *n = ld_n_items(array);
    struct kb_ids seen;
    struct kb_ev_arm *arms = *n > 0 ? ld_in_alloc(in, *n, sizeof *arms) : NULL;
    if (arms == NULL)
        *n = 0;
    kb_ids_init(&seen, ld_hash_key());
    for (size_t i = 0; i < *n; i++) {
        size_t here = ld_in_item(in, array, i);
        read_arm(in, ld_item_of(array, i), arm_dim, &arms[i]);
        ld_in_refuse_repeat(in, &seen, arms[i].id);
        ld_in_leave(in, here);
    }
    kb_ids_close(&seen);
    return arms;
}

/* The event being filled, and how many features its arms have. */
struct arms_reading {
    struct kb_event *out;
    uint32_t dim;
};

/* Of a put's body and of a patch's: their first member is the same. */
static void read_arms(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct arms_reading *r = arg;
    const struct ld_rule *rule = &ld_arms_patch_rules.rule[i];
    if (i == LD_ARMS_PATCH_REMOVE)
        r->out->as.arms.remove = ld_in_id_list(in, v, rule, &r->out->as.arms.n_remove);
    else if (i == LD_ARMS_PATCH_STOP)
        r->out->as.arms.stop = ld_in_id_list(in, v, rule, &r->out->as.arms.n_stop);
    else if (i == LD_ARMS_PATCH_START)
        r->out->as.arms.start = ld_in_id_list(in, v, rule, &r->out->as.arms.n_start);
    else if (ld_in_list(in, v, rule))
        r->out->as.arms.put = ld_in_arms(in, v, r->dim, &r->out->as.arms.n_put);
}
_Static_assert((int)LD_ARMS_ARMS == (int)LD_ARMS_PATCH_ARMS, "one reader for both");

/* Of a patch all members may be missing: it then changes nothing, and is no fault. An id in both `arms` and `remove`
 * is not judged here; the engine applies or refuses the event as one. A bare array, like the one that NDJSON makes, has
 * arms only. */
int ld_decode_arms(struct ld_doc *doc, bool is_patch, uint32_t arm_dim, struct kb_event *out, struct ld_problem *p)
{
    struct arms_reading r = {out, arm_dim};
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = !is_patch}};
    if (!is_patch && ld_is(&doc->root, LD_V_ARRAY))
        out->as.arms.put = ld_in_arms(&in, &doc->root, arm_dim, &out->as.arms.n_put);
    else
        (void)ld_in_members(&in, &doc->root, is_patch ? &ld_arms_patch_rules : &ld_arms_rules, read_arms, &r);
    return ld_in_done(&in);
}
