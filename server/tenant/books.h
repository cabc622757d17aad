/* A tenant's books (book/book.h): opened with it, kept in step with its log, saved in its file.
 *
 *     open      each book as the file has it; it is behind where the log has gone on
 *     take      the writer gives the books the events of a batch, behind its commit
 *     catch up  a book that is behind is given the lines that it lacks, beside the traffic (task/bookkeeping.c)
 *     save      all books into the file, in a transaction of their own or in a compaction's
 *
 * A book that is behind belongs to the thread that folds, and nobody may read it. All others are read and written under
 * one mutex. */
#ifndef LD_BOOKS_H
#define LD_BOOKS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/message.h"
#include "book/book.h"

struct kb_event;
struct ld_store;
struct ld_tenant;

#define LD_MOST_BOOKS 4

struct ld_book {
    const struct ld_book_kind *kind;
    void *state;
    uint64_t seq;                  /* the last event that it has taken */
    uint32_t context_dim, arm_dim; /* of the vectors behind it */
    atomic_bool is_behind;         /* the writer changes it, under the mutex */
};

struct ld_books {
    pthread_mutex_t lock;
    struct ld_book book[LD_MOST_BOOKS];
    size_t n;
    atomic_bool is_alarmed; /* a book that is not behind is */
    /* The writer's: the least event that a saved book has taken, and the last one when saving was tried last. */
    uint64_t saved_seq, tried_seq;
    /* Rewards that found no decision, which no line has: a row of its own beside the books', as of the last save. The
     * writer counts. */
    _Atomic uint64_t n_unknown;
    uint64_t saved_unknown;
};

/* Those of `kinds` (NULL: none), as the file has them. A book that cannot be read is begun anew, at the log's first
 * line. KB_ENOMEM: nothing to close. */
enum kb_err ld_books_open(struct ld_books *b, const struct ld_book_kind *const *kinds, struct ld_store *store,
                          uint64_t tip);
void ld_books_close(struct ld_books *b);
/* The writer's, while none is behind: what the file has takes the place of all. KB_ENOMEM: there are none any more. */
enum kb_err ld_books_reload(struct ld_books *b, const struct ld_book_kind *const *kinds, struct ld_store *store,
                            uint64_t tip);

/* The writer's: n events that are committed. A book that lacks the one before them, or memory, is behind from here. */
void ld_books_take(struct ld_books *b, const struct kb_event *ev, size_t n);

/* The writer's: the log is at `tip`, and nobody has given the books what led there. True when none lacks anything. */
bool ld_books_skip(struct ld_books *b, uint64_t tip);

/* Whether one is behind; and how many events the one furthest behind lacks, up to `last`. */
bool ld_books_are_behind(struct ld_books *b);
uint64_t ld_books_lag(const struct ld_books *b, uint64_t last);
/* Gives those that are behind up to `limit` lines each. One thread at a time. False: the log cannot be read, or memory
 * is out. `is_over` may be NULL; once it says true the fold ends, which is a failure. */
bool ld_books_fold(struct ld_books *b, struct ld_store *store, size_t limit, bool (*is_over)(void *arg), void *arg,
                   struct ld_message *why);
/* The writer's, while nobody folds: those that have taken event `tip` are behind no more. True when none is. */
bool ld_books_join(struct ld_books *b, uint64_t tip);

/* The writer's: all books that are not behind, as rows for the file. The texts are the list's. */
struct ld_book_rows {
    struct ld_book_row *row;
    size_t n;
    uint64_t seq; /* the least of theirs */
};
enum kb_err ld_books_pack(struct ld_books *b, struct ld_book_rows *out);
void ld_book_rows_close(struct ld_book_rows *rows);
/* Into the file: LD_STORE_*. */
int ld_books_save(struct ld_books *b, struct ld_store *store, struct ld_message *why);

size_t ld_books_bytes(struct ld_books *b);

/* For readers: the book, under the mutex until ld_books_unlock, and the last event that it has taken. NULL: the tenant
 * has no such book, or it is behind; the mutex is not held then. */
const void *ld_books_lock(struct ld_books *b, const struct ld_book_kind *kind, uint64_t *seq);
void ld_books_unlock(struct ld_books *b);

#endif
