/* All kinds of work beside a tenant's writer, in the order in which they have their moments. */
#include "task/tasks.h"

const struct ld_task_kind *const ld_tasks[] = {&ld_graph_changing, &ld_compaction, &ld_erasure,   &ld_verification,
                                               &ld_building,       &ld_saving,     &ld_following, NULL};
