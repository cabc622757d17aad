/* Limits of a tenant as JSON. */
#ifndef LD_JSON_LIMITS_H
#define LD_JSON_LIMITS_H

#include "json/json_in.h"
#include "base/limit.h"

/* The body of PUT .../limits; *is_own false: the server's options are to hold. 0 or -1. */
int ld_decode_limits(struct ld_doc *doc, struct ld_rate *out, bool *is_own, struct ld_problem *p);
/* {"rate", "burst", "own"}; NULL: no memory. */
char *ld_encode_limits(const struct ld_rate *limit, bool is_own, double fill, size_t *n);

#endif
