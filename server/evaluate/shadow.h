/* A shadow: a model of any configuration that is fed with the events of a log, in their order, beside whatever model
 * made them. What was decided, shown and rewarded is the log's; what is learned of it is the shadow's own.
 *
 *     fed          decided, rewarded, observed, expired, activated, late, graph, arms, and a summary at the beginning
 *     of its own   the configuration, and what chance adds to it: dictionary points and resets, drawn anew
 *     passed over  the log's dictionaries and redacted lines; what is said of decisions that the log does not hold
 *     taken over   of the log's configurations how rewards are booked (kb_spec_take_books): `rewarded` and `expired`
 *                  mean what they meant where they stand
 *
 * Its events are numbered without gaps by itself. Chance is keyed by the seed and by these numbers, so the same log and
 * the same configuration give the same digest, on one machine, however the feeding was cut into pieces. A rule that
 * learns from its own decisions alone (elimination by levels) cannot be a shadow.
 *
 * Long work of the model (a reset, a point that enters a large dictionary) is done in the call that it falls due in,
 * and ends early when ld_shadow_cancel is called. One thread at a time; ld_shadow_cancel alone may be called beside. */
#ifndef LD_SHADOW_H
#define LD_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "model/engine_read.h"
#include "tenant/fold.h"

struct ld_shadow;

/* Whether there can be one of this configuration: KB_EINVAL, KB_EUNSUPPORTED with msg (may be NULL). */
enum kb_err ld_shadow_check(const struct kb_spec *spec, struct kb_errmsg *msg);
/* An empty model; spec is copied. Its dimensions must be those of the log, or 0: then the log's contexts or features
 * are not looked at. KB_ENOMEM; KB_EINVAL, KB_EUNSUPPORTED with msg (may be NULL) for what no shadow can have. */
enum kb_err ld_shadow_new(struct ld_shadow **out, const struct kb_spec *spec, struct kb_errmsg *msg);
void ld_shadow_free(struct ld_shadow *s); /* NULL is fine */

/* The log's next event. Its number is not looked at. On failure the model is as before, but after KB_ECANCELLED, when
 * all that is left is to free it. */
enum kb_err ld_shadow_feed(struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg);

/* The same for lines (fold.h), whose number must follow the last one's; the first may have any. `expect` alone, for
 * who looks at the event before it is fed: KB_EINVAL. */
struct ld_sink ld_shadow_sink(struct ld_shadow *s);
enum kb_err ld_shadow_expect(const struct ld_shadow *s, const struct kb_event *ev, struct kb_errmsg *msg);

/* Behind the log's last event: rewards that come from here on are booked as the shadow's own configuration says. For
 * who makes a tenant of it. */
enum kb_err ld_shadow_take_own_books(struct ld_shadow *s, struct kb_errmsg *msg);

/* From any thread: what feeds ends soon, and fails with KB_ECANCELLED from then on. */
void ld_shadow_cancel(struct ld_shadow *s);

/* As kb_engine_decide, after all that was fed; scratch is the caller's and grows as needed. Records nothing. */
enum kb_err ld_shadow_decide(struct ld_shadow *s, const struct kb_query *q, struct kb_scratch *scratch,
                             struct kb_decision *out, struct kb_errmsg *msg);

/* The probability with which it would have shown the arm that a decision of the log (`decided`) has shown, by what was
 * fed before: among the candidates that the line names, else the active catalogue. NaN where these are not known, or
 * the arm is none of them. *share (unless NULL) becomes the least that the propensity of an arm was of its probability
 * here, over arms that it may show: so much of the decision may be taken for its own (inference/sequences.h). 0 where
 * the line tells no odds. */
double ld_shadow_probability(struct ld_shadow *s, const struct kb_event *decided, double *share);

/* For its digest, counts and facts. Nothing is configured there before the first event or decision. */
const struct kb_engine *ld_shadow_engine(const struct ld_shadow *s);

struct ld_shadow_counts {
    uint64_t cursor;               /* number of the last line that was fed */
    uint64_t n_read, n_passed;     /* events fed, and of these those that were passed over */
    uint32_t context_dim, arm_dim; /* of the log's own vectors, by which its lines are read */
};
struct ld_shadow_counts ld_shadow_counts(const struct ld_shadow *s);

/* Called with each event of the shadow's own log, in order, before it counts: not KB_OK refuses it. For whoever keeps
 * that log: vectors have the dimensions of the spec. */
typedef enum kb_err ld_shadow_keep(void *arg, const struct kb_event *ev);
void ld_shadow_keep_log(struct ld_shadow *s, ld_shadow_keep *keep, void *arg);

#endif
