/* The registry file's table of keys (registry_keys.c). */
#ifndef LD_KEY_ROWS_H
#define LD_KEY_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"
#include "types/key.h"

struct ld_registry_file;

/* Durable when they return LD_STORE_OK; on failure nothing has changed. Thread safe. */

/* *is_added false: its tenant is not there. */
int ld_key_rows_add(struct ld_registry_file *r, const struct ld_key *key, bool *is_added);
int ld_key_rows_has_tenant(struct ld_registry_file *r, const char *tenant, bool *is_there);
int ld_key_rows_remove(struct ld_registry_file *r, const char *id);

/* Those n, in place of all that there are. One whose tenant is not there is left out. */
int ld_key_rows_replace(struct ld_registry_file *r, const struct ld_key *key, size_t n);

/* When keys were last used: one transaction for all n. Of keys that are not there nothing is written. */
int ld_key_rows_used(struct ld_registry_file *r, const struct ld_key *key, size_t n);

/* fn for each key, until it returns non-zero, which is returned. It must not call back into the registry. */
int ld_key_rows_list(struct ld_registry_file *r, int (*fn)(void *arg, const struct ld_key *key), void *arg);

#endif
