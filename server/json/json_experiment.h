/* Experiments in JSON: the member `experiment` of a configuration, and the answer of GET /tenants/{t}/experiment.
 * Private to server/json/json_*.c but for the answer, which json_out.h declares. */
#ifndef LD_JSON_EXPERIMENT_H
#define LD_JSON_EXPERIMENT_H

#include "json/json_util.h"

/* At the place in hand; null: there is none. */
void ld_in_experiment(struct ld_in *in, const struct ld_value *v, struct ld_experiment_settings *out);
/* Two ends of rewards; which is the lower one is not looked at. */
void ld_in_range(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *low, double *high);
void ld_text_range(struct ld_text *t, double low, double high);
/* Of one that is on. */
void ld_text_experiment_settings(struct ld_text *t, const struct ld_experiment_settings *e);

#endif
