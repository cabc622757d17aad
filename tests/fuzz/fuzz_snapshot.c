/* The body of a snapshot whose checksum is right and whose content is anything: refused, or an engine that can be
 * asked, saved, read again and taught. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "model/commit.h"
#include "model/engine_read.h"
#include "model/engine_write.h"
#include "targets.h"

/* Arms of the catalogue, for a user from nowhere. */
static void ask(const struct kb_engine *e)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    double *context = calloc(spec->context_dim + 1u, sizeof *context);
    const struct kb_query q = {.user = "nobody", .context = context, .key = 1};
    struct kb_scratch *s = NULL;
    struct kb_decision d;

    FUZZ_EXPECT(context != NULL && kb_engine_scratch_new(&s) == KB_OK);
    if (kb_engine_fit_scratch(e, s, 0, 0) == KB_OK && kb_engine_decide(e, &q, s, &d, NULL) == KB_OK)
        FUZZ_EXPECT(d.chosen < d.n);
    kb_engine_scratch_free(s);
    free(context);
}

static uint64_t next_seq(const struct kb_engine *e)
{
    struct kb_engine_counts counts;

    kb_engine_counts(e, &counts);
    return counts.seq + 1;
}

/* Folded or refused. */
static void fold(struct kb_engine *e, struct kb_event ev)
{
    ev.seq = next_seq(e);
    (void)kb_engine_fold(e, &ev, NULL);
}

/* What may come next: rewards of what is open, a window that closes, an observation, a rebuild, and a correction. */
static void go_on(struct kb_engine *e)
{
    const struct kb_spec *spec = kb_engine_spec(e);
    double *zeros = calloc(spec->context_dim + spec->arm_dim + 1u, sizeof *zeros);
    const char *ids[4] = {NULL};
    char text[4][KB_ID_MAX_BYTES + 1] = {""};
    const size_t n = kb_engine_expired(e, INT64_MAX, ids, 4);
    struct kb_event next;

    FUZZ_EXPECT(zeros != NULL);
    for (size_t i = 0; i < n; i++)
        (void)snprintf(text[i], sizeof text[i], "%s", ids[i]);
    for (size_t i = 0; i < n; i++)
        fold(e, (struct kb_event){.type = KB_EV_REWARDED, .as.rewarded = {.decision = text[i], .reward = 0.5}});
    if (n > 0)
        fold(e, (struct kb_event){.type = KB_EV_EXPIRED,
                                  .as.expired = {.decision = text[n - 1], .has_reward = true, .reward = 1}});
    fold(e, (struct kb_event){.type = KB_EV_OBSERVED,
                              .as.observed = {.user = "nobody", .context = zeros, .arm = {"a0", zeros}, .reward = 1}});
    if (kb_engine_rebuild(e, next_seq(e), &next) == KB_OK && next.type == KB_EV_DICTIONARY)
        fold(e, next);
    if (n > 0)
        fold(e, (struct kb_event){.type = KB_EV_REWARDED, .as.rewarded = {.decision = text[0], .reward = -0.5}});
    free(zeros);
}

int fuzz_snapshot(const uint8_t *data, size_t n)
{
    struct kb_engine *e = NULL, *copy = NULL;
    struct kb_writer w;

    FUZZ_EXPECT(kb_engine_new(&e, (struct kb_hash_key){{1, 2}}) == KB_OK);
    if (kb_engine_load(e, data, n) == KB_OK) {
        kb_writer_init(&w);
        FUZZ_EXPECT(kb_engine_save(e, &w) == KB_OK && w.rc == KB_OK &&
                    kb_engine_new(&copy, (struct kb_hash_key){{1, 2}}) == KB_OK);
        FUZZ_EXPECT(kb_engine_load(copy, w.data, w.n) == KB_OK && kb_engine_digest(copy) == kb_engine_digest(e));
        ask(e);
        go_on(e);
        ask(e);
        kb_engine_free(copy);
        kb_writer_close(&w);
    }
    kb_engine_free(e);
    return 0;
}
