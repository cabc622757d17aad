/* The line of tenants and its threads. Life of a tenant's turn, under the lock:
 *
 *     NONE -- wake --> WAITING -- thread --> RUNNING -- writer done --> NONE, or WAITING when it left ops behind
 *                                              |  ^                     or the state is AGAIN
 *                                              +--+-- wake --> AGAIN
 *
 * So a tenant has at most one turn, is held exactly while its state is not NONE, and a wake is never lost: it is either
 * seen by the end of the turn that runs or starts another.
 *
 * A wake goes straight to a thread that waits: one change of threads between a request and its commit. And a thread
 * that has put its tenant back into the line looks there itself: a busy tenant stays with one thread, awake, while
 * others come in between in their order. */
#include "tenant/turns.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define LEAST_THREADS 16
#define MOST_THREADS 64

struct ld_turns {
    pthread_mutex_t lock;
    pthread_cond_t has_work;
    struct ld_turn *head, *tail;
    unsigned n_threads, most, n_idle, n_running, n_waiting; /* n_waiting: tenants in the line */
    bool is_ending;
    pthread_t thread[MOST_THREADS];
    void (*rests)(void *arg);
    void *arg;
};

/* ---- the line (lock held) -------------------------------------------------------------------------------- */

static void append(struct ld_turns *t, struct ld_turn *turn)
{
    turn->state = LD_TURN_WAITING;
    turn->next = NULL;
    if (t->head == NULL)
        t->head = turn;
    else
        t->tail->next = turn;
    t->tail = turn;
    t->n_waiting++;
}

/* Waits for a tenant; NULL when the thread is to end. */
static struct ld_turn *take(struct ld_turns *t)
{
    t->n_idle++;
    while (t->head == NULL && !t->is_ending)
        pthread_cond_wait(&t->has_work, &t->lock);
    t->n_idle--;
    struct ld_turn *turn = t->head;
    if (turn != NULL) {
        t->head = turn->next;
        t->n_waiting--;
        turn->state = LD_TURN_RUNNING;
    }
    return turn;
}

/* ---- threads ---------------------------------------------------------------------------------------------- */

/* Without the lock; returns with it. The tenant is let go when it waits for nothing any more, which may be its end. */
static void run(struct ld_turns *t, struct ld_turn *turn)
{
    const bool has_more = turn->ops->run(turn->tenant);

    pthread_mutex_lock(&t->lock);
    if (has_more || turn->state == LD_TURN_AGAIN) {
        append(t, turn);
        return;
    }
    turn->state = LD_TURN_NONE;
    pthread_mutex_unlock(&t->lock);
    turn->ops->release(turn->tenant);
    pthread_mutex_lock(&t->lock);
}

static void *work(void *arg)
{
    struct ld_turns *t = arg;
    struct ld_turn *turn;

    pthread_setname_np(pthread_self(), "writer");
    pthread_mutex_lock(&t->lock);
    while ((turn = take(t)) != NULL) {
        t->n_running++;
        pthread_mutex_unlock(&t->lock);
        run(t, turn);
        t->n_running--;
        if (t->n_running > 0 || t->head != NULL)
            continue;
        pthread_mutex_unlock(&t->lock);
        t->rests(t->arg);
        pthread_mutex_lock(&t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* Lock held. */
static bool add_thread(struct ld_turns *t)
{
    if (t->n_threads == t->most || pthread_create(&t->thread[t->n_threads], NULL, work, t) != 0)
        return false;
    t->n_threads++;
    return true;
}

/* Writers wait for the disk more than they compute, and an fdatasync takes a tick of 4 ms where the processor is busy:
 * four threads then have a thousand small tenants' commits a second queue without end, which sixteen do not
 * (docs/PERFORMANCE.md). The first is there from the beginning, so that no wake depends on making one. */
int ld_turns_new(struct ld_turns **out, void (*rests)(void *arg), void *arg)
{
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct ld_turns *t = calloc(1, sizeof *t);

    if (t == NULL)
        return -1;
    t->most = n_cores < LEAST_THREADS ? LEAST_THREADS : n_cores > MOST_THREADS ? MOST_THREADS : (unsigned)n_cores;
    t->rests = rests;
    t->arg = arg;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->has_work, NULL);
    *out = t;
    if (add_thread(t))
        return 0;
    ld_turns_free(t);
    return -1;
}

/* A tenant that waits already will be seen; one that runs may have looked into its queue too early, and runs again.
 * Threads that were woken for others and are not up yet still count as idle: there are as many as tenants in the line,
 * or one more is made. */
void ld_turns_wake(struct ld_turns *t, struct ld_turn *turn)
{
    bool is_new = false;

    pthread_mutex_lock(&t->lock);
    if (turn->state == LD_TURN_RUNNING)
        turn->state = LD_TURN_AGAIN;
    if (turn->state == LD_TURN_NONE && !t->is_ending) {
        turn->ops->hold(turn->tenant);
        append(t, turn);
        is_new = t->n_idle >= t->n_waiting || !add_thread(t);
    }
    pthread_mutex_unlock(&t->lock);
    if (is_new)
        pthread_cond_signal(&t->has_work);
}

bool ld_turns_rest(struct ld_turns *t)
{
    pthread_mutex_lock(&t->lock);
    const bool rest = t->head == NULL && t->n_running == 0;
    pthread_mutex_unlock(&t->lock);
    return rest;
}

void ld_turns_end(struct ld_turns *t)
{
    pthread_mutex_lock(&t->lock);
    const unsigned n = t->n_threads;
    t->is_ending = true;
    t->most = t->n_threads = 0; /* none is added, and none joined twice */
    pthread_mutex_unlock(&t->lock);
    pthread_cond_broadcast(&t->has_work);
    for (unsigned i = 0; i < n; i++)
        pthread_join(t->thread[i], NULL);
}

void ld_turns_free(struct ld_turns *t)
{
    if (t == NULL)
        return;
    ld_turns_end(t);
    pthread_cond_destroy(&t->has_work);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
