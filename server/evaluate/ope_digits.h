/* How exactly the propensities of a log were written down: by that much a weight may be wrong although nothing is.
 *
 *   p      a propensity as it was read         e   floor(log10 p)
 *   D, S   the most decimal places, and the most significant digits, that any propensity of the log has
 *   h(p)   half a unit of the last digit written: max(10^-D, 10^(e - S + 1)) / 2
 *
 * Numbers of a log come from one writer, which either keeps the decimal places (%.6f) or the significant digits (%.6g).
 * Zeros at the end are lost when a number is read, so one number alone does not tell (0.5 may have been 0.500000), but
 * the longest ones of the log do. Both ways are covered: under %.6f D is 6 and S at most 6, so the unit is 10^-6 for
 * all; under %.6g S is 6 and D grows with small numbers, so that the unit of each is that of its own sixth digit. */
#ifndef LD_OPE_DIGITS_H
#define LD_OPE_DIGITS_H

/* Zeroed = nothing seen. */
struct ld_ope_digits {
    int decimals, significant;
};

/* p in (0, 1]; others and NaN are passed over. A few operations, most times. */
void ld_ope_digits_add(struct ld_ope_digits *d, double p);

/* Largest relative error of a weight pi / p by the rounding of p: the true one lies in p - h .. p + h, which makes it
 * h / (p - h). At least that of a few operations in single precision, in which many systems compute. */
double ld_ope_digits_error(const struct ld_ope_digits *d, double p);

#endif
