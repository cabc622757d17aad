/* Lines of logs: see log_writer.h. */
#include "evaluate/log_writer.h"

#include <math.h>

#include "json/json_out.h"
#include "base/time_text.h"

#define TIME_BYTES 32

static const char *arm_id(const struct lc_log *log, const struct ld_logged *ev, size_t i)
{
    return kb_ids_str(&log->base.arms, ev->arm[i]);
}

static void put_number(struct lc_text *t, const char *key, double v)
{
    if (!isnan(v))
        lc_put_number(t, key, v);
}

static void put_time(struct lc_text *t, const char *key, int64_t at_ms)
{
    char text[TIME_BYTES];

    if (at_ms <= 0)
        return;
    ld_format_time(at_ms, text);
    lc_put_text(t, key, text);
}

static void put_arm(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev, size_t i)
{
    if (ev->features == NULL) {
        lc_text_json(t, arm_id(log, ev, i));
        return;
    }
    lc_text_puts(t, "{\"id\":");
    lc_text_json(t, arm_id(log, ev, i));
    lc_text_puts(t, ",\"features\":");
    lc_text_vector(t, ev->features[i], log->base.o.arm_dim);
    lc_text_puts(t, "}");
}

static void begin_object(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    lc_text_puts(t, "{\"user\":");
    lc_text_json(t, ev->user);
    if (ev->context != NULL) {
        lc_text_puts(t, ",\"context\":");
        lc_text_vector(t, ev->context, log->base.o.context_dim);
    }
    lc_text_puts(t, ",\"arm\":");
    put_arm(t, log, ev, ev->chosen);
    put_number(t, "reward", ev->reward);
    /* one that rounding has put above 1 is 1 */
    put_number(t, "propensity", fmin(ev->propensity, isnan(ev->propensity) ? (double)NAN : 1));
}

void lc_log_put_observation(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    begin_object(t, log, ev);
    lc_text_puts(t, "}\n");
}

void lc_log_put_ndjson(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    begin_object(t, log, ev);
    lc_put_text(t, "decision", ev->id);
    put_time(t, "time", ev->at_ms);
    lc_text_puts(t, ",\"candidates\":[");
    for (size_t i = 0; i < ev->n; i++) {
        lc_text_puts(t, i > 0 ? "," : "");
        put_arm(t, log, ev, i);
    }
    lc_text_puts(t, "]}\n");
}

/* The ranking with its probabilities: the arm shown first, as VW has it. */
static void put_distribution(struct lc_text *t, const struct ld_logged *ev)
{
    for (int is_p = 0; is_p < 2; is_p++) {
        lc_text_puts(t, is_p ? ",\"p\":[" : ",\"a\":[");
        for (size_t k = 0; k < ev->n; k++) {
            const size_t i = k == 0 ? ev->chosen : k <= ev->chosen ? k - 1 : k;
            lc_text_puts(t, k > 0 ? "," : "");
            if (is_p)
                lc_text_number(t, ev->logged[i]);
            else
                lc_text_printf(t, "%zu", i + 1);
        }
        lc_text_puts(t, "]");
    }
}

static void put_action(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev, size_t i)
{
    lc_text_puts(t, i > 0 ? ",{\"_tag\":" : "{\"_tag\":");
    lc_text_json(t, arm_id(log, ev, i));
    lc_text_puts(t, ",\"i\":{\"id\":");
    lc_text_json(t, arm_id(log, ev, i));
    lc_text_puts(t, "}");
    if (ev->features != NULL) {
        lc_text_puts(t, ",\"x\":");
        lc_text_vector(t, ev->features[i], log->base.o.arm_dim);
    }
    lc_text_puts(t, "}");
}

void lc_log_put_dsjson(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    lc_text_puts(t, "{\"_label_cost\":");
    lc_text_number(t, 0.0 - ev->reward);
    put_number(t, "_label_probability", ev->propensity);
    lc_text_printf(t, ",\"_label_Action\":%zu,\"_labelIndex\":%zu", ev->chosen + 1, ev->chosen);
    put_time(t, "Timestamp", ev->at_ms);
    lc_text_puts(t, ",\"Version\":\"1\"");
    lc_put_text(t, "EventId", ev->id);
    if (ev->logged != NULL)
        put_distribution(t, ev);
    lc_text_puts(t, ",\"c\":{\"_laplaced\":1,\"user\":{\"id\":");
    lc_text_json(t, ev->user);
    lc_text_puts(t, "}");
    if (ev->context != NULL) {
        lc_text_puts(t, ",\"x\":");
        lc_text_vector(t, ev->context, log->base.o.context_dim);
    }
    lc_text_puts(t, ",\"_multi\":[");
    for (size_t i = 0; i < ev->n; i++)
        put_action(t, log, ev, i);
    lc_text_puts(t, "]}}\n");
}
