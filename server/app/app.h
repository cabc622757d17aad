/* The running server: its parts, and the order in which they start and stop. */
#ifndef LD_APP_H
#define LD_APP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "keys/auth.h"
#include "http/body_memory.h"
#include "app/health.h"
#include "http/http.h"
#include "keys/keys.h"
#include "base/metrics.h"
#include "app/notify.h"
#include "app/options.h"
#include "base/pace.h"
#include "tenant/recover.h"
#include "tenants/registry.h"
#include "tenant/sched.h"
#include "store/spool.h"
#include "tenant/tenant.h"
#include "http/tls.h"

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

enum ld_recovery { LD_RECOVERING, LD_RECOVERED, LD_RECOVERY_FAILED };

struct ld_app {
    int argc; /* of the command line, which a reload reads again */
    char *const *argv;
    /* In the order of their start; the tenants borrow world, metrics and the folder's name from here. The options are
     * the loop's; what other threads read of them stands in limits and world, as atomics (reload.c). */
    struct ld_options options;
    struct ld_limits limits;
    struct ld_metrics metrics;
    struct ld_body_memory body_memory;
    struct ld_pace pace;
    struct ld_world world;
    struct ld_auth *auth;
    struct ld_tls *tls; /* NULL: plain HTTP */
    struct ld_sched *sched;
    struct ld_tenants *tenants;
    struct ld_keys *keys;
    struct ld_spool *spool;
    struct ld_http *http;
    struct ld_replays replays;
    _Atomic int64_t us_per_work, us_per_transfer; /* of what requests do on the pool, and there; dispatch.c */
    struct ld_health health;
    /* Each is set once; handlers read them from any thread. Until it is ready, only probes are answered. */
    atomic_bool is_ready, is_draining;
    /* The job that opens all tenants at the start. */
    atomic_int recovery; /* enum ld_recovery */
    struct ld_progress progress;
    char why[LD_WHY_BYTES];
    /* The loop's own. */
    struct ld_notify notify;
    char address[80];
    bool has_started, is_hurried;
    int status;              /* of the exit */
    int64_t drain_until_us;  /* monotonic */
    int64_t told_us, fed_us; /* of the last STATUS, and of the watchdog */
    uint64_t told_lines;
};

/* Starts, prints the listening line on stdout, serves until a signal ends it, stops. The exit status: 0, or 1 with
 * the reason on stderr. */
int ld_app_run(const struct ld_options *options, int argc, char *const *argv);

/* api_replay.c. Those that are at work end soon, and later ones at once. */
void ld_replays_cancel(struct ld_app *app);

/* reload.c. SIGHUP, on the loop: reads the configuration and the key file again. */
void ld_app_reload(struct ld_app *app);
/* Puts app->options in force, those that may change while the server runs. */
void ld_app_put_in_force(struct ld_app *app);
struct ld_http_limits ld_app_http_limits(const struct ld_app *app);

/* What the HTTP server calls (dispatch.c); arg is the app. The route is found in admit and kept in the request. */
size_t ld_app_admit(void *arg, struct ld_request *r);
void ld_app_handle(void *arg, struct ld_request *r);
/* From a handler that finds its work too long for a thread that serves HTTP: it is called again on the pool, where
 * ld_request_is_kept. t is held anew for that. From here on the request is not the caller's. */
void ld_app_handle_beside(struct ld_app *app, struct ld_request *r, struct ld_tenant *t);
void ld_app_completed(void *arg, const struct ld_request *r, const struct ld_outcome *o); /* request_log.c */

#endif
