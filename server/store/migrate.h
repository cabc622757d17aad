/* Numbered migrations of schema/, applied by user_version inside one transaction each. */
#ifndef LD_MIGRATE_H
#define LD_MIGRATE_H

#include <stdint.h>

#include "base/message.h"

struct sqlite3;

struct ld_migration {
    int version; /* user_version after it: 1, 2, ... */
    const char *sql;
};

/* Brings db to the last version. `application_id` is set with the first. 0 or an LD_STORE_* code, why filled. */
int ld_migrate(struct sqlite3 *db, const struct ld_migration *list, int n, uint32_t application_id,
               struct ld_message *why);

/* Looks at the file's first 100 bytes without opening it as a database: 0 fine or absent (*exists), or
 * LD_STORE_FOREIGN / LD_STORE_NEWER / LD_STORE_CORRUPT with why. Touches nothing. */
int ld_migrate_inspect(const char *path, int last_version, uint32_t application_id, int *exists,
                       struct ld_message *why);

#endif
