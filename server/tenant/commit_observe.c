/* Observations: learning without a decision, one or many. One that brings an id is learned once: the log is asked for
 * it first, and then the batch that is open.
 *
 * All or nothing is a promise about faults of the body: every line is checked before the first is staged, and when the
 * engine still refuses one, the batch is undone, which is why a bulk op starts a batch of its own. It is not a promise
 * of one transaction: a dictionary change ends a batch, so a long body spans several, and is answered when the last is
 * applied. Should a commit fail in between, what came before it is durable, and the answer says how many lines.
 *
 * There is no key for a whole request. It would have to remember how far a body came, in a table beside the log that
 * exports and imports lose; and a client that cuts a stream anew after a crash would miss it. An observation's id
 * stands in its line. The index of decision ids finds it, where the type keeps the two apart.
 *
 * Cost: the check is one hash look-up a line that names an arm without features (the table of the catalogue is built
 * once an op, O(arms)); staging is the engine's reserve. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_key.h"
#include "base/ids.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"
#include "json/json_in.h"

/* The catalogue's arms that have features, by id. */
struct featured {
    struct kb_ids ids;
    const double **features; /* by index of ids; borrowed from the engine */
};

/* O(arms). On failure the table is to be closed all the same. Arms outside the catalogue have none. */
static enum kb_err open_featured(const struct ld_tenant *t, struct featured *f)
{
    const size_t n = kb_engine_n_arms(t->engine);
    enum kb_err rc = KB_OK;

    kb_ids_init(&f->ids, ld_hash_key());
    f->features = kb_array(n + 1, 1, sizeof *f->features);
    if (f->features == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct kb_arm_view arm = kb_engine_arm(t->engine, i);

        if (arm.features == NULL)
            continue;
        KB_TRY(kb_ids_reserve(&f->ids, 1, strlen(arm.id) + 1));
        f->features[kb_ids_add(&f->ids, arm.id)] = arm.features;
    }
out:
    return rc;
}

/* The pointer of item i's field: with its index when the body is an array. Lines that are blank are not counted here,
 * unlike in the decoder: i is the item's number. */
static void point_at_item(const struct ld_op *op, size_t i, const char *field, char *out, size_t n)
{
    if (op->is_array)
        snprintf(out, n, "/%zu%.100s", i, field);
    else
        snprintf(out, n, "%.100s", field);
}

/* Whether some observation names an arm and leaves its features to the catalogue. O(observations); saves the table
 * when every line brings its own features, or arms have none in this tenant. */
static bool needs_catalogue(const struct ld_tenant *t, const struct ld_op *op)
{
    bool is_needed = false;

    for (size_t i = 0; i < op->n; i++)
        is_needed |= op->events[i].type != KB_EV_NONE && op->events[i].as.observed.arm.features == NULL;
    return is_needed && t->settings.spec.arm_dim > 0;
}

/* Features of the catalogue stay where they are until the next arms event, which stands alone behind this op's batches.
 * Another server's may come in between: then they are copied. NULL: no memory. */
static const double *borrow(const struct ld_tenant *t, const struct ld_op *op, const double *features)
{
    const size_t n = t->settings.spec.arm_dim * sizeof *features;

    if (t->world->shared == NULL || features == NULL)
        return features;
    double *copy = ld_doc_alloc(op->doc, n, 1);
    return copy != NULL ? memcpy(copy, features, n) : NULL;
}

/* Fills in the features that the catalogue has now, so that a line of the log stands for itself when the catalogue
 * has moved on.
 * False: some arm has none there; op->problem names them all. */
static bool fill_features(const struct ld_tenant *t, struct ld_op *op)
{
    struct featured known;
    char pointer[160];
    enum kb_err rc;

    if (!needs_catalogue(t, op))
        return true;
    rc = open_featured(t, &known);
    for (size_t i = 0; rc == KB_OK && i < op->n; i++) {
        struct kb_ev_slot *arm = &op->events[i].as.observed.arm;
        if (op->events[i].type == KB_EV_NONE)
            continue;
        const uint32_t ix = arm->features == NULL ? kb_ids_find(&known.ids, arm->arm) : KB_ID_NONE;

        if (ix != KB_ID_NONE)
            arm->features = borrow(t, op, known.features[ix]);
        if (arm->features != NULL)
            continue;
        point_at_item(op, i, "/arm", pointer, sizeof pointer);
        ld_problem_add(ld_op_problem(op), pointer, "the catalogue has no features of '%.100s': give its %u (arm_dim)",
                       arm->arm, t->settings.spec.arm_dim);
    }
    kb_ids_close(&known.ids);
    kb_free(known.features);
    if (rc != KB_OK)
        ld_problem_from_core(ld_op_problem(op), rc, NULL);
    return op->problem->status == 0;
}

/* ---- those that were learned before ---------------------------------------------------------------- */

/* Whether two events are one observation sent twice. Context and features are not compared: a catalogue may have moved
 * on between a request and its retry. */
static bool is_same(const struct kb_event *a, const struct kb_event *b)
{
    return strcmp(a->as.observed.user, b->as.observed.user) == 0 &&
           strcmp(a->as.observed.arm.arm, b->as.observed.arm.arm) == 0 &&
           a->as.observed.reward == b->as.observed.reward;
}

/* An item whose id is known is not learned again: it becomes no event. Under another user, arm or reward it is a
 * fault, which no retry makes. */
static void note_known(struct ld_op *op, size_t i, bool is_the_same)
{
    char pointer[160];

    if (is_the_same) {
        op->events[i].type = KB_EV_NONE;
        op->n_known++;
        return;
    }
    ld_problem_set(ld_op_problem(op), 409, "an observation's id is taken");
    point_at_item(op, i, "/id", pointer, sizeof pointer);
    ld_problem_add(ld_op_problem(op), pointer, "an observation of another user, arm or reward has this id");
}

/* Looks item i up in the log. One in the open batch goes into the log before. False: op->problem or ld_op_lose has
 * told that it cannot be known. */
static bool look_up(struct ld_tenant *t, struct ld_op *op, size_t i)
{
    const struct kb_event *ev = &op->events[i];
    bool is_known = false, is_the_same = false;

    if (!ld_batch_commit_id(t, ev->as.observed.id)) {
        ld_op_lose(op);
        return false;
    }
    if (ld_store_observation(t->store, ev, &is_known, &is_the_same) != LD_STORE_OK) {
        ld_op_refuse_busy(op, "the log cannot be read");
        return false;
    }
    if (is_known)
        note_known(op, i, is_the_same);
    return true;
}

/* Finds the items that the log has, or that stand in the op twice. O(items with an id, log n each). False: the op is
 * refused. */
static bool find_known(struct ld_tenant *t, struct ld_op *op)
{
    struct kb_ids ids;
    uint32_t *item = ld_doc_alloc(op->doc, op->n, sizeof *item); /* by index of ids */
    enum kb_err rc = item != NULL ? KB_OK : KB_ENOMEM;

    op->n_known = 0;
    kb_ids_init(&ids, ld_hash_key());
    for (size_t i = 0; rc == KB_OK && i < op->n; i++) {
        const char *id = op->events[i].as.observed.id;
        const uint32_t ix = id != NULL ? kb_ids_find(&ids, id) : KB_ID_NONE;

        if (id == NULL)
            continue;
        if (ix != KB_ID_NONE)
            note_known(op, i, is_same(&op->events[item[ix]], &op->events[i]));
        else if (!look_up(t, op, i))
            break;
        else if ((rc = kb_ids_reserve(&ids, 1, strlen(id) + 1)) == KB_OK)
            item[kb_ids_add(&ids, id)] = (uint32_t)i;
    }
    kb_ids_close(&ids);
    if (rc != KB_OK)
        ld_problem_from_core(ld_op_problem(op), rc, NULL);
    return op->problem->status == 0;
}

/* ---- staging --------------------------------------------------------------------------------------- */

/* The engine refused item n_done, for want of memory or by a limit: what this op has in the open batch goes. A batch
 * holds only this op when it has more than one item (see ld_observe_expand), so dropping it takes nothing from
 * anybody else. A single observation shares its batch, and a failed reserve has left that as it was. */
static void refuse_observation(struct ld_tenant *t, struct ld_op *op, int rc, const struct kb_errmsg *msg)
{
    struct kb_errmsg at = *msg;

    if (op->n > 1)
        ld_batch_drop(t);
    point_at_item(op, op->n_done, msg->pointer, at.pointer, sizeof at.pointer);
    if (op->n_safe > 0)
        ld_problem_set(ld_op_problem(op), ld_problem_status(rc) == 507 ? 507 : 503,
                       "the first %zu of %zu observations were recorded, the rest was not", op->n_safe, op->n);
    ld_problem_from_core(ld_op_problem(op), rc, msg->text[0] != '\0' ? &at : NULL);
}

/* A refusal in the middle: what came before it stays. */
static void tell_part(struct ld_op *op)
{
    const struct ld_problem p = *op->problem;

    ld_op_forgive(op);
    ld_problem_set(ld_op_problem(op), p.status, "the first %zu of %zu observations were recorded; %.300s", op->n_safe,
                   op->n, p.detail);
    ld_op_problem(op)->retry_after_s = p.retry_after_s;
    for (size_t i = 0; i < p.n_errors; i++)
        ld_problem_add(ld_op_problem(op), p.errors[i].pointer, "%s", p.errors[i].detail);
}

/* Others have written since the items were looked up: those from the i-th on may be in the log by now, or their vectors
 * of other dimensions. False: the op is refused, and was told. */
static bool look_again(struct ld_tenant *t, struct ld_op *op, size_t i)
{
    const bool is_current = !ld_op_is_outdated(t, op);

    for (size_t k = i; is_current && k < op->n && op->problem->status == 0; k++)
        if (op->events[k].type != KB_EV_NONE && op->events[k].as.observed.id != NULL && !look_up(t, op, k))
            break;
    if (op->problem->status != 0 && op->n_safe > 0)
        tell_part(op);
    return op->problem->status == 0;
}

/* An observation depends on no other event: where it is to be staged again, flushing is enough, but for what others may
 * have written then. */
static int stage_item(struct ld_tenant *t, struct ld_op *op, size_t i, struct kb_errmsg *msg)
{
    int rc = KB_EBUSY;

    for (int n = 0; rc == KB_EBUSY && n < LD_MOST_LOOKS; n++) {
        const struct ld_entry entry = {.ev = op->events[i]};

        if (entry.ev.type == KB_EV_NONE)
            return KB_OK;
        rc = ld_batch_stage(t, &entry, msg);
        if (rc != KB_EBUSY)
            break;
        ld_batch_flush(t);
        if (t->world->shared != NULL && !look_again(t, op, i))
            return LD_LOST;
    }
    if (rc == KB_OK)
        ld_batch_remember(t, op->events[i].as.observed.id);
    return rc;
}

/* n_done counts the items staged, n_safe those that a commit has made durable (conclude in commit.c moves it up). The
 * loop ends at the first item that is refused or lost; op->problem says which case it was. */
int ld_observe_expand(struct ld_tenant *t, struct ld_op *op)
{
    int rc = KB_OK;

    if (op->n > 1)
        ld_batch_flush(t);
    if (ld_op_is_outdated(t, op) || !find_known(t, op) || !fill_features(t, op))
        return 0;
    for (op->n_done = 0; op->n_done < op->n && rc == KB_OK; op->n_done += rc == KB_OK) {
        struct kb_errmsg msg = {.text = ""};

        rc = stage_item(t, op, op->n_done, &msg);
        if (rc != KB_OK && rc != LD_LOST)
            refuse_observation(t, op, rc, &msg);
    }
    return 0;
}

/* Told after the last item is applied, or reserved when the tenant is relaxed. All or nothing makes the numbers those
 * of the body's lines. */
void ld_observe_answer(struct ld_tenant *t, struct ld_op *op)
{
    char text[80], known[40] = "";

    (void)t;
    if (op->n_known > 0)
        snprintf(known, sizeof known, ",\"duplicates\":%zu", op->n_known);
    snprintf(text, sizeof text, "{\"observed\":%zu%s}", op->n - op->n_known, known);
    ld_op_reply_copy(op, text);
}

/* A part that is durable cannot be taken back: the answer tells how long it is, so that the caller can send the rest.
 * 503 and Retry-After in both cases; only the first may be sent again as it is. */
void ld_observe_lose(struct ld_op *op)
{
    if (op->n_safe == 0) {
        ld_op_refuse_busy(op, ld_op_loss(op));
        return;
    }
    ld_problem_set(ld_op_problem(op), 503, "%s; the first %zu of %zu observations were recorded",
                   op->is_unsure ? LD_UNSURE : "the commit failed", op->n_safe, op->n);
    ld_op_problem(op)->retry_after_s = 1;
}
