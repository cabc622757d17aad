/* What is known of a challenger, and shown: plain numbers. task/challenger_scores.h says what the scores mean. */
#ifndef LD_CHALLENGER_VIEW_H
#define LD_CHALLENGER_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/snips.h"
#include "types/settings.h"

/* What the guardrail saw when it looked last. */
struct ld_look {
    uint64_t n; /* decisions; 0: it has not looked yet */
    double level;
    struct kb_estimate value, logged, weight;
};

struct ld_score {
    uint64_t version, since;          /* of the configuration at hand, and of the one that began the comparison */
    uint64_t n_unrewarded, n_unknown; /* windows without a reward; decisions whose candidates are not known */
    uint64_t n_lost;                  /* too many were open, or without memory */
    size_t n_open;
    struct kb_snips sums;
    double level; /* of the guardrail; 0: none */
    uint64_t first;
    unsigned n_looks;
    struct ld_look look;
    bool is_proved;
};

struct ld_challenger_view {
    struct ld_challenger_settings settings;
    uint64_t seq;              /* last event that it has read */
    uint64_t n_learned, bytes; /* of its model */
    bool has_digest;
    uint64_t digest;
    char why[256]; /* it follows no longer: why. "": it does */
    struct ld_score scores;
};

#endif
