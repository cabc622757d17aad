/* What a tenant knows (model, stats, events, how far its verification is), and metrics.
 *
 * None of these go through a tenant's queue: they read the engine under its read lock, or the log by a connection of
 * their own, so they answer while commits fail. What they report of one tenant is of one moment; over several
 * tenants, or engine and log together, it is not. They run on the work pool. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/log.h"
#include "api/metrics_text.h"
#include "base/text.h"
#include "book/series.h"
#include "json/json_out.h"
#include "task/model_history.h"
#include "task/verification.h"
#include "tenant/books.h"

/* What one answer may make of the disk (http_file.c). */
#define EVENTS_MAX_BYTES ((size_t)64 << 20)
#define NO_ROOM LD_STORE_NOMEM

/* GET /model. The view borrows from the engine, so all of it is written before the lock goes; what takes long is
 * computed afterwards, from a copy. */
bool api_model(struct ld_call *c, struct ld_reply *out)
{
    const struct ld_settings *settings;
    struct kb_engine_counts counts;
    struct ld_model_text model;
    struct ld_model_history *history = NULL;
    uint64_t has_history;
    if (ld_call_number(c, "history", &has_history, out->problem) != 0)
        return true;
    if (has_history > 0 && (history = malloc(sizeof *history)) == NULL)
        return true;
    if (history != NULL)
        ld_model_history_copy(c->tenant, history);
    const struct kb_engine *e = ld_tenant_read_lock(c->tenant, &settings);
    kb_engine_counts(e, &counts);
    struct ld_tenant_view view = {
        .name = c->name, .settings = settings, .in_force = kb_engine_spec(e), .counts = &counts};
    const bool has_begun = ld_begin_model(&view, e, &model) == 0;
    ld_tenant_read_unlock(c->tenant);
    out->text = has_begun ? ld_end_model(&model, history, &out->n) : NULL;
    free(history);
    return true;
}

/* All but a single objective, whose values are the rewards. */
static void look_at_metrics(const struct ld_call *c, struct ld_window_stats *out)
{
    const struct ld_settings *settings;
    (void)ld_tenant_read_lock(c->tenant, &settings);
    for (size_t i = 0; i < settings->n_metrics; i++)
        if (ld_metric_is_measured(settings, &settings->metric[i]))
            strcpy(out->metric[out->n_metrics++].name, settings->metric[i].name);
    ld_tenant_read_unlock(c->tenant);
    if (out->n_metrics == 0)
        return;
    uint64_t seq;
    const void *book = ld_books_lock(ld_tenant_books(c->tenant), &ld_series_kind, &seq);
    for (size_t i = 0; book != NULL && i < out->n_metrics; i++) {
        struct ld_metric_stats *m = &out->metric[i];
        ld_series_metric_total(book, m->name, &m->n, &m->sum);
        m->is_known = true;
    }
    if (book != NULL)
        ld_books_unlock(ld_tenant_books(c->tenant));
}

/* GET /stats. The totals come from the engine, the window from the log: they may differ by the events of the moment
 * in between. window_s: the last hour unless told otherwise, at most a year. O(rows in the window), by the index on
 * time. The log is asked first and without the lock: a window of a million rows must not hold up the writer. */
bool api_stats(struct ld_call *c, struct ld_reply *out)
{
    struct ld_window_stats window;
    struct ld_arm_stats *arms = NULL; /* of the window's names */
    const struct ld_settings *settings;
    uint64_t seconds;
    if (ld_call_number(c, "window_s", &seconds, out->problem) != 0)
        return true;
    const int64_t from_ms = c->server->world.now_ms() - 1000 * (int64_t)seconds;
    memset(&window, 0, sizeof window);
    if (ld_store_window(ld_tenant_store(c->tenant), from_ms, &window, &arms) != LD_STORE_OK) {
        ld_problem_set(out->problem, 503, "the tenant's file cannot be read now");
        return true;
    }
    window.seconds = (int64_t)seconds;
    window.is_traffic_void = ld_traffic_is_void(c->tenant);
    look_at_metrics(c, &window);
    out->text = ld_encode_stats(ld_tenant_read_lock(c->tenant, &settings), &window,
                                ld_tenant_unknown_rewards(c->tenant), &out->n);
    ld_tenant_read_unlock(c->tenant);
    free(arms);
    return true;
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

/* Forwards from `after` on; newest first where that is left out and `before` or `type` is told. False with *p. */
static bool find_page(const struct ld_call *c, struct ld_page *page, struct ld_problem *p)
{
    const bool has_after = ld_request_query(c->request, "after") != NULL,
               has_before = ld_request_query(c->request, "before") != NULL;
    uint64_t limit;
    if (ld_call_number(c, "after", &page->after, p) != 0 || ld_call_number(c, "before", &page->before, p) != 0 ||
        ld_call_number(c, "limit", &limit, p) != 0 || ld_call_words(c, "type", &kb_event_words, &page->types, p) != 0)
        return false;
    if (has_after && has_before)
        ld_problem_set(p, 400, "query parameters after and before: expected one of them");
    page->limit = (size_t)limit;
    page->is_backwards = !has_after && (has_before || page->types != 0);
    return p->status == 0;
}

/* GET /events. Rows are those committed when the read began; it holds no lock that the writer wants (WAL), and is over
 * before the answer begins, however slowly that is taken. Each line is the log's own text, byte for byte, so an export
 * can be folded again. */
bool api_events(struct ld_call *c, struct ld_reply *out)
{
    struct events e = {.request = c->request};
    struct ld_page page = {.after = 0};
    if (ld_watch_is_wanted(c))
        return ld_watch_begin(c, out);
    if (!find_page(c, &page, out->problem) || !ld_charge(c, ld_price_lines(page.limit), out->problem))
        return true;
    ld_answer_init(&e.answer, c->request);
    ld_text_init(&e.line);
    const int rc = ld_store_page(ld_tenant_store(c->tenant), &page, add_line, &e);
    ld_text_close(&e.line);
    if (rc >= 0) {
        ld_answer_reply(&e.answer, "application/x-ndjson");
        return false;
    }
    ld_answer_drop(&e.answer);
    ld_problem_set(out->problem, 503,
                   rc == NO_ROOM ? "no memory for the answer" : "the tenant's file cannot be read now");
    return true;
}

/* GET /tenants/{t}/verify: how far the one under way is. */
bool api_verification_get(struct ld_call *c, struct ld_reply *out)
{
    struct ld_verification_live live;
    struct ld_text t;
    ld_verification_look(c->tenant, &live);
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_bool(&t, "running", live.is_running);
    ld_text_put_count(&t, "events", live.n_lines);
    ld_text_put_number(&t, "progress", live.progress);
    ld_text_lit(&t, "}");
    out->text = ld_text_take(&t, &out->n);
    return true;
}

/* DELETE /tenants/{t}/verify: its POST is answered by 409, and nothing else has changed. */
bool api_verification_delete(struct ld_call *c, struct ld_reply *out)
{
    if (!ld_verification_cancel(c->tenant))
        ld_problem_set_as(out->problem, LD_NO_VERIFICATION, "no verification of the tenant is under way");
    out->status = 204;
    return true;
}

static void measure_log(struct ld_server *s)
{
    struct ld_shared_metrics *m = &s->metrics.shared;
    struct ld_nodes_view view;
    if (s->world.shared == NULL)
        return;
    ld_tenants_nodes(s->tenants, &view);
    ld_gauge_set(&m->is_up, view.down_us == 0);
    ld_gauge_set(&m->n_standbys, view.n_standbys > 0 ? (uint64_t)view.n_standbys : 0);
    ld_gauge_set(&m->has_standbys, view.n_standbys >= 0);
    ld_gauge_set(&m->n_nodes, view.n_nodes);
    ld_gauge_set(&m->lag_us, (uint64_t)view.lag.us);
}

/* What is kept elsewhere, or asked of the system, as of now. A disk that cannot be asked keeps its last numbers. */
static void measure(struct ld_server *s)
{
    struct ld_metrics *m = &s->metrics;
    struct statvfs disk;
    ld_gauge_set(&m->in_flight, ld_http_in_flight(s->http));
    ld_gauge_set(&m->log_limited, ld_log_n_limited());
    ld_gauge_set(&m->log_lost, ld_log_n_lost());
    ld_gauge_set(&m->memory_cap_bytes, s->world.memory_cap);
    ld_gauge_set(&m->queue_limit, s->world.max_queue);
    measure_log(s);
    if (statvfs(s->world.data_dir, &disk) != 0)
        return;
    ld_gauge_set(&m->data_free_bytes, (uint64_t)disk.f_bavail * disk.f_frsize);
    ld_gauge_set(&m->data_size_bytes, (uint64_t)disk.f_blocks * disk.f_frsize);
}

/* GET /metrics. On the work pool, since it waits for each tenant's read lock in turn. This very request is one of those
 * in flight. */
bool api_metrics(struct ld_call *c, struct ld_reply *out)
{
    struct ld_server *s = c->server;
    measure(s);
    out->content_type = "text/plain; version=0.0.4; charset=utf-8";
    out->text = ld_metrics_text(&s->metrics, s->tenants, s->limits.metrics_tenants, &out->n);
    return true;
}
