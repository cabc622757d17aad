/* GET /tenants/{t}/series: what a tenant's traffic did by minute or by hour, out of its book (book/series.h). The book
 * is copied under the books' mutex and written without it. */
#include "api/api.h"

#include "base/text.h"
#include "base/time_text.h"
#include "book/series.h"
#include "tenant/books.h"

struct wish {
    uint64_t from_ms, to_ms;
    int step, by; /* by: LD_BY_NOTHING without one */
};

static bool find_wish(const struct ld_call *c, struct wish *w, struct ld_problem *p)
{
    return ld_call_number(c, "from", &w->from_ms, p) == 0 && ld_call_number(c, "to", &w->to_ms, p) == 0 &&
           ld_call_word(c, "step", &ld_series_step_words, LD_STEP_HOUR, &w->step, p) == 0 &&
           ld_call_word(c, "by", &ld_series_by_words, LD_BY_NOTHING, &w->by, p) == 0;
}

static void put_time(struct ld_text *t, const char *key, int64_t at_ms)
{
    char text[32];
    ld_format_time(at_ms, text);
    ld_text_put_string(t, key, text);
}

/* All others are null; by metric, the reward is. */
static void put_which(struct ld_text *t, const struct ld_series_view *v, int by, unsigned which)
{
    if (by == LD_BY_NOTHING)
        return;
    const char *key = kb_word(&ld_series_by_words, by);
    if (by == LD_BY_ROUTE)
        ld_text_put_string(t, key, kb_word(&kb_route_words, (int)which));
    else if (which == 0)
        ld_text_put_string(t, key, NULL);
    else if (by == LD_BY_VERSION)
        ld_text_put_count(t, key, v->version[which]);
    else
        ld_text_put_string(t, key, by == LD_BY_ARM ? v->arm[which] : v->metric[which]);
}

static void put_row(struct ld_text *t, const struct ld_series_view *v, int by, const struct ld_series_row *row)
{
    const struct ld_series_cell *cell = &row->cell;
    ld_text_item(t);
    ld_text_lit(t, "{");
    put_time(t, "at", row->at_ms);
    put_which(t, v, by, row->which);
    ld_text_put_count(t, "decisions", cell->decisions);
    ld_text_put_count(t, "open", cell->decisions - cell->closed);
    ld_text_put_count(t, "rewards", cell->rewards);
    ld_text_put_number(t, "sum", cell->sum);
    ld_text_put_number(t, "square_sum", cell->square);
    ld_text_put_number(t, "weight", cell->weight);
    ld_text_put_number(t, "weighted_sum", cell->weighted);
    ld_text_lit(t, "}");
}

static char *encode(const struct ld_series_view *v, const struct wish *w, uint64_t seq, size_t *n)
{
    struct ld_text t;
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "step", kb_word(&ld_series_step_words, w->step));
    ld_text_put_string(&t, "by", w->by == LD_BY_NOTHING ? NULL : kb_word(&ld_series_by_words, w->by));
    ld_text_put_count(&t, "seq", seq);
    put_time(&t, "kept_from", v->kept_from_ms);
    ld_text_key(&t, "rows");
    ld_text_lit(&t, "[");
    for (size_t i = 0; i < v->n; i++)
        put_row(&t, v, w->by, &v->row[i]);
    ld_text_lit(&t, "]}");
    return ld_text_take(&t, n);
}

bool api_series(struct ld_call *c, struct ld_reply *out)
{
    struct wish wish = {.step = LD_STEP_HOUR};
    struct ld_series_view view;
    uint64_t seq = 0;
    if (!find_wish(c, &wish, out->problem))
        return true;
    const void *book = ld_books_lock(ld_tenant_books(c->tenant), &ld_series_kind, &seq);
    if (book == NULL) {
        ld_problem_set(out->problem, 503, "the series is being counted from the log: ask again in a while");
        return true;
    }
    const enum kb_err rc = ld_series_look(book, (enum ld_series_step)wish.step, (enum ld_series_by)wish.by,
                                          (int64_t)wish.from_ms, (int64_t)wish.to_ms, &view);
    ld_books_unlock(ld_tenant_books(c->tenant));
    if (rc != KB_OK) {
        ld_problem_set(out->problem, 503, "no memory for the answer");
        return true;
    }
    out->text = encode(&view, &wish, seq, &out->n);
    ld_series_view_close(&view);
    return true;
}
