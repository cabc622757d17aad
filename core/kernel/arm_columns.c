/* Arm factors of the catalogue, kept (arm_columns.h).
 *
 * A block is one piece of memory: a column of n_rows doubles for each of n_columns arms, the states of the columns, and
 * the place of each arm among them. The writer lays it out when decisions have missed it, from the catalogue as it
 * stands, and it is swapped in under exclusion; after that only columns and their states change, by readers.
 *
 * state = stamp, n: the first n values of the column are those of the features with that stamp. A reader who needs
 * more sets n to BUSY by compare-and-swap, writes what is missing, and stores the new n (release); others who meet
 * BUSY compute for themselves. That is safe because catalogue and support stand still while any reader holds the
 * lock: all of them want the same stamp and the same n, so nobody reads what one of them writes, and a column that is
 * complete is not written again before all of them have gone.
 *
 * Values are those of kb_vec_kernel_scale on ones: 1 * v is v, and base * v is what scaling the base gives.
 *
 * Why laid out anew and not extended: it happens when the catalogue has new names or the support's room has doubled,
 * and then costs each arm once what every decision would cost without it. Where not all arms have room, the first
 * ones have it, until an eighth of the columns may have gone to other arms.
 *
 * Cost: find O(1); a block 8 n_rows + 8 bytes an arm with a column, and 4 for every arm known. */
#include "kernel/arm_columns.h"

#include <assert.h>

#include "base/alloc.h"
#include "history/arms.h"
#include "kernel/support.h"
#include "vector/vec_kernel.h"

#define STALE_SHARE 8u
#define COUNT_BITS 24u
#define BUSY ((UINT64_C(1) << COUNT_BITS) - 1)

struct kb_arm_block {
    size_t n_columns, n_rows, n_arms, bytes;
    bool is_partial;         /* some arms of the catalogue have no column for want of room */
    uint64_t n_changes;      /* of the catalogue when it was laid out */
    _Atomic uint64_t *state; /* [n_columns] */
    uint32_t *place;         /* [n_arms] column of each arm; KB_ID_NONE: none */
    double value[];          /* [n_columns][n_rows], then the two arrays above */
};

void kb_arm_columns_close(struct kb_arm_columns *kept)
{
    kb_free(kept->block);
    kb_free(kept->coming);
    *kept = (struct kb_arm_columns){0};
}

size_t kb_arm_columns_bytes(const struct kb_arm_columns *kept)
{
    return kept->block != NULL ? kept->block->bytes : 0;
}

/* --- laying out ------------------------------------------------------------------------------------------ */

/* The catalogue's arms in order, as long as there are columns. */
static void give_places(struct kb_arm_block *b, const struct kb_arms *arms)
{
    size_t n = 0;

    for (size_t i = 0; i < b->n_arms; i++) {
        const bool has_column = n < b->n_columns && arms->arm[i].parts.features != NULL;

        b->place[i] = has_column ? (uint32_t)n : KB_ID_NONE;
        n += has_column;
    }
}

/* NULL: no room for a single column, or no memory. */
static struct kb_arm_block *lay_out(const struct kb_arms *arms, size_t n_rows, size_t most)
{
    const size_t column = n_rows * sizeof(double) + sizeof(uint64_t);
    const size_t fixed = sizeof(struct kb_arm_block) + arms->n * sizeof(uint32_t);
    const size_t room = most > fixed ? (most - fixed) / column : 0;
    const size_t n_columns = room < arms->n_catalogue ? room : arms->n_catalogue;
    struct kb_arm_block *b = n_columns > 0 ? kb_malloc(fixed + n_columns * column) : NULL;

    if (b == NULL)
        return NULL;
    *b = (struct kb_arm_block){.n_columns = n_columns,
                               .n_rows = n_rows,
                               .n_arms = arms->n,
                               .bytes = fixed + n_columns * column,
                               .is_partial = n_columns < arms->n_catalogue,
                               .n_changes = arms->n_changes};
    b->state = (_Atomic uint64_t *)(void *)(b->value + n_columns * n_rows);
    b->place = (uint32_t *)(void *)(b->state + n_columns);
    for (size_t i = 0; i < n_columns; i++)
        atomic_init(&b->state[i], 0);
    give_places(b, arms);
    return b;
}

/* Whether another layout would have what is missed. */
static bool is_due(const struct kb_arm_block *b, const struct kb_arms *arms, size_t n_rows)
{
    if (b == NULL || b->n_rows < n_rows)
        return true;
    const uint64_t n_changes = arms->n_changes - b->n_changes;

    return n_changes > (b->is_partial ? b->n_columns / STALE_SHARE : 0);
}

static void set_coming(struct kb_arm_columns *kept, struct kb_arm_block *b)
{
    kb_free(kept->coming);
    kept->coming = b;
    kept->has_settled = true;
}

void kb_arm_columns_settle(struct kb_arm_columns *kept, const struct kb_arms *arms, size_t n_rows, size_t most)
{
    const bool is_over = kb_arm_columns_bytes(kept) > most;

    if (!is_over && !atomic_load_explicit(&kept->is_wanted, memory_order_relaxed))
        return;
    atomic_store_explicit(&kept->is_wanted, false, memory_order_relaxed);
    if (n_rows >= BUSY || (!is_over && !is_due(kept->block, arms, n_rows)))
        return;
    struct kb_arm_block *b = lay_out(arms, n_rows, most);
    if (b != NULL || is_over)
        set_coming(kept, b);
}

void *kb_arm_columns_publish(struct kb_arm_columns *kept)
{
    struct kb_arm_block *old = kept->block;

    if (!kept->has_settled)
        return NULL;
    kept->block = kept->coming;
    kept->coming = NULL;
    kept->has_settled = false;
    return old;
}

/* --- finding --------------------------------------------------------------------------------------------- */

static uint64_t state_of(uint64_t stamp, uint64_t n)
{
    return stamp << COUNT_BITS | n;
}

/* Rows first..n-1 of a column. */
static void fill(const struct kb_vec_kernel_spec *kernel, size_t dim, const struct kb_support *s, size_t first,
                 const double *features, double *column)
{
    for (size_t i = first; i < s->n; i++)
        column[i] = 1.0;
    kb_vec_kernel_scale(kernel, dim, s->x + first * s->dim + (s->dim - dim), s->dim, s->n - first, features,
                        column + first);
}

/* Remembered once: readers who only look share the line. */
static const double *miss(struct kb_arm_columns *kept)
{
    if (!atomic_load_explicit(&kept->is_wanted, memory_order_relaxed))
        atomic_store_explicit(&kept->is_wanted, true, memory_order_relaxed);
    return NULL;
}

const double *kb_arm_columns_find(const struct kb_vec_kernel_spec *kernel, size_t dim, const struct kb_support *s,
                                  uint32_t arm, uint64_t stamp, const double *features)
{
    struct kb_arm_block *b = s->columns->block;

    if (b == NULL || s->n > b->n_rows || arm >= b->n_arms || b->place[arm] == KB_ID_NONE)
        return miss(s->columns);
    _Atomic uint64_t *state = &b->state[b->place[arm]];
    double *column = b->value + b->place[arm] * b->n_rows;
    uint64_t seen = atomic_load_explicit(state, memory_order_acquire);
    if (seen == state_of(stamp, s->n))
        return column;
    if ((seen & BUSY) == BUSY || !atomic_compare_exchange_strong_explicit(state, &seen, state_of(stamp, BUSY),
                                                                          memory_order_acquire, memory_order_relaxed))
        return NULL;
    fill(kernel, dim, s, seen >> COUNT_BITS == stamp ? seen & BUSY : 0, features, column);
    atomic_store_explicit(state, state_of(stamp, s->n), memory_order_release);
    return column;
}
