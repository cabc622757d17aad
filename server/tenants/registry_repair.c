/* Work on the files of a tenant that is there (repair.h): repairing one that cannot be opened, or that is read-only
 * because of that, or whose shared log has lost lines (repair_shared.h), and putting another file in their place.
 *
 * The member is taken like one that is opened: whoever asks for the tenant meanwhile waits, and nobody else has its
 * files. One that is open is closed first, when nobody works with it. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "tenants/registry_impl.h"
#include "task/drop_shared.h"
#include "task/repair.h"
#include "task/repair_shared.h"

#define CLOSE_TRIES 500 /* a millisecond apart */

/* Lock held for writing. True: the member is this thread's, and *t to be let go. */
static bool take(struct ld_member *member, struct ld_tenant **t)
{
    *t = NULL;
    if (member->state == LD_TENANT_OPEN && ld_tenant_is_idle(member->tenant)) {
        *t = member->tenant;
        member->tenant = NULL;
    } else if (member->state != LD_TENANT_CLOSED && member->state != LD_TENANT_FAILED) {
        return false;
    }
    member->state = LD_TENANT_CLOSING;
    member->retry_us = 0;
    return true;
}

/* NULL with the problem: there is none, or it is in use for longer than this waits. */
static struct ld_member *take_member(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    const struct timespec ms = {.tv_nsec = 1000000};
    struct ld_tenant *t = NULL;
    bool is_taken = false, is_there = true;
    struct ld_member *member = NULL;

    for (int i = 0; i < CLOSE_TRIES && is_there && !is_taken; i++) {
        if (i > 0)
            nanosleep(&ms, NULL);
        pthread_rwlock_wrlock(&r->lock);
        member = ld_member_find(r, name);
        is_there = member != NULL && !r->is_halting;
        is_taken = is_there && take(member, &t);
        pthread_rwlock_unlock(&r->lock);
    }
    if (t != NULL)
        member->bucket_state = ld_bucket_state(ld_tenant_bucket(t));
    ld_tenant_release(t);
    if (is_taken)
        return member;
    if (member == NULL)
        ld_problem_no_tenant(p, name);
    else
        ld_problem_set(p, 503, "the tenant is in use: try again");
    return NULL;
}

static int repair_line(struct ld_tenants *r, const char *name, const struct ld_repair *wanted, struct ld_message *why,
                       struct ld_problem *p)
{
    const struct ld_world *w = r->world;
    const int rc = w->shared != NULL && wanted->action == LD_REPAIR_DROP
                       ? ld_drop_shared(w->shared, name, wanted, w->progress, why, p)
                       : ld_repair(w->data_dir, name, wanted, w->progress, why, p);

    if (rc == 0)
        ld_log(LD_LOG_WARN, "tenant %s: %s: %s", name,
               wanted->action == LD_REPAIR_LIFT   ? "it is read-only no longer"
               : wanted->action == LD_REPAIR_DROP ? "a line of its log is dropped"
                                                  : "it is read-only from here on",
               why->text);
    return rc;
}

static int repair_log(struct ld_tenants *r, const char *name, enum ld_repair_action action, struct ld_repaired *out,
                      struct ld_problem *p)
{
    const struct ld_world *w = r->world;

    if (w->shared == NULL) {
        ld_problem_set(p, 409, "this server has its logs to itself: there is no shared log to repair");
        return -1;
    }
    const int rc = ld_repair_shared(w->shared, w->node, w->data_dir, name, action, w->progress, out, p);
    if (rc == 0)
        ld_log(LD_LOG_WARN, "tenant %s: %llu lines that the shared log had not %s%s", name,
               (unsigned long long)out->n_lines,
               action == LD_REPAIR_PUSH ? "are back in it" : "are put aside, and the copy is made anew: ", out->file);
    return rc;
}

int ld_tenants_repair(struct ld_tenants *r, const char *name, const struct ld_repair *wanted, struct ld_message *why,
                      struct ld_repaired *out, struct ld_problem *p)
{
    struct ld_member *member = take_member(r, name, p);
    int rc;

    why->text[0] = '\0';
    *out = (struct ld_repaired){.n_lines = 0};
    if (member == NULL)
        return -1;
    rc = wanted->action >= LD_REPAIR_PUSH ? repair_log(r, name, wanted->action, out, p)
                                          : repair_line(r, name, wanted, why, p);
    ld_member_settle_closed(r, member);
    return rc;
}

int ld_tenants_replace(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p)
{
    if (r->nodes != NULL)
        return ld_nodes_replace(r, name, file, p);
    struct ld_member *member = take_member(r, name, p);

    if (member == NULL)
        return -1;
    const int rc = ld_folder_replace(r->world->data_dir, name, file->path, file->snapshot);
    if (rc >= 0)
        atomic_store(&member->tip, 0);
    if (rc > 0)
        ld_problem_set(p, 503, "the tenant's file is in the data folder, but its disk has not confirmed it: try again");
    else if (rc < 0)
        ld_problem_set(p, 507, "the tenant's file cannot be put into the data folder");
    ld_member_settle_closed(r, member);
    return p->status == 0 ? 0 : -1;
}
