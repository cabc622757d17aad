/* Routing in JSON: the settings, the eligibility of an arm, and the attributes of a request. Private to
 * server/json/json_*.c, like json_util.h, whose readers these are. */
#ifndef LD_JSON_ROUTING_H
#define LD_JSON_ROUTING_H

#include "json/json_util.h"

/* The member `routing` of a configuration, at the place in hand; *out holds what is not told. */
void ld_in_routing(struct ld_in *in, const struct ld_value *v, struct kb_routing_spec *out);
void ld_text_routing(struct ld_text *t, const struct kb_routing_spec *r);

/* The rules of an arm, in bodies and in log lines; NULL: none are told, or one is at fault. */
const struct kb_eligibility *ld_in_eligibility(struct ld_in *in, const struct ld_value *v);
void ld_text_eligibility(struct ld_text *t, const struct kb_eligibility *rules);

/* A time as people write it, with milliseconds or without. */
void ld_in_moment(struct ld_in *in, const struct ld_value *v, int64_t *out);

const struct kb_attribute *ld_in_attributes(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                                            size_t *n);

#endif
