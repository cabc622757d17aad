/* Vectors of a tenant's dimensions from features that have names: signed feature hashing.
 *
 * A numeric feature is (name, value), a categorical one (name "=" value, 1). h = murmur3_32 of the UTF-8 bytes under
 * the seed; the coordinate is the high bits of h scaled to the dimensions, (h dim) >> 32, the sign is that of h's
 * lowest bit (1: minus). Features that meet in a coordinate add up; signs make inner products unbiased [HF]. The
 * mapping is part of what a tenant's model has learned: it is never changed, only named anew. */
#ifndef LD_HASHING_H
#define LD_HASHING_H

#include <stddef.h>
#include <stdint.h>

/* MurmurHash3_x86_32 of Austin Appleby (public domain), the same on every machine. */
uint32_t ld_murmur3(const void *bytes, size_t n, uint32_t seed);

/* The same piece by piece: begin with {.h = seed}. What has been read so far may be copied and gone on with. */
struct ld_murmur {
    uint32_t h, tail, n; /* n: bytes so far; tail: those of the block that is not whole yet */
};
void ld_murmur_add(struct ld_murmur *m, const void *bytes, size_t n);
uint32_t ld_murmur_end(const struct ld_murmur *m);

/* Where a hash goes, and what of a value goes there. */
static inline uint32_t ld_hash_place(uint32_t hash, uint32_t dim)
{
    return (uint32_t)((uint64_t)hash * dim >> 32);
}
static inline double ld_hash_signed(uint32_t hash, double value)
{
    return (hash & 1) != 0 ? -value : value;
}

struct ld_hasher {
    uint32_t dim; /* 0: everything is dropped */
    uint32_t seed;
};

/* x[dim] += the feature. A name or value is cut at 1,000 bytes. */
void ld_hash_number(const struct ld_hasher *h, const char *name, double value, double *x);
void ld_hash_category(const struct ld_hasher *h, const char *name, const char *value, double *x);

#endif
