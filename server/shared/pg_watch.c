/* What runs beside the calls of a shared log in PostgreSQL: see pg_log_impl.h.
 *
 * watch   looks every five seconds whether the primary may acknowledge, every half a second while it may not and
 *         soon after a connection broke; writes that this server lives; removes the lines of deleted tenants, some at a
 * time keep    asks something over the connection of a turn that has said nothing for half a second, so that PostgreSQL
 *         does not take the row from a server that computes */
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "shared/pg_log_impl.h"

#define TICK_MS 500
#define CALM_TICKS 10
#define PING_US 1000000

/* Half a second, or until the end: false then. */
static bool sleep_tick(struct pg_log *l)
{
    struct timespec until;
    bool is_ending = false;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TICK_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_mutex_lock(&l->lock);
    while (!l->is_ending && pthread_cond_timedwait(&l->wake, &l->lock, &until) != ETIMEDOUT)
        ;
    is_ending = l->is_ending;
    (void)pthread_mutex_unlock(&l->lock);
    return !is_ending;
}

/* Whether something is or was amiss since the last look. */
static bool is_uneasy(struct pg_log *l)
{
    bool is_so = false;

    (void)pthread_mutex_lock(&l->lock);
    is_so = !l->health.is_up || l->is_shaken;
    l->is_shaken = false;
    (void)pthread_mutex_unlock(&l->lock);
    return is_so;
}

/* The connection for the next look; NULL: a new one. */
static struct pg_conn *look(struct pg_log *l, struct pg_conn *c)
{
    struct ld_message why;
    const int64_t deadline = ld_pg_deadline(l);
    enum pg_fit fit = PG_AWAY;

    if (c == NULL)
        fit = ld_pg_try(l, &c, deadline, &why);
    else
        fit = ld_pg_prove(l, c, deadline, &why);
    if (fit == PG_FIT && !l->config.is_reader) {
        PQclear(ld_pg_ask(c, PG_PURGE, NULL, ld_pg_deadline(l)));
        PQclear(ld_pg_ask(c, PG_PURGE_COMMON, NULL, ld_pg_deadline(l)));
    }
    if (c != NULL && (fit != PG_FIT || c->is_broken)) {
        ld_pg_close(c);
        c = NULL;
    }
    return c;
}

static void *watch(void *arg)
{
    struct pg_log *l = arg;
    struct pg_conn *c = NULL;
    int n_ticks = 0;

    while (sleep_tick(l))
        if (is_uneasy(l) || ++n_ticks >= CALM_TICKS) {
            c = look(l, c);
            n_ticks = 0;
        }
    ld_pg_close(c);
    return NULL;
}

/* A turn that has said nothing for half a second, with its connection locked; NULL: there is none. */
static struct ld_shared_turn *find_idle(struct pg_log *l)
{
    const int64_t before = ld_monotonic_us() - TICK_MS * 1000;
    struct ld_shared_turn *turn = NULL;

    (void)pthread_mutex_lock(&l->lock);
    for (turn = l->turns; turn != NULL; turn = turn->next)
        if (pthread_mutex_trylock(&turn->busy) == 0) {
            if (turn->used_us < before && !turn->c->is_broken)
                break;
            (void)pthread_mutex_unlock(&turn->busy);
        }
    (void)pthread_mutex_unlock(&l->lock);
    return turn;
}

static void *keep(void *arg)
{
    struct pg_log *l = arg;

    while (sleep_tick(l)) {
        struct ld_shared_turn *turn = NULL;
        while ((turn = find_idle(l)) != NULL) {
            PQclear(ld_pg_ask(turn->c, PG_PING, NULL, ld_monotonic_us() + PING_US));
            turn->used_us = ld_monotonic_us();
            (void)pthread_mutex_unlock(&turn->busy);
        }
    }
    return NULL;
}

int ld_pg_watch_start(struct pg_log *l)
{
    if (pthread_create(&l->watch, NULL, watch, l) != 0)
        return -1;
    if (pthread_create(&l->keep, NULL, keep, l) == 0)
        return 0;
    (void)pthread_mutex_lock(&l->lock);
    l->is_ending = true;
    (void)pthread_cond_broadcast(&l->wake);
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->watch, NULL);
    return -1;
}

void ld_pg_watch_stop(struct pg_log *l)
{
    (void)pthread_mutex_lock(&l->lock);
    l->is_ending = true;
    (void)pthread_cond_broadcast(&l->wake);
    (void)pthread_mutex_unlock(&l->lock);
    (void)pthread_join(l->watch, NULL);
    (void)pthread_join(l->keep, NULL);
}
