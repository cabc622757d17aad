/* The book of time series: see series.h.
 *
 *     span     the buckets of one step, ascending in time
 *     bucket   a minute or an hour, with the cells that it needs: place[key] - 1 is where the cell of a key stands
 *     key      an arm, a route or a version; each decision has one of each kind
 *     open     decisions whose rewards may still come, by a hash of their id, under a
 *              key of the book's own that nobody outside knows
 *
 * A decision adds to three cells of two buckets; its reward finds them by what `open` remembers. Cells are there before
 * anything is counted, so that only a decision needs memory. An open decision whose end the log never tells (its user
 * was erased) is closed two days after its window. Cost: 0.2 us an event; once an hour a walk over what is open. */
#include "book/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash_key.h"
#include "base/ids.h"
#include "spec/event.h"

#define MINUTE_MS 60000
#define HOUR_MINUTES 60u
#define OVERDUE_MINUTES 2880u

#define ARMS (LD_SERIES_ARMS + 1)
#define VERSIONS (LD_SERIES_VERSIONS + 1)
#define FIRST_ROUTE ARMS
#define FIRST_VERSION (FIRST_ROUTE + KB_ROUTE_N)
#define N_KEYS (FIRST_VERSION + VERSIONS)
#define N_KINDS 3
#define MOST_BUCKETS (LD_SERIES_MINUTES + LD_SERIES_HOURS)
#define MOST_OPEN ((size_t)1 << 32)

struct bucket {
    uint32_t t; /* in units of the step */
    uint8_t n, cap;
    uint8_t place[N_KEYS]; /* 0: it has no such cell */
    struct ld_series_cell *cell;
};

struct span {
    struct bucket *bucket;
    size_t n, cap;
};

struct open {
    uint64_t id; /* of the decision, hashed; 0: the place is free */
    double weight, reward;
    uint32_t minute, until; /* when it was made; when its window ends */
    uint32_t arm_hash;      /* of slot 0 */
    uint8_t arm, route, version, n_left;
    bool has_reward;
};

struct series {
    struct span span[LD_N_STEPS];
    struct kb_hash_key key; /* drawn when it is first needed, then the book's for ever */
    bool has_key;
    struct open *open;
    size_t n_open, n_places, n_cells;
    char *arm[ARMS];            /* [0] is all others */
    uint64_t version[VERSIONS]; /* likewise */
    uint8_t now;                /* of version[] */
    uint8_t aggregation;
    uint32_t newest, tidied; /* minute; hour */
};

KB_WORDS(ld_series_step_words, LD_SERIES_STEP_MAP);
KB_WORDS(ld_series_by_words, LD_SERIES_BY_MAP);

const int64_t ld_series_step_ms[LD_N_STEPS] = {MINUTE_MS, (int64_t)MINUTE_MS *HOUR_MINUTES};
static const uint32_t units[LD_N_STEPS] = {1, HOUR_MINUTES}, kept[LD_N_STEPS] = {LD_SERIES_MINUTES, LD_SERIES_HOURS};
static const struct {
    unsigned first, n;
} kinds[N_KINDS] = {{0, ARMS}, {FIRST_ROUTE, KB_ROUTE_N}, {FIRST_VERSION, VERSIONS}};

/* --- buckets ------------------------------------------------------------------------------------------- */

/* The first bucket that is not before t. */
static size_t place_of(const struct span *span, uint32_t t)
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

static struct bucket *find_bucket(const struct span *span, uint32_t t)
{
    const size_t i = place_of(span, t);
    return i < span->n && span->bucket[i].t == t ? &span->bucket[i] : NULL;
}

static enum kb_err make_bucket(struct span *span, uint32_t t, struct bucket **out)
{
    const size_t i = place_of(span, t);
    if (i == span->n || span->bucket[i].t != t) {
        if (kb_grow((void **)&span->bucket, &span->cap, span->n + 1, 8, sizeof *span->bucket) != 0)
            return KB_ENOMEM;
        memmove(span->bucket + i + 1, span->bucket + i, (span->n - i) * sizeof *span->bucket);
        span->bucket[i] = (struct bucket){.t = t};
        span->n++;
    }
    *out = &span->bucket[i];
    return KB_OK;
}

static enum kb_err make_cell(struct series *s, struct bucket *b, unsigned key)
{
    if (b->place[key] != 0)
        return KB_OK;
    if (b->n == b->cap) {
        const uint8_t cap = b->cap == 0 ? 4 : b->cap < 16 ? (uint8_t)(2 * b->cap) : N_KEYS;
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
static void drop_old(struct series *s)
{
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        struct span *span = &s->span[step];
        size_t n = 0;
        while (n < span->n && span->bucket[n].t + kept[step] <= s->newest / units[step]) {
            s->n_cells -= span->bucket[n].cap;
            kb_free(span->bucket[n++].cell);
        }
        if (n > 0) {
            span->n -= n;
            memmove(span->bucket, span->bucket + n, span->n * sizeof *span->bucket);
        }
    }
}

static void add_cell(struct ld_series_cell *to, const struct ld_series_cell *d)
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
static void add(struct series *s, const struct open *o, const struct ld_series_cell *d)
{
    const unsigned keys[N_KINDS] = {o->arm, FIRST_ROUTE + o->route, FIRST_VERSION + o->version};
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        struct bucket *b = find_bucket(&s->span[step], o->minute / units[step]);
        for (size_t i = 0; b != NULL && i < N_KINDS; i++)
            if (b->place[keys[i]] != 0)
                add_cell(&b->cell[b->place[keys[i]] - 1], d);
    }
}

/* What a key has becomes part of the key of all others. */
static void fold_key(struct bucket *b, unsigned key, unsigned into)
{
    const uint8_t from = b->place[key];
    b->place[key] = 0;
    if (from == 0)
        return;
    if (b->place[into] == 0) {
        b->place[into] = from;
        return;
    }
    add_cell(&b->cell[b->place[into] - 1], &b->cell[from - 1]);
    b->cell[from - 1] = b->cell[b->n - 1];
    for (size_t i = 0; i < N_KEYS; i++)
        if (b->place[i] == b->n)
            b->place[i] = from;
    b->n--;
}

/* --- open decisions ------------------------------------------------------------------------------------ */

static uint64_t id_of(const struct series *s, const char *decision)
{
    const uint64_t h = kb_keyed_str(s->key, decision);
    return h != 0 ? h : 1;
}

/* A child of the process's key, which it does not give away. */
static void draw_key(struct series *s)
{
    const struct kb_hash_key process = ld_hash_key();
    if (!s->has_key)
        s->key = (struct kb_hash_key){{kb_keyed_str(process, "series 0"), kb_keyed_str(process, "series 1")}};
    s->has_key = true;
}

/* Where it stands, or the free place where it would. */
static size_t probe(const struct series *s, uint64_t id)
{
    size_t i = (size_t)id & (s->n_places - 1);
    while (s->open[i].id != 0 && s->open[i].id != id)
        i = (i + 1) & (s->n_places - 1);
    return i;
}

static struct open *find_open(const struct series *s, const char *decision)
{
    if (s->n_open == 0)
        return NULL;
    struct open *o = &s->open[probe(s, id_of(s, decision))];
    return o->id != 0 ? o : NULL;
}

/* Room for one more, at most half full. */
static enum kb_err fit_open(struct series *s)
{
    if (2 * (s->n_open + 1) <= s->n_places)
        return KB_OK;
    struct series next = *s;
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

static void put_open(struct series *s, const struct open *o)
{
    struct open *at = &s->open[probe(s, o->id)];
    s->n_open += at->id == 0;
    *at = *o;
}

/* All of the run behind it are placed anew, so that no search stops at the hole (as in core/history/pending.c). */
static void remove_open(struct series *s, struct open *o)
{
    o->id = 0;
    for (size_t i = ((size_t)(o - s->open) + 1) & (s->n_places - 1); s->open[i].id != 0;
         i = (i + 1) & (s->n_places - 1)) {
        const struct open moved = s->open[i];
        s->open[i].id = 0;
        s->open[probe(s, moved.id)] = moved;
    }
    s->n_open--;
}

static void close_open(struct series *s, struct open *o)
{
    add(s, o, &(struct ld_series_cell){.closed = 1});
    remove_open(s, o);
}

/* A walk begins again behind a removal that may have moved something past it. */
static void close_overdue(struct series *s)
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
static void forget_arms(struct series *s)
{
    bool is_used[ARMS] = {false};
    for (size_t step = 0; step < LD_N_STEPS; step++)
        for (size_t i = 0; i < s->span[step].n; i++)
            for (size_t k = 1; k < ARMS; k++)
                is_used[k] |= s->span[step].bucket[i].place[k] != 0;
    for (size_t i = 0; i < s->n_places; i++)
        if (s->open[i].id != 0)
            is_used[s->open[i].arm] = true;
    for (size_t k = 1; k < ARMS; k++)
        if (!is_used[k]) {
            kb_free(s->arm[k]);
            s->arm[k] = NULL;
        }
}

/* A new one gets a name where there is one left. */
static enum kb_err number_arm(struct series *s, const char *arm, uint8_t *out)
{
    size_t room = 0;
    *out = 0;
    for (size_t k = ARMS - 1; k > 0; k--) {
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
static uint8_t replace_oldest(struct series *s)
{
    size_t oldest = 1;
    for (size_t k = 2; k < VERSIONS; k++)
        if (s->version[k] < s->version[oldest])
            oldest = k;
    if (s->version[oldest] == 0)
        return (uint8_t)oldest;
    for (size_t step = 0; step < LD_N_STEPS; step++)
        for (size_t i = 0; i < s->span[step].n; i++)
            fold_key(&s->span[step].bucket[i], FIRST_VERSION + (unsigned)oldest, FIRST_VERSION);
    for (size_t i = 0; i < s->n_places; i++)
        if (s->open[i].version == oldest)
            s->open[i].version = 0;
    return (uint8_t)oldest;
}

static void take_configuration(struct series *s, uint64_t version, const struct kb_spec *spec)
{
    size_t k = 1;
    s->aggregation = (uint8_t)spec->aggregation;
    while (k < VERSIONS && s->version[k] != version)
        k++;
    s->now = k < VERSIONS ? (uint8_t)k : replace_oldest(s);
    s->version[s->now] = version;
}

/* --- events -------------------------------------------------------------------------------------------- */

static uint32_t minute_of(int64_t at_ms)
{
    const int64_t minute = at_ms / MINUTE_MS;
    return minute < 0 ? 0 : minute > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)minute;
}

/* All that counting it needs; buckets that are too old are none. */
static enum kb_err fit_decision(struct series *s, const struct open *o)
{
    const unsigned keys[N_KINDS] = {o->arm, FIRST_ROUTE + o->route, FIRST_VERSION + o->version};
    if (fit_open(s) != KB_OK)
        return KB_ENOMEM;
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        struct bucket *b;
        if (o->minute / units[step] + kept[step] <= s->newest / units[step])
            continue;
        if (make_bucket(&s->span[step], o->minute / units[step], &b) != KB_OK)
            return KB_ENOMEM;
        for (size_t i = 0; i < N_KINDS; i++)
            if (make_cell(s, b, keys[i]) != KB_OK)
                return KB_ENOMEM;
    }
    return KB_OK;
}

static enum kb_err take_decided(struct series *s, const struct kb_event *ev)
{
    const char *arm = ev->as.decided.slots[0].arm;
    draw_key(s);
    struct open o = {.id = id_of(s, ev->as.decided.decision),
                     .weight = 1 / ev->as.decided.propensity,
                     .minute = minute_of(ev->at_ms),
                     .until = minute_of(ev->as.decided.expires_at_ms),
                     .arm_hash = (uint32_t)kb_keyed_str(s->key, arm),
                     .route = (uint8_t)ev->as.decided.route,
                     .version = s->now,
                     .n_left = (uint8_t)ev->as.decided.n_slots};
    if (number_arm(s, arm, &o.arm) != KB_OK || fit_decision(s, &o) != KB_OK)
        return KB_ENOMEM;
    put_open(s, &o);
    add(s, &o, &(struct ld_series_cell){.decisions = 1, .weight = o.weight});
    return KB_OK;
}

/* The reward of slot 0 becomes y. */
static void set_reward(struct series *s, struct open *o, double y)
{
    const double old = o->has_reward ? o->reward : 0;
    add(s, o,
        &(struct ld_series_cell){
            .rewards = !o->has_reward, .sum = y - old, .square = y * y - old * old, .weighted = (y - old) * o->weight});
    o->has_reward = true;
    o->reward = y;
}

/* Under `first` a decision is closed when each slot has its reward; else by the end of its window. */
static void take_rewarded(struct series *s, const struct kb_event *ev)
{
    struct open *o = find_open(s, ev->as.rewarded.decision);
    const char *arm = ev->as.rewarded.arm;
    if (o == NULL)
        return;
    if (arm == NULL || (uint32_t)kb_keyed_str(s->key, arm) == o->arm_hash)
        set_reward(s, o, ev->as.rewarded.reward + (s->aggregation == KB_AGG_SUM && o->has_reward ? o->reward : 0));
    if (s->aggregation == KB_AGG_FIRST && o->n_left-- <= 1)
        close_open(s, o);
}

static void take_expired(struct series *s, const struct kb_event *ev)
{
    struct open *o = find_open(s, ev->as.expired.decision);
    if (o == NULL)
        return;
    if (ev->as.expired.has_reward && !o->has_reward)
        set_reward(s, o, ev->as.expired.reward);
    close_open(s, o);
}

static void tidy(struct series *s, int64_t at_ms)
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
    struct series *s = book;
    const struct kb_ev_summary *part = ev->type == KB_EV_SUMMARY ? ev->as.summary : NULL;
    tidy(s, ev->at_ms);
    if (ev->type == KB_EV_DECIDED)
        return take_decided(s, ev);
    if (ev->type == KB_EV_REWARDED)
        take_rewarded(s, ev);
    else if (ev->type == KB_EV_EXPIRED)
        take_expired(s, ev);
    else if (ev->type == KB_EV_CONFIGURED)
        take_configuration(s, ev->as.configured.version, ev->as.configured.spec);
    else if (part != NULL && part->part == KB_PART_BEGIN)
        take_configuration(s, part->version, part->spec);
    return KB_OK;
}

/* --- the file ------------------------------------------------------------------------------------------ */

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

static void put_bucket(struct kb_writer *w, const struct bucket *b)
{
    kb_put_u64(w, b->t);
    kb_put_u64(w, b->n);
    for (size_t key = 0; key < N_KEYS; key++)
        if (b->place[key] != 0) {
            kb_put_u64(w, key);
            put_cell(w, &b->cell[b->place[key] - 1]);
        }
}

static void put_one_open(struct kb_writer *w, const struct open *o)
{
    kb_put_u64(w, o->id);
    kb_put_double(w, o->weight);
    kb_put_double(w, o->reward);
    kb_put_u64(w, (uint64_t)o->minute << 32 | o->until);
    kb_put_u64(w, (uint64_t)o->arm_hash << 32 | (uint64_t)o->arm << 24 | (uint64_t)o->route << 20 |
                      (uint64_t)o->version << 16 | (uint64_t)o->n_left << 8 | o->has_reward);
}

static void save(const void *book, struct kb_writer *w)
{
    const struct series *s = book;
    kb_put_u64(w, s->newest);
    kb_put_u64(w, s->tidied);
    kb_put_u64(w, s->aggregation);
    kb_put_u64(w, s->now);
    for (size_t k = 1; k < VERSIONS; k++)
        kb_put_u64(w, s->version[k]);
    for (size_t k = 1; k < ARMS; k++)
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
}

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

static struct ld_series_cell get_cell(struct kb_reader *r)
{
    struct ld_series_cell c;
    c.decisions = get(r, UINT64_MAX);
    c.closed = get(r, c.decisions);
    c.rewards = get(r, c.decisions);
    c.sum = get_real(r);
    c.square = get_real(r);
    c.weight = get_real(r);
    c.weighted = get_real(r);
    return c;
}

static enum kb_err get_bucket(struct series *s, struct span *span, struct kb_reader *r)
{
    struct bucket *b;
    const uint32_t t = (uint32_t)get(r, UINT32_MAX / 2);
    const uint64_t n = get(r, N_KEYS);
    if (r->rc != KB_OK || (span->n > 0 && span->bucket[span->n - 1].t >= t))
        return KB_ECORRUPT;
    if (make_bucket(span, t, &b) != KB_OK)
        return KB_ENOMEM;
    for (uint64_t i = 0; i < n; i++) {
        const unsigned key = (unsigned)get(r, N_KEYS - 1);
        if (r->rc != KB_OK || b->place[key] != 0)
            return KB_ECORRUPT;
        if (make_cell(s, b, key) != KB_OK)
            return KB_ENOMEM;
        b->cell[b->n - 1] = get_cell(r);
    }
    return r->rc;
}

static enum kb_err get_arm(struct series *s, size_t k, struct kb_reader *r)
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

static enum kb_err get_one_open(struct series *s, struct kb_reader *r)
{
    struct open o = {.id = get(r, UINT64_MAX)};
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
    if (r->rc != KB_OK || o.id == 0 || o.arm >= ARMS || o.route >= KB_ROUTE_N || o.version >= VERSIONS)
        return KB_ECORRUPT;
    if (fit_open(s) != KB_OK)
        return KB_ENOMEM;
    put_open(s, &o);
    return KB_OK;
}

static enum kb_err load(void *book, struct kb_reader *r)
{
    struct series *s = book;
    enum kb_err rc = KB_OK;
    s->newest = (uint32_t)get(r, UINT32_MAX / 2);
    s->tidied = (uint32_t)get(r, UINT32_MAX / 2);
    s->aggregation = (uint8_t)get(r, KB_AGG_N - 1);
    s->now = (uint8_t)get(r, VERSIONS - 1);
    for (size_t k = 1; k < VERSIONS; k++)
        s->version[k] = get(r, UINT64_MAX);
    for (size_t k = 1; k < ARMS && rc == KB_OK; k++)
        rc = get_arm(s, k, r);
    for (size_t step = 0; step < LD_N_STEPS && rc == KB_OK; step++)
        for (uint64_t n = get(r, kept[step]); n > 0 && rc == KB_OK; n--)
            rc = get_bucket(s, &s->span[step], r);
    s->has_key = get(r, 1) != 0;
    s->key = (struct kb_hash_key){{get(r, UINT64_MAX), 0}};
    s->key.k[1] = get(r, UINT64_MAX);
    for (uint64_t n = get(r, MOST_OPEN); n > 0 && rc == KB_OK; n--)
        rc = get_one_open(s, r);
    return rc;
}

static void close_series(void *book)
{
    struct series *s = book;
    for (size_t step = 0; step < LD_N_STEPS; step++) {
        for (size_t i = 0; i < s->span[step].n; i++)
            kb_free(s->span[step].bucket[i].cell);
        kb_free(s->span[step].bucket);
    }
    for (size_t k = 1; k < ARMS; k++)
        kb_free(s->arm[k]);
    kb_free(s->open);
}

static size_t bytes(const void *book)
{
    const struct series *s = book;
    return s->n_cells * sizeof(struct ld_series_cell) + s->n_places * sizeof *s->open +
           (s->span[0].cap + s->span[1].cap) * sizeof(struct bucket);
}

const struct ld_book_kind ld_series_kind = {.name = "series",
                                            .version = 1,
                                            .size = sizeof(struct series),
                                            .take = take,
                                            .save = save,
                                            .load = load,
                                            .close = close_series,
                                            .bytes = bytes};

/* --- reading ------------------------------------------------------------------------------------------- */

/* All of a bucket: each decision has one route. */
static struct ld_series_cell total_of(const struct bucket *b)
{
    struct ld_series_cell sum = {.decisions = 0};
    for (unsigned k = 0; k < KB_ROUTE_N; k++)
        if (b->place[FIRST_ROUTE + k] != 0)
            add_cell(&sum, &b->cell[b->place[FIRST_ROUTE + k] - 1]);
    return sum;
}

static void copy_bucket(const struct bucket *b, enum ld_series_by by, int64_t at_ms, struct ld_series_view *v)
{
    if (by == LD_BY_NOTHING) {
        v->row[v->n++] = (struct ld_series_row){.at_ms = at_ms, .cell = total_of(b)};
        return;
    }
    for (unsigned k = 0; k < kinds[by].n; k++) {
        const uint8_t place = b->place[kinds[by].first + k];
        if (place != 0)
            v->row[v->n++] = (struct ld_series_row){.at_ms = at_ms, .which = k, .cell = b->cell[place - 1]};
    }
}

static enum kb_err copy_names(const struct series *s, struct ld_series_view *v)
{
    memcpy(v->version, s->version, sizeof v->version);
    for (size_t k = 1; k < ARMS; k++)
        if (s->arm[k] != NULL && (v->arm[k] = strdup(s->arm[k])) == NULL)
            return KB_ENOMEM;
    return KB_OK;
}

enum kb_err ld_series_look(const void *book, enum ld_series_step step, enum ld_series_by by, int64_t from_ms,
                           int64_t to_ms, struct ld_series_view *out)
{
    const struct series *s = book;
    const struct span *span = &s->span[step];
    const int64_t ms = ld_series_step_ms[step], newest = s->newest / units[step], n_kept = kept[step];
    const size_t per_bucket = by == LD_BY_NOTHING ? 1 : kinds[by].n;
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
    for (size_t k = 0; k < ARMS; k++)
        free(v->arm[k]);
    *v = (struct ld_series_view){.n = 0};
}
