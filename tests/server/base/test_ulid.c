/* Decision ids: form, order, uniqueness. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "base/ulid.h"

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

START_TEST(id_is_26_characters_of_crockfords_alphabet)
{
    char id[LD_ULID_BYTES];
    ld_ulid(1763719200123, id);
    ck_assert_uint_eq(strlen(id), 26);
    ck_assert_uint_eq(strspn(id, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), 26);
}
END_TEST

START_TEST(first_ten_characters_are_the_time)
{
    static const struct {
        int64_t ms;
        const char *head;
    } known[] = {
        {0, "0000000000"},
        {31, "000000000Z"},
        {32, "0000000010"},
        {1469918176385, "01ARYZ6S41"}, /* the example of the ULID specification */
        {281474976710655, "7ZZZZZZZZZ"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char id[LD_ULID_BYTES];
        ld_ulid(known[i].ms, id);
        ck_assert_mem_eq(id, known[i].head, 10);
    }
}
END_TEST

START_TEST(later_ids_sort_behind_earlier_ones)
{
    char before[LD_ULID_BYTES] = "", id[LD_ULID_BYTES];
    for (int64_t ms = 1; ms < ((int64_t)1 << 48); ms = 3 * ms + 1) {
        ld_ulid(ms, id);
        ck_assert_str_lt(before, id);
        strcpy(before, id);
    }
}
END_TEST

START_TEST(ids_of_one_millisecond_differ)
{
    enum { N = 20000 };
    char(*id)[LD_ULID_BYTES] = malloc(N * sizeof *id);
    for (size_t i = 0; i < N; i++)
        ld_ulid(42, id[i]);
    qsort(id, N, sizeof *id, compare);
    for (size_t i = 1; i < N; i++)
        ck_assert_str_ne(id[i - 1], id[i]);
    free(id);
}
END_TEST

/* Each of the 80 random bits is set about half of the time: none is stuck, none is left out. */
START_TEST(every_random_bit_is_used)
{
    enum { N = 2000 };
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    int set[80] = {0};
    for (int k = 0; k < N; k++) {
        char id[LD_ULID_BYTES];
        ld_ulid(7, id);
        for (int i = 0; i < 80; i++)
            set[i] += (int)(strchr(digits, id[10 + i / 5]) - digits) >> (i % 5) & 1;
    }
    for (int i = 0; i < 80; i++) /* within eight standard deviations */
        ck_assert_int_lt(abs(set[i] - N / 2), 180);
}
END_TEST

int main(void)
{
    return KBT_RUN("ulid", id_is_26_characters_of_crockfords_alphabet, first_ten_characters_are_the_time,
                   later_ids_sort_behind_earlier_ones, ids_of_one_millisecond_differ, every_random_bit_is_used);
}
