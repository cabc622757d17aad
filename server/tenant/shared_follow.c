/* What other servers have written into a shared log (shared_turn.c): a batch of theirs goes into this server's copy and
 * into the model as it stands there. Whoever wrote it has reserved its events as one batch, against the same state; so
 * they are one batch here, and what follows from them stands among them.
 *
 * Every batch is held against the chain. A batch that does not continue it, or that the model refuses, is never
 * applied: the tenant is then served as it is, and takes no changes.
 *
 * Cost: that of a fold, some 10 us a line, and a transaction of the copy for each batch, which waits for no disk. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/failpoint.h"
#include "base/metrics.h"
#include "json/json_in.h"
#include "model/engine_read.h"
#include "tenant/fold.h"
#include "tenant/batch.h"
#include "tenant/recover.h"
#include "tenant/tenant_state.h"

struct following {
    struct ld_tenant *t;
    struct ld_fold fold;
    struct ld_doc **doc; /* [events staged] */
};

/* A line into the open batch. Its text is copied: what an answer stood behind wants its brace again. */
static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct following *f = arg;
    struct ld_batch *b = f->t->batch;
    const size_t i = b->commit.n, n = line->row->n_text;
    char *copy = ld_doc_alloc(line->doc, n + 1, 1);

    if (copy == NULL)
        return KB_ENOMEM;
    if (line->ev.seq != f->t->shared.place.seq + i + 1)
        return kb_fail(KB_ECONFLICT, msg, "/seq", "it has another number than its place");
    if (i > 0 && kb_event_is_alone(line->ev.type))
        return kb_fail(KB_ECONFLICT, msg, "", "it cannot stand in one batch with the line before it");
    const enum kb_err rc = kb_commit_follow(&b->commit, &line->ev, msg);
    if (rc != KB_OK)
        return rc;
    memcpy(copy, line->row->text, n);
    copy[n - 1] = '}';
    copy[n] = '\0';
    ld_row_index(&b->row[i], &b->commit.event[i]);
    b->row[i].text = copy;
    b->row[i].n_text = n;
    b->row[i].answer = line->row->answer;
    b->beside[i] = (struct ld_beside){.settings = ld_line_settings(&b->commit.event[i])};
    f->doc[i] = line->doc;
    line->doc = NULL;
    return KB_OK;
}

/* False: s->why says which line, or memory is out. */
static bool stage(struct following *f, const struct ld_shared_batch *from)
{
    struct ld_message *why = &f->t->shared.why;
    const struct ld_problem *p = &f->fold.fault;
    const char *at = from->body, *end = from->body + from->n_body;

    for (uint32_t i = 0; i < from->n; i++) {
        const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

        if (stop == NULL || stop == at || ld_fold_text(&f->fold, i + 1, at, (size_t)(stop - at)) != 0) {
            f->t->shared.refused = f->t->shared.place.seq + i + 1;
            ld_fail(why, "line %llu of the shared log %s: %.200s", (unsigned long long)f->t->shared.refused,
                    f->fold.is_refused ? "is refused" : "cannot be read",
                    p->n_errors > 0  ? p->errors[0].detail
                    : p->status != 0 ? p->detail
                                     : "it has no end");
            return false;
        }
        at = stop + 1;
    }
    if (at == end)
        return true;
    ld_fail(why, "the batch that ends with line %llu of the shared log is longer than its lines",
            (unsigned long long)from->at.seq);
    return false;
}

static enum kb_err append(void *flush, const struct kb_event *event, size_t n)
{
    struct ld_flush *f = flush;

    (void)event;
    ld_failpoint("mid_follow");
    f->rc = ld_shared_copy(f->t, f->to, n, &f->why);
    f->appended_us = ld_monotonic_us();
    return ld_flush_result(f);
}

/* Commits what is staged. */
static enum ld_shared_rc run(struct ld_tenant *t, const struct ld_shared_batch *from)
{
    struct ld_flush f = {.t = t, .rc = LD_STORE_NOMEM, .why = {"out of memory"}, .to = &from->at};
    struct ld_shared *s = &t->shared;

    if (!ld_batch_run(&f, append)) {
        ld_fail(&s->why, "this server's copy: %.400s", f.why.text);
        return f.rc == LD_STORE_NOMEM ? LD_SHARED_NOMEM : LD_SHARED_DOWN;
    }
    t->tail_us += ld_monotonic_us() - f.appended_us;
    s->n_followed += from->n;
    ld_count(&t->world->metrics->shared.followed_rows, from->n);
    ld_progress_add(t->progress, from->n);
    return LD_SHARED_OK;
}

static bool is_next(const struct ld_tenant *t, const struct ld_shared_batch *from)
{
    unsigned char hash[LD_CHAIN_BYTES];

    ld_chain(hash, t->shared.place.hash, from->body, from->n_body);
    return from->n > 0 && from->n <= LD_BATCH_EVENTS && from->at.seq == t->shared.place.seq + from->n &&
           memcmp(hash, from->at.hash, sizeof hash) == 0;
}

/* Room for the batch's lines. */
static bool make_room(struct following *f, size_t n)
{
    struct ld_batch *b = f->t->batch;

    f->doc = calloc(n, sizeof *f->doc);
    return f->doc != NULL && ld_batch_grow(b, n) == KB_OK &&
           kb_grow((void **)&b->row, &b->cap_rows, n, 64, sizeof *b->row) == 0;
}

enum ld_shared_rc ld_shared_follow(void *arg, const struct ld_shared_batch *batch)
{
    struct ld_tenant *t = arg;
    struct following f = {.t = t};
    enum ld_shared_rc rc = LD_SHARED_NOMEM;

    if (!is_next(t, batch)) {
        ld_fail(&t->shared.why, "the batch that ends with line %llu does not continue line %llu",
                (unsigned long long)batch->at.seq, (unsigned long long)t->shared.place.seq);
        return LD_SHARED_FORKED;
    }
    ld_fold_init(&f.fold, ld_engine_sink(t->engine));
    f.fold.sink.take = take;
    f.fold.sink.to = &f;
    kb_commit_begin(&t->batch->commit, t->engine, t->seq);
    if (make_room(&f, batch->n)) {
        if (stage(&f, batch)) {
            rc = run(t, batch);
        } else {
            rc = f.fold.rc == LD_STORE_NOMEM     ? LD_SHARED_NOMEM
                 : f.fold.rc == LD_STORE_STOPPED ? LD_SHARED_DOWN
                                                 : LD_SHARED_FORKED;
            kb_commit_drop(&t->batch->commit);
        }
        for (size_t i = 0; i < batch->n; i++)
            ld_doc_free(f.doc[i]);
    }
    free(f.doc);
    return rc;
}
