/* Help for coverage tests: whether a rule of confidence that claims a level keeps it where it matters, in a run that
 * the rule itself steers.
 *
 * A run draws f of norm B, shows a few points of a pool round after round, and observes f with noise at the point whose
 * upper bound is the largest. The rules hold for all time and all points with probability 1 - delta, so a run counts as
 * violated when f has left the bounds once: at a point that is shown; now and then at any of the pool and of others
 * that never are; and under a linear kernel, in every round, at the point where mean and f differ most in units of sd.
 * An empty set counts as a violation, too. */
#ifndef KBT_COVERAGE_H
#define KBT_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "spec/spec.h"

#define KBT_COVER_DELTA 0.1
#define KBT_COVER_SIGMA 0.1
#define KBT_COVER_ROUNDS 48u

enum kbt_cover_kernel {
    KBT_COVER_RBF,
    KBT_COVER_MATERN32,
    KBT_COVER_SMALL_RBF, /* times 1/1000: k(s,s) is far below 1 */
    KBT_COVER_LINEAR,    /* of vectors in 8 dimensions, shorter than 0.1 */
    KBT_COVER_N_KERNELS
};

/* All are sub-Gaussian with scale KBT_COVER_SIGMA. Bernoulli: two values 2 sigma apart, which where |f| <= sigma are
 * -sigma and sigma, so that the reward itself has but two values; elsewhere with chance 1/10 of the one away from 0. */
enum kbt_cover_noise { KBT_COVER_GAUSSIAN, KBT_COVER_RADEMACHER, KBT_COVER_BERNOULLI, KBT_COVER_N_NOISES };

/* All of norm B. Misfit: two points of the pool, z and s, that a threshold of 0.2 just takes for one; f is 0 at z and
 * as large as can be at s. What is seen at s then speaks of z in a dictionary that has z alone, and wrongly. */
enum kbt_cover_target { KBT_COVER_SUM, KBT_COVER_BUMP, KBT_COVER_MISFIT, KBT_COVER_N_TARGETS };

/* What is done to a rule that must then fail. */
enum kbt_cover_twist {
    KBT_COVER_AS_IS,
    KBT_COVER_SHRUNK,      /* 0.3 of its width */
    KBT_COVER_PRINTED_IGP, /* without min(1, lambda) */
    KBT_COVER_PRINTED_BKB, /* ln(kappa^2 t), and 1/sqrt(1 - epsilon) alone in the bias */
    KBT_COVER_NO_ERROR     /* the projection error taken for zero */
};

struct kbt_cover_rule {
    const char *name;
    enum kb_conf_type type;
    enum kb_sketch_form form;
    bool is_mixture, on_exact, on_dictionary;
    enum kbt_cover_twist twist;
};

/* The rules that claim a level, then the controls. */
extern const struct kbt_cover_rule kbt_cover_rules[];
extern const unsigned kbt_cover_n_rules;

/* Representations: exact; kors with mu = lambda, gamma 1/2; threshold 0.2; bkb with q = 5. */
struct kbt_cover_cell {
    enum kbt_cover_kernel kernel;
    enum kbt_cover_noise noise;
    enum kbt_cover_target target;
    double lambda, norm;
    enum kb_repr_type repr;
};

extern const char *const kbt_cover_kernel_names[KBT_COVER_N_KERNELS];
extern const char *const kbt_cover_noise_names[KBT_COVER_N_NOISES];
extern const char *const kbt_cover_target_names[KBT_COVER_N_TARGETS];

bool kbt_cover_has(const struct kbt_cover_cell *cell, const struct kbt_cover_rule *rule);

/* Whether the run of this key is violated. A function of its arguments. */
bool kbt_cover_run(const struct kbt_cover_cell *cell, const struct kbt_cover_rule *rule, uint64_t key);
unsigned kbt_cover_count(const struct kbt_cover_cell *cell, const struct kbt_cover_rule *rule, unsigned n_runs);

/* The margin: the least k that a rule of level delta passes in n runs with a chance of at most `tail`. */
unsigned kbt_cover_allowed(unsigned n_runs, double tail);

#endif
