/* What a reset puts in place of the posterior in force: an empty one for the coming values, and its dictionary.
 *
 * Three ways to the dictionary, by what the representation is and what is known of the variances:
 *
 *   kors, threshold   the rows in order, each against those admitted before it (nystrom_build.c)
 *   bkb, bbkb         drawn from the variances of the posterior in force (nystrom_resample.c)  [BKB, Alg. 1]
 *   bkb, bbkb under a kernel, graph or ridge that was not in force: from those of a pilot
 *
 * A resampling comes with every batch of rewards under bkb, so what it can keep it keeps: the values of the user kernel
 * are shared with the posterior in force, which costs O(1) where a dense graph would cost O(n^3). Only live engines
 * choose; a fold is told by the event and comes for the empty posterior alone. */
#include "model/build.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "posterior/learning.h"

#define KERNEL_WORK 20.0 /* a kernel value's exponential, in multiply-adds */
#define CG_STEPS 20.0    /* of conjugate gradients for a column of a large graph */
#define NEAR_WORK 2e6    /* multiply-adds of a column with a tolerance, in the time that its cache misses take */
#define LEAST_SUPPORT 64u

static int compare_hashes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Points of the history that differ to the kernel (by 64-bit hash): what an exact posterior would hold. */
static enum kb_err count_distinct(const struct kb_site *site, const struct kb_kernel *kernel, size_t *n)
{
    const struct kb_history *h = site->history;
    uint64_t *hash = kb_array(h->n + 1, 1, sizeof *hash);
    size_t n_left = 0; /* rows of which anything is left */

    if (hash == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < h->n; i++) {
        if (!(kb_history_count(h, i) >= KB_LEAST_COUNT))
            continue;
        const uint32_t user = h->user[i];
        const struct kb_point pt = {
            .user = {.index = user, .node = site->node_of[user]}, .arm = h->arm[i], .x = h->x + i * h->dim};

        hash[n_left++] = kb_kernel_hash(kernel, &pt);
    }
    qsort(hash, n_left, sizeof *hash, compare_hashes);
    *n = n_left > 0;
    for (size_t i = 1; i < n_left; i++)
        *n += hash[i] != hash[i - 1];
    kb_free(hash);
    return KB_OK;
}

bool kb_spec_outgrows_exact(const struct kb_spec *spec, size_t n)
{
    return spec->repr.type == KB_REPR_EXACT && n > spec->repr.exact_limit && !kb_rule_reads_levels(spec->rule.type) &&
           !kb_spec_is_unbounded(spec);
}

/* An empty posterior for spec, its user kernel learned from the history where it is one of those. */
static enum kb_err open_new(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior **out)
{
    const struct kb_graph *graph = kb_user_kernel_reads_graph(spec->user_kernel.type) ? site->graph : NULL;
    enum kb_err rc = kb_posterior_new(out, spec, graph, site->history->key);

    if (rc == KB_OK)
        rc = kb_posterior_learn_users(*out, site->history);
    if (rc == KB_OK)
        return KB_OK;
    kb_posterior_free(*out);
    *out = NULL;
    return rc;
}

static bool shares_users(const struct kb_site *site, const struct kb_spec *spec)
{
    const struct kb_spec parts = kb_spec_of_parts(spec, site->graph != NULL);

    return site->users != NULL && kb_repr_is_of_components(spec->repr.type) &&
           kb_user_kernel_is_of(kb_posterior_kernel(site->users)->user, &parts.user_kernel);
}

/* The values of a user kernel that stays are shared: over a dense graph they cost O(n^3). */
enum kb_err kb_site_open_as(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior **out)
{
    *out = NULL;
    if (site->like != NULL || shares_users(site, spec))
        return kb_posterior_new_like(out, spec, site->like != NULL ? site->like : site->users);
    return open_new(site, spec, out);
}

enum kb_err kb_site_open(const struct kb_site *site, struct kb_spec *spec, struct kb_posterior **out)
{
    size_t n = 0;
    enum kb_err rc = kb_site_open_as(site, spec, out);

    if (rc != KB_OK || !kb_spec_outgrows_exact(spec, site->history->n))
        return rc;
    KB_TRY(count_distinct(site, kb_posterior_kernel(*out), &n));
    if (kb_spec_outgrows_exact(spec, n)) {
        kb_posterior_free(*out);
        *out = NULL;
        spec->repr.type = KB_REPR_KORS;
        kb_spec_drop_unserved_confidence(spec);
        KB_TRY(open_new(site, spec, out));
    }
out:
    return rc;
}

/* Where the variances of the posterior in force are those of another kernel: a pilot dictionary is drawn from the
 * prior's, which are never too small, and the one that stays from what the pilot knows. */
static enum kb_err resample_by_pilot(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior *p,
                                     struct kb_atom **rows, size_t *n)
{
    struct kb_posterior *pilot = NULL;
    enum kb_err rc = KB_OK;

    KB_TRY(kb_user_kernel_is_learned(spec->user_kernel.type) ? open_new(site, spec, &pilot)
                                                             : kb_posterior_new_like(&pilot, spec, p));
    KB_TRY(kb_posterior_resample(pilot, pilot, site->history, site->node_of, ~site->key, site->scratch, rows, n));
    KB_TRY(kb_posterior_fill(pilot, site->history, site->node_of, *rows, *n, site->scratch));
    kb_free(*rows);
    *rows = NULL;
    KB_TRY(kb_posterior_resample(p, pilot, site->history, site->node_of, site->key, site->scratch, rows, n));
out:
    kb_posterior_free(pilot);
    return rc;
}

enum kb_err kb_site_choose(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior *p,
                           struct kb_atom **rows, size_t *n)
{
    enum kb_err rc = kb_posterior_fit_scratch(p, site->scratch, 0);

    if (rc != KB_OK)
        return rc;
    if (!kb_repr_is_resampled(spec->repr.type))
        return kb_posterior_choose(p, site->history, site->node_of, site->key, site->scratch, rows, n);
    if (site->like == NULL)
        return resample_by_pilot(site, spec, p, rows, n);
    return kb_posterior_resample(p, site->like, site->history, site->node_of, site->key, site->scratch, rows, n);
}

enum kb_err kb_site_open_filled(const struct kb_site *site, const struct kb_spec *spec, struct kb_posterior **out)
{
    struct kb_posterior *p = NULL;
    struct kb_atom *rows = NULL;
    size_t n = 0;
    enum kb_err rc = kb_site_open_as(site, spec, &p);

    KB_TRY(rc);
    KB_TRY(kb_site_choose(site, spec, p, &rows, &n));
    KB_TRY(kb_posterior_fill(p, site->history, site->node_of, rows, n, site->scratch));
    *out = p;
    p = NULL;
out:
    kb_free(rows);
    kb_posterior_free(p);
    return rc;
}

/* Of a user kernel that is new: a small graph is inverted, over a large one each point may want a column. */
static double kernel_work(const struct kb_site *site, const struct kb_spec *spec, double n_points)
{
    if (site->graph == NULL || site->like != NULL || shares_users(site, spec) ||
        !kb_user_kernel_reads_graph(spec->user_kernel.type))
        return 0;
    const double n = (double)kb_graph_n_nodes(site->graph);
    const double whole = CG_STEPS * (n + 2 * (double)kb_graph_n_edges(site->graph));
    if (n <= KB_GRAPH_DENSE_MAX)
        return n * n * n;
    return n_points * (spec->user_kernel.tolerance > 0 && whole > NEAR_WORK ? NEAR_WORK : whole);
}

/* Arms have at most as many points as rows. */
static double by_arm_work(const struct kb_site *site, const struct kb_spec *spec, double value)
{
    const struct kb_history *h = site->history;
    double work = 0, *n_of = kb_array(kb_history_n_arms(h) + 1, 1, sizeof *n_of);

    if (n_of == NULL)
        return (double)INFINITY; /* a worker may find the memory later */
    for (size_t row = 0; row < h->n; row++)
        if (n_of[h->arm[row]] < (double)spec->repr.exact_limit)
            work += value * n_of[h->arm[row]] + n_of[h->arm[row]] * n_of[h->arm[row]], n_of[h->arm[row]]++;
    kb_free(n_of);
    return work;
}

/* An exact model factors its points; a dictionary maps and adds every row. */
double kb_site_work(const struct kb_site *site, const struct kb_spec *spec, size_t n_support)
{
    const double n = (double)site->history->n, value = (double)site->history->dim + KERNEL_WORK;
    double m = n_support > LEAST_SUPPORT ? (double)n_support : LEAST_SUPPORT;

    if (kb_spec_is_diagonal(spec))
        return n * value;
    if (spec->repr.type == KB_REPR_BY_ARM)
        return kernel_work(site, spec, n) + by_arm_work(site, spec, value);
    if (spec->repr.type == KB_REPR_EXACT && n <= (double)spec->repr.exact_limit)
        return kernel_work(site, spec, n) + n * n * (n / 3 + value);
    m = m > (double)spec->repr.max_dictionary ? (double)spec->repr.max_dictionary : m;
    m = fmin(m, spec->repr.type == KB_REPR_BY_COMPONENT ? n * (KB_N_PARTS - 1) : n);
    return kernel_work(site, spec, m) + n * m * (3 * m + value);
}
