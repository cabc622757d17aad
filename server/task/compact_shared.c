/* Compacting a log that several servers write (compact.c has the rest):
 *
 *     job      folds the beginning of this server's copy, and writes the summary's lines, as everywhere
 *     writer   has the turn; in one transaction in the shared log the summary takes the place of the lines that go,
 * with what was counted over them, and the chain behind it is written anew writer   reads that like every other server
 * (shared_renew.c): the model stays as it is job      waits until the others that live have read it
 *
 * Where lines were rewritten since the fold began, nothing is done: the summary may have what was erased. Where nobody
 * knows what became of the transaction, the next turn shows it. */
#include "task/challenger.h"
#include "task/compact.h"

#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"

/* The summary on its way. */
struct sending {
    struct ld_shared_pack pack;
    struct ld_book_rows books;
    struct ld_shared_book book[LD_MOST_BOOKS + 1];
    size_t n_books;
};

/* What each server counts for itself stays here. */
static void add_books(struct sending *s)
{
    for (size_t i = 0; i < s->books.n; i++) {
        const struct ld_book_row *row = &s->books.row[i];
        if (strcmp(row->name, LD_UNKNOWN_BOOK) != 0)
            s->book[s->n_books++] = (struct ld_shared_book){
                .name = row->name, .version = row->version, .seq = row->seq, .body = row->body, .n_body = row->n_body};
    }
}

static bool pack(struct sending *s, const struct ld_compaction *x)
{
    s->pack.node = x->task.t->world->node;
    ld_text_init(&s->pack.body);
    for (size_t i = 0; i < x->n; i++)
        if (ld_shared_pack_row(&s->pack, &x->row[i]) != LD_STORE_OK)
            return false;
    ld_shared_pack_end(&s->pack);
    if (ld_books_pack(&x->task.t->books, &s->books) != KB_OK)
        return false;
    add_books(s);
    return true;
}

static enum ld_shared_rc put(struct ld_compaction *x, struct sending *s)
{
    struct ld_tenant *t = x->task.t;
    struct ld_shared_log *log = t->world->shared;
    const struct ld_shared_summary summary = {
        .last = x->last, .batch = s->pack.batch, .n = s->pack.n, .book = s->book, .n_books = s->n_books};

    ld_failpoint("before_shared_summary");
    enum ld_shared_rc rc = log->ops->compact(t->shared.turn, &summary, &x->why);
    t->shared.turn = NULL;
    if (rc == LD_SHARED_UNKNOWN)
        rc = ld_shared_settle(t, &s->pack.batch[s->pack.n - 1], &x->why);
    if (rc == LD_SHARED_OK)
        ld_failpoint("after_shared_summary");
    x->generation = s->pack.batch[s->pack.n - 1].at.generation;
    return rc;
}

/* False, with why: nothing was done, or nobody knows. */
static bool send(struct ld_compaction *x)
{
    struct ld_tenant *t = x->task.t;
    struct sending s = {.n_books = 0};
    enum ld_shared_rc rc = LD_SHARED_NOMEM;

    if (pack(&s, x))
        rc = put(x, &s);
    if (rc != LD_SHARED_OK && x->why.text[0] == '\0')
        ld_fail(&x->why, "%s", ld_shared_say(rc));
    if (rc == LD_SHARED_OK)
        x->why.text[0] = '\0';
    ld_book_rows_close(&s.books);
    ld_shared_pack_close(&s.pack);
    ld_shared_end(t);
    atomic_store(&t->shared.is_asked, true);
    ld_shared_read(t);
    return rc == LD_SHARED_OK;
}

enum ld_chore ld_compaction_send(struct ld_compaction *x)
{
    struct ld_tenant *t = x->task.t;

    if (ld_books_are_behind(&t->books)) /* they need the lines that are to go */
        return LD_CHORE_LATER;
    if (!ld_shared_begin(t))
        return ld_compaction_fail(x, "no turn in the shared log");
    if (x->n_rewrites != t->n_rewrites || x->last > t->seq) {
        ld_shared_end(t);
        return ld_compaction_fail(x, "lines of the log were rewritten meanwhile");
    }
    ld_challengers_keep(t);
    if (!send(x))
        return ld_compaction_fail(x, x->why.text);
    x->state = LD_COMPACT_AWAITED;
    if (!ld_task_run(&x->task))
        ld_compaction_conclude(x, true);
    return LD_CHORE_NOW;
}
