/* Terms of a mean by users (teachers.h): one pass over the history, whose rows know their users also where the
 * posterior's points stand for several of them, then the largest of the sums.
 *
 * Numerical notes. A dictionary's mean rests on sums over its rows that were kept up step by step, the terms on the
 * rows as they stand: they agree to rounding times the condition of the dictionary (features.c). */
#include "model/teachers.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "model/engine_state.h"
#include "posterior/influence.h"

#define USER_WORK 50.0 /* of each user of the tenant, whose sums are made and walked over twice: 5 ns */

double kb_teachers_work(const struct kb_engine *e)
{
    return kb_posterior_influence_work(e->posterior, e->history.n) + USER_WORK * (double)e->users.n;
}

/* The candidate alone. */
static void weigh_rows(const struct kb_engine *e, const struct kb_query *q, const struct kb_decision *d, size_t i,
                       struct kb_scratch *s, struct kb_influence *in)
{
    const uint32_t arm = kb_ids_find(&e->arm_ids, d->arm[i]);
    const struct kb_candidates cand = {.user = kb_engine_user_at(e, kb_ids_find(&e->users, q->user)),
                                       .context = q->context,
                                       .n = 1,
                                       .arms = &arm,
                                       .features = d->features + i,
                                       .level = d->asked != NULL ? d->asked[i] : 0};
    kb_posterior_influence(e->posterior, &cand, s, in);
}

static void add_rows(const struct kb_engine *e, const struct kb_influence *in, struct kb_scratch *s,
                     struct kb_teacher *of)
{
    const struct kb_history *h = &e->history;
    for (size_t row = 0; row < h->n; row++) {
        const struct kb_point pt = kb_history_point(h, e->node_of, row);
        const double weight = kb_posterior_row_influence(e->posterior, in, &pt, s);
        if (weight == 0)
            continue;
        const double count = kb_history_count(h, row), sum = kb_history_sum(h, row);
        of[pt.user.index].term += weight * (sum - count * in->prior);
        of[pt.user.index].count += count;
        of[pt.user.index].sum += sum;
    }
}

static bool is_before(const struct kb_teacher *a, const struct kb_teacher *b)
{
    return fabs(a->term) > fabs(b->term) || (fabs(a->term) == fabs(b->term) && a->user < b->user);
}

/* The n largest, by a pass that keeps the best so far in order; another adds up the rest. */
static void keep_largest(struct kb_teacher *of, size_t n_users, size_t n, struct kb_teachers *out)
{
    for (size_t u = 0; u < n_users; u++) {
        if (of[u].count == 0)
            continue;
        of[u].user = (uint32_t)u;
        if (out->n == n && !is_before(&of[u], &out->of[n - 1]))
            continue;
        size_t k = out->n < n ? out->n++ : n - 1;
        for (; k > 0 && is_before(&of[u], &out->of[k - 1]); k--)
            out->of[k] = out->of[k - 1];
        out->of[k] = of[u];
    }
    for (size_t k = 0; k < out->n; k++)
        of[out->of[k].user].count = 0;
    for (size_t u = 0; u < n_users; u++) {
        if (of[u].count == 0)
            continue;
        out->others += of[u].term;
        out->n_others++;
    }
}

enum kb_err kb_teachers_find(const struct kb_engine *e, const struct kb_query *q, const struct kb_decision *d, size_t i,
                             size_t n, struct kb_scratch *s, struct kb_teachers *out)
{
    struct kb_influence in = {.weight = kb_array(kb_posterior_n_support(e->posterior) + 1, 1, sizeof *in.weight)};
    struct kb_teacher *of = kb_array(e->users.n + 1, 1, sizeof *of);
    enum kb_err rc = in.weight != NULL && of != NULL ? KB_OK : KB_ENOMEM;
    assert(n >= 1 && n <= KB_MOST_TEACHERS && i < d->n && !d->is_unasked);
    *out = (struct kb_teachers){.mean = d->mean[i]};
    KB_TRY(rc);
    weigh_rows(e, q, d, i, s, &in);
    add_rows(e, &in, s, of);
    out->prior = in.prior;
    out->tells_users = kb_posterior_tells_users(e->posterior);
    keep_largest(of, e->users.n, n, out);
out:
    kb_free(in.weight);
    kb_free(of);
    return rc;
}
