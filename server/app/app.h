/* The running server: its parts, and the order in which they start and stop. */
#ifndef LD_APP_H
#define LD_APP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "api/server.h"
#include "app/notify.h"
#include "app/options.h"
#include "base/pace.h"
#include "http/http.h"
#include "http/tls.h"
#include "tenant/recover.h"

enum ld_recovery { LD_RECOVERING, LD_RECOVERED, LD_RECOVERY_FAILED };

struct ld_app {
    int argc; /* of the command line, which a reload reads again */
    char *const *argv;
    /* The options are the loop's; what other threads read of them stands in the server, as atomics (reload.c). */
    struct ld_options options;
    struct ld_body_memory body_memory;
    struct ld_pace pace;
    struct ld_server server;
    struct ld_tls *tls;           /* NULL: plain HTTP */
    struct ld_shared_log *shared; /* NULL: each tenant's file is its log */
    /* The job that opens all tenants at the start. */
    atomic_int recovery; /* enum ld_recovery */
    struct ld_progress progress;
    struct ld_message why;
    /* The loop's own. */
    struct ld_notify notify;
    char address[80];
    bool has_started, is_hurried;
    int status;              /* of the exit */
    int64_t drain_until_us;  /* monotonic */
    int64_t told_us, fed_us; /* of the last STATUS, and of the watchdog */
    uint64_t told_steps;
};

/* Starts, prints the listening line on stdout, serves until a signal ends it, stops. The exit status: 0, or 1 with
 * the reason on stderr. */
int ld_app_run(const struct ld_options *options, int argc, char *const *argv);

/* reload.c. SIGHUP, on the loop: reads the configuration and the key file again. */
void ld_app_reload(struct ld_app *app);
/* Puts app->options in force, those that may change while the server runs. */
void ld_app_put_in_force(struct ld_app *app);
struct ld_http_limits ld_app_http_limits(const struct ld_app *app);

#endif
