/* Metrics in the book of time series (series.h): the values that were told, in the minute of their decision.
 *
 * A line tells what a value has come to and what it was before, so the book adds up changes and keeps no value of a
 * decision. It keeps whether it has counted one: what was before may have been told to nobody here, in a log that
 * begins with a summary, to a book of before metrics, or while the name had no place. Then the value counts whole, as a
 * first one. Of slots behind the first there is one mark for all, so a slate of three slots or more may be off then.
 * What nobody told counts for nothing here: a metric's default is the experiment's affair. */
#include "book/series_impl.h"

#include <string.h>

/* The name's place, or the one that it takes. */
static size_t place_of(const struct ld_series *s, const char *name)
{
    size_t to = 0;

    for (size_t k = 0; k < LD_SERIES_METRICS; k++) {
        const struct ld_series_metric *m = &s->metric[k], *best = &s->metric[to];

        if (strcmp(m->name, name) == 0)
            return k;
        if (best->name[0] != '\0' && (m->name[0] == '\0' || m->newest < best->newest))
            to = k;
    }
    return to;
}

static void replace(struct ld_series *s, size_t k, const char *name)
{
    for (size_t i = 0; i < s->n_places; i++)
        for (size_t of = 0; of < 2; of++)
            s->open[i].counted[of] &= (uint16_t) ~(1u << k);
    for (size_t step = 0; step < LD_N_STEPS && s->metric[k].name[0] != '\0'; step++)
        for (size_t i = 0; i < s->span[step].n; i++)
            ld_series_fold_key(&s->span[step].bucket[i], LD_SERIES_FIRST_METRIC + (unsigned)k, LD_SERIES_N_KEYS);
    s->metric[k] = (struct ld_series_metric){.n = 0};
    strcpy(s->metric[k].name, name);
}

enum kb_err ld_series_take_metric(struct ld_series *s, struct ld_series_open *o, bool is_first_slot, uint32_t minute,
                                  const struct kb_ev_metric *metric)
{
    const size_t k = place_of(s, metric->name);
    uint16_t *counted = &o->counted[is_first_slot ? 0 : 1];
    struct ld_series_bucket *b[LD_N_STEPS] = {NULL};

    if (strcmp(s->metric[k].name, metric->name) != 0)
        replace(s, k, metric->name);
    for (size_t step = 0; step < LD_N_STEPS && is_first_slot; step++) {
        b[step] = ld_series_find_bucket(&s->span[step], o->minute / ld_series_unit[step]);
        if (b[step] != NULL && ld_series_make_cell(s, b[step], LD_SERIES_FIRST_METRIC + (unsigned)k) != KB_OK)
            return KB_ENOMEM;
    }
    const bool is_new = !metric->has_before || (*counted & 1u << k) == 0;
    const double before = is_new ? 0 : metric->before, total = kb_ev_metric_total(metric);
    *counted |= (uint16_t)(1u << k);
    s->metric[k].newest = minute;
    s->metric[k].n += is_new;
    s->metric[k].sum += total - before;
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        if (b[step] == NULL)
            continue;
        struct ld_series_cell *cell = &b[step]->cell[b[step]->place[LD_SERIES_FIRST_METRIC + k] - 1];
        cell->rewards += is_new;
        cell->sum += total - before;
        cell->square += total * total - before * before;
        cell->weighted += (total - before) * o->weight;
    }
    return KB_OK;
}

void ld_series_copy_metrics(const struct ld_series_bucket *b, const struct ld_series_cell *total, int64_t at_ms,
                            struct ld_series_view *v)
{
    for (unsigned k = 0; k < LD_SERIES_METRICS; k++) {
        const uint8_t place = b->place[LD_SERIES_FIRST_METRIC + k];

        if (place == 0)
            continue;
        struct ld_series_cell cell = b->cell[place - 1];
        cell.decisions = total->decisions;
        cell.closed = total->closed;
        cell.weight = total->weight;
        v->row[v->n++] = (struct ld_series_row){.at_ms = at_ms, .which = k + 1, .cell = cell};
    }
}

void ld_series_metric_total(const void *book, const char *name, uint64_t *n, double *sum)
{
    const struct ld_series *s = book;

    *n = 0;
    *sum = 0;
    for (size_t k = 0; k < LD_SERIES_METRICS; k++)
        if (strcmp(s->metric[k].name, name) == 0) {
            *n = s->metric[k].n;
            *sum = s->metric[k].sum;
        }
}
