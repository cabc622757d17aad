/* The scheduler: one libuv loop that owns timers, signals and the work pool, and the turns of tenants' writers
 * (turns.h). Owner of uv.h. */
#ifndef LD_SCHED_H
#define LD_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ld_sched;
struct ld_turn;

/* Whose threads a job is for. */
enum ld_threads {
    LD_POOL,        /* the work pool's */
    LD_POOL_SERVES, /* the same for what requests ask for: half of the pool's threads at most do such work, so that
                     * openings find one, and the rest waits in a line of its own */
    LD_LONG_WORK,   /* for what takes seconds: threads of its own, behind the pool's at the processor (long_work.h) */
    LD_TRANSFERS /* likewise for what a person has asked for and waits for: logs and files that are copied, taken in or
                  * given out. Apart from the former, so that neither keeps the other waiting */
};

struct ld_sched_hooks {
    void (*tick)(void *arg, int64_t now_ms); /* every 250 ms, on the loop */
    void (*terminate)(void *arg);            /* SIGTERM or SIGINT, on the loop */
    void (*reload)(void *arg);               /* SIGHUP */
    void *arg;
};

int ld_sched_new(struct ld_sched **out, const struct ld_sched_hooks *hooks);
void ld_sched_free(struct ld_sched *s);
/* One without threads: what is given runs at once, in the thread that gives it, and turns are the caller's. */
struct ld_sched *ld_sched_inline(void);

/* From any thread: the tenant has ops. It is held until its turn is over. */
void ld_sched_wake(struct ld_sched *s, struct ld_turn *turn);

/* From any thread: runs fn(arg) there, in order of arrival. 0, or -1 without memory or threads, or when `most` of those
 * that are served, or of transfers, wait already. What was accepted is run, also while the loop stops. */
int ld_sched_give(struct ld_sched *s, enum ld_threads threads, void (*fn)(void *arg), void *arg, size_t most);

/* Runs the loop in this thread until ld_sched_stop, which may come from any thread; returns when no job is in flight.
 */
void ld_sched_run(struct ld_sched *s);
void ld_sched_stop(struct ld_sched *s);
/* After ld_sched_run has returned: calls the hooks of signals that came meanwhile. */
void ld_sched_poll(struct ld_sched *s);

#endif
