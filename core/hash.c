/* 64-bit FNV-1a (hash.h): h <- (h xor byte) * prime, byte by byte.
 *
 * Numbers are hashed as little-endian bytes whatever the machine, so a digest written on one machine can be
 * checked on another. Not keyed: whoever chooses ids can make them collide, which costs time, never truth.
 * Cost: one multiplication per byte, about 1 GB/s. */
#include "hash.h"

#include <string.h>

#define FNV_PRIME 0x100000001b3u

/* Arrays of numbers given here are hashed in the machine's own byte order, unlike those of kb_hash_u64. */
uint64_t kb_hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ byte[i]) * FNV_PRIME;
    return h;
}

uint64_t kb_hash_u64(uint64_t h, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        h = (h ^ ((value >> (8 * i)) & 0xffu)) * FNV_PRIME;
    return h;
}

uint64_t kb_hash_double(uint64_t h, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return kb_hash_u64(h, bits);
}

/* The length goes first: "ab","c" and "a","bc" hash differently in a row. */
uint64_t kb_hash_str(uint64_t h, const char *s)
{
    size_t n = strlen(s);
    return kb_hash_bytes(kb_hash_u64(h, n), s, n);
}
