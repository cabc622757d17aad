/* Turns of tenants within a thread of the library.
 *
 * A decision is computed in the thread of its connection, and the library takes the connections that are ready one
 * after another: behind fifty requests of a tenant with a large model, another one's would wait for fifty decisions. So
 * in each round of the library a tenant has a few requests served, and the rest of its requests say that they are not
 * ready: the library then looks for what has come meanwhile, and asks them again. Order among one tenant's requests
 * stays as it is.
 *
 * Nothing tells us that a round is over but the first request that was put off being asked again. While one tenant is
 * alone in the thread nothing is put off; requests of many cost one more look at the sockets now and then. */
#include "http_internal.h"

#define QUANTUM 2 /* requests of a tenant in a round */
#define ALONE 256 /* requests of one tenant without another's: it is alone */

static void begin_round(struct ld_lane *lane)
{
    lane->first_put_off = NULL;
    for (size_t i = 0; i < LD_SHARES; i++)
        lane->n_served[i] = 0;
}

bool ld_lane_puts_off(struct ld_lane *lane, struct ld_request *r)
{
    if (r->share == 0)
        return false;
    if (lane->first_put_off == r)
        begin_round(lane);
    lane->n_alike = r->share != lane->last_share ? 0 : lane->n_alike < ALONE ? lane->n_alike + 1 : ALONE;
    lane->last_share = r->share;
    uint8_t *n_served = &lane->n_served[r->share % LD_SHARES];
    if (*n_served < QUANTUM) {
        ++*n_served;
        return false;
    }
    if (lane->n_alike == ALONE)
        return false;
    if (lane->first_put_off == NULL)
        lane->first_put_off = r;
    return true;
}

void ld_lane_forgets(struct ld_lane *lane, const struct ld_request *r)
{
    if (lane->first_put_off == r)
        begin_round(lane);
}
