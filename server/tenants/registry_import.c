/* A tenant that comes whole, as lines or as a file, into a log that several servers share: all of its lines in one
 * transaction, so that nobody sees a part of it, and the server that was asked takes no other way to it than the
 * others. Each line is a batch (shared_send.h).
 *
 * Of a log that begins with a summary, the lines behind it come first, and the summary then as a compaction brings it,
 * with what the file has counted over the lines that are gone. So every server reads it like a log that was compacted
 * here.
 *
 * One that takes another's place comes under a name that is nobody's, while the other goes on. Right before the commit
 * it gets name, keys and rate of that one, which is deleted: so all servers have the one up to the commit and the other
 * behind it, as where a name was used again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "tenant/books.h"
#include "tenant/shared_send.h"
#include "tenants/registry_impl.h"

/* The beginning of a log that was compacted. */
struct beginning {
    struct ld_shared_pack pack;
    struct ld_shared_book book[LD_MOST_BOOKS];
    size_t n_books;
    uint64_t kept; /* the first line behind it */
};

/* The turn has ended with the batch: doubts about it end here. */
static void settle(struct ld_shared_sender *s, const struct ld_shared_batch *b)
{
    s->turn = NULL;
    if (s->rc == LD_SHARED_UNKNOWN)
        s->rc = s->log->ops->settle(s->log, s->id, b, s->why);
}

/* What reading the file has come to. */
static enum ld_shared_rc judge_file(int rc, struct ld_message *why)
{
    if (rc == LD_STORE_OK || rc == LD_STORE_NOMEM)
        return rc == LD_STORE_OK ? LD_SHARED_OK : LD_SHARED_NOMEM;
    return (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, why, "the file cannot be read");
}

/* A tenant that comes under a name of nobody's, to take another's place: in the same commit. */
struct place {
    const char *name; /* that it is to have */
    uint64_t old;     /* the number of who has it; 0: nobody has, and it has it already */
};

/* Right before the commit: who has the place goes on until then. */
static bool take_place(struct ld_shared_sender *s, const struct place *place)
{
    if (place->old != 0 && ld_shared_may_go_on(s))
        s->rc = s->log->ops->exchange(s->turn, place->name, place->old, s->why);
    if (place->old != 0 && s->rc == LD_SHARED_OK)
        ld_failpoint("before_exchange");
    return s->rc == LD_SHARED_OK;
}

static void append_last(struct ld_shared_sender *s, const struct place *place)
{
    if (!take_place(s, place))
        return;
    const struct ld_shared_batch b = ld_shared_last_sent(s);

    s->rc = s->log->ops->append(s->turn, &b, s->why);
    settle(s, &b);
}

/* --- a log that begins with a summary ---------------------------------------------------------------------- */

/* A book that lacks lines which are gone is begun anew by who reads it, as where there is none. */
static int keep_book(void *arg, const struct ld_book_row *row)
{
    struct beginning *b = arg;

    if (strcmp(row->name, LD_UNKNOWN_BOOK) == 0 || row->seq + 1 < b->kept || b->n_books == LD_MOST_BOOKS)
        return LD_STORE_OK;
    char *name = strdup(row->name);
    void *body = malloc(row->n_body + 1);
    b->book[b->n_books++] = (struct ld_shared_book){
        .name = name, .version = row->version, .seq = row->seq, .body = body, .n_body = row->n_body};
    if (name == NULL || body == NULL)
        return LD_STORE_NOMEM;
    memcpy(body, row->body, row->n_body);
    return LD_STORE_OK;
}

static int note_summary(void *kept, const struct ld_row *row)
{
    if (row->type != KB_EV_SUMMARY)
        return LD_STORE_STOPPED;
    *(uint64_t *)kept = row->seq + 1;
    return LD_STORE_OK;
}

/* Where the log begins, and the first line behind its summary; of a file that came as lines the store does not know. */
static int find_start(struct ld_store *store, uint64_t *first, uint64_t *kept)
{
    int rc = ld_store_start(store, first, kept);

    if (rc == LD_STORE_OK)
        rc = ld_store_read(store, 0, SIZE_MAX, note_summary, kept);
    return rc == LD_STORE_STOPPED ? LD_STORE_OK : rc;
}

static void close_beginning(struct beginning *b)
{
    for (size_t i = 0; i < b->n_books; i++) {
        free((char *)b->book[i].name);
        free((void *)b->book[i].body);
    }
    ld_shared_pack_close(&b->pack);
}

/* In the turn, in which all lines behind the summary are put but the last. */
static void compact(struct ld_shared_sender *s, struct ld_store *store, const struct place *place, uint64_t first,
                    uint64_t kept)
{
    struct beginning b = {.pack.node = s->node, .kept = kept};
    const struct ld_shared_batch last = ld_shared_last_sent(s);

    ld_text_init(&b.pack.body);
    s->rc = s->log->ops->put(s->turn, &last, s->why);
    if (s->rc == LD_SHARED_OK) {
        int rc = ld_store_read(store, first - 1, (size_t)(kept - first), ld_shared_pack_row, &b.pack);
        if (rc == LD_STORE_OK)
            rc = ld_store_each_book(store, keep_book, &b);
        s->rc = judge_file(rc, s->why);
    }
    ld_shared_pack_end(&b.pack);
    if (ld_shared_may_go_on(s) && take_place(s, place)) {
        const struct ld_shared_summary summary = {
            .last = kept - 1, .batch = b.pack.batch, .n = b.pack.n, .book = b.book, .n_books = b.n_books};
        s->rc = s->log->ops->compact(s->turn, &summary, s->why);
        settle(s, &b.pack.batch[b.pack.n - 1]);
    }
    close_beginning(&b);
}

/* --- all of it --------------------------------------------------------------------------------------------- */

/* Whether others have made it. A turn that was lost is BEHIND as well, and tells nothing of the name. */
static bool is_taken(const struct ld_shared_sender *s, const char *name)
{
    struct ld_shared_tenant found;
    struct ld_message why;
    bool is_new = false;

    return s->log->ops->find(s->log, name, false, &found, &is_new, &why) == LD_SHARED_OK && found.tip.seq > 0;
}

static void refuse(const struct ld_shared_sender *s, const struct place *place, struct ld_problem *p)
{
    if (place->old != 0 && s->rc == LD_SHARED_UNKNOWN)
        ld_problem_set(p, 503, "it is not known whether the tenant was exchanged: look at it");
    else if (place->old != 0)
        ld_problem_set(p, 503, "the tenant was not exchanged, ask again: %.300s",
                       s->why->text[0] != '\0' ? s->why->text : ld_shared_say(s->rc));
    else if (s->rc == LD_SHARED_BEHIND && is_taken(s, place->name))
        ld_problem_set(p, 409, "tenant '%s' exists", place->name);
    else if (s->rc == LD_SHARED_BEHIND)
        ld_problem_set(p, 503, "the turn in the shared log was lost and nothing was made: ask again");
    else if (s->rc == LD_SHARED_UNKNOWN)
        ld_problem_set(p, 503, "it is not known whether the tenant was made: look whether it is there");
    else
        ld_problem_set(p, 503, "the tenant cannot be made in the shared log: %.300s",
                       s->why->text[0] != '\0' ? s->why->text : ld_shared_say(s->rc));
}

static void send_store(struct ld_tenants *r, const struct place *place, const struct ld_tenant_file *file,
                       struct ld_store *store, struct ld_problem *p)
{
    char nobodys[32];
    struct ld_message why = {""};
    struct ld_shared_sender s = {
        .log = r->world->shared, .node = r->world->node, .why = &why, .is_over = file->is_over, .arg = file->arg};
    uint64_t first = 1, kept = 1;

    ld_text_init(&s.body);
    snprintf(nobodys, sizeof nobodys, ".%016llx", (unsigned long long)ld_shared_draw_nonce()); /* no tenant's name */
    s.rc = ld_nodes_ops(r)->make(r->world->shared, place->old != 0 ? nobodys : place->name, &s.turn, &s.id, &why);
    if (ld_shared_may_send(&s)) {
        int rc = find_start(store, &first, &kept);
        if (rc == LD_STORE_OK)
            rc = ld_store_read(store, kept - 1, SIZE_MAX, ld_shared_send_row, &s);
        if (s.rc == LD_SHARED_OK)
            s.rc = judge_file(rc == LD_STORE_OK && s.n == 0 ? LD_STORE_CORRUPT : rc, &why);
    }
    if (s.rc == LD_SHARED_OK && kept > 1)
        compact(&s, store, place, first, kept);
    else if (s.rc == LD_SHARED_OK)
        append_last(&s, place);
    if (s.turn != NULL)
        ld_nodes_ops(r)->release(s.turn);
    if (s.rc != LD_SHARED_OK)
        refuse(&s, place, p);
    ld_text_close(&s.body);
}

/* Into the log, from the file. */
static void send_file(struct ld_tenants *r, const struct place *place, const struct ld_tenant_file *file,
                      struct ld_problem *p)
{
    struct ld_store *store = NULL;
    struct ld_message why;

    if (ld_store_open_readonly(&store, file->path, &why) != LD_STORE_OK)
        ld_problem_set(p, 503, "the tenant's file cannot be read back");
    else
        send_store(r, place, file, store, p);
    ld_store_close(store);
}

int ld_nodes_adopt(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p)
{
    if (!ld_tenant_name_is_valid(name))
        ld_problem_set(p, 400, "no tenant can have this name");
    else
        send_file(r, &(struct place){.name = name}, file, p);
    if (p->status != 0)
        return -1;
    pthread_mutex_lock(&r->change_lock);
    ld_member_take_in(r, name);
    pthread_mutex_unlock(&r->change_lock);
    return 0;
}

/* Here it is in force as at the other servers, by a question to the log; one that does not come to it in a moment comes
 * to it later. */
int ld_nodes_replace(struct ld_tenants *r, const char *name, const struct ld_tenant_file *file, struct ld_problem *p)
{
    struct ld_shared_tenant found = {.id = 0};
    struct ld_message why = {""};
    bool is_new = false;
    const enum ld_shared_rc rc = ld_nodes_ops(r)->find(r->world->shared, name, false, &found, &is_new, &why);

    if (rc == LD_SHARED_NONE)
        ld_problem_no_tenant(p, name);
    else if (rc != LD_SHARED_OK)
        ld_problem_set(p, 503, "the shared log cannot be asked, and nothing was changed: %.300s",
                       why.text[0] != '\0' ? why.text : ld_shared_say(rc));
    else
        send_file(r, &(struct place){.name = name, .old = found.id}, file, p);
    if (p->status != 0)
        return -1;
    ld_failpoint("after_exchange");
    (void)ld_nodes_await_exchange(r, name, found.id);
    return 0;
}
