/* lk_rank.h: the kernel [L_rho^-1]_{uu'} exp(-|x - x'|^2 / 2 l^2) over T rounds.
 *
 *   gain       gamma_T = ln det(I + K_T / lambda), without the 1/2 of other papers             [LK, sec. 4]
 *   dimension  d = gamma_T / ln(1 + T K_max / lambda), K_max the largest diagonal entry        [LK, sec. 4]
 *   ranks      eigenvalues of L_rho^-1 and of K_T above 1 % of their largest
 *
 * Bounds, from the spectrum of the contexts' Gram matrix X alone (the statement is ours, hence the proofs):
 *   empty     L_rho^-1 = I / rho, so K_T is X / rho over pairs of one user, and 0 elsewhere. A user's block is a
 *             principal submatrix of X / rho, and a determinant is at most the product of its diagonal:
 *                 gamma_T <= min(n ln det(I + X / (rho lambda)), T ln(1 + 1 / (rho lambda)))
 *   complete  L_rho^-1 = a I + b 1 1^T, a = 1 / (n + rho), b = a / rho, so K_T is b X and users' blocks of a X.
 *             ln det(I + A + B) <= ln det(I + A) + ln det(I + B) for A, B >= 0, and the product of the diagonal again:
 *                 gamma_T <= ln det(I + b X / lambda) + T ln(1 + a / lambda) */
#include "paper/lk_rank.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "linalg/eigen.h"

#define DIM PB_LK_RANK_DIM
#define RHO PB_LK_RANK_RHO
#define LAMBDA PB_LK_RANK_LAMBDA
#define RANK_SHARE 0.01

enum kb_err pb_lk_rank_open(struct pb_lk_rank *r, size_t most_rounds)
{
    *r = (struct pb_lk_rank){.most_rounds = most_rounds};
    r->context = kb_array(most_rounds, DIM, sizeof *r->context);
    r->gram = kb_array(most_rounds, most_rounds, sizeof *r->gram);
    r->value = kb_array(most_rounds, 1, sizeof *r->value);
    r->spectrum = kb_array(most_rounds, 1, sizeof *r->spectrum);
    if (r->context != NULL && r->gram != NULL && r->value != NULL && r->spectrum != NULL)
        return KB_OK;
    pb_lk_rank_close(r);
    return KB_ENOMEM;
}

void pb_lk_rank_close(struct pb_lk_rank *r)
{
    kb_free(r->context);
    kb_free(r->gram);
    kb_free(r->value);
    kb_free(r->spectrum);
    *r = (struct pb_lk_rank){0};
}

/* A pool of M items would bound the rank of K_T by n M and hide what T does to it. */
void pb_lk_rank_draw(struct pb_lk_rank *r, uint64_t seed)
{
    const uint64_t key = pb_lk_key(seed, PB_LK_KEY_ITEMS);

    r->seed = seed;
    r->n_spectrum = 0;
    for (size_t i = 0; i < r->most_rounds * DIM; i++)
        r->context[i] = pb_lk_uniform(key, i);
}

size_t pb_lk_rank_user(uint64_t seed, size_t n, size_t t)
{
    return (size_t)(pb_lk_uniform(pb_lk_key(seed, PB_LK_KEY_USERS), t) * (double)n);
}

/* k(x, x) = 1, so K_max is the largest prior variance of a user. */
static double context_kernel(const double *x, const double *y)
{
    double r2 = 0.0;

    for (size_t j = 0; j < DIM; j++)
        r2 += (x[j] - y[j]) * (x[j] - y[j]);
    return exp(-r2 / (2.0 * PB_LK_RANK_LENGTHSCALE * PB_LK_RANK_LENGTHSCALE));
}

/* Lower triangle of K_T for users' covariance g (n x n; NULL: one user of variance 1). Returns its largest diagonal
 * entry. */
static double fill_gram(const struct pb_lk_rank *r, const double *g, size_t n, size_t rounds)
{
    double most = 0.0;

    for (size_t t = 0; t < rounds; t++) {
        const double *row = g != NULL ? g + pb_lk_rank_user(r->seed, n, t) * n : NULL;

        for (size_t s = t; s < rounds; s++)
            r->gram[t * rounds + s] = (row != NULL ? row[pb_lk_rank_user(r->seed, n, s)] : 1.0) *
                                      context_kernel(r->context + t * DIM, r->context + s * DIM);
        most = fmax(most, r->gram[t * rounds + t]);
    }
    return most;
}

/* ln det(I + scale A) of eigenvalues; those that come out below 0 are 0. */
static double log_det(const double *value, size_t n, double scale)
{
    double sum = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += log1p(fmax(0.0, value[i]) * scale);
    return sum;
}

/* How many of n ascending values are above their share of the largest: a numerical rank that small rounding in an
 * eigenvalue near 0 cannot move. */
static double rank_of(const double *value, size_t n)
{
    size_t rank = 0;

    for (size_t i = 0; i < n; i++)
        rank += value[i] > RANK_SHARE * value[n - 1];
    return (double)rank;
}

/* e -> 1 / (e + rho) turns the order round, which counting does not mind. */
static double user_rank(const struct pb_lk_world *w)
{
    size_t rank = 0;

    for (size_t i = 0; i < w->shape.n_users; i++)
        rank += (w->eigenvalue[0] + RHO) / (w->eigenvalue[i] + RHO) > RANK_SHARE;
    return (double)rank;
}

static double bound(const struct pb_lk_rank *r, enum pb_lk_graph graph, size_t n, size_t rounds)
{
    const double users = (double)n, a = 1.0 / (users + RHO), b = a / RHO, t = (double)rounds;

    if (graph == PB_LK_ALONE)
        return fmin(users * log_det(r->spectrum, rounds, 1.0 / (RHO * LAMBDA)), t * log1p(1.0 / (RHO * LAMBDA)));
    if (graph == PB_LK_COMPLETE)
        return log_det(r->spectrum, rounds, b / LAMBDA) + t * log1p(a / LAMBDA);
    return (double)NAN;
}

/* Of the contexts alone; kept for the cells of the same horizon. */
static enum kb_err find_spectrum(struct pb_lk_rank *r, size_t rounds)
{
    if (r->n_spectrum == rounds)
        return KB_OK;
    fill_gram(r, NULL, 0, rounds);
    const enum kb_err rc = kb_eigen_symmetric(rounds, r->gram, r->spectrum);
    r->n_spectrum = rc == KB_OK ? rounds : 0;
    return rc;
}

/* The eigenvalues give the determinant and the rank at once. */
static enum kb_err measure(struct pb_lk_rank *r, const struct pb_lk_world *w, const double *g, size_t rounds,
                           struct pb_lk_rank_figures *out)
{
    const size_t n = w->shape.n_users;
    const double most = fill_gram(r, g, n, rounds);
    const enum kb_err rc = kb_eigen_symmetric(rounds, r->gram, r->value);

    if (rc != KB_OK)
        return rc;
    const double gain = log_det(r->value, rounds, 1.0 / LAMBDA);
    *out = (struct pb_lk_rank_figures){.gain = gain,
                                       .dimension = gain / log1p((double)rounds * most / LAMBDA),
                                       .user_rank = user_rank(w),
                                       .gram_rank = rank_of(r->value, rounds),
                                       .bound = bound(r, w->shape.graph, n, rounds)};
    return KB_OK;
}

enum kb_err pb_lk_rank_measure(struct pb_lk_rank *r, enum pb_lk_graph graph, size_t n, size_t rounds,
                               struct pb_lk_rank_figures *out)
{
    const double value[PB_MAX_VALUES] = {(double)n, graph, PB_LK_EASY, PB_LK_GP, PB_LK_LITERAL};
    struct pb_lk_world w = {0};
    struct pb_lk_shape shape;
    double *g = kb_array(n, n, sizeof *g);
    enum kb_err rc = g != NULL ? KB_OK : KB_ENOMEM;

    assert(rounds > 0 && rounds <= r->most_rounds);
    KB_TRY(rc);
    KB_TRY(find_spectrum(r, rounds));
    KB_TRY(pb_lk_shape_of(value, &shape));
    KB_TRY(pb_lk_world_open(&w, &shape, r->seed));
    KB_TRY(pb_lk_user_covariance(&w, RHO, 1.0, g));
    KB_TRY(measure(r, &w, g, rounds, out));
out:
    pb_lk_world_close(&w);
    kb_free(g);
    return rc;
}
