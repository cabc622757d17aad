/* Start, drain, stop.
 *
 *   start   the key file, scheduler, tenants (recovery), keys, HTTP; then the one line on stdout that says where
 *   serve   the loop runs in the main thread until it is told to stop
 *   drain   SIGTERM, SIGINT: not ready any more, no new connections; when no request is in flight, or the time is up,
 *           HTTP stops (whoever still waits gets 503). A second signal ends the waiting.
 *   stop    the loop ends when no job is in flight; then snapshots, and the files are closed
 *
 * A request in flight is answered or told 503, and what was answered is on disk: a deadline that cuts a drain short
 * loses nothing that a client was promised.
 *
 * Threads: everything here runs in the main thread, before, on, or after the loop. Handlers on other threads read
 * is_draining, which is atomic, and what was set before HTTP started. */
#include "app.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "access.h"
#include "checked.h"
#include "clock.h"
#include "failpoint.h"
#include "listen.h"
#include "log.h"
#include "version.h"

/* One tenant's turn of the timer: expiry of decisions, and healing after a failed commit. */
static void tick_tenant(void *arg, struct ld_tenant *t)
{
    ld_tenant_tick(t, *(const int64_t *)arg);
}

/* On the work pool. */
static void flush_keys(void *arg)
{
    (void)ld_keys_flush(arg);
}

/* A removed tenant's keys go before its name can be used again. */
static void forget_keys(void *arg, const char *name)
{
    struct ld_app *app = arg;
    ld_keys_forget_tenant(app->keys, name);
}

/* Every 250 ms: the tenants' timers, the last uses of keys, and the end of a drain. A tick costs little when nothing is
 * due: a comparison a tenant. It waits for no tenant's writer, so a slow writer does not hold up the timers of others.
 */
static void tick(void *arg, int64_t now_ms)
{
    struct ld_app *app = arg;
    if (app->tenants == NULL) /* the loop's last round, after a start that failed */
        return;
    ld_failpoint("in_tick");
    ld_tenants_each(app->tenants, tick_tenant, &now_ms);
    ld_tenants_tick(app->tenants);
    if (app->http != NULL)
        ld_http_sweep(app->http);
    if (ld_keys_flush_is_due(app->keys, now_ms))
        (void)ld_sched_work(app->sched, flush_keys, app->keys);
    if (!atomic_load(&app->is_draining) || app->http == NULL)
        return;
    size_t n = ld_http_in_flight(app->http);
    if (n > 0 && ld_monotonic_us() < app->drain_until_us)
        return;
    if (n > 0)
        ld_log(LD_LOG_WARN, "stopping with %zu requests in flight", n);
    ld_tenants_halt(app->tenants);
    ld_http_stop(app->http);
    app->http = NULL;
    ld_sched_stop(app->sched);
}

/* SIGTERM or SIGINT, on the loop. What was accepted is answered. New clients are refused by
 * the kernel and know that nothing happened; on connections that are open /readyz fails. */
static void terminate(void *arg)
{
    struct ld_app *app = arg;
    if (atomic_exchange(&app->is_draining, true)) {
        app->drain_until_us = 0; /* asked twice: wait no longer */
        return;
    }
    app->drain_until_us = ld_monotonic_us() + (int64_t)app->options.drain_timeout_s * 1000000;
    ld_http_quiesce(app->http);
    ld_log(LD_LOG_INFO, "stopping: %zu requests in flight", ld_http_in_flight(app->http));
}

/* SIGHUP, on the loop. */
static void reload(void *arg)
{
    ld_app_reload(arg);
}

/* Files that are no connections: those of tenants, and connections that are being closed. */
#define FILES_BESIDES 512u

/* Room for the connections and the tenants' files. A tenant
 * has its log, the WAL and its index open, and a few reading connections besides. Failure changes nothing. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* How many connections there may be: not so many that the tenants' files cannot be opened any more. An operator who
 * asked for more is told the figures. */
static uint64_t usable_connections(uint64_t wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted + FILES_BESIDES)
        return wanted;
    uint64_t usable = limit.rlim_cur > 2 * FILES_BESIDES ? limit.rlim_cur - FILES_BESIDES : limit.rlim_cur / 2;
    ld_log(LD_LOG_WARN,
           "the process may have %" PRIu64 " open files, %" PRIu64 " connections want %" PRIu64
           ": there will be %" PRIu64 " connections at most (raise the hard limit, or lower --max-connections)",
           (uint64_t)limit.rlim_cur, wanted, wanted + FILES_BESIDES, usable);
    return usable;
}

/* What all tenants share, from the options; the rest of it is put in force with what may change. The folder's name is
 * borrowed from app->options. The world must outlive the last tenant, which is why it is part of the app. */
static void make_world(struct ld_app *app)
{
    struct ld_world *w = &app->world;
    w->sched = app->sched;
    w->metrics = &app->metrics;
    w->data_dir = app->options.data;
    w->now_ms = ld_now_ms;
    w->verify_on_start = app->options.is_verifying;
    w->open_on_start = app->options.is_opening_all;
    ld_app_put_in_force(app);
}

/* The last step of the start: from here on clients are served. Prints the one line that scripts wait for, with the
 * port that the kernel gave when 0 was asked for. stdout carries this line and nothing else; everything for people
 * goes to stderr. */
static int start_http(struct ld_app *app, char *why)
{
    struct ld_endpoint e;
    const struct ld_http_hooks hooks = {.admit = ld_app_admit, .handle = ld_app_handle, .arg = app};
    ld_endpoint_parse(app->options.listen, &e); /* checked with the options */
    const struct ld_http_options o = {.tls = app->tls,
                                      .host = e.host,
                                      .port = e.port,
                                      .threads = (unsigned)app->options.threads,
                                      .limits = ld_app_http_limits(app),
                                      .max_head = (size_t)app->options.max_header,
                                      .max_connections = (unsigned)usable_connections(app->options.max_connections),
                                      .max_per_address = (unsigned)app->options.max_connections_per_address,
                                      .body_memory = &app->body_memory,
                                      .metrics = &app->metrics};
    if (ld_http_start(&app->http, &o, &hooks, why) != 0)
        return -1;
    char address[80];
    e.port = ld_http_port(app->http);
    ld_endpoint_format(&e, address);
    printf("laplaced listening on %s://%s data=%s\n", app->tls != NULL ? "https" : "http", address, app->options.data);
    fflush(stdout);
    ld_log(LD_LOG_INFO, "laplaced " LD_VERSION " serving %s on %s with %" PRIu64 " threads", app->options.data, address,
           app->options.threads);
    return 0;
}

/* Keys made by the API, and the one rule that keeps a server without keys from being open to a network; there is no
 * flag to lift it. options.c has refused already where there cannot be any. */
static int start_keys(struct ld_app *app, char *why)
{
    struct ld_endpoint e;
    if (ld_keys_open(&app->keys, ld_tenants_registry(app->tenants), why) != 0)
        return -1;
    ld_tenants_on_removal(app->tenants, forget_keys, app);
    ld_endpoint_parse(app->options.listen, &e);
    if (ld_access_wants_keys(app))
        return 0;
    if (!ld_endpoint_is_loopback(&e)) {
        ld_options_refuse_keyless(&app->options, why);
        return -1;
    }
    ld_log(LD_LOG_WARN, "no keys, hence on loopback only: whoever can run programs on this machine may use the server");
    return 0;
}

/* The parts in order; on failure why says which and those started are closed by the caller. The names of all tenants
 * and the keys come before the socket: a client that can connect finds every tenant there, if not yet in memory. */
static int start(struct ld_app *app, char *why)
{
    if (!LD_CHECKED)
        ld_log(LD_LOG_WARN, "built for a bench, without what the front door asks: everybody may do everything");
    const struct ld_sched_hooks hooks = {.tick = tick, .terminate = terminate, .reload = reload, .arg = app};
    if (ld_auth_open(&app->auth, app->options.admin_key_file, why) != 0)
        return -1;
    if (app->options.tls_cert[0] != '\0' &&
        ld_tls_open(&app->tls, app->options.tls_cert, app->options.tls_key, &app->metrics, why) != 0)
        return -1;
    if (ld_sched_new(&app->sched, &hooks) != 0) {
        snprintf(why, LD_WHY_BYTES, "cannot start the scheduler");
        return -1;
    }
    make_world(app);
    if (ld_tenants_open(&app->tenants, &app->world, why) != 0 || start_keys(app, why) != 0)
        return -1;
    if (ld_spool_open(&app->spool, app->options.data, why) != 0)
        return -1;
    return start_http(app, why);
}

/* Parts are closed in the reverse order of their start: HTTP first, so that nobody asks any more; tenants before the
 * scheduler, whose wakes their last ops may use. After a drain HTTP is stopped already (NULL is fine); after a failed
 * start some parts were never made. */
int ld_app_run(const struct ld_options *options, int argc, char *const *argv)
{
    struct ld_app *app = calloc(1, sizeof *app);
    char why[LD_WHY_BYTES] = "";
    if (app == NULL) {
        fprintf(stderr, "laplaced: out of memory\n");
        return 1;
    }
    app->options = *options;
    app->argc = argc;
    app->argv = argv;
    ld_gauge_set(&app->metrics.configured_ms, (uint64_t)ld_now_ms());
    raise_file_limit();
    int rc = start(app, why);
    if (rc != 0)
        fprintf(stderr, "laplaced: %s\n", why);
    if (rc != 0 && app->sched != NULL)
        ld_sched_stop(app->sched); /* what was begun ends, before what it knows goes */
    if (app->sched != NULL)
        ld_sched_run(app->sched);
    ld_http_stop(app->http);
    ld_keys_close(app->keys);
    ld_spool_close(app->spool);
    ld_tenants_close(app->tenants);
    app->tenants = NULL;
    if (app->sched != NULL)
        ld_sched_free(app->sched);
    ld_tls_close(app->tls);
    ld_auth_close(app->auth);
    free(app);
    if (rc == 0)
        ld_log(LD_LOG_INFO, "stopped");
    return rc == 0 ? 0 : 1;
}
