/* Bodies of /select, /reward, /activate and /observe -> structs: see json_in.h. Strings and vectors are
 * borrowed from the document; arrays are made in its memory.
 *
 * What is judged here is the form: types, lengths, limits, dimensions. Whether a user, an arm or a decision
 * exists is for the engine and the log to say, under the tenant's lock. Limits bound what one request can cost:
 * 1,024 candidates, 1,000 rewards, 10,000 observations; ids of 256 bytes, decision ids of 128.
 *
 * Each function is one body: it names the members that may stand in it, reads them all, and reports by -1 whether any
 * was at fault. Cost: O(members), next to nothing beside the parse. No function here knows a tenant; dimensions come
 * as arguments, and the caller looks again whether they still hold (dims_epoch). */
#include "json_in.h"

#include <jansson.h>
#include <math.h>

#include "ids.h"
#include "json_util.h"

/* The first two stand in openapi.yaml as well (maxItems). */
#define MAX_CANDIDATES 1024u
#define MAX_REWARDS 1000u
#define MAX_OBSERVATIONS 10000u

/* --- /select ----------------------------------------------------------------------------------------- */

/* An arm as "id" or {"id", "features"?}. One spelling for candidates and observations: the catalogue's own list has
 * `active` besides (json_graph.c). */
static void read_arm(struct ld_in *in, const json_t *v, uint32_t arm_dim, const char **id, const double **features)
{
    static const char *const names[] = {"id", "features", NULL};
    *features = NULL;
    if (json_is_string(v)) {
        *id = ld_in_id_value(in, v, KB_ID_MAX_BYTES);
    } else if (!json_is_object(v)) {
        ld_in_fault(in, NULL, "expected an arm: a string, or an object with id and features");
    } else if (ld_in_object(in, v, names)) {
        *id = ld_in_id(in, v, "id", KB_ID_MAX_BYTES, true);
        *features = ld_in_vector(in, v, "features", arm_dim, false);
    }
}

/* Left out, every active arm of the catalogue is meant, which is why an empty list is a fault and not the same thing.
 * Whether two of them are the same arm is for the engine to say, which looks ids up anyway. */
static void read_candidates(struct ld_in *in, const json_t *obj, uint32_t arm_dim, struct kb_query *q)
{
    json_t *array = ld_in_array(in, obj, "candidates", 1, MAX_CANDIDATES, false);
    /* Absent, or a fault that has been told. */
    if (array == NULL)
        return;
    size_t n = json_array_size(array);
    struct kb_candidate *c = ld_in_alloc(in, n, sizeof *c);
    if (c == NULL)
        return;
    size_t mark = ld_in_key(in, "candidates");
    for (size_t i = 0; i < n; i++) {
        size_t here = ld_in_item(in, array, i);
        read_arm(in, json_array_get(array, i), arm_dim, &c[i].arm, &c[i].features);
        ld_in_leave(in, here);
    }
    ld_in_leave(in, mark);
    q->candidates = c;
    q->n_candidates = n;
}

/* Reads all members even after a fault, so that one answer names every one of them. O(candidates x arm_dim).
 * `explain` only widens the ranking in the answer; `top` is also how many arms count as put before the user. */
int ld_decode_select(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_select *out,
                     struct ld_problem *p)
{
    static const char *const names[] = {"user",    "context", "candidates", "exclude", "top",
                                        "explain", "dry_run", "decision",   "defer",   NULL};
    struct ld_in in;
    const json_t *o = doc->root;
    ld_in_init(&in, doc, p);
    *out = (struct ld_select){.top = 1};
    if (!ld_in_object(&in, o, names))
        return -1;
    out->query.user = ld_in_id(&in, o, "user", KB_ID_MAX_BYTES, true);
    out->query.context = ld_in_vector(&in, o, "context", context_dim, true);
    read_candidates(&in, o, arm_dim, &out->query);
    out->query.exclude = ld_in_ids(&in, o, "exclude", MAX_CANDIDATES, &out->query.n_exclude, false);
    out->top = (size_t)ld_in_whole(&in, o, "top", 1, KB_MAX_SLOTS, 1, false);
    out->is_explained = ld_in_bool(&in, o, "explain", false, false);
    out->is_dry_run = ld_in_bool(&in, o, "dry_run", false, false);
    out->is_deferred = ld_in_bool(&in, o, "defer", false, false);
    out->decision = ld_in_id(&in, o, "decision", LD_DECISION_MAX_BYTES, false);
    return ld_in_done(&in);
}

/* --- /reward, /activate ------------------------------------------------------------------------------ */

/* Shared by the single reward and by the items of an array. The reward must be there: null is not 0. Any finite
 * number is a reward; scaling is the sender's affair. Without an arm the one drawn is meant. */
static void read_reward(struct ld_in *in, const json_t *v, struct ld_reward *out)
{
    static const char *const names[] = {"decision", "reward", "arm", NULL};
    if (!ld_in_object(in, v, names))
        return;
    out->decision = ld_in_id(in, v, "decision", LD_DECISION_MAX_BYTES, true);
    out->reward = ld_in_number(in, v, "reward", NAN, true);
    out->arm = ld_in_id(in, v, "arm", KB_ID_MAX_BYTES, false);
}

/* An array with one bad item is refused whole: half of a malformed body may be another body than the sender meant.
 * *out and *n hold the rewards in the order of the body, which is the order in which they count. */
int ld_decode_rewards(struct ld_doc *doc, struct ld_reward **out, size_t *n, bool *is_array, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *is_array = json_is_array(doc->root);
    *n = *is_array ? json_array_size(doc->root) : 1;
    if (*n < 1 || *n > MAX_REWARDS) {
        ld_in_fault(&in, NULL, "expected 1 to %u rewards", MAX_REWARDS);
        return -1;
    }
    *out = ld_in_alloc(&in, *n, sizeof **out);
    if (*out == NULL)
        return -1;
    for (size_t i = 0; i < *n; i++) {
        size_t here = *is_array ? ld_in_item(&in, doc->root, i) : in.n_path;
        read_reward(&in, *is_array ? json_array_get(doc->root, i) : doc->root, &(*out)[i]);
        ld_in_leave(&in, here);
    }
    return ld_in_done(&in);
}

/* *decision is left alone when the body is refused. Whether the decision is open, deferred or known at all: the
 * writer looks. */
int ld_decode_activate(struct ld_doc *doc, const char **decision, struct ld_problem *p)
{
    static const char *const names[] = {"decision", NULL};
    struct ld_in in;
    ld_in_init(&in, doc, p);
    if (ld_in_object(&in, doc->root, names))
        *decision = ld_in_id(&in, doc->root, "decision", LD_DECISION_MAX_BYTES, true);
    return ld_in_done(&in);
}

/* --- /tenants/{t}/compact ----------------------------------------------------------------------------- */

/* How many of the last events stay must be said: it is what is lost otherwise. */
int ld_decode_compact(struct ld_doc *doc, uint64_t *keep_events, struct ld_problem *p)
{
    static const char *const names[] = {"keep_events", NULL};
    struct ld_in in;
    ld_in_init(&in, doc, p);
    if (ld_in_object(&in, doc->root, names))
        *keep_events = ld_in_whole(&in, doc->root, "keep_events", 0, UINT64_C(9007199254740991), 0, true);
    return ld_in_done(&in);
}

/* --- /observe ---------------------------------------------------------------------------------------- */

/* The features of a bare id are left NULL, for the engine to take from the catalogue. A propensity that was not told
 * is NaN. The type is set even when the rest is at fault, and seq and time are given by the writer. */
static void read_observation(struct ld_in *in, const json_t *v, uint32_t context_dim, uint32_t arm_dim,
                             struct kb_event *ev)
{
    static const char *const names[] = {"user", "context", "arm", "reward", "propensity", NULL};
    ev->type = KB_EV_OBSERVED;
    if (!ld_in_object(in, v, names))
        return;
    ev->as.observed.user = ld_in_id(in, v, "user", KB_ID_MAX_BYTES, true);
    ev->as.observed.context = ld_in_vector(in, v, "context", context_dim, true);
    ev->as.observed.reward = ld_in_number(in, v, "reward", NAN, true);
    ev->as.observed.propensity = ld_in_propensity(in, v, "propensity", NAN, false);
    /* An arm may be a string or an object, so it is read at its own place in the pointer. */
    const json_t *arm = ld_in_get(in, v, "arm", true);
    if (arm == NULL)
        return;
    size_t mark = ld_in_key(in, "arm");
    read_arm(in, arm, arm_dim, &ev->as.observed.arm.arm, &ev->as.observed.arm.features);
    ld_in_leave(in, mark);
}

/* All lines or none: the events are only handed out when every line is good. O(lines x dimensions). A blank line is
 * no item; pointers count it all the same. */
int ld_decode_observe(struct ld_doc *doc, bool is_ndjson, uint32_t context_dim, uint32_t arm_dim, struct kb_event **out,
                      size_t *n, struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    *n = is_ndjson ? json_array_size(doc->root) : 1;
    if (*n < 1 || *n > MAX_OBSERVATIONS) {
        ld_in_fault(&in, NULL, "expected 1 to %u lines", MAX_OBSERVATIONS);
        return -1;
    }
    *out = ld_in_alloc(&in, *n, sizeof **out);
    if (*out == NULL)
        return -1;
    for (size_t i = 0; i < *n; i++) {
        size_t here = is_ndjson ? ld_in_item(&in, doc->root, i) : in.n_path;
        read_observation(&in, is_ndjson ? json_array_get(doc->root, i) : doc->root, context_dim, arm_dim, &(*out)[i]);
        ld_in_leave(&in, here);
    }
    return ld_in_done(&in);
}
