/* See component_scales.h.
 *
 * The posterior's features are scaled by the variances in force: z = sqrt(v_c(i)) times the feature without. What
 * marginal_features.h wants is without, so sums are divided by sqrt(v_c(i)), and by the product of two for G, which is
 * R R^T - lambda I. A fit moves no logarithm by more than 7, so no more than three digits of G are lost where a
 * variance grows as far as it can.
 *
 *   mean          given (search->mean): what a uniform choice would have earned
 *   variances     by L-BFGS, from those in force; at first from the start values of the fields, times R^2 (R: range of
 *                 the rewards), so that nothing depends on the unit of the rewards
 *   lengthscales  and rho stay: other ones are other features, which no sum tells
 *
 * Priors of the variances: ln(v_j / s2) ~ N(ln r_j, 1.5^2), r = 1 for arms and features, 0.3 for users, 3 for
 * contexts. */
#include "posterior/component_scales.h"

#include <math.h>

#include "base/alloc.h"
#include "posterior/marginal_features.h"

#define ITERATIONS 16u

static const unsigned bit_of[KB_N_PARTS] = {
    0, KB_LEARNED_ARM, KB_LEARNED_FEATURE, KB_LEARNED_USER, KB_LEARNED_CONTEXT, KB_LEARNED_LINEAR};
static const double ratio_of[KB_N_PARTS] = {0, 1, 1, 0.3, 3, 3};

static double *variance_in(struct kb_prior_spec *prior, uint32_t part)
{
    double *const of[KB_N_PARTS] = {NULL, &prior->arm, &prior->feature, &prior->user, &prior->context, &prior->linear};
    return of[part];
}

/* Sums without the variances in force, and which component is which part; all in arrays of one allocation. */
struct gathered {
    struct kb_feature_sums sums;
    double *room, missed[KB_MARGINAL_COMPONENTS];
    uint32_t *component, part[KB_MARGINAL_COMPONENTS];
};

static enum kb_err gather(const struct kb_nystrom *n, const struct kb_scale_search *search, struct kb_scratch *s,
                          struct gathered *g)
{
    const size_t m = n->base.support.n;
    const struct kb_components *of = &n->base.kernel.sum;
    struct kb_prior_spec prior = search->spec->prior;
    uint32_t index[KB_N_PARTS] = {0};
    size_t n_components = 0;
    for (uint32_t part = 1; part < KB_N_PARTS; part++)
        if (of->variance[part] > 0) {
            g->missed[n_components] = n->parts.missed[part] / *variance_in(&prior, part);
            g->part[n_components] = part;
            index[part] = (uint32_t)n_components++;
        }
    g->room = kb_array(m * (m + 3) + 1, 1, sizeof *g->room);
    g->component = kb_array(m + 1, 1, sizeof *g->component);
    if (g->room == NULL || g->component == NULL)
        return KB_ENOMEM;
    double *gram = g->room, *target = gram + m * m, *mass = target + m, *root = mass + m;
    if (m > 0)
        kb_ridge_gram(&n->ridge[0], gram, kb_posterior_block(s, m));
    for (size_t i = 0; i < m; i++) {
        const uint32_t part = n->base.support.part[i];
        root[i] = sqrt(*variance_in(&prior, part));
        g->component[i] = index[part];
        mass[i] = n->parts.mass[i] / root[i];
        target[i] = n->ridge[0].b[i] / root[i] + n->mean * mass[i];
    }
    for (size_t c = 0; c < m; c++)
        for (size_t r = c; r < m; r++)
            gram[c * m + r] /= root[c] * root[r];
    g->sums = (struct kb_feature_sums){.m = m,
                                       .n_components = n_components,
                                       .component = g->component,
                                       .gram = gram,
                                       .ld = m,
                                       .target = target,
                                       .mass = mass,
                                       .count = n->parts.count,
                                       .square = search->square,
                                       .sum = n->parts.sum,
                                       .missed = g->missed};
    return KB_OK;
}

static bool goes_on(void *arg)
{
    return kb_scratch_goes_on(arg, 0);
}

static double in_range(double scale)
{
    return fmin(fmax(scale, KB_LEAST_SCALE), KB_MOST_SCALE);
}

enum kb_err kb_component_scales_find(const struct kb_nystrom *n, const struct kb_scale_search *search,
                                     struct kb_scratch *s, struct kb_tuning *out)
{
    const struct kb_spec *spec = search->spec;
    const double unit = search->is_first ? search->range * search->range : 1;
    const bool learns_mean = spec->learned & KB_LEARNED_MEAN, learns_noise = spec->learned & KB_LEARNED_NOISE;
    struct kb_scales_prior prior = {.spread = 1.5, .range = search->range, .is_noise_fixed = !learns_noise};
    struct kb_scales at = {.mean = learns_mean ? search->mean : spec->prior.mean,
                           .noise = spec->repr.lambda * (learns_noise ? unit : 1)};
    struct gathered g = {.room = NULL};
    const size_t mark = kb_arena_mark(&s->arena);
    enum kb_err rc = gather(n, search, s, &g);
    kb_tuning_take(out, spec);
    out->range = search->range;
    KB_TRY(rc);
    for (size_t j = 0; j < g.sums.n_components; j++) {
        const uint32_t part = g.part[j];
        prior.ratio[j] = ratio_of[part];
        prior.is_fixed[j] = (spec->learned & bit_of[part]) == 0;
        at.variance[j] = *variance_in(&out->prior, part) * (prior.is_fixed[j] ? 1 : unit);
    }
    if (g.sums.n_components == 0)
        goto out;
    KB_TRY(kb_marginal_features_fit(&g.sums, &prior, &at, ITERATIONS, goes_on, s, &out->before, &out->after));
    out->before = -out->before;
    out->after = -out->after;
    out->prior.mean = at.mean;
    out->noise = in_range(at.noise);
    for (size_t j = 0; j < g.sums.n_components; j++)
        *variance_in(&out->prior, g.part[j]) = in_range(at.variance[j]);
out:
    kb_free(g.room);
    kb_free(g.component);
    kb_arena_reset(&s->arena, mark);
    return rc;
}
