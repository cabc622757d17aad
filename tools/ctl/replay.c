/* The replay driver: `concurrency` threads take lines from one source in order, each over its own connection.
 *
 * Closed loop (no rate): a thread sends its next line when the last one is answered; latency is the time of the
 * request itself. A slow server then slows the traffic down, and its worst moments are seen by few requests.
 *
 * Open loop (--rate R): line i is due at start + i/R whatever the server does, and its latency counts from that
 * moment, the wait for a free connection included. This is what a caller who does not wait for others sees, and
 * it is free of coordinated omission. The reward of a line is due when its decision has come back.
 * By the log's own times (--pace X) a line is due at start + (its time - the first line's) / X; a time that goes back
 * counts as the latest one seen.
 *
 * In bulk (--bulk N) N lines are one request, which is due when the last of them is: nobody could have sent it before.
 *
 * Lines keep their order as far as one line is taken before the next; with more than one connection two of them
 * may overtake each other on the way. Cost on the client: two JSON parses a line.
 *
 * Errors: a refused request is counted and the replay goes on, up to max_errors; a faulty line ends it, since
 * nobody knows what the lines behind it are worth. Either way the requests in flight are finished and
 * counted.
 *
 * Locks: one mutex around the source. It is held for reading and parsing a line, which bounds the rate that
 * one client can drive; everything else is the thread's own or atomic. */
#include "ctl/replay.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/http_client.h"

/* Shared by all threads of one run. */
struct driver {
    const struct lc_session *session;
    const struct lc_replay_options *options;
    struct lc_source *source;
    uint64_t start_ns;
    pthread_mutex_t lock; /* of the source and of what follows */
    size_t n_taken;
    int64_t first_ms, last_ms; /* times of lines that were taken */
    bool is_over;
    int rc;               /* of the source */
    _Atomic size_t bytes; /* read so far: for the progress line */
    _Atomic size_t n_lines;
    _Atomic uint64_t n_sent, n_errors;
    _Atomic int n_running;
};

/* One connection; touched by its own thread only, until that is joined. */
struct worker {
    struct driver *driver;
    struct lc_client *client;
    struct lc_replay_result result;
    struct lc_text body;
    uint64_t last_sent_ns;
    pthread_t thread;
};

/* --- one request ------------------------------------------------------------------------------------ */

/* Counts; only the first reason of each thread is kept, the others are usually the same. */
static void note_error(struct worker *w, const char *what, size_t line, const struct lc_reply *r)
{
    struct lc_text t = {0};
    w->result.n_errors++;
    atomic_fetch_add(&w->driver->n_errors, 1);
    if (w->result.first_error[0] != '\0')
        return;
    lc_reply_explain(r, &t);
    snprintf(w->result.first_error, sizeof w->result.first_error, "line %zu: %s: %.200s", line, what, t.data);
    lc_text_close(&t);
}

static const struct lc_reply *post(struct worker *w, const char *path, size_t line, const struct lc_text *body,
                                   uint64_t due_ns, struct lc_histogram *h)
{
    const char *type = w->driver->options->bulk > 0 ? LC_NDJSON_TYPE : LC_JSON_TYPE;
    const struct lc_reply *r = lc_client_send(w->client, "POST", path, type, body->data, body->n);
    uint64_t now = lc_now_ns();
    w->result.n_requests++;
    atomic_fetch_add(&w->driver->n_sent, 1);
    if (!lc_reply_ok(r)) {
        note_error(w, path + 1, line, r);
        return NULL;
    }
    lc_histogram_add(h, now > due_ns ? now - due_ns : 0);
    return r;
}

static void earn(struct worker *w, double reward)
{
    w->result.n_earned++;
    w->result.earned += reward;
}

/* Rewards what the server has chosen; the answer of /select is in r. Latency counts from here: the reward has no due
 * time. w->body is used for this request alone; the task's own body is no longer needed by then. */
static void tell_reward(struct worker *w, const struct lc_task *task, const struct lc_reply *r)
{
    uint64_t now = lc_now_ns();
    struct json_t *answer = lc_reply_json(r);
    const char *arm = lc_json_text(answer, "arm");
    const char *decision = lc_json_text(answer, "decision");
    if (arm == NULL || decision == NULL) {
        note_error(w, "select (the answer names no arm or decision)", task->line, r);
    } else {
        double reward = lc_task_reward(task, arm);
        lc_text_clear(&w->body);
        lc_text_puts(&w->body, "{\"decision\":");
        lc_text_json(&w->body, decision);
        lc_text_puts(&w->body, ",\"reward\":");
        lc_text_number(&w->body, reward);
        lc_text_puts(&w->body, "}");
        if (post(w, "/reward", task->line, &w->body, now, &w->result.reward) != NULL)
            earn(w, reward);
    }
    lc_json_free(answer);
}

/* As it was read from the line; NaN: there is none, which the server will have said. */
static double reward_of(const struct lc_task *task)
{
    char why[LC_WHY];
    double reward = NAN;
    struct json_t *body = lc_json_parse(task->body.data, task->body.n, why);
    (void)lc_json_number(lc_json_get(body, "reward"), &reward);
    lc_json_free(body);
    return reward;
}

static void perform(struct worker *w, const struct lc_task *task, uint64_t due_ns)
{
    if (task->kind == LC_TASK_SELECT) {
        const struct lc_reply *r = post(w, "/select", task->line, &task->body, due_ns, &w->result.select);
        if (r != NULL)
            tell_reward(w, task, r);
    } else if (post(w, "/observe", task->line, &task->body, due_ns, &w->result.observe) != NULL) {
        const double reward = reward_of(task);
        if (!isnan(reward))
            earn(w, reward);
    }
}

/* Lines of one body; a refusal is of all of them, and told by the first one's number. */
static void perform_bulk(struct worker *w, const struct lc_task *task, size_t n, uint64_t due_ns)
{
    lc_text_clear(&w->body);
    for (size_t i = 0; i < n; i++) {
        const size_t length = task[i].body.n;
        lc_text_printf(&w->body, "%s%s", task[i].body.data, task[i].body.data[length - 1] == '\n' ? "" : "\n");
    }
    if (post(w, "/observe", task[0].line, &w->body, due_ns, &w->result.observe) == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        earn(w, reward_of(&task[i]));
}

/* --- threads ---------------------------------------------------------------------------------------- */

/* Nanoseconds from the start, from the line's number or time alone: no error adds up. */
static double offset_of(struct driver *d, const struct lc_task *task)
{
    const struct lc_replay_options *o = d->options;
    if (o->pace > 0.0) {
        if (d->n_taken == 0)
            d->first_ms = d->last_ms = task->at_ms;
        if (task->at_ms > d->last_ms)
            d->last_ms = task->at_ms;
        return (double)(d->last_ms - d->first_ms) * 1e6 / o->pace;
    }
    return o->rate > 0.0 ? (double)d->n_taken / o->rate * 1e9 : 0.0;
}

static bool fits_options(struct driver *d, const struct lc_task *task)
{
    struct lc_source *src = d->source;
    if (d->options->pace > 0.0 && task->at_ms == 0)
        snprintf(src->why, sizeof src->why, "%.100s:%zu: at: --pace wants a time such as 2026-11-22T10:00:00.123Z",
                 src->path, task->line);
    else if (d->options->bulk > 0 && task->kind != LC_TASK_OBSERVE)
        snprintf(src->why, sizeof src->why, "%.100s:%zu: --bulk sends observations, and this line asks for a decision",
                 src->path, task->line);
    else
        return true;
    return false;
}

static bool take_one(struct driver *d, struct lc_task *task, uint64_t *due_ns)
{
    const struct lc_replay_options *o = d->options;
    if (atomic_load(&d->n_errors) >= o->max_errors || (o->limit > 0 && d->n_taken >= o->limit))
        d->is_over = true;
    if (d->is_over)
        return false;
    int rc = lc_source_next(d->source, task);
    atomic_store(&d->bytes, d->source->bytes);
    if (rc == 1 && !fits_options(d, task)) {
        lc_task_close(task);
        rc = -1;
    }
    d->is_over = rc != 1;
    d->rc = rc < 0 ? -1 : 0;
    if (rc != 1)
        return false;
    *due_ns = lc_replay_is_open(o) ? d->start_ns + (uint64_t)offset_of(d, task) : 0;
    atomic_store(&d->n_lines, ++d->n_taken);
    return true;
}

/* Up to n lines that stand behind one another. *due_ns: of the last. */
static size_t take(struct driver *d, struct lc_task *task, size_t n, uint64_t *due_ns)
{
    size_t n_taken = 0;
    pthread_mutex_lock(&d->lock);
    while (n_taken < n && take_one(d, &task[n_taken], due_ns))
        n_taken++;
    pthread_mutex_unlock(&d->lock);
    return n_taken;
}

/* Until it is due; the moment from which its latency counts. Outside the lock: others may take the lines behind. */
static uint64_t wait_for(struct worker *w, size_t n, uint64_t due_ns)
{
    const uint64_t now = lc_now_ns();
    if (due_ns == 0)
        return now;
    if (due_ns > now)
        lc_sleep_until_ns(due_ns);
    else if (now - due_ns > 1000000u) /* a millisecond of grace for the clock and the scheduler */
        w->result.n_late_start += n;
    if (now > due_ns && now - due_ns > w->result.late_ns)
        w->result.late_ns = now - due_ns;
    return due_ns;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    const size_t bulk = w->driver->options->bulk, most = bulk > 0 ? bulk : 1;
    struct lc_task *task = lc_alloc(most, sizeof *task);
    uint64_t due_ns = 0;
    size_t n;
    while ((n = take(w->driver, task, most, &due_ns)) > 0) {
        const uint64_t from_ns = wait_for(w, n, due_ns);
        w->last_sent_ns = lc_now_ns();
        w->result.n_lines += n;
        if (bulk > 0)
            perform_bulk(w, task, n, from_ns);
        else
            perform(w, task, from_ns);
        for (size_t i = 0; i < n; i++)
            lc_task_close(&task[i]);
    }
    free(task);
    atomic_fetch_sub(&w->driver->n_running, 1);
    return NULL;
}

static void merge(struct lc_replay_result *into, const struct lc_replay_result *from)
{
    lc_histogram_merge(&into->select, &from->select);
    lc_histogram_merge(&into->reward, &from->reward);
    lc_histogram_merge(&into->observe, &from->observe);
    into->n_requests += from->n_requests;
    into->n_errors += from->n_errors;
    into->n_lines += from->n_lines;
    into->n_earned += from->n_earned;
    into->earned += from->earned;
    into->n_late_start += from->n_late_start;
    if (from->late_ns > into->late_ns)
        into->late_ns = from->late_ns;
    if (into->first_error[0] == '\0')
        memcpy(into->first_error, from->first_error, sizeof into->first_error);
}

/* By bytes of the file or by --limit, whichever is further; negative (no bar) for a pipe. */
static double fraction_done(const struct driver *d)
{
    size_t limit = d->options->limit, total = d->source->total_bytes;
    if (total == 0)
        return -1.0;
    /* lines differ in length, so this is only about right */
    double by_bytes = (double)atomic_load(&d->bytes) / (double)total;
    double by_lines = limit > 0 ? (double)atomic_load(&d->n_lines) / (double)limit : 0.0;
    return by_bytes > by_lines ? by_bytes : by_lines;
}

/* The main thread only looks at atomic counters: it takes no lock of the workers. */
static void show_until_done(struct driver *d, struct lc_progress *p)
{
    while (atomic_load(&d->n_running) > 0) {
        char text[128];
        double s = (double)(lc_now_ns() - d->start_ns) * 1e-9;
        unsigned long long sent = atomic_load(&d->n_sent), errors = atomic_load(&d->n_errors);
        snprintf(text, sizeof text, "%s requests, %.0f a second, %s errors", lc_thousands(sent),
                 s > 0.0 ? (double)sent / s : 0.0, lc_thousands(errors));
        lc_progress_show(p, fraction_done(d), text);
        lc_sleep_until_ns(lc_now_ns() + 20000000u);
    }
    lc_progress_clear(p);
}

/* Histograms need more than zeros: their minimum starts at the largest value. */
static void clear_result(struct lc_replay_result *r)
{
    memset(r, 0, sizeof *r);
    lc_histogram_clear(&r->select);
    lc_histogram_clear(&r->reward);
    lc_histogram_clear(&r->observe);
}

/* Connections that could not be started are missing from the count of threads, not from the work. */
int lc_replay_run(const struct lc_session *s, const struct lc_replay_options *o, struct lc_source *src,
                  struct lc_progress *progress, struct lc_replay_result *out)
{
    struct driver d = {.session = s, .options = o, .source = src, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct worker *workers = lc_alloc(o->concurrency, sizeof *workers);
    size_t n_started = 0;
    clear_result(out);
    d.start_ns = lc_now_ns();
    for (size_t i = 0; i < o->concurrency; i++) {
        struct worker *w = &workers[i];
        w->driver = &d;
        w->client = lc_client_new(s, s->tenant);
        clear_result(&w->result);
        atomic_fetch_add(&d.n_running, 1);
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            atomic_fetch_sub(&d.n_running, 1);
            lc_client_free(w->client);
            break;
        }
        n_started++;
    }
    /* the threads run already; this one watches */
    if (n_started > 0)
        show_until_done(&d, progress);
    for (size_t i = 0; i < n_started; i++) {
        pthread_join(workers[i].thread, NULL);
        merge(out, &workers[i].result);
        if (workers[i].last_sent_ns > d.start_ns)
            out->sent_s = fmax(out->sent_s, (double)(workers[i].last_sent_ns - d.start_ns) * 1e-9);
        lc_client_free(workers[i].client);
        lc_text_close(&workers[i].body);
    }
    out->log_s = (double)(d.last_ms - d.first_ms) * 1e-3;
    out->seconds = (double)(lc_now_ns() - d.start_ns) * 1e-9;
    free(workers);
    if (n_started == 0)
        snprintf(src->why, sizeof src->why, "no thread could be started");
    return n_started == 0 ? -1 : d.rc;
}
