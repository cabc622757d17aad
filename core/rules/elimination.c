/* Elimination by levels.
 *
 *   s         level, from 1                                A         candidates still in; at s = 1 all
 *   w_i       beta sd_i: width of candidate i at level s   t         the round: rewards learned, plus one
 *   g         scale, in reward units (1 in the paper, whose rewards lie in [0, 1])
 *
 *   at level s, by the data of level s alone                                            [VK, SupKernelUCB]
 *     w_i <= g / sqrt(t) for all i in A     exploit: argmax of mean_i + w_i; the reward teaches no level
 *     w_i <= g 2^-s      for all i in A     A = {i: mean_i + w_i >= max_j (mean_j + w_j) - 2 g 2^-s}, s = s + 1
 *     otherwise                             explore: the widest i in A; the reward teaches level s
 *
 * Why levels: whether a reward joins the data of level s depends on widths, that is on where that level has looked, and
 * on the rewards of lower levels, never on its own rewards. Hence these are independent given the points, which the
 * regret bound in sqrt(effective dimension) needs; rewards of exploiting rounds would spoil that and are left out.
 *
 * Deviation: sqrt(t) where [VK] has sqrt(T), since no horizon is known here (test:
 * choices_and_levels_are_those_of_one_dense_model_per_level). [VK] leaves open which arm of w_i > 2^-s is played; here
 * it is the widest, drawn for among the tied. Level s is entered with 2^-(s-1) >= w > 1/sqrt(t) somewhere, so s grows
 * as log2(sqrt(t)): KB_MAX_LEVEL = 16 is out of reach of any log before 10^9 rewards, and exploits if it is reached.
 *
 * Cost: per level one prediction of the candidates still in; O(n) besides. */
#include "rules/elimination.h"

#include <assert.h>
#include <math.h>

#include "spec/event.h"
#include "rules/policy.h"

/* Candidates still in, in their original order, and what the level says of them. */
struct alive {
    size_t n, *index;
    uint32_t *arm;
    const double **features;
    uint64_t *stamp;
    double *mean, *sd, *width, *upper; /* width: beta sd; upper: mean + width */
};

size_t kb_elimination_bytes(const struct kb_rule_spec *rule, size_t n)
{
    return kb_rule_reads_levels(rule->type) ? 8 * kb_arena_need(n) : 0;
}

static struct alive all_of(const struct kb_candidates *cand, struct kb_arena *arena)
{
    struct alive a = {.n = cand->n};

    a.index = kb_arena_bytes(arena, a.n * sizeof *a.index);
    a.arm = kb_arena_bytes(arena, a.n * sizeof *a.arm);
    a.features = kb_arena_bytes(arena, a.n * sizeof(double *));
    a.stamp = kb_arena_bytes(arena, a.n * sizeof *a.stamp);
    a.mean = kb_arena_doubles(arena, a.n);
    a.sd = kb_arena_doubles(arena, a.n);
    a.width = kb_arena_doubles(arena, a.n);
    a.upper = kb_arena_doubles(arena, a.n);
    for (size_t i = 0; i < a.n; i++) {
        a.index[i] = i;
        a.arm[i] = cand->arms[i];
        a.features[i] = cand->features != NULL ? cand->features[i] : NULL;
        a.stamp[i] = cand->stamps != NULL ? cand->stamps[i] : 0;
    }
    return a;
}

/* Asks the level's data; what it says stands for the candidates until a later level says otherwise. */
static void look(const struct kb_posterior *p, const struct kb_candidates *cand, uint32_t level, double beta,
                 struct alive *a, struct kb_scratch *s, double *mean, double *sd, uint32_t *asked)
{
    struct kb_candidates here = *cand;

    here.n = a->n;
    here.arms = a->arm;
    here.features = a->features;
    here.stamps = a->stamp;
    here.level = level;
    kb_posterior_predict(p, &here, s, a->mean, a->sd);
    for (size_t i = 0; i < a->n; i++) {
        mean[a->index[i]] = a->mean[i];
        sd[a->index[i]] = a->sd[i];
        asked[a->index[i]] = level;
        a->width[i] = beta * a->sd[i];
        a->upper[i] = a->mean[i] + a->width[i];
    }
}

static size_t largest(const double *value, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (value[i] > value[best])
            best = i;
    return best;
}

/* Leaves out who is lower than `least`; keeps the order. At least one stays: the one that `least` is measured from. */
static void keep_promising(struct alive *a, double least)
{
    size_t kept = 0;

    for (size_t i = 0; i < a->n; i++) {
        if (a->upper[i] < least)
            continue;
        a->index[kept] = a->index[i];
        a->arm[kept] = a->arm[i];
        a->stamp[kept] = a->stamp[i];
        a->features[kept++] = a->features[i];
    }
    assert(kept > 0);
    a->n = kept;
}

/* Alike among those of `a` whose value is the largest; none for who is out. */
static void share(const struct alive *a, const double *value, const double *size, size_t n, double *out)
{
    double *among = a->sd; /* has been read */

    (void)kb_policy_share_best(a->n, value, size, among);
    for (size_t i = 0; i < n; i++)
        out[i] = 0;
    for (size_t i = 0; i < a->n; i++)
        out[a->index[i]] = among[i];
}

/* Either ends or goes on to the next level; the last level always ends. */
uint32_t kb_eliminate(const struct kb_posterior *p, const struct kb_elimination *how, const struct kb_candidates *cand,
                      struct kb_scratch *s, double *mean, double *sd, uint32_t *asked, double *out)
{
    const size_t mark = kb_arena_mark(&s->arena);
    struct alive a = all_of(cand, &s->arena);
    uint32_t level = 1;
    bool explores = false;

    assert(cand->n > 0 && how->round >= 1 && kb_posterior_kernel(p)->has_levels);
    for (;; level++) {
        look(p, cand, level, how->beta, &a, s, mean, sd, asked);
        const double width = a.width[largest(a.width, a.n)], bar = ldexp(how->scale, -(int)level);
        const bool is_narrow = width <= how->scale / sqrt(how->round);

        explores = !is_narrow && width > bar && how->may_explore;
        if (explores || is_narrow || width > bar || level == KB_MAX_LEVEL)
            break;
        keep_promising(&a, a.upper[largest(a.upper, a.n)] - 2 * bar);
    }
    share(&a, explores ? a.width : a.upper, explores ? a.width : a.mean, cand->n, out);
    kb_arena_reset(&s->arena, mark);
    return explores ? level : 0;
}
