/* What happened to a tenant: statistics, and the overview of a list. Schemas: openapi.yaml.
 *
 * Statistics are written under the tenant's read lock, the overview from copies. */
#include "json/json_out_stats.h"

#include <math.h>

#include "json/json_out.h"
#include "json/json_out_challengers.h"
#include "json/json_util.h"

#define NORMAL_975 1.959963984540054 /* of the standard normal: 2.5 % lie beyond */

/* Of nothing, there is no mean: null. */
static void put_mean(struct ld_text *t, double sum, uint64_t n)
{
    ld_text_put_known(t, "mean_reward", n > 0 ? sum / (double)n : (double)NAN);
}

/* The mean with its 95 % interval by the normal approximation; null where there is none. square NaN: not known. */
static void put_interval(struct ld_text *t, double sum, double square, uint64_t count)
{
    const double n = (double)count, mean = n > 0 ? sum / n : 0, off = square / n - mean * mean;
    const double variance = n > 1 ? (off < 0 ? 0 : off) * n / (n - 1) : (double)NAN;
    const double half = NORMAL_975 * sqrt(variance / n);

    put_mean(t, sum, count);
    ld_text_put_known(t, "lower", mean - half);
    ld_text_put_known(t, "upper", mean + half);
}

static void put_route(struct ld_text *t, const char *name, const struct kb_route_stats *s)
{
    ld_text_key(t, name);
    ld_text_lit(t, "{");
    ld_text_put_count(t, "decisions", s->decided);
    ld_text_put_count(t, "repeated", s->repeated);
    ld_text_put_count(t, "rewards", s->rewarded);
    put_interval(t, s->reward_sum, s->square_sum, s->rewarded);
    ld_text_lit(t, "}");
}

/* One that stuck counts to the route that had drawn the arm. */
static void put_routes(struct ld_text *t, const struct kb_route_stats *routes)
{
    ld_text_key(t, "routes");
    ld_text_lit(t, "{");
    for (int i = 0; i < KB_ROUTE_N; i++)
        if (i != KB_ROUTE_STICKY)
            put_route(t, kb_word(&kb_route_words, i), &routes[i]);
    ld_text_lit(t, "}");
}

static void put_arm(struct ld_text *t, const struct ld_arm_stats *a)
{
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "arm", a->arm);
    ld_text_put_count(t, "decisions", a->decided);
    ld_text_put_count(t, "rewards", a->rewarded);
    put_interval(t, a->reward_sum, a->square_sum, a->rewarded);
    ld_text_lit(t, "}");
}

/* Every arm that was ever seen, in the catalogue or not: its rewards were learned all the same. */
static void put_all_arms(struct ld_text *t, const struct kb_engine *e)
{
    ld_text_key(t, "arms");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < kb_engine_n_arms(e); i++) {
        struct kb_arm_view arm = kb_engine_arm(e, i);
        struct ld_arm_stats a = {arm.id, arm.decided, arm.rewarded, arm.reward_sum, arm.square_sum};
        put_arm(t, &a);
    }
    ld_text_lit(t, "]");
}

/* From the log's rows, not from the model: see ld_store_window for what is counted. */
static void put_window(struct ld_text *t, const struct ld_window_stats *w)
{
    ld_text_key(t, "window");
    ld_text_lit(t, "{");
    ld_text_put_number(t, "seconds", (double)w->seconds);
    ld_text_put_count(t, "decisions", w->decided);
    ld_text_put_count(t, "rewards", w->rewarded);
    put_mean(t, w->reward_sum, w->rewarded);
    ld_text_key(t, "arms");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < w->n_arms; i++)
        put_arm(t, &w->arms[i]);
    ld_text_lit(t, "]}");
}

/* In the order of the configuration. */
static void put_metrics(struct ld_text *t, const struct ld_window_stats *w)
{
    if (w->n_metrics == 0)
        return;
    ld_text_key(t, "metrics");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < w->n_metrics; i++) {
        const struct ld_metric_stats *m = &w->metric[i];
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "metric", m->name);
        ld_text_put_known(t, "values", m->is_known ? (double)m->n : (double)NAN);
        ld_text_put_known(t, "mean", m->is_known && m->n > 0 ? m->sum / (double)m->n : (double)NAN);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

static void put_totals(struct ld_text *t, const struct kb_engine_counts *c, uint64_t n_unknown_rewards)
{
    ld_text_put_count(t, "decisions", c->decided);
    ld_text_put_count(t, "rewards", c->valued);
    ld_text_put_count(t, "observations", c->observed);
    ld_text_put_count(t, "pending", c->pending);
    ld_text_put_count(t, "expired", c->expired);
    ld_text_put_count(t, "late", c->late);
    ld_text_put_count(t, "unknown", n_unknown_rewards);
    put_mean(t, c->reward_sum, c->valued);
}

/* `rewards` is in every part how many values `mean_reward` is the mean of: rewards told, observations, and the default
 * rewards of closed windows. */
char *ld_encode_stats(const struct kb_engine *e, const struct ld_window_stats *w, uint64_t n_unknown_rewards, size_t *n)
{
    struct kb_engine_counts c;
    struct ld_text t;
    kb_engine_counts(e, &c);
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    put_totals(&t, &c, n_unknown_rewards);
    put_routes(&t, c.routes);
    ld_put_match(&t, c.compared, c.match_sum);
    put_all_arms(&t, e);
    put_metrics(&t, w);
    put_window(&t, w);
    ld_text_key(&t, "warnings");
    ld_text_lit(&t, "[");
    if (c.is_one_sided) {
        ld_text_item(&t);
        ld_text_string(
            &t, "most decisions have no reward, and all rewards that came are equal: with default_reward null the "
                "model learns nothing from the others. Send a reward for each decision, or set default_reward");
    }
    if (w->is_traffic_void) {
        ld_text_item(&t);
        ld_text_string(
            &t, "the arms were not shown as often as their propensities say: no verdict of the experiment stands");
    }
    ld_text_lit(&t, "]");
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}

/* --- overview ------------------------------------------------------------------------------------------ */

static void put_challengers(struct ld_text *t, const struct ld_overview *o, uint64_t tip)
{
    ld_text_key(t, "challengers");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < o->n_challengers; i++) {
        const struct ld_challenger_glance *c = &o->challenger[i];
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "name", c->name);
        ld_text_put_count(t, "lag", tip > c->seq ? tip - c->seq : 0);
        ld_text_put_bool(t, "stopped", c->is_stopped);
        ld_text_put_bool(t, "proved", c->is_proved);
        ld_put_estimate(t, "difference", c->difference);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

void ld_put_overview(struct ld_text *t, const struct ld_tenant_view *v)
{
    const struct ld_overview *o = v->overview;
    const struct kb_engine_counts *c = v->counts;

    ld_text_key(t, "stats");
    ld_text_lit(t, "{");
    put_totals(t, c, o->unknown);
    put_routes(t, c->routes);
    ld_text_put_string(t, "experiment", o->has_experiment ? o->sentence : NULL);
    ld_text_put_bool(t, "traffic_alarm", o->is_void);
    put_challengers(t, o, c->seq);
    ld_text_put_time_or_null(t, "last_event_at", o->last_ms >= 0, o->last_ms);
    ld_text_lit(t, "}");
}
