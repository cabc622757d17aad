/* Assignments of arms to users (assignments.h): an array by user, since a tenant whose arms stick has one for nearly
 * every user that it decides for.
 *
 * The digest is a sum of hashes of (user, assignment), kept with each change in O(1). */
#include "history/assignments.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "base/hash.h"

#define FIRST_USERS 64u

void kb_assignments_init(struct kb_assignments *a)
{
    *a = (struct kb_assignments){0};
}

void kb_assignments_close(struct kb_assignments *a)
{
    kb_free(a->of);
    kb_assignments_init(a);
}

enum kb_err kb_assignments_grow(struct kb_assignments *a, size_t n_users, struct kb_moves *m)
{
    if (n_users <= a->cap)
        return KB_OK;
    const size_t cap = kb_grown_cap(a->cap, n_users, FIRST_USERS);
    struct kb_assignment *of = kb_array(cap, 1, sizeof *of);

    if (of == NULL)
        return KB_ENOMEM;
    if (a->cap > 0)
        memcpy(of, a->of, a->cap * sizeof *of);
    for (size_t i = a->cap; i < cap; i++)
        of[i].arm = KB_ID_NONE;
    return kb_moves_take(m, &a->of, of, &a->cap, cap);
}

enum kb_err kb_assignments_reserve(struct kb_assignments *a, size_t n_users)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_assignments_grow(a, n_users, &m));
}

static uint64_t hash_of(uint32_t user, const struct kb_assignment *assignment)
{
    uint64_t h = kb_hash_mix(KB_HASH_INIT, user);

    if (assignment->arm == KB_ID_NONE)
        return 0;
    h = kb_hash_mix(kb_hash_mix(h, assignment->arm), assignment->route);
    h = kb_hash_mix_doubles(h, &assignment->propensity, 1);
    return kb_hash_finish(kb_hash_mix(h, (uint64_t)assignment->until_ms));
}

void kb_assignments_put(struct kb_assignments *a, uint32_t user, const struct kb_assignment *assignment)
{
    assert(user < a->cap && assignment->arm != KB_ID_NONE);
    a->digest -= hash_of(user, &a->of[user]);
    a->n += a->of[user].arm == KB_ID_NONE;
    a->of[user] = *assignment;
    a->digest += hash_of(user, &a->of[user]);
}

enum kb_err kb_assignments_copy(const struct kb_assignments *a, struct kb_assignments *out)
{
    *out = *a;
    out->of = kb_array(a->cap + 1, 1, sizeof *out->of);
    if (out->of == NULL)
        return KB_ENOMEM;
    if (a->cap > 0)
        memcpy(out->of, a->of, a->cap * sizeof *out->of);
    return KB_OK;
}

uint64_t kb_assignments_digest(const struct kb_assignments *a, uint64_t h)
{
    return kb_hash_u64(kb_hash_u64(h, a->n), a->digest);
}

/* n, then by ascending user: user, arm, route, propensity, until (schema/snapshot.md). */
void kb_assignments_save(const struct kb_assignments *a, struct kb_writer *w)
{
    kb_put_u64(w, a->n);
    for (uint32_t user = 0; user < a->cap; user++) {
        const struct kb_assignment *of = kb_assignments_find(a, user);

        if (of == NULL)
            continue;
        kb_put_u64(w, (uint64_t)user << 32 | of->arm);
        kb_put_u64(w, of->route);
        kb_put_double(w, of->propensity);
        kb_put_u64(w, (uint64_t)of->until_ms);
    }
}

enum kb_err kb_assignments_load(struct kb_assignments *a, size_t n_users, size_t n_arms, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, n_users);

    if (n > 0 && kb_assignments_reserve(a, n_users) != KB_OK)
        return KB_ENOMEM;
    for (size_t i = 0; i < n && r->rc == KB_OK; i++) {
        const uint64_t both = kb_get_u64(r);
        const uint32_t user = (uint32_t)(both >> 32);
        struct kb_assignment of = {.arm = (uint32_t)both};

        of.route = (uint32_t)kb_get_count(r, KB_ROUTE_N - 1);
        of.propensity = kb_get_double(r);
        of.until_ms = (int64_t)kb_get_u64(r);
        if (user >= n_users || of.arm >= n_arms || of.route == KB_ROUTE_STICKY ||
            !(of.propensity > 0 && of.propensity <= 1) || kb_assignments_find(a, user) != NULL)
            return KB_ECORRUPT;
        kb_assignments_put(a, user, &of);
    }
    return r->rc;
}
