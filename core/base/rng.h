/* Keyed randomness: value = f(key, stream, index). There is no state to save, so a fold of the log draws
 * nothing and two threads never share a generator. Mixing function: SplitMix64 finaliser rounds. */
#ifndef KB_RNG_H
#define KB_RNG_H

#include <stdint.h>

/* Streams keep draws for different purposes apart under one key; a stream's number enters the formula, so
 * changing it changes every draw. */
enum kb_stream {
    KB_STREAM_ARM = 1,
    KB_STREAM_DICTIONARY = 2,
    KB_STREAM_SIMULATION = 3,
    KB_STREAM_FEATURES = 6,
    KB_STREAM_HOLDOUT = 7,
    KB_STREAM_TIES = 8
};

uint64_t kb_rng_bits(uint64_t key, enum kb_stream stream, uint64_t index);

/* Uniform on [0, 1), 53 bits. */
double kb_rng_uniform(uint64_t key, enum kb_stream stream, uint64_t index);

/* Standard normal (inverse-free Box-Muller on indices 2i and 2i+1 of the stream). */
double kb_rng_normal(uint64_t key, enum kb_stream stream, uint64_t index);

#endif
