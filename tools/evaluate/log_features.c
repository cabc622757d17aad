/* Features of JSON values: see log_features.h. Used for VW's lines, where namespaces are objects, and for our own. */
#include "evaluate/log_features.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 8
#define MAX_PATH 512

/* Where features of a JSON value go: the path is that of its namespaces. */
struct sink {
    const struct ld_hasher *hasher;
    double *x;
    char path[MAX_PATH];
    size_t n, depth;
};

static void put_value(struct sink *to, const struct json_t *v);

/* lc_json_each's visitor: one step down. Names and depths beyond the limits are cut. */
static int put_member(void *arg, const char *key, const struct json_t *v)
{
    struct sink *to = arg;
    const size_t n = to->n;

    if (key[0] == '_' || to->depth >= MAX_DEPTH)
        return 0;
    const int got = snprintf(to->path + n, sizeof to->path - n, "%s%s", n > 0 ? "^" : "", key);
    to->n = n + (size_t)got < sizeof to->path ? n + (size_t)got : sizeof to->path - 1;
    to->depth++;
    put_value(to, v);
    to->depth--;
    to->n = n;
    to->path[n] = '\0';
    return 0;
}

/* An array of numbers is one feature a place; of anything else, a value after the other. null is nothing. */
static void put_value(struct sink *to, const struct json_t *v)
{
    const char *text = lc_json_string(v);
    char place[24];
    double number;

    if (lc_json_is_object(v)) {
        (void)lc_json_each(v, put_member, to);
    } else if (lc_json_is_array(v)) {
        for (size_t i = 0; i < lc_json_length(v); i++) {
            const struct json_t *item = lc_json_at(v, i);
            (void)snprintf(place, sizeof place, "%zu", i);
            if (lc_json_number(item, &number))
                (void)put_member(to, place, item);
            else if (!lc_json_is_array(item))
                put_value(to, item);
        }
    } else if (text != NULL) {
        ld_hash_category(to->hasher, to->path, text, to->x);
    } else if (lc_json_number(v, &number)) {
        ld_hash_number(to->hasher, to->path, number, to->x);
    } else if (lc_json_is_true(v)) {
        ld_hash_number(to->hasher, to->path, 1.0, to->x);
    }
}

void lc_hash_json_more(const struct ld_hasher *h, const char *name, const struct json_t *v, double *x)
{
    struct sink to = {.hasher = h, .x = x};

    if (h->dim == 0 || v == NULL)
        return;
    if (name != NULL)
        (void)put_member(&to, name, v);
    else
        put_value(&to, v);
}

void lc_hash_json(const struct ld_hasher *h, const char *name, const struct json_t *v, double *x)
{
    memset(x, 0, h->dim * sizeof *x);
    lc_hash_json_more(h, name, v, x);
}

void lc_hash_json_category(const struct ld_hasher *h, const char *name, const struct json_t *v, double *x)
{
    const char *text = lc_json_string(v);
    char number[32];
    double value;

    if (text == NULL && lc_json_number(v, &value)) {
        (void)snprintf(number, sizeof number, "%.15g", value);
        text = number;
    }
    if (text == NULL && lc_json_is_true(v))
        text = "true";
    if (text != NULL)
        ld_hash_category(h, name, text, x);
}

/* --- the mapping names-1 ----------------------------------------------------------------------------------- */

static void look(const void *v, struct ld_named_value *out)
{
    *out = (struct ld_named_value){.kind = LD_NAMED_NOTHING, .text = lc_json_string(v), .n = lc_json_length(v)};
    if (out->text != NULL) {
        out->kind = LD_NAMED_STRING;
        out->n = strlen(out->text);
    } else if (lc_json_number(v, &out->number)) {
        out->kind = LD_NAMED_NUMBER;
    } else if (lc_json_is_true(v)) {
        out->kind = LD_NAMED_TRUE;
    } else if (lc_json_is_array(v)) {
        out->kind = LD_NAMED_ARRAY;
    } else if (lc_json_is_object(v)) {
        out->kind = LD_NAMED_OBJECT;
    }
}

static const void *item(const void *v, size_t i)
{
    return lc_json_at(v, i);
}

struct visit {
    int (*fn)(void *arg, const char *key, const void *member);
    void *arg;
};

static int visit_member(void *arg, const char *key, const struct json_t *member)
{
    const struct visit *visit = arg;

    return visit->fn(visit->arg, key, member);
}

static int each(const void *v, int (*fn)(void *arg, const char *key, const void *member), void *arg)
{
    return lc_json_each(v, visit_member, &(struct visit){fn, arg});
}

static const struct ld_named_tree tree = {look, item, each};

const char *lc_log_user(struct lc_log *log, const char *key, const struct json_t *context)
{
    struct kb_errmsg msg = {"", ""};

    if (ld_names_user(&log->base.o.names, &tree, context, log->user, &msg) == KB_OK)
        return log->user[0] != '\0' ? log->user : "-";
    (void)ld_decisions_fail(&log->base, key, "%s: %s", msg.pointer, msg.text);
    return NULL;
}

int lc_log_object(struct lc_log *log, const struct ld_hasher *h, enum ld_named_side side, const char *key,
                  const struct json_t *v, double *x)
{
    const struct ld_name_map *map = &log->base.o.names;
    struct kb_errmsg msg = {"", ""};

    if (map->dim == 0 || h->dim == 0) {
        lc_hash_json(h, NULL, v, x);
        return 0;
    }
    if (map->dim != h->dim)
        return ld_decisions_fail(&log->base, key, "features have %u numbers, where the configuration has %u", map->dim,
                                 h->dim);
    const enum kb_err rc = ld_names_map(&log->names, map, side, &tree, v, x, &msg);
    if (rc == KB_ENOMEM)
        return ld_decisions_no_memory(&log->base);
    return rc == KB_OK ? 0 : ld_decisions_fail(&log->base, key, "%s: %s", msg.pointer, msg.text);
}

int lc_log_vector(struct lc_log *log, const struct ld_hasher *h, enum ld_named_side side, const char *key,
                  const struct json_t *v, double *x)
{
    const size_t n = lc_json_length(v);
    double first;

    if (h->dim == 0)
        return 0;
    if (lc_json_is_object(v))
        return lc_log_object(log, h, side, key, v, x);
    if (!lc_json_is_array(v) || (n > 0 && !lc_json_number(lc_json_at(v, 0), &first))) {
        lc_hash_json(h, key, v, x);
        return 0;
    }
    if (n != h->dim)
        return ld_decisions_fail(&log->base, key, "%zu numbers, where the configuration has %u", n, h->dim);
    for (size_t i = 0; i < n; i++)
        if (!lc_json_number(lc_json_at(v, i), &first))
            return ld_decisions_fail(&log->base, key, "expected numbers");
    for (size_t i = 0; i < n; i++)
        (void)lc_json_number(lc_json_at(v, i), &x[i]);
    return 0;
}
