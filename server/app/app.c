/* Start, drain, stop.
 *
 *   start    the key file, scheduler, names of the tenants, keys; then HTTP, which answers 503 to all but probes
 *   recover  with --open-all, or --verify: a job opens every tenant while the loop runs already
 *   ready    clients are served; the one line on stdout that says where
 *   drain    SIGTERM, SIGINT: not ready any more, no new connections; when no request is in flight, or the time is up,
 *            HTTP stops (whoever still waits gets 503). A second signal ends the waiting.
 *   stop     the loop ends when no job is in flight; then snapshots (a signal skips the rest), and the files are closed
 *
 * A request in flight is answered or told 503, and what was answered is on disk: a deadline that cuts a drain short
 * loses nothing that a client was promised. Neither does a signal during recovery: the fold ends at its next line.
 *
 * A service manager is told of each stage, and of progress where one may take long (notify.h):
 *
 *   STATUS= EXTEND_TIMEOUT_USEC=   recovering k of n, draining n in flight, writing snapshots: at most once a second
 *   READY=1                        when clients are served, and after a SIGHUP, which begins with RELOADING=1
 *   WATCHDOG=1                     while the server gets somewhere (health.h)
 *   STOPPING=1                     with the first signal
 *
 * Threads: everything here but the job runs in the main thread, before, on, or after the loop. Handlers on other
 * threads read what is atomic in the app, and what was set before HTTP started. */
#include "app/app.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "book/book.h"
#include "http/listen.h"
#include "base/log.h"
#include "base/version.h"
#include "shared/pg_log.h"

#define SECOND_US 1000000
#define PATIENCE_US 30000000 /* what a manager is asked for beyond what we know that we need */

/* On the work pool. */
static void flush_keys(void *arg)
{
    (void)ld_keys_flush(arg);
}

static bool has_tenant(void *tenants, const char *name, uint64_t id)
{
    return ld_tenants_has_shared(tenants, name, id);
}

/* In the thread that asks the shared log. */
static void follow_keys(void *arg, uint64_t revision)
{
    struct ld_app *app = arg;
    (void)ld_keys_follow(app->server.keys, revision, has_tenant, app->server.tenants);
}

/* A removed tenant's keys and streams go before its name can be used again. */
static void forget_keys(void *arg, const char *name, bool is_replaced)
{
    struct ld_app *app = arg;
    if (!is_replaced) /* else the log tells which it has */
        ld_keys_forget_tenant(app->server.keys, name);
    ld_watches_forget_tenant(&app->server, name);
}

/* --- a turn of the loop --------------------------------------------------------------------------------- */

/* In force from here on: the port is the kernel's when 0 was asked for. stdout carries this line and nothing else;
 * everything for people goes to stderr. */
static void become_ready(struct ld_app *app)
{
    atomic_store(&app->server.is_ready, true);
    printf("laplaced listening on %s://%s data=%s\n", app->tls != NULL ? "https" : "http", app->address,
           app->options.data);
    fflush(stdout);
    ld_log(LD_LOG_INFO, "laplaced " LD_VERSION " serving %s on %s with %" PRIu64 " threads", app->options.data,
           app->address, app->options.threads);
    ld_notify(&app->notify, "READY=1\nSTATUS=serving on %s", app->address);
}

/* Nobody was served yet, and nobody will be. */
static void give_up(struct ld_app *app)
{
    fprintf(stderr, "laplaced: %s\n", app->why.text);
    app->status = 1;
    ld_http_stop(app->server.http);
    app->server.http = NULL;
    ld_after_end(&app->server);
    ld_sched_stop(app->server.sched);
}

/* Once a second at most, and only when there is something new: a fold that stands still gets no more time. */
static void report_recovery(struct ld_app *app, int64_t now_us)
{
    struct ld_tenants_counts counts;
    const size_t n_open = atomic_load(&app->progress.n_tenants);
    const uint64_t n_lines = atomic_load(&app->progress.n_lines);
    const uint64_t n_steps = n_open + n_lines + atomic_load(&app->progress.n_renewed);
    size_t n = 0;
    if (now_us - app->told_us < SECOND_US || n_steps == app->told_steps)
        return;
    app->told_us = now_us;
    app->told_steps = n_steps;
    ld_tenants_count(app->server.tenants, &counts);
    for (size_t i = 0; i < LD_N_TENANT_STATES; i++)
        n += counts.n[i];
    ld_notify(&app->notify, "STATUS=recovering: %zu of %zu tenants, %" PRIu64 " events\nEXTEND_TIMEOUT_USEC=%d", n_open,
              n, n_lines, PATIENCE_US);
}

/* What became of the job that opens all tenants. A stop that came before its end makes it end, which is no failure. */
static void watch_recovery(struct ld_app *app)
{
    const int state = atomic_load(&app->recovery);
    if (state == LD_RECOVERING)
        report_recovery(app, ld_monotonic_us());
    else if (state == LD_RECOVERED)
        become_ready(app);
    else
        give_up(app);
}

/* The end of a drain: nothing is in flight, or the time is up. The manager's patience ends with ours. */
static void watch_drain(struct ld_app *app)
{
    const size_t n = ld_http_in_flight(app->server.http);
    const int64_t now_us = ld_monotonic_us();
    if (n > 0 && now_us < app->drain_until_us) {
        if (now_us - app->told_us < SECOND_US)
            return;
        app->told_us = now_us;
        ld_notify(&app->notify, "STATUS=draining: %zu requests in flight\nEXTEND_TIMEOUT_USEC=%" PRId64, n,
                  app->drain_until_us - now_us + PATIENCE_US);
        return;
    }
    if (n > 0)
        ld_log(LD_LOG_WARN, "stopping with %zu requests in flight", n);
    ld_tenants_halt(app->server.tenants);
    ld_http_stop(app->server.http);
    app->server.http = NULL;
    ld_after_end(&app->server);
    ld_sched_stop(app->server.sched);
}

/* Four times in the interval, while there is progress: else the manager ends us, and starts another. */
static void feed_watchdog(struct ld_app *app)
{
    const int64_t now_us = ld_monotonic_us();
    if (app->notify.watchdog_us == 0 || now_us - app->fed_us < app->notify.watchdog_us / 4 ||
        !ld_health_is_moving(&app->server))
        return;
    app->fed_us = now_us;
    ld_notify(&app->notify, "WATCHDOG=1");
}

/* One tenant's turn of the timer: expiry of decisions, healing after a failed commit, and how long its changes wait. */
struct turn {
    int64_t now_ms, waiting_since;
};

static void tick_tenant(void *arg, struct ld_tenant *t)
{
    struct turn *turn = arg;
    const int64_t since = ld_tenant_waiting_since(t);
    ld_tenant_tick(t, turn->now_ms);
    if (since != 0 && (turn->waiting_since == 0 || since < turn->waiting_since))
        turn->waiting_since = since;
}

/* Every 250 ms: the tenants' timers, the last uses of keys, and the stages. A tick costs little when nothing is due: a
 * comparison a tenant. It waits for no tenant's writer, so a slow writer does not hold up the timers of others. */
static void tick(void *arg, int64_t now_ms)
{
    struct ld_app *app = arg;
    struct turn turn = {.now_ms = now_ms};
    if (!app->has_started) /* the loop's last round, after a start that failed */
        return;
    ld_failpoint("in_tick");
    ld_tenants_each(app->server.tenants, tick_tenant, &turn);
    ld_tenants_tick(app->server.tenants);
    ld_log_tick();
    if (ld_keys_flush_is_due(app->server.keys, now_ms))
        (void)ld_sched_give(app->server.sched, LD_POOL, flush_keys, app->server.keys, SIZE_MAX);
    ld_health_turn(&app->server, turn.waiting_since);
    feed_watchdog(app);
    if (app->server.http == NULL)
        return;
    ld_watches_tick(&app->server);
    ld_http_sweep(app->server.http);
    if (atomic_load(&app->server.is_draining))
        watch_drain(app);
    else if (!atomic_load(&app->server.is_ready))
        watch_recovery(app);
}

/* --- signals -------------------------------------------------------------------------------------------- */

/* SIGTERM or SIGINT, on the loop, or between two snapshots. What was accepted is answered. New clients are refused by
 * the kernel and know that nothing happened; on connections that are open /readyz fails. Asked twice it waits no
 * longer. A recovery under way ends at its next line. */
static void terminate(void *arg)
{
    struct ld_app *app = arg;
    if (atomic_exchange(&app->server.is_draining, true)) {
        app->drain_until_us = 0;
        app->is_hurried = app->server.http == NULL;
        return;
    }
    /* The folder is being read: the rest of the start is short, and the loop ends at once. */
    if (app->server.tenants == NULL) {
        atomic_store(&app->progress.is_stopping, true);
        return;
    }
    const int64_t patience_us = (int64_t)app->options.drain_timeout_s * SECOND_US;
    const size_t n = ld_http_in_flight(app->server.http);
    app->drain_until_us = ld_monotonic_us() + patience_us;
    if (!atomic_load(&app->server.is_ready))
        ld_tenants_halt(app->server.tenants);
    ld_replays_cancel(&app->server);
    ld_http_quiesce(app->server.http);
    ld_log(LD_LOG_INFO, "stopping: %zu requests in flight", n);
    ld_notify(&app->notify, "STOPPING=1\nSTATUS=draining: %zu requests in flight\nEXTEND_TIMEOUT_USEC=%" PRId64, n,
              patience_us + PATIENCE_US);
}

/* SIGHUP, on the loop. READY=1 says that it is over; before the server is ready it would say too much. */
static void reload(void *arg)
{
    struct ld_app *app = arg;
    const bool is_told = atomic_load(&app->server.is_ready) && !atomic_load(&app->server.is_draining);
    if (is_told)
        ld_notify(&app->notify, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=reading the configuration",
                  ld_monotonic_us());
    ld_app_reload(app);
    if (is_told)
        ld_notify(&app->notify, "READY=1\nSTATUS=serving on %s", app->address);
}

/* --- start ---------------------------------------------------------------------------------------------- */

/* Files that are no connections: those of tenants, those of long answers, and connections that are being closed. */
#define FILES_BESIDES 640u

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

/* People type keys into the console: by itself it is there only where a key cannot be overheard. */
static bool has_console(const struct ld_options *o)
{
    struct ld_endpoint e;
    ld_endpoint_parse(o->listen, &e); /* checked with the options */
    const bool is_safe = ld_endpoint_is_loopback(&e) || o->tls_cert[0] != '\0';
    if (o->console == LD_CONSOLE_ON && !is_safe)
        ld_log(LD_LOG_WARN, "--console on, without TLS: whoever sees the network sees the keys that people type");
    return o->console == LD_CONSOLE_ON || (o->console == LD_CONSOLE_AUTO && is_safe);
}

/* What all tenants share, from the options; the rest of it is put in force with what may change. The folder's name is
 * borrowed from app->options. The world must outlive the last tenant, which is why it is part of the app. */
static void make_world(struct ld_app *app)
{
    struct ld_world *w = &app->server.world;
    w->sched = app->server.sched;
    w->metrics = &app->server.metrics;
    ld_pace_init(&app->pace);
    w->pace = &app->pace;
    w->hold_answers = ld_http_hold_replies;
    w->send_answers = ld_http_send_replies;
    w->data_dir = app->options.data;
    memcpy(app->server.origins, app->options.cors_origin, sizeof app->server.origins);
    app->server.has_console = has_console(&app->options);
    w->default_tenant =
        strcmp(app->options.default_tenant, LD_NO_DEFAULT_TENANT) == 0 ? "" : app->options.default_tenant;
    w->now_ms = ld_now_ms;
    w->books = ld_book_kinds;
    w->verify_on_start = app->options.is_verifying;
    /* A build is begun and finished in one turn, by one server: others read both in the log. */
    w->is_finishing_builds = app->options.is_finishing_builds || app->shared != NULL;
    w->shared = app->shared;
    w->node = app->options.node;
    w->log_wait_ms = (int64_t)app->options.log_wait_ms;
    app->server.health.max_lag_us = (int64_t)app->options.max_lag_ms * 1000;
    app->server.after.wait_us = (int64_t)app->options.log_wait_ms * 1000;
    w->progress = &app->progress;
    ld_app_put_in_force(app);
}

static int open_log(struct ld_app *app, struct ld_message *why)
{
    const struct ld_options *o = &app->options;
    const struct ld_pg_config config = {
        .url = o->log, .node = o->node, .wait_ms = (int)o->log_wait_ms, .is_trusted = o->log_sync == LD_SYNC_TRUSTED};
    return o->log[0] == '\0' ? 0 : ld_pg_log_open(&app->shared, &config, why);
}

/* What other servers have made and written is followed from here on. */
static int start_following(struct ld_app *app, struct ld_message *why)
{
    if (app->shared == NULL)
        return 0;
    return ld_tenants_watch(app->server.tenants, (unsigned)app->options.log_poll_ms, ld_after_round, &app->server, why);
}

/* From here on clients are answered, if only with 503. */
static int start_http(struct ld_app *app, struct ld_message *why)
{
    struct ld_endpoint e;
    struct ld_http_hooks hooks = ld_server_hooks;
    hooks.arg = &app->server;
    hooks.mark = app->shared != NULL ? ld_after_mark : NULL;
    ld_endpoint_parse(app->options.listen, &e); /* checked with the options */
    const struct ld_http_options o = {.tls = app->tls,
                                      .host = e.host,
                                      .port = e.port,
                                      .listen_fd = app->options.listen_fd,
                                      .threads = (unsigned)app->options.threads,
                                      .limits = ld_app_http_limits(app),
                                      .max_head = (size_t)app->options.max_header,
                                      .max_connections = (unsigned)usable_connections(app->options.max_connections),
                                      .max_per_address = (unsigned)app->options.max_connections_per_address,
                                      .answer_dir = ld_spool_dir(app->server.spool),
                                      .body_memory = &app->body_memory,
                                      .metrics = &app->server.metrics};
    if (ld_http_start(&app->server.http, &o, &hooks, why) != 0)
        return -1;
    e.port = ld_http_port(app->server.http);
    ld_endpoint_format(&e, app->address);
    return 0;
}

/* On the pool, beside the loop, which signals can therefore end. */
static void recover(void *arg)
{
    struct ld_app *app = arg;
    const int rc = ld_tenants_open_all(app->server.tenants, &app->why);
    atomic_store(&app->recovery, rc == 0 ? LD_RECOVERED : LD_RECOVERY_FAILED);
}

/* The last step: ready at once, or when every tenant is open. */
static int start_recovery(struct ld_app *app, struct ld_message *why)
{
    app->has_started = true;
    if (!app->options.is_opening_all && !app->options.is_verifying) {
        become_ready(app);
        return 0;
    }
    ld_log(LD_LOG_INFO, "recovering all tenants of %s; %s answers 503 meanwhile", app->options.data, app->address);
    ld_notify(&app->notify, "STATUS=recovering\nEXTEND_TIMEOUT_USEC=%d", PATIENCE_US);
    if (ld_sched_give(app->server.sched, LD_POOL, recover, app, SIZE_MAX) == 0)
        return 0;
    return ld_fail(why, "out of memory");
}

/* Keys made by the API, and the one rule that keeps a server without keys from being open to a network; there is no
 * flag to lift it. options.c has refused already where there cannot be any. With a shared log somebody may have made
 * keys at another server: a folder that has read nothing of it yet is not open until it has, and not to a network. */
static int start_keys(struct ld_app *app, struct ld_message *why)
{
    struct ld_endpoint e;
    struct ld_tenants_counts counts;
    ld_tenants_count(app->server.tenants, &counts);
    if (ld_keys_open(&app->server.keys, ld_tenants_registry(app->server.tenants), app->shared,
                     counts.n[LD_TENANT_CLOSED] == 0, why) != 0)
        return -1;
    ld_tenants_on_removal(app->server.tenants, forget_keys, app);
    if (app->shared != NULL)
        ld_tenants_on_common(app->server.tenants, follow_keys, app);
    ld_endpoint_parse(app->options.listen, &e);
    if (ld_auth_has_had_file(app->server.auth) ||
        (ld_keys_exist(app->server.keys) && !ld_keys_are_guessed(app->server.keys)))
        return 0;
    if (!ld_endpoint_is_loopback(&e)) {
        ld_options_refuse_keyless(&app->options, why);
        return -1;
    }
    ld_log(LD_LOG_WARN, "no keys, hence on loopback only: whoever can run programs on this machine may use the server");
    return 0;
}

/* The parts in order; on failure why says which and those started are closed by the caller. The names of all tenants
 * and the keys come before the socket: a client that is served finds every tenant there, if not yet in memory. */
static int start(struct ld_app *app, struct ld_message *why)
{
    const struct ld_sched_hooks hooks = {.tick = tick, .terminate = terminate, .reload = reload, .arg = app};
    if (ld_auth_open(&app->server.auth, app->options.admin_key_file, why) != 0)
        return -1;
    if (app->options.tls_cert[0] != '\0' &&
        ld_tls_open(&app->tls, app->options.tls_cert, app->options.tls_key, &app->server.metrics, why) != 0)
        return -1;
    if (ld_sched_new(&app->server.sched, &hooks) != 0)
        return ld_fail(why, "cannot start the scheduler");
    if (open_log(app, why) != 0)
        return -1;
    make_world(app);
    if (ld_tenants_open(&app->server.tenants, &app->server.world, why) != 0 || start_keys(app, why) != 0)
        return -1;
    if (ld_spool_open(&app->server.spool, app->options.data, why) != 0)
        return -1;
    ld_health_turn(&app->server, 0);
    if (start_following(app, why) != 0)
        return -1;
    return start_http(app, why) == 0 ? start_recovery(app, why) : -1;
}

/* --- stop ----------------------------------------------------------------------------------------------- */

/* So that the next opening folds nothing. They are caches: who sends another signal goes without. */
static void save_tenant(void *arg, struct ld_tenant *t)
{
    struct ld_app *app = arg;
    ld_sched_poll(app->server.sched);
    if (app->is_hurried)
        return;
    ld_notify(&app->notify, "STATUS=writing snapshots\nEXTEND_TIMEOUT_USEC=%d\nWATCHDOG=1", PATIENCE_US);
    ld_tenant_checkpoint(t);
}

/* After the loop, when nobody asks any more. */
static void save_tenants(struct ld_app *app)
{
    if (!app->has_started || app->status != 0)
        return;
    ld_tenants_each(app->server.tenants, save_tenant, app);
    if (app->is_hurried)
        ld_tenants_leave(app->server.tenants);
}

/* Parts are closed in the reverse order of their start: HTTP first, so that nobody asks any more; tenants before the
 * scheduler, whose wakes their last ops may use. After a drain HTTP is stopped already (NULL is fine); after a failed
 * start some parts were never made. */
int ld_app_run(const struct ld_options *options, int argc, char *const *argv)
{
    struct ld_app *app = calloc(1, sizeof *app);
    struct ld_message why;
    if (app == NULL) {
        fprintf(stderr, "laplaced: out of memory\n");
        return 1;
    }
    pthread_mutex_init(&app->server.replays.lock, NULL);
    pthread_mutex_init(&app->server.watches.lock, NULL);
    pthread_mutex_init(&app->server.after.lock, NULL);
    app->options = *options;
    app->argc = argc;
    app->argv = argv;
    ld_gauge_set(&app->server.metrics.configured_ms, (uint64_t)ld_now_ms());
    raise_file_limit();
    ld_notify_open(&app->notify);
    app->status = start(app, &why) == 0 ? 0 : 1;
    if (app->status != 0)
        fprintf(stderr, "laplaced: %s\n", why.text);
    if (app->status != 0 && app->server.sched != NULL)
        ld_sched_stop(app->server.sched); /* what was begun ends, before what it knows goes */
    if (app->server.sched != NULL)
        ld_sched_run(app->server.sched);
    ld_http_stop(app->server.http);
    ld_after_end(&app->server);
    ld_watches_close(&app->server);
    save_tenants(app);
    if (app->server.tenants != NULL)
        ld_tenants_unwatch(app->server.tenants);
    ld_keys_close(app->server.keys);
    ld_spool_close(app->server.spool);
    ld_tenants_close(app->server.tenants);
    app->server.tenants = NULL;
    if (app->shared != NULL)
        app->shared->ops->close(app->shared);
    if (app->server.sched != NULL)
        ld_sched_free(app->server.sched);
    ld_tls_close(app->tls);
    ld_auth_close(app->server.auth);
    ld_notify_close(&app->notify);
    pthread_mutex_destroy(&app->server.after.lock);
    pthread_mutex_destroy(&app->server.watches.lock);
    pthread_mutex_destroy(&app->server.replays.lock);
    const int status = app->status;
    free(app);
    if (status == 0)
        ld_log(LD_LOG_INFO, "stopped");
    return status;
}
