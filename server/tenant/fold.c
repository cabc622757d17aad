/* Folding a log: see fold.h. Cost: one JSON parse and one fold a line, about 10 us. */
#include "tenant/fold.h"

#include <stdio.h>
#include <string.h>

#include "base/hash_key.h"
#include "task/redact.h"
#include "tenant/tenant_impl.h"
#include "model/engine_write.h"
#include "json/json_in.h"

#define TAIL_EVENTS 256u /* that the writer folds in its own turn */
#define MOST_ROUNDS 16u

/* ---- a line ------------------------------------------------------------------------------------------- */

/* What the operator will read: which event, what about it. */
static int fail(char *why, int rc, uint64_t seq, const char *what, const char *detail)
{
    snprintf(why, 512, "event %llu %s: %.200s", (unsigned long long)seq, what, detail);
    return rc;
}

/* The line's own number must be that of the row, and the other columns must repeat it. */
int ld_decode_line(const struct kb_engine *e, const struct ld_row *row, struct ld_doc **doc, struct kb_event *ev,
                   char *why)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    struct ld_problem problem;

    ld_problem_init(&problem);
    *doc = NULL;
    if (ld_doc_parse(doc, row->text, row->n_text, false, &problem) == 0 &&
        ld_decode_event(*doc, spec->context_dim, spec->arm_dim, ev, &problem) == 0 && ev->seq == row->seq &&
        ld_row_repeats(row, ev))
        return 0;
    const char *otherwise = problem.status == 0 && ev->seq == row->seq ? LD_COLUMNS_LIE : "wrong number";
    ld_doc_free(*doc);
    *doc = NULL;
    return fail(why, problem.status >= 500 ? LD_STORE_NOMEM : LD_STORE_CORRUPT, row->seq, "cannot be read",
                problem.n_errors > 0  ? problem.errors[0].detail
                : problem.status != 0 ? problem.detail
                                      : otherwise);
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

int ld_fold_line(struct kb_engine *e, const struct ld_row *row, struct ld_redactor *without,
                 struct ld_settings *settings, char *why)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    struct kb_errmsg msg = {.text = ""};
    struct ld_doc *doc;
    struct kb_event ev;
    int rc = ld_decode_line(e, row, &doc, &ev, why);

    if (rc != 0)
        return rc;
    enum kb_err err = without != NULL ? ld_redact(without, doc, &ev, spec->context_dim, spec->arm_dim) : KB_OK;
    if (err == KB_OK)
        err = kb_engine_fold(e, &ev, &msg);
    if (err != KB_OK)
        rc = fail(why, err == KB_ENOMEM ? LD_STORE_NOMEM : LD_STORE_CORRUPT, row->seq, "was refused",
                  msg.text[0] != '\0' ? msg.text : kb_strerror((int)err));
    if (rc == 0 && settings != NULL && ld_line_settings(&ev) != NULL)
        *settings = *ld_line_settings(&ev);
    ld_doc_free(doc);
    return rc;
}

/* ---- a log, beside the traffic ------------------------------------------------------------------------ */

enum kb_err ld_fold_open(struct ld_fold *f, struct ld_tenant *t, struct ld_redactor *without, uint64_t quiet_until)
{
    *f = (struct ld_fold){.t = t, .without = without};
    const enum kb_err rc = kb_engine_new(&f->engine, ld_hash_key());

    if (rc == KB_OK)
        kb_engine_fold_quietly_until(f->engine, quiet_until);
    return rc;
}

void ld_fold_close(struct ld_fold *f)
{
    kb_engine_free(f->engine);
    f->engine = NULL;
}

/* For ld_store_read, which stops at the first non-zero. */
static int fold_row(void *arg, const struct ld_row *row)
{
    struct ld_fold *f = arg;
    int rc;

    if (atomic_load(&f->t->is_halting))
        return fail(f->why, LD_STORE_IO, row->seq, "was not folded", "the tenant is being closed");
    rc = ld_fold_line(f->engine, row, f->without, NULL, f->why);
    if (rc == 0) {
        f->seq = row->seq;
        f->n_lines++;
    }
    return rc;
}

bool ld_fold_tail(struct ld_fold *f)
{
    const int rc = ld_store_read(f->t->store, f->seq, SIZE_MAX, fold_row, f);

    f->rc = rc;
    if (rc != 0 && f->why[0] == '\0')
        snprintf(f->why, sizeof f->why, "the log cannot be read");
    return rc == 0;
}

/* Where ld_fold_cancel finds it. */
static void show_build(struct ld_fold *f, struct kb_build *b)
{
    pthread_mutex_lock(&f->t->queue_lock);
    f->build = b;
    if (b != NULL && atomic_load(&f->t->is_halting))
        kb_build_cancel(b);
    pthread_mutex_unlock(&f->t->queue_lock);
}

/* What the log has begun; the writer's turn would otherwise take as long. True when something was built. */
static bool build(struct ld_fold *f, enum kb_err *rc)
{
    struct kb_build *b = kb_engine_lend_build(f->engine);

    *rc = KB_OK;
    if (b == NULL)
        return false;
    show_build(f, b);
    *rc = kb_build_run(b);
    show_build(f, NULL);
    kb_engine_return_build(f->engine, b);
    return true;
}

bool ld_fold_catch_up(struct ld_fold *f)
{
    uint64_t last = 0, last_reset = 0;
    enum kb_err rc = KB_OK;

    for (size_t round = 0; round < MOST_ROUNDS; round++) {
        if (!ld_fold_tail(f))
            return false;
        const bool has_built = build(f, &rc);
        if (rc != KB_OK) {
            snprintf(f->why, sizeof f->why, "the model cannot be built: %s", kb_strerror(rc));
            return false;
        }
        if (ld_store_tip(f->t->store, &last, &last_reset) != LD_STORE_OK) {
            snprintf(f->why, sizeof f->why, "the log cannot be read");
            return false;
        }
        if (!has_built && last - f->seq <= TAIL_EVENTS)
            break;
    }
    return true;
}

void ld_fold_cancel(struct ld_fold *f)
{
    if (f->build != NULL)
        kb_build_cancel(f->build);
}
