/* See number.h.
 *
 * std::to_chars finds the shortest digits that read back, and of those the nearest to x [UA]. printf finds, for a
 * given number of digits, the nearest of all, which may not read back. The two are the same
 * - up to 15 digits: a decimal of 15 digits comes back from a normal double unchanged (DBL_DIG);
 * - beyond, where what reads back as x lies as far below x as above it: if any decimal of so many digits lies there,
 * the nearest to x does. Left are subnormal numbers and, with 16 or 17 digits, powers of two, whose lower neighbour is
 * nearer than the upper one: for those all lengths are tried through printf and strtod. tests/server/base/test_text.c
 * compares with that way.
 *
 * Cost: some 700 instructions, against 8,000 for three rounds of printf and strtod, which libquadmath slows down. */
#include "base/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define DIGITS_ALWAYS 15 /* always read back from text to the same text */
#define DIGITS_MOST 17   /* always read back from a double to the same double */

/* 0.d[0]d[1]... times ten to the power of point; no zeros at the end. */
struct decimal {
    char digit[DIGITS_MOST + 1];
    int n, point;
};

/* As %g writes it when asked for 15 digits or, where there are more, for all. */
static char *put_decimal(const struct decimal *d, char *out)
{
    const int most = d->n < DIGITS_ALWAYS ? DIGITS_ALWAYS : d->n, before = d->point;
    if (before < -3 || before > most) {
        *out++ = d->digit[0];
        if (d->n > 1)
            *out++ = '.';
        out = std::copy(d->digit + 1, d->digit + d->n, out);
        *out++ = 'e';
        *out++ = before > 0 ? '+' : '-';
        const int power = std::abs(before - 1);
        if (power < 10)
            *out++ = '0';
        return std::to_chars(out, out + 3, power).ptr;
    }
    if (before <= 0) {
        out = std::copy_n("0.000", 2 - before, out);
        return std::copy(d->digit, d->digit + d->n, out);
    }
    const int whole = before < d->n ? before : d->n;
    out = std::copy(d->digit, d->digit + whole, out);
    out = std::fill_n(out, before - whole, '0');
    if (before < d->n)
        *out++ = '.';
    return std::copy(d->digit + whole, d->digit + d->n, out);
}

/* Of to_chars's d.ddde+xx. */
static struct decimal shortest(double x)
{
    char text[LD_NUMBER_BYTES];
    struct decimal d = {};
    const char *end = std::to_chars(text, text + sizeof text, x, std::chars_format::scientific).ptr;
    const char *at = text;
    for (; *at != 'e'; at++)
        if (*at != '.')
            d.digit[d.n++] = *at;
    at += at[1] == '+' ? 2 : 1; /* from_chars takes no plus */
    (void)std::from_chars(at, end, d.point);
    d.point++;
    return d;
}

/* The sign of the fraction is the locale's, of perhaps several bytes. */
static size_t by_printf(double x, char *out)
{
    char text[48];
    size_t n = 0;
    for (int digits = DIGITS_ALWAYS; digits <= DIGITS_MOST; digits++) {
        (void)std::snprintf(text, sizeof text, "%.*g", digits, x);
        if (std::strtod(text, nullptr) == x)
            break;
    }
    for (const char *at = text; *at != '\0'; at++) {
        if (std::strchr("0123456789+-eE", *at) != nullptr)
            out[n++] = *at;
        else if (n > 0 && out[n - 1] != '.')
            out[n++] = '.';
    }
    return n;
}

static bool is_power_of_two(double x)
{
    int exponent;
    return std::frexp(std::fabs(x), &exponent) == 0.5;
}

size_t ld_number_write(double x, char *out)
{
    if (std::fabs(x) < 1e15 && x == std::trunc(x) && (x != 0 || !std::signbit(x))) /* 0 has no sign as an integer */
        return (size_t)(std::to_chars(out, out + LD_NUMBER_BYTES, (int64_t)x).ptr - out);
    if (!std::isnormal(x))
        return by_printf(x, out);
    const struct decimal d = shortest(std::fabs(x));
    if (d.n > DIGITS_ALWAYS && is_power_of_two(x))
        return by_printf(x, out);
    *out = '-';
    return (size_t)(put_decimal(&d, out + std::signbit(x)) - out);
}

/* from_chars knows no plus, blanks or other locale; its inf and nan are no JSON and never get here. */
bool ld_number_read(const char *begin, const char *end, double *out)
{
    const std::from_chars_result read = std::from_chars(begin, end, *out);
    return read.ec == std::errc() && read.ptr == end;
}

size_t ld_count_write(uint64_t x, char *out)
{
    return (size_t)(std::to_chars(out, out + LD_NUMBER_BYTES, x).ptr - out);
}
