/* Verifying a stopped server's folder: the model that a start would serve (snapshot and tail) against a fold from the
 * first line, both through the server's own recovery.
 *
 * The folder's lock keeps a server from starting meanwhile. The files are opened for reading alone; where a server was
 * killed SQLite may put its -shm index beside the log, which holds nothing of its own. */
#include "ctl/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/engine_read.h"
#include "model/engine_write.h"
#include "store/folder.h"
#include "base/log.h"
#include "tenant/recover.h"
#include "store/store.h"
#include "common/text.h"

/* What was found out about one tenant. */
struct finding {
    const char *name;
    uint64_t seq, snapshot_seq; /* 0: no snapshot, or none that was believed */
    bool is_refused;            /* there is a snapshot, and it is of no use */
    bool is_of_other_version;   /* since another release has written it, as is usual behind an upgrade */
    uint64_t digest, folded;    /* of what a start would serve, and of the fold */
    bool is_equal;
};

struct names {
    char **name;
    size_t n, cap;
};

static void print_finding(const struct lc_session *s, const struct finding *f)
{
    if (s->is_json) {
        printf("{\"tenant\":\"%s\",\"equal\":%s,\"seq\":%" PRIu64 ",\"snapshot_seq\":%" PRIu64
               ",\"snapshot_refused\":%s,\"digest\":\"%016" PRIx64 "\",\"folded_digest\":\"%016" PRIx64 "\"}\n",
               f->name, f->is_equal ? "true" : "false", f->seq, f->snapshot_seq, f->is_refused ? "true" : "false",
               f->digest, f->folded);
        return;
    }
    printf("%-24s %-10s event %" PRIu64 ", digest %016" PRIx64, f->name,
           f->is_equal     ? "equal"
           : f->is_refused ? "REFUSED"
                           : "DIFFERENT",
           f->seq, f->digest);
    if (f->is_refused)
        printf(", the snapshot is damaged, or of another log: a start folds\n");
    else if (!f->is_equal)
        printf(", of the fold %016" PRIx64 ", snapshot at event %" PRIu64 "\n", f->folded, f->snapshot_seq);
    else if (f->snapshot_seq > 0)
        printf(", snapshot at event %" PRIu64 "\n", f->snapshot_seq);
    else
        printf(f->is_of_other_version ? ", the snapshot is of another version: a start folds\n" : ", no snapshot\n");
}

/* The digest of what a start would make of the log and this snapshot ("": none). 0, or LD_STORE_* with why. */
static int recover(struct finding *f, struct ld_store *store, const char *path, const char *snapshot,
                   struct ld_message *why)
{
    struct ld_recovered r = {0};
    int rc = ld_recover(&r, store, path, snapshot, false, NULL, why);
    if (rc != LD_STORE_OK)
        return rc;
    uint64_t digest = kb_engine_digest(r.engine);
    if (snapshot[0] != '\0') {
        f->digest = digest;
        f->snapshot_seq = r.snapshot_seq;
        f->is_of_other_version = r.is_of_other_version;
        f->is_refused = r.is_snapshot_refused && !r.is_of_other_version;
    } else {
        f->folded = digest;
        f->seq = r.seq;
    }
    kb_engine_free(r.engine);
    return LD_STORE_OK;
}

/* 0 when equal; 1 when not, or when the tenant cannot be read, which is told. */
static int verify_tenant(const struct lc_session *s, const char *data_dir, const char *name)
{
    char path[LD_PATH_MAX], snapshot[LD_PATH_MAX];
    struct ld_message why = {"the path is too long"};
    struct finding f = {.name = name};
    struct ld_store *store = NULL;
    int rc = LD_STORE_IO;
    if (ld_folder_path(data_dir, name, ".db", path) == 0 && ld_folder_path(data_dir, name, ".snapshot", snapshot) == 0)
        rc = ld_store_open_readonly(&store, path, &why);
    if (rc == LD_STORE_OK)
        rc = recover(&f, store, path, snapshot, &why);
    if (rc == LD_STORE_OK)
        rc = recover(&f, store, path, "", &why);
    ld_store_close(store);
    if (rc != LD_STORE_OK)
        return lc_fail("%s", why.text);
    f.is_equal = f.digest == f.folded && !f.is_refused;
    print_finding(s, &f);
    return f.is_equal ? 0 : 1;
}

static int add_name(void *arg, const char *name)
{
    struct names *all = arg;
    all->name = lc_room(all->name, &all->cap, all->n + 1, sizeof *all->name);
    all->name[all->n++] = lc_copy(name);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int lc_verify_files(const struct lc_session *s, const char *data_dir, const char *name)
{
    struct names all = {0};
    struct ld_message why;
    int fd, status = 0;
    if (ld_folder_open_readonly(data_dir, &fd, &why) != 0)
        return lc_fail("%s", why.text);
    ld_log_set_level(LD_LOG_ERROR); /* what a refused snapshot is worth, the line says */
    if (name != NULL) {
        add_name(&all, name);
    } else if (ld_folder_scan(data_dir, ".db", add_name, &all) != 0) {
        status = lc_fail("%s/tenants cannot be read", data_dir);
    }
    if (all.n > 0)
        qsort(all.name, all.n, sizeof *all.name, compare_names);
    for (size_t i = 0; i < all.n; i++) {
        status |= verify_tenant(s, data_dir, all.name[i]);
        free(all.name[i]);
    }
    free(all.name);
    close(fd);
    return status;
}
