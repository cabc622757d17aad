/* Whether commits are to wait for company: they are cheaper in company, and where processors are what the server is
 * short of, waiting for it delays nobody (docs/decisions/0043-company.md). */
#ifndef LD_PACE_H
#define LD_PACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* One for all writers. The clocks and the rest are replaceable in tests. */
struct ld_pace {
    int64_t (*now_us)(void); /* monotonic */
    int64_t (*cpu_us)(void); /* that the process has had of all processors */
    void (*rest)(void);      /* a moment, in which others may go on */
    unsigned n_processors;   /* that the process may use */
    _Atomic int64_t looked_us, looked_cpu_us;
    atomic_bool is_short;
};

void ld_pace_init(struct ld_pace *p);

/* Whether the process had most of its processors between the last two looks, which are some milliseconds apart: this
 * call is the next one when it is time. From any thread. */
bool ld_pace_is_short(struct ld_pace *p);

#endif
