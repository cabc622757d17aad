/* The budget of bodies: never more than its limit, nothing lost, and small bodies never asked. */
#include <pthread.h>
#include <stdlib.h>

#include "http/http_impl.h"
#include "kbt.h"

#define FREE LD_BODY_FREE_BYTES

START_TEST(what_is_small_takes_nothing)
{
    struct ld_body_memory m = {.max = 1};
    size_t taken = 0;

    ck_assert(ld_body_memory_take(&m, &taken, FREE));
    ck_assert_uint_eq(taken, 0);
    ck_assert_uint_eq(atomic_load(&m.used), 0);
}
END_TEST

START_TEST(a_body_that_grows_takes_what_it_is_larger_by)
{
    struct ld_body_memory m = {.max = 1000};
    size_t taken = 0, other = 0;

    ck_assert(ld_body_memory_take(&m, &taken, FREE + 300));
    ck_assert(ld_body_memory_take(&m, &taken, FREE + 200));
    ck_assert_uint_eq(atomic_load(&m.used), 300);
    ck_assert(ld_body_memory_take(&m, &taken, FREE + 600));
    ck_assert(!ld_body_memory_take(&m, &other, FREE + 401));
    ck_assert(!ld_body_memory_has(&m, FREE + 401));
    ck_assert_uint_eq(atomic_load(&m.used), 600);
    ck_assert(ld_body_memory_has(&m, FREE + 400));
    ck_assert(ld_body_memory_take(&m, &other, FREE + 400));
    ld_body_memory_give(&m, &taken);
    ld_body_memory_give(&m, &taken);
    ck_assert_uint_eq(atomic_load(&m.used), 400);
}
END_TEST

START_TEST(without_a_limit_there_is_room_and_it_is_counted)
{
    struct ld_body_memory m = {.max = 0};
    size_t taken = 0, none = 0;

    ck_assert(ld_body_memory_has(&m, (size_t)1 << 60));
    ck_assert(ld_body_memory_take(&m, &taken, (size_t)1 << 50));
    ck_assert_uint_gt(atomic_load(&m.used), 0);
    ck_assert(ld_body_memory_take(NULL, &none, (size_t)1 << 50));
    ck_assert(ld_body_memory_has(NULL, (size_t)1 << 50));
    ld_body_memory_give(NULL, &none);
}
END_TEST

/* --- threads ------------------------------------------------------------------------------------------------ */

enum { N_THREADS = 4, N_ROUNDS = 20000, MAX = 1000 };
static struct ld_body_memory shared = {.max = MAX};
static atomic_size_t held, most_held, n_taken;

static void *grow_bodies(void *arg)
{
    unsigned seed = *(unsigned *)arg;

    for (int i = 0; i < N_ROUNDS; i++) {
        size_t taken = 0, before = 0;
        for (size_t n = 100; n < 700 && ld_body_memory_take(&shared, &taken, FREE + n);
             n += 1 + (size_t)rand_r(&seed) % 300) {
            const size_t now = atomic_fetch_add(&held, taken - before) + taken - before;
            size_t most = atomic_load(&most_held);
            while (now > most && !atomic_compare_exchange_weak(&most_held, &most, now))
                ;
            before = taken;
            atomic_fetch_add(&n_taken, 1);
        }
        atomic_fetch_sub(&held, taken);
        ld_body_memory_give(&shared, &taken);
    }
    return NULL;
}

START_TEST(threads_together_never_have_more_than_there_is)
{
    pthread_t thread[N_THREADS];
    unsigned seed[N_THREADS];

    for (unsigned i = 0; i < N_THREADS; i++) {
        seed[i] = i + 1;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, grow_bodies, &seed[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(thread[i], NULL);
    ck_assert_uint_le(atomic_load(&most_held), MAX);
    ck_assert_uint_gt(atomic_load(&n_taken), N_ROUNDS);
    ck_assert_uint_eq(atomic_load(&shared.used), 0);
}
END_TEST

int main(void)
{
    return KBT_RUN("http_body", what_is_small_takes_nothing, a_body_that_grows_takes_what_it_is_larger_by,
                   without_a_limit_there_is_room_and_it_is_counted, threads_together_never_have_more_than_there_is);
}
