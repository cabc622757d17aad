/* OpenBLAS's work memory, had at the start: no call waits for memory that never comes.
 *
 * Its larger calls take a buffer each, mapped at first use and kept (128 MB of addresses on x86-64, of which they touch
 * little). A mapping that fails is tried again for ever, without a way to hear of it. So the buffers are mapped while
 * the process can still refuse to start, and no more calls than buffers are let in at a time; the others wait for one
 * of those to end. */
#ifndef LD_BLAS_MEMORY_H
#define LD_BLAS_MEMORY_H

#include <stddef.h>

/* Maps up to n buffers, as many as leave `spare` bytes of addresses for all else, and has further calls wait from then
 * on. How many; 0, with *bytes set to what one takes, when there is not even room for one. Once, before other threads
 * call BLAS. */
size_t ld_blas_memory_reserve(size_t n, size_t spare, size_t *bytes);

/* For tests: calls that have taken a buffer so far. */
size_t ld_blas_memory_n_taken(void);

#endif
