/* Clocks. CLOCK_REALTIME may jump when the machine's time is set: durations are never computed from it. */
#include "base/clock.h"

#include <time.h>

#include "base/metrics.h"

/* For what is written down and for deadlines that outlive the process: `at` of events, windows of decisions. */
int64_t ld_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t read_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Since some moment in the past, usually the boot: only differences mean something. */
int64_t ld_monotonic_us(void)
{
    return read_us(CLOCK_MONOTONIC);
}

int64_t ld_monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t ld_thread_cpu_us(void)
{
    return read_us(CLOCK_THREAD_CPUTIME_ID);
}

int64_t ld_process_cpu_us(void)
{
    return read_us(CLOCK_PROCESS_CPUTIME_ID);
}
