/* See own_catalogue.h. */
#include "evaluate/own_catalogue.h"

#include <string.h>

#include "base/alloc.h"

enum { ACTIVE = 1, STOPPED = 2 };

uint32_t ld_own_arm(struct ld_decisions *d, uint32_t dim, const char *id, const double *features)
{
    const uint32_t arm = ld_decisions_arm(d, id);

    if (arm == KB_ID_NONE || features == NULL || dim == 0 || d->o.arm_dim == 0)
        return arm;
    if (dim != d->o.arm_dim) {
        (void)ld_decisions_fail(d, "features", "%u numbers, where the configuration has %u", dim, d->o.arm_dim);
        return KB_ID_NONE;
    }
    memcpy(ld_decisions_arm_features(d, arm), features, d->o.arm_dim * sizeof *features);
    return arm;
}

/* Arms that are stopped are no candidates, and are again what they were when they are started. 0, or no memory. */
static int set_flags(struct ld_own_catalogue *c, uint32_t arm, bool is_active, bool is_stopped)
{
    const size_t before = c->cap;

    if (kb_grow((void **)&c->flags, &c->cap, (size_t)arm + 1, 16, 1) != 0)
        return ld_decisions_no_memory(c->d);
    memset(c->flags + before, 0, c->cap - before);
    c->flags[arm] = (unsigned char)((is_active ? ACTIVE : 0) | (is_stopped ? STOPPED : 0));
    ld_decisions_offer(c->d, arm, is_active && !is_stopped);
    return 0;
}

/* Only such as the log has shown. */
static void turn_arms(struct ld_own_catalogue *c, const char *const *ids, size_t n, bool is_stopped)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t arm = kb_ids_find(&c->d->arms, ids[i]);
        if (arm != KB_ID_NONE && arm < c->cap)
            (void)set_flags(c, arm, (c->flags[arm] & ACTIVE) != 0, is_stopped); /* it has its place */
    }
}

static int put_arm(struct ld_own_catalogue *c, const struct kb_ev_arm *a)
{
    const uint32_t arm = ld_own_arm(c->d, c->arm_dim, a->id, a->features);

    return arm != KB_ID_NONE ? set_flags(c, arm, a->is_active, a->is_stopped) : -1;
}

/* Of a summary without a catalogue: it was shown before. */
static int show_arm(struct ld_own_catalogue *c, const struct kb_ev_arm *a)
{
    const uint32_t arm = ld_own_arm(c->d, c->arm_dim, a->id, a->features);

    if (arm == KB_ID_NONE)
        return -1;
    ld_decisions_offer(c->d, arm, true);
    return 0;
}

static void begin_catalogue(struct ld_own_catalogue *c, bool is_replace)
{
    if (c->d->is_counting && !c->d->has_catalogue)
        ld_decisions_count(c->d);
    c->d->has_catalogue = true;
    for (uint32_t i = 0; (!c->is_told || is_replace) && i < c->d->arms.n; i++)
        ld_decisions_offer(c->d, i, false);
    c->is_told = true;
}

int ld_own_catalogue_change(struct ld_own_catalogue *c, const struct kb_event *ev)
{
    int rc = 0;

    begin_catalogue(c, ev->as.arms.is_replace);
    for (size_t i = 0; i < ev->as.arms.n_remove; i++) {
        const uint32_t arm = kb_ids_find(&c->d->arms, ev->as.arms.remove[i]);
        if (arm != KB_ID_NONE)
            ld_decisions_offer(c->d, arm, false);
    }
    turn_arms(c, ev->as.arms.stop, ev->as.arms.n_stop, true);
    turn_arms(c, ev->as.arms.start, ev->as.arms.n_start, false);
    for (size_t i = 0; rc == 0 && i < ev->as.arms.n_put; i++)
        rc = put_arm(c, &ev->as.arms.put[i]);
    return rc;
}

int ld_own_catalogue_summary(struct ld_own_catalogue *c, const struct kb_ev_summary *part)
{
    bool is_told = c->is_told;
    int rc = 0;

    if (part->part != KB_PART_ARMS)
        return 0;
    for (size_t i = 0; i < part->n_arms; i++)
        is_told |= part->arms[i].is_in_catalogue;
    if (is_told)
        begin_catalogue(c, false);
    for (size_t i = 0; rc == 0 && i < part->n_arms; i++) {
        const struct kb_ev_known_arm *known = &part->arms[i];
        const struct kb_ev_arm arm = {.id = known->id,
                                      .features = known->features,
                                      .is_active = known->is_active && known->is_in_catalogue,
                                      .is_stopped = known->is_stopped};
        rc = is_told ? put_arm(c, &arm) : show_arm(c, &arm);
    }
    return rc;
}

void ld_own_catalogue_close(struct ld_own_catalogue *c)
{
    kb_free(c->flags);
    *c = (struct ld_own_catalogue){.d = c->d};
}
