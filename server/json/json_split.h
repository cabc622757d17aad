/* Weights of a split in JSON: {"arm": weight, ...} <-> struct kb_split. */
#ifndef LD_JSON_SPLIT_H
#define LD_JSON_SPLIT_H

#include "json/json_util.h"
#include "spec/split.h"

void ld_in_split(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, struct kb_split *out);
void ld_text_split(struct ld_text *t, const struct kb_split *s);

#endif
