/* Repairing a log that no fold takes to its end: see repair.h.
 *
 * That a tenant is read-only stands beside its log, in NAME.readonly: a file of the form of a snapshot (checksum, whole
 * or not there) with the line's number and, as its body, the fold's sentence. The log itself is not touched.
 *
 * A line that is dropped loses its text and columns in one transaction; the write-ahead log is cut behind it. The
 * snapshot goes first: it may hold what the line had done when an earlier version took it. */
#include "task/repair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/engine_write.h"
#include "tenant/fold.h"
#include "store/folder.h"
#include "base/hash_key.h"
#include "tenant/recover.h"
#include "store/snapshot.h"
#include "store/sqlite_util.h"
#include "store/store.h"
#include "json/json_in.h"
#include "json/json_out.h"

struct place {
    char db[LD_PATH_MAX], snapshot[LD_PATH_MAX], mark[LD_PATH_MAX];
};

static int place_of(struct place *out, const char *data_dir, const char *name)
{
    return ld_folder_path(data_dir, name, ".db", out->db) == 0 &&
                   ld_folder_path(data_dir, name, ".snapshot", out->snapshot) == 0 &&
                   ld_folder_path(data_dir, name, LD_READ_ONLY_SUFFIX, out->mark) == 0
               ? 0
               : -1;
}

static int look(void *progress, const struct ld_row *row, struct ld_problem *fault)
{
    (void)row, (void)fault;
    return ld_progress_is_over(progress) ? LD_STORE_STOPPED : 0;
}

/* As an opening folds: what lies before the last reset teaches the history alone. LD_STORE_OK also when a line is
 * refused, which is what is looked for. */
static int search(struct ld_refused *s, struct ld_store *store, struct ld_progress *progress)
{
    uint64_t last = 0, last_reset = 0;
    struct kb_engine *e = NULL;
    int rc = ld_store_tip(store, &last, &last_reset);

    *s = (struct ld_refused){.why = {""}};
    if (rc != LD_STORE_OK || kb_engine_new(&e, ld_hash_key()) != KB_OK)
        return rc != LD_STORE_OK ? rc : LD_STORE_NOMEM;
    kb_engine_fold_quietly_until(e, last_reset);
    struct ld_fold f = {.sink = ld_engine_sink(e)};
    f.sink.before = look;
    f.sink.watch = progress;
    rc = ld_fold_store(&f, store, 0, SIZE_MAX);
    kb_engine_free(e);
    if (f.fault.status == 0)
        return rc;
    ld_fold_say(&f, &s->why);
    if (rc != LD_STORE_CORRUPT)
        return rc;
    s->row = f.at;
    return LD_STORE_OK;
}

/* ---- the three actions -------------------------------------------------------------------------------- */

/* One that is not there is gone. */
static int remove_synced(const char *path)
{
    if (unlink(path) != 0)
        return errno == ENOENT ? 0 : -1;
    return ld_sync_directory_of(path);
}

char *ld_repair_note(const struct ld_refused *s, const char *by, size_t *n)
{
    char dropped[LD_MAX_DROPPED];
    const char *type = kb_word(&kb_event_words, s->row.type);
    struct kb_event ev = {
        .type = KB_EV_REDACTED, .seq = s->row.seq, .at_ms = s->row.at_ms, .by = by[0] != '\0' ? by : NULL};

    snprintf(dropped, sizeof dropped, "%s: %.450s", type != NULL ? type : "of no known type", s->why.text);
    ev.as.redacted.dropped = dropped;
    return ld_encode_event(&ev, 0, 0, NULL, n);
}

/* Text that was dropped leaves the files, and the mark after it. */
static int finish_drop(struct ld_store *store, const struct place *at)
{
    return ld_store_scrub(store) && remove_synced(at->mark) == 0 ? LD_STORE_OK : LD_STORE_IO;
}

static int drop(struct ld_store *store, const struct place *at, const struct ld_refused *s, const char *by,
                struct ld_message *why)
{
    struct ld_rewrite line = {.seq = s->row.seq, .type = KB_EV_REDACTED};

    line.text = ld_repair_note(s, by, &line.n_text);
    if (line.text == NULL)
        return LD_STORE_NOMEM;
    int rc = remove_synced(at->snapshot) == 0 ? ld_store_rewrite(store, &line, 1, NULL, why) : LD_STORE_IO;
    free(line.text);
    return rc == LD_STORE_OK ? finish_drop(store, at) : rc;
}

void ld_repair_check(const struct ld_refused *s, const struct ld_repair *wanted, uint64_t first, struct ld_problem *p)
{
    if (s->row.seq == 0)
        ld_problem_set(p, 409, "the log folds to its end: there is nothing to repair");
    else if (s->row.seq != wanted->seq)
        ld_problem_set(p, 409, "the line that no fold takes is another one: %.400s", s->why.text);
    else if (s->row.seq == first)
        ld_problem_set(p, 409, "it is the log's first line, without which nothing can be read: %.400s", s->why.text);
    else if (wanted->action == LD_REPAIR_DROP && s->row.type == KB_EV_REDACTED)
        ld_problem_set(p, 409, "nothing is left of this line that could be dropped: %.400s", s->why.text);
    else if (wanted->action == LD_REPAIR_DROP && s->row.type == KB_EV_SUMMARY)
        ld_problem_set(p, 409, "a part of a summary cannot be dropped: the others rest on it");
}

/* What was left when a drop was cut off behind its transaction: the mark of a line that no longer keeps a fold from the
 * log's end. */
static bool is_half_dropped(const struct place *at, const struct ld_refused *s, const struct ld_repair *wanted)
{
    uint64_t marked = 0;
    void *body = NULL;
    size_t n = 0;
    struct ld_message fault;
    const bool is_marked = s->row.seq == 0 && wanted->action == LD_REPAIR_DROP &&
                           ld_snapshot_read(at->mark, &marked, &body, &n, &fault) == 0 && marked == wanted->seq;

    free(body);
    return is_marked;
}

static int repair_line(struct ld_store *store, const struct place *at, const struct ld_repair *wanted,
                       struct ld_progress *progress, struct ld_message *why, struct ld_problem *p)
{
    uint64_t first = 1, kept = 1;
    struct ld_refused s;
    int rc = search(&s, store, progress);

    ld_fail(why, "%s", s.why.text);
    if (rc == LD_STORE_OK)
        rc = ld_store_start(store, &first, &kept);
    if (rc != LD_STORE_OK)
        return rc;
    if (is_half_dropped(at, &s, wanted))
        return finish_drop(store, at);
    ld_repair_check(&s, wanted, first, p);
    if (p->status != 0)
        return LD_STORE_OK;
    if (wanted->action == LD_REPAIR_DROP)
        return drop(store, at, &s, wanted->by, why);
    return ld_snapshot_write(at->mark, s.row.seq, s.why.text, strlen(s.why.text), why) == 0 ? LD_STORE_OK : LD_STORE_IO;
}

/* A line of a copy alone would come back with the log. */
static bool may_drop(struct ld_store *store, const struct ld_repair *wanted, struct ld_problem *p)
{
    struct ld_copy_mark mark = {.tenant = 0};

    if (wanted->action == LD_REPAIR_DROP && ld_store_copy_mark(store, &mark) == LD_STORE_OK && mark.tenant != 0)
        ld_problem_set(p, 409,
                       "the file is a copy of a shared log, and the line is to be dropped there: ask a server that "
                       "shares it");
    return p->status == 0;
}

/* Of a file that is there: a missing one is not made. */
static int open_log(struct ld_store **out, const char *path, struct ld_message *why)
{
    if (access(path, F_OK) == 0)
        return ld_store_open(out, path, false, why);
    return ld_fail_as(LD_STORE_IO, why, "%.400s: %s", path, strerror(errno));
}

int ld_repair(const char *data_dir, const char *name, const struct ld_repair *wanted, struct ld_progress *progress,
              struct ld_message *why, struct ld_problem *p)
{
    struct ld_store *store = NULL;
    struct place at;
    int rc = LD_STORE_OK;

    why->text[0] = '\0';
    if (place_of(&at, data_dir, name) != 0) {
        ld_problem_set(p, 503, "the path is too long");
    } else if (wanted->action == LD_REPAIR_LIFT) {
        if (remove_synced(at.mark) != 0)
            ld_problem_set(p, 503, "the data folder cannot be written");
    } else {
        struct ld_message fault = {""};

        rc = open_log(&store, at.db, &fault);
        if (rc == LD_STORE_OK && may_drop(store, wanted, p))
            rc = repair_line(store, &at, wanted, progress, why, p);
        ld_store_close(store);
        if (rc != LD_STORE_OK)
            ld_problem_set(p, rc == LD_STORE_IO || rc == LD_STORE_NOMEM || rc == LD_STORE_STOPPED ? 503 : 500,
                           "the log cannot be repaired now: %.400s", fault.text[0] != '\0' ? fault.text : "try again");
    }
    return p->status == 0 ? 0 : -1;
}
