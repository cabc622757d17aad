/* Help for tests of experiments: runs that are looked at after every decision, under policies that adapt, drift and
 * late rewards; how often what core/inference says is wrong in them, and what others would say.
 *
 * A run shows arm 0 (the baseline) or a treatment, decision by decision. Its reward becomes known later where the cell
 * is late: ones after a delay that differs by arm, zeros when the window closes. The policy learns what is known.
 * Decisions are folded in their order, as soon as they and all before them are final, and everything is looked at after
 * each. */
#ifndef KBT_PEEKING_H
#define KBT_PEEKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KBT_PEEK_ALPHA 0.05
#define KBT_PEEK_TRAFFIC_ALPHA 0.01
#define KBT_PEEK_WINDOW 2000u /* decisions until a reward is final, at most */
#define KBT_PEEK_MOST_ARMS 5u

enum kbt_peek_policy {
    KBT_PEEK_SPLIT,         /* equal shares */
    KBT_PEEK_UNEVEN,        /* 4 : 1 */
    KBT_PEEK_THOMPSON_10,   /* two arms; epsilon 0.1, so each has at least 0.05 */
    KBT_PEEK_THOMPSON_2,    /* two arms; epsilon 0.02 */
    KBT_PEEK_GREEDY_30,     /* the best mean, epsilon 0.3 */
    KBT_PEEK_GREEDY_5,      /* epsilon 0.05 */
    KBT_PEEK_RAND_UCB,      /* core/rules, beta 1, epsilon 0.05 */
    KBT_PEEK_RAND_UCB_FREE, /* without epsilon: propensities as small as they come, reach 1 */
    KBT_PEEK_N_POLICIES
};
extern const char *const kbt_peek_policy_names[KBT_PEEK_N_POLICIES];

struct kbt_peek_cell {
    enum kbt_peek_policy policy;
    size_t n_arms;
    double rate, effect; /* of the baseline; what treatments earn beyond it */
    bool is_doubling;    /* the rate is half of that in the first half of the run */
    bool is_late;        /* mean delays of 50 decisions for the baseline, 1,000 for treatments */
    bool is_graded;      /* rewards u^3 in place of 0 and 1; rate 1/4, effect 0 */
};

/* What was wrong at least once in a run. */
enum kbt_peek_fault {
    KBT_PEEK_PAIR,   /* an interval of kb_pair_interval, at alpha over the treatments, without the effect */
    KBT_PEEK_ABOVE,  /* E+ of the first treatment against its effect at 1 / alpha */
    KBT_PEEK_SHOWN,  /* an arm's kb_shown_interval, at alpha over the arms, without its rate; constant rates alone */
    KBT_PEEK_NORMAL, /* control: the normal interval of the first treatment's difference, from 30 of each arm on */
    KBT_PEEK_PROVISIONAL, /* control, late cells: the pair's interval where unknown rewards are folded as zeros */
    KBT_PEEK_N_FAULTS
};
extern const char *const kbt_peek_fault_names[KBT_PEEK_N_FAULTS];

/* Whether a cell can have the fault at all. */
bool kbt_peek_has(const struct kbt_peek_cell *cell, enum kbt_peek_fault fault);

/* Of so many runs of so many decisions, how many had each fault. */
void kbt_peek_count(const struct kbt_peek_cell *cell, uint64_t key, unsigned n_runs, size_t n_decisions,
                    unsigned count[KBT_PEEK_N_FAULTS]);

/* --- users -------------------------------------------------------------------------------------------------------- */

/* A hash puts half of the users into the treatment, without effect. Each decides `per_user` times; rates differ by
 * user, Beta(1/2, 19/2). is_conditional: propensities given the user's earlier arms (0.5, then 1 and 0); else 0.5 at
 * each, which is the control. Runs in which the pair's interval has lost 0. */
unsigned kbt_peek_users(uint64_t key, unsigned n_runs, size_t n_decisions, size_t per_user, bool is_conditional);

/* --- traffic ------------------------------------------------------------------------------------------------------ */

/* Two arms, told propensities 1/2, or changing in 0.01 .. 0.99; the first arm is shown with `shift` more. at[i]: the
 * decision at which run i gave the alarm, 0 for none. is_naive: the control, a z-test at 1.96 from 100 decisions on. */
void kbt_peek_traffic(uint64_t key, unsigned n_runs, size_t n_decisions, bool is_changing, double shift, bool is_naive,
                      size_t *at);

/* --- a split --------------------------------------------------------------------------------------------------------
 */

/* Mean half width of the pair's interval over runs, on an even split without effect. */
double kbt_peek_half_width(uint64_t key, unsigned n_runs, size_t n_decisions, double rate);

/* at[i]: the decision at which run i said "better", 0 for none within n_decisions. */
void kbt_peek_stops(uint64_t key, unsigned n_runs, size_t n_decisions, double rate, double effect, size_t *at);

/* Most faults that n_runs of this level may have: the least k that they pass with a chance of at most tail. */
unsigned kbt_peek_allowed(unsigned n_runs, double level, double tail);

#endif
