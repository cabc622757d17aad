/* Policies that are evaluated on somebody else's log: what each would do at a logged decision. */
#ifndef LD_OPE_POLICY_H
#define LD_OPE_POLICY_H

#include "spec/event.h"
#include "evaluate/decisions.h"
#include "spec/spec.h"

struct ld_ope_policy;

/* `propensities` gives the probability of each candidate, [ev->n], borrowed until the next call; 0 or -1 with
 * `why`. `learn`: the event happened to it; NULL: it never learns, so a decision depends on the event alone.
 */
struct ld_ope_policy_ops {
    const char *name;
    int (*propensities)(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                        const double **out, struct ld_message *why);
    int (*learn)(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                 struct ld_message *why);
    void (*free)(struct ld_ope_policy *p);
    /* The graph of users changes (KB_EV_GRAPH); NULL: users are nothing to it. */
    int (*graph)(struct ld_ope_policy *p, const struct kb_event *ev, struct ld_message *why);
};

struct ld_ope_policy {
    const struct ld_ope_policy_ops *ops;
    bool is_logging; /* the policy that made the log: only what it did is known */
};

/* What the log did, or uniform; all to one arm, wherever it is a candidate; all to the first candidate, in the order
 * that the log tells. NULL with why: no memory. */
struct ld_ope_policy *ld_ope_policy_even(bool is_logging, struct ld_message *why);
struct ld_ope_policy *ld_ope_policy_arm(const char *arm, struct ld_message *why);
struct ld_ope_policy *ld_ope_policy_first(struct ld_message *why);

/* A learning one (ope_learner.c): decides with its propensities and learns as a server with this configuration would.
 * spec is copied; graph is the event that makes the graph of users, NULL: none. NULL with why for a rule that
 * learns from its own decisions alone, for a faulty graph, and without memory. */
struct ld_ope_policy *ld_ope_policy_learning(const struct kb_spec *spec, const struct kb_event *graph,
                                             struct ld_message *why);
/* From any thread, of one that learns: what it computes ends soon, and fails. */
void ld_ope_policy_cancel(struct ld_ope_policy *p);
/* Bytes of the model of one that learns; 0 of others. */
size_t ld_ope_policy_bytes(const struct ld_ope_policy *p);
/* What a learning one expects of candidates of the event: mean[i] of that at index which[i]. 0, or -1 with why. */
int ld_ope_policy_predict(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                          const size_t *which, size_t n, double *mean, struct ld_message *why);

void ld_ope_policy_free(struct ld_ope_policy *p); /* NULL is fine */

#endif
