/* Evaluations of a tenant's own log (evaluation.c), as others see them. */
#ifndef LD_TASK_EVALUATION_H
#define LD_TASK_EVALUATION_H

#include <stdbool.h>

#include "types/evaluation.h"

struct ld_tenant;

/* The one under way. */
struct ld_evaluation_live {
    char id[LD_EVALUATION_ID_BYTES]; /* "": there is none */
    bool is_cancelled;
    double progress; /* 0 to 1 */
};
/* From any thread. */
void ld_evaluation_look(const struct ld_tenant *t, struct ld_evaluation_live *out);

/* 404, in words. node: this server's name where several share a log, else NULL. */
struct ld_problem;
void ld_evaluation_miss(const char *node, const char *id, struct ld_problem *p);

#endif
