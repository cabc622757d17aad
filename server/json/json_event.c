/* A line of the log (schema/event.schema.json) <-> struct kb_event, in both directions by one table a type: recovery,
 * imports and folds read what the tenant's writer has written once. A line holds all that the event does, doubles bit
 * for bit, so that a model can be folded from lines alone.
 *
 *   {"seq":7,"type":"rewarded","at":"2026-11-21T10:00:00.123Z","decision":"d1","reward":1}
 *
 * Members are written in the order of the rows; seq, type and at come first, so that a person can read a log by its
 * left edge. What a type may have and an event has not is left out (`arm` of a reward); what a type always has is
 * always there, empty lists included, so that readers in other languages need no defaults.
 *
 * Lines are read as strictly as any body: one that is not exactly what its type says is refused, since a line that
 * lost a member must not pass for one that never had it. Logs outlive versions: a member that is added to a type later
 * is LD_ROW_OPTIONAL or LD_ROW_YOUNG, and one that is there today cannot be taken away. Presets of the version that
 * reads play no part, since lines are written in full. */
#include "json/json_event_rows.h"

/* --- configured ---------------------------------------------------------------------------------------- */

/* In full: presets may change between versions, a log may not. `version` counts configurations. */
static const struct ld_row configured[] = {
    HEAD,
    FROM_ONE("version", 0, EV(configured.version)),
    SETTINGS(EV(configured.spec)),
    BY,
};

/* --- graph --------------------------------------------------------------------------------------------- */

static const struct ld_row graph[] = {
    HEAD,
    FLAG("replace", 0, EV(graph.is_replace)),
    IDS("users", 0, EV(graph.users), EV(graph.n_users)),
    LIST("add", 0, EV(graph.add), EV(graph.n_add), &ld_edges_list),
    LIST("remove", 0, EV(graph.remove), EV(graph.n_remove), &ld_pairs_list),
    BY,
};

/* --- arms ---------------------------------------------------------------------------------------------- */

static const struct ld_row arms[] = {
    HEAD,
    FLAG("replace", 0, EV(arms.is_replace)),
    LIST("put", 0, EV(arms.put), EV(arms.n_put), &ld_arms_list),
    IDS("remove", 0, EV(arms.remove), EV(arms.n_remove)),
    IDS("stop", OPTIONAL, EV(arms.stop), EV(arms.n_stop)),
    IDS("start", OPTIONAL, EV(arms.start), EV(arms.n_start)),
    BY,
};

/* --- what is asked of the whole, and what the log says of itself ------------------------------------ */

static const struct ld_row redacted[] = {
    HEAD,
    {"dropped", LD_ROW_TEXT, OPTIONAL, EV(redacted.dropped), .rule = &dropped_text},
    BY,
};

/* Learning starts anew; what stands before it stays in the log. */
static const struct ld_row forgotten[] = {HEAD, BY};

/* An arm earns less than it did; `left` of what was learned so far counts on. */
static const struct ld_row changed[] = {HEAD, ID("arm", 0, EV(changed.arm)), REAL("left", 0, EV(changed.left))};

/* --- the table of types -------------------------------------------------------------------------------- */

/* By the number of the type, as stored; type 0 is none, and a summary has those of its part. */
static const struct ld_event_rows of_configured = {LD_ROWS(configured), NULL, NULL},
                                  of_graph = {LD_ROWS(graph), NULL, NULL}, of_arms = {LD_ROWS(arms), NULL, NULL},
                                  of_redacted = {LD_ROWS(redacted), NULL, NULL},
                                  of_forgotten = {LD_ROWS(forgotten), NULL, NULL},
                                  of_changed = {LD_ROWS(changed), NULL, NULL};
static const struct ld_event_rows *const types[] = {
    [KB_EV_CONFIGURED] = &of_configured,
    [KB_EV_GRAPH] = &of_graph,
    [KB_EV_ARMS] = &of_arms,
    [KB_EV_DECIDED] = &ld_event_decided,
    [KB_EV_REWARDED] = &ld_event_rewarded,
    [KB_EV_LATE] = &ld_event_late,
    [KB_EV_OBSERVED] = &ld_event_observed,
    [KB_EV_EXPIRED] = &ld_event_expired,
    [KB_EV_ACTIVATED] = &ld_event_activated,
    [KB_EV_DICTIONARY] = &ld_event_reset,
    [KB_EV_REDACTED] = &of_redacted,
    [KB_EV_TUNED] = &ld_event_tuned,
    [KB_EV_MEASURED] = &ld_event_measured,
    [KB_EV_FORGOTTEN] = &of_forgotten,
    [KB_EV_CHANGED] = &of_changed,
};

/* Those of a type, where a part of a summary, or whether it is a reset, says which. */
static const struct ld_event_rows *rows_of(enum kb_event_type type, int part, bool is_reset)
{
    if (type == KB_EV_SUMMARY)
        return &ld_event_parts[part];
    return type == KB_EV_DICTIONARY && !is_reset ? &ld_event_admission : types[type];
}

/* --- reading ------------------------------------------------------------------------------------------- */

/* A member of the line that says which others it has; -1 when it is no word of the list, which is told. */
static int read_kind(struct ld_in *in, const char *key, const struct kb_words *words, const char *fault)
{
    const struct ld_value *v = ld_member_of(&in->doc->root, key);
    const size_t mark = ld_in_key(in, key);
    const char *name = v != NULL ? ld_in_text(in, v, &word) : NULL;
    const int kind = name != NULL ? kb_word_value(words, name) : -1;
    if (v == NULL || (name != NULL && kind < 0))
        ld_in_fault(in, NULL, "%s", v == NULL ? "required" : fault);
    ld_in_leave(in, mark);
    return kind;
}

/* The type comes first, since it says which members may stand beside it. O(length). A line without a known type is
 * refused with that one fault: nothing else in it could be judged. -1 also for a seq of 0 or beyond 2^53 - 1; whether
 * it is the next one is the caller's question. */
int ld_decode_event(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct kb_event *out,
                    struct ld_problem *p)
{
    struct ld_in in;
    struct line l = {.part = {.n_users = 0}};
    ld_in_init(&in, doc, p);
    in.is_log = true;
    ld_in_set_dims(&in, context_dim, arm_dim);
    if (!ld_is(&doc->root, LD_V_OBJECT)) {
        ld_in_fault(&in, NULL, "expected an object");
        return -1;
    }
    const int type = read_kind(&in, "type", &kb_event_words, "unknown type of event");
    const int part = type == KB_EV_SUMMARY ? read_kind(&in, "part", &kb_part_words, "unknown part of a summary") : 0;
    if (type <= KB_EV_NONE || part < 0)
        return -1;
    const bool is_reset = ld_is(ld_member_of(&doc->root, "reset"), LD_V_TRUE);
    const struct ld_event_rows *of = rows_of((enum kb_event_type)type, part, is_reset);
    ld_in_rows(&in, &doc->root, &of->rows, &l);
    if (of->close != NULL)
        of->close(&in, &l);
    *out = l.ev;
    return ld_in_done(&in);
}

/* --- writing ------------------------------------------------------------------------------------------- */

/* The members of its rows from..to - 1, or to the last. */
static char *encode(const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim,
                    const struct ld_settings *settings, size_t from, size_t to, size_t *n)
{
    struct ld_text t;
    struct line l = {.ev = *ev};
    const struct ld_out out = {&t, {1, context_dim, arm_dim, context_dim + arm_dim}, settings};
    const struct ld_event_rows *of = rows_of(ev->type, ev->type == KB_EV_SUMMARY ? (int)ev->as.summary->part : 0,
                                             kb_event_is_dictionary(ev) && ev->as.dictionary.is_reset);
    const struct ld_rows *rows = &of->rows;
    if (of->open != NULL)
        of->open(&l);
    ld_text_init(&t);
    ld_text_raw(&t, "{", 1);
    ld_text_rows(&out, rows, from, to < rows->n ? to : rows->n, &l);
    if (to >= rows->n)
        ld_text_raw(&t, "}", 1);
    return ld_text_take(&t, n);
}

/* NULL when a number is not finite: the caller refuses the event then, so it is never logged. O(length of the line).
 * Ids in ev must be NUL-terminated UTF-8, as the decoders leave them. */
char *ld_encode_event(const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim,
                      const struct ld_settings *settings, size_t *n)
{
    return encode(ev, context_dim, arm_dim, settings, 0, SIZE_MAX, n);
}

char *ld_encode_event_head(const struct kb_event *ev, size_t *n)
{
    return encode(ev, 0, 0, NULL, 0, N_HEAD, n);
}

char *ld_encode_graph_tail(const struct kb_event *ev, size_t *n)
{
    char *text = encode(ev, 0, 0, NULL, N_HEAD, SIZE_MAX, n);
    if (text != NULL)
        *text = ','; /* behind the members of the head */
    return text;
}

void ld_text_arm(struct ld_text *t, const struct kb_ev_arm *arm, uint32_t arm_dim)
{
    const struct ld_out out = {t, {1, 0, arm_dim, 0}, NULL};
    ld_text_raw(t, "{", 1);
    ld_text_rows(&out, &ld_arms_list.rows, 0, ld_arms_list.rows.n, arm);
    ld_text_raw(t, "}", 1);
}