/* SIGHUP: the configuration is read again, as a start would read it, and what may change while the server runs is put
 * in force.
 *
 *   read      environment and flags stand as they were: what changes is --config, the key file, certificates
 *   check     the whole of it, by the rules of a start: any fault is a line of the log and leaves all as it was
 *   compare   an option that changed is a line; one that needs a restart is a warning, and keeps its value
 *   apply     cannot fail
 *
 * Which option is live is a column of the table (option_table.c). app->options belongs to the loop, which runs this;
 * every other thread reads a copy that is atomic, where it needs it: app->server.limits, the world, the level of the
 * log, the limits of connections. Each is read once for each use, so that a request sees the old value or the new one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app/app.h"
#include "base/clock.h"
#include "base/log.h"
#include "app/option_table.h"

struct ld_http_limits ld_app_http_limits(const struct ld_app *app)
{
    const struct ld_options *o = &app->options;
    return (struct ld_http_limits){.timeout_s = (unsigned)o->timeout_s,
                                   .head_timeout_s = (unsigned)o->header_timeout_s,
                                   .body_timeout_s = (unsigned)o->body_timeout_s,
                                   .min_rate = (unsigned)o->min_rate};
}

/* At the start, before tenants and HTTP; and after a reload. One place, so that a start and a reload cannot differ. The
 * drain's timeout is read by the loop when a drain begins, and tenants take over their rate with the next tick. */
void ld_app_put_in_force(struct ld_app *app)
{
    const struct ld_options *o = &app->options;
    struct ld_world *world = &app->server.world;
    struct ld_limits *limits = &app->server.limits;
    ld_log_set_level((enum ld_log_level)o->log_level);
    limits->body = (size_t)o->max_body;
    limits->observe_body = (size_t)o->max_observe_body;
    limits->bulk_body = (size_t)o->max_bulk_body;
    /* A line of the log may have twice bulk_body: so much for what else was in the body, and as much for these vectors,
     * whose numbers take up to 24 bytes each. */
    world->max_feature_bytes = (size_t)o->max_bulk_body / 3;
    limits->import_body = (size_t)o->max_import_body;
    limits->metrics_tenants = (size_t)o->metrics_tenants;
    limits->log_requests = (int)o->log_requests;
    limits->slow_us = (int64_t)o->slow_request_ms * 1000;
    world->max_queue = (size_t)o->max_queue;
    limits->candidates = (size_t)o->max_candidates;
    limits->arms = (size_t)o->max_arms;
    limits->dim = (size_t)o->max_dim;
    limits->magnitude = o->max_magnitude;
    limits->work = (size_t)o->max_work;
    limits->transfers = (size_t)o->max_transfers;
    app->body_memory.max = (size_t)o->max_body_memory;
    world->max_queue_bytes = (size_t)o->max_queue_bytes;
    world->max_opening = (size_t)o->max_opening;
    world->max_pending = (size_t)o->max_pending;
    world->snapshot_events = o->snapshot_events;
    world->inline_work = (double)o->inline_work;
    world->memory_cap = (size_t)o->memory_cap;
    world->tenant_quota = (size_t)o->tenant_quota;
    app->server.health.stuck_after_us = (int64_t)o->stuck_after_s * 1000000;
    world->rate = (double)o->tenant_rate;
    world->burst = (double)o->tenant_burst;
    const struct ld_http_limits http = ld_app_http_limits(app);
    if (app->server.http != NULL)
        ld_http_set_limits(app->server.http, &http);
}

/* All sources, and the files that they name. 0, or -1 with why naming the option and, where it stands in
 * a file, the line. *keys is the caller's. */
static int read_all(const struct ld_app *app, struct ld_options *fresh, struct ld_key_file **keys,
                    struct ld_message *why)
{
    struct ld_message reason;
    if (ld_options_parse(fresh, app->argc, app->argv, getenv, why) != 0)
        return -1;
    if (app->options.listen_fd > 0) /* a service manager's socket, which no line can move */
        memcpy(fresh->listen, app->options.listen, sizeof fresh->listen);
    if (ld_options_check(fresh, why) != 0)
        return -1;
    if (ld_auth_read(fresh->admin_key_file, keys, &reason) != 0)
        return ld_fail(why, "admin-key-file: %.900s", reason.text);
    if (ld_tls_reload(app->tls, why) == 0) /* last of those that may fail: it is in force */
        return 0;
    free(*keys);
    return -1;
}

/* Takes over what is live, and says what changed. The values are no secrets: keys stand in files of their own. */
static void take_over(struct ld_options *o, const struct ld_options *fresh)
{
    for (size_t i = LD_CONFIG_ROW + 1; i < ld_n_options; i++) {
        char from[LD_OPTION_TEXT_BYTES], to[LD_OPTION_TEXT_BYTES];
        const bool is_live = ld_option_table[i].when == LD_LIVE;
        ld_option_text(o, i, from);
        ld_option_text(fresh, i, to);
        if (!ld_option_is_same(o, fresh, i))
            ld_log(is_live ? LD_LOG_INFO : LD_LOG_WARN, "option=%s from=%s to=%s%s", ld_option_table[i].name, from, to,
                   is_live ? "" : ": needs a restart, the old value stays in force");
        if (is_live)
            ld_option_copy(o, fresh, i);
    }
}

/* Connections that are open stay open; each of their next requests is judged by the new keys. A key file that is taken
 * away lets nobody in any more, and opens the server to nobody. */
void ld_app_reload(struct ld_app *app)
{
    struct ld_options fresh;
    struct ld_key_file *keys = NULL;
    struct ld_message why;
    if (read_all(app, &fresh, &keys, &why) != 0) {
        ld_count(&app->server.metrics.reload_failures, 1);
        ld_log(LD_LOG_ERROR, "the configuration is not read again, all stays as it was: %s", why.text);
        return;
    }
    take_over(&app->options, &fresh);
    ld_app_put_in_force(app);
    ld_auth_put(app->server.auth, keys);
    ld_count(&app->server.metrics.reloads, 1);
    ld_gauge_set(&app->server.metrics.configured_ms, (uint64_t)ld_now_ms());
    ld_log(LD_LOG_INFO, "configuration and keys are read again");
}
