/* Signed feature hashing: see hashing.h. Cost: about a nanosecond a byte. */
#include "base/hashing.h"

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

static uint32_t mix(uint32_t h, uint32_t block)
{
    return rotate(h ^ scramble(block), 13) * 5 + 0xe6546b64u;
}

/* Blocks are read least significant byte first whatever the machine. */
void ld_murmur_add(struct ld_murmur *m, const void *bytes, size_t n)
{
    const unsigned char *b = bytes, *end = b + n;

    while (b < end) {
        if ((m->n & 3) == 0 && end - b >= 4) {
            m->h = mix(m->h, (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
            m->n += 4;
            b += 4;
            continue;
        }
        m->tail |= (uint32_t)*b++ << 8 * (m->n++ & 3);
        if ((m->n & 3) == 0) {
            m->h = mix(m->h, m->tail);
            m->tail = 0;
        }
    }
}

uint32_t ld_murmur_end(const struct ld_murmur *m)
{
    uint32_t h = m->h ^ scramble(m->tail) ^ m->n;

    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

uint32_t ld_murmur3(const void *bytes, size_t n, uint32_t seed)
{
    struct ld_murmur m = {.h = seed};

    ld_murmur_add(&m, bytes, n);
    return ld_murmur_end(&m);
}

static void add(const struct ld_hasher *h, const char *key, size_t n, double value, double *x)
{
    const uint32_t hash = ld_murmur3(key, n, h->seed);

    x[ld_hash_place(hash, h->dim)] += ld_hash_signed(hash, value);
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
