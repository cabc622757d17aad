/* The book of time series in the tenant's file: see series.h. */
#include "book/series_impl.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

#define MOST_OPEN ((size_t)1 << 32)

/* --- saving ------------------------------------------------------------------------------------------ */

static void put_cell(struct kb_writer *w, const struct ld_series_cell *c)
{
    kb_put_u64(w, c->decisions);
    kb_put_u64(w, c->closed);
    kb_put_u64(w, c->rewards);
    kb_put_double(w, c->sum);
    kb_put_double(w, c->square);
    kb_put_double(w, c->weight);
    kb_put_double(w, c->weighted);
}

static void put_bucket(struct kb_writer *w, const struct ld_series_bucket *b)
{
    kb_put_u64(w, b->t);
    kb_put_u64(w, b->n);
    for (size_t key = 0; key < LD_SERIES_N_KEYS; key++)
        if (b->place[key] != 0) {
            kb_put_u64(w, key);
            put_cell(w, &b->cell[b->place[key] - 1]);
        }
}

static void put_one_open(struct kb_writer *w, const struct ld_series_open *o)
{
    kb_put_u64(w, o->id);
    kb_put_double(w, o->weight);
    kb_put_double(w, o->reward);
    kb_put_u64(w, (uint64_t)o->minute << 32 | o->until);
    kb_put_u64(w, (uint64_t)o->arm_hash << 32 | (uint64_t)o->arm << 24 | (uint64_t)o->route << 20 |
                      (uint64_t)o->version << 16 | (uint64_t)o->n_left << 8 | o->has_reward);
}

static bool has_names(const struct ld_series *s)
{
    bool has = false;
    for (size_t k = 0; k < LD_SERIES_METRICS; k++)
        has |= s->metric[k].name[0] != '\0';
    return has;
}

static uint32_t counted_of(const struct ld_series_open *o)
{
    return (uint32_t)o->counted[1] << 16 | o->counted[0];
}

/* Open decisions that have values in the sums; a body of before this ends without: there, none has. */
static void put_counted(const struct ld_series *s, struct kb_writer *w)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->n_places; i++)
        n += s->open[i].id != 0 && counted_of(&s->open[i]) != 0;
    kb_put_u64(w, n);
    for (size_t i = 0; i < s->n_places; i++)
        if (s->open[i].id != 0 && counted_of(&s->open[i]) != 0)
            kb_put_words(w, (const uint64_t[]){s->open[i].id, counted_of(&s->open[i])}, 2);
}

/* Behind all else, where there are any: a body of before them ends without. */
static void put_metrics(const struct ld_series *s, struct kb_writer *w)
{
    if (!s->has_metrics && !has_names(s))
        return;
    kb_put_u64(w, s->has_metrics);
    for (size_t k = 0; k < LD_SERIES_METRICS; k++) {
        kb_put_str(w, s->metric[k].name);
        kb_put_u64(w, s->metric[k].newest);
        kb_put_u64(w, s->metric[k].n);
        kb_put_double(w, s->metric[k].sum);
    }
    put_counted(s, w);
}

void ld_series_save(const void *book, struct kb_writer *w)
{
    const struct ld_series *s = book;
    kb_put_u64(w, s->newest);
    kb_put_u64(w, s->tidied);
    kb_put_u64(w, s->aggregation);
    kb_put_u64(w, s->now);
    for (size_t k = 1; k < LD_SERIES_N_VERSIONS; k++)
        kb_put_u64(w, s->version[k]);
    for (size_t k = 1; k < LD_SERIES_N_ARMS; k++)
        kb_put_str(w, s->arm[k] != NULL ? s->arm[k] : "");
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        kb_put_u64(w, s->span[step].n);
        for (size_t i = 0; i < s->span[step].n; i++)
            put_bucket(w, &s->span[step].bucket[i]);
    }
    kb_put_u64(w, s->has_key);
    kb_put_words(w, s->key.k, 2);
    kb_put_u64(w, s->n_open);
    for (size_t i = 0; i < s->n_places; i++)
        if (s->open[i].id != 0)
            put_one_open(w, &s->open[i]);
    put_metrics(s, w);
}

/* --- loading ------------------------------------------------------------------------------------------- */

/* A number of at most `most`; else the body is none. */
static uint64_t get(struct kb_reader *r, uint64_t most)
{
    const uint64_t x = kb_get_u64(r);
    if (x > most && r->rc == KB_OK)
        r->rc = KB_ECORRUPT;
    return r->rc == KB_OK ? x : 0;
}

static double get_real(struct kb_reader *r)
{
    const double x = kb_get_double(r);
    if (!isfinite(x) && r->rc == KB_OK)
        r->rc = KB_ECORRUPT;
    return r->rc == KB_OK ? x : 0;
}

/* That of a metric has values alone: decisions are those of its bucket. */
static struct ld_series_cell get_cell(struct kb_reader *r, bool is_metric)
{
    struct ld_series_cell c;
    c.decisions = get(r, UINT64_MAX);
    c.closed = get(r, c.decisions);
    c.rewards = get(r, is_metric ? UINT64_MAX : c.decisions);
    c.sum = get_real(r);
    c.square = get_real(r);
    c.weight = get_real(r);
    c.weighted = get_real(r);
    return c;
}

static enum kb_err get_bucket(struct ld_series *s, struct ld_series_span *span, struct kb_reader *r)
{
    struct ld_series_bucket *b;
    const uint32_t t = (uint32_t)get(r, UINT32_MAX / 2);
    const uint64_t n = get(r, LD_SERIES_N_KEYS);
    if (r->rc != KB_OK || (span->n > 0 && span->bucket[span->n - 1].t >= t))
        return KB_ECORRUPT;
    if (ld_series_make_bucket(span, t, &b) != KB_OK)
        return KB_ENOMEM;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned key = (unsigned)get(r, LD_SERIES_N_KEYS - 1);
        if (r->rc != KB_OK || b->place[key] != 0)
            return KB_ECORRUPT;
        if (ld_series_make_cell(s, b, key) != KB_OK)
            return KB_ENOMEM;
        b->cell[b->n - 1] = get_cell(r, key >= LD_SERIES_FIRST_METRIC);
    }
    return r->rc;
}

static enum kb_err get_arm(struct ld_series *s, size_t k, struct kb_reader *r)
{
    size_t n = 0;
    const char *name = kb_get_str(r, &n);
    if (name == NULL || n > KB_ID_MAX_BYTES || memchr(name, '\0', n) != NULL)
        return KB_ECORRUPT;
    if (n == 0)
        return KB_OK;
    s->arm[k] = kb_malloc(n + 1);
    if (s->arm[k] == NULL)
        return KB_ENOMEM;
    memcpy(s->arm[k], name, n);
    s->arm[k][n] = '\0';
    return KB_OK;
}

static enum kb_err get_one_open(struct ld_series *s, struct kb_reader *r)
{
    struct ld_series_open o = {.id = get(r, UINT64_MAX)};
    o.weight = get_real(r);
    o.reward = get_real(r);
    const uint64_t times = get(r, UINT64_MAX), rest = get(r, UINT64_MAX);
    o.minute = (uint32_t)(times >> 32);
    o.until = (uint32_t)times;
    o.arm_hash = (uint32_t)(rest >> 32);
    o.arm = (uint8_t)(rest >> 24);
    o.route = rest >> 20 & 15;
    o.version = rest >> 16 & 15;
    o.n_left = (uint8_t)(rest >> 8);
    o.has_reward = (rest & 1) != 0;
    if (r->rc != KB_OK || o.id == 0 || o.arm >= LD_SERIES_N_ARMS || o.route >= KB_ROUTE_N ||
        o.version >= LD_SERIES_N_VERSIONS)
        return KB_ECORRUPT;
    if (ld_series_fit_open(s) != KB_OK)
        return KB_ENOMEM;
    ld_series_put_open(s, &o);
    return KB_OK;
}

static enum kb_err get_counted(struct ld_series *s, struct kb_reader *r)
{
    for (uint64_t n = get(r, s->n_open); n > 0 && r->rc == KB_OK; n--) {
        struct ld_series_open *o = ld_series_find_open(s, get(r, UINT64_MAX));
        const uint32_t counted = (uint32_t)get(r, UINT32_MAX);
        if (o == NULL)
            return KB_ECORRUPT;
        o->counted[0] = (uint16_t)counted;
        o->counted[1] = (uint16_t)(counted >> 16);
    }
    return r->rc;
}

static enum kb_err get_metrics(struct ld_series *s, struct kb_reader *r)
{
    s->has_metrics = get(r, 1) != 0;
    for (size_t k = 0; k < LD_SERIES_METRICS && r->rc == KB_OK; k++) {
        struct ld_series_metric *m = &s->metric[k];
        size_t n = 0;
        const char *name = kb_get_str(r, &n);
        if (name == NULL || n > KB_METRIC_MAX_BYTES || memchr(name, '\0', n) != NULL)
            return KB_ECORRUPT;
        memcpy(m->name, name, n);
        m->newest = (uint32_t)get(r, UINT32_MAX / 2);
        m->n = get(r, UINT64_MAX);
        m->sum = get_real(r);
    }
    return r->rc == KB_OK && r->pos < r->n ? get_counted(s, r) : r->rc;
}

static bool has_nameless(const struct ld_series *s)
{
    bool has = false;
    for (size_t step = 0; step < LD_N_STEPS; step++)
        for (size_t i = 0; i < s->span[step].n; i++)
            for (size_t k = 0; k < LD_SERIES_METRICS; k++)
                has |= s->span[step].bucket[i].place[LD_SERIES_FIRST_METRIC + k] != 0 && s->metric[k].name[0] == '\0';
    return has;
}

enum kb_err ld_series_load(void *book, struct kb_reader *r)
{
    struct ld_series *s = book;
    enum kb_err rc = KB_OK;
    s->newest = (uint32_t)get(r, UINT32_MAX / 2);
    s->tidied = (uint32_t)get(r, UINT32_MAX / 2);
    s->aggregation = (uint8_t)get(r, KB_AGG_N - 1);
    s->now = (uint8_t)get(r, LD_SERIES_N_VERSIONS - 1);
    for (size_t k = 1; k < LD_SERIES_N_VERSIONS; k++)
        s->version[k] = get(r, UINT64_MAX);
    for (size_t k = 1; k < LD_SERIES_N_ARMS && rc == KB_OK; k++)
        rc = get_arm(s, k, r);
    for (size_t step = 0; step < LD_N_STEPS && rc == KB_OK; step++)
        for (uint64_t n = get(r, ld_series_kept[step]); n > 0 && rc == KB_OK; n--)
            rc = get_bucket(s, &s->span[step], r);
    s->has_key = get(r, 1) != 0;
    s->key = (struct kb_hash_key){{get(r, UINT64_MAX), 0}};
    s->key.k[1] = get(r, UINT64_MAX);
    for (uint64_t n = get(r, MOST_OPEN); n > 0 && rc == KB_OK; n--)
        rc = get_one_open(s, r);
    if (rc == KB_OK && r->rc == KB_OK && r->pos < r->n)
        rc = get_metrics(s, r);
    if (rc == KB_OK && has_nameless(s))
        rc = KB_ECORRUPT;
    return rc;
}
