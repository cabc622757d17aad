/* The dictionary posterior beyond what tests/property/posterior/test_posteriors.c proves of every row: admissions in
 * steps, choosing, large graphs, points inside the span, near-duplicates, missing memory. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "kbt_world.h"
#include "posterior/nystrom.h"
#include "base/rng.h"

#define N_QUERIES 30u
#define MAX_ATOMS 256u

static struct kb_spec nystrom_spec(enum kb_repr_type type, double lambda)
{
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "laplaced-kors", 2, 3), KB_OK);
    spec.repr.type = type;
    spec.repr.lambda = lambda;
    return spec;
}

static void expect_dense(struct kbt_world *w, const struct kb_posterior *p, double tol)
{
    struct kbt_observation query[N_QUERIES], atoms[MAX_ATOMS];
    double mean[N_QUERIES], variance[N_QUERIES];
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(w, 999, q);
    kbt_dense_nystrom(w, atoms, kbt_support(p, atoms), query, N_QUERIES, mean, variance);
    for (size_t q = 0; q < N_QUERIES; q++) {
        double m, sd;
        kbt_predict(p, &w->scratch, w, &query[q], &m, &sd);
        ck_assert_msg(kbt_close(m, mean[q], tol), "mean %.15g, expected %.15g", m, mean[q]);
        ck_assert_msg(kbt_close(sd * sd, variance[q], tol), "variance %.15g, expected %.15g", sd * sd, variance[q]);
    }
}

/* --- admission in steps ------------------------------------------------------------------------------------- */

START_TEST(learning_without_a_dictionary_waits_in_the_history)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    for (uint64_t i = 0; i < 40; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 1, i);
        kbt_world_learn(&w, &o);
    }
    expect_dense(&w, w.posterior, 1e-12); /* the prior */
    for (size_t i = 0; i < 5; i++) {
        kbt_world_admit(&w, &w.seen[7 * i], 0);
        expect_dense(&w, w.posterior, 1e-10);
    }
    kbt_world_close(&w);
}
END_TEST

START_TEST(what_is_learned_between_staging_and_sweeping_is_caught_up)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 30, 1);
    for (uint64_t i = 0; i < 10; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 2, i);
        o.x[0] += 0.1 * (double)i; /* a new point */
        kbt_world_learn(&w, &o);
        struct kb_point pt = kbt_point(&w, &o);
        ck_assert_int_eq(kb_posterior_stage_atom(w.posterior, &pt, &w.scratch), KB_OK);
        for (uint64_t j = 0; j < 5; j++) {
            struct kbt_observation later = kbt_world_draw(&w, 3, 5 * i + j);
            kbt_world_learn(&w, &later);
        }
        ck_assert_int_eq(kbt_grow(w.posterior, &w.scratch), KB_OK);
        kb_posterior_put_atom(w.posterior, &pt, 0.5, &w.scratch);
        kb_posterior_open_atom(w.posterior);
        ck_assert(kb_posterior_sweep(w.posterior, &w.history, w.node_of, &w.scratch));
        kb_posterior_close_atom(w.posterior);
        kb_posterior_commit_atom(w.posterior, &w.scratch);
        expect_dense(&w, w.posterior, 1e-9);
    }
    kbt_world_close(&w);
}
END_TEST

START_TEST(readers_see_nothing_of_an_admission_before_its_commit)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    double before[2], during[2], after[2];
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 30, 1);
    struct kbt_observation o = kbt_world_draw(&w, 2, 1);
    o.x[0] += 0.5;
    kbt_world_learn(&w, &o);
    struct kb_point pt = kbt_point(&w, &o);
    struct kb_atom atom = {.row = kb_history_find(&w.history, o.user, o.arm, o.x), .probability = 1};
    uint64_t digest = kb_posterior_digest(w.posterior, 1);
    kbt_predict(w.posterior, &w.scratch, &w, &o, &before[0], &before[1]);
    ck_assert_int_eq(kb_posterior_stage_atom(w.posterior, &pt, &w.scratch), KB_OK);
    ck_assert_int_eq(kbt_grow(w.posterior, &w.scratch), KB_OK);
    kb_posterior_put_atom(w.posterior, &pt, atom.probability, &w.scratch);
    kb_posterior_open_atom(w.posterior);
    ck_assert(kb_posterior_sweep(w.posterior, &w.history, w.node_of, &w.scratch));
    kb_posterior_close_atom(w.posterior);
    kbt_predict(w.posterior, &w.scratch, &w, &o, &during[0], &during[1]);
    ck_assert_mem_eq(before, during, sizeof before);
    ck_assert_uint_eq(kb_posterior_digest(w.posterior, 1), digest);
    kb_posterior_commit_atom(w.posterior, &w.scratch);
    kbt_predict(w.posterior, &w.scratch, &w, &o, &after[0], &after[1]);
    ck_assert_double_ne(before[0], after[0]);
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_full_dictionary_admits_no_more_and_learns_on)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    spec.repr.max_dictionary = 7;
    spec.repr.gamma = 100;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 100, 1);
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), 7);
    expect_dense(&w, w.posterior, 1e-9);
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_point_of_the_dictionary_is_never_admitted_again)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    spec.repr.gamma = 1e6; /* leverage scores alone would admit everything */
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 60, 1);
    size_t m = kb_posterior_n_support(w.posterior);
    for (size_t i = 0; i < w.n_seen; i++)
        ck_assert(!kbt_world_admit(&w, &w.seen[i], 0));
    ck_assert_uint_eq(kb_posterior_n_support(w.posterior), m);
    ck_assert_uint_eq(m, w.history.n);
    kbt_world_close(&w);
}
END_TEST

/* The log of another machine may name a point that is inside the span here: obeyed, counted, harmless. */
START_TEST(an_atom_inside_the_span_is_lifted_and_counted)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    struct kb_posterior_facts facts;
    double before[N_QUERIES], after[N_QUERIES], sd;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 60, 1);
    struct kb_atom atoms[MAX_ATOMS];
    struct kbt_observation held[MAX_ATOMS];
    size_t m = kbt_support(w.posterior, held);
    for (size_t i = 0; i < m; i++)
        atoms[i] = (struct kb_atom){kb_history_find(&w.history, held[i].user, held[i].arm, held[i].x), 1};
    atoms[m] = atoms[0]; /* twice the same point */
    struct kb_posterior *p = kbt_world_fill(&w, atoms, m + 1);
    for (size_t q = 0; q < N_QUERIES; q++) {
        struct kbt_observation o = kbt_world_draw(&w, 999, q);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &before[q], &sd);
        kbt_predict(p, &w.scratch, &w, &o, &after[q], &sd);
        ck_assert(isfinite(sd) && kbt_close(before[q], after[q], 1e-6));
    }
    ck_assert_int_eq(kb_posterior_facts(p, &facts), KB_OK);
    ck_assert_uint_eq(facts.n_clamped, 1);
    kb_posterior_free(p);
    kbt_world_close(&w);
}
END_TEST

/* --- choosing ------------------------------------------------------------------------------------------------ */

static size_t choose(struct kbt_world *w, uint64_t key, struct kb_atom **atoms)
{
    struct kb_posterior *p = NULL;
    size_t n;
    ck_assert_int_eq(kb_posterior_new(&p, &w->spec, w->graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_fit_scratch(p, &w->scratch, 0), KB_OK);
    ck_assert_int_eq(kb_posterior_choose(p, &w->history, w->node_of, key, &w->scratch, atoms, &n), KB_OK);
    ck_assert_uint_eq(kb_posterior_n_support(p), n);
    kb_posterior_free(p);
    return n;
}

START_TEST(choosing_is_a_function_of_history_spec_and_key)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    struct kb_atom *a, *b;
    size_t n_different = 0;
    spec.repr.gamma = 0.3;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 80, 1);
    for (uint64_t key = 0; key < 10; key++) {
        size_t n = choose(&w, key, &a), m = choose(&w, key, &b);
        ck_assert_uint_eq(n, m);
        for (size_t i = 0; i < n; i++) {
            ck_assert_uint_eq(a[i].row, b[i].row);
            ck_assert_double_eq(a[i].probability, b[i].probability);
            ck_assert(a[i].probability > 0 && a[i].probability <= 1);
            ck_assert(i == 0 || a[i].row > a[i - 1].row);
        }
        kb_free(b);
        m = choose(&w, key + 100, &b);
        n_different += n != m || a[0].row != b[0].row;
        kb_free(a);
        kb_free(b);
    }
    ck_assert_uint_gt(n_different, 0);
    kbt_world_close(&w);
}
END_TEST

/* A row of n observations has n chances: with certainty in the limit. */
START_TEST(often_seen_points_are_chosen_more_often)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    size_t often = 0, once = 0;
    spec.repr.mu = 1.0;
    spec.repr.gamma = 0.05; /* tau <= 1.5 / 2: probability below 4 % per chance */
    spec.repr.mu = 1;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    struct kbt_observation a = kbt_world_draw(&w, 1, 0), b = kbt_world_draw(&w, 1, 1), first = b;
    a.x[0] += 10;     /* far from each other */
    first.x[0] -= 10; /* the first enters for certain */
    kbt_world_learn(&w, &first);
    kbt_world_learn(&w, &b);
    for (size_t i = 0; i < 40; i++)
        kbt_world_learn(&w, &a);
    for (uint64_t key = 0; key < 400; key++) {
        struct kb_atom *atoms;
        size_t n = choose(&w, key, &atoms);
        for (size_t i = 0; i < n; i++) {
            often += atoms[i].row == 2;
            once += atoms[i].row == 1;
        }
        kb_free(atoms);
    }
    double p = 0.05 * 1.5 / 2; /* gamma (1 + eps) k / (k + mu), k = mu = 1 */
    ck_assert_double_eq_tol((double)once / 400, p, 5 * sqrt(p / 400));
    ck_assert_double_eq_tol((double)often / 400, 1 - pow(1 - p, 40), 5 * sqrt(0.2 / 400));
    kbt_world_close(&w);
}
END_TEST

START_TEST(threshold_leaves_no_residual_above_it)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_THRESHOLD, 0.3);
    spec.repr.threshold = 0.2;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 150, 1);
    struct kbt_observation atoms[MAX_ATOMS];
    size_t m = kbt_support(w.posterior, atoms);
    ck_assert_uint_lt(m, w.history.n);
    double *k = kbt_array(m * m), *column = kbt_array(m), *solved = kbt_array(m);
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < m; j++)
            k[i * m + j] = kbt_world_kernel(&w, &atoms[i], &atoms[j]);
    }
    for (size_t s = 0; s < w.n_seen; s++) {
        double prior = kbt_world_kernel(&w, &w.seen[s], &w.seen[s]), residual = prior;
        for (size_t i = 0; i < m; i++)
            column[i] = kbt_world_kernel(&w, &atoms[i], &w.seen[s]);
        kbt_solve(m, k, column, solved);
        for (size_t i = 0; i < m; i++)
            residual -= column[i] * solved[i];
        ck_assert_double_le(residual, 0.2 * prior + 1e-12);
    }
    free(k);
    free(column);
    free(solved);
    kbt_world_close(&w);
}
END_TEST

START_TEST(a_row_that_the_log_cannot_name_is_not_chosen)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    struct kb_atom *atoms;
    size_t n_unnamed = 0;
    spec.repr.gamma = 1e6; /* everything else is */
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 60, 1);
    for (size_t row = 1; row < w.history.n; row += 4) { /* taught by one event with the row before */
        w.history.first_seq[row] = w.history.first_seq[row - 1];
        n_unnamed++;
    }
    size_t n = choose(&w, 3, &atoms);
    ck_assert_uint_eq(n, w.history.n - n_unnamed);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(kb_history_by_seq(&w.history, w.history.first_seq[atoms[i].row]), atoms[i].row);
    kb_free(atoms);
    kbt_world_close(&w);
}
END_TEST

START_TEST(choosing_stops_at_the_largest_dictionary)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    struct kb_atom *atoms;
    spec.repr.max_dictionary = 5;
    spec.repr.gamma = 100;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 60, 1);
    ck_assert_uint_eq(choose(&w, 3, &atoms), 5);
    kb_free(atoms);
    kbt_world_close(&w);
}
END_TEST

/* --- scale --------------------------------------------------------------------------------------------------- */

START_TEST(graphs_too_large_for_a_dense_inverse_give_the_dense_answer_and_equal_snapshots)
{
    for (int i = 0; i < 4; i++) {
        struct kbt_world w;
        struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
        spec.user_kernel.population = i % 2 ? 0.5 : 0;
        spec.user_kernel.is_normalized = i / 2;
        kbt_world_open_large(&w, &spec, 9, 6, 9);
        kbt_world_run(&w, 60, 4);
        expect_dense(&w, w.posterior, 1e-8);
        struct kb_posterior *copy = NULL;
        struct kb_writer out;
        struct kb_reader in;
        kb_writer_init(&out);
        kb_posterior_save(w.posterior, &out);
        kb_reader_init(&in, out.data, out.n);
        ck_assert_int_eq(kb_posterior_new(&copy, &w.spec, w.graph, kbt_key), KB_OK);
        ck_assert_int_eq(kb_posterior_load(copy, &in, &w.scratch), KB_OK);
        ck_assert_uint_eq(kb_posterior_digest(copy, 1), kb_posterior_digest(w.posterior, 1));
        kb_posterior_free(w.posterior);
        w.posterior = copy;
        expect_dense(&w, w.posterior, 1e-8);
        kb_writer_close(&out);
        kbt_world_close(&w);
    }
}
END_TEST

/* Thousands of near-duplicates at a small ridge, where updated inverses lose every digit. */
START_TEST(near_duplicates_do_not_wear_the_factor_out)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_THRESHOLD, 0.01);
    spec.repr.threshold = 1e-4;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    for (uint64_t i = 0; i < 3000; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 1, i % 40);
        o.x[0] += 1e-3 * kb_rng_normal(2, KB_STREAM_SIMULATION, i);
        kbt_world_learn(&w, &o);
        kbt_world_admit(&w, &o, 0.5);
    }
    struct kb_atom atoms[MAX_ATOMS];
    struct kbt_observation held[MAX_ATOMS];
    size_t m = kbt_support(w.posterior, held);
    for (size_t i = 0; i < m; i++)
        atoms[i] = (struct kb_atom){kb_history_find(&w.history, held[i].user, held[i].arm, held[i].x), 1};
    struct kb_posterior *fresh = kbt_world_fill(&w, atoms, m);
    for (size_t q = 0; q < N_QUERIES; q++) {
        double mean[2], sd[2];
        struct kbt_observation o = kbt_world_draw(&w, 1, q);
        kbt_predict(w.posterior, &w.scratch, &w, &o, &mean[0], &sd[0]);
        kbt_predict(fresh, &w.scratch, &w, &o, &mean[1], &sd[1]);
        ck_assert(kbt_close(mean[0], mean[1], 1e-8));
        ck_assert(kbt_close(sd[0], sd[1], 1e-8));
    }
    kb_posterior_free(fresh);
    kbt_world_close(&w);
}
END_TEST

/* --- memory --------------------------------------------------------------------------------------------------- */

static enum kb_err choose_and_fill(void *arg)
{
    struct kbt_world *w = arg;
    struct kb_posterior *p = NULL;
    struct kb_atom *atoms = NULL;
    struct kb_scratch s;
    size_t n;
    enum kb_err rc;
    kb_scratch_init(&s);
    KB_TRY(kb_posterior_new(&p, &w->spec, w->graph, kbt_key));
    KB_TRY(kb_posterior_fit_scratch(p, &s, 0));
    KB_TRY(kb_posterior_choose(p, &w->history, w->node_of, 3, &s, &atoms, &n));
    KB_TRY(kb_posterior_fill(p, &w->history, w->node_of, atoms, n, &s));
    struct kb_posterior_facts facts;
    KB_TRY(kb_posterior_facts(p, &facts));
out:
    kb_free(atoms);
    kb_scratch_close(&s);
    kb_posterior_free(p);
    return rc;
}

static void nothing(void *arg)
{
    (void)arg;
}

START_TEST(building_without_memory_fails_cleanly_at_every_step)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 40, 4);
    ck_assert_uint_gt(kbt_brutal(choose_and_fill, nothing, &w), 12);
    kbt_world_close(&w);
}
END_TEST

START_TEST(staging_an_atom_without_memory_changes_nothing)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    size_t n_failed = 0;
    spec.repr.gamma = 100;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    for (uint64_t i = 0; i < 150; i++) {
        struct kbt_observation o = kbt_world_draw(&w, 5, i);
        o.x[0] += (double)i;
        kbt_world_learn(&w, &o);
        struct kb_point pt = kbt_point(&w, &o);
        uint64_t digest = kb_posterior_digest(w.posterior, 1);
        kbt_alloc_watch(1 + i % 4);
        enum kb_err rc = kb_posterior_stage_atom(w.posterior, &pt, &w.scratch);
        if (rc == KB_OK)
            rc = kbt_grow(w.posterior, &w.scratch);
        kbt_alloc_unwatch();
        ck_assert_uint_eq(kb_posterior_digest(w.posterior, 1), digest);
        kb_posterior_discard(w.posterior);
        n_failed += rc != KB_OK;
        kbt_world_admit(&w, &o, 0);
    }
    ck_assert_uint_gt(n_failed, 0);
    expect_dense(&w, w.posterior, 1e-8);
    kbt_world_close(&w);
}
END_TEST

START_TEST(damaged_snapshots_are_refused)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    struct kb_writer out;
    size_t n_refused = 0, n_tried = 0;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 40, 4);
    kb_writer_init(&out);
    kb_posterior_save(w.posterior, &out);
    for (size_t cut = 0; cut < out.n; cut += out.n / 60 + 1) {
        struct kb_posterior *p = NULL;
        struct kb_reader in;
        ck_assert_int_eq(kb_posterior_new(&p, &spec, w.graph, kbt_key), KB_OK);
        kb_reader_init(&in, out.data, cut);
        ck_assert_int_eq(kb_posterior_load(p, &in, &w.scratch), KB_ECORRUPT);
        kb_posterior_free(p);
    }
    /* all ones in any eight bytes: a count, an index or a NaN that must not be believed */
    for (size_t at = 0; at + 8 <= out.n; at += 8 * (out.n / 8 / 150 + 1), n_tried++) {
        unsigned char kept[8];
        struct kb_posterior *p = NULL;
        struct kb_reader in;
        for (size_t i = 0; i < 8; i++) {
            kept[i] = out.data[at + i];
            out.data[at + i] = 0xff;
        }
        ck_assert_int_eq(kb_posterior_new(&p, &spec, w.graph, kbt_key), KB_OK);
        kb_reader_init(&in, out.data, out.n);
        n_refused += kb_posterior_load(p, &in, &w.scratch) != KB_OK;
        kb_posterior_free(p);
        for (size_t i = 0; i < 8; i++)
            out.data[at + i] = kept[i];
    }
    ck_assert_uint_gt(n_refused, n_tried / 2);
    kb_writer_close(&out);
    kbt_world_close(&w);
}
END_TEST

/* Bytes 16 to 23 hold the first point's node: the graph has seven. */
START_TEST(a_snapshot_that_names_a_node_outside_the_graph_is_refused)
{
    struct kbt_world w;
    struct kb_spec spec = nystrom_spec(KB_REPR_KORS, 0.3);
    struct kb_writer out;
    kbt_world_open(&w, &spec, 9, 6, true, 9);
    kbt_world_run(&w, 40, 4);
    kb_writer_init(&out);
    kb_posterior_save(w.posterior, &out);
    for (unsigned node = 6; node < 9; node++) {
        struct kb_posterior *p = NULL;
        struct kb_reader in;
        for (size_t i = 0; i < 8; i++)
            out.data[16 + i] = i == 0 ? (unsigned char)node : 0;
        ck_assert_int_eq(kb_posterior_new(&p, &spec, w.graph, kbt_key), KB_OK);
        kb_reader_init(&in, out.data, out.n);
        ck_assert_int_eq(kb_posterior_load(p, &in, &w.scratch), node < 7 ? KB_OK : KB_ECORRUPT);
        kb_posterior_free(p);
    }
    kb_writer_close(&out);
    kbt_world_close(&w);
}
END_TEST

START_TEST(sweeps_with_and_without_kept_kernel_values_agree_in_every_bit)
{
    struct kbt_world w[2];
    uint64_t digest[2];
    for (int is_kept = 0; is_kept < 2; is_kept++) {
        struct kb_spec spec = nystrom_spec(KB_REPR_THRESHOLD, 1e-4);
        spec.context_kernel.lengthscale = spec.arm_kernel.lengthscale = 0.3;
        kbt_world_open(&w[is_kept], &spec, 12, 12, true, 9);
        kb_nystrom_of(w[is_kept].posterior)->sweep.is_off = !is_kept;
        kbt_world_run(&w[is_kept], 260, 17);
        ck_assert_uint_gt(kb_posterior_n_support(w[is_kept].posterior), 130);
        ck_assert((kb_nystrom_of(w[is_kept].posterior)->sweep.rows > 130) == is_kept);
        digest[is_kept] = kb_posterior_digest(w[is_kept].posterior, 1);
        kbt_world_close(&w[is_kept]);
    }
    ck_assert_uint_eq(digest[0], digest[1]);
}
END_TEST

int main(void)
{
    return KBT_RUN("post_nystrom", sweeps_with_and_without_kept_kernel_values_agree_in_every_bit,
                   learning_without_a_dictionary_waits_in_the_history,
                   what_is_learned_between_staging_and_sweeping_is_caught_up,
                   readers_see_nothing_of_an_admission_before_its_commit,
                   a_full_dictionary_admits_no_more_and_learns_on, a_point_of_the_dictionary_is_never_admitted_again,
                   an_atom_inside_the_span_is_lifted_and_counted, choosing_is_a_function_of_history_spec_and_key,
                   often_seen_points_are_chosen_more_often, threshold_leaves_no_residual_above_it,
                   choosing_stops_at_the_largest_dictionary, a_row_that_the_log_cannot_name_is_not_chosen,
                   graphs_too_large_for_a_dense_inverse_give_the_dense_answer_and_equal_snapshots,
                   near_duplicates_do_not_wear_the_factor_out, building_without_memory_fails_cleanly_at_every_step,
                   staging_an_atom_without_memory_changes_nothing, damaged_snapshots_are_refused,
                   a_snapshot_that_names_a_node_outside_the_graph_is_refused);
}
