/* Durations and times of ISO 8601, as clients of Azure Personalizer send them. */
#ifndef LD_JSON_PERSONALIZER_TIME_H
#define LD_JSON_PERSONALIZER_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* "P1DT2H30M" in seconds: days, and behind T hours, minutes and seconds. -1 for what is no such duration, or NULL. */
double ld_duration_of(const char *text);
/* As a member, in seconds. */
void ld_text_duration(struct ld_text *t, const char *name, double seconds);

/* A time with seconds and any fraction of them, in UTC unless it says otherwise. */
bool ld_moment_of(const char *text, int64_t *at_ms);

#endif
