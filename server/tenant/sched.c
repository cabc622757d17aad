/* The scheduler: one libuv loop for timers, signals and the work pool. Owner of uv.h.
 *
 * Other threads only append to the two lists and send the async; all uv calls but that are made on the loop.
 *
 * Jobs run on libuv's pool in the order in which the loop hands them over. The lock guards the two lists, is_stopping
 * and is_closing, and is held for an allocation at most. Cost of a job: the lock, a small allocation, a system call,
 * and the loop on its way to the pool and back; which is why writers have threads of their own (turns.h). */
#include "tenant/sched.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <uv.h>

#include "base/clock.h"
#include "base/long_work.h"
#include "tenant/turns.h"

#define TICK_MS 250
#define TRANSFER_THREADS 2

/* One call of fn. */
struct ld_sched_job {
    uv_work_t work;
    struct ld_sched *sched;
    struct ld_sched_job *next;
    bool is_served; /* of the requests' line */
    void (*fn)(void *arg);
    void *arg;
};

/* Made and freed in the main thread, which also runs the loop. */
struct ld_sched {
    uv_loop_t loop;
    uv_async_t async;
    uv_timer_t timer;
    uv_signal_t signal[3];
    struct ld_sched_hooks hooks;
    struct ld_turns *turns;
    struct ld_long_work *long_work, *transfers;
    uv_work_t first;  /* has the pool start its threads */
    size_t n_running; /* jobs on the pool; loop only */
    pthread_mutex_t lock;
    struct ld_sched_job *head, *tail; /* waiting for the loop */
    struct ld_sched_job *first_served, *last_served;
    size_t n_to_serve;              /* in the requests' line */
    size_t n_serving, most_serving; /* of them, on the pool; loop only */
    size_t n_long;                  /* jobs of the two, given and not ended */
    bool is_stopping;
    bool is_closing; /* handles are being closed: nobody sends to the loop any more */
};

static struct ld_sched here; /* ld_sched_inline */

static const int SIGNALS[3] = {SIGTERM, SIGINT, SIGHUP};

/* ---- the line (lock held) -------------------------------------------------------------------------- */

/* At the end of the line. */
static void append_job(struct ld_sched *s, struct ld_sched_job *job)
{
    job->next = NULL;
    if (s->head == NULL)
        s->head = job;
    else
        s->tail->next = job;
    s->tail = job;
}

/* uv keeps its request inside, so a job stays where it is until end_job. NULL: no memory. */
static struct ld_sched_job *job_new(struct ld_sched *s, void (*fn)(void *arg), void *arg)
{
    struct ld_sched_job *job = calloc(1, sizeof *job);

    if (job != NULL) {
        job->sched = s;
        job->work.data = job;
        job->fn = fn;
        job->arg = arg;
    }
    return job;
}

void ld_sched_wake(struct ld_sched *s, struct ld_turn *turn)
{
    if (s != &here)
        ld_turns_wake(s->turns, turn);
}

struct ld_sched *ld_sched_inline(void)
{
    return &here;
}

/* A job that has ended may be what a stopping loop waits for. In the worker's thread. */
static void end_long_work(void *arg)
{
    struct ld_sched *s = arg;

    pthread_mutex_lock(&s->lock);
    s->n_long--;
    uv_async_send(&s->async); /* under the lock: the loop closes the handle only after it has seen the count */
    pthread_mutex_unlock(&s->lock);
}

/* The last turn may be what it waits for, too. In the thread that ran it. */
static void rest(void *arg)
{
    struct ld_sched *s = arg;

    pthread_mutex_lock(&s->lock);
    if (s->is_stopping && !s->is_closing)
        uv_async_send(&s->async);
    pthread_mutex_unlock(&s->lock);
}

/* Counted before it is given, since it may end before this returns. */
static int give_long_work(struct ld_sched *s, struct ld_long_work *to, void (*fn)(void *arg), void *arg, size_t most)
{
    pthread_mutex_lock(&s->lock);
    s->n_long++;
    pthread_mutex_unlock(&s->lock);
    if (ld_long_work_add(to, fn, arg, most) == 0)
        return 0;
    pthread_mutex_lock(&s->lock);
    s->n_long--;
    pthread_mutex_unlock(&s->lock);
    return -1;
}

int ld_sched_give(struct ld_sched *s, enum ld_threads threads, void (*fn)(void *arg), void *arg, size_t most)
{
    if (s == &here) {
        fn(arg);
        return 0;
    }
    if (threads == LD_LONG_WORK || threads == LD_TRANSFERS)
        return give_long_work(s, threads == LD_LONG_WORK ? s->long_work : s->transfers, fn, arg, most);
    struct ld_sched_job *job = job_new(s, fn, arg);
    if (job == NULL)
        return -1;
    pthread_mutex_lock(&s->lock);
    const bool is_in = threads == LD_POOL || s->n_to_serve < most;
    job->is_served = threads == LD_POOL_SERVES;
    if (threads == LD_POOL) {
        append_job(s, job);
    } else if (is_in) {
        *(s->first_served == NULL ? &s->first_served : &s->last_served->next) = job;
        s->last_served = job;
        s->n_to_serve++;
    }
    pthread_mutex_unlock(&s->lock);
    if (is_in)
        uv_async_send(&s->async);
    else
        free(job);
    return is_in ? 0 : -1;
}

/* ---- jobs ------------------------------------------------------------------------------------------ */

static void start_jobs(struct ld_sched *s);

/* On the pool. */
static void run_job(uv_work_t *work)
{
    struct ld_sched_job *job = work->data;

    job->fn(job->arg);
}

/* On the loop. */
static void end_job(uv_work_t *work, int status)
{
    struct ld_sched_job *job = work->data;
    struct ld_sched *s = job->sched;

    (void)status;
    s->n_running--;
    s->n_serving -= job->is_served;
    free(job);
    start_jobs(s);
}

/* Moves requests to the end of the line as far as there are threads for them. Lock held, on the loop. */
static void admit_served(struct ld_sched *s)
{
    while (s->first_served != NULL && s->n_serving < s->most_serving) {
        struct ld_sched_job *job = s->first_served;

        s->first_served = job->next;
        s->n_to_serve--;
        s->n_serving++;
        append_job(s, job);
    }
}

/* Hands the line to the pool; ends the loop when it is stopping and nothing is left. The whole list goes over at
 * once: libuv's own queue is the line from there on, and its order is kept. Jobs that ended may have put others in the
 * line, so whether any is left is asked after the line was emptied; whether turns are is asked before the lock is
 * taken, since their last one asks for it. */
static void start_jobs(struct ld_sched *s)
{
    const bool is_at_rest = ld_turns_rest(s->turns);
    struct ld_sched_job *job;
    bool is_ending;

    pthread_mutex_lock(&s->lock);
    admit_served(s);
    job = s->head;
    s->head = s->tail = NULL;
    is_ending = s->is_stopping && !s->is_closing && s->n_long == 0 && s->n_running == 0 && job == NULL && is_at_rest;
    s->is_closing |= is_ending;
    pthread_mutex_unlock(&s->lock);
    while (job != NULL) {
        struct ld_sched_job *next = job->next;

        s->n_running++;
        uv_queue_work(&s->loop, &job->work, run_job, end_job); /* fails only without a callback */
        job = next;
    }
    /* uv_run returns when the last handle is closed, but for those of signals, which do not count: a signal during what
     * comes after the loop is one that we handle, not one that kills. Once. */
    if (is_ending) {
        uv_close((uv_handle_t *)&s->async, NULL);
        uv_close((uv_handle_t *)&s->timer, NULL);
    }
}

/* ---- loop ------------------------------------------------------------------------------------------ */

/* Sends may be merged, so one call takes everything that waits. */
static void on_async(uv_async_t *async)
{
    start_jobs(async->data);
}

/* Wall-clock time, since windows are deadlines on the wall clock; missed ticks are not made up for. On the loop,
 * hence never two at a time. */
static void on_tick(uv_timer_t *timer)
{
    struct ld_sched *s = timer->data;

    if (s->hooks.tick != NULL)
        s->hooks.tick(s->hooks.arg, ld_now_ms());
}

/* On the loop, not in a signal handler: hooks may lock, log and allocate. */
static void on_signal(uv_signal_t *signal, int signum)
{
    struct ld_sched *s = signal->data;
    void (*hook)(void *) = signum == SIGHUP ? s->hooks.reload : s->hooks.terminate;

    if (hook != NULL)
        hook(s->hooks.arg);
}

/* libuv reads UV_THREADPOOL_SIZE at the first use of the pool, and starts all its threads then: it aborts when there is
 * no memory for their stacks, so that use comes at the start (ld_sched_new). What is opened waits for the disk more
 * than it computes, so there are at least four. A value that is set in the environment stays. */
static void size_pool(void)
{
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    char text[16];

    snprintf(text, sizeof text, "%ld", n_cores < 4 ? 4 : n_cores > 64 ? 64 : n_cores);
    setenv("UV_THREADPOOL_SIZE", text, 0);
}

/* Half of the pool, as libuv will read its size. */
static size_t n_serving_threads(void)
{
    const char *text = getenv("UV_THREADPOOL_SIZE");
    const long n = text != NULL ? strtol(text, NULL, 10) : 4;

    return n < 4 ? 1 : (size_t)n / 2;
}

/* Half of the cores: the other half is always there for those who wait. */
static unsigned n_long_threads(void)
{
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);

    return n_cores < 4 ? 1 : (unsigned)(n_cores / 2);
}

static void free_threads(struct ld_sched *s)
{
    ld_turns_free(s->turns);
    ld_long_work_free(s->long_work);
    ld_long_work_free(s->transfers);
}

/* Starting a handle fails only for want of descriptors or memory, at start: there is no way to go on then. The codes
 * are negative or 0, so joining them by OR keeps any failure. */
static int init_handles(struct ld_sched *s)
{
    int rc = uv_async_init(&s->loop, &s->async, on_async);

    rc |= uv_timer_init(&s->loop, &s->timer);
    s->async.data = s->timer.data = s;
    rc |= uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
    for (size_t i = 0; i < 3; i++) {
        rc |= uv_signal_init(&s->loop, &s->signal[i]);
        s->signal[i].data = s;
        if ((SIGNALS[i] == SIGHUP ? s->hooks.reload : s->hooks.terminate) != NULL)
            rc |= uv_signal_start(&s->signal[i], on_signal, SIGNALS[i]);
        uv_unref((uv_handle_t *)&s->signal[i]);
    }
    return rc;
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

/* Before any other thread is started: it sets an environment variable. -1: no memory or no descriptor for the loop. */
int ld_sched_new(struct ld_sched **out, const struct ld_sched_hooks *hooks)
{
    struct ld_sched *s = calloc(1, sizeof *s);

    size_pool();
    if (s == NULL)
        return -1;
    if (ld_turns_new(&s->turns, rest, s) != 0 ||
        ld_long_work_new(&s->long_work, n_long_threads(), end_long_work, s) != 0 ||
        ld_long_work_new(&s->transfers, TRANSFER_THREADS, end_long_work, s) != 0 || uv_loop_init(&s->loop) != 0) {
        free_threads(s);
        free(s);
        return -1;
    }
    s->hooks = *hooks;
    s->most_serving = n_serving_threads();
    pthread_mutex_init(&s->lock, NULL);
    if (init_handles(s) != 0 || uv_queue_work(&s->loop, &s->first, do_nothing, NULL) != 0)
        abort();
    *out = s;
    return 0;
}

/* Jobs given while the loop stops are still run; it ends when none is left. Who wakes a tenant after that has come too
 * late: its turns are the caller's. */
void ld_sched_run(struct ld_sched *s)
{
    uv_run(&s->loop, UV_RUN_DEFAULT);
    ld_turns_end(s->turns);
}

/* A loop without anything that counts would not even look. */
void ld_sched_poll(struct ld_sched *s)
{
    if (s == &here)
        return;
    for (size_t i = 0; i < 3; i++)
        uv_ref((uv_handle_t *)&s->signal[i]);
    uv_run(&s->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < 3; i++)
        uv_unref((uv_handle_t *)&s->signal[i]);
}

/* Safe from every thread and from hooks. Calling it twice is fine as long as the loop runs. */
void ld_sched_stop(struct ld_sched *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_stopping = true;
    pthread_mutex_unlock(&s->lock);
    uv_async_send(&s->async);
}

/* After ld_sched_run, or before it was ever called. */
void ld_sched_free(struct ld_sched *s)
{
    if (s == NULL)
        return;
    if (!s->is_closing) {
        ld_sched_stop(s);
        ld_sched_run(s);
    }
    for (size_t i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&s->signal[i], NULL);
    ld_sched_run(s);
    free_threads(s);
    uv_loop_close(&s->loop);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
