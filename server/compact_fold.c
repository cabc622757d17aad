/* The job of a compaction: from the lines of a log's beginning to those of its summary (core/summary.h).
 *
 * The lines are folded quietly into an engine of its own. Where the last of them cannot be the end of a summary,
 * because a change of the model had just begun there, the fold is made once more, up to the last that can. The lines of
 * the summary are then folded as well, and the two engines must have one digest: a compaction that would change a bit
 * of the model is not made.
 *
 * Cost: 10 us a line and as much for each point, beside the traffic; the memory of two engines without posteriors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "compact.h"
#include "json_out.h"
#include "summary.h"

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

    if (kb_engine_new(&e) == KB_OK)
        kb_engine_fold_quietly_until(e, UINT64_MAX);
    return e;
}

/* ---- the events ----------------------------------------------------------------------------------------- */

/* The settings that the line brings, if any: the spec is their first member (json_in.h). */
static void keep_settings(struct ld_settings *settings, const struct kb_event *ev)
{
    const void *spec = NULL;

    if (ev->type == KB_EV_CONFIGURED)
        spec = ev->as.configured.spec;
    else if (ev->type == KB_EV_SUMMARY && ev->as.summary->part == KB_PART_BEGIN)
        spec = ev->as.summary->spec;
    if (spec != NULL)
        *settings = *(const struct ld_settings *)spec;
}

/* One line of text into the engine. */
static bool fold_text(struct ld_compaction *x, struct kb_engine *e, uint64_t seq, const char *text, size_t n,
                      struct ld_settings *settings)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    struct kb_errmsg msg = {.text = ""};
    struct ld_doc *doc = NULL;
    struct ld_problem problem;
    struct kb_event ev;
    bool is_ok = false;

    ld_problem_init(&problem);
    if (ld_doc_parse(&doc, text, n, false, &problem) != 0 ||
        ld_decode_event(doc, spec->context_dim, spec->arm_dim, &ev, &problem) != 0)
        give_up(x, seq, "cannot be read");
    else if (kb_engine_fold(e, &ev, &msg) != KB_OK)
        give_up(x, seq, msg.text[0] != '\0' ? msg.text : "cannot be folded");
    else
        is_ok = true;
    if (is_ok)
        keep_settings(settings, &ev);
    ld_doc_free(doc);
    return is_ok;
}

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
    if (!fold_text(f->x, f->engine, row->seq, row->text, row->n_text, &f->settings))
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

/* Columns by which an open decision is found when it has closed, and the answer that a retry is given. */
static bool index_decision(struct fold *f, const struct kb_ev_summary *s, struct ld_row *row)
{
    struct ld_decision_record record = {0};
    const char *user = kb_engine_user(f->engine, s->user), *arm = kb_engine_arm_id(f->engine, s->slots[0].arm);

    row->decision = keep_name(f->x, strdup(s->decision));
    row->user = keep_name(f->x, strdup(user));
    row->arm = keep_name(f->x, strdup(arm));
    if (s->slots[0].has_reward)
        row->reward = s->slots[0].reward;
    if (ld_store_decision(f->x->t->store, s->decision, NULL, &record) != LD_STORE_OK)
        return false;
    if (record.answer != NULL) {
        row->answer = keep_name(f->x, record.answer);
        record.answer = NULL;
    }
    ld_decision_record_close(&record);
    return row->decision != NULL && row->user != NULL && row->arm != NULL;
}

static bool add_line(struct fold *f, struct kb_event *ev, uint64_t seq)
{
    struct ld_compaction *x = f->x;
    const struct kb_spec *spec = kb_engine_spec(f->engine);

    if (kb_grow((void **)&x->row, &x->cap, x->n + 1, 64, sizeof *x->row) != 0)
        return false;
    struct ld_row *row = &x->row[x->n];
    *row = (struct ld_row){.seq = seq, .at_ms = f->at_ms, .type = KB_EV_SUMMARY, .reward = (double)NAN};
    ev->seq = seq;
    ev->at_ms = f->at_ms;
    if (ev->as.summary->part == KB_PART_DECISION && !index_decision(f, ev->as.summary, row))
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
        is_ok = fold_text(x, e, x->row[i].seq, x->row[i].text, x->row[i].n_text, &settings);
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
