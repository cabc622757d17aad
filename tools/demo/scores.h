/* Results of several policies over several seeds: means, standard errors, paired differences; as text and JSON. */
#ifndef LC_SCORES_H
#define LC_SCORES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/histogram.h"
#include "common/text.h"

#define LC_MAX_POLICIES 8u

struct lc_estimate {
    double mean, se; /* se: standard error of the mean; NaN for fewer than two values */
};

struct lc_scores {
    size_t n_policies, n_seeds;
    const char *label[LC_MAX_POLICIES];
    const char *tenant[LC_MAX_POLICIES];
    /* both owned; indexed by policy, then by seed */
    double *value[LC_MAX_POLICIES]; /* [n_seeds] the final score */
    double *tail[LC_MAX_POLICIES];  /* [n_seeds] score per round over the last tenth of the rounds */
    struct lc_histogram select[LC_MAX_POLICIES], reward[LC_MAX_POLICIES];
};

/* n_policies <= LC_MAX_POLICIES. Labels and tenants are set by the caller and borrowed. */
void lc_scores_init(struct lc_scores *s, size_t n_policies, size_t n_seeds);
void lc_scores_close(struct lc_scores *s);

/* Adds what a policy did in one race: `curve` is the running total over n_rounds. is_rate: the final score is the total
 * divided by the rounds. */
void lc_scores_add(struct lc_scores *s, size_t policy, size_t seed, const double *curve, size_t n_rounds, bool is_rate);

/* n >= 1 for a mean that means something. */
struct lc_estimate lc_estimate_of(const double *v, size_t n);
/* Mean and standard error of a[i] - b[i]: the seeds pair the two policies. */
struct lc_estimate lc_estimate_paired(const double *a, const double *b, size_t n);

/* The table, one row per policy; `what` heads the column of the score, %.*f with `digits`. */
void lc_scores_print(const struct lc_scores *s, const char *what, int digits, struct lc_text *out);
/* One line: "a - b = mean +- se (...)". */
void lc_scores_print_pair(const struct lc_scores *s, size_t a, size_t b, const char *what, int digits,
                          struct lc_text *out);

/* "policies":[...],"paired":[...] (no braces around): every policy against every later one. */
void lc_scores_json(const struct lc_scores *s, const char *what, struct lc_text *out);

#endif
