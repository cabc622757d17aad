/* NDJSON: our own log (schema/event.schema.json; /events and /export), and objects of anybody's, told apart by line.
 *
 *   own log   decided + rewarded -> an event where the reward is told; under aggregation sum or last where the window
 *             closes or the log ends, with what was in force then. decided + expired -> an event when there is a
 *             default reward (of the tenant, or --default-reward). observed -> an event. Of a slate the first arm alone
 *             is an event: the others have no propensity. Candidates: those that the line tells (`among`), else the
 *             active arms of the catalogue as it stands, less those that are stopped. Under draws_only decisions whose
 *             route drew nothing are passed over.
 *   others    {"user", "context", "arm", "reward", "propensity", "position", "time", "candidates"}, by --map under
 * other names; arm and reward must be there. context: a vector of the dimensions, or an object, or any value, which are
 * hashed. arm: an id, or {"id", "features"}. candidates: an array of such.
 *
 * Memory: the lines of decisions that are open. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate/hashing.h"
#include "common/json.h"
#include "evaluate/log_features.h"
#include "evaluate/log_map.h"
#include "evaluate/log_open.h"
#include "evaluate/log_reader.h"

struct ndjson {
    struct lc_map map;
    struct json_t *doc, *decided; /* in hand: the line, and that of its decision */
    struct lc_open_set open;
    bool is_held; /* rewards wait for the window's end: aggregation sum or last */
    bool is_sum;
    bool has_catalogue;   /* the log says who is offered */
    uint32_t lent;        /* arm offered to one event only */
    unsigned char *flags; /* [cap_flags] by arm, of the catalogue: ACTIVE, STOPPED */
    size_t cap_flags;
};

enum { ACTIVE = 1, STOPPED = 2 };

static const struct json_t *member(const struct json_t *doc, const char *key)
{
    return key != NULL ? lc_json_get(doc, key) : NULL;
}

/* --- values ------------------------------------------------------------------------------------------- */

/* An id, or an object with id and features; features told on their own (our log) count, too. KB_ID_NONE with why. */
static uint32_t read_arm(struct lc_log *log, const struct json_t *v, const struct json_t *features)
{
    const struct lc_hasher h = {log->o.arm_dim, log->o.hash_seed};
    const char *key = lc_json_get(v, "id") != NULL ? "id" : "arm"; /* `arm`: in our log's `among` */
    const char *id = lc_json_string(lc_json_is_object(v) ? lc_json_get(v, key) : v);
    double number;
    char text[32];

    if (id == NULL && lc_json_number(v, &number)) {
        (void)snprintf(text, sizeof text, "%.15g", number);
        id = text;
    }
    if (id == NULL) {
        lc_log_fail(log, "arm", "expected an id, or an object with an id");
        return KB_ID_NONE;
    }
    const uint32_t arm = lc_log_arm(log, id);
    if (features == NULL)
        features = lc_json_get(v, "features");
    if (arm == KB_ID_NONE || h.dim == 0 || lc_json_length(features) == 0)
        return arm;
    return lc_log_vector(log, &h, "features", features, log->features[arm]) == 0 ? arm : KB_ID_NONE;
}

/* user, context, time, arm and propensity of a line under their names in it. */
static int read_decision(struct lc_log *log, const struct lc_map *m, const struct json_t *doc, struct lc_logged *ev,
                         uint32_t *arm)
{
    const struct lc_hasher h = {log->o.context_dim, log->o.hash_seed};
    const struct json_t *p = member(doc, m->name[LC_MAP_PROPENSITY]), *user = member(doc, m->name[LC_MAP_USER]);

    *arm = read_arm(log, member(doc, m->name[LC_MAP_ARM]), lc_json_get(doc, "features"));
    if (*arm == KB_ID_NONE)
        return -1;
    if (p != NULL && !lc_json_number(p, &ev->propensity))
        return lc_log_fail(log, m->name[LC_MAP_PROPENSITY], "expected a number in (0, 1]");
    ev->user = user != NULL ? lc_json_string(user) : "-";
    if (ev->user == NULL || *ev->user == '\0' || strlen(ev->user) > KB_ID_MAX_BYTES)
        return lc_log_fail(log, m->name[LC_MAP_USER], "expected an id of 1 to %u bytes", KB_ID_MAX_BYTES);
    if (h.dim == 0)
        return 0;
    memset(log->context, 0, h.dim * sizeof *log->context);
    ev->context = log->context;
    for (size_t i = 0; i < m->n_context; i++) {
        const struct json_t *v = lc_json_get(doc, m->context[i]);
        if (m->n_context == 1 && v != NULL && lc_log_vector(log, &h, m->context[i], v, log->context) != 0)
            return -1;
        if (m->n_context > 1)
            lc_hash_json_more(&h, m->context[i], v, log->context);
    }
    for (size_t i = 0; i < m->n_category; i++)
        lc_hash_json_category(&h, m->category[i], lc_json_get(doc, m->category[i]), log->context);
    return 0;
}

/* An arm that the catalogue does not have at the moment was a candidate all the same: it was shown. */
static void read_catalogue(struct lc_log *log, struct ndjson *s, uint32_t arm, struct lc_logged *ev)
{
    if (s->has_catalogue && !log->is_offered[arm])
        s->lent = arm;
    lc_log_candidates(log, arm, ev);
}

/* --- our own log -------------------------------------------------------------------------------------- */

/* Arms that are stopped are no candidates, and are again what they were when they are started. */
static void set_flags(struct lc_log *log, uint32_t arm, bool is_active, bool is_stopped)
{
    struct ndjson *s = log->state;

    if (arm >= s->cap_flags) {
        const size_t cap = 2 * (size_t)arm + 16;
        s->flags = lc_regrow(s->flags, cap, 1);
        memset(s->flags + s->cap_flags, 0, cap - s->cap_flags);
        s->cap_flags = cap;
    }
    s->flags[arm] = (unsigned char)((is_active ? ACTIVE : 0) | (is_stopped ? STOPPED : 0));
    lc_log_offer(log, arm, is_active && !is_stopped);
}

/* KB_ID_NONE: nothing of this id was seen. */
static uint32_t known_arm(const struct lc_log *log, const struct json_t *v)
{
    const char *id = lc_json_string(v);

    return id != NULL ? kb_ids_find(&log->arms, id) : KB_ID_NONE;
}

static void turn_arms(struct lc_log *log, const struct json_t *ids, bool is_stopped)
{
    const struct ndjson *s = log->state;

    for (size_t i = 0; i < lc_json_length(ids); i++) {
        const uint32_t arm = known_arm(log, lc_json_at(ids, i));
        if (arm != KB_ID_NONE && arm < s->cap_flags)
            set_flags(log, arm, (s->flags[arm] & ACTIVE) != 0, is_stopped);
    }
}

static int put_arms(struct lc_log *log, const struct json_t *arms)
{
    for (size_t i = 0; i < lc_json_length(arms); i++) {
        const struct json_t *v = lc_json_at(arms, i);
        const uint32_t arm = read_arm(log, v, NULL);
        if (arm == KB_ID_NONE)
            return -1;
        set_flags(log, arm, lc_json_is_true(lc_json_get(v, "active")), lc_json_is_true(lc_json_get(v, "stopped")));
    }
    return 0;
}

static int change_catalogue(struct lc_log *log, const struct json_t *doc)
{
    const struct json_t *gone = lc_json_get(doc, "remove");
    struct ndjson *s = log->state;

    if (!s->has_catalogue || lc_json_is_true(lc_json_get(doc, "replace")))
        for (uint32_t i = 0; i < log->arms.n; i++)
            lc_log_offer(log, i, false);
    s->has_catalogue = true;
    for (size_t i = 0; i < lc_json_length(gone); i++) {
        const uint32_t arm = known_arm(log, lc_json_at(gone, i));
        if (arm != KB_ID_NONE)
            lc_log_offer(log, arm, false);
    }
    turn_arms(log, lc_json_get(doc, "stop"), true);
    turn_arms(log, lc_json_get(doc, "start"), false);
    return put_arms(log, lc_json_get(doc, lc_json_get(doc, "put") != NULL ? "put" : "arms"));
}

static int begin_decision(struct lc_log *log, const struct json_t *doc, size_t n)
{
    const char *id = lc_json_text(doc, "decision");
    struct ndjson *s = log->state;

    if (id == NULL)
        return lc_log_fail(log, "decision", "expected an id");
    if (lc_open_find(&s->open, id) != NULL)
        return lc_log_fail(log, "decision", "\"%.60s\" stands twice", id);
    lc_open_add(&s->open, id, log->buffer, n)->is_deferred = lc_json_is_true(lc_json_get(doc, "deferred"));
    return 0;
}

static int read_candidates(struct lc_log *log, const struct json_t *list, uint32_t chosen, struct lc_logged *ev);
/* Why a decision is no draw that estimators may weigh; NULL: it is one. A baseline that is one arm shows nothing of the
 * others to the users who have it, and these users are a share of all by chance: without them the rest is a sample. */
static const char *why_no_draw(const struct json_t *decided)
{
    const char *route = lc_json_text(decided, "route");
    double p = 0;

    if (route == NULL || strcmp(route, "policy") == 0)
        return NULL;
    if (strcmp(route, "sticky") == 0)
        return "repeats of an arm that stuck to its user";
    return lc_json_number(lc_json_get(decided, "propensity"), &p) && p >= 1 ? "decisions of a baseline that is one arm"
                                                                            : NULL;
}

/* The decision o with its reward: 1 with an event, 0 when there is none to be made of it, -1. o is gone then. */
static int end_decision(struct lc_log *log, struct lc_open *o, struct lc_logged *ev)
{
    static const struct lc_map own = {
        .name = {[LC_MAP_USER] = "user", [LC_MAP_ARM] = "arm", [LC_MAP_PROPENSITY] = "propensity"},
        .context = {"context"},
        .n_context = 1};
    struct ndjson *s = log->state;
    const bool is_told = o->has_reward || (!isnan(log->o.default_reward) && !o->is_deferred);
    char why[LC_WHY];
    uint32_t arm;

    ev->reward = o->has_reward ? o->reward : log->o.default_reward;
    lc_json_free(s->decided);
    s->decided = is_told ? lc_json_parse(o->line, strlen(o->line), why) : NULL;
    lc_open_remove(&s->open, o);
    if (!is_told) {
        lc_log_skip(log, "decisions without a reward");
        return 0;
    }
    const char *passed = log->o.draws_only ? why_no_draw(s->decided) : NULL;
    if (passed != NULL) {
        lc_log_skip(log, passed);
        return 0;
    }
    const char *at = lc_json_text(s->decided, "at");
    if (at != NULL && !lc_log_time(at, &ev->at_ms))
        return lc_log_fail(log, "at", "\"%.40s\" is no time", at);
    if (read_decision(log, &own, s->decided, ev, &arm) != 0 || lc_log_check(log, ev) != 0)
        return -1;
    ev->id = lc_json_text(s->decided, "decision");
    const struct json_t *among = lc_json_get(s->decided, "among");
    if (among != NULL && lc_json_length(among) == 0) {
        lc_log_skip(log, "decisions whose candidates are not known");
        return 0;
    }
    if (among != NULL)
        return read_candidates(log, among, arm, ev) == 0 ? 1 : -1;
    read_catalogue(log, s, arm, ev);
    return 1;
}

/* Only rewards of the arm drawn: the others of a slate have no propensity. */
static bool is_first_slot(const struct lc_open *o, const struct json_t *doc)
{
    const char *arm = lc_json_text(doc, "arm");
    char why[LC_WHY];

    if (arm == NULL)
        return true;
    struct json_t *decided = lc_json_parse(o->line, strlen(o->line), why);
    const char *first = lc_json_text(decided, "arm");
    const bool is_same = first != NULL && strcmp(first, arm) == 0;
    lc_json_free(decided);
    return is_same;
}

static int reward_decision(struct lc_log *log, const struct json_t *doc, bool is_end, struct lc_logged *ev)
{
    const char *id = lc_json_text(doc, "decision");
    struct ndjson *s = log->state;
    struct lc_open *o = id != NULL ? lc_open_find(&s->open, id) : NULL;
    const struct json_t *reward = lc_json_get(doc, "reward");
    double v;

    if (o == NULL || (!is_end && !is_first_slot(o, doc))) {
        lc_log_skip(log, o == NULL ? "rewards of decisions that are not open" : "rewards of other arms of a slate");
        return 0;
    }
    if (reward != NULL && !lc_json_number(reward, &v))
        return lc_log_fail(log, "reward", "expected a number");
    if (reward != NULL && !(is_end && o->has_reward)) {
        o->reward = s->is_sum ? o->reward + v : v;
        o->has_reward = true;
    }
    return is_end || !s->is_held ? end_decision(log, o, ev) : 0;
}

/* --- lines -------------------------------------------------------------------------------------------- */

/* Candidates that a line names: their features are those that it tells, copied, as the next line may tell others. */
static int read_candidates(struct lc_log *log, const struct json_t *list, uint32_t chosen, struct lc_logged *ev)
{
    const size_t n = lc_json_length(list), dim = log->o.arm_dim;

    lc_log_name(log, n, ev);
    ev->chosen = n;
    for (size_t i = 0; i < n; i++) {
        const uint32_t arm = read_arm(log, lc_json_at(list, i), NULL);
        if (arm == KB_ID_NONE)
            return -1;
        const size_t k = lc_log_name_arm(log, i, arm);
        if (k < i)
            return lc_log_fail(log, "candidates", "%zu and %zu are the same arm", k + 1, i + 1);
        if (arm == chosen)
            ev->chosen = i;
        if (dim > 0)
            memcpy(log->vectors + i * dim, log->features[arm], dim * sizeof(double));
    }
    return ev->chosen < n ? 0 : lc_log_fail(log, "candidates", "the arm chosen is not among them");
}

static int read_generic(struct lc_log *log, const struct json_t *doc, struct lc_logged *ev)
{
    struct ndjson *s = log->state;
    const struct json_t *list = member(doc, s->map.name[LC_MAP_CANDIDATES]),
                        *at = member(doc, s->map.name[LC_MAP_TIME]);
    double position = 0;
    uint32_t arm;

    if (at == NULL)
        at = lc_json_get(doc, "at"); /* as our own log has it */
    if (read_decision(log, &s->map, doc, ev, &arm) != 0)
        return -1;
    ev->id = lc_json_text(doc, "decision");
    if (!lc_json_number(member(doc, s->map.name[LC_MAP_REWARD]), &ev->reward) &&
        isnan(ev->reward = log->o.default_reward))
        return lc_log_fail(log, s->map.name[LC_MAP_REWARD], "expected a number");
    if (member(doc, s->map.name[LC_MAP_POSITION]) != NULL &&
        (!lc_json_number(member(doc, s->map.name[LC_MAP_POSITION]), &position) || !(position >= 0 && position <= 1e6)))
        return lc_log_fail(log, s->map.name[LC_MAP_POSITION], "expected a whole number from 0 to 1,000,000");
    ev->stratum = (uint32_t)position;
    if (lc_json_string(at) != NULL && !lc_log_time(lc_json_string(at), &ev->at_ms))
        return lc_log_fail(log, s->map.name[LC_MAP_TIME], "\"%.40s\" is no time", lc_json_string(at));
    if (lc_log_check(log, ev) != 0)
        return -1;
    if (list != NULL)
        return read_candidates(log, list, arm, ev) == 0 ? 1 : -1;
    read_catalogue(log, s, arm, ev);
    return 1;
}

/* Whoever has a model of users wants to know. */
static int change_graph(struct lc_log *log, size_t n)
{
    char why[LC_WHY];

    if (log->on_graph == NULL || log->on_graph(log->graph_arg, log->buffer, n, why) == 0)
        return 0;
    return lc_log_fail(log, "graph", "%s", why);
}

static int read_own(struct lc_log *log, const char *type, size_t n, struct lc_logged *ev)
{
    struct ndjson *s = log->state;
    const char *part = lc_json_text(s->doc, "part");
    const char *id = lc_json_text(s->doc, "decision");

    if (strcmp(type, "decided") == 0)
        return begin_decision(log, s->doc, n);
    if (strcmp(type, "rewarded") == 0)
        return reward_decision(log, s->doc, false, ev);
    if (strcmp(type, "expired") == 0)
        return reward_decision(log, s->doc, true, ev);
    if (strcmp(type, "observed") == 0)
        return read_generic(log, s->doc, ev);
    if (strcmp(type, "graph") == 0)
        return change_graph(log, n);
    if (strcmp(type, "arms") == 0 || (part != NULL && strcmp(part, "arms") == 0))
        return change_catalogue(log, s->doc);
    if (strcmp(type, "configured") == 0 || (part != NULL && strcmp(part, "begin") == 0)) {
        const char *how = lc_json_text(lc_json_get(s->doc, "configuration"), "aggregation");
        s->is_held = how != NULL && strcmp(how, "first") != 0;
        s->is_sum = how != NULL && strcmp(how, "sum") == 0;
    }
    struct lc_open *o = strcmp(type, "activated") == 0 && id != NULL ? lc_open_find(&s->open, id) : NULL;
    if (o != NULL)
        o->is_deferred = false;
    return 0;
}

static int next_ndjson(struct lc_log *log, struct lc_logged *ev)
{
    struct ndjson *s = log->state;
    char why[LC_WHY];
    size_t n;
    int rc;

    if (s->lent != KB_ID_NONE)
        lc_log_offer(log, s->lent, false);
    s->lent = KB_ID_NONE;
    while ((rc = lc_log_line(log, &n)) == 1) {
        lc_json_free(s->doc);
        s->doc = lc_json_parse(log->buffer, n, why);
        if (!lc_json_is_object(s->doc))
            return lc_log_fail(log, NULL, "%s", s->doc == NULL ? why : "expected a JSON object");
        const char *type = lc_json_text(s->doc, "type");
        const bool is_own = type != NULL && lc_json_get(s->doc, "seq") != NULL;
        rc = is_own ? read_own(log, type, n, ev) : read_generic(log, s->doc, ev);
        if (rc != 0)
            return rc;
    }
    while (rc == 0 && s->open.first != NULL)
        rc = end_decision(log, s->open.first, ev);
    return rc;
}

/* --- life --------------------------------------------------------------------------------------------- */

/* A log with a catalogue begins each pass without one. */
static int open_ndjson(struct lc_log *log)
{
    struct ndjson *s = log->state;

    s->lent = KB_ID_NONE;
    return lc_map_parse(&s->map, log->o.map, log->why);
}

static void close_ndjson(struct lc_log *log)
{
    struct ndjson *s = log->state;

    lc_map_close(&s->map);
    lc_json_free(s->doc);
    lc_json_free(s->decided);
    lc_open_close(&s->open);
    free(s->flags);
}

const struct lc_log_reader_ops lc_log_ndjson = {"ndjson", open_ndjson, next_ndjson, close_ndjson,
                                                sizeof(struct ndjson)};
