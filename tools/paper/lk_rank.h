/* Information gain, effective dimension and ranks of LK's kernel, and bounds on the gain [LK, sec. 4 and Fig. 1]. */
#ifndef PB_LK_RANK_H
#define PB_LK_RANK_H

#include "paper/env_lk.h"

#define PB_LK_RANK_DIM 5u
#define PB_LK_RANK_RHO 0.1
#define PB_LK_RANK_LAMBDA 0.1
#define PB_LK_RANK_LENGTHSCALE 1.0

/* Of one (graph, n, T); the bound is NaN where the graph is neither complete nor empty. */
struct pb_lk_rank_figures {
    double gain, dimension, user_rank, gram_rank, bound;
};

/* Contexts of a seed, and room for the longest horizon. */
struct pb_lk_rank {
    uint64_t seed;
    size_t most_rounds;
    double *context;   /* [most_rounds][PB_LK_RANK_DIM] */
    double *gram;      /* T x T */
    double *value;     /* [T] its eigenvalues, ascending */
    double *spectrum;  /* [n_spectrum] eigenvalues of the contexts' own Gram matrix */
    size_t n_spectrum; /* rounds that it is of; 0: none yet */
};

/* KB_ENOMEM leaves *r empty. To be closed by pb_lk_rank_close (also when empty). */
enum kb_err pb_lk_rank_open(struct pb_lk_rank *r, size_t most_rounds);
void pb_lk_rank_close(struct pb_lk_rank *r);

/* x ~ U[0,1]^5, fresh in every round. A shorter horizon is the beginning of a longer one, and the contexts are the same
 * for all graphs and n: differences between cells are those of the users alone. */
void pb_lk_rank_draw(struct pb_lk_rank *r, uint64_t seed);

/* The user of a round: uniform; one number a round scaled to n, so that user 3 of 10 is users 6 and 7 of 20. */
size_t pb_lk_rank_user(uint64_t seed, size_t n, size_t t);

/* One cell; rounds is at most most_rounds. O(T^3), and once more for the first cell of a horizon. */
enum kb_err pb_lk_rank_measure(struct pb_lk_rank *r, enum pb_lk_graph graph, size_t n, size_t rounds,
                               struct pb_lk_rank_figures *out);

#endif
