/* The verdict of a look, and what is fixed before the first one (verdict.h). */
#include "inference/verdict.h"

#include <math.h>

enum kb_verdict kb_verdict(double low, double high, double difference, bool is_traffic_void)
{
    if (is_traffic_void)
        return KB_VOID;
    if (low > 0)
        return KB_BETTER;
    if (high < 0)
        return KB_WORSE;
    return low > -difference && high < difference ? KB_NO_DIFFERENCE : KB_GO_ON;
}

double kb_decisions_needed(double rate, double half_width)
{
    const double ratio = 6.7 / half_width;
    return ceil(ratio * ratio * rate * (1 - rate));
}

double kb_reach_of_split(double share_base, double share_arm)
{
    return fmax(share_base, share_arm) / (share_base + share_arm);
}

/* One arm has all but the floors of the others. */
double kb_reach_of_floor(double epsilon, size_t n_arms)
{
    const double least = epsilon / (double)n_arms;
    return (1 - epsilon + least) / (1 - epsilon + 2 * least);
}
