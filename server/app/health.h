/* Whether the server lives, moves and may be sent traffic: what /healthz, /readyz and the service manager are told.
 * The loop keeps it; any thread may ask. */
#ifndef LD_HEALTH_H
#define LD_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ld_app;

/* Times are monotonic, in microseconds; 0 where a moment has none. */
struct ld_health {
    _Atomic int64_t stuck_after_us;
    _Atomic int64_t turned_at;     /* the loop's last turn */
    _Atomic int64_t asked_at;      /* since when the pool owes a look at the disk */
    _Atomic int64_t waiting_since; /* the longest that a change waits for a writer that gets nowhere */
    atomic_bool is_full, is_registry_failing;
    int64_t next_ask; /* the loop's own */
};

/* On the loop, every turn; waiting_since as above. */
void ld_health_turn(struct ld_app *app, int64_t waiting_since);

/* The loop turns: the process is alive. */
bool ld_health_is_alive(const struct ld_app *app);
/* Loop, pool and writers get somewhere: the process does its work. */
bool ld_health_is_moving(const struct ld_app *app);
/* Whether it may be sent traffic; why (>= 256 bytes) says why not. Names a tenant where no keys are asked for. */
bool ld_health_is_ready(struct ld_app *app, char *why);

#endif
