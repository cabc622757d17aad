/* Anchor storage (user_anchors.h): fixed table of panels, and a hash from kernel row to slot.
 *
 * Two access patterns meet here. Readers walk committed slots, any number of them, while one writer stages new
 * slots behind; so nothing a reader touches may move. The table of panel pointers has its full size from the
 * start, a panel is allocated once, and a column's room belongs to its panel. The hash table does move when it
 * grows: it serves the writer alone.
 *
 * Memory: 16 KiB for the table, 960 bytes per panel, and 128 bytes per node for a panel with columns, or what the
 * tables of near_column.h take. */
#include "graph/user_anchors.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ids.h"

#define FIRST_SLOTS ((size_t)32)

/* No memory is taken before the first reservation: a kernel without anchors costs its pointer table alone. */
void kb_anchors_init(struct kb_anchors *a, size_t n_nodes, struct kb_hash_key key)
{
    memset(a, 0, sizeof *a);
    a->key = key;
    a->n_nodes = n_nodes;
}

/* Panels are reserved in order, so the first missing one is the end. */
void kb_anchors_close(struct kb_anchors *a)
{
    for (size_t i = 0; i < KB_ANCHOR_PANELS && a->panel[i] != NULL; i++) {
        for (size_t k = 0; k < KB_CG_PANEL; k++)
            kb_near_column_close(&a->panel[i]->near[k]);
        kb_free(a->panel[i]->column);
        kb_free(a->panel[i]);
    }
    kb_free(a->slot);
    kb_anchors_init(a, 0, a->key);
}

/* The one number that readers may ask for while the writer reserves. */
static void count_bytes(struct kb_anchors *a, size_t more)
{
    atomic_fetch_add_explicit(&a->bytes, more, memory_order_relaxed);
}

/* In force and staged together: the next slot. */
static size_t n_all(const struct kb_anchors *a)
{
    return a->n + a->n_staged;
}

static uint32_t row_of(const struct kb_anchors *a, uint32_t slot)
{
    return a->panel[slot / KB_CG_PANEL]->row[slot % KB_CG_PANEL];
}

/* Position in the table where row stands, or the empty one where it would go. */
static size_t probe(const struct kb_anchors *a, uint32_t row)
{
    struct kb_keyed h = kb_keyed_begin(a->key);
    kb_keyed_word(&h, row);
    size_t at = (size_t)kb_keyed_end(h) & (a->n_slots - 1);
    while (a->slot[at] != KB_ID_NONE && row_of(a, a->slot[at]) != row)
        at = (at + 1) & (a->n_slots - 1);
    return at;
}

uint32_t kb_anchors_find(const struct kb_anchors *a, uint32_t row)
{
    return a->n_slots == 0 ? KB_ID_NONE : a->slot[probe(a, row)];
}

/* Empties the table and enters every anchor again. */
static void rehash(struct kb_anchors *a)
{
    memset(a->slot, 0xff, a->n_slots * sizeof *a->slot); /* KB_ID_NONE is all ones */
    for (uint32_t slot = 0; slot < n_all(a); slot++)
        a->slot[probe(a, row_of(a, slot))] = slot;
}

/* A table for n anchors, at most half full, so that a probe ends after about two steps. */
static enum kb_err reserve_table(struct kb_anchors *a, size_t n)
{
    size_t want = a->n_slots > 0 ? a->n_slots : FIRST_SLOTS;
    while (want < 2 * n)
        want *= 2;
    if (want == a->n_slots)
        return KB_OK;
    uint32_t *slot = kb_array(want, 1, sizeof *slot);
    if (slot == NULL)
        return KB_ENOMEM;
    count_bytes(a, (want - a->n_slots) * sizeof *slot);
    kb_free(a->slot);
    a->slot = slot;
    a->n_slots = want;
    rehash(a);
    return KB_OK;
}

/* Panels first, the table last; what a failure leaves behind is room, of use to the next attempt. */
enum kb_err kb_anchors_reserve(struct kb_anchors *a, size_t n)
{
    if (n > KB_ANCHOR_PANELS * KB_CG_PANEL - n_all(a))
        return KB_ELIMIT;
    size_t n_panels = (n_all(a) + n + KB_CG_PANEL - 1) / KB_CG_PANEL;
    for (size_t i = n_all(a) / KB_CG_PANEL; i < n_panels; i++) {
        if (a->panel[i] != NULL)
            continue;
        a->panel[i] = kb_array(1, 1, sizeof *a->panel[i]);
        if (a->panel[i] == NULL)
            return KB_ENOMEM;
        count_bytes(a, sizeof *a->panel[i]);
    }
    return reserve_table(a, n_all(a) + n);
}

/* Zeroed by kb_array, so slots of strangers, which never store a column, read as 0 and not as noise. Readers look at
 * the pointer only for slots whose column is stored, hence never while it is being set. */
enum kb_err kb_anchors_reserve_column(struct kb_anchors *a, uint32_t slot)
{
    struct kb_anchor_panel *panel = a->panel[slot / KB_CG_PANEL];
    if (panel->column != NULL)
        return KB_OK;
    panel->column = kb_array(a->n_nodes, KB_CG_PANEL, sizeof *panel->column);
    if (panel->column == NULL)
        return KB_ENOMEM;
    count_bytes(a, a->n_nodes * KB_CG_PANEL * sizeof *panel->column);
    return KB_OK;
}

/* The diagonal of a column still to be solved may be NaN here; the solver's caller fills it in before the commit. */
uint32_t kb_anchors_push(struct kb_anchors *a, uint32_t row, struct kb_user user, double diag)
{
    uint32_t slot = (uint32_t)n_all(a);
    size_t at = probe(a, row);
    struct kb_anchor_panel *panel = a->panel[slot / KB_CG_PANEL];
    assert(panel != NULL && a->slot[at] == KB_ID_NONE && 2 * (n_all(a) + 1) <= a->n_slots);
    panel->user[slot % KB_CG_PANEL] = user;
    panel->row[slot % KB_CG_PANEL] = row;
    panel->diag[slot % KB_CG_PANEL] = diag;
    a->slot[at] = slot;
    a->n_staged++;
    return slot;
}

/* Strided on both sides: 16 columns of one node share two cache lines, which suits the readers. O(n_nodes). */
void kb_anchors_set_column(struct kb_anchors *a, uint32_t slot, const double *x, size_t width, size_t k)
{
    double *column = a->panel[slot / KB_CG_PANEL]->column + slot % KB_CG_PANEL;
    for (size_t i = 0; i < a->n_nodes; i++)
        column[i * KB_CG_PANEL] = x[i * width + k];
}

/* One that a truncated slot has left is let go. */
void kb_anchors_take_near(struct kb_anchors *a, uint32_t slot, struct kb_near_column *near)
{
    struct kb_near_column *at = &a->panel[slot / KB_CG_PANEL]->near[slot % KB_CG_PANEL];
    assert(slot >= a->n);
    count_bytes(a, kb_near_column_bytes(near, a->n_nodes) - kb_near_column_bytes(at, a->n_nodes));
    kb_near_column_close(at);
    *at = *near;
    *near = (struct kb_near_column){0};
}

/* Two counters change; nothing is copied. Slots already in force are left alone. */
void kb_anchors_commit(struct kb_anchors *a, uint32_t slot)
{
    assert(slot < n_all(a));
    if (slot < a->n)
        return;
    size_t n_new = slot + 1 - a->n;
    a->n += n_new;
    a->n_staged -= n_new;
}

/* Open addressing has no cheap removal, and this is the rare path: the table is filled anew. */
void kb_anchors_truncate(struct kb_anchors *a, size_t n_staged)
{
    assert(n_staged <= a->n_staged);
    if (n_staged == a->n_staged)
        return;
    a->n_staged = n_staged;
    rehash(a);
}

size_t kb_anchors_bytes(const struct kb_anchors *a)
{
    return atomic_load_explicit(&a->bytes, memory_order_relaxed);
}
