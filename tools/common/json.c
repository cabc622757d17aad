/* Owner of jansson in the client: no command depends on the library. Its readers take NULL, and what is of another type
 * than asked for, for "absent".
 *
 * Numerical note: reals are written with as few of 15 to 17 digits as read back bit for bit; integers keep theirs.
 *
 * Who needs it: configurations (cmd_tenant.c), answers (http_client.c, race.c), lines to be replayed and
 * files of likes. Bodies that the client writes itself are text (text.c) and need no tree.
 *
 * Ownership: lc_json_parse and lc_json_object give roots, to be freed by lc_json_free; everything got from a
 * root is borrowed. A root belongs to one thread. */
#include "common/json.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* DECODE_ANY: a --set value may be a bare number. Trailing text is refused by jansson's default; duplicate keys by the
 * flag, as the server does. */
static json_t *parse(const char *text, size_t n, size_t flags, char *why)
{
    json_error_t err;
    json_t *v = json_loadb(text, n, flags | JSON_DECODE_ANY, &err);
    if (v == NULL)
        snprintf(why, LC_WHY, "line %d, column %d: %.160s", err.line, err.column, err.text);
    return v;
}

json_t *lc_json_parse(const char *text, size_t n, char *why)
{
    return parse(text, n, JSON_REJECT_DUPLICATES, why);
}

json_t *lc_json_parse_loosely(const char *text, size_t n, char *why)
{
    return parse(text, n, 0, why);
}

json_t *lc_json_object(void)
{
    json_t *v = json_object();
    if (v == NULL)
        lc_out_of_memory(1, sizeof *v);
    return v;
}

void lc_json_free(json_t *root)
{
    json_decref((json_t *)root);
}

/* --- readers ---------------------------------------------------------------------------------------- */

const json_t *lc_json_get(const json_t *v, const char *key)
{
    return json_object_get(v, key);
}

const json_t *lc_json_at(const json_t *v, size_t i)
{
    return json_array_get(v, i);
}

size_t lc_json_length(const json_t *v)
{
    return json_is_array(v) ? json_array_size(v) : json_object_size(v);
}

bool lc_json_is_array(const json_t *v)
{
    return json_is_array(v);
}

bool lc_json_is_object(const json_t *v)
{
    return json_is_object(v);
}

/* UTF-8, NUL-terminated; a string with an escaped NUL in it was refused by the parser. */
const char *lc_json_string(const json_t *v)
{
    return json_string_value(v);
}

/* Integers and reals alike; integers beyond 2^53 are rounded. *out is kept when it is no number. */
bool lc_json_number(const json_t *v, double *out)
{
    if (!json_is_number(v))
        return false;
    *out = json_number_value(v);
    return true;
}

const char *lc_json_id(const json_t *v, char digits[24])
{
    double number;

    if (!lc_json_number(v, &number))
        return lc_json_string(v);
    (void)snprintf(digits, 24, "%.15g", number);
    return digits;
}

bool lc_json_is_true(const json_t *v)
{
    return json_is_true(v);
}

static bool is_of(const json_t *v, json_type kind)
{
    return json_typeof(v) == kind ||
           (json_is_array(v) && json_array_size(v) > 0 && json_typeof(json_array_get(v, 0)) == kind);
}

/* Without memory the program ends; the library's own counts keep values alive. */
static void merge_member(json_t *out, const char *key, json_t *v)
{
    json_t *old = json_object_get(out, key), *both;
    const json_type kind = json_typeof(v);
    int rc;
    if (old != NULL && (kind == JSON_OBJECT || kind == JSON_STRING) && is_of(old, kind)) {
        both = json_is_array(old) ? json_copy(old) : json_pack("[O]", old);
        rc = both == NULL || json_array_append(both, v) != 0 ? -1 : 0;
        rc = rc == 0 ? json_object_set_new(out, key, both) : (json_decref(both), -1);
    } else {
        rc = json_object_set(out, key, v);
    }
    if (rc != 0)
        lc_out_of_memory(1, 1);
}

static void merge(json_t *out, const json_t *of, const char *but)
{
    json_t *from = (json_t *)(uintptr_t)of;
    for (void *at = json_object_iter(from); at != NULL; at = json_object_iter_next(from, at))
        if (but == NULL || strcmp(json_object_iter_key(at), but) != 0)
            merge_member(out, json_object_iter_key(at), json_object_iter_value(at));
}

json_t *lc_json_merged(const json_t *of, const char *but, const json_t *list)
{
    json_t *out;
    if (!json_is_array(list))
        return NULL;
    out = lc_json_object();
    merge(out, of, but);
    for (size_t i = 0; i < json_array_size(list); i++)
        merge(out, json_array_get(list, i), NULL);
    return out;
}

json_t *lc_json_with(const json_t *of, const char *key, const json_t *v)
{
    json_t *out = json_copy((json_t *)(uintptr_t)of);
    if (out == NULL || (v != NULL && json_object_set(out, key, (json_t *)(uintptr_t)v) != 0))
        lc_out_of_memory(1, 1);
    return out;
}

const char *lc_json_text(const json_t *v, const char *key)
{
    return lc_json_string(lc_json_get(v, key));
}

double lc_json_real(const json_t *v, const char *key)
{
    double out = 0;
    (void)lc_json_number(lc_json_get(v, key), &out);
    return out;
}

/* The visitor must not change the object. What it returns, if not 0, ends the walk and is handed on. */
int lc_json_each(const json_t *v, int (*fn)(void *arg, const char *key, const json_t *item), void *arg)
{
    const char *key;
    json_t *item;
    int rc;
    if (!lc_json_is_object(v))
        return 0;
    /* the iterator wants a mutable object although it only reads; keys come in the order of insertion */
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        rc = fn(arg, key, item);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* --- writers ---------------------------------------------------------------------------------------- */

/* Callback of json_dump_callback; arg is the lc_text. Cannot fail: lc_text ends the program without memory. */
static int append(const char *buffer, size_t size, void *arg)
{
    lc_text_put(arg, buffer, size);
    return 0;
}

/* A line break where it is pretty, and the blanks of the level. */
static void put_break(bool is_pretty, size_t level, struct lc_text *out)
{
    if (is_pretty)
        lc_text_printf(out, "\n%*s", (int)(2 * level), "");
}

static void write_at(const json_t *v, bool is_pretty, size_t level, struct lc_text *out);

/* Members come in the order in which they were read or set. */
static void write_members(const json_t *v, bool is_pretty, size_t level, struct lc_text *out)
{
    const char *key;
    const json_t *item;
    size_t n = 0;
    lc_text_puts(out, "{");
    json_object_foreach((json_t *)(uintptr_t)v, key, item)
    {
        lc_text_puts(out, n++ > 0 ? "," : "");
        put_break(is_pretty, level + 1, out);
        lc_text_json(out, key);
        lc_text_puts(out, is_pretty ? ": " : ":");
        write_at(item, is_pretty, level + 1, out);
    }
    put_break(is_pretty, level, out);
    lc_text_puts(out, "}");
}

static void write_items(const json_t *v, bool is_pretty, size_t level, struct lc_text *out)
{
    lc_text_puts(out, "[");
    for (size_t i = 0; i < json_array_size(v); i++) {
        lc_text_puts(out, i > 0 ? "," : "");
        put_break(is_pretty, level + 1, out);
        write_at(json_array_get(v, i), is_pretty, level + 1, out);
    }
    put_break(is_pretty, level, out);
    lc_text_puts(out, "]");
}

/* jansson's own way, but for reals, of which it writes one number of digits alone. As deep as the text was, which its
 * parser bounds. */
static void write_at(const json_t *v, bool is_pretty, size_t level, struct lc_text *out)
{
    if (json_is_real(v))
        lc_text_number(out, json_real_value(v));
    else if (json_is_object(v) && json_object_size(v) > 0)
        write_members(v, is_pretty, level, out);
    else if (json_is_array(v) && json_array_size(v) > 0)
        write_items(v, is_pretty, level, out);
    else
        json_dump_callback(v, append, out, JSON_ENCODE_ANY | JSON_COMPACT);
}

void lc_json_write(const json_t *v, bool is_pretty, struct lc_text *out)
{
    if (v != NULL)
        write_at(v, is_pretty, 0, out);
}

/* "0.5" is a number, "true" a truth value, "lk-gp-ucb" no JSON and hence a string. NULL only when the text is no UTF-8,
 * which lc_json_set reports. */
static json_t *value_of(const char *text)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    return v != NULL ? v : json_string(text);
}

/* The object that holds the last name of the path, made on the way; *name points at that last name. NULL with `why`. */
static json_t *descend(json_t *at, const char *path, const char **name, char *why)
{
    const char *dot;
    while ((dot = strchr(path, '.')) != NULL) {
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)(dot - path < 127 ? dot - path : 127), path);
        json_t *next = json_object_get(at, key);
        if (next == NULL) {
            next = json_object();
            json_object_set_new(at, key, next);
        }
        if (!json_is_object(next)) {
            snprintf(why, LC_WHY, "%s is not an object", key);
            return NULL;
        }
        at = next;
        path = dot + 1;
    }
    *name = path;
    return at;
}

/* An existing member is replaced. Names with a dot in them cannot be reached. */
int lc_json_set(json_t *root, const char *path, const char *value, char *why)
{
    const char *name = NULL;
    if (!lc_json_is_object(root)) {
        snprintf(why, LC_WHY, "the configuration is not a JSON object");
        return -1;
    }
    json_t *at = descend((json_t *)root, path, &name, why);
    if (at == NULL)
        return -1;
    if (*name == '\0' || json_object_set_new(at, name, value_of(value)) != 0) {
        snprintf(why, LC_WHY, "cannot set \"%.60s\" to \"%.60s\" (is it UTF-8?)", path, value);
        return -1;
    }
    return 0;
}
