/* Statistics of the demo.
 *
 *   n      number of seeds; every seed is one race, in which all policies met the same rounds
 *   se     sqrt( sum (v - mean)^2 / (n - 1) / n )
 *
 * Differences between policies are taken seed by seed (paired): the luck of a seed, which is most of the spread, is
 * the same for both and cancels. With one seed there is no standard error, and none is shown.
 *
 * A demo with K seeds makes K values per policy; --seeds 1 is for looking, more are for claims. */
#include "demo/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Histograms collect over all seeds: latency does not pair. */
void lc_scores_init(struct lc_scores *s, size_t n_policies, size_t n_seeds)
{
    memset(s, 0, sizeof *s);
    s->n_policies = n_policies;
    s->n_seeds = n_seeds;
    for (size_t i = 0; i < n_policies; i++) {
        s->value[i] = lc_alloc(n_seeds, sizeof *s->value[i]);
        s->tail[i] = lc_alloc(n_seeds, sizeof *s->tail[i]);
        lc_histogram_clear(&s->select[i]);
        lc_histogram_clear(&s->reward[i]);
    }
}

void lc_scores_close(struct lc_scores *s)
{
    for (size_t i = 0; i < s->n_policies; i++) {
        free(s->value[i]);
        free(s->tail[i]);
    }
    s->n_policies = 0;
}

/* The last tenth shows where a policy ends up, when its total still carries what learning has cost. n_rounds >= 1. */
void lc_scores_add(struct lc_scores *s, size_t policy, size_t seed, const double *curve, size_t n_rounds, bool is_rate)
{
    /* at least one round */
    size_t last = n_rounds / 10 > 0 ? n_rounds / 10 : 1;
    double total = curve[n_rounds - 1];
    /* the total before the last tenth began */
    double before = last < n_rounds ? curve[n_rounds - 1 - last] : 0.0;
    s->value[policy][seed] = is_rate ? total / (double)n_rounds : total;
    s->tail[policy][seed] = (total - before) / (double)last;
}

/* The usual estimator with n - 1; one value has a mean and a standard error of NaN. */
struct lc_estimate lc_estimate_of(const double *v, size_t n)
{
    struct lc_estimate e = {0.0, NAN};
    double ss = 0.0;
    for (size_t i = 0; i < n; i++)
        e.mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        ss += (v[i] - e.mean) * (v[i] - e.mean);
    if (n > 1)
        e.se = sqrt(ss / (double)(n - 1) / (double)n);
    return e;
}

struct lc_estimate lc_estimate_paired(const double *a, const double *b, size_t n)
{
    double *d = lc_alloc(n, sizeof *d);
    for (size_t i = 0; i < n; i++)
        d[i] = a[i] - b[i];
    struct lc_estimate e = lc_estimate_of(d, n);
    free(d);
    return e;
}

/* --- text ------------------------------------------------------------------------------------------- */

static void put_estimate(struct lc_text *out, struct lc_estimate e, int digits)
{
    lc_text_printf(out, "%.*f", digits, e.mean);
    if (!isnan(e.se))
        lc_text_printf(out, " +- %.*f", digits, e.se);
}

static double ms(const struct lc_histogram *h, double q)
{
    return (double)lc_histogram_quantile(h, q) * 1e-6;
}

void lc_scores_print(const struct lc_scores *s, const char *what, int digits, struct lc_text *out)
{
    lc_text_printf(out, "%-20s %22s %16s %12s %12s %12s\n", "policy", what, "last tenth/round", "select p50",
                   "select p99", "reward p50");
    for (size_t i = 0; i < s->n_policies; i++) {
        struct lc_text score = {0};
        put_estimate(&score, lc_estimate_of(s->value[i], s->n_seeds), digits);
        lc_text_printf(out, "%-20s %22s %16.4f %9.2f ms %9.2f ms %9.2f ms\n", s->label[i], score.data,
                       lc_estimate_of(s->tail[i], s->n_seeds).mean, ms(&s->select[i], 0.5), ms(&s->select[i], 0.99),
                       ms(&s->reward[i], 0.5));
        lc_text_close(&score);
    }
}

/* The percentage is of the other policy's mean. Significance is left to the reader: a difference of less than two
 * standard errors says little. */
void lc_scores_print_pair(const struct lc_scores *s, size_t a, size_t b, const char *what, int digits,
                          struct lc_text *out)
{
    struct lc_estimate e = lc_estimate_paired(s->value[a], s->value[b], s->n_seeds);
    double other = lc_estimate_of(s->value[b], s->n_seeds).mean;
    lc_text_printf(out, "%s of %s minus that of %s: ", what, s->label[a], s->label[b]);
    put_estimate(out, e, digits);
    if (other != 0.0)
        lc_text_printf(out, " (%+.1f %%)", 100.0 * e.mean / fabs(other));
    if (s->n_seeds > 1)
        lc_text_printf(out, ", paired over %zu seeds", s->n_seeds);
    lc_text_puts(out, "\n");
}

/* --- JSON ------------------------------------------------------------------------------------------- */

static void json_estimate(struct lc_text *out, struct lc_estimate e)
{
    lc_put_number(out, "mean", e.mean);
    lc_put_number(out, "se", e.se);
}

/* All values are there, so that a reader can make statistics of his own. `what`: "regret" or "hit_rate". */
static void json_policy(const struct lc_scores *s, size_t i, const char *what, struct lc_text *out)
{
    lc_text_puts(out, "{");
    lc_put_text(out, "policy", s->label[i]);
    lc_put_text(out, "tenant", s->tenant[i]);
    lc_put_key(out, what);
    lc_text_vector(out, s->value[i], s->n_seeds);
    json_estimate(out, lc_estimate_of(s->value[i], s->n_seeds));
    lc_put_number(out, "last_tenth_per_round", lc_estimate_of(s->tail[i], s->n_seeds).mean);
    lc_text_printf(out, ",\"select_p50_ms\":%.6f,\"select_p99_ms\":%.6f,\"reward_p50_ms\":%.6f}",
                   ms(&s->select[i], 0.5), ms(&s->select[i], 0.99), ms(&s->reward[i], 0.5));
}

void lc_scores_json(const struct lc_scores *s, const char *what, struct lc_text *out)
{
    lc_text_puts(out, "\"policies\":[");
    for (size_t i = 0; i < s->n_policies; i++) {
        lc_text_puts(out, i > 0 ? "," : "");
        json_policy(s, i, what, out);
    }
    lc_text_puts(out, "],\"paired\":[");
    for (size_t a = 0; a < s->n_policies; a++)
        for (size_t b = a + 1; b < s->n_policies; b++) {
            lc_text_puts(out, a + b > 1 ? ",{" : "{");
            lc_put_text(out, "of", s->label[a]);
            lc_put_text(out, "minus", s->label[b]);
            json_estimate(out, lc_estimate_paired(s->value[a], s->value[b], s->n_seeds));
            lc_text_puts(out, "}");
        }
    lc_text_puts(out, "]");
}
