/* One connection to PostgreSQL: its settings, its statements, and waits that end. See pg_log_impl.h. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shared/pg_log_impl.h"

/* A page of batches is short by its number of rows, and by the bytes of their bodies: one row at least. */
#define PAGE                                                                                                           \
    "SELECT seq, n, at, node, nonce, hash, body FROM (SELECT seq, n, at, node, nonce, hash, body,"                     \
    " sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before FROM (SELECT * FROM laplaced.batch"   \
    " WHERE tenant = $1::bigint AND seq > $2::bigint ORDER BY seq LIMIT 256) AS few) AS row"                           \
    " WHERE before < $3::bigint ORDER BY seq"

/* One statement does both or neither, so that no batch is in the log that the tip has not moved over. */
#define APPEND                                                                                                         \
    "WITH moved AS (UPDATE laplaced.tenant SET last = $3::bigint, hash = $8::bytea WHERE id = $1::bigint"              \
    " AND last = $2::bigint AND deleted_at IS NULL RETURNING id)"                                                      \
    " INSERT INTO laplaced.batch (tenant, seq, n, at, node, nonce, hash, body)"                                        \
    " SELECT id, $3::bigint, $4::bigint, $5::bigint, $6::text, $7::bigint, $8::bytea, $9::bytea FROM moved"

#define TIP                                                                                                            \
    "SELECT last, hash, deleted_at IS NOT NULL, generation, first, kept,"                                              \
    " (SELECT log_version FROM laplaced.common) FROM laplaced.tenant WHERE id = $1::bigint"

/* The number's row is locked from here to the commit, so that numbers become known in their order. A log that was set
 * back has had greater ones, which copies know. */
#define GENERATE                                                                                                       \
    "WITH next AS (UPDATE laplaced.generation SET number = greatest(number + 1, $5::bigint) RETURNING number)"         \
    " UPDATE laplaced.tenant SET last = $3::bigint, hash = $4::bytea, generation = next.number,"                       \
    " rewritten = CASE WHEN $6::bigint IS NULL THEN next.number ELSE rewritten END,"                                   \
    " first = coalesce($6::bigint, first), kept = coalesce($7::bigint, kept) FROM next"                                \
    " WHERE id = $1::bigint AND last = $2::bigint AND deleted_at IS NULL RETURNING generation"

/* As ld_pg_read_tenant reads them. */
#define TENANT "id, last, hash, generation, first, kept, rewritten"

#define NOW "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

/* Ahead of a change of what servers have in common, which is one statement. */
#define NOTED "WITH noted AS (UPDATE laplaced.common SET revision = revision + 1 WHERE id = 1) "

#define THERE "FROM laplaced.tenant WHERE name = $2::text AND deleted_at IS NULL AND last > 0"

static const char *const sql_of[PG_N] = {
    [PG_BEGIN] = "BEGIN",
    [PG_BEGIN_READ] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    [PG_COMMIT] = "COMMIT",
    [PG_ROLLBACK] = "ROLLBACK",
    [PG_PING] = "SELECT 1",
    [PG_STATE] =
        "SELECT current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),"
        " current_setting('synchronous_standby_names'),"
        " (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')),"
        " (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL),"
        " (SELECT max(number)::bigint FROM laplaced.version),"
        " (SELECT coalesce(serves, number)::bigint FROM laplaced.version ORDER BY number DESC LIMIT 1),"
        " (SELECT log_version FROM laplaced.common)",
    [PG_BEAT] =
        "INSERT INTO laplaced.node (name, version, log_version, seen_at) VALUES ($1::text, $2::text, $3::bigint, " NOW
        ") ON CONFLICT (name) DO UPDATE SET version = excluded.version, log_version = excluded.log_version,"
        " seen_at = excluded.seen_at",
    [PG_LOCK] = TIP " FOR UPDATE",
    [PG_TIP] = TIP,
    [PG_PLACE] = "SELECT hash FROM laplaced.batch WHERE tenant = $1::bigint AND seq = $2::bigint",
    [PG_PAGE] = PAGE,
    [PG_APPEND] = APPEND,
    [PG_BEFORE] = "SELECT seq, hash FROM laplaced.batch WHERE tenant = $1::bigint AND seq < $2::bigint"
                  " ORDER BY seq DESC LIMIT 1",
    [PG_REWRITE] = "UPDATE laplaced.batch SET hash = $3::bytea, body = coalesce($4::bytea, body), n = $5::bigint"
                   " WHERE tenant = $1::bigint AND seq = $2::bigint",
    [PG_EXTEND] = "INSERT INTO laplaced.batch (tenant, seq, n, at, node, nonce, hash, body) VALUES ($1::bigint,"
                  " $2::bigint, $3::bigint, $4::bigint, $5::text, $6::bigint, $7::bytea, $8::bytea)",
    [PG_GENERATE] = GENERATE,
    [PG_TRIM] = "DELETE FROM laplaced.batch WHERE tenant = $1::bigint AND seq <= $2::bigint AND seq < (SELECT min(seq)"
                " FROM laplaced.batch WHERE tenant = $1::bigint) + 20000",
    [PG_BOOKS] = "SELECT name, version, seq, body FROM laplaced.book WHERE tenant = $1::bigint",
    [PG_BOOKS_CLEAR] = "DELETE FROM laplaced.book WHERE tenant = $1::bigint",
    [PG_BOOK_ADD] = "INSERT INTO laplaced.book (tenant, name, version, seq, body) VALUES ($1::bigint, $2::text,"
                    " $3::bigint, $4::bigint, $5::bytea)",
    [PG_SYNC] = "SELECT current_setting('synchronous_standby_names') <> ''",
    [PG_BATCH] = "SELECT node, nonce FROM laplaced.batch WHERE tenant = $1::bigint AND seq = $2::bigint",
    [PG_FIND] = "SELECT " TENANT ", (SELECT log_version FROM laplaced.common) FROM laplaced.tenant"
                " WHERE name = $1::text AND deleted_at IS NULL",
    [PG_MAKE] = "INSERT INTO laplaced.tenant (name, created_at) VALUES ($1::text, " NOW ")"
                " ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING",
    [PG_DROP] = NOTED "UPDATE laplaced.tenant SET deleted_at = " NOW " WHERE id = $1::bigint AND deleted_at IS NULL",
    [PG_HAND_KEYS] = "UPDATE laplaced.key SET tenant = $1::bigint WHERE tenant = $2::bigint",
    [PG_HAND_RATE] = "UPDATE laplaced.rate SET tenant = $1::bigint WHERE tenant = $2::bigint",
    [PG_HAND_NAME] = "UPDATE laplaced.tenant SET name = $2::text WHERE id = $1::bigint",
    [PG_TIPS] = "SELECT name, " TENANT ", (SELECT number FROM laplaced.generation)"
                " FROM laplaced.tenant WHERE deleted_at IS NULL ORDER BY name COLLATE \"C\"",
    [PG_STANDBYS] = "SELECT application_name, coalesce(state, ''), coalesce(sync_state, ''),"
                    " coalesce((pg_current_wal_flush_lsn() - flush_lsn)::bigint, -1) FROM pg_stat_replication"
                    " ORDER BY application_name",
    [PG_NODES] = "SELECT name, version, " NOW " - seen_at, log_version FROM laplaced.node ORDER BY name",
    [PG_REPORT] = "UPDATE laplaced.node SET generation = $2::bigint WHERE name = $1::text",
    [PG_LAGGARDS] = "SELECT name FROM laplaced.node WHERE generation < $1::bigint AND seen_at > " NOW " - 15000"
                    " ORDER BY name COLLATE \"C\"",
    [PG_PURGE] =
        "DELETE FROM laplaced.batch AS b USING (SELECT few.tenant, few.seq FROM laplaced.tenant AS t CROSS JOIN"
        " LATERAL (SELECT tenant, seq FROM laplaced.batch WHERE tenant = t.id ORDER BY seq LIMIT 2000) AS few"
        " WHERE t.deleted_at IS NOT NULL LIMIT 2000) AS gone"
        " WHERE b.tenant = gone.tenant AND b.seq = gone.seq",
    [PG_PURGE_COMMON] = "WITH gone AS (SELECT id FROM laplaced.tenant WHERE deleted_at IS NOT NULL), rates AS (DELETE"
                        " FROM laplaced.rate USING gone WHERE rate.tenant = gone.id), holders AS (DELETE"
                        " FROM laplaced.holder USING gone WHERE holder.tenant = gone.id), books AS (DELETE"
                        " FROM laplaced.book USING gone WHERE book.tenant = gone.id)"
                        " DELETE FROM laplaced.key USING gone WHERE key.tenant = gone.id",
    [PG_COMMON] = "SELECT revision, (SELECT count(*) FROM laplaced.node WHERE seen_at > " NOW " - 15000)"
                  " FROM laplaced.common",
    [PG_COMMON_LOCK] = "SELECT revision FROM laplaced.common WHERE id = 1 FOR UPDATE",
    [PG_REVISE] = "UPDATE laplaced.common SET revision = revision + 1 WHERE id = 1",
    [PG_KEYS] =
        "SELECT c.revision, k.id, k.tenant, k.name, k.roles, k.hash, k.label, k.created_at, k.expires_at, k.tenants"
        " FROM laplaced.common AS c LEFT JOIN (SELECT key.*, t.name FROM laplaced.key LEFT JOIN laplaced.tenant"
        " AS t ON t.id = key.tenant WHERE key.tenant IS NULL OR t.deleted_at IS NULL) AS k ON true",
    [PG_KEY_ADD] =
        "INSERT INTO laplaced.key (id, tenant, roles, hash, label, created_at, expires_at, tenants) SELECT $1::text,"
        " (SELECT id " THERE "), $3::bigint, $4::bytea, $5::text, $6::bigint, $7::bigint, $8::text"
        " WHERE $2::text IS NULL OR EXISTS (SELECT 1 " THERE ")",
    [PG_KEY_REMOVE] = "DELETE FROM laplaced.key WHERE id = $1::text",
    [PG_RATES] = "SELECT t.name, r.rate, r.burst FROM laplaced.rate AS r JOIN laplaced.tenant AS t ON t.id = r.tenant"
                 " WHERE t.deleted_at IS NULL",
    /* Both wait for the tenant's row: who exchanges it has the row, and hands the rate on. */
    [PG_RATE_SET] = NOTED "INSERT INTO laplaced.rate (tenant, rate, burst) SELECT id, $2::float8, $3::float8"
                          " FROM laplaced.tenant WHERE id = $1::bigint AND deleted_at IS NULL FOR SHARE"
                          " ON CONFLICT (tenant) DO UPDATE SET rate = excluded.rate, burst = excluded.burst",
    [PG_RATE_CLEAR] =
        NOTED ", cleared AS (DELETE FROM laplaced.rate WHERE tenant = $1::bigint)"
              " UPDATE laplaced.tenant SET deleted_at = NULL WHERE id = $1::bigint AND deleted_at IS NULL",
    [PG_HOLD] = "INSERT INTO laplaced.holder (tenant, node, seen_at, view) VALUES ($1::bigint, $2::text, " NOW
                ", $3::text) ON CONFLICT (tenant) DO UPDATE SET node = excluded.node, seen_at = excluded.seen_at,"
                " view = coalesce(excluded.view, holder.view)"
                " WHERE holder.node = excluded.node OR holder.seen_at < excluded.seen_at - 10000",
    [PG_HELD] = "SELECT node, view FROM laplaced.holder WHERE tenant = $1::bigint",
};

/* --- values ----------------------------------------------------------------------------------------------- */

void ld_pg_add_bytes(struct pg_args *a, const void *bytes, size_t n)
{
    a->value[a->n] = bytes;
    a->bytes[a->n++] = (int)n;
}

void ld_pg_add_text(struct pg_args *a, const char *text)
{
    ld_pg_add_bytes(a, text, strlen(text));
}

void ld_pg_add_null(struct pg_args *a)
{
    a->value[a->n] = NULL;
    a->bytes[a->n++] = 0;
}

/* PostgreSQL's binary numbers are big-endian. */
void ld_pg_add_int(struct pg_args *a, int64_t value)
{
    unsigned char *out = a->number[a->n];

    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)value >> (56 - 8 * i));
    ld_pg_add_bytes(a, out, 8);
}

/* As the bits of one. */
void ld_pg_add_double(struct pg_args *a, double value)
{
    int64_t bits;

    memcpy(&bits, &value, sizeof bits);
    ld_pg_add_int(a, bits);
}

/* Of 2, 4 or 8 bytes, whatever the column has; 0 where it is NULL. */
int64_t ld_pg_int(const PGresult *r, int row, int column)
{
    const unsigned char *in = (const unsigned char *)PQgetvalue(r, row, column);
    const int n = PQgetlength(r, row, column);
    uint64_t value = n > 0 && (in[0] & 0x80) != 0 ? UINT64_MAX : 0;

    for (int i = 0; i < n && i < 8; i++)
        value = value << 8 | in[i];
    return (int64_t)value;
}

double ld_pg_double(const PGresult *r, int row, int column)
{
    const int64_t bits = ld_pg_int(r, row, column);
    double value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

bool ld_pg_is(const PGresult *r, ExecStatusType status)
{
    return r != NULL && PQresultStatus(r) == status;
}

const char *ld_pg_state(const PGresult *r)
{
    const char *state = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;

    return state != NULL ? state : "";
}

int ld_pg_say(struct ld_message *why, const char *before, const char *text)
{
    return ld_fail(why, "%s%.*s", before, (int)strcspn(text, "\n"), text);
}

/* --- waits ------------------------------------------------------------------------------------------------ */

static void break_off(struct pg_conn *c)
{
    if (!c->is_broken)
        (void)ld_pg_say(&c->why, "", PQerrorMessage(c->pg));
    c->is_broken = true;
}

/* Until the socket has something to read, or to write where is_writing. While bytes move the deadline does: a body of
 * many megabytes takes its time, and PostgreSQL is not silent meanwhile. */
static bool wait_socket(struct pg_conn *c, bool is_writing, int64_t deadline)
{
    struct pollfd fd = {.fd = PQsocket(c->pg), .events = (short)(POLLIN | (is_writing ? POLLOUT : 0))};
    const int64_t until = c->moved_us + c->wait_us > deadline ? c->moved_us + c->wait_us : deadline;
    const int64_t left = until - ld_monotonic_us();
    const int n = left > 0 ? poll(&fd, 1, (int)(left / 1000 + 1)) : 0;

    if (n == 0) {
        (void)ld_fail(&c->why, "PostgreSQL has not answered in time");
        c->is_broken = true;
    }
    if (n > 0)
        c->moved_us = ld_monotonic_us();
    return n != 0;
}

/* Until a result is there. PQgetResult does not block on a connection that is gone: it says so. */
static bool wait_result(struct pg_conn *c, int64_t deadline)
{
    while (!c->is_broken) {
        const int unsent = PQflush(c->pg);
        if ((unsent <= 0 && PQisBusy(c->pg) == 0) || PQstatus(c->pg) != CONNECTION_OK)
            return true;
        if (!wait_socket(c, unsent > 0, deadline))
            return false;
        if (PQconsumeInput(c->pg) == 0)
            return true;
    }
    return false;
}

void ld_pg_look(struct pg_conn *c)
{
    struct pollfd fd = {.fd = PQsocket(c->pg), .events = POLLIN};

    while (!c->is_broken && (PQstatus(c->pg) != CONNECTION_OK || poll(&fd, 1, 0) > 0))
        if (PQconsumeInput(c->pg) == 0 || PQstatus(c->pg) != CONNECTION_OK)
            break_off(c);
}

/* --- statements ------------------------------------------------------------------------------------------- */

static void name_of(enum pg_statement s, char name[16])
{
    (void)snprintf(name, 16, "s%d", (int)s);
}

void ld_pg_send(struct pg_conn *c, enum pg_statement s, const struct pg_args *args)
{
    static const int binary[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    char name[16];

    if (c->is_broken)
        return;
    name_of(s, name);
    if (PQsendQueryPrepared(c->pg, name, args != NULL ? args->n : 0, args != NULL ? args->value : NULL,
                            args != NULL ? args->bytes : NULL, binary, 1) == 0)
        break_off(c);
}

void ld_pg_sync(struct pg_conn *c)
{
    c->moved_us = -c->wait_us;
    if (!c->is_broken && PQpipelineSync(c->pg) == 0)
        break_off(c);
}

/* A result that libpq made itself, of a connection that is gone, is none. */
PGresult *ld_pg_next(struct pg_conn *c, int64_t deadline)
{
    PGresult *r = NULL;

    if (!wait_result(c, deadline))
        return NULL;
    r = PQgetResult(c->pg);
    if (r == NULL || (ld_pg_is(r, PGRES_FATAL_ERROR) && ld_pg_state(r)[0] == '\0')) {
        break_off(c);
        PQclear(r);
        return NULL;
    }
    if (PQstatus(c->pg) == CONNECTION_OK && !ld_pg_is(r, PGRES_PIPELINE_SYNC) && wait_result(c, deadline))
        PQclear(PQgetResult(c->pg)); /* the NULL behind it */
    return r;
}

void ld_pg_skip(struct pg_conn *c, int64_t deadline)
{
    while (!c->is_broken) {
        PGresult *r = ld_pg_next(c, deadline);
        const bool is_end = ld_pg_is(r, PGRES_PIPELINE_SYNC);
        PQclear(r);
        if (is_end)
            return;
    }
}

bool ld_pg_end(struct pg_conn *c, int64_t deadline)
{
    PGresult *r = ld_pg_next(c, deadline);
    const bool is_end = ld_pg_is(r, PGRES_PIPELINE_SYNC);

    PQclear(r);
    if (!is_end)
        break_off(c);
    return is_end;
}

PGresult *ld_pg_ask(struct pg_conn *c, enum pg_statement s, const struct pg_args *args, int64_t deadline)
{
    PGresult *r = NULL;

    ld_pg_send(c, s, args);
    ld_pg_sync(c);
    r = ld_pg_next(c, deadline);
    if (r != NULL)
        (void)ld_pg_end(c, deadline);
    return r;
}

void ld_pg_rollback(struct pg_conn *c, int64_t deadline)
{
    if (!c->is_broken && PQtransactionStatus(c->pg) != PQTRANS_IDLE)
        PQclear(ld_pg_ask(c, PG_ROLLBACK, NULL, deadline));
    if (!c->is_broken && PQtransactionStatus(c->pg) != PQTRANS_IDLE)
        break_off(c);
}

/* --- connecting ------------------------------------------------------------------------------------------- */

/* A notice of less weight is none of ours; a warning may say that a commit is not where it should be. */
static void on_notice(void *arg, const PGresult *r)
{
    struct pg_conn *c = arg;
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);

    if (severity == NULL || strcmp(severity, "WARNING") != 0)
        return;
    c->is_warned = true;
    (void)ld_pg_say(&c->why, "PostgreSQL warns: ", text != NULL ? text : "");
}

/* What a URL says itself counts, but for the coding of texts. libpq takes an empty value for none. */
static PGconn *dial(const struct ld_pg_config *config, unsigned first)
{
    char name[128];
    struct pg_hosts hosts;
    PGconn *pg = NULL;

    (void)snprintf(name, sizeof name, "laplaced %s", config->node);
    ld_pg_hosts(&hosts, config->url, first);
    const char *const pairs[][2] = {{"target_session_attrs", "read-write"},
                                    {"connect_timeout", "2"},
                                    {"application_name", name},
                                    {"dbname", config->url},
                                    {"client_encoding", "UTF8"},
                                    {"host", hosts.list[PG_HOST]},
                                    {"hostaddr", hosts.list[PG_HOSTADDR]},
                                    {"port", hosts.list[PG_PORT]}};
    enum { N = sizeof pairs / sizeof *pairs };
    const char *keys[N + 1] = {NULL}, *values[N + 1] = {NULL};
    for (int i = 0, n = 0; i < N; i++)
        if (pairs[i][1] != NULL) {
            keys[n] = pairs[i][0];
            values[n++] = pairs[i][1];
        }
    pg = PQconnectdbParams(keys, values, 1);
    ld_pg_hosts_free(&hosts);
    return pg;
}

/* A server that is gone leaves its row after two seconds, or after eleven where it goes in the middle of a long body.
 * Nothing but a lock is waited for so long as a call may wait; a wait for a standby is none of PostgreSQL's time-outs.
 */
static bool set_up(struct pg_conn *c, const struct ld_pg_config *config, int64_t deadline)
{
    static const char sql[] =
        "SELECT set_config('synchronous_commit', 'on', false),"
        " set_config('idle_in_transaction_session_timeout', '2000', false),"
        " set_config('statement_timeout', '0', false), set_config('lock_timeout', $1, false),"
        " set_config('tcp_keepalives_idle', '5', false), set_config('tcp_keepalives_interval', '2', false),"
        " set_config('tcp_keepalives_count', '3', false),"
        " set_config('default_transaction_isolation', 'read committed', false)";
    char wait[16];
    const char *const values[] = {wait};
    PGresult *r = NULL;
    bool is_set = false;

    (void)snprintf(wait, sizeof wait, "%d", config->wait_ms);
    if (PQsetnonblocking(c->pg, 1) != 0 || PQenterPipelineMode(c->pg) != 1 ||
        PQsendQueryParams(c->pg, sql, 1, NULL, values, NULL, NULL, 0) != 1)
        return false;
    ld_pg_sync(c);
    r = ld_pg_next(c, deadline);
    is_set = ld_pg_is(r, PGRES_TUPLES_OK);
    PQclear(r);
    return ld_pg_end(c, deadline) && is_set;
}

/* A schema, a table or a column that is not there, or may not be used. */
static bool is_missing(const PGresult *r)
{
    return strncmp(ld_pg_state(r), "3F", 2) == 0 || strncmp(ld_pg_state(r), "42", 2) == 0;
}

/* Of tables that have not what this program asks for: why it was refused says more where they are older. */
static void say_version(struct pg_conn *c, int64_t deadline)
{
    PGresult *r = NULL;

    if (PQsendQueryParams(c->pg, "SELECT max(number) FROM laplaced.version", 0, NULL, NULL, NULL, NULL, 0) != 1)
        return;
    ld_pg_sync(c);
    r = ld_pg_next(c, deadline);
    if (ld_pg_is(r, PGRES_TUPLES_OK) && PQntuples(r) == 1 && atoi(PQgetvalue(r, 0, 0)) < ld_pg_schema_version())
        (void)ld_fail(&c->why,
                      "the shared log's tables have version %s, this program knows %d: run its laplacectl cluster init"
                      " (docs/UPGRADE.md tells when all servers are to be ended before)",
                      PQgetvalue(r, 0, 0), ld_pg_schema_version());
    PQclear(r);
}

/* One round trip. The first statement that is refused tells why. */
static bool prepare(struct pg_conn *c, int64_t deadline, bool *is_bare)
{
    char name[16];

    for (int s = 0; s < PG_N && !c->is_broken; s++) {
        name_of((enum pg_statement)s, name);
        if (PQsendPrepare(c->pg, name, sql_of[s], 0, NULL) == 0)
            break_off(c);
    }
    ld_pg_sync(c);
    bool is_refused = false;
    for (int s = 0; s < PG_N; s++) {
        PGresult *r = ld_pg_next(c, deadline);
        if (!c->is_broken && !is_refused && !ld_pg_is(r, PGRES_COMMAND_OK)) {
            *is_bare = is_missing(r);
            is_refused = true;
            (void)ld_pg_say(
                &c->why, *is_bare ? "the database has not the tables of a shared log (laplacectl cluster init): " : "",
                PQresultErrorMessage(r));
        }
        PQclear(r);
    }
    const bool is_over = ld_pg_end(c, deadline);
    if (*is_bare && is_over)
        say_version(c, deadline);
    return is_over && !is_refused;
}

struct pg_conn *ld_pg_connect(const struct ld_pg_config *config, unsigned first, int64_t deadline, bool *is_bare,
                              struct ld_message *why)
{
    struct pg_conn *c = calloc(1, sizeof *c);

    *is_bare = false;
    if (c == NULL) {
        (void)ld_fail(why, "out of memory");
        return NULL;
    }
    c->wait_us = config->wait_ms * (int64_t)1000;
    c->pg = dial(config, first);
    if (PQstatus(c->pg) != CONNECTION_OK) {
        break_off(c);
    } else {
        (void)PQsetNoticeReceiver(c->pg, on_notice, c);
        if (set_up(c, config, deadline) && prepare(c, deadline, is_bare))
            return c;
    }
    *why = c->why;
    ld_pg_close(c);
    return NULL;
}

void ld_pg_close(struct pg_conn *c)
{
    if (c == NULL)
        return;
    PQfinish(c->pg);
    free(c);
}
