/* Which of many lines mean + u slope can be on top of all others at some u >= 0, asked before all of them are known.
 * u is a multiplier of deviations, |N(0, 1)|: none is larger than KB_MOST_U. */
#ifndef KB_TOP_LINES_H
#define KB_TOP_LINES_H

#include <stdbool.h>
#include <stddef.h>

#define KB_MOST_LINES 8u
#define KB_MOST_U 40.0 /* beyond it the half-normal has no mass that a double could hold */

/* Lines that are known, or some of them. */
struct kb_top_lines {
    double mean[KB_MOST_LINES], slope[KB_MOST_LINES];
    size_t n;
};

/* One more; it is not kept where there is no room. */
void kb_top_lines_add(struct kb_top_lines *t, double mean, double slope);
/* False: at every u from 0 to KB_MOST_U the line is below one of those that are known, by more than lines differ that
 * tie (policy.h). O(KB_MOST_LINES). */
bool kb_top_lines_reach(const struct kb_top_lines *t, double mean, double slope);

#endif
