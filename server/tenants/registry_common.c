/* What servers that share a log have in common beside the tenants' logs, followed: rates of tenants, here, and keys, by
 * whoever has asked to be told (ld_tenants_on_common).
 *
 * One question a round, whether its revision has moved; all is read again when it has. What could not be put in force
 * here yet, since the tenant is not here, is read again in the next round. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "shared/shared_log.h"
#include "tenants/registry_impl.h"

/* The rates that the log has. */
struct rate_row {
    char name[LD_NAME_MAX + 1];
    struct ld_rate own;
};

struct rates {
    struct rate_row *row;
    size_t n, cap;
    bool is_failed;
};

static void add_rate(void *arg, const char *name, const struct ld_rate *own)
{
    struct rates *rates = arg;

    if (!ld_tenant_name_is_valid(name))
        return;
    if (kb_grow((void **)&rates->row, &rates->cap, rates->n + 1, 16, sizeof *rates->row) != 0) {
        rates->is_failed = true;
        return;
    }
    struct rate_row *row = &rates->row[rates->n++];
    snprintf(row->name, sizeof row->name, "%s", name);
    row->own = *own;
}

static const struct ld_rate *find_rate(const struct rates *rates, const char *name)
{
    for (size_t i = 0; i < rates->n; i++)
        if (strcmp(rates->row[i].name, name) == 0)
            return &rates->row[i].own;
    return NULL;
}

/* The first member behind `name` that has another rate than the log says. */
static bool find_changed(struct ld_tenants *r, const struct rates *rates, char name[LD_NAME_MAX + 1])
{
    bool is_found = false;

    pthread_rwlock_rdlock(&r->lock);
    for (size_t i = 0; i < r->n && !is_found; i++) {
        const struct ld_member *member = r->item[i];
        const struct ld_rate *own = find_rate(rates, member->name);

        is_found = strcmp(member->name, name) > 0 &&
                   (member->has_rate != (own != NULL) ||
                    (own != NULL && (member->rate.rate != own->rate || member->rate.burst != own->burst)));
        if (is_found)
            snprintf(name, LD_NAME_MAX + 1, "%s", member->name);
    }
    pthread_rwlock_unlock(&r->lock);
    return is_found;
}

/* A change under way here is not waited for. */
static bool follow_rates(struct ld_tenants *r)
{
    struct rates rates = {.row = NULL};
    struct ld_message why;
    char name[LD_NAME_MAX + 1] = "";
    bool is_whole =
        ld_nodes_ops(r)->rates(r->world->shared, add_rate, &rates, &why) == LD_SHARED_OK && !rates.is_failed;

    if (is_whole && pthread_mutex_trylock(&r->change_lock) != 0)
        is_whole = false;
    else if (is_whole) {
        while (find_changed(r, &rates, name))
            is_whole = ld_rate_take_over(r, name, find_rate(&rates, name)) && is_whole;
        for (size_t i = 0; i < rates.n; i++)
            is_whole = is_whole && ld_tenants_has(r, rates.row[i].name);
        pthread_mutex_unlock(&r->change_lock);
    }
    kb_free(rates.row);
    return is_whole;
}

void ld_tenants_follow_common(struct ld_tenants *r)
{
    struct ld_nodes *nodes = r->nodes;
    struct ld_shared_common common;
    struct ld_message why;

    if (ld_nodes_ops(r)->common(r->world->shared, &common, &why) != LD_SHARED_OK)
        return;
    pthread_mutex_lock(&nodes->lock);
    nodes->view.n_nodes = common.n_nodes;
    pthread_mutex_unlock(&nodes->lock);
    if (common.revision != nodes->rates_revision)
        nodes->rates_revision = follow_rates(r) ? common.revision : 0;
    if (nodes->on_common != NULL)
        nodes->on_common(nodes->on_common_arg, common.revision);
}

void ld_tenants_on_common(struct ld_tenants *r, void (*fn)(void *arg, uint64_t revision), void *arg)
{
    r->nodes->on_common = fn;
    r->nodes->on_common_arg = arg;
}

bool ld_tenants_has_shared(struct ld_tenants *r, const char *name, uint64_t id)
{
    pthread_rwlock_rdlock(&r->lock);
    const struct ld_member *member = ld_member_find(r, name);
    const bool is_there = member != NULL && (member->shared_id == id || member->shared_id == 0);
    pthread_rwlock_unlock(&r->lock);
    return is_there;
}

static enum ld_shared_rc set_rate(struct ld_tenants *r, const char *name, const struct ld_rate *own,
                                  struct ld_message *why)
{
    struct ld_shared_tenant found;
    bool is_new = false;
    const enum ld_shared_rc rc = ld_nodes_ops(r)->find(r->world->shared, name, false, &found, &is_new, why);

    if (rc != LD_SHARED_OK)
        return rc;
    return found.tip.seq > 0 ? ld_nodes_ops(r)->set_rate(r->world->shared, found.id, own, why) : LD_SHARED_NONE;
}

/* Of the log first, so that what is in force here is nowhere more than it is there. The tenant may not have been seen
 * here yet. change_lock held. */
void ld_nodes_set_rate(struct ld_tenants *r, const char *name, const struct ld_rate *own, struct ld_problem *p)
{
    struct ld_message why = {""};
    enum ld_shared_rc rc = set_rate(r, name, own, &why);

    if (rc == LD_SHARED_NONE)
        rc = set_rate(r, name, own, &why); /* another may have taken its place in between */
    if (rc == LD_SHARED_OK)
        ld_member_take_in(r, name);
    else if (rc == LD_SHARED_NONE)
        ld_problem_no_tenant(p, name);
    else
        ld_problem_set(p, 503, "the limits cannot be set in the shared log: %.300s",
                       why.text[0] != '\0' ? why.text : ld_shared_say(rc));
}
