/* The result of an evaluation as JSON, and as a table for people. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h" /* and with it the server's text.h */
#include "ope.h"

#define FEW 50.0 /* events below which an interval is to be doubted */
#define FAR 4.0  /* standard errors of the mean weight from 1 */
#define SOME_MASS 1e-9

void lc_ope_warnings(const struct lc_ope_result *r, const struct lc_log *log, void (*fn)(void *arg, const char *text),
                     void *arg)
{
    char text[320];

    if (r->ess < FEW) {
        snprintf(text, sizeof text, "the effective sample size is %.3g: below %g intervals are rough", r->ess, FEW);
        fn(arg, text);
    }
    if (fabs(r->mean_weight - 1) > FAR * r->mean_weight_error && fabs(r->mean_weight - 1) > 1e-6) {
        snprintf(text, sizeof text,
                 "the mean weight is %.6g +- %.2g and should be 1: propensities, arms or positions do not belong "
                 "together",
                 r->mean_weight, r->mean_weight_error);
        fn(arg, text);
    }
    if (r->unsupported > SOME_MASS) {
        snprintf(text, sizeof text,
                 "%.3g of the target's mass is on arms that the log never shows: all estimates miss it",
                 r->unsupported);
        fn(arg, text);
    }
    if (log->n_bad > 0) {
        snprintf(text, sizeof text, "%zu faulty lines were passed over, the first: %.200s", log->n_bad, log->first_bad);
        fn(arg, text);
    }
}

/* --- JSON --------------------------------------------------------------------------------------------- */

/* A string that may quote a file, which may be of any bytes: what is not UTF-8 becomes U+FFFD. */
static void put_text(struct lc_text *t, const char *s)
{
    struct ld_text quoted;
    size_t n;

    ld_text_init(&quoted);
    ld_text_string(&quoted, s);
    char *text = ld_text_take(&quoted, &n);
    if (text == NULL)
        lc_out_of_memory(1, strlen(s));
    lc_text_put(t, text, n);
    free(text);
}

/* ,"key":value; null for what is not finite. */
static void put_number(struct lc_text *t, const char *key, double v)
{
    lc_text_printf(t, "%s\"%s\":", t->data[t->n - 1] == '{' ? "" : ",", key);
    if (isfinite(v))
        lc_text_number(t, v);
    else
        lc_text_puts(t, "null");
}

static void put_count(struct lc_text *t, const char *key, size_t v)
{
    lc_text_printf(t, "%s\"%s\":%zu", t->data[t->n - 1] == '{' ? "" : ",", key, v);
}

static void put_estimate(struct lc_text *t, const char *key, const struct lc_ope_estimate *e)
{
    lc_text_printf(t, ",\"%s\":{", key);
    if (e->refused[0] != '\0') {
        lc_text_puts(t, "\"refused\":");
        put_text(t, e->refused);
    } else {
        put_number(t, "estimate", e->value);
        put_number(t, "lower", e->interval.lower);
        put_number(t, "upper", e->interval.upper);
        put_number(t, "standard_error", e->error);
        lc_text_printf(t, ",\"interval\":\"%s\"", e->is_bootstrap ? "bootstrap" : "bernstein");
        lc_text_puts(t, ",\"bernstein\":{");
        put_number(t, "lower", e->bernstein.lower);
        put_number(t, "upper", e->bernstein.upper);
        lc_text_puts(t, "}");
    }
    lc_text_puts(t, "}");
}

static void put_skipped(struct lc_text *t, const struct lc_log *log)
{
    lc_text_puts(t, ",\"skipped\":{");
    put_count(t, "faulty", log->n_bad);
    for (size_t i = 0; i < LC_LOG_MAX_REASONS && log->skipped[i].reason != NULL; i++) {
        lc_text_puts(t, ",");
        lc_text_json(t, log->skipped[i].reason);
        lc_text_printf(t, ":%zu", log->skipped[i].n);
    }
    lc_text_puts(t, "}");
}

struct list {
    struct lc_text *t;
    size_t n;
};

static void put_warning(void *arg, const char *text)
{
    struct list *list = arg;

    lc_text_puts(list->t, list->n++ > 0 ? "," : "");
    put_text(list->t, text);
}

/* Weights are those of the whole log, whether or not the estimates were refused for them. */
static void put_weights(struct lc_text *t, const struct lc_ope_result *r, const struct lc_ope_options *o)
{
    lc_text_puts(t, ",\"weights\":{");
    put_number(t, "mean", r->mean_weight);
    put_number(t, "mean_error", r->mean_weight_error);
    put_number(t, "max", r->max_weight);
    put_number(t, "clip", o->clip);
    put_number(t, "clipped_mean", r->clipped_mean);
    put_count(t, "clipped", r->n_clipped);
    lc_text_puts(t, "}");
}

void lc_ope_write(const struct lc_ope_result *r, const struct lc_ope_options *o, const struct lc_log *log,
                  const struct lc_policy *policy, struct lc_text *t)
{
    struct list warnings = {t, 0};

    lc_text_puts(t, "{");
    put_count(t, "n", r->n);
    put_count(t, "arms", r->n_arms);
    put_number(t, "ess", r->ess);
    lc_text_printf(t, ",\"policy\":\"%s\",\"format\":\"%s\"", policy->ops->name, log->ops->name);
    for (int i = 0; i < LC_OPE_N; i++)
        put_estimate(t, lc_ope_name(i), &r->estimate[i]);
    put_weights(t, r, o);
    put_number(t, "unsupported", r->unsupported);
    put_count(t, "missing_propensities", r->n_missing);
    put_number(t, "min_propensity", r->min_propensity);
    put_number(t, "max_propensity", r->max_propensity);
    put_count(t, "accepted", r->n_accepted);
    put_number(t, "acceptance", r->acceptance);
    put_number(t, "reward_lower", r->reward_lo);
    put_number(t, "reward_upper", r->reward_hi);
    put_number(t, "level", o->level);
    put_count(t, "resamples", o->n_resamples);
    put_count(t, "seed", (size_t)o->seed);
    put_skipped(t, log);
    lc_text_puts(t, ",\"warnings\":[");
    lc_ope_warnings(r, log, put_warning, &warnings);
    lc_text_puts(t, "]");
    lc_text_puts(t, ",\"cpu_seconds\":{");
    put_number(t, "survey", r->seconds[LC_OPE_SURVEY]);
    put_number(t, "estimates", r->seconds[LC_OPE_JUDGE]);
    put_number(t, "intervals", r->seconds[LC_OPE_INTERVALS]);
    lc_text_puts(t, "}}");
}

/* --- for people --------------------------------------------------------------------------------------- */

static void print_warning(void *arg, const char *text)
{
    (void)arg;
    printf("warning: %s\n", text);
}

void lc_ope_print(const struct lc_ope_result *r, const struct lc_ope_options *o, const struct lc_log *log)
{
    printf("%s events, %s arms, effective sample size %.1f; largest weight %.4g, mean %.4g\n\n", lc_thousands(r->n),
           lc_thousands(r->n_arms), r->ess, r->max_weight, r->mean_weight);
    printf("  %-12s %12s   %g %% interval\n", "estimator", "estimate", 100 * o->level);
    for (int i = 0; i < LC_OPE_N; i++) {
        const struct lc_ope_estimate *e = &r->estimate[i];
        if (e->refused[0] != '\0')
            printf("  %-12s refused: %s\n", lc_ope_name(i), e->refused);
        else
            printf("  %-12s %12.6g   [%.6g, %.6g]%s\n", lc_ope_name(i), e->value, e->interval.lower, e->interval.upper,
                   e->is_bootstrap ? "" : " (Bernstein)");
    }
    printf("\n%s events accepted by the replay; %.2f s of CPU\n", lc_thousands(r->n_accepted),
           r->seconds[LC_OPE_SURVEY] + r->seconds[LC_OPE_JUDGE] + r->seconds[LC_OPE_INTERVALS]);
    for (size_t i = 0; i < LC_LOG_MAX_REASONS && log->skipped[i].reason != NULL; i++)
        printf("skipped: %s %s\n", lc_thousands(log->skipped[i].n), log->skipped[i].reason);
    lc_ope_warnings(r, log, print_warning, NULL);
}
