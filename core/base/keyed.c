/* SipHash-1-3 of strings and numbers (keyed.h). Words are little-endian, as the paper has them, so that its values can
 * be checked on any machine. */
#include "base/keyed.h"

#include <stddef.h>
#include <string.h>

/* n <= 8 bytes as a word, the first byte lowest. */
static uint64_t word_of(const char *s, size_t n)
{
    uint64_t word = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (n == sizeof word) {
        memcpy(&word, s, sizeof word);
        return word;
    }
#endif
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)(unsigned char)s[i] << 8 * i;
    return word;
}

void kb_keyed_double(struct kb_keyed *s, double x)
{
    const double number = x + 0.0; /* -0.0 + 0.0 is 0.0 in the default rounding mode, which nobody changes */
    uint64_t bits;

    memcpy(&bits, &number, sizeof bits);
    kb_keyed_word(s, bits);
}

uint64_t kb_keyed_str(struct kb_hash_key key, const char *s)
{
    const size_t n = strlen(s), n_whole = n & ~(size_t)7;
    struct kb_keyed state = kb_keyed_begin(key);

    for (size_t i = 0; i < n_whole; i += 8)
        kb_keyed_word(&state, word_of(s + i, 8));
    kb_keyed_word(&state, word_of(s + n_whole, n - n_whole) | (uint64_t)n << 56);
    return kb_keyed_end(state);
}
