/* The tenants of several servers that share a log (--log): which there are, and how far this server has read them.
 *
 * A thread asks the log where each tenant ends, every --log-poll milliseconds, and sooner while somebody waits:
 *
 *     a name that is new here    enters the table, closed: its log is folded at the first use
 *     a name that is gone        leaves it with its files, once the log says that the tenant was deleted
 *     another tenant's by now    likewise, and the next round takes the new one in
 *     a log beyond ours          the tenant's writer is told to follow (ld_tenant_follow)
 *     lines that were rewritten  go from here, too (registry_renewals.c)
 *
 * Requests for a name that nobody here knows wait for a round that begins after they came: so a tenant that another
 * server has just made is found, and a flood of names costs no more than a question a round.
 *
 * A log that answers and does not know a tenant that it had is one that was set back: nothing is removed then. What it
 * says of a tenant that a creation here is about to show is too old; so a round that saw a creation removes nothing.
 *
 * Lag: how many lines a tenant in memory has not folded yet, and for how long it has not come to the end that it was
 * then told of. A line that no fold takes holds up its tenant for as long as nobody repairs it, and not the server. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/metrics.h"
#include "shared/shared_log.h"
#include "tenants/registry_impl.h"

#define HURRY_MS 5 /* between two rounds that somebody waits for */
#define LONG_ROUND_US 1000000
#define EXCHANGE_TRIES 2000 /* a millisecond apart */

/* One tenant of the log. */
struct tip {
    char name[LD_NAME_MAX + 1];
    uint64_t id, seq, generation;
};

struct tips {
    struct tip *tip; /* ascending by name */
    size_t n, cap;
    uint64_t generation; /* the last rewriting of all */
    bool is_failed;
};

const struct ld_shared_ops *ld_nodes_ops(const struct ld_tenants *r)
{
    return r->world->shared->ops;
}

/* ---- what the log says ------------------------------------------------------------------------------- */

static void add_tip(void *arg, const char *name, const struct ld_shared_tenant *t)
{
    struct tips *tips = arg;

    if (tips->is_failed || t->tip.seq == 0 || !ld_tenant_name_is_valid(name)) /* 0: its creation was cut off */
        return;
    tips->is_failed = kb_grow((void **)&tips->tip, &tips->cap, tips->n + 1, 64, sizeof *tips->tip) != 0;
    if (tips->is_failed)
        return;
    struct tip *tip = &tips->tip[tips->n++];
    *tip = (struct tip){.id = t->id, .seq = t->tip.seq, .generation = t->tip.generation};
    snprintf(tip->name, sizeof tip->name, "%s", name);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct tip *)a)->name, ((const struct tip *)b)->name);
}

static const struct tip *find_tip(const struct tips *tips, const char *name)
{
    struct tip key = {.id = 0};

    snprintf(key.name, sizeof key.name, "%s", name);
    return tips->n > 0 ? bsearch(&key, tips->tip, tips->n, sizeof key, compare) : NULL;
}

/* ---- names ------------------------------------------------------------------------------------------- */

/* A creation or removal under way is not waited for: the next round comes soon. */
static void take_in(struct ld_tenants *r, const struct tips *tips)
{
    for (size_t i = 0; i < tips->n; i++) {
        if (ld_tenants_has(r, tips->tip[i].name) || pthread_mutex_trylock(&r->change_lock) != 0)
            continue;
        ld_member_take_in(r, tips->tip[i].name);
        pthread_mutex_unlock(&r->change_lock);
    }
}

/* Which tenant of the log the member is: of one in memory, what it is a copy of. 0: not known yet. Lock held. */
static uint64_t id_of(const struct ld_member *member)
{
    struct ld_tenant_shared place = {.id = 0};

    if (member->state == LD_TENANT_OPEN)
        ld_tenant_shared(member->tenant, &place);
    return place.id != 0 ? place.id : member->shared_id;
}

/* The first member behind `name` that the log has no more, or that is another tenant by now; those that are seen for
 * the first time get their number. False: there is none. */
static bool find_gone(struct ld_tenants *r, const struct tips *tips, char name[LD_NAME_MAX + 1], uint64_t *id,
                      bool *is_replaced)
{
    bool is_found = false;

    pthread_rwlock_rdlock(&r->lock);
    for (size_t i = 0; i < r->n && !is_found; i++) {
        struct ld_member *member = r->item[i];
        if (strcmp(member->name, name) <= 0)
            continue;
        const struct tip *tip = find_tip(tips, member->name);
        member->shared_id = id_of(member);
        if (member->shared_id == 0)
            member->shared_id = tip != NULL ? tip->id : 0;
        const bool is_there = tip != NULL && tip->id == member->shared_id;
        if (is_there)
            member->is_lost = false;
        is_found = member->shared_id != 0 && !is_there && !member->is_lost;
        if (is_found) {
            snprintf(name, LD_NAME_MAX + 1, "%s", member->name);
            *id = member->shared_id;
            *is_replaced = tip != NULL;
        }
    }
    pthread_rwlock_unlock(&r->lock);
    return is_found;
}

static enum ld_shared_rc ignore(void *arg, const struct ld_shared_batch *batch)
{
    (void)arg;
    (void)batch;
    return LD_SHARED_OK;
}

/* NONE: it was deleted. A log that has lost it says FORKED, as it does of one that it has, whose hash we did not say.
 */
static enum ld_shared_rc look_for(struct ld_tenants *r, uint64_t id)
{
    const struct ld_shared_place after = {.seq = 1};
    struct ld_message why;

    return ld_nodes_ops(r)->read(r->world->shared, id, &after, 1, ignore, NULL, &why);
}

/* Said once; until the log has it again it is not asked for. */
static void note_lost(struct ld_tenants *r, const char *name)
{
    pthread_rwlock_wrlock(&r->lock);
    struct ld_member *member = ld_member_find(r, name);
    if (member != NULL)
        member->is_lost = true;
    pthread_rwlock_unlock(&r->lock);
    ld_log(LD_LOG_ERROR,
           "tenant %s: the shared log has lost it: it was set back, or is another one. The copy here stays as it is",
           name);
}

/* A member that came into the table since the log was asked is not in the answer: that is no news of it. */
static void take_away(struct ld_tenants *r, const struct tips *tips, uint64_t n_made)
{
    char name[LD_NAME_MAX + 1] = "";
    uint64_t id = 0;
    bool is_replaced = false;

    while (find_gone(r, tips, name, &id, &is_replaced) && atomic_load(&r->nodes->n_made) == n_made) {
        const enum ld_shared_rc rc = look_for(r, id);
        if (rc == LD_SHARED_FORKED)
            note_lost(r, name);
        if (rc != LD_SHARED_NONE || pthread_mutex_trylock(&r->change_lock) != 0)
            continue;
        if (atomic_load(&r->nodes->n_made) == n_made && ld_member_forget(r, name, is_replaced)) {
            ld_log(LD_LOG_INFO, "tenant %s: %s", name,
                   is_replaced ? "another tenant has its place in the shared log" : "another server has deleted it");
            r->nodes->rates_revision = 0; /* whoever has the name now may have its rate */
        }
        pthread_mutex_unlock(&r->change_lock);
    }
}

/* Who comes to a new folder finds the first tenant, unless the log has others. */
static void make_first(struct ld_tenants *r, const struct tips *tips)
{
    struct ld_settings initial;
    struct ld_problem p;

    if (!r->nodes->must_make_first)
        return;
    ld_problem_init(&p);
    if (tips->n == 0 && ld_settings_of_first(&initial))
        (void)ld_tenants_create(r, ld_tenants_first_name(r), &initial, &p);
    r->nodes->must_make_first = p.status == 503;
}

bool ld_nodes_await_exchange(struct ld_tenants *r, const char *name, uint64_t old)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    bool is_exchanged = false;

    for (int i = 0; i < EXCHANGE_TRIES && !is_exchanged; i++) {
        if (!r->nodes->is_running)
            (void)ld_tenants_poll(r);
        else if (i % HURRY_MS == 0)
            ld_tenants_poll_soon(r);
        nanosleep(&ms, NULL);
        pthread_rwlock_rdlock(&r->lock);
        const struct ld_member *member = ld_member_find(r, name);
        is_exchanged = member != NULL && id_of(member) != old;
        pthread_rwlock_unlock(&r->lock);
    }
    return is_exchanged;
}

/* ---- tips -------------------------------------------------------------------------------------------- */

/* Whether it waits for an operator. */
static bool is_held_up(const struct ld_tenant *t)
{
    struct ld_tenant_shared view;
    const char *fault;

    ld_tenant_shared(t, &view);
    return view.is_forked || ld_tenant_read_only(t, &fault) > 0;
}

/* The tenant, held, if it is in memory and behind; else NULL. */
static struct ld_tenant *find_behind(struct ld_tenants *r, const struct tip *tip, struct ld_lag *most)
{
    struct ld_tenant *t = NULL;
    struct ld_lag lag;

    pthread_rwlock_rdlock(&r->lock);
    struct ld_member *member = ld_member_find(r, tip->name);
    if (member != NULL && member->state == LD_TENANT_OPEN && member->shared_id == tip->id &&
        !ld_tenant_see_head(member->tenant, tip->seq)) {
        t = ld_tenant_hold(member->tenant);
        if (is_held_up(t))
            lag = (struct ld_lag){.events = 0};
        else
            ld_tenant_lag(t, &lag);
        most->events = lag.events > most->events ? lag.events : most->events;
        most->us = lag.us > most->us ? lag.us : most->us;
    }
    pthread_rwlock_unlock(&r->lock);
    return t;
}

static void follow(struct ld_tenants *r, const struct tips *tips, struct ld_lag *most)
{
    for (size_t i = 0; i < tips->n; i++) {
        struct ld_tenant *t = find_behind(r, &tips->tip[i], most);
        if (t != NULL)
            ld_tenant_follow(t);
        ld_tenant_release(t);
    }
}

static void renew(struct ld_tenants *r, const struct tips *tips)
{
    size_t n_old = 0;

    for (size_t i = 0; i < tips->n; i++)
        n_old += tips->tip[i].generation > 0 &&
                 !ld_member_renew(r, tips->tip[i].name, tips->tip[i].id, tips->tip[i].generation);
    ld_nodes_report(r, tips->generation, n_old);
}

/* ---- rounds ------------------------------------------------------------------------------------------ */

/* What readiness and metrics are told. A log that answers and may not acknowledge counts as down. */
static void note(struct ld_tenants *r, bool is_answering, int64_t start_us, const struct ld_lag *lag,
                 const struct ld_message *why)
{
    struct ld_shared_metrics *m = &r->world->metrics->shared;
    struct ld_nodes *nodes = r->nodes;
    struct ld_shared_health health = {.is_up = true};

    ld_nodes_ops(r)->health(r->world->shared, &health);
    const bool is_up = is_answering && health.is_up;
    pthread_mutex_lock(&nodes->lock);
    const bool was_up = nodes->view.down_us == 0;
    nodes->view.n_standbys = health.n_standbys;
    if (is_answering)
        nodes->view.lag = *lag;
    if (was_up && !is_up)
        nodes->view.down_us = nodes->good_us;
    if (is_up) {
        nodes->view.down_us = 0;
        nodes->good_us = start_us;
        nodes->was_good = true;
    } else
        nodes->view.why = is_answering ? health.why : *why;
    pthread_mutex_unlock(&nodes->lock);
    ld_count(&m->polls, 1);
    ld_count(&m->poll_failures, !is_answering);
    if (was_up != is_up)
        ld_log(is_up ? LD_LOG_INFO : LD_LOG_ERROR, is_up ? "the shared log answers again" : "the shared log: %s",
               is_answering ? health.why.text : why->text);
}

bool ld_tenants_poll(struct ld_tenants *r)
{
    struct ld_nodes *nodes = r->nodes;
    struct ld_message why = {""};
    struct tips tips = {.tip = NULL};
    const uint64_t n_made = atomic_load(&nodes->n_made);
    struct ld_lag lag = {.events = 0};

    const int64_t start_us = ld_monotonic_us();
    pthread_mutex_lock(&nodes->lock);
    const uint64_t round = ++nodes->round;
    nodes->is_hurried = false;
    pthread_mutex_unlock(&nodes->lock);
    enum ld_shared_rc rc = ld_nodes_ops(r)->tips(r->world->shared, add_tip, &tips, &tips.generation, &why);
    if (rc == LD_SHARED_OK && tips.is_failed)
        rc = LD_SHARED_NOMEM;
    const bool is_ok = rc == LD_SHARED_OK;
    if (is_ok) {
        if (tips.n > 0)
            qsort(tips.tip, tips.n, sizeof *tips.tip, compare);
        if (nodes->rates_revision == 0) /* before the first name: a folder with tenants has read the keys */
            ld_tenants_follow_common(r);
        make_first(r, &tips);
        take_away(r, &tips, n_made);
        take_in(r, &tips);
        ld_tenants_follow_common(r);
        follow(r, &tips, &lag);
        renew(r, &tips);
        ld_tenants_hold_work(r);
    } else if (why.text[0] == '\0') {
        ld_fail(&why, "%s", ld_shared_say(rc));
    }
    kb_free(tips.tip);
    note(r, is_ok, start_us, &lag, &why);
    ld_nodes_end_waiting(r, round, is_ok ? NULL : why.text);
    return is_ok;
}

/* Lock held; for ms milliseconds, or until somebody calls after the first HURRY_MS. */
static void rest(struct ld_nodes *nodes, unsigned ms)
{
    struct timespec end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    end.tv_sec += ms / 1000 + end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    while (!nodes->is_ending && !nodes->is_hurried && pthread_cond_timedwait(&nodes->has_call, &nodes->lock, &end) == 0)
        ;
}

static void *watch(void *arg)
{
    const struct timespec hurry = {.tv_nsec = HURRY_MS * 1000000};
    struct ld_tenants *r = arg;
    struct ld_nodes *nodes = r->nodes;
    bool is_over = false;

    pthread_setname_np(pthread_self(), "follower");
    while (!is_over) {
        (void)ld_tenants_poll(r);
        const bool is_awaited = nodes->after_round != NULL && nodes->after_round(nodes->after_round_arg);
        nanosleep(&hurry, NULL);
        pthread_mutex_lock(&nodes->lock);
        if (!is_awaited)
            rest(nodes, nodes->poll_ms > HURRY_MS ? nodes->poll_ms - HURRY_MS : 0);
        is_over = nodes->is_ending;
        pthread_mutex_unlock(&nodes->lock);
    }
    return NULL;
}

void ld_tenants_poll_soon(struct ld_tenants *r)
{
    pthread_mutex_lock(&r->nodes->lock);
    r->nodes->is_hurried = true;
    pthread_cond_signal(&r->nodes->has_call);
    pthread_mutex_unlock(&r->nodes->lock);
}

/* A round that has no answer yet says what those before it did, until it takes long; before the first good one the log
 * has never been there. */
void ld_tenants_nodes(struct ld_tenants *r, struct ld_nodes_view *out)
{
    const int64_t now = ld_monotonic_us();
    struct ld_nodes *nodes = r->nodes;

    pthread_mutex_lock(&nodes->lock);
    *out = nodes->view;
    if (out->down_us != 0 || now - nodes->good_us > (int64_t)1000 * nodes->poll_ms + LONG_ROUND_US)
        out->down_us = now - nodes->good_us + 1;
    if (!nodes->was_good)
        out->down_us = INT64_MAX;
    if (out->down_us != 0 && out->why.text[0] == '\0')
        ld_fail(&out->why, "it has not answered yet");
    pthread_mutex_unlock(&nodes->lock);
}

/* ---- life -------------------------------------------------------------------------------------------- */

int ld_nodes_new(struct ld_tenants *r)
{
    pthread_condattr_t attr;

    r->nodes = calloc(1, sizeof *r->nodes);
    if (r->nodes == NULL)
        return -1;
    r->nodes->view.n_standbys = -1;
    r->nodes->good_us = ld_monotonic_us();
    pthread_mutex_init(&r->nodes->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->nodes->has_call, &attr);
    pthread_condattr_destroy(&attr);
    return 0;
}

int ld_tenants_watch(struct ld_tenants *r, unsigned poll_ms, bool (*after_round)(void *arg), void *arg,
                     struct ld_message *why)
{
    struct ld_nodes *nodes = r->nodes;

    nodes->poll_ms = poll_ms;
    nodes->after_round = after_round;
    nodes->after_round_arg = arg;
    nodes->is_running = pthread_create(&nodes->thread, NULL, watch, r) == 0;
    return nodes->is_running ? 0 : ld_fail(why, "cannot start a thread");
}

void ld_nodes_want_first(struct ld_tenants *r)
{
    r->nodes->must_make_first = true;
}

/* A question under way is waited for, --log-wait at most. */
void ld_tenants_unwatch(struct ld_tenants *r)
{
    struct ld_nodes *nodes = r->nodes;

    if (nodes == NULL || !nodes->is_running)
        return;
    pthread_mutex_lock(&nodes->lock);
    nodes->is_ending = true;
    pthread_cond_signal(&nodes->has_call);
    pthread_mutex_unlock(&nodes->lock);
    pthread_join(nodes->thread, NULL);
    nodes->is_running = false;
}

void ld_nodes_free(struct ld_tenants *r)
{
    struct ld_nodes *nodes = r->nodes;

    if (nodes == NULL)
        return;
    ld_tenants_unwatch(r);
    pthread_cond_destroy(&nodes->has_call);
    pthread_mutex_destroy(&nodes->lock);
    free(nodes);
    r->nodes = NULL;
}
