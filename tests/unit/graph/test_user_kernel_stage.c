/* Anchors of the user kernel: staging, blocks, rollback, memory, and a writer beside readers. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "graph/user_anchors.h"
#include "kbt.h"
#include "kbt_users.h"

/* Values by stage, one column at a time, against add in one block: bit for bit. */
START_TEST(blocks_of_anchors_equal_single_ones)
{
    enum { ANCHORS = 37 }; /* two full blocks, a part of one, and a stranger in between */
    struct kb_user users[ANCHORS];
    uint32_t slots[ANCHORS], slot;
    double row[ANCHORS], *block_rows = kbt_array(50 * ANCHORS);
    for (uint32_t i = 0; i < ANCHORS; i++)
        users[i] = i == 20 ? kbt_stranger(1) : kbt_node_user(i * 61);
    for (size_t c = 0; c < 4; c++) {
        kbt_open_kernel(KB_USER_LAPLACIAN, kbt_populations[c % 2], c >= 2, kbt_large_graph);
        ck_assert_int_eq(kb_user_kernel_add_anchors(kbt_users_kernel, users, ANCHORS, slots, kbt_users_scratch), KB_OK);
        for (uint32_t j = 0; j < 50; j++) {
            double diag = kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(j * 49), kbt_users_scratch);
            kb_user_kernel_row_at(kbt_users_kernel, kbt_node_user(j * 49), diag, slots, ANCHORS,
                                  block_rows + j * ANCHORS);
        }
        kbt_close_kernel();
        kbt_open_kernel(KB_USER_LAPLACIAN, kbt_populations[c % 2], c >= 2, kbt_large_graph);
        for (uint32_t i = 0; i < ANCHORS; i++) {
            ck_assert_int_eq(kb_user_kernel_stage_anchor(kbt_users_kernel, users[i], kbt_users_scratch, &slot), KB_OK);
            ck_assert_uint_eq(slot, slots[i]);
        }
        kb_user_kernel_commit_anchor(kbt_users_kernel, slot);
        for (uint32_t j = 0; j < 50; j++) {
            double diag = kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(j * 49), kbt_users_scratch);
            kb_user_kernel_row_at(kbt_users_kernel, kbt_node_user(j * 49), diag, slots, ANCHORS, row);
            ck_assert_mem_eq(row, block_rows + j * ANCHORS, sizeof row);
        }
        kbt_close_kernel();
    }
    free(block_rows);
}
END_TEST

START_TEST(staged_anchors_can_be_committed_or_forgotten)
{
    const struct kb_graph *graphs[] = {kbt_small_graph, kbt_large_graph};
    for (size_t f = 0; f < 2; f++) {
        uint32_t slots[40], again;
        kbt_open_kernel(KB_USER_LAPLACIAN, 0.8, false, graphs[f]);
        for (uint32_t i = 0; i < 40; i++) {
            ck_assert_int_eq(
                kb_user_kernel_stage_anchor(kbt_users_kernel, kbt_node_user(i), kbt_users_scratch, &slots[i]), KB_OK);
            ck_assert_uint_eq(slots[i], i);
            ck_assert_uint_eq(kb_user_kernel_find_anchor(kbt_users_kernel, kbt_node_user(i)), i);
        }
        ck_assert_int_eq(kb_user_kernel_stage_anchor(kbt_users_kernel, kbt_node_user(7), kbt_users_scratch, &again),
                         KB_OK);
        ck_assert_uint_eq(again, 7);
        double kept = kbt_user_value(kbt_node_user(3), 9);
        kb_user_kernel_commit_anchor(kbt_users_kernel, 9);
        kb_user_kernel_commit_anchor(kbt_users_kernel, 4); /* already in force */
        kb_user_kernel_discard_anchors(kbt_users_kernel);
        for (uint32_t i = 0; i < 40; i++)
            ck_assert_uint_eq(kb_user_kernel_find_anchor(kbt_users_kernel, kbt_node_user(i)), i <= 9 ? i : KB_ID_NONE);
        ck_assert_uint_eq(kbt_add_anchor(kbt_node_user(30)), 10); /* the place of one that was forgotten */
        ck_assert(kbt_user_value(kbt_node_user(3), 9) == kept);
        ck_assert(kbt_user_value(kbt_node_user(30), 10) ==
                  kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(30), kbt_users_scratch));
        kbt_close_kernel();
    }
}
END_TEST

START_TEST(repeated_users_share_a_slot_within_one_add)
{
    const struct kb_user users[] = {kbt_node_user(4), kbt_stranger(1), kbt_node_user(4), kbt_stranger(1),
                                    kbt_node_user(5)};
    uint32_t slots[5];
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.8, false, kbt_large_graph);
    ck_assert_int_eq(kb_user_kernel_add_anchors(kbt_users_kernel, users, 5, slots, kbt_users_scratch), KB_OK);
    ck_assert(slots[0] == 0 && slots[1] == 1 && slots[2] == 0 && slots[3] == 1 && slots[4] == 2);
    ck_assert_int_eq(kb_user_kernel_add_anchors(kbt_users_kernel, users, 0, slots, kbt_users_scratch), KB_OK);
    kbt_close_kernel();
}
END_TEST

START_TEST(anchors_beyond_the_table_are_refused)
{
    uint32_t slot;
    enum kb_err rc = KB_OK;
    size_t n = 0;
    kbt_open_kernel(KB_USER_IDENTITY, 0.0, false, NULL);
    for (uint32_t i = 0; rc == KB_OK && i < 100000; i++) {
        rc = kb_user_kernel_stage_anchor(kbt_users_kernel, kbt_stranger(i), kbt_users_scratch, &slot);
        n += rc == KB_OK;
    }
    ck_assert_int_eq(rc, KB_ELIMIT);
    ck_assert_uint_ge(n, 2 * 16384); /* twice the largest exact posterior */
    ck_assert_uint_eq(kb_user_kernel_find_anchor(kbt_users_kernel, kbt_stranger(12345)), 12345);
    kbt_close_kernel();
}
END_TEST

START_TEST(bytes_grow_with_what_is_held)
{
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_small_graph);
    ck_assert_uint_ge(kb_user_kernel_bytes(kbt_users_kernel), KBT_SMALL * KBT_SMALL * sizeof(double));
    kbt_close_kernel();
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.0, false, kbt_large_graph);
    size_t before = kb_user_kernel_bytes(kbt_users_kernel);
    kbt_add_anchor(kbt_node_user(1));
    ck_assert_uint_ge(kb_user_kernel_bytes(kbt_users_kernel), before + KBT_LARGE * KB_CG_PANEL * sizeof(double));
    kbt_close_kernel();
}
END_TEST

/* --- memory ---------------------------------------------------------------------------------------- */

static enum kb_err life(void *arg)
{
    struct kb_user_kernel_spec spec = {
        .type = KB_USER_LAPLACIAN, .rho = KBT_RHO, .population = 0.8, .is_normalized = true, .power = 1.0};
    struct kb_user users[20];
    uint32_t slots[20], slot;
    enum kb_err rc;
    for (uint32_t i = 0; i < 20; i++)
        users[i] = i % 5 == 4 ? kbt_stranger(i) : kbt_node_user(i);
    KB_TRY(kb_user_kernel_new(&kbt_users_kernel, &spec, arg, kbt_key));
    KB_TRY(kb_user_scratch_new(&kbt_users_scratch, kbt_users_kernel));
    KB_TRY(kb_user_kernel_add_anchors(kbt_users_kernel, users, 20, slots, kbt_users_scratch));
    KB_TRY(kb_user_kernel_stage_anchor(kbt_users_kernel, kbt_node_user(30), kbt_users_scratch, &slot));
out:
    return rc;
}

/* What has been staged or added in vain has left no trace: the number of anchors is 0, 20 or 21. */
static void no_half_anchors(void *arg)
{
    (void)arg;
    if (kbt_users_kernel != NULL && kbt_users_scratch != NULL) {
        bool has_first = kb_user_kernel_find_anchor(kbt_users_kernel, kbt_node_user(0)) != KB_ID_NONE;
        for (uint32_t i = 0; i < 20; i++)
            ck_assert(has_first ==
                      (kb_user_kernel_find_anchor(kbt_users_kernel, i % 5 == 4 ? kbt_stranger(i) : kbt_node_user(i)) !=
                       KB_ID_NONE));
        if (has_first)
            ck_assert(kbt_user_value(kbt_node_user(0), 0) == 1.0);
    }
    kbt_close_kernel();
    kbt_users_kernel = NULL;
    kbt_users_scratch = NULL;
}

START_TEST(no_memory_leaves_nothing_behind)
{
    ck_assert_uint_ge(kbt_brutal(life, no_half_anchors, kbt_small_graph), 6);
    ck_assert_uint_ge(kbt_brutal(life, no_half_anchors, kbt_large_graph), 10);
}
END_TEST

/* --- threads --------------------------------------------------------------------------------------- */

static struct {
    double want[5];
    bool is_wrong[2];
} shared;

/* Reads rows of the committed anchors and diagonals of nodes nobody has asked for. */
static void *read_along(void *arg)
{
    size_t me = *(const size_t *)arg;
    struct kb_user_scratch *own = NULL;
    const uint32_t slots[5] = {0, 1, 2, 3, 4};
    double row[5];
    shared.is_wrong[me] = kb_user_scratch_new(&own, kbt_users_kernel) != KB_OK;
    for (uint32_t round = 0; round < 200 && !shared.is_wrong[me]; round++) {
        double diag = kb_user_kernel_diag(kbt_users_kernel, kbt_node_user(1000 + round / 2),
                                          own); /* both readers ask for the same */
        kb_user_kernel_row_at(kbt_users_kernel, kbt_node_user(77), diag, slots, 5, row);
        shared.is_wrong[me] = memcmp(row, shared.want, sizeof row) != 0 || !(diag > 0.0);
    }
    kb_user_scratch_free(own);
    return NULL;
}

/* Meant for the thread sanitizer; without it the values are still compared. */
START_TEST(readers_run_beside_a_staging_writer)
{
    const uint32_t slots[5] = {0, 1, 2, 3, 4};
    const size_t ids[2] = {0, 1};
    pthread_t reader[2];
    uint32_t slot;
    kbt_open_kernel(KB_USER_LAPLACIAN, 0.8, false, kbt_large_graph);
    for (uint32_t i = 0; i < 5; i++)
        kbt_add_anchor(kbt_node_user(i * 100));
    kb_user_kernel_row_at(kbt_users_kernel, kbt_node_user(77), 1.0, slots, 5, shared.want);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&reader[i], NULL, read_along, (void *)(uintptr_t)&ids[i]), 0);
    for (uint32_t i = 0; i < 60; i++) {
        ck_assert_int_eq(
            kb_user_kernel_stage_anchor(kbt_users_kernel, kbt_node_user(200 + i), kbt_users_scratch, &slot), KB_OK);
        ck_assert_uint_gt(kb_user_kernel_bytes(kbt_users_kernel), 0);
        if (i == 30)
            kb_user_kernel_discard_anchors(kbt_users_kernel);
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(reader[i], NULL);
    ck_assert(!shared.is_wrong[0] && !shared.is_wrong[1]);
    kbt_close_kernel();
}
END_TEST

int main(void)
{
    return KBT_RUN_WITH("user_kernel_stage", kbt_users_set_up, kbt_users_tear_down, blocks_of_anchors_equal_single_ones,
                        staged_anchors_can_be_committed_or_forgotten, repeated_users_share_a_slot_within_one_add,
                        anchors_beyond_the_table_are_refused, bytes_grow_with_what_is_held,
                        no_memory_leaves_nothing_behind, readers_run_beside_a_staging_writer);
}
