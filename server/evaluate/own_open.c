/* See own_open.h. */
#include "evaluate/own_open.h"

#include <math.h>
#include <search.h>
#include <string.h>

#include "base/alloc.h"

static const char *id_of(const struct ld_own_open *o)
{
    return o->ev.as.decided.decision;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(id_of(a), id_of(b));
}

struct ld_own_open *ld_own_opens_find(const struct ld_own_opens *s, const char *id)
{
    struct ld_own_open wanted = {.ev.as.decided.decision = id};
    struct ld_own_open *const *found = tfind(&wanted, &s->tree, by_id);

    return found != NULL ? *found : NULL;
}

void ld_own_opens_unlink(struct ld_own_opens *s, struct ld_own_open *o)
{
    tdelete(o, &s->tree, by_id);
    *(o->before != NULL ? &o->before->after : &s->first) = o->after;
    *(o->after != NULL ? &o->after->before : &s->last) = o->before;
}

/* A writer of copies: with `at` NULL it measures. */
struct copy {
    char *at;
    size_t n;
    uint32_t context_dim, arm_dim;
};

static void *put(struct copy *c, const void *bytes, size_t n)
{
    const size_t room = (n + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    char *here = c->at;

    if (bytes == NULL)
        return NULL;
    c->n += room;
    if (here == NULL)
        return NULL;
    memcpy(here, bytes, n);
    c->at += room;
    return here;
}

static const char *put_text(struct copy *c, const char *text)
{
    return put(c, text, strlen(text) + 1);
}

static const struct kb_ev_slot *put_slots(struct copy *c, const struct kb_ev_slot *from, size_t n)
{
    struct kb_ev_slot *to = put(c, from, n * sizeof *from), measured;

    for (size_t i = 0; from != NULL && i < n; i++) {
        struct kb_ev_slot *slot = to != NULL ? &to[i] : &measured;
        slot->arm = put_text(c, from[i].arm);
        slot->features = put(c, from[i].features, c->arm_dim * sizeof(double));
    }
    return to;
}

static const struct kb_ev_draw *put_draws(struct copy *c, const struct kb_ev_draw *from, size_t n)
{
    struct kb_ev_draw *to = put(c, from, n * sizeof *from), measured;

    for (size_t i = 0; from != NULL && i < n; i++) {
        struct kb_ev_draw *draw = to != NULL ? &to[i] : &measured;
        draw->id = put_text(c, from[i].id);
        draw->context = put(c, from[i].context, c->context_dim * sizeof(double));
    }
    return to;
}

static double *put_rewards(struct copy *c, size_t n)
{
    static const double none[KB_MAX_SLOTS];
    double *to = put(c, none, n * sizeof *none);

    for (size_t i = 0; to != NULL && i < n; i++)
        to[i] = (double)NAN;
    return to;
}

static void copy_decided(struct copy *c, const struct kb_event *from, struct ld_own_open *o)
{
    struct kb_event *to = &o->ev;
    const size_t n = from->as.decided.draws != NULL ? from->as.decided.n_slots : 1;

    *to = *from;
    to->by = NULL;
    to->as.decided.decision = put_text(c, from->as.decided.decision);
    to->as.decided.user = put_text(c, from->as.decided.user);
    to->as.decided.context = put(c, from->as.decided.context, c->context_dim * sizeof(double));
    to->as.decided.slots = put_slots(c, from->as.decided.slots, n);
    to->as.decided.draws = put_draws(c, from->as.decided.draws, n);
    to->as.decided.among = put_slots(c, from->as.decided.among, from->as.decided.n_among);
    to->as.decided.n_slots = n;
    to->as.decided.odds = NULL;
    o->reward = put_rewards(c, n);
}

struct ld_own_open *ld_own_opens_add(struct ld_own_opens *s, const struct kb_event *decided, uint32_t context_dim,
                                     uint32_t arm_dim)
{
    struct copy size = {.context_dim = context_dim, .arm_dim = arm_dim};
    struct ld_own_open measured;

    copy_decided(&size, decided, &measured);
    struct ld_own_open *o = kb_array(1, 1, sizeof *o + size.n);
    if (o == NULL)
        return NULL;
    struct copy c = {.at = (char *)(o + 1), .context_dim = context_dim, .arm_dim = arm_dim};
    copy_decided(&c, decided, o);
    o->context_dim = context_dim;
    o->arm_dim = arm_dim;
    o->is_deferred = decided->as.decided.is_deferred;
    if (tsearch(o, &s->tree, by_id) == NULL) {
        kb_free(o);
        return NULL;
    }
    o->before = s->last;
    *(s->last != NULL ? &s->last->after : &s->first) = o;
    s->last = o;
    return o;
}

void ld_own_opens_close(struct ld_own_opens *s)
{
    struct ld_own_open *after;

    for (struct ld_own_open *o = s->first; o != NULL; o = after) {
        after = o->after;
        ld_own_opens_unlink(s, o);
        kb_free(o);
    }
}
