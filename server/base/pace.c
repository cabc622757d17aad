/* What the process has of its processors, and moments of rest for those that may wait.
 *
 * The share is taken over LOOK_US at least. A server that has slept since the last look is at leisure for one more. Of
 * threads that find it time together one looks. What other processes take is not seen: then commits do not wait. */
#include "base/pace.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_US 10000
#define SHORT 0.75 /* of all processors; the clients have some of the rest when they are on the same machine */
#define REST_US 200

static void rest(void)
{
    const struct timespec moment = {.tv_nsec = REST_US * 1000L};
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
}

static unsigned count_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (unsigned)CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* more than a set holds */
    return n > 0 ? (unsigned)n : 1;
}

void ld_pace_init(struct ld_pace *p)
{
    *p = (struct ld_pace){
        .now_us = ld_monotonic_us, .cpu_us = ld_process_cpu_us, .rest = rest, .n_processors = count_processors()};
    atomic_store(&p->looked_us, p->now_us());
    atomic_store(&p->looked_cpu_us, p->cpu_us());
}

bool ld_pace_is_short(struct ld_pace *p)
{
    const int64_t now_us = p->now_us();
    int64_t before_us = atomic_load(&p->looked_us);
    if (now_us - before_us >= LOOK_US && atomic_compare_exchange_strong(&p->looked_us, &before_us, now_us)) {
        const int64_t cpu_us = p->cpu_us(), had_us = cpu_us - atomic_exchange(&p->looked_cpu_us, cpu_us);
        atomic_store(&p->is_short, (double)had_us > SHORT * p->n_processors * (double)(now_us - before_us));
    }
    return atomic_load(&p->is_short);
}
