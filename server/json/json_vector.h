/* Vectors in JSON: an array of numbers or, in a body, an object of named features, which is mapped to one at the door
 * (base/feature_names.h). What comes behind the door, the engine and the log, has vectors alone. */
#ifndef LD_JSON_VECTOR_H
#define LD_JSON_VECTOR_H

#include "json/json_util.h"
#include "types/requests.h"

/* The vector at the place in hand, in the memory of the document; NULL for no numbers, or with a fault. */
const double *ld_in_vector_value(struct ld_in *in, const struct ld_value *v, uint32_t dim, enum ld_dim which,
                                 bool may_be_null);
/* The user that the context at the place in hand names by the mapping's pointer, in the memory of the document; NULL:
 * none, or a fault was told. */
const char *ld_in_user(struct ld_in *in, const struct ld_value *context);
/* Each feature of the object at the place in hand that is not there yet, with the vector that is left without it; up to
 * LD_MOST_WITHOUT in all: else told, at `asked`. */
void ld_in_without(struct ld_in *in, const struct ld_value *object, bool is_of_arm, const char *asked,
                   struct ld_ask *to);

#endif
