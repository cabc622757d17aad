/* The clocks of the server, each read in this one place. The core never reads a clock: time reaches it in
 * events. Tests replace the wall clock through ld_world.now_ms. */
#ifndef LD_CLOCK_H
#define LD_CLOCK_H

#include <stdint.h>

int64_t ld_now_ms(void);       /* wall clock, milliseconds since 1970 UTC */
int64_t ld_monotonic_us(void); /* for durations; also declared in metrics.h, whose histograms it feeds */
int64_t ld_monotonic_ns(void);
int64_t ld_thread_cpu_us(void);  /* that the calling thread has had of a processor */
int64_t ld_process_cpu_us(void); /* that all threads have had, with those that have ended */

#endif
