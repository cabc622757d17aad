/* Features of JSON values, hashed: an object's members by their names, joined by "^" where objects hold objects. */
#ifndef LC_LOG_FEATURES_H
#define LC_LOG_FEATURES_H

#include "base/hashing.h"
#include "common/json.h"
#include "evaluate/log_reader.h"

/* x[dim] = the features of v; name NULL: those of its members, else v is the value of this feature. Strings are
 * categories, numbers numbers, true 1; false and null nothing; an array of numbers one feature a place. Names that
 * begin with "_" are left out, depths beyond 8 and names beyond 511 bytes cut. */
void lc_hash_json(const struct ld_hasher *h, const char *name, const struct json_t *v, double *x);
/* The same, added to x. */
void lc_hash_json_more(const struct ld_hasher *h, const char *name, const struct json_t *v, double *x);
/* Added to x: a string, number or truth value as a category. */
void lc_hash_json_category(const struct ld_hasher *h, const char *name, const struct json_t *v, double *x);

/* x[dim] = the object v: mapped where the log is read by a mapping (feature_names.h), else hashed. 0, or -1 with
 * log->base.why.text, which begins with `key` and the place in v. */
int lc_log_object(struct lc_log *log, const struct ld_hasher *h, enum ld_named_side side, const char *key,
                  const struct json_t *v, double *x);

/* x[dim] = v: a vector of the dimensions as it is, an object as above, anything else hashed under the name `key`. 0, or
 * -1 with log->base.why.text. */
int lc_log_vector(struct lc_log *log, const struct ld_hasher *h, enum ld_named_side side, const char *key,
                  const struct json_t *v, double *x);

/* The user that a context names, where the mapping says where; "-": none. Lives until the next line. NULL with
 * log->base.why.text. */
const char *lc_log_user(struct lc_log *log, const char *key, const struct json_t *context);

#endif
