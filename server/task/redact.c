/* Taking one user out of a log.
 *
 *     decided, observed         by the user: gone
 *     rewarded, expired, ...    of such a decision: gone
 *     graph                     without the user, and the edges to them
 *     dictionary                points go from all of them: they were chosen in the user's presence, and the reset that
 *                               ends the erasure takes the place of every one (a fold reads no points before it)
 *     configured, arms          stay: they name no user
 *     summary                   without the user (redact_summary.c)
 *
 * A line that is gone keeps its number and time, as `redacted`, so that the log stays without gaps and every other line
 * keeps its number. Decisions precede what is said of them, so one pass in the order of the log is enough. */
#include "task/redact.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_key.h"
#include "json/json_out.h"
#include "json/json_in.h"

void ld_redactor_open(struct ld_redactor *r, const char *user)
{
    *r = (struct ld_redactor){.user = user, .number = KB_ID_NONE};
    kb_ids_init(&r->decisions, ld_hash_key());
}

void ld_redactor_close(struct ld_redactor *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->item[i].text);
    kb_free(r->item);
    kb_free(r->gone);
    kb_ids_close(&r->decisions);
}

/* ---- one event ---------------------------------------------------------------------------------------- */

static bool is_user(const struct ld_redactor *r, const char *id)
{
    return strcmp(r->user, id) == 0;
}

static enum kb_err add_decision(struct ld_redactor *r, const char *id)
{
    if (kb_ids_reserve(&r->decisions, 1, strlen(id) + 1) != KB_OK)
        return KB_ENOMEM;
    kb_ids_add(&r->decisions, id);
    return KB_OK;
}

static void drop(const struct ld_redactor *r, struct kb_event *ev)
{
    *ev = (struct kb_event){.type = KB_EV_REDACTED, .seq = ev->seq, .at_ms = ev->at_ms, .by = r->by};
}

/* The edges that do not touch the user, into *out. */
static enum kb_err keep_edges(const struct ld_redactor *r, struct ld_doc *doc, const struct kb_ev_edge **edges,
                              size_t *n)
{
    struct kb_ev_edge *kept = ld_doc_alloc(doc, *n + 1, sizeof *kept);
    size_t n_kept = 0;

    if (kept == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < *n; i++)
        if (!is_user(r, (*edges)[i].u) && !is_user(r, (*edges)[i].v))
            kept[n_kept++] = (*edges)[i];
    *edges = kept;
    *n = n_kept;
    return KB_OK;
}

static enum kb_err keep_users(const struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev)
{
    const char **kept = ld_doc_alloc(doc, ev->as.graph.n_users + 1, sizeof *kept);
    size_t n_kept = 0;

    if (kept == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < ev->as.graph.n_users; i++)
        if (!is_user(r, ev->as.graph.users[i]))
            kept[n_kept++] = ev->as.graph.users[i];
    ev->as.graph.users = kept;
    ev->as.graph.n_users = n_kept;
    return KB_OK;
}

/* A patch of which nothing is left was about the user alone. */
static enum kb_err redact_graph(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, bool *is_changed)
{
    const size_t before = ev->as.graph.n_users + ev->as.graph.n_add + ev->as.graph.n_remove;
    enum kb_err rc = KB_OK;

    KB_TRY(keep_users(r, doc, ev));
    KB_TRY(keep_edges(r, doc, &ev->as.graph.add, &ev->as.graph.n_add));
    KB_TRY(keep_edges(r, doc, &ev->as.graph.remove, &ev->as.graph.n_remove));
    const size_t after = ev->as.graph.n_users + ev->as.graph.n_add + ev->as.graph.n_remove;
    *is_changed = after != before;
    if (after == 0 && before > 0 && !ev->as.graph.is_replace)
        drop(r, ev);
out:
    return rc;
}

static void redact_dictionary(const struct ld_redactor *r, struct kb_event *ev, bool *is_changed)
{
    if (ev->as.dictionary.is_begun && ev->as.dictionary.is_reset)
        return;
    *is_changed = true;
    if (!ev->as.dictionary.is_reset) {
        drop(r, ev);
        return;
    }
    ev->as.dictionary.n_atoms = 0;
    ev->as.dictionary.has_evidence = false;
}

/* NULL: not about a decision. */
static const char *decision_of(const struct kb_event *ev)
{
    switch (ev->type) {
    case KB_EV_REWARDED:
        return ev->as.rewarded.decision;
    case KB_EV_EXPIRED:
        return ev->as.expired.decision;
    case KB_EV_ACTIVATED:
        return ev->as.activated.decision;
    case KB_EV_LATE:
        return ev->as.late.decision;
    case KB_EV_MEASURED:
        return ev->as.measured.decision;
    default:
        return NULL;
    }
}

static enum kb_err change(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, bool *is_changed)
{
    const char *decision = decision_of(ev);
    const bool is_decided = ev->type == KB_EV_DECIDED && is_user(r, ev->as.decided.user);
    const bool is_own = is_decided || (ev->type == KB_EV_OBSERVED && is_user(r, ev->as.observed.user)) ||
                        (decision != NULL && kb_ids_find(&r->decisions, decision) != KB_ID_NONE);

    if (is_decided && add_decision(r, ev->as.decided.decision) != KB_OK)
        return KB_ENOMEM;
    if (ev->type == KB_EV_GRAPH)
        return redact_graph(r, doc, ev, is_changed);
    if (kb_event_is_dictionary(ev))
        redact_dictionary(r, ev, is_changed);
    if (!is_own)
        return KB_OK;
    *is_changed = true;
    r->n_events++;
    drop(r, ev);
    return KB_OK;
}

enum kb_err ld_redact(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, uint32_t context_dim,
                      uint32_t arm_dim)
{
    bool is_changed = false;
    size_t n = 0;
    enum kb_err rc = ev->type == KB_EV_SUMMARY
                         ? ld_redact_summary(r, doc, ev, (size_t)context_dim + arm_dim, &is_changed)
                         : change(r, doc, ev, &is_changed);

    if (rc != KB_OK || !is_changed)
        return rc;
    if (kb_grow((void **)&r->item, &r->cap, r->n + 1, 64, sizeof *r->item) != 0)
        return KB_ENOMEM;
    char *text = ld_encode_event(ev, context_dim, arm_dim, NULL, &n);
    if (text == NULL)
        return KB_ENOMEM;
    r->item[r->n++] = (struct ld_rewrite){.seq = ev->seq, .type = (int)ev->type, .text = text, .n_text = n};
    return KB_OK;
}
