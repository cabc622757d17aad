/* The exact posterior where arms share nothing: one Gaussian process for each, over the arm's own points.
 *
 *   y = mu + f(u, c, a) + noise
 *   k(s, s') = [a = a'] (v_arm + v_user G[u, u'] + v_context kc(c, c') + v_linear c.c'/d)
 *
 * Every component has the factor [a = a'], so K is block diagonal by arm and each block is the posterior of
 * post_exact.c on rewards less the prior mean mu:
 *
 *   n, n_i, S_i    distinct points of an arm, observations and sum of rewards at each      ybar_i = S_i / n_i - mu
 *   F              n x n: F F^T = K + lambda N^-1                                          w = F^-1 ybar
 *   mean(s) = mu + (F^-1 k(s)).w,    sd^2(s) = k(s,s) - |F^-1 k(s)|^2;    an arm without points: mu and k(s,s)
 *
 * No component is common to all arms: it could not change a choice, and being learned from the arms that were chosen,
 * it would lend what is good about them to those never tried.
 *
 * Points are distinct to the kernel's parts (kernel.c): without contexts, and with a user kernel that reads a graph
 * where there is none, an arm is one point, whoever asks (kb_posterior_new). An arm holds `exact_limit` points at
 * most. Rewards at others teach it nothing from there on: what is held is then the posterior of a part of the data,
 * whose deviations are too large rather than too small, and an arm's cost has a bound. Under forgetting what it holds
 * fades, so after half as many such rewards the posterior is outdated: filled anew, each arm holds the points of which
 * most is left.
 *
 * F stands in tiles (tiled.h): a decision meets twenty of them once each, and what it takes is the way of their bytes
 * from memory. Where a decision's candidates hold many points, the user's row of G is made once for all. Under a rule
 * that reads nothing but which lines mean + u sd are on top, most candidates need no solve: two dot products with
 * vectors that the block keeps bound mean and deviation (arm_block.c), and those whose line stays below what is known
 * are left out (top_lines.h).
 *
 * What readers see: the table of blocks and the blocks. A block that is full is replaced by a larger one, made beside
 * them (moves.h). Under forgetting the writer has a second table, of the blocks as they will be.
 *
 * Cost: a candidate O(n^2) of its own arm's n, nothing for one never learned at; a reward O(n^2); memory O(sum n^2);
 * O(sum n^3 / 3) to fill and for a step of forgetting. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "linalg/factor_io.h"
#include "linalg/linalg.h"
#include "kernel/arm_kernel.h"
#include "posterior/arm_block.h"
#include "posterior/arm_scales.h"
#include "posterior/exact.h"
#include "posterior/influence.h"
#include "posterior/noisy_gram.h"
#include "posterior/top_lines.h"
#include "spec/fields.h"

#define FIRST_ARMS 16u
#define ROUNDINGS 4.0     /* of a mean whose terms are bounded by themselves */
#define ROW_READS 3u      /* a value of a row that is made in order takes so much less than one that is sought */
#define REFUSED_SHARE 0.5 /* of an arm's points: after so many rewards that it had no room for it is filled anew */

struct table {
    struct kb_arm_block **of; /* [n] by arm; NULL: never learned at */
    size_t n;
};

struct kb_by_arm {
    struct kb_exact points; /* all of them, with counts and sums; its factor is not used */
    struct kb_arm_kernel kernel;
    struct kb_chol work;      /* the writer's: room for the factor of any block, where it is made anew */
    struct table arms, spare; /* spare: the writer's, under forgetting */
    size_t most;              /* points of an arm */
    double mean;              /* mu */
    size_t n_scaled;          /* 0, or coordinates of contexts, which blocks hold divided by: */
    double scale[KB_MOST_SPACED_DIM];
    size_t held, largest;          /* bytes of blocks; order of the largest */
    double squares, n_filled;      /* sum of n^2 over arms; arms that have points */
    size_t staged, staged_largest; /* while points are staged: bytes of the larger blocks that they want, once an arm */
};

static struct kb_by_arm *of(struct kb_posterior *p)
{
    return (struct kb_by_arm *)p;
}

static const struct kb_by_arm *of_const(const struct kb_posterior *p)
{
    return (const struct kb_by_arm *)p;
}

static size_t context_dim(const struct kb_by_arm *e)
{
    return e->points.base.kernel.context_dim;
}

/* A context as the kernel sees it: itself, or in *room. */
static const double *scaled(const struct kb_by_arm *e, const double *context, double *room)
{
    if (e->n_scaled == 0)
        return context;
    for (size_t j = 0; j < e->n_scaled; j++)
        room[j] = context[j] / e->scale[j];
    return room;
}

static struct kb_arm_points points_of(const struct kb_arm_block *b)
{
    return (struct kb_arm_points){.anchor = b->anchor, .x = b->x};
}

static struct kb_arm_block *block_at(const struct table *t, uint32_t arm)
{
    return arm < t->n ? t->of[arm] : NULL;
}

/* --- life ------------------------------------------------------------------------------------------------- */

static enum kb_err by_arm_init(struct kb_posterior *p, const struct kb_spec *spec)
{
    struct kb_by_arm *e = of(p);
    const enum kb_err rc = kb_exact_init(p, spec);
    kb_chol_init(&e->work);
    p->max_support = SIZE_MAX;
    e->most = spec->repr.exact_limit;
    e->mean = spec->prior.mean;
    e->n_scaled = kb_spec_expand_scales(spec, e->scale);
    kb_arm_kernel_init(&e->kernel, &spec->prior, &p->kernel);
    return rc;
}

static void close_table(struct table *t)
{
    for (size_t a = 0; a < t->n; a++)
        kb_free(t->of[a]);
    kb_free(t->of);
    *t = (struct table){0};
}

static void by_arm_close(struct kb_posterior *p)
{
    close_table(&of(p)->arms);
    close_table(&of(p)->spare);
    kb_chol_close(&of(p)->work);
    kb_exact_close(p);
}

/* --- room --------------------------------------------------------------------------------------------------- */

static size_t work_bytes(size_t cap)
{
    return cap * cap * sizeof(double);
}

/* The order that e->work has where a block has room for `cap` points. */
static size_t work_cap(const struct kb_by_arm *e, size_t cap)
{
    const size_t lines = kb_tiled_padded(cap) | 8; /* an odd number of them (chol.c) */
    return lines > e->work.cap ? lines : e->work.cap;
}

static enum kb_err grow_work(struct kb_by_arm *e, size_t cap, struct kb_moves *m)
{
    const size_t order = work_cap(e, cap);
    if (order == e->work.cap)
        return KB_OK;
    return kb_moves_take(m, &e->work.l, kb_lines(order, order, sizeof *e->work.l), &e->work.cap, order);
}

static size_t by_arm_held_bytes(const struct kb_posterior *p)
{
    const struct kb_by_arm *e = of_const(p);
    return kb_exact_point_bytes(p) + e->held + e->arms.n * sizeof *e->arms.of + work_bytes(e->work.cap);
}

size_t kb_posterior_arm_bytes(const struct kb_spec *spec, size_t n)
{
    return kb_arm_block_bytes(kb_arm_block_cap(n, spec->repr.exact_limit), spec->context_dim);
}

/* Points that are staged for the arm. */
static size_t n_staged_of(const struct kb_posterior *p, uint32_t arm)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_staged_points; i++)
        n += p->staged_arm[i] == arm;
    return n;
}

/* Room that the arm's block will have once all that is staged has come; 0: none. */
static size_t coming_cap(const struct kb_by_arm *e, uint32_t arm, size_t n_more)
{
    const struct kb_arm_block *b = block_at(&e->arms, arm);
    const size_t n = (b != NULL ? b->n : 0) + n_more, cap = b != NULL ? b->cap : 0;
    return n <= cap || cap >= e->most ? cap : kb_arm_block_cap(n < e->most ? n : e->most, e->most);
}

static size_t coming_arms(const struct kb_posterior *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_staged_points; i++)
        if (p->staged_arm[i] >= n)
            n = p->staged_arm[i] + (size_t)1;
    return n;
}

/* A table for n arms with the blocks of *t. NULL: no memory. */
static struct kb_arm_block **larger_table(const struct table *t, size_t n)
{
    struct kb_arm_block **fresh = kb_array(n, 1, sizeof(struct kb_arm_block *));
    if (fresh != NULL && t->n > 0)
        memcpy(fresh, t->of, t->n * sizeof(struct kb_arm_block *));
    return fresh;
}

static size_t table_cap(const struct table *t, size_t n)
{
    size_t cap = t->n > FIRST_ARMS ? t->n : FIRST_ARMS;
    while (cap < n)
        cap *= 2;
    return n > t->n ? cap : t->n;
}

/* Larger blocks for arms whose points do not fit, each to be put into the table as it will be. */
static enum kb_err by_arm_grow_arms(struct kb_posterior *p, struct kb_moves *m)
{
    struct kb_by_arm *e = of(p);
    const size_t n_arms = table_cap(&e->arms, coming_arms(p));
    struct kb_arm_block **table = e->arms.of;
    size_t held = e->held, largest = 0;
    enum kb_err rc = KB_OK;
    if (n_arms > e->arms.n) {
        table = larger_table(&e->arms, n_arms);
        KB_TRY(kb_moves_take(m, &e->arms.of, table, &e->arms.n, n_arms));
    }
    for (size_t i = 0; i < p->n_staged_points; i++) {
        const uint32_t arm = p->staged_arm[i];
        size_t earlier = 0;
        while (p->staged_arm[earlier] != arm)
            earlier++;
        const struct kb_arm_block *b = block_at(&e->arms, arm);
        const size_t cap = coming_cap(e, arm, n_staged_of(p, arm));
        if (earlier < i || cap == (b != NULL ? b->cap : 0))
            continue;
        KB_TRY(kb_moves_take(m, &table[arm], kb_arm_block_new(cap, context_dim(e), b), NULL, 0));
        largest = cap > largest ? cap : largest;
        held += kb_arm_block_bytes(cap, context_dim(e)) - (b != NULL ? kb_arm_block_bytes(b->cap, context_dim(e)) : 0);
    }
    if (held != e->held)
        KB_TRY(kb_moves_number(m, &e->held, held));
    KB_TRY(grow_work(e, largest, m));
out:
    return rc;
}

/* Bytes of the larger block that an arm wants for n_more points; 0: they fit. */
static size_t wanted_bytes(const struct kb_by_arm *e, uint32_t arm, size_t n_more)
{
    const struct kb_arm_block *b = block_at(&e->arms, arm);
    const size_t cap = coming_cap(e, arm, n_more);
    return cap > (b != NULL ? b->cap : 0) ? kb_arm_block_bytes(cap, context_dim(e)) : 0;
}

/* Kept as points are staged, since each event asks for the sum. O(points staged). */
static void by_arm_stage_point(struct kb_posterior *p)
{
    struct kb_by_arm *e = of(p);
    const uint32_t arm = p->staged_arm[p->n_staged_points - 1];
    const struct kb_arm_block *b = block_at(&e->arms, arm);
    const size_t n = n_staged_of(p, arm), order = (b != NULL ? b->n : 0) + n;
    if (p->n_staged_points == 1)
        e->staged = e->staged_largest = 0;
    e->staged += wanted_bytes(e, arm, n) - wanted_bytes(e, arm, n - 1);
    e->staged_largest = order > e->staged_largest ? order : e->staged_largest;
}

/* What is staged; n_more anywhere, so in the largest block, which is taken to be full; and arms as many. */
static size_t by_arm_bytes_with(const struct kb_posterior *p, size_t n_more)
{
    const struct kb_by_arm *e = of_const(p);
    const bool has_staged = p->n_staged_points > 0;
    const size_t largest = has_staged && e->staged_largest > e->largest ? e->staged_largest : e->largest;
    const size_t most = largest + n_more < e->most ? largest + n_more : e->most;
    const size_t cap = kb_arm_block_cap(most, e->most);
    size_t more = n_more * kb_arm_block_bytes(cap, context_dim(e)) + (has_staged ? e->staged : 0);
    if (n_more == 0 && !has_staged)
        return by_arm_held_bytes(p);
    if (p->spare_bytes > 0) /* and what forgetting has beside them */
        more *= 2;
    more += table_cap(&e->arms, coming_arms(p) + (n_more > 0 ? e->arms.n + n_more : 0)) * sizeof *e->arms.of;
    return kb_exact_point_bytes(p) + e->held + more + work_bytes(work_cap(e, cap));
}

/* --- factors ------------------------------------------------------------------------------------------------ */

/* A block and what its columns are made of. */
struct rows {
    struct kb_by_arm *e;
    const struct kb_arm_block *block;
};

static void block_column(const struct kb_noisy_gram *g, size_t i, size_t n, struct kb_scratch *s, double *out)
{
    const struct rows *r = g->points;
    const struct kb_arm_block *b = r->block;
    const size_t dim = context_dim(r->e), mark = kb_arena_mark(&s->arena);
    const struct kb_user user = g->p->support.user[b->support[i]];
    const struct kb_arm_asker asker = {user, kb_posterior_user_diag(g->p, user, s), NULL, b->x + i * dim};
    const struct kb_arm_points points = points_of(b);
    kb_arm_kernel_column(&r->e->kernel, &points, n, &asker, kb_arena_doubles(&s->arena, n), out);
    kb_arena_reset(&s->arena, mark);
}

static struct kb_noisy_gram gram_of(const struct rows *r, struct kb_arm_block *b)
{
    return (struct kb_noisy_gram){.p = &r->e->points.base,
                                  .f = &r->e->work,
                                  .tiles = &b->f,
                                  .count = b->count,
                                  .n_points = b->n,
                                  .left = 1,
                                  .column = block_column,
                                  .points = r};
}

/* ybar of a point of the block. */
static double residual_at(const struct kb_by_arm *e, const struct kb_arm_block *b, size_t i)
{
    return e->points.sum[b->support[i]] / e->points.count[b->support[i]] - e->mean;
}

/* Adds what the points from `first` on have in the log determinant: a sum by points, so that one more point is one term
 * more, and a block that is read has the bits that it was written with. */
static void add_log_det(const struct kb_by_arm *e, struct kb_arm_block *b, size_t first)
{
    const double lambda = e->points.base.lambda;
    for (size_t i = first; i < b->n; i++) {
        const double pivot = kb_tiled_pivot(&b->f, i);
        b->log_det += log(pivot * pivot * b->count[i] / lambda);
    }
}

/* What hangs on w, and on the counts. O(n^2). */
static void follow(const struct kb_by_arm *e, struct kb_arm_block *b)
{
    kb_arm_block_follow_values(b, e->points.base.lambda);
    b->log_det = 0;
    add_log_det(e, b, 0);
}

/* w and what hangs on it, after changes of counts or sums that are no new point. O(n^2). */
static void refresh(const struct kb_by_arm *e, struct kb_arm_block *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->w[i] = residual_at(e, b, i);
    kb_tiled_solve(kb_widest_lanes(), &b->f, b->w);
    follow(e, b);
}

static void factor(struct kb_by_arm *e, struct kb_arm_block *b, struct kb_scratch *s)
{
    const struct rows r = {e, b};
    const struct kb_noisy_gram g = gram_of(&r, b);
    kb_noisy_gram_factor(&g, s);
    kb_arm_block_follow_factor(b);
}

static double by_arm_log_det(const struct kb_posterior *p)
{
    const struct table *t = &of_const(p)->arms;
    double sum = 0;
    for (size_t a = 0; a < t->n; a++)
        sum += t->of[a] != NULL ? t->of[a]->log_det : 0;
    return sum;
}

static double by_arm_width(const struct kb_posterior *p)
{
    const struct kb_by_arm *e = of_const(p);
    return e->n_filled > 0 ? sqrt(e->squares / e->n_filled) : 0;
}

/* --- learning ----------------------------------------------------------------------------------------------- */

static bool by_arm_learn_adds_point(const struct kb_posterior *p, const struct kb_point *pt)
{
    const struct kb_arm_block *b = block_at(&of_const(p)->arms, pt->arm);
    return (b == NULL || b->n < of_const(p)->most) && kb_exact_learn_adds_point(p, pt);
}

/* A new point becomes the last of its arm; w and the log determinant have one entry more. */
static void enter(struct kb_by_arm *e, struct kb_arm_block *b, const struct kb_point *pt, double count, double sum,
                  struct kb_scratch *s)
{
    const struct rows r = {e, b};
    const uint32_t i = kb_exact_enter(&e->points, pt);
    e->points.count[i] = count;
    e->points.sum[i] = sum;
    double room[KB_MOST_SPACED_DIM];
    kb_arm_block_push(b, scaled(e, pt->x, room), context_dim(e), e->points.base.support.anchor[i], i, count);
    const struct kb_noisy_gram g = gram_of(&r, b);
    b->w[b->n - 1] = residual_at(e, b, b->n - 1);
    const struct kb_appended row = kb_noisy_gram_append(&g, b->w, b->probe, b->n_probe, s);
    kb_arm_block_follow_point(b, e->points.base.lambda, &row);
    add_log_det(e, b, b->n - 1);
    e->squares += 2 * (double)b->n - 1;
    e->n_filled += b->n == 1;
    if (b->n > e->largest)
        e->largest = b->n;
}

/* The place of support point i in its block: blocks hold their points in the order of the support. */
static size_t place_of(const struct kb_arm_block *b, uint32_t i)
{
    size_t low = 0, high = b->n;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (b->support[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    assert(b->support[low] == i);
    return low;
}

/* d_count 0 is a correction, which a point that is not held has no weight for (post_exact.c). */
static void by_arm_learn(struct kb_posterior *p, const struct kb_point *pt, double d_count, double d_sum,
                         struct kb_scratch *s)
{
    struct kb_by_arm *e = of(p);
    struct kb_arm_block *b = block_at(&e->arms, pt->arm);
    const uint32_t i = kb_exact_find(&e->points, pt);
    if (i == KB_POINT_NONE && !(d_count > 0))
        return;
    if (i == KB_POINT_NONE && b->n >= e->most) {
        b->refused++;
        p->is_outdated |= p->unit > 0 && b->refused >= REFUSED_SHARE * (double)e->most;
        return;
    }
    if (i == KB_POINT_NONE) {
        enter(e, b, pt, d_count, d_sum, s);
    } else {
        const struct rows r = {e, b};
        const struct kb_noisy_gram g = gram_of(&r, b);
        e->points.sum[i] += d_sum;
        e->points.count[i] =
            d_count < 0 ? kb_count_lowered(e->points.count[i], -d_count) : e->points.count[i] + d_count;
        if (d_count > 0)
            kb_noisy_gram_raise(&g, place_of(b, i), d_count, s);
        else if (d_count < 0)
            kb_noisy_gram_lower(&g, place_of(b, i), -d_count, s);
        if (d_count != 0)
            kb_arm_block_follow_factor(b);
        refresh(e, b);
    }
}

/* Rows of an arm at its limit are left out, as they are when they come one by one; and under forgetting those of which
 * less is left than of as many others. */
static bool has_room(struct kb_exact *points, const struct kb_point *pt, double count)
{
    const struct kb_by_arm *e = (const struct kb_by_arm *)points;
    size_t *n_of = points->n_of_arm;
    if (n_of[pt->arm] >= e->most || (points->least != NULL && count < points->least[pt->arm]))
        return false;
    n_of[pt->arm]++;
    return true;
}

static int compare_descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* least[a] = the weight of arm a's row number `most`, by weight; 0 where it has fewer. KB_ENOMEM. O(rows log rows). */
static enum kb_err find_least(const struct kb_by_arm *e, const struct kb_history *h, size_t n_arms, double *least)
{
    size_t *first = kb_array(n_arms + 1, 1, sizeof *first);
    double *weight = kb_array(h->n + 1, 1, sizeof *weight);
    enum kb_err rc = first != NULL && weight != NULL ? KB_OK : KB_ENOMEM;
    KB_TRY(rc);
    for (size_t row = 0; row < h->n; row++)
        first[h->arm[row] + 1]++;
    for (size_t a = 0; a < n_arms; a++)
        first[a + 1] += first[a];
    for (size_t row = h->n; row-- > 0;)
        weight[--first[h->arm[row] + 1]] = kb_history_count(h, row);
    for (size_t a = 0; a < n_arms; a++) { /* first[a + 1] is where arm a begins by now */
        const size_t begin = first[a + 1], n = (a + 1 < n_arms ? first[a + 2] : h->n) - begin;
        if (n <= e->most)
            continue;
        qsort(weight + begin, n, sizeof *weight, compare_descending);
        least[a] = weight[begin + e->most - 1];
    }
out:
    kb_free(first);
    kb_free(weight);
    return rc;
}

/* Blocks with the points of the support, in its order; their factors are empty. n_of: points of each arm. KB_ENOMEM. */
static enum kb_err make_blocks(struct kb_by_arm *e, const size_t *n_of, size_t n_arms)
{
    const struct kb_support *points = &e->points.base.support;
    const size_t dim = context_dim(e);
    e->arms.of = kb_array(n_arms + 1, 1, sizeof(struct kb_arm_block *));
    if (e->arms.of == NULL)
        return KB_ENOMEM;
    e->arms.n = n_arms;
    for (size_t a = 0; a < n_arms; a++) {
        if (n_of[a] == 0)
            continue;
        const size_t cap = kb_arm_block_cap(n_of[a], e->most);
        if ((e->arms.of[a] = kb_arm_block_new(cap, dim, NULL)) == NULL)
            return KB_ENOMEM;
        e->held += kb_arm_block_bytes(cap, dim);
        e->largest = n_of[a] > e->largest ? n_of[a] : e->largest;
        e->squares += (double)n_of[a] * (double)n_of[a];
        e->n_filled++;
    }
    struct kb_moves m;
    kb_moves_init(&m);
    if (kb_moves_finish(&m, grow_work(e, kb_arm_block_cap(e->largest, e->most), &m)) != KB_OK)
        return KB_ENOMEM;
    for (uint32_t i = 0; i < points->n; i++) {
        double room[KB_MOST_SPACED_DIM];
        kb_arm_block_push(e->arms.of[points->arm[i]], scaled(e, points->x + i * points->dim, room), dim,
                          points->anchor[i], i, e->points.count[i]);
    }
    return KB_OK;
}

static enum kb_err by_arm_fill(struct kb_posterior *p, const struct kb_history *h, const uint32_t *node_of,
                               const struct kb_atom *atoms, size_t n, struct kb_scratch *s)
{
    struct kb_by_arm *e = of(p);
    const size_t n_arms = kb_history_n_arms(h);
    size_t *n_of = kb_array(n_arms + 1, 1, sizeof *n_of);
    double *least = kb_array(n_arms + 1, 1, sizeof *least);
    enum kb_err rc = n_of != NULL && least != NULL ? KB_OK : KB_ENOMEM;
    (void)atoms, (void)n; /* every point is held */
    KB_TRY(rc);
    if (h->unit > 0)
        KB_TRY(find_least(e, h, n_arms, least));
    e->points.takes = has_room;
    e->points.n_of_arm = n_of;
    e->points.least = least;
    KB_TRY(kb_exact_collect(&e->points, h, node_of, s));
    KB_TRY(make_blocks(e, n_of, n_arms));
    for (size_t a = 0; a < n_arms; a++) {
        if (e->arms.of[a] == NULL)
            continue;
        factor(e, e->arms.of[a], s);
        refresh(e, e->arms.of[a]);
        if (!kb_scratch_goes_on(s, 0))
            rc = KB_ECANCELLED;
        KB_TRY(rc);
    }
out:
    e->points.takes = NULL;
    e->points.n_of_arm = NULL;
    e->points.least = NULL;
    kb_free(n_of);
    kb_free(least);
    return rc;
}

/* --- forgetting ---------------------------------------------------------------------------------------------- */

static enum kb_err reserve_spare_of(struct kb_by_arm *e, uint32_t arm, size_t cap)
{
    if (cap == 0 || (e->spare.of[arm] != NULL && e->spare.of[arm]->cap >= cap))
        return KB_OK;
    struct kb_arm_block *fresh = kb_arm_block_new(cap, context_dim(e), NULL);
    if (fresh == NULL)
        return KB_ENOMEM;
    kb_free(e->spare.of[arm]);
    e->spare.of[arm] = fresh;
    return KB_OK;
}

/* Blocks of the room that those in force will have by then. */
static enum kb_err by_arm_reserve_spare(struct kb_posterior *p, size_t n)
{
    struct kb_by_arm *e = of(p);
    const size_t n_arms = table_cap(&e->arms, coming_arms(p));
    enum kb_err rc = KB_OK;
    (void)n;
    if (n_arms > e->spare.n) {
        struct kb_arm_block **fresh = larger_table(&e->spare, n_arms);
        if (fresh == NULL)
            return KB_ENOMEM;
        kb_free(e->spare.of);
        e->spare = (struct table){fresh, n_arms};
    }
    for (size_t i = 0; i < p->n_staged_points && rc == KB_OK; i++)
        rc = reserve_spare_of(e, p->staged_arm[i], coming_cap(e, p->staged_arm[i], n_staged_of(p, p->staged_arm[i])));
    for (uint32_t a = 0; a < e->arms.n && rc == KB_OK; a++)
        rc = reserve_spare_of(e, a, coming_cap(e, a, 0));
    return rc;
}

static void by_arm_prepare_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    struct kb_by_arm *e = of(p);
    for (size_t a = 0; a < e->arms.n; a++) {
        const struct kb_arm_block *b = e->arms.of[a];
        if (b == NULL || b->n == 0)
            continue;
        struct kb_arm_block *spare = e->spare.of[a];
        kb_arm_block_copy_points(spare, b, context_dim(e));
        for (size_t i = 0; i < spare->n; i++)
            spare->count[i] = kb_count_left(spare->count[i], left);
        factor(e, spare, s);
    }
}

static void by_arm_take_left(struct kb_posterior *p, double left, struct kb_scratch *s)
{
    struct kb_by_arm *e = of(p);
    const struct table old = e->arms;
    (void)s;
    kb_exact_fade(&e->points, left);
    e->arms.of = e->spare.of;
    e->arms.n = e->spare.n;
    e->spare = old;
    e->held = p->spare_bytes = 0;
    for (size_t a = 0; a < e->arms.n; a++) {
        struct kb_arm_block *b = e->arms.of[a], *was = block_at(&e->spare, (uint32_t)a);
        p->spare_bytes += was != NULL ? kb_arm_block_bytes(was->cap, context_dim(e)) : 0;
        e->held += b != NULL ? kb_arm_block_bytes(b->cap, context_dim(e)) : 0;
        if (b != NULL && b->n > 0)
            refresh(e, b);
    }
}

/* --- prediction ------------------------------------------------------------------------------------------------ */

/* The asker's row of G over all anchors, where that is less work than the value of each of the candidates' points; NULL
 * elsewhere. */
static const double *row_for(const struct kb_by_arm *e, const struct kb_candidates *cand, double diag_user,
                             struct kb_scratch *s)
{
    const struct kb_user_kernel *users = e->points.base.kernel.user;
    const size_t n_anchors = kb_user_kernel_n_anchors(users);
    size_t n = 0;
    for (size_t c = 0; e->kernel.user > 0 && n < n_anchors && c < cand->n; c++) {
        const struct kb_arm_block *b = block_at(&e->arms, cand->arms[c]);
        n += b != NULL ? b->n : 0;
    }
    if (n == 0 || ROW_READS * n < n_anchors)
        return NULL;
    double *row = kb_arena_doubles(&s->arena, n_anchors);
    kb_user_kernel_row_at(users, cand->user, diag_user, NULL, n_anchors, row);
    return row;
}

/* Who asks in `cand`, with the context as the kernel sees it, perhaps in *room. */
static struct kb_arm_asker asker_of(const struct kb_by_arm *e, const struct kb_candidates *cand, struct kb_scratch *s,
                                    double *room)
{
    const double diag_user = kb_user_kernel_diag(e->points.base.kernel.user, cand->user, s->user);
    return (struct kb_arm_asker){cand->user, diag_user, row_for(e, cand, diag_user, s), scaled(e, cand->context, room)};
}

/* A decision's question, and room for its column of any block. */
struct question {
    const struct kb_by_arm *e;
    struct kb_arm_asker asker;
    double prior, *column, *work, context[KB_MOST_SPACED_DIM];
};

static void open_question(struct question *q, const struct kb_by_arm *e, const struct kb_candidates *cand,
                          struct kb_scratch *s)
{
    q->e = e;
    q->column = kb_arena_doubles(&s->arena, kb_tiled_padded(e->largest));
    q->work = kb_arena_doubles(&s->arena, e->largest);
    q->asker = asker_of(e, cand, s, q->context);
    q->prior = kb_arm_kernel_diag(&e->kernel, q->asker.diag, q->asker.context);
}

/* The arm's block, with its column made; NULL: nothing was learned of the arm. */
static const struct kb_arm_block *column_of(struct question *q, uint32_t arm)
{
    const struct kb_arm_block *b = block_at(&q->e->arms, arm);
    if (b == NULL || b->n == 0)
        return NULL;
    const struct kb_arm_points points = points_of(b);
    kb_arm_kernel_column(&q->e->kernel, &points, b->n, &q->asker, q->work, q->column);
    return b;
}

static void answer(struct question *q, uint32_t arm, double *mean, double *variance)
{
    const struct kb_arm_block *b = column_of(q, arm);
    *mean = q->e->mean;
    *variance = q->prior;
    if (b == NULL)
        return;
    kb_tiled_solve(kb_widest_lanes(), &b->f, q->column);
    *mean += kb_dot(b->n, q->column, b->w);
    *variance = kb_posterior_bounded(&q->e->points.base, q->prior - kb_dot(b->n, q->column, q->column), q->prior);
}

static void by_arm_predict(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                           double *mean, double *variance)
{
    const size_t mark = kb_arena_mark(&s->arena);
    struct question q;
    open_question(&q, of_const(p), cand, s);
    for (size_t c = 0; c < cand->n; c++)
        answer(&q, cand->arms[c], &mean[c], &variance[c]);
    kb_arena_reset(&s->arena, mark);
}

/* A decision's candidates as lines mean + u slope, of which `known` have been predicted: their sd is a number. */
struct narrowing {
    struct question *q;
    const struct kb_candidates *cand;
    double beta, *mean, *sd, *most; /* most: of an sd */
    struct kb_top_lines known;
};

/* No solve yet. Arms never learned at are alike, and stand for one line. */
static void bound_all(struct narrowing *n)
{
    const double mu = n->q->e->mean, sd = sqrt(n->q->prior);
    for (size_t c = 0; c < n->cand->n; c++) {
        const struct kb_arm_block *b = column_of(n->q, n->cand->arms[c]);
        n->mean[c] = mu;
        n->sd[c] = sd;
        if (b == NULL && n->known.n == 0)
            kb_top_lines_add(&n->known, mu, n->beta * sd);
        if (b == NULL)
            continue;
        kb_arm_block_bound(b, n->q->column, n->q->prior, &n->mean[c], &n->most[c]);
        n->mean[c] += mu + ROUNDINGS * DBL_EPSILON * fabs(mu);
        n->sd[c] = (double)NAN;
    }
}

static void predict_if_needed(struct narrowing *n, size_t c)
{
    double variance;
    if (!isnan(n->sd[c]) || !kb_top_lines_reach(&n->known, n->mean[c], n->beta * n->most[c]))
        return;
    answer(n->q, n->cand->arms[c], &n->mean[c], &variance);
    n->sd[c] = sqrt(variance);
    kb_top_lines_add(&n->known, n->mean[c], n->beta * n->sd[c]);
}

/* The one of the highest mean and the one of the steepest line first: few others reach above these two. */
static void by_arm_predict_lines(const struct kb_posterior *p, const struct kb_candidates *cand, double beta,
                                 struct kb_scratch *s, double *mean, double *sd)
{
    const size_t mark = kb_arena_mark(&s->arena);
    struct question q;
    struct narrowing n = {.q = &q, .cand = cand, .beta = beta, .mean = mean, .sd = sd};
    size_t highest = 0, steepest = SIZE_MAX;
    n.most = kb_arena_doubles(&s->arena, cand->n);
    open_question(&q, of_const(p), cand, s);
    bound_all(&n);
    for (size_t c = 0; c < cand->n; c++) {
        if (mean[c] > mean[highest])
            highest = c;
        if (isnan(sd[c]) && (steepest == SIZE_MAX || n.most[c] > n.most[steepest]))
            steepest = c;
    }
    predict_if_needed(&n, highest);
    if (steepest != SIZE_MAX)
        predict_if_needed(&n, steepest);
    for (size_t c = 0; c < cand->n; c++)
        predict_if_needed(&n, c);
    kb_arena_reset(&s->arena, mark);
}

/* As post_exact.c, over the points of the candidate's arm; the others' weights are 0. */
static void by_arm_influence(const struct kb_posterior *p, const struct kb_candidates *cand, struct kb_scratch *s,
                             struct kb_influence *in)
{
    const struct kb_by_arm *e = of_const(p);
    const struct kb_arm_block *b = block_at(&e->arms, cand->arms[0]);
    double *column = kb_arena_doubles(&s->arena, kb_tiled_padded(e->largest));
    double *work = kb_arena_doubles(&s->arena, e->largest), room[KB_MOST_SPACED_DIM];
    in->prior = e->mean;
    in->arm = cand->arms[0];
    for (size_t i = 0; i < p->support.n; i++)
        in->weight[i] = 0;
    if (b == NULL || b->n == 0)
        return;
    const struct kb_arm_asker asker = asker_of(e, cand, s, room);
    const struct kb_arm_points points = points_of(b);
    kb_arm_kernel_column(&e->kernel, &points, b->n, &asker, work, column);
    kb_tiled_solve(kb_widest_lanes(), &b->f, column);
    kb_tiled_solve_t(kb_widest_lanes(), &b->f, column);
    for (size_t i = 0; i < b->n; i++)
        in->weight[b->support[i]] = column[i] / e->points.count[b->support[i]];
}

static bool by_arm_tells_users(const struct kb_posterior *p)
{
    return of_const(p)->kernel.user > 0;
}

/* --- facts -------------------------------------------------------------------------------- */

static size_t by_arm_n_factors(const struct kb_posterior *p)
{
    return of_const(p)->arms.n;
}

static enum kb_err by_arm_look(const struct kb_posterior *p, size_t which, struct kb_chol *to, double *gain)
{
    const struct kb_arm_block *b = of_const(p)->arms.of[which];
    enum kb_err rc = KB_OK;
    *gain = b != NULL ? 0.5 * b->log_det : 0;
    if (b == NULL || b->n == 0)
        return KB_OK;
    KB_TRY(kb_chol_reserve(to, b->n));
    kb_tiled_unpack(&b->f, to);
    for (size_t j = 0; j < b->n; j++)
        for (size_t i = j; i < b->n; i++)
            to->l[j * to->cap + i] *= sqrt(b->count[i]);
out:
    return rc;
}

static enum kb_err by_arm_find_scales(const struct kb_posterior *p, const struct kb_scale_search *search,
                                      struct kb_scratch *s, struct kb_tuning *out)
{
    const struct kb_by_arm *e = of_const(p);
    const struct kb_arm_view_of_points view = {.p = p,
                                               .kernel = &e->kernel,
                                               .block = e->arms.of,
                                               .n_arms = e->arms.n,
                                               .count = e->points.count,
                                               .sum = e->points.sum};
    return kb_arm_scales_find(&view, search, s, out);
}

/* --- digest, snapshot ------------------------------------------------------------------------------------------- */

static uint64_t by_arm_digest(const struct kb_posterior *p, uint64_t h)
{
    const struct kb_by_arm *e = of_const(p);
    h = kb_hash_array(h, e->points.count, p->support.n * sizeof *e->points.count);
    h = kb_hash_array(h, e->points.sum, p->support.n * sizeof *e->points.sum);
    for (size_t a = 0; a < e->arms.n; a++) {
        const struct kb_arm_block *b = e->arms.of[a];
        if (b == NULL || b->n == 0)
            continue;
        h = kb_hash_u64(kb_hash_array(h, b->w, b->n * sizeof *b->w), a);
        h = kb_tiled_digest(&b->f, h);
    }
    return h;
}

/* Counts and sums of all points; then w and F of each arm that has any, by number. */
static void by_arm_save(const struct kb_posterior *p, struct kb_writer *w)
{
    const struct kb_by_arm *e = of_const(p);
    kb_exact_save_points(&e->points, w);
    for (size_t a = 0; a < e->arms.n; a++) {
        const struct kb_arm_block *b = e->arms.of[a];
        if (b == NULL || b->n == 0)
            continue;
        kb_put_doubles(w, b->w, b->n);
        kb_tiled_save(&b->f, w);
    }
}

/* Points by arm, as the support has them. What cannot stand in the rest of the snapshot is not allocated for: an id for
 * each arm, half a square of doubles for each block. */
static enum kb_err count_points(const struct kb_by_arm *e, const struct kb_reader *r, size_t **out, size_t *n_arms)
{
    const struct kb_support *points = &e->points.base.support;
    size_t *n_of = NULL, n_doubles = 0;
    *n_arms = 0;
    for (size_t i = 0; i < points->n; i++) {
        if (points->arm[i] >= r->n)
            return KB_ECORRUPT;
        *n_arms = points->arm[i] >= *n_arms ? points->arm[i] + (size_t)1 : *n_arms;
    }
    n_of = kb_array(*n_arms + 1, 1, sizeof *n_of);
    if (n_of == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < points->n; i++)
        n_doubles += ++n_of[points->arm[i]];
    *out = n_of;
    return n_doubles <= (r->n - r->pos) / sizeof(double) ? KB_OK : KB_ECORRUPT;
}

static enum kb_err load_block(struct kb_by_arm *e, struct kb_arm_block *b, struct kb_reader *r)
{
    enum kb_err rc = KB_OK;
    kb_get_doubles(r, b->w, b->n);
    KB_TRY(r->rc);
    for (size_t i = 0; i < b->n; i++)
        if (!isfinite(b->w[i]))
            return KB_ECORRUPT;
    KB_TRY(kb_tiled_load(&b->f, b->n, r));
    kb_arm_block_follow_factor(b);
    follow(e, b);
out:
    return rc;
}

static enum kb_err by_arm_load(struct kb_posterior *p, struct kb_reader *r)
{
    struct kb_by_arm *e = of(p);
    size_t *n_of = NULL, n_arms = 0;
    enum kb_err rc = KB_OK;
    KB_TRY(kb_exact_load_points(&e->points, r));
    KB_TRY(count_points(e, r, &n_of, &n_arms));
    for (size_t a = 0; a < n_arms; a++)
        if (n_of[a] > e->most)
            rc = KB_ECORRUPT;
    KB_TRY(rc);
    KB_TRY(make_blocks(e, n_of, n_arms));
    for (size_t a = 0; a < n_arms; a++)
        if (e->arms.of[a] != NULL)
            KB_TRY(load_block(e, e->arms.of[a], r));
out:
    kb_free(n_of);
    return rc;
}

const struct kb_posterior_ops kb_posterior_by_arm_ops = {
    .bytes = sizeof(struct kb_by_arm),
    .init = by_arm_init,
    .close = by_arm_close,
    .held_bytes = by_arm_held_bytes,
    .grow = kb_exact_grow_points,
    .stage_point = by_arm_stage_point,
    .grow_arms = by_arm_grow_arms,
    .bytes_with = by_arm_bytes_with,
    .predict = by_arm_predict,
    .predict_lines = by_arm_predict_lines,
    .influence = by_arm_influence,
    .tells_users = by_arm_tells_users,
    .log_det = by_arm_log_det,
    .width = by_arm_width,
    .closed_evidence = kb_posterior_evidence_as_told,
    .learn_adds_point = by_arm_learn_adds_point,
    .learn = by_arm_learn,
    .reserve_spare = by_arm_reserve_spare,
    .prepare_left = by_arm_prepare_left,
    .take_left = by_arm_take_left,
    .fill = by_arm_fill,
    .n_factors = by_arm_n_factors,
    .look = by_arm_look,
    .find_scales = by_arm_find_scales,
    .digest = by_arm_digest,
    .save = by_arm_save,
    .load = by_arm_load,
};
