/* The stream of numbers that numpy's legacy generator, RandomState(seed), gives: experiments whose published figures
 * hang on it can be repeated draw by draw. Not for anything else; the engine's own numbers are core/base/rng.h. */
#ifndef PB_NUMPY_RNG_H
#define PB_NUMPY_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PB_MT_WORDS 624

struct pb_numpy_rng {
    uint32_t word[PB_MT_WORDS];
    size_t next; /* words of this block already given out */
    bool has_gauss;
    double gauss; /* the second normal of the last pair, when has_gauss */
};

/* RandomState(seed), 0 <= seed < 2^32. */
void pb_numpy_seed(struct pb_numpy_rng *r, uint32_t seed);

/* 32 uniform bits: randint(0, 2^32) one by one. */
uint32_t pb_numpy_bits(struct pb_numpy_rng *r);
/* random_sample(): uniform on [0, 1), 53 bits, two words. */
double pb_numpy_double(struct pb_numpy_rng *r);
/* uniform(low, high). */
double pb_numpy_uniform(struct pb_numpy_rng *r, double low, double high);
/* normal(mean, sd). Normals come in pairs: the second of a pair costs no words and waits for the next call, however
 * many uniform draws stand between. */
double pb_numpy_normal(struct pb_numpy_rng *r, double mean, double sd);
/* randint(n), which is also choice(n): uniform on 0..n-1, n >= 1. n = 1 takes no words. */
uint32_t pb_numpy_below(struct pb_numpy_rng *r, uint32_t n);
/* permutation(n) into order[0..n-1]; its first k are choice(n, k, replace=False). */
void pb_numpy_permutation(struct pb_numpy_rng *r, uint32_t n, uint32_t *order);

#endif
