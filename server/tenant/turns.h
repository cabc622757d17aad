/* Turns of tenants' writers: the line of tenants that have work, and threads of its own. A tenant is in the line once,
 * and at most one thread runs its writer; one that has more to do goes to the line's end. */
#ifndef LD_TURNS_H
#define LD_TURNS_H

#include <stdbool.h>

struct ld_turns;
struct ld_tenant;

/* What is done of a tenant. */
struct ld_turn_ops {
    bool (*run)(struct ld_tenant *t); /* its writer's turn; true: it has more to do */
    struct ld_tenant *(*hold)(struct ld_tenant *t);
    void (*release)(struct ld_tenant *t);
};

/* What is kept in each tenant. The first two are set before it is ever woken; the others are guarded by the lock of
 * turns, and zero at first. */
struct ld_turn {
    struct ld_tenant *tenant;
    const struct ld_turn_ops *ops;
    enum { LD_TURN_NONE, LD_TURN_WAITING, LD_TURN_RUNNING, LD_TURN_AGAIN } state;
    struct ld_turn *next;
};

/* rests is called whenever the last turn is over and nobody waits, by the thread that ran it, without a lock. 0, or -1
 * without memory or a thread. */
int ld_turns_new(struct ld_turns **out, void (*rests)(void *arg), void *arg);
void ld_turns_free(struct ld_turns *t);

/* From any thread: the tenant has ops, which are in its queue already. It is held until its turn is over. Allocates
 * nothing. Cost: a lock, and a system call when no thread is at this tenant. */
void ld_turns_wake(struct ld_turns *t, struct ld_turn *turn);

/* No turn runs or waits; true may be old when it is read. */
bool ld_turns_rest(struct ld_turns *t);

/* What is in the line is run, and the threads end; who is woken afterwards has no turn. Twice is fine. */
void ld_turns_end(struct ld_turns *t);

#endif
