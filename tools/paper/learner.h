/* A learner: an engine that is fed with events exactly as the server's writer feeds it, without the log. */
#ifndef PB_LEARNER_H
#define PB_LEARNER_H

#include "paper/paper.h"

struct pb_learner;

/* CPU seconds spent so far, by what they were spent on. */
struct pb_times {
    double decide; /* kb_engine_decide and fitting its scratch */
    double learn;  /* reserve .. apply of every event, dictionary changes and reconfigurations included */
    double settle; /* eigendecompositions for confidence rules */
};

/* An engine configured with the algorithm's row for this environment, and with its graph. `env` and `algorithm` are
 * borrowed for the life of the learner. KB_ENOMEM, KB_EINVAL, KB_EUNSUPPORTED, said on stderr. */
enum kb_err pb_learner_new(struct pb_learner **out, const struct pb_algorithm *algorithm, const struct pb_env *env,
                           uint64_t seed, size_t rounds);
void pb_learner_free(struct pb_learner *l);

/* Index of the arm chosen in this round. Call in turn with learn. */
enum kb_err pb_learner_decide(struct pb_learner *l, const struct pb_round *round, size_t *chosen);
enum kb_err pb_learner_learn(struct pb_learner *l, const struct pb_round *round, size_t chosen, double reward);

/* Lower and upper bounds of the round's arms by the rule in force; no round is counted. */
enum kb_err pb_learner_bounds(struct pb_learner *l, const struct pb_round *round, double *lower, double *upper);

const struct kb_engine *pb_learner_engine(const struct pb_learner *l);
struct pb_times pb_learner_times(const struct pb_learner *l);

#endif
