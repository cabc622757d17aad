/* Graphs and catalogues of arms -> events: bodies of PUT and PATCH, and the lists that log lines share with
 * them. A PUT replaces: its body is an object, a bare array, or NDJSON (which is parsed into one). Whether edges
 * agree with each other and with what is recorded is the engine's to judge; here each item is judged alone,
 * except that an arm may not stand twice in one catalogue.
 *
 *   edge   ["u", "v"] or ["u", "v", weight]; weight > 0, 1 when left out; u and v differ
 *   pair   ["u", "v"], in removals
 *   arm    "id" or {"id", "features"?, "active"?}; features have arm_dim numbers; active unless told otherwise
 *
 * Both resources are large (hundreds of thousands of items), so every function is linear, and memory is that of the
 * items: 24 bytes an edge or arm and 8 a feature, besides the parsed document that their strings are borrowed from. */
#include "json_util.h"

#include <jansson.h>
#include <string.h>

#include "ids.h"

/* --- edges ------------------------------------------------------------------------------------------- */

/* ["u", "v", w?] or, in removals, ["u", "v"]. The graph is undirected: ["u", "v"] and ["v", "u"] are one edge, which
 * the engine sees to. A faulty edge keeps what was read of it; the fault keeps the list from being used. */
static void read_edge(struct ld_in *in, const json_t *v, bool is_removal, struct kb_ev_edge *out)
{
    size_t n = json_array_size(v), most = is_removal ? 2 : 3;
    out->weight = 1;
    if (!json_is_array(v) || n < 2 || n > most) {
        ld_in_fault(in, NULL, is_removal ? "expected [user, user]" : "expected [user, user] or [user, user, weight]");
        return;
    }
    /* Both ends are read the same way, each under its own index in the pointer. */
    const char **ends[] = {&out->u, &out->v};
    for (size_t i = 0; i < 2; i++) {
        size_t mark = ld_in_item(in, v, i);
        *ends[i] = ld_in_id_value(in, json_array_get(v, i), KB_ID_MAX_BYTES);
        ld_in_leave(in, mark);
    }
    if (out->u != NULL && out->v != NULL && strcmp(out->u, out->v) == 0)
        ld_in_fault(in, NULL, "a user cannot be tied to itself");
    /* No weight was given: 1. */
    if (n < 3)
        return;
    size_t mark = ld_in_item(in, v, 2);
    if (ld_in_number_value(in, json_array_get(v, 2), &out->weight) && out->weight <= 0)
        ld_in_fault(in, NULL, "expected a weight > 0");
    ld_in_leave(in, mark);
}

/* The items of an array of edges; array NULL holds none. O(n). The place in hand is the array's own; each item adds
 * its index while it is read. */
static const struct kb_ev_edge *read_edges(struct ld_in *in, const struct json_t *array, bool is_removal, size_t *n)
{
    *n = json_array_size(array);
    struct kb_ev_edge *edges = *n > 0 ? ld_in_alloc(in, *n, sizeof *edges) : NULL;
    if (edges == NULL) {
        *n = 0;
        return NULL;
    }
    for (size_t i = 0; i < *n; i++) {
        size_t here = ld_in_item(in, array, i);
        read_edge(in, json_array_get(array, i), is_removal, &edges[i]);
        ld_in_leave(in, here);
    }
    return edges;
}

/* The member `key` of obj as edges; NULL and *n = 0 when it is absent (a fault when is_required), empty or faulty.
 * The caller's body or log line decides what the member is called. */
const struct kb_ev_edge *ld_in_edges_at(struct ld_in *in, const struct json_t *obj, const char *key, bool is_removal,
                                        bool is_required, size_t *n)
{
    const json_t *array = ld_in_array(in, obj, key, 0, SIZE_MAX, is_required);
    size_t mark = ld_in_key(in, key);
    const struct kb_ev_edge *edges = read_edges(in, array, is_removal, n);
    ld_in_leave(in, mark);
    return edges;
}

/* Users who have no edge, and so stand in no pair, are named by `users`; those in pairs need not be. An NDJSON body
 * has edges only. seq and time of the event are given by the writer. */
int ld_decode_graph(struct ld_doc *doc, bool is_patch, struct kb_event *out, struct ld_problem *p)
{
    static const char *const put_names[] = {"users", "edges", NULL};
    static const char *const patch_names[] = {"users", "add", "remove", NULL};
    struct ld_in in;
    const json_t *v = doc->root;
    ld_in_init(&in, doc, p);
    *out = (struct kb_event){.type = KB_EV_GRAPH, .as.graph = {.is_replace = !is_patch}};
    /* A bare array, or the one that NDJSON makes: edges, nothing else. */
    if (!is_patch && json_is_array(v)) {
        out->as.graph.add = read_edges(&in, v, false, &out->as.graph.n_add);
        return ld_in_done(&in);
    }
    if (!ld_in_object(&in, v, is_patch ? patch_names : put_names))
        return -1;
    out->as.graph.users = ld_in_ids(&in, v, "users", SIZE_MAX, &out->as.graph.n_users, false);
    out->as.graph.add = ld_in_edges_at(&in, v, is_patch ? "add" : "edges", false, !is_patch, &out->as.graph.n_add);
    if (is_patch)
        out->as.graph.remove = ld_in_edges_at(&in, v, "remove", true, false, &out->as.graph.n_remove);
    return ld_in_done(&in);
}

/* --- arms -------------------------------------------------------------------------------------------- */

/* A string is short for {"id": string}: an active arm without features. Unknown members are faults here as elsewhere,
 * so that a misspelt "feature" is not an arm without any. */
static void read_arm(struct ld_in *in, const json_t *v, uint32_t arm_dim, struct kb_ev_arm *out)
{
    static const char *const names[] = {"id", "features", "active", NULL};
    out->is_active = true;
    if (json_is_string(v)) {
        out->id = ld_in_id_value(in, v, KB_ID_MAX_BYTES);
        return;
    }
    if (!json_is_object(v)) {
        ld_in_fault(in, NULL, "expected an arm: a string, or an object with id, features and active");
        return;
    }
    (void)ld_in_object(in, v, names);
    out->id = ld_in_id(in, v, "id", KB_ID_MAX_BYTES, true);
    out->features = ld_in_vector(in, v, "features", arm_dim, false);
    out->is_active = ld_in_bool(in, v, "active", true, false);
}

/* seen: a set of ids. The fault is told at the second of the two. The set borrows nothing: jansson copies its keys. */
static void refuse_repeat(struct ld_in *in, json_t *seen, const char *id)
{
    if (id == NULL)
        return;
    if (json_object_get(seen, id) != NULL)
        ld_in_fault(in, NULL, "the arm stands in the list already");
    else if (json_object_set_new_nocheck(seen, id, json_true()) != 0)
        ld_problem_set(in->p, 503, "out of memory");
}

/* Within one list an id may stand once: of two features for one arm neither is more true. O(n) by a hash set. The
 * items are in the document's memory; NULL and *n = 0 for an empty list. */
const struct kb_ev_arm *ld_in_arms(struct ld_in *in, const struct json_t *array, uint32_t arm_dim, size_t *n)
{
    *n = json_array_size(array);
    json_t *seen = json_object();
    struct kb_ev_arm *arms = *n > 0 ? ld_in_alloc(in, *n, sizeof *arms) : NULL;
    if (seen == NULL)
        ld_problem_set(in->p, 503, "out of memory"); /* an empty list must not pass for what was sent */
    if (arms == NULL || seen == NULL)
        *n = 0;
    for (size_t i = 0; i < *n; i++) {
        size_t here = ld_in_item(in, array, i);
        read_arm(in, json_array_get(array, i), arm_dim, &arms[i]);
        refuse_repeat(in, seen, arms[i].id);
        ld_in_leave(in, here);
    }
    json_decref(seen);
    return arms;
}

/* Of a patch both members may be missing: it then changes nothing, and is no fault. An id in both `arms` and `remove`
 * is not judged here; the engine applies or refuses the event as one. */
int ld_decode_arms(struct ld_doc *doc, bool is_patch, uint32_t arm_dim, struct kb_event *out, struct ld_problem *p)
{
    static const char *const put_names[] = {"arms", NULL};
    static const char *const patch_names[] = {"arms", "remove", NULL};
    struct ld_in in;
    const json_t *v = doc->root;
    ld_in_init(&in, doc, p);
    *out = (struct kb_event){.type = KB_EV_ARMS, .as.arms = {.is_replace = !is_patch}};
    /* A bare array, or the one that NDJSON makes: arms, nothing else. */
    if (!is_patch && json_is_array(v)) {
        out->as.arms.put = ld_in_arms(&in, v, arm_dim, &out->as.arms.n_put);
        return ld_in_done(&in);
    }
    if (!ld_in_object(&in, v, is_patch ? patch_names : put_names))
        return -1;
    const json_t *array = ld_in_array(&in, v, "arms", 0, SIZE_MAX, !is_patch);
    size_t mark = ld_in_key(&in, "arms");
    out->as.arms.put = ld_in_arms(&in, array, arm_dim, &out->as.arms.n_put);
    ld_in_leave(&in, mark);
    if (is_patch)
        out->as.arms.remove = ld_in_ids(&in, v, "remove", SIZE_MAX, &out->as.arms.n_remove, false);
    return ld_in_done(&in);
}
