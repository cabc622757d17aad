/* Folding a log: see fold.h. Cost: one JSON parse and the sink's, about 10 us a line. */
#include "tenant/fold.h"

#include <stdio.h>

#include "base/lines.h"
#include "json/json_in.h"
#include "model/commit.h"
#include "model/engine_read.h"

void ld_fold_init(struct ld_fold *f, struct ld_sink sink)
{
    *f = (struct ld_fold){.sink = sink};
}

const struct ld_settings *ld_line_settings(const struct kb_event *ev)
{
    const void *spec = NULL;

    if (ev->type == KB_EV_CONFIGURED)
        spec = ev->as.configured.spec;
    else if (ev->type == KB_EV_SUMMARY && ev->as.summary->part == KB_PART_BEGIN)
        spec = ev->as.summary->spec;
    return spec;
}

static enum kb_err take_engine(void *to, struct ld_line *line, struct kb_errmsg *msg)
{
    return kb_engine_fold(to, &line->ev, msg);
}

struct ld_sink ld_engine_sink(struct kb_engine *e)
{
    const struct kb_spec *spec = kb_engine_spec(e);

    return (struct ld_sink){.take = take_engine, .to = e, .context_dim = &spec->context_dim, .arm_dim = &spec->arm_dim};
}

/* ---- a line ------------------------------------------------------------------------------------------- */

/* A body's line has its answer cut off. A row of a file must be repeated by its columns. */
static int read(struct ld_fold *f, struct ld_row *row, struct ld_line *line)
{
    struct ld_problem *p = &f->fault;

    if (ld_doc_parse(&line->doc, row->text, row->n_text, false, p) == 0 &&
        (f->line == 0 || ld_split_export(line->doc, row->text, &row->n_text, &row->answer, p) == 0) &&
        ld_decode_event(line->doc, *f->sink.context_dim, *f->sink.arm_dim, &line->ev, p) == 0 && f->line == 0 &&
        !ld_row_repeats(row, &line->ev))
        ld_problem_add(p, "", "%s", line->ev.seq == row->seq ? LD_COLUMNS_LIE : "wrong number");
    return p->status == 0 ? 0 : p->status >= 500 ? LD_STORE_NOMEM : LD_STORE_CORRUPT;
}

static int give(struct ld_fold *f, struct ld_line *line)
{
    struct kb_errmsg msg = {"", ""};
    const enum kb_err rc = f->sink.take(f->sink.to, line, &msg);

    if (rc == KB_OK)
        return 0;
    f->is_refused = true;
    if (rc == KB_ENOMEM || rc == KB_ECANCELLED)
        ld_problem_set(&f->fault, 503, "%s", kb_strerror((int)rc));
    else
        ld_problem_add(&f->fault, msg.pointer, "%s", msg.text[0] != '\0' ? msg.text : kb_strerror((int)rc));
    return rc == KB_ENOMEM ? LD_STORE_NOMEM : rc == KB_ECANCELLED ? LD_STORE_STOPPED : LD_STORE_CORRUPT;
}

static int fold(struct ld_fold *f, struct ld_row *row)
{
    struct ld_line line = {.row = row};

    f->at = (struct ld_row){.seq = row->seq, .at_ms = row->at_ms, .type = row->type};
    f->rc = f->sink.before != NULL ? f->sink.before(f->sink.watch, row, &f->fault) : 0;
    if (f->rc == 0)
        f->rc = read(f, row, &line);
    if (f->rc == 0)
        f->rc = give(f, &line);
    if (f->rc == 0) {
        f->seq = line.ev.seq;
        f->n_lines++;
    }
    ld_doc_free(line.doc);
    return f->rc;
}

/* ---- sources ------------------------------------------------------------------------------------------ */

int ld_fold_row(void *arg, const struct ld_row *row)
{
    struct ld_row own = *row;

    return fold(arg, &own);
}

int ld_fold_store(struct ld_fold *f, struct ld_store *s, uint64_t after, size_t limit)
{
    return f->rc = ld_store_read(s, after, limit, ld_fold_row, f);
}

int ld_fold_text(struct ld_fold *f, uint64_t line, const char *text, size_t n)
{
    struct ld_row row = {.text = text, .n_text = n};

    f->line = line;
    return fold(f, &row);
}

bool ld_fold_lines(struct ld_fold *f, struct ld_lines *from, size_t n, int *end)
{
    for (size_t i = 0; i < n; i++) {
        *end = ld_lines_next(from);
        f->line = from->n_lines + (*end == LD_LINES_LONG);
        if (*end != LD_LINES_LINE || (from->n > 0 && ld_fold_text(f, f->line, from->text, from->n) != 0))
            return false;
    }
    return true;
}

/* ---- the end ------------------------------------------------------------------------------------------ */

void ld_fold_say(const struct ld_fold *f, struct ld_message *why)
{
    const struct ld_problem *p = &f->fault;
    const char *what = p->n_errors > 0 ? p->errors[0].detail : p->detail;

    if (p->status == 0)
        ld_fail(why, "the log cannot be read");
    else if (f->rc == LD_STORE_STOPPED)
        ld_fail(why, "%s", what);
    else
        ld_fail(why, "event %llu %s: %.200s", (unsigned long long)f->at.seq,
                f->is_refused ? "was refused" : "cannot be read", what);
}

/* In a body pointers begin with the line, as everywhere. */
void ld_fold_blame(const struct ld_fold *f, int status, struct ld_problem *p)
{
    const struct ld_problem *fault = &f->fault;
    char line[24] = "";

    if (fault->status >= 500)
        ld_problem_set(p, fault->status, "%s", fault->detail);
    if (p->status != 0)
        return;
    if (f->line == 0) {
        ld_problem_set(p, status, "event %llu of the file is refused", (unsigned long long)f->at.seq);
    } else {
        ld_problem_set(p, status, "line %llu of the log is refused", (unsigned long long)f->line);
        snprintf(line, sizeof line, "/%llu", (unsigned long long)f->line - 1);
    }
    for (size_t i = 0; i < fault->n_errors; i++) {
        char pointer[192];

        snprintf(pointer, sizeof pointer, "%s%.160s", line, fault->errors[i].pointer);
        ld_problem_add(p, pointer, "%s", fault->errors[i].detail);
    }
    if (fault->limit != NULL)
        ld_problem_limit(p, fault->limit, fault->max);
}

/* ---- resets -------------------------------------------------------------------------------------------- */

/* The event that began the reset of this line. */
static enum kb_err take_from(void *from, struct ld_line *line, struct kb_errmsg *msg)
{
    (void)msg;
    if (kb_event_is_dictionary(&line->ev))
        *(uint64_t *)from = line->ev.as.dictionary.from > 0 ? line->ev.as.dictionary.from : line->ev.seq;
    return KB_OK;
}

bool ld_fold_has_reset(struct ld_store *store, struct ld_sink sink, uint64_t before)
{
    struct ld_fold f = {.sink = sink};
    uint64_t last = 0, last_reset = 0, from = 0;

    if (ld_store_tip(store, &last, &last_reset) != LD_STORE_OK || last_reset == 0)
        return false;
    f.sink.take = take_from;
    f.sink.to = &from;
    return ld_fold_store(&f, store, last_reset - 1, 1) == LD_STORE_OK && from > before;
}
