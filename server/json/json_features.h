/* The member `features` of a configuration: how objects of named features become vectors (json_vector.h). */
#ifndef LD_JSON_FEATURES_H
#define LD_JSON_FEATURES_H

#include "base/feature_names.h"
#include "json/json_util.h"

/* The dimension that the member asks for; 0: it is not there, null, or faulty. */
uint32_t ld_features_dim(const struct ld_value *v);
/* null: no mapping. What is left out is the usual. */
void ld_in_features(struct ld_in *in, const struct ld_value *v, struct ld_name_map *out);
/* What the schema cannot say, of a body without faults: namespaces and their mapping belong together. */
enum kb_err ld_check_features(const struct ld_value *v, const struct ld_name_map *map, struct kb_errmsg *msg);
void ld_text_features(struct ld_text *t, const struct ld_name_map *map);

#endif
