/* A tenant's books in step with its log, and in its file (tenant/books.h).
 *
 *     job      a book that is behind is given the lines that it lacks: after an upgrade, or a process that died
 *     writer   gives it the last few; from then on it takes events behind their commit
 *     writer   saves all books where many events have come since, and when the tenant is closed
 *
 * What is saved only spares a fold: a process that dies finds the log, and the books as they were saved last. Books
 * that cannot be brought in step keep nobody from anything else; who asks for them is told to come again. */
#include <stdio.h>

#include "base/log.h"
#include "task/tasks.h"
#include "tenant/tenant_state.h"

#define SAVE_EVENTS 50000u /* between two saves: what a start after a kill has to fold, some 0.3 s */
#define TAIL_EVENTS 256u   /* that the writer folds in its own turn */
#define FOLD_EVENTS 65536u /* that the job folds before it looks again how many are left */
#define RETRY_MS 5000

struct ld_bookkeeping {
    struct ld_task task;
    bool is_ok;
    struct ld_message why;
    int64_t retry_ms; /* a fold has failed: none before then */
};

static bool is_halting(void *tenant)
{
    const struct ld_tenant *t = tenant;

    return atomic_load(&t->is_halting);
}

/* Until little has come meanwhile. */
static void run(void *task)
{
    struct ld_bookkeeping *k = task;
    struct ld_tenant *t = k->task.t;
    uint64_t last = 0, last_reset = 0;

    do {
        k->is_ok = ld_books_fold(&t->books, t->store, FOLD_EVENTS, is_halting, t, &k->why);
        if (k->is_ok && ld_store_tip(t->store, &last, &last_reset) != LD_STORE_OK)
            k->is_ok = ld_fail(&k->why, "the log cannot be read") == 0; /* false */
    } while (k->is_ok && ld_books_lag(&t->books, last) > TAIL_EVENTS);
}

static void finish(void *task)
{
    struct ld_bookkeeping *k = task;
    struct ld_tenant *t = k->task.t;

    if (k->is_ok)
        k->is_ok =
            ld_books_fold(&t->books, t->store, SIZE_MAX, NULL, NULL, &k->why) && ld_books_join(&t->books, t->seq);
    if (k->is_ok || atomic_load(&t->is_halting))
        return;
    k->retry_ms = t->now_ms + RETRY_MS;
    ld_log(LD_LOG_WARN, "tenant %s: its books are behind its log: %s", t->name, k->why.text);
}

/* A disk that refuses a book is a warning: the events are safe. */
static void save(struct ld_tenant *t)
{
    struct ld_message why = {""};

    if (ld_books_save(&t->books, t->store, &why) != LD_STORE_OK)
        ld_log(LD_LOG_WARN, "tenant %s: its books could not be saved: %s", t->name, why.text);
    t->books.tried_seq = t->seq;
}

static enum ld_chore look(struct ld_tenant *t)
{
    if (t->books.n == 0 || atomic_load(&t->is_failing) || atomic_load(&t->is_doomed) || atomic_load(&t->is_halting))
        return LD_CHORE_NONE;
    if (t->seq - t->books.tried_seq >= SAVE_EVENTS)
        save(t);
    if (!ld_books_are_behind(&t->books) || ld_task_is_under_way(t, &ld_bookkeeping))
        return LD_CHORE_NONE;
    struct ld_bookkeeping *k = ld_task_of(t, &ld_bookkeeping);
    if (k == NULL || k->retry_ms > t->now_ms)
        return LD_CHORE_LATER;
    if (!ld_task_run(&k->task)) {
        run(k);
        finish(k);
    }
    return LD_CHORE_NONE;
}

static enum ld_chore save_now(struct ld_tenant *t)
{
    const struct ld_books *b = &t->books;

    if (b->n > 0 && (b->saved_seq != t->seq || b->saved_unknown != atomic_load(&b->n_unknown)) &&
        !atomic_load(&t->is_failing))
        save(t);
    return LD_CHORE_NONE;
}

const struct ld_task_kind ld_bookkeeping = {.size = sizeof(struct ld_bookkeeping),
                                            .threads = LD_LONG_WORK,
                                            .at = {[LD_AT_TURN_END] = look, [LD_AT_REST] = save_now},
                                            .run = run,
                                            .finish = finish};
