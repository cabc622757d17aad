/* Creation and removal of tenants, serial among themselves. Neither opens a tenant: a removal of one that is not in
 * memory, or cannot be opened, is a matter of files and names.
 *
 * Creation makes the file first and the registry row last, removal the marker first, so that an interruption anywhere
 * is finished or undone by the next start (registry_start.c). */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "tenants/registry_impl.h"

#define DELETE_WAIT_MS 2000

/* ---- removal ---------------------------------------------------------------------------------------- */

/* What a removal has taken out of the table. */
struct removed {
    struct ld_tenant *t;          /* in memory: the table's hold */
    struct ld_tenant_wait *first; /* who waited for it to be opened */
    bool is_free;                 /* nobody works at it: its files may go */
};

/* From the table; the member itself is freed, here or by the thread that opens or closes the tenant. False: there was
 * none.
 */
static bool take_out(struct ld_tenants *r, const char *name, bool is_replaced, struct removed *out)
{
    struct ld_member *member;
    bool is_busy = false;

    *out = (struct removed){.t = NULL};
    pthread_rwlock_wrlock(&r->lock);
    member = ld_member_find(r, name);
    if (member != NULL) {
        member->is_replaced = is_replaced;
        is_busy = member->state == LD_TENANT_OPENING || member->state == LD_TENANT_CLOSING;
        if (member->state == LD_TENANT_WAITING)
            ld_member_step_out(r, member);
        if (!is_busy) {
            out->t = member->tenant;
            out->first = member->first;
            out->is_free = out->t == NULL;
            member->tenant = NULL;
            member->first = NULL;
        }
        ld_member_take_out(r, member);
    }
    pthread_rwlock_unlock(&r->lock);
    if (member != NULL && !is_busy)
        ld_member_free(member);
    return member != NULL;
}

/* Waits a little for those who work with the tenant, that its name is free again when this returns. When they hold on
 * for longer, the last of them removes the files in its own time, and a creation of the name is refused meanwhile
 * (ld_folder_has). */
static void wait_for_files(const struct ld_tenants *r, const char *name)
{
    const struct timespec ms = {.tv_nsec = 1000000};

    for (int i = 0; i < DELETE_WAIT_MS && ld_folder_has(r->world->data_dir, name); i++)
        nanosleep(&ms, NULL);
}

void ld_problem_no_more(struct ld_problem *p, bool is_replaced)
{
    if (is_replaced) {
        ld_problem_set(p, 503, LD_EXCHANGED);
        p->retry_after_s = 1;
    } else {
        ld_problem_set_as(p, LD_NO_TENANT, "the tenant has been deleted");
    }
}

static void let_go(const struct ld_tenants *r, const char *name, struct removed *removed, bool is_replaced)
{
    struct ld_problem p;

    ld_problem_init(&p);
    ld_problem_no_more(&p, is_replaced);
    if (removed->t != NULL && is_replaced)
        ld_tenant_give_way(removed->t);
    else if (removed->t != NULL)
        ld_tenant_doom(removed->t);
    ld_tenant_release(removed->t);
    if (removed->is_free)
        ld_folder_remove(r->world->data_dir, name);
    ld_tenant_waits_end(removed->first, NULL, &p);
}

/* change_lock held. The marker decides: once it is durable the tenant is gone, even if the row or a file outlives this
 * process. A failure after the marker leaves the tenant serving until the next start removes it; the caller is told
 * 503.
 */
static int mark(struct ld_tenants *r, const char *name, bool is_replaced, struct ld_problem *p)
{
    if (!ld_tenants_has(r, name))
        ld_problem_no_tenant(p, name);
    else if (ld_folder_mark_deleted(r->world->data_dir, name) != 0 || ld_registry_remove(r->file, name) != 0)
        ld_problem_set(p, 503, "the data folder cannot be written");
    else if (r->on_removal != NULL)
        r->on_removal(r->on_removal_arg, name, is_replaced);
    return p->status == 0 ? 0 : -1;
}

/* With a shared log the log's word is what counts: a tenant may be there that nobody here has heard of. */
int ld_tenants_delete(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct removed removed;

    if (r->nodes != NULL && ld_nodes_drop(r, name, p) != 0)
        return -1;
    pthread_mutex_lock(&r->change_lock);
    if (r->nodes != NULL && !ld_tenants_has(r, name)) {
        pthread_mutex_unlock(&r->change_lock);
        return 0;
    }
    if (mark(r, name, false, p) == 0 && take_out(r, name, false, &removed))
        let_go(r, name, &removed, false);
    pthread_mutex_unlock(&r->change_lock);
    if (p->status != 0)
        return -1;
    wait_for_files(r, name);
    return 0;
}

bool ld_member_forget(struct ld_tenants *r, const char *name, bool is_replaced)
{
    struct removed removed;
    struct ld_problem p;

    ld_problem_init(&p);
    if (mark(r, name, is_replaced, &p) == 0 && take_out(r, name, is_replaced, &removed))
        let_go(r, name, &removed, is_replaced);
    return p.status == 0 || p.status == 404;
}

/* ---- creation --------------------------------------------------------------------------------------- */

/* Files of the name that are nobody's any more, or somebody else's. A shared log takes no notice of a copy that was
 * left behind, which its opening moves aside: only a removal that is not over counts then. */
bool ld_member_has_files(const struct ld_tenants *r, const char *name)
{
    char path[LD_PATH_MAX];

    if (r->nodes == NULL)
        return ld_folder_has(r->world->data_dir, name);
    return ld_folder_path(r->world->data_dir, name, ".db.deleted", path) != 0 || access(path, F_OK) == 0 ||
           (ld_folder_has(r->world->data_dir, name) && !ld_tenants_has_copy(r, name));
}

/* Whether a tenant of that name may be made now; the problem tells why not. */
static bool is_free(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    if (!ld_tenant_name_is_valid(name))
        ld_problem_set(p, 400,
                       "a tenant's name has 1 to 64 characters of A-Z a-z 0-9 . _ - and starts with one of the "
                       "first three kinds");
    else if (ld_tenants_has(r, name))
        ld_problem_set(p, 409, "tenant '%s' exists", name);
    else if (ld_member_has_files(r, name))
        ld_problem_set(p, 409, "files of a tenant '%s' are in the data folder: it is being deleted, or not taken in",
                       name);
    return p->status == 0;
}

/* Opens the file, a new one with its first event, and shows the tenant. A failure to show it leaves a file without a
 * row: the next start takes it in, though nobody was told that it is there. */
static int open_and_show(struct ld_tenants *r, const char *name, const struct ld_settings *initial,
                         struct ld_message *why)
{
    struct ld_tenant *t = NULL;
    const int rc = ld_tenant_open(&t, r->world, name, initial, why);

    if (r->nodes != NULL)
        ld_nodes_made(r);
    if (rc != LD_STORE_OK || ld_member_add(r, name, t) != NULL)
        return rc;
    ld_tenant_release(t);
    return ld_fail_as(LD_STORE_NOMEM, why, "%s: out of memory", name);
}

/* A tenant without a row goes again. */
static void register_or_remove(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct removed removed;

    if (ld_registry_add(r->file, name, r->world->now_ms()) == 0)
        return;
    if (take_out(r, name, false, &removed))
        let_go(r, name, &removed, false);
    ld_problem_set(p, 503, "the registry cannot be written");
}

void ld_member_take_in(struct ld_tenants *r, const char *name)
{
    if (ld_tenants_has(r, name) || ld_member_has_files(r, name))
        return;
    ld_nodes_made(r);
    if (ld_registry_add(r->file, name, r->world->now_ms()) == 0)
        (void)ld_member_add(r, name, NULL);
}

/* File and first event, then the row, then the answer: an interruption leaves a file that the next start takes in. A
 * creation waits for the disk several times (file, first event, row). */
static void create(struct ld_tenants *r, const char *name, const struct ld_settings *settings, struct ld_problem *p)
{
    struct ld_message why;
    const bool had_files = ld_folder_has(r->world->data_dir, name); /* a copy that was left behind */

    if (r->nodes != NULL && ld_nodes_make(r, name, p) != 0)
        return;
    const int rc = open_and_show(r, name, settings, &why);
    if (rc == LD_STORE_OK) {
        register_or_remove(r, name, p);
    } else if (rc == LD_STORE_TAKEN) {
        if (!had_files)
            ld_folder_remove(r->world->data_dir, name); /* what was made of it */
        ld_member_take_in(r, name);
        ld_problem_set(p, 409, "tenant '%s' exists", name);
    } else {
        if (!had_files)
            ld_folder_remove(r->world->data_dir, name); /* what was made of it: the caller is to try again */
        ld_problem_set(p, 503,
                       r->nodes != NULL ? "the tenant cannot be made in the shared log now"
                                        : "the tenant's file cannot be created");
        ld_log(LD_LOG_ERROR, "tenant %s: %s", name, why.text);
    }
}

int ld_tenants_create(struct ld_tenants *r, const char *name, const struct ld_settings *settings, struct ld_problem *p)
{
    pthread_mutex_lock(&r->change_lock);
    if (is_free(r, name, p))
        create(r, name, settings, p);
    pthread_mutex_unlock(&r->change_lock);
    return p->status == 0 ? 0 : -1;
}

/* Moved into place whole, so that a death in between leaves nothing or what the next start takes in. */
static void adopt(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p)
{
    struct ld_message why;

    if (ld_folder_place(r->world->data_dir, name, file->path, file->snapshot) != 0) {
        ld_problem_set(p, 507, "the tenant's file cannot be put into the data folder");
    } else if (open_and_show(r, name, NULL, &why) == LD_STORE_OK) {
        register_or_remove(r, name, p);
    } else {
        ld_folder_remove(r->world->data_dir, name);
        ld_problem_set(p, 503, "the tenant's file cannot be opened");
        ld_log(LD_LOG_ERROR, "tenant %s: %s", name, why.text);
    }
}

int ld_tenants_adopt(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p)
{
    if (r->nodes != NULL)
        return ld_nodes_adopt(r, name, file, p);
    pthread_mutex_lock(&r->change_lock);
    if (is_free(r, name, p))
        adopt(r, name, file, p);
    pthread_mutex_unlock(&r->change_lock);
    return p->status == 0 ? 0 : -1;
}
