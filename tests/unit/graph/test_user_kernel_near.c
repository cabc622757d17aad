/* The user kernel of large graphs with a tolerance (near_column.c, laplacian_push.c) against the dense inverse. */
#include <math.h>

#include "base/ids.h"
#include "kbt.h"
#include "kbt_users.h"
#include "graph/laplacian_push.h"

static void open_near(double population, double tolerance, const struct kb_graph *graph)
{
    const struct kb_user_kernel_spec spec = {
        .type = KB_USER_LAPLACIAN, .rho = KBT_RHO, .population = population, .power = 1.0, .tolerance = tolerance};
    kbt_open_spec(&spec, graph);
}

/* Of an exact column, relative to the variance of a user without friends. */
static double worst_miss(uint32_t slot, uint32_t node, size_t p, double ridge)
{
    const double *want = kbt_large_inverse[p] + node * (KBT_LARGE + p);
    double worst = 0;
    for (uint32_t j = 0; j < KBT_LARGE; j++) {
        double value;
        kb_user_kernel_row_at(kbt_users_kernel, kbt_node_user(j), 1.0, &slot, 1, &value); /* nothing is normalised */
        worst = fmax(worst, fabs(value - want[j]) * ridge);
    }
    return worst;
}

/* Three ways a column comes about: pushes, conjugate gradients where those would go on for too long, and a table that
 * would be larger than the column. The promise holds in all of them, and is not empty: far entries are left out. */
START_TEST(near_columns_keep_the_promised_error)
{
    static const double tolerances[] = {1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8};
    size_t n_left_out = 0;
    for (size_t c = 0; c < 12; c++) {
        const size_t p = c % 2;
        const double ridge = KBT_RHO + kbt_populations[p], tolerance = tolerances[c / 2];
        open_near(kbt_populations[p], tolerance, kbt_large_graph);
        for (uint32_t i = 3; i < KBT_LARGE; i += 151) {
            const double exact = kbt_large_inverse[p][i * (KBT_LARGE + p + 1)];
            const double asked = kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(i), kbt_users_scratch);
            const uint32_t slot = kbt_add_anchor(kbt_node_user(i));
            const double miss = worst_miss(slot, i, p, ridge);
            if (!(miss <= tolerance) || !(fabs(asked - exact) * ridge <= tolerance))
                ck_abort_msg("tolerance %g, column %u misses by %g, diagonal by %g", tolerance, i, miss,
                             fabs(asked - exact) * ridge);
            n_left_out += miss > 1e-10;
        }
        kbt_close_kernel();
    }
    ck_assert_uint_gt(n_left_out, 50);
}
END_TEST

/* Whether it is asked for alone or comes with the column, first or later, one by one or among others. */
START_TEST(near_diagonals_and_columns_have_the_same_bits_in_any_company)
{
    uint32_t slots[20];
    struct kb_user users[20];
    double asked[20], values[20];
    for (size_t c = 0; c < 2; c++) {
        open_near(kbt_populations[c], c == 0 ? 1e-3 : 1e-8, kbt_large_graph);
        for (uint32_t i = 0; i < 20; i++) {
            users[i] = kbt_node_user(i * 120 + 5);
            asked[i] = kb_user_kernel_diag(kbt_users_kernel, users[i], kbt_users_scratch);
            values[i] = kbt_user_value(kbt_node_user(7), kbt_add_anchor(users[i]));
        }
        kbt_close_kernel();
        open_near(kbt_populations[c], c == 0 ? 1e-3 : 1e-8, kbt_large_graph);
        ck_assert_int_eq(kb_user_kernel_add_anchors(kbt_users_kernel, users, 20, slots, kbt_users_scratch), KB_OK);
        for (size_t i = 0; i < 20; i++) {
            ck_assert(kbt_user_value(users[i], slots[i]) == asked[i]);
            ck_assert(kb_user_kernel_diag(kbt_users_kernel, users[i], kbt_users_scratch) == asked[i]);
            ck_assert(kbt_user_value(kbt_node_user(7), slots[i]) == values[i]);
        }
        kbt_close_kernel();
    }
}
END_TEST

/* Memory follows the columns' entries, and a table is never larger than its column. */
START_TEST(near_columns_take_less_memory_and_whole_ones_no_more_than_a_column)
{
    static const double tolerances[] = {1e-2, 1e-8};
    size_t taken[2];
    for (size_t c = 0; c < 2; c++) {
        open_near(0.8, tolerances[c], kbt_large_graph);
        (void)kbt_add_anchor(kbt_node_user(0)); /* the panel's own */
        const size_t before = kb_user_kernel_bytes(kbt_users_kernel);
        for (uint32_t i = 1; i < 16; i++)
            (void)kbt_add_anchor(kbt_node_user(i * 100));
        taken[c] = kb_user_kernel_bytes(kbt_users_kernel) - before;
        kbt_close_kernel();
    }
    ck_assert_uint_gt(taken[0], 0);
    ck_assert_uint_lt(4 * taken[0], taken[1]);
    ck_assert_uint_le(taken[1], 15 * KBT_LARGE * sizeof(double));
}
END_TEST

START_TEST(normalised_near_diagonals_are_one)
{
    const struct kb_user_kernel_spec spec = {.type = KB_USER_LAPLACIAN,
                                             .rho = KBT_RHO,
                                             .population = 0.8,
                                             .is_normalized = true,
                                             .power = 1,
                                             .tolerance = 1e-4};
    kbt_open_spec(&spec, kbt_large_graph);
    for (uint32_t i = 0; i < 10; i++)
        ck_assert(kbt_user_value(kbt_node_user(i * 31), kbt_add_anchor(kbt_node_user(i * 31))) == 1.0);
    kbt_close_kernel();
}
END_TEST

/* One entry is solved for a user whom nobody has asked for, and stays: without a solver the next one who asks would
 * abort. A reset's kernel has it, too. */
START_TEST(who_asks_again_waits_for_no_solve)
{
    const struct kb_user user = kbt_node_user(11);
    struct kb_user_kernel *other = NULL;
    open_near(1, 1e-4, kbt_large_graph);
    const uint32_t slot = kbt_add_anchor(kbt_node_user(12));
    const double diag = kb_user_kernel_diag(kbt_users_kernel, user, kbt_users_scratch);
    const double value = kbt_user_value(user, slot);
    ck_assert(value > 0 && value < diag);
    ck_assert(kb_user_kernel_diag(kbt_users_kernel, user, NULL) == diag);
    ck_assert_int_eq(kb_user_kernel_new_like(&other, kbt_users_kernel), KB_OK);
    ck_assert(kb_user_kernel_diag(other, user, NULL) == diag);
    kb_user_kernel_free(other);
    kbt_close_kernel();
}
END_TEST

/* A stage that is taken back leaves no column behind that a later user of the slot could be read from. */
START_TEST(a_discarded_near_anchor_leaves_its_slot_to_another)
{
    uint32_t first, second;
    open_near(0.8, 1e-4, kbt_large_graph);
    const double want = kbt_user_value(kbt_node_user(9), kbt_add_anchor(kbt_node_user(8)));
    kbt_close_kernel();
    open_near(0.8, 1e-4, kbt_large_graph);
    ck_assert_int_eq(kb_user_kernel_stage_anchor(kbt_users_kernel, kbt_node_user(500), kbt_users_scratch, &first),
                     KB_OK);
    kb_user_kernel_discard_anchors(kbt_users_kernel);
    ck_assert_int_eq(kb_user_kernel_stage_anchor(kbt_users_kernel, kbt_node_user(8), kbt_users_scratch, &second),
                     KB_OK);
    kb_user_kernel_commit_anchor(kbt_users_kernel, second);
    ck_assert_uint_eq(first, second);
    ck_assert(kbt_user_value(kbt_node_user(9), second) == want);
    kbt_close_kernel();
}
END_TEST

/* What the header promises of residuals and error, and that the budget ends what does not decay. */
START_TEST(pushes_stay_below_the_limit_and_give_up_where_nothing_decays)
{
    struct kb_push w;
    const double limit = 1e-3, *want = kbt_large_inverse[0] + 11 * KBT_LARGE;
    double sum = 0, diag = 0;
    ck_assert_int_eq(kb_push_init(&w, KBT_LARGE), KB_OK);
    kb_push_begin(&w, 11);
    ck_assert(kb_push_diagonal(&w, kbt_large_graph, KBT_RHO, limit, &diag));
    ck_assert(want[11] - diag >= -1e-12 && want[11] - diag <= limit / KBT_RHO);
    ck_assert(kb_push_column(&w, kbt_large_graph, KBT_RHO, limit));
    for (size_t i = 0; i < w.n_touched; i++) {
        const struct kb_push_cell *cell = &w.cell[w.touched[i]];
        const double miss = want[w.touched[i]] - cell->x;
        ck_assert(cell->r >= 0 && cell->r <= limit && cell->x >= 0);
        ck_assert(miss > -1e-12 && miss <= limit / KBT_RHO + 1e-12);
        sum += KBT_RHO * cell->x + cell->r;
    }
    ck_assert(kbt_close(sum, 1.0, 1e-12)); /* what is not pushed out stays in the residual */
    kb_push_clear(&w);
    kb_push_begin(&w, 11);
    ck_assert(!kb_push_column(&w, kbt_large_graph, 1e-9, 1e-12));
    kb_push_clear(&w);
    ck_assert_uint_eq(w.n_touched, 0);
    for (size_t i = 0; i < w.n; i++)
        ck_assert(!(w.cell[i].x > 0) && !(w.cell[i].r > 0));
    kb_push_close(&w);
}
END_TEST

static enum kb_err make(void *arg)
{
    const struct kb_user_kernel_spec spec = {
        .type = KB_USER_LAPLACIAN, .rho = KBT_RHO, .population = 0.8, .power = 1.0, .tolerance = 1e-4};
    struct kb_user users[] = {kbt_node_user(1), kbt_node_user(2)};
    struct kb_user_kernel *k = NULL;
    struct kb_user_scratch *s = NULL;
    uint32_t slots[2];
    enum kb_err rc = KB_OK;
    (void)arg;
    KB_TRY(kb_user_kernel_new(&k, &spec, kbt_large_graph, kbt_key));
    KB_TRY(kb_user_scratch_new(&s, k));
    KB_TRY(kb_user_kernel_add_anchors(k, users, 2, slots, s));
out:
    kb_user_scratch_free(s);
    kb_user_kernel_free(k);
    return rc;
}

static void nothing_left(void *arg)
{
    (void)arg;
}

START_TEST(near_columns_without_memory_leave_nothing_behind)
{
    ck_assert_uint_gt(kbt_brutal(make, nothing_left, NULL), 5);
}
END_TEST

/* A few values without the kernel, strangers among them: to ten digits, or as near as is asked. */
START_TEST(a_gram_of_a_few_users_is_the_dense_inverse_by_its_diagonal)
{
    const struct kb_user_kernel_spec spec = {
        .type = KB_USER_LAPLACIAN, .rho = KBT_RHO, .power = 1.0, .is_normalized = true, .tolerance = 1e-2};
    const double tolerance = _i == 0 ? 0 : pow(10, -_i - 1), *inverse = kbt_large_inverse[0];
    struct kb_user users[40];
    double gram[40 * 40];
    ck_assert(kb_user_gram_is_served(&spec, kbt_large_graph) && !kb_user_gram_is_served(&spec, NULL));
    for (uint32_t i = 0; i < 40; i++)
        users[i] = i % 10 == 9 ? (struct kb_user){.index = KBT_LARGE + i, .node = KB_ID_NONE}
                               : kbt_node_user(i * 29 % KBT_LARGE);
    ck_assert_int_eq(kb_user_gram(&spec, kbt_large_graph, users, 40, tolerance, gram), KB_OK);
    for (size_t j = 0; j < 40; j++)
        for (size_t i = 0; i < 40; i++) {
            const bool is_known = i % 10 != 9 && j % 10 != 9;
            const size_t a = users[i].node, b = users[j].node;
            const double want = i == j     ? 1
                                : is_known ? inverse[a * KBT_LARGE + b] /
                                                 sqrt(inverse[a * (KBT_LARGE + 1)] * inverse[b * (KBT_LARGE + 1)])
                                           : 0;
            ck_assert_double_eq_tol(gram[j * 40 + i], want, fmax(tolerance, 1e-9));
        }
}
END_TEST

int main(void)
{
    return KBT_RUN_WITH(
        "user_kernel_near", kbt_users_set_up, kbt_users_tear_down, near_columns_keep_the_promised_error,
        near_diagonals_and_columns_have_the_same_bits_in_any_company,
        near_columns_take_less_memory_and_whole_ones_no_more_than_a_column, who_asks_again_waits_for_no_solve,
        normalised_near_diagonals_are_one, a_discarded_near_anchor_leaves_its_slot_to_another,
        pushes_stay_below_the_limit_and_give_up_where_nothing_decays, near_columns_without_memory_leave_nothing_behind,
        a_gram_of_a_few_users_is_the_dense_inverse_by_its_diagonal);
}
