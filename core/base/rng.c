/* Keyed randomness (rng.h): a value is a function of (key, stream, index), nothing is stored.
 *
 * Each of the three words is folded in by one round of the SplitMix64 finaliser (two xor-shift-multiply steps,
 * a bijection of 64 bits in which every input bit flips about half of the output bits):
 *     bits = mix(mix(mix(key + g) + stream g) + index g),   g = 2^64 / golden ratio, odd.
 * For a fixed key and stream the map index -> bits is a bijection, so a stream never repeats a word. */
#include "base/rng.h"

#include <math.h>

#define GOLDEN 0x9e3779b97f4a7c15u

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t kb_rng_bits(uint64_t key, enum kb_stream stream, uint64_t index)
{
    uint64_t h = mix(key + GOLDEN);
    h = mix(h + (uint64_t)stream * GOLDEN);
    return mix(h + index * GOLDEN);
}

/* The upper 53 bits: every value is a multiple of 2^-53, equally likely, and 1 is never reached. */
double kb_rng_uniform(uint64_t key, enum kb_stream stream, uint64_t index)
{
    return (double)(kb_rng_bits(key, stream, index) >> 11) * 0x1p-53;
}

/* Box-Muller: sqrt(-2 ln u) cos(2 pi v). 1 - uniform lies in (0, 1], so the logarithm is finite and |z| < 8.6.
 * The cosine twin alone is used: one normal costs two words, and index i stays addressable by itself. */
double kb_rng_normal(uint64_t key, enum kb_stream stream, uint64_t index)
{
    const double two_pi = 6.283185307179586476925;
    double u = 1.0 - kb_rng_uniform(key, stream, 2 * index);
    double v = kb_rng_uniform(key, stream, 2 * index + 1);
    return sqrt(-2.0 * log(u)) * cos(two_pi * v);
}
