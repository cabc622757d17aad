/* laplacectl verify --log: the chain of hashes of tenants' logs in PostgreSQL, from their first line, without a server;
 * with --data each is held against the copy in the folder of a stopped server as well.
 *
 * The chain is checked where batches are read (shared/pg_turn.c): what comes here continues the batch before it. What
 * others write meanwhile is left to the next time; where lines are rewritten meanwhile it begins anew. */
#include "ctl/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "shared/pg_log.h"
#include "store/folder.h"
#include "store/store.h"
#include "tenant/shared_send.h"

#define PAGE_BYTES ((size_t)4 << 20)
#define MOST_RESTARTS 20 /* each time lines were rewritten in between */

struct check {
    struct ld_shared_log *log;
    struct ld_shared_tenant t; /* as it was found: the log is read up to its tip, wherever that moves */
    struct ld_store *store;    /* the copy; NULL: there is none */
    struct ld_copy_mark mark;  /* of it */
    struct ld_shared_place at; /* behind the last batch that fits */
    bool is_tip;               /* the batch at the tip has the hash that the tenant's row has */
    uint64_t last;             /* of the copy */
    uint64_t other;            /* the first line that the copy has otherwise; 0: none */
    struct ld_message why;     /* of a fault */
};

/* Why the copy cannot be held against the log; NULL: it can. */
static const char *incomparable(const struct check *k)
{
    if (k->mark.tenant != k->t.id)
        return "the copy is another tenant's, and was not looked at";
    return k->mark.generation < k->t.tip.generation ? "the copy is from before lines were rewritten: not looked at"
                                                    : NULL;
}

/* As far as the copy goes. */
static enum ld_shared_rc look(void *arg, const struct ld_shared_batch *b)
{
    struct check *k = arg;
    uint64_t other;

    k->at = b->at;
    if (b->at.seq == k->t.tip.seq)
        k->is_tip = memcmp(b->at.hash, k->t.tip.hash, sizeof b->at.hash) == 0;
    if (k->store == NULL || incomparable(k) != NULL || k->other != 0 || b->at.seq - b->n >= k->last)
        return LD_SHARED_OK;
    if (ld_shared_first_other(k->store, b, &other) != LD_STORE_OK)
        return (enum ld_shared_rc)ld_fail_as(LD_SHARED_NOMEM, &k->why, "the copy's lines");
    k->other = other <= k->last ? other : 0; /* behind its last line it has none */
    return LD_SHARED_OK;
}

static enum ld_shared_rc broken(struct check *k, const char *before, uint64_t line, const char *behind)
{
    return (enum ld_shared_rc)ld_fail_as(LD_SHARED_FORKED, &k->why, "%s %llu%.300s", before, (unsigned long long)line,
                                         behind);
}

/* From its beginning to the tip that it has now. */
static enum ld_shared_rc read_log(struct check *k, const char *name)
{
    enum ld_shared_rc rc = k->log->ops->find(k->log, name, false, &k->t, NULL, &k->why);
    char said[sizeof k->why.text + 16];
    uint64_t before = 0;

    k->at = (struct ld_shared_place){.generation = k->t.tip.generation};
    k->other = 0;
    k->is_tip = k->t.tip.seq == 0;
    while (rc == LD_SHARED_OK && k->at.seq < k->t.tip.seq) {
        const struct ld_shared_place place = k->at;
        before = place.seq;
        rc = k->log->ops->read(k->log, k->t.id, &place, PAGE_BYTES, look, k, &k->why);
        if (rc == LD_SHARED_OK && k->at.seq == before)
            return broken(k, "line", before > 0 ? before + 1 : k->t.first, " is not there");
    }
    if (rc == LD_SHARED_FORKED) {
        (void)snprintf(said, sizeof said, " does not fit: %s", k->why.text);
        return broken(k, "line", k->at.seq > 0 ? k->at.seq + 1 : k->t.first, said);
    }
    if (rc == LD_SHARED_OK && !k->is_tip)
        rc = broken(k, "the tenant's row has another hash than line", k->t.tip.seq, "");
    return rc;
}

/* What is whole in itself. */
static enum ld_shared_rc compare(struct check *k)
{
    if (k->store == NULL || incomparable(k) != NULL)
        return LD_SHARED_OK;
    if (k->other != 0)
        return broken(k, "the copy has another line", k->other, "");
    return k->last > k->at.seq ? broken(k, "the log ends at line", k->at.seq, ", and the copy goes on") : LD_SHARED_OK;
}

static enum ld_shared_rc open_copy(struct check *k, const char *data, const char *name)
{
    char path[LD_PATH_MAX];
    uint64_t last_reset;

    return ld_folder_path(data, name, ".db", path) == 0 &&
                   ld_store_open_readonly(&k->store, path, &k->why) == LD_STORE_OK &&
                   ld_store_copy_mark(k->store, &k->mark) == LD_STORE_OK &&
                   ld_store_tip(k->store, &k->last, &last_reset) == LD_STORE_OK
               ? LD_SHARED_OK
               : LD_SHARED_NOMEM;
}

static void say(const struct check *k, enum ld_shared_rc rc, const char *name)
{
    const unsigned long long line = k->at.seq;

    if (rc == LD_SHARED_FORKED)
        lc_say("%-24s BROKEN     %s", name, k->why.text);
    else if (rc != LD_SHARED_OK)
        lc_say("%-24s cannot be read: %s", name, k->why.text);
    else if (k->store == NULL)
        lc_say("%-24s whole      to line %llu", name, line);
    else if (incomparable(k) != NULL)
        lc_say("%-24s whole      to line %llu; %s", name, line, incomparable(k));
    else
        lc_say("%-24s whole      to line %llu; the copy has the same to line %llu", name, line,
               (unsigned long long)k->last);
}

static int verify(struct ld_shared_log *log, const char *data, const char *name)
{
    struct check k = {.log = log, .why = {"the copy"}};
    enum ld_shared_rc rc = LD_SHARED_OK;

    if (data != NULL && ld_folder_has(data, name))
        rc = open_copy(&k, data, name);
    if (rc == LD_SHARED_OK)
        rc = read_log(&k, name);
    for (int n = 0; rc == LD_SHARED_REWRITTEN && n < MOST_RESTARTS; n++)
        rc = read_log(&k, name);
    if (rc == LD_SHARED_OK)
        rc = compare(&k);
    say(&k, rc, name);
    ld_store_close(k.store);
    return rc == LD_SHARED_OK ? 0 : 1;
}

struct names {
    char **name;
    size_t n, cap;
};

static void add_name(void *arg, const char *name, const struct ld_shared_tenant *t)
{
    struct names *all = arg;

    (void)t;
    all->name = lc_room(all->name, &all->cap, all->n + 1, sizeof *all->name);
    all->name[all->n++] = lc_copy(name);
}

static int verify_all(struct ld_shared_log *log, const char *data)
{
    struct names names = {0};
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
    const struct ld_pg_config config = {
        .url = url, .node = "laplacectl", .wait_ms = 5000, .is_trusted = true, .is_reader = true};
    struct ld_shared_log *log = NULL;
    struct ld_message why;
    int fd = -1, status;

    if (ld_pg_check_url(url, &why) != 0)
        return lc_misuse("--log: %s", why.text);
    if (data != NULL && ld_folder_open_readonly(data, &fd, &why) != 0)
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
