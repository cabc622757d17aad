/* Books: what is counted over a tenant's log beside its model, such as time series or the sums of an experiment.
 *
 * A book is a pure function of the log's events, in their order. It takes each event once: live ones behind their
 * commit, the others by a fold (tenant/books.h). So a book after a restart is the book before it, bit for bit.
 *
 * It keeps no user's name: an erased user stays in its sums, and nowhere else. */
#ifndef LD_BOOK_H
#define LD_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct kb_event;
struct kb_reader;
struct kb_writer;

/* `book` is the kind's own structure. Only `close` and `bytes` may be NULL. */
struct ld_book_kind {
    const char *name; /* of its row in the tenant's file */
    uint32_t version; /* of its body: another one is not read, and the book is folded anew */
    size_t size;      /* of the structure; zeros are an empty book */
    /* One event, in well below a microsecond. KB_ENOMEM: the book is as it was, and is given the event again later. */
    enum kb_err (*take)(void *book, const struct kb_event *ev);
    /* The body; the writer knows whether memory was out. */
    void (*save)(const void *book, struct kb_writer *w);
    /* Into an empty book. The body may be anybody's: each number is looked at. A failure leaves what close takes. */
    enum kb_err (*load)(void *book, struct kb_reader *r);
    void (*close)(void *book); /* what it owns */
    size_t (*bytes)(const void *book);
    bool (*is_alarmed)(const void *book); /* somebody ought to look at what it has found; NULL: never */
};

/* All kinds that the server keeps; NULL ends them. */
extern const struct ld_book_kind *const ld_book_kinds[];

#endif
