/* A tenant that comes whole, as lines or as a file, into a log that several servers share: all of its lines in one
 * transaction, so that nobody sees a part of it, and the server that was asked takes no other way to it than the
 * others. Each line is a batch (shared_send.h). */
#include "tenant/shared_send.h"
#include "tenants/registry_impl.h"

/* The end of the turn, and of doubts about it. */
static void append_last(struct ld_shared_sender *s)
{
    const struct ld_shared_batch b = ld_shared_last_sent(s);

    s->rc = s->log->ops->append(s->turn, &b, s->why);
    s->turn = NULL;
    if (s->rc == LD_SHARED_UNKNOWN)
        s->rc = s->log->ops->settle(s->log, s->id, &b, s->why);
}

static void refuse(const struct ld_shared_sender *s, const char *name, struct ld_problem *p)
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
    struct ld_shared_sender s = {.log = r->world->shared, .node = r->world->node, .why = &why};

    ld_text_init(&s.body);
    s.rc = ld_nodes_ops(r)->make(r->world->shared, name, &s.turn, &s.id, &why);
    if (ld_shared_may_send(&s)) {
        const int rc = ld_store_read(store, 0, SIZE_MAX, ld_shared_send_row, &s);
        if (rc != LD_STORE_OK && s.rc == LD_SHARED_OK)
            s.rc = (enum ld_shared_rc)ld_fail_as(LD_SHARED_DOWN, &why, "the file cannot be read");
    }
    if (s.rc == LD_SHARED_OK)
        append_last(&s);
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
