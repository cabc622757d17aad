/* Arrays that grow beside their readers, and the list of what they replace: until the swap nothing has changed, after
 * it everything has, a failure of any allocation leaves nothing behind, and what is held is not freed. */
#include <string.h>

#include "base/alloc.h"
#include "kbt.h"
#include "base/moves.h"
#include "base/retired.h"

struct pair {
    int *a;
    double *b;
    size_t cap;
};

static enum kb_err grow_pair(struct pair *p, size_t cap, struct kb_moves *m)
{
    enum kb_err rc;
    KB_TRY(kb_moves_add(m, &p->a, p->cap, cap, sizeof *p->a, NULL));
    KB_TRY(kb_moves_add(m, &p->b, p->cap, cap, sizeof *p->b, &p->cap));
out:
    return rc;
}

static struct pair make_pair(size_t n)
{
    struct pair p = {.a = kb_array(n, 1, sizeof *p.a), .b = kb_array(n, 1, sizeof *p.b), .cap = n};
    for (size_t i = 0; i < n; i++) {
        p.a[i] = (int)i;
        p.b[i] = 0.5 * (double)i;
    }
    return p;
}

static void free_pair(struct pair *p)
{
    kb_free(p->a);
    kb_free(p->b);
}

START_TEST(arrays_move_with_the_swap_and_not_before)
{
    struct kb_moves m;
    struct pair p = make_pair(10), before = p;
    kb_moves_init(&m);
    ck_assert_int_eq(grow_pair(&p, 1000, &m), KB_OK);
    ck_assert_mem_eq(&p, &before, sizeof p);
    kb_moves_swap(&m);
    ck_assert_ptr_ne(p.a, before.a);
    ck_assert_ptr_ne(p.b, before.b);
    ck_assert_uint_eq(p.cap, 1000);
    ck_assert_mem_eq(p.a, before.a, 10 * sizeof *p.a); /* the old ones are there until drop */
    ck_assert_mem_eq(p.b, before.b, 10 * sizeof *p.b);
    p.a[999] = 1;
    p.b[999] = 1;
    kb_moves_drop(&m);
    ck_assert_uint_eq(m.n, 0);
    free_pair(&p);
}
END_TEST

START_TEST(dropped_moves_leave_the_arrays)
{
    struct kb_moves m;
    struct pair p = make_pair(10), before = p;
    kb_moves_init(&m);
    ck_assert_int_eq(grow_pair(&p, 20, &m), KB_OK);
    kb_moves_drop(&m);
    ck_assert_mem_eq(&p, &before, sizeof p);
    ck_assert_int_eq(p.a[9], 9);
    free_pair(&p);
}
END_TEST

START_TEST(a_size_may_move_by_itself)
{
    struct kb_moves m;
    size_t size = 3;
    kb_moves_init(&m);
    ck_assert_int_eq(kb_moves_finish(&m, kb_moves_number(&m, &size, 7)), KB_OK);
    ck_assert_uint_eq(size, 7);
    ck_assert_int_eq(kb_moves_number(&m, &size, 9), KB_OK);
    ck_assert_int_eq(kb_moves_finish(&m, KB_ELIMIT), KB_ELIMIT);
    ck_assert_uint_eq(size, 7);
}
END_TEST

static enum kb_err grow_many(void *arg)
{
    struct pair *p = arg;
    struct kb_moves m;
    enum kb_err rc = KB_OK;
    kb_moves_init(&m);
    for (size_t i = 0; i < 20 && rc == KB_OK; i++) /* the list itself grows, too */
        rc = grow_pair(&p[i], 40, &m);
    return kb_moves_finish(&m, rc);
}

/* All arrays have moved, or none. */
static void all_or_none(void *arg)
{
    struct pair *p = arg;
    const size_t cap = p[0].cap;
    for (size_t i = 0; i < 20; i++) {
        ck_assert_uint_eq(p[i].cap, cap);
        if (p[i].cap > 0)
            free_pair(&p[i]);
        p[i] = (struct pair){0};
    }
}

START_TEST(without_memory_nothing_moves)
{
    struct pair p[20] = {{0}};
    ck_assert_uint_ge(kbt_brutal(grow_many, all_or_none, p), 40);
}
END_TEST

/* --- what is replaced -------------------------------------------------------------------------------------- */

static size_t n_freed;

static void count_free(void *ptr)
{
    n_freed++;
    kb_free(ptr);
}

static void add_one(struct kb_retired *r)
{
    ck_assert_int_eq(kb_retired_reserve(r, 1), KB_OK);
    kb_retired_add(r, kb_malloc(8), count_free);
}

START_TEST(a_sweep_frees_what_is_not_held)
{
    struct kb_retired r;
    n_freed = 0;
    kb_retired_init(&r);
    add_one(&r);
    kb_retired_sweep(&r);
    ck_assert_uint_eq(n_freed, 1);
    add_one(&r);
    kb_retired_hold(&r);
    kb_retired_hold(&r);
    add_one(&r);
    kb_retired_sweep(&r);
    kb_retired_release(&r);
    kb_retired_sweep(&r);
    ck_assert_uint_eq(n_freed, 1); /* one hold is left */
    kb_retired_release(&r);
    ck_assert_uint_eq(n_freed, 1); /* a release frees nothing by itself */
    kb_retired_sweep(&r);
    ck_assert_uint_eq(n_freed, 3);
    kb_retired_close(&r);
    ck_assert_uint_eq(n_freed, 3);
}
END_TEST

START_TEST(closing_frees_the_rest_and_nothing_is_no_item)
{
    struct kb_retired r;
    n_freed = 0;
    kb_retired_init(&r);
    kb_retired_add(&r, NULL, count_free); /* no room needed */
    add_one(&r);
    kb_retired_close(&r);
    ck_assert_uint_eq(n_freed, 1);
}
END_TEST

int main(void)
{
    return KBT_RUN("moves", arrays_move_with_the_swap_and_not_before, dropped_moves_leave_the_arrays,
                   a_size_may_move_by_itself, without_memory_nothing_moves, a_sweep_frees_what_is_not_held,
                   closing_frees_the_rest_and_nothing_is_no_item);
}
