/* Names that this server does not know, where a log is shared: requests for them wait for a question to the log that
 * begins after they came (registry_nodes.c); and tenants that are made and deleted there. */
#include <stdio.h>

#include "shared/shared_log.h"
#include "tenants/registry_impl.h"

/* ---- who waits --------------------------------------------------------------------------------------- */

static void set_unknown(struct ld_problem *p, const char *name, const char *why)
{
    ld_problem_set(p, 503, "nobody here knows a tenant \"%.64s\", and the shared log cannot be asked: %.300s", name,
                   why);
}

static void set_stopping(struct ld_problem *p)
{
    ld_problem_set(p, 503, "the server is stopping");
}

void ld_nodes_await(struct ld_tenants *r, const char *name, struct ld_tenant_wait *wait)
{
    struct ld_nodes *nodes = r->nodes;
    struct ld_problem p;

    ld_problem_init(&p);
    pthread_mutex_lock(&nodes->lock);
    if (nodes->is_halting) {
        set_stopping(&p);
    } else if (r->world->max_opening > 0 && nodes->n_waiting >= r->world->max_opening) {
        ld_problem_set(&p, 503, "too many requests wait for tenants that nobody here knows");
        ld_problem_limit(&p, "opening", (double)r->world->max_opening);
    } else {
        wait->next = NULL;
        wait->name = name;
        wait->round = nodes->round + 1;
        if (nodes->first == NULL)
            nodes->first = wait;
        else
            nodes->last->next = wait;
        nodes->last = wait;
        nodes->n_waiting++;
        nodes->is_hurried = true;
        pthread_cond_signal(&nodes->has_call);
    }
    pthread_mutex_unlock(&nodes->lock);
    if (p.status != 0)
        wait->done(wait, NULL, &p);
}

/* Those who waited for the round, or for one before it. */
static struct ld_tenant_wait *take_waiting(struct ld_nodes *nodes, uint64_t round)
{
    pthread_mutex_lock(&nodes->lock);
    struct ld_tenant_wait *first = nodes->first, *last = NULL;
    for (struct ld_tenant_wait *p = first; p != NULL && p->round <= round; p = p->next) {
        last = p;
        nodes->n_waiting--;
    }
    if (last == NULL) {
        first = NULL;
    } else {
        nodes->first = last->next;
        last->next = NULL;
    }
    pthread_mutex_unlock(&nodes->lock);
    return first;
}

void ld_nodes_end_waiting(struct ld_tenants *r, uint64_t round, const char *why)
{
    struct ld_tenant_wait *first = take_waiting(r->nodes, round);

    while (first != NULL) {
        struct ld_tenant_wait *wait = first;
        struct ld_problem p;

        first = wait->next; /* done may free it */
        if (ld_tenants_await_known(r, wait->name, wait))
            continue;
        ld_problem_init(&p);
        if (why != NULL)
            set_unknown(&p, wait->name, why);
        else if (ld_tenant_name_is_valid(wait->name) && ld_member_has_files(r, wait->name))
            ld_problem_set(&p, 503, "files of the last tenant of that name are still being taken away: ask again");
        else
            ld_problem_no_tenant(&p, wait->name);
        wait->done(wait, NULL, &p);
    }
}

void ld_nodes_halt(struct ld_tenants *r)
{
    struct ld_tenant_wait *first;
    struct ld_problem p;

    ld_problem_init(&p);
    set_stopping(&p);
    pthread_mutex_lock(&r->nodes->lock);
    r->nodes->is_halting = true;
    first = r->nodes->first;
    r->nodes->first = NULL;
    r->nodes->n_waiting = 0;
    pthread_mutex_unlock(&r->nodes->lock);
    ld_tenant_waits_end(first, NULL, &p);
}

/* ---- creation and removal ---------------------------------------------------------------------------- */

/* A tenant without a line is one whose creation was cut off, or is under way elsewhere: whose first line comes first
 * has made it (LD_STORE_TAKEN). */
int ld_nodes_make(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct ld_shared_tenant found = {.id = 0};
    struct ld_message why = {""};
    bool is_new = false;
    const enum ld_shared_rc rc = ld_nodes_ops(r)->find(r->world->shared, name, true, &found, &is_new, &why);

    if (rc != LD_SHARED_OK) {
        ld_problem_set(p, 503, "the tenant cannot be made in the shared log: %.300s",
                       why.text[0] != '\0' ? why.text : ld_shared_say(rc));
    } else if (found.tip.seq > 0) {
        ld_member_take_in(r, name);
        ld_problem_set(p, 409, "tenant '%s' exists", name);
    }
    return p->status == 0 ? 0 : -1;
}

void ld_nodes_made(struct ld_tenants *r)
{
    atomic_fetch_add(&r->nodes->n_made, 1);
}

int ld_nodes_drop(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct ld_shared_tenant found = {.id = 0};
    struct ld_message why = {""};
    bool is_new;
    enum ld_shared_rc rc = ld_nodes_ops(r)->find(r->world->shared, name, false, &found, &is_new, &why);

    if (rc == LD_SHARED_OK)
        rc = ld_nodes_ops(r)->drop(r->world->shared, found.id, &why);
    if (rc == LD_SHARED_NONE)
        ld_problem_no_tenant(p, name);
    else if (rc != LD_SHARED_OK)
        ld_problem_set(p, 503, "the tenant cannot be deleted in the shared log: %.300s",
                       why.text[0] != '\0' ? why.text : ld_shared_say(rc));
    return p->status == 0 ? 0 : -1;
}
