/* A shared log in PostgreSQL: opening it, and its tenants. See pg_log.h; turns are in pg_turn.c and pg_append.c. */
#include "shared/pg_log.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shared/pg_log_impl.h"

enum ld_shared_rc ld_pg_down(struct pg_conn *c, const PGresult *r, struct ld_message *why)
{
    if (r == NULL || c->is_broken || c->is_warned)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, why, "%s", c->why.text);
    (void)ld_pg_say(why, "PostgreSQL: ", PQresultErrorMessage(r));
    return LD_SHARED_DOWN;
}

/* The connection is put back. */
PGresult *ld_pg_ask_rows(struct pg_log *l, enum pg_statement s, const struct pg_args *args, struct ld_message *why)
{
    const int64_t deadline = ld_pg_deadline(l);
    bool is_gone = true;

    while (is_gone && ld_monotonic_us() < deadline) {
        struct pg_conn *c = ld_pg_get(l, deadline, why);
        PGresult *r = NULL;
        if (c == NULL)
            return NULL;
        r = ld_pg_ask(c, s, args, deadline);
        if (!ld_pg_is(r, PGRES_TUPLES_OK)) {
            (void)ld_pg_down(c, r, why);
            PQclear(r);
            r = NULL;
        }
        is_gone = c->is_broken;
        ld_pg_put(l, c);
        if (r != NULL)
            return r;
    }
    return NULL;
}

enum ld_shared_rc ld_pg_ask_change(struct pg_log *l, enum pg_statement s, const struct pg_args *args, int *n,
                                   struct ld_message *why)
{
    const int64_t deadline = ld_pg_deadline(l);
    struct pg_conn *c = ld_pg_get(l, deadline, why);
    PGresult *r = NULL;
    enum ld_shared_rc rc = LD_SHARED_OK;

    if (c == NULL)
        return LD_SHARED_DOWN;
    c->is_warned = false;
    r = ld_pg_ask(c, s, args, deadline);
    if (ld_pg_is(r, PGRES_COMMAND_OK) && !c->is_warned && !c->is_broken)
        *n = atoi(PQcmdTuples(r));
    else
        rc = ld_pg_down(c, r, why);
    PQclear(r);
    ld_pg_put(l, c);
    return rc;
}

/* --- tenants ---------------------------------------------------------------------------------------------- */

void ld_pg_read_tenant(struct ld_shared_tenant *out, const PGresult *r, int row, int column)
{
    *out = (struct ld_shared_tenant){.id = (uint64_t)ld_pg_int(r, row, column),
                                     .tip.seq = (uint64_t)ld_pg_int(r, row, column + 1)};
    if (PQgetlength(r, row, column + 2) == (int)LD_CHAIN_BYTES)
        memcpy(out->tip.hash, PQgetvalue(r, row, column + 2), LD_CHAIN_BYTES);
    out->tip.generation = (uint64_t)ld_pg_int(r, row, column + 3);
    out->first = (uint64_t)ld_pg_int(r, row, column + 4);
    out->kept = (uint64_t)ld_pg_int(r, row, column + 5);
    out->rewritten = (uint64_t)ld_pg_int(r, row, column + 6);
}

static enum ld_shared_rc look_up(struct pg_log *l, const struct pg_args *name, struct ld_shared_tenant *out,
                                 struct ld_message *why)
{
    PGresult *r = ld_pg_ask_rows(l, PG_FIND, name, why);
    enum ld_shared_rc rc = r != NULL ? LD_SHARED_OK : LD_SHARED_DOWN;

    if (r != NULL && PQntuples(r) == 0)
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_NONE, why, "%s", ld_shared_say(LD_SHARED_NONE));
    if (rc == LD_SHARED_OK)
        ld_pg_read_tenant(out, r, 0, 0);
    PQclear(r);
    return rc;
}

static enum ld_shared_rc find(struct ld_shared_log *log, const char *name, bool is_made, struct ld_shared_tenant *out,
                              bool *is_new, struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    struct pg_args args = {0};
    enum ld_shared_rc rc = LD_SHARED_OK;
    int n = 0;

    ld_pg_add_text(&args, name);
    rc = look_up(l, &args, out, why);
    if (rc == LD_SHARED_NONE && is_made) {
        rc = ld_pg_ask_change(l, PG_MAKE, &args, &n, why);
        if (rc == LD_SHARED_OK)
            rc = look_up(l, &args, out, why);
    }
    if (is_new != NULL)
        *is_new = n == 1;
    return rc;
}

static enum ld_shared_rc drop(struct ld_shared_log *log, uint64_t id, struct ld_message *why)
{
    struct pg_args args = {0};
    int n = 0;
    enum ld_shared_rc rc = LD_SHARED_OK;

    ld_pg_add_int(&args, (int64_t)id);
    rc = ld_pg_ask_change((struct pg_log *)log, PG_DROP, &args, &n, why);
    if (rc != LD_SHARED_OK || n == 1)
        return rc;
    return (enum ld_shared_rc)ld_fail_as(LD_SHARED_NONE, why, "%s", ld_shared_say(LD_SHARED_NONE));
}

static enum ld_shared_rc tips(struct ld_shared_log *log,
                              void (*fn)(void *arg, const char *name, const struct ld_shared_tenant *t), void *arg,
                              uint64_t *generation, struct ld_message *why)
{
    PGresult *r = ld_pg_ask_rows((struct pg_log *)log, PG_TIPS, NULL, why);

    *generation = 0;
    if (r == NULL)
        return LD_SHARED_DOWN;
    for (int row = 0; row < PQntuples(r); row++) {
        struct ld_shared_tenant t;
        ld_pg_read_tenant(&t, r, row, 1);
        *generation = (uint64_t)ld_pg_int(r, row, 8);
        fn(arg, PQgetvalue(r, row, 0), &t);
    }
    PQclear(r);
    return LD_SHARED_OK;
}

static enum ld_shared_rc report(struct ld_shared_log *log, uint64_t generation, struct ld_message *why)
{
    struct pg_log *l = (struct pg_log *)log;
    struct pg_args args = {0};
    int n = 0;

    ld_pg_add_text(&args, l->config.node);
    ld_pg_add_int(&args, (int64_t)generation);
    return ld_pg_ask_change(l, PG_REPORT, &args, &n, why);
}

static enum ld_shared_rc laggards(struct ld_shared_log *log, uint64_t generation,
                                  void (*fn)(void *arg, const char *node), void *arg, struct ld_message *why)
{
    struct pg_args args = {0};

    ld_pg_add_int(&args, (int64_t)generation);
    PGresult *r = ld_pg_ask_rows((struct pg_log *)log, PG_LAGGARDS, &args, why);
    if (r == NULL)
        return LD_SHARED_DOWN;
    for (int row = 0; row < PQntuples(r); row++)
        fn(arg, PQgetvalue(r, row, 0));
    PQclear(r);
    return LD_SHARED_OK;
}

/* --- opening and closing ---------------------------------------------------------------------------------- */

static void health(struct ld_shared_log *log, struct ld_shared_health *out)
{
    struct pg_log *l = (struct pg_log *)log;

    (void)pthread_mutex_lock(&l->lock);
    *out = l->health;
    (void)pthread_mutex_unlock(&l->lock);
}

static void free_log(struct pg_log *l)
{
    ld_pg_drain(l);
    (void)pthread_cond_destroy(&l->wake);
    (void)pthread_mutex_destroy(&l->lock);
    free((char *)l->config.url);
    free((char *)l->config.node);
    free(l);
}

static void close_log(struct ld_shared_log *log)
{
    struct pg_log *l = (struct pg_log *)log;

    ld_pg_watch_stop(l);
    free_log(l);
}

static const struct ld_shared_ops pg_ops = {
    .find = find,
    .drop = drop,
    .take = ld_pg_take,
    .append = ld_pg_append,
    .rewrite = ld_pg_rewrite,
    .compact = ld_pg_compact,
    .books = ld_pg_books,
    .release = ld_pg_release,
    .version = ld_pg_version,
    .make = ld_pg_make,
    .put = ld_pg_put_batch,
    .exchange = ld_pg_exchange,
    .settle = ld_pg_settle,
    .read = ld_pg_read,
    .tips = tips,
    .report = report,
    .laggards = laggards,
    .common = ld_pg_common,
    .keys = ld_pg_keys,
    .change_key = ld_pg_change_key,
    .set_rate = ld_pg_set_rate,
    .rates = ld_pg_rates,
    .hold = ld_pg_hold,
    .held = ld_pg_held,
    .health = health,
    .close = close_log,
};

/* The threads wait by the clock that only goes forward. */
static struct pg_log *new_log(const struct ld_pg_config *config)
{
    struct pg_log *l = calloc(1, sizeof *l);
    pthread_condattr_t clock;

    if (l == NULL)
        return NULL;
    l->base.ops = &pg_ops;
    l->config = *config;
    l->config.url = strdup(config->url);
    l->config.node = strdup(config->node);
    l->health = (struct ld_shared_health){.n_standbys = -1, .since_ms = ld_now_ms()};
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&l->wake, &clock);
    (void)pthread_condattr_destroy(&clock);
    if (l->config.url != NULL && l->config.node != NULL)
        return l;
    free_log(l);
    return NULL;
}

static bool is_readable(const char *url, struct ld_message *why)
{
    char *said = NULL;
    PQconninfoOption *parts = PQconninfoParse(url, &said);

    if (parts == NULL)
        (void)ld_pg_say(why, "the address of the shared log cannot be read: ", said != NULL ? said : "");
    PQfreemem(said);
    PQconninfoFree(parts);
    return parts != NULL;
}

/* libpq knows what of it is a password, however it is written. */
int ld_pg_check_url(const char *url, struct ld_message *why)
{
    PQconninfoOption *parts;
    bool has_secret = false;

    if (!is_readable(url, why))
        return -1;
    parts = PQconninfoParse(url, NULL);
    for (const PQconninfoOption *part = parts; part != NULL && part->keyword != NULL; part++)
        has_secret |=
            part->val != NULL && (strcmp(part->keyword, "password") == 0 || strcmp(part->keyword, "sslpassword") == 0);
    PQconninfoFree(parts);
    return has_secret ? ld_fail(why, "a password is not to stand in an option: give it by PGPASSFILE or a service file")
                      : 0;
}

int ld_pg_log_open(struct ld_shared_log **out, const struct ld_pg_config *config, struct ld_message *why)
{
    struct pg_log *l = NULL;
    struct pg_conn *c = NULL;

    *out = NULL;
    if (!is_readable(config->url, why))
        return -1;
    l = new_log(config);
    if (l == NULL)
        return ld_fail(why, "out of memory");
    if (ld_pg_try(l, &c, ld_pg_deadline(l), why) == PG_ALIEN) {
        free_log(l);
        return -1;
    }
    if (c != NULL)
        ld_pg_put(l, c);
    if (ld_pg_watch_start(l) != 0) {
        free_log(l);
        return ld_fail(why, "cannot start a thread");
    }
    *out = &l->base;
    return 0;
}
