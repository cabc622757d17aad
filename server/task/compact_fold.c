/* The job of a compaction: from the lines of a log's beginning to those of its summary (core/model/summary.h).
 *
 * The lines are folded quietly into an engine of its own. Where the last of them cannot be the end of a summary,
 * because a change of the model had just begun there, the fold is made once more, up to the last that can. The lines of
 * the summary are then folded as well, and the two engines must have one digest: a compaction that would change a bit
 * of the model is not made.
 *
 * Cost: 10 us a line and as much for each point, beside the traffic; the memory of two engines without posteriors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "task/compact.h"
#include "tenant/fold.h"
#include "base/hash_key.h"
#include "json/json_out.h"
#include "model/summary.h"
#include "model/engine_write.h"

/* A fold of the log's beginning. */
struct fold {
    struct ld_compaction *x;
    struct kb_engine *engine;
    struct ld_settings settings; /* as the last configuration says */
    uint64_t until, first;
    uint64_t safe; /* the last event that may end a summary */
    int64_t at_ms; /* of that */
};

static void give_up(struct ld_compaction *x, uint64_t seq, const char *what)
{
    snprintf(x->why, sizeof x->why, "event %llu: %.300s", (unsigned long long)seq, what);
}

static struct kb_engine *quiet_engine(void)
{
    struct kb_engine *e = NULL;

    if (kb_engine_new(&e, ld_hash_key()) == KB_OK)
        kb_engine_fold_quietly_until(e, UINT64_MAX);
    return e;
}

/* ---- the events ----------------------------------------------------------------------------------------- */

/* For ld_store_read. 1 ends it, in success or failure: `safe` and `why` tell. */
static int fold_row(void *arg, const struct ld_row *row)
{
    struct fold *f = arg;

    if (row->seq > f->until)
        return 1;
    if (atomic_load(&f->x->is_cancelled) || atomic_load(&f->x->t->is_halting)) {
        give_up(f->x, row->seq, "the compaction was told to end");
        return 1;
    }
    if (f->first == 0)
        f->first = row->seq;
    if (ld_fold_line(f->engine, row, NULL, &f->settings, f->x->why) != 0)
        return 1;
    if (kb_engine_can_be_summarized(f->engine)) {
        f->safe = row->seq;
        f->at_ms = row->at_ms;
    }
    return 0;
}

static bool fold_until(struct fold *f, uint64_t until)
{
    kb_engine_free(f->engine);
    f->engine = quiet_engine();
    f->until = until;
    f->first = f->safe = 0;
    if (f->engine == NULL)
        give_up(f->x, until, "out of memory");
    else if (ld_store_read(f->x->t->store, 0, SIZE_MAX, fold_row, f) < 0)
        give_up(f->x, until, "the log cannot be read");
    return f->x->why[0] == '\0';
}

/* ---- the lines -------------------------------------------------------------------------------------------- */

/* Takes text over; NULL is a failure. */
static const char *keep_name(struct ld_compaction *x, char *text)
{
    if (text == NULL || kb_grow((void **)&x->name, &x->cap_names, x->n_names + 1, 64, sizeof *x->name) != 0) {
        free(text);
        return NULL;
    }
    return x->name[x->n_names++] = text;
}

/* A copy that lasts, of what the engine has. NULL stays NULL. */
static bool keep_column(struct ld_compaction *x, const char **column)
{
    if (*column != NULL && (*column = keep_name(x, strdup(*column))) == NULL)
        return false;
    return true;
}

/* The answer that a retry of an open decision is given: its row goes. */
static bool keep_answer(struct fold *f, struct ld_row *row)
{
    struct ld_decision_record record = {0};
    bool is_ok = true;

    if (ld_store_decision(f->x->t->store, row->decision, NULL, &record) != LD_STORE_OK)
        return false;
    if (record.answer != NULL) {
        row->answer = keep_name(f->x, record.answer);
        record.answer = NULL;
        is_ok = row->answer != NULL;
    }
    ld_decision_record_close(&record);
    return is_ok;
}

static bool add_line(struct fold *f, struct kb_event *ev, uint64_t seq)
{
    struct ld_compaction *x = f->x;
    const struct kb_spec *spec = kb_engine_spec(f->engine);

    if (kb_grow((void **)&x->row, &x->cap, x->n + 1, 64, sizeof *x->row) != 0)
        return false;
    struct ld_row *row = &x->row[x->n];
    ev->seq = seq;
    ev->at_ms = f->at_ms;
    ld_row_index(row, ev);
    if (!keep_column(x, &row->decision) || !keep_column(x, &row->user) || !keep_column(x, &row->arm) ||
        (row->decision != NULL && !keep_answer(f, row)))
        return false;
    row->text = ld_encode_event(ev, spec->context_dim, spec->arm_dim, &f->settings, &row->n_text);
    x->n += row->text != NULL;
    return row->text != NULL;
}

static enum kb_err count_parts(const struct kb_engine *e, uint64_t *n)
{
    struct kb_summarizer *s = NULL;
    struct kb_event ev;
    enum kb_err rc = kb_summarizer_new(&s, e);

    *n = 0;
    while (rc == KB_OK && kb_summarizer_next(s, &ev))
        ++*n;
    kb_summarizer_free(s);
    return rc;
}

/* Numbers end with that of the last event that goes. False with `why`, or without where there is nothing to gain. */
static bool write_lines(struct fold *f)
{
    struct ld_compaction *x = f->x;
    struct kb_summarizer *s = NULL;
    struct kb_event ev;
    uint64_t n = 0;
    bool is_ok = count_parts(f->engine, &n) == KB_OK && kb_summarizer_new(&s, f->engine) == KB_OK;

    if (is_ok && n > f->safe - f->first) {
        kb_summarizer_free(s);
        return false;
    }
    for (uint64_t seq = f->safe - n + 1; is_ok && kb_summarizer_next(s, &ev); seq++)
        is_ok = add_line(f, &ev, seq);
    kb_summarizer_free(s);
    if (!is_ok)
        give_up(x, f->safe, "out of memory for the summary, or it cannot be written");
    return is_ok;
}

/* ---- the proof -------------------------------------------------------------------------------------------- */

static bool folds_to_the_same(struct fold *f)
{
    struct ld_compaction *x = f->x;
    struct ld_settings settings = {0};
    struct kb_engine *e = quiet_engine();
    bool is_ok = e != NULL;

    for (size_t i = 0; i < x->n && is_ok; i++)
        is_ok = ld_fold_line(e, &x->row[i], NULL, &settings, x->why) == 0;
    if (is_ok && kb_engine_digest(e) != kb_engine_digest(f->engine)) {
        give_up(x, f->safe, "the summary is another state than the events leave: it is not used");
        is_ok = false;
    }
    if (e == NULL)
        give_up(x, f->safe, "out of memory");
    kb_engine_free(e);
    return is_ok;
}

void ld_compaction_fold(struct ld_compaction *x)
{
    struct fold f = {.x = x};
    bool is_ok = fold_until(&f, x->wanted);

    if (is_ok && f.safe > 0 && f.safe < x->wanted)
        is_ok = fold_until(&f, f.safe);
    x->first = f.first;
    x->last = f.safe;
    x->is_ok = is_ok && f.safe > 0 && write_lines(&f) && folds_to_the_same(&f);
    kb_engine_free(f.engine);
}

void ld_compaction_free(struct ld_compaction *x)
{
    for (size_t i = 0; i < x->n; i++)
        free((char *)x->row[i].text);
    for (size_t i = 0; i < x->n_names; i++)
        free(x->name[i]);
    kb_free(x->row);
    kb_free(x->name);
    free(x);
}
