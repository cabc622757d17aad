/* Whose key a request shows: all that it enters of this room.
 *
 * Keys of the file lie zero-padded in fixed blocks; a shown key is copied into such a block and compared with every
 * stored one over the whole length, without leaving early: what a client can time is the number of keys, not their
 * bytes. Cost: 256 byte operations a key, and one hash, one look-up and one comparison in constant time for all those
 * that the API has made. */
#include "keys/auth_impl.h"
#include "keys/keys_impl.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define USE_STEP_MS 1000

/* --- keys of the file -------------------------------------------------------------------------------------- */

/* 1 when the blocks are equal. Every byte is looked at. No branch depends on a byte. Padding takes part: a key that
 * is the beginning of another differs from it in its zeros. */
static unsigned equal_blocks(const unsigned char *a, const unsigned char *b)
{
    unsigned difference = 0;
    for (size_t i = 0; i < LD_FILE_KEY_BYTES; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return (difference - 1) >> 31; /* borrows only from 0 */
}

/* The token of "Bearer TOKEN"; NULL when the header (may be NULL) has no such thing. The scheme is compared without
 * case (RFC 9110, 11.1), the token with it. */
static const char *token_of(const char *authorization)
{
    if (authorization == NULL || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    return authorization + 7 + strspn(authorization + 7, " ");
}

/* The token in a zeroed block; -1 for one that no key can equal. The block has room for the longest key and is not a
 * string. */
static int read_token(const char *token, unsigned char block[LD_FILE_KEY_BYTES])
{
    memset(block, 0, LD_FILE_KEY_BYTES);
    size_t n = token != NULL ? strlen(token) : 0;
    if (n == 0 || n > LD_FILE_KEY_BYTES)
        return -1;
    memcpy(block, token, n);
    return 0;
}

/* Looks at every key, also after a match. Cost: 64 keys at most, 256 bytes each, under the read lock. The answer says
 * nothing about which key it was. */
bool ld_auth_allows(struct ld_auth *a, const char *authorization)
{
    unsigned char block[LD_FILE_KEY_BYTES];
    unsigned is_known = 0;
    /* Nothing secret was looked at yet: this may return early. */
    if (!atomic_load(&a->has_file) || read_token(token_of(authorization), block) != 0)
        return false;
    pthread_rwlock_rdlock(&a->lock);
    for (size_t i = 0; a->keys != NULL && i < a->keys->n; i++)
        is_known |= equal_blocks(a->keys->key[i], block);
    pthread_rwlock_unlock(&a->lock);
    return is_known != 0;
}

/* --- keys that the API made -------------------------------------------------------------------------------- */

size_t ld_key_table_slot(const struct ld_key_table *t, const char *id)
{
    size_t i = (size_t)strtoull(id, NULL, 16) & (t->cap - 1);
    while (t->slot[i] != NULL && strcmp(t->slot[i]->key.id, id) != 0)
        i = (i + 1) & (t->cap - 1);
    return i;
}

struct ld_key_entry *ld_key_table_find(const struct ld_key_table *t, const char *id)
{
    struct ld_key_entry *e = t->slot[ld_key_table_slot(t, id)];
    return e != NULL && !atomic_load(&e->is_gone) ? e : NULL;
}

static bool is_expired(const struct ld_key *key, int64_t now_ms)
{
    return key->expires_at != 0 && now_ms >= key->expires_at;
}

/* Both locks are about the table; the hash is made before. The last use is kept to the second, so that requests by one
 * key do not fight over a cache line. Without an entry the comparison is with zeros, which are no text's hash that
 * anybody could find. */
bool ld_keys_allow(struct ld_keys *k, const char *text, int64_t now_ms, struct ld_caller *caller)
{
    static const unsigned char nothing[LD_KEY_HASH_BYTES];
    unsigned char hash[LD_KEY_HASH_BYTES];
    char id[LD_KEY_ID_BYTES];
    if (!ld_secret_id(text, id))
        return false;
    ld_secret_hash(text, hash);
    pthread_rwlock_rdlock(&k->lock);
    struct ld_key_entry *e = ld_key_table_find(k->table, id);
    bool is_known = ld_secret_equal(e != NULL ? e->key.hash : nothing, hash) && e != NULL;
    if (is_known && !is_expired(&e->key, now_ms)) {
        bool is_admin = (e->key.roles & LD_ROLE_ADMIN) != 0;
        ld_caller_set(caller, is_admin ? LD_ALL_ROLES : e->key.roles);
        memcpy(caller->tenant, e->key.tenant, sizeof caller->tenant);
        strcpy(caller->patterns, e->key.patterns);
        memcpy(caller->key, e->key.id, sizeof caller->key);
        if (now_ms - atomic_load_explicit(&e->last_used_at, memory_order_relaxed) >= USE_STEP_MS)
            atomic_store_explicit(&e->last_used_at, now_ms, memory_order_relaxed);
    } else {
        is_known = false;
    }
    pthread_rwlock_unlock(&k->lock);
    return is_known;
}

/* --- both -------------------------------------------------------------------------------------------------- */

bool ld_keys_are_asked(struct ld_keys *k, struct ld_auth *file)
{
    return atomic_load(&file->has_had_file) || atomic_load(&k->do_exist);
}

/* Both kinds of keys are tried always: which of them it was shows in no time. */
enum ld_who ld_keys_who(struct ld_keys *k, struct ld_auth *file, const char *authorization, int64_t now_ms,
                        struct ld_caller *caller)
{
    const char *token = token_of(authorization);
    ld_caller_set(caller, 0);
    /* Asked before whether keys are asked for: what is told in between must not make a guess a refusal. */
    const bool may_be_made = token != NULL || !atomic_load(&file->has_had_file),
               is_guess = may_be_made && atomic_load(&k->is_guess);
    const bool is_known = ld_keys_allow(k, token != NULL ? token : "", now_ms, caller);
    if (ld_auth_allows(file, authorization) || !ld_keys_are_asked(k, file)) {
        ld_caller_set(caller, LD_ALL_ROLES);
        return LD_WHO_KNOWN;
    }
    if (is_known)
        return LD_WHO_KNOWN;
    return is_guess ? LD_WHO_NOT_TOLD : LD_WHO_NOBODY;
}
