/* The spool: a folder, a counter, and a short list of names. See spool.h.
 *
 * Names in it are numbers, so nothing that a client sends becomes part of a path. A file is removed by whoever made it;
 * the emptying at start is for what a crash has left. Copies are unlinked as soon as they are open for sending, and
 * hence are gone with the process whatever becomes of it. */
#include "store/spool.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/folder.h"
#include "base/log.h"

/* A name that somebody copies. */
struct claim {
    struct claim *next;
    char name[LD_NAME_MAX + 1];
};

struct ld_spool {
    char dir[LD_PATH_MAX - 64]; /* room for a name and a suffix */
    atomic_ullong n_paths;
    pthread_mutex_t lock; /* of the list */
    struct claim *claims;
};

/* Anything in the folder is ours. A leftover that cannot be removed takes room and nothing else. */
static void empty(const char *dir)
{
    char path[LD_PATH_MAX];
    DIR *d = opendir(dir);

    if (d == NULL)
        return;
    for (struct dirent *item = readdir(d); item != NULL; item = readdir(d)) {
        const int n = snprintf(path, sizeof path, "%s/%s", dir, item->d_name);

        if (item->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof path)
            continue;
        if (unlink(path) != 0)
            ld_log(LD_LOG_WARN, "%s: %s", path, strerror(errno));
        else
            ld_log(LD_LOG_INFO, "%s: cut off by a stop, removed", path);
    }
    closedir(d);
}

/* Readable by the owner alone, as the folder of the tenants. */
int ld_spool_open(struct ld_spool **out, const char *data_dir, struct ld_message *why)
{
    struct ld_spool *s = calloc(1, sizeof *s);
    const int n = s != NULL ? snprintf(s->dir, sizeof s->dir, "%s/spool", data_dir) : -1;

    if (n < 0 || (size_t)n >= sizeof s->dir || (mkdir(s->dir, 0700) != 0 && errno != EEXIST)) {
        ld_fail(why, "%.300s/spool: %s", data_dir, s == NULL ? "out of memory" : strerror(errno));
        free(s);
        return -1;
    }
    ld_folder_keep_private(s->dir);
    pthread_mutex_init(&s->lock, NULL);
    empty(s->dir);
    *out = s;
    return 0;
}

/* Nobody copies any more. */
void ld_spool_close(struct ld_spool *s)
{
    if (s == NULL)
        return;
    while (s->claims != NULL)
        ld_spool_let_go(s, s->claims->name);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *ld_spool_dir(const struct ld_spool *s)
{
    return s->dir;
}

void ld_spool_path(struct ld_spool *s, char path[LD_PATH_MAX])
{
    snprintf(path, LD_PATH_MAX, "%s/%llu", s->dir, atomic_fetch_add(&s->n_paths, 1) + 1);
}

/* .new and its journal: a database that is being made (db_file.c). */
void ld_spool_remove(const char *path)
{
    static const char *const suffixes[] = {"",         "-wal",     "-shm",      "-journal",     ".new", ".new-journal",
                                           ".new-wal", ".new-shm", ".snapshot", ".snapshot.tmp"};
    char name[LD_PATH_MAX + 16];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        if (unlink(name) != 0 && errno != ENOENT)
            ld_log(LD_LOG_WARN, "%s: %s", name, strerror(errno));
    }
}

/* Without memory nobody gets it, which is told as if another had. */
bool ld_spool_claim(struct ld_spool *s, const char *name)
{
    struct claim *claim = malloc(sizeof *claim);

    if (claim == NULL)
        return false;
    snprintf(claim->name, sizeof claim->name, "%s", name);
    pthread_mutex_lock(&s->lock);
    const struct claim *other = s->claims;
    while (other != NULL && strcmp(other->name, claim->name) != 0)
        other = other->next;
    if (other == NULL) {
        claim->next = s->claims;
        s->claims = claim;
    }
    pthread_mutex_unlock(&s->lock);
    if (other != NULL)
        free(claim);
    return other == NULL;
}

void ld_spool_let_go(struct ld_spool *s, const char *name)
{
    pthread_mutex_lock(&s->lock);
    struct claim **at = &s->claims;
    while (*at != NULL && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    struct claim *claim = *at;
    if (claim != NULL)
        *at = claim->next;
    pthread_mutex_unlock(&s->lock);
    free(claim);
}
