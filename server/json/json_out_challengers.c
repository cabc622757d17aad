/* Challengers as GET /tenants/{t}/challengers shows them. Numbers that are not known yet are null. */
#include "json/json_out_challengers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "json/json_util.h"

/* An object that is left open. */
static void begin_estimate(struct ld_text *t, const char *name, struct kb_estimate e)
{
    ld_text_key(t, name);
    ld_text_lit(t, "{");
    ld_text_put_known(t, "estimate", e.estimate);
    ld_text_put_known(t, "lower", e.lower);
    ld_text_put_known(t, "upper", e.upper);
}

void ld_put_estimate(struct ld_text *t, const char *name, struct kb_estimate e)
{
    begin_estimate(t, name, e);
    ld_text_lit(t, "}");
}

static void put_estimates(struct ld_text *t, const struct kb_snips *s)
{
    ld_put_estimate(t, "snips", kb_snips_value(s, LD_CHALLENGERS_LEVEL));
    ld_text_put_number(t, "ess", kb_snips_ess(s));
    begin_estimate(t, "weights", kb_snips_weight(s, LD_CHALLENGERS_LEVEL));
    ld_text_put_number(t, "max", s->max);
    ld_text_lit(t, "}");
    ld_put_estimate(t, "in_force", kb_snips_logged(s, LD_CHALLENGERS_LEVEL));
    ld_put_estimate(t, "difference", kb_snips_difference(s, LD_CHALLENGERS_LEVEL));
}

void ld_put_scores(struct ld_text *t, const struct ld_score *s)
{
    ld_text_put_count(t, "decisions", s->sums.n);
    ld_text_put_count(t, "open", s->n_open);
    ld_text_put_count(t, "unrewarded", s->n_unrewarded);
    ld_text_put_count(t, "unknown", s->n_unknown);
    ld_text_put_count(t, "lost", s->n_lost);
    put_estimates(t, &s->sums);
}

static void put_history(struct ld_text *t, const struct ld_score_history *h)
{
    if (h == NULL)
        return;
    ld_text_key(t, "history");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < h->n; i++) {
        const struct ld_score_point *p = &h->point[i];

        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_count(t, "seq", p->seq);
        ld_text_put_time(t, "at", p->at_ms);
        ld_text_put_count(t, "decisions", p->sums.n);
        put_estimates(t, &p->sums);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* How often the same arm would have been shown; nothing where nothing was compared. */
void ld_put_match(struct ld_text *t, uint64_t n, double sum)
{
    if (n == 0)
        return;
    ld_text_key(t, "match");
    ld_text_lit(t, "{");
    ld_text_put_count(t, "decisions", n);
    ld_text_put_number(t, "share", sum / (double)n);
    ld_text_lit(t, "}");
}

/* The interval holds at every look, at the guardrail's level. */
static void put_guardrail(struct ld_text *t, const struct ld_guard *g)
{
    static const char *const verdicts[LD_GUARD_N] = {"go_on", "better", "worse"};
    const double width = g->high - g->low, estimate = kb_pair_estimate(&g->pair);
    struct kb_estimate difference = {.estimate = width * estimate};

    ld_text_key(t, "guardrail");
    if (g->level <= 0) {
        ld_text_lit(t, "null");
        return;
    }
    kb_pair_interval(&g->pair, 1, log(2 / (1 - g->level)), &difference.lower, &difference.upper);
    difference.lower *= width;
    difference.upper *= width;
    ld_text_lit(t, "{");
    ld_text_put_bool(t, "proved", g->verdict == LD_GUARD_BETTER);
    ld_text_put_string(t, "verdict", verdicts[g->verdict]);
    ld_text_put_count(t, "decisions", g->pair.n);
    ld_text_put_number(t, "share", g->pair.n > 0 ? g->pair.weight / (double)g->pair.n : 0);
    ld_put_estimate(t, "difference", difference);
    ld_text_put_number(t, "log10_better", kb_pair_log_e(&g->pair, 1, 0, true) / log(10));
    ld_text_put_number(t, "log10_worse", kb_pair_log_e(&g->pair, 1, 0, false) / log(10));
    ld_text_put_count(t, "clipped", g->n_clipped);
    ld_text_put_count(t, "untold", g->n_untold);
    ld_text_lit(t, "}");
}

/* behind: of the log's last event. */
static void put_challenger(struct ld_text *t, const struct ld_challenger_view *v, uint64_t tip)
{
    char digest[20];

    snprintf(digest, sizeof digest, "%016" PRIx64, v->digest);
    ld_text_item(t);
    ld_text_lit(t, "{");
    ld_text_put_string(t, "name", v->settings.name);
    ld_text_key(t, "configuration");
    ld_text_challenger(t, &v->settings);
    ld_text_put_string(t, "stopped", v->why[0] != '\0' ? v->why : NULL);
    ld_text_put_count(t, "seq", v->seq);
    ld_text_put_count(t, "lag", tip > v->seq ? tip - v->seq : 0);
    ld_text_put_count(t, "learned", v->n_learned);
    ld_text_put_count(t, "bytes", v->bytes);
    ld_text_put_string(t, "digest", v->has_digest ? digest : NULL);
    ld_text_put_count(t, "since", v->scores.since);
    ld_put_scores(t, &v->scores);
    ld_put_match(t, v->scores.n_compared, v->scores.match_sum);
    put_guardrail(t, &v->scores.guard);
    put_history(t, v->history);
    ld_text_lit(t, "}");
}

char *ld_encode_challengers(const struct ld_challenger_view *v, size_t n_views, const char *node, uint64_t tip,
                            uint64_t version, size_t *n)
{
    struct ld_text t;

    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_count(&t, "seq", tip);
    ld_text_put_count(&t, "version", version);
    ld_text_put_number(&t, "level", LD_CHALLENGERS_LEVEL);
    if (node != NULL)
        ld_text_put_string(&t, "node", node);
    ld_text_key(&t, "challengers");
    ld_text_lit(&t, "[");
    for (size_t i = 0; i < n_views; i++)
        put_challenger(&t, &v[i], tip);
    ld_text_lit(&t, "]}");
    return ld_text_take(&t, n);
}
