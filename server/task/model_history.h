/* How a tenant's model went over time: what it was at places of the log, kept in the tenant's file.
 *
 *     writer   behind the batch by which the number of learned rewards reaches the next multiple of a step: a copy of
 *              what the facts are computed from
 *     job      the facts, which cost O(m^3 / 3) for m points
 *     writer   a point more, and the row of the file
 *
 * Where the facts take long, points stand half of the rewards before them apart, at multiples of the step as well.
 * When LD_MODEL_POINTS are there, every second one goes and the step doubles. A point says of which event's model it
 * is. It is told once it is in the file, so what was told outlives the process, and the lines. */
#ifndef LD_MODEL_HISTORY_H
#define LD_MODEL_HISTORY_H

#include "types/views.h"

struct ld_tenant;

/* A copy; n 0: none, or the file cannot be read now. */
void ld_model_history_copy(const struct ld_tenant *t, struct ld_model_history *out);

#endif
