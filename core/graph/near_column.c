/* Columns as tables (near_column.h). A decision asks each column of the dictionary for one node, most of which are not
 * there: one cache line each, since a probe ends at the first empty slot and the table is at most half full.
 *
 * Memory: 32 to 64 bytes an entry; 8 bytes a node where that is less. */
#include "graph/near_column.h"

#include "base/alloc.h"
#include "base/ids.h"

/* The high bits of a product with 2^32 / phi spread neighbouring numbers over the table. */
static size_t first_slot(const struct kb_near_column *c, uint32_t node)
{
    return (size_t)(((uint64_t)(node * UINT32_C(2654435769)) * c->n_slots) >> 32);
}

enum kb_err kb_near_column_init(struct kb_near_column *c, size_t n_entries, size_t n_nodes)
{
    size_t n_slots = 8;
    while (n_slots < 2 * n_entries)
        n_slots *= 2;
    if (n_slots * sizeof *c->entry >= n_nodes * sizeof *c->all) {
        c->all = kb_array(n_nodes, 1, sizeof *c->all);
        return c->all != NULL ? KB_OK : KB_ENOMEM;
    }
    c->entry = kb_array(n_slots, 1, sizeof *c->entry);
    if (c->entry == NULL)
        return KB_ENOMEM;
    c->n_slots = n_slots;
    for (size_t i = 0; i < n_slots; i++)
        c->entry[i].node = KB_ID_NONE;
    return KB_OK;
}

void kb_near_column_close(struct kb_near_column *c)
{
    kb_free(c->entry);
    kb_free(c->all);
    *c = (struct kb_near_column){0};
}

/* Where the node is, or the empty slot where it would be. */
static size_t probe(const struct kb_near_column *c, uint32_t node)
{
    size_t at = first_slot(c, node);
    while (c->entry[at].node != node && c->entry[at].node != KB_ID_NONE)
        at = (at + 1) & (c->n_slots - 1);
    return at;
}

void kb_near_column_put(struct kb_near_column *c, uint32_t node, double value)
{
    if (c->all != NULL)
        c->all[node] = value;
    else
        c->entry[probe(c, node)] = (struct kb_near_entry){.value = value, .node = node};
}

double kb_near_column_at(const struct kb_near_column *c, uint32_t node)
{
    if (c->all != NULL)
        return c->all[node];
    return c->n_slots > 0 ? c->entry[probe(c, node)].value : 0.0; /* that of an empty slot is 0 */
}

size_t kb_near_column_bytes(const struct kb_near_column *c, size_t n_nodes)
{
    return c->n_slots * sizeof *c->entry + (c->all != NULL ? n_nodes * sizeof *c->all : 0);
}
