/* Arm factors of the catalogue, kept: kx(arm_i, arm) of every support point i for the arms that decisions ask for.
 * A decision over the catalogue then computes the factors of its user and context alone (kernel.c).
 *
 * Filled by the decisions that need a column first, in memory that the writer has laid out: nothing is computed for
 * arms that nobody asks for, and nothing is allocated in a decision. A column is told by its arm and the stamp of the
 * features (arms.h), so whatever happens to the catalogue, values of other features are never taken for it. Derived: a
 * column that is missing, or was never made, changes no bit of what is computed (test:
 * kept_columns_change_no_bit). */
#ifndef KB_ARM_COLUMNS_H
#define KB_ARM_COLUMNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kb_arms;
struct kb_support;
struct kb_arm_block;
struct kb_vec_kernel_spec;

/* All 0: nothing is kept. */
struct kb_arm_columns {
    struct kb_arm_block *block;  /* what decisions see; NULL: none */
    struct kb_arm_block *coming; /* the writer's: waits for publish, when has_settled */
    bool has_settled;
    _Atomic bool is_wanted; /* a decision has missed a column for which there is no room */
};

void kb_arm_columns_close(struct kb_arm_columns *kept);

/* --- the writer's, beside readers --- */

/* Room for the arms of the catalogue, the first ones where it is not enough for all, against up to n_rows points in at
 * most so many bytes: when decisions have missed it, or when there is more than that. Without memory the last one
 * stays. 16 MB hold 8,000 arms against 256 points. O(arms known). */
void kb_arm_columns_settle(struct kb_arm_columns *kept, const struct kb_arms *arms, size_t n_rows, size_t most);
/* Shows it; the caller frees what is returned (kb_free) when the lock is given back. [exclusive] O(1) */
void *kb_arm_columns_publish(struct kb_arm_columns *kept);

size_t kb_arm_columns_bytes(const struct kb_arm_columns *kept); /* O(1) */

/* --- readers', beside each other --- */

/* The factor, by the kernel on arms, of a catalogue arm with these `dim` features against the points in force of s (at
 * least one): s->n doubles until the lock is given back. NULL: to be computed. O(1), or O(dim) for every point that
 * came since the arm was last asked for. */
const double *kb_arm_columns_find(const struct kb_vec_kernel_spec *kernel, size_t dim, const struct kb_support *s,
                                  uint32_t arm, uint64_t stamp, const double *features);

#endif
