/* A challenger comes into force, and goes again: what becomes of a configuration. */
#ifndef LD_PROMOTION_H
#define LD_PROMOTION_H

#include <stdint.h>

#include "base/problem.h"
#include "types/settings.h"

/* What is asked for. */
struct ld_promotion {
    char challenger[LD_CHALLENGER_NAME_BYTES]; /* of a rollback: "" */
    enum ld_promotion_reason reason;
    uint64_t version; /* of the configuration that it was decided on; 0: any */
};

/* From the configuration of that version to *out. 0; 1: the challenger is in force already, and *out not set; -1 with
 * problem 409: there is no such challenger, nothing to take back, or another version. */
int ld_promote(const struct ld_settings *now, uint64_t version, const struct ld_promotion *p, struct ld_settings *out,
               struct ld_problem *problem);

#endif
