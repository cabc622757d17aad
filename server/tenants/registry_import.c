/* A tenant that comes whole, as lines or as a file, into a log that several servers share: all of its lines in one
 * transaction, so that nobody sees a part of it, and the server that was asked takes no other way to it than the
 * others.
 *
 * Whoever follows a batch reserves its lines against the state before it, and a log does not tell where its commits
 * ended. So each line is a batch: whatever it looks up stands before it, as in a fold. Cost: a round trip and a row for
 * each. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "json/json_out.h"
#include "shared/shared_log.h"
#include "store/store.h"
#include "tenants/registry_impl.h"

/* A log on its way. The last line is kept back: its append ends the turn. */
struct sending {
    struct ld_tenants *r;
    struct ld_shared_turn *turn;
    struct ld_shared_place at; /* seq: of the line that is kept; hash: of those before */
    struct ld_text body;
    uint32_t n; /* 1: a line is kept */
    int64_t at_ms;
    enum ld_shared_rc rc;
    struct ld_message *why;
};

static struct ld_shared_batch batch_of(struct sending *s)
{
    struct ld_shared_batch b = {.at = s->at,
                                .n = s->n,
                                .at_ms = s->at_ms,
                                .node = s->r->world->node,
                                .body = s->body.data,
                                .n_body = s->body.n};

    while (getrandom(&b.nonce, sizeof b.nonce, 0) != (ssize_t)sizeof b.nonce)
        continue;
    ld_chain(b.at.hash, s->at.hash, b.body, b.n_body);
    return b;
}

static bool put(struct sending *s)
{
    const struct ld_shared_batch b = batch_of(s);

    s->rc = ld_nodes_ops(s->r)->put(s->turn, &b, s->why);
    s->at = b.at;
    ld_text_close(&s->body);
    ld_text_init(&s->body);
    s->n = 0;
    return s->rc == LD_SHARED_OK;
}

/* For ld_store_read. */
static int send_row(void *arg, const struct ld_row *row)
{
    struct sending *s = arg;

    if (s->n > 0 && !put(s))
        return 1;
    (void)ld_text_export(&s->body, row->text, row->n_text, row->answer);
    s->at.seq = row->seq;
    s->at_ms = row->at_ms;
    s->n = 1;
    if (s->body.is_failed)
        s->rc = LD_SHARED_NOMEM;
    return s->rc == LD_SHARED_OK ? 0 : 1;
}

/* The end of the turn, and of doubts about it. */
static void append_last(struct sending *s, uint64_t id)
{
    const struct ld_shared_batch b = batch_of(s);

    s->rc = ld_nodes_ops(s->r)->append(s->turn, &b, s->why);
    s->turn = NULL;
    if (s->rc == LD_SHARED_UNKNOWN)
        s->rc = ld_nodes_ops(s->r)->settle(s->r->world->shared, id, &b, s->why);
}

static void refuse(const struct sending *s, const char *name, struct ld_problem *p)
{
    if (s->rc == LD_SHARED_BEHIND)
        ld_problem_set(p, 409, "tenant '%s' exists", name);
    else if (s->rc == LD_SHARED_UNKNOWN)
        ld_problem_set(p, 503, "it is not known whether the tenant was made: look whether it is there");
    else
        ld_problem_set(p, 503, "the tenant cannot be made in the shared log: %.300s",
                       s->why->text[0] != '\0' ? s->why->text : ld_shared_say(s->rc));
}

static void send_store(struct ld_tenants *r, const char *name, struct ld_store *store, struct ld_problem *p)
{
    struct ld_message why = {""};
    struct sending s = {.r = r, .why = &why};
    uint64_t id = 0;

    ld_text_init(&s.body);
    s.rc = ld_nodes_ops(r)->make(r->world->shared, name, &s.turn, &id, &why);
    if (s.rc == LD_SHARED_OK) {
        const int rc = ld_store_read(store, 0, SIZE_MAX, send_row, &s);
        if (rc != LD_STORE_OK && s.rc == LD_SHARED_OK)
            s.rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, &why, "the file cannot be read");
    }
    if (s.rc == LD_SHARED_OK)
        append_last(&s, id);
    else if (s.turn != NULL)
        ld_nodes_ops(r)->release(s.turn);
    if (s.rc != LD_SHARED_OK)
        refuse(&s, name, p);
    ld_text_close(&s.body);
}

int ld_nodes_adopt(struct ld_tenants *r, const char *name, const char *file, struct ld_problem *p)
{
    struct ld_store *store = NULL;
    struct ld_message why;

    if (!ld_tenant_name_is_valid(name))
        ld_problem_set(p, 400, "no tenant can have this name");
    else if (ld_store_open_readonly(&store, file, &why) != LD_STORE_OK)
        ld_problem_set(p, 503, "the tenant's file cannot be read back");
    else
        send_store(r, name, store, p);
    ld_store_close(store);
    if (p->status != 0)
        return -1;
    pthread_mutex_lock(&r->change_lock);
    ld_member_take_in(r, name);
    pthread_mutex_unlock(&r->change_lock);
    return 0;
}
