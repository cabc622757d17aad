/* What a tenant's model is made of: plain values, every one of them with a default, filled from a preset.
 * fields.c has a row for each of them. */
#ifndef KB_SPEC_H
#define KB_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ids.h"
#include "base/words.h"
#include "spec/split.h"

/* The ends of positive parameters, lengthscales among them (fields.c). */
#define KB_LEAST_SCALE 1e-12
#define KB_MOST_SCALE 1e12

/* Types, with their words in the API and in logs (words.h). Snapshots hold the numbers: new ones at the end. */
#define KB_USER_KERNEL_MAP(X)                                                                                          \
    X(KB_USER_LAPLACIAN, "laplacian")                                                                                  \
    X(KB_USER_IDENTITY, "identity")                                                                                    \
    X(KB_USER_ONES, "ones")                                                                                            \
    X(KB_USER_HEAT, "heat")                                                                                            \
    X(KB_USER_SPECTRAL_RBF, "spectral_rbf")                                                                            \
    X(KB_USER_MMD, "mmd")
enum kb_user_kernel_type { KB_USER_KERNEL_MAP(KB_WORD_ENUM) KB_USER_N };
#define KB_VEC_KERNEL_MAP(X)                                                                                           \
    X(KB_VEC_RBF, "rbf")                                                                                               \
    X(KB_VEC_MATERN12, "matern12")                                                                                     \
    X(KB_VEC_MATERN32, "matern32")                                                                                     \
    X(KB_VEC_MATERN52, "matern52")                                                                                     \
    X(KB_VEC_LINEAR, "linear")                                                                                         \
    X(KB_VEC_POLYNOMIAL, "polynomial")                                                                                 \
    X(KB_VEC_DELTA, "delta")                                                                                           \
    X(KB_VEC_ONES, "ones")
enum kb_vec_kernel_type { KB_VEC_KERNEL_MAP(KB_WORD_ENUM) KB_VEC_N };
#define KB_REPR_MAP(X)                                                                                                 \
    X(KB_REPR_EXACT, "exact")                                                                                          \
    X(KB_REPR_KORS, "kors")                                                                                            \
    X(KB_REPR_THRESHOLD, "threshold")                                                                                  \
    X(KB_REPR_BKB, "bkb")                                                                                              \
    X(KB_REPR_BBKB, "bbkb")                                                                                            \
    X(KB_REPR_BY_ARM, "by_arm")                                                                                        \
    X(KB_REPR_BY_COMPONENT, "by_component")
enum kb_repr_type { KB_REPR_MAP(KB_WORD_ENUM) KB_REPR_N };
#define KB_CONF_MAP(X)                                                                                                 \
    X(KB_CONF_FIXED, "fixed")                                                                                          \
    X(KB_CONF_LK, "lk")                                                                                                \
    X(KB_CONF_EK, "ek")                                                                                                \
    X(KB_CONF_AY, "ay")                                                                                                \
    X(KB_CONF_IGP, "igp")                                                                                              \
    X(KB_CONF_AMM, "amm")                                                                                              \
    X(KB_CONF_DMM, "dmm")                                                                                              \
    X(KB_CONF_CMM, "cmm")                                                                                              \
    X(KB_CONF_BKB, "bkb")                                                                                              \
    X(KB_CONF_EK_PLUS, "ek_plus")
enum kb_conf_type { KB_CONF_MAP(KB_WORD_ENUM) KB_CONF_N };
/* How AMM, DMM and CMM account for what a dictionary misses (conf_sketch.c). */
#define KB_SKETCH_FORM_MAP(X)                                                                                          \
    X(KB_SKETCH_CROSS, "cross")                                                                                        \
    X(KB_SKETCH_SPLIT, "split")                                                                                        \
    X(KB_SKETCH_SIMPLE, "simple")
enum kb_sketch_form { KB_SKETCH_FORM_MAP(KB_WORD_ENUM) KB_SKETCH_N };
/* What candidates are ranked by: the upper bound of the rule, or mean + beta sd, where the bounds are for reading. */
#define KB_SCORE_MAP(X)                                                                                                \
    X(KB_SCORE_UPPER, "upper")                                                                                         \
    X(KB_SCORE_FIXED, "fixed")
enum kb_score { KB_SCORE_MAP(KB_WORD_ENUM) KB_SCORE_N };
#define KB_RULE_MAP(X)                                                                                                 \
    X(KB_RULE_UCB, "ucb")                                                                                              \
    X(KB_RULE_THOMPSON, "thompson")                                                                                    \
    X(KB_RULE_UNIFORM, "uniform")                                                                                      \
    X(KB_RULE_SUP_KERNEL, "sup_kernel")                                                                                \
    X(KB_RULE_RAND_UCB, "rand_ucb")                                                                                    \
    X(KB_RULE_IGW, "igw")                                                                                              \
    X(KB_RULE_TOP_TWO, "top_two")                                                                                      \
    X(KB_RULE_SPLIT, "split")
enum kb_rule_type { KB_RULE_MAP(KB_WORD_ENUM) KB_RULE_N };
#define KB_AGGREGATION_MAP(X)                                                                                          \
    X(KB_AGG_FIRST, "first")                                                                                           \
    X(KB_AGG_SUM, "sum")                                                                                               \
    X(KB_AGG_LAST, "last")
enum kb_aggregation { KB_AGGREGATION_MAP(KB_WORD_ENUM) KB_AGG_N };
/* What those get whom the policy is kept from: nothing is said, an arm by name, any of the eligible alike, or the first
 * of them, in the order of the request or of the catalogue. */
enum kb_baseline { KB_BASELINE_NONE, KB_BASELINE_ARM, KB_BASELINE_UNIFORM, KB_BASELINE_FIRST, KB_BASELINE_N };
#define KB_FORGETTING_MAP(X)                                                                                           \
    X(KB_FORGET_NONE, "none")                                                                                          \
    X(KB_FORGET_DISCOUNT, "discount")                                                                                  \
    X(KB_FORGET_HALF_LIFE, "half_life")
enum kb_forgetting_type { KB_FORGETTING_MAP(KB_WORD_ENUM) KB_FORGET_N };

/* What a decision without a reward yet is to the deviations of the next ones: nothing, or an observation like any other
 * until it is taken back (open.h). */
#define KB_PENDING_MAP(X)                                                                                              \
    X(KB_PENDING_IGNORE, "ignore")                                                                                     \
    X(KB_PENDING_HALLUCINATE, "hallucinate")
enum kb_pending_mode { KB_PENDING_MAP(KB_WORD_ENUM) KB_PENDING_N };

/* Values that a model may find out from its rewards (tuning.h), as bits of kb_spec.learned. */
enum kb_learned {
    KB_LEARNED_NOISE = 1,
    KB_LEARNED_MEAN = 2,
    KB_LEARNED_ARM = 4,
    KB_LEARNED_USER = 8,
    KB_LEARNED_CONTEXT = 16,
    KB_LEARNED_LINEAR = 32,
    KB_LEARNED_LENGTHSCALE = 64, /* of the contexts */
    KB_LEARNED_RHO = 128,
    KB_LEARNED_FEATURE = 256,
    KB_LEARNED_ALL = 511,
    KB_LEARNED_APART =
        KB_LEARNED_NOISE | KB_LEARNED_MEAN | KB_LEARNED_ARM,   /* of points that are told apart and no more */
    KB_LEARNED_SHAPE = KB_LEARNED_LENGTHSCALE | KB_LEARNED_RHO /* other ones are other features (features.h) */
};

struct kb_user_kernel_spec {
    enum kb_user_kernel_type type;
    double rho;         /* ridge of the Laplacian, > 0 [LK, Thm 2.1] */
    double population;  /* weight of the virtual node tied to every user, >= 0; 0 = none */
    bool is_normalized; /* divide by sqrt(G_uu G_vv) */
    double tolerance; /* laplacian over many users: error of G's entries, of 1 / (rho + population); 0, or 1e-9..0.1 */
    double power;     /* laplacian: (L + rho I)^-power, in (0, 4]; other than 1: dense graphs, no population */
    double tau;       /* heat: exp(-tau L), > 0 */
    size_t n_vectors; /* spectral_rbf: lowest non-trivial eigenvectors of L that make the coordinates, >= 1 */
    double lengthscale; /* spectral_rbf: of the coordinates; mmd: of the vectors; > 0; 0 = the median distance */
    double bandwidth;   /* mmd: of the users' embeddings, > 0; 0 = the median distance */
    size_t n_features;  /* mmd: random Fourier features, 1..4096 */
    size_t refresh;     /* mmd: learned rewards between two looks at the history, >= 1 */
    /* mmd: users of fewer stand alone, >= 1 */
    size_t min_observations;
};

struct kb_vec_kernel_spec {
    enum kb_vec_kernel_type type;
    double lengthscale; /* > 0, in input units; used by rbf and matern */
    bool is_median;     /* lengthscale follows the median pairwise distance (logged when it moves) */
    int degree;         /* polynomial: (x.y + offset)^degree, 1..8 */
    double offset;      /* polynomial, >= 0 */
};

struct kb_repr_spec {
    enum kb_repr_type type;
    double lambda;      /* ridge a of the regression = noise variance in reward units, > 0 */
    double mu;          /* KORS, > 0 [EK, eq. 41] */
    double gamma;       /* KORS oversampling, > 0 */
    double epsilon;     /* KORS accuracy, in (0, 1) */
    double threshold;   /* threshold, by_component (of each component): admit when r(s) > threshold k(s,s), in (0, 1) */
    double q;           /* bkb, bbkb: a row enters with min(1, q sd^2 / lambda) per pull, > 0 [BKB, Alg. 1] */
    double batch_ratio; /* bbkb: C; resampled when 1 + sum sd^2 / lambda passes it, >= 1 */
    size_t max_dictionary; /* 1..4096 */
    /* exact: distinct points held before the model moves to KORS (but see elimination.h); by_arm: of an arm, which
     * takes no more of them; 1..16384 */
    size_t exact_limit;
};

/* by_arm, by_component: what an arm is before anything is learned of it: its rewards have this mean, and a variance
 * that is the sum of its components' (arm_kernel.h, component_kernel.h). Variances in squared reward units, 0 leaves a
 * component out. An exact model that has a prior (kb_spec_has_prior) reads mean and arm, of each of its points. */
struct kb_prior_spec {
    double mean;
    double arm;     /* of the arm alone */
    double feature; /* by_component: of what arms with like features have in common, by the arm kernel */
    double user;    /* of the arm for each user, by the user kernel */
    double context; /* by the context kernel */
    double linear;  /* linear in the context */
};

struct kb_conf_spec {
    enum kb_conf_type type;
    double beta;       /* fixed: score = mean + beta sd, >= 0; scale of the draws of thompson, top_two, rand_ucb */
    double norm_bound; /* B, the bound on the norm of f; 0 = automatic (confidence.c says what that is) */
    double noise;      /* sigma, > 0: the noise is sigma-sub-Gaussian; c of the TC rules is sigma^2 / lambda */
    double delta;      /* in (0, 1) */
    enum kb_sketch_form form; /* amm, dmm, cmm on a dictionary */
    bool is_mixture;          /* amm, dmm, cmm: the radius mixes four scales c of the prior (evidence.h) */
    enum kb_score score;
    /* dmm over all points: where its grid of ridges begins, in units of lambda; 0: at lambda. No field: a configuration
     * has none, and only comparisons with TC's own grid set it (tools/paper/exp_tc.c). */
    double grid_start;
};

struct kb_rule_spec {
    enum kb_rule_type type;
    double epsilon; /* share of uniform exploration mixed in, [0, 1] */
    double scale;   /* in reward units, > 0; sup_kernel: widths are compared with scale 2^-level; igw: unit of gaps */
    double gamma_scale, gamma_exponent; /* igw: gamma = gamma_scale n^gamma_exponent; >= 0, and in [0, 1] */
    struct kb_split split;              /* split: weights of the arms */
};

/* How much of an observation is left by what was learned since (decay.h). */
struct kb_forgetting_spec {
    enum kb_forgetting_type type;
    double discount;      /* discount: what is left after one more learning event, in (0, 1) */
    double half_life_s;   /* half_life: seconds after which half is left, 0.001..1e9 */
    bool detects_changes; /* and nearly all of it is forgotten when an arm earns less than it did (engine_changes.c) */
};

#define KB_SALT_MAX_BYTES 64u
#define KB_MOST_SCALED 64u       /* coordinates of contexts that a model has scales for */
#define KB_MOST_SPACED_DIM 1024u /* of contexts whose namespaces have scales */

/* What comes before the policy, or in its place (routing.h). No part of the model. */
struct kb_routing_spec {
    double holdout;                /* share of the users, [0, 1] */
    enum kb_baseline baseline;     /* needed when there is a holdout, or the tenant is stopped */
    char arm[KB_ID_MAX_BYTES + 1]; /* of the baseline, when it is an arm */
    char salt[KB_SALT_MAX_BYTES + 1];
    int64_t sticky_ms;  /* how long an arm that was drawn stays its user's, 0: not at all */
    bool is_stopped;    /* every decision gets the baseline, and the model is not asked */
    bool is_apprentice; /* but for what it would have shown: how often that is the same is counted */
};

struct kb_spec {
    char algorithm[32];            /* the preset's name, for display only: no code tests it */
    uint32_t context_dim, arm_dim; /* 0..4096 */
    struct kb_user_kernel_spec user_kernel;
    struct kb_vec_kernel_spec context_kernel, arm_kernel;
    struct kb_repr_spec repr;
    struct kb_prior_spec prior;
    bool is_tuned;    /* refits put learned values in force; else they stay where they begin */
    uint32_t learned; /* bits of enum kb_learned: values that nobody has fixed */
    struct kb_conf_spec conf;
    struct kb_rule_spec rule;
    struct kb_forgetting_spec forgetting;
    struct kb_routing_spec routing;
    enum kb_pending_mode pending;
    bool learns; /* else rewards are recorded and counted, and the model stays as it is */
    enum kb_aggregation aggregation;
    bool has_default_reward;
    double default_reward;    /* learned when a window closes without a reward */
    int64_t reward_window_ms; /* > 0 */
    bool has_metrics;         /* decisions stay open until their window closes, for what else is measured of them */
    uint64_t seed;            /* < 2^53 */
    /* Namespaces of contexts, whose weights are numbers of coordinates: stretches from the first coordinate on, in the
     * order of the names. What is left belongs to none. No field: it follows from the server's mapping of names. */
    struct kb_split spaces;
    /* by_arm, in force: what coordinates of contexts are divided by before a kernel sees them, as of the last refit
     * (engine_tune.c): their standard deviations (large numbers where there are none yet) or, where there are
     * namespaces, for each of them one number whose inverse square is its weight by the evidence (arm_scales.c). None:
     * they are as they come. No field: a configuration has none. */
    uint32_t n_scaled; /* 0, context_dim, or spaces.n */
    double scale[KB_MOST_SCALED];
};

/* Words of the types above. */
extern const struct kb_words kb_user_kernel_words, kb_vec_kernel_words, kb_repr_words, kb_conf_words,
    kb_sketch_form_words, kb_score_words, kb_rule_words, kb_aggregation_words, kb_forgetting_words, kb_pending_words;

/* Whether the values of a user kernel come from the graph; the others do not look at it. */
bool kb_user_kernel_reads_graph(enum kb_user_kernel_type type);
/* Whether they come from the history as it stood at the last dictionary reset (kb_user_kernel_learn). */
bool kb_user_kernel_is_learned(enum kb_user_kernel_type type);

/* Whether the rule eliminates by levels, each of which learns from its own decisions alone (elimination.h). */
bool kb_rule_reads_levels(enum kb_rule_type type);

/* The i-th preset's name (NULL past the end): for listings and for tests that walk every row. */
const char *kb_preset_name(size_t i);

/* Fills *spec from a preset for the given dimensions: vector kernels become `delta` where the dimension of
 * the arms is 0 and `ones` where that of the contexts is 0. KB_ENOTFOUND for an unknown name. */
enum kb_err kb_spec_preset(struct kb_spec *spec, const char *name, uint32_t context_dim, uint32_t arm_dim);
/* Whether it is another model altogether where arms have features. */
bool kb_preset_follows_features(const char *name);

/* Checks ranges and combinations (needs / provides). KB_EINVAL for a value out of range, KB_EUNSUPPORTED for
 * a combination; *msg points at the field ("/representation/lambda"). */
enum kb_err kb_spec_check(const struct kb_spec *spec, struct kb_errmsg *msg);

/* Of what a request sets: KB_EUNSUPPORTED when a polynomial kernel is beyond its bound (magnitude.h) even for a vector
 * of zeros, so that every vector would be refused. A log may hold such a configuration, which learned nothing. */
enum kb_err kb_spec_check_origin(const struct kb_spec *spec, struct kb_errmsg *msg);

/* Whether the rule reads the decomposition of the representation's posterior (spectrum.h). */
bool kb_spec_reads_spectrum(const struct kb_spec *spec);
bool kb_conf_reads_spectrum(enum kb_conf_type type, bool is_sketch);
/* Whether the dictionary is drawn anew from posterior variances now and then, and does not grow in between. */
bool kb_repr_is_resampled(enum kb_repr_type type);
/* Whether its kernel is a sum of components, of the variances of `prior`. */
bool kb_repr_is_of_components(enum kb_repr_type type);

/* Whether the representation holds all points and the kernel tells them apart and no more: k(s, s') is 1 where they are
 * the same to it, else 0. */
bool kb_spec_is_diagonal(const struct kb_spec *spec);
/* Whether it is such a model, and has the prior's mean and variance instead of 0 and 1: it finds its scales, or was
 * told them, and acts on mean and deviation. */
bool kb_spec_is_scaled(const struct kb_spec *spec);
/* Whether the representation has a prior: of components, or a scaled one. */
bool kb_spec_has_prior(const struct kb_spec *spec);
/* Of an exact model, whether it finds its scales: KB_LEARNED_APART are left to the rewards where it can have a prior;
 * or 0, 1 and the usual noise. Nothing else changes, and no other model. */
void kb_spec_tune(struct kb_spec *spec, bool is_tuned);

/* Whether a diagonal model costs a candidate the same however many points are held: no rule reads them all. */
bool kb_spec_is_unbounded(const struct kb_spec *spec);

/* The spec of the kernel's parts that tell points apart. Differs for by_arm and by_component alone: where nothing is
 * shared along users (no variance for them, or a kernel that reads a graph and none is there) all users are one,
 * likewise contexts. */
struct kb_spec kb_spec_of_parts(const struct kb_spec *spec, bool has_graph);

/* `fixed` in place of a confidence rule that the representation in force, the aggregation, forgetting or open decisions
 * that deviations know cannot serve:
 * for a reset that has moved an exact model to a dictionary, and where none was asked for. Configurations are never
 * changed by this; they are refused (kb_spec_check). */
void kb_spec_drop_unserved_confidence(struct kb_spec *spec);

/* Whether going from a to b keeps every kernel value and feature, and what confidence rules read, so that no rebuild
 * is due. */
bool kb_spec_same_model(const struct kb_spec *a, const struct kb_spec *b);

/* Copies from `from` what is read while the model in force is still that of `to`: how rewards are booked, and who is
 * routed past the policy. */
void kb_spec_take_books(struct kb_spec *to, const struct kb_spec *from);

uint64_t kb_spec_digest(const struct kb_spec *spec, uint64_t h);

#endif
