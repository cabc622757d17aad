/* What a challenger is worth, from the log of what the policy in force decided: importance weights of its decisions,
 * kept until their rewards are known, and then running moments of both (core/base/snips.h).
 *
 * Compared is what one policy in force decides. Where that changes, by a promotion or a configuration, the comparison
 * begins anew; the challengers, the guardrail and how long logs are kept are no part of it.
 *
 * When a decision counts:
 *
 *   at its first reward      where decisions without one are not learned from (no default reward, aggregation first)
 *   when its window is over  else: its reward is the sum or the last one by then, or the default. All decisions of one
 *                            time enter at one time, so rewards that come early do not weigh more in between.
 *
 * A decision without a reward, where there is no default one, does not count, as it does not for the model. The reward
 * is that of the arm drawn (slot 0).
 *
 * The guardrail's sums (challenger_view.h) are of the same decisions, but in the order in which they were made: one is
 * added when it has counted, or its window is over without a reward, and all before it are. That it is looked at after
 * each of them makes nothing wrong. Decisions whose odds the log does not tell are left out, whatever they earned; so
 * is one that comes while LD_SCORES_OPEN wait for an older one.
 *
 * Everything here is a function of the log: feeding it again gives the same bits. Decisions are known by 64 bits of a
 * hash of their ids: of a million open ones, two are mistaken for one another with probability 3e-8. Cost: O(1) an
 * event, 48 bytes an open decision, and 56 one that waits for those before it. */
#ifndef LD_CHALLENGER_SCORES_H
#define LD_CHALLENGER_SCORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/event.h"
#include "types/challenger_view.h"

#define LD_SCORES_OPEN (UINT32_C(1) << 18) /* decisions that may wait for their reward; more are not scored */

struct ld_scores {
    struct ld_score told;
    uint64_t policy;               /* digest of what is in force */
    bool is_logging, is_late;      /* candidates are told; decisions count when their window is over */
    bool is_sum;                   /* of several rewards, the sum; else the last one */
    struct ld_open_decision *open; /* a hash table of 2^k places, told.n_open of them taken */
    size_t cap_open;
    struct ld_due *due; /* in the order of the log, from `head` on, n_due of them; where is_late, or guarded */
    size_t head, n_due, cap_due;
    uint64_t first;             /* number of the one at `head`; they are counted through */
    uint64_t closing;           /* number of the first whose window has not been looked at; where is_late */
    int64_t last_ms, moving_ms; /* time of the last event; time that has passed, pauses left out */
};

void ld_scores_close(struct ld_scores *s);

/* A configuration of the log; name: whose scores these are. */
void ld_scores_configure(struct ld_scores *s, const struct ld_settings *settings, uint64_t version, const char *name);

/* Whether decisions from here on are scored. */
bool ld_scores_wants(const struct ld_scores *s);

/* A decision of the policy in force, or of a tenant that is stopped: the probability with which the challenger would
 * have shown its arm; NaN: not known. */
void ld_scores_compare(struct ld_scores *s, double probability);

/* A decision of the policy in force, with the probability of its arm under the challenger; NaN: not known. share: the
 * least that an arm's propensity is of its probability under the challenger, 0: not known (ld_shadow_probability).
 * Without memory for it, it is lost. */
void ld_scores_decide(struct ld_scores *s, const struct kb_event *ev, double probability, double share);

/* Any other event; also lets windows close that are over by its time. */
void ld_scores_follow(struct ld_scores *s, const struct kb_event *ev);

bool ld_scores_is_guarded(const struct ld_scores *s);
size_t ld_scores_bytes(const struct ld_scores *s);

#endif
