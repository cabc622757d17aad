/* See event.h. */
#include "spec/event.h"

bool kb_event_is_light(const struct kb_event *ev)
{
    return ev->type == KB_EV_DECIDED || ev->type == KB_EV_ACTIVATED || ev->type == KB_EV_LATE ||
           ev->type == KB_EV_MEASURED || (ev->type == KB_EV_EXPIRED && !ev->as.expired.has_reward);
}
