/* Scratch memory: alignment, sizing by formula, mark and reset. */
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "kbt.h"

START_TEST(pieces_are_aligned_and_do_not_overlap)
{
    struct kb_arena a;
    kb_arena_init(&a);
    ck_assert_int_eq(kb_arena_fit(&a, 100 * kb_arena_need(13)), KB_OK);
    double *last = NULL;
    for (size_t i = 0; i < 100; i++) {
        double *piece = kb_arena_doubles(&a, 13);
        ck_assert_uint_eq((uintptr_t)piece % 64, 0);
        if (last != NULL)
            ck_assert(piece >= last + 13);
        memset(piece, 0xff, 13 * sizeof *piece); /* ASan watches the bounds */
        last = piece;
    }
    kb_arena_close(&a);
}
END_TEST

START_TEST(needs_add_up_over_pieces_of_any_size)
{
    struct kb_arena a;
    size_t sizes[] = {0, 1, 7, 8, 9, 63, 64, 65, 1000}, need = 0;
    kb_arena_init(&a);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        need += kb_arena_need(sizes[i]);
    ck_assert_int_eq(kb_arena_fit(&a, need), KB_OK);
    for (size_t i = sizeof sizes / sizeof *sizes; i-- > 0;) /* in another order than summed */
        memset(kb_arena_doubles(&a, sizes[i]), 1, sizes[i] * sizeof(double));
    ck_assert_uint_le(kb_arena_mark(&a), need);
    kb_arena_close(&a);
}
END_TEST

START_TEST(reset_gives_the_same_memory_again)
{
    struct kb_arena a;
    kb_arena_init(&a);
    ck_assert_int_eq(kb_arena_fit(&a, 4096), KB_OK);
    kb_arena_doubles(&a, 10);
    size_t mark = kb_arena_mark(&a);
    double *first = kb_arena_doubles(&a, 20);
    kb_arena_bytes(&a, 100);
    kb_arena_reset(&a, mark);
    ck_assert_ptr_eq(kb_arena_doubles(&a, 20), first);
    kb_arena_close(&a);
}
END_TEST

START_TEST(fitting_again_allocates_only_when_it_must)
{
    struct kb_arena a;
    kb_arena_init(&a);
    ck_assert_int_eq(kb_arena_fit(&a, 1000), KB_OK);
    kbt_alloc_watch(1);
    ck_assert_int_eq(kb_arena_fit(&a, 1000), KB_OK);
    ck_assert_int_eq(kb_arena_fit(&a, 10), KB_OK);
    ck_assert_int_eq(kb_arena_fit(&a, 100000), KB_ENOMEM);
    kbt_alloc_unwatch();
    memset(kb_arena_bytes(&a, 1000), 1, 1000); /* the old block is still there */
    kb_arena_close(&a);
}
END_TEST

START_TEST(overrunning_is_a_bug)
{
    struct kb_arena a;
    kb_arena_init(&a);
    ck_assert_int_eq(kb_arena_fit(&a, 640), KB_OK);
    kb_arena_doubles(&a, 80);
    kb_arena_doubles(&a, 1); /* must abort */
}
END_TEST

int main(void)
{
    return KBT_RUN("arena", pieces_are_aligned_and_do_not_overlap, needs_add_up_over_pieces_of_any_size,
                   reset_gives_the_same_memory_again, fitting_again_allocates_only_when_it_must) |
           KBT_RUN_ABORTING("arena, bugs", overrunning_is_a_bug);
}
