/* The engines that benches measure (tests/bench/bench_kors.h): filled as asked, whatever their size. An engine only
 * begins work beyond KB_INLINE_WORK, as it does with points from about the 1,290th on; who drives one without a
 * server's threads finishes it. */
#include "bench_kors.h"
#include "kbt.h"
#include "model/commit.h"
#include "model/engine_background.h"
#include "model/engine_read.h"
#include "model/engine_write.h"

/* The next event of such an engine is the one that its counts tell: benches go on from there. */
static void learn_on(struct kb_engine *e)
{
    struct kb_engine_counts counts;
    double x[BENCH_KORS_DIM];

    kb_engine_counts(e, &counts);
    bench_kors_point(x, 1);
    const struct kb_event ev = {
        .type = KB_EV_OBSERVED, .seq = counts.seq + 1, .as.observed = {.user = "u", .arm = {"a", x}, .reward = 1}};
    ck_assert_int_eq(kb_engine_fold(e, &ev, NULL), KB_OK);
}

START_TEST(a_model_is_filled_to_its_size_and_learns_on)
{
    static const size_t sizes[] = {64, 1400};
    struct kb_engine *e = bench_kors_engine(sizes[_i]);
    struct kb_engine_counts counts;

    kb_engine_counts(e, &counts);
    ck_assert_uint_eq(counts.n_support, sizes[_i]);
    ck_assert_uint_ge(counts.seq,
                      1 + counts.learned + sizes[_i]); /* an event for every point, two where it was begun */
    ck_assert(!kb_engine_is_building(e));
    learn_on(e);
    kb_engine_free(e);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench_kors");
    TCase *each = tcase_create("each size");

    tcase_set_timeout(each, 300); /* under a sanitizer, on a busy machine */
    tcase_add_loop_test(each, a_model_is_filled_to_its_size_and_learns_on, 0, 2);
    suite_add_tcase(suite, each);
    return kbt_run_suite(suite);
}
