/* numpy's legacy stream against values recorded from numpy (numpy_rng.py writes numpy_rng_values.h). */
#include "kbt.h"
#include "paper/numpy_rng.h"
#include "numpy_rng_values.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define N_SEEDS COUNT(seeds)

static const uint32_t *const words[N_SEEDS] = {words_0, words_1, words_2, words_3};
static const double *const mixed[N_SEEDS] = {mixed_0, mixed_1, mixed_2, mixed_3};

/* The block of 624 words is renewed at 624: both sides of it are among the recorded ones. */
START_TEST(words_are_numpys)
{
    static const size_t at[] = {0, 1, 623, 624, 1999};
    for (size_t s = 0; s < N_SEEDS; s++) {
        struct pb_numpy_rng r;
        pb_numpy_seed(&r, seeds[s]);
        for (size_t i = 0, k = 0; k < COUNT(at); i++) {
            uint32_t word = pb_numpy_bits(&r);
            if (i == at[k])
                ck_assert_uint_eq(word, words[s][k++]);
        }
    }
}
END_TEST

/* Uniforms are equal bit for bit; the logarithm in the normals may differ by a last digit from one machine to another.
 */
START_TEST(uniforms_normals_and_integers_in_turn_are_numpys)
{
    enum { ROUNDS = 300, RECORDED = 3 };
    for (size_t s = 0; s < N_SEEDS; s++) {
        struct pb_numpy_rng r;
        pb_numpy_seed(&r, seeds[s]);
        for (size_t i = 0; i < ROUNDS; i++) {
            double got[5] = {pb_numpy_uniform(&r, -1, 3)};
            got[1] = pb_numpy_normal(&r, 0.5, 0.1);
            got[2] = pb_numpy_below(&r, 10);
            got[3] = pb_numpy_normal(&r, 0, 1);
            got[4] = pb_numpy_double(&r);
            const double *want = i < ROUNDS - RECORDED ? NULL : mixed[s] + 5 * (i - (ROUNDS - RECORDED));
            for (size_t k = 0; want != NULL && k < 5; k++) {
                bool is_normal = k == 1 || k == 3;
                ck_assert(is_normal ? kbt_close(got[k], want[k], 1e-14) : got[k] == want[k]);
            }
        }
    }
}
END_TEST

START_TEST(choices_with_and_without_replacement_are_numpys)
{
    static const uint32_t range[] = {10, 1, 2, 3, 8, 9, 100, 1000003};
    struct pb_numpy_rng r;
    uint32_t order[100];
    pb_numpy_seed(&r, 123);
    pb_numpy_permutation(&r, 100, order);
    for (size_t i = 0; i < COUNT(chosen); i++)
        ck_assert_uint_eq(order[i], chosen[i]);
    for (size_t i = 0; i < COUNT(range); i++)
        ck_assert_uint_eq(pb_numpy_below(&r, range[i]), below[i]);
}
END_TEST

START_TEST(a_permutation_holds_every_index_once)
{
    struct pb_numpy_rng r;
    uint32_t order[257];
    bool seen[257] = {false};
    pb_numpy_seed(&r, 7);
    pb_numpy_permutation(&r, 257, order);
    for (size_t i = 0; i < 257; i++) {
        ck_assert(order[i] < 257 && !seen[order[i]]);
        seen[order[i]] = true;
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("numpy_rng", words_are_numpys, uniforms_normals_and_integers_in_turn_are_numpys,
                   choices_with_and_without_replacement_are_numpys, a_permutation_holds_every_index_once);
}
