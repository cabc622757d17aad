/* Restoring and importing: see restore.h.
 *
 * Both end in a fold of the whole log into an engine of their own, one line at a time:
 *
 *     a file    opened as any tenant's (db_file.c refuses what is foreign, newer, damaged or of another schema), each
 *               line decoded and folded, the columns beside it compared with what the line says
 *     lines     read from the spooled body, decoded and folded, and appended to a new file in bounded transactions
 *
 * Whether a line may stand where it stands (its number, its type, what it refers to) is the engine's to say. A fold of
 * lines teaches everything on its way, since nobody has told yet where the last reset of the dictionary is; the model
 * is the same bit for bit. Memory: the model, and a batch of lines. */
#include "task/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "model/commit.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "store/folder.h"
#include "base/hash_key.h"
#include "base/lines.h"
#include "base/log.h"
#include "tenant/fold.h"
#include "tenant/recover.h"
#include "store/snapshot.h"
#include "model/summary.h"
#include "json/json_in.h"

#define LONG_LINE "the line is longer than this server takes"
#define QUOTA_LINES 256u /* between two looks at the model's size */
#define BATCH_ROWS 1000
#define BATCH_BYTES ((size_t)4 << 20)
#define WAL_BYTES ((int64_t)64 << 20)

/* A restore in progress. */
struct job {
    const struct ld_restore *how;
    struct ld_problem *p;
    struct kb_engine *engine;
    struct ld_store *store;
    struct ld_fold fold;
    /* The open batch; each row borrows from its document. */
    struct ld_row *row;
    struct ld_doc **doc;
    size_t n_rows, n_bytes;
    struct ld_restored found; /* so far */
};

/* --- faults ------------------------------------------------------------------------------------------------- */

/* What the store says: the file's fault, or the surroundings'. The sentence begins with the path, which is ours. */
static int fail_store(struct job *j, int rc, const char *why)
{
    const size_t n = strlen(j->how->path);
    const char *text = strncmp(why, j->how->path, n) == 0 && strncmp(why + n, ": ", 2) == 0 ? why + n + 2 : why;

    if (rc == LD_STORE_NOMEM)
        ld_problem_set(j->p, 503, "out of memory");
    else if (rc == LD_STORE_STOPPED)
        ld_problem_set(j->p, 503, "the server is stopping");
    else if (rc == LD_STORE_IO)
        ld_problem_set(j->p, 507, "the tenant's file cannot be written; the disk may be full");
    else
        ld_problem_set(j->p, 400, "the file is refused: %s", text);
    ld_log(LD_LOG_WARN, "a tenant was not taken in: %s", why);
    return -1;
}

static bool is_stopped(struct job *j)
{
    if (j->how->is_over(j->how->arg))
        ld_problem_set(j->p, 503, "the server is stopping");
    return j->p->status != 0;
}

static int look(void *arg, const struct ld_row *row, struct ld_problem *fault)
{
    const struct job *j = arg;

    if (row->n_text > j->how->max_line) {
        ld_problem_add(fault, "", LONG_LINE);
        ld_problem_limit(fault, "line_bytes", (double)j->how->max_line);
        return LD_STORE_CORRUPT;
    }
    return is_stopped(arg) ? LD_STORE_STOPPED : 0;
}

/* False with the problem. */
static bool has_room(struct job *j)
{
    if (j->how->max_bytes == 0 || kb_engine_bytes(j->engine) <= j->how->max_bytes)
        return true;
    ld_problem_set(j->p, 507, "the model takes more than the %zu bytes that a tenant may have", j->how->max_bytes);
    ld_problem_limit(j->p, "tenant_quota", (double)j->how->max_bytes);
    return false;
}

/* A line into the model, and what its server is to know of it. */
static enum kb_err fold_line(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct job *j = arg;
    const struct ld_settings *settings = ld_line_settings(&line->ev);

    if (settings != NULL)
        j->found.is_relaxed = settings->is_relaxed;
    if (j->fold.n_lines % QUOTA_LINES == 0 && !has_room(j))
        return KB_ECANCELLED; /* the problem is told */
    return kb_engine_fold(j->engine, &line->ev, msg);
}

/* --- from a file ------------------------------------------------------------------------------------------- */

static int restore_file(struct job *j)
{
    struct ld_message why = {""};
    uint64_t last = 0, last_reset = 0;
    const struct ld_store_care care = {.is_foreign = true, .is_over = j->how->is_over, .arg = j->how->arg};
    int rc = ld_store_open_with(&j->store, j->how->path, &care, &why);

    if (rc == LD_STORE_OK)
        rc = ld_store_tip(j->store, &last, &last_reset);
    if (rc != LD_STORE_OK)
        return fail_store(j, rc, why.text);
    kb_engine_fold_quietly_until(j->engine, last_reset);
    rc = ld_fold_store(&j->fold, j->store, 0, SIZE_MAX);
    if (rc == LD_STORE_OK)
        rc = ld_store_be_no_copy(j->store, &why); /* of whatever log it was one */
    if (j->fold.fault.status != 0)
        ld_fold_blame(&j->fold, 400, j->p);
    if (rc == LD_STORE_STOPPED && !is_stopped(j))
        rc = LD_STORE_CORRUPT; /* the watch has ended it */
    if (rc != LD_STORE_OK && j->p->status == 0)
        return fail_store(j, rc, "the log cannot be read");
    return j->p->status == 0 ? 0 : -1;
}

/* --- from lines -------------------------------------------------------------------------------------------- */

static void drop_batch(struct job *j)
{
    for (size_t i = 0; i < j->n_rows; i++)
        ld_doc_free(j->doc[i]);
    j->n_rows = 0;
    j->n_bytes = 0;
}

/* One transaction. The write-ahead log is cut where it grows, so that the log is not on the disk three times. */
static int write_batch(struct job *j)
{
    struct ld_message why = {""};
    const int rc = j->n_rows > 0 ? ld_store_append(j->store, j->row, j->n_rows, &why) : LD_STORE_OK;

    drop_batch(j);
    if (rc != LD_STORE_OK)
        return fail_store(j, rc, why.text);
    if (ld_store_wal_bytes(j->store) > WAL_BYTES)
        ld_store_scrub(j->store);
    return 0;
}

/* The row of a folded line. Its text is copied: the buffer is the next line's. */
static enum kb_err add_row(struct job *j, struct ld_line *line)
{
    const size_t n = line->row->n_text;
    char *copy = ld_doc_alloc(line->doc, n + 1, 1);
    struct ld_row *row = &j->row[j->n_rows];

    if (copy == NULL)
        return KB_ENOMEM;
    memcpy(copy, line->row->text, n);
    copy[n - 1] = '}'; /* what an answer stood behind has lost it */
    ld_row_index(row, &line->ev);
    row->text = copy;
    row->n_text = n;
    row->answer = line->row->answer;
    j->doc[j->n_rows++] = line->doc;
    line->doc = NULL;
    j->n_bytes += n;
    return KB_OK;
}

static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct job *j = arg;
    enum kb_err rc = fold_line(j, line, msg);

    if (rc == KB_OK)
        rc = add_row(j, line);
    if (rc == KB_OK && (j->n_rows == BATCH_ROWS || j->n_bytes >= BATCH_BYTES) && write_batch(j) != 0)
        rc = KB_ECANCELLED; /* the problem is told */
    return rc;
}

/* 0, or -1 with the problem. */
static int take_lines(struct job *j, struct ld_lines *from)
{
    int end;

    j->fold.sink.take = take;
    while (ld_fold_lines(&j->fold, from, SIZE_MAX, &end))
        continue;
    if (end == LD_LINES_LONG) {
        ld_problem_add(&j->fold.fault, "", LONG_LINE);
        ld_problem_limit(&j->fold.fault, "line_bytes", (double)j->how->max_line);
    } else if (end == LD_LINES_BROKEN)
        ld_problem_set(j->p, 503, "the body cannot be read back from the disk");
    if (j->fold.fault.status != 0)
        ld_fold_blame(&j->fold, 400, j->p);
    return j->p->status == 0 ? write_batch(j) : -1;
}

static int restore_lines(struct job *j)
{
    struct ld_lines from;
    struct ld_message why = {""};
    int rc = ld_lines_open(&from, open(j->how->lines, O_RDONLY | O_CLOEXEC), j->how->max_line);

    j->row = calloc(BATCH_ROWS, sizeof *j->row);
    j->doc = calloc(BATCH_ROWS, sizeof *j->doc);
    if (rc != 0 || j->row == NULL || j->doc == NULL) {
        ld_problem_set(j->p, 503, rc != 0 ? "the body cannot be read back from the disk" : "out of memory");
        rc = -1;
    } else if ((rc = ld_store_open(&j->store, j->how->path, false, &why)) != LD_STORE_OK) {
        rc = fail_store(j, rc, why.text);
    } else {
        rc = take_lines(j, &from);
    }
    ld_lines_close(&from);
    drop_batch(j);
    return rc;
}

/* --- the end ------------------------------------------------------------------------------------------------- */

/* Spares the opening of the tenant a second fold. Without it, as with a build under way, there is that fold. */
static void save_model(struct job *j)
{
    struct kb_writer w;
    char path[LD_PATH_MAX + 16];
    struct ld_message why = {"out of memory"};
    uint64_t mark;

    if (kb_engine_is_building(j->engine) || ld_log_mark(j->store, j->fold.seq, &mark) != LD_STORE_OK)
        return;
    snprintf(path, sizeof path, "%s" LD_RESTORE_SNAPSHOT, j->how->path);
    kb_writer_init(&w);
    kb_put_u64(&w, mark);
    if (kb_engine_save(j->engine, &w) != KB_OK || w.rc != KB_OK ||
        ld_snapshot_write(path, j->fold.seq, w.data, w.n, &why) != 0)
        ld_log(LD_LOG_WARN, "no snapshot of a tenant that is taken in: %s", why.text);
    kb_writer_close(&w);
}

/* Closing moves the write-ahead log into the file. Where that failed the log is still there, and the file not whole. */
static int close_whole(struct job *j)
{
    char wal[LD_PATH_MAX + 16];
    struct stat st;

    ld_store_scrub(j->store);
    ld_store_close(j->store);
    j->store = NULL;
    snprintf(wal, sizeof wal, "%s-wal", j->how->path);
    const int fd = open(j->how->path, O_RDONLY | O_CLOEXEC);
    const bool is_whole = fd >= 0 && (stat(wal, &st) != 0 || st.st_size == 0) && fsync(fd) == 0;
    if (fd >= 0)
        close(fd);
    return is_whole ? 0 : fail_store(j, LD_STORE_IO, strerror(errno));
}

/* As at the end of a recovery: bounds that rest on all events. */
static int finish(struct job *j, struct ld_restored *out)
{
    if (j->fold.n_lines == 0) {
        ld_problem_set(j->p, 400, "the log has no event");
        return -1;
    }
    if (!kb_engine_is_whole(j->engine)) {
        ld_problem_set(j->p, 400, "the log begins with a summary that has no end, or no reset behind it");
        return -1;
    }
    if (kb_commit_settle(j->engine, NULL) != KB_OK) {
        ld_problem_set(j->p, 503, "out of memory");
        return -1;
    }
    if (!has_room(j))
        return -1;
    *out = j->found;
    out->events = j->fold.n_lines;
    out->seq = j->fold.seq;
    out->digest = kb_engine_digest(j->engine);
    save_model(j);
    return close_whole(j);
}

int ld_restore(const struct ld_restore *how, struct ld_restored *out, struct ld_problem *p)
{
    struct job j = {.how = how, .p = p};
    int rc = -1;

    if (kb_engine_new(&j.engine, ld_hash_key()) != KB_OK)
        ld_problem_set(p, 503, "out of memory");
    else {
        ld_fold_init(&j.fold, ld_engine_sink(j.engine));
        j.fold.sink.before = look;
        j.fold.sink.watch = &j;
        j.fold.sink.take = fold_line;
        j.fold.sink.to = &j;
        rc = how->lines != NULL ? restore_lines(&j) : restore_file(&j);
    }
    if (rc == 0)
        rc = finish(&j, out);
    ld_store_close(j.store);
    kb_engine_free(j.engine);
    free(j.row);
    free(j.doc);
    return rc;
}
