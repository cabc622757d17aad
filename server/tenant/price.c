/* Prices: see price.h, which has the table. The weights are those of docs/SPEED.md: ten multiply-adds a nanosecond, 0.1
 * ms for a request and 10 us for an event besides its update. They need not be exact: they are to make a tenant of
 * 1,000 points pay for what it does to the others. */
#include "tenant/price.h"

#define REQUEST 1.0
#define WORK_OF_TOKEN 1e6 /* multiply-adds */
#define EVENT 0.1
#define LINE 0.01   /* of the log, read or folded; an edge or an arm */
#define SYSTEM 10.0 /* of a user whose diagonal entry is not known */
#define LOOK 10.0   /* what reads much and computes little */

static double update(const struct ld_size *size)
{
    const double m = (double)size->points;

    return (3 * m * m + m * size->dims) / WORK_OF_TOKEN;
}

double ld_price_decision(const struct ld_size *size, size_t n_candidates, size_t n_slots)
{
    const double m = (double)size->points;
    const double n = (double)(n_candidates > 0 ? n_candidates : size->active_arms);

    return REQUEST + n * (double)(n_slots > 1 ? n_slots : 1) * (m * m + m * size->dims) / WORK_OF_TOKEN;
}

double ld_price_events(const struct ld_size *size, size_t n)
{
    return REQUEST + (double)n * (EVENT + update(size));
}

double ld_price_neighbours(double work)
{
    return work / WORK_OF_TOKEN;
}

double ld_price_lines(uint64_t n)
{
    return REQUEST + (double)n * LINE;
}

double ld_price_near(size_t n, bool is_solved)
{
    return LOOK + (double)n * (is_solved ? SYSTEM : LINE);
}

double ld_price_fold(const struct ld_size *size)
{
    return REQUEST + (double)size->learned * (LINE + update(size));
}

double ld_price_work(const struct ld_size *size, enum ld_work work)
{
    const double m = (double)size->points;

    switch (work) {
    case LD_WORK_TOLD:
        return 0;
    case LD_WORK_REQUEST:
        return REQUEST;
    case LD_WORK_MODEL:
        return REQUEST + m * m * m / WORK_OF_TOKEN;
    case LD_WORK_LOOK:
        return LOOK;
    case LD_WORK_COPY:
        return ld_price_lines(size->learned);
    case LD_WORK_FOLD:
        return ld_price_fold(size);
    }
    return REQUEST;
}
