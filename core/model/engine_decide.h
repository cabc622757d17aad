/* A decision, within the model: of one place or of several, and past the policy. */
#ifndef KB_ENGINE_DECIDE_H
#define KB_ENGINE_DECIDE_H

#include "model/engine_state.h"

struct kb_query;
struct kb_slot_query;
struct kb_decision;

/* Several places that one decision fills (engine_slots.c): the one in hand, and what stands before it. */
struct kb_placed {
    const struct kb_slot_query *slot;
    size_t n, n_slots;
    const char **arm; /* [n] */
    struct kb_beside beside;
};
/* As kb_engine_decide, above what stands in the arena. */
enum kb_err kb_engine_decide_above(const struct kb_engine *e, const struct kb_query *q, struct kb_scratch *s,
                                   struct kb_decision *out, struct kb_errmsg *msg);
size_t kb_engine_decide_bytes(const struct kb_engine *e, size_t n_candidates, size_t n_exclude);

/* How a decision was routed (engine_route.c). */
struct kb_way {
    enum kb_route route;
    size_t index;      /* of the candidate that it names, SIZE_MAX: to be drawn */
    double propensity; /* of that candidate */
    int64_t assigned_until_ms;
};
/* ids are those of the candidates. O(candidates) where there is anything but a policy. */
struct kb_way kb_engine_find_way(const struct kb_engine *e, const struct kb_query *q, const struct kb_candidates *cand,
                                 const char *const *ids);
/* The arm's place among the candidates, whose names are ids; SIZE_MAX: it is none of them. */
size_t kb_engine_place_of(const struct kb_engine *e, const struct kb_candidates *cand, const char *const *ids,
                          const char *id);
/* For a way that is not the policy's. */
void kb_way_propensities(const struct kb_way *way, size_t n, double *propensity);

#endif
