/* Rates: a token bucket that any number of threads take from, by one compare-and-swap a request. What a request costs
 * in tokens is api/call.h's to say. */
#ifndef LD_LIMIT_H
#define LD_LIMIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* So many tokens come in a second, and so many can be saved up. rate 0: no limit. burst 0: what comes in ten seconds.
 */
struct ld_rate {
    double rate, burst;
};
#define LD_BURST_S 10.0

/* A bucket is full at first. All zero is a bucket without a limit. */
struct ld_bucket {
    _Atomic double rate, burst; /* burst in force, never 0 beside a rate */
    _Atomic int64_t full_at_ns; /* on the monotonic clock: when nothing will be missing from it */
};

/* With the burst that a rate without one has. */
struct ld_rate ld_rate_with_burst(struct ld_rate rate);

/* From any thread, beside those who take. What has been taken stays taken. */
void ld_bucket_set(struct ld_bucket *b, const struct ld_rate *limit);
void ld_bucket_get(const struct ld_bucket *b, struct ld_rate *out);

/* Takes `tokens`, which are all or nothing, at the moment now_ns; no more than the burst is ever asked of anybody, so
 * that what costs more passes when the bucket is full. 0, or how many ns it takes until they would be there: then
 * nothing was taken. */
int64_t ld_bucket_take(struct ld_bucket *b, double tokens, int64_t now_ns);
/* The same answer without taking. */
int64_t ld_bucket_look(const struct ld_bucket *b, double tokens, int64_t now_ns);

/* Tokens that are there at the moment now_ns, of a bucket of this limit and state (below). */
double ld_rate_fill(const struct ld_rate *limit, int64_t state, int64_t now_ns);

/* What has been taken, to be put into another bucket of the same tenant. */
int64_t ld_bucket_state(const struct ld_bucket *b);
void ld_bucket_restore(struct ld_bucket *b, int64_t state);

/* For an answer: whole seconds, at least one. */
int ld_retry_after_s(int64_t wait_ns);

#endif
