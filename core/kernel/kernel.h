/* The product kernel on points s = (user, context, arm):
 *   k(s, s') = G[u, u'] kc(c, c') kx(x, x')
 *   times [level == level'] under a rule that learns by levels (elimination.h);
 * or a sum of such products (component_kernel.h). */
#ifndef KB_KERNEL_H
#define KB_KERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "history/history.h"
#include "base/ids.h"
#include "graph/user_kernel.h"
#include "kernel/component_kernel.h"
#include "kernel/support.h"

/* Candidates of one decision: one user and context, n arms. */
struct kb_candidates {
    struct kb_user user;
    const double *context; /* context_dim; may be NULL when 0 */
    size_t n;
    const uint32_t *arms;          /* [n] interned arm, KB_ID_NONE = never seen (differs from every other) */
    const double *const *features; /* [n] arm_dim doubles each; may be NULL when arm_dim is 0 */
    const uint64_t *stamps; /* [n] of arms as the catalogue has them (arms.h), 0: with other features; NULL: all */
    uint32_t level;         /* the level that is asked, where the kernel has levels */
};

struct kb_kernel {
    struct kb_user_kernel *user; /* owned */
    struct kb_vec_kernel_spec context, arm;
    size_t context_dim, arm_dim;
    struct kb_hash_key key;   /* of tables of points */
    uint64_t arm_factor;      /* drawn from it; odd */
    uint64_t seed;            /* keys what a learned user kernel draws */
    size_t n_nodes;           /* of the user graph; 0 without one */
    bool reads_nodes;         /* whether users are looked up by graph node */
    bool is_user_normalized;  /* whether every kernel value needs the users' diagonal */
    bool is_sum;              /* then of these components, one of which each support point stands for */
    struct kb_components sum; /* its user kernel is the kernel's own */
    bool has_levels;          /* one more factor: [level == level'], and level 0 teaches nothing */
};

/* Of a long pass over the history, for other threads to look at it: rows passed so far, and whether it is to end. */
struct kb_watch {
    _Atomic uint64_t done;
    _Atomic bool is_cancelled, is_done; /* done: all that was asked for, as of the end of the last run */
};

/* Memory of a reader: an arena and the user kernel's work vectors. */
struct kb_scratch {
    struct kb_arena arena;
    struct kb_user_scratch *user;
    struct kb_watch *watch; /* NULL: nobody looks */
};

/* Called by long passes for every n rows; false once they are to end. */
static inline bool kb_scratch_goes_on(struct kb_scratch *s, size_t n)
{
    if (s->watch == NULL)
        return true;
    atomic_fetch_add_explicit(&s->watch->done, n, memory_order_relaxed);
    return !atomic_load_explicit(&s->watch->is_cancelled, memory_order_relaxed);
}

enum kb_err kb_kernel_init(struct kb_kernel *k, const struct kb_spec *spec, const struct kb_graph *graph,
                           struct kb_hash_key key);
/* The same, with the user kernel's values shared with `other`, whose user kernel and graph spec must have. */
enum kb_err kb_kernel_init_like(struct kb_kernel *k, const struct kb_spec *spec, const struct kb_kernel *other);
void kb_kernel_close(struct kb_kernel *k);

/* Lets a learned user kernel learn from h, by its contexts, or its features where there are no contexts; nothing for
 * the others (kb_user_kernel_learn). */
enum kb_err kb_kernel_learn_users(struct kb_kernel *k, const struct kb_history *h);

/* k(s, s). */
double kb_kernel_diag(const struct kb_kernel *k, const struct kb_point *p, struct kb_scratch *s);

/* k(a, b) of any two points; only where kb_user_kernel_has_pairs. O(dim). */
double kb_kernel_pair(const struct kb_kernel *k, const struct kb_point *a, const struct kb_point *b);

/* k of two points of one user, for that user's diagonal: also where users are not told apart in pairs. No sum. O(dim).
 */
double kb_kernel_of_user(const struct kb_kernel *k, double diag_user, const struct kb_point *a,
                         const struct kb_point *b);

/* Whether two points are the same to the kernel (equal rows), and a keyed hash that agrees with it. */
bool kb_kernel_same(const struct kb_kernel *k, const struct kb_point *a, const struct kb_point *b);
uint64_t kb_kernel_hash(const struct kb_kernel *k, const struct kb_point *p);
/* The same in two: of user, level and context, which candidates of a decision share, and that with the arm. */
uint64_t kb_kernel_hash_place(const struct kb_kernel *k, const struct kb_point *p);
uint64_t kb_kernel_hash_arm(const struct kb_kernel *k, uint64_t place, const struct kb_point *p);
/* Whether points are the same when their arms are: nothing else is told apart. */
bool kb_kernel_is_of_arms(const struct kb_kernel *k);

/* Whether nothing is learned from the point: level 0 where the kernel has levels. */
bool kb_kernel_ignores(const struct kb_kernel *k, const struct kb_point *p);

/* out[i] = k(support_i, p), i < n (n may exceed s->n by staged points). `diag_user` = kb_user_kernel_diag of
 * p's user (used when normalised). O(n (dim + 1)). */
void kb_kernel_column(const struct kb_kernel *k, const struct kb_support *s, size_t n, const struct kb_point *p,
                      double diag_user, double *out);

/* Block for one decision: out[i + c ld] = k(support_i, candidate_c), n = s->n rows, candidates c0..c0+n_c-1,
 * and diag[c - c0] = k(candidate_c, candidate_c). User and context factors are computed once, and the factors of arms
 * with a stamp are those that s->columns keeps, where it does: the same bits. */
void kb_kernel_block(const struct kb_kernel *k, const struct kb_support *s, const struct kb_candidates *cand, size_t c0,
                     size_t n_c, struct kb_scratch *scratch, double *out, size_t ld, double *diag);

/* Arena bytes that one kb_kernel_block call may draw. */
size_t kb_kernel_block_bytes(size_t n_support);

/* Row of the history as a point; borrowed. */
static inline struct kb_point kb_history_point(const struct kb_history *h, const uint32_t *node_of, size_t row)
{
    uint32_t user = h->user[row];
    return (struct kb_point){
        .user = {.index = user, .node = node_of != NULL ? node_of[user] : KB_ID_NONE},
        .arm = h->arm[row],
        .x = h->x + row * h->dim,
        .level = h->level[row],
    };
}

#endif
