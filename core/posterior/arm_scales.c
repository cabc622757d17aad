/* See arm_scales.h.
 *
 * Sample. Of each arm at most `cap` of its points, evenly spread over the order in which they came, with the largest
 * cap whose matrices cost at most MOST_FLOPS to factor once: scales need no more than that, and a search costs the same
 * however long the history is.
 *
 *   mean          given (search->mean): what a uniform choice would have earned
 *   variances     by L-BFGS (kb_marginal_fit), from those in force; at first from the start values of the fields, times
 *                 R^2 (R: range of the rewards), so that nothing depends on the unit of the rewards
 *   lengthscale   of the contexts: the best of a few multiples of the median distance while there are few rewards, then
 *                 of the one in force, each with variances of its own; ln l ~ N(ln median, 1)
 *   rho           of the users' graph, when the search looks for one: the best of RHOS, once there are some rewards of
 *                 its neighbours there, on the rows of at most MOST_USERS users; moved only for a gain of more than
 *                 LEAST_GAIN, since another rho is another inverse of the graph
 *
 *   weights       of the contexts' namespaces, together with the variances, once the lengthscale is found; ln w ~
 *                 N(0, 1.5^2). They cost n^2 context_dim an evaluation, so the sample is smaller
 *
 * Priors of the variances: ln(v_j / s2) ~ N(ln r_j, 1.5^2), r = 1 for arms, 0.1 for users within an arm, 3 for
 * contexts.
 */
#include "posterior/arm_scales.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "posterior/marginal.h"
#include "posterior/space_weights.h"
#include "spec/fields.h"

#define MOST_FLOPS 1e7
#define MOST_ENTRIES 4e6  /* of all matrices of one component */
#define MOST_PRODUCTS 1e7 /* of them and their contexts' coordinates, where weights of namespaces are found */
#define MOST_USERS 256u
#define FEW_REWARDS 150.0
#define LEAST_GAIN 1.0
#define GRAM_TOLERANCE 1e-3 /* of entries, where the diagonal is 1 */
#define WHOLE_FIT 16u       /* iterations of L-BFGS */
#define SHORT_FIT 8u

enum component { ARM, USER, CONTEXT, LINEAR, N_COMPONENTS };

static const unsigned bit_of[N_COMPONENTS] = {KB_LEARNED_ARM, KB_LEARNED_USER, KB_LEARNED_CONTEXT, KB_LEARNED_LINEAR};
static const double ratio_of[N_COMPONENTS] = {1, 0.1, 3, 3};
static const double RHOS[] = {0.03, 0.3, 1, 3};
#define N_RHOS (sizeof RHOS / sizeof *RHOS)
static const double WIDE[] = {0.25, 0.35, 0.5, 0.7, 1, 1.4, 2, 2.8}, NARROW[] = {1, 0.7, 1.4};

/* An arm's part of the sample. */
struct part {
    size_t arm, n;
    uint32_t *point;            /* [n] places in the block */
    double *count, *sum;        /* [n] */
    double *gram[N_COMPONENTS]; /* [n][n] lower triangles; NULL: all ones, or left out */
    double *x;                  /* [n][context_dim] */
    double *raw;                /* the same without weights of namespaces; NULL: none are found */
};

struct sample {
    const struct kb_arm_view_of_points *view;
    const struct kb_scale_search *search;
    struct kb_scratch *scratch;
    struct part *part; /* [n] */
    struct kb_marginal_arm *arm;
    size_t n;
    enum component component[N_COMPONENTS]; /* those that the kernel has */
    size_t n_components;
    struct kb_scales_prior prior;
    double square;
    struct kb_vec_kernel_spec kernel; /* of the contexts, that the matrices are of */
};

static double variance_in(const struct kb_prior_spec *prior, enum component c)
{
    const double of[N_COMPONENTS] = {prior->arm, prior->user, prior->context, prior->linear};
    return of[c];
}

static void put_variance(struct kb_prior_spec *prior, enum component c, double variance)
{
    double *const of[N_COMPONENTS] = {&prior->arm, &prior->user, &prior->context, &prior->linear};
    *of[c] = variance;
}

/* --- the sample -------------------------------------------------------------------------------------------- */

static size_t points_of(const struct kb_arm_view_of_points *v, size_t a)
{
    return v->block[a] != NULL ? v->block[a]->n : 0;
}

static size_t find_cap(const struct kb_arm_view_of_points *v, bool has_weights)
{
    const double most = has_weights ? MOST_PRODUCTS / (double)v->p->kernel.context_dim : MOST_ENTRIES;
    size_t cap = 1;
    for (size_t a = 0; a < v->n_arms; a++)
        cap = points_of(v, a) > cap ? points_of(v, a) : cap;
    for (;; cap -= cap / 8 + 1) {
        double flops = 0, entries = 0;
        for (size_t a = 0; a < v->n_arms; a++) {
            const double n = (double)(points_of(v, a) < cap ? points_of(v, a) : cap);
            flops += n * n * n;
            entries += n * n;
        }
        if (cap <= 2 || (flops <= MOST_FLOPS && entries <= most))
            return cap;
    }
}

static void free_part(const struct part *part)
{
    kb_free(part->point);
    kb_free(part->count);
    kb_free(part->sum);
    kb_free(part->x);
    kb_free(part->raw);
    for (size_t c = 0; c < N_COMPONENTS; c++)
        kb_free(part->gram[c]);
}

static void free_sample(struct sample *m)
{
    for (size_t i = 0; i < m->n; i++)
        free_part(&m->part[i]);
    kb_free(m->part);
    kb_free(m->arm);
    m->n = 0;
}

/* From the scales in force to those that are found for. */
static void rescale(const struct kb_scale_search *search, size_t dim, size_t n, double *x)
{
    for (size_t j = 0; search->scale != NULL && j < dim; j++) {
        const double ratio = (search->spec->n_scaled > 0 ? search->spec->scale[j] : 1) / search->scale[j];
        for (size_t i = 0; i < n; i++)
            x[i * dim + j] *= ratio;
    }
}

/* Contexts as they come, from those of the scales in force. */
static enum kb_err take_raw(const struct kb_spec *spec, size_t dim, struct part *part)
{
    double scale[KB_MOST_SPACED_DIM];
    const size_t n_scaled = kb_spec_expand_scales(spec, scale);

    part->raw = kb_array(part->n * dim + 1, 1, sizeof *part->raw);
    if (part->raw == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < part->n * dim; i++)
        part->raw[i] = part->x[i] * (n_scaled > 0 ? scale[i % dim] : 1);
    return KB_OK;
}

static enum kb_err take_part(struct sample *m, size_t a, size_t n)
{
    const struct kb_arm_view_of_points *v = m->view;
    const struct kb_arm_block *b = v->block[a];
    const size_t dim = v->p->kernel.context_dim;
    struct part *part = &m->part[m->n];
    *part = (struct part){.arm = a,
                          .n = n,
                          .point = kb_array(n, 1, sizeof *part->point),
                          .count = kb_array(n, 1, sizeof *part->count),
                          .sum = kb_array(n, 1, sizeof *part->sum),
                          .x = kb_array(n * dim + 1, 1, sizeof *part->x)};
    m->n++;
    if (part->point == NULL || part->count == NULL || part->sum == NULL || part->x == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const size_t at = i * b->n / n;
        part->point[i] = (uint32_t)at;
        part->count[i] = v->count[b->support[at]];
        part->sum[i] = v->sum[b->support[at]];
        if (dim > 0)
            memcpy(part->x + i * dim, b->x + at * dim, dim * sizeof *part->x);
    }
    rescale(m->search, dim, n, part->x);
    m->arm[m->n - 1] = (struct kb_marginal_arm){n, part->count, part->sum};
    return m->search->found != NULL ? take_raw(m->search->spec, dim, part) : KB_OK;
}

/* The scatter within points is known of all rewards together; a sample has its share of it, by its rewards beyond one a
 * point. */
static double square_of(const struct sample *m)
{
    const struct kb_arm_view_of_points *v = m->view;
    double count = 0, explained = 0, spare = 0, own_explained = 0, own_spare = 0;
    for (size_t a = 0; a < v->n_arms; a++)
        for (size_t i = 0; i < points_of(v, a); i++) {
            const uint32_t at = v->block[a]->support[i];
            count += v->count[at];
            explained += v->sum[at] * v->sum[at] / v->count[at];
            spare += fmax(v->count[at] - 1, 0);
        }
    for (size_t i = 0; i < m->n; i++)
        for (size_t j = 0; j < m->part[i].n; j++) {
            own_explained += m->part[i].sum[j] * m->part[i].sum[j] / m->part[i].count[j];
            own_spare += fmax(m->part[i].count[j] - 1, 0);
        }
    const double held = m->search->count > count ? m->search->square * count / m->search->count : m->search->square;
    const double scatter = fmax(held - explained, 0);
    return own_explained + (spare > 0 ? scatter * own_spare / spare : 0);
}

static enum kb_err take_sample(struct sample *m)
{
    const struct kb_arm_view_of_points *v = m->view;
    const size_t cap = find_cap(v, m->search->found != NULL);
    size_t n_arms = 0;
    enum kb_err rc = KB_OK;
    for (size_t a = 0; a < v->n_arms; a++)
        n_arms += points_of(v, a) > 0;
    m->part = kb_array(n_arms + 1, 1, sizeof *m->part);
    m->arm = kb_array(n_arms + 1, 1, sizeof *m->arm);
    if (m->part == NULL || m->arm == NULL)
        return KB_ENOMEM;
    for (size_t a = 0; a < v->n_arms; a++)
        if (points_of(v, a) > 0)
            KB_TRY(take_part(m, a, points_of(v, a) < cap ? points_of(v, a) : cap));
    m->square = square_of(m);
out:
    return rc;
}

/* --- Gram matrices ----------------------------------------------------------------------------------------- */

/* Lower triangle over the part's contexts, column by column; NULL: linear. */
static void put_contexts(const struct kb_vec_kernel_spec *kernel, size_t dim, struct part *part, double *gram)
{
    const size_t n = part->n;
    for (size_t j = 0; j < n; j++)
        kb_arm_kernel_contexts(kernel, dim, part->x + j * dim, n - j, part->x + j * dim, gram + j * n + j);
}

static void put_users(const struct sample *m, struct part *part, double *row)
{
    const struct kb_arm_block *b = m->view->block[part->arm];
    const struct kb_posterior *p = m->view->p;
    const size_t n = part->n, mark = kb_arena_mark(&m->scratch->arena);
    uint32_t *anchor = kb_arena_bytes(&m->scratch->arena, n * sizeof *anchor);
    for (size_t i = 0; i < n; i++)
        anchor[i] = b->anchor[part->point[i]];
    for (size_t j = 0; j < n; j++) {
        const struct kb_user user = p->support.user[b->support[part->point[j]]];
        kb_user_kernel_row_at(p->kernel.user, user, kb_posterior_user_diag(p, user, m->scratch), anchor + j, n - j,
                              row + j * n + j);
    }
    kb_arena_reset(&m->scratch->arena, mark);
}

/* All but the arm's own, which is one everywhere. */
static enum kb_err put_grams(struct sample *m, const struct kb_vec_kernel_spec *context, unsigned which)
{
    const size_t dim = m->view->p->kernel.context_dim;
    m->kernel = *context;
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k < m->n_components; k++) {
            struct part *part = &m->part[i];
            const enum component c = m->component[k];
            if (c == ARM || (which >> c & 1) == 0)
                continue;
            if (part->gram[c] == NULL)
                part->gram[c] = kb_array(part->n * part->n, 1, sizeof(double));
            if (part->gram[c] == NULL)
                return KB_ENOMEM;
            if (c == USER)
                put_users(m, part, part->gram[c]);
            else
                put_contexts(c == CONTEXT ? context : NULL, dim, part, part->gram[c]);
        }
    return KB_OK;
}

static void give_gram(const void *of, size_t a, double *const *out)
{
    const struct sample *m = of;
    const size_t entries = m->part[a].n * m->part[a].n;
    for (size_t k = 0; k < m->n_components; k++) {
        const double *gram = m->part[a].gram[m->component[k]];
        if (gram != NULL)
            memcpy(out[k], gram, entries * sizeof *gram);
        else
            for (size_t i = 0; i < entries; i++)
                out[k][i] = 1;
    }
}

/* Contexts and their matrices under other weights. */
static void weigh(const void *of, const double *weight)
{
    const struct sample *m = of;
    const size_t dim = m->view->p->kernel.context_dim;
    for (size_t i = 0; i < m->n; i++) {
        struct part *part = &m->part[i];
        kb_spaces_weigh(&m->search->spec->spaces, weight, dim, part->n, part->raw, part->x);
        if (part->gram[CONTEXT] != NULL)
            put_contexts(&m->kernel, dim, part, part->gram[CONTEXT]);
        if (part->gram[LINEAR] != NULL)
            put_contexts(NULL, dim, part, part->gram[LINEAR]);
    }
}

static void add_slope(const void *of, size_t a, const struct kb_scales *at, const double *matrix, size_t ld,
                      double *out)
{
    const struct sample *m = of;
    const struct part *part = &m->part[a];
    struct kb_spaces_part p = {.n = part->n,
                               .dim = m->view->p->kernel.context_dim,
                               .x = part->x,
                               .lengthscale = m->kernel.lengthscale,
                               .gram = part->gram[CONTEXT]};
    for (size_t k = 0; k < m->n_components; k++) {
        p.context = m->component[k] == CONTEXT ? at->variance[k] : p.context;
        p.linear = m->component[k] == LINEAR ? at->variance[k] / (double)p.dim : p.linear;
    }
    kb_spaces_slope(&m->search->spec->spaces, &p, matrix, ld, out);
}

static struct kb_marginal_rows rows_of(const struct sample *m)
{
    return (struct kb_marginal_rows){.n_arms = m->n,
                                     .arm = m->arm,
                                     .n_components = m->n_components,
                                     .square = m->square,
                                     .gram = give_gram,
                                     .of = m,
                                     .n_weights = m->prior.are_weights_free ? m->search->spec->spaces.n : 0,
                                     .weigh = weigh,
                                     .slope = add_slope};
}

/* --- the search -------------------------------------------------------------------------------------------- */

static bool goes_on(void *arg)
{
    return kb_scratch_goes_on(arg, 0);
}

static enum kb_err fit(const struct sample *m, struct kb_scales *at, size_t n_most, double *before, double *after)
{
    const struct kb_marginal_rows rows = rows_of(m);
    return kb_marginal_fit(&rows, &m->prior, at, n_most, goes_on, m->scratch, before, after);
}

static bool is_learned(const struct sample *m, unsigned bit)
{
    return (m->search->spec->learned & bit) != 0;
}

static bool has_component(const struct sample *m, enum component c)
{
    for (size_t k = 0; k < m->n_components; k++)
        if (m->component[k] == c)
            return true;
    return false;
}

/* Which components there are, their priors, and where the search begins. */
static void begin(struct sample *m, struct kb_scales *at)
{
    const struct kb_spec *spec = m->search->spec;
    const struct kb_arm_kernel *kernel = m->view->kernel;
    const double held[N_COMPONENTS] = {kernel->arm, kernel->user, kernel->context, kernel->linear};
    const double square = m->search->range * m->search->range;
    const bool is_first = m->search->is_first;
    m->prior = (struct kb_scales_prior){
        .spread = 1.5, .range = m->search->range, .is_noise_fixed = !is_learned(m, KB_LEARNED_NOISE)};
    *at = (struct kb_scales){.mean = is_learned(m, KB_LEARNED_MEAN) ? m->search->mean : spec->prior.mean,
                             .noise = spec->repr.lambda * (is_first && !m->prior.is_noise_fixed ? square : 1)};
    for (uint32_t g = 0; g < spec->spaces.n; g++)
        at->weight[g] = spec->n_scaled > 0 ? 1 / (spec->scale[g] * spec->scale[g]) : 1;
    for (enum component c = ARM; c < N_COMPONENTS; c++) {
        if (!(held[c] > 0))
            continue;
        const size_t k = m->n_components++;
        const bool is_fixed = !is_learned(m, bit_of[c]);
        m->component[k] = c;
        m->prior.ratio[k] = ratio_of[c];
        m->prior.is_fixed[k] = is_fixed;
        at->variance[k] = variance_in(&spec->prior, c) * (is_first && !is_fixed ? square : 1);
    }
}

/* The median distance of the sample's contexts; by at most 512 of them. */
static enum kb_err median_context(const struct sample *m, double *out)
{
    const size_t dim = m->view->p->kernel.context_dim;
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->part[i].n;
    double *x = kb_array(n * dim + 1, 1, sizeof *x);
    if (x == NULL)
        return KB_ENOMEM;
    n = 0;
    for (size_t i = 0; i < m->n; i++) {
        memcpy(x + n * dim, m->part[i].x, m->part[i].n * dim * sizeof *x);
        n += m->part[i].n;
    }
    const enum kb_err rc = kb_arm_kernel_median(n, dim, x, out);
    kb_free(x);
    return rc;
}

/* The best lengthscale and the variances there: *at, *after and the matrices of contexts are those. */
static enum kb_err search_lengthscale(struct sample *m, double *lengthscale, struct kb_scales *at, double *after)
{
    struct kb_vec_kernel_spec kernel = m->search->spec->context_kernel;
    const bool is_wide = m->search->is_first || m->search->count < FEW_REWARDS;
    const double *times = is_wide ? WIDE : NARROW;
    const size_t n = is_wide ? sizeof WIDE / sizeof *WIDE : sizeof NARROW / sizeof *NARROW;
    const struct kb_scales start = *at;
    double median = 1, best = HUGE_VAL, drop;
    enum kb_err rc = KB_OK;
    KB_TRY(median_context(m, &median));
    const double centre = is_wide ? median : *lengthscale;
    for (size_t i = 0; i < n; i++) {
        struct kb_scales tried = start;
        double value;
        kernel.lengthscale = fmin(fmax(centre * times[i], KB_LEAST_SCALE), KB_MOST_SCALE);
        KB_TRY(put_grams(m, &kernel, 1u << CONTEXT));
        rc = fit(m, &tried, SHORT_FIT, &drop, &value);
        if (rc == KB_ENOTPD)
            continue; /* some other will do */
        KB_TRY(rc);
        const double away = log(kernel.lengthscale / median);
        if (value + away * away / 2 < best) {
            best = value + away * away / 2;
            *lengthscale = kernel.lengthscale;
            *at = tried;
        }
    }
    rc = isfinite(best) ? KB_OK : KB_ENOTPD;
    KB_TRY(rc);
    kernel.lengthscale = *lengthscale;
    KB_TRY(put_grams(m, &kernel, 1u << CONTEXT));
    KB_TRY(fit(m, at, SHORT_FIT, &drop, after));
out:
    return rc;
}

/* Weights of namespaces, and once more the variances. What is gained is taken off *after. */
static enum kb_err search_weights(struct sample *m, struct kb_scales *at, double *after)
{
    double before, value;
    m->prior.are_weights_free = true;
    const enum kb_err rc = fit(m, at, WHOLE_FIT, &before, &value);
    m->prior.are_weights_free = false;
    weigh(m, at->weight);
    if (rc != KB_OK)
        return rc;
    *after -= before - value;
    for (uint32_t g = 0; g < m->search->spec->spaces.n; g++)
        m->search->found[g] = fmin(fmax(1 / sqrt(at->weight[g]), KB_LEAST_SCALE), KB_MOST_SCALE);
    return KB_OK;
}

/* --- rho --- */

/* Keeps the points of the first MOST_USERS users alone. users: they; of[i]: of the i-th point of the sample left. */
static enum kb_err keep_users(struct sample *m, struct kb_user *users, size_t *n_users, uint32_t **of)
{
    const struct kb_posterior *p = m->view->p;
    size_t n = 0, n_parts = 0, total = 0;
    for (size_t i = 0; i < m->n; i++)
        total += m->part[i].n;
    uint32_t *at = kb_array(total + 1, 1, sizeof *at);
    if (at == NULL)
        return KB_ENOMEM;
    *n_users = 0;
    for (size_t i = 0; i < m->n; i++) {
        struct part part = m->part[i];
        const struct kb_arm_block *b = m->view->block[part.arm];
        size_t n_kept = 0;
        for (size_t j = 0; j < part.n; j++) {
            const struct kb_user user = p->support.user[b->support[part.point[j]]];
            size_t u = 0;
            while (u < *n_users && users[u].index != user.index)
                u++;
            if (u == MOST_USERS)
                continue;
            if (u == *n_users)
                users[(*n_users)++] = user;
            part.point[n_kept] = part.point[j];
            part.count[n_kept] = part.count[j];
            part.sum[n_kept] = part.sum[j];
            memmove(part.x + n_kept * p->kernel.context_dim, part.x + j * p->kernel.context_dim,
                    p->kernel.context_dim * sizeof *part.x);
            n_kept++;
            at[n++] = (uint32_t)u;
        }
        part.n = n_kept;
        if (n_kept == 0) {
            free_part(&part);
            continue;
        }
        m->part[n_parts] = part;
        m->arm[n_parts++] = (struct kb_marginal_arm){part.n, part.count, part.sum};
    }
    m->n = n_parts;
    m->square = square_of(m);
    *of = at;
    return KB_OK;
}

static void put_users_of(struct sample *m, const double *gram, size_t n_users, const uint32_t *of)
{
    for (size_t i = 0; i < m->n; i++) {
        struct part *part = &m->part[i];
        for (size_t j = 0; j < part->n; j++)
            for (size_t k = j; k < part->n; k++)
                part->gram[USER][j * part->n + k] = gram[(size_t)of[j] * n_users + of[k]];
        of += part->n;
    }
}

/* E of the sample under the kernel of `rho`, variances as they are; moves them when asked. */
static enum kb_err try_rho(struct sample *m, double rho, const struct kb_user *users, size_t n_users,
                           const uint32_t *of, double *gram, struct kb_scales *at, size_t n_most, double *after)
{
    struct kb_user_kernel_spec spec = m->search->spec->user_kernel;
    double before;
    spec.rho = rho;
    enum kb_err rc = kb_user_gram(&spec, m->search->graph, users, n_users, GRAM_TOLERANCE, gram);
    if (rc != KB_OK)
        return rc;
    put_users_of(m, gram, n_users, of);
    return fit(m, at, n_most, &before, after);
}

static bool searches_rho(const struct sample *m)
{
    return m->search->looks_for_rho && is_learned(m, KB_LEARNED_RHO) && has_component(m, USER) &&
           kb_user_gram_is_served(&m->search->spec->user_kernel, m->search->graph);
}

/* The values beside the present one, or all of them as long as there are few rewards. */
static bool is_tried(const struct sample *m, double present, size_t i)
{
    const bool is_next = (i == 0 || RHOS[i - 1] <= present) && (i == N_RHOS - 1 || RHOS[i + 1] >= present);
    return RHOS[i] != present && (is_next || m->search->is_first || m->search->count < FEW_REWARDS);
}

/* The best rho with variances there; what it gains is taken off *after. The sample is smaller afterwards. */
static enum kb_err search_rho(struct sample *m, const struct kb_vec_kernel_spec *context, double *rho,
                              struct kb_scales *at, double *after)
{
    struct kb_user *users = kb_array(MOST_USERS, 1, sizeof *users);
    struct kb_scales best_at = *at;
    uint32_t *of = NULL;
    double *gram = NULL, present, best = HUGE_VAL, best_rho = *rho;
    size_t n_users = 0;
    enum kb_err rc = users != NULL ? KB_OK : KB_ENOMEM;
    KB_TRY(rc);
    KB_TRY(keep_users(m, users, &n_users, &of));
    KB_TRY(put_grams(m, context, 1u << CONTEXT | 1u << LINEAR));
    gram = kb_array(n_users * n_users + 1, 1, sizeof *gram);
    rc = gram != NULL ? KB_OK : KB_ENOMEM;
    KB_TRY(rc);
    struct kb_scales present_at = *at;
    KB_TRY(try_rho(m, *rho, users, n_users, of, gram, &present_at, SHORT_FIT, &present));
    for (size_t i = 0; i < N_RHOS; i++) {
        struct kb_scales tried = *at;
        double value;
        rc = !is_tried(m, *rho, i) ? KB_ENOTPD
                                   : try_rho(m, RHOS[i], users, n_users, of, gram, &tried, SHORT_FIT, &value);
        if (rc == KB_ENOTPD)
            continue;
        KB_TRY(rc);
        if (value < best) {
            best = value;
            best_rho = RHOS[i];
            best_at = tried;
        }
    }
    rc = KB_OK;
    if (best < present - LEAST_GAIN) {
        *rho = best_rho;
        *at = best_at;
        *after -= present - best;
    }
out:
    kb_free(users);
    kb_free(gram);
    kb_free(of);
    return rc;
}

/* --- the whole ------------------------------------------------------------------------------------------------- */

enum kb_err kb_arm_scales_find(const struct kb_arm_view_of_points *view, const struct kb_scale_search *search,
                               struct kb_scratch *s, struct kb_tuning *out)
{
    struct sample m = {.view = view, .search = search, .scratch = s};
    struct kb_vec_kernel_spec context = search->spec->context_kernel;
    struct kb_scales at;
    double drop = 0;
    enum kb_err rc = take_sample(&m);
    kb_tuning_take(out, search->spec);
    out->range = search->range;
    KB_TRY(rc);
    begin(&m, &at);
    if (m.n == 0 || m.n_components == 0)
        goto out;
    KB_TRY(put_grams(&m, &context, 1u << USER | 1u << CONTEXT | 1u << LINEAR));
    KB_TRY(fit(&m, &at, has_component(&m, CONTEXT) ? 0 : WHOLE_FIT, &out->before, &out->after));
    if (has_component(&m, CONTEXT) && is_learned(&m, KB_LEARNED_LENGTHSCALE)) {
        KB_TRY(search_lengthscale(&m, &out->lengthscale, &at, &out->after));
        context.lengthscale = out->lengthscale;
    } else if (has_component(&m, CONTEXT)) {
        KB_TRY(fit(&m, &at, WHOLE_FIT, &drop, &out->after));
    }
    if (search->found != NULL && (has_component(&m, CONTEXT) || has_component(&m, LINEAR)))
        KB_TRY(search_weights(&m, &at, &out->after));
    if (searches_rho(&m))
        KB_TRY(search_rho(&m, &context, &out->rho, &at, &out->after));
    out->before = -out->before;
    out->after = -out->after;
    out->prior.mean = at.mean;
    out->noise = fmin(fmax(at.noise, KB_LEAST_SCALE), KB_MOST_SCALE);
    for (size_t k = 0; k < m.n_components; k++)
        put_variance(&out->prior, m.component[k], fmin(fmax(at.variance[k], KB_LEAST_SCALE), KB_MOST_SCALE));
out:
    free_sample(&m);
    return rc;
}
