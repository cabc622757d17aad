/* A tenant's model that is fed from a log: decides with its propensities, predicts, and learns, as a server with this
 * configuration would, without a log of its own and without a clock. */
#ifndef LC_OPE_LEARNER_H
#define LC_OPE_LEARNER_H

#include "evaluate/log_reader.h"
#include "spec/event.h"
#include "spec/spec.h"

struct lc_learner;

/* spec is copied; graph is the path of an edge list of users (edges.h), NULL: none. KB_EUNSUPPORTED with `why` (LC_WHY
 * bytes) for a rule that learns from its own decisions alone, KB_EINVAL for a faulty graph. */
enum kb_err lc_learner_new(struct lc_learner **out, const struct kb_spec *spec, const char *graph, char *why);
void lc_learner_free(struct lc_learner *l);

/* What it would do at this event: propensities of the candidates, in [ev->n], borrowed until the next call. A decision
 * that cannot differ from the last is not made again. */
enum kb_err lc_learner_decide(struct lc_learner *l, const struct lc_log *log, const struct lc_logged *ev,
                              const double **propensity, char *why);

/* Expected rewards of candidates of the event: mean[i] of that at index which[i]. */
enum kb_err lc_learner_predict(struct lc_learner *l, const struct lc_log *log, const struct lc_logged *ev,
                               const size_t *which, size_t n, double *mean, char *why);

/* Learns the event: its arm's reward. */
enum kb_err lc_learner_learn(struct lc_learner *l, const struct lc_log *log, const struct lc_logged *ev, char *why);

/* A change of the graph of users, an event of type KB_EV_GRAPH. */
enum kb_err lc_learner_graph(struct lc_learner *l, const struct kb_event *ev, char *why);

#endif
