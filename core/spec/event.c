/* See event.h. */
#include "spec/event.h"

#include <string.h>

size_t kb_event_name_bytes(const struct kb_event *decided)
{
    size_t n = 0;

    for (size_t i = 0; decided->as.decided.draws != NULL && i < decided->as.decided.n_slots; i++)
        n += strlen(decided->as.decided.draws[i].id) + 1;
    return n;
}

bool kb_event_is_light(const struct kb_event *ev)
{
    return ev->type == KB_EV_DECIDED || ev->type == KB_EV_ACTIVATED || ev->type == KB_EV_LATE ||
           ev->type == KB_EV_MEASURED || (ev->type == KB_EV_EXPIRED && !ev->as.expired.has_reward);
}
