/* What an experiment says now: see experiment.h. A function of the sums; sums are of rewards in [0, 1], what is told is
 * in units of a reward. */
#include <math.h>
#include <string.h>

#include "book/experiment_impl.h"

#define SLOW_EPSILON 0.3
#define SLOW_REACH 0.85 /* of two arms under that epsilon */

static double width(const struct ld_experiment *e)
{
    return e->begun.high - e->begun.low;
}

static double log_inverse(const struct ld_experiment *e)
{
    return log(2 * (double)ld_experiment_n_sentences(e) / e->begun.level);
}

/* --- arms -------------------------------------------------------------------------------------------------- */

void ld_experiment_show_side(const struct kb_shown *s, double alpha, double zero, double width,
                             struct ld_experiment_side *out)
{
    kb_shown_interval(s, alpha, &out->low, &out->high);
    out->n = s->n;
    out->mean = s->n > 0 ? zero + width * (s->reward / (double)s->n) : (double)NAN;
    out->low = zero + width * out->low;
    out->high = zero + width * out->high;
}

/* Mean and deviation of what the policy earned by the arm, with half a reward of 0 and half a one of 1 beside it. */
static void weigh_arm(const struct ld_arm_sums *s, double *mean, double *sd)
{
    const double n = (double)s->shown[LD_SIDE_POLICY].n + 1;
    const double square = (s->square[LD_SIDE_POLICY] + 0.5) / n;

    *mean = (s->shown[LD_SIDE_POLICY].reward + 0.5) / n;
    *sd = sqrt(fmax(square - *mean * *mean, 0) / n);
}

/* All means hold at once at the level. */
static void show_arms(const struct ld_experiment *e, struct ld_experiment_view *out)
{
    double mean[LD_EXPERIMENT_ARMS], sd[LD_EXPERIMENT_ARMS], p[LD_EXPERIMENT_ARMS], loss[LD_EXPERIMENT_ARMS];

    for (size_t a = 0; a < e->n_arms; a++)
        weigh_arm(&e->sums[a], &mean[a], &sd[a]);
    kb_best(mean, sd, e->n_arms, p, loss);
    for (size_t a = 0; a < e->n_arms; a++) {
        struct ld_experiment_arm_view *arm = &out->arm[a];

        strcpy(arm->id, e->arm[a]);
        for (size_t side = 0; side < LD_SIDE_N; side++)
            ld_experiment_show_side(&e->sums[a].shown[side], e->begun.level / (double)e->n_arms, e->begun.low, width(e),
                                    &arm->side[side]);
        arm->p_best = p[a];
        arm->loss = width(e) * loss[a];
    }
}

/* --- comparisons ---------------------------------------------------------------------------------------------- */

/* The mean of both bets, on more and on less. */
static double log10_e(const struct ld_comparison *c)
{
    const double up = kb_pair_log_e(&c->pair, c->reach, 0, true), down = kb_pair_log_e(&c->pair, c->reach, 0, false);

    return (fmax(up, down) + log1p(exp(-fabs(up - down))) - log(2)) / log(10);
}

/* The plan of an even split at 5 %, for this level and for the odds so far. */
static double needed(const struct ld_experiment *e, const struct kb_pair *pair)
{
    const double n = (double)pair->n, rate = (pair->reward + 0.5) / (n + 1);

    if (!(pair->weight > 0))
        return (double)NAN;
    const double all =
        kb_decisions_needed(rate, e->begun.difference / width(e)) * n / (4 * pair->weight) * log_inverse(e) / log(40);
    return fmax(0, ceil(all - n));
}

void ld_experiment_show_pair(const struct ld_comparison *c, double log_inverse, double width, double base,
                             struct ld_experiment_difference *out, double *low, double *high)
{
    kb_pair_interval(&c->pair, c->reach, log_inverse, low, high);
    *out = (struct ld_experiment_difference){.n = c->pair.n,
                                             .estimate = width * kb_pair_estimate(&c->pair),
                                             .low = width * *low,
                                             .high = width * *high,
                                             .log10_e = log10_e(c),
                                             .reach = c->reach,
                                             .stop = c->stop};
    out->lift = base > 0 ? out->estimate / base : (double)NAN;
    out->stop.estimate *= width;
    out->stop.low *= width;
    out->stop.high *= width;
}

/* NaN without decisions. */
static double mean_of(const struct ld_experiment *e, const struct kb_shown *s)
{
    return s->n > 0 ? e->begun.low + width(e) * (s->reward / (double)s->n) : (double)NAN;
}

/* An effect over what it is compared with. Half of the level goes to the effects of all sentences, half to the means
 * that they are told over (the baseline's, the holdout's): all of them hold at once, so each ratio is among those of
 * the ends. That takes a mean above 0 for certain, and one that does not drift (kb_shown_interval). */
static void show_lift(const struct ld_experiment *e, const struct ld_comparison *c, const struct kb_shown *base,
                      struct ld_experiment_difference *out)
{
    const double n_means = 1 + (e->holdout > 0);
    double low, high, least, most;

    kb_pair_interval(&c->pair, c->reach, log_inverse(e) + log(2), &low, &high);
    kb_shown_interval(base, e->begun.level / (2 * n_means), &least, &most);
    least = e->begun.low + width(e) * least;
    most = e->begun.low + width(e) * most;
    out->lift_lower = out->lift_upper = (double)NAN;
    if (isnan(out->lift) || !(least > 0))
        return;
    out->lift_lower = width(e) * low / (low < 0 ? least : most);
    out->lift_upper = width(e) * high / (high < 0 ? most : least);
}

static void show_comparison(const struct ld_experiment *e, const struct ld_comparison *c, const struct kb_shown *base,
                            const struct ld_experiment_view *all, struct ld_experiment_difference *out)
{
    double low, high;

    ld_experiment_show_pair(c, log_inverse(e), width(e), mean_of(e, base), out, &low, &high);
    show_lift(e, c, base, out);
    const enum kb_verdict now = kb_verdict(low, high, e->begun.difference / width(e), false);
    out->needed = needed(e, &c->pair);
    out->verdict = all->is_void ? KB_VOID : c->stop.verdict != KB_GO_ON ? c->stop.verdict : now;
}

/* --- all ------------------------------------------------------------------------------------------------------- */

static void show_traffic(const struct ld_experiment *e, struct ld_experiment_view *out)
{
    const double now = kb_traffic_log_e(e->traffic, ld_experiment_n_traffic(e)), most = fmax(now, e->traffic_log_e);

    out->traffic_log10_e = most / log(10);
    out->is_void = most >= -log(e->begun.traffic_level);
    out->void_seq = e->void_seq;
    out->void_ms = e->void_ms;
}

/* Whether some arm is shown more rarely than an epsilon of 0.3 would show the rarer one of two. */
static bool is_slow(const struct ld_experiment *e)
{
    bool is_uneven = false;

    for (size_t a = 0; a < e->n_arms; a++)
        is_uneven |= ld_experiment_reach(&e->now, e->n_arms, e->arm[e->baseline], e->arm[a]) > SLOW_REACH;
    return e->now.rule == KB_RULE_SPLIT ? is_uneven : e->now.rule != KB_RULE_UNIFORM && e->now.epsilon < SLOW_EPSILON;
}

/* Its decisions whose odds are told, of all arms. */
static struct kb_shown sum_of_holdout(const struct ld_experiment *e)
{
    struct kb_shown sum = {0};

    for (size_t a = 0; a < e->n_arms; a++) {
        sum.n += e->sums[a].shown[LD_SIDE_HOLDOUT].n;
        sum.reward += e->sums[a].shown[LD_SIDE_HOLDOUT].reward;
    }
    return sum;
}

void ld_experiment_look(const void *book, struct ld_experiment_view *out)
{
    const struct ld_experiment *e = book;
    const struct ld_waiting *oldest = ld_waiting_head(&e->waiting);
    const struct kb_shown held = sum_of_holdout(e);

    memset(out, 0, offsetof(struct ld_experiment_view, metric)); /* the metrics are many, and seldom there */
    out->state = e->state;
    out->settings = e->state == LD_EXPERIMENT_RUNS ? e->begun : e->now.settings;
    out->seq = e->seq;
    if (e->state != LD_EXPERIMENT_RUNS)
        return;
    out->since_seq = e->since_seq;
    out->since_ms = e->since_ms;
    out->n_arms = e->n_arms;
    out->baseline = e->baseline;
    out->has_holdout = e->holdout > 0;
    out->holdout = e->holdout;
    out->n_sentences = ld_experiment_n_sentences(e);
    out->n_counted = e->n_counted;
    out->n_waiting = (uint64_t)(e->waiting.tail - e->waiting.head);
    out->waiting_since_ms = oldest != NULL ? oldest->at_ms : 0;
    out->n_left_out = e->n_left_out;
    out->n_clipped = e->n_clipped;
    out->n_beyond = e->n_beyond;
    out->is_slow = is_slow(e);
    show_traffic(e, out);
    show_arms(e, out);
    for (size_t a = 0; a < e->n_arms; a++)
        show_comparison(e, &e->sums[a].against, &e->sums[e->baseline].shown[LD_SIDE_POLICY], out, &out->difference[a]);
    show_comparison(e, &e->policy, &held, out, &out->policy);
    ld_metrics_show(e, out);
}

bool ld_experiment_is_void(const void *book)
{
    return ((const struct ld_experiment *)book)->void_seq > 0;
}
