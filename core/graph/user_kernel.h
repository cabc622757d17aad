/* User kernel G over user indices: (L + rho I)^-1 of the graph [LK, Thm 2.1], its powers, heat, RBF on spectral
 * coordinates, identity, ones, or mmd, which is learned from the history (user_embedding.h).
 *
 * A user is an interned index with its graph node (KB_ID_NONE = unknown to the graph). Up to KB_GRAPH_DENSE_MAX nodes
 * the inverse is dense; beyond, columns of *anchors* (users in the posterior's support) are solved, and other users
 * read their row of them: whole columns by conjugate gradients, or with `tolerance` what is near the anchor, so that
 * no entry of G, diagonal or not, misses by more than tolerance / (rho + population), which is tolerance times the
 * variance of a user without friends.
 *
 * Kernels other than power 1 of (L + rho I)^-1 come from the whole spectrum of L (user_spectral.h): dense only, and
 * without population.
 *
 * Unknown users: without `population` they are isolated, G_uu = rho^-power (heat, spectral_rbf: 1). With population
 * weight w they hang
 * on the virtual node p alone: f(u) | f(p) ~ N(c f(p), 1/(w + rho)), c = w/(w + rho), hence G_uv = c G_pv,
 * G_uu = c^2 G_pp + 1/(w + rho), and for two of them c^2 G_pp.
 * Deviation: p's own prior does not feel those who hang on it so, hence the kernel stays fixed while
 * strangers arrive (test: unknown_users_do_not_move_the_kernel).
 *
 * `is_normalized` divides by sqrt(G_uu G_vv). Canonical rows: users whose kernel rows are equal for every
 * argument (all of them under `ones`) share one row index, so that repeated points are recognised. */
#ifndef KB_USER_KERNEL_H
#define KB_USER_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/buf.h"
#include "graph/graph.h"
#include "history/history.h"
#include "base/keyed.h"
#include "spec/spec.h"

#define KB_GRAPH_DENSE_MAX 2048u

struct kb_user_kernel;
struct kb_user_scratch; /* one per concurrent reader: work vectors of a single solve */

/* Whether a graph of n nodes is small enough for the kernel: KB_EUNSUPPORTED, with `pointer` in the message, when it
 * has no form but the dense one and n is beyond KB_GRAPH_DENSE_MAX. */
enum kb_err kb_user_kernel_check(const struct kb_user_kernel_spec *spec, size_t n, const char *pointer,
                                 struct kb_errmsg *msg);

/* Whether double precision can solve the kernel on a graph (NULL: none): KB_EUNSUPPORTED where weights and rho are too
 * far apart, or weights and tau too large together. O(1); where that is in doubt, the cost of kb_user_kernel_new.
 * KB_ENOMEM. */
enum kb_err kb_user_kernel_check_solvable(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph,
                                          const char *pointer, struct kb_errmsg *msg);

/* graph may be NULL (no graph: every user is unknown); it is borrowed and must outlive the kernel.
 * Dense: O(n^3). Beyond KB_GRAPH_DENSE_MAX nodes nothing is solved here, O(n). The virtual node is never a node of a
 * system: what it adds is one constant (user_kernel.c).
 * key: of its table of anchors. KB_EUNSUPPORTED when kb_user_kernel_check refuses, KB_ENOTPD when
 * kb_user_kernel_check_solvable does. */
enum kb_err kb_user_kernel_new(struct kb_user_kernel **out, const struct kb_user_kernel_spec *spec,
                               const struct kb_graph *graph, struct kb_hash_key key);
/* Another kernel of the same values, which it shares with `other` and outlives it with; its anchors are its own, none
 * yet. For whoever knows that `other` is not freed meanwhile; either may be freed by any thread, and readers of `other`
 * are not disturbed. Dense: O(1). Columns: what is known of the diagonal is shared, columns are not. */
enum kb_err kb_user_kernel_new_like(struct kb_user_kernel **out, const struct kb_user_kernel *other);
void kb_user_kernel_free(struct kb_user_kernel *k);
/* Whether it is a kernel of this spec, of a type whose values follow from spec and graph. */
bool kb_user_kernel_is_of(const struct kb_user_kernel *k, const struct kb_user_kernel_spec *spec);

/* Identity of the user's kernel row: equal rows <=> equal values (0 for everybody under `ones`). */
uint32_t kb_user_kernel_row(const struct kb_user_kernel *k, struct kb_user u);
bool kb_user_kernel_is_ones(const struct kb_user_kernel *k);

enum kb_err kb_user_scratch_new(struct kb_user_scratch **out, const struct kb_user_kernel *k);
void kb_user_scratch_free(struct kb_user_scratch *s);
/* Whether s serves k: false for NULL, and for one made for a kernel over another number of nodes. */
bool kb_user_scratch_fits(const struct kb_user_scratch *s, const struct kb_user_kernel *k);

/* G_uu (after normalisation: 1). May solve one system for a user not seen before; the value is cached by a
 * relaxed atomic store, so readers may share a const kernel. O(1), or O(iterations (n + e)). */
double kb_user_kernel_diag(const struct kb_user_kernel *k, struct kb_user u, struct kb_user_scratch *s);

/* Anchors: users against which others are evaluated, numbered 0.. in order of adding; one per kernel row. These
 * functions are the writer's; readers have row_at.
 * `find` gives the slot of a user's row among those in force and those staged, or KB_ID_NONE.
 * `stage` solves and stores the user's column behind those in force, where readers do not look (heavy, may
 * run beside readers, not beside another writer); staged slots stack up. *slot receives it (an existing one
 * when the row has an anchor already). `commit` makes every staged slot <= slot visible (O(1), cannot fail,
 * needs exclusion); `discard` forgets all that are staged. For building before the kernel is shared, stage
 * and commit in one go by `add`, which solves blocks of KB_CG_PANEL columns with the same bits as one by one. */
uint32_t kb_user_kernel_find_anchor(const struct kb_user_kernel *k, struct kb_user u);
enum kb_err kb_user_kernel_stage_anchor(struct kb_user_kernel *k, struct kb_user u, struct kb_user_scratch *s,
                                        uint32_t *slot);
void kb_user_kernel_commit_anchor(struct kb_user_kernel *k, uint32_t slot);
void kb_user_kernel_discard_anchors(struct kb_user_kernel *k);
enum kb_err kb_user_kernel_add_anchors(struct kb_user_kernel *k, const struct kb_user *users, size_t n, uint32_t *slots,
                                       struct kb_user_scratch *s);

size_t kb_user_kernel_n_anchors(const struct kb_user_kernel *k); /* in force. O(1) */

/* out[i] = G[u, anchor slots[i]], normalised when asked (needs diag(u): pass it); slots NULL: anchor i. Staged slots
 * may be read by the writer. O(n). */
void kb_user_kernel_row_at(const struct kb_user_kernel *k, struct kb_user u, double diag, const uint32_t *slots,
                           size_t n, double *out);

/* Whether a few values of the kernel may be had for less than the kernel: the inverse Laplacian over a graph, without a
 * population, divided by its diagonal. */
bool kb_user_gram_is_served(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph);
/* gram (n x n) = G[u_i, u_j] of such a kernel, each entry wrong by at most `tolerance` (0: to ten digits or more), by
 * conjugate gradients: O(n iterations (nodes + edges)), iterations growing with the digits. KB_ENOTPD, KB_ENOMEM. */
enum kb_err kb_user_gram(const struct kb_user_kernel_spec *spec, const struct kb_graph *graph,
                         const struct kb_user *users, size_t n, double tolerance, double *gram);

/* Whether G[u, v] of any two users is at hand, anchors or not; else (a graph too large to be held) it would take a
 * system. And that value, normalised when asked. O(1). */
bool kb_user_kernel_has_pairs(const struct kb_user_kernel *k);
double kb_user_kernel_pair(const struct kb_user_kernel *k, struct kb_user u, struct kb_user v);

/* out[i] = G[u, v_i] of any users, normalised when asked. Where values are not at hand, k takes u as an anchor, hence
 * must be the caller's own (new_like), and each v_i whose diagonal is not known yet may take a system of its own:
 * goes_on (NULL: to the end) is asked before each, and where it says no the rest is NaN. KB_ENOMEM, KB_ENOTPD. */
enum kb_err kb_user_kernel_values(struct kb_user_kernel *k, struct kb_user u, const struct kb_user *v, size_t n,
                                  bool (*goes_on)(void *arg), void *arg, double *out);

/* Known diagonal values as a cache for snapshots: n_nodes doubles (NaN = not known), or 0 when dense or not
 * a graph kernel. */
size_t kb_user_kernel_diag_cache(const struct kb_user_kernel *k, double *out, size_t max);
void kb_user_kernel_set_diag_cache(struct kb_user_kernel *k, const double *values, size_t n);

/* Learned kernels (mmd); the others have nothing to learn, to digest or to write. A new one has everybody alone, G = I;
 * `learn` takes G from the history as it stands (vectors: the first `dim` coordinates of its rows, features keyed by
 * seed), for a kernel without anchors that no reader has yet. `save` and `load` are for snapshots, `load` wants the
 * same. A failure leaves the kernel as it was. KB_ENOMEM; load also KB_ECORRUPT. */
enum kb_err kb_user_kernel_learn(struct kb_user_kernel *k, uint64_t seed, size_t dim, const struct kb_history *h);
uint64_t kb_user_kernel_digest(const struct kb_user_kernel *k, uint64_t h);
void kb_user_kernel_save(const struct kb_user_kernel *k, struct kb_writer *w);
enum kb_err kb_user_kernel_load(struct kb_user_kernel *k, struct kb_reader *r);

size_t kb_user_kernel_bytes(const struct kb_user_kernel *k);
size_t kb_user_kernel_shared_bytes(const struct kb_user_kernel *k); /* of these, what one like it has no more of */

#endif
