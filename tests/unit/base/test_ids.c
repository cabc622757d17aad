/* Interned ids: order of insertion decides, nothing fails after a reservation. */
#include <stdio.h>
#include <string.h>

#include "base/ids.h"
#include "kbt.h"

static struct kb_ids ids;

static void add_numbered(size_t from, size_t to)
{
    char name[32];
    for (size_t i = from; i < to; i++) {
        snprintf(name, sizeof name, "user-%zu", i);
        ck_assert_int_eq(kb_ids_reserve(&ids, 1, strlen(name) + 1), KB_OK);
        ck_assert_uint_eq(kb_ids_add(&ids, name), i);
    }
}

START_TEST(indices_follow_the_order_of_insertion)
{
    char name[32];
    kb_ids_init(&ids, kbt_key);
    add_numbered(0, 5000);
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "user-%u", i);
        ck_assert_uint_eq(kb_ids_find(&ids, name), i);
        ck_assert_str_eq(kb_ids_str(&ids, i), name);
    }
    ck_assert_uint_eq(kb_ids_find(&ids, "user-5000"), KB_ID_NONE);
    kb_ids_close(&ids);
}
END_TEST

START_TEST(adding_again_gives_the_first_index)
{
    kb_ids_init(&ids, kbt_key);
    ck_assert_int_eq(kb_ids_reserve(&ids, 2, 16), KB_OK);
    ck_assert_uint_eq(kb_ids_add(&ids, "a"), 0);
    ck_assert_uint_eq(kb_ids_add(&ids, "b"), 1);
    ck_assert_uint_eq(kb_ids_add(&ids, "a"), 0);
    ck_assert_uint_eq(ids.n, 2);
    kb_ids_close(&ids);
}
END_TEST

START_TEST(nothing_is_found_in_an_empty_table)
{
    kb_ids_init(&ids, kbt_key);
    ck_assert_uint_eq(kb_ids_find(&ids, "a"), KB_ID_NONE);
    ck_assert_uint_eq(kb_ids_find(&ids, ""), KB_ID_NONE);
    kb_ids_close(&ids);
}
END_TEST

START_TEST(prefixes_and_the_empty_id_are_different_ids)
{
    kb_ids_init(&ids, kbt_key);
    ck_assert_int_eq(kb_ids_reserve(&ids, 3, 64), KB_OK);
    ck_assert_uint_eq(kb_ids_add(&ids, "ab"), 0);
    ck_assert_uint_eq(kb_ids_add(&ids, "abc"), 1);
    ck_assert_uint_eq(kb_ids_add(&ids, ""), 2);
    ck_assert_uint_eq(kb_ids_find(&ids, "a"), KB_ID_NONE);
    ck_assert_uint_eq(kb_ids_find(&ids, ""), 2);
    kb_ids_close(&ids);
}
END_TEST

START_TEST(reserved_ids_need_no_more_memory)
{
    char name[32];
    kb_ids_init(&ids, kbt_key);
    ck_assert_int_eq(kb_ids_reserve(&ids, 1000, 1000 * sizeof name), KB_OK);
    kbt_alloc_watch(1);
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "item-%u", i);
        ck_assert_uint_eq(kb_ids_add(&ids, name), i);
    }
    kbt_alloc_unwatch();
    kb_ids_close(&ids);
}
END_TEST

START_TEST(adding_without_a_reservation_is_a_bug)
{
    kb_ids_init(&ids, kbt_key);
    kb_ids_add(&ids, "a"); /* must abort */
}
END_TEST

/* Starts from 100 ids and asks for many more. */
static enum kb_err reserve_many(void *arg)
{
    const struct kb_ids *start = arg;
    enum kb_err rc;
    kb_ids_init(&ids, kbt_key);
    KB_TRY(kb_ids_reserve(&ids, start->n, start->n_bytes));
    for (uint32_t i = 0; i < start->n; i++)
        kb_ids_add(&ids, kb_ids_str(start, i));
    KB_TRY(kb_ids_reserve(&ids, 100000, 1000000));
out:
    return rc;
}

static void old_ids_are_there(void *arg)
{
    const struct kb_ids *start = arg;
    if (ids.n > 0) { /* else the first reservation failed */
        ck_assert_uint_eq(ids.n, start->n);
        ck_assert_uint_eq(kb_ids_find(&ids, "user-42"), 42);
        ck_assert_uint_eq(kb_ids_find(&ids, "user-100"), KB_ID_NONE);
    }
    kb_ids_close(&ids);
}

START_TEST(failed_reservation_changes_nothing)
{
    kb_ids_init(&ids, kbt_key);
    add_numbered(0, 100);
    struct kb_ids start = ids;
    ck_assert_uint_ge(kbt_brutal(reserve_many, old_ids_are_there, &start), 6);
    kb_ids_close(&start);
}
END_TEST

START_TEST(more_ids_than_indices_are_refused)
{
    kb_ids_init(&ids, kbt_key);
    ck_assert_int_eq(kb_ids_reserve(&ids, (size_t)UINT32_MAX, 1), KB_ELIMIT);
    ck_assert_int_eq(kb_ids_reserve(&ids, 1, SIZE_MAX), KB_ENOMEM);
    kb_ids_close(&ids);
}
END_TEST

/* As if they had been added one by one; until the swap nothing is seen of it. */
START_TEST(joining_equals_adding)
{
    static const size_t sizes[][2] = {{0, 1}, {0, 300}, {5, 300}, {300, 5}, {16, 16}, {1000, 3000}};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        struct kb_ids joined, added, fresh;
        struct kb_moves m;
        char id[24];
        kb_ids_init(&joined, kbt_key);
        kb_ids_init(&added, kbt_key);
        kb_ids_init(&fresh, kbt_key);
        kb_moves_init(&m);
        for (size_t i = 0; i < sizes[k][0] + sizes[k][1]; i++) {
            struct kb_ids *part = i < sizes[k][0] ? &joined : &fresh;
            snprintf(id, sizeof id, "id-%zu", i * 7919);
            ck_assert_int_eq(kb_ids_reserve(part, 1, strlen(id) + 1), KB_OK);
            ck_assert_int_eq(kb_ids_reserve(&added, 1, strlen(id) + 1), KB_OK);
            kb_ids_add(part, id);
            kb_ids_add(&added, id);
        }
        ck_assert_int_eq(kb_ids_join(&joined, &fresh, &m), KB_OK);
        ck_assert_uint_eq(joined.n, sizes[k][0]);
        ck_assert_uint_eq(kb_ids_find(&joined, kb_ids_str(&fresh, 0)), KB_ID_NONE);
        ck_assert_int_eq(kb_moves_finish(&m, KB_OK), KB_OK);
        ck_assert_uint_eq(joined.n, added.n);
        ck_assert_uint_eq(joined.n_bytes, added.n_bytes);
        ck_assert_mem_eq(joined.bytes, added.bytes, added.n_bytes);
        for (uint32_t i = 0; i < added.n; i++)
            ck_assert_uint_eq(kb_ids_find(&joined, kb_ids_str(&added, i)), i);
        ck_assert_uint_eq(kb_ids_find(&joined, "another"), KB_ID_NONE);
        ck_assert_int_eq(kb_ids_reserve(&joined, 1, 8), KB_OK);
        ck_assert_uint_eq(kb_ids_add(&joined, "another"), added.n);
        kb_ids_close(&joined);
        kb_ids_close(&added);
        kb_ids_close(&fresh);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("ids", indices_follow_the_order_of_insertion, adding_again_gives_the_first_index,
                   nothing_is_found_in_an_empty_table, prefixes_and_the_empty_id_are_different_ids,
                   reserved_ids_need_no_more_memory, failed_reservation_changes_nothing,
                   more_ids_than_indices_are_refused, joining_equals_adding) |
           KBT_RUN_ABORTING("ids, bugs", adding_without_a_reservation_is_a_bug);
}
