/* The Open Bandit Dataset [Saito et al., arXiv:2008.07146]: CSV of recommendations on a shop's page.
 *
 *   timestamp, item_id, position, click      when, which arm, in which of three places (the stratum), the reward
 *   propensity_score                         of the item in this place (also action_prob and pscore, older names)
 *   user_feature_N                           categories; together they name the user, as nothing else does
 *   user-item_affinity_N                     numbers, one column an item: how many of its kind there are says how many
 *                                            items there are, shown or not
 *
 * Context: the user's features, the position as a category, and affinities that are not 0. An arm's features: the
 * columns item_feature_N of the items' file, numbers as numbers, the rest as categories. */
#include <stdlib.h>
#include <string.h>

#include "base/hashing.h"
#include "evaluate/log_columns.h"

#define USER "user_feature_"
#define AFFINITY "user-item_affinity_"
#define ITEM "item_feature_"

struct obd {
    struct lc_columns rows;
    size_t time, item, position, click, propensity; /* columns */
    struct lc_text user;
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* One of several names; -1 when a column that must be there is not. */
static int find_column(struct lc_log *log, const struct lc_columns *c, const char *const *names, bool is_required,
                       size_t *out)
{
    *out = LC_NO_COLUMN;
    for (size_t i = 0; names[i] != NULL && *out == LC_NO_COLUMN; i++)
        *out = lc_columns_find(c, names[i]);
    if (*out == LC_NO_COLUMN && is_required)
        return ld_decisions_fail(&log->base, names[0], "the header has no such column");
    return 0;
}

static int find_columns(struct lc_log *log, struct obd *s)
{
    const struct lc_columns *c = &s->rows;

    if (find_column(log, c, (const char *const[]){"item_id", "item", NULL}, true, &s->item) != 0 ||
        find_column(log, c, (const char *const[]){"click", "reward", NULL}, true, &s->click) != 0 ||
        find_column(log, c, (const char *const[]){"position", NULL}, false, &s->position) != 0 ||
        find_column(log, c, (const char *const[]){"timestamp", NULL}, false, &s->time) != 0)
        return -1;
    return find_column(log, c, (const char *const[]){"propensity_score", "action_prob", "pscore", NULL}, false,
                       &s->propensity);
}

/* --- items -------------------------------------------------------------------------------------------- */

static int read_item(struct lc_log *log, struct lc_columns *c, size_t id)
{
    const struct ld_hasher h = {log->base.o.arm_dim, log->base.o.hash_seed};

    if (c->csv.n_fields != c->n)
        return lc_csv_fail(&c->csv, "%zu fields, where the header has %zu", c->csv.n_fields, c->n);
    const uint32_t arm = ld_decisions_arm(&log->base, c->csv.fields[id]);
    if (arm == KB_ID_NONE)
        return lc_csv_fail(&c->csv, "item_id: expected an id of 1 to %u bytes", KB_ID_MAX_BYTES);
    double *x = ld_decisions_arm_features(&log->base, arm);
    for (size_t i = 0; i < c->n; i++)
        if (begins(c->name[i], ITEM))
            lc_columns_hash(c, &h, i, x);
    ld_decisions_offer(&log->base, arm, true);
    return 0;
}

static int read_items(struct lc_log *log, struct lc_columns *c)
{
    int rc = lc_columns_header(c);

    if (rc != 1)
        return rc == 0 ? lc_csv_fail(&c->csv, "expected a header row") : -1;
    const size_t id = lc_columns_find(c, "item_id");
    if (id == LC_NO_COLUMN)
        return lc_csv_fail(&c->csv, "item_id: the header has no such column");
    while ((rc = lc_csv_next(&c->csv)) == 1)
        if (read_item(log, c, id) != 0)
            return -1;
    return rc;
}

static int open_items(struct lc_log *log)
{
    struct lc_columns c = {0};
    int rc = lc_csv_open(&c.csv, log->o.items);

    if (rc == 0)
        rc = read_items(log, &c);
    if (rc != 0)
        (void)ld_fail(&log->base.why, "%s", c.csv.why);
    lc_columns_close(&c);
    return rc;
}

/* Without an items' file, as many as there are columns of affinities, numbered from 0 as the data set does. */
static int offer_affinities(struct lc_log *log, const struct lc_columns *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!begins(c->name[i], AFFINITY))
            continue;
        const uint32_t arm = ld_decisions_arm(&log->base, c->name[i] + strlen(AFFINITY));
        if (arm == KB_ID_NONE)
            return -1;
        ld_decisions_offer(&log->base, arm, true);
    }
    return 0;
}

/* --- format ------------------------------------------------------------------------------------------- */

static int open_obd(struct lc_log *log)
{
    struct obd *s = log->state;

    if (lc_columns_open(&s->rows, log) != 0 || find_columns(log, s) != 0)
        return -1;
    return log->o.items != NULL ? open_items(log) : offer_affinities(log, &s->rows);
}

static void close_obd(struct lc_log *log)
{
    struct obd *s = log->state;

    lc_columns_close(&s->rows);
    lc_text_close(&s->user);
}

/* The user's features are all that tells users apart; their values joined are the id, cut at what an id may have. */
static const char *read_user(struct obd *s)
{
    lc_text_clear(&s->user);
    for (size_t i = 0; i < s->rows.n; i++)
        if (begins(s->rows.name[i], USER)) {
            lc_text_puts(&s->user, s->user.n > 0 ? "." : "");
            lc_text_puts(&s->user, s->rows.csv.fields[i]);
        }
    if (s->user.n == 0)
        lc_text_puts(&s->user, "-");
    if (s->user.n > KB_ID_MAX_BYTES)
        s->user.data[KB_ID_MAX_BYTES] = '\0';
    return s->user.data;
}

static void read_context(struct lc_log *log, const struct obd *s)
{
    const struct ld_hasher h = {log->base.o.context_dim, log->base.o.hash_seed};
    const struct lc_columns *c = &s->rows;

    memset(log->base.context, 0, log->base.o.context_dim * sizeof *log->base.context);
    for (size_t i = 0; i < c->n; i++) {
        if (begins(c->name[i], USER) || i == s->position)
            ld_hash_category(&h, c->name[i], c->csv.fields[i], log->base.context);
        else if (begins(c->name[i], AFFINITY))
            ld_hash_number(&h, c->name[i], strtod(c->csv.fields[i], NULL), log->base.context);
    }
}

static int next_obd(struct lc_log *log, struct ld_logged *ev)
{
    struct obd *s = log->state;
    int rc = lc_columns_next(&s->rows, log);

    if (rc != 1)
        return rc;
    const uint32_t arm = ld_decisions_arm(&log->base, s->rows.csv.fields[s->item]);
    if (arm == KB_ID_NONE || lc_columns_place(&s->rows, log, s->position, s->time, ev) != 0 ||
        lc_columns_number(&s->rows, log, s->click, false, &ev->reward) != 0 ||
        lc_columns_number(&s->rows, log, s->propensity, true, &ev->propensity) != 0 ||
        ld_decisions_check(&log->base, ev) != 0)
        return -1;
    ev->user = read_user(s);
    if (log->base.o.context_dim > 0) {
        read_context(log, s);
        ev->context = log->base.context;
    }
    ld_decisions_candidates(&log->base, arm, ev);
    return 1;
}

const struct lc_log_reader_ops lc_log_obd = {"obd", open_obd, next_obd, close_obd, sizeof(struct obd)};
