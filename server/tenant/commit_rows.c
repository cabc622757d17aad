/* The rows of a batch: each event as its JSON line, with the columns by which the log is searched.
 *
 * The line is the truth and is read back by recovery; the columns repeat what queries need (which decision, which arm,
 * which reward), so that none of them has to parse the lines of a long log. A column that an event has no value for
 * stays NULL, which also keeps the row out of the partial index on it.
 *
 * The columns are the ones of schema/0001_tenant.sql. Cost: the text, 0.5 us for each number that is not whole
 * (text.c), beside 1.5 us a row in SQLite. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tenant/batch.h"
#include "tenant/tenant_state.h"
#include "json/json_out.h"

/* A decision that was open is found like one that was made; its reward so far stands in the same row. */
static void index_summary(struct ld_row *row, const struct kb_ev_summary *s)
{
    if (s->part != KB_PART_DECISION)
        return;
    row->decision = s->decision;
    row->user = s->user;
    row->arm = s->slots[0].arm;
    if (s->slots[0].has_reward)
        row->reward = s->slots[0].reward;
}

/* The columns that queries need, beside the line itself. Configured, graph and arms are found by type or not at all.
 * NaN is how a NULL reward is spelled (store.h); a late reward keeps its type, so that no sum of rewards counts it. */
void ld_row_index(struct ld_row *row, const struct kb_event *ev)
{
    *row = (struct ld_row){.seq = ev->seq, .at_ms = ev->at_ms, .type = (int)ev->type};
    row->reward = (double)NAN;
    switch (ev->type) {
    case KB_EV_DECIDED:
        row->decision = ev->as.decided.decision;
        row->user = ev->as.decided.user;
        row->arm = ev->as.decided.slots[0].arm;
        break;
    case KB_EV_REWARDED:
        row->decision = ev->as.rewarded.decision;
        row->user = ev->as.rewarded.id; /* 0005_reward_ids.sql */
        row->arm = ev->as.rewarded.arm;
        row->reward = ev->as.rewarded.reward;
        break;
    case KB_EV_LATE:
        row->decision = ev->as.late.decision;
        row->arm = ev->as.late.arm;
        row->reward = ev->as.late.reward;
        break;
    case KB_EV_MEASURED:
        row->decision = ev->as.measured.decision;
        row->user = ev->as.measured.is_late ? NULL : ev->as.measured.id; /* 0007_metrics.sql */
        row->arm = ev->as.measured.arm;
        row->reward = ev->as.measured.metric.value;
        break;
    case KB_EV_OBSERVED:
        row->decision = ev->as.observed.id;
        row->user = ev->as.observed.user;
        row->arm = ev->as.observed.arm.arm;
        row->reward = ev->as.observed.reward;
        break;
    case KB_EV_EXPIRED:
        row->decision = ev->as.expired.decision;
        row->reward = ev->as.expired.has_reward ? ev->as.expired.reward : (double)NAN;
        break;
    case KB_EV_ACTIVATED:
        row->decision = ev->as.activated.decision;
        break;
    case KB_EV_SUMMARY:
        index_summary(row, ev->as.summary);
        break;
    case KB_EV_DICTIONARY:
    case KB_EV_TUNED:
        row->is_reset = ev->as.dictionary.is_reset && !ev->as.dictionary.is_begun;
        break;
    case KB_EV_FORGOTTEN: /* a fold teaches nothing before it */
        row->is_reset = true;
        break;
    default:
        break;
    }
}

static bool is_same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool ld_row_repeats(const struct ld_row *row, const struct kb_event *ev)
{
    struct ld_row want;

    ld_row_index(&want, ev);
    return row->seq == want.seq && row->at_ms == want.at_ms && row->type == want.type &&
           is_same_text(row->decision, want.decision) && is_same_text(row->user, want.user) &&
           is_same_text(row->arm, want.arm) && row->is_reset == want.is_reset &&
           (row->reward == want.reward || (isnan(row->reward) && isnan(want.reward)));
}

/* Texts are the rows' only memory; columns borrow from the events. NULL after an empty batch is fine. */
static void free_texts(struct ld_row *row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free((char *)row[i].text);
}

/* One row for each event, in order; borrowed columns live as long as the batch. Vectors have the lengths in force,
 * which no batch can change before its end (kb_event_is_alone). A text that cannot be written counts as memory
 * that is short. */
enum kb_err ld_batch_build_rows(struct ld_tenant *t)
{
    struct ld_batch *b = t->batch;
    const struct kb_spec *spec = &t->settings.spec;

    if (kb_grow((void **)&b->row, &b->cap_rows, b->commit.n, 64, sizeof *b->row) != 0)
        return KB_ENOMEM;
    for (size_t i = 0; i < b->commit.n; i++) {
        const struct kb_event *ev = &b->commit.event[i];
        const struct ld_beside *beside = &b->beside[i];
        struct ld_row *row = &b->row[i];

        ld_row_index(row, ev);
        /* NULL unless the caller named the decision. */
        row->answer = beside->answer;
        row->line = beside->line;
        row->text = beside->line != 0
                        ? ld_encode_event_head(ev, &row->n_text)
                        : ld_encode_event(ev, spec->context_dim, spec->arm_dim, beside->settings, &row->n_text);
        if (row->text == NULL) {
            free_texts(b->row, i);
            return KB_ENOMEM;
        }
    }
    return KB_OK;
}

/* After the append, whatever its result. The array itself is kept for the next batch. */
void ld_batch_free_rows(struct ld_tenant *t)
{
    free_texts(t->batch->row, t->batch->commit.n);
}
