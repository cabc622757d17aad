/* What a data folder may hold where the log is shared: copies of it, and no log that is one server's alone.
 *
 * Such a log would be taken for the shared one's of the same name, and go with it when that is deleted. So a start with
 * --log refuses such a folder, before anything in it is changed, and knows of each copy whose it is before it asks the
 * log.
 *
 * Keys and rates in the registry are what was last read of the log's. Those of a server that was alone would be lost
 * without a word, so a folder in which there are some has to have been one of copies before: then it has a file that
 * says so. Cost: each file is opened once. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "store/key_rows.h"
#include "store/sqlite_util.h"
#include "tenants/registry_impl.h"

struct looking {
    struct ld_tenants *r;
    struct ld_message *why;
};

int ld_tenants_look_at_copy(const struct ld_tenants *r, const char *name, struct ld_copy_mark *mark, bool *is_empty,
                            struct ld_message *why)
{
    char path[LD_PATH_MAX];

    return ld_folder_path(r->world->data_dir, name, ".db", path) == 0 ? ld_store_look_at_copy(path, mark, is_empty, why)
                                                                      : LD_STORE_IO;
}

bool ld_tenants_has_copy(const struct ld_tenants *r, const char *name)
{
    struct ld_copy_mark mark;
    struct ld_message why;
    bool is_empty = false;

    return ld_tenants_look_at_copy(r, name, &mark, &is_empty, &why) == LD_STORE_OK && (is_empty || mark.tenant != 0);
}

/* For ld_folder_scan. What cannot be read is told of when it is opened, and is nobody's to remove until then. */
static int look(void *arg, const char *name)
{
    struct looking *l = arg;
    struct ld_member *member = ld_member_find(l->r, name);
    struct ld_copy_mark mark;
    struct ld_message why;
    bool is_empty = true;

    if (ld_tenants_look_at_copy(l->r, name, &mark, &is_empty, &why) != LD_STORE_OK || is_empty)
        return 0;
    if (member != NULL)
        member->shared_id = mark.tenant;
    return mark.tenant != 0
               ? 0
               : ld_fail(l->why,
                         "%.300s/tenants/%s.db is a log of its own, of a server without --log: --log takes "
                         "a new data folder, or one of copies",
                         l->r->world->data_dir, name);
}

static int any_key(void *arg, const struct ld_key *key)
{
    (void)key;
    *(bool *)arg = true;
    return 1;
}

static int any_rate(void *arg, const char *name, const struct ld_rate *own)
{
    (void)name;
    (void)own;
    *(bool *)arg = true;
    return 1;
}

/* The folder is one of copies from now on. */
static int mark_folder(const char *path, struct ld_message *why)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const bool is_there = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        (void)close(fd);
    return is_there && ld_sync_directory_of(path) == 0 ? 0 : ld_fail(why, "%.400s: it cannot be written", path);
}

int ld_tenants_check_copies(struct ld_tenants *r, struct ld_message *why)
{
    struct looking l = {r, why};
    bool has_keys = false, has_rates = false;
    char path[LD_PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/shared-log", r->world->data_dir);
    if (access(path, F_OK) == 0)
        return ld_folder_scan(r->world->data_dir, ".db", look, &l);
    (void)ld_key_rows_list(r->file, any_key, &has_keys);
    (void)ld_registry_rates(r->file, any_rate, &has_rates);
    if (has_keys || has_rates)
        return ld_fail(why,
                       "%.300s/registry.db has %s of a server that was alone, which the shared log has not: take them "
                       "away without --log, or begin with a new data folder",
                       r->world->data_dir, has_keys ? "keys" : "limits of tenants");
    return ld_folder_scan(r->world->data_dir, ".db", look, &l) == 0 ? mark_folder(path, why) : -1;
}
