/* Turns of tenants within a lane.
 *
 * A decision is computed in the thread of its connection, and the library takes the connections that are ready one
 * after another: behind fifty requests of a tenant with a large model, another one's would wait for fifty decisions. So
 * a round has a time. When that is over, a tenant that has had a request served in the round has the rest of them say
 * that they are not ready: the library then looks for what has come meanwhile, and asks them again.
 *
 * It asks in an order of its own, in which some connections are always before others. So those that were put off stand
 * in a line, and the first that is served of a tenant in a round is the first in its line.
 *
 * Requests that cost little do not use a round's time up. When a round begins our own threads know; for one of the
 * library's nothing tells but the first request that was put off being asked again, or a while in which it handled
 * nothing. */
#include "http/http_impl.h"

#include <string.h>

#include "base/clock.h"

#define ROUND_US 100
#define QUIET_US 50 /* in a thread of the library's: it has looked for what has come */

void ld_lane_begin_round(struct ld_lane *lane)
{
    lane->first_put_off = NULL;
    lane->round_us = ld_monotonic_us();
    memset(lane->is_served, 0, sizeof lane->is_served);
}

static struct ld_line *line_of(struct ld_lane *lane, const struct ld_request *r)
{
    return &lane->line[r->share % LD_SHARES];
}

static void join(struct ld_line *line, struct ld_request *r)
{
    r->is_put_off = true;
    r->before = line->last;
    r->behind = NULL;
    *(line->last != NULL ? &line->last->behind : &line->first) = r;
    line->last = r;
}

static void leave(struct ld_line *line, struct ld_request *r)
{
    if (!r->is_put_off)
        return;
    r->is_put_off = false;
    *(r->before != NULL ? &r->before->behind : &line->first) = r->behind;
    *(r->behind != NULL ? &r->behind->before : &line->last) = r->before;
}

static bool is_new_round(const struct ld_lane *lane, const struct ld_request *r)
{
    if (lane->first_put_off != NULL || lane->is_ours)
        return lane->first_put_off == r;
    return ld_monotonic_us() - lane->handled_us > QUIET_US;
}

void ld_lane_has_handled(struct ld_lane *lane)
{
    if (!lane->is_ours)
        lane->handled_us = ld_monotonic_us();
}

bool ld_lane_puts_off(struct ld_lane *lane, struct ld_request *r)
{
    if (r->share == 0)
        return false;
    if (is_new_round(lane, r))
        ld_lane_begin_round(lane);
    struct ld_line *line = line_of(lane, r);
    bool *is_served = &lane->is_served[r->share % LD_SHARES];
    if (*is_served ? ld_monotonic_us() - lane->round_us < ROUND_US : line->first == NULL || line->first == r) {
        *is_served = true;
        leave(line, r);
        return false;
    }
    if (!r->is_put_off)
        join(line, r);
    if (lane->first_put_off == NULL)
        lane->first_put_off = r;
    return true;
}

void ld_lane_forgets(struct ld_lane *lane, struct ld_request *r)
{
    leave(line_of(lane, r), r);
    if (lane->first_put_off == r)
        ld_lane_begin_round(lane);
}
