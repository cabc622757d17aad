/* Policies that are tables: the probability of each arm by stratum, from a file or counted in another log. What the
 * table gives to arms that a log has not is lost to that log's events, and counts there as mass without support.
 *
 *   row      (stratum, arm of the table) -> probability; strata are few and found by looking
 *   number   of the log's arms in the table, found once */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv.h"
#include "common/network.h"
#include "base/hash_key.h"
#include "evaluate/policy_table.h"

#define SUM_TOLERANCE 1e-3

struct stratum {
    uint32_t number;
    double *share; /* [cap] by arm of the table */
    size_t cap;
    double sum;
};

struct table {
    struct ld_ope_policy base;
    struct kb_ids arms;
    struct stratum *stratum;
    size_t n, cap;
    uint32_t *number; /* [n_number] of the log's arms */
    size_t n_number;
    double *out; /* [cap_out] */
    size_t cap_out;
    bool is_everywhere; /* the file has no positions: one row for all */
};

static void table_free(struct ld_ope_policy *p)
{
    struct table *t = (struct table *)p;

    for (size_t i = 0; i < t->n; i++)
        free(t->stratum[i].share);
    free(t->stratum);
    free(t->number);
    free(t->out);
    kb_ids_close(&t->arms);
    free(t);
}

static struct stratum *find_stratum(struct table *t, uint32_t number, bool is_new)
{
    for (size_t i = 0; i < t->n; i++)
        if (t->stratum[i].number == number || t->is_everywhere)
            return &t->stratum[i];
    if (!is_new)
        return NULL;
    t->stratum = lc_room(t->stratum, &t->cap, t->n + 1, sizeof *t->stratum);
    t->stratum[t->n] = (struct stratum){.number = number};
    return &t->stratum[t->n++];
}

static void add(struct table *t, uint32_t number, const char *id, double share)
{
    struct stratum *s = find_stratum(t, number, true);
    const uint32_t arm = lc_intern(&t->arms, id);

    s->share = lc_room(s->share, &s->cap, (size_t)arm + 1, sizeof *s->share);
    s->share[arm] += share;
    s->sum += share;
}

static void scale(struct table *t)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t k = 0; k < t->stratum[i].cap; k++)
            t->stratum[i].share[k] /= t->stratum[i].sum;
}

static int table_propensities(struct ld_ope_policy *p, const struct ld_decisions *log, const struct ld_logged *ev,
                              const double **out, struct ld_message *why)
{
    struct table *t = (struct table *)p;
    const struct stratum *s = find_stratum(t, ev->stratum, false);

    if (s == NULL)
        return ld_fail(why, "the policy's distribution has no position %u", ev->stratum);
    if (t->n_number < log->arms.n)
        t->number = lc_regrow(t->number, log->arms.n, sizeof *t->number);
    for (; t->n_number < log->arms.n; t->n_number++)
        t->number[t->n_number] = kb_ids_find(&t->arms, kb_ids_str(&log->arms, (uint32_t)t->n_number));
    t->out = lc_room(t->out, &t->cap_out, ev->n, sizeof *t->out);
    for (size_t i = 0; i < ev->n; i++) {
        const uint32_t arm = t->number[ev->arm[i]];
        t->out[i] = arm < s->cap ? s->share[arm] : 0;
    }
    *out = t->out;
    return 0;
}

static struct table *new_table(void)
{
    static const struct ld_ope_policy_ops ops = {"distribution", table_propensities, NULL, table_free, NULL};
    struct table *t = lc_alloc(1, sizeof *t);

    t->base.ops = &ops;
    kb_ids_init(&t->arms, ld_hash_key());
    return t;
}

/* --- from a file -------------------------------------------------------------------------------------- */

static size_t column(const struct lc_csv *csv, const char *name, const char *other)
{
    const size_t a = lc_csv_find(csv, name), b = lc_csv_find(csv, other);

    return a < b ? a : b;
}

static int read_row(struct table *t, struct lc_csv *csv, size_t position, size_t arm, size_t probability)
{
    double at = 0, share = 0;

    if (position != SIZE_MAX && !lc_csv_number(csv, position, &at))
        return -1;
    if (!(at >= 0 && at <= 1e6 && at == floor(at)))
        return lc_csv_fail(csv, "position: %g is no whole number from 0 to 1,000,000", at);
    if (!lc_csv_number(csv, probability, &share))
        return -1;
    if (!(share >= 0 && share <= 1))
        return lc_csv_fail(csv, "probability: %g is not in 0..1", share);
    if (arm >= csv->n_fields || csv->fields[arm][0] == '\0' || strlen(csv->fields[arm]) > KB_ID_MAX_BYTES)
        return lc_csv_fail(csv, "item_id: expected an id of 1 to %u bytes", KB_ID_MAX_BYTES);
    add(t, (uint32_t)at, csv->fields[arm], share);
    return 0;
}

static int read_table(struct table *t, struct lc_csv *csv)
{
    int rc = lc_csv_next(csv);

    if (rc != 1)
        return rc == 0 ? lc_csv_fail(csv, "expected a header row") : -1;
    const size_t position = column(csv, "position", "stratum"), arm = column(csv, "item_id", "arm");
    const size_t probability = column(csv, "probability", "propensity");
    if (arm == SIZE_MAX || probability == SIZE_MAX)
        return lc_csv_fail(csv, "expected the columns position (may be left out), item_id and probability");
    while ((rc = lc_csv_next(csv)) == 1)
        if (read_row(t, csv, position, arm, probability) != 0)
            return -1;
    t->is_everywhere = position == SIZE_MAX;
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        if (fabs(t->stratum[i].sum - 1) > SUM_TOLERANCE)
            return lc_csv_fail(csv, "the probabilities of position %u add up to %g, not to 1", t->stratum[i].number,
                               t->stratum[i].sum);
    return rc == 0 && t->n == 0 ? lc_csv_fail(csv, "no row") : rc;
}

struct ld_ope_policy *lc_policy_from_file(const char *path, struct ld_message *why)
{
    struct table *t = new_table();
    struct lc_csv csv;
    int rc = lc_csv_open(&csv, path);

    if (rc == 0)
        rc = read_table(t, &csv);
    if (rc == 0)
        scale(t);
    else
        (void)ld_fail(why, "%s", csv.why);
    lc_csv_close(&csv);
    if (rc == 0)
        return &t->base;
    table_free(&t->base);
    return NULL;
}

/* --- from another log --------------------------------------------------------------------------------- */

struct ld_ope_policy *lc_policy_from_log(const struct lc_log_reader_ops *format, const struct lc_log_options *o,
                                         struct ld_message *why)
{
    struct table *t = new_table();
    struct lc_log log;
    struct ld_logged ev;
    int rc = lc_log_open(&log, format, o);

    while (rc == 0 && (rc = lc_log_next(&log, &ev)) == 1) {
        add(t, ev.stratum, kb_ids_str(&log.base.arms, ev.arm[ev.chosen]), 1);
        rc = 0;
    }
    if (rc == 0 && t->n == 0)
        rc = ld_fail(&log.base.why, "%.160s: no decision to take frequencies from", o->path);
    if (rc != 0)
        *why = log.base.why;
    scale(t);
    lc_log_close(&log);
    if (rc == 0)
        return &t->base;
    table_free(&t->base);
    return NULL;
}
