/* Which tenants there are, from the folder and the registry file. No log is folded here unless that is asked for, so a
 * start costs the same for a young tenant and for one of a million events: its name, and a look whether its file is
 * there.
 *
 * Creation makes the file first and the registry row last; a file without a row is therefore either an unfinished
 * creation or was copied here from elsewhere, and is taken in at start, unless it has no event. Removal writes the
 * marker first, then drops the row, then the files once nobody holds the tenant. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "tenant/recover.h"
#include "tenants/registry_impl.h"
#include "tenant/sched.h"

/* Finishes a removal that was interrupted. The row first: a row whose file is gone is a tenant that cannot be opened.
 */
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

/* For ld_registry_list. A file that is missing is no reason to keep the other tenants' users waiting, but one to say so
 * before the first of this one's comes. */
static int add_registered(void *arg, const char *name)
{
    struct ld_tenants *r = arg;

    if (r->nodes == NULL && !ld_folder_has(r->world->data_dir, name)) /* else the log has it */
        ld_log(LD_LOG_ERROR, "tenant %s: its file is missing; its requests are answered 503", name);
    return ld_member_add(r, name, NULL) != NULL ? 0 : -1;
}

/* The loop does not run yet: signals are looked at here. */
static bool is_over(void *arg)
{
    const struct ld_tenants *r = arg;

    ld_sched_poll(r->world->sched);
    return ld_progress_is_over(r->world->progress);
}

/* LD_STORE_OK: a file of ours with events in it, whoever may have made it. Its log is not folded. */
static int look_into(struct ld_tenants *r, const char *name, struct ld_message *why)
{
    const struct ld_store_care care = {.is_foreign = true, .is_over = is_over, .arg = r};
    char path[LD_PATH_MAX];
    struct ld_store *store = NULL;
    uint64_t last = 0, last_reset = 0;
    int rc;

    if (ld_folder_path(r->world->data_dir, name, ".db", path) != 0)
        return LD_STORE_IO;
    rc = ld_store_open_with(&store, path, &care, why);
    if (rc == LD_STORE_OK)
        rc = ld_store_tip(store, &last, &last_reset);
    ld_store_close(store);
    return rc == LD_STORE_OK && last == 0 ? LD_STORE_EMPTY : rc;
}

/* A file without a row. A whole one without an event is a creation that was cut off before anybody was answered: what
 * was asked for is not known, so it goes. One that cannot be opened is not ours to judge: it is left alone, and
 * logged. A snapshot beside one that is taken in is not believed, so that its first opening looks at every line.
 * Returns 0 to go on with the next file; only a registry that cannot be written stops the scan. */
static int adopt_unregistered(void *arg, const char *name)
{
    struct ld_tenants *r = arg;
    struct ld_message why = {"it cannot be read"};
    int rc;

    if (ld_member_find(r, name) != NULL || ld_progress_is_over(r->world->progress))
        return 0;
    rc = look_into(r, name, &why);
    if (rc == LD_STORE_OK) {
        if (ld_folder_forget_snapshot(r->world->data_dir, name) != 0)
            return -1;
        ld_log(LD_LOG_INFO, "tenant %s: its file was not registered and is taken in", name);
        return add_row(r, name) == 0 && ld_member_add(r, name, NULL) != NULL ? 0 : -1;
    }
    if (rc == LD_STORE_STOPPED)
        return 0; /* the next start looks again */
    if (rc == LD_STORE_EMPTY) {
        ld_folder_remove(r->world->data_dir, name);
        ld_log(LD_LOG_INFO, "tenant %s: its creation was cut off and is undone", name);
    } else {
        ld_log(LD_LOG_ERROR, "tenant %s is not registered and cannot be taken in: %s", name, why.text);
    }
    return 0;
}

/* One by one, and within the cap on memory. Nobody makes or removes tenants meanwhile. */
int ld_tenants_open_all(struct ld_tenants *r, struct ld_message *why)
{
    for (size_t i = 0; i < r->n; i++) {
        struct ld_problem p;
        struct ld_tenant *t;

        ld_problem_init(&p);
        t = ld_tenants_get(r, r->item[i]->name, &p);
        if (t == NULL) {
            ld_fail(why, "%s", r->item[i]->why != NULL ? r->item[i]->why : p.detail);
            ld_tenants_leave(r);
            return -1;
        }
        ld_tenant_release(t);
        if (r->world->progress != NULL)
            atomic_fetch_add(&r->world->progress->n_tenants, 1);
    }
    return 0;
}

/* Removals first, then rows, then files without rows; why stands already. Copies of a shared log are looked at before
 * anything is taken in. */
static int read_names(struct ld_tenants *r, struct ld_message *why)
{
    if (ld_folder_scan(r->world->data_dir, ".db.deleted", finish_removal, r) != 0)
        return -1;
    if (ld_registry_list(r->file, add_registered, r) != 0)
        return -1;
    if (ld_tenants_read_rates(r) != 0)
        return -1;
    if (r->nodes != NULL && ld_tenants_check_copies(r, why) != 0)
        return -1;
    return ld_folder_scan(r->world->data_dir, ".db", adopt_unregistered, r);
}

/* The tenant of requests that name none; "": there is none. */
const char *ld_tenants_first_name(const struct ld_tenants *r)
{
    return r->world->default_tenant != NULL ? r->world->default_tenant : "default";
}

bool ld_settings_of_first(struct ld_settings *out)
{
    ld_settings_init(out);
    return kb_spec_preset(&out->spec, "laplaced", 0, 0) == KB_OK;
}

/* Makes the first tenant with its first event, and closes it again: it is opened like any other. */
static int make_first(struct ld_tenants *r, struct ld_message *why)
{
    struct ld_tenant *t = NULL;
    struct ld_settings initial;

    if (!ld_settings_of_first(&initial) ||
        ld_tenant_open(&t, r->world, ld_tenants_first_name(r), &initial, why) != LD_STORE_OK)
        return -1;
    ld_tenant_release(t);
    return 0;
}

/* The lock comes first and goes last. The first tenant stands before the registry does: a registry without rows then
 * means that somebody deleted the tenants, never that a first start was cut off. */
int ld_tenants_read_folder(struct ld_tenants *r, struct ld_message *why)
{
    const char *first = ld_tenants_first_name(r);
    char path[LD_PATH_MAX];
    bool is_first;

    if (ld_folder_open(r->world->data_dir, &r->lock_fd, why) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/registry.db", r->world->data_dir);
    is_first = access(path, F_OK) != 0 && first[0] != '\0' && !ld_folder_has_others(r->world->data_dir, first);
    if (is_first && r->nodes != NULL) {
        ld_nodes_want_first(r); /* the log may have it already */
        is_first = false;
    }
    if (is_first && make_first(r, why) != 0)
        return -1;
    if (ld_registry_open(&r->file, path, why) != LD_STORE_OK)
        return -1;
    ld_fail(why, "%.300s: the data folder cannot be read or written", r->world->data_dir);
    if ((is_first && add_row(r, first) != 0) || read_names(r, why) != 0)
        return -1;
    return 0;
}
