/* Deviations that know open decisions (open.h), of every preset that may: against dense algebra over what was learned
 * and what is open, with means over what was learned alone. Steps come at random: rewards from elsewhere, decisions,
 * their rewards, decisions that are taken back, points that enter a dictionary, rebuilds. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/rng.h"
#include "history/history.h"
#include "kbt_world.h"
#include "posterior/open.h"
#include "posterior/posterior_impl.h"

#define N_USERS 8u
#define N_ARMS 5u
#define N_STEPS 90u
#define N_QUERIES 24u
#define MOST_OPEN 24u
#define MOST_POINTS 512u

struct run {
    struct kbt_world w;
    struct kbt_observation open[MOST_OPEN];
    size_t n_open;
    uint64_t key, n_drawn;
};

static bool is_of_all_points(const struct kb_spec *spec)
{
    return spec->repr.type == KB_REPR_EXACT || spec->repr.type == KB_REPR_BY_ARM;
}

/* Presets with fixed bounds, in every pair of dimensions. */
static void for_each_row(void (*fn)(const struct kb_spec *spec))
{
    static const uint32_t dims[][2] = {{0, 0}, {2, 3}, {0, 2}, {3, 0}};
    size_t n = 0;
    for (size_t i = 0; kb_preset_name(i) != NULL; i++) {
        for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++) {
            struct kb_spec spec;
            ck_assert_int_eq(kb_spec_preset(&spec, kb_preset_name(i), dims[d][0], dims[d][1]), KB_OK);
            spec.conf.type = KB_CONF_FIXED;
            spec.pending = KB_PENDING_HALLUCINATE;
            spec.repr.lambda = 0.3;
            if (kb_spec_check(&spec, NULL) != KB_OK)
                continue;
            fn(&spec);
            n++;
        }
    }
    ck_assert_uint_gt(n, 80);
}

/* --- steps --------------------------------------------------------------------------------------------------- */

static struct kbt_observation draw(struct run *r)
{
    return kbt_world_draw(&r->w, r->key, r->n_drawn++);
}

static size_t pick(struct run *r, size_t n)
{
    return (size_t)(kb_rng_uniform(r->key, KB_STREAM_SIMULATION, 1000000 + r->n_drawn++) * (double)n);
}

static struct kbt_observation remove_open(struct run *r)
{
    const size_t i = pick(r, r->n_open);
    const struct kbt_observation o = r->open[i];
    r->open[i] = r->open[--r->n_open];
    return o;
}

static void open_one(struct run *r)
{
    struct kb_posterior *p = r->w.posterior;
    const struct kbt_observation o = draw(r);
    const struct kb_point pt = kbt_point(&r->w, &o);
    if (r->n_open == MOST_OPEN)
        return;
    ck_assert_int_eq(kb_posterior_fit_scratch(p, &r->w.scratch, 0), KB_OK);
    ck_assert_int_eq(kb_posterior_stage_open(p, &pt, &r->w.scratch), KB_OK);
    ck_assert_int_eq(kbt_grow(p, &r->w.scratch), KB_OK);
    kb_posterior_open(p, &pt, &r->w.scratch);
    r->open[r->n_open++] = o;
}

static void take_back_one(struct run *r)
{
    const struct kbt_observation o = remove_open(r);
    const struct kb_point pt = kbt_point(&r->w, &o);
    kb_posterior_take_back(r->w.posterior, &pt, &r->w.scratch);
}

/* As kbt_world_learn, of a decision. */
static void answer_one(struct run *r)
{
    struct kbt_world *w = &r->w;
    const struct kbt_observation o = remove_open(r);
    const struct kb_point pt = kbt_point(w, &o);
    ck_assert_int_eq(kb_posterior_fit_scratch(w->posterior, &w->scratch, 0), KB_OK);
    ck_assert_int_eq(kb_posterior_stage_learn(w->posterior, &pt, &w->scratch), KB_OK);
    ck_assert_int_eq(kbt_grow(w->posterior, &w->scratch), KB_OK);
    ck_assert_int_eq(kb_history_reserve(&w->history, 1), KB_OK);
    kb_history_add(&w->history, o.user, o.arm, o.x, 1, o.reward, w->n_seen + 1);
    kb_posterior_learn_open(w->posterior, &pt, 1, o.reward, o.reward * o.reward, &w->scratch);
    if (w->n_seen == w->cap_seen) {
        w->cap_seen = 2 * w->cap_seen + 64;
        w->seen = realloc(w->seen, w->cap_seen * sizeof *w->seen);
    }
    w->seen[w->n_seen++] = o;
}

static size_t points_of(struct run *r, struct kb_point *out)
{
    for (size_t i = 0; i < r->n_open; i++)
        out[i] = kbt_point(&r->w, &r->open[i]);
    return r->n_open;
}

/* Between the beginning and the end of an admission another decision is made. */
static void learn_one(struct run *r)
{
    struct kbt_world *w = &r->w;
    const struct kbt_observation o = draw(r);
    struct kb_point pts[MOST_OPEN];
    kbt_world_learn(w, &o);
    if (!kbt_world_begin(w, &o, kb_rng_uniform(r->key, KB_STREAM_DICTIONARY, r->n_drawn)))
        return;
    open_one(r);
    ck_assert(kb_posterior_sweep(w->posterior, &w->history, w->node_of, &w->scratch));
    kb_posterior_close_atom(w->posterior);
    kb_posterior_sweep_open(w->posterior, pts, points_of(r, pts), &w->scratch);
    kb_posterior_commit_atom(w->posterior, &w->scratch);
}

/* What a reset does. */
static void rebuild(struct run *r)
{
    struct kbt_world *w = &r->w;
    struct kb_point pts[MOST_OPEN];
    if (kb_repr_is_resampled(w->spec.repr.type)) {
        kbt_world_resample(w, r->key + r->n_drawn++);
    } else {
        struct kb_posterior *p = kbt_world_fill(w, NULL, 0);
        kb_posterior_free(w->posterior);
        w->posterior = p;
    }
    bool is_open[MOST_OPEN];
    ck_assert_int_eq(kb_posterior_open_all(w->posterior, pts, points_of(r, pts), is_open, &w->scratch), KB_OK);
}

static void step(struct run *r, size_t i)
{
    const size_t turn = pick(r, 8);
    if (i < 4 || turn < 2)
        learn_one(r);
    else if (turn < 5 || r->n_open == 0)
        open_one(r);
    else if (turn < 7)
        answer_one(r);
    else
        take_back_one(r);
    if (kb_posterior_is_outdated(r->w.posterior))
        rebuild(r);
}

/* --- against dense solves -------------------------------------------------------------------------------------- */

/* Means of what was learned, variances of that and of what is open. */
static void ask_oracle(struct run *r, const struct kbt_observation *query, double *mean, double *variance)
{
    struct kbt_world *w = &r->w;
    struct kbt_observation atoms[MOST_POINTS];
    double nothing[N_QUERIES];
    const size_t n = w->n_seen, m = is_of_all_points(&w->spec) ? 0 : kbt_support(w->posterior, atoms);
    struct kbt_observation *seen = w->seen, *all = malloc((n + MOST_OPEN) * sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = seen[i];
    for (size_t i = 0; i < r->n_open; i++)
        all[n + i] = r->open[i];
    for (int with_open = 0; with_open < 2; with_open++) {
        double *of_mean = with_open ? nothing : mean, *of_variance = with_open ? variance : nothing;
        w->seen = with_open ? all : seen;
        w->n_seen = n + (with_open ? r->n_open : 0);
        if (is_of_all_points(&w->spec))
            kbt_dense_gp(w, query, N_QUERIES, of_mean, of_variance);
        else
            kbt_dense_nystrom(w, atoms, m, query, N_QUERIES, of_mean, of_variance);
    }
    w->seen = seen;
    w->n_seen = n;
    free(all);
}

static void expect_oracle(struct run *r)
{
    struct kbt_world *w = &r->w;
    struct kbt_observation query[N_QUERIES];
    double mean[N_QUERIES], variance[N_QUERIES];
    for (size_t q = 0; q < N_QUERIES; q++)
        query[q] = kbt_world_draw(w, 4242, q);
    ask_oracle(r, query, mean, variance);
    for (size_t q = 0; q < N_QUERIES; q++) {
        double m, sd;
        ck_assert_int_eq(kb_posterior_fit_scratch(w->posterior, &w->scratch, 0), KB_OK);
        kbt_predict(w->posterior, &w->scratch, w, &query[q], &m, &sd);
        ck_assert_msg(kbt_close(m, mean[q], 1e-8), "%s: mean %.17g, expected %.17g", w->spec.algorithm, m, mean[q]);
        ck_assert_msg(kbt_close(sd * sd, variance[q], 1e-8), "%s, %zu open: variance %.17g, expected %.17g",
                      w->spec.algorithm, r->n_open, sd * sd, variance[q]);
    }
}

static void run_against_dense(const struct kb_spec *spec)
{
    struct run r = {.key = 71};
    kbt_world_open(&r.w, spec, N_USERS, N_ARMS, true, 7);
    for (size_t i = 0; i < N_STEPS; i++) {
        step(&r, i);
        if (i % 15 == 14)
            expect_oracle(&r);
    }
    while (r.n_open > 0)
        take_back_one(&r);
    expect_oracle(&r);
    kbt_world_close(&r.w);
}

START_TEST(means_are_of_rewards_and_variances_of_open_decisions_too)
{
    for_each_row(run_against_dense);
}
END_TEST

/* --- the same bits --------------------------------------------------------------------------------------------- */

/* Out and in, then on, is as if nothing had been. */
static void run_through_a_snapshot(const struct kb_spec *spec)
{
    struct run r = {.key = 72};
    struct kb_posterior *back = NULL;
    struct kb_writer out;
    kbt_world_open(&r.w, spec, N_USERS, N_ARMS, true, 8);
    for (size_t i = 0; i < N_STEPS / 2; i++)
        step(&r, i);
    kb_writer_init(&out);
    kb_posterior_save(r.w.posterior, &out);
    struct kb_reader in;
    kb_reader_init(&in, out.data, out.n);
    ck_assert_int_eq(kb_posterior_new(&back, spec, r.w.graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_load(back, &in, &r.w.scratch), KB_OK);
    ck_assert_uint_eq(in.pos, in.n);
    ck_assert_uint_eq(kb_posterior_n_open(back), r.n_open);
    struct run other = r;
    for (int k = 0; k < 2; k++) {
        struct run *x = k == 0 ? &r : &other;
        struct kb_posterior *p = r.w.posterior;
        if (k == 1)
            x->w.posterior = back;
        open_one(x);
        take_back_one(x);
        back = k == 1 ? x->w.posterior : back;
        r.w.posterior = p;
    }
    ck_assert_uint_eq(kb_posterior_digest(r.w.posterior, KB_HASH_INIT), kb_posterior_digest(back, KB_HASH_INIT));
    kb_posterior_free(back);
    kb_writer_close(&out);
    r.w.scratch = other.w.scratch;
    kbt_world_close(&r.w);
}

START_TEST(a_snapshot_has_the_bits_of_open_decisions)
{
    for_each_row(run_through_a_snapshot);
}
END_TEST

/* --- what is taken back ------------------------------------------------------------------------------------------ */

/* Points that were shown and never rewarded do not pile up: the posterior asks to be built anew. */
START_TEST(a_posterior_full_of_what_was_taken_back_is_outdated)
{
    struct run r = {.key = 73};
    struct kb_spec spec;
    ck_assert_int_eq(kb_spec_preset(&spec, "k-ucb", 2, 0), KB_OK);
    spec.pending = KB_PENDING_HALLUCINATE;
    kbt_world_open(&r.w, &spec, N_USERS, N_ARMS, true, 9);
    for (size_t i = 0; i < 400 && !kb_posterior_is_outdated(r.w.posterior); i++) {
        struct kb_posterior *p = r.w.posterior;
        struct kbt_observation o = draw(&r);
        o.x[0] = (double)i;
        const struct kb_point pt = kbt_point(&r.w, &o);
        ck_assert_int_eq(kb_posterior_fit_scratch(p, &r.w.scratch, 0), KB_OK);
        ck_assert_int_eq(kb_posterior_stage_open(p, &pt, &r.w.scratch), KB_OK);
        ck_assert_int_eq(kbt_grow(p, &r.w.scratch), KB_OK);
        kb_posterior_open(p, &pt, &r.w.scratch);
        kb_posterior_take_back(p, &pt, &r.w.scratch);
    }
    ck_assert(kb_posterior_is_outdated(r.w.posterior));
    expect_oracle(&r);
    rebuild(&r);
    ck_assert(!kb_posterior_is_outdated(r.w.posterior));
    kbt_world_close(&r.w);
}
END_TEST

int main(void)
{
    return KBT_RUN("open", means_are_of_rewards_and_variances_of_open_decisions_too,
                   a_snapshot_has_the_bits_of_open_decisions, a_posterior_full_of_what_was_taken_back_is_outdated);
}
