/* Repairing a shared log that has lost lines, or a copy of one that has too many: see repair_shared.h.
 *
 *     the copy has                          push            rewind
 *     the log's lines, and more             they go back    they are kept in a file
 *     another line where the log has one    refused         from there on
 *     a tenant that the log never had       it is made      all of them
 *       and the copy begins with a summary  refused         all of them
 *     no line that the log has not          refused         refused
 *
 * A push is one transaction in the tenant's turn, each line a batch (shared_send.h). It ends as a rewriting without a
 * changed line does: so other copies that have those lines are compared with the log, and not taken for others. */
#include "task/repair_shared.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "json/json_out.h"
#include "store/folder.h"
#include "store/sqlite_util.h"
#include "tenant/recover.h"
#include "tenant/shared_send.h"

#define MOST_BRANCHES 1000

struct repairing {
    struct ld_shared_log *log;
    const char *node, *data_dir, *name;
    struct ld_progress *progress;
    struct ld_store *store;
    struct ld_copy_mark mark;
    uint64_t id;               /* in the log; 0: it has never had the tenant */
    uint64_t last;             /* of the copy */
    struct ld_shared_place at; /* behind the last of the log's batches that the copy has */
    uint64_t tip;              /* of the log */
    uint64_t rewritten;        /* the log's last rewriting that was no compaction */
    uint64_t other;            /* the first line that is another one; 0: none is */
    struct ld_repaired *out;
    struct ld_problem *p;
};

/* ---- comparing -------------------------------------------------------------------------------------------- */

/* For read and take. */
static enum ld_shared_rc compare(void *arg, const struct ld_shared_batch *b)
{
    struct repairing *r = arg;
    uint64_t other;

    if (ld_progress_is_over(r->progress))
        return LD_SHARED_DOWN;
    r->tip = b->at.seq;
    if (r->other != 0 || b->at.seq - b->n >= r->last)
        return LD_SHARED_OK;
    if (ld_shared_first_other(r->store, b, &other) != LD_STORE_OK)
        return LD_SHARED_NOMEM;
    if (other == 0)
        r->at = b->at;
    else if (other <= r->last)
        r->other = other;
    return LD_SHARED_OK;
}

static bool fail(struct repairing *r, enum ld_shared_rc rc, const struct ld_message *why)
{
    if (rc == LD_SHARED_UNKNOWN)
        ld_problem_set(r->p, 503, "it is not known whether the lines were put back: ask again");
    else
        ld_problem_set(r->p, 503, "the shared log cannot be repaired now; nothing was changed: %.300s",
                       why->text[0] != '\0' ? why->text : ld_shared_say(rc));
    r->p->retry_after_s = 1;
    return false;
}

/* Of a log without a turn, page by page. False with the problem. */
static bool read_all(struct repairing *r)
{
    struct ld_message why = {""};
    enum ld_shared_rc rc = LD_SHARED_OK;
    struct ld_shared_place place = {.generation = LD_ANY_GENERATION};
    uint64_t n;

    do {
        n = r->at.seq;
        rc = r->log->ops->read(r->log, r->id, &place, (size_t)4 << 20, compare, r, &why);
        place = r->at;
    } while (rc == LD_SHARED_OK && r->at.seq != n && r->other == 0);
    return rc == LD_SHARED_OK || fail(r, rc, &why);
}

/* ---- push ------------------------------------------------------------------------------------------------- */

/* A tenant that is made in a push begins at line 1 and has no books: a summary would be lines that nobody can read. */
static bool may_make(struct repairing *r)
{
    uint64_t first = 1, kept = 1;

    if (ld_store_start(r->store, &first, &kept) != LD_STORE_OK)
        ld_problem_set(r->p, 503, "the copy cannot be read");
    else if (kept > 1)
        ld_problem_set(
            r->p, 409,
            "the shared log has never had the tenant, and the copy begins with a summary, which cannot be "
            "put into it: restore what POST /tenants/%s/snapshot gives at a server without --log, or a later "
            "backup of the shared log",
            r->name);
    return r->p->status == 0;
}

static bool may_push(struct repairing *r)
{
    if (r->other != 0)
        ld_problem_set(r->p, 409,
                       "the shared log has another line %llu than this server's copy, so nothing of the copy continues "
                       "it: a rewind keeps the copy's lines in a file and follows the log",
                       (unsigned long long)r->other);
    else if (r->last <= r->tip)
        ld_problem_set(r->p, 409, "the shared log has all lines of this server's copy: there is nothing to put back");
    return r->p->status == 0;
}

/* The last line ends the turn: a tenant that is there gets a new generation, later than any that the copy knows. */
static enum ld_shared_rc end_push(struct repairing *r, struct ld_shared_sender *s)
{
    struct ld_shared_batch last = ld_shared_last_sent(s);
    enum ld_shared_rc rc;

    last.at.generation = r->mark.generation + 1;
    ld_failpoint("before_shared_push");
    rc = r->id != 0 ? r->log->ops->rewrite(s->turn, NULL, 0, &last, 1, s->why)
                    : r->log->ops->append(s->turn, &last, s->why);
    s->turn = NULL;
    if (rc == LD_SHARED_UNKNOWN)
        rc = r->log->ops->settle(r->log, s->id, &last, s->why);
    return rc;
}

static void send(struct repairing *r, struct ld_shared_sender *s)
{
    const int rc = ld_store_read(r->store, r->at.seq, SIZE_MAX, ld_shared_send_row, s);

    if (rc != LD_STORE_OK && s->rc == LD_SHARED_OK)
        s->rc = LD_SHARED_NOMEM;
    if (s->rc == LD_SHARED_OK)
        s->rc = end_push(r, s);
}

static bool push(struct repairing *r)
{
    struct ld_message why = {""};
    const struct ld_shared_place start = {.generation = LD_ANY_GENERATION};
    struct ld_shared_sender s = {
        .log = r->log, .node = r->node, .id = r->id, .why = &why, .is_over = ld_progress_is_over, .arg = r->progress};

    if (r->id == 0 && !may_make(r))
        return false;
    ld_text_init(&s.body);
    s.rc = r->id != 0 ? r->log->ops->take(r->log, r->id, &start, compare, r, &s.turn, &why)
                      : r->log->ops->make(r->log, r->name, &s.turn, &s.id, &why);
    if (s.rc == LD_SHARED_OK && may_push(r) && ld_shared_may_send(&s)) {
        s.at = r->at;
        r->out->n_lines = r->last - r->at.seq;
        send(r, &s);
    }
    if (s.turn != NULL)
        r->log->ops->release(s.turn);
    ld_text_close(&s.body);
    return r->p->status == 0 && (s.rc == LD_SHARED_OK || fail(r, s.rc, &why));
}

/* ---- rewind ----------------------------------------------------------------------------------------------- */

static int write_line(void *file, const struct ld_row *row)
{
    struct ld_text line;

    ld_text_init(&line);
    const bool is_written =
        ld_text_export(&line, row->text, row->n_text, row->answer) == 0 && fwrite(line.data, 1, line.n, file) == line.n;
    ld_text_close(&line);
    return is_written ? 0 : 1;
}

/* Into a file of that path, durable. */
static bool write_lines(struct repairing *r, const char *path)
{
    FILE *f = fopen(path, "w");

    if (f == NULL)
        return false;
    const bool is_written = ld_store_read(r->store, r->at.seq, SIZE_MAX, write_line, f) == LD_STORE_OK &&
                            fflush(f) == 0 && fsync(fileno(f)) == 0;
    ld_folder_keep_private(path);
    return fclose(f) == 0 && is_written;
}

/* The copy's lines behind `at`, as an export has them, durable. Another branch may have had lines of these numbers, and
 * their file is the only one that has them: it is never replaced. */
static bool keep(struct repairing *r)
{
    char path[LD_PATH_MAX + sizeof r->out->file], made[sizeof path + 4];
    const size_t n = (size_t)snprintf(r->out->file, sizeof r->out->file, "%s" LD_FOLDER_LOST "%llu-%llu", r->name,
                                      (unsigned long long)r->at.seq + 1, (unsigned long long)r->last);
    int rc = -1;

    snprintf(made, sizeof made, "%.4000s/tenants/%s.tmp", r->data_dir, r->out->file);
    bool is_kept = write_lines(r, made);
    for (int i = 1; is_kept && rc != 0 && i < MOST_BRANCHES; i++) {
        if (i > 1)
            snprintf(r->out->file + n, sizeof r->out->file - n, "-%d", i);
        snprintf(path, sizeof path, "%.4000s/tenants/%s", r->data_dir, r->out->file);
        rc = link(made, path);
        is_kept = rc == 0 || errno == EEXIST;
    }
    const int error = errno;
    (void)unlink(made);
    errno = error;
    return is_kept && rc == 0 && ld_sync_directory_of(path) == 0;
}

/* Whether the copy stands at a place of the log, or at one of before lines were rewritten, which a start looks after.
 */
static bool is_well(const struct repairing *r)
{
    return r->other == 0 && r->last <= r->tip && r->id == r->mark.tenant &&
           (r->mark.generation < r->at.generation || r->last != r->at.seq ||
            memcmp(r->mark.hash, r->at.hash, sizeof r->mark.hash) == 0);
}

static bool rewind_copy(struct repairing *r)
{
    if (r->id != 0 && !read_all(r))
        return false;
    if (is_well(r)) {
        ld_problem_set(r->p, 409, "the shared log has all lines of this server's copy: there is nothing to rewind");
        return false;
    }
    if (r->id != 0 && r->mark.generation < r->rewritten && r->last <= r->tip) {
        ld_problem_set(r->p, 409,
                       "lines of the shared log were rewritten since this server has read them (a user was erased), so "
                       "the copy has no line to keep: start the server, and it is renewed");
        return false;
    }
    r->out->n_lines = r->last - r->at.seq;
    if (r->out->n_lines > 0 && !keep(r)) {
        ld_problem_set(r->p, 503, "the copy's lines cannot be kept in a file, so nothing was changed: %s",
                       strerror(errno));
        return false;
    }
    ld_failpoint("before_rewind");
    ld_store_close(r->store);
    r->store = NULL;
    ld_folder_remove(r->data_dir, r->name);
    return true;
}

/* ---- which log ---------------------------------------------------------------------------------------------- */

static enum ld_shared_rc ignore(void *arg, const struct ld_shared_batch *batch)
{
    (void)arg;
    (void)batch;
    return LD_SHARED_OK;
}

/* Of a name that the log has not: whether it was deleted, or the log has never had it. */
static bool is_lost(struct repairing *r)
{
    const struct ld_shared_place after = {.seq = 1, .generation = LD_ANY_GENERATION};
    struct ld_message why;
    const enum ld_shared_rc rc = r->log->ops->read(r->log, r->mark.tenant, &after, 1, ignore, NULL, &why);

    if (rc == LD_SHARED_NONE)
        ld_problem_set(r->p, 404, "the tenant has been deleted in the shared log");
    else if (rc != LD_SHARED_FORKED && rc != LD_SHARED_OK)
        (void)fail(r, rc, &why);
    return r->p->status == 0;
}

static bool find(struct repairing *r)
{
    struct ld_message why = {""};
    struct ld_shared_tenant found = {.id = 0};
    bool is_new = false;
    const enum ld_shared_rc rc = r->log->ops->find(r->log, r->name, false, &found, &is_new, &why);

    if (rc == LD_SHARED_NONE)
        return is_lost(r);
    if (rc != LD_SHARED_OK)
        return fail(r, rc, &why);
    r->id = found.id;
    r->tip = found.tip.seq;
    r->rewritten = found.rewritten;
    r->at.generation = found.tip.generation;
    if (r->id != r->mark.tenant)
        ld_problem_set(r->p, 409,
                       "this server's copy is of another tenant of that name (number %llu; the shared log's is %llu): "
                       "it is put aside when the tenant is opened",
                       (unsigned long long)r->mark.tenant, (unsigned long long)r->id);
    return r->p->status == 0;
}

static bool open_copy(struct repairing *r)
{
    char path[LD_PATH_MAX];
    struct ld_message why = {""};
    uint64_t last_reset = 0;

    if (ld_folder_path(r->data_dir, r->name, ".db", path) != 0 || access(path, F_OK) != 0)
        ld_problem_set(r->p, 409, "this server has no copy of the tenant: it makes one at the tenant's first use");
    else if (ld_store_open(&r->store, path, false, &why) != LD_STORE_OK ||
             ld_store_copy_mark(r->store, &r->mark) != LD_STORE_OK ||
             ld_store_tip(r->store, &r->last, &last_reset) != LD_STORE_OK)
        ld_problem_set(r->p, 503, "the copy cannot be read: %.400s", why.text);
    else if (r->mark.tenant == 0)
        ld_problem_set(r->p, 409, "the file is no copy of a shared log");
    return r->p->status == 0;
}

int ld_repair_shared(struct ld_shared_log *log, const char *node, const char *data_dir, const char *name,
                     enum ld_repair_action action, struct ld_progress *progress, struct ld_repaired *out,
                     struct ld_problem *p)
{
    struct repairing r = {
        .log = log, .node = node, .data_dir = data_dir, .name = name, .progress = progress, .out = out, .p = p};

    *out = (struct ld_repaired){.n_lines = 0};
    const bool is_done = open_copy(&r) && find(&r) && (action == LD_REPAIR_PUSH ? push(&r) : rewind_copy(&r));
    ld_store_close(r.store);
    return is_done ? 0 : -1;
}
