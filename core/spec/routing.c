/* The holdout's hash (routing.h).
 *
 * FNV-1a over salt and user, each behind its length (hash.h), is spread over all bits by the mixing of rng.h: users
 * whose names differ in one digit fall apart, and the stream's number keeps the place apart from every other draw. */
#include "spec/routing.h"

#include "base/hash.h"
#include "base/rng.h"

double kb_holdout_place(const char *salt, const char *user)
{
    return kb_rng_uniform(kb_hash_str(kb_hash_str(KB_HASH_INIT, salt), user), KB_STREAM_HOLDOUT, 0);
}
