/* Numbers as text, by C++'s <charconv>: number.cc is the one file that knows it. */
#ifndef LD_NUMBER_H
#define LD_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LD_NUMBER_BYTES 32

/* The shortest of 15, 16 and 17 significant digits that read back as x, written as printf's %g writes them, with a
 * point in every locale; x is finite. Returns the length. No NUL. */
size_t ld_number_write(double x, char out[LD_NUMBER_BYTES]);
/* What JSON calls a number, all of [begin, end), rounded as strtod does. False: it is beyond the range of double,
 * perhaps at its lower end, or no number. */
bool ld_number_read(const char *begin, const char *end, double *out);
size_t ld_count_write(uint64_t x, char out[LD_NUMBER_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
