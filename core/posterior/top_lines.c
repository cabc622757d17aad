/* See top_lines.h. A line is nowhere below line i on an interval of u; those of all i have to meet.
 *
 *   a + u b >= 0,  a = mean - mean_i,  b = slope - slope_i
 *
 * Values that are no numbers are below nothing. */
#include "posterior/top_lines.h"

#include <math.h>

#define TIE_ROOM 1e-9 /* a thousand times what lines of a tie may differ by */

void kb_top_lines_add(struct kb_top_lines *t, double mean, double slope)
{
    if (t->n == KB_MOST_LINES)
        return;
    t->mean[t->n] = mean;
    t->slope[t->n++] = slope;
}

bool kb_top_lines_reach(const struct kb_top_lines *t, double mean, double slope)
{
    double low = 0, high = KB_MOST_U;
    for (size_t i = 0; i < t->n; i++) {
        const double room = TIE_ROOM * (fabs(mean) + slope + fabs(t->mean[i]) + t->slope[i]);
        const double a = mean - t->mean[i] + room, b = slope - t->slope[i] + room;
        if (b > 0)
            low = fmax(low, -a / b);
        else if (b < 0)
            high = fmin(high, -a / b);
        else if (a < 0)
            return false;
    }
    return !(low > high);
}
