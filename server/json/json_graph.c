/* Graphs and catalogues of arms -> events: bodies of PUT and PATCH, and the lists that log lines share with
 * them. A PUT replaces: its body is an object, a bare array, or NDJSON (which is parsed into one). Whether edges
 * agree with each other and with what is recorded is the engine's to judge; here each item is judged alone,
 * except that an arm may not stand twice in one catalogue.
 *
 *   edge   ["u", "v"] or ["u", "v", weight]; weight > 0, 1 when left out; u and v differ
 *   pair   ["u", "v"], in removals
 *   arm    "id" or {"id", "features"?, "active"?, "stopped"?, "eligibility"?, "value"?}; features have arm_dim numbers;
 *          active unless told otherwise
 *
 * Both resources are large (hundreds of thousands of items), so every function is linear, and memory is that of the
 * items: 24 bytes an edge or arm and 8 a feature, besides the parsed document that their strings are borrowed from. */
#include "json/json_in.h"

#include <string.h>

#include "json/json_rows.h"

/* --- edges ------------------------------------------------------------------------------------------- */

/* ["u", "v", w?] or, in removals, ["u", "v"]. The graph is undirected: ["u", "v"] and ["v", "u"] are one edge, which
 * the engine sees to. A faulty edge keeps what was read of it; the fault keeps the list from being used. */
static void read_tie(struct ld_in *in, const struct ld_value *v, bool is_removal, struct kb_ev_edge *out)
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

static void read_edge(struct ld_in *in, const struct ld_value *v, void *edge)
{
    read_tie(in, v, false, edge);
}

static void read_pair(struct ld_in *in, const struct ld_value *v, void *edge)
{
    read_tie(in, v, true, edge);
}

/* In the order of the request; the weight is written even where it is 1, and means nothing in removals. */
static const struct ld_row edge_rows[] = {
    {"u", LD_ROW_TEXT, .at = offsetof(struct kb_ev_edge, u)},
    {"v", LD_ROW_TEXT, .at = offsetof(struct kb_ev_edge, v)},
    {"weight", LD_ROW_REAL, .at = offsetof(struct kb_ev_edge, weight)},
};
const struct ld_list ld_edges_list = {
    {edge_rows, 3}, sizeof(struct kb_ev_edge), .shape = LD_LIST_TUPLES, .read_item = read_edge};
const struct ld_list ld_pairs_list = {
    {edge_rows, 2}, sizeof(struct kb_ev_edge), .shape = LD_LIST_TUPLES, .read_item = read_pair};

#define IN_GRAPH(row_kind, member, number, list)                                                                       \
    {                                                                                                                  \
        .kind = row_kind, .at = offsetof(struct kb_event, as.graph.member),                                            \
        .more = offsetof(struct kb_event, as.graph.number), .of = list                                                 \
    }

/* Users who have no edge, and so stand in no pair, are named by `users`; those in pairs need not be. */
static const struct ld_row graph_rows[] = {
    [LD_GRAPH_USERS] = IN_GRAPH(LD_ROW_TEXTS, users, n_users, NULL),
    [LD_GRAPH_EDGES] = IN_GRAPH(LD_ROW_LIST, add, n_add, &ld_edges_list),
};
static const struct ld_row graph_patch_rows[] = {
    [LD_GRAPH_PATCH_USERS] = IN_GRAPH(LD_ROW_TEXTS, users, n_users, NULL),
    [LD_GRAPH_PATCH_ADD] = IN_GRAPH(LD_ROW_LIST, add, n_add, &ld_edges_list),
    [LD_GRAPH_PATCH_REMOVE] = IN_GRAPH(LD_ROW_LIST, remove, n_remove, &ld_pairs_list),
};

/* An NDJSON body has edges only, like the bare array that it is parsed into. seq and time of the event are given by
 * the writer. */
int ld_decode_graph(struct ld_doc *doc, bool is_patch, struct kb_event *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *out = (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = !is_patch}};
    if (is_patch)
        (void)ld_in_body(&in, &doc->root, &ld_graph_patch_rules, graph_patch_rows, out);
    else if (ld_is(&doc->root, LD_V_ARRAY))
        out->as.graph.add = ld_in_items(&in, &ld_edges_list, &doc->root, &out->as.graph.n_add);
    else
        (void)ld_in_body(&in, &doc->root, &ld_graph_rules, graph_rows, out);
    return ld_in_done(&in);
}

/* --- arms -------------------------------------------------------------------------------------------- */

/* In the order of the schema's rules. An arm without features is written without the member, which is how it was put.
 */
static const struct ld_row arm_rows[] = {
    [LD_ARM_ID] = {"id", LD_ROW_TEXT, .at = offsetof(struct kb_ev_arm, id)},
    [LD_ARM_FEATURES] = {"features", LD_ROW_VECTOR, LD_ROW_OPTIONAL | LD_ROW_OR_NULL,
                         offsetof(struct kb_ev_arm, features), .dim = LD_DIM_ARM},
    [LD_ARM_ACTIVE] = {"active", LD_ROW_FLAG, .at = offsetof(struct kb_ev_arm, is_active)},
    [LD_ARM_STOPPED] = {"stopped", LD_ROW_FLAG, LD_ROW_OPTIONAL, .at = offsetof(struct kb_ev_arm, is_stopped)},
    [LD_ARM_ELIGIBILITY] = {"eligibility", LD_ROW_ELIGIBILITY, LD_ROW_OPTIONAL,
                            .at = offsetof(struct kb_ev_arm, eligibility)},
    [LD_ARM_VALUE] = {"value", LD_ROW_VALUE, LD_ROW_OPTIONAL, .at = offsetof(struct kb_ev_arm, value)},
};

/* A string is short for {"id": string}: an active arm without features. Unknown members are faults here as elsewhere,
 * so that a misspelt "feature" is not an arm without any. */
static void read_arm(struct ld_in *in, const struct ld_value *v, void *item)
{
    struct kb_ev_arm *out = item;
    out->is_active = true;
    if (ld_is(v, LD_V_STRING) || (ld_is(v, LD_V_NUMBER) && !in->is_log))
        out->id = ld_in_text(in, v, &ld_id_rule);
    else if (ld_is(v, LD_V_OBJECT))
        (void)ld_in_body(in, v, &ld_arm_rules, arm_rows, out);
    else
        ld_in_fault(in, NULL, "expected an arm: a string, or an object with id and what there is of it");
}

/* Within one list an id may stand once: of two features for one arm neither is more true. */
const struct ld_list ld_arms_list = {LD_ROWS(arm_rows), sizeof(struct kb_ev_arm), .shape = LD_LIST_OBJECTS,
                                     .is_set = true, .read_item = read_arm};

#define IN_ARMS(row_kind, member, number, list)                                                                        \
    {                                                                                                                  \
        .kind = row_kind, .at = offsetof(struct kb_event, as.arms.member),                                             \
        .more = offsetof(struct kb_event, as.arms.number), .of = list                                                  \
    }

/* Of a patch's body, and of a put's, which has the first of them alone. */
static const struct ld_row arms_rows[] = {
    [LD_ARMS_PATCH_ARMS] = IN_ARMS(LD_ROW_LIST, put, n_put, &ld_arms_list),
    [LD_ARMS_PATCH_REMOVE] = IN_ARMS(LD_ROW_TEXTS, remove, n_remove, NULL),
    [LD_ARMS_PATCH_STOP] = IN_ARMS(LD_ROW_TEXTS, stop, n_stop, NULL),
    [LD_ARMS_PATCH_START] = IN_ARMS(LD_ROW_TEXTS, start, n_start, NULL),
};
_Static_assert((int)LD_ARMS_ARMS == (int)LD_ARMS_PATCH_ARMS, "one reader for both");

/* Of a patch all members may be missing: it then changes nothing, and is no fault. An id in both `arms` and `remove`
 * is not judged here; the engine applies or refuses the event as one. A bare array, like the one that NDJSON makes, has
 * arms only. */
int ld_decode_arms(struct ld_doc *doc, bool is_patch, uint32_t arm_dim, struct kb_event *out, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    ld_in_set_dims(&in, 0, arm_dim);
    *out = (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = !is_patch}};
    if (!is_patch && ld_is(&doc->root, LD_V_ARRAY))
        out->as.arms.put = ld_in_items(&in, &ld_arms_list, &doc->root, &out->as.arms.n_put);
    else
        (void)ld_in_body(&in, &doc->root, is_patch ? &ld_arms_patch_rules : &ld_arms_rules, arms_rows, out);
    return ld_in_done(&in);
}
