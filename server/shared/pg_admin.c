/* What an operator does to a shared log in PostgreSQL (laplacectl cluster): see pg_log.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/embed.h"
#include "shared/pg_log_impl.h"

/* A plain connection, for one command. NULL with why. */
static PGconn *reach(const char *url, struct ld_message *why)
{
    const char *const keys[] = {"target_session_attrs", "connect_timeout", "fallback_application_name", "dbname", NULL};
    const char *const values[] = {"read-write", "5", "laplacectl", url, NULL};
    PGconn *pg = PQconnectdbParams(keys, values, 1);

    if (PQstatus(pg) == CONNECTION_OK)
        return pg;
    (void)ld_pg_say(why, "", PQerrorMessage(pg));
    PQfinish(pg);
    return NULL;
}

/* One value of a text, "" where there is none; false with why. */
static bool ask(PGconn *pg, const char *sql, char *out, size_t n, struct ld_message *why)
{
    PGresult *r = PQexec(pg, sql);
    const bool is_done = ld_pg_is(r, PGRES_TUPLES_OK) || ld_pg_is(r, PGRES_COMMAND_OK);

    if (!is_done)
        (void)ld_pg_say(why, "", PQresultErrorMessage(r));
    else if (out != NULL)
        (void)snprintf(out, n, "%s", PQntuples(r) > 0 ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    return is_done;
}

/* In order; the tables have as many versions as there are files. A new one is a new file in schema/ and a row here. */
static const char *const migrations[] = {ld_embed_shared_0001_sql, ld_embed_shared_0002_sql, ld_embed_shared_0003_sql,
                                         ld_embed_shared_0004_sql, ld_embed_shared_0005_sql};

int ld_pg_schema_version(void)
{
    return (int)(sizeof migrations / sizeof *migrations);
}

/* The file and its number, in one transaction: who comes meanwhile waits, and finds it done. */
static bool migrate(PGconn *pg, int version, struct ld_message *why)
{
    char number[96];

    (void)snprintf(number, sizeof number,
                   "INSERT INTO laplaced.version (number) VALUES (%d) ON CONFLICT (number) DO NOTHING", version);
    return ask(pg, "BEGIN", NULL, 0, why) && ask(pg, migrations[version - 1], NULL, 0, why) &&
           ask(pg, number, NULL, 0, why) && ask(pg, "COMMIT", NULL, 0, why);
}

/* The version that the tables have, 0: there are none. -1 with why. */
static int find_version(PGconn *pg, struct ld_message *why)
{
    char found[32] = "";

    if (!ask(pg, "SELECT to_regclass('laplaced.version')", found, sizeof found, why))
        return -1;
    if (found[0] == '\0')
        return 0;
    return ask(pg, "SELECT max(number) FROM laplaced.version", found, sizeof found, why) ? atoi(found) : -1;
}

/* --- lines ------------------------------------------------------------------------------------------------ */

static bool raise_to(PGconn *pg, unsigned version, struct ld_message *why)
{
    char sql[96];

    (void)snprintf(sql, sizeof sql, "UPDATE laplaced.common SET log_version = %u WHERE log_version < %u", version,
                   version);
    return ask(pg, sql, NULL, 0, why);
}

/* Servers that were heard of lately and would have to keep away; "": there is none. False with why. */
static bool find_older(PGconn *pg, unsigned version, char *names, size_t n, struct ld_message *why)
{
    char sql[256];

    (void)snprintf(sql, sizeof sql,
                   "SELECT coalesce(string_agg(name, ', ' ORDER BY name), '') FROM laplaced.node WHERE log_version < %u"
                   " AND seen_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - 15000",
                   version);
    return ask(pg, sql, names, n, why);
}

int ld_pg_upgrade(const char *url, unsigned *version, struct ld_message *why)
{
    const unsigned known = ld_log_version();
    PGconn *pg = reach(url, why);
    char older[256] = "", now[32] = "0";
    bool is_done = pg != NULL && find_older(pg, known, older, sizeof older, why);

    if (is_done && older[0] != '\0')
        is_done = ld_fail(why, "servers that do not know version %u of the lines are there: %s", known, older) == 0;
    is_done =
        is_done && raise_to(pg, known, why) && ask(pg, "SELECT log_version FROM laplaced.common", now, sizeof now, why);
    PQfinish(pg);
    *version = (unsigned)atoi(now);
    return is_done ? 0 : -1;
}

/* --- tables ----------------------------------------------------------------------------------------------- */

int ld_pg_init(const char *url, bool *is_new, struct ld_message *why)
{
    const int known = ld_pg_schema_version();
    PGconn *pg = reach(url, why);
    int version = pg != NULL ? find_version(pg, why) : -1;

    *is_new = version == 0;
    const bool is_made = version == 0;
    if (version > known)
        version = ld_fail(why, "the tables of the shared log have version %d, this program knows %d", version, known);
    while (version >= 0 && version < known)
        version = migrate(pg, version + 1, why) ? version + 1 : -1;
    if (is_made && version == known && !raise_to(pg, ld_log_version(), why))
        version = -1; /* nobody is there who would not know it */
    PQfinish(pg);
    return version == known ? 0 : -1;
}

/* --- status ----------------------------------------------------------------------------------------------- */

static void read_text(char *out, size_t bytes, const PGresult *r, int row, int column)
{
    (void)snprintf(out, bytes, "%s", PQgetvalue(r, row, column));
}

static void read_standby(void *out, const PGresult *r, int row)
{
    struct ld_pg_standby *s = out;

    read_text(s->name, sizeof s->name, r, row, 0);
    read_text(s->state, sizeof s->state, r, row, 1);
    read_text(s->sync, sizeof s->sync, r, row, 2);
    s->behind = ld_pg_int(r, row, 3);
}

static void read_node(void *out, const PGresult *r, int row)
{
    struct ld_pg_node *n = out;

    read_text(n->name, sizeof n->name, r, row, 0);
    read_text(n->version, sizeof n->version, r, row, 1);
    n->silent_ms = ld_pg_int(r, row, 2);
    n->log_version = (unsigned)ld_pg_int(r, row, 3);
}

static void read_tenant(void *out, const PGresult *r, int row)
{
    struct ld_pg_tenant *t = out;

    read_text(t->name, sizeof t->name, r, row, 0);
    ld_pg_read_tenant(&t->at, r, row, 1);
}

/* The rows of a statement, each of `bytes` bytes. NULL with why; free() ends them. */
static void *list(struct pg_conn *c, enum pg_statement s, size_t bytes, void (*read)(void *, const PGresult *, int),
                  size_t *n, int64_t deadline, struct ld_message *why)
{
    PGresult *r = ld_pg_ask(c, s, NULL, deadline);
    char *rows = NULL;

    if (ld_pg_is(r, PGRES_TUPLES_OK)) {
        *n = (size_t)PQntuples(r);
        rows = calloc(*n + 1, bytes);
        for (size_t i = 0; rows != NULL && i < *n; i++)
            read(rows + i * bytes, r, (int)i);
    }
    if (rows == NULL)
        (void)ld_pg_say(why, "", r != NULL ? PQresultErrorMessage(r) : c->why.text);
    PQclear(r);
    return rows;
}

static bool look_at(struct ld_pg_view *v, struct pg_conn *c, bool is_trusted, int64_t deadline, struct ld_message *why)
{
    PGresult *r = ld_pg_ask(c, PG_STATE, NULL, deadline);
    const bool is_there = ld_pg_is(r, PGRES_TUPLES_OK);

    (void)snprintf(v->host, sizeof v->host, "%s", PQhost(c->pg));
    (void)snprintf(v->port, sizeof v->port, "%s", PQport(c->pg));
    v->version = PQserverVersion(c->pg);
    v->health.since_ms = ld_now_ms();
    if (is_there) {
        v->health.is_up = ld_pg_judge(is_trusted, r, &v->health.n_standbys, &v->health.why) == PG_FIT;
        v->log_version = (unsigned)ld_pg_int(r, 0, 8);
    } else
        (void)ld_pg_say(why, "", r != NULL ? PQresultErrorMessage(r) : c->why.text);
    PQclear(r);
    return is_there &&
           (v->standbys = list(c, PG_STANDBYS, sizeof *v->standbys, read_standby, &v->n_standbys, deadline, why)) &&
           (v->nodes = list(c, PG_NODES, sizeof *v->nodes, read_node, &v->n_nodes, deadline, why)) &&
           (v->tenants = list(c, PG_TIPS, sizeof *v->tenants, read_tenant, &v->n_tenants, deadline, why));
}

int ld_pg_look_at(struct ld_pg_view **out, const char *url, bool is_trusted, struct ld_message *why)
{
    const struct ld_pg_config config = {.url = url, .node = "laplacectl", .wait_ms = 5000, .is_trusted = is_trusted};
    const int64_t deadline = ld_monotonic_us() + config.wait_ms * (int64_t)1000;
    bool is_bare = false, is_done = false;
    struct pg_conn *c = ld_pg_connect(&config, 0, deadline, &is_bare, why);

    *out = c != NULL ? calloc(1, sizeof **out) : NULL;
    if (*out != NULL)
        is_done = look_at(*out, c, is_trusted, deadline, why);
    else if (c != NULL)
        (void)ld_fail(why, "out of memory");
    ld_pg_close(c);
    if (is_done)
        return 0;
    ld_pg_view_free(*out);
    *out = NULL;
    return -1;
}

void ld_pg_view_free(struct ld_pg_view *v)
{
    if (v == NULL)
        return;
    free(v->standbys);
    free(v->nodes);
    free(v->tenants);
    free(v);
}
