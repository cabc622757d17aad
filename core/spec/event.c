/* Names of event types and of the parts of a summary, from the lists in event.h. */
#include "spec/event.h"

#include <string.h>

const char *kb_event_name(int type)
{
    switch (type) {
#define KB_EVENT_CASE(name, value, text)                                                                               \
    case value:                                                                                                        \
        return text;
        KB_EVENT_MAP(KB_EVENT_CASE)
#undef KB_EVENT_CASE
    default:
        return NULL;
    }
}

int kb_event_from_name(const char *name)
{
#define KB_EVENT_MATCH(symbol, value, text)                                                                            \
    if (strcmp(name, text) == 0)                                                                                       \
        return value;
    KB_EVENT_MAP(KB_EVENT_MATCH)
#undef KB_EVENT_MATCH
    return KB_EV_NONE;
}

const char *kb_part_name(int part)
{
    switch (part) {
#define KB_PART_CASE(name, text)                                                                                       \
    case name:                                                                                                         \
        return text;
        KB_PART_MAP(KB_PART_CASE)
#undef KB_PART_CASE
    default:
        return NULL;
    }
}

int kb_part_from_name(const char *name)
{
#define KB_PART_MATCH(symbol, text)                                                                                    \
    if (strcmp(name, text) == 0)                                                                                       \
        return symbol;
    KB_PART_MAP(KB_PART_MATCH)
#undef KB_PART_MATCH
    return -1;
}

bool kb_event_is_light(const struct kb_event *ev)
{
    return ev->type == KB_EV_DECIDED || ev->type == KB_EV_ACTIVATED || ev->type == KB_EV_LATE ||
           (ev->type == KB_EV_EXPIRED && !ev->as.expired.has_reward);
}
