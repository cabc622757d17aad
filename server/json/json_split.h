/* Weights of a split in JSON: {"arm": weight, ...} <-> struct kb_split. */
#ifndef LD_JSON_SPLIT_H
#define LD_JSON_SPLIT_H

#include "json/json_util.h"
#include "spec/split.h"

/* An object of weights by names of the caller's own: what the names are, what they are names of, and who reads one. */
struct ld_weights_of {
    const char *keys, *what;
    void (*read)(struct ld_in *in, const struct ld_member *m, struct kb_split *out);
};
void ld_in_weights(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                   const struct ld_weights_of *of, struct kb_split *out);

/* Those of a split, by arm. */
void ld_in_split(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, struct kb_split *out);
void ld_text_split(struct ld_text *t, const struct kb_split *s);

#endif
