/* exp(x) for x <= 0, as the stationary kernels want it: plain arithmetic without a branch, so that a loop over it is
 * compiled to vector instructions, of any width, with the bits of one call.
 *
 *   k = round(x / ln 2),   r = x - k ln 2,   exp(x) = 2^k p(r),   |r| <= ln(2) / 2
 *
 *   p     1 + r + r^2 q(r), q of degree 9: the Taylor series of exp, economised from degree 24 to 11 in Chebyshev
 *         polynomials on [-0.3466, 0.3466], in exact fractions; what is left off is below 3.2e-18
 *   ln 2  in two parts, the first with so few bits that k times it is exact
 *   k     by adding 1.5 2^52, which leaves it in the low bits, from where it goes into the exponent
 *
 * Within 1.1 units in the last place, 2^-52 relative, over [-708, 0]; exactly 1 at 0 and -0; 0 below -708, where exp is
 * less than 3.4e-308 (tests/unit/vector/test_vec_kernel.c compares with long double). */
#ifndef KB_EXPONENTIAL_H
#define KB_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

#define KB_EXP_LEAST (-708.0)
#define KB_EXP_TO_INTEGER 0x1.8p52
#define KB_EXP_LOG2E 0x1.71547652b82fep+0
#define KB_EXP_LN2 0x1.62e42fefa4p-1
#define KB_EXP_LN2_LESS 0x1.8432a1b0e2634p-43
#define KB_EXP_TERMS 10

/* q, the highest power first. */
static const double kb_exp_term[KB_EXP_TERMS] = {
    0x1.af7868d2a36dap-26, 0x1.28b40e50912c4p-22, 0x1.71dde763b593p-19, 0x1.a01991a2e8693p-16, 0x1.a01a01b80532ep-13,
    0x1.6c16c187ff82fp-10, 0x1.111111110db6cp-7,  0x1.555555554f0bdp-5, 0x1.5555555555562p-3,  0x1.0000000000011p-1};

static inline double kb_exp_of_negative(double x)
{
    double k = x * KB_EXP_LOG2E + KB_EXP_TO_INTEGER, value;
    uint64_t power, bits;
    memcpy(&power, &k, sizeof power);
    k -= KB_EXP_TO_INTEGER;
    const double r = (x - k * KB_EXP_LN2) + k * KB_EXP_LN2_LESS;
    double q = kb_exp_term[0];
#pragma GCC unroll 16
    for (int d = 1; d < KB_EXP_TERMS; d++)
        q = q * r + kb_exp_term[d];
    power = (power + 1023) << 52;
    memcpy(&value, &power, sizeof value);
    value *= 1.0 + (r + r * r * q);
    /* below the range all of that is nothing, perhaps not even a number: zero by a mask, since a branch would end the
     * vectors */
    memcpy(&bits, &value, sizeof bits);
    bits &= -(uint64_t)(x >= KB_EXP_LEAST);
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
