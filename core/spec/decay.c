/* Halvings counted from events: see decay.h.
 *
 * Numerical notes. The count is a product, steps times rate or time over half-life, and not a running sum, so its error
 * is one rounding however long the log is: after 10^9 events of discount 0.999 weights are good to 10^-7 of themselves.
 * Elapsed milliseconds are exact in double. */
#include "spec/decay.h"

#include <math.h>

#include "base/hash.h"
#include "base/magnitude.h"

#define MOST_STEPS (UINT64_C(1) << 53) /* that a double counts */

double kb_decay_halvings(const struct kb_decay *d, const struct kb_forgetting_spec *f)
{
    switch (f->type) {
    case KB_FORGET_DISCOUNT:
        return d->base - (double)d->steps * log2(f->discount);
    case KB_FORGET_HALF_LIFE:
        return d->base + ((double)d->last_ms - (double)d->first_ms) / (1000 * f->half_life_s);
    default:
        return d->base;
    }
}

double kb_decay_unit(double halvings)
{
    return floor(halvings / KB_DECAY_STEP) * KB_DECAY_STEP;
}

/* The first event has nothing to forget. Each type counts what it reads, so that two logs which differ in nothing else
 * come to the same state. */
void kb_decay_step(struct kb_decay *d, const struct kb_forgetting_spec *f, int64_t at_ms)
{
    const bool is_first = !d->has_begun;

    if (f->type == KB_FORGET_NONE)
        return;
    d->has_begun = true;
    if (f->type == KB_FORGET_DISCOUNT)
        d->steps += !is_first;
    else if (is_first)
        d->first_ms = d->last_ms = at_ms;
    else if (at_ms > d->last_ms)
        d->last_ms = at_ms;
}

void kb_decay_change(struct kb_decay *d, const struct kb_forgetting_spec *from)
{
    *d =
        (struct kb_decay){.base = kb_decay_halvings(d, from), .n_changes = d->n_changes, .last_change = d->last_change};
}

void kb_decay_jump(struct kb_decay *d, double left, uint64_t seq)
{
    d->base -= log2(left);
    d->n_changes++;
    d->last_change = seq;
}

/* What a type does not read does not tell two of them apart. */
bool kb_forgetting_is_same(const struct kb_forgetting_spec *a, const struct kb_forgetting_spec *b)
{
    if (a->type != b->type)
        return false;
    if (a->type == KB_FORGET_DISCOUNT)
        return a->discount == b->discount;
    return a->type != KB_FORGET_HALF_LIFE || a->half_life_s == b->half_life_s;
}

bool kb_decay_is_none(const struct kb_decay *d)
{
    return !d->has_begun && !(d->base > 0);
}

bool kb_decay_is_valid(const struct kb_decay *d)
{
    return d->base >= 0 && d->base <= KB_MOST_HALVINGS && d->steps <= MOST_STEPS && d->last_ms >= d->first_ms;
}

uint64_t kb_decay_digest(const struct kb_decay *d, uint64_t h)
{
    return kb_decay_events_digest(d, kb_hash_double(h, d->base));
}

uint64_t kb_decay_events_digest(const struct kb_decay *d, uint64_t h)
{
    h = kb_hash_u64(h, d->steps);
    h = kb_hash_u64(kb_hash_u64(h, (uint64_t)d->first_ms), (uint64_t)d->last_ms);
    h = kb_hash_u64(h, d->has_begun);
    return d->n_changes > 0 ? kb_hash_u64(kb_hash_u64(h, d->n_changes), d->last_change) : h;
}

void kb_decay_save(const struct kb_decay *d, struct kb_writer *w)
{
    kb_put_double(w, d->base);
    kb_put_u64(w, d->steps);
    kb_put_u64(w, (uint64_t)d->first_ms);
    kb_put_u64(w, (uint64_t)d->last_ms);
    kb_put_u64(w, d->has_begun);
    kb_put_u64(w, d->n_changes);
    kb_put_u64(w, d->last_change);
}

enum kb_err kb_decay_load(struct kb_decay *d, struct kb_reader *r)
{
    d->base = kb_get_double(r);
    d->steps = kb_get_u64(r);
    d->first_ms = (int64_t)kb_get_u64(r);
    d->last_ms = (int64_t)kb_get_u64(r);
    d->has_begun = kb_get_u64(r) != 0;
    d->n_changes = kb_get_u64(r);
    d->last_change = kb_get_u64(r);
    if (r->rc != KB_OK)
        return r->rc;
    return kb_decay_is_valid(d) ? KB_OK : KB_ECORRUPT;
}
