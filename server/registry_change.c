/* Creation and removal of tenants, serial among themselves. Neither opens a tenant: a removal of one that is not in
 * memory, or cannot be opened, is a matter of files and names.
 *
 * Creation makes the file first and the registry row last, removal the marker first, so that an interruption anywhere
 * is finished or undone by the next start (registry_start.c). */
#include <stdio.h>
#include <time.h>

#include "log.h"
#include "registry_impl.h"

#define DELETE_WAIT_MS 2000

/* ---- removal ---------------------------------------------------------------------------------------- */

/* What a removal has taken out of the table. */
struct removed {
    struct ld_tenant *t;          /* in memory: the table's hold */
    struct ld_tenant_wait *first; /* who waited for it to be opened */
    bool is_free;                 /* nobody works at it: its files may go */
};

/* From the table; the place itself is freed, here or by the thread that opens or closes the tenant. False: there was
 * none.
 */
static bool take_out(struct ld_tenants *r, const char *name, struct removed *out)
{
    struct ld_place *place;
    bool is_busy = false;

    *out = (struct removed){.t = NULL};
    pthread_rwlock_wrlock(&r->lock);
    place = ld_place_find(r, name);
    if (place != NULL) {
        is_busy = place->state == LD_TENANT_OPENING || place->state == LD_TENANT_CLOSING;
        if (place->state == LD_TENANT_WAITING)
            ld_place_step_out(r, place);
        if (!is_busy) {
            out->t = place->tenant;
            out->first = place->first;
            out->is_free = out->t == NULL;
            place->tenant = NULL;
            place->first = NULL;
        }
        ld_place_take_out(r, place);
    }
    pthread_rwlock_unlock(&r->lock);
    if (place != NULL && !is_busy)
        ld_place_free(place);
    return place != NULL;
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

static void let_go(const struct ld_tenants *r, const char *name, struct removed *removed)
{
    struct ld_problem p;

    ld_problem_init(&p);
    ld_problem_set(&p, 404, "the tenant has been deleted");
    if (removed->t != NULL)
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
static int mark(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    bool is_there;

    pthread_rwlock_rdlock(&r->lock);
    is_there = ld_place_find(r, name) != NULL;
    pthread_rwlock_unlock(&r->lock);
    if (!is_there)
        ld_problem_set(p, 404, "there is no tenant \"%.64s\"", name);
    else if (ld_folder_mark_deleted(r->world->data_dir, name) != 0 || ld_registry_remove(r->file, name) != 0)
        ld_problem_set(p, 503, "the data folder cannot be written");
    return p->status == 0 ? 0 : -1;
}

int ld_tenants_delete(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct removed removed;

    pthread_mutex_lock(&r->change_lock);
    if (mark(r, name, p) == 0 && take_out(r, name, &removed))
        let_go(r, name, &removed);
    pthread_mutex_unlock(&r->change_lock);
    if (p->status != 0)
        return -1;
    wait_for_files(r, name);
    return 0;
}

/* ---- creation --------------------------------------------------------------------------------------- */

/* Opens the new file with its first event, and shows it. A failure leaves a file without a row: if it has its event the
 * next start takes it in, though nobody was told that it is there. */
static int make(struct ld_tenants *r, const char *name, const struct ld_settings *settings, char *why)
{
    struct ld_tenant *t = NULL;
    const int rc = ld_tenant_open(&t, r->world, name, settings, why);

    if (rc != LD_STORE_OK || ld_place_add(r, name, t) != NULL)
        return rc;
    ld_tenant_release(t);
    snprintf(why, 512, "%s: out of memory", name);
    return LD_STORE_NOMEM;
}

/* change_lock held. File and first event, then the row, then the answer: an interruption leaves a file that the next
 * start takes in. */
static int create(struct ld_tenants *r, const char *name, const struct ld_settings *settings, struct ld_problem *p)
{
    struct removed removed;
    char why[512];
    bool is_there;

    pthread_rwlock_rdlock(&r->lock);
    is_there = ld_place_find(r, name) != NULL;
    pthread_rwlock_unlock(&r->lock);
    if (is_there) {
        ld_problem_set(p, 409, "tenant '%s' exists", name);
    } else if (ld_folder_has(r->world->data_dir, name)) {
        ld_problem_set(p, 409, "files of a tenant '%s' are in the data folder: it is being deleted, or not taken in",
                       name);
    } else if (make(r, name, settings, why) != LD_STORE_OK) {
        ld_problem_set(p, 503, "the tenant's file cannot be created");
        ld_log(LD_LOG_ERROR, "tenant %s: %s", name, why);
    } else if (ld_registry_add(r->file, name, r->world->now_ms()) != 0) {
        if (take_out(r, name, &removed))
            let_go(r, name, &removed);
        ld_problem_set(p, 503, "the registry cannot be written");
    }
    return p->status == 0 ? 0 : -1;
}

/* The name is checked before any lock. A creation waits for the disk several times (file, first event, row). */
int ld_tenants_create(struct ld_tenants *r, const char *name, const struct ld_settings *settings, struct ld_problem *p)
{
    int rc;

    if (!ld_tenant_name_is_valid(name)) {
        ld_problem_set(p, 400,
                       "a tenant's name has 1 to 64 characters of A-Z a-z 0-9 . _ - and starts with one of the "
                       "first three kinds");
        return -1;
    }
    pthread_mutex_lock(&r->change_lock);
    rc = create(r, name, settings, p);
    pthread_mutex_unlock(&r->change_lock);
    return rc;
}
