/* numpy's legacy random stream, from the published algorithms.
 *
 *   words     MT19937 [MT], seeded by its 2002 initialiser: w_0 = seed, w_i = 1812433253 (w_{i-1} ^ w_{i-1}>>30) + i.
 *             RandomState(int) is this initialiser, not the one that mixes an array (numpy's own for lists of seeds).
 *   doubles   (a 2^26 + b) / 2^53 with a, b the top 27 and 26 bits of two words [MT, genrand_res53]
 *   normals   Marsaglia's polar method [MB]: (x, y) uniform in the unit disc less its centre, f = sqrt(-2 ln s / s),
 *             s = x^2 + y^2; gives f y first and keeps f x
 *   integers  below n: the low bits under the mask 2^ceil(lg n) - 1, drawn again until <= n - 1
 *   order     Fisher and Yates from the end [FY]: for i = n-1 .. 1 swap i with a draw from 0..i
 *
 * The order of words in a double, the order of the pair of normals, and the rejection by a mask are conventions of
 * numpy and not of the algorithms: tests/paper/test_numpy_rng.c compares all of them with values that numpy wrote. The
 * legacy stream is frozen by numpy's promise of compatibility, so recorded values do not age. O(1) per draw, 624 words
 * of work every 624 words. */
#include "paper/numpy_rng.h"

#include <assert.h>
#include <math.h>

#define MIDDLE 397 /* distance of the word mixed in */
#define UPPER 0x80000000u
#define LOWER 0x7fffffffu

void pb_numpy_seed(struct pb_numpy_rng *r, uint32_t seed)
{
    r->word[0] = seed;
    for (uint32_t i = 1; i < PB_MT_WORDS; i++) {
        uint32_t before = r->word[i - 1];
        r->word[i] = 1812433253u * (before ^ (before >> 30)) + i;
    }
    r->next = PB_MT_WORDS; /* the initial words are state, not output */
    r->has_gauss = false;
    r->gauss = 0;
}

/* One step of the recurrence for every word: x_{k+624} = x_{k+397} ^ A (upper bit of x_k, lower bits of x_{k+1}). */
static void next_block(struct pb_numpy_rng *r)
{
    for (size_t i = 0; i < PB_MT_WORDS; i++) {
        uint32_t y = (r->word[i] & UPPER) | (r->word[(i + 1) % PB_MT_WORDS] & LOWER);
        uint32_t twist = (y & 1u) != 0 ? 0x9908b0dfu : 0;
        r->word[i] = r->word[(i + MIDDLE) % PB_MT_WORDS] ^ (y >> 1) ^ twist;
    }
    r->next = 0;
}

/* The tempering of [MT] on the next word. */
uint32_t pb_numpy_bits(struct pb_numpy_rng *r)
{
    if (r->next == PB_MT_WORDS)
        next_block(r);
    uint32_t y = r->word[r->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* Two declarations in this order: the first word makes the high bits. */
double pb_numpy_double(struct pb_numpy_rng *r)
{
    uint32_t high = pb_numpy_bits(r) >> 5, low = pb_numpy_bits(r) >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
}

double pb_numpy_uniform(struct pb_numpy_rng *r, double low, double high)
{
    return low + (high - low) * pb_numpy_double(r);
}

/* A standard normal; 4/pi pairs of doubles per pair of normals on average. */
static double standard_normal(struct pb_numpy_rng *r)
{
    if (r->has_gauss) {
        r->has_gauss = false;
        return r->gauss;
    }
    double x, y, s;
    do {
        x = 2 * pb_numpy_double(r) - 1;
        y = 2 * pb_numpy_double(r) - 1;
        s = x * x + y * y;
    } while (s >= 1 || s == 0);
    double f = sqrt(-2 * log(s) / s);
    r->gauss = f * x;
    r->has_gauss = true;
    return f * y;
}

double pb_numpy_normal(struct pb_numpy_rng *r, double mean, double sd)
{
    return mean + sd * standard_normal(r);
}

/* Fewer than two words on average: the mask is less than twice n. */
uint32_t pb_numpy_below(struct pb_numpy_rng *r, uint32_t n)
{
    assert(n >= 1);
    uint32_t last = n - 1, mask = last, value;
    for (unsigned shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    if (last == 0)
        return 0;
    do
        value = pb_numpy_bits(r) & mask;
    while (value > last);
    return value;
}

/* i = 0 would draw from one value: numpy stops before it, and it would take no word. */
void pb_numpy_permutation(struct pb_numpy_rng *r, uint32_t n, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i-- > 1;) {
        uint32_t j = pb_numpy_below(r, i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}
