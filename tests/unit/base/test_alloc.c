/* Checked arrays: overflow, growth, the replaceable hook. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "kbt.h"

START_TEST(array_is_zeroed_and_writable)
{
    unsigned char *a = kb_array(7, 11, 3);
    ck_assert_ptr_nonnull(a);
    for (size_t i = 0; i < 7 * 11 * 3; i++)
        ck_assert_uint_eq(a[i], 0);
    memset(a, 0xab, 7 * 11 * 3); /* ASan watches the bounds */
    kb_free(a);
}
END_TEST

START_TEST(array_whose_size_wraps_is_refused)
{
    ck_assert_ptr_null(kb_array(SIZE_MAX / 2, 3, 1));
    ck_assert_ptr_null(kb_array(1, SIZE_MAX / 4, 8));
    ck_assert_ptr_null(kb_array((size_t)1 << 32, (size_t)1 << 32, 1)); /* the product is 0 modulo 2^64 */
    ck_assert_ptr_null(kb_malloc(SIZE_MAX));
    ck_assert_ptr_null(kb_regrow(NULL, (size_t)1 << 61, 8));
}
END_TEST

START_TEST(lines_begin_on_a_line_and_are_zeroed)
{
    for (size_t n = 0; n < 100; n++) {
        unsigned char *a = kb_lines(n, 13, 8);
        ck_assert_ptr_nonnull(a);
        ck_assert_uint_eq((uintptr_t)a % 64, 0);
        for (size_t i = 0; i < n * 13 * 8; i++)
            ck_assert_uint_eq(a[i], 0);
        memset(a, 0xab, n * 13 * 8);
        kb_free(a);
    }
    ck_assert_ptr_null(kb_lines(SIZE_MAX / 2, 3, 1));
    ck_assert_ptr_null(kb_lines((size_t)1 << 32, (size_t)1 << 32, 1));
    ck_assert_ptr_null(kb_lines(SIZE_MAX / 2 - 1, 1, 1));
    kbt_alloc_watch(1);
    ck_assert_ptr_null(kb_lines(8, 8, 8)); /* a hook is asked for them, too */
    kbt_alloc_unwatch();
}
END_TEST

START_TEST(empty_array_is_not_null)
{
    void *a = kb_array(0, 5, 8), *b = kb_malloc(0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    kb_free(a);
    kb_free(b);
    kb_free(NULL);
}
END_TEST

START_TEST(regrow_keeps_the_contents_and_the_old_block_on_failure)
{
    int *a = kb_regrow(NULL, 4, sizeof *a);
    for (int i = 0; i < 4; i++)
        a[i] = i * i;
    kbt_alloc_watch(1);
    ck_assert_ptr_null(kb_regrow(a, 1000, sizeof *a));
    kbt_alloc_unwatch();
    ck_assert_int_eq(a[3], 9);
    a = kb_regrow(a, 1000, sizeof *a);
    ck_assert_int_eq(a[3], 9);
    kb_free(a);
}
END_TEST

START_TEST(grow_doubles_and_keeps_what_is_there)
{
    uint64_t *a = NULL;
    size_t cap = 0;
    for (size_t n = 1; n <= 1000; n++) {
        ck_assert_int_eq(kb_grow((void **)&a, &cap, n, 8, sizeof *a), 0);
        ck_assert_uint_ge(cap, n);
        a[n - 1] = n;
    }
    ck_assert_uint_eq(cap, 1024);
    for (size_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(a[i], i + 1);
    kb_free(a);
}
END_TEST

START_TEST(grow_that_fails_changes_nothing)
{
    void *a = NULL;
    size_t cap = 0;
    ck_assert_int_eq(kb_grow(&a, &cap, 10, 4, 8), 0);
    void *before = a;
    size_t cap_before = cap;
    ck_assert_int_eq(kb_grow(&a, &cap, SIZE_MAX / 2, 4, 8), -1);
    kbt_alloc_watch(1);
    ck_assert_int_eq(kb_grow(&a, &cap, 1000, 4, 8), -1);
    kbt_alloc_unwatch();
    ck_assert_ptr_eq(a, before);
    ck_assert_uint_eq(cap, cap_before);
    kb_free(a);
}
END_TEST

START_TEST(hook_sees_every_block)
{
    kbt_alloc_watch(0);
    void *a = kb_malloc(10), *b = kb_array(2, 3, 4);
    ck_assert_int_eq(kbt_alloc_live(), 2);
    a = kb_regrow(a, 100, 1);
    ck_assert_int_eq(kbt_alloc_live(), 2);
    kb_free(a);
    kb_free(b);
    ck_assert_int_eq(kbt_alloc_live(), 0);
    kbt_alloc_unwatch();
}
END_TEST

int main(void)
{
    return KBT_RUN("alloc", array_is_zeroed_and_writable, array_whose_size_wraps_is_refused,
                   lines_begin_on_a_line_and_are_zeroed, empty_array_is_not_null,
                   regrow_keeps_the_contents_and_the_old_block_on_failure, grow_doubles_and_keeps_what_is_there,
                   grow_that_fails_changes_nothing, hook_sees_every_block);
}
