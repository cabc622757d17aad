/* Who has not read a rewriting of a shared log yet: see shared_await.h. */
#include "tenant/shared_await.h"

#include <time.h>

#include "base/clock.h"
#include "tenant/tenant_state.h"

#define LOOK_MS 10

static void add_name(void *arg, const char *node)
{
    struct ld_laggards *l = arg;

    ld_text_item(&l->names);
    ld_text_string(&l->names, node);
    l->is_any = true;
}

void ld_laggards_look(struct ld_laggards *l, const struct ld_tenant *t, uint64_t generation)
{
    struct ld_shared_log *log = t->world->shared;
    struct ld_message why;

    ld_text_close(&l->names);
    ld_text_init(&l->names);
    l->is_any = false;
    if (log->ops->laggards(log, generation, add_name, l, &why) != LD_SHARED_OK)
        add_name(l, t->world->node); /* nobody can be asked */
}

void ld_laggards_wait(struct ld_laggards *l, const struct ld_tenant *t, uint64_t generation)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    const int64_t deadline = ld_monotonic_us() + 1000 * t->world->log_wait_ms;

    ld_laggards_look(l, t, generation);
    while (l->is_any && ld_monotonic_us() < deadline && !atomic_load(&t->is_halting)) {
        (void)nanosleep(&pause, NULL);
        ld_laggards_look(l, t, generation);
    }
}

void ld_laggards_tell(const struct ld_laggards *l, struct ld_text *out)
{
    if (!l->is_any)
        return;
    ld_text_key(out, "waiting_for");
    ld_text_lit(out, "[");
    ld_text_raw(out, l->names.data, l->names.n);
    ld_text_lit(out, "]");
}

void ld_laggards_close(struct ld_laggards *l)
{
    ld_text_close(&l->names);
}
