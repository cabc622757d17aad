/* GET /tenants/{t}/graph/near: the users around one, with the model's user kernel between him and them.
 *
 * Under the read lock the part of the graph is copied, which costs what is shown and not what the graph has. Where the
 * graph is too large to be inverted, what is left is solved without any lock, and for two seconds at most: kernel
 * values that are missing then are null. The model keeps what was solved, so that whoever asks again gets further. */
#include "api/api.h"

#include <string.h>

#include "base/clock.h"
#include "json/json_out_near.h"

#define MOST_US 2000000

struct wish {
    const char *user;
    uint64_t hops, limit;
};

static bool find_wish(const struct ld_call *c, struct wish *w, struct ld_problem *p)
{
    w->user = ld_call_id(c, "user", p);
    return w->user != NULL && ld_call_number(c, "hops", &w->hops, p) == 0 &&
           ld_call_number(c, "limit", &w->limit, p) == 0;
}

static bool charge(struct ld_call *c, const struct wish *w, struct ld_problem *p)
{
    const struct ld_settings *settings;
    const bool is_solved = kb_near_is_solved(ld_tenant_read_lock(c->tenant, &settings));
    ld_tenant_read_unlock(c->tenant);
    return ld_charge(c, ld_price_near((size_t)w->limit, is_solved), p);
}

static enum kb_err look(struct ld_tenant *t, const struct wish *w, struct kb_near *near, struct ld_text *names)
{
    const struct ld_settings *settings;
    const struct kb_engine *e = ld_tenant_read_lock(t, &settings);
    const enum kb_err rc = kb_near_look(e, w->user, (uint32_t)w->hops, (size_t)w->limit, near);
    for (size_t i = 0; rc == KB_OK && i < near->ball.n; i++) {
        const char *name = i == 0 ? w->user : kb_engine_user(e, near->user[i].index);
        ld_text_raw(names, name, strlen(name) + 1);
    }
    ld_tenant_read_unlock(t);
    return rc;
}

static bool has_time(void *arg)
{
    const int64_t *end = arg;
    return ld_monotonic_us() < *end;
}

/* A system that double precision cannot solve leaves values unknown; what is short of memory answers 503. */
bool api_near(struct ld_call *c, struct ld_reply *out)
{
    struct wish w;
    struct kb_near near;
    struct ld_text names;
    int64_t end = ld_monotonic_us() + MOST_US;
    if (!find_wish(c, &w, out->problem) || !charge(c, &w, out->problem))
        return true;
    ld_text_init(&names);
    if (look(c->tenant, &w, &near, &names) == KB_OK) {
        if (kb_near_finish(&near, has_time, &end) != KB_ENOMEM && !names.is_failed)
            out->text = ld_encode_near(&near, names.data, w.hops, &out->n);
        kb_near_close(&near);
    }
    ld_text_close(&names);
    return true;
}
