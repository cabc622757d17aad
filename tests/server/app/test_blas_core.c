/* The choice of OpenBLAS kernels. Running again itself is seen in the server's log: "corrected from". */
#include <check.h>
#include <string.h>

#include "app/blas_core.h"
#include "kbt.h"
#include "linalg/linalg.h"

START_TEST(core_types_are_ranked_by_what_they_need)
{
    ck_assert_int_gt(ld_blas_core_class("SkylakeX"), ld_blas_core_class("Haswell"));
    ck_assert_int_eq(ld_blas_core_class("Cooperlake"), ld_blas_core_class("SkylakeX"));
    ck_assert_int_eq(ld_blas_core_class("Zen"), ld_blas_core_class("Haswell"));
    ck_assert_int_gt(ld_blas_core_class("Haswell"), ld_blas_core_class("Sandybridge"));
    ck_assert_int_gt(ld_blas_core_class("Sandybridge"), ld_blas_core_class("Prescott"));
    ck_assert_int_eq(ld_blas_core_class("a model of next year"), ld_blas_core_class("Prescott"));
}
END_TEST

START_TEST(only_kernels_below_the_processor_are_corrected)
{
    ck_assert(ld_blas_core_is_wrong("Prescott", "SkylakeX", NULL, NULL));
    ck_assert(ld_blas_core_is_wrong("Haswell", "SkylakeX", NULL, NULL));
    ck_assert(ld_blas_core_is_wrong("Nehalem", "Haswell", NULL, NULL));
    ck_assert(!ld_blas_core_is_wrong("Cooperlake", "SkylakeX", NULL, NULL));
    ck_assert(!ld_blas_core_is_wrong("Zen", "Haswell", NULL, NULL));
    ck_assert(!ld_blas_core_is_wrong("Prescott", NULL, NULL, NULL));
}
END_TEST

START_TEST(callers_choice_and_an_earlier_attempt_stand)
{
    ck_assert(!ld_blas_core_is_wrong("Prescott", "SkylakeX", "Prescott", NULL));
    ck_assert(!ld_blas_core_is_wrong("Prescott", "SkylakeX", NULL, "Prescott"));
}
END_TEST

/* What would be put in the environment is a name that this function itself ranks. */
START_TEST(best_core_of_this_machine_is_known)
{
    const char *best = kb_blas_core_best();
    ck_assert(best == NULL || ld_blas_core_class(best) >= 2);
    ck_assert_uint_gt(strlen(kb_blas_core_name()), 0);
}
END_TEST

int main(void)
{
    return KBT_RUN("blas_core", core_types_are_ranked_by_what_they_need, only_kernels_below_the_processor_are_corrected,
                   callers_choice_and_an_earlier_attempt_stand, best_core_of_this_machine_is_known);
}
