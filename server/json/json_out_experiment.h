/* The answer of GET /tenants/{t}/experiment. */
#ifndef LD_JSON_OUT_EXPERIMENT_H
#define LD_JSON_OUT_EXPERIMENT_H

#include <stddef.h>

#include "types/experiment.h"

/* NULL: no memory. */
char *ld_encode_experiment(const struct ld_experiment_view *v, size_t *n);

/* The one sentence that says most: that the traffic does not match, the best arm that is better, the first verdict
 * where all have one, or go on. Only of one that runs. */
#define LD_SENTENCE_BYTES (KB_ID_MAX_BYTES + 128u)
void ld_say_experiment(const struct ld_experiment_view *v, char out[LD_SENTENCE_BYTES]);

#endif
