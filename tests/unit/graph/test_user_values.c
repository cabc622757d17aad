/* Values between any two users against anchors' rows, bit by bit, in every form of the kernel. */
#include <math.h>
#include <string.h>

#include "kbt.h"
#include "kbt_users.h"

#define USERS 12

static struct kb_user user_at(size_t i, uint32_t n_nodes)
{
    return i < USERS - 2 ? kbt_node_user((uint32_t)(i * 37) % n_nodes) : kbt_stranger((uint32_t)i);
}

static bool is_counted_down(void *arg)
{
    int *left = arg;
    return (*left)-- > 0;
}

/* Of another kernel of the same values, so that the one in hand has no new anchor. */
static void values_of(struct kb_user u, const struct kb_user *v, int most, double *out)
{
    struct kb_user_kernel *own;
    ck_assert_int_eq(kb_user_kernel_new_like(&own, kbt_users_kernel), KB_OK);
    ck_assert_int_eq(kb_user_kernel_values(own, u, v, USERS, is_counted_down, &most, out), KB_OK);
    kb_user_kernel_free(own);
}

static void check_values(uint32_t n_nodes)
{
    struct kb_user v[USERS];
    double got[USERS];
    for (size_t i = 0; i < USERS; i++)
        v[i] = user_at(i, n_nodes);
    for (size_t k = 0; k < USERS; k += 5) {
        values_of(v[k], v, USERS, got);
        const uint32_t slot = kbt_add_anchor(v[k]);
        for (size_t i = 0; i < USERS; i++) {
            const double diag = kb_user_kernel_diag(kbt_users_kernel, v[i], kbt_users_scratch);
            ck_assert_msg(i == k ? got[i] == diag : got[i] == kbt_user_value(v[i], slot), "users %zu and %zu: %.17g", k,
                          i, got[i]);
        }
    }
}

START_TEST(values_are_those_of_an_anchor_in_every_form)
{
    for (int c = 0; c < 8; c++) {
        const bool is_large = c & 1, is_normalized = c & 2;
        struct kb_user_kernel_spec spec = {.type = KB_USER_LAPLACIAN,
                                           .rho = KBT_RHO,
                                           .population = c & 4 ? kbt_populations[1] : 0,
                                           .power = 1,
                                           .is_normalized = is_normalized};
        for (int k = 0; k < 2; k++) {
            spec.tolerance = k == 0 ? 0 : 1e-4;
            kbt_open_spec(&spec, is_large ? kbt_large_graph : kbt_small_graph);
            check_values(is_large ? KBT_LARGE : KBT_SMALL);
            kbt_close_kernel();
        }
    }
}
END_TEST

START_TEST(trivial_kernels_have_values_as_well)
{
    static const enum kb_user_kernel_type types[] = {KB_USER_ONES, KB_USER_IDENTITY};
    for (size_t c = 0; c < 2; c++) {
        kbt_open_kernel(types[c], 0, false, kbt_small_graph);
        check_values(KBT_SMALL);
        kbt_close_kernel();
    }
}
END_TEST

START_TEST(what_there_is_no_time_for_is_not_a_number)
{
    struct kb_user v[USERS];
    double all[USERS], some[USERS];
    for (size_t i = 0; i < USERS; i++)
        v[i] = user_at(i, KBT_LARGE);
    kbt_open_kernel(KB_USER_LAPLACIAN, 0, true, kbt_large_graph);
    values_of(v[0], v, 5, some);
    values_of(v[0], v, USERS, all);
    for (size_t i = 0; i < USERS; i++)
        ck_assert(i < 5 ? some[i] == all[i] : isnan(some[i]) && isfinite(all[i]));
    kbt_close_kernel();
}
END_TEST

int main(void)
{
    return KBT_RUN_WITH("user values", kbt_users_set_up, kbt_users_tear_down,
                        values_are_those_of_an_anchor_in_every_form, trivial_kernels_have_values_as_well,
                        what_there_is_no_time_for_is_not_a_number);
}
