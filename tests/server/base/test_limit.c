/* Token buckets: what is taken in any window has its bound, by one thread and by many; what was saved up is there. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "kbt.h"
#include "base/limit.h"

#define S INT64_C(1000000000)

static struct ld_bucket bucket_of(double rate, double burst)
{
    struct ld_bucket b = {.rate = 0};
    const struct ld_rate limit = {.rate = rate, .burst = burst};

    ld_bucket_set(&b, &limit);
    return b;
}

/* A random number in [0, 1), for inputs. */
static double uniform(unsigned *state)
{
    return (double)rand_r(state) / ((double)RAND_MAX + 1);
}

START_TEST(a_full_bucket_gives_its_burst_and_then_its_rate)
{
    struct ld_bucket b = bucket_of(10, 5);
    const int64_t start = 7 * S;

    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(ld_bucket_take(&b, 1, start), 0);
    ck_assert_int_eq(ld_bucket_take(&b, 1, start), S / 10);
    ck_assert_int_eq(ld_bucket_take(&b, 2, start), S / 5);
    ck_assert_int_eq(ld_bucket_take(&b, 1, start + S / 10 - 1), 1);
    ck_assert_int_eq(ld_bucket_take(&b, 1, start + S / 10), 0);
    ck_assert_int_eq(ld_bucket_take(&b, 1, start + S / 10), S / 10);
}
END_TEST

START_TEST(after_a_rest_the_burst_is_there_again_and_no_more)
{
    struct ld_bucket b = bucket_of(10, 5);

    ck_assert_int_eq(ld_bucket_take(&b, 5, 0), 0);
    for (int rest = 1; rest < 100; rest += 7) {
        const int64_t now = rest * 1000 * S;
        ck_assert_int_eq(ld_bucket_take(&b, 2, now), 0);
        ck_assert_int_eq(ld_bucket_take(&b, 3, now), 0);
        ck_assert_int_gt(ld_bucket_take(&b, 0.001, now), 0);
    }
}
END_TEST

START_TEST(what_costs_more_than_the_burst_passes_when_the_bucket_is_full)
{
    struct ld_bucket b = bucket_of(10, 5);

    ck_assert_int_eq(ld_bucket_take(&b, 1, 0), 0);
    ck_assert_int_eq(ld_bucket_take(&b, 1e30, 0), S / 10);
    ck_assert_int_eq(ld_bucket_take(&b, 1e30, S / 10), 0);
    ck_assert_int_eq(ld_bucket_take(&b, INFINITY, S / 10), S / 2);
}
END_TEST

START_TEST(a_refusal_takes_nothing_and_a_look_neither)
{
    struct ld_bucket b = bucket_of(1, 10);

    ck_assert_int_eq(ld_bucket_take(&b, 6, 0), 0);
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_gt(ld_bucket_take(&b, 5, 0), 0);
        ck_assert_int_eq(ld_bucket_look(&b, 4, 0), 0);
        ck_assert_int_eq(ld_bucket_look(&b, 5, 0), S);
    }
    ck_assert_int_eq(ld_bucket_take(&b, 4, 0), 0);
}
END_TEST

START_TEST(without_a_rate_there_is_no_limit)
{
    struct ld_bucket none = {.rate = 0}, b = bucket_of(1, 1);
    const struct ld_rate off = {.rate = 0};

    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(ld_bucket_take(&none, 1e12, 0), 0);
    ck_assert_int_eq(ld_bucket_take(&b, 1, 0), 0);
    ck_assert_int_gt(ld_bucket_take(&b, 1, 0), 0);
    ld_bucket_set(&b, &off);
    ck_assert_int_eq(ld_bucket_take(&b, 1, 0), 0);
}
END_TEST

START_TEST(a_burst_that_was_not_told_is_ten_seconds_of_the_rate)
{
    struct ld_bucket b = bucket_of(4, 0);
    struct ld_rate told;

    ld_bucket_get(&b, &told);
    ck_assert_double_eq(told.burst, 40);
    for (int i = 0; i < 40; i++)
        ck_assert_int_eq(ld_bucket_take(&b, 1, 0), 0);
    ck_assert_int_gt(ld_bucket_take(&b, 1, 0), 0);
}
END_TEST

START_TEST(numbers_at_the_ends_of_their_ranges_do_not_overflow)
{
    const double rates[] = {1e-3, 1, 1e9, 1e12}, bursts[] = {1e-3, 1, 1e12, 1e18};

    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 4; k++) {
            struct ld_bucket b = bucket_of(rates[i], bursts[k]);
            const int64_t now = INT64_C(1) << 61;
            ck_assert_int_eq(ld_bucket_take(&b, 1e300, now), 0);
            const int64_t wait = ld_bucket_take(&b, 1e300, now);
            ck_assert_int_gt(wait, 0);
            ck_assert_int_eq(ld_bucket_take(&b, 1e300, now + wait), 0);
        }
    ck_assert_int_eq(ld_retry_after_s(1), 1);
    ck_assert_int_eq(ld_retry_after_s(S), 1);
    ck_assert_int_eq(ld_retry_after_s(S + 1), 2);
    ck_assert_int_eq(ld_retry_after_s(INT64_MAX), 86400);
}
END_TEST

/* --- windows ---------------------------------------------------------------------------------------------- */

struct grant {
    int64_t at;
    double tokens;
};

static int by_time(const void *a, const void *b)
{
    const struct grant *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* For every window that begins and ends with a grant: its sum is at most rate * length + burst. O(n) with what is left:
 * sum to i less rate * time at i is, from any earlier j, at most the burst plus j's own. */
static void check_windows(struct grant *g, size_t n, double rate, double burst)
{
    double sum = 0, least = INFINITY;

    qsort(g, n, sizeof *g, by_time);
    for (size_t i = 0; i < n; i++) {
        const double t = rate * ((double)(g[i].at - g[0].at) / (double)S);
        least = fmin(least, sum - t);
        sum += g[i].tokens;
        ck_assert_msg(sum - t - least <= burst * (1 + 1e-9) + 1e-6, "grant %zu: %.9g tokens over a burst of %.9g", i,
                      sum - t - least, burst);
    }
}

static void check_one(unsigned seed)
{
    static struct grant g[20000];
    unsigned state = seed;
    const double rate = pow(10, 6 * uniform(&state) - 1), burst = rate * pow(10, 4 * uniform(&state) - 2);
    struct ld_bucket b = bucket_of(rate, burst);
    int64_t now = 0;
    double taken = 0;
    size_t n = 0;

    for (int i = 0; i < 20000; i++) {
        const double tokens = burst * pow(uniform(&state), 4);
        now += (int64_t)(2 * (double)S * uniform(&state) * burst / rate * (uniform(&state) < 0.05 ? 5 : 0.1));
        const int64_t wait = ld_bucket_take(&b, tokens, now);
        if (wait > 0) { /* and it is there when it was said to be */
            ck_assert_int_eq(ld_bucket_look(&b, tokens, now + wait), 0);
            ck_assert_int_gt(ld_bucket_look(&b, tokens, now + wait - 1), 0);
            continue;
        }
        taken += tokens;
        g[n++] = (struct grant){now, tokens};
    }
    check_windows(g, n, rate, burst);
    ck_assert_double_gt(taken, 0.1 * rate * (double)now / (double)S); /* nor is next to nothing given */
}

START_TEST(no_window_holds_more_than_rate_and_burst)
{
    for (unsigned seed = 1; seed <= 20; seed++)
        check_one(seed);
}
END_TEST

/* --- threads ------------------------------------------------------------------------------------------------ */

enum { N_THREADS = 6, N_TAKES = 20000 };
static struct ld_bucket shared;
static _Atomic int64_t clock_ns;

struct taker {
    unsigned seed;
    size_t n;
    struct grant grant[N_TAKES];
};

/* The moment is read a little before it is used, so that others take at later ones in between. */
static void *take_many(void *arg)
{
    struct taker *taker = arg;

    for (int i = 0; i < N_TAKES; i++) {
        const int64_t now = atomic_fetch_add(&clock_ns, 1 + rand_r(&taker->seed) % 20000);
        const double tokens = 0.1 + 3 * uniform(&taker->seed);
        if (ld_bucket_take(&shared, tokens, now) == 0)
            taker->grant[taker->n++] = (struct grant){now, tokens};
    }
    return NULL;
}

START_TEST(threads_together_take_no_more_than_one_may)
{
    static struct taker taker[N_THREADS];
    static struct grant all[N_THREADS * N_TAKES];
    const double rate = 20000, burst = 25;
    pthread_t thread[N_THREADS];
    size_t n = 0;

    shared = bucket_of(rate, burst);
    atomic_store(&clock_ns, 0);
    for (unsigned i = 0; i < N_THREADS; i++) {
        taker[i] = (struct taker){.seed = i + 1};
        ck_assert_int_eq(pthread_create(&thread[i], NULL, take_many, &taker[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    double taken = 0;
    for (unsigned i = 0; i < N_THREADS; i++)
        for (size_t k = 0; k < taker[i].n; k++) {
            taken += taker[i].grant[k].tokens;
            all[n++] = taker[i].grant[k];
        }
    check_windows(all, n, rate, burst);
    /* They ask for eight times as much as there is: nearly all of it goes. */
    ck_assert_double_gt(taken, 0.8 * rate * (double)atomic_load(&clock_ns) / (double)S);
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "limit", a_full_bucket_gives_its_burst_and_then_its_rate, after_a_rest_the_burst_is_there_again_and_no_more,
        what_costs_more_than_the_burst_passes_when_the_bucket_is_full, a_refusal_takes_nothing_and_a_look_neither,
        without_a_rate_there_is_no_limit, a_burst_that_was_not_told_is_ten_seconds_of_the_rate,
        numbers_at_the_ends_of_their_ranges_do_not_overflow, no_window_holds_more_than_rate_and_burst,
        threads_together_take_no_more_than_one_may);
}
