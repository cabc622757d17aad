/* The catalogue of arms and their counts. The array grows only in kb_arms_grow; everything else is O(1).
 *
 * In the engine (engine_impl.h) an `arms` event writes the flags and features, and the events of the traffic
 * write the counts; both happen in `apply`, under the tenant's write lock. Decisions read them under the read
 * lock.
 *
 *   in catalogue, active      offered when a request names no candidates
 *   in catalogue, inactive    kept with its features, offered only by name
 *   not in the catalogue      seen in the traffic or removed: counts only
 *
 * n_catalogue and n_active are derived from the flags and kept by count_arm, so that neither needs a scan. */
#include "arms.h"

#include <assert.h>

#include "alloc.h"
#include "grow.h"
#include "hash.h"

#define FIRST_ARMS 16u

void kb_arms_init(struct kb_arms *a)
{
    *a = (struct kb_arms){0};
}

/* Frees all features; ready for use again, as after init. */
void kb_arms_close(struct kb_arms *a)
{
    for (size_t i = 0; i < a->n; i++)
        kb_free(a->arm[i].features);
    kb_free(a->arm);
    kb_arms_init(a);
}

/* Called in the engine's `grow`, where a failure can still be undone. */
enum kb_err kb_arms_grow(struct kb_arms *a, size_t n_more, struct kb_moves *m)
{
    if (a->n + n_more <= a->cap)
        return KB_OK;
    return kb_moves_add(m, &a->arm, a->n, kb_grown_cap(a->cap, a->n + n_more, FIRST_ARMS), sizeof *a->arm, &a->cap);
}

enum kb_err kb_arms_reserve(struct kb_arms *a, size_t n_more)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_arms_grow(a, n_more, &m));
}

/* Never shrinks; n may be less than what is known, and then nothing happens. */
void kb_arms_extend(struct kb_arms *a, size_t n)
{
    assert(n <= a->cap);
    while (a->n < n)
        a->arm[a->n++] = (struct kb_arm){0};
}

/* Keeps n_catalogue and n_active in step with one arm's flags. Called with -1 before a change of the flags
 * and with 1 after it. */
static void count_arm(struct kb_arms *a, const struct kb_arm *arm, int sign)
{
    if (!arm->is_in_catalogue)
        return;
    a->n_catalogue = sign > 0 ? a->n_catalogue + 1 : a->n_catalogue - 1;
    if (arm->is_active)
        a->n_active = sign > 0 ? a->n_active + 1 : a->n_active - 1;
}

/* Off the counts with the old flags, on again with the new ones: the same path for a new arm and a changed
 * one. */
double *kb_arms_put(struct kb_arms *a, uint32_t ix, double *features, bool is_active)
{
    struct kb_arm *arm = &a->arm[ix];

    assert(ix < a->n);
    count_arm(a, arm, -1);
    double *old = arm->features;
    arm->features = features;
    arm->is_in_catalogue = true;
    arm->is_active = is_active;
    count_arm(a, arm, 1);
    return old;
}

/* The row stays, because history rows, open decisions and the log name the arm by its index. */
double *kb_arms_remove(struct kb_arms *a, uint32_t ix)
{
    struct kb_arm *arm = &a->arm[ix];

    assert(ix < a->n);
    count_arm(a, arm, -1);
    double *old = arm->features;
    arm->features = NULL;
    arm->is_in_catalogue = arm->is_active = false;
    return old;
}

/* In the order of the indices, hence of the log. Counts are in it too: a fold must reproduce what /stats
 * shows. */
uint64_t kb_arms_digest(const struct kb_arms *a, size_t dim, uint64_t h)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct kb_arm *arm = &a->arm[i];

        h = kb_hash_u64(h, (uint64_t)arm->is_in_catalogue * 2 + arm->is_active);
        h = kb_hash_u64(h, arm->decided);
        h = kb_hash_u64(h, arm->rewarded);
        h = kb_hash_double(h, arm->reward_sum);
        for (size_t k = 0; arm->features != NULL && k < dim; k++)
            h = kb_hash_double(h, arm->features[k]);
    }
    return h;
}

/* Per arm: one word of flags (bit 0 in the catalogue, bit 1 active, bit 2 has features), three words of
 * counts, and the features when bit 2 is set. The number of arms is that of the interned ids and is not
 * written again. */
void kb_arms_save(const struct kb_arms *a, size_t dim, struct kb_writer *w)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct kb_arm *arm = &a->arm[i];

        kb_put_u64(w, (uint64_t)arm->is_in_catalogue | (uint64_t)arm->is_active << 1 |
                          (uint64_t)(arm->features != NULL) << 2);
        kb_put_u64(w, arm->decided);
        kb_put_u64(w, arm->rewarded);
        kb_put_double(w, arm->reward_sum);
        if (arm->features != NULL)
            kb_put_doubles(w, arm->features, dim);
    }
}

/* n arms as kb_arms_save wrote them. After a failure some rows may be filled: kb_arms_close frees them. The
 * derived counts are made again, not read. */
enum kb_err kb_arms_load(struct kb_arms *a, size_t dim, size_t n, struct kb_reader *r)
{
    if (kb_arms_reserve(a, n) != KB_OK)
        return KB_ENOMEM;
    kb_arms_extend(a, n);
    for (size_t i = 0; i < n && r->rc == KB_OK; i++) {
        struct kb_arm *arm = &a->arm[i];
        const uint64_t flags = kb_get_u64(r);

        arm->is_in_catalogue = (flags & 1) != 0;
        arm->is_active = (flags & 2) != 0;
        arm->decided = kb_get_u64(r);
        arm->rewarded = kb_get_u64(r);
        arm->reward_sum = kb_get_double(r);
        if ((flags & 4) != 0) {
            arm->features = kb_array(dim > 0 ? dim : 1, 1, sizeof *arm->features);
            if (arm->features == NULL)
                return KB_ENOMEM;
            kb_get_doubles(r, arm->features, dim);
        }
        count_arm(a, arm, 1);
    }
    return r->rc;
}
