/* The live tenants, in order of name. folder.h has the files.
 *
 * Creation makes the file first and the registry row last; a file without a row is therefore either an unfinished
 * creation or was copied here from elsewhere, and is taken in at start, unless it has no event. Removal writes the
 * marker first, then drops the row, then the files once nobody holds the tenant. A row without a file is refused.
 *
 * Lookups take the read lock of the table for a binary search; creation and removal are serial among themselves.
 *
 * Failure modes: a start that cannot open everything it should opens nothing and names the file; a creation or
 * removal that fails answers 503 and is finished or undone by the next start. Cost of a start: the recovery of each
 * tenant in turn. */
#include "registry.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc.h"
#include "folder.h"
#include "log.h"

#define DELETE_WAIT_MS 2000
#define FIRST_TENANT "default"

/* The table holds each of its tenants once; every pointer that leaves it is a hold of its own. */
struct ld_tenants {
    const struct ld_world *world;
    int lock_fd;
    struct ld_registry_file *file;
    pthread_mutex_t change_lock; /* one creation or removal at a time; guards file */
    pthread_rwlock_t lock;       /* guards the table */
    struct ld_tenant **item;     /* [n] ascending by name, held */
    size_t n, cap;
};

/* Names become file names: no separator, no leading dot or dash, and nothing that a shell would look at twice. Case
 * counts, as it does in file names here. ASCII only: the server sets no locale. */
int ld_tenant_name_is_valid(const char *name)
{
    const size_t n = strlen(name);

    if (n == 0 || n > LD_NAME_MAX || !isalnum((unsigned char)name[0]))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)name[i]) && strchr("._-", name[i]) == NULL)
            return 0;
    return 1;
}

/* ---- table ----------------------------------------------------------------------------------------- */

/* Index of the first tenant not before name. Some lock held. r->n when all come before it. */
static size_t lower_bound(const struct ld_tenants *r, const char *name)
{
    size_t lo = 0, hi = r->n;

    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;

        if (strcmp(ld_tenant_name(r->item[mid]), name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Whether lower_bound found the name itself. */
static bool is_at(const struct ld_tenants *r, size_t i, const char *name)
{
    return i < r->n && strcmp(ld_tenant_name(r->item[i]), name) == 0;
}

/* Takes t over; -1 (no memory) leaves it to the caller. The hold of whoever opened the tenant becomes the table's.
 * O(n) moves of a pointer. */
static int insert(struct ld_tenants *r, struct ld_tenant *t)
{
    int rc;

    pthread_rwlock_wrlock(&r->lock);
    rc = kb_grow((void **)&r->item, &r->cap, r->n + 1, 16, sizeof(struct ld_tenant *));
    if (rc == 0) {
        const size_t i = lower_bound(r, ld_tenant_name(t));

        memmove(r->item + i + 1, r->item + i, (r->n - i) * sizeof(struct ld_tenant *));
        r->item[i] = t;
        r->n++;
    }
    pthread_rwlock_unlock(&r->lock);
    return rc;
}

/* The table's hold goes to the caller. NULL when it is not there. Requests that found it before go on holding it. */
static struct ld_tenant *take_out(struct ld_tenants *r, const char *name)
{
    struct ld_tenant *t = NULL;

    pthread_rwlock_wrlock(&r->lock);
    const size_t i = lower_bound(r, name);
    if (is_at(r, i, name)) {
        t = r->item[i];
        memmove(r->item + i, r->item + i + 1, (--r->n - i) * sizeof(struct ld_tenant *));
    }
    pthread_rwlock_unlock(&r->lock);
    return t;
}

/* O(log n) under the read lock, and one atomic increment. The hold is taken under the lock, so the tenant cannot be
 * freed in between. */
struct ld_tenant *ld_tenants_find(struct ld_tenants *r, const char *name)
{
    struct ld_tenant *t = NULL;

    pthread_rwlock_rdlock(&r->lock);
    const size_t i = lower_bound(r, name);
    if (is_at(r, i, name))
        t = ld_tenant_hold(r->item[i]);
    pthread_rwlock_unlock(&r->lock);
    return t;
}

/* fn runs outside the lock, on a held copy of the table: it may take its time. Without memory for the copy fn is not
 * called at all. Tenants made or taken out meanwhile may be missed or still visited. */
void ld_tenants_each(struct ld_tenants *r, void (*fn)(void *arg, struct ld_tenant *t), void *arg)
{
    struct ld_tenant **copy;
    size_t n = 0;

    pthread_rwlock_rdlock(&r->lock);
    copy = kb_array(r->n > 0 ? r->n : 1, 1, sizeof(struct ld_tenant *));
    for (; copy != NULL && n < r->n; n++)
        copy[n] = ld_tenant_hold(r->item[n]);
    pthread_rwlock_unlock(&r->lock);
    for (size_t i = 0; i < n; i++) {
        fn(arg, copy[i]);
        ld_tenant_release(copy[i]);
    }
    kb_free(copy);
}

/* ---- start ----------------------------------------------------------------------------------------- */

/* Finishes a removal that was interrupted. The row first: a row whose file is gone would stop the next start. */
static int finish_removal(void *arg, const char *name)
{
    struct ld_tenants *r = arg;

    if (ld_registry_remove(r->file, name) != 0)
        return -1;
    ld_folder_remove(r->world->data_dir, name);
    ld_log(LD_LOG_INFO, "tenant %s: its removal is finished", name);
    return 0;
}

/* From here on a start expects the file. */
static int add_row(struct ld_tenants *r, const char *name)
{
    return ld_registry_add(r->file, name, r->world->now_ms());
}

/* What a newcomer's first curl meets: arms without features, no contexts. The preset bears the program's name;
 * dimensions are 0. */
static int default_settings(struct ld_settings *out)
{
    *out = (struct ld_settings){.is_relaxed = false};
    return kb_spec_preset(&out->spec, "laplaced", 0, 0) == KB_OK ? 0 : -1;
}

/* Opens one tenant into the table; LD_STORE_*. initial NULL: its log must not be empty. On success the table holds
 * it; on failure it is closed and why says what happened. */
static int open_tenant(struct ld_tenants *r, const char *name, const struct ld_settings *initial, char *why)
{
    struct ld_tenant *t = NULL;
    const int rc = ld_tenant_open(&t, r->world, name, initial, why);

    if (rc != LD_STORE_OK || insert(r, t) == 0)
        return rc;
    ld_tenant_release(t);
    snprintf(why, 512, "%s: out of memory", name);
    return LD_STORE_NOMEM;
}

struct opening {
    struct ld_tenants *r;
    char *why;
};

/* For ld_registry_list. A tenant that cannot be opened stops the start: serving the others as if it did not exist
 * would answer 404 to its users. */
static int open_registered(void *arg, const char *name)
{
    struct opening *o = arg;

    return open_tenant(o->r, name, NULL, o->why) == LD_STORE_OK ? 0 : -1;
}

/* A file without a row. A whole one without an event is a creation that was cut off before anybody was answered: what
 * was asked for is not known, so it goes. One that cannot be opened is not ours to judge: it is left alone, and
 * logged. Returns 0 to go on with the next file; only a registry that cannot be written stops the scan. */
static int adopt_unregistered(void *arg, const char *name)
{
    struct ld_tenants *r = arg;
    struct ld_tenant *t = ld_tenants_find(r, name);
    char why[512];
    int rc;

    if (t != NULL) {
        ld_tenant_release(t);
        return 0;
    }
    rc = open_tenant(r, name, NULL, why);
    if (rc == LD_STORE_OK) {
        ld_log(LD_LOG_INFO, "tenant %s: its file was not registered and is taken in", name);
        return add_row(r, name);
    }
    if (rc == LD_STORE_EMPTY) {
        ld_folder_remove(r->world->data_dir, name);
        ld_log(LD_LOG_INFO, "tenant %s: its creation was cut off and is undone", name);
    } else {
        ld_log(LD_LOG_ERROR, "tenant %s is not registered and cannot be taken in: %s", name, why);
    }
    return 0;
}

/* Removals first, then rows, then files without rows; why stands already. */
static int open_all(struct ld_tenants *r, char *why)
{
    struct opening o = {.r = r, .why = why};

    if (ld_folder_scan(r->world->data_dir, ".db.deleted", finish_removal, r) != 0)
        return -1;
    if (ld_registry_list(r->file, open_registered, &o) != 0)
        return -1;
    return ld_folder_scan(r->world->data_dir, ".db", adopt_unregistered, r);
}

/* Makes FIRST_TENANT with its first event, and closes it again: open_all opens it like any other. */
static int make_first(struct ld_tenants *r, char *why)
{
    struct ld_tenant *t = NULL;
    struct ld_settings initial;

    if (default_settings(&initial) != 0 || ld_tenant_open(&t, r->world, FIRST_TENANT, &initial, why) != LD_STORE_OK)
        return -1;
    ld_tenant_release(t);
    return 0;
}

/* The lock comes first and goes last. The first tenant stands before the registry does: a registry without rows then
 * means that somebody deleted the tenants, never that a first start was cut off. */
static int open_folder(struct ld_tenants *r, char *why)
{
    char path[LD_PATH_MAX];
    bool is_first;

    if (ld_folder_open(r->world->data_dir, &r->lock_fd, why) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/registry.db", r->world->data_dir);
    is_first = access(path, F_OK) != 0 && !ld_folder_has_others(r->world->data_dir, FIRST_TENANT);
    if (is_first && make_first(r, why) != 0)
        return -1;
    if (ld_registry_open(&r->file, path, why) != LD_STORE_OK)
        return -1;
    snprintf(why, 512, "%.300s: the data folder cannot be read or written", r->world->data_dir);
    if (is_first && add_row(r, FIRST_TENANT) != 0)
        return -1;
    return open_all(r, why);
}

/* Releases everything; the files stay as the last commits left them. The folder's lock is let go after the last file
 * is closed. */
static void tenants_free(struct ld_tenants *r)
{
    for (size_t i = 0; i < r->n; i++)
        ld_tenant_release(r->item[i]);
    kb_free(r->item);
    ld_registry_close(r->file);
    if (r->lock_fd >= 0)
        close(r->lock_fd);
    pthread_mutex_destroy(&r->change_lock);
    pthread_rwlock_destroy(&r->lock);
    free(r);
}

/* On failure everything that was opened is closed again, the lock included. */
int ld_tenants_open(struct ld_tenants **out, const struct ld_world *world, char *why)
{
    struct ld_tenants *r = calloc(1, sizeof *r);

    if (r == NULL) {
        snprintf(why, 512, "out of memory");
        return -1;
    }
    r->world = world;
    r->lock_fd = -1;
    pthread_mutex_init(&r->change_lock, NULL);
    pthread_rwlock_init(&r->lock, NULL);
    if (open_folder(r, why) != 0) {
        tenants_free(r);
        return -1;
    }
    *out = r;
    return 0;
}

/* No request may be in flight. Each gets a last snapshot first, so that the next start folds nothing. */
void ld_tenants_close(struct ld_tenants *r)
{
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->n; i++)
        ld_tenant_checkpoint(r->item[i]);
    tenants_free(r);
}

/* ---- creation and removal --------------------------------------------------------------------------- */

/* Whether a tenant of that name may be made now; the problem tells why not. */
static bool is_free(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct ld_tenant *t = ld_tenants_find(r, name);

    ld_tenant_release(t);
    if (!ld_tenant_name_is_valid(name))
        ld_problem_set(p, 400,
                       "a tenant's name has 1 to 64 characters of A-Z a-z 0-9 . _ - and starts with one of the "
                       "first three kinds");
    else if (t != NULL)
        ld_problem_set(p, 409, "tenant '%s' exists", name);
    else if (ld_folder_has(r->world->data_dir, name))
        ld_problem_set(p, 409, "files of a tenant '%s' are in the data folder: it is being deleted, or not taken in",
                       name);
    return p->status == 0;
}

/* change_lock held. A tenant without a row goes again. */
static void register_or_remove(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    if (add_row(r, name) == 0)
        return;
    struct ld_tenant *t = take_out(r, name);

    ld_tenant_doom(t);
    ld_tenant_release(t);
    ld_problem_set(p, 503, "the registry cannot be written");
}

/* change_lock held. File and first event, then the row, then the answer: an interruption leaves a file that the next
 * start takes in. A creation waits for the disk several times (file, first event, row). */
static void create(struct ld_tenants *r, const char *name, const struct ld_settings *settings, struct ld_problem *p)
{
    char why[512];

    if (open_tenant(r, name, settings, why) == LD_STORE_OK) {
        register_or_remove(r, name, p);
    } else {
        ld_problem_set(p, 503, "the tenant's file cannot be created");
        ld_log(LD_LOG_ERROR, "tenant %s: %s", name, why);
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

/* change_lock held. Moved into place whole, so that a death in between leaves nothing or what the next start takes in.
 */
static void adopt(struct ld_tenants *r, const char *name, const char *file, const char *snapshot, struct ld_problem *p)
{
    char why[512];

    if (ld_folder_place(r->world->data_dir, name, file, snapshot) != 0) {
        ld_problem_set(p, 507, "the tenant's file cannot be put into the data folder");
    } else if (open_tenant(r, name, NULL, why) == LD_STORE_OK) {
        register_or_remove(r, name, p);
    } else {
        ld_folder_remove(r->world->data_dir, name);
        ld_problem_set(p, 503, "the tenant's file cannot be opened");
        ld_log(LD_LOG_ERROR, "tenant %s: %s", name, why);
    }
}

int ld_tenants_adopt(struct ld_tenants *r, const char *name, const char *file, const char *snapshot,
                     struct ld_problem *p)
{
    pthread_mutex_lock(&r->change_lock);
    if (is_free(r, name, p))
        adopt(r, name, file, snapshot, p);
    pthread_mutex_unlock(&r->change_lock);
    return p->status == 0 ? 0 : -1;
}

/* Lets go of a doomed tenant; waits a little for others to do so, that its name is free again when this returns. When
 * others hold on for longer, the last of them removes the files in its own time, and a creation of the name is
 * refused meanwhile (ld_folder_has). */
static void let_go(struct ld_tenant *t)
{
    const struct timespec ms = {.tv_nsec = 1000000};

    for (int i = 0; i < DELETE_WAIT_MS && ld_tenant_n_holders(t) > 1; i++)
        nanosleep(&ms, NULL);
    ld_tenant_release(t);
}

/* The marker decides: once it is durable the tenant is gone, even if the row or a file outlives this process. A
 * failure after the marker leaves the tenant serving until the next start removes it; the caller is told 503. */
int ld_tenants_delete(struct ld_tenants *r, const char *name, struct ld_problem *p)
{
    struct ld_tenant *t;

    pthread_mutex_lock(&r->change_lock);
    t = ld_tenants_find(r, name);
    if (t == NULL) {
        ld_problem_set(p, 404, "no tenant '%.64s'", name);
    } else if (ld_folder_mark_deleted(r->world->data_dir, name) != 0 || ld_registry_remove(r->file, name) != 0) {
        ld_problem_set(p, 503, "the data folder cannot be written");
    } else {
        ld_tenant_doom(t);
        ld_tenant_release(take_out(r, name));
    }
    pthread_mutex_unlock(&r->change_lock);
    if (t == NULL)
        return -1;
    if (p->status == 0)
        let_go(t);
    else
        ld_tenant_release(t);
    return p->status == 0 ? 0 : -1;
}
