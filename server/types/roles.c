/* Names of roles: the one place that knows how a bit is spelled; and of which tenants a key is good for. */
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

/* Members one by one: the patterns are long, and there is a caller in each request. */
void ld_caller_set(struct ld_caller *caller, unsigned roles)
{
    caller->roles = roles;
    caller->tenant[0] = caller->patterns[0] = caller->key[0] = '\0';
}

/* Whether one of the patterns is the name, or a beginning of it with a star behind. O(length of the patterns). */
static bool is_named(const char *patterns, const char *name)
{
    const size_t length = strlen(name);
    for (size_t n; *patterns != '\0'; patterns += n + (patterns[n] == ',')) {
        n = strcspn(patterns, ",");
        const bool is_beginning = patterns[n - 1] == '*';
        const size_t fixed = n - is_beginning;
        if ((is_beginning ? length >= fixed : length == fixed) && memcmp(patterns, name, fixed) == 0)
            return true;
    }
    return false;
}

bool ld_caller_spans(const struct ld_caller *caller, const char *tenant)
{
    if (caller->tenant[0] != '\0')
        return strcmp(tenant, caller->tenant) == 0;
    return caller->patterns[0] == '\0' || tenant[0] == '\0' || is_named(caller->patterns, tenant);
}
