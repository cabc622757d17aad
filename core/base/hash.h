/* 64-bit FNV-1a, and a faster one for arrays: digests, and keys of the draws. The same everywhere and for ever; not
 * a cryptographic hash, and none for tables (keyed.h). h is the hash so far: calls chain, beginning with KB_HASH_INIT.
 */
#ifndef KB_HASH_H
#define KB_HASH_H

#include <stddef.h>
#include <stdint.h>

#define KB_HASH_INIT 0xcbf29ce484222325u

/* By memory: for arrays of one machine's own byte order; no length is mixed in. */
uint64_t kb_hash_bytes(uint64_t h, const void *data, size_t n);
/* The same purpose for long arrays, ten times faster: not FNV-1a, and the hash of pieces is not that of the whole. */
uint64_t kb_hash_array(uint64_t h, const void *data, size_t n);
/* Eight bytes, least significant first: the same on every machine. */
uint64_t kb_hash_u64(uint64_t h, uint64_t value);
uint64_t kb_hash_double(uint64_t h, double value); /* by bits; -0.0 and 0.0 differ */
uint64_t kb_hash_str(uint64_t h, const char *s);   /* length, then bytes */

/* For digests that are sums over many small things, kept with every change: words are mixed in one by one, and `finish`
 * spreads the last of them over all bits. A few cycles a word. */
uint64_t kb_hash_mix(uint64_t h, uint64_t word);
uint64_t kb_hash_mix_doubles(uint64_t h, const double *x, size_t n); /* by bits */
uint64_t kb_hash_finish(uint64_t h);

#endif
