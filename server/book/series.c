/* The book of time series: see series.h.
 *
 *     span     the buckets of one step, ascending in time
 *     bucket   a minute or an hour, with the cells that it needs: place[key] - 1 is where the cell of a key stands
 *     key      an arm, a route or a version, of which each decision has one; or a metric
 *     open     decisions whose rewards may still come, by a hash of their id, under a
 *              key of the book's own that nobody outside knows
 *
 * A decision adds to three cells of two buckets; its reward finds them by what `open` remembers. Cells are there before
 * anything is counted, so that only a decision needs memory. An open decision whose end the log never tells (its user
 * was erased) is closed two days after its window. Cost: 0.2 us an event; once an hour a walk over what is open. */
#include "book/series_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define MINUTE_MS 60000
#define HOUR_MINUTES 60u
#define OVERDUE_MINUTES 2880u

KB_WORDS(ld_series_step_words, LD_SERIES_STEP_MAP);
KB_WORDS(ld_series_by_words, LD_SERIES_BY_MAP);

const int64_t ld_series_step_ms[LD_N_STEPS] = {MINUTE_MS, (int64_t)MINUTE_MS *HOUR_MINUTES};
const uint32_t ld_series_unit[LD_N_STEPS] = {1, HOUR_MINUTES};
const uint32_t ld_series_kept[LD_N_STEPS] = {LD_SERIES_MINUTES, LD_SERIES_HOURS};

/* --- buckets ------------------------------------------------------------------------------------------- */

/* The first bucket that is not before t. */
static size_t place_of(const struct ld_series_span *span, uint32_t t)
{
    size_t lo = 0, hi = span->n;
    if (hi > 0 && span->bucket[hi - 1].t <= t)
        return span->bucket[hi - 1].t == t ? hi - 1 : hi;
    while (lo < hi) {
        const size_t middle = lo + (hi - lo) / 2;
        if (span->bucket[middle].t < t)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

struct ld_series_bucket *ld_series_find_bucket(const struct ld_series_span *span, uint32_t t)
{
    const size_t i = place_of(span, t);
    return i < span->n && span->bucket[i].t == t ? &span->bucket[i] : NULL;
}

enum kb_err ld_series_make_bucket(struct ld_series_span *span, uint32_t t, struct ld_series_bucket **out)
{
    const size_t i = place_of(span, t);
    if (i == span->n || span->bucket[i].t != t) {
        if (kb_grow((void **)&span->bucket, &span->cap, span->n + 1, 8, sizeof *span->bucket) != 0)
            return KB_ENOMEM;
        memmove(span->bucket + i + 1, span->bucket + i, (span->n - i) * sizeof *span->bucket);
        span->bucket[i] = (struct ld_series_bucket){.t = t};
        span->n++;
    }
    *out = &span->bucket[i];
    return KB_OK;
}

/* Without metrics no bucket has more cells than keys before theirs. */
static uint8_t next_cap(uint8_t cap)
{
    if (cap < 16)
        return cap == 0 ? 4 : (uint8_t)(2 * cap);
    return cap < LD_SERIES_FIRST_METRIC ? LD_SERIES_FIRST_METRIC : LD_SERIES_N_KEYS;
}

enum kb_err ld_series_make_cell(struct ld_series *s, struct ld_series_bucket *b, unsigned key)
{
    if (b->place[key] != 0)
        return KB_OK;
    if (b->n == b->cap) {
        const uint8_t cap = next_cap(b->cap);
        struct ld_series_cell *cell = kb_regrow(b->cell, cap, sizeof *cell);
        if (cell == NULL)
            return KB_ENOMEM;
        s->n_cells += (size_t)(cap - b->cap);
        b->cell = cell;
        b->cap = cap;
    }
    b->cell[b->n] = (struct ld_series_cell){.decisions = 0};
    b->place[key] = ++b->n;
    return KB_OK;
}

/* Those of before what is kept, from the newest event on. */
static void drop_old(struct ld_series *s)
{
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        struct ld_series_span *span = &s->span[step];
        size_t n = 0;
        while (n < span->n && span->bucket[n].t + ld_series_kept[step] <= s->newest / ld_series_unit[step]) {
            s->n_cells -= span->bucket[n].cap;
            kb_free(span->bucket[n++].cell);
        }
        if (n > 0) {
            span->n -= n;
            memmove(span->bucket, span->bucket + n, span->n * sizeof *span->bucket);
        }
    }
}

void ld_series_add_cell(struct ld_series_cell *to, const struct ld_series_cell *d)
{
    to->decisions += d->decisions;
    to->closed += d->closed;
    to->rewards += d->rewards;
    to->sum += d->sum;
    to->square += d->square;
    to->weight += d->weight;
    to->weighted += d->weighted;
}

/* To the cells of a decision, where they are still kept. */
static void add(struct ld_series *s, const struct ld_series_open *o, const struct ld_series_cell *d)
{
    const unsigned keys[LD_SERIES_N_KINDS] = {o->arm, LD_SERIES_FIRST_ROUTE + o->route,
                                              LD_SERIES_FIRST_VERSION + o->version};
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        struct ld_series_bucket *b = ld_series_find_bucket(&s->span[step], o->minute / ld_series_unit[step]);
        for (size_t i = 0; b != NULL && i < LD_SERIES_N_KINDS; i++)
            if (b->place[keys[i]] != 0)
                ld_series_add_cell(&b->cell[b->place[keys[i]] - 1], d);
    }
}

void ld_series_fold_key(struct ld_series_bucket *b, unsigned key, unsigned into)
{
    const uint8_t from = b->place[key];
    b->place[key] = 0;
    if (from == 0)
        return;
    if (into < LD_SERIES_N_KEYS && b->place[into] == 0) {
        b->place[into] = from;
        return;
    }
    if (into < LD_SERIES_N_KEYS)
        ld_series_add_cell(&b->cell[b->place[into] - 1], &b->cell[from - 1]);
    b->cell[from - 1] = b->cell[b->n - 1];
    for (size_t i = 0; i < LD_SERIES_N_KEYS; i++)
        if (b->place[i] == b->n)
            b->place[i] = from;
    b->n--;
}

/* --- open decisions ------------------------------------------------------------------------------------ */

static uint64_t id_of(const struct ld_series *s, const char *decision)
{
    const uint64_t h = kb_keyed_str(s->key, decision);
    return h != 0 ? h : 1;
}

/* A child of the process's key, which it does not give away. */
static void draw_key(struct ld_series *s)
{
    const struct kb_hash_key process = ld_hash_key();
    if (!s->has_key)
        s->key = (struct kb_hash_key){{kb_keyed_str(process, "series 0"), kb_keyed_str(process, "series 1")}};
    s->has_key = true;
}

/* Where it stands, or the free place where it would. */
static size_t probe(const struct ld_series *s, uint64_t id)
{
    size_t i = (size_t)id & (s->n_places - 1);
    while (s->open[i].id != 0 && s->open[i].id != id)
        i = (i + 1) & (s->n_places - 1);
    return i;
}

struct ld_series_open *ld_series_find_open(const struct ld_series *s, uint64_t id)
{
    if (s->n_open == 0)
        return NULL;
    struct ld_series_open *o = &s->open[probe(s, id)];
    return o->id != 0 ? o : NULL;
}

static struct ld_series_open *find_open(const struct ld_series *s, const char *decision)
{
    return s->n_open > 0 ? ld_series_find_open(s, id_of(s, decision)) : NULL;
}

/* Room for one more, at most half full. */
enum kb_err ld_series_fit_open(struct ld_series *s)
{
    if (2 * (s->n_open + 1) <= s->n_places)
        return KB_OK;
    struct ld_series next = *s;
    next.n_places = s->n_places == 0 ? 16 : 2 * s->n_places;
    next.open = kb_array(next.n_places, 1, sizeof *next.open);
    if (next.open == NULL)
        return KB_ENOMEM;
    for (size_t i = 0; i < s->n_places; i++)
        if (s->open[i].id != 0)
            next.open[probe(&next, s->open[i].id)] = s->open[i];
    kb_free(s->open);
    s->open = next.open;
    s->n_places = next.n_places;
    return KB_OK;
}

void ld_series_put_open(struct ld_series *s, const struct ld_series_open *o)
{
    struct ld_series_open *at = &s->open[probe(s, o->id)];
    s->n_open += at->id == 0;
    *at = *o;
}

/* All of the run behind it are placed anew, so that no search stops at the hole (as in core/history/pending.c). */
static void remove_open(struct ld_series *s, struct ld_series_open *o)
{
    o->id = 0;
    for (size_t i = ((size_t)(o - s->open) + 1) & (s->n_places - 1); s->open[i].id != 0;
         i = (i + 1) & (s->n_places - 1)) {
        const struct ld_series_open moved = s->open[i];
        s->open[i].id = 0;
        s->open[probe(s, moved.id)] = moved;
    }
    s->n_open--;
}

static void close_open(struct ld_series *s, struct ld_series_open *o)
{
    add(s, o, &(struct ld_series_cell){.closed = 1});
    remove_open(s, o);
}

/* A walk begins again behind a removal that may have moved something past it. */
static void close_overdue(struct ld_series *s)
{
    bool has_closed = true;
    while (has_closed) {
        has_closed = false;
        for (size_t i = 0; i < s->n_places; i++)
            if (s->open[i].id != 0 && (uint64_t)s->open[i].until + OVERDUE_MINUTES < s->newest) {
                close_open(s, &s->open[i]);
                has_closed = true;
            }
    }
}

/* --- arms and versions --------------------------------------------------------------------------------- */

/* Names of arms that no bucket and no open decision has any more. */
static void forget_arms(struct ld_series *s)
{
    bool is_used[LD_SERIES_N_ARMS] = {false};
    for (size_t step = 0; step < LD_N_STEPS; step++)
        for (size_t i = 0; i < s->span[step].n; i++)
            for (size_t k = 1; k < LD_SERIES_N_ARMS; k++)
                is_used[k] |= s->span[step].bucket[i].place[k] != 0;
    for (size_t i = 0; i < s->n_places; i++)
        if (s->open[i].id != 0)
            is_used[s->open[i].arm] = true;
    for (size_t k = 1; k < LD_SERIES_N_ARMS; k++)
        if (!is_used[k]) {
            kb_free(s->arm[k]);
            s->arm[k] = NULL;
        }
}

/* A new one gets a name where there is one left. */
static enum kb_err number_arm(struct ld_series *s, const char *arm, uint8_t *out)
{
    size_t room = 0;
    *out = 0;
    for (size_t k = LD_SERIES_N_ARMS - 1; k > 0; k--) {
        if (s->arm[k] == NULL)
            room = k;
        else if (strcmp(s->arm[k], arm) == 0)
            *out = (uint8_t)k;
    }
    if (*out != 0 || room == 0)
        return KB_OK;
    const size_t n = strlen(arm) + 1;
    s->arm[room] = kb_malloc(n);
    if (s->arm[room] == NULL)
        return KB_ENOMEM;
    memcpy(s->arm[room], arm, n);
    *out = (uint8_t)room;
    return KB_OK;
}

/* The oldest gives way: what it had is summed with all others. */
static uint8_t replace_oldest(struct ld_series *s)
{
    size_t oldest = 1;
    for (size_t k = 2; k < LD_SERIES_N_VERSIONS; k++)
        if (s->version[k] < s->version[oldest])
            oldest = k;
    if (s->version[oldest] == 0)
        return (uint8_t)oldest;
    for (size_t step = 0; step < LD_N_STEPS; step++)
        for (size_t i = 0; i < s->span[step].n; i++)
            ld_series_fold_key(&s->span[step].bucket[i], LD_SERIES_FIRST_VERSION + (unsigned)oldest,
                               LD_SERIES_FIRST_VERSION);
    for (size_t i = 0; i < s->n_places; i++)
        if (s->open[i].version == oldest)
            s->open[i].version = 0;
    return (uint8_t)oldest;
}

static void take_configuration(struct ld_series *s, uint64_t version, const struct kb_spec *spec)
{
    size_t k = 1;
    s->aggregation = (uint8_t)spec->aggregation;
    s->has_metrics = spec->has_metrics;
    while (k < LD_SERIES_N_VERSIONS && s->version[k] != version)
        k++;
    s->now = k < LD_SERIES_N_VERSIONS ? (uint8_t)k : replace_oldest(s);
    s->version[s->now] = version;
}

/* --- events -------------------------------------------------------------------------------------------- */

static uint32_t minute_of(int64_t at_ms)
{
    const int64_t minute = at_ms / MINUTE_MS;
    return minute < 0 ? 0 : minute > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)minute;
}

/* All that counting it needs; buckets that are too old are none. */
static enum kb_err fit_decision(struct ld_series *s, const struct ld_series_open *o)
{
    const unsigned keys[LD_SERIES_N_KINDS] = {o->arm, LD_SERIES_FIRST_ROUTE + o->route,
                                              LD_SERIES_FIRST_VERSION + o->version};
    if (ld_series_fit_open(s) != KB_OK)
        return KB_ENOMEM;
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        struct ld_series_bucket *b;
        if (o->minute / ld_series_unit[step] + ld_series_kept[step] <= s->newest / ld_series_unit[step])
            continue;
        if (ld_series_make_bucket(&s->span[step], o->minute / ld_series_unit[step], &b) != KB_OK)
            return KB_ENOMEM;
        for (size_t i = 0; i < LD_SERIES_N_KINDS; i++)
            if (ld_series_make_cell(s, b, keys[i]) != KB_OK)
                return KB_ENOMEM;
    }
    return KB_OK;
}

static enum kb_err take_decided(struct ld_series *s, const struct kb_event *ev)
{
    const char *arm = ev->as.decided.slots[0].arm;
    draw_key(s);
    struct ld_series_open o = {.id = id_of(s, ev->as.decided.decision),
                               .weight = 1 / ev->as.decided.propensity,
                               .minute = minute_of(ev->at_ms),
                               .until = minute_of(ev->as.decided.expires_at_ms),
                               .arm_hash = (uint32_t)kb_keyed_str(s->key, arm),
                               .route = (uint8_t)ev->as.decided.route,
                               .version = s->now,
                               .n_left = (uint8_t)ev->as.decided.n_slots};
    if (number_arm(s, arm, &o.arm) != KB_OK || fit_decision(s, &o) != KB_OK)
        return KB_ENOMEM;
    ld_series_put_open(s, &o);
    add(s, &o, &(struct ld_series_cell){.decisions = 1, .weight = o.weight});
    return KB_OK;
}

/* The reward of slot 0 becomes y. */
static void set_reward(struct ld_series *s, struct ld_series_open *o, double y)
{
    const double old = o->has_reward ? o->reward : 0;
    add(s, o,
        &(struct ld_series_cell){
            .rewards = !o->has_reward, .sum = y - old, .square = y * y - old * old, .weighted = (y - old) * o->weight});
    o->has_reward = true;
    o->reward = y;
}

static bool is_of_first_slot(const struct ld_series *s, const struct ld_series_open *o, const char *arm)
{
    return arm == NULL || (uint32_t)kb_keyed_str(s->key, arm) == o->arm_hash;
}

/* Of an objective by a name there is a value beside the reward. Values of a decision that the book has not seen, or
 * that is closed, are left out: whether they are new nobody here knows. */
static enum kb_err take_metric(struct ld_series *s, const char *decision, const char *arm,
                               const struct kb_ev_metric *metric, int64_t at_ms)
{
    struct ld_series_open *o = find_open(s, decision);

    if (metric->name == NULL)
        return KB_OK;
    s->has_metrics = true; /* a body of before them does not know */
    return o != NULL ? ld_series_take_metric(s, o, is_of_first_slot(s, o, arm), minute_of(at_ms), metric) : KB_OK;
}

/* Under `first` a decision is closed when each slot has its reward, but where metrics may still come; else by the end
 * of its window. */
static enum kb_err take_rewarded(struct ld_series *s, const struct kb_event *ev)
{
    const char *decision = ev->as.rewarded.decision, *arm = ev->as.rewarded.arm;
    struct ld_series_open *o = find_open(s, decision);
    const enum kb_err rc = take_metric(s, decision, arm, &ev->as.rewarded.metric, ev->at_ms);
    if (rc != KB_OK || o == NULL)
        return rc;
    if (is_of_first_slot(s, o, arm))
        set_reward(s, o, ev->as.rewarded.reward + (s->aggregation == KB_AGG_SUM && o->has_reward ? o->reward : 0));
    if (s->aggregation == KB_AGG_FIRST && !s->has_metrics && o->n_left-- <= 1)
        close_open(s, o);
    return KB_OK;
}

static void take_expired(struct ld_series *s, const struct kb_event *ev)
{
    struct ld_series_open *o = find_open(s, ev->as.expired.decision);
    if (o == NULL)
        return;
    if (ev->as.expired.has_reward && !o->has_reward)
        set_reward(s, o, ev->as.expired.reward);
    close_open(s, o);
}

static void tidy(struct ld_series *s, int64_t at_ms)
{
    const uint32_t minute = minute_of(at_ms);
    if (minute <= s->newest)
        return;
    s->newest = minute;
    drop_old(s);
    if (minute / HOUR_MINUTES <= s->tidied)
        return;
    s->tidied = minute / HOUR_MINUTES;
    close_overdue(s);
    forget_arms(s);
}

static enum kb_err take(void *book, const struct kb_event *ev)
{
    struct ld_series *s = book;
    const struct kb_ev_summary *part = ev->type == KB_EV_SUMMARY ? ev->as.summary : NULL;
    tidy(s, ev->at_ms);
    if (ev->type == KB_EV_DECIDED)
        return take_decided(s, ev);
    if (ev->type == KB_EV_REWARDED)
        return take_rewarded(s, ev);
    if (ev->type == KB_EV_MEASURED && !ev->as.measured.is_late)
        return take_metric(s, ev->as.measured.decision, ev->as.measured.arm, &ev->as.measured.metric, ev->at_ms);
    if (ev->type == KB_EV_EXPIRED)
        take_expired(s, ev);
    else if (ev->type == KB_EV_CONFIGURED)
        take_configuration(s, ev->as.configured.version, ev->as.configured.spec);
    else if (part != NULL && part->part == KB_PART_BEGIN)
        take_configuration(s, part->version, part->spec);
    return KB_OK;
}

static void close_series(void *book)
{
    struct ld_series *s = book;
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        for (size_t i = 0; i < s->span[step].n; i++)
            kb_free(s->span[step].bucket[i].cell);
        kb_free(s->span[step].bucket);
    }
    for (size_t k = 1; k < LD_SERIES_N_ARMS; k++)
        kb_free(s->arm[k]);
    kb_free(s->open);
}

static size_t bytes(const void *book)
{
    const struct ld_series *s = book;
    return s->n_cells * sizeof(struct ld_series_cell) + s->n_places * sizeof *s->open +
           (s->span[0].cap + s->span[1].cap) * sizeof(struct ld_series_bucket);
}

const struct ld_book_kind ld_series_kind = {.name = "series",
                                            .version = 1,
                                            .size = sizeof(struct ld_series),
                                            .take = take,
                                            .save = ld_series_save,
                                            .load = ld_series_load,
                                            .close = close_series,
                                            .bytes = bytes};
