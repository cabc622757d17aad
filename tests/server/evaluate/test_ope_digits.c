/* How exactly propensities were logged, against numbers that are printed and read back: the true weight must lie within
 * what is allowed for, and no more may be allowed than half a unit of the last digit printed (or single precision). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kbt.h"
#include "evaluate/ope_digits.h"
#include "base/rng.h"

#define N 400
#define SINGLE (1.0 / (1 << 22))

static double truth[N], logged[N];

/* N propensities down to 10^-spread, printed with `digits` as %f or %g, and what a log of them tells. */
static struct ld_ope_digits log_of(bool is_fixed, int digits, double spread, uint64_t key)
{
    struct ld_ope_digits d = {0};

    for (uint64_t i = 0; i < N; i++) {
        char text[64];
        truth[i] = pow(10, -spread * kb_rng_uniform(key, KB_STREAM_ARM, i));
        snprintf(text, sizeof text, is_fixed ? "%.*f" : "%.*g", digits, truth[i]);
        logged[i] = strtod(text, NULL);
        ld_ope_digits_add(&d, logged[i]);
    }
    return d;
}

static double unit_of(bool is_fixed, int digits, double p)
{
    const double e = p < 1 ? floor(log10(p)) : -1; /* nothing above 1 was rounded to it */

    return is_fixed ? pow(10, -digits) : pow(10, e - digits + 1);
}

static void check(bool is_fixed, int digits, double spread)
{
    const struct ld_ope_digits d = log_of(is_fixed, digits, spread, (uint64_t)(100 * digits + is_fixed));

    for (size_t i = 0; i < N; i++) {
        if (!(logged[i] > 0))
            continue; /* rounded to nothing: no log has it */
        const double allowed = ld_ope_digits_error(&d, logged[i]), h = unit_of(is_fixed, digits, logged[i]) / 2;
        const double wrong = fabs(logged[i] / truth[i] - 1), most = fmax(h / (logged[i] - h), SINGLE);
        ck_assert_msg(wrong <= allowed * (1 + 1e-9), "%d %.17g: %g > %g", digits, logged[i], wrong, allowed);
        ck_assert_msg(allowed <= most * (1 + 1e-9), "%d %.17g: allows %g, not %g", digits, logged[i], allowed, most);
    }
}

START_TEST(decimal_places_are_found)
{
    for (int digits = 1; digits <= 17; digits++)
        check(true, digits, 0.9);
    for (int digits = 4; digits <= 17; digits++)
        check(true, digits, 3);
}
END_TEST

START_TEST(significant_digits_are_found)
{
    for (int digits = 1; digits <= 17; digits++)
        for (int spread = 1; spread <= 5; spread += 2)
            check(false, digits, spread);
}
END_TEST

/* A log of thirds in six places has twos and fours beside the thirds, where they are told in six places as well. */
START_TEST(zeros_at_the_end_are_digits_where_others_have_them)
{
    struct ld_ope_digits d = {0};

    ld_ope_digits_add(&d, 0.5);
    ck_assert_double_eq_tol(ld_ope_digits_error(&d, 0.5), 0.05 / 0.45, 1e-12);
    ld_ope_digits_add(&d, 0.333333);
    ck_assert_double_eq_tol(ld_ope_digits_error(&d, 0.5), 1e-6, 1e-11);
    ld_ope_digits_add(&d, 1.0 / 3);
    ck_assert_double_eq(ld_ope_digits_error(&d, 0.5), SINGLE);
}
END_TEST

START_TEST(what_is_no_propensity_tells_nothing)
{
    struct ld_ope_digits d = {0};

    ld_ope_digits_add(&d, 0.25);
    const struct ld_ope_digits before = d;
    ld_ope_digits_add(&d, (double)NAN);
    ld_ope_digits_add(&d, 0);
    ld_ope_digits_add(&d, -0.123456);
    ld_ope_digits_add(&d, 1.000001);
    ck_assert_int_eq(d.decimals, before.decimals);
    ck_assert_int_eq(d.significant, before.significant);
}
END_TEST

int main(void)
{
    return KBT_RUN("ope digits", decimal_places_are_found, significant_digits_are_found,
                   zeros_at_the_end_are_digits_where_others_have_them, what_is_no_propensity_tells_nothing);
}
