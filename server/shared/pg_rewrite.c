/* Lines that are to read otherwise, and a log's beginning that gives way to a summary, in PostgreSQL: see shared_log.h.
 *
 * In the turn's transaction: from the last batch before the first of the lines on, page by page, each batch gets the
 * hash that it has now, and its body where that is another; the new batches come behind them; the tip and the
 * generation move; COMMIT. Before COMMIT is sent nothing has happened, whatever breaks; behind it the outcome is that
 * of an append. The old chain is checked on the way: a log that is broken is not made whole by this.
 *
 * A compaction removes the batches up to its last line, some at a time, puts the summary's in their place, and goes on
 * as if all behind were rewritten; of a batch that the last line stands in, the rest stays.
 *
 * Cost: all batches from the first changed one on travel here, and their rows are written anew. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "base/text.h"
#include "shared/pg_log_impl.h"

#define PAGE_BYTES (8 << 20)

struct rewriting {
    struct ld_shared_turn *turn;
    const struct ld_shared_line *line;
    size_t n_lines, at;                 /* at: the first that has not been met */
    struct ld_shared_place was;         /* so far, in the old chain */
    unsigned char hash[LD_CHAIN_BYTES]; /* in the new one */
    uint64_t n_skipped;                 /* lines of the next batch that are gone */
    struct ld_message *why;
};

/* What a statement before COMMIT has come to: nothing was written. */
static enum ld_shared_rc fail(const struct rewriting *w, const PGresult *r)
{
    const struct pg_conn *c = w->turn->c;

    if (c->is_broken || r == NULL)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_BEHIND, w->why, "the turn was lost: %s", c->why.text);
    (void)ld_pg_say(w->why, "PostgreSQL: ", PQresultErrorMessage(r));
    return LD_SHARED_DOWN;
}

static void add_place(struct pg_args *args, const struct rewriting *w, uint64_t seq)
{
    ld_pg_add_int(args, (int64_t)w->turn->id);
    ld_pg_add_int(args, (int64_t)seq);
}

/* Reads n results of statements that change one row each, and the end of the row of them. */
static enum ld_shared_rc read_changes(struct rewriting *w, int n)
{
    struct pg_conn *c = w->turn->c;
    const int64_t deadline = ld_pg_deadline(w->turn->log);
    enum ld_shared_rc rc = LD_SHARED_OK;

    for (int i = 0; i < n && rc == LD_SHARED_OK; i++) {
        PGresult *r = ld_pg_next(c, deadline);
        if (!ld_pg_is(r, PGRES_COMMAND_OK) || strcmp(PQcmdTuples(r), "1") != 0)
            rc = fail(w, r);
        PQclear(r);
    }
    ld_pg_skip(c, deadline);
    return rc == LD_SHARED_OK && c->is_broken ? fail(w, NULL) : rc;
}

/* --- batches that are there ------------------------------------------------------------------------------- */

/* The place before the batch that has the line. */
static enum ld_shared_rc find_start(struct rewriting *w, uint64_t line)
{
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;

    w->was = (struct ld_shared_place){.seq = w->turn->first - 1};
    memset(w->hash, 0, LD_CHAIN_BYTES);
    add_place(&args, w, line);
    PGresult *r = ld_pg_ask(w->turn->c, PG_BEFORE, &args, ld_pg_deadline(w->turn->log));
    if (!ld_pg_is(r, PGRES_TUPLES_OK))
        rc = fail(w, r);
    else if (PQntuples(r) == 1 && PQgetlength(r, 0, 1) == (int)LD_CHAIN_BYTES) {
        w->was.seq = (uint64_t)ld_pg_int(r, 0, 0);
        memcpy(w->was.hash, PQgetvalue(r, 0, 1), LD_CHAIN_BYTES);
        memcpy(w->hash, w->was.hash, LD_CHAIN_BYTES);
    }
    PQclear(r);
    return rc;
}

/* A row of PG_PAGE as it is to be. */
static enum ld_shared_rc send_row(struct rewriting *w, const PGresult *r, int row)
{
    const struct ld_shared_batch b = {.at.seq = (uint64_t)ld_pg_int(r, row, 0),
                                      .n = (uint32_t)ld_pg_int(r, row, 1),
                                      .body = PQgetvalue(r, row, 6),
                                      .n_body = (size_t)PQgetlength(r, row, 6)};
    const size_t n_met = w->at;
    const char *rest = ld_shared_behind(b.body, b.n_body, w->n_skipped);
    struct ld_text body;
    struct pg_args args = {0};

    ld_chain(w->was.hash, w->was.hash, b.body, b.n_body);
    if (b.n == 0 || b.at.seq != w->was.seq + b.n || PQgetlength(r, row, 5) != (int)LD_CHAIN_BYTES ||
        memcmp(w->was.hash, PQgetvalue(r, row, 5), LD_CHAIN_BYTES) != 0)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, w->why, "the chain of the shared log breaks at line %llu",
                                             (unsigned long long)b.at.seq);
    w->was.seq = b.at.seq;
    ld_text_init(&body);
    bool is_whole = true;
    if (w->n_skipped > 0 && rest != NULL)
        ld_text_raw(&body, rest, (size_t)(b.body + b.n_body - rest));
    else
        is_whole = ld_shared_replace(&body, &b, w->line, w->n_lines, &w->at);
    if (is_whole) {
        const bool is_other = w->at != n_met || w->n_skipped > 0;
        ld_chain(w->hash, w->hash, body.data, body.n);
        add_place(&args, w, b.at.seq);
        ld_pg_add_bytes(&args, w->hash, LD_CHAIN_BYTES);
        ld_pg_add_bytes(&args, is_other ? body.data : NULL, is_other ? body.n : 0);
        ld_pg_add_int(&args, (int64_t)(b.n - w->n_skipped));
        ld_pg_send(w->turn->c, PG_REWRITE, &args);
        w->n_skipped = 0;
    }
    ld_text_close(&body);
    return is_whole ? LD_SHARED_OK
                    : (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, w->why,
                                                    "the batch that ends with line %llu has not "
                                                    "so many lines, or memory is out",
                                                    (unsigned long long)b.at.seq);
}

static enum ld_shared_rc rewrite_page(struct rewriting *w)
{
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;
    int n = 0;

    add_place(&args, w, w->was.seq);
    ld_pg_add_int(&args, PAGE_BYTES);
    PGresult *page = ld_pg_ask(w->turn->c, PG_PAGE, &args, ld_pg_deadline(w->turn->log));
    if (!ld_pg_is(page, PGRES_TUPLES_OK))
        rc = fail(w, page);
    else if (PQntuples(page) == 0)
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, w->why, "the shared log has a gap behind line %llu",
                                           (unsigned long long)w->was.seq);
    while (rc == LD_SHARED_OK && n < PQntuples(page))
        rc = send_row(w, page, n++);
    PQclear(page);
    ld_pg_sync(w->turn->c);
    const enum ld_shared_rc read = read_changes(w, rc == LD_SHARED_OK ? n : 0);
    return rc == LD_SHARED_OK ? read : rc;
}

/* --- batches behind them ---------------------------------------------------------------------------------- */

static void send_batch(struct rewriting *w, struct ld_shared_batch *b)
{
    struct pg_args args = {0};

    ld_chain(w->hash, w->hash, b->body, b->n_body);
    memcpy(b->at.hash, w->hash, LD_CHAIN_BYTES);
    add_place(&args, w, b->at.seq);
    ld_pg_add_int(&args, b->n);
    ld_pg_add_int(&args, b->at_ms);
    ld_pg_add_text(&args, b->node);
    ld_pg_add_int(&args, (int64_t)b->nonce);
    ld_pg_add_bytes(&args, b->at.hash, LD_CHAIN_BYTES);
    ld_pg_add_bytes(&args, b->body, b->n_body);
    ld_pg_send(w->turn->c, PG_EXTEND, &args);
}

static enum ld_shared_rc extend(struct rewriting *w, struct ld_shared_batch *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        send_batch(w, &batch[i]);
    ld_pg_sync(w->turn->c);
    return read_changes(w, (int)n);
}

/* The tip, and the generation, which is not less than `least`; of a compaction the log's beginning as well. */
static enum ld_shared_rc move_tip(struct rewriting *w, uint64_t last, uint64_t *generation,
                                  const struct ld_shared_summary *summary)
{
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;

    add_place(&args, w, w->turn->seen.seq);
    ld_pg_add_int(&args, (int64_t)last);
    ld_pg_add_bytes(&args, w->hash, LD_CHAIN_BYTES);
    ld_pg_add_int(&args, (int64_t)*generation);
    if (summary != NULL) {
        ld_pg_add_int(&args, (int64_t)(summary->batch[0].at.seq - summary->batch[0].n + 1));
        ld_pg_add_int(&args, (int64_t)(summary->last + 1));
    } else {
        ld_pg_add_null(&args);
        ld_pg_add_null(&args);
    }
    PGresult *r = ld_pg_ask(w->turn->c, PG_GENERATE, &args, ld_pg_deadline(w->turn->log));
    if (!ld_pg_is(r, PGRES_TUPLES_OK))
        rc = fail(w, r);
    else if (PQntuples(r) != 1)
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_BEHIND, w->why, "%s", ld_shared_say(LD_SHARED_BEHIND));
    else
        *generation = (uint64_t)ld_pg_int(r, 0, 0);
    PQclear(r);
    return rc;
}

/* All batches behind w->was in the new chain. */
static enum ld_shared_rc rewrite_rest(struct rewriting *w)
{
    enum ld_shared_rc rc = LD_SHARED_OK;

    while (rc == LD_SHARED_OK && w->was.seq < w->turn->seen.seq)
        rc = rewrite_page(w);
    if (rc == LD_SHARED_OK && (w->at != w->n_lines || w->was.seq != w->turn->seen.seq ||
                               memcmp(w->was.hash, w->turn->seen.hash, LD_CHAIN_BYTES) != 0))
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, w->why, "the shared log has other lines than the copy");
    return rc;
}

static enum ld_shared_rc rewrite(struct rewriting *w, struct ld_shared_batch *batch, size_t n_batches)
{
    struct ld_shared_batch none = {.at.seq = w->turn->seen.seq}, *last = n_batches > 0 ? &batch[n_batches - 1] : &none;
    enum ld_shared_rc rc = LD_SHARED_OK;

    w->was = w->turn->seen;
    memcpy(w->hash, w->was.hash, LD_CHAIN_BYTES);
    if (w->n_lines > 0)
        rc = find_start(w, w->line[0].seq);
    if (rc == LD_SHARED_OK)
        rc = rewrite_rest(w);
    if (rc == LD_SHARED_OK && n_batches > 0)
        rc = extend(w, batch, n_batches);
    if (rc == LD_SHARED_OK)
        rc = move_tip(w, last->at.seq, &last->at.generation, NULL);
    for (size_t i = 0; i + 1 < n_batches; i++)
        batch[i].at.generation = last->at.generation;
    if (rc != LD_SHARED_OK)
        return rc;
    ld_failpoint("before_shared_rewrite");
    return ld_pg_commit(w->turn, w->why);
}

/* Whatever came of it, the turn is over. */
static enum ld_shared_rc end(struct rewriting *w, enum ld_shared_rc rc)
{
    struct ld_shared_turn *turn = w->turn;

    ld_pg_rollback(turn->c, ld_pg_deadline(turn->log));
    ld_pg_end_turn(turn);
    return rc;
}

enum ld_shared_rc ld_pg_rewrite(struct ld_shared_turn *turn, const struct ld_shared_line *line, size_t n_lines,
                                struct ld_shared_batch *batch, size_t n_batches, struct ld_message *why)
{
    struct rewriting w = {.turn = turn, .line = line, .n_lines = n_lines, .why = why};

    assert(n_batches > 0 ? batch[0].n > 0 && batch[0].at.seq == turn->seen.seq + batch[0].n : n_lines > 0);
    (void)pthread_mutex_lock(&turn->busy);
    ld_pg_look(turn->c);
    return end(&w, turn->c->is_broken ? fail(&w, NULL) : rewrite(&w, batch, n_batches));
}

/* --- a summary -------------------------------------------------------------------------------------------- */

#define SUMMARY_BATCHES 64u /* in one row of statements */

/* Batches up to the place, some at a time: each statement is to end before its connection is given up. */
static enum ld_shared_rc remove_batches(struct rewriting *w)
{
    enum ld_shared_rc rc = LD_SHARED_OK;
    bool is_more = true;

    while (rc == LD_SHARED_OK && is_more) {
        struct pg_args args = {0};
        add_place(&args, w, w->was.seq);
        PGresult *r = ld_pg_ask(w->turn->c, PG_TRIM, &args, ld_pg_deadline(w->turn->log));
        if (!ld_pg_is(r, PGRES_COMMAND_OK))
            rc = fail(w, r);
        else
            is_more = strcmp(PQcmdTuples(r), "0") != 0;
        PQclear(r);
    }
    return rc;
}

static void send_book(struct rewriting *w, const struct ld_shared_book *book)
{
    struct pg_args args = {0};

    ld_pg_add_int(&args, (int64_t)w->turn->id);
    ld_pg_add_text(&args, book->name);
    ld_pg_add_int(&args, (int64_t)book->version);
    ld_pg_add_int(&args, (int64_t)book->seq);
    ld_pg_add_bytes(&args, book->body, book->n_body);
    ld_pg_send(w->turn->c, PG_BOOK_ADD, &args);
}

static enum ld_shared_rc put_books(struct rewriting *w, const struct ld_shared_book *book, size_t n)
{
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;

    ld_pg_add_int(&args, (int64_t)w->turn->id);
    PGresult *r = ld_pg_ask(w->turn->c, PG_BOOKS_CLEAR, &args, ld_pg_deadline(w->turn->log));
    if (!ld_pg_is(r, PGRES_COMMAND_OK))
        rc = fail(w, r);
    PQclear(r);
    if (rc != LD_SHARED_OK || n == 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        send_book(w, &book[i]);
    ld_pg_sync(w->turn->c);
    return read_changes(w, (int)n);
}

/* The summary's batches come in last: they have numbers of the batch that is cut. */
static enum ld_shared_rc put_summary(struct rewriting *w, const struct ld_shared_summary *s)
{
    unsigned char hash[LD_CHAIN_BYTES];
    enum ld_shared_rc rc = LD_SHARED_OK;

    memset(w->hash, 0, LD_CHAIN_BYTES);
    for (size_t i = 0; i < s->n; i++)
        ld_chain(w->hash, w->hash, s->batch[i].body, s->batch[i].n_body);
    rc = rewrite_rest(w);
    memcpy(hash, w->hash, LD_CHAIN_BYTES);
    memset(w->hash, 0, LD_CHAIN_BYTES);
    for (size_t i = 0; i < s->n && rc == LD_SHARED_OK; i += SUMMARY_BATCHES)
        rc = extend(w, s->batch + i, s->n - i < SUMMARY_BATCHES ? s->n - i : SUMMARY_BATCHES);
    memcpy(w->hash, hash, LD_CHAIN_BYTES);
    return rc;
}

static enum ld_shared_rc compact(struct rewriting *w, const struct ld_shared_summary *s)
{
    uint64_t generation = 0;
    enum ld_shared_rc rc = find_start(w, s->last + 1);

    if (rc == LD_SHARED_OK)
        rc = remove_batches(w);
    w->n_skipped = s->last - w->was.seq;
    if (rc == LD_SHARED_OK)
        rc = put_summary(w, s);
    if (rc == LD_SHARED_OK)
        rc = put_books(w, s->book, s->n_books);
    if (rc == LD_SHARED_OK)
        rc = move_tip(w, w->turn->seen.seq, &generation, s);
    for (size_t i = 0; i < s->n; i++)
        s->batch[i].at.generation = generation;
    if (rc != LD_SHARED_OK)
        return rc;
    ld_failpoint("before_shared_compaction");
    return ld_pg_commit(w->turn, w->why);
}

enum ld_shared_rc ld_pg_compact(struct ld_shared_turn *turn, const struct ld_shared_summary *summary,
                                struct ld_message *why)
{
    struct rewriting w = {.turn = turn, .why = why};

    assert(summary->n > 0 && summary->batch[summary->n - 1].at.seq == summary->last && summary->last <= turn->seen.seq);
    (void)pthread_mutex_lock(&turn->busy);
    ld_pg_look(turn->c);
    return end(&w, turn->c->is_broken ? fail(&w, NULL) : compact(&w, summary));
}

enum ld_shared_rc ld_pg_books(struct ld_shared_log *log, uint64_t id,
                              bool (*fn)(void *arg, const struct ld_shared_book *book), void *arg,
                              struct ld_message *why)
{
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;

    ld_pg_add_int(&args, (int64_t)id);
    PGresult *r = ld_pg_ask_rows((struct pg_log *)log, PG_BOOKS, &args, why);
    if (r == NULL)
        return LD_SHARED_DOWN;
    for (int i = 0; i < PQntuples(r) && rc == LD_SHARED_OK; i++) {
        const struct ld_shared_book book = {.name = PQgetvalue(r, i, 0),
                                            .version = (uint64_t)ld_pg_int(r, i, 1),
                                            .seq = (uint64_t)ld_pg_int(r, i, 2),
                                            .body = PQgetvalue(r, i, 3),
                                            .n_body = (size_t)PQgetlength(r, i, 3)};
        rc = fn(arg, &book) ? LD_SHARED_OK : LD_SHARED_NOMEM;
    }
    PQclear(r);
    return rc;
}
