/* A key that the API made, as the registry file has it. */
#ifndef LD_KEY_H
#define LD_KEY_H

#include <stdint.h>

#include "base/secret.h"
#include "types/roles.h"

#define LD_KEY_LABEL_BYTES 65

struct ld_key {
    char id[LD_KEY_ID_BYTES];
    char tenant[65];                  /* "": the server's own */
    char patterns[LD_PATTERNS_BYTES]; /* of the server's own: the tenants that it spans; "": it is none that decides */
    unsigned roles;                   /* bits of enum ld_role */
    unsigned char hash[LD_KEY_HASH_BYTES];
    char label[LD_KEY_LABEL_BYTES];               /* "": none */
    int64_t created_at, expires_at, last_used_at; /* ms since 1970; 0: never */
};

#endif
