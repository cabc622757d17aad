/* Householder's reduction to tridiagonal form, and the rotation into it (tridiagonal.h).
 *
 *   letter   shape   meaning
 *   v_j      n - 1 - j   reflector j = 0, ..., n - 2, on rows j + 1 and below; its first entry is 1
 *   P        n x n   a panel's reflectors, I - V F V^T: V its v_j by column, F upper triangular       [LUG,
 * sec. 3.4.1.3]
 *
 * LAPACK's dsytrd gives T and the v_j, so that Q is the product of the panels, the first on the left [LUG, sec. 2.4.4],
 * and Q^T C applies their transposes, the first first. LAPACK's own dormtr does the same, but writes into the
 * reflectors while it works, and readers of one model share them.
 *
 * [LUG] Anderson et al.: LAPACK Users' Guide, 3rd ed. */
#include "linalg/tridiagonal.h"

#include <assert.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "linalg/linalg.h"

#define BLOCK 32u                                 /* columns that dsytrd reduces before it updates the rest */
#define MAX_ORDER ((size_t)INT_MAX / (BLOCK + 1)) /* LAPACK counts its work by an int */
/* Values that OpenBLAS 0.3.21 may read behind the end of tau, and takes for nothing: its dsymv of processors that it
 * does not know (SSE3) takes y by fours, and in dsytd2 y is tau. */
#define BEHIND_TAU 4

/* Reflectors of a panel. Two of them and of their products fit into n doubles a column. */
static size_t panel_of(size_t n)
{
    return n / 2 < KB_TRIDIAGONAL_PANEL ? n / 2 : KB_TRIDIAGONAL_PANEL;
}

static size_t width_of(size_t n, size_t first)
{
    const size_t left = n - 1 - first, panel = panel_of(n);
    return left < panel ? left : panel;
}

/* Only the triangle that LAPACK reads. */
static bool is_lower_finite(size_t n, const double *a)
{
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++)
            if (!isfinite(a[j * n + i]))
                return false;
    return true;
}

/* The F of each panel, and the v_j with their ones, and zeros above: products then need no triangles. */
static void close_panels(size_t n, double *a, const double *tau, double *factor)
{
    for (size_t first = 0; first + 1 < n; first += panel_of(n)) {
        const size_t width = width_of(n, first);
        double *v = a + first * n + first + 1;
        LAPACKE_dlarft_work(LAPACK_COL_MAJOR, 'F', 'C', (lapack_int)(n - 1 - first), (lapack_int)width, v,
                            (lapack_int)n, tau + first, factor + first * KB_TRIDIAGONAL_PANEL,
                            (lapack_int)KB_TRIDIAGONAL_PANEL);
        for (size_t j = first; j < first + width; j++) {
            for (size_t i = 0; i <= j; i++)
                a[j * n + i] = 0;
            a[j * n + j + 1] = 1;
        }
    }
}

enum kb_err kb_tridiagonal_reduce(size_t n, double *a, double *diag, double *off, double *factor)
{
    if (n > MAX_ORDER)
        return KB_ELIMIT;
    if (n == 0)
        return KB_OK;
    if (!is_lower_finite(n, a))
        return KB_ENOTPD;
    double *work = kb_array(n * (BLOCK + 1) + BEHIND_TAU, 1, sizeof *work);
    if (work == NULL)
        return KB_ENOMEM;
    double *tau = work + BLOCK * n;
    lapack_int info = LAPACKE_dsytrd_work(LAPACK_COL_MAJOR, 'L', (lapack_int)n, a, (lapack_int)n, diag, off + 1, tau,
                                          work, (lapack_int)(BLOCK * n));
    assert(info == 0);
    (void)info;
    off[0] = 0;
    close_panels(n, a, tau, factor);
    kb_free(work);
    return KB_OK;
}

void kb_tridiagonal_rotate(size_t n, const double *a, const double *factor, size_t n_c, double *c, size_t ld,
                           double *work)
{
    for (size_t first = 0; first + 1 < n; first += panel_of(n)) {
        const size_t width = width_of(n, first), rows = n - 1 - first;
        const double *v = a + first * n + first + 1;
        double *along = work, *turned = work + width * n_c, *below = c + first + 1;
        kb_gemm_tn(width, n_c, rows, 1, v, n, below, ld, 0, along, width);
        kb_gemm_tn(width, n_c, width, 1, factor + first * KB_TRIDIAGONAL_PANEL, KB_TRIDIAGONAL_PANEL, along, width, 0,
                   turned, width);
        kb_gemm(rows, n_c, width, -1, v, n, turned, width, 1, below, ld);
    }
}
