/* CSV of anybody's: a row a decision, columns by --map (log_map.h) or by their default names.
 *
 * `arm` and `reward` must be there. Without a column for it the user is "-", the position 0, and the propensity not
 * told. Context columns that hold numbers are numeric features, others categories; `categories` are categories whatever
 * they hold. Candidates are all arms of the file; an arm's one feature is its id. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hashing.h"
#include "evaluate/log_columns.h"
#include "evaluate/log_map.h"

struct generic {
    struct lc_columns rows;
    struct lc_map map;
    size_t column[LC_MAP_CANDIDATES]; /* by enum lc_map_key */
    size_t context[LC_MAP_MAX], category[LC_MAP_MAX];
};

/* A column that was named, or that has a default name and is needed, must be there. */
static int find(struct lc_log *log, const struct generic *s, const char *name, const char *otherwise, size_t *out)
{
    *out = lc_columns_find(&s->rows, name);
    if (*out == LC_NO_COLUMN && (otherwise == NULL || strcmp(name, otherwise) != 0))
        return ld_decisions_fail(&log->base, name, "the header has no such column (--map says which is what)");
    return 0;
}

static int find_all(struct lc_log *log, struct generic *s)
{
    const struct lc_map *m = &s->map;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < LC_MAP_CANDIDATES; i++)
        rc = find(log, s, m->name[i], i <= LC_MAP_REWARD ? NULL : lc_map_keys[i], &s->column[i]);
    for (size_t i = 0; rc == 0 && i < m->n_context; i++)
        rc = find(log, s, m->context[i], "context", &s->context[i]);
    for (size_t i = 0; rc == 0 && i < m->n_category; i++)
        rc = find(log, s, m->category[i], NULL, &s->category[i]);
    return rc;
}

static int open_csv(struct lc_log *log)
{
    struct generic *s = log->state;

    if (lc_map_parse(&s->map, log->o.map, log->base.why.text) != 0)
        return -1;
    return lc_columns_open(&s->rows, log) == 0 ? find_all(log, s) : -1;
}

static void close_csv(struct lc_log *log)
{
    struct generic *s = log->state;

    lc_columns_close(&s->rows);
    lc_map_close(&s->map);
}

static void read_context(struct lc_log *log, const struct generic *s)
{
    const struct ld_hasher h = {log->base.o.context_dim, log->base.o.hash_seed};

    memset(log->base.context, 0, log->base.o.context_dim * sizeof *log->base.context);
    for (size_t i = 0; i < s->map.n_context; i++)
        if (s->context[i] != LC_NO_COLUMN)
            lc_columns_hash(&s->rows, &h, s->context[i], log->base.context);
    for (size_t i = 0; i < s->map.n_category; i++)
        ld_hash_category(&h, s->map.category[i], s->rows.csv.fields[s->category[i]], log->base.context);
}

/* A reward left empty is that of --default-reward, or the row is passed over. */
static int read_numbers(struct lc_log *log, const struct generic *s, struct ld_logged *ev)
{
    if (lc_columns_number(&s->rows, log, s->column[LC_MAP_REWARD], true, &ev->reward) != 0)
        return -1;
    if (lc_columns_number(&s->rows, log, s->column[LC_MAP_PROPENSITY], true, &ev->propensity) != 0)
        return -1;
    return lc_columns_place(&s->rows, log, s->column[LC_MAP_POSITION], s->column[LC_MAP_TIME], ev);
}

static int read_row(struct lc_log *log, const struct generic *s, struct ld_logged *ev)
{
    const uint32_t arm = ld_decisions_arm(&log->base, s->rows.csv.fields[s->column[LC_MAP_ARM]]);

    if (arm == KB_ID_NONE || read_numbers(log, s, ev) != 0)
        return -1;
    if (isnan(ev->reward))
        ev->reward = log->base.o.default_reward;
    if (isnan(ev->reward)) {
        ld_decisions_skip(&log->base, "without a reward");
        return 0;
    }
    if (ld_decisions_check(&log->base, ev) != 0)
        return -1;
    ev->user = s->column[LC_MAP_USER] != LC_NO_COLUMN ? s->rows.csv.fields[s->column[LC_MAP_USER]] : "-";
    if (*ev->user == '\0' || strlen(ev->user) > KB_ID_MAX_BYTES)
        return ld_decisions_fail(&log->base, s->map.name[LC_MAP_USER], "expected an id of 1 to %u bytes",
                                 KB_ID_MAX_BYTES);
    if (log->base.o.context_dim > 0) {
        read_context(log, s);
        ev->context = log->base.context;
    }
    ld_decisions_candidates(&log->base, arm, ev);
    return 1;
}

static int next_csv(struct lc_log *log, struct ld_logged *ev)
{
    struct generic *s = log->state;

    for (;;) {
        int rc = lc_columns_next(&s->rows, log);
        if (rc != 1 || (rc = read_row(log, s, ev)) != 0)
            return rc;
    }
}

const struct lc_log_reader_ops lc_log_csv = {"csv", open_csv, next_csv, close_csv, sizeof(struct generic)};
