/* Signed feature hashing: see hashing.h. Cost: about a nanosecond a byte. */
#include "evaluate/hashing.h"

#include <stdio.h>
#include <string.h>

#define MAX_KEY 2048

static uint32_t rotate(uint32_t x, unsigned by)
{
    return x << by | x >> (32 - by);
}

static uint32_t scramble(uint32_t k)
{
    return rotate(k * 0xcc9e2d51u, 15) * 0x1b873593u;
}

/* Blocks are read least significant byte first whatever the machine. */
uint32_t ld_murmur3(const void *bytes, size_t n, uint32_t seed)
{
    const unsigned char *b = bytes;
    uint32_t h = seed, tail = 0;

    for (; n - (size_t)(b - (const unsigned char *)bytes) >= 4; b += 4) {
        const uint32_t k = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;

        h = rotate(h ^ scramble(k), 13) * 5 + 0xe6546b64u;
    }
    for (size_t i = n & 3; i > 0; i--)
        tail = tail << 8 | b[i - 1];
    h ^= scramble(tail) ^ (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

static void add(const struct ld_hasher *h, const char *key, size_t n, double value, double *x)
{
    const uint32_t hash = ld_murmur3(key, n, h->seed);

    x[(uint64_t)hash * h->dim >> 32] += (hash & 1) != 0 ? -value : value;
}

void ld_hash_number(const struct ld_hasher *h, const char *name, double value, double *x)
{
    if (h->dim > 0 && value != 0.0)
        add(h, name, strnlen(name, MAX_KEY), value, x);
}

void ld_hash_category(const struct ld_hasher *h, const char *name, const char *value, double *x)
{
    char key[MAX_KEY];

    if (h->dim == 0)
        return;
    const int n = snprintf(key, sizeof key, "%.1000s=%.1000s", name, value);
    add(h, key, (size_t)n, 1.0, x);
}
