/* Keys are 256 bits from the system's generator, so their hash needs neither salt nor slowness: those protect secrets
 * that people choose, which can be guessed. Nobody finds this one by trying, however quick the hash; and every request
 * pays for it. BLAKE2b takes half a microsecond.
 *
 * The hash is over the whole text, id included, so that one key's hash is of no use under another's id. The id is no
 * secret: it stands in lists and in the log. */
#include "base/secret.h"

#include <sodium.h>
#include <string.h>

#define PREFIX "lpd_"
#define N_PREFIX (sizeof PREFIX - 1)
#define N_ID (LD_KEY_ID_BYTES - 1)
#define SECRET_BYTES 32

_Static_assert(LD_KEY_TEXT_BYTES == N_PREFIX + N_ID + 1 + 2 * SECRET_BYTES + 1, "a key fits its buffer");
_Static_assert(LD_KEY_HASH_BYTES == crypto_generichash_BYTES, "the library's own size of a hash");

/* May be called again. */
int ld_secret_init(void)
{
    return sodium_init() >= 0 ? 0 : -1;
}

/* Hexadecimal rather than base64: a double click takes all of it, and nothing in it needs quotes. */
void ld_secret_make(char text[LD_KEY_TEXT_BYTES], char id[LD_KEY_ID_BYTES], unsigned char hash[LD_KEY_HASH_BYTES])
{
    unsigned char bytes[N_ID / 2 + SECRET_BYTES];
    randombytes_buf(bytes, sizeof bytes);
    (void)sodium_bin2hex(id, LD_KEY_ID_BYTES, bytes, N_ID / 2);
    memcpy(text, PREFIX, N_PREFIX);
    memcpy(text + N_PREFIX, id, N_ID);
    text[N_PREFIX + N_ID] = '_';
    (void)sodium_bin2hex(text + N_PREFIX + N_ID + 1, 2 * SECRET_BYTES + 1, bytes + N_ID / 2, SECRET_BYTES);
    sodium_memzero(bytes, sizeof bytes);
    ld_secret_hash(text, hash);
}

/* Looks at what is no secret, so it may stop early. Digits are lower case: one key has one spelling. */
bool ld_secret_id(const char *text, char id[LD_KEY_ID_BYTES])
{
    const char *at = text + N_PREFIX;
    if (strlen(text) != LD_KEY_TEXT_BYTES - 1 || memcmp(text, PREFIX, N_PREFIX) != 0 || at[N_ID] != '_' ||
        strspn(at, "0123456789abcdef") != N_ID)
        return false;
    memcpy(id, at, N_ID);
    id[N_ID] = '\0';
    return true;
}

void ld_secret_hash(const char *text, unsigned char hash[LD_KEY_HASH_BYTES])
{
    (void)crypto_generichash(hash, LD_KEY_HASH_BYTES, (const unsigned char *)text, strlen(text), NULL, 0);
}

bool ld_secret_equal(const unsigned char a[LD_KEY_HASH_BYTES], const unsigned char b[LD_KEY_HASH_BYTES])
{
    return sodium_memcmp(a, b, LD_KEY_HASH_BYTES) == 0;
}
