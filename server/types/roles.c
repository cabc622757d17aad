/* Names of roles: the one place that knows how a bit is spelled. */
#include "types/roles.h"

#include <string.h>

static const char *const names[LD_N_ROLES] = {"decide", "read", "manage", "metrics", "admin"};

const char *ld_role_name(size_t i)
{
    return names[i];
}

/* Case counts, as in every other name of the contract. */
unsigned ld_role_from_name(const char *name)
{
    for (size_t i = 0; i < LD_N_ROLES; i++)
        if (strcmp(names[i], name) == 0)
            return 1u << i;
    return 0;
}
