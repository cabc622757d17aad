/* What an operator asks for about a log that no fold takes (task/repair.h), and about a shared log that has lost lines
 * which this server's copy has (task/repair_shared.h). */
#ifndef LD_REPAIR_TYPES_H
#define LD_REPAIR_TYPES_H

#include <stdint.h>

#include "base/names.h"
#include "base/secret.h"

/* As repair.schema.json has them; those of a shared log from LD_REPAIR_PUSH on. */
enum ld_repair_action { LD_REPAIR_READ_ONLY, LD_REPAIR_DROP, LD_REPAIR_LIFT, LD_REPAIR_PUSH, LD_REPAIR_REWIND };

struct ld_repair {
    enum ld_repair_action action;
    uint64_t seq;             /* the line, 0: not told; not read by lift */
    char by[LD_KEY_ID_BYTES]; /* the id of the key that asked; "": none was asked for, or it has no id */
};

/* What was done, of a shared log. */
struct ld_repaired {
    uint64_t n_lines;            /* that were put back into the log, or aside */
    char file[LD_NAME_MAX + 64]; /* in the folder of tenants: where those put aside are; "": none */
};

#endif
