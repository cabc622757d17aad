/* The body of the book of an experiment in the tenant's file: see book.h. Numbers in the order of the structures, which
 * one walk writes and reads; every one is looked at when it is read, since the file may be anybody's. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "book/experiment_impl.h"

#define ANY 1.7e308

/* Writes where r is NULL, and changes nothing then; else reads. */
struct walk {
    struct kb_writer *w;
    struct kb_reader *r;
};

static void damage(const struct walk *x)
{
    if (x->r != NULL && x->r->rc == KB_OK)
        x->r->rc = KB_ECORRUPT;
}

static bool goes_on(const struct walk *x)
{
    return x->r == NULL || x->r->rc == KB_OK;
}

/* `least` where the body has less, or more than `most`. */
static uint64_t number(const struct walk *x, uint64_t v, uint64_t least, uint64_t most)
{
    if (x->r == NULL) {
        kb_put_u64(x->w, v);
        return v;
    }
    v = kb_get_u64(x->r);
    if (v >= least && v <= most)
        return v;
    damage(x);
    return least;
}

/* Of a field of any type that counts. */
#define NUMBER(x, field, least, most)                                                                                  \
    do {                                                                                                               \
        const uint64_t told = number(x, (uint64_t)(field), least, most);                                               \
        if ((x)->r != NULL)                                                                                            \
            (field) = (__typeof__(field))told;                                                                         \
    } while (0)
#define COUNT(x, field) NUMBER(x, field, 0, UINT64_MAX)

/* Finite. */
static void real(const struct walk *x, double *v, double least, double most)
{
    if (x->r == NULL) {
        kb_put_double(x->w, *v);
        return;
    }
    *v = kb_get_double(x->r);
    if (*v >= least && *v <= most)
        return;
    damage(x);
    *v = least;
}

/* Several, with their number before them; finite. */
static void reals(const struct walk *x, double *const *v, size_t n)
{
    double told[8];

    for (size_t i = 0; x->r == NULL && i < n; i++)
        told[i] = *v[i];
    if (x->r == NULL) {
        kb_put_doubles(x->w, told, n);
        return;
    }
    kb_get_doubles(x->r, told, n);
    for (size_t i = 0; i < n && x->r->rc == KB_OK; i++)
        if (!isfinite(told[i]))
            damage(x);
    for (size_t i = 0; i < n && x->r->rc == KB_OK; i++)
        *v[i] = told[i];
}

static void text(const struct walk *x, char *v, size_t most)
{
    size_t n = 0;

    if (x->r == NULL) {
        kb_put_str(x->w, v);
        return;
    }
    const char *told = kb_get_str(x->r, &n);
    if (told == NULL || n > most || memchr(told, '\0', n) != NULL) {
        damage(x);
        return;
    }
    memcpy(v, told, n);
    v[n] = '\0';
}

static void walk_settings(const struct walk *x, struct ld_experiment_settings *s)
{
    NUMBER(x, s->is_on, 0, 1);
    text(x, s->baseline, KB_ID_MAX_BYTES);
    real(x, &s->difference, 0, ANY);
    real(x, &s->level, 0, 0.5);
    real(x, &s->traffic_level, 0, 0.5);
    real(x, &s->low, -ANY, ANY);
    real(x, &s->high, -ANY, ANY);
    if (s->is_on && !(s->low < s->high && s->level > 0 && s->traffic_level > 0 && s->difference > 0))
        damage(x);
}

static void walk_rules(const struct walk *x, struct ld_experiment_rules *rules)
{
    walk_settings(x, &rules->settings);
    NUMBER(x, rules->rule, 0, KB_RULE_N - 1);
    NUMBER(x, rules->aggregation, 0, KB_AGG_N - 1);
    NUMBER(x, rules->has_default, 0, 1);
    real(x, &rules->default_reward, -ANY, ANY);
    real(x, &rules->epsilon, 0, 1);
    real(x, &rules->holdout, 0, 1);
    text(x, rules->salt, KB_SALT_MAX_BYTES);
    if (rules->rule != KB_RULE_SPLIT) /* which no older body has */
        return;
    if (x->r == NULL)
        kb_split_save(&rules->split, x->w);
    else
        (void)kb_split_load(&rules->split, x->r);
}

/* What was read so far stands in *id also where it fails. */
static enum kb_err load_names(char ***id, size_t *n, size_t most, const struct walk *x)
{
    const size_t wanted = kb_get_count(x->r, most);

    *n = 0;
    *id = kb_array(wanted > 0 ? wanted : 1, 1, sizeof **id);
    if (*id == NULL)
        return KB_ENOMEM;
    for (; *n < wanted && x->r->rc == KB_OK; (*n)++) {
        char told[KB_ID_MAX_BYTES + 1] = "";

        text(x, told, KB_ID_MAX_BYTES);
        if (((*id)[*n] = kb_malloc(strlen(told) + 1)) == NULL)
            return KB_ENOMEM;
        strcpy((*id)[*n], told);
    }
    return x->r->rc;
}

static enum kb_err walk_names(const struct walk *x, char ***id, size_t *n, size_t most)
{
    if (x->r != NULL)
        return load_names(id, n, most, x);
    kb_put_u64(x->w, *n);
    for (size_t i = 0; i < *n; i++)
        kb_put_str(x->w, (*id)[i]);
    return KB_OK;
}

static void walk_comparison(const struct walk *x, struct ld_comparison *c)
{
    struct kb_pair *p = &c->pair;
    struct ld_experiment_stop *s = &c->stop;

    COUNT(x, p->n);
    reals(x, (double *const[]){&p->weight, &p->score, &p->square, &p->cube, &p->fourth, &p->reward, &c->reach}, 7);
    NUMBER(x, p->is_broken, 0, 1);
    NUMBER(x, s->verdict, KB_GO_ON, KB_VOID);
    COUNT(x, s->seq);
    COUNT(x, s->at_ms);
    COUNT(x, s->n);
    reals(x, (double *const[]){&s->estimate, &s->low, &s->high}, 3);
    if (!(p->weight >= 0 && p->square >= 0 && p->fourth >= 0 && c->reach >= 0 && c->reach <= 1))
        damage(x);
}

static void walk_shown(const struct walk *x, struct kb_shown *s)
{
    COUNT(x, s->n);
    real(x, &s->reward, 0, (double)s->n);
}

static void walk_arm(const struct walk *x, struct ld_arm_sums *s)
{
    walk_comparison(x, &s->against);
    for (size_t side = 0; side < LD_SIDE_N; side++) {
        walk_shown(x, &s->shown[side]);
        real(x, &s->square[side], 0, (double)s->shown[side].n);
    }
}

static void walk_entry(const struct walk *x, struct ld_waiting *e)
{
    COUNT(x, e->id);
    COUNT(x, e->slot);
    COUNT(x, e->at_ms);
    COUNT(x, e->expires_at_ms);
    NUMBER(x, e->arm, 0, LD_ARM_OTHER);
    NUMBER(x, e->flags, 0, LD_WAITS_ALL);
}

static void save_waiting(const struct walk *x, struct ld_waiting_queue *q)
{
    kb_put_u64(x->w, q->tail - q->head);
    for (uint64_t k = q->head; k < q->tail; k++) {
        struct ld_waiting *e = &q->entry[k & (q->cap - 1)];

        walk_entry(x, e);
        kb_put_double(x->w, e->reward);
        kb_put_doubles(x->w, ld_waiting_odds(q, e), q->n_odds);
    }
}

static enum kb_err load_waiting(const struct walk *x, struct ld_waiting_queue *q, size_t n_arms)
{
    struct kb_reader *r = x->r;
    const size_t n = kb_get_count(r, LD_WAITING_MOST_BYTES / sizeof(struct ld_waiting));
    enum kb_err rc;

    ld_waiting_clear(q, n_arms, 0);
    if (r->rc != KB_OK || n == 0)
        return r->rc;
    if ((rc = ld_waiting_grow(q, n)) != KB_OK)
        return rc == KB_EFULL ? KB_ECORRUPT : rc;
    for (size_t i = 0; i < n && r->rc == KB_OK; i++) {
        struct ld_waiting e = {.id = 0};
        double *odds = NULL;

        walk_entry(x, &e);
        e.reward = kb_get_double(r);
        if ((e.arm >= n_arms && e.arm != LD_ARM_OTHER) || ld_waiting_push(q, &e, &odds) == NULL) {
            damage(x);
            break;
        }
        kb_get_doubles(r, odds, n_arms);
        for (size_t a = 0; a < n_arms && r->rc == KB_OK; a++)
            if (!(odds[a] >= 0 && odds[a] <= 1))
                damage(x);
    }
    return r->rc;
}

/* In the order of their hashes' places, which another process reads in another order. */
static enum kb_err walk_users(const struct walk *x, struct ld_user_set *s)
{
    enum kb_err rc = KB_OK;

    if (x->r == NULL) {
        kb_put_u64(x->w, s->n);
        for (size_t i = 0; i < s->cap; i++)
            if (s->place[i] != 0)
                kb_put_u64(x->w, s->place[i]);
        return KB_OK;
    }
    const size_t n = kb_get_count(x->r, LD_WAITING_MOST_BYTES / (2 * sizeof *s->place));
    for (size_t i = 0; i < n && x->r->rc == KB_OK && rc == KB_OK; i++)
        if ((rc = ld_users_grow(s)) == KB_OK)
            (void)ld_users_add(s, kb_get_u64(x->r));
    return rc != KB_OK ? rc : x->r->rc;
}

static enum kb_err walk_running(const struct walk *x, struct ld_experiment *e)
{
    enum kb_err rc;

    walk_settings(x, &e->begun);
    KB_TRY(walk_names(x, &e->arm, &e->n_arms, LD_EXPERIMENT_ARMS));
    COUNT(x, e->since_seq);
    COUNT(x, e->since_ms);
    NUMBER(x, e->baseline, 0, LD_EXPERIMENT_ARMS - 1);
    real(x, &e->holdout, 0, 1);
    if (!e->begun.is_on || e->n_arms < 2 || e->baseline >= e->n_arms)
        damage(x);
    for (size_t a = 0; a < e->n_arms && goes_on(x); a++)
        walk_arm(x, &e->sums[a]);
    walk_comparison(x, &e->policy);
    for (size_t a = 0; a <= e->n_arms && goes_on(x); a++) {
        real(x, &e->traffic[a].deviation, -ANY, ANY);
        real(x, &e->traffic[a].variance, 0, ANY);
    }
    COUNT(x, e->n_counted);
    COUNT(x, e->n_left_out);
    COUNT(x, e->n_clipped);
    COUNT(x, e->n_beyond);
    COUNT(x, e->next_look);
    COUNT(x, e->void_seq);
    COUNT(x, e->void_ms);
    real(x, &e->traffic_log_e, -ANY, ANY);
    if (x->r == NULL)
        save_waiting(x, &e->waiting);
    else if (goes_on(x))
        KB_TRY(load_waiting(x, &e->waiting, e->n_arms));
    KB_TRY(goes_on(x) ? walk_users(x, &e->users) : x->r->rc);
out:
    return rc;
}

/* ---- metrics: behind all else, where there are any. A body of before them ends without. ------------------------- */

static void walk_metric_settings(const struct walk *x, struct ld_metric_settings *m)
{
    text(x, m->name, KB_METRIC_MAX_BYTES);
    NUMBER(x, m->role, 0, LD_N_METRIC_ROLES - 1);
    NUMBER(x, m->aggregation, 0, KB_AGG_N - 1);
    real(x, &m->weight, -ANY, ANY);
    real(x, &m->low, -ANY, ANY);
    real(x, &m->high, -ANY, ANY);
    real(x, &m->missing, -ANY, ANY);
    real(x, &m->harm, 0, ANY);
    real(x, &m->level, 0, 0.5);
    if (!(m->low < m->high && m->level > 0))
        damage(x);
}

static void walk_metric(const struct walk *x, struct ld_metric_sums *s, size_t n_arms)
{
    walk_metric_settings(x, &s->settings);
    COUNT(x, s->n_clipped);
    for (size_t a = 0; a < n_arms && goes_on(x); a++) {
        walk_comparison(x, &s->against[a]);
        for (size_t side = 0; side < LD_SIDE_N; side++)
            walk_shown(x, &s->shown[a][side]);
    }
}

static double *values_at(const struct ld_waiting_queue *q, uint64_t k)
{
    return ld_waiting_values(q, &q->entry[k & (q->cap - 1)]);
}

static void save_metrics(const struct walk *x, struct ld_experiment *e)
{
    if (e->now.n_metrics == 0 && e->n_metrics == 0)
        return;
    kb_put_u64(x->w, e->now.n_metrics);
    for (size_t m = 0; m < e->now.n_metrics; m++)
        walk_metric_settings(x, &e->now.metric[m]);
    kb_put_u64(x->w, e->n_metrics);
    for (size_t m = 0; m < e->n_metrics; m++)
        walk_metric(x, &e->metric[m], e->n_arms);
    for (uint64_t k = e->waiting.head; e->n_metrics > 0 && k < e->waiting.tail; k++)
        kb_put_doubles(x->w, values_at(&e->waiting, k), e->n_metrics);
    for (size_t m = 0; m < e->n_metrics && e->has_metric_policies; m++)
        walk_comparison(x, &e->metric[m].policy);
}

static enum kb_err load_metrics(const struct walk *x, struct ld_experiment *e)
{
    struct kb_reader *r = x->r;
    enum kb_err rc = KB_OK;

    e->now.n_metrics = kb_get_count(r, LD_MOST_METRICS);
    for (size_t m = 0; m < e->now.n_metrics && r->rc == KB_OK; m++)
        walk_metric_settings(x, &e->now.metric[m]);
    const size_t n = kb_get_count(r, e->state == LD_EXPERIMENT_RUNS ? LD_MOST_METRICS : 0);
    if (r->rc != KB_OK || n == 0)
        return r->rc;
    e->metric = kb_array(n, 1, sizeof *e->metric);
    if (e->metric == NULL)
        return KB_ENOMEM;
    e->n_metrics = n;
    for (size_t m = 0; m < n && r->rc == KB_OK; m++)
        walk_metric(x, &e->metric[m], e->n_arms);
    KB_TRY(r->rc);
    KB_TRY(ld_waiting_widen(&e->waiting, n));
    for (uint64_t k = e->waiting.head; k < e->waiting.tail; k++)
        kb_get_doubles(r, values_at(&e->waiting, k), n);
    e->has_metric_policies = r->pos < r->n; /* else the sums began before there were any, and go on without */
    for (size_t m = 0; m < n; m++) {
        e->metric[m].policy.reach = e->policy.reach;
        if (e->has_metric_policies && r->rc == KB_OK)
            walk_comparison(x, &e->metric[m].policy);
    }
    rc = r->rc;
out:
    return rc;
}

static enum kb_err walk(const struct walk *x, struct ld_experiment *e)
{
    enum kb_err rc;

    walk_rules(x, &e->now);
    NUMBER(x, e->catalogue.is_many, 0, 1);
    KB_TRY(walk_names(x, &e->catalogue.id, &e->catalogue.n, LD_CATALOGUE_MOST));
    if (x->r != NULL)
        e->catalogue.cap = e->catalogue.n;
    NUMBER(x, e->state, 0, LD_EXPERIMENT_N - 1);
    COUNT(x, e->seq);
    if (x->r != NULL)
        KB_TRY(x->r->rc);
    if (e->state == LD_EXPERIMENT_RUNS)
        KB_TRY(walk_running(x, e));
    if (x->r == NULL)
        save_metrics(x, e);
    else if (x->r->pos < x->r->n)
        rc = load_metrics(x, e);
out:
    return rc;
}

void ld_experiment_save(const void *book, struct kb_writer *w)
{
    (void)walk(&(struct walk){w, NULL}, (struct ld_experiment *)(uintptr_t)book);
}

enum kb_err ld_experiment_load(void *book, struct kb_reader *r)
{
    return walk(&(struct walk){NULL, r}, book);
}
