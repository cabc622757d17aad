/* Mean embeddings of users: what each of them has been shown, as a point. The kernel `mmd` between users is an RBF of
 * them; the kernel of [LK, baselines], COOP-KernelUCB, that is learned. Private to the user kernel.
 *
 * D random Fourier features of the kernel exp(-|x - y|^2 / 2 l^2) on vectors [RR, Alg. 1]:
 *   phi_j(x) = sqrt(2 / D) cos(w_j.x + b_j),   w_j ~ N(0, I / l^2),   b_j ~ U[0, 2 pi)
 * and of user u with observations x_1 .. x_t:  mu_u = (phi(x_1) + .. + phi(x_t)) / t. Then
 *   G_uv = exp(-|mu_u - mu_v|^2 / 2 s^2),   and |mu_u - mu_v|^2 estimates the squared MMD of their distributions. */
#ifndef KB_USER_EMBEDDING_H
#define KB_USER_EMBEDDING_H

#include "base/buf.h"
#include "base/err.h"
#include "history/history.h"
#include "spec/spec.h"

#define KB_EMBEDDED_MAX 2048u /* users, as many as a dense graph can have */

struct kb_user_embedding {
    size_t n, n_features;
    uint32_t *user;   /* [n] interned indices, ascending */
    double *mean;     /* [n][n_features] mu */
    double bandwidth; /* s, > 0 */
};

void kb_user_embedding_close(struct kb_user_embedding *m);

/* Embeds every user with at least spec->min_observations in h (of more than KB_EMBEDDED_MAX the most observed, ties by
 * index) into *m, which is empty. Vectors are the first `dim` >= 1 coordinates of h's. The features are functions of
 * (seed, stream KB_STREAM_FEATURES): see the file. KB_ENOMEM leaves *m for close. O(rows D dim + n^2 D). */
enum kb_err kb_user_embedding_learn(struct kb_user_embedding *m, const struct kb_user_kernel_spec *spec, uint64_t seed,
                                    size_t dim, const struct kb_history *h);

/* Place 0..n-1 of an interned user, or KB_ID_NONE. O(log n). */
uint32_t kb_user_embedding_find(const struct kb_user_embedding *m, uint32_t user);

/* G over the places into g (n x n, exactly symmetric, 1 on the diagonal). O(n^2 D). */
void kb_user_embedding_gram(const struct kb_user_embedding *m, double *g);

uint64_t kb_user_embedding_digest(const struct kb_user_embedding *m, uint64_t h);
void kb_user_embedding_save(const struct kb_user_embedding *m, struct kb_writer *w);
/* *m empty. KB_ECORRUPT, KB_ENOMEM leave it for close. */
enum kb_err kb_user_embedding_load(struct kb_user_embedding *m, size_t n_features, struct kb_reader *r);

#endif
