/* Storage of the user kernel's anchors: slot -> user, its diagonal and (large graphs) its column of G, and the
 * map row -> slot. Private to the user kernel. */
#ifndef KB_USER_ANCHORS_H
#define KB_USER_ANCHORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keyed.h"
#include "graph/graph.h"
#include "graph/near_column.h"

#define KB_CG_PANEL 16u
#define KB_ANCHOR_PANELS 2048u /* at most 32,768 anchors: twice the largest support of a posterior */

/* KB_CG_PANEL anchors. A panel never moves, and a slot is written before it is committed: readers of committed
 * slots need no lock. column[i * KB_CG_PANEL + k] = G[i, user k], so a user's row is contiguous in a panel; or near[k]
 * has what is not negligible of that column, less what all users share. */
struct kb_anchor_panel {
    struct kb_user user[KB_CG_PANEL];
    uint32_t row[KB_CG_PANEL];
    double diag[KB_CG_PANEL]; /* G_uu before normalisation */
    double *column;           /* NULL until a column is stored */
    struct kb_near_column near[KB_CG_PANEL];
};

struct kb_anchors {
    struct kb_anchor_panel *panel[KB_ANCHOR_PANELS];
    size_t n_nodes;     /* rows of a column */
    size_t n, n_staged; /* in force; staged behind them */
    uint32_t *slot;     /* hash table over rows, KB_ID_NONE = empty (writer only) */
    struct kb_hash_key key;
    size_t n_slots;       /* power of two, at most half full */
    _Atomic size_t bytes; /* held in all; read beside the writer */
};

void kb_anchors_init(struct kb_anchors *a, size_t n_nodes, struct kb_hash_key key);
void kb_anchors_close(struct kb_anchors *a);

/* Slot of a row, staged ones included, or KB_ID_NONE. For the writer. O(1). */
uint32_t kb_anchors_find(const struct kb_anchors *a, uint32_t row);

/* Room for n more pushes. KB_ELIMIT beyond the table, KB_ENOMEM; nothing visible changes. */
enum kb_err kb_anchors_reserve(struct kb_anchors *a, size_t n);
/* Room for the column of a slot whose panel is reserved. O(n_nodes) when the panel has none yet. */
enum kb_err kb_anchors_reserve_column(struct kb_anchors *a, uint32_t slot);

/* Stages a new row behind all others and returns its slot. Room reserved, row not present (asserted). */
uint32_t kb_anchors_push(struct kb_anchors *a, uint32_t row, struct kb_user user, double diag);
/* Column of a slot from `width` interleaved ones, the k-th; room reserved. */
void kb_anchors_set_column(struct kb_anchors *a, uint32_t slot, const double *x, size_t width, size_t k);

/* The same as a table, which is taken over (*near is all 0 afterwards). */
void kb_anchors_take_near(struct kb_anchors *a, uint32_t slot, struct kb_near_column *near);

/* Makes every slot <= slot visible; forgets staged ones until n_staged are left (O(anchors)). */
void kb_anchors_commit(struct kb_anchors *a, uint32_t slot);
void kb_anchors_truncate(struct kb_anchors *a, size_t n_staged);

size_t kb_anchors_bytes(const struct kb_anchors *a);

#endif
