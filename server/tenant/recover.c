/* Recovery as a fold over the log: see recover.h.
 *
 * Every line takes the path that live events take (fold.h), so a recovered model is the model that was served. From the
 * first line on, events before the last dictionary reset teach only the history (kb_engine_fold_quietly_until): the
 * reset builds the posterior from it anyway.
 *
 * Cost: one JSON parse and one fold a line; with a snapshot only for the tail. */
#include "tenant/recover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/failpoint.h"
#include "tenant/fold.h"
#include "base/hash.h"
#include "base/hash_key.h"
#include "base/log.h"
#include "store/snapshot.h"
#include "model/summary.h"
#include "model/commit.h"
#include "model/engine_write.h"

#define MARK_LINES 16u

/* ---- the fold -------------------------------------------------------------------------------------- */

struct sink {
    struct ld_recovered *to;
    struct ld_progress *progress; /* may be NULL */
};

static int look(void *progress, const struct ld_row *row, struct ld_problem *fault)
{
    (void)row;
    ld_failpoint("mid_recovery");
    if (!ld_progress_is_over(progress))
        return 0;
    ld_problem_set(fault, 503, "the server is stopping");
    return LD_STORE_STOPPED;
}

static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct sink *s = arg;
    const struct ld_settings *settings = ld_line_settings(&line->ev);
    const enum kb_err rc = kb_engine_fold(s->to->engine, &line->ev, msg);

    if (rc != KB_OK)
        return rc;
    if (settings != NULL)
        s->to->settings = *settings;
    s->to->seq = line->ev.seq;
    ld_progress_add(s->progress, 1);
    return KB_OK;
}

/* The settings stand in the log alone: the engine keeps no more than the spec. */
static enum kb_err take_settings(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct sink *s = arg;
    const struct ld_settings *settings = ld_line_settings(&line->ev);

    if (settings == NULL)
        return kb_fail(KB_EINVAL, msg, "", "the log has no configuration where it should");
    s->to->settings = *settings;
    return KB_OK;
}

/* Folds up to `limit` lines behind to->seq; a snapshot that is the beginning has no settings. The sentence begins with
 * the file. */
static int fold_lines(struct ld_recovered *to, struct ld_store *store, size_t limit, const char *db_path,
                      struct ld_progress *progress, struct ld_message *why)
{
    struct sink sink = {.to = to, .progress = progress};
    struct ld_fold f = {.sink = ld_engine_sink(to->engine)};

    f.sink.take = take;
    f.sink.to = &sink;
    f.sink.before = look;
    f.sink.watch = progress;
    int rc = ld_fold_store(&f, store, to->seq, limit);
    if (rc == LD_STORE_OK && to->snapshot_seq > 0) {
        f.sink.take = take_settings;
        f.sink.before = NULL;
        rc = ld_store_last_configured(store, ld_fold_row, &f);
    }
    if (rc != LD_STORE_OK) {
        ld_fold_say(&f, why);
        ld_fail(why, "%.200s: %.300s", db_path, why->text);
    }
    return rc;
}

/* Folds what follows to->seq, and finds the settings in force at its end. */
static int fold_tail(struct ld_recovered *to, struct ld_store *store, const char *db_path, struct ld_progress *progress,
                     struct ld_message *why)
{
    const int rc = fold_lines(to, store, SIZE_MAX, db_path, progress, why);

    if (rc == LD_STORE_OK && to->seq > 0 && !kb_engine_is_whole(to->engine))
        return ld_fail_as(LD_STORE_CORRUPT, why,
                          "%.400s: the log begins with a summary that has no end, or no reset behind it", db_path);
    return rc;
}

bool ld_progress_is_over(void *progress)
{
    const struct ld_progress *p = progress;

    while (p != NULL && !atomic_load_explicit(&p->is_stopping, memory_order_relaxed))
        p = p->above;
    return p != NULL;
}

void ld_progress_add(struct ld_progress *progress, uint64_t n)
{
    if (progress != NULL)
        atomic_fetch_add_explicit(&progress->n_lines, n, memory_order_relaxed);
}

/* ---- snapshot -------------------------------------------------------------------------------------- */

/* For ld_store_read: the number and the text of the line. */
static int hash_row(void *arg, const struct ld_row *row)
{
    uint64_t *hash = arg;

    *hash = kb_hash_bytes(kb_hash_u64(*hash, row->seq), row->text, row->n_text);
    return 0;
}

/* A few lines and not one: the last may be a dictionary change, whose text says little about the log it stands in. */
int ld_log_mark(struct ld_store *store, uint64_t seq, uint64_t *mark)
{
    const uint64_t n = seq < MARK_LINES ? seq : MARK_LINES;

    *mark = KB_HASH_INIT;
    return ld_store_read(store, seq - n, (size_t)n, hash_row, mark);
}

/* Believes a verified body into *to, or says why not. */
static bool load_body(struct ld_recovered *to, struct ld_store *store, uint64_t seq, const void *body, size_t n,
                      struct ld_message *why)
{
    struct kb_reader r;
    uint64_t mark = 0;
    enum kb_err rc;

    kb_reader_init(&r, body, n);
    const uint64_t want = kb_get_u64(&r);
    ld_fail(why, "it belongs to another log");
    if (r.rc != KB_OK || ld_log_mark(store, seq, &mark) != LD_STORE_OK || mark != want)
        return false;
    rc = kb_engine_load(to->engine, (const unsigned char *)body + LD_SNAPSHOT_PREFIX, n - LD_SNAPSHOT_PREFIX);
    if (rc != KB_OK) {
        to->is_of_other_version = rc == KB_EVERSION;
        ld_fail(why, "%s", kb_strerror((int)rc));
        return false;
    }
    to->seq = to->snapshot_seq = seq;
    return true;
}

/* True when *to holds the snapshot's state; false leaves to->engine to be thrown away. */
static bool load_snapshot(struct ld_recovered *to, struct ld_store *store, const char *path, uint64_t last)
{
    struct ld_message why = {"it is newer than the log"};
    uint64_t seq = 0;
    void *body = NULL;
    size_t n = 0;
    const int found = ld_snapshot_read(path, &seq, &body, &n, &why);
    bool is_loaded = false;

    if (found == 0 && seq > 0 && seq <= last)
        is_loaded = load_body(to, store, seq, body, n, &why);
    /* None (1) is the ordinary state of a young tenant; anything else deserves a line. */
    to->is_snapshot_refused = found != 1 && !is_loaded;
    if (to->is_snapshot_refused)
        ld_log(LD_LOG_WARN, "%s: not used, the log is folded from its start: %s", path, why.text);
    free(body);
    return is_loaded;
}

/* ---- both ------------------------------------------------------------------------------------------ */

/* An empty engine in *r, in place of what was there. */
static enum kb_err start_over(struct ld_recovered *r)
{
    const struct ld_recovered said = {.is_snapshot_refused = r->is_snapshot_refused,
                                      .is_of_other_version = r->is_of_other_version};

    kb_engine_free(r->engine);
    *r = said;
    return kb_engine_new(&r->engine, ld_hash_key());
}

/* The slow way, which is always right. */
static int fold_from_start(struct ld_recovered *out, struct ld_store *store, uint64_t last_reset, const char *db_path,
                           struct ld_progress *progress, struct ld_message *why)
{
    if (start_over(out) != KB_OK)
        return ld_fail_as(LD_STORE_NOMEM, why, "%.400s: out of memory", db_path);
    kb_engine_fold_quietly_until(out->engine, last_reset);
    return fold_tail(out, store, db_path, progress, why);
}

/* Folds once more from the start; on another digest that fold replaces *out. */
static int verify(struct ld_recovered *out, struct ld_store *store, uint64_t last_reset, const char *db_path,
                  struct ld_progress *progress, struct ld_message *why)
{
    struct ld_recovered fresh = {0};
    const int rc = fold_from_start(&fresh, store, last_reset, db_path, progress, why);

    if (rc == LD_STORE_OK && kb_engine_digest(fresh.engine) != kb_engine_digest(out->engine)) {
        const struct ld_recovered wrong = *out;

        fresh.is_snapshot_refused = true;
        ld_log(LD_LOG_ERROR, "%s: the snapshot's digest differs from that of a fresh fold, which is used", db_path);
        *out = fresh;
        fresh = wrong;
    }
    kb_engine_free(fresh.engine);
    return rc;
}

/* On failure nothing is left behind. */
static int finish(struct ld_recovered *out, const struct ld_recovered *r, int rc, const char *db_path)
{
    if (rc != LD_STORE_OK) {
        kb_engine_free(r->engine);
        return rc;
    }
    if (kb_commit_settle(r->engine, NULL) != KB_OK) /* the bounds then rest on fewer events until the next one */
        ld_log(LD_LOG_WARN, "%s: no memory for the confidence bounds of all events", db_path);
    *out = *r;
    return LD_STORE_OK;
}

/* The engine in *out is the caller's. */
int ld_recover(struct ld_recovered *out, struct ld_store *store, const char *db_path, const char *snapshot_path,
               bool is_verified, struct ld_progress *progress, struct ld_message *why)
{
    uint64_t last = 0, last_reset = 0;
    struct ld_recovered r = {0};
    int rc = ld_store_tip(store, &last, &last_reset);

    ld_fail(why, "%.400s: the log cannot be read or memory is out", db_path);
    if (rc != LD_STORE_OK || start_over(&r) != KB_OK)
        return rc != LD_STORE_OK ? rc : LD_STORE_NOMEM;
    if (load_snapshot(&r, store, snapshot_path, last))
        rc = fold_tail(&r, store, db_path, progress, why);
    else
        rc = fold_from_start(&r, store, last_reset, db_path, progress, why);
    if (rc == LD_STORE_OK && is_verified && r.snapshot_seq > 0)
        rc = verify(&r, store, last_reset, db_path, progress, why);
    return finish(out, &r, rc, db_path);
}

static int note_reset(void *last_reset, const struct ld_row *row)
{
    if (row->is_reset)
        *(uint64_t *)last_reset = row->seq;
    return LD_STORE_OK;
}

int ld_recover_before(struct ld_recovered *out, struct ld_store *store, uint64_t seq, const char *db_path,
                      struct ld_progress *progress, struct ld_message *why)
{
    struct ld_recovered r = {0};
    uint64_t first = 1, kept = 1, last_reset = 0;
    int rc = ld_store_start(store, &first, &kept);
    const size_t n = (size_t)(seq > first ? seq - first : 0);

    ld_fail(why, "%.400s: the log cannot be read or memory is out", db_path);
    if (rc == LD_STORE_OK)
        rc = ld_store_read(store, 0, n, note_reset, &last_reset);
    if (rc == LD_STORE_OK && start_over(&r) != KB_OK)
        rc = LD_STORE_NOMEM;
    if (rc == LD_STORE_OK) {
        kb_engine_fold_quietly_until(r.engine, last_reset);
        rc = fold_lines(&r, store, n, db_path, progress, why);
    }
    if (rc == LD_STORE_OK && !kb_engine_is_whole(r.engine))
        rc = ld_fail_as(LD_STORE_CORRUPT, why, "%.400s: nothing can be served before event %llu", db_path,
                        (unsigned long long)seq);
    return finish(out, &r, rc, db_path);
}
