/* The connections of a shared log in PostgreSQL, and whether it may be used: see pg_log_impl.h.
 *
 * What a primary shows is not always what it has promised: after a crash it shows commits that no standby has. So a
 * connection writes something before it reads anything (PG_BEAT): once that commit has returned, a standby has
 * whatever stands before it in the primary's own log. Who is no server (is_reader) takes what it is shown. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "shared/pg_log_impl.h"

#define RETRY_US 50000

int64_t ld_pg_deadline(const struct pg_log *l)
{
    return ld_monotonic_us() + (l->config.wait_ms + 500) * (int64_t)1000;
}

/* --- health ----------------------------------------------------------------------------------------------- */

void ld_pg_note(struct pg_log *l, enum pg_fit fit, int n_standbys, const struct ld_message *why)
{
    const bool is_up = fit == PG_FIT;
    bool is_news = false;

    (void)pthread_mutex_lock(&l->lock);
    is_news = !l->is_known ? !is_up : l->health.is_up != is_up;
    if (!l->is_known || l->health.is_up != is_up)
        l->health.since_ms = ld_now_ms();
    l->is_known = true;
    l->is_unfit = fit == PG_UNFIT || fit == PG_ALIEN || fit == PG_NEWER;
    l->health.is_newer = fit == PG_NEWER;
    l->epoch += !is_up;
    l->first += !is_up;
    l->health.is_up = is_up;
    l->health.n_standbys = n_standbys;
    if (is_up)
        l->health.why.text[0] = '\0';
    else
        l->health.why = *why;
    (void)pthread_mutex_unlock(&l->lock);
    if (is_news && is_up)
        ld_log(LD_LOG_INFO, "the shared log can be written again");
    else if (is_news)
        ld_log(LD_LOG_WARN, "the shared log cannot be written: %s", why->text);
}

int ld_pg_is_newer(unsigned version, int rc, struct ld_message *why)
{
    return ld_fail_as(rc, why, "lines of the shared log may have version %u, this program knows %u: upgrade it",
                      version, ld_log_version());
}

/* `names` is read by everybody, the rows of standbys by roles that may read statistics. */
enum pg_fit ld_pg_judge(bool is_trusted, const PGresult *r, int *n_standbys, struct ld_message *why)
{
    const char *const commit = PQgetvalue(r, 0, 0), *const names = PQgetvalue(r, 0, 3);
    const int n = (int)ld_pg_int(r, 0, 4);
    const bool is_hidden = ld_pg_int(r, 0, 5) > 0;
    const int64_t version = ld_pg_int(r, 0, 6), serves = ld_pg_int(r, 0, 7), lines = ld_pg_int(r, 0, 8);

    *n_standbys = is_hidden || is_trusted ? -1 : n;
    if (version < ld_pg_schema_version() || serves > ld_pg_schema_version())
        return (enum pg_fit)ld_fail_as(PG_ALIEN, why,
                                       "the shared log's tables have version %lld, this program knows %d",
                                       (long long)version, ld_pg_schema_version());
    if (lines > ld_log_version())
        return (enum pg_fit)ld_pg_is_newer((unsigned)lines, PG_NEWER, why);
    if (strcmp(commit, "on") != 0)
        return (enum pg_fit)ld_fail_as(PG_UNFIT, why, "synchronous_commit is %s, not on", commit);
    if (is_trusted)
        return PG_FIT;
    if (strcmp(PQgetvalue(r, 0, 1), "on") != 0 || strcmp(PQgetvalue(r, 0, 2), "on") != 0)
        return (enum pg_fit)ld_fail_as(PG_UNFIT, why, "the primary has fsync or full_page_writes off");
    if (names[0] == '\0')
        return (enum pg_fit)ld_fail_as(PG_UNFIT, why,
                                       "the primary has no synchronous standby (synchronous_standby_names is empty)");
    if (n == 0 && !is_hidden)
        return (enum pg_fit)ld_fail_as(PG_UNFIT, why, "no synchronous standby is connected to the primary");
    return PG_FIT;
}

/* A commit of its own; a warning says that no standby has it. */
static enum pg_fit beat(struct pg_log *l, struct pg_conn *c, int64_t deadline, struct ld_message *why)
{
    struct pg_args args = {0};
    PGresult *r = NULL;
    enum pg_fit fit = PG_FIT;

    ld_pg_add_text(&args, l->config.node);
    ld_pg_add_text(&args, LD_VERSION);
    ld_pg_add_int(&args, ld_log_version());
    c->is_warned = false;
    r = ld_pg_ask(c, PG_BEAT, &args, deadline);
    if (c->is_broken || c->is_warned)
        fit = (enum pg_fit)ld_fail_as(PG_AWAY, why, "%s", c->why.text);
    else if (!ld_pg_is(r, PGRES_COMMAND_OK))
        fit = (enum pg_fit)ld_fail_as(PG_AWAY, why, "%s", PQresultErrorMessage(r));
    PQclear(r);
    return fit;
}

enum pg_fit ld_pg_prove(struct pg_log *l, struct pg_conn *c, int64_t deadline, struct ld_message *why)
{
    PGresult *r = ld_pg_ask(c, PG_STATE, NULL, deadline);
    enum pg_fit fit = PG_AWAY;
    int n_standbys = -1;

    if (ld_pg_is(r, PGRES_TUPLES_OK))
        fit = ld_pg_judge(l->config.is_trusted, r, &n_standbys, why);
    else
        (void)ld_pg_say(why, "", r != NULL ? PQresultErrorMessage(r) : c->why.text);
    PQclear(r);
    if (fit == PG_FIT && !l->config.is_reader)
        fit = beat(l, c, deadline, why);
    ld_pg_note(l, fit, n_standbys, why);
    return fit;
}

bool ld_pg_is_synced(const struct pg_log *l, const PGresult *r)
{
    return l->config.is_trusted || (ld_pg_is(r, PGRES_TUPLES_OK) && ld_pg_int(r, 0, 0) == 1);
}

/* --- the pool --------------------------------------------------------------------------------------------- */

enum pg_fit ld_pg_try(struct pg_log *l, struct pg_conn **out, int64_t deadline, struct ld_message *why)
{
    unsigned first = 0, epoch = 0;
    bool is_bare = false;
    struct pg_conn *c = NULL;
    enum pg_fit fit = PG_AWAY;

    (void)pthread_mutex_lock(&l->lock);
    first = l->first;
    epoch = l->epoch;
    (void)pthread_mutex_unlock(&l->lock);
    c = ld_pg_connect(&l->config, first, deadline, &is_bare, why);
    fit = is_bare ? PG_ALIEN : PG_AWAY;
    *out = NULL;
    if (c == NULL)
        ld_pg_note(l, fit, -1, why);
    else if ((fit = ld_pg_prove(l, c, deadline, why)) == PG_FIT)
        *out = c;
    else
        ld_pg_close(c);
    if (*out != NULL)
        c->epoch = epoch;
    return fit;
}

/* One that waits to be used; those that are broken or of a log that was given up since are closed. */
static struct pg_conn *pop(struct pg_log *l)
{
    for (;;) {
        bool is_old = false;
        (void)pthread_mutex_lock(&l->lock);
        struct pg_conn *c = l->pool;
        if (c != NULL) {
            l->pool = c->next;
            is_old = c->epoch != l->epoch;
        }
        (void)pthread_mutex_unlock(&l->lock);
        if (c == NULL)
            return NULL;
        ld_pg_look(c);
        if (!c->is_broken && !is_old)
            return c;
        ld_pg_close(c);
    }
}

/* Whether asking now is of no use: the watch asks twice a second, and will tell. */
static bool is_hopeless(struct pg_log *l, struct ld_message *why)
{
    bool is_so = false;

    (void)pthread_mutex_lock(&l->lock);
    if (l->is_known && !l->health.is_up) {
        is_so = l->is_unfit || ld_now_ms() - l->health.since_ms > l->config.wait_ms;
        *why = l->health.why;
    }
    (void)pthread_mutex_unlock(&l->lock);
    return is_so;
}

enum ld_shared_rc ld_pg_why_none(struct pg_log *l)
{
    (void)pthread_mutex_lock(&l->lock);
    const bool is_newer = l->health.is_newer;
    (void)pthread_mutex_unlock(&l->lock);
    return is_newer ? LD_SHARED_NEWER : LD_SHARED_DOWN;
}

struct pg_conn *ld_pg_get(struct pg_log *l, int64_t deadline, struct ld_message *why)
{
    for (;;) {
        struct pg_conn *c = NULL;
        if (is_hopeless(l, why))
            return NULL;
        if ((c = pop(l)) != NULL || ld_pg_try(l, &c, deadline, why) == PG_FIT)
            return c;
        if (ld_monotonic_us() + RETRY_US >= deadline)
            return NULL;
        (void)usleep(RETRY_US);
    }
}

void ld_pg_drain(struct pg_log *l)
{
    (void)pthread_mutex_lock(&l->lock);
    struct pg_conn *c = l->pool;
    l->pool = NULL;
    (void)pthread_mutex_unlock(&l->lock);
    while (c != NULL) {
        struct pg_conn *next = c->next;
        ld_pg_close(c);
        c = next;
    }
}

/* What broke one has mostly broken all. */
void ld_pg_put(struct pg_log *l, struct pg_conn *c)
{
    if (c->is_broken || PQtransactionStatus(c->pg) != PQTRANS_IDLE) {
        ld_pg_close(c);
        ld_pg_drain(l);
        (void)pthread_mutex_lock(&l->lock);
        l->is_shaken = true;
        (void)pthread_mutex_unlock(&l->lock);
        return;
    }
    (void)pthread_mutex_lock(&l->lock);
    c->next = l->pool;
    l->pool = c;
    (void)pthread_mutex_unlock(&l->lock);
}
