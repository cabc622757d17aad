/* Sorting of indices: order, permutation, and comparisons in the worst case. */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/sort.h"
#include "kbt.h"

struct keys {
    const double *key;
    size_t n_compared;
};

static bool is_less(const void *items, size_t a, size_t b)
{
    struct keys *k = (struct keys *)items;

    k->n_compared++;
    return k->key[a] < k->key[b];
}

/* Sorts a permutation of 0..n-1 and looks at each place of the result; returns the comparisons made. */
static size_t expect_sorted(size_t n, const double *key)
{
    size_t *order = calloc(n + 1, sizeof *order);
    bool *is_seen = calloc(n + 1, sizeof *is_seen);
    struct keys k = {key, 0};

    for (size_t i = 0; i < n; i++)
        order[i] = n - 1 - i;
    order[n] = 77;
    kb_sort(n, order, is_less, &k);
    ck_assert_uint_eq(order[n], 77);
    for (size_t i = 0; i < n; i++) {
        if (order[i] >= n || is_seen[order[i]] || (i > 0 && key[order[i]] < key[order[i - 1]]))
            ck_abort_msg("place %zu of %zu", i, n);
        is_seen[order[i]] = true;
    }
    free(order);
    free(is_seen);
    return k.n_compared;
}

START_TEST(every_small_number_of_items_is_sorted)
{
    double key[40];

    for (size_t n = 0; n <= 40; n++)
        for (uint64_t round = 0; round < 20; round++) {
            for (size_t i = 0; i < n; i++) /* of few values, so that many are equal */
                key[i] = floor((1 + (double)round) * kb_rng_uniform(round, KB_STREAM_SIMULATION, 64 * n + i));
            (void)expect_sorted(n, key);
        }
}
END_TEST

START_TEST(no_order_of_the_input_takes_more_than_n_log_n)
{
    enum { N = 100000 };
    double *key = kbt_array(N);
    const double most = 1.1 * N * log2(N);

    for (int kind = 0; kind < 5; kind++) {
        for (size_t i = 0; i < N; i++)
            key[i] = kind == 0   ? (double)i
                     : kind == 1 ? -(double)i
                     : kind == 2 ? 0
                     : kind == 3 ? (double)(i < N / 2 ? i : N - i)
                                 : kb_rng_uniform(1, KB_STREAM_SIMULATION, i);
        ck_assert_double_lt((double)expect_sorted(N, key), most);
    }
    free(key);
}
END_TEST

int main(void)
{
    return KBT_RUN("sort", every_small_number_of_items_is_sorted, no_order_of_the_input_takes_more_than_n_log_n);
}
