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
#include "model/commit.h"
#include "model/engine_write.h"
#include "tenant/fold.h"
#include "base/hash_key.h"
#include "json/json_out.h"
#include "model/summary.h"

/* A fold of the log's beginning. */
struct fold {
    struct ld_compaction *x;
    struct kb_engine *engine;
    struct ld_settings settings; /* as the last configuration says */
    uint64_t safe;               /* the last event that may end a summary */
    int64_t at_ms;               /* of that */
};

static void give_up(struct ld_compaction *x, uint64_t seq, const char *what)
{
    ld_fail(&x->why, "event %llu: %.300s", (unsigned long long)seq, what);
}

static struct kb_engine *quiet_engine(void)
{
    struct kb_engine *e = NULL;

    if (kb_engine_new(&e, ld_hash_key()) == KB_OK)
        kb_engine_fold_quietly_until(e, UINT64_MAX);
    return e;
}

/* ---- the events ----------------------------------------------------------------------------------------- */

static int look(void *compaction, const struct ld_row *row, struct ld_problem *fault)
{
    const struct ld_compaction *x = compaction;

    if (!atomic_load(&x->is_cancelled) && !atomic_load(&x->task.t->is_halting))
        return 0;
    ld_problem_set(fault, 503, "event %llu: the compaction was told to end", (unsigned long long)row->seq);
    return LD_STORE_STOPPED;
}

static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct fold *f = arg;
    const struct ld_settings *settings = ld_line_settings(&line->ev);
    const enum kb_err rc = kb_engine_fold(f->engine, &line->ev, msg);

    if (rc == KB_OK && settings != NULL)
        f->settings = *settings;
    if (rc == KB_OK && kb_engine_can_be_summarized(f->engine)) {
        f->safe = line->ev.seq;
        f->at_ms = line->ev.at_ms;
    }
    return rc;
}

static bool fold_until(struct fold *f, uint64_t until)
{
    struct ld_compaction *x = f->x;

    kb_engine_free(f->engine);
    f->engine = quiet_engine();
    f->safe = 0;
    if (f->engine == NULL) {
        give_up(x, until, "out of memory");
        return false;
    }
    struct ld_fold fold = {.sink = ld_engine_sink(f->engine)};
    fold.sink.take = take;
    fold.sink.to = f;
    fold.sink.before = look;
    fold.sink.watch = x;
    if (ld_fold_store(&fold, x->task.t->store, 0, (size_t)(until - x->first + 1)) != 0)
        ld_fold_say(&fold, &x->why);
    return x->why.text[0] == '\0';
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

    if (ld_store_decision(f->x->task.t->store, row->decision, NULL, &record) != LD_STORE_OK)
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
    const struct ld_op *op = x->task.op; /* NULL: retention asks */

    if (kb_grow((void **)&x->row, &x->cap, x->n + 1, 64, sizeof *x->row) != 0)
        return false;
    struct ld_row *row = &x->row[x->n];
    ev->seq = seq;
    ev->at_ms = f->at_ms;
    if (ev->type == KB_EV_SUMMARY && ev->as.summary->part == KB_PART_BEGIN && op != NULL && op->by[0] != '\0')
        ev->by = op->by;
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

    if (is_ok && n > f->safe - x->first) {
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
    struct kb_engine *e = quiet_engine();
    bool is_ok = true;

    if (e == NULL) {
        give_up(x, f->safe, "out of memory");
        return false;
    }
    struct ld_fold fold = {.sink = ld_engine_sink(e)};
    for (size_t i = 0; i < x->n && is_ok; i++)
        is_ok = ld_fold_row(&fold, &x->row[i]) == 0;
    if (!is_ok)
        ld_fold_say(&fold, &x->why);
    if (is_ok && kb_engine_digest(e) != kb_engine_digest(f->engine)) {
        give_up(x, f->safe, "the summary is another state than the events leave: it is not used");
        is_ok = false;
    }
    kb_engine_free(e);
    return is_ok;
}

void ld_compaction_fold(struct ld_compaction *x)
{
    struct fold f = {.x = x};
    uint64_t kept = 0;

    if (ld_store_start(x->task.t->store, &x->first, &kept) != LD_STORE_OK) {
        give_up(x, x->wanted, "the log cannot be read");
        return;
    }
    bool is_ok = fold_until(&f, x->wanted);
    if (is_ok && f.safe > 0 && f.safe < x->wanted)
        is_ok = fold_until(&f, f.safe);
    x->last = f.safe;
    x->is_ok = is_ok && f.safe > 0 && write_lines(&f) && folds_to_the_same(&f);
    kb_engine_free(f.engine);
}

void ld_compaction_drop(void *task)
{
    struct ld_compaction *x = task;

    for (size_t i = 0; i < x->n; i++)
        free((char *)x->row[i].text);
    for (size_t i = 0; i < x->n_names; i++)
        free(x->name[i]);
    kb_free(x->row);
    kb_free(x->name);
    ld_laggards_close(&x->laggards);
}
