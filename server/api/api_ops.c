/* What a tenant knows (model, stats, events) and what machines ask (probes, metrics, the contract).
 *
 * None of these go through a tenant's queue: they read the engine under its read lock, or the log by a connection of
 * their own, so they answer while commits fail. What they report of one tenant is of one moment; over several
 * tenants, or engine and log together, it is not.
 *
 * /healthz, /readyz and /openapi.yaml need no key, are answered before the server is ready, and run in the thread that
 * serves HTTP, hence they neither wait for a tenant's lock nor read a file. The others run on the work pool. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "api/access.h"
#include "api/charge.h"
#include "base/embed.h"
#include "base/log.h"
#include "api/metrics_text.h"
#include "tenant/price.h"
#include "base/text.h"
#include "json/json_out.h"

/* What one answer may make of the disk (http_file.c). */
#define EVENTS_MAX_BYTES ((size_t)64 << 20)
#define NO_ROOM LD_STORE_NOMEM
#define YEAR_S 31536000u

/* GET /model. The view borrows from the engine, so all of it is written before the lock goes; what takes long is
 * computed afterwards, from a copy. */
void api_model(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    const struct kb_engine *e = ld_tenant_read_lock(t, &settings);
    kb_engine_counts(e, &counts);
    /* Everything in it is borrowed, until the lock goes. */
    struct ld_tenant_view view = {
        .name = ld_tenant_name(t), .settings = settings, .in_force = kb_engine_spec(e), .counts = &counts};
    size_t n = 0;
    struct ld_model_text model;
    const bool has_begun = ld_begin_model(&view, e, &model) == 0;
    ld_tenant_read_unlock(t);
    ld_tenant_release(t);
    char *text = has_begun ? ld_end_model(&model, &n) : NULL;
    ld_reply_json(r, 200, text, n);
}

/* The counters of the engine with those of the window; NULL with p filled. The log is asked first and without the
 * lock: a window of a million rows must not hold up the writer. The names of arms live in the block that is freed
 * after encoding. */
static char *encode_stats(struct ld_tenant *t, int64_t now_ms, int64_t seconds, size_t *n, struct ld_problem *p)
{
    struct ld_window_stats window;
    struct ld_arm_stats *arms = NULL;
    const struct ld_settings *settings;
    memset(&window, 0, sizeof window);
    if (ld_store_window(ld_tenant_store(t), now_ms - 1000 * seconds, &window, &arms) != LD_STORE_OK) {
        ld_problem_set(p, 503, "the tenant's file cannot be read now");
        return NULL;
    }
    window.seconds = seconds;
    char *text = ld_encode_stats(ld_tenant_read_lock(t, &settings), &window, n);
    ld_tenant_read_unlock(t);
    free(arms);
    if (text == NULL)
        ld_problem_set(p, 503, "no memory for the answer");
    return text;
}

/* GET /stats. The totals come from the engine, the window from the log: they may differ by the events of the moment
 * in between. window_s: the last hour unless told otherwise, at most a year. O(rows in the window), by the index on
 * time. */
void api_stats(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    uint64_t seconds;
    struct ld_problem p;
    size_t n = 0;
    if (ld_api_number(r, "window_s", &seconds) != 0)
        return;
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    ld_problem_init(&p);
    char *text = encode_stats(t, app->world.now_ms(), (int64_t)seconds, &n, &p);
    ld_tenant_release(t);
    if (text != NULL)
        ld_reply_json(r, 200, text, n);
    else
        ld_reply_problem(r, &p);
}

struct events {
    const struct ld_request *request;
    struct ld_answer answer;
    struct ld_text line;
    size_t n;
};

/* Collects log lines; stops before the answer grows past EVENTS_MAX_BYTES, or where it finds no room (the client asks
 * on from the last seq), or a stop has answered. The first line always fits, so that whoever asks on makes progress. */
static int add_line(void *arg, const struct ld_row *row)
{
    struct events *e = arg;
    if (e->n > 0 &&
        (ld_request_is_answered(e->request) || ld_answer_bytes(&e->answer) + row->n_text + 1 > EVENTS_MAX_BYTES))
        return 1;
    ld_text_raw(&e->line, row->text, row->n_text);
    ld_text_raw(&e->line, "\n", 1);
    if (e->line.is_failed || ld_answer_put(&e->answer, e->line.data, e->line.n) != 0)
        return e->n > 0 ? 1 : NO_ROOM;
    e->line.n = 0;
    e->n++;
    return 0;
}

/* The tenant is held while its file is read, not while the answer is. */
static int collect(struct events *e, struct ld_tenant *t, uint64_t after, uint64_t limit)
{
    ld_text_init(&e->line);
    const int rc = ld_store_read(ld_tenant_store(t), after, (size_t)limit, add_line, e);
    ld_text_close(&e->line);
    ld_tenant_release(t);
    return rc;
}

/* GET /events. Rows are those committed when the read began; it holds no lock that the writer wants (WAL), and is over
 * before the answer begins, however slowly that is taken. after: the last seq that the client has, 0 for the beginning;
 * limit: lines in one answer. Each line is the log's own text, byte for byte, so an export can be folded again. */
void api_events(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    uint64_t after, limit;
    if (ld_api_number(r, "after", &after) != 0 || ld_api_number(r, "limit", &limit) != 0)
        return;
    struct ld_tenant *t = ld_api_tenant(app, r, tenant);
    if (t == NULL)
        return;
    struct events e = {.request = r};
    struct ld_problem p;
    ld_problem_init(&p);
    if (!ld_charge(app, t, ld_price_lines(limit), &p)) {
        ld_tenant_release(t);
        ld_reply_problem(r, &p);
        return;
    }
    ld_answer_init(&e.answer, r);
    const int rc = collect(&e, t, after, limit);
    if (rc >= 0) {
        ld_answer_reply(&e.answer, "application/x-ndjson");
        return;
    }
    ld_answer_drop(&e.answer);
    ld_reply_status(r, 503, rc == NO_ROOM ? "no memory for the answer" : "the tenant's file cannot be read now");
}

/* GET /healthz. Whether to start the process anew would help: a failing disk is no reason to. No tenant, no lock, no
 * file. */
void api_healthz(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    (void)tenant;
    if (ld_health_is_alive(app))
        ld_reply_constant(r, "application/json", "{\"status\":\"ok\"}");
    else
        ld_reply_status(r, 503, "the server's loop stands still");
}

/* GET /readyz. 503 while a balancer should send its traffic elsewhere (health.c). */
void api_readyz(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    char why[256];
    (void)tenant;
    if (ld_health_is_ready(app, why))
        ld_reply_constant(r, "application/json", "{\"ready\":true}");
    else
        ld_reply_status(r, 503, why);
}

/* What is kept elsewhere, or asked of the system, as of now. A disk that cannot be asked keeps its last numbers. */
static void measure(struct ld_app *app)
{
    struct ld_metrics *m = &app->metrics;
    struct statvfs disk;
    ld_gauge_set(&m->in_flight, ld_http_in_flight(app->http));
    ld_gauge_set(&m->log_limited, ld_log_n_limited());
    ld_gauge_set(&m->log_lost, ld_log_n_lost());
    ld_gauge_set(&m->memory_cap_bytes, app->world.memory_cap);
    ld_gauge_set(&m->queue_limit, app->world.max_queue);
    if (statvfs(app->world.data_dir, &disk) != 0)
        return;
    ld_gauge_set(&m->data_free_bytes, (uint64_t)disk.f_bavail * disk.f_frsize);
    ld_gauge_set(&m->data_size_bytes, (uint64_t)disk.f_blocks * disk.f_frsize);
}

/* GET /metrics. On the work pool, since it waits for each tenant's read lock in turn. This very request is one of those
 * in flight. */
void api_metrics(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    size_t n = 0;
    (void)tenant;
    measure(app);
    char *text = ld_metrics_text(&app->metrics, app->tenants, app->limits.metrics_tenants, &n);
    if (text != NULL)
        ld_reply(r, 200, "text/plain; version=0.0.4; charset=utf-8", text, n);
    else
        ld_reply_status(r, 503, "no memory for the answer");
}

/* GET /openapi.yaml: the contract that this program was built with. Its examples and limits are therefore those of
 * the running version, whatever stands on a web page. */
void api_openapi(struct ld_app *app, struct ld_request *r, const char *tenant)
{
    (void)app;
    (void)tenant;
    ld_reply_constant(r, "application/yaml", ld_embed_openapi_yaml);
}
