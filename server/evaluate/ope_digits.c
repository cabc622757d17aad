/* Digits of what was logged: see ope_digits.h.
 *
 * A double is the decimal number k 10^-d, up to its own rounding, exactly when round(p 10^d) / 10^d gives it back: 10^d
 * is exact up to d = 22, and so is an integer below 2^53, hence the quotient is rounded once, as a reader of decimal
 * text rounds. Numbers of 16 digits and more are taken for doubles in full. */
#include "evaluate/ope_digits.h"

#include <math.h>
#include <stdbool.h>

#define MAX_DIGITS 16                      /* from here on a number has all that a double has */
#define MAX_DECIMALS 22                    /* 10^22 is the largest exact power of ten */
#define SINGLE_PRECISION (1.0 / (1 << 22)) /* four units in the last place of a float */

static const double TEN[MAX_DECIMALS + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool fits(double p, int d)
{
    return d >= MAX_DECIMALS || rint(p * TEN[d]) / TEN[d] == p;
}

/* What was rounded to 1 was below 1, where units are those of 0.1 to 1. */
static int exponent_of(double p)
{
    const int e = p < 1 ? (int)floor(log10(p)) : -1;

    return e > -MAX_DECIMALS ? e : -MAX_DECIMALS;
}

void ld_ope_digits_add(struct ld_ope_digits *d, double p)
{
    if (!(p > 0 && p <= 1))
        return;
    const int e = exponent_of(p);
    while (d->significant < MAX_DIGITS && !fits(p, d->significant > e ? d->significant - 1 - e : 0))
        d->significant++;
    while (d->decimals < MAX_DECIMALS && !fits(p, d->decimals))
        d->decimals++;
}

/* p has one digit at least and one unit of the last place at least, so h is at most p / 2. */
double ld_ope_digits_error(const struct ld_ope_digits *d, double p)
{
    const int digits = d->significant > 1 ? d->significant : 1;
    double h = 0;

    if (digits < MAX_DIGITS)
        h = fmax(1 / TEN[d->decimals], pow(10, exponent_of(p) - digits + 1)) / 2;
    return fmax(h / (p - h), SINGLE_PRECISION);
}
