/* The registry file's connection, for the two who use it: registry_file.c (tenants) and registry_keys.c (keys). */
#ifndef LD_REGISTRY_FILE_H
#define LD_REGISTRY_FILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/sqlite_util.h"

/* The connection is used under the lock by whichever thread comes. */
struct ld_registry_file {
    pthread_mutex_t lock;
    struct sqlite3 *db;
    char *path;
    struct ld_db_place place;
    atomic_bool is_failing; /* the last change was refused */
};

/* What came of a change, LD_STORE_*; returned as it is. */
int ld_registry_note(struct ld_registry_file *r, int status);

/* Runs one statement that gives no rows; bind sets its parameters, from what is valid until this returns. In
 * autocommit: what it changes is durable when it returns. *n_rows, unless NULL: how many rows were. LD_STORE_*, which
 * is noted. */
int ld_registry_change(struct ld_registry_file *r, const char *sql,
                       void (*bind)(struct sqlite3_stmt *stmt, const void *arg), const void *arg, int *n_rows);

#endif
