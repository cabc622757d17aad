/* Inside of the posteriors: what post_exact.c and post_nystrom.c share, and the table each of them provides.
 * Only posterior.c and the two include this.
 *
 * A representation embeds struct kb_posterior as its first member. posterior.c owns the parts that do not differ:
 * kernel, support, the account of what is staged, blocking of predictions, and argument checks. */
#ifndef KB_POSTERIOR_IMPL_H
#define KB_POSTERIOR_IMPL_H

#include <stdatomic.h>

#include "kernel/arm_columns.h"
#include "linalg/chol.h"
#include "base/ids.h"
#include "posterior/dictionary.h"
#include "posterior/learning.h"
#include "posterior/posterior.h"
#include "posterior/scale_search.h"
#include "posterior/spectrum.h"

/* Candidates of one predict block, history rows of one sweep block. */
#define KB_BLOCK 64u

struct kb_influence;

struct kb_posterior_ops {
    size_t bytes; /* of the struct that embeds kb_posterior */
    /* K over the support is the identity: what is held grows no faster than the support, and so does a spectrum. */
    bool is_diagonal;
    enum kb_err (*init)(struct kb_posterior *p, const struct kb_spec *spec);
    void (*close)(struct kb_posterior *p);
    size_t (*held_bytes)(const struct kb_posterior *p);
    /* Room for n support points in everything but the support itself, after the swap of m (moves.h). Keeps contents. */
    enum kb_err (*grow)(struct kb_posterior *p, size_t n, struct kb_moves *m);

    /* Representations that hold arms apart. stage_point: the last of staged_arm has come. grow_arms: room for the
     * staged points in what is held of their arms, in every growth. bytes_with: what held_bytes will say at most with
     * n_more points than are staged. All NULL elsewhere. */
    void (*stage_point)(struct kb_posterior *p);
    enum kb_err (*grow_arms)(struct kb_posterior *p, struct kb_moves *m);
    size_t (*bytes_with)(const struct kb_posterior *p, size_t n_more);
    double (*log_det)(const struct kb_posterior *p); /* in place of the member */
    double (*width)(const struct kb_posterior *p);   /* kb_posterior_width */

    /* mean and variance of the candidates by other ways than a block; NULL: by predict_block. */
    void (*predict)(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s, double *mean,
                    double *variance);
    /* kb_posterior_predict_lines; NULL: all are predicted. */
    void (*predict_lines)(const struct kb_posterior *p, const struct kb_candidates *cand, double beta,
                          struct kb_scratch *s, double *mean, double *sd);
    /* block: support x n_c kernel values, solved in place: cov(s, s') = k(s, s') - w.w', over a dictionary that of what
     * it has of them, lambda w.w'. diag: k(c, c); mean and variance out. */
    void (*predict_block)(const struct kb_posterior *p, double *block, size_t ld, size_t n_c, const double *diag,
                          double *mean, double *variance);

    /* Where open decisions stand in the representation itself (open.h); NULL: in a second posterior. open: one more,
     * or -1: one less, before p->n_open tells of it. predict_open: predict_block with the variance that knows them.
     * sweep_open: what they add to the point on its way in; room for it is there. */
    void (*open)(struct kb_posterior *p, const struct kb_point *pt, double d_count, struct kb_scratch *s);
    void (*predict_open)(const struct kb_posterior *p, double *block, size_t ld, size_t n_c, const double *diag,
                         double *mean, double *variance);
    void (*sweep_open)(struct kb_posterior *p, const struct kb_point *pts, size_t n, struct kb_scratch *s);

    /* mean(s) = k(s).weight + *offset, with work of as many doubles; returns by how much that may differ from what
     * predict says, over sqrt(k(s, s)). NULL: no such weights are at hand. O(m^2). */
    double (*weights)(const struct kb_posterior *p, double *weight, double *work, double *offset);

    /* influence.h: in->prior and in->weight of the one candidate, and in->arm where arms are held apart. tells_users
     * NULL: as the kernel says. */
    void (*influence)(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                      struct kb_influence *in);
    bool (*tells_users)(const struct kb_posterior *p);

    /* What confidence rules read. decompose: an all-zero spectrum of order support.n is filled. map_block: a block of
     * kernel values (support x n_c) to features, in place; NULL where a spectrum is over the points themselves. */
    bool is_sketch;
    enum kb_err (*decompose)(const struct kb_posterior *p, struct kb_scratch *s, struct kb_spectrum *sp);
    void (*map_block)(const struct kb_posterior *p, double *block, size_t ld, size_t n_c);

    /* energy_0 and log_det_0 of evidence.h in closed form; NULL where running sums are kept. */
    void (*closed_evidence)(const struct kb_posterior *p, double square, double *energy, double *log_det);

    /* Whether learning at pt would need one more support point. */
    bool (*learn_adds_point)(const struct kb_posterior *p, const struct kb_point *pt);
    void (*learn)(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                  struct kb_scratch *s);
    /* Forgetting: all that was learned counts for `left` < 1 of what it did. reserve_spare: memory of the writer's own
     * for n support points. prepare_left makes the factor of that to the side, take_left shows it. The first two NULL
     * where there is no factor. */
    enum kb_err (*reserve_spare)(struct kb_posterior *p, size_t n);
    void (*prepare_left)(struct kb_posterior *p, double left, struct kb_scratch *s);
    void (*take_left)(struct kb_posterior *p, double left, struct kb_scratch *s);
    enum kb_err (*fill)(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                        const struct kb_atom *atoms, size_t n, struct kb_scratch *s);

    /* Dictionary; all NULL in a representation that grows none. */
    double (*admission)(const struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);
    void (*put_atom)(struct kb_posterior *p, const struct kb_point *pt, double probability, struct kb_scratch *s);
    void (*open_atom)(struct kb_posterior *p);
    bool (*sweep)(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of, struct kb_scratch *s);
    void (*close_atom)(struct kb_posterior *p);
    void (*abandon_atom)(struct kb_posterior *p);
    void (*commit_atom)(struct kb_posterior *p, struct kb_scratch *s);
    double (*sweep_work)(const struct kb_posterior *p, size_t n_rows);
    enum kb_err (*choose)(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of, uint64_t key,
                          struct kb_scratch *s, struct kb_atom **atoms, size_t *n);
    enum kb_err (*resample)(struct kb_posterior *p, const struct kb_posterior *from, const struct kb_history *h,
                            const uint32_t *node_of, uint64_t key, struct kb_scratch *s, struct kb_atom **atoms,
                            size_t *n);

    /* Fills effective_dimension and information_gain in O(n); NULL: by look. */
    void (*closed_facts)(const struct kb_posterior *p, struct kb_posterior_facts *out);
    /* A part of the information gain, and into *to, which is empty, a copy of the factor of V; exact: of that of
     * N^1/2 (K + lambda N^-1) N^1/2. n_factors: how many parts there are (NULL: one). KB_ENOMEM. O(n^2). */
    size_t (*n_factors)(const struct kb_posterior *p);
    enum kb_err (*look)(const struct kb_posterior *p, size_t which, struct kb_chol *to, double *gain);
    /* scale_search.h; NULL where there are none to find. */
    enum kb_err (*find_scales)(const struct kb_posterior *p, const struct kb_scale_search *search, struct kb_scratch *s,
                               struct kb_tuning *out);
    uint64_t (*digest)(const struct kb_posterior *p, uint64_t h);
    void (*save)(const struct kb_posterior *p, struct kb_writer *w);
    enum kb_err (*load)(struct kb_posterior *p, struct kb_reader *r); /* the support is loaded before */
};

struct kb_posterior {
    const struct kb_posterior_ops *ops;
    struct kb_kernel kernel;
    struct kb_support support;     /* dictionary, or all distinct points */
    struct kb_arm_columns columns; /* of the support; neither digested nor saved */
    double lambda, accuracy;       /* a and epsilon of the spec */
    bool is_resampled;             /* the dictionary is drawn anew, and does not grow in between */
    bool is_outdated;              /* an arm has had no room for much that it should have learned */
    double q, batch_ratio;         /* of the draw, when it is */
    double accumulated;            /* sum of sd^2 / lambda, each before its step, since the dictionary was drawn */
    double unit, coming_unit; /* halvings at which an observation counts as 1 (decay.h); the one that is prepared */
    size_t spare_bytes;       /* of the spare factor, as readers may know it */
    size_t max_support;       /* growth by doubling stops here; more is reserved only when needed */
    size_t most_points;       /* and no more are learned at: of a second posterior (open.h), else SIZE_MAX */
    size_t cap;               /* support points that every array has room for */
    size_t n_staged;          /* learning steps and atoms staged and not used yet */
    size_t n_staged_points;   /* support points they may add */
    uint32_t *staged_arm;     /* [n_staged_points] their arms, where those are held apart */
    size_t cap_staged_arms;
    /* Pivots or residuals lifted to their floor. Readers count too, hence atomic; not part of the model. */
    _Atomic uint64_t n_clamped;
    _Atomic uint64_t n_empty; /* decisions whose confidence set was empty, since the posterior was made; likewise */

    /* Open decisions (open.h). */
    bool counts_open;
    bool is_answering;           /* what is being learned was open until now */
    size_t n_open;               /* that deviations know */
    struct kb_posterior *beside; /* learned and open ones, of which only variances are asked for. NULL: none */

    struct kb_evidence evidence; /* its square always; its sums where the representation keeps them */

    /* What confidence rules read. Derived from the rest: neither digested nor saved. */
    double log_det; /* ln det(I + K / lambda), kept current by the representation */
    bool reads_spectrum, is_unsettled;
    bool is_mixed;       /* the radius mixes several ridges (evidence.h) */
    bool settles_lazily; /* bounds are for reading: the spectrum may lag behind by a SETTLE_SHARE of the observations */
    double n_learned;    /* since the spectrum was made */
    struct kb_spectrum *spectrum; /* what readers see, perhaps of an earlier moment; NULL when nobody reads it */
    struct kb_spectrum *settled;  /* newer, waits for publish */
};

extern const struct kb_posterior_ops kb_posterior_exact_ops, kb_posterior_diagonal_ops, kb_posterior_by_arm_ops,
    kb_posterior_nystrom_ops, kb_posterior_by_component_ops;

/* closed_evidence of a posterior whose prior may have been chosen by the rewards themselves, so that nothing that rests
 * on it counts: each reward counts as foretold to be 0 with certainty, which is a prediction like any other. */
void kb_posterior_evidence_as_told(const struct kb_posterior *p, double square, double *energy, double *log_det);

/* Keeps a variance inside [0, diag], where it lies in exact arithmetic; beyond rounding that is counted. */
double kb_posterior_bounded(const struct kb_posterior *p, double variance, double diag);

/* A pivot or variance below its floor by more than rounding explains is counted. */
void kb_posterior_count_clamp(const struct kb_posterior *p);

/* A staged step is used, without learning. */
void kb_posterior_use_staged(struct kb_posterior *p);
/* What a step that the posterior has learned is to its second one; and deviations of n candidates that know more. */
void kb_posterior_learn_beside(struct kb_posterior *p, const struct kb_point *pt, double d_count, struct kb_scratch *s);
void kb_posterior_narrow_sd(const struct kb_posterior *p, const struct kb_candidates *cand,
                            const struct kb_beside *beside, struct kb_scratch *s, double *sd);
/* The posterior whose deviations know what is open: p, or the second one. */
const struct kb_posterior *kb_posterior_of_sd(const struct kb_posterior *p);
/* predict_block, with what is open by a second factor. */
void kb_posterior_solve_block(const struct kb_posterior *p, double *block, size_t ld, size_t n_c, const double *diag,
                              double *mean, double *variance);

/* Makes room for n support points in everything, growing to `n` exactly or by doubling. [building] */
enum kb_err kb_posterior_reserve(struct kb_posterior *p, size_t n);

/* Leading dimension of a block with n rows: whole cache lines, an odd number of them, so that the entries of a
 * row spread over the sets of the cache. */
static inline size_t kb_block_ld(size_t n)
{
    return ((n + 7) & ~(size_t)7) | 8;
}

/* variance[c] of candidates c0..c0+n_c-1, whose columns predict_block has solved, knows the points beside them. */
void kb_beside_take(const struct kb_beside *b, const struct kb_posterior *p, const struct kb_candidates *cand,
                    size_t c0, size_t n_c, const double *solved, size_t ld, struct kb_scratch *s, double *variance);

/* variance[i] = sd^2 of point i <= KB_BLOCK of them; a block from the arena. [shared] */
void kb_posterior_variances(const struct kb_posterior *p, const struct kb_point *pts, size_t n, struct kb_scratch *s,
                            double *variance);

/* A block for n support points, KB_BLOCK columns of kb_block_ld(n), from the arena. */
double *kb_posterior_block(struct kb_scratch *s, size_t n);

/* Makes *s fit for work on n support points: the one formula for readers and the writer. */
enum kb_err kb_posterior_fit_for(const struct kb_posterior *p, struct kb_scratch *s, size_t n, size_t extra_bytes);

/* Makes the user's diagonal known where the kernel's columns need it, under a normalised user kernel; 1 (what
 * columns want to be handed) also where they do not. May solve a system. */
double kb_posterior_user_diag(const struct kb_posterior *p, struct kb_user user, struct kb_scratch *s);

/* Kernel column of pt over the first n support points. */
void kb_posterior_column(const struct kb_posterior *p, size_t n, const struct kb_point *pt, struct kb_scratch *s,
                         double *out);

/* k(support, candidate) of the one candidate, from the arena. */
const double *kb_posterior_one_column(const struct kb_posterior *p, const struct kb_candidates *cand,
                                      struct kb_scratch *s);

/* Anchors the users of support points first..n-1 in force (pushed with any anchor). [building] */
enum kb_err kb_posterior_anchor_support(struct kb_posterior *p, size_t first, struct kb_scratch *s);

#endif
