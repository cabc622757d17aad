/* Refits: a model finds out its own scales from what was rewarded (spec/tuning.h says what, arm_scales.c how).
 *
 * A refit is a reset whose event, `tuned`, carries the values that it puts in force. It falls due at 8, 12, 18, 27, ...
 * rewards, as the fold counts them; a batch that earns one ends there, so the prefix does not depend on how rewards
 * came. It is computed once, by whoever has the tenant, and a fold reads the result. Where the values cannot be
 * computed they stay, and the event says so by equal densities of 0.
 *
 * Until the first refit a model that is to find out all its scales knows nothing of the rewards' unit, so nothing that
 * it could say of them would mean anything: its decisions are uniform (engine_decide.c). */
#include "model/engine_state.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/magnitude.h"
#include "posterior/scale_search.h"
#include "spec/fields.h"

#define EVALUATIONS 60.0         /* of the objective in one refit */
#define MOST_EVALUATION 1e7      /* multiply-adds of one */
#define POINT_WORK 30.0          /* of a point that stands alone: a logarithm, and divisions */
#define FEATURE_EVALUATIONS 20.0 /* over a dictionary of m points, m^3 each */
#define LEAST_POINTS 32.0        /* one that is chosen anew is taken to have twice the points in force, and these */
#define LEAST_SHARE 1e-6         /* of its size; a coordinate whose deviation is no more has not varied */
#define UNVARIED 1e3             /* of its size: its scale then */
#define UNSEEN 1e12              /* the scale of one that was 0 for everybody: what it will be counts as 0 */
#define MOST_SCALED 1e8          /* a coordinate over its scale */
#define RHO_COLUMNS (5 * 256.0)
#define CG_STEPS 20.0

static bool is_tunable(const struct kb_spec *spec)
{
    return spec->is_tuned && spec->learned != 0 && kb_spec_has_prior(spec);
}

static double last_refit(const struct kb_engine *e)
{
    return e->n_tunings > 0 ? e->tuning[e->n_tunings - 1].rewards : 0;
}

bool kb_engine_is_untuned(const struct kb_engine *e)
{
    return is_tunable(&e->spec) && e->n_tunings == 0;
}

bool kb_engine_is_tuned(const struct kb_engine *e)
{
    return is_tunable(&e->spec) && e->n_tunings > 0;
}

bool kb_engine_is_refit_due(const struct kb_engine *e, size_t n_more)
{
    return is_tunable(&e->spec) && !kb_engine_is_rebuilding(e) &&
           e->history.n_observed + (double)n_more >= kb_tuning_next(last_refit(e));
}

struct kb_refit kb_engine_refit(const struct kb_engine *e, uint64_t seq)
{
    return (struct kb_refit){.event = seq - 1,
                             .rewards = e->history.n_observed,
                             .before = last_refit(e),
                             .is_first = e->n_tunings == 0,
                             .sums = e->sums};
}

void kb_engine_keep_tuning(struct kb_engine *e, const struct kb_tuning *t)
{
    if (e->n_tunings == KB_MOST_TUNINGS)
        memmove(e->tuning, e->tuning + 1, --e->n_tunings * sizeof *e->tuning);
    e->tuning[e->n_tunings++] = *t;
}

/* ---- what a search is told ------------------------------------------------------------------------------- */

/* Where no propensity is known: the mean of the arms' means, as if each were drawn as often as any other. KB_ENOMEM. */
static enum kb_err mean_of_arms(const struct kb_history *h, double *mean)
{
    const size_t n_arms = kb_history_n_arms(h);
    double *count = kb_array(2 * n_arms + 1, 1, sizeof *count), *sum, total = 0, n = 0;

    if (count == NULL)
        return KB_ENOMEM;
    sum = count + n_arms;
    for (size_t row = 0; row < h->n; row++) {
        count[h->arm[row]] += kb_history_count(h, row);
        sum[h->arm[row]] += kb_history_sum(h, row);
    }
    for (size_t a = 0; a < n_arms; a++)
        if (count[a] >= KB_LEAST_COUNT) {
            total += sum[a] / count[a];
            n++;
        }
    *mean = n > 0 ? total / n : 0;
    kb_free(count);
    return KB_OK;
}

/* The deviation of each coordinate of the contexts, over what is left of all observations. A coordinate that has not
 * varied yet is made small: what it is like is unknown, and whoever comes first with another value is not to be a
 * stranger to all others. What has ever been seen stays within 1e8 of the scales. Two passes, in the order of the rows:
 * a unit that is a power of two changes no bit but the unit's. O(rows dim).
 */
static void scale_contexts(const struct kb_history *h, size_t dim, double *scale)
{
    for (size_t j = 0; j < dim; j++) {
        double n = 0, sum = 0, square = 0, size = 0, most = 0;

        for (size_t row = 0; row < h->n; row++) {
            const double x = h->x[row * h->dim + j], count = kb_history_count(h, row);

            n += count;
            sum += count * x;
            size += count * (x * x);
            most = fmax(most, fabs(x));
        }
        for (size_t row = 0; row < h->n; row++) {
            const double off = h->x[row * h->dim + j] - sum / n;

            square += kb_history_count(h, row) * (off * off);
        }
        scale[j] = sqrt(square / n);
        if (!(scale[j] > LEAST_SHARE * sqrt(size / n)))
            scale[j] = UNVARIED * sqrt(size / n);
        scale[j] = fmin(fmax(scale[j], most / MOST_SCALED), KB_MOST_MAGNITUDE);
        if (size == 0)
            scale[j] = UNSEEN;
        else if (!(scale[j] >= KB_LEAST_SCALE))
            scale[j] = 1;
    }
}

/* Sums of squares and counts in the unit of the history. */
enum kb_err kb_site_find_scales(const struct kb_site *site, const struct kb_refit *refit, const struct kb_posterior *p,
                                struct kb_spec *spec, struct kb_tuning *out)
{
    const struct kb_history *h = site->history;
    const struct kb_reward_sums *sums = &refit->sums;
    struct kb_scale_search search = {.spec = spec,
                                     .graph = site->graph,
                                     .is_first = refit->is_first,
                                     .looks_for_rho =
                                         refit->is_first || kb_tuning_looks_for_rho(refit->before, refit->rewards),
                                     .range = sums->highest > sums->lowest ? sums->highest - sums->lowest : 1,
                                     .square = sums->square * exp2(sums->halvings - h->unit)};
    const bool has_spaces = kb_spec_finds_spaces(spec) && h->n > 0;
    const bool has_scales = kb_spec_finds_context_scales(spec) && h->n > 0;
    const size_t n_scaled = has_spaces ? spec->spaces.n : has_scales ? spec->context_dim : 0;
    double scale[KB_MOST_SCALED];
    enum kb_err rc = KB_OK;

    for (size_t i = 0; has_spaces && i < n_scaled; i++)
        scale[i] = spec->n_scaled > 0 ? spec->scale[i] : 1;
    if (has_spaces)
        search.found = scale;
    if (has_scales) {
        scale_contexts(h, n_scaled, scale);
        search.scale = scale;
    }
    for (size_t row = 0; row < h->n; row++)
        search.count += kb_history_count(h, row);
    if (sums->weight > 0)
        search.mean = sums->weighted / sums->weight;
    else
        KB_TRY(mean_of_arms(h, &search.mean));
    rc = kb_posterior_find_scales(p, &search, site->scratch, out);
    if (rc == KB_ENOTPD) {
        kb_tuning_take(out, spec);
        out->range = search.range;
        out->before = out->after = 0;
        rc = KB_OK;
    } else if (rc == KB_OK) {
        kb_spec_put_scales(spec, scale, n_scaled);
    }
    KB_TRY(rc);
    out->event = refit->event;
    out->rewards = refit->rewards;
    kb_tuning_put(out, spec);
out:
    return rc;
}

double kb_site_refit_work(const struct kb_site *site, const struct kb_spec *spec, size_t n_support)
{
    const double n = (double)site->history->n;
    double work = EVALUATIONS * fmin(n * n * n, MOST_EVALUATION);

    if (spec->repr.type == KB_REPR_EXACT)
        return EVALUATIONS * POINT_WORK * n;
    if (spec->repr.type == KB_REPR_BY_COMPONENT) { /* and a dictionary of its own to find them with */
        const double least = fmin(2 * (double)n_support + LEAST_POINTS, n * (KB_N_PARTS - 1));
        const double m = fmin(least, (double)spec->repr.max_dictionary);
        return FEATURE_EVALUATIONS * m * m * m + kb_site_work(site, spec, (size_t)m);
    }
    if (kb_user_gram_is_served(&spec->user_kernel, site->graph))
        work += fmin(5 * n, RHO_COLUMNS) * CG_STEPS *
                (double)(kb_graph_n_nodes(site->graph) + 2 * kb_graph_n_edges(site->graph));
    return work;
}
