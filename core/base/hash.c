/* 64-bit FNV-1a (hash.h): h <- (h xor byte) * prime, byte by byte.
 *
 * Numbers are hashed as little-endian bytes whatever the machine, so a digest written on one machine can be
 * checked on another. Not keyed: whoever chooses ids can make them meet, so tables take keyed.h instead.
 * Cost: one multiplication per byte, about 1 GB/s; of arrays two for eight bytes, at the speed of memory. */
#include "base/hash.h"

#include <string.h>

#define FNV_PRIME 0x100000001b3u
#define N_LANES 4
/* Odd, with bits as good as random: 2^64 over the golden ratio, and a prime. */
#define MULTIPLIER 0x9e3779b97f4a7c15u
#define MULTIPLIER_2 0xd6e8feb86659fd93u

/* Arrays of numbers given here are hashed in the machine's own byte order, unlike those of kb_hash_u64. */
uint64_t kb_hash_bytes(uint64_t h, const void *data, size_t n)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ byte[i]) * FNV_PRIME;
    return h;
}

/* A product moves bits upwards only, so a rotation stands between two of them: else two doubles of one lane that change
 * their signs would leave the hash as it was. */
uint64_t kb_hash_mix(uint64_t lane, uint64_t word)
{
    lane += word * MULTIPLIER;
    return (lane << 31 | lane >> 33) * MULTIPLIER_2;
}

uint64_t kb_hash_mix_doubles(uint64_t h, const double *x, size_t n)
{
    uint64_t bits;

    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, &x[i], sizeof bits);
        h = kb_hash_mix(h, bits);
    }
    return h;
}

/* Down as well as up, so that sums of such hashes differ in every bit. */
uint64_t kb_hash_finish(uint64_t h)
{
    h = (h ^ h >> 32) * MULTIPLIER;
    h = (h ^ h >> 29) * MULTIPLIER_2;
    return h ^ h >> 32;
}

/* Lanes do not wait for each other's products. */
uint64_t kb_hash_array(uint64_t h, const void *data, size_t n)
{
    const unsigned char *at = data;
    uint64_t lane[N_LANES], word[N_LANES];

    if (n >= sizeof word) {
        for (size_t i = 0; i < N_LANES; i++)
            lane[i] = h + i * MULTIPLIER;
        for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
            memcpy(word, at, sizeof word);
            for (size_t i = 0; i < N_LANES; i++)
                lane[i] = kb_hash_mix(lane[i], word[i]);
        }
        for (size_t i = 0; i < N_LANES; i++)
            h = kb_hash_u64(h, lane[i]);
    }
    return kb_hash_bytes(h, at, n);
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
