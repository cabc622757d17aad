/* Policies that are evaluated on somebody else's log: what each would do at a logged decision. */
#ifndef LC_OPE_POLICY_H
#define LC_OPE_POLICY_H

#include "spec/event.h"
#include "evaluate/log_reader.h"
#include "spec/spec.h"

struct lc_policy;

/* `propensities` gives the probability of each candidate, [ev->n], borrowed until the next call; 0 or -1 with `why`
 * (LC_WHY bytes). `learn`: the event happened to it; NULL: it never learns, so a decision depends on the event alone.
 */
struct lc_policy_ops {
    const char *name;
    int (*propensities)(struct lc_policy *p, const struct lc_log *log, const struct lc_logged *ev, const double **out,
                        char *why);
    int (*learn)(struct lc_policy *p, const struct lc_log *log, const struct lc_logged *ev, char *why);
    void (*free)(struct lc_policy *p);
    /* The graph of users changes (KB_EV_GRAPH); NULL: users are nothing to it. */
    int (*graph)(struct lc_policy *p, const struct kb_event *ev, char *why);
};

struct lc_policy {
    const struct lc_policy_ops *ops;
    bool is_logging; /* the policy that made the log: only what it did is known */
};

struct lc_policy *lc_policy_even(bool is_logging); /* what the log did, or uniform */

/* Action distributions by stratum. File: CSV with the columns position (may be left out), item_id and probability; each
 * position's add up to 1 within 0.001 and are scaled to it. Log: the frequencies of arms in another log of the format.
 * NULL with why. */
struct lc_policy *lc_policy_from_file(const char *path, char *why);
struct lc_policy *lc_policy_from_log(const struct lc_log_reader_ops *format, const struct lc_log_options *o, char *why);

/* A learning one (ope_learner.c): decides with its propensities and learns as a server with this configuration would.
 * spec is copied; graph is the path of an edge list of users (edges.h), NULL: none. NULL with why for a rule that
 * learns from its own decisions alone, and for a faulty graph. */
struct lc_policy *lc_policy_learning(const struct kb_spec *spec, const char *graph, char *why);
/* What a learning one expects of candidates of the event: mean[i] of that at index which[i]. 0, or -1 with why. */
int lc_policy_predict(struct lc_policy *p, const struct lc_log *log, const struct lc_logged *ev, const size_t *which,
                      size_t n, double *mean, char *why);

void lc_policy_free(struct lc_policy *p); /* NULL is fine */

#endif
