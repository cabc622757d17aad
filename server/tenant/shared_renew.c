/* A log that several servers write, some lines of which were rewritten since this server has read them (erase.c,
 * repair_shared.c), or gave way to a summary (compact.c): its copy and its model are made again.
 *
 *   copy     the log is read from its beginning, beside the lines that are here; those that differ, and those that are
 *            not here yet, go into the file, in one transaction with the place and its generation
 *   summary  where the log has another beginning than the copy, its summary and its books come into the copy, and what
 *            the copy had in their place is trimmed (store_summary.c)
 *   model    is folded from the copy as at a start, quietly up to its last reset; then the engines are exchanged
 *
 * It is the writer's work, and without a turn in the log: reads and dry runs go on from the old model, and changes of
 * this tenant wait here, 12 us for each line of the log. A start does the first half before it folds. Nothing can be
 * judged by the old model in the meantime: it knows what the log does not.
 *
 * Where the log was compacted, and nothing else, and the copy has what went and a reset of the model behind that, the
 * model stays as it is: the copy is compared up to its end alone, and followed from there. So do the books: those in
 * the log are as of a line that may not be here yet. A start keeps no model and reads on.
 *
 * The snapshot is removed first. A copy that could be renewed and a model that could not be folded, for want of memory,
 * takes no changes until it can. */
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/text.h"
#include "json/json_in.h"
#include "model/engine_write.h"
#include "tenant/fold.h"
#include "tenant/recover.h"
#include "tenant/line.h"
#include "tenant/shared_send.h"
#include "tenant/tenant_state.h"

#define PAGE_BYTES ((size_t)4 << 20)

/* The copy, on its way. */
struct renewal {
    struct ld_tenant *t;
    struct ld_shared_place at; /* so far */
    struct ld_shared_tenant log;
    uint64_t first, kept; /* of the copy, as they are of the log (shared_log.h) */
    uint64_t last;        /* the last line that the copy had */
    uint64_t compared;    /* lines up to this one are not compared, but taken: those of a new summary */
    bool is_same;         /* what the copy had and the log has was the same so far, but for a summary */
    int64_t at_ms;
    uint32_t context_dim, arm_dim; /* in force at its end, from there on at the line */
    struct ld_fold fold;
    uint64_t n_renewed;
    struct ld_message *why;
};

/* ---- dimensions ------------------------------------------------------------------------------------------ */

static enum kb_err take_dimensions(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct renewal *r = arg;
    const struct ld_settings *settings = ld_line_settings(&line->ev);

    (void)msg;
    if (settings != NULL) {
        r->context_dim = settings->spec.context_dim;
        r->arm_dim = settings->spec.arm_dim;
    }
    return KB_OK;
}

/* Of vectors in the lines that come behind those that are here. */
static bool note_dimensions(struct renewal *r)
{
    struct ld_fold fold;

    if (r->last == 0)
        return true;
    ld_fold_init(&fold, (struct ld_sink){
                            .take = take_dimensions, .to = r, .context_dim = &r->context_dim, .arm_dim = &r->arm_dim});
    return ld_store_last_configured(r->t->store, ld_fold_row, &fold) == LD_STORE_OK;
}

/* ---- lines ---------------------------------------------------------------------------------------------- */

/* A line that is not here as it stands there. Its text wants the brace again, where an answer was split off. */
static enum kb_err take(void *arg, struct ld_line *line, struct kb_errmsg *msg)
{
    struct renewal *r = arg;
    const size_t n = line->row->n_text;
    char *copy = ld_doc_alloc(line->doc, n + 1, 1);
    const struct ld_settings *settings = ld_line_settings(&line->ev);
    struct ld_row row;

    (void)msg;
    if (copy == NULL)
        return KB_ENOMEM;
    memcpy(copy, line->row->text, n);
    copy[n - 1] = '}';
    copy[n] = '\0';
    ld_row_index(&row, &line->ev);
    row.text = copy;
    row.n_text = n;
    row.answer = line->row->answer;
    r->is_same &= row.seq > r->last || row.seq <= r->compared;
    if (settings != NULL && (row.seq > r->last || row.seq <= r->compared)) {
        r->context_dim = settings->spec.context_dim;
        r->arm_dim = settings->spec.arm_dim;
    }
    r->at_ms = row.at_ms;
    r->n_renewed++;
    return ld_store_renew(r->t->store, &row, r->why) == LD_STORE_OK ? KB_OK : KB_ECANCELLED;
}

/* The line that begins at *at, moved behind it; its length without the line feed, or -1. */
static ptrdiff_t next_line(const char **at, const char *end)
{
    const char *from = *at, *stop = from < end ? memchr(from, '\n', (size_t)(end - from)) : NULL;

    if (stop == NULL)
        return -1;
    *at = stop + 1;
    return stop - from;
}

/* The line is not read again before the log is another. */
static void note_unfoldable(struct ld_tenant *t, uint64_t line, uint64_t generation, const struct ld_message *why)
{
    t->shared.refused = t->shared.unfoldable = line;
    t->shared.unfoldable_at = generation;
    t->shared.unfoldable_why = *why;
}

/* Where one could not be taken into the copy. */
static enum ld_shared_rc judge_line(struct renewal *r, uint64_t line)
{
    if (r->why->text[0] == '\0') {
        ld_fold_say(&r->fold, r->why);
        ld_fail(r->why, "line %llu of the shared log: %.300s", (unsigned long long)line, r->why->text);
    }
    if (r->fold.rc == LD_STORE_NOMEM || r->fold.rc == LD_STORE_STOPPED)
        return r->fold.rc == LD_STORE_NOMEM ? LD_SHARED_NOMEM : LD_SHARED_DOWN;
    if (r->fold.rc == LD_STORE_CORRUPT)
        note_unfoldable(r->t, line, r->log.tip.generation, r->why);
    return LD_SHARED_FORKED;
}

static enum ld_shared_rc renew_lines(struct renewal *r, const struct ld_shared_batch *b, const struct ld_text *have)
{
    const char *at = b->body, *end = b->body + b->n_body, *mine = have->data,
               *mine_end = have->n > 0 ? have->data + have->n : mine;

    for (uint32_t i = 0; i < b->n; i++) {
        const char *from = at, *own = mine;
        const ptrdiff_t n = next_line(&at, end), n_own = next_line(&mine, mine_end);
        if (n >= 0 && n == n_own && memcmp(from, own, (size_t)n) == 0)
            continue;
        if (n > 0 && ld_fold_text(&r->fold, i + 1, from, (size_t)n) == 0)
            continue;
        return judge_line(r, b->at.seq - b->n + 1 + i);
    }
    return LD_SHARED_OK;
}

/* The log was compacted, and nothing else, since the copy was read: its model is that of its last line, still. */
static bool is_kept(const struct renewal *r)
{
    return r->is_same && r->last > 0 && r->last + 1 >= r->log.kept && r->at.seq == r->last;
}

/* LD_SHARED_BEHIND: there is no need to read on. */
static enum ld_shared_rc take_batch(void *arg, const struct ld_shared_batch *b)
{
    struct renewal *r = arg;
    unsigned char hash[LD_CHAIN_BYTES];
    struct ld_text have;
    enum ld_shared_rc rc = LD_SHARED_OK;

    ld_failpoint("mid_renewal");
    if (b->at.generation != r->log.tip.generation)
        return LD_SHARED_REWRITTEN; /* once more */
    if (is_kept(r))
        return LD_SHARED_BEHIND;
    if (r->at.seq == 0)
        r->at.seq = r->log.first - 1;
    ld_chain(hash, r->at.hash, b->body, b->n_body);
    if (b->n == 0 || b->at.seq != r->at.seq + b->n || memcmp(hash, b->at.hash, sizeof hash) != 0)
        return (enum ld_shared_rc)ld_fail_as(
            LD_SHARED_FORKED, r->why, "the chain of the shared log breaks at line %llu", (unsigned long long)b->at.seq);
    if (atomic_load(&r->t->is_halting) || ld_progress_is_over(r->t->world->progress))
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, r->why, "the tenant is being closed");
    ld_text_init(&have);
    if (r->at.seq < r->last && b->at.seq > r->compared &&
        ld_store_read(r->t->store, r->at.seq, b->n, ld_shared_export_row, &have) != LD_STORE_OK)
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, r->why, "this server's copy cannot be read");
    if (rc == LD_SHARED_OK && (have.n != b->n_body || memcmp(have.data, b->body, b->n_body) != 0))
        rc = renew_lines(r, b, &have);
    ld_text_close(&have);
    if (rc == LD_SHARED_OK) {
        if (r->t->progress != NULL)
            atomic_fetch_add_explicit(&r->t->progress->n_renewed, b->n, memory_order_relaxed);
        r->at = b->at;
        r->at_ms = b->at_ms;
        if (r->at.seq == r->compared && r->last > r->compared)
            (void)note_dimensions(r);
    }
    return rc;
}

/* ---- the copy ------------------------------------------------------------------------------------------- */

/* What was counted over lines that are gone, on its way into the copy. */
struct taken_books {
    struct ld_book_row row[LD_MOST_BOOKS];
    size_t n;
};

static bool take_book(void *arg, const struct ld_shared_book *book)
{
    struct taken_books *b = arg;
    char *name = strdup(book->name);
    unsigned char *body = malloc(book->n_body + 1);

    if (name == NULL || body == NULL || b->n == LD_MOST_BOOKS) {
        free(name);
        free(body);
        return b->n == LD_MOST_BOOKS; /* a newer server's: nobody here reads it */
    }
    memcpy(body, book->body, book->n_body);
    b->row[b->n++] = (struct ld_book_row){
        .name = name, .version = (uint32_t)book->version, .seq = book->seq, .body = body, .n_body = book->n_body};
    return true;
}

static void free_books(struct taken_books *b)
{
    for (size_t i = 0; i < b->n; i++) {
        free((char *)b->row[i].name);
        free(b->row[i].body);
    }
}

static bool has_another_beginning(const struct renewal *r)
{
    return r->log.first != r->first || r->log.kept != r->kept;
}

/* In the renewal's transaction. */
static enum ld_shared_rc begin_anew(struct renewal *r)
{
    struct ld_shared_log *log = r->t->world->shared;
    struct taken_books books = {.n = 0};

    if (!has_another_beginning(r))
        return LD_SHARED_OK;
    r->compared = r->log.kept - 1;
    enum ld_shared_rc rc = log->ops->books(log, r->log.id, take_book, &books, r->why);
    if (rc == LD_SHARED_OK && ld_store_renew_start(r->t->store, r->log.kept, books.row, books.n, r->why) != LD_STORE_OK)
        rc = LD_SHARED_DOWN;
    free_books(&books);
    return rc;
}

/* In the renewal's transaction, behind its lines: what this server has counted up to its model's last line. */
static bool keep_books(struct renewal *r)
{
    struct ld_book_rows rows;
    bool is_kept = ld_books_pack(&r->t->books, &rows) == KB_OK;

    if (!is_kept)
        ld_fail(r->why, "out of memory");
    is_kept = is_kept && ld_store_renew_books(r->t->store, rows.row, rows.n, r->why) == LD_STORE_OK;
    ld_book_rows_close(&rows);
    return is_kept;
}

/* How the log is now, and what the copy is. */
static enum ld_shared_rc look(struct renewal *r, bool has_model)
{
    struct ld_shared_log *log = r->t->world->shared;
    uint64_t last_reset = 0;
    bool is_new = false;
    const enum ld_shared_rc rc = log->ops->find(log, r->t->name, false, &r->log, &is_new, r->why);

    if (rc != LD_SHARED_OK || r->log.id != r->t->shared.id)
        return rc != LD_SHARED_OK ? rc : LD_SHARED_NONE;
    if (ld_store_tip(r->t->store, &r->last, &last_reset) != LD_STORE_OK ||
        ld_store_start(r->t->store, &r->first, &r->kept) != LD_STORE_OK || !note_dimensions(r))
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, r->why, "this server's copy cannot be read");
    const struct ld_sink sink = {.context_dim = &r->context_dim, .arm_dim = &r->arm_dim};
    r->is_same = has_model && r->log.rewritten <= r->t->shared.place.generation &&
                 (r->log.kept == r->kept || ld_fold_has_reset(r->t->store, sink, r->log.kept - 1));
    if (has_another_beginning(r) && ld_books_are_behind(&r->t->books)) {
        atomic_store(&r->t->has_chores, true);
        return LD_SHARED_REWRITTEN; /* they need the lines that are to go */
    }
    return LD_SHARED_OK;
}

/* All pages, until there is no more. */
static enum ld_shared_rc read_all(struct renewal *r)
{
    struct ld_shared_log *log = r->t->world->shared;
    struct ld_message said = {""};
    enum ld_shared_rc rc = LD_SHARED_OK;
    uint64_t n;

    do {
        const struct ld_shared_place place = r->at;

        n = place.seq;
        rc = log->ops->read(log, r->t->shared.id, &place, PAGE_BYTES, take_batch, r, &said);
        ld_queue_moved(r->t, false);
    } while (rc == LD_SHARED_OK && r->at.seq != n);
    if (rc == LD_SHARED_BEHIND)
        return LD_SHARED_OK;
    if (rc != LD_SHARED_OK && r->why->text[0] == '\0')
        *r->why = said;
    if (rc == LD_SHARED_OK && r->at.seq < r->last)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_FORKED, r->why, "the shared log has fewer lines than the copy");
    return rc;
}

/* What is left of the log's old beginning; where lines read otherwise now, it goes at once. */
static bool trim(struct renewal *r)
{
    struct ld_tenant *t = r->t;
    struct ld_message why;

    if (has_another_beginning(r)) {
        t->has_leftovers = true;
        atomic_store(&t->has_chores, true);
    }
    while (t->has_leftovers && !is_kept(r))
        if (ld_store_trim(t->store, &t->has_leftovers, &why) != LD_STORE_OK)
            return false;
    return true;
}

static enum ld_shared_rc read_into_copy(struct renewal *r, bool has_model)
{
    struct ld_tenant *t = r->t;
    struct ld_message undone;
    enum ld_shared_rc rc = look(r, has_model);

    if (rc != LD_SHARED_OK)
        return rc;
    if (!ld_tenant_remove_snapshot(t) || ld_store_begin_renewal(t->store, r->why) != LD_STORE_OK)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, r->why, "this server's copy cannot be changed");
    ld_fold_init(&r->fold,
                 (struct ld_sink){.take = take, .to = r, .context_dim = &r->context_dim, .arm_dim = &r->arm_dim});
    rc = begin_anew(r);
    if (rc == LD_SHARED_OK)
        rc = read_all(r);
    if (rc == LD_SHARED_OK && is_kept(r) && has_another_beginning(r) && !keep_books(r))
        rc = LD_SHARED_DOWN;
    if (rc != LD_SHARED_OK) {
        (void)ld_store_end_renewal(t->store, NULL, &undone);
        return rc;
    }
    r->at.generation = r->log.tip.generation;
    struct ld_copy_mark mark = {.tenant = t->shared.id, .seq = r->at.seq, .generation = r->at.generation};
    memcpy(mark.hash, r->at.hash, sizeof mark.hash);
    ld_failpoint("before_renewal");
    return ld_store_end_renewal(t->store, &mark, r->why) == LD_STORE_OK ? LD_SHARED_OK : LD_SHARED_DOWN;
}

enum ld_shared_rc ld_shared_renew_copy(struct ld_tenant *t, bool *is_model_kept, struct ld_message *why)
{
    struct renewal r = {.t = t, .at.generation = LD_ANY_GENERATION, .why = why};

    why->text[0] = '\0';
    t->shared.unfoldable = 0;
    const enum ld_shared_rc rc = read_into_copy(&r, is_model_kept != NULL);
    if (is_model_kept != NULL)
        *is_model_kept = rc == LD_SHARED_OK && is_kept(&r);
    if (rc != LD_SHARED_OK)
        return rc;
    t->shared.place = r.at;
    t->shared.at_ms = r.at_ms;
    atomic_store(&t->must_scrub, true);
    if (!trim(&r))
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, why, "this server's copy cannot be trimmed");
    ld_log(LD_LOG_INFO, "tenant %s: lines of the shared log were rewritten; %llu of them were renewed here", t->name,
           (unsigned long long)r.n_renewed);
    return LD_SHARED_OK;
}

/* ---- the model ------------------------------------------------------------------------------------------ */

/* Books have their sums still, as where the lines were rewritten or the model was kept, or those of who compacted the
 * log; what the copy has got since is given to them beside the traffic. */
static enum ld_shared_rc follow_books(struct ld_tenant *t, bool is_model_kept, struct ld_message *why)
{
    uint64_t was = atomic_load(&t->log_kept);

    ld_tenant_note_start(t);
    if (!is_model_kept && was != atomic_load(&t->log_kept) && t->books.n > 0 &&
        ld_books_reload(&t->books, t->world->books, t->store, t->seq) != KB_OK)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_NOMEM, why, "out of memory");
    if (!ld_books_skip(&t->books, t->seq))
        atomic_store(&t->has_chores, true);
    t->shared.n_followed++; /* whatever was looked up is looked up again */
    t->shared.is_stale = false;
    atomic_store(&t->must_scrub, !ld_store_scrub(t->store));
    return LD_SHARED_OK;
}

static enum ld_shared_rc fold_anew(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_recovered r = {.engine = NULL};
    const int rc = ld_recover(&r, t->store, t->db_path, t->snapshot_path, false, t->progress, why);

    if (rc == LD_STORE_CORRUPT) {
        note_unfoldable(t, r.seq + 1, t->shared.place.generation, why);
        return LD_SHARED_FORKED;
    }
    if (rc != LD_STORE_OK)
        return rc == LD_STORE_NOMEM ? LD_SHARED_NOMEM : LD_SHARED_DOWN;
    ld_tenant_exchange(t, &r.engine, &r.settings, r.seq);
    kb_engine_free(r.engine);
    return follow_books(t, false, why);
}

/* What no fold takes is not read and folded again before the log was rewritten once more. */
static enum ld_shared_rc look_again(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    struct ld_shared_log *log = t->world->shared;
    struct ld_shared_tenant found;
    bool is_new = false;
    const enum ld_shared_rc rc = log->ops->find(log, t->name, false, &found, &is_new, why);

    if (rc != LD_SHARED_OK || found.id != s->id || found.tip.generation != s->unfoldable_at)
        return rc;
    s->refused = s->unfoldable;
    *why = s->unfoldable_why;
    return LD_SHARED_FORKED;
}

/* A job that has the old engine in its hands comes first. */
enum ld_shared_rc ld_shared_renew(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    bool is_model_kept = false;
    enum ld_shared_rc rc = LD_SHARED_OK;

    if (ld_tasks_have_engine(t))
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, why, "%s", ld_shared_say(LD_SHARED_REWRITTEN));
    if (s->unfoldable > 0)
        rc = look_again(t, why);
    if (rc == LD_SHARED_OK && (!s->is_stale || s->unfoldable > 0))
        rc = ld_shared_renew_copy(t, s->is_stale ? NULL : &is_model_kept, why);
    if (rc == LD_SHARED_OK && is_model_kept) {
        t->n_rewrites++;
        t->snapshot_seq = 0; /* it rests on lines which have gone: the next is due at once */
        rc = follow_books(t, true, why);
    } else if (rc == LD_SHARED_OK) {
        s->is_stale = true;
        rc = fold_anew(t, why);
    }
    atomic_store(&s->generation, s->is_stale ? 0 : s->place.generation);
    return rc;
}
