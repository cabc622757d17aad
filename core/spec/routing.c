/* Names of routes, and the holdout's hash (routing.h).
 *
 * FNV-1a over salt and user, each behind its length (hash.h), is spread over all bits by the mixing of rng.h: users
 * whose names differ in one digit fall apart, and the stream's number keeps the place apart from every other draw. */
#include "spec/routing.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"

static const char *const names[] = {
#define KB_ROUTE_TEXT(name, text) text,
    KB_ROUTE_MAP(KB_ROUTE_TEXT)
#undef KB_ROUTE_TEXT
};

const char *kb_route_name(int route)
{
    return route >= 0 && route < KB_ROUTE_N ? names[route] : NULL;
}

int kb_route_from_name(const char *name)
{
    for (int i = 0; i < KB_ROUTE_N; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

double kb_holdout_place(const char *salt, const char *user)
{
    return kb_rng_uniform(kb_hash_str(kb_hash_str(KB_HASH_INIT, salt), user), KB_STREAM_HOLDOUT, 0);
}
