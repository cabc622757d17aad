/* A database from elsewhere, as an import takes it in: refused as the sender's fault, whatever is wrong with it, or a
 * tenant's file, which opens again and comes to the same model. Nothing is left beside it either way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/engine_read.h"
#include "model/engine_write.h"
#include "base/log.h"
#include "tenant/recover.h"
#include "task/restore.h"
#include "store/spool.h"
#include "targets.h"

#define MOST_LINE (1u << 20)

/* In memory, where the machine has such a place: each input is synced to its disk several times. */
static void make_folder(char *folder, size_t cap)
{
    snprintf(folder, cap, "%s/ld-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_EXPECT(mkdtemp(folder) != NULL);
}

static void write_file(const char *path, const uint8_t *data, size_t n)
{
    FILE *f = fopen(path, "wb");

    FUZZ_EXPECT(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

/* As a tenant of that file is opened: with the snapshot, and folded once more from the beginning. */
static void check_reopening(const char *path, uint64_t digest)
{
    char snapshot[128];
    struct ld_message why;
    struct ld_store *store = NULL;
    struct ld_recovered r = {0};

    snprintf(snapshot, sizeof snapshot, "%s" LD_RESTORE_SNAPSHOT, path);
    FUZZ_EXPECT(ld_store_open(&store, path, true, &why) == LD_STORE_OK);
    FUZZ_EXPECT(ld_recover(&r, store, path, snapshot, true, NULL, &why) == LD_STORE_OK);
    FUZZ_EXPECT(kb_engine_digest(r.engine) == digest && !r.is_snapshot_refused);
    kb_engine_free(r.engine);
    ld_store_close(store);
}

int fuzz_file(const uint8_t *data, size_t n)
{
    char folder[64], path[96];
    const struct ld_restore how = {.path = path, .max_line = MOST_LINE, .is_over = never};
    struct ld_restored restored;
    struct ld_problem p;

    ld_log_set_level(LD_LOG_ERROR); /* each refusal is a warning */
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/1", folder);
    write_file(path, data, n);
    ld_problem_init(&p);
    if (ld_restore(&how, &restored, &p) == 0)
        check_reopening(path, restored.digest);
    else
        FUZZ_EXPECT(p.status == 400 && p.detail[0] != '\0');
    ld_spool_remove(path);
    FUZZ_EXPECT(rmdir(folder) == 0);
    return 0;
}
