/* The body of the book of an experiment in the tenant's file: see book.h. Numbers in the order of the structures; every
 * one is looked at when it is read, since the file may be anybody's. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "book/experiment_impl.h"

/* ---- saving ---------------------------------------------------------------------------------------------- */

static void save_settings(const struct ld_experiment_settings *s, struct kb_writer *w)
{
    kb_put_u64(w, s->is_on);
    kb_put_str(w, s->baseline);
    kb_put_double(w, s->difference);
    kb_put_double(w, s->level);
    kb_put_double(w, s->traffic_level);
    kb_put_double(w, s->low);
    kb_put_double(w, s->high);
}

static void save_rules(const struct ld_experiment_rules *r, struct kb_writer *w)
{
    save_settings(&r->settings, w);
    kb_put_u64(w, r->rule);
    kb_put_u64(w, r->aggregation);
    kb_put_u64(w, r->has_default);
    kb_put_double(w, r->default_reward);
    kb_put_double(w, r->epsilon);
    kb_put_double(w, r->holdout);
    kb_put_str(w, r->salt);
    if (r->rule == KB_RULE_SPLIT) /* which no older body has */
        kb_split_save(&r->split, w);
}

static void save_names(char *const *id, size_t n, struct kb_writer *w)
{
    kb_put_u64(w, n);
    for (size_t i = 0; i < n; i++)
        kb_put_str(w, id[i]);
}

static void save_comparison(const struct ld_comparison *c, struct kb_writer *w)
{
    const struct kb_pair *p = &c->pair;
    const struct ld_experiment_stop *s = &c->stop;

    kb_put_u64(w, p->n);
    kb_put_doubles(w, (const double[]){p->weight, p->score, p->square, p->cube, p->fourth, p->reward, c->reach}, 7);
    kb_put_u64(w, p->is_broken);
    kb_put_u64(w, s->verdict);
    kb_put_u64(w, s->seq);
    kb_put_u64(w, (uint64_t)s->at_ms);
    kb_put_u64(w, s->n);
    kb_put_doubles(w, (const double[]){s->estimate, s->low, s->high}, 3);
}

static void save_waiting(const struct ld_waiting_queue *q, struct kb_writer *w)
{
    kb_put_u64(w, q->tail - q->head);
    for (uint64_t k = q->head; k < q->tail; k++) {
        const struct ld_waiting *e = &q->entry[k & (q->cap - 1)];

        kb_put_words(
            w, (const uint64_t[]){e->id, e->slot, (uint64_t)e->at_ms, (uint64_t)e->expires_at_ms, e->arm, e->flags}, 6);
        kb_put_double(w, e->reward);
        kb_put_doubles(w, ld_waiting_odds(q, e), q->n_odds);
    }
}

/* Users in the order of their hashes' places, which another process reads in another order. */
static void save_users(const struct ld_user_set *s, struct kb_writer *w)
{
    kb_put_u64(w, s->n);
    for (size_t i = 0; i < s->cap; i++)
        if (s->place[i] != 0)
            kb_put_u64(w, s->place[i]);
}

/* ---- metrics: behind all else, where there are any. A body of before them ends without. ------------------------- */

static void save_metric_settings(const struct ld_metric_settings *m, struct kb_writer *w)
{
    kb_put_str(w, m->name);
    kb_put_words(w, (const uint64_t[]){m->role, m->aggregation}, 2);
    kb_put_double(w, m->weight);
    kb_put_double(w, m->low);
    kb_put_double(w, m->high);
    kb_put_double(w, m->missing);
    kb_put_double(w, m->harm);
    kb_put_double(w, m->level);
}

static void save_metric(const struct ld_metric_sums *s, size_t n_arms, struct kb_writer *w)
{
    save_metric_settings(&s->settings, w);
    kb_put_u64(w, s->n_clipped);
    for (size_t a = 0; a < n_arms; a++) {
        save_comparison(&s->against[a], w);
        for (size_t side = 0; side < LD_SIDE_N; side++) {
            kb_put_u64(w, s->shown[a][side].n);
            kb_put_double(w, s->shown[a][side].reward);
        }
    }
}

static void save_metrics(const struct ld_experiment *e, struct kb_writer *w)
{
    if (e->now.n_metrics == 0 && e->n_metrics == 0)
        return;
    kb_put_u64(w, e->now.n_metrics);
    for (size_t m = 0; m < e->now.n_metrics; m++)
        save_metric_settings(&e->now.metric[m], w);
    kb_put_u64(w, e->n_metrics);
    for (size_t m = 0; m < e->n_metrics; m++)
        save_metric(&e->metric[m], e->n_arms, w);
    for (uint64_t k = e->waiting.head; e->n_metrics > 0 && k < e->waiting.tail; k++)
        kb_put_doubles(w, ld_waiting_values(&e->waiting, &e->waiting.entry[k & (e->waiting.cap - 1)]), e->n_metrics);
    for (size_t m = 0; m < e->n_metrics && e->has_metric_policies; m++)
        save_comparison(&e->metric[m].policy, w);
}

static void save_running(const struct ld_experiment *e, struct kb_writer *w);

void ld_experiment_save(const void *book, struct kb_writer *w)
{
    const struct ld_experiment *e = book;

    save_rules(&e->now, w);
    kb_put_u64(w, e->catalogue.is_many);
    save_names(e->catalogue.id, e->catalogue.n, w);
    kb_put_u64(w, e->state);
    kb_put_u64(w, e->seq);
    if (e->state == LD_EXPERIMENT_RUNS)
        save_running(e, w);
    save_metrics(e, w);
}

static void save_running(const struct ld_experiment *e, struct kb_writer *w)
{
    save_settings(&e->begun, w);
    save_names(e->arm, e->n_arms, w);
    kb_put_u64(w, e->since_seq);
    kb_put_u64(w, (uint64_t)e->since_ms);
    kb_put_u64(w, e->baseline);
    kb_put_double(w, e->holdout);
    for (size_t a = 0; a < e->n_arms; a++) {
        save_comparison(&e->sums[a].against, w);
        for (size_t side = 0; side < LD_SIDE_N; side++) {
            kb_put_u64(w, e->sums[a].shown[side].n);
            kb_put_double(w, e->sums[a].shown[side].reward);
            kb_put_double(w, e->sums[a].square[side]);
        }
    }
    save_comparison(&e->policy, w);
    for (size_t a = 0; a <= e->n_arms; a++) {
        kb_put_double(w, e->traffic[a].deviation);
        kb_put_double(w, e->traffic[a].variance);
    }
    kb_put_words(w,
                 (const uint64_t[]){e->n_counted, e->n_left_out, e->n_clipped, e->n_beyond, e->next_look, e->void_seq,
                                    (uint64_t)e->void_ms},
                 7);
    kb_put_double(w, e->traffic_log_e);
    save_waiting(&e->waiting, w);
    save_users(&e->users, w);
}

/* ---- loading --------------------------------------------------------------------------------------------- */

static void damage(struct kb_reader *r)
{
    if (r->rc == KB_OK)
        r->rc = KB_ECORRUPT;
}

static uint64_t get_within(struct kb_reader *r, uint64_t least, uint64_t most)
{
    const uint64_t x = kb_get_u64(r);

    if (x >= least && x <= most)
        return x;
    damage(r);
    return least;
}

/* Finite. */
static double get_real(struct kb_reader *r, double least, double most)
{
    const double x = kb_get_double(r);

    if (x >= least && x <= most)
        return x;
    damage(r);
    return least;
}

static void get_text(struct kb_reader *r, char *out, size_t most)
{
    size_t n = 0;
    const char *text = kb_get_str(r, &n);

    if (text == NULL || n > most || memchr(text, '\0', n) != NULL) {
        damage(r);
        return;
    }
    memcpy(out, text, n);
    out[n] = '\0';
}

#define ANY 1.7e308

static void load_settings(struct ld_experiment_settings *s, struct kb_reader *r)
{
    s->is_on = get_within(r, 0, 1) != 0;
    get_text(r, s->baseline, KB_ID_MAX_BYTES);
    s->difference = get_real(r, 0, ANY);
    s->level = get_real(r, 0, 0.5);
    s->traffic_level = get_real(r, 0, 0.5);
    s->low = get_real(r, -ANY, ANY);
    s->high = get_real(r, -ANY, ANY);
    if (s->is_on && !(s->low < s->high && s->level > 0 && s->traffic_level > 0 && s->difference > 0))
        damage(r);
}

static void load_rules(struct ld_experiment_rules *rules, struct kb_reader *r)
{
    load_settings(&rules->settings, r);
    rules->rule = (enum kb_rule_type)get_within(r, 0, KB_RULE_N - 1);
    rules->aggregation = (enum kb_aggregation)get_within(r, 0, KB_AGG_N - 1);
    rules->has_default = get_within(r, 0, 1) != 0;
    rules->default_reward = get_real(r, -ANY, ANY);
    rules->epsilon = get_real(r, 0, 1);
    rules->holdout = get_real(r, 0, 1);
    get_text(r, rules->salt, KB_SALT_MAX_BYTES);
    if (rules->rule == KB_RULE_SPLIT)
        (void)kb_split_load(&rules->split, r);
}

/* What was read so far stands in *id also where it fails. */
static enum kb_err load_names(char ***id, size_t *n, size_t most, struct kb_reader *r)
{
    const size_t wanted = kb_get_count(r, most);

    *n = 0;
    *id = kb_array(wanted > 0 ? wanted : 1, 1, sizeof **id);
    if (*id == NULL)
        return KB_ENOMEM;
    for (; *n < wanted && r->rc == KB_OK; (*n)++) {
        char text[KB_ID_MAX_BYTES + 1] = "";

        get_text(r, text, KB_ID_MAX_BYTES);
        if (((*id)[*n] = kb_malloc(strlen(text) + 1)) == NULL)
            return KB_ENOMEM;
        strcpy((*id)[*n], text);
    }
    return r->rc;
}

static void load_comparison(struct ld_comparison *c, struct kb_reader *r)
{
    double sums[7], told[3];

    c->pair.n = kb_get_u64(r);
    kb_get_doubles(r, sums, 7);
    c->pair.is_broken = get_within(r, 0, 1) != 0;
    c->stop.verdict = (enum kb_verdict)get_within(r, KB_GO_ON, KB_VOID);
    c->stop.seq = kb_get_u64(r);
    c->stop.at_ms = (int64_t)kb_get_u64(r);
    c->stop.n = kb_get_u64(r);
    kb_get_doubles(r, told, 3);
    for (size_t i = 0; i < 7 && r->rc == KB_OK; i++)
        if (!isfinite(sums[i]))
            damage(r);
    for (size_t i = 0; i < 3 && r->rc == KB_OK; i++)
        if (!isfinite(told[i]))
            damage(r);
    if (r->rc == KB_OK && !(sums[0] >= 0 && sums[2] >= 0 && sums[4] >= 0 && sums[6] >= 0 && sums[6] <= 1))
        damage(r);
    if (r->rc != KB_OK)
        return;
    c->pair.weight = sums[0];
    c->pair.score = sums[1];
    c->pair.square = sums[2];
    c->pair.cube = sums[3];
    c->pair.fourth = sums[4];
    c->pair.reward = sums[5];
    c->reach = sums[6];
    c->stop.estimate = told[0];
    c->stop.low = told[1];
    c->stop.high = told[2];
}

static void load_arm(struct ld_arm_sums *s, struct kb_reader *r)
{
    load_comparison(&s->against, r);
    for (size_t side = 0; side < LD_SIDE_N; side++) {
        s->shown[side].n = kb_get_u64(r);
        s->shown[side].reward = get_real(r, 0, (double)s->shown[side].n);
        s->square[side] = get_real(r, 0, (double)s->shown[side].n);
    }
}

static enum kb_err load_waiting(struct ld_waiting_queue *q, size_t n_arms, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, LD_WAITING_MOST_BYTES / sizeof(struct ld_waiting));
    enum kb_err rc;

    ld_waiting_clear(q, n_arms, 0);
    if (r->rc != KB_OK || n == 0)
        return r->rc;
    if ((rc = ld_waiting_grow(q, n)) != KB_OK)
        return rc == KB_EFULL ? KB_ECORRUPT : rc;
    for (size_t i = 0; i < n && r->rc == KB_OK; i++) {
        struct ld_waiting w = {.id = kb_get_u64(r)};
        double *odds = NULL;

        w.slot = kb_get_u64(r);
        w.at_ms = (int64_t)kb_get_u64(r);
        w.expires_at_ms = (int64_t)kb_get_u64(r);
        w.arm = (uint8_t)get_within(r, 0, LD_ARM_OTHER);
        w.flags = (uint8_t)get_within(r, 0, LD_WAITS_ALL);
        w.reward = kb_get_double(r);
        if ((w.arm >= n_arms && w.arm != LD_ARM_OTHER) || ld_waiting_push(q, &w, &odds) == NULL) {
            damage(r);
            break;
        }
        kb_get_doubles(r, odds, n_arms);
        for (size_t a = 0; a < n_arms && r->rc == KB_OK; a++)
            if (!(odds[a] >= 0 && odds[a] <= 1))
                damage(r);
    }
    return r->rc;
}

static enum kb_err load_users(struct ld_user_set *s, struct kb_reader *r)
{
    const size_t n = kb_get_count(r, LD_WAITING_MOST_BYTES / (2 * sizeof *s->place));
    enum kb_err rc = KB_OK;

    for (size_t i = 0; i < n && r->rc == KB_OK && rc == KB_OK; i++)
        if ((rc = ld_users_grow(s)) == KB_OK)
            (void)ld_users_add(s, kb_get_u64(r));
    return rc != KB_OK ? rc : r->rc;
}

static enum kb_err load_running(struct ld_experiment *e, struct kb_reader *r)
{
    enum kb_err rc;

    load_settings(&e->begun, r);
    KB_TRY(load_names(&e->arm, &e->n_arms, LD_EXPERIMENT_ARMS, r));
    e->since_seq = kb_get_u64(r);
    e->since_ms = (int64_t)kb_get_u64(r);
    e->baseline = get_within(r, 0, LD_EXPERIMENT_ARMS - 1);
    e->holdout = get_real(r, 0, 1);
    if (!e->begun.is_on || e->n_arms < 2 || e->baseline >= e->n_arms)
        damage(r);
    for (size_t a = 0; a < e->n_arms && r->rc == KB_OK; a++)
        load_arm(&e->sums[a], r);
    load_comparison(&e->policy, r);
    for (size_t a = 0; a <= e->n_arms && r->rc == KB_OK; a++) {
        e->traffic[a].deviation = get_real(r, -ANY, ANY);
        e->traffic[a].variance = get_real(r, 0, ANY);
    }
    e->n_counted = kb_get_u64(r);
    e->n_left_out = kb_get_u64(r);
    e->n_clipped = kb_get_u64(r);
    e->n_beyond = kb_get_u64(r);
    e->next_look = kb_get_u64(r);
    e->void_seq = kb_get_u64(r);
    e->void_ms = (int64_t)kb_get_u64(r);
    e->traffic_log_e = get_real(r, -ANY, ANY);
    KB_TRY(r->rc);
    KB_TRY(load_waiting(&e->waiting, e->n_arms, r));
    KB_TRY(load_users(&e->users, r));
out:
    return rc;
}

static void load_metric_settings(struct ld_metric_settings *m, struct kb_reader *r)
{
    get_text(r, m->name, KB_METRIC_MAX_BYTES);
    m->role = (enum ld_metric_role)get_within(r, 0, LD_N_METRIC_ROLES - 1);
    m->aggregation = (enum kb_aggregation)get_within(r, 0, KB_AGG_N - 1);
    m->weight = get_real(r, -ANY, ANY);
    m->low = get_real(r, -ANY, ANY);
    m->high = get_real(r, -ANY, ANY);
    m->missing = get_real(r, -ANY, ANY);
    m->harm = get_real(r, 0, ANY);
    m->level = get_real(r, 0, 0.5);
    if (!(m->low < m->high && m->level > 0))
        damage(r);
}

static void load_metric(struct ld_metric_sums *s, size_t n_arms, struct kb_reader *r)
{
    load_metric_settings(&s->settings, r);
    s->n_clipped = kb_get_u64(r);
    for (size_t a = 0; a < n_arms && r->rc == KB_OK; a++) {
        load_comparison(&s->against[a], r);
        for (size_t side = 0; side < LD_SIDE_N; side++) {
            s->shown[a][side].n = kb_get_u64(r);
            s->shown[a][side].reward = get_real(r, 0, (double)s->shown[a][side].n);
        }
    }
}

static enum kb_err load_metrics(struct ld_experiment *e, struct kb_reader *r)
{
    enum kb_err rc = KB_OK;

    e->now.n_metrics = kb_get_count(r, LD_MOST_METRICS);
    for (size_t m = 0; m < e->now.n_metrics && r->rc == KB_OK; m++)
        load_metric_settings(&e->now.metric[m], r);
    const size_t n = kb_get_count(r, e->state == LD_EXPERIMENT_RUNS ? LD_MOST_METRICS : 0);
    if (r->rc != KB_OK || n == 0)
        return r->rc;
    e->metric = kb_array(n, 1, sizeof *e->metric);
    if (e->metric == NULL)
        return KB_ENOMEM;
    e->n_metrics = n;
    for (size_t m = 0; m < n && r->rc == KB_OK; m++)
        load_metric(&e->metric[m], e->n_arms, r);
    KB_TRY(r->rc);
    KB_TRY(ld_waiting_widen(&e->waiting, n));
    for (uint64_t k = e->waiting.head; k < e->waiting.tail; k++)
        kb_get_doubles(r, ld_waiting_values(&e->waiting, &e->waiting.entry[k & (e->waiting.cap - 1)]), n);
    e->has_metric_policies = r->pos < r->n; /* else the sums began before there were any, and go on without */
    for (size_t m = 0; m < n; m++) {
        e->metric[m].policy.reach = e->policy.reach;
        if (e->has_metric_policies && r->rc == KB_OK)
            load_comparison(&e->metric[m].policy, r);
    }
    rc = r->rc;
out:
    return rc;
}

enum kb_err ld_experiment_load(void *book, struct kb_reader *r)
{
    struct ld_experiment *e = book;
    enum kb_err rc;

    load_rules(&e->now, r);
    e->catalogue.is_many = get_within(r, 0, 1) != 0;
    KB_TRY(load_names(&e->catalogue.id, &e->catalogue.n, LD_CATALOGUE_MOST, r));
    e->catalogue.cap = e->catalogue.n;
    e->state = (enum ld_experiment_state)get_within(r, 0, LD_EXPERIMENT_N - 1);
    e->seq = kb_get_u64(r);
    KB_TRY(r->rc);
    if (e->state == LD_EXPERIMENT_RUNS)
        KB_TRY(load_running(e, r));
    if (r->pos < r->n)
        rc = load_metrics(e, r);
out:
    return rc;
}
