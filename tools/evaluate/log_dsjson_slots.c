/* Decisions with slots in dsjson, as VW's conditional bandits (CCB) and Azure Personalizer's multi-slot Rank write
 * them:
 *
 *   c._slots    [{"_id", "_inc", features}]    in the order in which they were filled. _inc: the actions, from 0,
 *               that may stand there; left out: all that stand in no slot before
 *   _outcomes   [{"_label_cost", "_a", "_p"}]  of each slot: minus its reward (left out: it has none); the action
 *               shown, from 0, and behind it others that might have been; their probabilities, given the slots before
 *
 * The context of a slot is the line's, with the slot's features as its member `slot`, as in /select (docs/SLOTS.md);
 * in lines that we wrote it is the vector x, where it is not the line's. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/log_dsjson.h"
#include "spec/event.h"

/* One slot in reading. */
struct slot {
    size_t k;
    const struct json_t *slot, *outcome;
    const struct ld_logged *all;
    bool is_ours;
};

__attribute__((format(printf, 4, 5))) static int fail(struct lc_log *log, const struct slot *s, const char *member,
                                                      const char *fmt, ...)
{
    char key[64], text[160];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)snprintf(key, sizeof key, "%s[%zu].%s", strcmp(member, "_inc") == 0 ? "c._slots" : "_outcomes", s->k, member);
    return ld_decisions_fail(&log->base, key, "%s", text);
}

/* The number of an action, from 0; `all->n`: it is none, with why. */
static size_t read_action(struct lc_log *log, const struct slot *s, const char *member, const struct json_t *v)
{
    double number;

    if (lc_json_number(v, &number) && number == floor(number) && number >= 0 && number < (double)s->all->n)
        return (size_t)number;
    (void)fail(log, s, member, "expected numbers of actions from 0 to %zu", s->all->n - 1);
    return s->all->n;
}

/* Marks who may stand in the slot. 0, or -1 with why. */
static int read_included(struct lc_log *log, const struct slot *s, const struct json_t *list)
{
    struct lc_dsjson *d = log->state;

    d->is_in = lc_room(d->is_in, &d->cap_in, s->all->n, sizeof *d->is_in);
    for (size_t i = 0; i < s->all->n; i++)
        d->is_in[i] = list == NULL;
    if (list != NULL && !lc_json_is_array(list))
        return fail(log, s, "_inc", "expected an array of numbers of actions");
    for (size_t i = 0; i < lc_json_length(list); i++) {
        const size_t action = read_action(log, s, "_inc", lc_json_at(list, i));
        if (action == s->all->n)
            return -1;
        d->is_in[action] = true;
    }
    return 0;
}

/* The place of action `arm` among the slot's candidates. */
static size_t place_of(const struct ld_logged *slot, uint32_t arm)
{
    size_t i = 0;

    while (i < slot->n && slot->arm[i] != arm)
        i++;
    return i;
}

/* _a with _p: where they add up to 1 they are the whole distribution, and who is not named had none of it. 0, or -1
 * with why. */
static int read_distribution(struct lc_log *log, const struct slot *s, struct ld_logged *out)
{
    const struct json_t *a = lc_json_get(s->outcome, "_a"), *p = lc_json_get(s->outcome, "_p");
    struct lc_dsjson *d = log->state;
    double *logged = d->logged + s->k * (s->all->n + 1), v, sum = 0;
    const size_t n = lc_json_length(a);

    if (p != NULL && lc_json_length(p) != n)
        return fail(log, s, "_p", "expected as many as _a has (%zu)", n);
    for (size_t i = 0; i < out->n; i++)
        logged[i] = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t action = read_action(log, s, "_a", lc_json_at(a, i));
        if (action == s->all->n)
            return -1;
        const size_t at = place_of(out, s->all->arm[action]);
        if (at == out->n)
            return fail(log, s, "_a", "action %zu stands in a slot before, or is not in _inc", action);
        if (p == NULL)
            continue;
        if (!lc_json_number(lc_json_at(p, i), &v) || !(v >= 0 && v <= 1 + 1e-6))
            return fail(log, s, "_p", "expected probabilities");
        sum += v;
        logged[at] += v;
    }
    if (p == NULL)
        return 0;
    (void)lc_json_number(lc_json_at(p, 0), &out->propensity);
    if (n > 1 && fabs(sum - 1) > 1e-3)
        return fail(log, s, "_p", "the probabilities add up to %g, not to 1", sum);
    if (n == out->n || n > 1)
        out->logged = logged;
    return 0;
}

static int read_reward(struct lc_log *log, const struct slot *s, struct ld_logged *out)
{
    const struct json_t *cost = lc_json_get(s->outcome, "_label_cost");
    double v;

    out->reward = log->base.o.default_reward;
    if (cost == NULL)
        return 0;
    if (!lc_json_number(cost, &v) || !isfinite(v))
        return fail(log, s, "_label_cost", "expected a number");
    out->reward = 0.0 - v; /* and not -0 */
    return 0;
}

static int read_context(struct lc_log *log, const struct json_t *c, const struct slot *s, struct ld_logged *out)
{
    const struct ld_hasher h = {log->base.o.context_dim, log->base.o.hash_seed};
    double *x = log->base.slot_contexts + s->k * h.dim;

    if (h.dim == 0 || (s->is_ours && lc_json_get(s->slot, "x") == NULL))
        return 0;
    out->context = x;
    if (s->is_ours)
        return lc_dsjson_features(log, &h, "c", s->slot, true, x);
    if (lc_json_get(c, "slot") != NULL)
        return ld_decisions_fail(&log->base, "c.slot", "the context of slots has no member of this name");
    struct json_t *merged = lc_json_merged(NULL, NULL, lc_json_get(s->slot, "j"));
    struct json_t *whole = lc_json_with(c, "slot", merged != NULL ? merged : s->slot);
    const int rc = lc_dsjson_features(log, &h, "c", whole, false, x);
    lc_json_free(merged);
    lc_json_free(whole);
    return rc;
}

/* The slot's name, else that of its outcome, else its place from 1. */
static const char *read_name(struct lc_dsjson *d, const struct slot *s)
{
    const struct json_t *id = lc_json_get(s->slot, "_id");
    const char *name = lc_json_id(id != NULL ? id : lc_json_get(s->outcome, "_id"), d->name[s->k]);

    if (name != NULL)
        return name;
    (void)snprintf(d->name[s->k], sizeof d->name[s->k], "#%zu", s->k + 1);
    return d->name[s->k];
}

static int read_slot(struct lc_log *log, const struct json_t *c, const struct slot *s)
{
    struct lc_dsjson *d = log->state;
    const struct json_t *included = lc_json_get(s->slot, "_inc");

    if (!lc_json_is_object(s->slot) || !lc_json_is_object(s->outcome))
        return ld_decisions_fail(&log->base, lc_json_is_object(s->slot) ? "_outcomes" : "c._slots",
                                 "expected an object at place %zu", s->k);
    if (read_included(log, s, included) != 0)
        return -1;
    if (lc_json_length(lc_json_get(s->outcome, "_a")) == 0)
        return fail(log, s, "_a", "expected an array whose first item is the action shown");
    const size_t action = read_action(log, s, "_a", lc_json_at(lc_json_get(s->outcome, "_a"), 0));
    if (action == s->all->n)
        return -1;
    struct ld_logged *out =
        ld_decisions_slot(&log->base, s->k, s->all, included != NULL ? d->is_in : NULL, s->all->arm[action]);
    if (out->chosen == out->n)
        return fail(log, s, "_a", "action %zu stands in a slot before, or is not in _inc", action);
    out->slot = read_name(d, s);
    if (read_distribution(log, s, out) != 0 || read_reward(log, s, out) != 0 || read_context(log, c, s, out) != 0)
        return -1;
    return ld_decisions_check(&log->base, out);
}

static int settle(struct lc_log *log, size_t n, struct ld_logged *ev)
{
    struct ld_decisions *d = &log->base;
    size_t told = 0;

    for (size_t k = 0; k < n; k++)
        told += isnan(d->slots[k].reward) ? 0 : 1;
    if (told == 0 || (!d->o.all_slots && isnan(d->slots[0].reward))) {
        ld_decisions_skip(d, "decisions without a reward");
        return 0;
    }
    *ev = d->slots[0];
    ev->more = d->slots + 1;
    ev->n_more = n - 1;
    return 1;
}

int lc_dsjson_slots(struct lc_log *log, const struct json_t *doc, bool is_ours, struct ld_logged *ev)
{
    const struct json_t *c = lc_json_get(doc, "c"), *slots = lc_json_get(c, "_slots"),
                        *outcomes = lc_json_get(doc, "_outcomes");
    struct lc_dsjson *d = log->state;
    const size_t n = lc_json_length(slots);
    int rc = 0;

    if (!lc_json_is_array(slots) || n == 0 || n > KB_MAX_SLOTS)
        return ld_decisions_fail(&log->base, "c._slots", "expected an array of 1 to %u slots", KB_MAX_SLOTS);
    if (!lc_json_is_array(outcomes) || lc_json_length(outcomes) != n)
        return ld_decisions_fail(&log->base, "_outcomes", "expected an outcome for each of the %zu slots", n);
    if (ld_decisions_slots(&log->base, n, ev->n) != 0)
        return LD_DECISIONS_BROKEN;
    d->logged = lc_room(d->logged, &d->cap_logged, n * (ev->n + 1), sizeof *d->logged);
    d->name = lc_room(d->name, &d->cap_name, n, sizeof *d->name);
    for (size_t k = 0; rc == 0 && k < n; k++) {
        const struct slot slot = {k, lc_json_at(slots, k), lc_json_at(outcomes, k), ev, is_ours};
        rc = read_slot(log, c, &slot);
    }
    return rc == 0 ? settle(log, n, ev) : rc;
}

void lc_dsjson_slots_close(struct lc_dsjson *s)
{
    free(s->name);
    free(s->is_in);
}
