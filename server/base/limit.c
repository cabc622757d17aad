/* A token bucket as one number: the moment at which it will be full (the generic cell rate algorithm; ITU-T I.371,
 * annex A, in the form of its virtual scheduling). At a rate of R tokens a second c tokens are c / R seconds. Taking
 * them moves that moment, or now where it has passed, by so much; they are there when it is then no further away than a
 * whole burst.
 *
 *     base = max(full_at, now)    next = base + c / R    taken if next - now <= burst / R, by a CAS of full_at
 *
 * Bounds: full_at never falls. Of all that was taken with moments in [s, e] the first found base >= s, the last left
 * next <= e + burst / R, and each moved it by its cost: so together they are at most R (e - s) + burst tokens, in
 * whatever order threads came, and with moments that were old when they were used. Costs are rounded up to whole ns and
 * bursts down, so that rounding never gives anything away.
 *
 * No lock, no allocation, no clock: the moment is the caller's. */
#include "base/limit.h"

#include <math.h>

#define NS_PER_S 1e9
#define MOST_NS 1e18 /* thirty years: sums stay far from the end of int64_t */

/* Of the bucket: ns that all of its burst takes to come, and ns that `tokens` do; the latter are at most the former.
 * False: there is no limit. */
static bool measure(const struct ld_bucket *b, double tokens, int64_t *burst_ns, int64_t *cost_ns)
{
    const double rate = atomic_load_explicit(&b->rate, memory_order_relaxed);
    const double burst = atomic_load_explicit(&b->burst, memory_order_relaxed);

    if (!(rate > 0))
        return false;
    const double most = fmin(fmax(floor(burst / rate * NS_PER_S), 1), MOST_NS);
    *burst_ns = (int64_t)most;
    *cost_ns = (int64_t)fmin(fmax(ceil(tokens / rate * NS_PER_S), 0), most);
    return true;
}

struct ld_rate ld_rate_with_burst(struct ld_rate rate)
{
    if (!(rate.burst > 0))
        rate.burst = LD_BURST_S * rate.rate;
    return rate;
}

void ld_bucket_set(struct ld_bucket *b, const struct ld_rate *limit)
{
    const struct ld_rate rate = ld_rate_with_burst(*limit);

    atomic_store_explicit(&b->burst, rate.burst, memory_order_relaxed);
    atomic_store_explicit(&b->rate, rate.rate, memory_order_relaxed);
}

void ld_bucket_get(const struct ld_bucket *b, struct ld_rate *out)
{
    out->rate = atomic_load_explicit(&b->rate, memory_order_relaxed);
    out->burst = atomic_load_explicit(&b->burst, memory_order_relaxed);
}

/* Relaxed: the number orders nothing but itself. */
int64_t ld_bucket_take(struct ld_bucket *b, double tokens, int64_t now_ns)
{
    int64_t burst_ns, cost_ns;
    int64_t full_at = atomic_load_explicit(&b->full_at_ns, memory_order_relaxed);

    if (!measure(b, tokens, &burst_ns, &cost_ns))
        return 0;
    for (;;) {
        const int64_t next = (full_at > now_ns ? full_at : now_ns) + cost_ns;

        if (next - now_ns > burst_ns)
            return next - now_ns - burst_ns;
        if (atomic_compare_exchange_weak_explicit(&b->full_at_ns, &full_at, next, memory_order_relaxed,
                                                  memory_order_relaxed))
            return 0;
    }
}

int64_t ld_bucket_look(const struct ld_bucket *b, double tokens, int64_t now_ns)
{
    int64_t burst_ns, cost_ns;
    const int64_t full_at = atomic_load_explicit(&b->full_at_ns, memory_order_relaxed);

    if (!measure(b, tokens, &burst_ns, &cost_ns))
        return 0;
    const int64_t next = (full_at > now_ns ? full_at : now_ns) + cost_ns;
    return next - now_ns > burst_ns ? next - now_ns - burst_ns : 0;
}

double ld_rate_fill(const struct ld_rate *limit, int64_t state, int64_t now_ns)
{
    const double missing = state > now_ns ? (double)(state - now_ns) / NS_PER_S * limit->rate : 0;

    return fmax(limit->burst - missing, 0);
}

int64_t ld_bucket_state(const struct ld_bucket *b)
{
    return atomic_load_explicit(&b->full_at_ns, memory_order_relaxed);
}

void ld_bucket_restore(struct ld_bucket *b, int64_t state)
{
    atomic_store_explicit(&b->full_at_ns, state, memory_order_relaxed);
}

/* A day at most: who has to wait longer than that is not helped by the exact number. */
int ld_retry_after_s(int64_t wait_ns)
{
    const double s = ceil((double)wait_ns / NS_PER_S);

    return s < 1 ? 1 : s > 86400 ? 86400 : (int)s;
}
