/* What an operator asks for about a log that no fold takes (task/repair.h). */
#ifndef LD_REPAIR_TYPES_H
#define LD_REPAIR_TYPES_H

#include <stdint.h>

#include "base/secret.h"

enum ld_repair_action { LD_REPAIR_READ_ONLY, LD_REPAIR_DROP, LD_REPAIR_LIFT }; /* as repair.schema.json has them */

struct ld_repair {
    enum ld_repair_action action;
    uint64_t seq;             /* the line, 0: not told; not read by lift */
    char by[LD_KEY_ID_BYTES]; /* the id of the key that asked; "": none was asked for, or it has no id */
};

#endif
