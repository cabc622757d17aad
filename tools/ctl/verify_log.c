/* laplacectl verify --log: the chain of hashes of tenants' logs in PostgreSQL, from their first line, without a server;
 * with --data each is held against the copy in the folder of a stopped server as well.
 *
 * The chain is checked where batches are read (shared/pg_turn.c): what comes here continues the batch before it. */
#include "ctl/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "json/json_out.h"
#include "shared/pg_log.h"
#include "store/folder.h"
#include "store/store.h"

#define PAGE_BYTES ((size_t)4 << 20)

struct check {
    struct ld_shared_log *log;
    struct ld_store *store;    /* the copy; NULL: it is not looked at */
    struct ld_shared_place at; /* behind the last batch that fits */
    uint64_t last;             /* of the copy */
    uint64_t other;            /* the first line that the copy has otherwise; 0: none */
    struct ld_message why;     /* of a fault */
};

static int add_line(void *text, const struct ld_row *row)
{
    return ld_text_export(text, row->text, row->n_text, row->answer);
}

/* As far as the copy goes. */
static enum ld_shared_rc look(void *arg, const struct ld_shared_batch *b)
{
    struct check *k = arg;
    const uint64_t before = b->at.seq - b->n;
    struct ld_text have;
    enum ld_shared_rc rc = LD_SHARED_OK;

    k->at = b->at;
    if (k->store == NULL || k->other != 0 || before >= k->last)
        return rc;
    ld_text_init(&have);
    if (ld_store_read(k->store, before, b->n, add_line, &have) != LD_STORE_OK)
        rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_NOMEM, &k->why, "the copy cannot be read");
    else if (have.n != b->n_body || memcmp(have.data, b->body, have.n) != 0)
        k->other = before + ld_shared_first_difference(have.data, have.n, b->body, b->n_body) + 1;
    ld_text_close(&have);
    if (k->other > k->last)
        k->other = 0; /* it ends there */
    return rc;
}

/* To the end, which may move meanwhile. False with k->why. */
static bool read_log(struct check *k, const char *name)
{
    struct ld_shared_tenant t;
    uint64_t before;
    bool is_new;

    do {
        enum ld_shared_rc rc = k->log->ops->find(k->log, name, false, &t, &is_new, &k->why);
        before = k->at.seq;
        if (rc == LD_SHARED_OK && k->at.seq == 0)
            k->at = (struct ld_shared_place){.generation = LD_ANY_GENERATION};
        if (rc == LD_SHARED_OK) {
            const struct ld_shared_place place = k->at;
            rc = k->log->ops->read(k->log, t.id, &place, PAGE_BYTES, look, k, &k->why);
        }
        if (rc == LD_SHARED_FORKED) {
            const struct ld_message said = k->why;
            (void)ld_fail(&k->why, "line %llu does not fit: %.300s",
                          (unsigned long long)(k->at.seq > 0 ? k->at.seq + 1 : t.first), said.text);
        }
        if (rc != LD_SHARED_OK)
            return false;
    } while (k->at.seq != before);
    if (k->at.seq < t.tip.seq)
        return ld_fail(&k->why, "line %llu is not there", (unsigned long long)k->at.seq + 1) == 0;
    if (k->at.seq == t.tip.seq && memcmp(k->at.hash, t.tip.hash, sizeof t.tip.hash) != 0)
        return ld_fail(&k->why, "the tenant's row has another hash than line %llu", (unsigned long long)t.tip.seq) == 0;
    return true;
}

static bool open_copy(struct check *k, const char *data, const char *name)
{
    char path[LD_PATH_MAX];
    uint64_t last_reset;

    return ld_folder_path(data, name, ".db", path) == 0 &&
           ld_store_open_readonly(&k->store, path, &k->why) == LD_STORE_OK &&
           ld_store_tip(k->store, &k->last, &last_reset) == LD_STORE_OK;
}

static int verify(struct ld_shared_log *log, const char *data, const char *name)
{
    struct check k = {.log = log, .why = {"the copy cannot be read"}};
    bool is_well = data == NULL || !ld_folder_has(data, name) || open_copy(&k, data, name);

    is_well = is_well && read_log(&k, name);
    if (is_well && k.other != 0)
        is_well = ld_fail(&k.why, "the copy has another line %llu", (unsigned long long)k.other) == 0;
    if (is_well && k.store != NULL && k.last > k.at.seq)
        is_well = ld_fail(&k.why, "the log ends at line %llu, the copy at %llu", (unsigned long long)k.at.seq,
                          (unsigned long long)k.last) == 0;
    if (!is_well)
        lc_say("%-24s BROKEN     %s", name, k.why.text);
    else if (k.store != NULL)
        lc_say("%-24s whole      to line %llu; the copy has the same to line %llu", name, (unsigned long long)k.at.seq,
               (unsigned long long)k.last);
    else
        lc_say("%-24s whole      to line %llu", name, (unsigned long long)k.at.seq);
    ld_store_close(k.store);
    return is_well ? 0 : 1;
}

struct names {
    char **name;
    size_t n;
};

static void add_name(void *arg, const char *name, const struct ld_shared_tenant *t)
{
    struct names *names = arg;
    char **grown = realloc(names->name, (names->n + 1) * sizeof *grown);

    (void)t;
    if (grown == NULL)
        return;
    names->name = grown;
    names->name[names->n] = strdup(name);
    names->n += names->name[names->n] != NULL;
}

static int verify_all(struct ld_shared_log *log, const char *data)
{
    struct names names = {NULL, 0};
    struct ld_message why;
    uint64_t generation;
    int status = 0;

    if (log->ops->tips(log, add_name, &names, &generation, &why) != LD_SHARED_OK)
        status = lc_fail("%s", why.text);
    for (size_t i = 0; i < names.n; i++) {
        status |= verify(log, data, names.name[i]);
        free(names.name[i]);
    }
    free(names.name);
    return status;
}

int lc_verify_log(const char *url, const char *data, const char *name)
{
    const struct ld_pg_config config = {.url = url, .node = "laplacectl", .wait_ms = 5000, .is_trusted = true};
    struct ld_shared_log *log = NULL;
    struct ld_message why;
    int fd = -1, status;

    if (ld_pg_check_url(url, &why) != 0)
        return lc_misuse("--log: %s", why.text);
    if (data != NULL && ld_folder_open(data, &fd, &why) != 0)
        return lc_fail("%s", why.text);
    ld_log_set_level(LD_LOG_ERROR);
    if (ld_pg_log_open(&log, &config, &why) != 0)
        status = lc_fail("%s", why.text);
    else
        status = name != NULL ? verify(log, data, name) : verify_all(log, data);
    if (log != NULL)
        log->ops->close(log);
    if (fd >= 0)
        close(fd);
    return status;
}
