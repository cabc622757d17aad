/* A shared log that PostgreSQL keeps: the tables of schema/shared_*.sql, made by `laplacectl cluster init`.
 *
 * A turn is a transaction that has the tenant's row locked. PostgreSQL gives the row to whoever has waited longest, and
 * takes it away from a server that has said nothing for two seconds.
 *
 * A batch is acknowledged when its COMMIT has returned without a warning, under synchronous_commit = on, on a primary
 * that has a synchronous standby: then it is on two disks. (A commit that was cancelled while it waited for the standby
 * looks like a success with a warning.) is_trusted leaves the standby to whoever runs the database.
 *
 * Nothing is ever cancelled. A connection that does not answer in time is dropped; what it had begun is UNKNOWN, and is
 * asked for by `settle`, which has the tenant's row locked meanwhile, so that nothing is under way any more. */
#ifndef LD_PG_LOG_H
#define LD_PG_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"
#include "shared/shared_log.h"

struct ld_pg_config {
    const char *url;  /* postgresql://..., or words such as "host=/run/postgresql dbname=log" */
    const char *node; /* this server's name: no other server's */
    int wait_ms;      /* how long a call may wait */
    bool is_trusted;  /* --log-sync=trusted: the primary's standbys and settings are not looked at */
    bool is_reader;   /* it is no server: nothing is written, of itself either; so what it reads may be on one disk */
};

/* Whether the address can be read, and has no password: it is printed, and seen by whoever lists processes. 0, or -1
 * with why. */
int ld_pg_check_url(const char *url, struct ld_message *why);

/* 0, or -1 with why: the address cannot be read, or the database answers and is not fit to be used. One that does not
 * answer is no failure: health tells it, and it is asked again and again. Ended by ops->close. */
int ld_pg_log_open(struct ld_shared_log **out, const struct ld_pg_config *config, struct ld_message *why);

/* Makes the tables, where there are none: *is_new tells; brings those of an older version up. 0, or -1 with why. */
int ld_pg_init(const char *url, bool *is_new, struct ld_message *why);

/* Lets servers write lines of the newest version that this program knows (ld_log_version): *version tells which that is
 * now. 0, or -1 with why: a server that does not know it was heard of lately. */
int ld_pg_upgrade(const char *url, unsigned *version, struct ld_message *why);

/* The shared log as an operator wants to see it. Texts are cut to their field. */
struct ld_pg_standby {
    char name[64], state[32], sync[32]; /* as pg_stat_replication has them; "" where the role may not see them */
    int64_t behind;                     /* bytes that it has not on its disk yet; -1: not known */
};
struct ld_pg_node {
    char name[64], version[32];
    int64_t silent_ms;    /* since it was seen */
    unsigned log_version; /* of lines, that it knows */
};
struct ld_pg_tenant {
    char name[64];
    struct ld_shared_tenant at;
};
struct ld_pg_view {
    char host[256], port[32];
    int version;          /* PostgreSQL's: 150020 is 15.20 */
    unsigned log_version; /* of lines that may be written */
    struct ld_shared_health health;
    struct ld_pg_standby *standbys;
    struct ld_pg_node *nodes;
    struct ld_pg_tenant *tenants;
    size_t n_standbys, n_nodes, n_tenants;
};

/* Asks without writing anything. 0 with *out, or -1 with why. */
int ld_pg_look_at(struct ld_pg_view **out, const char *url, bool is_trusted, struct ld_message *why);
void ld_pg_view_free(struct ld_pg_view *v);

#endif
