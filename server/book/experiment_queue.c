/* What waits for its reward, and which users were seen: see experiment_impl.h.
 *
 * Tables are indexed by a keyed hash of the ids' hashes, so whoever chooses ids cannot make them meet. Nothing that
 * is counted depends on the key. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_key.h"
#include "book/experiment_impl.h"

#define FIRST_CAP 64u

static size_t index_of(uint64_t id, size_t n)
{
    struct kb_keyed s = kb_keyed_begin(ld_hash_key());

    kb_keyed_word(&s, id);
    return (size_t)kb_keyed_end(s) & (n - 1);
}

/* ---- the queue ----------------------------------------------------------------------------------------- */

static size_t bytes_of(size_t cap, size_t n_odds, size_t n_values)
{
    return cap * (sizeof(struct ld_waiting) + (n_odds + n_values) * sizeof(double) + 2 * sizeof(struct ld_place));
}

size_t ld_waiting_bytes(const struct ld_waiting_queue *q)
{
    return bytes_of(q->cap, q->n_odds, q->n_values);
}

static struct ld_place *find_place(const struct ld_waiting_queue *q, uint64_t id)
{
    const size_t n = 2 * q->cap;
    size_t i = index_of(id, n);

    while (q->place[i].number != 0 && q->place[i].id != id)
        i = (i + 1) & (n - 1);
    return &q->place[i];
}

static void free_arrays(struct ld_waiting_queue *q)
{
    kb_free(q->entry);
    kb_free(q->odds);
    kb_free(q->values);
    kb_free(q->place);
}

enum kb_err ld_waiting_grow(struct ld_waiting_queue *q, size_t n_more)
{
    struct ld_waiting_queue next = {
        .cap = q->cap > 0 ? q->cap : FIRST_CAP, .n_odds = q->n_odds, .n_values = q->n_values};
    const size_t need = (size_t)(q->tail - q->head) + n_more;

    if (need <= q->cap)
        return KB_OK;
    while (next.cap < need)
        next.cap *= 2;
    if (bytes_of(next.cap, next.n_odds, next.n_values) > LD_WAITING_MOST_BYTES)
        return KB_EFULL;
    next.entry = kb_array(next.cap, 1, sizeof *next.entry);
    next.odds = kb_array(next.cap, next.n_odds > 0 ? next.n_odds : 1, sizeof *next.odds);
    next.place = kb_array(next.cap, 2, sizeof *next.place);
    next.values = next.n_values > 0 ? kb_array(next.cap, next.n_values, sizeof *next.values) : NULL;
    if (next.entry == NULL || next.odds == NULL || next.place == NULL || (next.n_values > 0 && next.values == NULL)) {
        free_arrays(&next);
        return KB_ENOMEM;
    }
    for (uint64_t k = q->head; k < q->tail; k++) {
        double *odds;
        const struct ld_waiting *old = &q->entry[k & (q->cap - 1)];

        const struct ld_waiting *moved = ld_waiting_push(&next, old, &odds);
        memcpy(odds, ld_waiting_odds(q, old), q->n_odds * sizeof *odds);
        if (q->n_values > 0)
            memcpy(ld_waiting_values(&next, moved), ld_waiting_values(q, old), q->n_values * sizeof *q->values);
    }
    free_arrays(q);
    *q = next;
    return KB_OK;
}

struct ld_waiting *ld_waiting_push(struct ld_waiting_queue *q, const struct ld_waiting *entry, double **odds)
{
    assert(q->tail - q->head < q->cap);
    struct ld_place *place = find_place(q, entry->id);
    if (place->number != 0)
        return NULL;
    struct ld_waiting *to = &q->entry[q->tail & (q->cap - 1)];

    *to = *entry;
    *odds = ld_waiting_odds(q, to);
    memset(*odds, 0, q->n_odds * sizeof **odds);
    for (size_t i = 0; i < q->n_values; i++)
        ld_waiting_values(q, to)[i] = (double)NAN;
    *place = (struct ld_place){entry->id, ++q->tail};
    return to;
}

struct ld_waiting *ld_waiting_find(struct ld_waiting_queue *q, uint64_t id)
{
    const struct ld_place *place = q->cap > 0 ? find_place(q, id) : NULL;

    return place != NULL && place->number != 0 ? &q->entry[(place->number - 1) & (q->cap - 1)] : NULL;
}

/* All of the run behind it are placed anew, so that no search stops at the hole (as in core/history/pending.c). */
void ld_waiting_pop(struct ld_waiting_queue *q)
{
    const size_t n = 2 * q->cap;
    struct ld_place *place = find_place(q, ld_waiting_head(q)->id);

    place->number = 0;
    for (size_t i = ((size_t)(place - q->place) + 1) & (n - 1); q->place[i].number != 0; i = (i + 1) & (n - 1)) {
        const struct ld_place moved = q->place[i];

        q->place[i].number = 0;
        *find_place(q, moved.id) = moved;
    }
    q->head++;
}

void ld_waiting_clear(struct ld_waiting_queue *q, size_t n_odds, size_t n_values)
{
    free_arrays(q);
    *q = (struct ld_waiting_queue){.n_odds = n_odds, .n_values = n_values};
}

enum kb_err ld_waiting_widen(struct ld_waiting_queue *q, size_t n_values)
{
    double *values = kb_array(q->cap > 0 ? q->cap : 1, n_values > 0 ? n_values : 1, sizeof *values);

    if (values == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < q->cap * n_values; i++)
        values[i] = (double)NAN;
    kb_free(q->values);
    q->values = values;
    q->n_values = n_values;
    return KB_OK;
}

/* ---- users ------------------------------------------------------------------------------------------------ */

/* Where it is, or could be. */
static uint64_t *find_user(const struct ld_user_set *s, uint64_t user)
{
    size_t i = index_of(user, s->cap);

    while (s->place[i] != 0 && s->place[i] != user)
        i = (i + 1) & (s->cap - 1);
    return &s->place[i];
}

static uint64_t not_zero(uint64_t user)
{
    return user != 0 ? user : 1;
}

enum kb_err ld_users_grow(struct ld_user_set *s)
{
    struct ld_user_set next = {.cap = s->cap > 0 ? 2 * s->cap : FIRST_CAP};

    if (2 * (s->n + 1) <= s->cap)
        return KB_OK;
    if (next.cap * sizeof *next.place > LD_WAITING_MOST_BYTES)
        return KB_EFULL;
    next.place = kb_array(next.cap, 1, sizeof *next.place);
    if (next.place == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < s->cap; i++)
        if (s->place[i] != 0)
            (void)ld_users_add(&next, s->place[i]);
    kb_free(s->place);
    *s = next;
    return KB_OK;
}

bool ld_users_add(struct ld_user_set *s, uint64_t user)
{
    uint64_t *place = find_user(s, not_zero(user));

    if (*place != 0)
        return false;
    *place = not_zero(user);
    s->n++;
    return true;
}

void ld_users_clear(struct ld_user_set *s)
{
    kb_free(s->place);
    *s = (struct ld_user_set){.n = 0};
}
