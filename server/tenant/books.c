/* A tenant's books: see books.h. */
#include "tenant/books.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "spec/event.h"
#include "store/store.h"
#include "tenant/fold.h"

#define UNKNOWN_VERSION 1u

/* ---- one book ----------------------------------------------------------------------------------------- */

static void drop_state(struct ld_book *book)
{
    if (book->state != NULL && book->kind->close != NULL)
        book->kind->close(book->state);
    free(book->state);
    book->state = NULL;
}

/* An empty book behind event `seq`. */
static enum kb_err begin_anew(struct ld_book *book, uint64_t seq)
{
    drop_state(book);
    book->state = calloc(1, book->kind->size);
    book->seq = seq;
    book->context_dim = book->arm_dim = 0;
    return book->state != NULL ? KB_OK : KB_ENOMEM;
}

/* Dimensions change with a configuration, and a log that was compacted begins with one. */
static void note_dimensions(struct ld_book *book, const struct kb_event *ev)
{
    const struct ld_settings *settings = ld_line_settings(ev);

    if (settings == NULL)
        return;
    book->context_dim = settings->spec.context_dim;
    book->arm_dim = settings->spec.arm_dim;
}

static enum kb_err give(struct ld_book *book, const struct kb_event *ev)
{
    const enum kb_err rc = book->kind->take(book->state, ev);

    if (rc != KB_OK)
        return rc;
    note_dimensions(book, ev);
    book->seq = ev->seq;
    return KB_OK;
}

/* mutex held, or nobody else there yet. */
static void note_alarms(struct ld_books *b)
{
    bool is_alarmed = false;

    for (size_t i = 0; i < b->n; i++) {
        const struct ld_book *book = &b->book[i];

        is_alarmed |= !book->is_behind && book->kind->is_alarmed != NULL && book->kind->is_alarmed(book->state);
    }
    atomic_store(&b->is_alarmed, is_alarmed);
}

/* ---- life --------------------------------------------------------------------------------------------- */

struct opening {
    struct ld_books *books;
    enum kb_err rc;
};

static void load_unknown(struct ld_books *b, const struct ld_book_row *row)
{
    struct kb_reader r;

    kb_reader_init(&r, row->body, row->n_body);
    const uint64_t n = kb_get_u64(&r);
    if (row->version == UNKNOWN_VERSION && r.rc == KB_OK && r.pos == r.n)
        atomic_store(&b->n_unknown, b->saved_unknown = n);
}

/* A row that is of another version or that cannot be read leaves an empty book. */
static int load(void *arg, const struct ld_book_row *row)
{
    struct opening *o = arg;
    struct kb_reader r;

    if (strcmp(row->name, LD_UNKNOWN_BOOK) == 0)
        load_unknown(o->books, row);
    kb_reader_init(&r, row->body, row->n_body);
    for (size_t i = 0; i < o->books->n; i++) {
        struct ld_book *book = &o->books->book[i];

        if (strcmp(book->kind->name, row->name) != 0 || book->kind->version != row->version)
            continue;
        const uint64_t context_dim = kb_get_u64(&r), arm_dim = kb_get_u64(&r);
        const bool is_sound = context_dim <= UINT32_MAX && arm_dim <= UINT32_MAX;
        const enum kb_err rc = is_sound ? book->kind->load(book->state, &r) : KB_ECORRUPT;

        if (rc == KB_OK && r.rc == KB_OK && r.pos == r.n) {
            book->seq = row->seq;
            book->context_dim = (uint32_t)context_dim;
            book->arm_dim = (uint32_t)arm_dim;
        } else if (rc == KB_ENOMEM || begin_anew(book, 0) != KB_OK) {
            o->rc = KB_ENOMEM;
        } else {
            ld_log(LD_LOG_WARN, "book %s: what the file has of it cannot be read; it is folded from the log",
                   row->name);
        }
    }
    return 0;
}

/* Where the log's beginning is a summary by now, a book that ends before that summary does cannot be carried on. */
static enum kb_err place(struct ld_book *book, uint64_t first, uint64_t kept, uint64_t tip)
{
    const bool is_lost = book->seq + 1 < kept || book->seq + 1 < first || book->seq > tip;
    const enum kb_err rc = is_lost ? begin_anew(book, first - 1) : KB_OK;

    book->is_behind = book->seq < tip;
    return rc;
}

enum kb_err ld_books_open(struct ld_books *b, const struct ld_book_kind *const *kinds, struct ld_store *store,
                          uint64_t tip)
{
    struct opening o = {.books = b, .rc = KB_OK};
    uint64_t first = 1, kept = 1;

    b->n = 0;
    b->saved_seq = b->tried_seq = tip;
    atomic_store(&b->n_unknown, b->saved_unknown = 0);
    for (; kinds != NULL && kinds[b->n] != NULL; b->n++) {
        assert(b->n < LD_MOST_BOOKS);
        b->book[b->n] = (struct ld_book){.kind = kinds[b->n]};
        if (begin_anew(&b->book[b->n], 0) != KB_OK)
            o.rc = KB_ENOMEM;
    }
    if (b->n > 0 && o.rc == KB_OK &&
        (ld_store_each_book(store, load, &o) != LD_STORE_OK || ld_store_start(store, &first, &kept) != LD_STORE_OK))
        o.rc = KB_ENOMEM;
    for (size_t i = 0; i < b->n && o.rc == KB_OK; i++) {
        o.rc = place(&b->book[i], first, kept, tip);
        b->saved_seq = b->book[i].seq < b->saved_seq ? b->book[i].seq : b->saved_seq;
    }
    if (o.rc != KB_OK)
        ld_books_close(b);
    note_alarms(b);
    return o.rc;
}

enum kb_err ld_books_reload(struct ld_books *b, const struct ld_book_kind *const *kinds, struct ld_store *store,
                            uint64_t tip)
{
    pthread_mutex_lock(&b->lock);
    const uint64_t n_unknown = atomic_load(&b->n_unknown), saved = b->saved_unknown;
    ld_books_close(b);
    const enum kb_err rc = ld_books_open(b, kinds, store, tip);
    atomic_store(&b->n_unknown, n_unknown);
    b->saved_unknown = saved;
    pthread_mutex_unlock(&b->lock);
    return rc;
}

void ld_books_close(struct ld_books *b)
{
    for (size_t i = 0; i < b->n; i++)
        drop_state(&b->book[i]);
    b->n = 0;
}

/* ---- the log ------------------------------------------------------------------------------------------ */

void ld_books_take(struct ld_books *b, const struct kb_event *ev, size_t n)
{
    if (b->n == 0)
        return;
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->n; i++) {
        struct ld_book *book = &b->book[i];

        for (size_t k = 0; k < n && !book->is_behind; k++)
            book->is_behind = ev[k].seq != book->seq + 1 || give(book, &ev[k]) != KB_OK;
    }
    note_alarms(b);
    pthread_mutex_unlock(&b->lock);
}

bool ld_books_skip(struct ld_books *b, uint64_t tip)
{
    bool is_any = false;

    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->n; i++) {
        b->book[i].is_behind = b->book[i].is_behind || b->book[i].seq != tip;
        is_any |= b->book[i].is_behind;
    }
    note_alarms(b);
    pthread_mutex_unlock(&b->lock);
    return !is_any;
}

bool ld_books_are_behind(struct ld_books *b)
{
    bool is_behind = false;

    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->n; i++)
        is_behind |= b->book[i].is_behind;
    pthread_mutex_unlock(&b->lock);
    return is_behind;
}

/* Of books that are behind alone: it may be asked beside the writer. */
uint64_t ld_books_lag(const struct ld_books *b, uint64_t last)
{
    uint64_t most = 0;

    for (size_t i = 0; i < b->n; i++)
        if (b->book[i].is_behind && b->book[i].seq < last && last - b->book[i].seq > most)
            most = last - b->book[i].seq;
    return most;
}

/* A fold into one book. */
struct folding {
    struct ld_book *book;
    bool (*is_over)(void *arg);
    void *arg;
};

static enum kb_err take_line(void *to, struct ld_line *line, struct kb_errmsg *msg)
{
    struct folding *f = to;

    (void)msg;
    return give(f->book, &line->ev);
}

static int look(void *watch, const struct ld_row *row, struct ld_problem *fault)
{
    struct folding *f = watch;

    if (f->is_over == NULL || !f->is_over(f->arg))
        return 0;
    ld_problem_set(fault, 503, "event %llu was not counted: the tenant is being closed", (unsigned long long)row->seq);
    return LD_STORE_STOPPED;
}

/* A book that falls behind meanwhile is folded from there on: the writer leaves it alone by then. */
bool ld_books_fold(struct ld_books *b, struct ld_store *store, size_t limit, bool (*is_over)(void *arg), void *arg,
                   struct ld_message *why)
{
    for (size_t i = 0; i < b->n; i++) {
        struct ld_book *book = &b->book[i];
        struct folding to = {.book = book, .is_over = is_over, .arg = arg};
        struct ld_fold f;

        if (!book->is_behind)
            continue;
        ld_fold_init(&f, (struct ld_sink){.take = take_line,
                                          .to = &to,
                                          .before = look,
                                          .watch = &to,
                                          .context_dim = &book->context_dim,
                                          .arm_dim = &book->arm_dim});
        if (ld_fold_store(&f, store, book->seq, limit) != LD_STORE_OK) {
            ld_fold_say(&f, why);
            return false;
        }
    }
    return true;
}

bool ld_books_join(struct ld_books *b, uint64_t tip)
{
    bool are_all = true;

    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->n; i++) {
        b->book[i].is_behind = b->book[i].is_behind && b->book[i].seq != tip;
        are_all &= !b->book[i].is_behind;
    }
    note_alarms(b);
    pthread_mutex_unlock(&b->lock);
    return are_all;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

static enum kb_err pack(const struct ld_book *book, struct ld_book_row *row)
{
    struct kb_writer w;

    kb_writer_init(&w);
    kb_put_u64(&w, book->context_dim);
    kb_put_u64(&w, book->arm_dim);
    book->kind->save(book->state, &w);
    *row = (struct ld_book_row){.name = book->kind->name, .version = book->kind->version, .seq = book->seq};
    row->body = w.data;
    row->n_body = w.n;
    return w.rc;
}

static enum kb_err pack_unknown(const struct ld_books *b, struct ld_book_row *row)
{
    struct kb_writer w;

    kb_writer_init(&w);
    kb_put_u64(&w, atomic_load(&b->n_unknown));
    *row = (struct ld_book_row){.name = LD_UNKNOWN_BOOK, .version = UNKNOWN_VERSION, .body = w.data, .n_body = w.n};
    return w.rc;
}

/* No mutex: the writer alone changes books that are not behind. */
enum kb_err ld_books_pack(struct ld_books *b, struct ld_book_rows *out)
{
    enum kb_err rc = KB_OK;

    *out = (struct ld_book_rows){.row = calloc(b->n + 2, sizeof *out->row), .seq = UINT64_MAX};
    if (out->row == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < b->n && rc == KB_OK; i++) {
        if (b->book[i].is_behind)
            continue;
        rc = pack(&b->book[i], &out->row[out->n++]);
        out->seq = b->book[i].seq < out->seq ? b->book[i].seq : out->seq;
    }
    if (rc == KB_OK && atomic_load(&b->n_unknown) > 0)
        rc = pack_unknown(b, &out->row[out->n++]);
    return rc;
}

void ld_book_rows_close(struct ld_book_rows *rows)
{
    for (size_t i = 0; i < rows->n; i++)
        kb_free(rows->row[i].body);
    free(rows->row);
    *rows = (struct ld_book_rows){.n = 0};
}

int ld_books_save(struct ld_books *b, struct ld_store *store, struct ld_message *why)
{
    struct ld_book_rows rows;
    int rc = LD_STORE_NOMEM;

    if (ld_books_pack(b, &rows) == KB_OK)
        rc = rows.n > 0 ? ld_store_put_books(store, rows.row, rows.n, why) : LD_STORE_OK;
    else
        ld_fail(why, "out of memory");
    if (rc == LD_STORE_OK && rows.seq < UINT64_MAX)
        b->saved_seq = rows.seq;
    if (rc == LD_STORE_OK)
        b->saved_unknown = atomic_load(&b->n_unknown);
    ld_book_rows_close(&rows);
    return rc;
}

/* ---- readers ------------------------------------------------------------------------------------------ */

size_t ld_books_bytes(struct ld_books *b)
{
    size_t sum = 0;

    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->n; i++) {
        const struct ld_book *book = &b->book[i];

        sum += book->kind->size + (!book->is_behind && book->kind->bytes != NULL ? book->kind->bytes(book->state) : 0);
    }
    pthread_mutex_unlock(&b->lock);
    return sum;
}

const void *ld_books_lock(struct ld_books *b, const struct ld_book_kind *kind, uint64_t *seq)
{
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < b->n; i++) {
        if (b->book[i].kind != kind || b->book[i].is_behind)
            continue;
        *seq = b->book[i].seq;
        return b->book[i].state;
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

void ld_books_unlock(struct ld_books *b)
{
    pthread_mutex_unlock(&b->lock);
}
