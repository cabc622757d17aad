/* Which of many lines mean + u slope can be on top of all others at some u >= 0, asked before all of them are known. */
#ifndef KB_TOP_LINES_H
#define KB_TOP_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define KB_MOST_LINES 8u

/* Lines that are known, or some of them. */
struct kb_top_lines {
    double mean[KB_MOST_LINES], slope[KB_MOST_LINES];
    size_t n;
};

/* One more; it is not kept where there is no room. */
void kb_top_lines_add(struct kb_top_lines *t, double mean, double slope);
/* False: at every u >= 0 a line is below one of those that are known, by more than lines differ that tie (policy.h).
 * O(KB_MOST_LINES). */
bool kb_top_lines_reach(const struct kb_top_lines *t, double mean, double slope);

#endif
