/* Many e-values at once (sequences.h). */
#include "inference/sequences.h"

#include <math.h>

/* How many are at least as large. */
static size_t rank_of(const double *log_e, size_t n, double x)
{
    size_t rank = 0;
    for (size_t i = 0; i < n; i++)
        rank += log_e[i] >= x;
    return rank;
}

size_t kb_find_changes(const double *log_e, size_t n, double alpha, bool *is_found)
{
    double least = INFINITY;
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++)
        if (log_e[i] < least && log_e[i] >= log((double)n / alpha) - log((double)rank_of(log_e, n, log_e[i])))
            least = log_e[i];
    for (size_t i = 0; i < n; i++) {
        is_found[i] = log_e[i] >= least;
        n_found += is_found[i];
    }
    return n_found;
}
