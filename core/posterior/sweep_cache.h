/* Kernel values between the history's rows and the dictionary, kept between admissions: k(s_j, z_i), so that a sweep
 * has one new value a row to compute instead of m. Derived: a cache that is missing, or was never made, changes no bit
 * of what a sweep finds (test: a_snapshot_of_any_moment_with_its_tail_equals_the_live_model). */
#ifndef KB_SWEEP_CACHE_H
#define KB_SWEEP_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* Doubles that one posterior may spend on it, 16 MB; a history that would need more is computed anew by each sweep. */
#define KB_SWEEP_CACHE_MAX ((size_t)2 << 20)

struct kb_sweep_cache {
    double *k;       /* [cap_rows][stride]: row j of the history, dictionary point i at k[j * stride + i] */
    size_t stride;   /* a leading dimension as blocks have it */
    size_t rows;     /* whose values over the dictionary in force are there */
    size_t cap_rows; /* room */
    bool is_off;     /* too large, or no memory: not asked again */
};

void kb_sweep_cache_close(struct kb_sweep_cache *c);

/* Room for `rows` rows of `stride` values, what is there kept. False: there is no cache from here on. */
bool kb_sweep_cache_fit(struct kb_sweep_cache *c, size_t rows, size_t stride);

size_t kb_sweep_cache_bytes(const struct kb_sweep_cache *c);

#endif
