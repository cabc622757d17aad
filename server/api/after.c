/* How far an answer's server has read the log that several share, and requests that wait until it has.
 *
 *     Laplaced-Seq: N     in answers of tenants: all that the answer says is in the first N lines of the tenant's log
 *     Laplaced-After: N   of a request: it is to be handled where line N has been read, or not at all
 *
 * So who has written at one server, and sends the number along, reads what it wrote at any other. A request whose line
 * has not come waits without a thread; after each question of the log (registry_nodes.c) those whose line is there go
 * on. After --log-wait it is told 503. Without a shared log there is neither header. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/call.h"
#include "base/clock.h"

bool ld_after_mark(void *arg, struct ld_request *r, struct ld_header *out)
{
    struct ld_server *s = arg;
    struct ld_call *c = ld_request_context(r);
    const uint64_t seq =
        c->is_let_in && c->route->opens != LD_TENANT_NOT_OPENED ? ld_tenants_tip(s->tenants, c->name) : 0;

    if (seq == 0)
        return false;
    snprintf(c->seq, sizeof c->seq, "%" PRIu64, seq);
    *out = (struct ld_header){"Laplaced-Seq", c->seq};
    return true;
}

/* 0, without the header as well; or -1 with *p. */
static int read_after(const struct ld_call *c, uint64_t *out, struct ld_problem *p)
{
    const char *text = ld_request_header(c->request, "Laplaced-After");
    const size_t n = text != NULL ? strspn(text, "0123456789") : 0;

    *out = n > 0 && n <= 18 ? strtoull(text, NULL, 10) : 0;
    if (text == NULL || (n > 0 && n <= 18 && text[n] == '\0'))
        return 0;
    ld_problem_set(p, 400, "header Laplaced-After: expected the number of a line, up to 18 digits");
    return -1;
}

static void set_late(const struct ld_call *c, struct ld_problem *p)
{
    ld_problem_set(p, 503, "line %" PRIu64 " of the tenant's log has not come to this server, which has read %" PRIu64,
                   c->after, ld_tenant_tip(c->tenant));
}

/* False: as many wait as may, or the server stops. */
static bool park(struct ld_call *c)
{
    struct ld_after *a = &c->server->after;

    c->until_us = ld_monotonic_us() + a->wait_us;
    pthread_mutex_lock(&a->lock);
    const bool has_room = !a->is_over && a->n < c->server->limits.work;
    if (has_room) {
        c->next_after = a->first;
        a->first = c;
        a->n++;
    }
    pthread_mutex_unlock(&a->lock);
    return has_room;
}

bool ld_after_waits(struct ld_call *c)
{
    struct ld_tenants *tenants = c->server->tenants;
    struct ld_problem p;

    ld_problem_init(&p);
    if (c->tenant == NULL)
        return false;
    if (read_after(c, &c->after, &p) == 0 && ld_tenant_tip(c->tenant) >= c->after)
        return false;
    if (p.status == 0 && ld_request_keep_head(c->request) != 0)
        ld_problem_set(&p, 503, "the server cannot take more work now");
    if (p.status == 0 && !park(c)) {
        ld_problem_set(&p, 503, "too many requests wait for lines of the shared log");
        ld_problem_limit(&p, "work", (double)c->server->limits.work);
    }
    if (p.status != 0)
        ld_call_resume(c, &p);
    else
        ld_tenants_poll_soon(tenants);
    return true;
}

/* Those that go on or have waited long enough; the others stay, unless all is over. */
static struct ld_call *take_ripe(struct ld_after *a, int64_t now, bool *is_awaited)
{
    struct ld_call *ripe = NULL;

    pthread_mutex_lock(&a->lock);
    for (struct ld_call **at = &a->first; *at != NULL;) {
        struct ld_call *c = *at;
        if (!a->is_over && ld_tenant_tip(c->tenant) < c->after && now < c->until_us) {
            at = &c->next_after;
            continue;
        }
        *at = c->next_after;
        c->next_after = ripe;
        ripe = c;
        a->n--;
    }
    *is_awaited = a->first != NULL;
    pthread_mutex_unlock(&a->lock);
    return ripe;
}

bool ld_after_round(void *server)
{
    struct ld_server *s = server;
    bool is_awaited;
    struct ld_call *c = take_ripe(&s->after, ld_monotonic_us(), &is_awaited);

    while (c != NULL) {
        struct ld_call *next = c->next_after; /* the call may be gone behind its resumption */
        struct ld_problem p;

        ld_problem_init(&p);
        if (ld_tenant_tip(c->tenant) < c->after)
            set_late(c, &p);
        ld_call_resume(c, &p);
        c = next;
    }
    return is_awaited;
}

/* Nobody is to go on to a pool that has ended. */
void ld_after_end(struct ld_server *s)
{
    bool is_awaited;
    struct ld_problem p;

    pthread_mutex_lock(&s->after.lock);
    s->after.is_over = true;
    pthread_mutex_unlock(&s->after.lock);
    struct ld_call *c = take_ripe(&s->after, 0, &is_awaited);
    while (c != NULL) {
        struct ld_call *next = c->next_after;

        ld_problem_init(&p);
        ld_problem_set(&p, 503, "the server is stopping");
        ld_call_resume(c, &p);
        c = next;
    }
}
