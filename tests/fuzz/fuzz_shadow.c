/* A log from elsewhere through a shadow: each line is fed or refused, and what comes of it all is a model that decides.
 * The shadow has the dimensions that the log has itself, so that most of it is taken, and a dictionary of its own. */
#include <string.h>

#include "model/engine_read.h"
#include "model/engine_write.h"
#include "evaluate/shadow.h"
#include "model/summary.h"
#include "targets.h"

#define MOST_DIM 8u

static void feed(struct ld_shadow *s, const char *at, const char *end)
{
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t length = stop != NULL ? (size_t)(stop - at) : (size_t)(end - at);
        struct ld_fold f;

        ld_fold_init(&f, ld_shadow_sink(s));
        const int rc = ld_fold_text(&f, 1, at, length);
        FUZZ_EXPECT(rc == 0 ? f.fault.status == 0 : f.fault.status >= 400);
        at += length + 1;
    }
}

static void check_decision(struct ld_shadow *s, const struct kb_spec *spec)
{
    const double zeros[MOST_DIM] = {0};
    const struct kb_ev_slot shown = {"a", spec->arm_dim > 0 ? zeros : NULL};
    const struct kb_event decided = {.type = KB_EV_DECIDED,
                                     .as.decided = {.decision = "d",
                                                    .user = "u",
                                                    .context = spec->context_dim > 0 ? zeros : NULL,
                                                    .slots = &shown,
                                                    .n_slots = 1,
                                                    .among = &shown,
                                                    .n_among = 1}};
    const double p = ld_shadow_probability(s, &decided, NULL);

    FUZZ_EXPECT(!kb_engine_is_whole(ld_shadow_engine(s)) || p == 1);
}

int fuzz_shadow(const uint8_t *data, size_t n)
{
    uint64_t n_events;
    struct kb_engine *e = fuzz_fold_log(data, n, &n_events);
    const uint32_t context_dim = kb_engine_spec(e)->context_dim, arm_dim = kb_engine_spec(e)->arm_dim;
    struct ld_shadow *s = NULL;
    struct kb_spec spec;

    kb_engine_free(e);
    if (context_dim > MOST_DIM || arm_dim > MOST_DIM)
        return 0;
    FUZZ_EXPECT(kb_spec_preset(&spec, "laplaced-kors", context_dim, arm_dim) == KB_OK);
    FUZZ_EXPECT(ld_shadow_new(&s, &spec, NULL) == KB_OK);
    feed(s, (const char *)data, (const char *)data + n);
    check_decision(s, &spec);
    ld_shadow_free(s);
    return 0;
}
