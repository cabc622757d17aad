/* Turns in PostgreSQL: the row's lock, and what others have written. pg_append.c has their end; see pg_log.h.
 *
 * One round trip: BEGIN; the row FOR UPDATE; the hash at our place; batches behind it. One more for each further page.
 * In READ COMMITTED a statement sees what was committed before it began, so the batches are looked for when the row is
 * ours. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shared/pg_log_impl.h"

#define PAGE_BYTES (8 << 20)

/* Inside of this file: the connection broke before anything was written, so another one may be tried. */
#define LOST ((enum ld_shared_rc) - 1)

/* A reading of a tenant's log: where it is, and who is told. */
struct reading {
    uint64_t id;
    struct ld_shared_place seen, tip;
    uint64_t first;   /* the log's first line */
    unsigned version; /* of lines that may be written */
    ld_shared_take_fn fn;
    void *arg;
    struct ld_message *why;
};

/* --- errors ----------------------------------------------------------------------------------------------- */

/* A server that is shutting down, or is a standby now: another one may be the primary. */
static bool is_leaving(const char *state)
{
    return strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0 || strcmp(state, "25006") == 0;
}

/* Why a statement has no result, before anything was written. */
static enum ld_shared_rc refused(struct pg_conn *c, const PGresult *r, struct ld_message *why)
{
    if (r == NULL || c->is_broken || is_leaving(ld_pg_state(r))) {
        if (r != NULL && !c->is_broken)
            (void)ld_pg_say(&c->why, "", PQresultErrorMessage(r));
        c->is_broken = true;
        *why = c->why;
        return LOST;
    }
    if (strcmp(ld_pg_state(r), "55P03") == 0)
        (void)ld_fail(why, "other servers have had the tenant's turn for all the time that may be waited");
    else
        (void)ld_pg_say(why, "PostgreSQL: ", PQresultErrorMessage(r));
    return LD_SHARED_DOWN;
}

static enum ld_shared_rc forked(const struct reading *at, const char *what)
{
    return (enum ld_shared_rc)ld_fail_as(LD_SHARED_FORKED, at->why, "at line %llu %s", (unsigned long long)at->seen.seq,
                                         what);
}

/* Lines that were rewritten since, or a rewriting that is gone. */
static enum ld_shared_rc check_generation(const struct reading *at)
{
    if (at->tip.generation > at->seen.generation)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_REWRITTEN, at->why, "%s", ld_shared_say(LD_SHARED_REWRITTEN));
    if (at->tip.generation < at->seen.generation && at->seen.generation != LD_ANY_GENERATION)
        return forked(at, "lines of the shared log are as they were before they were rewritten");
    return LD_SHARED_OK;
}

/* --- reading ---------------------------------------------------------------------------------------------- */

static void get_hash(unsigned char out[LD_CHAIN_BYTES], const PGresult *r, int row, int column)
{
    memset(out, 0, LD_CHAIN_BYTES);
    if (PQgetlength(r, row, column) == (int)LD_CHAIN_BYTES)
        memcpy(out, PQgetvalue(r, row, column), LD_CHAIN_BYTES);
}

static bool is_same(const struct ld_shared_place *a, const struct ld_shared_place *b)
{
    return a->seq == b->seq && memcmp(a->hash, b->hash, LD_CHAIN_BYTES) == 0;
}

/* A row of PG_PAGE: checked to be the next link of the chain, then told. */
static enum ld_shared_rc tell(struct reading *at, const PGresult *r, int row)
{
    unsigned char hash[LD_CHAIN_BYTES];
    struct ld_shared_batch b = {.at = {.seq = (uint64_t)ld_pg_int(r, row, 0), .generation = at->tip.generation},
                                .n = (uint32_t)ld_pg_int(r, row, 1),
                                .at_ms = ld_pg_int(r, row, 2),
                                .node = PQgetvalue(r, row, 3),
                                .nonce = (uint64_t)ld_pg_int(r, row, 4),
                                .body = PQgetvalue(r, row, 6),
                                .n_body = (size_t)PQgetlength(r, row, 6)};
    enum ld_shared_rc rc = LD_SHARED_OK;

    get_hash(b.at.hash, r, row, 5);
    if (b.n == 0 || b.at.seq != at->seen.seq + b.n)
        return forked(at, "the shared log has a gap behind it");
    ld_chain(hash, at->seen.hash, b.body, b.n_body);
    if (memcmp(hash, b.at.hash, LD_CHAIN_BYTES) != 0)
        return forked(at, "the chain of the shared log is broken behind it");
    rc = at->fn(at->arg, &b);
    if (rc == LD_SHARED_OK)
        at->seen = b.at;
    return rc;
}

static enum ld_shared_rc tell_all(struct reading *at, const PGresult *r)
{
    enum ld_shared_rc rc = LD_SHARED_OK;

    for (int row = 0; row < PQntuples(r) && rc == LD_SHARED_OK; row++)
        rc = tell(at, r, row);
    return rc;
}

static void send_page(struct pg_conn *c, const struct reading *at, size_t max_bytes)
{
    struct pg_args args = {0};

    ld_pg_add_int(&args, (int64_t)at->id);
    ld_pg_add_int(&args, (int64_t)at->seen.seq);
    ld_pg_add_int(&args, (int64_t)(max_bytes > 0 ? max_bytes : 1));
    ld_pg_send(c, PG_PAGE, &args);
}

/* The tenant's row, our place, and a page, in one round trip; without a turn as of one moment. */
static void send_first(struct pg_conn *c, const struct reading *at, bool is_turn, size_t max_bytes)
{
    struct pg_args row = {0}, place = {0};

    ld_pg_add_int(&row, (int64_t)at->id);
    ld_pg_add_int(&place, (int64_t)at->id);
    ld_pg_add_int(&place, (int64_t)at->seen.seq);
    ld_pg_send(c, is_turn ? PG_BEGIN : PG_BEGIN_READ, NULL);
    ld_pg_send(c, is_turn ? PG_LOCK : PG_TIP, &row);
    ld_pg_send(c, PG_PLACE, &place);
    send_page(c, at, max_bytes);
    if (!is_turn)
        ld_pg_send(c, PG_COMMIT, NULL);
    ld_pg_sync(c);
}

/* The result of one statement of a row of them, which gives rows; *rc tells where it is NULL. */
static PGresult *next_rows(struct pg_conn *c, struct reading *at, int64_t deadline, enum ld_shared_rc *rc)
{
    PGresult *r = NULL;

    if (*rc != LD_SHARED_OK)
        return NULL;
    r = ld_pg_next(c, deadline);
    if (ld_pg_is(r, PGRES_TUPLES_OK))
        return r;
    *rc = refused(c, r, at->why);
    PQclear(r);
    return NULL;
}

/* Whether the log has our place. A tenant that was deleted leaves its row, so one without a row was never there: the
 * database is an older one, or another. */
static enum ld_shared_rc check_place(const struct reading *at, const PGresult *tip, const PGresult *place)
{
    unsigned char hash[LD_CHAIN_BYTES];

    if (PQntuples(tip) == 0 && at->seen.seq > 0)
        return forked(at, "of a tenant that the shared log has never had");
    if (PQntuples(tip) == 0 || ld_pg_int(tip, 0, 2) != 0)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_NONE, at->why, "%s", ld_shared_say(LD_SHARED_NONE));
    const enum ld_shared_rc rc = check_generation(at);
    if (rc != LD_SHARED_OK || at->seen.seq == 0)
        return rc;
    if (PQntuples(place) == 0)
        return forked(at, at->tip.seq < at->seen.seq ? "the shared log has ended already"
                                                     : "no batch of the shared log ends");
    get_hash(hash, place, 0, 0);
    return memcmp(hash, at->seen.hash, LD_CHAIN_BYTES) == 0 ? LD_SHARED_OK
                                                            : forked(at, "the shared log has other lines");
}

/* Reads what send_first has asked for. OK with *page, to be cleared. */
static enum ld_shared_rc read_first(struct pg_conn *c, struct reading *at, int64_t deadline, PGresult **page)
{
    enum ld_shared_rc rc = LD_SHARED_OK;
    PGresult *tip = NULL, *place = NULL;

    PGresult *begun = ld_pg_next(c, deadline);
    if (!ld_pg_is(begun, PGRES_COMMAND_OK))
        rc = refused(c, begun, at->why);
    PQclear(begun);
    tip = next_rows(c, at, deadline, &rc);
    place = next_rows(c, at, deadline, &rc);
    *page = next_rows(c, at, deadline, &rc);
    ld_pg_skip(c, deadline);
    if (rc == LD_SHARED_OK && c->is_broken)
        rc = refused(c, NULL, at->why);
    if (rc == LD_SHARED_OK) {
        at->tip = (struct ld_shared_place){.seq = PQntuples(tip) > 0 ? (uint64_t)ld_pg_int(tip, 0, 0) : 0};
        if (PQntuples(tip) > 0) {
            get_hash(at->tip.hash, tip, 0, 1);
            at->tip.generation = (uint64_t)ld_pg_int(tip, 0, 3);
            at->first = (uint64_t)ld_pg_int(tip, 0, 4);
            at->version = (unsigned)ld_pg_int(tip, 0, 6);
        }
        rc = at->version <= ld_log_version() ? check_place(at, tip, place)
                                             : (enum ld_shared_rc)ld_pg_is_newer(at->version, LD_SHARED_NEWER, at->why);
        if (rc == LD_SHARED_OK && at->seen.seq == 0 && at->first > 0)
            at->seen.seq = at->first - 1; /* where the chain begins */
    }
    PQclear(tip);
    PQclear(place);
    if (rc != LD_SHARED_OK) {
        PQclear(*page);
        *page = NULL;
    }
    return rc;
}

/* What a call returns. A log that may have lines of a newer version is noted at once: nothing of it is to be used. */
static enum ld_shared_rc ended(struct pg_log *l, enum ld_shared_rc rc, const struct ld_message *why)
{
    if (rc == LD_SHARED_NEWER)
        ld_pg_note(l, PG_NEWER, -1, why);
    return rc == LOST ? ld_pg_why_none(l) : rc;
}

/* --- a turn ----------------------------------------------------------------------------------------------- */

static void enlist(struct ld_shared_turn *turn)
{
    struct pg_log *l = turn->log;

    turn->used_us = ld_monotonic_us();
    (void)pthread_mutex_lock(&l->lock);
    turn->next = l->turns;
    l->turns = turn;
    (void)pthread_mutex_unlock(&l->lock);
}

void ld_pg_end_turn(struct ld_shared_turn *turn)
{
    struct pg_log *l = turn->log;
    struct ld_shared_turn **at = &l->turns;

    (void)pthread_mutex_lock(&l->lock);
    while (*at != turn)
        at = &(*at)->next;
    *at = turn->next;
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_mutex_unlock(&turn->busy);
    (void)pthread_mutex_destroy(&turn->busy);
    ld_pg_put(l, turn->c);
    free(turn);
}

unsigned ld_pg_version(const struct ld_shared_turn *turn)
{
    return turn->version;
}

void ld_pg_release(struct ld_shared_turn *turn)
{
    (void)pthread_mutex_lock(&turn->busy);
    ld_pg_rollback(turn->c, ld_pg_deadline(turn->log));
    ld_pg_end_turn(turn);
}

/* The pages behind the first one, while the row is locked. */
static enum ld_shared_rc take_rest(struct ld_shared_turn *turn, struct reading *at)
{
    enum ld_shared_rc rc = LD_SHARED_OK;

    while (rc == LD_SHARED_OK && at->seen.seq < at->tip.seq) {
        const uint64_t before = at->seen.seq;
        const int64_t deadline = ld_pg_deadline(turn->log);
        PGresult *page = NULL;
        (void)pthread_mutex_lock(&turn->busy);
        send_page(turn->c, at, PAGE_BYTES);
        ld_pg_sync(turn->c);
        page = next_rows(turn->c, at, deadline, &rc);
        ld_pg_skip(turn->c, deadline);
        turn->used_us = ld_monotonic_us();
        (void)pthread_mutex_unlock(&turn->busy);
        if (page != NULL)
            rc = tell_all(at, page);
        PQclear(page);
        if (rc == LD_SHARED_OK && at->seen.seq == before)
            rc = forked(at, "the shared log has a gap behind it");
    }
    return rc != LD_SHARED_OK || is_same(&at->seen, &at->tip) ? rc : forked(at, "the shared log has another tip");
}

/* OK with *out; LOST: the connection was, and another may be tried from at->seen on. Puts the connection back. */
static enum ld_shared_rc take_on(struct pg_log *l, struct pg_conn *c, struct reading *at, int64_t deadline,
                                 struct ld_shared_turn **out)
{
    struct ld_shared_turn *turn = calloc(1, sizeof *turn);
    PGresult *page = NULL;
    enum ld_shared_rc rc = LD_SHARED_NOMEM;

    if (turn != NULL) {
        send_first(c, at, true, PAGE_BYTES);
        rc = read_first(c, at, deadline, &page);
    }
    if (rc != LD_SHARED_OK) {
        ld_pg_rollback(c, deadline);
        ld_pg_put(l, c);
        free(turn);
        return rc;
    }
    *turn = (struct ld_shared_turn){.log = l, .c = c, .id = at->id};
    (void)pthread_mutex_init(&turn->busy, NULL);
    enlist(turn);
    rc = tell_all(at, page);
    PQclear(page);
    if (rc == LD_SHARED_OK)
        rc = take_rest(turn, at);
    turn->seen = at->seen;
    turn->first = at->first;
    turn->version = at->version;
    if (rc == LD_SHARED_OK)
        *out = turn;
    else
        ld_pg_release(turn);
    return rc;
}

enum ld_shared_rc ld_pg_take(struct ld_shared_log *log, uint64_t id, const struct ld_shared_place *after,
                             ld_shared_take_fn fn, void *arg, struct ld_shared_turn **turn, struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    const int64_t deadline = ld_pg_deadline(l);
    struct reading at = {.id = id, .seen = *after, .fn = fn, .arg = arg, .why = why};
    enum ld_shared_rc rc = LOST;

    *turn = NULL;
    while (rc == LOST && ld_monotonic_us() < deadline) {
        struct pg_conn *c = ld_pg_get(l, deadline, why);
        if (c == NULL)
            break;
        rc = take_on(l, c, &at, deadline, turn);
    }
    return ended(l, rc, why);
}

/* --- a tenant that comes whole ------------------------------------------------------------------------------ */

/* BEGIN; the tenant's row, where there is none; the row. */
static enum ld_shared_rc make_row(struct pg_conn *c, const char *name, struct ld_shared_tenant *out, unsigned *version,
                                  int64_t deadline, struct ld_message *why)
{
    enum { BEGUN, MADE, FOUND, N };
    struct pg_args args = {0};
    PGresult *r[N];
    enum ld_shared_rc rc = LD_SHARED_OK;

    ld_pg_add_text(&args, name);
    ld_pg_send(c, PG_BEGIN, NULL);
    ld_pg_send(c, PG_MAKE, &args);
    ld_pg_send(c, PG_FIND, &args);
    ld_pg_sync(c);
    for (int i = 0; i < N; i++)
        r[i] = ld_pg_next(c, deadline);
    ld_pg_skip(c, deadline);
    if (c->is_broken || !ld_pg_is(r[MADE], PGRES_COMMAND_OK))
        rc = refused(c, r[MADE], why);
    else if (!ld_pg_is(r[FOUND], PGRES_TUPLES_OK) || PQntuples(r[FOUND]) == 0)
        rc = refused(c, r[FOUND], why);
    else {
        ld_pg_read_tenant(out, r[FOUND], 0, 0);
        *version = (unsigned)ld_pg_int(r[FOUND], 0, 7);
    }
    if (rc == LD_SHARED_OK && out->tip.seq > 0)
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_BEHIND, why, "there is a tenant of the name");
    for (int i = 0; i < N; i++)
        PQclear(r[i]);
    return rc;
}

enum ld_shared_rc ld_pg_make(struct ld_shared_log *log, const char *name, struct ld_shared_turn **turn, uint64_t *id,
                             struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    const int64_t deadline = ld_pg_deadline(l);
    struct ld_shared_tenant found = {.id = 0};
    unsigned version = 0;
    enum ld_shared_rc rc = LOST;

    *turn = NULL;
    while (rc == LOST && ld_monotonic_us() < deadline) {
        struct pg_conn *c = ld_pg_get(l, deadline, why);
        if (c == NULL)
            break;
        rc = make_row(c, name, &found, &version, deadline, why);
        if (rc == LD_SHARED_OK && (*turn = calloc(1, sizeof **turn)) == NULL)
            rc = LD_SHARED_NOMEM;
        if (rc == LD_SHARED_OK) {
            **turn = (struct ld_shared_turn){.log = l, .c = c, .id = found.id, .first = 1, .version = version};
            (void)pthread_mutex_init(&(*turn)->busy, NULL);
            enlist(*turn);
            *id = found.id;
        } else {
            ld_pg_rollback(c, deadline);
            ld_pg_put(l, c);
        }
    }
    return ended(l, rc, why);
}

enum ld_shared_rc ld_pg_read(struct ld_shared_log *log, uint64_t id, const struct ld_shared_place *after,
                             size_t max_bytes, ld_shared_take_fn fn, void *arg, struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    const int64_t deadline = ld_pg_deadline(l);
    struct reading at = {.id = id, .seen = *after, .fn = fn, .arg = arg, .why = why};
    enum ld_shared_rc rc = LOST;

    while (rc == LOST && ld_monotonic_us() < deadline) {
        PGresult *page = NULL;
        struct pg_conn *c = ld_pg_get(l, deadline, why);
        if (c == NULL)
            break;
        send_first(c, &at, false, max_bytes);
        rc = read_first(c, &at, deadline, &page);
        ld_pg_rollback(c, deadline);
        ld_pg_put(l, c);
        if (rc == LD_SHARED_OK)
            rc = tell_all(&at, page);
        PQclear(page);
    }
    return ended(l, rc, why);
}
