/* How a tenant's model went over time: see model_history.h. */
#include "task/model_history.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/log.h"
#include "model/summary.h"
#include "posterior/posterior.h"
#include "task/tasks.h"
#include "tenant/tenant_state.h"

#define ROW "model"
#define VERSION 1u
#define FIRST_STEP 16u   /* rewards */
#define MOST_WIDTH 2048u /* beyond it the dimension takes more than a second, and is not told */
#define CHEAP_FLOPS 1e6  /* of the dimension: beyond it points stand further apart, */
#define APART 0.5        /* by this part of the rewards up to the last one, as refits of scales do */

struct ld_remembering {
    struct ld_task task;
    pthread_mutex_t lock; /* the history, beside readers; the writer alone changes it */
    struct ld_model_history history;
    bool has_looked;             /* into the file */
    struct ld_model_point next;  /* of the job at hand */
    struct kb_facts_work *facts; /* what it computes from; NULL: nothing */
    uint64_t lost;               /* rewards at the last point that could not be saved: it is not tried in each turn */
};

/* ---- the file ---------------------------------------------------------------------------------------------- */

static void put_history(const struct ld_model_history *h, struct kb_writer *w)
{
    kb_put_words(w, (const uint64_t[]){h->step, h->n}, 2);
    for (size_t i = 0; i < h->n; i++) {
        const struct ld_model_point *p = &h->point[i];

        kb_put_words(w, (const uint64_t[]){p->seq, (uint64_t)p->at_ms, p->version, p->learned, p->points}, 5);
        kb_put_double(w, p->cap);
        kb_put_double(w, p->effective_dimension);
        kb_put_double(w, p->information_gain);
        kb_put_double(w, p->first_weight);
    }
}

static struct ld_model_point get_point(struct kb_reader *r)
{
    struct ld_model_point p = {.seq = kb_get_u64(r)};

    p.at_ms = (int64_t)kb_get_u64(r);
    p.version = kb_get_u64(r);
    p.learned = kb_get_u64(r);
    p.points = kb_get_u64(r);
    p.cap = kb_get_double(r);
    p.effective_dimension = kb_get_double(r);
    p.information_gain = kb_get_double(r);
    p.first_weight = kb_get_double(r);
    if (p.at_ms < 0 && r->rc == KB_OK)
        r->rc = KB_ECORRUPT;
    return p;
}

struct getting {
    struct ld_model_history *out;
    uint64_t tip; /* what is behind it is left out: the log was cut */
};

static int get_row(void *arg, const struct ld_book_row *row)
{
    const struct getting *g = arg;
    struct ld_model_history h = {0};
    struct kb_reader r;
    uint64_t last = 0;

    if (row->version != VERSION)
        return 0;
    kb_reader_init(&r, row->body, row->n_body);
    h.step = kb_get_u64(&r);
    for (size_t n = kb_get_count(&r, LD_MODEL_POINTS); n > 0 && r.rc == KB_OK; n--) {
        const struct ld_model_point p = get_point(&r);

        if (p.seq <= last)
            r.rc = KB_ECORRUPT;
        last = p.seq;
        if (p.seq <= g->tip)
            h.point[h.n++] = p;
    }
    if (r.rc == KB_OK && r.pos == r.n && h.step > 0)
        *g->out = h;
    else
        ld_log(LD_LOG_WARN, "what the file has of the model's history cannot be read; it begins anew");
    return 0;
}

static bool read_file(const struct ld_tenant *t, uint64_t tip, struct ld_model_history *out)
{
    struct getting g = {out, tip};

    out->n = 0;
    out->step = FIRST_STEP;
    return ld_store_one_book(t->store, ROW, get_row, &g) == LD_STORE_OK;
}

static bool write_file(struct ld_remembering *m, const struct ld_model_history *h)
{
    struct ld_tenant *t = m->task.t;
    struct ld_message why = {"out of memory"};
    struct kb_writer w;
    int rc = LD_STORE_NOMEM;

    kb_writer_init(&w);
    put_history(h, &w);
    const struct ld_book_row row = {ROW, VERSION, t->seq, w.data, w.n};
    if (w.rc == KB_OK)
        rc = ld_store_put_books(t->store, &row, 1, &why);
    if (rc != LD_STORE_OK)
        ld_log(LD_LOG_WARN, "tenant %s: its model's history could not be saved: %s", t->name, why.text);
    kb_writer_close(&w);
    return rc == LD_STORE_OK;
}

/* ---- a point ------------------------------------------------------------------------------------------------ */

/* The first point is at the step, so the second, the fourth and so on are at multiples of the next step. */
static void add_point(struct ld_model_history *h, const struct ld_model_point *p)
{
    if (h->n == LD_MODEL_POINTS) {
        for (size_t i = 0; 2 * i + 1 < h->n; i++)
            h->point[i] = h->point[2 * i + 1];
        h->n /= 2;
        h->step *= 2;
    }
    if (h->n == 0 || p->learned / h->step > h->point[h->n - 1].learned / h->step)
        h->point[h->n++] = *p;
}

/* Rewards that the next point waits for at least: a dimension that takes n^3 / 3 flops at every step would cost more
 * than all that the rewards between two of them take to be learned. */
static double least_wait(const struct kb_engine_counts *c, uint64_t learned)
{
    const double flops = (double)c->n_support * (double)c->width * (double)c->width / 3;

    return flops > CHEAP_FLOPS && c->width <= MOST_WIDTH ? APART * (double)learned : 0;
}

static bool is_due(const struct ld_remembering *m, const struct kb_engine_counts *c)
{
    const struct ld_model_history *h = &m->history;
    const struct ld_model_point *last = h->n > 0 ? &h->point[h->n - 1] : NULL;
    const uint64_t reached = c->learned / h->step * h->step; /* the last multiple of the step */

    if (last != NULL && (double)reached < (double)last->learned + least_wait(c, last->learned))
        return false;
    return c->learned / h->step > (last != NULL ? last->learned / h->step : 0) &&
           c->learned / h->step > m->lost / h->step && (last == NULL || c->seq > last->seq);
}

/* The engine stands still: this is its only writer. */
static bool look_at_model(struct ld_remembering *m, const struct kb_engine_counts *c)
{
    struct ld_tenant *t = m->task.t;
    const struct kb_posterior *p = kb_engine_posterior(t->engine);

    m->next = (struct ld_model_point){.seq = c->seq,
                                      .at_ms = t->now_ms,
                                      .version = c->version,
                                      .learned = c->learned,
                                      .points = c->n_support,
                                      .effective_dimension = (double)NAN,
                                      .information_gain = (double)NAN,
                                      .first_weight = exp2(-c->halvings)};
    m->next.cap = kb_posterior_is_sketch(p) ? (double)kb_engine_spec(t->engine)->repr.max_dictionary : (double)NAN;
    return c->width > MOST_WIDTH || kb_posterior_look(p, &m->facts) == KB_OK;
}

static void run(void *task)
{
    struct ld_remembering *m = task;
    struct kb_posterior_facts facts;

    if (m->facts != NULL && kb_facts_finish(m->facts, &facts) == KB_OK) {
        m->next.effective_dimension = facts.effective_dimension;
        m->next.information_gain = facts.information_gain;
    }
    m->facts = NULL;
}

static bool may_write(const struct ld_tenant *t)
{
    return !atomic_load(&t->is_failing) && !atomic_load(&t->is_doomed) && !atomic_load(&t->is_halting);
}

static void finish(void *task)
{
    struct ld_remembering *m = task;
    struct ld_model_history *next = malloc(sizeof *next);

    if (next == NULL || !may_write(m->task.t)) {
        free(next);
        return;
    }
    *next = m->history;
    add_point(next, &m->next);
    m->lost = 0;
    if (write_file(m, next)) {
        pthread_mutex_lock(&m->lock);
        m->history = *next;
        pthread_mutex_unlock(&m->lock);
    } else
        m->lost = m->next.learned;
    free(next);
}

static void forget_facts(struct ld_remembering *m)
{
    if (m->facts != NULL)
        (void)kb_facts_finish(m->facts, NULL);
    m->facts = NULL;
}

static enum ld_chore look(struct ld_tenant *t)
{
    struct kb_engine_counts counts;
    struct ld_remembering *m;

    if (!may_write(t) || !kb_engine_is_whole(t->engine))
        return LD_CHORE_NONE;
    kb_engine_counts(t->engine, &counts);
    if (counts.learned < FIRST_STEP || (m = ld_task_of(t, &ld_remembering)) == NULL ||
        atomic_load(&m->task.state) != LD_TASK_RESTS)
        return LD_CHORE_NONE;
    if (!m->has_looked) {
        pthread_mutex_lock(&m->lock);
        m->has_looked = read_file(t, t->seq, &m->history);
        pthread_mutex_unlock(&m->lock);
    }
    if (m->has_looked && is_due(m, &counts) && look_at_model(m, &counts) && !ld_task_run(&m->task))
        forget_facts(m);
    return LD_CHORE_NONE;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

static void init(void *task)
{
    struct ld_remembering *m = task;

    pthread_mutex_init(&m->lock, NULL);
    atomic_store(&m->task.bytes, sizeof *m);
}

static void drop(void *task)
{
    struct ld_remembering *m = task;

    forget_facts(m);
    pthread_mutex_destroy(&m->lock);
}

void ld_model_history_copy(const struct ld_tenant *t, struct ld_model_history *out)
{
    struct ld_remembering *m = ld_task_find(t, &ld_remembering);
    bool has_looked = false;

    if (m != NULL) {
        pthread_mutex_lock(&m->lock);
        has_looked = m->has_looked;
        if (has_looked)
            *out = m->history;
        pthread_mutex_unlock(&m->lock);
    }
    if (!has_looked)
        (void)read_file(t, atomic_load(&t->tip), out);
}

const struct ld_task_kind ld_remembering = {.size = sizeof(struct ld_remembering),
                                            .threads = LD_LONG_WORK,
                                            .init = init,
                                            .at = {[LD_AT_TURN_END] = look},
                                            .run = run,
                                            .finish = finish,
                                            .drop = drop};
