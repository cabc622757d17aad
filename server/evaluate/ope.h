/* Off-policy evaluation: what a policy would have earned, from the log of another one with propensities.
 *
 *   p_k    the logging policy's probability of the arm a_k shown      w_k = pi_k(a_k) / p_k
 *   pi_k   the target's probabilities at event k, given what it has learned by then
 *   r_k    the reward                                                 q_k(a) a reward model's expectation
 *
 *   replay   mean of r_k over accepted events: k is accepted with probability c w_k, c = min p / pi, at most 1
 *            [LCLW; for any logging policy by rejection]
 *   ips      mean of w_k r_k              clipped   mean of min(w_k, M) r_k
 *   snips    sum w_k r_k / sum w_k        dr        mean of sum_a pi_k(a) q_k(a) + w_k (r_k - q_k(a_k))
 *
 *   ips_by_slot, pseudo_inverse   of decisions with slots, for the sum of their rewards: ope_slots.h. All others judge
 *                                 the first slot
 *
 * A learning target learns accepted events and nothing else: its history then is distributed as if it had acted itself
 * [DELL, DR-ns with a constant c], and pi_k depends on events before k alone, so each term is unbiased
 * given the past. q_k is a model that has learned all events before k, whoever chose them (prequential): no term sees
 * its own reward or a later one, and no event is spared for a fold. */
#ifndef LD_OPE_H
#define LD_OPE_H

#include "evaluate/decisions.h"
#include "evaluate/ope_policy.h"
#include "evaluate/ope_series.h"
#include "evaluate/ope_slots.h"
#include "evaluate/ope_trace.h"

#define LD_OPE_WHY 256

enum ld_ope_kind {
    LD_OPE_REPLAY,
    LD_OPE_IPS,
    LD_OPE_SNIPS,
    LD_OPE_CLIPPED,
    LD_OPE_DR,
    LD_OPE_BY_SLOT,
    LD_OPE_PSEUDO,
    LD_OPE_N
};

const char *ld_ope_name(int kind); /* "replay", "ips", "snips", "clipped_ips", "dr", "ips_by_slot", "pseudo_inverse";
                                  NULL past the end */

/* What time goes into. */
enum ld_ope_part { LD_OPE_SURVEY, LD_OPE_JUDGE, LD_OPE_INTERVALS, LD_OPE_PARTS };

struct ld_ope_options {
    bool is_wanted[LD_OPE_N];
    double level; /* of intervals, in (0, 1) */
    size_t n_resamples;
    uint64_t seed;                /* of the bootstrap and of what is accepted */
    double clip;                  /* M */
    double min_ess;               /* 0: min(10, max(2, n / 100)) */
    double max_unsupported;       /* share of the target's mass */
    double reward_lo, reward_hi;  /* what rewards can be; NaN: 0..1 where all are in it, else what was seen and 0 */
    bool is_bernstein;            /* the intervals reported are those instead of the bootstrap's */
    const struct kb_spec *model;  /* of q; NULL: a mean per arm */
    const struct kb_event *graph; /* of its users; NULL: that of the log */
    bool (*is_over)(void *arg);   /* asked at each decision and while intervals are drawn: true ends it. NULL: nobody */
    /* The model of q, which is there from now until it is NULL again: for who cancels (ope_policy.h). NULL: nobody */
    void (*show_model)(void *arg, struct ld_ope_policy *model);
    void *arg;
};

struct ld_ope_estimate {
    double value, error; /* standard error */
    struct ld_ope_interval interval, bernstein;
    bool is_bootstrap;        /* else `interval` is the other one */
    char refused[LD_OPE_WHY]; /* why there is none; "": there is one */
};

struct ld_ope_result {
    size_t n, n_arms, n_missing; /* events, arms known, events without a propensity */
    size_t n_accepted, n_learned, n_clipped;
    double acceptance; /* c */
    double ess, mean_weight, mean_weight_error, max_weight;
    double rounding; /* by how much the mean weight may be wrong because propensities were rounded (ope_digits.h) */
    double clipped_ess, clipped_mean; /* of the weights of clipped_ips */
    double unsupported;               /* mean mass of the target on arms that the log cannot speak of */
    double min_propensity, max_propensity;
    double reward_lo, reward_hi, mean_reward;
    double min_ess;
    struct ld_ope_estimate estimate[LD_OPE_N];
    struct ld_ope_estimate logged;       /* what the logging policy earned: the mean reward */
    struct ld_ope_estimate logged_total; /* and of all slots of a decision together */
    struct ld_ope_series series[LD_OPE_BY_SLOT], rewards;
    struct ld_ope_slots slots;
    struct ld_ope_trace trace;
    double seconds[LD_OPE_PARTS]; /* of CPU, by this thread */
};

/* Reads the log twice: which arms and propensities there are, then the estimates. `policy` must be new if it learns. 0,
 * or -1 with `why`: a fault of the log, or of the model; no memory; it was told to end. */
int ld_ope_evaluate(struct ld_decisions *log, struct ld_ope_policy *policy, const struct ld_ope_options *o,
                    struct ld_ope_result *out, struct ld_message *why);

/* The bootstrap of such options, before ld_ope_bootstrap_init. */
struct ld_ope_bootstrap ld_ope_bootstrap(const struct ld_ope_options *o);

/* The estimate was taken over from that of ips, and what is made of both is the same. */
bool ld_ope_is_ips(const struct ld_ope_result *r, int kind);

/* Of an evaluation, also one that failed. */
void ld_ope_close(struct ld_ope_result *r);

/* The estimate of one policy less that of another, of the same estimator and the same log. `interval` is that of a
 * paired bootstrap; is_bounded: there is one (nothing varied otherwise, as where both policies are the same). */
struct ld_ope_difference {
    double value;
    struct ld_ope_interval interval;
    bool is_bounded;
};

/* r less other; other NULL: less what the logging policy earned. False: one of them was refused. */
bool ld_ope_compare(const struct ld_ope_result *r, const struct ld_ope_result *other, int kind,
                    const struct ld_ope_bootstrap *how, struct ld_ope_difference *out);

/* What is not wrong and yet to be known, as sentences: fn is called for each. */
void ld_ope_warnings(const struct ld_ope_result *r, const struct ld_decisions *log,
                     void (*fn)(void *arg, const char *text), void *arg);

#endif
