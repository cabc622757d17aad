/* How a challenger's scores went over time: see challenger_history.h. */
#include "task/challenger_history.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/log.h"
#include "spec/event.h"

#define N_SUMS 10u
#define ROW "challengers"
#define VERSION 1u

/* ---- points ------------------------------------------------------------------------------------------------ */

/* A configuration in force of the same policy goes on with the comparison: behind a summary it has another number. One
 * of before is read again. */
static bool follow_comparison(struct ld_score_history *h, const struct ld_scores *s)
{
    if (s->told.since <= h->since)
        return false;
    if (s->policy != h->policy || h->step == 0) {
        h->n = 0;
        h->step = 1;
    }
    h->since = s->told.since;
    h->policy = s->policy;
    return true;
}

/* The first point is at the step itself, so the second, the fourth and so on are at multiples of the next step. */
static void thin(struct ld_score_history *h)
{
    for (size_t i = 0; 2 * i + 1 < h->n; i++)
        h->point[i] = h->point[2 * i + 1];
    h->n /= 2;
    h->step *= 2;
}

bool ld_score_history_take(struct ld_score_history *h, const struct ld_scores *s, uint64_t before,
                           const struct kb_event *ev)
{
    const bool is_changed = follow_comparison(h, s);
    const uint64_t n = s->told.sums.n;

    if (before > n) /* the comparison has begun anew */
        before = 0;
    if (n == before || s->told.since != h->since || (h->n > 0 && ev->seq <= h->point[h->n - 1].seq))
        return is_changed;
    if (h->n == LD_SCORE_POINTS && n / h->step > before / h->step)
        thin(h);
    if (n / h->step == before / h->step)
        return is_changed;
    h->point[h->n++] = (struct ld_score_point){.seq = ev->seq, .at_ms = ev->at_ms, .sums = s->told.sums};
    return true;
}

uint64_t ld_challenger_identity(const struct ld_challenger_settings *settings)
{
    struct kb_spec spec = settings->spec;

    spec.routing = (struct kb_routing_spec){0}; /* the tenant's own: see ld_challenger_is_same */
    return kb_spec_digest(&spec, kb_hash_str(KB_HASH_INIT, settings->name));
}

/* ---- the file ---------------------------------------------------------------------------------------------- */

static void put_sums(struct kb_writer *w, const struct kb_snips *s)
{
    const double sums[N_SUMS] = {s->origin, s->w, s->ww, s->wr, s->wwr, s->wrr, s->wwrr, s->r, s->rr, s->max};

    kb_put_u64(w, s->n);
    kb_put_doubles(w, sums, N_SUMS);
}

static struct kb_snips get_sums(struct kb_reader *r)
{
    const uint64_t n = kb_get_u64(r);
    double d[N_SUMS] = {0};

    kb_get_doubles(r, d, N_SUMS);
    for (size_t i = 0; i < N_SUMS; i++)
        if (!isfinite(d[i]) && r->rc == KB_OK)
            r->rc = KB_ECORRUPT;
    return (struct kb_snips){n, d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9]};
}

static void put_history(const struct ld_score_history *h, struct kb_writer *w)
{
    kb_put_words(w, (const uint64_t[]){h->since, h->policy, h->step, h->n}, 4);
    for (size_t i = 0; i < h->n; i++) {
        kb_put_u64(w, h->point[i].seq);
        kb_put_u64(w, (uint64_t)h->point[i].at_ms);
        put_sums(w, &h->point[i].sums);
    }
}

static enum kb_err get_history(struct ld_score_history *h, uint64_t tip, struct kb_reader *r)
{
    uint64_t last = 0;

    *h = (struct ld_score_history){.since = kb_get_u64(r)};
    h->policy = kb_get_u64(r);
    h->step = kb_get_u64(r);
    for (size_t n = kb_get_count(r, LD_SCORE_POINTS); n > 0 && r->rc == KB_OK; n--) {
        struct ld_score_point p = {.seq = kb_get_u64(r)};

        p.at_ms = (int64_t)kb_get_u64(r);
        p.sums = get_sums(r);
        if (r->rc == KB_OK && (p.seq <= last || p.sums.n == 0 || p.at_ms < 0))
            r->rc = KB_ECORRUPT;
        last = p.seq;
        if (p.seq <= tip)
            h->point[h->n++] = p;
    }
    if (r->rc == KB_OK && (h->step == 0) != (h->since == 0))
        r->rc = KB_ECORRUPT;
    return r->rc;
}

int ld_score_histories_put(struct ld_store *store, const struct ld_kept_history *kept, size_t n, uint64_t seq,
                           struct ld_message *why)
{
    int rc = LD_STORE_NOMEM;
    struct kb_writer w;

    kb_writer_init(&w);
    kb_put_u64(&w, n);
    for (size_t i = 0; i < n; i++) {
        kb_put_u64(&w, kept[i].identity);
        put_history(&kept[i].history, &w);
    }
    const struct ld_book_row row = {ROW, VERSION, seq, w.data, w.n};
    if (w.rc == KB_OK)
        rc = ld_store_put_books(store, &row, 1, why);
    else
        ld_fail(why, "out of memory");
    kb_writer_close(&w);
    return rc;
}

struct getting {
    struct ld_kept_history *kept;
    size_t *n;
    uint64_t tip;
};

static int get_row(void *arg, const struct ld_book_row *row)
{
    const struct getting *g = arg;
    struct kb_reader r;

    if (row->version != VERSION)
        return 0;
    kb_reader_init(&r, row->body, row->n_body);
    const size_t n = kb_get_count(&r, LD_MAX_CHALLENGERS);
    for (size_t i = 0; i < n && r.rc == KB_OK; i++) {
        g->kept[i].identity = kb_get_u64(&r);
        (void)get_history(&g->kept[i].history, g->tip, &r);
    }
    if (r.rc == KB_OK && r.pos == r.n)
        *g->n = n;
    else
        ld_log(LD_LOG_WARN, "what the file has of challengers' scores cannot be read; they begin with its log");
    return 0;
}

int ld_score_histories_get(struct ld_store *store, uint64_t tip, struct ld_kept_history kept[LD_MAX_CHALLENGERS],
                           size_t *n)
{
    struct getting g = {kept, n, tip};

    *n = 0;
    return ld_store_one_book(store, ROW, get_row, &g);
}
