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

struct lc_policy *lc_policy_uniform(void);
struct lc_policy *lc_policy_logged(void);

/* Action distributions by stratum. File: CSV with the columns position (may be left out), item_id and probability; each
 * position's add up to 1 within 0.001 and are scaled to it. Log: the frequencies of arms in another log of the format.
 * NULL with why. */
struct lc_policy *lc_policy_from_file(const char *path, char *why);
struct lc_policy *lc_policy_from_log(const struct lc_log_reader_ops *format, const struct lc_log_options *o, char *why);

/* A learning one, with the edge list of its users' graph (NULL: none). NULL with why. */
struct lc_policy *lc_policy_learning(const struct kb_spec *spec, const char *graph, char *why);

void lc_policy_free(struct lc_policy *p); /* NULL is fine */

#endif
