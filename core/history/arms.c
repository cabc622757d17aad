/* The catalogue of arms and their counts. The array grows only in kb_arms_grow; everything else is O(1).
 *
 * In the engine (engine_impl.h) an `arms` event writes the flags and features, and the events of the traffic
 * write the counts; both happen in `apply`, under the tenant's write lock. Decisions read them under the read
 * lock.
 *
 *   in catalogue, active      offered when a request names no candidates
 *   in catalogue, inactive    kept with its features, offered only by name
 *   in catalogue, stopped     offered to nobody
 *   not in the catalogue      seen in the traffic or removed: counts only
 *
 * The counts of the catalogue are derived from the arms and kept by count_arm, so that none needs a scan. */
#include "history/arms.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/hash.h"
#include "spec/event.h"

#define FIRST_ARMS 16u

void kb_arm_parts_free(const struct kb_arm_parts *parts)
{
    kb_free(parts->features);
    kb_free(parts->eligibility);
    kb_free(parts->value);
}

char *kb_arm_value_copy(const char *value)
{
    const size_t n = strlen(value) + 1;
    char *copy = kb_malloc(n);

    return copy != NULL ? memcpy(copy, value, n) : NULL;
}

void kb_arms_init(struct kb_arms *a)
{
    *a = (struct kb_arms){0};
}

/* Frees all features; ready for use again, as after init. */
void kb_arms_close(struct kb_arms *a)
{
    for (size_t i = 0; i < a->n; i++)
        kb_arm_parts_free(&a->arm[i].parts);
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
    const size_t one = (size_t)sign; /* -1 wraps, and subtracts */

    if (!arm->is_in_catalogue)
        return;
    a->n_catalogue += one;
    a->n_active += arm->is_active ? one : 0;
    a->n_stopped += arm->is_stopped ? one : 0;
    if (arm->parts.eligibility != NULL)
        a->rules_bytes += one * kb_eligibility_bytes(arm->parts.eligibility);
    if (arm->parts.value != NULL)
        a->rules_bytes += one * (strlen(arm->parts.value) + 1);
}

static bool has_restrictions(const struct kb_arm *arm)
{
    return arm->is_stopped || arm->parts.eligibility != NULL;
}

/* Off the counts with the old flags, on again with the new ones: the same path for a new arm and a changed
 * one. */
struct kb_arm_parts kb_arms_put(struct kb_arms *a, uint32_t ix, const struct kb_arm_parts *parts, bool is_active,
                                bool is_stopped)
{
    struct kb_arm *arm = &a->arm[ix];

    assert(ix < a->n);
    count_arm(a, arm, -1);
    const struct kb_arm_parts old = arm->parts;
    arm->parts = *parts;
    arm->stamp = ++a->n_changes;
    arm->is_in_catalogue = true;
    arm->is_active = is_active;
    arm->is_stopped = is_stopped;
    arm->is_restricted = has_restrictions(arm);
    count_arm(a, arm, 1);
    return old;
}

/* The row stays, because history rows, open decisions and the log name the arm by its index. */
struct kb_arm_parts kb_arms_remove(struct kb_arms *a, uint32_t ix)
{
    struct kb_arm *arm = &a->arm[ix];

    assert(ix < a->n);
    count_arm(a, arm, -1);
    const struct kb_arm_parts old = arm->parts;
    arm->parts = (struct kb_arm_parts){0};
    arm->is_in_catalogue = arm->is_active = arm->is_stopped = arm->is_restricted = false;
    arm->stamp = 0;
    a->n_changes++;
    return old;
}

void kb_arms_stop(struct kb_arms *a, uint32_t ix, bool is_stopped)
{
    struct kb_arm *arm = &a->arm[ix];

    assert(ix < a->n && arm->is_in_catalogue);
    count_arm(a, arm, -1);
    arm->is_stopped = is_stopped;
    arm->is_restricted = has_restrictions(arm);
    count_arm(a, arm, 1);
}

/* In the order of the indices, hence of the log. Counts are in it too: a fold must reproduce what /stats
 * shows. Squares are not: a log of before them has the digest that it had. */
uint64_t kb_arms_digest(const struct kb_arms *a, size_t dim, uint64_t h)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct kb_arm *arm = &a->arm[i];

        h = kb_hash_u64(h, (uint64_t)arm->is_stopped * 4 + (uint64_t)arm->is_in_catalogue * 2 + arm->is_active);
        h = kb_hash_u64(h, arm->decided);
        h = kb_hash_u64(h, arm->rewarded);
        h = kb_hash_double(h, arm->reward_sum);
        for (size_t k = 0; arm->parts.features != NULL && k < dim; k++)
            h = kb_hash_double(h, arm->parts.features[k]);
        if (arm->parts.eligibility != NULL)
            h = kb_eligibility_digest(arm->parts.eligibility, h);
        if (arm->parts.value != NULL)
            h = kb_hash_str(h, arm->parts.value);
    }
    return h;
}

/* Per arm: one word of flags (bit 0 in the catalogue, bit 1 active, bit 2 has features, bit 3 stopped, bit 4 has
 * rules, bit 5 has a value), four words of counts and sums, then features, rules and value where there are any. The
 * number of arms is that of the interned ids and is not written again. */
void kb_arms_save(const struct kb_arms *a, size_t dim, struct kb_writer *w)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct kb_arm *arm = &a->arm[i];

        kb_put_u64(w, (uint64_t)arm->is_in_catalogue | (uint64_t)arm->is_active << 1 |
                          (uint64_t)(arm->parts.features != NULL) << 2 | (uint64_t)arm->is_stopped << 3 |
                          (uint64_t)(arm->parts.eligibility != NULL) << 4 | (uint64_t)(arm->parts.value != NULL) << 5);
        kb_put_u64(w, arm->decided);
        kb_put_u64(w, arm->rewarded);
        kb_put_double(w, arm->reward_sum);
        kb_put_double(w, arm->square_sum);
        if (arm->parts.features != NULL)
            kb_put_doubles(w, arm->parts.features, dim);
        if (arm->parts.eligibility != NULL)
            kb_eligibility_save(arm->parts.eligibility, w);
        if (arm->parts.value != NULL)
            kb_put_str(w, arm->parts.value);
    }
}

static enum kb_err load_value(char **out, struct kb_reader *r)
{
    size_t n;
    const char *text = kb_get_str(r, &n);

    if (text == NULL || n > KB_MAX_VALUE_BYTES || memchr(text, '\0', n) != NULL)
        return KB_ECORRUPT;
    *out = kb_malloc(n + 1);
    if (*out == NULL)
        return KB_ENOMEM;
    memcpy(*out, text, n);
    (*out)[n] = '\0';
    return KB_OK;
}

static enum kb_err load_arm(struct kb_arm *arm, size_t dim, struct kb_reader *r)
{
    const uint64_t flags = kb_get_u64(r);

    arm->is_in_catalogue = (flags & 1) != 0;
    arm->is_active = (flags & 2) != 0;
    arm->is_stopped = (flags & 8) != 0;
    arm->decided = kb_get_u64(r);
    arm->rewarded = kb_get_u64(r);
    arm->reward_sum = kb_get_double(r);
    arm->square_sum = kb_get_double(r);
    if ((flags & 4) != 0) {
        arm->parts.features = kb_array(dim > 0 ? dim : 1, 1, sizeof *arm->parts.features);
        if (arm->parts.features == NULL)
            return KB_ENOMEM;
        kb_get_doubles(r, arm->parts.features, dim);
    }
    if ((flags & 16) != 0 && r->rc == KB_OK) {
        const enum kb_err rc = kb_eligibility_load(r, &arm->parts.eligibility);

        if (rc != KB_OK)
            return rc;
    }
    return (flags & 32) != 0 && r->rc == KB_OK ? load_value(&arm->parts.value, r) : KB_OK;
}

/* n arms as kb_arms_save wrote them. After a failure some rows may be filled: kb_arms_close frees them. The
 * derived counts are made again, not read. */
enum kb_err kb_arms_load(struct kb_arms *a, size_t dim, size_t n, struct kb_reader *r)
{
    struct kb_moves m;

    kb_moves_init(&m);
    enum kb_err rc = kb_moves_finish(&m, kb_arms_grow(a, n, &m));
    if (rc != KB_OK)
        return rc;
    kb_arms_extend(a, n);
    for (size_t i = 0; i < n && rc == KB_OK && r->rc == KB_OK; i++) {
        rc = load_arm(&a->arm[i], dim, r);
        a->arm[i].is_restricted = has_restrictions(&a->arm[i]);
        a->arm[i].stamp = a->arm[i].is_in_catalogue ? ++a->n_changes : 0;
        count_arm(a, &a->arm[i], 1);
    }
    return rc != KB_OK ? rc : r->rc;
}
