/* Challengers -> JSON. */
#ifndef LD_JSON_OUT_CHALLENGERS_H
#define LD_JSON_OUT_CHALLENGERS_H

#include "base/text.h"
#include "types/challenger_view.h"

#define LD_CHALLENGERS_LEVEL 0.95 /* of the intervals that are shown */

/* Members of an object: what scores say at 95 %; and one estimate, null where there is nothing to tell it from. */
void ld_put_scores(struct ld_text *t, const struct ld_score *s);
void ld_put_estimate(struct ld_text *t, const char *name, struct kb_estimate e);
/* The member `match`: of n decisions, the sum of the probabilities with which the same arm would have been shown. */
void ld_put_match(struct ld_text *t, uint64_t n, double sum);

/* node: the server that follows, NULL: not told; tip: the log's last event; version: of the configuration in force.
 * malloc'd; NULL: no memory. */
char *ld_encode_challengers(const struct ld_challenger_view *v, size_t n_views, const char *node, uint64_t tip,
                            uint64_t version, size_t *n);

#endif
