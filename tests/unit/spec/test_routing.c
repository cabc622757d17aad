/* The holdout's hash, and the table of what sticks. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "history/assignments.h"
#include "kbt.h"
#include "spec/routing.h"

/* By tests/http/j00_routing.py: place, which shares no code with ours. */
START_TEST(places_are_the_documented_ones)
{
    static const struct {
        const char *salt, *user;
        double place;
    } known[] = {
        {"", "", 0x1.f28564c56abcep-2},          {"", "u42", 0x1.64f3baca7c250p-2},
        {"autumn", "u42", 0x1.cfd7a053be568p-1}, {"", "user-1", 0x1.7f1e84a2eaf25p-1},
        {"", "user-2", 0x1.aded9df85b564p-3},    {"s", "caf\xc3\xa9", 0x1.df3a2ad265aa1p-1},
        {"ab", "c", 0x1.c03e5ef4982ecp-3},       {"a", "bc", 0x1.429d5cc117fbap-1},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_double_eq(kb_holdout_place(known[i].salt, known[i].user), known[i].place);
}
END_TEST

/* Chi-square over 100 bins, for names that differ in their last digits. 99 degrees of freedom: 164 is one in 50,000. */
START_TEST(places_of_numbered_users_are_even)
{
    for (int salted = 0; salted < 2; salted++) {
        size_t count[100] = {0};
        double chi2 = 0;

        for (size_t i = 0; i < 100000; i++) {
            char user[16];
            snprintf(user, sizeof user, "%zu", i);
            count[(size_t)(100 * kb_holdout_place(salted ? "s" : "", user))]++;
        }
        for (size_t i = 0; i < 100; i++)
            chi2 += pow((double)count[i] - 1000, 2) / 1000;
        ck_assert_double_lt(chi2, 164);
    }
}
END_TEST

START_TEST(names_of_routes_go_both_ways)
{
    for (int i = 0; i < KB_ROUTE_N; i++)
        ck_assert_int_eq(kb_word_value(&kb_route_words, kb_word(&kb_route_words, i)), i);
    ck_assert_ptr_null(kb_word(&kb_route_words, KB_ROUTE_N));
    ck_assert_ptr_null(kb_word(&kb_route_words, -1));
    ck_assert_int_eq(kb_word_value(&kb_route_words, "nobody"), -1);
}
END_TEST

static void put(struct kb_assignments *a, uint32_t user, uint32_t arm, int64_t until_ms)
{
    const struct kb_assignment of = {arm, KB_ROUTE_HOLDOUT, 1.0 / 3, until_ms};

    kb_assignments_put(a, user, &of);
}

START_TEST(the_digest_is_that_of_what_is_there_however_it_came)
{
    struct kb_assignments a, b;

    kb_assignments_init(&a);
    kb_assignments_init(&b);
    ck_assert_ptr_null(kb_assignments_find(&a, 0));
    ck_assert_int_eq(kb_assignments_reserve(&a, 10), KB_OK);
    ck_assert_int_eq(kb_assignments_reserve(&b, 1000), KB_OK);
    put(&a, 3, 1, 7);
    put(&a, 9, 2, 8);
    put(&a, 3, 5, 9);
    put(&b, 9, 2, 8);
    ck_assert_uint_ne(kb_assignments_digest(&a, 1), kb_assignments_digest(&b, 1));
    put(&b, 3, 5, 9);
    ck_assert_uint_eq(kb_assignments_digest(&a, 1), kb_assignments_digest(&b, 1));
    ck_assert_uint_eq(a.n, 2);
    ck_assert_uint_eq(kb_assignments_find(&a, 3)->arm, 5);
    ck_assert_ptr_null(kb_assignments_find(&a, 4));
    ck_assert_ptr_null(kb_assignments_find(&a, UINT32_MAX));
    kb_assignments_close(&a);
    kb_assignments_close(&b);
}
END_TEST

START_TEST(a_snapshot_gives_them_back_and_impossible_ones_are_refused)
{
    struct kb_assignments a, back, copy;
    struct kb_writer w;
    struct kb_reader r;

    kb_assignments_init(&a);
    ck_assert_int_eq(kb_assignments_reserve(&a, 10), KB_OK);
    put(&a, 9, 4, -1);
    put(&a, 0, 0, INT64_MAX);
    ck_assert_int_eq(kb_assignments_copy(&a, &copy), KB_OK);
    put(&a, 5, 4, 1); /* no part of the copy */
    kb_writer_init(&w);
    kb_assignments_save(&copy, &w);
    kb_reader_init(&r, w.data, w.n);
    kb_assignments_init(&back);
    ck_assert_int_eq(kb_assignments_load(&back, 10, 5, &r), KB_OK);
    ck_assert_uint_eq(kb_assignments_digest(&back, 1), kb_assignments_digest(&copy, 1));
    kb_assignments_close(&back);
    const size_t limits[][2] = {{9, 5}, {10, 4}, {1, 5}};
    for (size_t i = 0; i < 3; i++) {
        kb_reader_init(&r, w.data, w.n);
        ck_assert_int_eq(kb_assignments_load(&back, limits[i][0], limits[i][1], &r), KB_ECORRUPT);
        kb_assignments_close(&back);
    }
    for (size_t n = 0; n < w.n; n++) {
        kb_reader_init(&r, w.data, n);
        ck_assert_int_ne(kb_assignments_load(&back, 10, 5, &r), KB_OK);
        kb_assignments_close(&back);
    }
    kb_writer_close(&w);
    kb_assignments_close(&copy);
    kb_assignments_close(&a);
}
END_TEST

int main(void)
{
    return KBT_RUN("routing", places_are_the_documented_ones, places_of_numbered_users_are_even,
                   names_of_routes_go_both_ways, the_digest_is_that_of_what_is_there_however_it_came,
                   a_snapshot_gives_them_back_and_impossible_ones_are_refused);
}
