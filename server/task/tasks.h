/* The kinds of work beside a tenant's writer (tenant/task.h), each in a file of its own. */
#ifndef LD_TASKS_H
#define LD_TASKS_H

#include "tenant/task.h"

extern const struct ld_task_kind ld_erasure;      /* a user's data taken out: erase.c */
extern const struct ld_task_kind ld_verification; /* the model compared with its log: verify.c */

#endif
