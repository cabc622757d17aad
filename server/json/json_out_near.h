/* A neighbourhood of the graph -> JSON text, malloc'd; NULL without memory. */
#ifndef LD_JSON_OUT_NEAR_H
#define LD_JSON_OUT_NEAR_H

#include <stdint.h>

#include "model/near.h"

/* names: the ids of near->user, one behind the other, each with its NUL. */
char *ld_encode_near(const struct kb_near *near, const char *names, uint64_t hops, size_t *n);

#endif
