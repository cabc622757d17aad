/* Inside of the dictionary posterior: its state, shared by post_nystrom.c and nystrom_admit.c (learning and admissions
 * while it serves), nystrom_build.c (choosing and filling before it does) and nystrom_resample.c. Only these include
 * this. */
#ifndef KB_NYSTROM_H
#define KB_NYSTROM_H

#include "posterior/admission.h"
#include "posterior/features.h"
#include "posterior/part_sums.h"
#include "posterior/posterior_impl.h"
#include "posterior/projection_error.h"
#include "posterior/ridge.h"
#include "posterior/sweep_cache.h"

struct kb_nystrom {
    struct kb_posterior base;
    struct kb_features features;
    /* ridge[0] is the model; under a mixture the others foretell rewards at other ridges (evidence.h) */
    struct kb_ridge ridge[KB_N_MIXTURE];
    size_t n_ridges;
    struct kb_projection_error error;
    struct kb_sweep_cache sweep; /* derived: neither digested nor saved; the writer's alone */
    size_t sweep_bytes;          /* what it takes, as of the last commit, for readers */
    struct kb_admission admission;
    double mean;               /* mu: rewards are learned less it; 0 unless the kernel is a sum */
    struct kb_part_sums parts; /* where the kernel is a sum: what its variances are learned from */
    /* The point about to enter: its kernel column, its border of A, and what borders V and b. [cap] each. */
    double *k_z, *cross, *late_cross;
    struct kb_feature_border border;
    double diag, square, target, mass, probability;
    double late_square, late_target, late_mass; /* of what is learned while the point is on its way in, as late_cross */
    bool is_entering;
    double entering_unit; /* of the rows that its sweep adds up */
    /* Where deviations know open decisions (nystrom_open.c): the factor of V_h while there are any, V^-1 b, and what
     * they add to the point about to enter. */
    struct kb_chol known;
    double *mean_weight, *open_cross, open_square;
};

/* The struct behind the interface: it begins with its kb_posterior. */
static inline struct kb_nystrom *kb_nystrom_of(struct kb_posterior *p)
{
    return (struct kb_nystrom *)p;
}

static inline const struct kb_nystrom *kb_nystrom_of_const(const struct kb_posterior *p)
{
    return (const struct kb_nystrom *)p;
}

/* Probability of pt by the admission rule. Draws two vectors from the arena. [shared] */
double kb_nystrom_admission(const struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);

/* Kernel column, k(s,s) and border of A for support point m = order of A, put there or pushed already. Where the kernel
 * is a sum, the component that the point stands for is chosen here. O(m^2). */
void kb_nystrom_prepare_point(struct kb_nystrom *n, struct kb_scratch *s);

/* Appends the prepared point to A and to the admission rule's state. Room reserved. O(m^2). */
void kb_nystrom_enter_point(struct kb_nystrom *n, double probability, struct kb_scratch *s);

/* Observations of weight `count` at a point of feature z, with rewards of this sum, in the sums of components; a
 * correction, of count 0, is of the sum alone. O(m + dim). */
void kb_nystrom_count_parts(struct kb_nystrom *n, const struct kb_point *pt, const double *z, double count, double sum,
                            struct kb_scratch *s);

/* The steps of an admission, and what learning owes a point on its way in (nystrom_admit.c). sweep: false when it was
 * told to end. */
void kb_nystrom_put_atom(struct kb_posterior *p, const struct kb_point *pt, double probability, struct kb_scratch *s);
void kb_nystrom_open_atom(struct kb_posterior *p);
bool kb_nystrom_sweep(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                      struct kb_scratch *s);
double kb_nystrom_sweep_work(const struct kb_posterior *p, size_t n_rows);
void kb_nystrom_learn_entering(struct kb_nystrom *n, const double *k, double d_count, double d_sum);
void kb_nystrom_close_atom(struct kb_posterior *p);
void kb_nystrom_abandon_atom(struct kb_posterior *p);
void kb_nystrom_commit_atom(struct kb_posterior *p, struct kb_scratch *s);

/* Open decisions (nystrom_open.c). follow: after every change of V or b; z: the feature of what was learned, in full,
 * destroyed, or NULL. enter: the coordinate that commit_atom appends, `cross` as V has it, destroyed. */
void kb_nystrom_open(struct kb_posterior *p, const struct kb_point *pt, double d_count, struct kb_scratch *s);
void kb_nystrom_predict_open(const struct kb_posterior *p, double *block, size_t ld, size_t n_c, const double *diag,
                             double *mean, double *variance);
void kb_nystrom_sweep_open(struct kb_posterior *p, const struct kb_point *pts, size_t n, struct kb_scratch *s);
void kb_nystrom_follow_open(struct kb_nystrom *n, double *z);
void kb_nystrom_enter_open(struct kb_nystrom *n, double *cross);
enum kb_err kb_nystrom_grow_open(struct kb_nystrom *n, size_t n_points, struct kb_moves *m);

/* What choosing and resampling share: the admission probability with the arena left as it was; whether an event names
 * the row; one more point behind the dictionary. [building] */
double kb_nystrom_probability(const struct kb_posterior *p, const struct kb_point *pt, struct kb_scratch *s);
bool kb_nystrom_can_name(const struct kb_history *h, size_t row);
enum kb_err kb_nystrom_build_point(struct kb_nystrom *n, const struct kb_point *pt, double probability,
                                   struct kb_scratch *s);

enum kb_err kb_nystrom_resample(struct kb_posterior *p, const struct kb_posterior *from, const struct kb_history *h,
                                const uint32_t *node_of, uint64_t key, struct kb_scratch *s, struct kb_atom **atoms,
                                size_t *n_atoms);
enum kb_err kb_nystrom_choose(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of, uint64_t key,
                              struct kb_scratch *s, struct kb_atom **atoms, size_t *n_atoms);
enum kb_err kb_nystrom_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                            const struct kb_atom *atoms, size_t n_atoms, struct kb_scratch *s);

#endif
