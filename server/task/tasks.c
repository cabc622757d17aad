/* See tasks.h. */
#include "task/tasks.h"

#define ADDRESS(kind) &kind,

const struct ld_task_kind *const ld_tasks[] = {LD_TASKS(ADDRESS) NULL};
