/* See settings.h. */
#include "types/settings.h"

#include <string.h>

struct ld_challenger_settings *ld_settings_challenger(struct ld_settings *s, const char *name)
{
    for (size_t i = 0; i < s->n_challengers; i++)
        if (strcmp(s->challenger[i].name, name) == 0)
            return &s->challenger[i];
    return NULL;
}

void ld_settings_init(struct ld_settings *s)
{
    *s = (struct ld_settings){.guardrail = {.level = 0.95, .min_decisions = 1000}};
}

bool ld_settings_log_candidates(const struct ld_settings *s)
{
    return s->is_logging_candidates || s->n_challengers > 0;
}
