/* Decisions of a log: see decisions.h. Whatever an arm needs is there once it has its number, so that nothing can fail
 * behind that. */
#include "evaluate/decisions.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_key.h"
#include "base/hashing.h"

#define MAX_TITLE 60 /* bytes of a title in a message */

int ld_decisions_init(struct ld_decisions *d, const struct ld_decisions_options *o)
{
    *d = (struct ld_decisions){.o = *o, .epoch = 1};
    kb_ids_init(&d->arms, ld_hash_key());
    d->context = kb_array((size_t)o->context_dim + 1, 1, sizeof *d->context);
    return d->context != NULL ? 0 : ld_decisions_no_memory(d);
}

void ld_decisions_close(struct ld_decisions *d)
{
    for (size_t i = 0; i < d->arms.n && d->features != NULL; i++)
        kb_free(d->features[i]);
    kb_free(d->features);
    kb_free(d->is_offered);
    kb_free(d->was_offered);
    kb_free(d->offered);
    kb_free((void *)d->offered_features);
    kb_free(d->place);
    kb_free(d->named);
    kb_free((void *)d->named_features);
    kb_free(d->vectors);
    kb_free(d->slots);
    kb_free(d->slot_contexts);
    kb_free(d->slot_arm);
    kb_free((void *)d->slot_features);
    kb_free(d->context);
    kb_ids_close(&d->arms);
    *d = (struct ld_decisions){.o = d->o};
}

void ld_decisions_begin(struct ld_decisions *d)
{
    d->line = d->n_read = d->n_bad = 0;
    memset(d->skipped, 0, sizeof d->skipped);
}

/* --- faults ------------------------------------------------------------------------------------------------ */

int ld_decisions_fail(struct ld_decisions *d, const char *field, const char *fmt, ...)
{
    char text[160];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *title = d->title;
    if (title != NULL && strlen(title) > MAX_TITLE)
        title += strlen(title) - MAX_TITLE; /* its end says more than its beginning */
    return ld_fail(&d->why, "%s%s%zu: %.30s%s%s", title != NULL ? title : "event", title != NULL ? ":" : " ", d->line,
                   field != NULL ? field : "", field != NULL ? ": " : "", text);
}

int ld_decisions_no_memory(struct ld_decisions *d)
{
    (void)ld_fail(&d->why, "%s", kb_strerror((int)KB_ENOMEM));
    return LD_DECISIONS_BROKEN;
}

/* Reasons are constants of the sources, so they are few: a source has fewer than there is room for. */
void ld_decisions_skip(struct ld_decisions *d, const char *reason)
{
    for (size_t i = 0; i < LD_DECISIONS_REASONS; i++)
        if (d->skipped[i].reason == NULL || strcmp(d->skipped[i].reason, reason) == 0) {
            d->skipped[i].reason = reason;
            d->skipped[i].n++;
            return;
        }
}

size_t ld_decisions_most_skipped(const struct ld_decisions *d)
{
    size_t most = 0;

    for (size_t i = 1; i < LD_DECISIONS_REASONS; i++)
        if (d->skipped[i].n > d->skipped[most].n)
            most = i;
    return most;
}

int ld_decisions_check(struct ld_decisions *d, const struct ld_logged *ev)
{
    if (!isnan(ev->propensity) && !(ev->propensity > 0.0 && ev->propensity <= 1.0 + 1e-6))
        return ld_decisions_fail(d, "propensity", "%g is not in (0, 1]", ev->propensity);
    if (!isfinite(ev->reward) && !(isnan(ev->reward) && (ev->slot != NULL || d->o.all_slots)))
        return ld_decisions_fail(d, "reward", "expected a finite number");
    return 0;
}

/* What the caller says of a log without propensities. It must not overrule one that has them. 1, or
 * LD_DECISIONS_BROKEN. */
static int say_propensity(struct ld_decisions *d, struct ld_logged *ev)
{
    double own = ev->propensity;

    if (d->o.propensity == 0)
        return 1;
    for (size_t i = 0; isnan(own) && i < ev->n_more; i++)
        own = ev->more[i].propensity;
    if (!isnan(own)) {
        (void)ld_decisions_fail(d, NULL, "this decision has a propensity of its own, %g: leave --propensity out", own);
        return LD_DECISIONS_BROKEN;
    }
    ev->propensity = d->o.propensity > 0 ? d->o.propensity : 1 / (double)ev->n;
    for (size_t i = 0; i < ev->n_more; i++)
        d->slots[i + 1].propensity = d->o.propensity > 0 ? d->o.propensity : 1 / (double)ev->more[i].n;
    return 1;
}

int ld_decisions_judge(struct ld_decisions *d, struct ld_logged *ev, int rc)
{
    if (rc == 1)
        rc = say_propensity(d, ev);
    if (rc == 1) {
        ev->line = d->line;
        d->n_read++;
    }
    if (rc >= 0 || rc == LD_DECISIONS_BROKEN || d->n_bad >= d->o.skip_bad)
        return rc >= 0 ? rc : LD_DECISIONS_BROKEN;
    if (d->n_bad++ == 0)
        d->first_bad = d->why;
    return -1;
}

/* --- arms -------------------------------------------------------------------------------------------------- */

/* *array, of `from` items, gets room for `to`, the new ones zero. False: no memory, nothing changed. */
static bool widen(void *array, size_t from, size_t to, size_t size)
{
    void *old;
    char *wider;

    memcpy(&old, array, sizeof old); /* of any type */
    if ((wider = kb_regrow(old, to, size)) == NULL)
        return false;
    memset(wider + from * size, 0, (to - from) * size);
    memcpy(array, &wider, sizeof wider);
    return true;
}

static bool make_room(struct ld_decisions *d, size_t n)
{
    const size_t from = d->cap_arms, to = 2 * n + 16;

    if (n <= from)
        return true;
    if (!widen(&d->features, from, to, sizeof *d->features) || !widen(&d->is_offered, from, to, sizeof(bool)) ||
        !widen(&d->was_offered, from, to, sizeof(bool)) || !widen(&d->offered, from, to, sizeof *d->offered) ||
        !widen(&d->offered_features, from, to, sizeof *d->offered_features) ||
        !widen(&d->place, from, to, sizeof *d->place))
        return false;
    d->cap_arms = to;
    return true;
}

uint32_t ld_decisions_arm(struct ld_decisions *d, const char *id)
{
    const struct ld_hasher by_name = {d->o.arm_dim, d->o.hash_seed};
    const size_t n = strlen(id);
    uint32_t arm = kb_ids_find(&d->arms, id);
    double *x = NULL;

    if (arm != KB_ID_NONE)
        return arm;
    if (n == 0 || n > KB_ID_MAX_BYTES) {
        (void)ld_decisions_fail(d, "arm", "expected an id of 1 to %u bytes", KB_ID_MAX_BYTES);
        return KB_ID_NONE;
    }
    if (!make_room(d, d->arms.n + 1) || kb_ids_reserve(&d->arms, 1, n + 1) != KB_OK ||
        (d->o.arm_dim > 0 && (x = kb_array(d->o.arm_dim, 1, sizeof *x)) == NULL)) {
        (void)ld_decisions_no_memory(d);
        return KB_ID_NONE;
    }
    arm = kb_ids_add(&d->arms, id);
    d->features[arm] = x;
    ld_hash_category(&by_name, "arm", id, x);
    return arm;
}

double *ld_decisions_arm_features(struct ld_decisions *d, uint32_t arm)
{
    if (d->o.arm_dim > 0)
        memset(d->features[arm], 0, d->o.arm_dim * sizeof(double));
    return d->features[arm];
}

void ld_decisions_offer(struct ld_decisions *d, uint32_t arm, bool is_offered)
{
    if (d->is_offered[arm] != is_offered)
        d->epoch++;
    d->is_offered[arm] = is_offered;
}

void ld_decisions_count(struct ld_decisions *d)
{
    d->n_counted = 0;
    for (size_t i = 0; i < d->arms.n; i++) {
        d->was_offered[i] = d->is_offered[i];
        d->n_counted += d->is_offered[i];
    }
}

static void list_offered(struct ld_decisions *d)
{
    d->n_offered = 0;
    for (uint32_t i = 0; i < d->arms.n; i++) {
        d->place[i] = SIZE_MAX;
        if (!d->is_offered[i])
            continue;
        d->place[i] = d->n_offered;
        d->offered_features[d->n_offered] = d->features[i];
        d->offered[d->n_offered++] = i;
    }
    d->list_epoch = d->epoch;
}

size_t ld_decisions_n_offered(struct ld_decisions *d)
{
    if (d->list_epoch != d->epoch)
        list_offered(d);
    return d->n_offered;
}

void ld_decisions_candidates(struct ld_decisions *d, uint32_t chosen, struct ld_logged *ev)
{
    ld_decisions_offer(d, chosen, true);
    ev->n = ld_decisions_n_offered(d);
    ev->epoch = d->epoch;
    ev->arm = d->offered;
    ev->features = d->o.arm_dim > 0 ? d->offered_features : NULL;
    ev->chosen = d->place[chosen];
}

int ld_decisions_name(struct ld_decisions *d, size_t n, struct ld_logged *ev)
{
    const size_t dim = d->o.arm_dim, from = d->cap_named;

    if (n > from) {
        if (!widen(&d->named, from, n, sizeof *d->named) ||
            !widen(&d->named_features, from, n, sizeof *d->named_features) ||
            !widen(&d->vectors, from * dim, n * dim + 1, sizeof *d->vectors))
            return ld_decisions_no_memory(d);
        d->cap_named = n;
    }
    for (size_t i = 0; i < n; i++)
        d->named_features[i] = d->vectors + i * dim;
    ev->n = n;
    ev->arm = d->named;
    ev->features = dim > 0 ? d->named_features : NULL;
    return 0;
}

size_t ld_decisions_name_arm(struct ld_decisions *d, size_t i, uint32_t arm)
{
    size_t k = 0;

    d->named[i] = arm;
    while (d->named[k] != arm)
        k++;
    return k;
}

/* --- slots --------------------------------------------------------------------------------------------------- */

int ld_decisions_slots(struct ld_decisions *d, size_t n, size_t n_all)
{
    const size_t dim = d->o.context_dim, from = d->cap_slots, cap = d->cap_slot_arms, wanted = n * (n_all + 1);

    if (n > from) {
        if (!widen(&d->slots, from, n, sizeof *d->slots) ||
            !widen(&d->slot_contexts, from * dim, n * dim + 1, sizeof *d->slot_contexts))
            return ld_decisions_no_memory(d);
        d->cap_slots = n;
    }
    if (wanted > cap) {
        if (!widen(&d->slot_arm, cap, wanted, sizeof *d->slot_arm) ||
            !widen(&d->slot_features, cap, wanted, sizeof *d->slot_features))
            return ld_decisions_no_memory(d);
        d->cap_slot_arms = wanted;
    }
    d->n_slot_arms = 0;
    return 0;
}

static bool is_shown(const struct ld_decisions *d, size_t n_slots, uint32_t arm)
{
    for (size_t k = 0; k < n_slots; k++)
        if (d->slots[k].arm[d->slots[k].chosen] == arm)
            return true;
    return false;
}

static void add_candidate(struct ld_decisions *d, struct ld_logged *slot, uint32_t arm, const double *features)
{
    d->slot_arm[d->n_slot_arms] = arm;
    d->slot_features[d->n_slot_arms++] = features;
    slot->n++;
}

struct ld_logged *ld_decisions_slot(struct ld_decisions *d, size_t i, const struct ld_logged *all, const bool *is_in,
                                    uint32_t chosen)
{
    struct ld_logged *slot = &d->slots[i];
    size_t at = SIZE_MAX;

    *slot = *all;
    slot->more = NULL;
    slot->n = slot->n_more = slot->epoch = 0;
    slot->logged = NULL;
    slot->arm = d->slot_arm + d->n_slot_arms;
    slot->features = all->features != NULL ? d->slot_features + d->n_slot_arms : NULL;
    for (size_t k = 0; k < all->n; k++) {
        if ((is_in != NULL && !is_in[k]) || is_shown(d, i, all->arm[k]))
            continue;
        at = all->arm[k] == chosen ? slot->n : at;
        add_candidate(d, slot, all->arm[k], all->features != NULL ? all->features[k] : NULL);
    }
    slot->chosen = at != SIZE_MAX ? at : slot->n;
    return slot;
}

void ld_decisions_slot_add(struct ld_decisions *d, struct ld_logged *slot, uint32_t arm)
{
    slot->chosen = slot->n;
    add_candidate(d, slot, arm, d->features[arm]);
}
