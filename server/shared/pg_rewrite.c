/* Lines that are to read otherwise, in PostgreSQL: see shared_log.h.
 *
 * In the turn's transaction: from the last batch before the first of the lines on, page by page, each batch gets the
 * hash that it has now, and its body where that is another; the new batches come behind them; the tip and the
 * generation move; COMMIT. Before COMMIT is sent nothing has happened, whatever breaks; behind it the outcome is that
 * of an append. The old chain is checked on the way: a log that is broken is not made whole by this.
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

/* The place before the first batch that may have one of the lines. */
static enum ld_shared_rc find_start(struct rewriting *w)
{
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;

    if (w->n_lines == 0) {
        w->was = w->turn->seen;
        memcpy(w->hash, w->was.hash, LD_CHAIN_BYTES);
        return LD_SHARED_OK;
    }
    add_place(&args, w, w->line[0].seq);
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
    struct ld_text body;
    struct pg_args args = {0};

    ld_chain(w->was.hash, w->was.hash, b.body, b.n_body);
    if (b.n == 0 || b.at.seq != w->was.seq + b.n || PQgetlength(r, row, 5) != (int)LD_CHAIN_BYTES ||
        memcmp(w->was.hash, PQgetvalue(r, row, 5), LD_CHAIN_BYTES) != 0)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, w->why, "the chain of the shared log breaks at line %llu",
                                             (unsigned long long)b.at.seq);
    w->was.seq = b.at.seq;
    ld_text_init(&body);
    const bool is_whole = ld_shared_replace(&body, &b, w->line, w->n_lines, &w->at);
    if (is_whole) {
        ld_chain(w->hash, w->hash, body.data, body.n);
        add_place(&args, w, b.at.seq);
        ld_pg_add_bytes(&args, w->hash, LD_CHAIN_BYTES);
        ld_pg_add_bytes(&args, w->at != n_met ? body.data : NULL, w->at != n_met ? body.n : 0);
        ld_pg_send(w->turn->c, PG_REWRITE, &args);
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

static enum ld_shared_rc move_tip(struct rewriting *w, struct ld_shared_batch *batch, size_t n)
{
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;

    add_place(&args, w, w->turn->seen.seq);
    ld_pg_add_int(&args, (int64_t)batch[n - 1].at.seq);
    ld_pg_add_bytes(&args, w->hash, LD_CHAIN_BYTES);
    ld_pg_add_int(&args, (int64_t)batch[n - 1].at.generation);
    PGresult *r = ld_pg_ask(w->turn->c, PG_GENERATE, &args, ld_pg_deadline(w->turn->log));
    if (!ld_pg_is(r, PGRES_TUPLES_OK))
        rc = fail(w, r);
    else if (PQntuples(r) != 1)
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_BEHIND, w->why, "%s", ld_shared_say(LD_SHARED_BEHIND));
    for (size_t i = 0; i < n && rc == LD_SHARED_OK; i++)
        batch[i].at.generation = (uint64_t)ld_pg_int(r, 0, 0);
    PQclear(r);
    return rc;
}

static enum ld_shared_rc rewrite(struct rewriting *w, struct ld_shared_batch *batch, size_t n_batches)
{
    enum ld_shared_rc rc = find_start(w);

    while (rc == LD_SHARED_OK && w->was.seq < w->turn->seen.seq)
        rc = rewrite_page(w);
    if (rc == LD_SHARED_OK && (w->at != w->n_lines || w->was.seq != w->turn->seen.seq ||
                               memcmp(w->was.hash, w->turn->seen.hash, LD_CHAIN_BYTES) != 0))
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, w->why, "the shared log has other lines than the copy");
    if (rc == LD_SHARED_OK)
        rc = extend(w, batch, n_batches);
    if (rc == LD_SHARED_OK)
        rc = move_tip(w, batch, n_batches);
    if (rc != LD_SHARED_OK)
        return rc;
    ld_failpoint("before_shared_rewrite");
    return ld_pg_commit(w->turn, w->why);
}

enum ld_shared_rc ld_pg_rewrite(struct ld_shared_turn *turn, const struct ld_shared_line *line, size_t n_lines,
                                struct ld_shared_batch *batch, size_t n_batches, struct ld_message *why)
{
    struct rewriting w = {.turn = turn, .line = line, .n_lines = n_lines, .why = why};
    enum ld_shared_rc rc;

    assert(n_batches > 0 && batch[0].n > 0 && batch[0].at.seq == turn->seen.seq + batch[0].n);
    (void)pthread_mutex_lock(&turn->busy);
    ld_pg_look(turn->c);
    rc = turn->c->is_broken ? fail(&w, NULL) : rewrite(&w, batch, n_batches);
    ld_pg_rollback(turn->c, ld_pg_deadline(turn->log));
    ld_pg_end_turn(turn);
    return rc;
}
