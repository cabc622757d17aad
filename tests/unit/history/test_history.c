/* The history against a plain list of observations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "history/history.h"
#include "kbt.h"
#include "base/rng.h"

#define DIM 3u
#define N 500u

struct seen {
    uint32_t user, arm;
    double x[DIM], reward;
};

/* Few users, arms and coordinates, so that about half of the draws repeat an earlier one. */
static struct seen draw(uint64_t i)
{
    const enum kb_stream stream = KB_STREAM_SIMULATION;
    struct seen s = {.user = (uint32_t)(kb_rng_bits(3, stream, 4 * i) % 7),
                     .arm = (uint32_t)(kb_rng_bits(3, stream, 4 * i + 1) % 5),
                     .reward = kb_rng_normal(3, stream, 4 * i + 2)};
    for (size_t d = 0; d < DIM; d++)
        s.x[d] = (double)(kb_rng_bits(4, stream, DIM * i + d) % 2);
    return s;
}

static void fill(struct kb_history *h, struct seen *list)
{
    kb_history_init(h, DIM, kbt_key);
    for (uint64_t i = 0; i < N; i++) {
        list[i] = draw(i);
        ck_assert_int_eq(kb_history_reserve(h, 1), KB_OK);
        kb_history_add(h, list[i].user, list[i].arm, list[i].x, 1, list[i].reward, 10 + i);
    }
}

static bool same(const struct seen *a, const struct seen *b)
{
    return a->user == b->user && a->arm == b->arm && memcmp(a->x, b->x, sizeof a->x) == 0;
}

START_TEST(rows_hold_counts_and_sums_of_equal_points)
{
    struct kb_history h;
    struct seen list[N];
    fill(&h, list);
    for (size_t i = 0; i < N; i++) {
        double count = 0, sum = 0;
        size_t first = N;
        for (size_t j = 0; j < N; j++) {
            if (!same(&list[i], &list[j]))
                continue;
            count += 1;
            sum += list[j].reward;
            first = first < j ? first : j;
        }
        size_t row = kb_history_find(&h, list[i].user, list[i].arm, list[i].x);
        ck_assert_uint_lt(row, h.n);
        ck_assert_double_eq(h.count[row], count);
        ck_assert(kbt_close(h.sum[row], sum, 1e-14));
        ck_assert_uint_eq(h.first_seq[row], 10 + first);
        ck_assert_mem_eq(h.x + row * DIM, list[i].x, sizeof list[i].x);
    }
    ck_assert_double_eq(h.n_observed, N);
    ck_assert_uint_lt(h.n, N); /* there were repeats */
    kb_history_close(&h);
}
END_TEST

START_TEST(unseen_points_are_not_found)
{
    struct kb_history h;
    struct seen list[N];
    const double elsewhere[DIM] = {0.5, 0, 0};
    kb_history_init(&h, DIM, kbt_key);
    ck_assert_uint_eq(kb_history_find(&h, 0, 0, elsewhere), SIZE_MAX);
    fill(&h, list);
    ck_assert_uint_eq(kb_history_find(&h, 0, 0, elsewhere), SIZE_MAX);
    ck_assert_uint_eq(kb_history_find(&h, 99, 0, list[0].x), SIZE_MAX);
    kb_history_close(&h);
}
END_TEST

START_TEST(negative_zero_is_zero)
{
    struct kb_history h;
    kb_history_init(&h, DIM, kbt_key);
    ck_assert_int_eq(kb_history_reserve(&h, 200), KB_OK);
    for (uint32_t user = 0; user < 100; user++) {
        const double plus[DIM] = {0.0, user, 2}, minus[DIM] = {-0.0, user, 2};
        size_t row = kb_history_add(&h, user, 1, plus, 1, 1, 1);
        ck_assert_uint_eq(kb_history_add(&h, user, 1, minus, 1, 1, 2), row);
    }
    ck_assert_uint_eq(h.n, 100);
    kb_history_close(&h);
}
END_TEST

/* As many as make neighbours in the table meet. */
START_TEST(levels_keep_equal_points_apart)
{
    struct kb_history h;
    const double x[2] = {0.5, -1};
    kb_history_init(&h, 2, kbt_key);
    ck_assert_int_eq(kb_history_reserve(&h, 500), KB_OK);
    for (uint32_t level = 0; level < 500; level++)
        ck_assert_uint_eq(kb_history_add_at(&h, 1, 2, level, x, 1, level, level + 1), level);
    for (uint32_t level = 0; level < 500; level++) {
        ck_assert_uint_eq(kb_history_find_at(&h, 1, 2, level, x), level);
        ck_assert(h.sum[level] == level && h.level[level] == level);
    }
    ck_assert_uint_eq(kb_history_find(&h, 1, 2, x), 0);
    ck_assert_uint_eq(kb_history_add(&h, 1, 2, x, 1, 1, 501), 0);
    ck_assert_uint_eq(kb_history_find_at(&h, 1, 2, 500, x), SIZE_MAX);
    kb_history_close(&h);
}
END_TEST

START_TEST(corrections_change_the_sum_alone)
{
    struct kb_history h;
    kb_history_init(&h, 0, kbt_key);
    ck_assert_int_eq(kb_history_reserve(&h, 1), KB_OK);
    size_t row = kb_history_add(&h, 4, 5, NULL, 1, 2.0, 7);
    ck_assert_uint_eq(kb_history_add(&h, 4, 5, NULL, 0, -0.5, 9), row);
    ck_assert_double_eq(h.count[row], 1);
    ck_assert_double_eq(h.sum[row], 1.5);
    ck_assert_uint_eq(h.first_seq[row], 7);
    ck_assert_double_eq(h.n_observed, 1);
    kb_history_close(&h);
}
END_TEST

START_TEST(rows_are_found_by_the_event_that_first_taught_them)
{
    struct kb_history h;
    struct seen list[N];
    fill(&h, list);
    for (size_t row = 0; row < h.n; row++)
        ck_assert_uint_eq(kb_history_by_seq(&h, h.first_seq[row]), row);
    for (uint64_t seq = 0; seq < 10 + N + 5; seq++) {
        size_t row = kb_history_by_seq(&h, seq);
        if (row != SIZE_MAX)
            ck_assert_uint_eq(h.first_seq[row], seq);
    }
    ck_assert_uint_eq(kb_history_by_seq(&h, 9), SIZE_MAX);
    kb_history_close(&h);
}
END_TEST

START_TEST(snapshot_keeps_rows_digest_and_lookups)
{
    struct kb_history h, copy;
    struct seen list[N];
    struct kb_writer w;
    struct kb_reader r;
    fill(&h, list);
    kb_writer_init(&w);
    kb_history_save(&h, &w);
    kb_reader_init(&r, w.data, w.n);
    kb_history_init(&copy, DIM, kbt_key);
    ck_assert_int_eq(kb_history_load(&copy, &r), KB_OK);
    ck_assert_uint_eq(r.pos, r.n);
    ck_assert_uint_eq(kb_history_digest(&copy, 1), kb_history_digest(&h, 1));
    ck_assert_double_eq(copy.n_observed, h.n_observed);
    for (size_t i = 0; i < N; i++)
        ck_assert_uint_eq(kb_history_find(&copy, list[i].user, list[i].arm, list[i].x),
                          kb_history_find(&h, list[i].user, list[i].arm, list[i].x));
    kb_history_close(&copy);
    kb_writer_close(&w);
    kb_history_close(&h);
}
END_TEST

START_TEST(every_cut_of_a_snapshot_is_refused)
{
    struct kb_history h;
    struct seen list[N];
    struct kb_writer w;
    fill(&h, list);
    kb_writer_init(&w);
    kb_history_save(&h, &w);
    for (size_t n = 0; n < w.n; n += 37) {
        struct kb_history copy;
        struct kb_reader r;
        kb_history_init(&copy, DIM, kbt_key);
        kb_reader_init(&r, w.data, n);
        ck_assert_int_eq(kb_history_load(&copy, &r), KB_ECORRUPT);
        kb_history_close(&copy);
    }
    struct kb_history other;
    struct kb_reader r;
    kb_history_init(&other, DIM + 1, kbt_key); /* a snapshot of another shape */
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_history_load(&other, &r), KB_ECORRUPT);
    kb_history_close(&other);
    kb_writer_close(&w);
    kb_history_close(&h);
}
END_TEST

/* One row, whose k-th field is another one. */
static uint64_t digest_of_row(size_t k)
{
    const double x[DIM] = {0.5, k == 3 ? 0.25 : 0.75};
    struct kb_history h;

    kb_history_init(&h, DIM, kbt_key);
    ck_assert_int_eq(kb_history_reserve(&h, 2), KB_OK);
    kb_history_add_then(&h, k == 0 ? 2 : 1, k == 1 ? 2 : 1, k == 2, x, k == 4 ? 2 : 1, k == 5 ? 0.5 : 1, k == 6 ? 3 : 0,
                        k == 7 ? 8 : 9);
    if (k == 8)
        kb_history_add_then(&h, 1, 1, 0, x, 0, nextafter(1, 2) - 1, 0, 9);
    const uint64_t digest = kb_history_digest(&h, 1);
    kb_history_close(&h);
    return digest;
}

START_TEST(digest_sees_every_field)
{
    for (size_t k = 0; k < 10; k++)
        for (size_t other = k + 1; other < 10; other++)
            ck_assert_uint_ne(digest_of_row(k), digest_of_row(other));
    ck_assert_uint_eq(digest_of_row(9), digest_of_row(10));
}
END_TEST

static enum kb_err grow_under_failures(void *arg)
{
    struct kb_history *h = arg;
    const double x[DIM] = {1, 2, 3};
    enum kb_err rc = kb_history_reserve(h, 1);
    if (rc == KB_OK)
        kb_history_add(h, 1, 1, x, 1, 1, 1);
    return rc == KB_OK ? kb_history_reserve(h, 300) : rc;
}

static void close_after_failures(void *arg)
{
    struct kb_history *h = arg;
    const double x[DIM] = {1, 2, 3};
    if (h->n > 0) /* what was there is still found */
        ck_assert_uint_eq(kb_history_find(h, 1, 1, x), 0);
    kb_history_close(h);
}

START_TEST(failed_reservations_change_nothing)
{
    struct kb_history h;
    kb_history_init(&h, DIM, kbt_key);
    ck_assert_uint_gt(kbt_brutal(grow_under_failures, close_after_failures, &h), 6);
}
END_TEST

int main(void)
{
    return KBT_RUN("history", levels_keep_equal_points_apart, rows_hold_counts_and_sums_of_equal_points,
                   unseen_points_are_not_found, negative_zero_is_zero, corrections_change_the_sum_alone,
                   rows_are_found_by_the_event_that_first_taught_them, snapshot_keeps_rows_digest_and_lookups,
                   every_cut_of_a_snapshot_is_refused, digest_sees_every_field, failed_reservations_change_nothing);
}
