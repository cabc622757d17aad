/* Calls that leave the thread of their connection: for the work pool, or to wait for their tenant. Their connection
 * waits meanwhile (http.c) and costs no thread.
 *
 * A line of the pool is bounded, and of the line a tenant has half at most; what finds no room is told 503, and when to
 * come again. */
#include "api/call.h"
#include "base/clock.h"

/* --- the pool ------------------------------------------------------------------------------------------------- */

static void leave_line(struct ld_call *c)
{
    if (c->is_counted)
        atomic_fetch_sub(ld_tenant_n_served(c->tenant), 1);
    c->is_counted = false;
}

/* A mean over the last jobs; two at once may lose one of them. */
static void note_pace(_Atomic int64_t *us_per_job, int64_t us)
{
    const int64_t mean = atomic_load_explicit(us_per_job, memory_order_relaxed);
    atomic_store_explicit(us_per_job, mean + (us - mean) / 8, memory_order_relaxed);
}

/* Refused, or answered by a stop while it waited: the tenant is let go. The call may be gone afterwards. */
void ld_call_give_up(struct ld_call *c, const struct ld_problem *p)
{
    struct ld_tenant *t = c->tenant;
    ld_call_refuse(c, p);
    ld_tenant_release(t);
}

/* On the work pool. The pool waits for it at shutdown, so it always finds the server. */
static void run_job(void *arg)
{
    struct ld_call *c = arg;
    struct ld_server *s = c->server;
    _Atomic int64_t *us_per_job = c->route->place == LD_AS_TRANSFER ? &s->us_per_transfer : &s->us_per_work;
    const int64_t start_us = ld_monotonic_us();
    struct ld_problem p;
    leave_line(c);
    if (!ld_request_is_answered(c->request)) {
        ld_call_run(c);
        note_pace(us_per_job, ld_monotonic_us() - start_us);
        return;
    }
    ld_problem_init(&p);
    ld_problem_set(&p, 503, "the server is stopping");
    ld_call_give_up(c, &p);
}

/* Seconds until a full line of n has moved on by half, two threads working at it at the pace of the last jobs. */
static int line_s(const _Atomic int64_t *us_per_job, uint64_t n)
{
    const int64_t us = atomic_load_explicit(us_per_job, memory_order_relaxed) * (int64_t)n / 4;
    return us < 1000000 ? 1 : us > 60000000 ? 60 : (int)(us / 1000000);
}

/* 503: what is asked for would wait in a line that is full. */
static void refuse_line(struct ld_call *c)
{
    struct ld_server *s = c->server;
    const bool is_transfer = c->route->place == LD_AS_TRANSFER;
    const size_t max = is_transfer ? s->limits.transfers : s->limits.work;
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, 503,
                   is_transfer ? "too many copies and imports wait already" : "too many requests wait already");
    ld_problem_limit(&p, is_transfer ? "transfers" : "work", (double)max);
    p.retry_after_s = line_s(is_transfer ? &s->us_per_transfer : &s->us_per_work, max);
    ld_count(&s->metrics.limited[is_transfer ? LD_LIMITED_TRANSFERS : LD_LIMITED_WORK], 1);
    leave_line(c);
    ld_call_give_up(c, &p);
}

/* Half of the line is the most that one tenant may have of it, so that another finds room. Who has waited for the
 * tenant does not wait in that line as well for what a serving thread would have done at once. */
static bool enter_line(struct ld_call *c)
{
    const struct ld_limits *limits = &c->server->limits;
    struct ld_sched *sched = c->server->sched;
    if (c->route->place == LD_AS_TRANSFER)
        return ld_sched_give(sched, LD_TRANSFERS, run_job, c, limits->transfers) == 0;
    if (c->was_waiting)
        return ld_sched_give(sched, c->route->place == LD_IN_SERVING ? LD_POOL : LD_POOL_SERVES, run_job, c,
                             SIZE_MAX) == 0;
    c->is_counted = c->tenant != NULL;
    if (c->is_counted && atomic_fetch_add(ld_tenant_n_served(c->tenant), 1) >= (limits->work + 1) / 2)
        return false;
    return ld_sched_give(sched, LD_POOL_SERVES, run_job, c, limits->work) == 0;
}

/* Work of another thread, for which the client may not wait. False after a 503, and the tenant is let go. */
static bool leave_connection(struct ld_call *c)
{
    struct ld_problem p;
    if (ld_request_keep_head(c->request) == 0)
        return true;
    ld_problem_init(&p);
    ld_problem_set(&p, 503, "the server cannot take more work now");
    ld_call_give_up(c, &p);
    return false;
}

/* A pool that cannot take it means 503, not a lost request. */
void ld_call_put_on_pool(struct ld_call *c)
{
    if (leave_connection(c) && !enter_line(c))
        refuse_line(c);
}

void ld_call_beside(struct ld_call *c)
{
    (void)ld_tenant_hold(c->tenant); /* for the other thread */
    ld_call_put_on_pool(c);
}

/* --- those that wait ------------------------------------------------------------------------------------------ */

/* In the thread that opened the tenant, which has others to open: the handler runs in another. The line takes it in any
 * case: how many wait for a tenant has a bound of its own. */
static void opened(struct ld_tenant_wait *wait, struct ld_tenant *t, const struct ld_problem *p)
{
    struct ld_call *c = (struct ld_call *)(void *)wait;
    const bool is_to_make = c->server->world.shared != NULL && c->route->opens == LD_TENANT_OR_NEW &&
                            p->status == 404; /* the shared log does not know it either */
    c->tenant = t;
    c->was_waiting = true;
    if (t == NULL && !is_to_make)
        ld_call_refuse(c, p);
    else if ((c->server->world.shared == NULL || !ld_after_waits(c)) && ld_call_pay(c))
        ld_call_put_on_pool(c);
}

bool ld_call_await(struct ld_call *c)
{
    c->wait.done = opened;
    return !leave_connection(c) || ld_tenants_await(c->server->tenants, c->name, &c->wait);
}

void ld_call_resume(struct ld_call *c, const struct ld_problem *p)
{
    c->was_waiting = true;
    if (p->status != 0)
        ld_call_give_up(c, p);
    else if (ld_call_pay(c))
        ld_call_put_on_pool(c);
}
