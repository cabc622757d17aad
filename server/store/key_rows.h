/* A key as the registry file has it, and the file's table of them (registry_keys.c). */
#ifndef LD_KEY_ROWS_H
#define LD_KEY_ROWS_H

#include <stdint.h>

#include "base/secret.h"
#include "store/store.h"

#define LD_KEY_LABEL_BYTES 65

struct ld_key {
    char id[LD_KEY_ID_BYTES];
    char tenant[65]; /* "": the server's own */
    unsigned roles;  /* bits of enum ld_role */
    unsigned char hash[LD_KEY_HASH_BYTES];
    char label[LD_KEY_LABEL_BYTES];               /* "": none */
    int64_t created_at, expires_at, last_used_at; /* ms since 1970; 0: never */
};

/* Durable when they return LD_STORE_OK; on failure nothing has changed. Thread safe. */

/* *is_added false: its tenant is not there. */
int ld_key_rows_add(struct ld_registry_file *r, const struct ld_key *key, bool *is_added);
int ld_key_rows_has_tenant(struct ld_registry_file *r, const char *tenant, bool *is_there);
int ld_key_rows_remove(struct ld_registry_file *r, const char *id);

/* When keys were last used: one transaction for all n. Of keys that are not there nothing is written. */
int ld_key_rows_used(struct ld_registry_file *r, const struct ld_key *key, size_t n);

/* fn for each key, until it returns non-zero, which is returned. It must not call back into the registry. */
int ld_key_rows_list(struct ld_registry_file *r, int (*fn)(void *arg, const struct ld_key *key), void *arg);

#endif
