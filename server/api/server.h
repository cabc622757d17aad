/* What requests are served with: the parts of the server that handlers know, and what they are held to. The app
 * (app.h) starts, fills and stops it. */
#ifndef LD_SERVER_H
#define LD_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/metrics.h"
#include "http/http.h"
#include "keys/auth.h"
#include "keys/keys.h"
#include "store/spool.h"
#include "tenant/sched.h"
#include "tenants/registry.h"

/* Which requests get a line in the log, in the order of the words of --log-requests. */
enum ld_log_requests { LD_LOG_ALL, LD_LOG_SLOW, LD_LOG_ERRORS, LD_LOG_NO_REQUESTS };

/* What requests are held to. */
struct ld_limits {
    atomic_size_t body, observe_body, bulk_body, import_body; /* bytes of bodies, by kind */
    atomic_size_t metrics_tenants;
    atomic_int log_requests; /* enum ld_log_requests */
    _Atomic int64_t slow_us;
    atomic_size_t candidates, arms, dim; /* of one decision: named, of the whole catalogue; of a configuration */
    _Atomic double magnitude;            /* of the numbers that a model computes with */
    atomic_size_t work, transfers;       /* requests in the lines for a thread */
};

/* Replays that are at work (api_replay.c). */
struct ld_replays {
    pthread_mutex_t lock;
    struct ld_replay_job *first;
};

/* Streams of events (api_watch.c). */
struct ld_watches {
    pthread_mutex_t lock;
    struct ld_watch *first;
    atomic_bool is_pumping;
    _Atomic int64_t refused_us; /* when one was refused because there are too many */
};

/* Requests that wait for a line of the shared log to come here (after.c). */
struct ld_after {
    pthread_mutex_t lock;
    struct ld_call *first;
    size_t n;
    bool is_over;
    int64_t wait_us; /* at most; set before requests are served */
};

/* Whether the server lives, moves and may be sent traffic (health.c). Times are monotonic, in microseconds; 0 where a
 * moment has none. */
struct ld_health {
    _Atomic int64_t stuck_after_us;
    _Atomic int64_t turned_at;     /* the loop's last turn */
    _Atomic int64_t asked_at;      /* since when the pool owes a look at the disk */
    _Atomic int64_t waiting_since; /* the longest that a change waits for a writer that gets nowhere */
    atomic_bool is_full, is_registry_failing;
    int64_t next_ask;   /* the loop's own */
    int64_t max_lag_us; /* behind a shared log; set before requests are served */
};

struct ld_server {
    /* The tenants borrow world and metrics from here. What may change at any time is atomic (reload.c). */
    struct ld_limits limits;
    struct ld_metrics metrics;
    struct ld_world world;
    struct ld_auth *auth;
    struct ld_sched *sched;
    struct ld_tenants *tenants;
    struct ld_keys *keys;
    struct ld_spool *spool;
    struct ld_http *http;
    struct ld_replays replays;
    struct ld_watches watches;
    struct ld_health health;
    struct ld_after after;
    char origins[512];                            /* --cors-origin; set before requests are served */
    bool has_console;                             /* --console; likewise */
    _Atomic int64_t us_per_work, us_per_transfer; /* of what requests do on the pool, and there; beside.c */
    /* Each is set once; handlers read them from any thread. Until it is ready, only probes are answered. */
    atomic_bool is_ready, is_draining;
};

/* dispatch.c, request_log.c. What the HTTP server calls; their arg is the server. */
extern const struct ld_http_hooks ld_server_hooks;
void ld_server_completed(void *arg, const struct ld_request *r, const struct ld_outcome *o);

/* api_replay.c. Those that are at work end soon, and later ones at once. */
void ld_replays_cancel(struct ld_server *s);

/* api_watch.c. On the loop, every turn: streams get what is new. Those of a tenant that is removed end soon, and all do
 * when the server drains; what is left when HTTP has stopped goes with the last call. */
void ld_watches_tick(struct ld_server *s);
void ld_watches_forget_tenant(struct ld_server *s, const char *name);
void ld_watches_close(struct ld_server *s);

/* after.c, for servers that share a log. A hook of HTTP: answers of tenants tell how far the log was read. */
bool ld_after_mark(void *arg, struct ld_request *r, struct ld_header *out);
/* After each question of the log: those whose line has come go on. True: somebody waits still. */
bool ld_after_round(void *server);
void ld_after_end(struct ld_server *s); /* when HTTP has stopped; twice is fine */

/* call.c. Whether whoever showed this Authorization header (may be NULL) may still do what asks for the role, with that
 * tenant. */
bool ld_access_holds(struct ld_server *s, const char *authorization, const char *tenant, unsigned role);

/* health.c. On the loop, every turn; waiting_since as above. */
void ld_health_turn(struct ld_server *s, int64_t waiting_since);
/* From any thread. The loop turns: the process is alive. */
bool ld_health_is_alive(const struct ld_server *s);
/* Loop, pool and writers get somewhere: the process does its work. */
bool ld_health_is_moving(const struct ld_server *s);
/* Why it may not be sent traffic, static or in buffer (LD_HEALTH_BYTES); NULL: it may. Names a tenant where no keys are
 * asked for. */
#define LD_HEALTH_BYTES 128
const char *ld_health_refuses(struct ld_server *s, char buffer[LD_HEALTH_BYTES]);
/* What somebody ought to look at though traffic may come, in buffer; NULL: nothing. Names as above. */
const char *ld_health_warns(struct ld_server *s, char buffer[LD_HEALTH_BYTES]);

#endif
