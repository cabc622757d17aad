/* What a turn writes to PostgreSQL, and what became of it: see pg_log.h.
 *
 * One round trip: the batch and the tip (one statement), then COMMIT, then whether commits wait for standbys. What
 * comes back:
 *
 *     COMMIT, no warning                                                OK
 *     COMMIT with a warning, or the list of standbys was emptied:       UNKNOWN
 *     it has not waited for a standby
 *     the batch refused, with a reason; ROLLBACK; no row moved          BEHIND or DOWN: nothing was written
 *     anything else, silence too                                        UNKNOWN
 *
 * A batch that is refused takes its COMMIT along: PostgreSQL skips what is behind an error.
 *
 * To settle is to have the row locked, look, and commit. While another connection of ours is still committing, it has
 * the row. Our own commit waits for a standby as the batch's did, so a batch that is there then is on two disks, and a
 * primary that has been deposed cannot say that it is not there. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "shared/pg_log_impl.h"

/* How long to wait before a batch is looked for again. */
#define AGAIN_US 50000

/* A body that may be longer on its way than PostgreSQL lets a turn be silent: its clock stops when it has read
 * something, so a short statement goes ahead. */
#define LONG_BYTES (64 << 10)

static void send_append(struct ld_shared_turn *turn, const struct ld_shared_batch *b)
{
    struct pg_args args = {0};

    ld_pg_add_int(&args, (int64_t)turn->id);
    ld_pg_add_int(&args, (int64_t)turn->seen.seq);
    ld_pg_add_int(&args, (int64_t)b->at.seq);
    ld_pg_add_int(&args, b->n);
    ld_pg_add_int(&args, b->at_ms);
    ld_pg_add_text(&args, b->node);
    ld_pg_add_int(&args, (int64_t)b->nonce);
    ld_pg_add_bytes(&args, b->at.hash, LD_CHAIN_BYTES);
    ld_pg_add_bytes(&args, b->body, b->n_body);
    turn->c->is_warned = false;
    if (b->n_body > LONG_BYTES)
        ld_pg_send(turn->c, PG_PING, NULL);
    ld_pg_send(turn->c, PG_APPEND, &args);
}

static void send_batch(struct ld_shared_turn *turn, const struct ld_shared_batch *b)
{
    send_append(turn, b);
    ld_pg_send(turn->c, PG_COMMIT, NULL);
    ld_pg_send(turn->c, PG_SYNC, NULL);
    ld_pg_sync(turn->c);
}

/* The batch's own statement, or what went ahead of it. OK: it is in the transaction. */
static enum ld_shared_rc judge_batch(const struct pg_conn *c, const PGresult *r, struct ld_message *why)
{
    const char *state = ld_pg_state(r);

    if (r == NULL)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_UNKNOWN, why, "%s", c->why.text);
    if (ld_pg_is(r, PGRES_COMMAND_OK) || ld_pg_is(r, PGRES_TUPLES_OK))
        return LD_SHARED_OK;
    (void)ld_pg_say(why, "PostgreSQL: ", PQresultErrorMessage(r));
    /* Its session was ended, or its transaction: another turn may come. */
    if (strncmp(state, "57P", 3) == 0 || strncmp(state, "25P", 3) == 0 || strncmp(state, "40", 2) == 0)
        return LD_SHARED_BEHIND;
    return LD_SHARED_DOWN;
}

enum ld_shared_rc ld_pg_judge_commit(const struct pg_conn *c, const PGresult *r, bool is_moved, struct ld_message *why)
{
    const char *said = ld_pg_is(r, PGRES_COMMAND_OK) ? PQcmdStatus((PGresult *)r) : "";

    if (strcmp(said, "ROLLBACK") == 0 || (strcmp(said, "COMMIT") == 0 && !is_moved))
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_BEHIND, why, "%s", ld_shared_say(LD_SHARED_BEHIND));
    if (c->is_warned || c->is_broken)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_UNKNOWN, why, "%s", c->why.text);
    if (strcmp(said, "COMMIT") == 0)
        return LD_SHARED_OK;
    (void)ld_pg_say(why, "PostgreSQL: ", r != NULL ? PQresultErrorMessage(r) : "no answer");
    return LD_SHARED_UNKNOWN;
}

/* Reads what became of COMMIT and PG_SYNC. */
static enum ld_shared_rc read_commit(const struct pg_log *l, struct pg_conn *c, bool is_moved, int64_t deadline,
                                     struct ld_message *why)
{
    PGresult *r = ld_pg_next(c, deadline);
    enum ld_shared_rc rc = ld_pg_judge_commit(c, r, is_moved, why);

    PQclear(r);
    if (rc == LD_SHARED_OK) {
        r = ld_pg_next(c, deadline);
        if (!ld_pg_is_synced(l, r))
            rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_UNKNOWN, why, "no standby was waited for");
        PQclear(r);
    }
    return rc;
}

enum ld_shared_rc ld_pg_commit(struct ld_shared_turn *turn, struct ld_message *why)
{
    struct pg_conn *c = turn->c;
    const int64_t deadline = ld_pg_deadline(turn->log);

    c->is_warned = false;
    ld_pg_send(c, PG_COMMIT, NULL);
    ld_pg_send(c, PG_SYNC, NULL);
    ld_pg_sync(c);
    const enum ld_shared_rc rc = read_commit(turn->log, c, true, deadline, why);
    ld_pg_skip(c, deadline);
    return rc;
}

/* Reads what became of the statements. The end of the row of them says nothing more. */
static enum ld_shared_rc read_outcome(const struct pg_log *l, struct pg_conn *c, bool is_long, int64_t deadline,
                                      struct ld_message *why)
{
    PGresult *r = is_long ? ld_pg_next(c, deadline) : NULL;
    enum ld_shared_rc rc = is_long ? judge_batch(c, r, why) : LD_SHARED_OK;
    bool is_moved = false;

    PQclear(r);
    if (rc == LD_SHARED_OK) {
        r = ld_pg_next(c, deadline);
        rc = judge_batch(c, r, why);
        is_moved = rc == LD_SHARED_OK && strcmp(PQcmdTuples(r), "1") == 0;
        PQclear(r);
    }
    if (rc == LD_SHARED_OK)
        rc = read_commit(l, c, is_moved, deadline, why);
    ld_pg_skip(c, deadline);
    return rc;
}

/* The connection is asked first whether it still is one: a turn that was lost while the server computed has sent
 * nothing, so nothing can have been written. */
enum ld_shared_rc ld_pg_append(struct ld_shared_turn *turn, const struct ld_shared_batch *batch, struct ld_message *why)
{
    struct pg_conn *c = turn->c;
    const int64_t deadline = ld_pg_deadline(turn->log);
    enum ld_shared_rc rc = LD_SHARED_BEHIND;

    assert(batch->n > 0 && batch->at.seq == turn->seen.seq + batch->n);
    (void)pthread_mutex_lock(&turn->busy);
    ld_pg_look(c);
    if (c->is_broken) {
        (void)ld_fail(why, "the turn was lost: %s", c->why.text);
    } else {
        send_batch(turn, batch);
        rc = read_outcome(turn->log, c, batch->n_body > LONG_BYTES, deadline, why);
        ld_pg_rollback(c, deadline);
    }
    ld_pg_end_turn(turn);
    return rc;
}

/* As long as there is no COMMIT, what became of it is known: nothing, unless it worked. */
enum ld_shared_rc ld_pg_put_batch(struct ld_shared_turn *turn, const struct ld_shared_batch *batch,
                                  struct ld_message *why)
{
    struct pg_conn *c = turn->c;
    const int64_t deadline = ld_pg_deadline(turn->log);
    enum ld_shared_rc rc = LD_SHARED_OK;

    (void)pthread_mutex_lock(&turn->busy);
    send_append(turn, batch);
    ld_pg_sync(c);
    for (int i = batch->n_body > LONG_BYTES ? 0 : 1; i < 2 && rc == LD_SHARED_OK; i++) {
        PGresult *r = ld_pg_next(c, deadline);
        rc = judge_batch(c, r, why);
        if (rc == LD_SHARED_OK && i == 1 && strcmp(PQcmdTuples(r), "1") != 0)
            rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_BEHIND, why, "%s", ld_shared_say(LD_SHARED_BEHIND));
        PQclear(r);
    }
    ld_pg_skip(c, deadline);
    turn->used_us = ld_monotonic_us();
    if (rc == LD_SHARED_OK && turn->seen.seq == 0)
        turn->first = batch->at.seq - batch->n + 1;
    if (rc == LD_SHARED_OK)
        turn->seen = batch->at;
    (void)pthread_mutex_unlock(&turn->busy);
    return rc == LD_SHARED_UNKNOWN ? LD_SHARED_DOWN : rc;
}

/* The old tenant's row is locked from here to the commit; and what servers have in common, which is asked for last. */
enum ld_shared_rc ld_pg_exchange(struct ld_shared_turn *turn, const char *name, uint64_t old, struct ld_message *why)
{
    enum { DROPPED, KEYS, RATE, NAMED, N };
    struct pg_args gone = {0}, keys = {0}, rate = {0}, called = {0};
    struct pg_conn *c = turn->c;
    const int64_t deadline = ld_pg_deadline(turn->log);
    enum ld_shared_rc rc = LD_SHARED_OK;

    ld_pg_add_int(&gone, (int64_t)old);
    ld_pg_add_int(&keys, (int64_t)turn->id);
    ld_pg_add_int(&keys, (int64_t)old);
    ld_pg_add_int(&rate, (int64_t)turn->id);
    ld_pg_add_int(&rate, (int64_t)old);
    ld_pg_add_int(&called, (int64_t)turn->id);
    ld_pg_add_text(&called, name);
    (void)pthread_mutex_lock(&turn->busy);
    ld_pg_send(c, PG_DROP, &gone);
    ld_pg_send(c, PG_HAND_KEYS, &keys);
    ld_pg_send(c, PG_HAND_RATE, &rate);
    ld_pg_send(c, PG_HAND_NAME, &called);
    ld_pg_sync(c);
    for (int i = DROPPED; i < N && rc == LD_SHARED_OK; i++) {
        PGresult *r = ld_pg_next(c, deadline);
        rc = judge_batch(c, r, why);
        if (rc == LD_SHARED_OK && (i == DROPPED || i == NAMED) && strcmp(PQcmdTuples(r), "1") != 0)
            rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_BEHIND, why, "the tenant is not there any more");
        PQclear(r);
    }
    ld_pg_skip(c, deadline);
    turn->used_us = ld_monotonic_us();
    (void)pthread_mutex_unlock(&turn->busy);
    return rc == LD_SHARED_UNKNOWN ? LD_SHARED_DOWN : rc;
}

/* --- settling --------------------------------------------------------------------------------------------- */

/* Whether the row is our batch: its place alone is not enough, for another may have come there. */
static bool is_ours(const PGresult *r, const struct ld_shared_batch *b)
{
    return ld_pg_is(r, PGRES_TUPLES_OK) && PQntuples(r) == 1 && strcmp(PQgetvalue(r, 0, 0), b->node) == 0 &&
           (uint64_t)ld_pg_int(r, 0, 1) == b->nonce;
}

/* Of a batch that would stand before `kept` nothing is said: a summary may have taken its place. */
static enum ld_shared_rc judge_look(const PGresult *tip, const PGresult *found, const struct ld_shared_batch *b,
                                    struct ld_message *why)
{
    if (is_ours(found, b))
        return LD_SHARED_OK;
    if (PQntuples(tip) == 1 && b->at.seq < (uint64_t)ld_pg_int(tip, 0, 5))
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_UNKNOWN, why, "the shared log was compacted meanwhile");
    return LD_SHARED_BEHIND;
}

/* BEGIN; the row's lock; the batch's place; COMMIT; whether commits wait for standbys. */
static void send_look(struct pg_conn *c, uint64_t id, const struct ld_shared_batch *b)
{
    struct pg_args row = {0}, place = {0};

    ld_pg_add_int(&row, (int64_t)id);
    ld_pg_add_int(&place, (int64_t)id);
    ld_pg_add_int(&place, (int64_t)b->at.seq);
    c->is_warned = false;
    ld_pg_send(c, PG_BEGIN, NULL);
    ld_pg_send(c, PG_LOCK, &row);
    ld_pg_send(c, PG_BATCH, &place);
    ld_pg_send(c, PG_COMMIT, NULL);
    ld_pg_send(c, PG_SYNC, NULL);
    ld_pg_sync(c);
}

static enum ld_shared_rc look_for(const struct pg_log *l, struct pg_conn *c, uint64_t id,
                                  const struct ld_shared_batch *b, int64_t deadline, struct ld_message *why)
{
    enum { BEGUN, LOCKED, FOUND, COMMITTED, SYNCED, N };
    PGresult *r[N];
    enum ld_shared_rc rc = LD_SHARED_UNKNOWN;

    send_look(c, id, b);
    for (int i = 0; i < N; i++)
        r[i] = ld_pg_next(c, deadline);
    if (!c->is_warned && !c->is_broken && ld_pg_is(r[LOCKED], PGRES_TUPLES_OK) && ld_pg_is(r[FOUND], PGRES_TUPLES_OK) &&
        ld_pg_is(r[COMMITTED], PGRES_COMMAND_OK) && strcmp(PQcmdStatus(r[COMMITTED]), "COMMIT") == 0 &&
        ld_pg_is_synced(l, r[SYNCED]))
        rc = judge_look(r[LOCKED], r[FOUND], b, why);
    else
        (void)ld_fail(why, "it cannot be settled yet: %s", c->why.text);
    for (int i = 0; i < N; i++)
        PQclear(r[i]);
    ld_pg_skip(c, deadline);
    return rc;
}

enum ld_shared_rc ld_pg_settle(struct ld_shared_log *log, uint64_t id, const struct ld_shared_batch *batch,
                               struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    const int64_t deadline = ld_pg_deadline(l);
    enum ld_shared_rc rc = LD_SHARED_UNKNOWN;

    for (;;) {
        struct pg_conn *c = ld_pg_get(l, deadline, why);
        if (c == NULL)
            return LD_SHARED_UNKNOWN;
        rc = look_for(l, c, id, batch, deadline, why);
        ld_pg_rollback(c, deadline);
        ld_pg_put(l, c);
        if (rc != LD_SHARED_UNKNOWN || ld_monotonic_us() + AGAIN_US >= deadline)
            return rc;
        (void)usleep(AGAIN_US);
    }
}
