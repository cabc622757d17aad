/* The product kernel and support sets, against values from their definitions (kbt_world_kernel). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ids.h"
#include "kbt_world.h"
#include "kernel/kernel.h"

#define N_USERS 8u
#define N_ARMS 5u
#define N_POINTS 40u

/* A world and a support with N_POINTS of its points, all users anchored. */
struct fixture {
    struct kbt_world w;
    struct kb_kernel *kernel;
    struct kb_support support;
    struct kbt_observation point[N_POINTS];
};

static void open(struct fixture *f, const char *preset, uint32_t context_dim, uint32_t arm_dim)
{
    struct kb_spec spec;
    uint32_t slot;
    ck_assert_int_eq(kb_spec_preset(&spec, preset, context_dim, arm_dim), KB_OK);
    kb_spec_tune(&spec, false); /* the variance of a scaled model is the posterior's, not the kernel's */
    kbt_world_open(&f->w, &spec, N_USERS, N_ARMS, true, 5);
    f->kernel = (struct kb_kernel *)kb_posterior_kernel(f->w.posterior); /* anchors are added under it */
    kb_support_init(&f->support, f->w.dim);
    for (size_t i = 0; i < N_POINTS; i++) {
        f->point[i] = kbt_world_draw(&f->w, 6, i);
        struct kb_point pt = kbt_point(&f->w, &f->point[i]);
        ck_assert_int_eq(kb_user_kernel_add_anchors(f->kernel->user, &pt.user, 1, &slot, f->w.scratch.user), KB_OK);
        ck_assert_int_eq(kb_support_reserve(&f->support, 1), KB_OK);
        kb_support_push(&f->support, &pt, slot);
    }
}

static void close(struct fixture *f)
{
    kb_support_close(&f->support);
    kbt_world_close(&f->w);
}

static const struct {
    const char *preset;
    uint32_t context_dim, arm_dim;
} cases[] = {{"laplaced-kors", 2, 3},    {"laplaced-kors", 0, 0}, {"lk-gp-ucb", 3, 2},
             {"lk-gp-ucb", 0, 3},        {"ek-ucb", 2, 2},        {"lin-ucb", 2, 3},
             {"lin-ucb-per-user", 0, 3}, {"ucb", 2, 3},           {"gp-ucb", 4, 0}};
#define N_CASES (sizeof cases / sizeof cases[0])

START_TEST(columns_equal_the_definition)
{
    for (size_t c = 0; c < N_CASES; c++) {
        struct fixture f;
        double out[N_POINTS];
        open(&f, cases[c].preset, cases[c].context_dim, cases[c].arm_dim);
        for (size_t i = 0; i < N_POINTS; i++) {
            struct kb_point pt = kbt_point(&f.w, &f.point[i]);
            double diag = kb_user_kernel_diag(f.kernel->user, pt.user, f.w.scratch.user);
            kb_kernel_column(f.kernel, &f.support, N_POINTS, &pt, diag, out);
            for (size_t j = 0; j < N_POINTS; j++)
                ck_assert(kbt_close(out[j], kbt_world_kernel(&f.w, &f.point[j], &f.point[i]), 1e-12));
            ck_assert(kbt_close(kb_kernel_diag(f.kernel, &pt, &f.w.scratch),
                                kbt_world_kernel(&f.w, &f.point[i], &f.point[i]), 1e-12));
        }
        close(&f);
    }
}
END_TEST

/* One decision over all arms, asked for in blocks of two and with padding between the columns. */
START_TEST(blocks_equal_columns_to_the_bit)
{
    for (size_t c = 0; c < N_CASES; c++) {
        struct fixture f;
        uint32_t arms[N_ARMS];
        const double *features[N_ARMS];
        double block[2 * (N_POINTS + 3)], diag[2], column[N_POINTS];
        open(&f, cases[c].preset, cases[c].context_dim, cases[c].arm_dim);
        struct kbt_observation o = f.point[7];
        struct kb_point pt = kbt_point(&f.w, &o);
        struct kb_candidates cand = {.user = pt.user, .context = o.x, .n = N_ARMS, .arms = arms, .features = features};
        for (uint32_t a = 0; a < N_ARMS; a++) {
            arms[a] = a;
            features[a] = f.w.arm_features + a * f.w.spec.arm_dim;
        }
        for (size_t c0 = 0; c0 < N_ARMS; c0 += 2) {
            size_t n_c = N_ARMS - c0 < 2 ? N_ARMS - c0 : 2;
            kb_kernel_block(f.kernel, &f.support, &cand, c0, n_c, &f.w.scratch, block, N_POINTS, diag);
            for (size_t i = 0; i < n_c; i++) {
                pt.arm = arms[c0 + i];
                for (size_t d = 0; d < f.w.spec.arm_dim; d++)
                    o.x[f.w.spec.context_dim + d] = features[c0 + i][d];
                double diag_user = kb_user_kernel_diag(f.kernel->user, pt.user, f.w.scratch.user);
                kb_kernel_column(f.kernel, &f.support, N_POINTS, &pt, diag_user, column);
                ck_assert_mem_eq(block + i * N_POINTS, column, sizeof column);
                ck_assert_double_eq(diag[i], kb_kernel_diag(f.kernel, &pt, &f.w.scratch));
            }
        }
        ck_assert_uint_eq(kb_arena_mark(&f.w.scratch.arena), 0);
        close(&f);
    }
}
END_TEST

START_TEST(points_are_the_same_exactly_when_their_columns_are)
{
    for (size_t c = 0; c < N_CASES; c++) {
        struct fixture f;
        size_t n_same = 0;
        open(&f, cases[c].preset, cases[c].context_dim, cases[c].arm_dim);
        for (size_t i = 0; i < N_POINTS; i++) {
            for (size_t j = 0; j < i; j++) {
                struct kb_point a = kbt_point(&f.w, &f.point[i]), b = kbt_point(&f.w, &f.point[j]);
                bool is_equal = true;
                for (size_t l = 0; l < N_POINTS; l++)
                    is_equal &= kbt_close(kbt_world_kernel(&f.w, &f.point[l], &f.point[i]),
                                          kbt_world_kernel(&f.w, &f.point[l], &f.point[j]), 1e-13);
                ck_assert_int_eq(kb_kernel_same(f.kernel, &a, &b), is_equal);
                if (is_equal)
                    ck_assert_uint_eq(kb_kernel_hash(f.kernel, &a), kb_kernel_hash(f.kernel, &b));
                n_same += is_equal;
            }
        }
        if (f.w.spec.context_dim == 0)
            ck_assert_uint_gt(n_same, 0);
        close(&f);
    }
}
END_TEST

START_TEST(arms_are_told_apart_by_features_or_by_identity)
{
    struct fixture f;
    open(&f, "lk-gp-ucb", 0, 2);
    struct kb_point a = kbt_point(&f.w, &f.point[0]), b = a;
    b.arm = a.arm + 100; /* another name for the same features */
    ck_assert(kb_kernel_same(f.kernel, &a, &b));
    ck_assert_uint_eq(kb_kernel_hash(f.kernel, &a), kb_kernel_hash(f.kernel, &b));
    close(&f);

    open(&f, "lk-gp-ucb", 0, 0);
    a = kbt_point(&f.w, &f.point[0]);
    b = a;
    b.arm = a.arm + 100;
    ck_assert(!kb_kernel_same(f.kernel, &a, &b));
    close(&f);
}
END_TEST

START_TEST(an_arm_never_seen_differs_from_every_other)
{
    struct fixture f;
    double out[N_POINTS], diag;
    uint32_t arm = KB_ID_NONE;
    open(&f, "ucb", 0, 0);
    struct kb_candidates cand = {.user = {.index = 0, .node = 0}, .n = 1, .arms = &arm};
    kb_kernel_block(f.kernel, &f.support, &cand, 0, 1, &f.w.scratch, out, N_POINTS, &diag);
    for (size_t i = 0; i < N_POINTS; i++)
        ck_assert_double_eq(out[i], 0);
    ck_assert_double_eq(diag, 1);
    close(&f);
}
END_TEST

START_TEST(a_staged_point_is_evaluated_but_not_counted)
{
    struct fixture f;
    double out[N_POINTS + 1];
    open(&f, "laplaced-kors", 2, 3);
    ck_assert_int_eq(kb_support_reserve(&f.support, 1), KB_OK);
    struct kb_point pt = kbt_point(&f.w, &f.point[3]);
    kb_support_put(&f.support, N_POINTS, &pt, kb_user_kernel_find_anchor(f.kernel->user, pt.user));
    ck_assert_uint_eq(f.support.n, N_POINTS);
    kb_kernel_column(f.kernel, &f.support, N_POINTS + 1, &pt, 1.0, out);
    ck_assert_double_eq(out[N_POINTS], out[3]);
    ck_assert(kbt_close(out[N_POINTS], 1.0, 1e-12));
    close(&f);
}
END_TEST

START_TEST(support_keeps_its_points_while_it_grows)
{
    struct kb_support s;
    double x[3];
    kb_support_init(&s, 3);
    for (uint32_t i = 0; i < 1000; i++) {
        kbt_random_normal(3, i, x);
        struct kb_point pt = {.user = {.index = i, .node = 2 * i}, .arm = 3 * i, .x = x};
        ck_assert_int_eq(kb_support_reserve(&s, 1), KB_OK);
        kb_support_push(&s, &pt, 4 * i);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        struct kb_point pt = kb_support_point(&s, i);
        kbt_random_normal(3, i, x);
        ck_assert_mem_eq(pt.x, x, sizeof x);
        ck_assert_uint_eq(pt.user.index, i);
        ck_assert_uint_eq(pt.user.node, 2 * i);
        ck_assert_uint_eq(pt.arm, 3 * i);
        ck_assert_uint_eq(s.anchor[i], 4 * i);
    }
    kb_support_close(&s);
}
END_TEST

static enum kb_err grow_support(void *arg)
{
    return kb_support_reserve(arg, 100);
}

static void close_support(void *arg)
{
    struct kb_support *s = arg;
    ck_assert(s->cap == 0 || s->cap >= 100);
    kb_support_close(s);
}

START_TEST(support_reports_missing_memory)
{
    struct kb_support s;
    kb_support_init(&s, 2);
    ck_assert_uint_eq(kbt_brutal(grow_support, close_support, &s), 8);
}
END_TEST

int main(void)
{
    return KBT_RUN("kernel", columns_equal_the_definition, blocks_equal_columns_to_the_bit,
                   points_are_the_same_exactly_when_their_columns_are, arms_are_told_apart_by_features_or_by_identity,
                   an_arm_never_seen_differs_from_every_other, a_staged_point_is_evaluated_but_not_counted,
                   support_keeps_its_points_while_it_grows, support_reports_missing_memory);
}
