/* What a model finds out about its own scales: the result of a refit, as its event in the log has it and as models keep
 * it to tell it. A refit is computed once, beside the writer; folds read the values. */
#ifndef KB_TUNING_H
#define KB_TUNING_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "spec/spec.h"

/* Of the newest refits that a model can tell. */
#define KB_MOST_TUNINGS 32u

struct kb_tuning {
    uint64_t event;             /* the last of the log that it was computed from */
    double rewards;             /* observations learned by then */
    struct kb_prior_spec prior; /* in force from then on, learned or fixed, as all below */
    double noise;               /* variance: lambda */
    double lengthscale;         /* of the contexts */
    double rho;                 /* of the users' kernel */
    double range;               /* of the rewards so far: largest less smallest */
    double before, after;       /* log posterior density of the scales, on a sample: of the old values, and of these */
};

/* Refits fall due at 8, 12, 18, 27, 41, ... rewards: the first of these above n. */
double kb_tuning_next(double n);

/* Whether the refit at n rewards, the last one being at `before`, looks for rho as well. To compare some of them takes
 * columns of as many inverses of the graph, and most of what they gain is gained early. So each refit does below 256
 * rewards, and later on the first one from each power of four on. */
bool kb_tuning_looks_for_rho(double before, double n);

/* Puts the values into a spec, whoever fixed them: they stand in the log. */
void kb_tuning_put(const struct kb_tuning *t, struct kb_spec *spec);
/* And the values of a spec into a tuning. */
void kb_tuning_take(struct kb_tuning *t, const struct kb_spec *spec);

/* Whether its values are in the ranges of the fields that they stand for: KB_EINVAL, and what is wrong. */
enum kb_err kb_tuning_check(const struct kb_tuning *t, struct kb_errmsg *msg);

/* The same of scales of contexts, of which there are none or context_dim. */
enum kb_err kb_scales_check(const struct kb_spec *spec, const double *scale, size_t n, struct kb_errmsg *msg);

uint64_t kb_tuning_digest(const struct kb_tuning *t, uint64_t h);
void kb_tuning_save(const struct kb_tuning *t, struct kb_writer *w);
void kb_tuning_load(struct kb_tuning *t, struct kb_reader *r); /* not checked */

/* Sums over rewards that a refit reads beside the history: which of them were the largest, what a uniform choice would
 * have earned (self-normalised inverse propensities), and their squares. Observations count by their weights;
 * `halvings` is where weights are 1 (decay.h), moved on as time passes. */
struct kb_reward_sums {
    double lowest, highest;  /* of any reward so far; lowest > highest: none has come */
    double weight, weighted; /* sum of w = 1 / (C p) over those whose propensity is known, and of w y */
    double square;           /* sum of y^2 */
    double halvings;
};

void kb_reward_sums_init(struct kb_reward_sums *s);
void kb_reward_sums_see(struct kb_reward_sums *s, double reward); /* a reward in force, or one that was */
/* d_count observations more, of rewards d_sum in sum and d_square in squares, learned at `halvings` when `now` have
 * passed; importance: 1 / (C p), 0 when it is not known. */
void kb_reward_sums_add(struct kb_reward_sums *s, double importance, double d_count, double d_sum, double d_square,
                        double halvings, double now);
uint64_t kb_reward_sums_digest(const struct kb_reward_sums *s, uint64_t h);
void kb_reward_sums_save(const struct kb_reward_sums *s, struct kb_writer *w);
enum kb_err kb_reward_sums_load(struct kb_reward_sums *s, struct kb_reader *r); /* KB_ECORRUPT */
bool kb_reward_sums_are_valid(const struct kb_reward_sums *s);

/* 1 / (C p) of an arm drawn with probability p from n candidates, at most KB_MOST_IMPORTANCE; 0 where n or p is not
 * known. */
#define KB_MOST_IMPORTANCE 100.0
double kb_importance(size_t n, double propensity);

#endif
