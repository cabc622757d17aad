/* What a report plots: see ope_trace.h. Cost: a pass over the candidates and a logarithm per event. */
#include "evaluate/ope_trace.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define PER_DECADE 4
#define FIRST_EXPONENT (-5)

void ld_ope_trace_close(struct ld_ope_trace *t)
{
    kb_free(t->arm);
    *t = (struct ld_ope_trace){0};
}

int ld_ope_trace_reserve(struct ld_ope_trace *t, size_t n)
{
    const size_t before = t->cap;

    if (kb_grow((void **)&t->arm, &t->cap, n, 16, sizeof *t->arm) != 0)
        return -1;
    memset(t->arm + before, 0, (t->cap - before) * sizeof *t->arm);
    return 0;
}

void ld_ope_trace_shown(struct ld_ope_trace *t, uint32_t arm)
{
    t->arm[arm].shown++;
}

/* Parts differ by one block at most. */
void ld_ope_trace_plan(struct ld_ope_trace *t, size_t n)
{
    const size_t size = ld_ope_series_per_block(n), blocks = (n + size - 1) / size;

    t->n_parts = blocks < LD_OPE_TRACE_PARTS ? blocks : LD_OPE_TRACE_PARTS;
    for (size_t i = 0; i <= t->n_parts; i++) {
        t->block[i] = i * blocks / t->n_parts;
        t->from[i] = i < t->n_parts ? t->block[i] * size : n;
    }
}

double ld_ope_trace_edge(size_t bin)
{
    return pow(10, (double)bin / PER_DECADE + FIRST_EXPONENT);
}

static void count_weight(struct ld_ope_trace *t, double weight)
{
    const double at = floor(PER_DECADE * (log10(weight) - FIRST_EXPONENT));

    if (!(weight > 0)) {
        t->n_zero++;
        return;
    }
    const size_t bin = at < 0 ? 0 : at >= LD_OPE_TRACE_BINS ? LD_OPE_TRACE_BINS - 1 : (size_t)at;
    t->count[bin]++;
    t->mass[bin] += weight;
}

void ld_ope_trace_event(struct ld_ope_trace *t, const struct ld_logged *ev, const double *pi, double weight, size_t k)
{
    if (t->n_begun < t->n_parts && k == t->from[t->n_begun])
        t->at_ms[t->n_begun++] = ev->at_ms;
    count_weight(t, weight);
    for (size_t i = 0; i < ev->n; i++)
        if (pi[i] > 0)
            t->arm[ev->arm[i]].target += pi[i];
}

void ld_ope_trace_points(const struct ld_ope_trace *t, const struct ld_ope_series *s,
                         const struct ld_ope_bootstrap *how, struct ld_ope_trace_point *out)
{
    for (size_t i = 0; i < t->n_parts; i++) {
        const struct ld_ope_series part = ld_ope_series_part(s, t->block[i], t->block[i + 1]);

        out[i] = (struct ld_ope_trace_point){.value = ld_ope_series_estimate(&part)};
        out[i].is_bounded = ld_ope_series_bootstrap(&part, NULL, how, &out[i].interval);
    }
}
