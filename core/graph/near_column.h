/* One column of a user kernel over a large graph, less what is negligible: a table from node to value. Private to
 * the user kernel. */
#ifndef KB_NEAR_COLUMN_H
#define KB_NEAR_COLUMN_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct kb_near_entry {
    double value;
    uint32_t node; /* KB_ID_NONE: empty */
};

/* All 0: a column without entries. */
struct kb_near_column {
    struct kb_near_entry *entry; /* [n_slots] open addressing, at most half full */
    size_t n_slots;              /* power of two, or 0 */
    double *all;                 /* [n_nodes] in its place, where a table would be larger */
};

/* Room for so many entries of n_nodes. KB_ENOMEM. c is all 0. */
enum kb_err kb_near_column_init(struct kb_near_column *c, size_t n_entries, size_t n_nodes);
void kb_near_column_close(struct kb_near_column *c);
/* At most once per node, and no more than there is room for. */
void kb_near_column_put(struct kb_near_column *c, uint32_t node, double value);
/* 0 for what was not put. O(1). */
double kb_near_column_at(const struct kb_near_column *c, uint32_t node);
size_t kb_near_column_bytes(const struct kb_near_column *c, size_t n_nodes);

#endif
