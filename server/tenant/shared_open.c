/* Opening a tenant whose log several servers write (shared_turn.c): its file is this server's copy, which may be older
 * than the log, or not be there yet.
 *
 * A file says whose copy it is (schema/0009_copies.sql), and a copy of one tenant is never taken for another's: a name
 * may have been deleted and used again, or the server be started with another shared log. Such a file is put aside and
 * not removed, since it may be the last witness of what it has. A log that cannot be reached keeps nobody from reading:
 * the copy is opened as it stands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "model/engine_write.h"
#include "store/folder.h"
#include "tenant/recover.h"
#include "tenant/tenant_state.h"

#define NO_COPY                                                                                                        \
    "this file is a log of its own, and no copy of the shared one: take it elsewhere, or start without --log"

/* The log has been asked, and has no tenant of that name. A file that is no copy is not the log's to judge. */
static int gone(const struct ld_tenant *t, struct ld_message *why)
{
    struct ld_copy_mark mark = {.tenant = 0};
    struct ld_store *store = NULL;
    struct ld_message said;
    bool is_copy = true;

    if (access(t->db_path, F_OK) == 0)
        is_copy = ld_store_open(&store, t->db_path, false, &said) == LD_STORE_OK &&
                  ld_store_copy_mark(store, &mark) == LD_STORE_OK && mark.tenant != 0;
    ld_store_close(store);
    if (is_copy)
        return ld_fail_as(LD_STORE_GONE, why, "%s", ld_shared_say(LD_SHARED_NONE));
    return ld_fail_as(LD_STORE_FOREIGN, why, "%.400s: " NO_COPY, t->db_path);
}

int ld_shared_find(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_shared_log *log = t->world->shared;
    struct ld_shared_tenant found;
    struct ld_message said = {""};
    bool is_new = false;

    if (log == NULL)
        return LD_STORE_OK;
    switch (log->ops->find(log, t->name, false, &found, &is_new, &said)) {
    case LD_SHARED_OK:
        t->shared.id = found.id;
        atomic_store(&t->shared.generation, found.tip.generation);
        return LD_STORE_OK;
    case LD_SHARED_NONE:
        return gone(t, why);
    case LD_SHARED_DOWN:
        if (access(t->db_path, F_OK) == 0)
            return LD_STORE_OK; /* the copy is opened as it stands */
        return ld_fail_as(LD_STORE_IO, why, "the shared log cannot be reached, and there is no copy here: %.300s",
                          said.text);
    default:
        return ld_fail_as(LD_STORE_NOMEM, why, "the shared log cannot be asked: %.300s", said.text);
    }
}

/* The file, closed, under another name, which no scan of the folder takes for a tenant's. */
static int put_aside(struct ld_tenant *t, uint64_t id, struct ld_message *why)
{
    char path[LD_PATH_MAX + 32];

    ld_store_close(t->store);
    t->store = NULL;
    snprintf(path, sizeof path, "%s.copy-%llu", t->db_path, (unsigned long long)id);
    if (rename(t->db_path, path) != 0 || ld_folder_forget_snapshot(t->world->data_dir, t->name) != 0 ||
        ld_folder_forget_read_only(t->world->data_dir, t->name) != 0)
        return ld_fail_as(LD_STORE_IO, why, "%.400s: %s", t->db_path, strerror(errno));
    ld_log(LD_LOG_WARN, "tenant %s: its file was the copy of another tenant of that name and is put aside: %s", t->name,
           path);
    return LD_STORE_OK;
}

/* Without a shared log a copy is refused: what was written to it alone would be lost to all others. */
static int refuse_copy(const struct ld_tenant *t, const struct ld_copy_mark *mark, struct ld_message *why)
{
    if (mark->tenant == 0)
        return LD_STORE_OK;
    return ld_fail_as(LD_STORE_FOREIGN, why,
                      "%.300s: this file is a copy of a shared log: start with --log, or restore what GET "
                      "/tenants/%s/snapshot gives",
                      t->db_path, t->name);
}

/* A copy from before lines of the log were rewritten; or none yet, and what is left of such lines can be folded only
 * when all is there (ld_recover). A log that cannot be read now leaves the copy as it is: a turn asks again. */
static int renew(struct ld_tenant *t, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    const uint64_t generation = atomic_load(&s->generation);
    struct ld_message said = {""};
    enum ld_shared_rc rc = LD_SHARED_OK;

    for (int n = 0; s->place.generation < generation && n < 2; n++)
        rc = ld_shared_renew_copy(t, NULL, &said);
    atomic_store(&s->generation, s->place.generation);
    if (rc == LD_SHARED_OK)
        return LD_STORE_OK;
    if (ld_progress_is_over(t->world->progress))
        return ld_fail_as(LD_STORE_STOPPED, why, "the server is stopping");
    ld_log(LD_LOG_WARN, "tenant %s: lines of the shared log were rewritten, and the copy is still the old one: %s",
           t->name, said.text);
    return LD_STORE_OK;
}

int ld_shared_check(struct ld_tenant *t, bool *is_away, struct ld_message *why)
{
    struct ld_shared *s = &t->shared;
    struct ld_copy_mark mark;
    uint64_t last = 0, last_reset = 0;
    int64_t at_ms = 0;

    *is_away = false;
    int rc = ld_store_copy_mark(t->store, &mark);
    if (rc == LD_STORE_OK && t->world->shared == NULL)
        return refuse_copy(t, &mark, why);
    if (rc == LD_STORE_OK)
        rc = ld_store_tip(t->store, &last, &last_reset);
    if (rc == LD_STORE_OK)
        rc = ld_store_last_at(t->store, &at_ms);
    if (rc != LD_STORE_OK)
        return ld_fail_as(LD_STORE_IO, why, "%.400s: the log cannot be read", t->db_path);
    if (mark.tenant == 0 && last > 0)
        return ld_fail_as(LD_STORE_FOREIGN, why, "%.400s: " NO_COPY, t->db_path);
    if (mark.tenant != 0 && s->id != 0 && mark.tenant != s->id) {
        *is_away = true;
        return put_aside(t, mark.tenant, why);
    }
    if (mark.seq != last)
        return ld_fail_as(LD_STORE_CORRUPT, why, "%.400s: damaged: it has %llu lines, and says that it has %llu",
                          t->db_path, (unsigned long long)last, (unsigned long long)mark.seq);
    mark.tenant = s->id = s->id != 0 ? s->id : mark.tenant;
    if (s->id == 0)
        return ld_fail_as(LD_STORE_IO, why, "the shared log cannot be reached, and there is no copy here");
    s->place.seq = mark.seq;
    s->place.generation = mark.generation;
    memcpy(s->place.hash, mark.hash, sizeof s->place.hash);
    s->at_ms = at_ms;
    rc = ld_store_be_copy(t->store, &mark, why);
    return rc == LD_STORE_OK ? renew(t, why) : rc;
}

static int note_type(void *type, const struct ld_row *row)
{
    *(int *)type = row->type;
    return 0;
}

/* A copy that was made anew is read first; one that has not come so far tells nothing. No fold may begin in the middle
 * of a summary. */
bool ld_shared_is_mended(struct ld_tenant *t)
{
    struct ld_shared *s = &t->shared;
    struct ld_message why;
    int type = -1;

    if (t->world->shared == NULL || t->read_only_from == 0)
        return false;
    if (s->place.seq == 0 && s->unfoldable == 0 && ld_shared_renew_copy(t, NULL, &why) == LD_SHARED_OK)
        atomic_store(&s->generation, s->place.generation);
    if (ld_store_read(t->store, t->read_only_from - 1, 1, note_type, &type) != LD_STORE_OK)
        return false;
    return type == KB_EV_REDACTED || type == KB_EV_SUMMARY;
}

/* A log that has other lines, or cannot be asked, is told of and keeps nobody from reading what is here. */
int ld_shared_catch_up(struct ld_tenant *t, struct ld_message *why)
{
    if (t->world->shared == NULL || t->read_only_from > 0)
        return LD_STORE_OK;
    t->now_ms = t->world->now_ms();
    atomic_store(&t->shared.is_asked, true);
    ld_shared_read(t);
    if (ld_progress_is_over(t->world->progress))
        return ld_fail_as(LD_STORE_STOPPED, why, "the server is stopping");
    if (t->seq == 0 && t->has_failed && t->shared.rc == LD_SHARED_NONE && ld_shared_is_exchanged(t))
        return ld_fail_as(LD_STORE_IO, why, LD_EXCHANGED);
    if (t->seq == 0 && t->has_failed)
        return ld_fail_as(t->shared.rc == LD_SHARED_NONE ? LD_STORE_GONE : LD_STORE_IO, why, "%s%s%.300s",
                          ld_shared_say(t->shared.rc), t->shared.why.text[0] != '\0' ? ": " : "", t->shared.why.text);
    t->has_failed = false;
    if (t->seq > 0) { /* the copy has not known of them when it was adopted */
        atomic_store(&t->next_expiry_ms, kb_engine_next_expiry(t->engine));
        if (kb_engine_is_building(t->engine))
            atomic_store(&t->has_chores, true);
    }
    return LD_STORE_OK;
}
