/* The book of time series as it is read: rows of one step between two times, by what they are asked by. */
#include <stdlib.h>
#include <string.h>

#include "book/series_impl.h"

static const struct {
    unsigned first, n;
} kinds[LD_SERIES_N_KINDS] = {
    {0, LD_SERIES_N_ARMS}, {LD_SERIES_FIRST_ROUTE, KB_ROUTE_N}, {LD_SERIES_FIRST_VERSION, LD_SERIES_N_VERSIONS}};

/* All of a bucket: each decision has one route. */
static struct ld_series_cell total_of(const struct ld_series_bucket *b)
{
    struct ld_series_cell sum = {.decisions = 0};
    for (unsigned k = 0; k < KB_ROUTE_N; k++)
        if (b->place[LD_SERIES_FIRST_ROUTE + k] != 0)
            ld_series_add_cell(&sum, &b->cell[b->place[LD_SERIES_FIRST_ROUTE + k] - 1]);
    return sum;
}

static void copy_bucket(const struct ld_series_bucket *b, enum ld_series_by by, int64_t at_ms, struct ld_series_view *v)
{
    const struct ld_series_cell total = total_of(b);
    if (by == LD_BY_NOTHING || by == LD_BY_METRIC)
        v->row[v->n++] = (struct ld_series_row){.at_ms = at_ms, .cell = total};
    if (by == LD_BY_METRIC)
        ld_series_copy_metrics(b, &total, at_ms, v);
    if (by >= LD_SERIES_N_KINDS)
        return;
    for (unsigned k = 0; k < kinds[by].n; k++) {
        const uint8_t place = b->place[kinds[by].first + k];
        if (place != 0)
            v->row[v->n++] = (struct ld_series_row){.at_ms = at_ms, .which = k, .cell = b->cell[place - 1]};
    }
}

static enum kb_err copy_names(const struct ld_series *s, struct ld_series_view *v)
{
    memcpy(v->version, s->version, sizeof v->version);
    for (size_t k = 0; k < LD_SERIES_METRICS; k++)
        strcpy(v->metric[k + 1], s->metric[k].name);
    for (size_t k = 1; k < LD_SERIES_N_ARMS; k++)
        if (s->arm[k] != NULL && (v->arm[k] = strdup(s->arm[k])) == NULL)
            return KB_ENOMEM;
    return KB_OK;
}

enum kb_err ld_series_look(const void *book, enum ld_series_step step, enum ld_series_by by, int64_t from_ms,
                           int64_t to_ms, struct ld_series_view *out)
{
    const struct ld_series *s = book;
    const struct ld_series_span *span = &s->span[step];
    const int64_t ms = ld_series_step_ms[step], newest = s->newest / ld_series_unit[step],
                  n_kept = ld_series_kept[step];
    const size_t per_bucket = by < LD_SERIES_N_KINDS ? kinds[by].n : 1 + (by == LD_BY_METRIC ? LD_SERIES_METRICS : 0);
    *out = (struct ld_series_view){.kept_from_ms = newest < n_kept ? 0 : (newest - n_kept + 1) * ms};
    out->row = malloc((span->n * per_bucket + 1) * sizeof *out->row);
    if (out->row == NULL || copy_names(s, out) != KB_OK) {
        ld_series_view_close(out);
        return KB_ENOMEM;
    }
    for (size_t i = 0; i < span->n; i++) {
        const int64_t at_ms = span->bucket[i].t * ms;
        if (at_ms >= from_ms && at_ms < to_ms)
            copy_bucket(&span->bucket[i], by, at_ms, out);
    }
    return KB_OK;
}

void ld_series_view_close(struct ld_series_view *v)
{
    free(v->row);
    for (size_t k = 0; k < LD_SERIES_N_ARMS; k++)
        free(v->arm[k]);
    *v = (struct ld_series_view){.n = 0};
}
