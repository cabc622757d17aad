/* What is known of a challenger, and shown: plain numbers. task/challenger_scores.h says what the scores mean. */
#ifndef LD_CHALLENGER_VIEW_H
#define LD_CHALLENGER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/snips.h"
#include "inference/sequences.h"
#include "types/settings.h"

enum ld_guard_verdict { LD_GUARD_GOES_ON, LD_GUARD_BETTER, LD_GUARD_WORSE, LD_GUARD_N };

/* What the guardrail knows of its baseline against the policy in force: inference/sequences.h, kb_pair_add_group. */
struct ld_guard {
    double level; /* of the guardrail; 0: none, and the rest is not read */
    uint64_t first;
    double low, high; /* of a reward */
    bool has_range;   /* told, so that what lies beyond is clipped */
    struct kb_pair pair;
    uint64_t n_clipped, n_untold;  /* rewards beyond the range; decisions whose odds the log does not tell */
    enum ld_guard_verdict verdict; /* it stays */
};

struct ld_score {
    uint64_t version, since;          /* of the configuration at hand, and of the one that began the comparison */
    uint64_t n_unrewarded, n_unknown; /* windows without a reward; decisions whose candidates are not known */
    uint64_t n_lost;                  /* too many were open, or without memory */
    size_t n_open;
    uint64_t
        n_compared;   /* decisions of which it is known whether it would have shown the same arm, and the sum of the */
    double match_sum; /* probabilities with which it would have */
    struct kb_snips sums;
    struct ld_guard guard;
};

/* How the scores went: task/challenger_history.h. */
#define LD_SCORE_POINTS 128u
struct ld_score_point {
    uint64_t seq; /* of the event behind which it was taken */
    int64_t at_ms;
    struct kb_snips sums;
};
struct ld_score_history {
    uint64_t since, policy, step; /* of the comparison; step 0: none has begun */
    size_t n;
    struct ld_score_point point[LD_SCORE_POINTS];
};

struct ld_challenger_view {
    struct ld_challenger_settings settings;
    uint64_t seq;              /* last event that it has read */
    uint64_t n_learned, bytes; /* of its model */
    bool has_digest;
    uint64_t digest;
    char why[256]; /* it follows no longer: why. "": it does */
    struct ld_score scores;
    const struct ld_score_history *history; /* NULL: not asked for */
};

#endif
