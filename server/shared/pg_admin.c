/* What an operator does to a shared log in PostgreSQL (laplacectl cluster): see pg_log.h. */
#include <stdio.h>
#include <string.h>

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

int ld_pg_init(const char *url, bool *is_new, struct ld_message *why)
{
    char found[32] = "";
    PGconn *pg = reach(url, why);
    bool is_done = pg != NULL && ask(pg, "SELECT to_regclass('laplaced.version')", found, sizeof found, why);

    *is_new = is_done && found[0] == '\0';
    if (*is_new)
        is_done = ask(pg, "BEGIN", NULL, 0, why) && ask(pg, ld_embed_shared_0001_sql, NULL, 0, why) &&
                  ask(pg, "COMMIT", NULL, 0, why);
    else if (is_done)
        is_done = ask(pg, "SELECT max(number) FROM laplaced.version", found, sizeof found, why);
    PQfinish(pg);
    if (!*is_new && is_done && strcmp(found, "1") != 0)
        return ld_fail(why, "the tables of the shared log have version %s, this program knows 1", found);
    return is_done ? 0 : -1;
}
