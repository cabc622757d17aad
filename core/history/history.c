/* The history: one row per distinct (user, context, arm, features, level), with count and sum of rewards.
 *
 * Letters: n_j count, S_j sum of the rewards of row j, t = sum of all n_j.
 * The posteriors see the observations only through n_j and S_j: V = sum n_j z_j z_j^T,
 * b = sum S_j z_j, and the sum of squares of y enters nothing that is served. Hence a correction of a reward is a
 * change of S_j with n_j kept, and the model is then the one that only ever saw the last value.
 *
 * Rows are found through a hash table of row numbers (open addressing, linear probing, load <= 1/2), which is
 * derived from the rows and neither digested nor saved. Equality of coordinates is that of numbers: 0.0 and
 * -0.0 are one point, so the hash adds 0.0 to each of them first.
 *
 * Cost: add and find O(dim) expected, reserve amortised O(1) per row, by_seq O(log n).
 *
 * Place: `apply` teaches the posterior and adds here, so that the posterior can be built again from these
 * rows for another kernel, graph, dictionary or lengthscale (dictionary events; kb_posterior_fill). An event
 * reserves its row before it is appended to the log; a reservation that is not used costs memory, nothing
 * else.
 *
 * Writers hold the tenant's write lock while they add. Growing runs beside readers, as do the long passes over the
 * rows; what has grown is swapped in under the lock (moves.h).
 *
 * Sums of rewards are kept in double in the order of the log: a fold adds the same numbers in the same order. */
#include "history/history.h"

#include <assert.h>
#include <stdbool.h>
#include <math.h>
#include <string.h>

#include "base/grow.h"
#include "base/hash.h"

#define FIRST_ROWS 64u
#define MAX_ROWS ((size_t)UINT32_MAX - 1)
#define EMPTY UINT32_MAX

void kb_history_init(struct kb_history *h, size_t dim, struct kb_hash_key key)
{
    *h = (struct kb_history){.dim = dim, .key = key};
}

/* Keeps dim and key, so that the history can be filled again. */
void kb_history_close(struct kb_history *h)
{
    kb_free(h->user);
    kb_free(h->arm);
    kb_free(h->level);
    kb_free(h->x);
    kb_free(h->count);
    kb_free(h->sum);
    kb_free(h->halvings);
    kb_free(h->first_seq);
    kb_free(h->slot);
    kb_history_init(h, h->dim, h->key);
}

/* Hash of a point that agrees with row_is. The level 0 of most rows is left out: a row with a level has a word more,
 * which may meet one without as little as any other does. */
static uint64_t row_hash(const struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x)
{
    struct kb_keyed hash = kb_keyed_begin(h->key);

    kb_keyed_word(&hash, (uint64_t)user << 32 | arm);
    if (level != 0)
        kb_keyed_word(&hash, level);
    for (size_t d = 0; d < h->dim; d++)
        kb_keyed_double(&hash, x[d]);
    return kb_keyed_end(hash);
}

/* Whether the row holds this point: equal indices, coordinates equal as numbers. NaN never gets here:
 * requests with one are refused. */
static bool row_is(const struct kb_history *h, size_t row, uint32_t user, uint32_t arm, uint32_t level, const double *x)
{
    if (h->user[row] != user || h->arm[row] != arm || h->level[row] != level)
        return false;
    for (size_t d = 0; d < h->dim; d++) {
        if (h->x[row * h->dim + d] != x[d])
            return false;
    }
    return true;
}

/* The slot that holds the point, or the empty one where it belongs. Needs n_slots > n. One half of the slots
 * is empty, so an unsuccessful probe sees two slots on average. */
static size_t find_slot(const struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x)
{
    size_t mask = h->n_slots - 1;
    size_t i = (size_t)row_hash(h, user, arm, level, x) & mask;
    while (h->slot[i] != EMPTY && !row_is(h, h->slot[i], user, arm, level, x))
        i = (i + 1) & mask;
    return i;
}

/* --- memory ----------------------------------------------------------------------------------------- */

/* Fills a table of n_slots entries (all EMPTY) from the rows. Rows are distinct, so no comparison is needed: the
 * first free slot is the right one. O(rows dim). */
static void fill_slots(const struct kb_history *h, uint32_t *slot, size_t n_slots)
{
    for (size_t row = 0; row < h->n; row++) {
        const double *x = h->x + row * h->dim;
        size_t i = (size_t)row_hash(h, h->user[row], h->arm[row], h->level[row], x) & (n_slots - 1);
        while (slot[i] != EMPTY)
            i = (i + 1) & (n_slots - 1);
        slot[i] = (uint32_t)row;
    }
}

/* A table for n_rows at a load of one half, with the rows in it. n_slots is a power of two and only grows. */
static enum kb_err grow_slots(struct kb_history *h, size_t n_rows, struct kb_moves *m)
{
    size_t n_slots = h->n_slots > 0 ? h->n_slots : 2 * FIRST_ROWS;
    while (n_slots < 2 * n_rows)
        n_slots *= 2;
    if (n_slots == h->n_slots)
        return KB_OK;
    uint32_t *slot = kb_regrow(NULL, n_slots, sizeof *slot);
    if (slot == NULL)
        return KB_ENOMEM;
    memset(slot, 0xff, n_slots * sizeof *slot);
    fill_slots(h, slot, n_slots);
    return kb_moves_take(m, &h->slot, slot, &h->n_slots, n_slots);
}

/* Every array has room for cap rows; the last one brings the new cap. */
static enum kb_err grow_rows(struct kb_history *h, size_t cap, struct kb_moves *m)
{
    enum kb_err rc;
    if (h->dim > 0 && cap > SIZE_MAX / sizeof(double) / h->dim)
        return KB_ENOMEM;
    KB_TRY(kb_moves_add(m, &h->user, h->n, cap, sizeof *h->user, NULL));
    KB_TRY(kb_moves_add(m, &h->arm, h->n, cap, sizeof *h->arm, NULL));
    KB_TRY(kb_moves_add(m, &h->level, h->n, cap, sizeof *h->level, NULL));
    KB_TRY(kb_moves_add(m, &h->x, h->n * h->dim, cap * h->dim, sizeof *h->x, NULL));
    KB_TRY(kb_moves_add(m, &h->count, h->n, cap, sizeof *h->count, NULL));
    KB_TRY(kb_moves_add(m, &h->sum, h->n, cap, sizeof *h->sum, NULL));
    KB_TRY(kb_moves_add(m, &h->halvings, h->n, cap, sizeof *h->halvings, NULL));
    KB_TRY(kb_moves_add(m, &h->first_seq, h->n, cap, sizeof *h->first_seq, &h->cap));
out:
    return rc;
}

/* KB_ELIMIT beyond 2^32 - 2 rows: row numbers are 32-bit, and the largest one marks an empty slot. */
enum kb_err kb_history_grow(struct kb_history *h, size_t n, struct kb_moves *m)
{
    enum kb_err rc;
    if (n > MAX_ROWS - h->n)
        return KB_ELIMIT;
    KB_TRY(grow_slots(h, h->n + n, m));
    if (h->n + n > h->cap)
        KB_TRY(grow_rows(h, kb_grown_cap(h->cap, h->n + n, FIRST_ROWS), m));
out:
    return rc;
}

/* For who reads no history yet. */
enum kb_err kb_history_reserve(struct kb_history *h, size_t n)
{
    struct kb_moves m;

    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_history_grow(h, n, &m));
}

/* What is allocated, not what is used: this is for the memory figures. */
size_t kb_history_bytes(const struct kb_history *h)
{
    size_t per_row = 3 * sizeof(uint32_t) + (h->dim + 3) * sizeof(double) + sizeof(uint64_t);
    return h->cap * per_row + h->n_slots * sizeof(uint32_t);
}

/* --- rows ------------------------------------------------------------------------------------------- */

/* A history of no rows may have no table yet, hence the first test. */
size_t kb_history_find_at(const struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x)
{
    if (h->n == 0)
        return SIZE_MAX;
    uint32_t row = h->slot[find_slot(h, user, arm, level, x)];
    return row == EMPTY ? SIZE_MAX : row;
}

size_t kb_history_find(const struct kb_history *h, uint32_t user, uint32_t arm, const double *x)
{
    return kb_history_find_at(h, user, arm, 0, x);
}

static uint64_t place_digest(const struct kb_history *h, size_t row)
{
    uint64_t k = kb_hash_mix(KB_HASH_INIT, row);

    k = kb_hash_mix(k, (uint64_t)h->user[row] << 32 | h->arm[row]);
    return kb_hash_mix(k, h->level[row]);
}

/* A row's part of the digest: kept with every change, so that a digest does not pass over a million rows. */
static uint64_t row_digest(const struct kb_history *h, size_t row)
{
    const double value[3] = {h->count[row], h->sum[row], h->halvings[row]};
    const uint64_t k = kb_hash_mix_doubles(place_digest(h, row), value, 3);

    return kb_hash_finish(kb_hash_mix_doubles(k, h->x + row * h->dim, h->dim));
}

static uint64_t order_digest(const struct kb_history *h, size_t row)
{
    return kb_hash_finish(kb_hash_mix(kb_hash_mix(KB_HASH_INIT, row), h->first_seq[row]));
}

/* Appends the point without observations. Sequence numbers never fall, which is what kb_history_by_seq needs. */
static size_t push_row(struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x, uint64_t seq)
{
    assert(h->n < h->cap);
    assert(h->n == 0 || h->first_seq[h->n - 1] <= seq);
    size_t row = h->n++;
    h->user[row] = user;
    h->arm[row] = arm;
    h->level[row] = level;
    if (h->dim > 0)
        memcpy(h->x + row * h->dim, x, h->dim * sizeof *x);
    h->count[row] = 0;
    h->sum[row] = 0;
    h->halvings[row] = 0;
    h->first_seq[row] = seq;
    h->content += row_digest(h, row);
    h->order += order_digest(h, row);
    return row;
}

/* What comes later makes less of what is there; what was earlier counts for less itself. */
static double weight_then(struct kb_history *h, size_t row, double halvings)
{
    if (halvings == h->halvings[row])
        return 1;
    if (halvings < h->halvings[row])
        return exp2(halvings - h->halvings[row]);
    const double left = exp2(h->halvings[row] - halvings);
    h->count[row] *= left;
    h->sum[row] *= left;
    h->halvings[row] = halvings;
    return 1;
}

/* d_count is 1 for an observation, 0 for a correction. `seq` counts only when the row is new. */
size_t kb_history_add_then(struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x,
                           double d_count, double d_sum, double halvings, uint64_t seq)
{
    assert(h->n_slots > 0);
    size_t i = find_slot(h, user, arm, level, x);
    if (h->slot[i] == EMPTY)
        h->slot[i] = (uint32_t)push_row(h, user, arm, level, x, seq);
    size_t row = h->slot[i];
    h->content -= row_digest(h, row);
    double weight = weight_then(h, row, halvings);
    h->count[row] += weight * d_count;
    h->sum[row] += weight * d_sum;
    h->content += row_digest(h, row);
    h->n_observed += d_count;
    return row;
}

size_t kb_history_add_at(struct kb_history *h, uint32_t user, uint32_t arm, uint32_t level, const double *x,
                         double d_count, double d_sum, uint64_t seq)
{
    return kb_history_add_then(h, user, arm, level, x, d_count, d_sum, 0, seq);
}

size_t kb_history_add(struct kb_history *h, uint32_t user, uint32_t arm, const double *x, double d_count, double d_sum,
                      uint64_t seq)
{
    return kb_history_add_at(h, user, arm, 0, x, d_count, d_sum, seq);
}

size_t kb_history_n_arms(const struct kb_history *h)
{
    size_t n = 0;

    for (size_t row = 0; row < h->n; row++)
        n = h->arm[row] >= n ? h->arm[row] + (size_t)1 : n;
    return n;
}

/* Binary search; one event can teach several rows (a slate whose window closes), then the first of them is found. */
size_t kb_history_by_seq(const struct kb_history *h, uint64_t seq)
{
    size_t lo = 0, hi = h->n; /* the first row of first_seq >= seq lies in [lo, hi] */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (h->first_seq[mid] < seq)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < h->n && h->first_seq[lo] == seq ? lo : SIZE_MAX;
}

/* Rows are never moved within their arrays, and larger arrays take their place (grow), so who keeps the old ones from
 * being freed may go on reading them. */
void kb_history_view_borrow(struct kb_history *view, const struct kb_history *h)
{
    view->dim = h->dim;
    view->key = h->key;
    view->user = h->user;
    view->arm = h->arm;
    view->level = h->level;
    view->x = h->x;
    view->first_seq = h->first_seq;
}

enum kb_err kb_history_view_reserve(struct kb_history *view, size_t n)
{
    view->count = kb_malloc((n + 1) * sizeof *view->count);
    view->sum = kb_malloc((n + 1) * sizeof *view->sum);
    view->halvings = kb_malloc((n + 1) * sizeof *view->halvings);
    return view->count != NULL && view->sum != NULL && view->halvings != NULL ? KB_OK : KB_ENOMEM;
}

void kb_history_view_take(struct kb_history *view, const struct kb_history *h)
{
    kb_history_view_borrow(view, h);
    view->n = h->n;
    view->n_observed = h->n_observed;
    view->unit = h->unit;
    if (h->n == 0)
        return;
    memcpy(view->count, h->count, h->n * sizeof *h->count);
    memcpy(view->sum, h->sum, h->n * sizeof *h->sum);
    memcpy(view->halvings, h->halvings, h->n * sizeof *h->halvings);
}

void kb_history_view_close(struct kb_history *view)
{
    kb_free(view->count);
    kb_free(view->sum);
    kb_free(view->halvings);
}

/* --- digest and snapshot ------------------------------------------------------------------------------ */

/* The hash table is derived and left out. By the bits of the machine: digests of the model are compared on one. */
uint64_t kb_history_digest(const struct kb_history *h, uint64_t hash)
{
    return kb_hash_u64(kb_history_content_digest(h, hash), h->order);
}

uint64_t kb_history_points_digest(const struct kb_history *h, uint64_t hash)
{
    uint64_t points = 0;

    for (size_t i = 0; i < h->n; i++)
        points += kb_hash_finish(kb_hash_mix_doubles(place_digest(h, i), h->x + i * h->dim, h->dim));
    return kb_hash_u64(kb_hash_u64(kb_hash_u64(hash, h->n), h->order), points);
}

uint64_t kb_history_content_digest(const struct kb_history *h, uint64_t hash)
{
    hash = kb_hash_u64(kb_hash_u64(hash, h->n), h->dim);
    if (h->n == 0)
        return hash;
    return kb_hash_double(kb_hash_double(kb_hash_u64(hash, h->content), h->n_observed), h->unit);
}

/* Format: dim, n, then one array per field (schema/snapshot.md). */
void kb_history_save(const struct kb_history *h, struct kb_writer *w)
{
    kb_put_u64(w, h->dim);
    kb_put_u64(w, h->n);
    kb_put_u32s(w, h->user, h->n);
    kb_put_u32s(w, h->arm, h->n);
    kb_put_u32s(w, h->level, h->n);
    kb_put_doubles(w, h->x, h->n * h->dim);
    kb_put_doubles(w, h->count, h->n);
    kb_put_doubles(w, h->sum, h->n);
    kb_put_doubles(w, h->halvings, h->n);
    kb_put_u64s(w, h->first_seq, h->n);
    kb_put_double(w, h->n_observed);
    kb_put_double(w, h->unit);
}

static bool all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* A failure leaves room behind, and rows that are not to be read. */
enum kb_err kb_history_load(struct kb_history *h, struct kb_reader *r)
{
    enum kb_err rc;
    assert(h->n == 0);
    if (kb_get_u64(r) != h->dim)
        return r->rc != KB_OK ? r->rc : KB_ECORRUPT;
    /* a row takes at least 44 bytes of what is left: no allocation larger than the snapshot deserves */
    size_t n = kb_get_count(r, (r->n - r->pos) / 44);
    KB_TRY(r->rc);
    KB_TRY(kb_history_reserve(h, n));
    kb_get_u32s(r, h->user, n);
    kb_get_u32s(r, h->arm, n);
    kb_get_u32s(r, h->level, n);
    kb_get_doubles(r, h->x, n * h->dim);
    kb_get_doubles(r, h->count, n);
    kb_get_doubles(r, h->sum, n);
    kb_get_doubles(r, h->halvings, n);
    kb_get_u64s(r, h->first_seq, n);
    h->n_observed = kb_get_double(r);
    h->unit = kb_get_double(r);
    KB_TRY(r->rc);
    if (!(h->n_observed > -1 && h->n_observed < 0x1p53 && isfinite(h->unit)) || !all_finite(h->x, n * h->dim) ||
        !all_finite(h->count, n) || !all_finite(h->sum, n) || !all_finite(h->halvings, n))
        return KB_ECORRUPT;
    h->n = n;
    for (size_t i = 0; i < n; i++) {
        h->content += row_digest(h, i);
        h->order += order_digest(h, i);
    }
    fill_slots(h, h->slot, h->n_slots);
out:
    return rc;
}
