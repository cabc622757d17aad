/* Lines of logs: see log_writer.h. */
#include "evaluate/log_writer.h"

#include <math.h>
#include <stdlib.h>

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

size_t lc_log_put_observation(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    size_t n = 0;

    for (size_t k = 0; k <= ev->n_more; k++) {
        if (isnan(ld_logged_slot(ev, k)->reward))
            continue;
        begin_object(t, log, ld_logged_slot(ev, k));
        lc_text_puts(t, "}\n");
        n++;
    }
    return n;
}

static void put_line(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    begin_object(t, log, ev);
    lc_put_text(t, "decision", ev->id);
    if (ev->slot != NULL)
        lc_put_text(t, "slot", ev->slot);
    put_time(t, "time", ev->at_ms);
    lc_text_puts(t, ",\"candidates\":[");
    for (size_t i = 0; i < ev->n; i++) {
        lc_text_puts(t, i > 0 ? "," : "");
        put_arm(t, log, ev, i);
    }
    lc_text_puts(t, "]}\n");
}

void lc_log_put_ndjson(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    for (size_t k = 0; k <= ev->n_more; k++)
        if (!isnan(ld_logged_slot(ev, k)->reward))
            put_line(t, log, ld_logged_slot(ev, k));
}

/* The first n of a ranking, and their probabilities unless that of the arm shown is not known: it comes first, as VW
 * has it. place: [arms] the number of each, from 1, told from 0; NULL: their places as candidates, told from 1. */
static void put_ranking(struct lc_text *t, const struct ld_logged *ev, size_t n, double shown, const size_t *place)
{
    const char *const a = place != NULL ? "_a" : "a", *const p = place != NULL ? "_p" : "p";

    for (int is_p = 0; is_p < (isnan(shown) ? 1 : 2); is_p++) {
        lc_text_printf(t, ",\"%s\":[", is_p ? p : a);
        for (size_t k = 0; k < n; k++) {
            const size_t i = k == 0 ? ev->chosen : k <= ev->chosen ? k - 1 : k;
            lc_text_puts(t, k > 0 ? "," : "");
            if (is_p)
                lc_text_number(t, k == 0 ? shown : ev->logged[i]);
            else
                lc_text_printf(t, "%zu", place != NULL ? place[ev->arm[i]] - 1 : i + 1);
        }
        lc_text_puts(t, "]");
    }
}

static void put_action(struct lc_text *t, const struct lc_log *log, const char *id, const double *features)
{
    lc_text_puts(t, "{\"_tag\":");
    lc_text_json(t, id);
    lc_text_puts(t, ",\"i\":{\"id\":");
    lc_text_json(t, id);
    lc_text_puts(t, "}");
    if (features != NULL) {
        lc_text_puts(t, ",\"x\":");
        lc_text_vector(t, features, log->base.o.arm_dim);
    }
    lc_text_puts(t, "}");
}

static void put_context(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    lc_text_puts(t, ",\"c\":{\"_laplaced\":1,\"user\":{\"id\":");
    lc_text_json(t, ev->user);
    lc_text_puts(t, "}");
    if (ev->context != NULL) {
        lc_text_puts(t, ",\"x\":");
        lc_text_vector(t, ev->context, log->base.o.context_dim);
    }
    lc_text_puts(t, ",\"_multi\":[");
}

/* --- slots in dsjson ----------------------------------------------------------------------------------------- */

/* The arms of all slots: candidates of the first, and behind them what later ones have besides. */
struct actions {
    size_t *place; /* [arms] from 1; 0: none */
    size_t n;
};

/* Writes them on the way. */
static void put_actions(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev, struct actions *a)
{
    for (size_t k = 0; k <= ev->n_more; k++) {
        const struct ld_logged *slot = ld_logged_slot(ev, k);
        for (size_t i = 0; i < slot->n; i++) {
            if (a->place[slot->arm[i]] != 0)
                continue;
            a->place[slot->arm[i]] = ++a->n;
            lc_text_puts(t, a->n > 1 ? "," : "");
            put_action(t, log, arm_id(log, slot, i), slot->features != NULL ? slot->features[i] : NULL);
        }
    }
}

/* Who may stand there is told where it is not all that stand in no slot before. */
static void put_slot(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev, size_t k,
                     const struct actions *a)
{
    const struct ld_logged *slot = ld_logged_slot(ev, k);

    lc_text_puts(t, k > 0 ? ",{\"_id\":" : "{\"_id\":");
    lc_text_json(t, slot->slot);
    for (size_t i = 0; slot->n + k != a->n && i < slot->n; i++)
        lc_text_printf(t, "%s%zu", i > 0 ? "," : ",\"_inc\":[", a->place[slot->arm[i]] - 1);
    lc_text_puts(t, slot->n + k != a->n ? "]" : "");
    if (slot->context != ev->context) {
        lc_text_puts(t, ",\"x\":");
        lc_text_vector(t, slot->context, log->base.o.context_dim);
    }
    lc_text_puts(t, "}");
}

static void put_outcome(struct lc_text *t, const struct ld_logged *slot, bool is_first, const struct actions *a)
{
    lc_text_puts(t, is_first ? "{\"_id\":" : ",{\"_id\":");
    lc_text_json(t, slot->slot);
    put_number(t, "_label_cost", 0.0 - slot->reward);
    put_ranking(t, slot, slot->logged != NULL ? slot->n : 1, slot->propensity, a->place);
    lc_text_puts(t, "}");
}

static void put_slots(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    struct actions a = {.place = lc_alloc(log->base.arms.n, sizeof *a.place)};

    lc_text_puts(t, "{\"Version\":\"1\"");
    put_time(t, "Timestamp", ev->at_ms);
    lc_put_text(t, "EventId", ev->id);
    put_context(t, log, ev);
    put_actions(t, log, ev, &a);
    lc_text_puts(t, "],\"_slots\":[");
    for (size_t k = 0; k <= ev->n_more; k++)
        put_slot(t, log, ev, k, &a);
    lc_text_puts(t, "]},\"_outcomes\":[");
    for (size_t k = 0; k <= ev->n_more; k++)
        put_outcome(t, ld_logged_slot(ev, k), k == 0, &a);
    lc_text_puts(t, "]}\n");
    free(a.place);
}

void lc_log_put_dsjson(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev)
{
    if (ev->slot != NULL) {
        put_slots(t, log, ev);
        return;
    }
    lc_text_puts(t, "{\"_label_cost\":");
    lc_text_number(t, 0.0 - ev->reward);
    put_number(t, "_label_probability", ev->propensity);
    lc_text_printf(t, ",\"_label_Action\":%zu,\"_labelIndex\":%zu", ev->chosen + 1, ev->chosen);
    put_time(t, "Timestamp", ev->at_ms);
    lc_text_puts(t, ",\"Version\":\"1\"");
    lc_put_text(t, "EventId", ev->id);
    if (ev->logged != NULL)
        put_ranking(t, ev, ev->n, ev->logged[ev->chosen], NULL);
    put_context(t, log, ev);
    for (size_t i = 0; i < ev->n; i++) {
        lc_text_puts(t, i > 0 ? "," : "");
        put_action(t, log, arm_id(log, ev, i), ev->features != NULL ? ev->features[i] : NULL);
    }
    lc_text_puts(t, "]}}\n");
}
