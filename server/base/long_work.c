/* Long work: a list, a few threads that are started as they are needed, and a condition between them. See long_work.h.
 *
 * A thread lowers its own priority when it starts (Linux: nice belongs to the thread), and keeps it: it does nothing
 * else. Where that fails it works at the ordinary one. */
#include "base/long_work.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"

#define NICE 10

struct job {
    struct job *next;
    void (*fn)(void *arg);
    void *arg;
};

struct ld_long_work {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    struct job *head, *tail;
    unsigned n_threads, most, n_idle, n_waiting; /* waiting: jobs in the list */
    bool is_ending;
    pthread_t *thread;
    void (*after)(void *arg);
    void *arg;
};

int ld_long_work_new(struct ld_long_work **out, unsigned n_threads, void (*after)(void *arg), void *arg)
{
    struct ld_long_work *w = calloc(1, sizeof *w);

    if (w == NULL || (w->thread = calloc(n_threads, sizeof *w->thread)) == NULL) {
        free(w);
        return -1;
    }
    w->most = n_threads;
    w->after = after;
    w->arg = arg;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->has_work, NULL);
    *out = w;
    return 0;
}

/* ---- the workers ---------------------------------------------------------------------------------------- */

/* The next job, or NULL when the thread is to end. */
static struct job *take(struct ld_long_work *w)
{
    pthread_mutex_lock(&w->lock);
    w->n_idle++;
    while (w->head == NULL && !w->is_ending)
        pthread_cond_wait(&w->has_work, &w->lock);
    w->n_idle--;
    struct job *job = w->head;
    if (job != NULL) {
        w->head = job->next;
        w->n_waiting--;
    }
    pthread_mutex_unlock(&w->lock);
    return job;
}

static void *work(void *arg)
{
    struct ld_long_work *w = arg;

    pthread_setname_np(pthread_self(), "long work");
    if (setpriority(PRIO_PROCESS, (id_t)gettid(), NICE) != 0)
        ld_log(LD_LOG_DEBUG, "long work runs at the ordinary priority");
    for (struct job *job = take(w); job != NULL; job = take(w)) {
        job->fn(job->arg);
        free(job);
        w->after(w->arg);
    }
    return NULL;
}

/* ---- giving ---------------------------------------------------------------------------------------------- */

/* One more thread when all are busy; true when there is one that will come to the list. Lock held. */
static bool has_worker(struct ld_long_work *w)
{
    if (w->n_idle > w->n_waiting || w->n_threads == w->most)
        return true;
    if (pthread_create(&w->thread[w->n_threads], NULL, work, w) == 0)
        w->n_threads++;
    return w->n_threads > 0;
}

int ld_long_work_add(struct ld_long_work *w, void (*fn)(void *arg), void *arg, size_t most)
{
    struct job *job = calloc(1, sizeof *job);
    bool is_in;

    if (job == NULL)
        return -1;
    job->fn = fn;
    job->arg = arg;
    pthread_mutex_lock(&w->lock);
    is_in = w->n_waiting < most && has_worker(w);
    if (is_in) {
        if (w->head == NULL)
            w->head = job;
        else
            w->tail->next = job;
        w->tail = job;
        w->n_waiting++;
        pthread_cond_signal(&w->has_work);
    }
    pthread_mutex_unlock(&w->lock);
    if (!is_in)
        free(job);
    return is_in ? 0 : -1;
}

/* ---- the end --------------------------------------------------------------------------------------------- */

void ld_long_work_free(struct ld_long_work *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_ending = true;
    pthread_cond_broadcast(&w->has_work);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->n_threads; i++)
        pthread_join(w->thread[i], NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->has_work);
    free(w->thread);
    free(w);
}
