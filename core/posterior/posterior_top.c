/* Predictions of many candidates of whom the best are wanted (posterior.h): the mean of each is one product of its
 * kernel values with weights that are the same for all, and only those that can still be among the best get a
 * deviation.
 *
 *   mean(s) = z.V^-1 b = k_Z(s).weight,   weight = A^-T R^-T w              O(m) a candidate in place of O(m^2)
 *   score(s) = mean(s) + beta sd(s) <= mean(s) + slack sqrt(k(s,s)) + beta sqrt(k(s,s)) = most(s)
 *
 * since what is learned never makes a variance larger than the prior's. The candidates of the highest `most` are
 * predicted as all are elsewhere. The n_top-th best score of them is one that the others have to reach, and it rises as
 * they are predicted.
 *
 * Numerical notes. Both means have rounding errors of their own. `slack` is what they may differ by (nystrom_weights),
 * so nobody who is among the best by the usual prediction is left out.
 *
 * Lines of which those on top are wanted are the representation's own affair (post_by_arm.c).
 *
 * Cost: O(C m (dim + 1)), and O(m^2) for each of those predicted; no allocation. */
#include <math.h>

#include "linalg/linalg.h"
#include "posterior/posterior_impl.h"

#define TIE_ROOM 1e-9          /* a thousand times what scores of a tie may differ by */
#define LEAST_CANDIDATES 1024u /* of fewer all are predicted: finding out costs as much as it saves */

struct top {
    const struct kb_posterior *p;
    const struct kb_candidates *cand;
    double beta, *most, *mean, *sd;
    double best[KB_MOST_TOP]; /* scores so far, in descending order; -inf: none */
    size_t n;
};

size_t kb_posterior_top_bytes(const struct kb_posterior *p, size_t n_candidates)
{
    return kb_arena_need(n_candidates) + 2 * kb_arena_need(p->cap) + 8 * kb_arena_need(KB_BLOCK);
}

bool kb_posterior_can_narrow(const struct kb_posterior *p, size_t n_candidates, size_t n_top)
{
    return p->ops->weights != NULL && n_top > 0 && n_top <= KB_MOST_TOP && n_candidates >= LEAST_CANDIDATES &&
           p->support.n > 0;
}

/* Deviations that know open decisions are another posterior's. */
bool kb_posterior_has_lines(const struct kb_posterior *p)
{
    return p->ops->predict_lines != NULL && kb_posterior_of_sd(p) == p;
}

void kb_posterior_predict_lines(const struct kb_posterior *p, const struct kb_candidates *cand, double beta,
                                struct kb_scratch *s, double *mean, double *sd)
{
    p->ops->predict_lines(p, cand, beta, s, mean, sd);
}

static void note(struct top *t, double score)
{
    size_t k = t->n;
    if (!(score > t->best[k - 1]))
        return;
    for (k--; k > 0 && score > t->best[k - 1]; k--)
        t->best[k] = t->best[k - 1];
    t->best[k] = score;
}

void kb_posterior_predict_at(const struct kb_posterior *p, const struct kb_candidates *cand, const size_t *at, size_t n,
                             struct kb_scratch *s, double *mean, double *sd)
{
    const size_t mark = kb_arena_mark(&s->arena);
    const double **features = kb_arena_bytes(&s->arena, n * sizeof *features);
    uint32_t *arms = kb_arena_bytes(&s->arena, n * sizeof *arms);
    uint64_t *stamps = kb_arena_bytes(&s->arena, n * sizeof *stamps);
    double *of_mean = kb_arena_doubles(&s->arena, n), *of_sd = kb_arena_doubles(&s->arena, n);
    struct kb_candidates some = *cand;
    for (size_t i = 0; i < n; i++) {
        features[i] = cand->features[at[i]];
        arms[i] = cand->arms[at[i]];
        stamps[i] = cand->stamps != NULL ? cand->stamps[at[i]] : 0;
    }
    some.n = n;
    some.features = features;
    some.arms = arms;
    some.stamps = stamps;
    kb_posterior_predict(p, &some, s, of_mean, of_sd);
    for (size_t i = 0; i < n; i++) {
        mean[at[i]] = of_mean[i];
        sd[at[i]] = of_sd[i];
    }
    kb_arena_reset(&s->arena, mark);
}

/* They need not be asked for again. */
static void predict_these(struct top *t, const size_t *at, size_t n, struct kb_scratch *s)
{
    if (n == 0)
        return;
    kb_posterior_predict_at(t->p, t->cand, at, n, s, t->mean, t->sd);
    for (size_t i = 0; i < n; i++) {
        t->most[at[i]] = -(double)INFINITY;
        note(t, t->mean[at[i]] + t->beta * t->sd[at[i]]);
    }
}

/* Means of all by one product a block, and what their scores are at most. */
static void bound_all(struct top *t, struct kb_scratch *s)
{
    const struct kb_posterior *p = t->p;
    const size_t mark = kb_arena_mark(&s->arena), m = p->support.n, ld = kb_block_ld(m);
    double *weight = kb_arena_doubles(&s->arena, m), *work = kb_arena_doubles(&s->arena, m);
    double *block = kb_posterior_block(s, m), *diag = kb_arena_doubles(&s->arena, KB_BLOCK), offset;
    const double slack = p->ops->weights(p, weight, work, &offset);
    for (size_t c0 = 0; c0 < t->cand->n; c0 += KB_BLOCK) {
        const size_t n_c = t->cand->n - c0 < KB_BLOCK ? t->cand->n - c0 : KB_BLOCK;
        kb_kernel_block(&p->kernel, &p->support, t->cand, c0, n_c, s, block, ld, diag);
        kb_gemv_t(m, n_c, 1, block, ld, weight, 0, t->mean + c0);
        for (size_t c = 0; c < n_c; c++) {
            t->mean[c0 + c] += offset;
            t->sd[c0 + c] = (double)NAN;
            t->most[c0 + c] = t->mean[c0 + c] + (t->beta + slack) * sqrt(fmax(diag[c], 0));
        }
    }
    kb_arena_reset(&s->arena, mark);
}

/* The n highest of `most`, by a pass that keeps the best so far in order. */
static void find_first(const struct top *t, size_t n, size_t *at)
{
    for (size_t i = 0; i < t->cand->n; i++) {
        size_t k = i < n ? i : n - 1;
        if (i >= n && !(t->most[i] > t->most[at[k]]))
            continue;
        for (; k > 0 && t->most[i] > t->most[at[k - 1]]; k--)
            at[k] = at[k - 1];
        at[k] = i;
    }
}

void kb_posterior_predict_top(const struct kb_posterior *p, const struct kb_candidates *cand, double beta, size_t n_top,
                              struct kb_scratch *s, double *mean, double *sd)
{
    const size_t mark = kb_arena_mark(&s->arena);
    struct top t = {.p = p, .cand = cand, .beta = beta, .mean = mean, .sd = sd, .n = n_top};
    size_t at[KB_BLOCK], n = 0;
    t.most = kb_arena_doubles(&s->arena, cand->n);
    for (size_t i = 0; i < n_top; i++)
        t.best[i] = -(double)INFINITY;
    bound_all(&t, s);
    find_first(&t, KB_BLOCK, at);
    predict_these(&t, at, KB_BLOCK, s);
    for (size_t c = 0; c < cand->n; c++) {
        const double room = TIE_ROOM * (fabs(t.most[c]) + fabs(mean[c])); /* NaN for those that are predicted already */
        if (!(t.most[c] + room >= t.best[n_top - 1]))
            continue;
        at[n++] = c;
        if (n == KB_BLOCK) {
            predict_these(&t, at, n, s);
            n = 0;
        }
    }
    predict_these(&t, at, n, s);
    kb_arena_reset(&s->arena, mark);
}
