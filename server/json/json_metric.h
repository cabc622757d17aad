/* A tenant's metrics in JSON, in configurations and in lines of the log. */
#ifndef LD_JSON_METRIC_H
#define LD_JSON_METRIC_H

#include "json/json_util.h"
#include "types/settings.h"

/* The list. */
void ld_in_metrics(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, struct ld_settings *out);
void ld_text_metrics(struct ld_text *t, const struct ld_settings *s);

/* Behind all members: what of metrics follows from others, and the other way round. */
void ld_settle_metrics(struct ld_settings *s);
/* Of the configuration that was written of s: its single objective leaves its aggregation to the tenant's. */
void ld_free_objective(const struct ld_settings *s, struct ld_value *configuration);
/* KB_EUNSUPPORTED for what does not go together. */
enum kb_err ld_check_metrics(const struct ld_settings *s, struct kb_errmsg *msg);

#endif
