/* X = L^-1 X by kernels of our own (lower_solve.h), since a library's suit the twenty columns of a decision badly.
 * lower_tile.h is the algorithm; here are the shapes of its tiles.
 *
 *   LANES             doubles in a vector
 *   VECTORS           vectors in a diagonal block that is solved at once
 *   BLOCKS            such blocks in a tile, one below the other
 *   WIDE, NARROW      columns of a tile where many or few are left; a pair is the least
 *
 * A tile's sums fill the registers, 20 of 32 or 10 of 16, besides a column of the panel and one value of X: two vectors
 * of rows, since each of X's values is then read for two multiplications, and ten sums at least, since a sum has to
 * wait four or five cycles for its last term while two can be begun in each. Twenty candidates fill all tiles. Vectors
 * of four and of eight meet blocks of eight rows alike, so one processor's bits are the other's.
 *
 * This file is compiled with -ffp-contract=fast (Makefile): sum -= l * x is one instruction where there is one. */
#include "linalg/lower_solve.h"

#include <assert.h>
#include <string.h>

#define DEPTH ((size_t)128) /* columns of L whose pages stay at hand while all rows below are met */

#define NAME(x) x##_2
#define TARGET
#define LANES 2
#define VECTORS 2
#define BLOCKS 1
#define WIDE 5
#define NARROW 2
#include "linalg/lower_tile.h"

#ifdef __x86_64__
#define NAME(x) x##_4
#define TARGET KB_TARGET_4
#define LANES 4
#define VECTORS 2
#define BLOCKS 1
#define WIDE 5
#define NARROW 2
#include "linalg/lower_tile.h"

#define NAME(x) x##_8
#define TARGET KB_TARGET_8
#define LANES 8
#define VECTORS 1
#define BLOCKS 2
#define WIDE 10
#define NARROW 5
#include "linalg/lower_tile.h"

#else
#define solve_4 solve_2
#define solve_8 solve_2
#endif

void kb_lower_solve(enum kb_lanes lanes, size_t n, const double *l, size_t ld_l, double *x, size_t ld, size_t n_rhs)
{
    assert(ld >= n && lanes <= kb_widest_lanes());
    if (lanes == KB_LANES_8)
        solve_8(n, l, ld_l, x, ld, n_rhs);
    else if (lanes == KB_LANES_4)
        solve_4(n, l, ld_l, x, ld, n_rhs);
    else
        solve_2(n, l, ld_l, x, ld, n_rhs);
}
