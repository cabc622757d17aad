/* NDJSON: our own log (schema/event.schema.json; /events and /export), and objects of anybody's, told apart by line.
 *
 *   own log   log_own.h
 *   others    {"user", "context", "arm", "reward", "propensity", "position", "time", "candidates"}, by --map under
 * other names; arm and reward must be there. context: a vector of the dimensions, or an object, or any value, which are
 * hashed. arm: an id, or {"id", "features"}. candidates: an array of such.
 *
 * Memory: what is kept of decisions that are open. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "base/hashing.h"
#include "evaluate/log_features.h"
#include "evaluate/log_map.h"
#include "evaluate/log_own.h"
#include "evaluate/log_reader.h"

struct ndjson {
    struct lc_map map;
    struct json_t *doc; /* in hand */
    struct lc_own own;
    char digits[32]; /* of the user of the line in hand, where it is a number */
};

static const struct json_t *member(const struct json_t *doc, const char *key)
{
    return key != NULL ? lc_json_get(doc, key) : NULL;
}

/* --- values ------------------------------------------------------------------------------------------- */

/* An empty object is a vector, too, where objects are mapped. */
static bool is_mapped(const struct lc_log *log, const struct json_t *features)
{
    return log->base.o.names.dim > 0 && lc_json_is_object(features);
}

/* An id, or an object with id and features; features told on their own count, too. KB_ID_NONE with why. */
static uint32_t read_arm(struct lc_log *log, const struct json_t *v, const struct json_t *features)
{
    const struct ld_hasher h = {log->base.o.arm_dim, log->base.o.hash_seed};
    char text[32];
    const char *id = lc_log_id(log, v, text);

    if (id == NULL)
        return KB_ID_NONE;
    const uint32_t arm = ld_decisions_arm(&log->base, id);
    if (features == NULL)
        features = lc_json_get(v, "features");
    if (arm == KB_ID_NONE || h.dim == 0 || (lc_json_length(features) == 0 && !is_mapped(log, features)))
        return arm;
    return lc_log_vector(log, &h, LD_NAMED_ARM, "features", features, log->base.features[arm]) == 0 ? arm : KB_ID_NONE;
}

/* A text, or a whole number that means its digits, as in a request. NULL: neither. */
static const char *read_user(const struct json_t *v, char digits[32])
{
    double number;

    if (!lc_json_number(v, &number) || !(number >= 0 && number <= 9007199254740991.0 && number == floor(number)))
        return lc_json_string(v);
    (void)snprintf(digits, 32, "%.0f", fabs(number));
    return digits;
}

/* user, context, time, arm and propensity of a line under their names in it. */
static int read_decision(struct lc_log *log, const struct lc_map *m, const struct json_t *doc, struct ld_logged *ev,
                         uint32_t *arm)
{
    const struct ld_hasher h = {log->base.o.context_dim, log->base.o.hash_seed};
    const struct json_t *p = member(doc, m->name[LC_MAP_PROPENSITY]), *user = member(doc, m->name[LC_MAP_USER]);

    *arm = read_arm(log, member(doc, m->name[LC_MAP_ARM]), lc_json_get(doc, "features"));
    if (*arm == KB_ID_NONE)
        return -1;
    if (p != NULL && !lc_json_number(p, &ev->propensity))
        return ld_decisions_fail(&log->base, m->name[LC_MAP_PROPENSITY], "expected a number in (0, 1]");
    ev->user = user != NULL ? read_user(user, ((struct ndjson *)log->state)->digits) : "-";
    if (ev->user == NULL || *ev->user == '\0' || strlen(ev->user) > KB_ID_MAX_BYTES)
        return ld_decisions_fail(&log->base, m->name[LC_MAP_USER], "expected an id of 1 to %u bytes", KB_ID_MAX_BYTES);
    if (h.dim == 0)
        return 0;
    memset(log->base.context, 0, h.dim * sizeof *log->base.context);
    ev->context = log->base.context;
    for (size_t i = 0; i < m->n_context; i++) {
        const struct json_t *v = lc_json_get(doc, m->context[i]);
        if (m->n_context == 1 && v != NULL &&
            lc_log_vector(log, &h, LD_NAMED_CONTEXT, m->context[i], v, log->base.context) != 0)
            return -1;
        if (m->n_context == 1 && user == NULL && lc_json_is_object(v) &&
            (ev->user = lc_log_user(log, m->context[i], v)) == NULL)
            return -1;
        if (m->n_context > 1)
            lc_hash_json_more(&h, m->context[i], v, log->base.context);
    }
    for (size_t i = 0; i < m->n_category; i++)
        lc_hash_json_category(&h, m->category[i], lc_json_get(doc, m->category[i]), log->base.context);
    return 0;
}

/* --- lines -------------------------------------------------------------------------------------------- */

/* Candidates that a line names: their features are those that it tells, copied, as the next line may tell others. */
static int read_candidates(struct lc_log *log, const struct json_t *list, uint32_t chosen, struct ld_logged *ev)
{
    const size_t n = lc_json_length(list), dim = log->base.o.arm_dim;

    if (ld_decisions_name(&log->base, n, ev) != 0)
        return LD_DECISIONS_BROKEN;
    ev->chosen = n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t arm = read_arm(log, lc_json_at(list, i), NULL);
        if (arm == KB_ID_NONE)
            return -1;
        const size_t k = ld_decisions_name_arm(&log->base, i, arm);
        if (k < i)
            return ld_decisions_fail(&log->base, "candidates", "%zu and %zu are the same arm", k + 1, i + 1);
        if (arm == chosen)
            ev->chosen = i;
        if (dim > 0)
            memcpy(log->base.vectors + i * dim, log->base.features[arm], dim * sizeof(double));
    }
    return ev->chosen < n ? 0 : ld_decisions_fail(&log->base, "candidates", "the arm chosen is not among them");
}

static int read_generic(struct lc_log *log, const struct json_t *doc, struct ld_logged *ev)
{
    struct ndjson *s = log->state;
    const struct json_t *list = member(doc, s->map.name[LC_MAP_CANDIDATES]),
                        *at = member(doc, s->map.name[LC_MAP_TIME]);
    double position = 0;
    uint32_t arm;

    if (log->o.metric != NULL) {
        ld_decisions_skip(&log->base, "observations, which have no metrics");
        return 0;
    }
    if (at == NULL)
        at = lc_json_get(doc, "at"); /* as our own log has it */
    if (read_decision(log, &s->map, doc, ev, &arm) != 0)
        return -1;
    ev->id = lc_json_text(doc, "decision");
    if (!lc_json_number(member(doc, s->map.name[LC_MAP_REWARD]), &ev->reward) &&
        isnan(ev->reward = log->base.o.default_reward))
        return ld_decisions_fail(&log->base, s->map.name[LC_MAP_REWARD], "expected a number");
    if (member(doc, s->map.name[LC_MAP_POSITION]) != NULL &&
        (!lc_json_number(member(doc, s->map.name[LC_MAP_POSITION]), &position) || !(position >= 0 && position <= 1e6)))
        return ld_decisions_fail(&log->base, s->map.name[LC_MAP_POSITION],
                                 "expected a whole number from 0 to 1,000,000");
    ev->stratum = (uint32_t)position;
    if (lc_json_string(at) != NULL && !lc_log_time(lc_json_string(at), &ev->at_ms))
        return ld_decisions_fail(&log->base, s->map.name[LC_MAP_TIME], "\"%.40s\" is no time", lc_json_string(at));
    if (ld_decisions_check(&log->base, ev) != 0)
        return -1;
    if (list != NULL)
        return read_candidates(log, list, arm, ev) == 0 ? 1 : -1;
    ld_own_log_candidates(&s->own.log, arm, ev);
    return 1;
}

static int next_ndjson(struct lc_log *log, struct ld_logged *ev)
{
    struct ndjson *s = log->state;
    bool is_over = false;
    char why[LC_WHY];
    size_t n;
    int rc;

    ld_own_log_next(&s->own.log);
    while ((rc = lc_log_line(log, &n)) == 1) {
        lc_json_free(s->doc);
        s->doc = lc_json_parse(log->buffer, n, why);
        if (!lc_json_is_object(s->doc))
            return ld_decisions_fail(&log->base, NULL, "%s", s->doc == NULL ? why : "expected a JSON object");
        const char *type = lc_json_text(s->doc, "type");
        const bool is_own = type != NULL && lc_json_get(s->doc, "seq") != NULL;
        ld_own_log_next(&s->own.log);
        rc = is_own && strcmp(type, "observed") != 0 ? lc_own_take(&s->own, log, s->doc, n, ev)
                                                     : read_generic(log, s->doc, ev);
        if (rc != 0)
            return rc;
    }
    while (rc == 0 && !is_over) {
        ld_own_log_next(&s->own.log);
        rc = ld_own_log_end(&s->own.log, ev, &is_over);
    }
    return rc;
}

/* --- life --------------------------------------------------------------------------------------------- */

/* A log with a catalogue begins each pass without one. Vectors are of the dimensions that are asked for. */
static int open_ndjson(struct lc_log *log)
{
    struct ndjson *s = log->state;

    lc_own_open(&s->own, log);
    return lc_map_parse(&s->map, log->o.map, log->base.why.text);
}

static void close_ndjson(struct lc_log *log)
{
    struct ndjson *s = log->state;

    lc_map_close(&s->map);
    lc_json_free(s->doc);
    lc_own_close(&s->own);
}

const struct lc_log_reader_ops lc_log_ndjson = {"ndjson", open_ndjson, next_ndjson, close_ndjson,
                                                sizeof(struct ndjson)};
