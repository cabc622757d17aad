/* The kernels that OpenBLAS runs, put right at the start of server and client: who folds a log gets the same bits. */
#ifndef LD_BLAS_CORE_H
#define LD_BLAS_CORE_H

#include <stdbool.h>

/* When OpenBLAS has chosen kernels below what the processor can do (it falls back far for models that it does not
 * know), and the environment does not say otherwise, sets OPENBLAS_CORETYPE and runs this program again, once; so it
 * does when the library has started threads of its own, with OPENBLAS_NUM_THREADS. Then sets one BLAS thread per call.
 * Call it first in main, before any thread. Logs at level info what is in force. */
void ld_blas_core_settle(char *const *argv);

/* The same for a client: no word, and threads of the library do not matter. Its models have the bits of a server's on
 * the same machine. */
void ld_blas_core_match(char *const *argv);

/* For tests. Class of a core type's name: 3 AVX-512, 2 AVX2 with FMA, 1 AVX, 0 below or unknown. */
int ld_blas_core_class(const char *name);
/* Whether to run again: `now` is below `best` (may be NULL), and neither OPENBLAS_CORETYPE (`chosen`) nor an earlier
 * attempt (`corrected`) stands; the last two as getenv gives them. */
bool ld_blas_core_is_wrong(const char *now, const char *best, const char *chosen, const char *corrected);

#endif
