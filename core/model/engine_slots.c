/* Several places that one decision fills, one after the other (engine_read.h). Each is a decision of what is left; what
 * they know of each other stands at the arena's beginning, below what a decision takes and gives back. */
#include "model/engine_decide.h"

#include <math.h>

#include "base/hash.h"
#include "model/engine_read.h"
#include "posterior/learning.h"

enum kb_err kb_engine_fit_slots(const struct kb_engine *e, struct kb_scratch *s, const struct kb_query *q,
                                const struct kb_slot_query *slots, size_t n)
{
    size_t most = 0; /* that a slot excludes */

    for (size_t i = 0; i < n; i++)
        most = slots[i].n_exclude > most ? slots[i].n_exclude : most;
    kb_arena_reset(&s->arena, 0);
    return kb_posterior_fit_scratch(e->posterior, s,
                                    kb_engine_decide_bytes(e, q->n_candidates, q->n_exclude + most + n) +
                                        kb_beside_bytes(e->posterior, n) + kb_arena_need(n));
}

/* What one more reward would count, in the unit of those that the model has. */
static double weight_now(const struct kb_engine *e)
{
    return exp2(kb_decay_halvings(&e->decay, &e->spec.forgetting) - kb_posterior_unit(e->posterior));
}

static enum kb_err check_contexts(const struct kb_engine *e, const struct kb_slot_query *slots, size_t n,
                                  struct kb_errmsg *msg)
{
    enum kb_err rc = KB_OK;

    for (size_t i = 0; rc == KB_OK && i < n; i++)
        if (slots[i].context != NULL)
            rc = kb_fail_within(kb_measure_context(&e->spec, slots[i].context, msg), msg, "/slots", i);
    return rc;
}

enum kb_err kb_engine_decide_slots(const struct kb_engine *e, const struct kb_query *q,
                                   const struct kb_slot_query *slots, size_t n, struct kb_scratch *s,
                                   enum kb_err (*take)(void *arg, size_t slot, const struct kb_decision *d), void *arg,
                                   struct kb_errmsg *msg)
{
    struct kb_placed placed = {.n_slots = n};
    struct kb_query one = *q;
    enum kb_err rc = check_contexts(e, slots, n, msg);

    kb_arena_reset(&s->arena, 0);
    placed.arm = kb_arena_bytes(&s->arena, n * sizeof *placed.arm);
    kb_beside_init(&placed.beside, e->posterior, n, weight_now(e), s);
    const size_t mark = kb_arena_mark(&s->arena);
    one.placed = &placed;
    for (; rc == KB_OK && placed.n < n; placed.n++) {
        struct kb_decision d;

        placed.slot = &slots[placed.n];
        one.context = placed.slot->context != NULL ? placed.slot->context : q->context;
        one.key = placed.n > 0 ? kb_hash_u64(q->key, placed.n) : q->key;
        rc = kb_engine_decide_above(e, &one, s, &d, msg);
        if (rc != KB_OK)
            break;
        placed.arm[placed.n] = d.arm[d.chosen];
        rc = take(arg, placed.n, &d);
        kb_arena_reset(&s->arena, mark);
    }
    return rc;
}
