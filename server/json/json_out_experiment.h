/* The answer of GET /tenants/{t}/experiment. */
#ifndef LD_JSON_OUT_EXPERIMENT_H
#define LD_JSON_OUT_EXPERIMENT_H

#include <stddef.h>

#include "types/experiment.h"

/* NULL: no memory. */
char *ld_encode_experiment(const struct ld_experiment_view *v, size_t *n);

#endif
