/* Keys as JSON: the body of POST .../keys, and what is shown of them. */
#ifndef LD_JSON_KEYS_H
#define LD_JSON_KEYS_H

#include "json/json_in.h"
#include "types/key.h"
#include "types/roles.h"

/* Roles, label and expiry, for a tenant's key or one of the server's own (whose roles are admin when left out). 0, or
 * -1 with *p. */
int ld_decode_key(struct ld_doc *doc, bool is_tenants, int64_t now_ms, struct ld_key *out, struct ld_problem *p);

/* text: the key itself, NULL to show what may be shown twice. malloc'd; NULL on no memory. */
char *ld_encode_key(const struct ld_key *key, const char *text, size_t *n);
char *ld_encode_keys(const struct ld_key *key, size_t n_keys, size_t *n);

#endif
