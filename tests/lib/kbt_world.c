/* Worlds for tests of posteriors (kbt_world.h): users on a graph, arms with features, contexts from a pool.
 *
 * The oracles go back to definitions; the users' Gram matrix is in kbt_user_gram.c. Nothing of core/ is called but the
 * keyed random numbers. */
#include "kbt_world.h"
#include "posterior/influence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ids.h"
#include "base/rng.h"
#include "posterior/learning.h"

#define N_CONTEXTS 5u
#define N_STRANGERS 2u

/* Leaves one edge per pair: the graph merges equal repeats, and the oracle must not count them twice. */
static void drop_repeats(struct kbt_world *w)
{
    size_t n = 0;
    for (size_t e = 0; e < w->n_edges; e++) {
        struct kb_edge a = w->edges[e];
        size_t i = 0;
        while (i < n &&
               !((w->edges[i].u == a.u && w->edges[i].v == a.v) || (w->edges[i].u == a.v && w->edges[i].v == a.u)))
            i++;
        if (i == n)
            w->edges[n++] = a;
    }
    w->n_edges = n;
}

/* --- life -------------------------------------------------------------------------------------------------- */

static void open_padded(struct kbt_world *w, const struct kb_spec *spec, size_t n_users, size_t n_arms, bool has_edges,
                        size_t n_padding, uint64_t key)
{
    *w = (struct kbt_world){.spec = *spec, .n_users = n_users, .n_arms = n_arms, .n_padding = n_padding};
    w->dim = (size_t)spec->context_dim + spec->arm_dim;
    ck_assert_uint_le(w->dim, KBT_MAX_DIM);
    w->n_nodes = n_users - N_STRANGERS;
    w->node_of = malloc(n_users * sizeof *w->node_of);
    for (size_t u = 0; u < n_users; u++) /* nodes in another order than users */
        w->node_of[u] = u < w->n_nodes ? (uint32_t)(w->n_nodes - 1 - u) : KB_ID_NONE;
    if (has_edges)
        w->n_edges = kbt_random_edges(w->n_nodes, n_users, true, key, &w->edges);
    drop_repeats(w);
    ck_assert_int_eq(kb_graph_new(&w->graph, w->n_nodes + n_padding, w->edges, w->n_edges, NULL), KB_OK);
    w->arm_features = kbt_array(n_arms * spec->arm_dim + 1);
    kbt_random_normal(n_arms * spec->arm_dim, key + 1, w->arm_features);
    w->user_gram = kbt_array(n_users * n_users);
    kbt_world_fill_user_gram(w);
    kb_history_init(&w->history, w->dim, kbt_key);
    kb_scratch_init(&w->scratch);
    w->spec.user_kernel.tolerance = 0; /* the oracle's kernel is exact */
    ck_assert_int_eq(kb_posterior_new(&w->posterior, &w->spec, w->graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_fit_scratch(w->posterior, &w->scratch, 0), KB_OK);
}

void kbt_world_open(struct kbt_world *w, const struct kb_spec *spec, size_t n_users, size_t n_arms, bool has_edges,
                    uint64_t key)
{
    open_padded(w, spec, n_users, n_arms, has_edges, 0, key);
}

void kbt_world_open_large(struct kbt_world *w, const struct kb_spec *spec, size_t n_users, size_t n_arms, uint64_t key)
{
    open_padded(w, spec, n_users, n_arms, true, KB_GRAPH_DENSE_MAX + 1, key);
}

void kbt_world_close(struct kbt_world *w)
{
    kb_posterior_free(w->posterior);
    kb_scratch_close(&w->scratch);
    kb_history_close(&w->history);
    kb_graph_free(w->graph);
    free(w->edges);
    free(w->node_of);
    free(w->arm_features);
    free(w->user_gram);
    free(w->seen);
}

/* --- observations -------------------------------------------------------------------------------------------- */

struct kbt_observation kbt_world_draw(const struct kbt_world *w, uint64_t key, uint64_t i)
{
    const enum kb_stream stream = KB_STREAM_SIMULATION;
    struct kbt_observation o = {
        .user = (uint32_t)(kb_rng_uniform(key, stream, 8 * i) * (double)w->n_users),
        .arm = (uint32_t)(kb_rng_uniform(key, stream, 8 * i + 1) * (double)w->n_arms),
    };
    size_t context = (size_t)(kb_rng_uniform(key, stream, 8 * i + 2) * N_CONTEXTS);
    for (size_t d = 0; d < w->spec.context_dim; d++)
        o.x[d] = kb_rng_normal(77, stream, 100 + context * KBT_MAX_DIM + d);
    for (size_t d = 0; d < w->spec.arm_dim; d++)
        o.x[w->spec.context_dim + d] = w->arm_features[o.arm * w->spec.arm_dim + d];
    o.reward = sin(o.user + 2.0 * o.arm) + o.x[0] + 0.1 * kb_rng_normal(key, stream, 8 * i + 4);
    return o;
}

/* All that a world learns is of one level, which to a kernel with levels is the only one there is. */
static uint32_t level_of(const struct kbt_world *w)
{
    return kb_rule_reads_levels(w->spec.rule.type) ? 1 : 0;
}

struct kb_point kbt_point(const struct kbt_world *w, const struct kbt_observation *o)
{
    return (struct kb_point){
        .user = {.index = o->user, .node = w->node_of[o->user]}, .arm = o->arm, .x = o->x, .level = level_of(w)};
}

enum kb_err kbt_grow(struct kb_posterior *p, struct kb_scratch *s)
{
    struct kb_moves m;
    kb_moves_init(&m);
    return kb_moves_finish(&m, kb_posterior_grow(p, s, &m));
}

bool kbt_needs_growth(struct kb_posterior *p, struct kb_scratch *s)
{
    struct kb_moves m;
    kb_moves_init(&m);
    ck_assert_int_eq(kb_posterior_grow(p, s, &m), KB_OK);
    bool needs = m.n > 0;
    kb_moves_drop(&m);
    return needs;
}

static void teach(struct kbt_world *w, const struct kbt_observation *o, double d_count, double d_sum, double d_square)
{
    struct kb_point pt = kbt_point(w, o);
    uint64_t seq = w->n_seen + 1;
    ck_assert_int_eq(kb_posterior_stage_learn(w->posterior, &pt, &w->scratch), KB_OK);
    ck_assert_int_eq(kb_history_reserve(&w->history, 1), KB_OK);
    ck_assert_int_eq(kbt_grow(w->posterior, &w->scratch), KB_OK);
    kb_history_add_at(&w->history, o->user, o->arm, pt.level, o->x, d_count, d_sum, seq);
    kb_posterior_learn(w->posterior, &pt, d_count, d_sum, d_square, &w->scratch);
}

void kbt_world_learn(struct kbt_world *w, const struct kbt_observation *o)
{
    teach(w, o, 1, o->reward, o->reward * o->reward);
    if (w->n_seen == w->cap_seen) {
        w->cap_seen = 2 * w->cap_seen + 64;
        w->seen = realloc(w->seen, w->cap_seen * sizeof *w->seen);
    }
    w->seen[w->n_seen++] = *o;
}

void kbt_world_correct(struct kbt_world *w, const struct kbt_observation *o, double d_sum)
{
    teach(w, o, 0, d_sum, 0);
}

bool kbt_world_begin(struct kbt_world *w, const struct kbt_observation *o, double uniform)
{
    struct kb_point pt = kbt_point(w, o);
    double probability;
    if (!kb_posterior_admits(w->posterior, &pt, uniform, &w->scratch, &probability))
        return false;
    ck_assert_int_eq(kb_posterior_stage_atom(w->posterior, &pt, &w->scratch), KB_OK);
    ck_assert_int_eq(kbt_grow(w->posterior, &w->scratch), KB_OK);
    kb_posterior_put_atom(w->posterior, &pt, probability, &w->scratch);
    kb_posterior_open_atom(w->posterior);
    return true;
}

void kbt_world_end(struct kbt_world *w, const struct kb_history *rows)
{
    ck_assert(kb_posterior_sweep(w->posterior, rows, w->node_of, &w->scratch));
    kb_posterior_close_atom(w->posterior);
    kb_posterior_commit_atom(w->posterior, &w->scratch);
}

bool kbt_world_admit(struct kbt_world *w, const struct kbt_observation *o, double uniform)
{
    if (!kbt_world_begin(w, o, uniform))
        return false;
    kbt_world_end(w, &w->history);
    return true;
}

void kbt_world_run(struct kbt_world *w, size_t n_events, uint64_t key)
{
    for (uint64_t i = 0; i < n_events; i++) {
        struct kbt_observation o = kbt_world_draw(w, key, i);
        kbt_world_learn(w, &o);
        kbt_world_admit(w, &o, kb_rng_uniform(key, KB_STREAM_DICTIONARY, i));
        if (kb_posterior_is_outdated(w->posterior))
            kbt_world_resample(w, kb_rng_bits(key, KB_STREAM_DICTIONARY, i));
    }
}

void kbt_world_resample(struct kbt_world *w, uint64_t key)
{
    struct kb_posterior *p = NULL;
    struct kb_atom *atoms;
    struct kb_evidence evidence;
    size_t n;
    ck_assert_int_eq(kb_posterior_evidence(w->posterior, &w->scratch, &evidence), KB_OK);
    ck_assert_int_eq(kb_posterior_new_like(&p, &w->spec, w->posterior), KB_OK);
    ck_assert_int_eq(kb_posterior_resample(p, w->posterior, &w->history, w->node_of, key, &w->scratch, &atoms, &n),
                     KB_OK);
    kb_posterior_set_evidence(p, &evidence);
    ck_assert_int_eq(kb_posterior_fill(p, &w->history, w->node_of, atoms, n, &w->scratch), KB_OK);
    kb_free(atoms);
    kb_posterior_free(w->posterior);
    w->posterior = p;
}

void kbt_world_take_dictionary(struct kbt_world *w, const struct kbt_observation *points, size_t n)
{
    struct kb_atom *atoms = calloc(n + 1, sizeof *atoms);
    for (size_t i = 0; i < n; i++) {
        size_t row = kb_history_find(&w->history, points[i].user, points[i].arm, points[i].x);
        ck_assert_uint_ne(row, SIZE_MAX);
        atoms[i] = (struct kb_atom){.row = row, .probability = 1};
    }
    kb_posterior_free(w->posterior);
    w->posterior = kbt_world_fill(w, atoms, n);
    free(atoms);
}

struct kb_posterior *kbt_world_fill(struct kbt_world *w, const struct kb_atom *atoms, size_t n)
{
    struct kb_posterior *p = NULL;
    ck_assert_int_eq(kb_posterior_new(&p, &w->spec, w->graph, kbt_key), KB_OK);
    ck_assert_int_eq(kb_posterior_fill(p, &w->history, w->node_of, atoms, n, &w->scratch), KB_OK);
    return p;
}

void kbt_predict(const struct kb_posterior *p, struct kb_scratch *s, const struct kbt_world *w,
                 const struct kbt_observation *o, double *mean, double *sd)
{
    const double *features = o->x + w->spec.context_dim;
    struct kb_candidates cand = {.level = level_of(w),
                                 .user = {.index = o->user, .node = w->node_of[o->user]},
                                 .context = o->x,
                                 .n = 1,
                                 .arms = &o->arm,
                                 .features = &features};
    ck_assert_int_eq(kb_posterior_fit_scratch(p, s, 0), KB_OK);
    kb_posterior_predict(p, &cand, s, mean, sd);
}

double kbt_terms(struct kbt_world *w, const struct kbt_observation *o, double *term)
{
    const struct kb_posterior *p = w->posterior;
    const double *features = o->x + w->spec.context_dim;
    const struct kb_candidates cand = {.level = level_of(w),
                                       .user = {.index = o->user, .node = w->node_of[o->user]},
                                       .context = o->x,
                                       .n = 1,
                                       .arms = &o->arm,
                                       .features = &features};
    struct kb_influence in = {.weight = kbt_array(kb_posterior_n_support(p) + 1)};
    ck_assert_int_eq(kb_posterior_fit_scratch(p, &w->scratch, 0), KB_OK);
    kb_posterior_influence(p, &cand, &w->scratch, &in);
    memset(term, 0, w->n_users * sizeof *term);
    for (size_t row = 0; row < w->history.n; row++) {
        const struct kb_point pt = kb_history_point(&w->history, w->node_of, row);
        term[pt.user.index] += kb_posterior_row_influence(p, &in, &pt, &w->scratch) *
                               (kb_history_sum(&w->history, row) - in.prior * kb_history_count(&w->history, row));
    }
    free(in.weight);
    return in.prior;
}

size_t kbt_support(const struct kb_posterior *p, struct kbt_observation *out)
{
    size_t dim = kb_posterior_kernel(p)->context_dim + kb_posterior_kernel(p)->arm_dim;
    for (size_t i = 0; i < kb_posterior_n_support(p); i++) {
        struct kb_point pt = kb_posterior_support_point(p, i);
        out[i] = (struct kbt_observation){.user = pt.user.index, .arm = pt.arm, .part = pt.part};
        memcpy(out[i].x, pt.x, dim * sizeof *pt.x);
    }
    return kb_posterior_n_support(p);
}

/* --- oracles ------------------------------------------------------------------------------------------------- */

static double vec_kernel(const struct kb_vec_kernel_spec *k, size_t dim, const double *x, const double *y)
{
    double dot = 0, square = 0;
    for (size_t d = 0; d < dim; d++) {
        dot += x[d] * y[d];
        square += (x[d] - y[d]) * (x[d] - y[d]);
    }
    double r = sqrt(square) / k->lengthscale;
    switch (k->type) {
    case KB_VEC_RBF:
        return exp(-r * r / 2);
    case KB_VEC_MATERN12:
        return exp(-r);
    case KB_VEC_MATERN32:
        return (1 + sqrt(3) * r) * exp(-sqrt(3) * r);
    case KB_VEC_MATERN52:
        return (1 + sqrt(5) * r + 5 * r * r / 3) * exp(-sqrt(5) * r);
    case KB_VEC_LINEAR:
        return dot;
    case KB_VEC_POLYNOMIAL:
        return pow(dot + k->offset, k->degree);
    case KB_VEC_DELTA:
        return square == 0;
    case KB_VEC_ONES:
    case KB_VEC_N:
        break;
    }
    return 1;
}

/* by_arm, of one arm: a component that cannot tell points apart is left out. */
static double sum_of_components(const struct kbt_world *w, double users, const double *x, const double *y)
{
    static const struct kb_vec_kernel_spec linear = {.type = KB_VEC_LINEAR, .lengthscale = 1};
    const struct kb_prior_spec *prior = &w->spec.prior;
    size_t c = w->spec.context_dim;
    double value = prior->arm + (w->spec.user_kernel.type != KB_USER_ONES ? prior->user * users : 0);
    if (w->spec.context_kernel.type == KB_VEC_ONES)
        return value;
    return value + prior->context * vec_kernel(&w->spec.context_kernel, c, x, y) +
           prior->linear * vec_kernel(&linear, c, x, y) / (double)c;
}

/* by_component: the same with features of arms, of one component or of all. */
static double shared_components(const struct kbt_world *w, double users, const struct kbt_observation *a,
                                const struct kbt_observation *b)
{
    static const struct kb_vec_kernel_spec linear = {.type = KB_VEC_LINEAR, .lengthscale = 1};
    const struct kb_prior_spec *prior = &w->spec.prior;
    const size_t c = w->spec.context_dim;
    const bool by_name = w->spec.arm_kernel.type == KB_VEC_DELTA, same = a->arm == b->arm;
    const double arms = by_name ? same : vec_kernel(&w->spec.arm_kernel, w->spec.arm_dim, a->x + c, b->x + c);
    const bool has_contexts = w->spec.context_kernel.type != KB_VEC_ONES;
    const uint32_t part = a->part != KB_PART_ALL ? a->part : b->part;
    double value[KB_N_PARTS] = {0};
    if (a->part != KB_PART_ALL && b->part != KB_PART_ALL && a->part != b->part)
        return 0;
    value[KB_PART_ARM] = prior->arm * same;
    value[KB_PART_FEATURE] = by_name ? 0 : prior->feature * arms;
    value[KB_PART_USER] = w->spec.user_kernel.type == KB_USER_ONES ? 0 : prior->user * users * arms;
    value[KB_PART_CONTEXT] =
        has_contexts ? prior->context * vec_kernel(&w->spec.context_kernel, c, a->x, b->x) * arms : 0;
    value[KB_PART_LINEAR] = has_contexts ? prior->linear * vec_kernel(&linear, c, a->x, b->x) / (double)c * arms : 0;
    for (size_t i = 1; i < KB_N_PARTS; i++)
        value[KB_PART_ALL] += value[i];
    return value[part];
}

/* ucb and ts as they are: exact, and tuned. No other row of the table has both. */
static bool has_scaled_points(const struct kbt_world *w)
{
    return w->spec.repr.type == KB_REPR_EXACT && w->spec.is_tuned;
}

double kbt_world_kernel(const struct kbt_world *w, const struct kbt_observation *a, const struct kbt_observation *b)
{
    size_t c = w->spec.context_dim;
    double value = w->user_gram[a->user * w->n_users + b->user];
    if (w->spec.repr.type == KB_REPR_BY_ARM)
        return a->arm == b->arm ? sum_of_components(w, value, a->x, b->x) : 0;
    if (w->spec.repr.type == KB_REPR_BY_COMPONENT)
        return shared_components(w, value, a, b);
    value *= vec_kernel(&w->spec.context_kernel, c, a->x, b->x);
    if (has_scaled_points(w))
        value *= w->spec.prior.arm;
    if (w->spec.arm_kernel.type == KB_VEC_DELTA)
        return a->arm == b->arm ? value : 0;
    return value * vec_kernel(&w->spec.arm_kernel, w->spec.arm_dim, a->x + c, b->x + c);
}

static double prior_mean_of(const struct kbt_world *w)
{
    const bool is_sum = w->spec.repr.type == KB_REPR_BY_ARM || w->spec.repr.type == KB_REPR_BY_COMPONENT;
    return is_sum || has_scaled_points(w) ? w->spec.prior.mean : 0;
}

/* K_t + ridge I, malloc'ed. */
static double *gram(const struct kbt_world *w, double ridge)
{
    size_t t = w->n_seen;
    double *k = kbt_array(t * t + 1);
    for (size_t i = 0; i < t; i++) {
        for (size_t j = 0; j < t; j++)
            k[i * t + j] = kbt_world_kernel(w, &w->seen[i], &w->seen[j]) + (i == j ? ridge : 0);
    }
    return k;
}

void kbt_dense_gp(const struct kbt_world *w, const struct kbt_observation *query, size_t n, double *mean,
                  double *variance)
{
    size_t t = w->n_seen;
    const double prior_mean = prior_mean_of(w);
    double *k = gram(w, w->spec.repr.lambda), *column = kbt_array(t + 1), *solved = kbt_array(t + 1);
    for (size_t q = 0; q < n; q++) {
        for (size_t i = 0; i < t; i++)
            column[i] = kbt_world_kernel(w, &w->seen[i], &query[q]);
        kbt_solve(t, k, column, solved);
        mean[q] = prior_mean;
        variance[q] = kbt_world_kernel(w, &query[q], &query[q]);
        for (size_t i = 0; i < t; i++) {
            mean[q] += solved[i] * (w->seen[i].reward - prior_mean);
            variance[q] -= solved[i] * column[i];
        }
    }
    free(k);
    free(column);
    free(solved);
}

/* K_ZZ, Phi = K_Zt K_tZ + lambda K_ZZ (m x m) and K_Zt y, from scratch. */
static void nystrom_matrices(const struct kbt_world *w, const struct kbt_observation *z, size_t m, double *k_zz,
                             double *phi, double *target)
{
    size_t t = w->n_seen;
    double *k_zt = kbt_array(m * t + 1);
    for (size_t i = 0; i < m; i++) {
        target[i] = 0;
        for (size_t j = 0; j < t; j++) {
            k_zt[i * t + j] = kbt_world_kernel(w, &z[i], &w->seen[j]);
            target[i] += k_zt[i * t + j] * (w->seen[j].reward - prior_mean_of(w));
        }
    }
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < m; j++) {
            k_zz[i * m + j] = kbt_world_kernel(w, &z[i], &z[j]);
            phi[i * m + j] = w->spec.repr.lambda * k_zz[i * m + j];
            for (size_t s = 0; s < t; s++)
                phi[i * m + j] += k_zt[i * t + s] * k_zt[j * t + s];
        }
    }
    free(k_zt);
}

void kbt_dense_nystrom(const struct kbt_world *w, const struct kbt_observation *atoms, size_t m,
                       const struct kbt_observation *query, size_t n, double *mean, double *variance)
{
    double *k_zz = kbt_array(m * m + 1), *phi = kbt_array(m * m + 1), *target = kbt_array(m + 1);
    double *column = kbt_array(m + 1), *by_gram = kbt_array(m + 1), *by_phi = kbt_array(m + 1);
    nystrom_matrices(w, atoms, m, k_zz, phi, target);
    for (size_t q = 0; q < n; q++) {
        for (size_t i = 0; i < m; i++)
            column[i] = kbt_world_kernel(w, &atoms[i], &query[q]);
        kbt_solve(m, k_zz, column, by_gram);
        kbt_solve(m, phi, column, by_phi);
        mean[q] = prior_mean_of(w);
        variance[q] = kbt_world_kernel(w, &query[q], &query[q]);
        for (size_t i = 0; i < m; i++) {
            mean[q] += by_phi[i] * target[i];
            variance[q] += column[i] * (w->spec.repr.lambda * by_phi[i] - by_gram[i]);
        }
    }
    free(k_zz);
    free(phi);
    free(target);
    free(column);
    free(by_gram);
    free(by_phi);
}

double kbt_dense_information_gain(const struct kbt_world *w)
{
    double lambda = w->spec.repr.lambda, *k = gram(w, lambda);
    double gain = 0.5 * (kbt_logdet(w->n_seen, k) - (double)w->n_seen * log(lambda));
    free(k);
    return gain;
}

double kbt_dense_effective_dimension(const struct kbt_world *w)
{
    size_t t = w->n_seen;
    double lambda = w->spec.repr.lambda, *k = gram(w, lambda), *inverse = kbt_array(t * t + 1), trace = 0;
    kbt_inverse(t, k, inverse);
    for (size_t i = 0; i < t; i++)
        trace += 1 - lambda * inverse[i * t + i];
    free(k);
    free(inverse);
    return trace;
}
