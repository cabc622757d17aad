/* Two readers of one text: the parser of bodies (server/json/json_parse.c) beside jansson, told what json_refused.c
 * tells it. They take the same texts, but for those that are nested too deep. */
#ifndef KBT_JSON_H
#define KBT_JSON_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "json/json_util.h"

enum kbt_reading { KBT_TAKEN, KBT_REFUSED, KBT_DIFFERENT };

static inline bool kbt_same_bytes(const char *a, const char *b, size_t n)
{
    return strlen(a) == n && memcmp(a, b, n) == 0;
}

/* Kinds, order and length; doubles bit for bit. */
static inline bool kbt_same_value(const struct ld_value *v, json_t *j)
{
    static const enum ld_value_kind kinds[] = {
        [JSON_OBJECT] = LD_V_OBJECT, [JSON_ARRAY] = LD_V_ARRAY, [JSON_STRING] = LD_V_STRING, [JSON_REAL] = LD_V_NUMBER,
        [JSON_TRUE] = LD_V_TRUE,     [JSON_FALSE] = LD_V_FALSE, [JSON_NULL] = LD_V_NULL};
    const char *key;
    json_t *member;
    size_t i = 0;

    if (json_is_integer(j) || v->kind != kinds[json_typeof(j)])
        return false;
    if (json_is_real(j)) {
        const double x = json_real_value(j);
        return memcmp(&x, &v->as.number, sizeof x) == 0;
    }
    if (json_is_string(j))
        return v->n == json_string_length(j) && kbt_same_bytes(v->as.string, json_string_value(j), v->n);
    if (json_is_array(j))
        while (i < v->n && i < json_array_size(j) && kbt_same_value(&v->as.item[i], json_array_get(j, i)))
            i++;
    else
        json_object_foreach(j, key, member)
        {
            if (i == v->n || !kbt_same_bytes(v->as.member[i].key, key, strlen(key)) ||
                !kbt_same_value(&v->as.member[i].value, member))
                return false;
            i++;
        }
    return i == (json_is_array(j) ? json_array_size(j) : json_object_size(j)) &&
           (i == v->n || !(json_is_array(j) || json_is_object(j)));
}

static inline size_t kbt_depth(json_t *j)
{
    const char *key;
    json_t *inner;
    size_t i, most = 0;

    json_array_foreach(j, i, inner)
    {
        const size_t depth = kbt_depth(inner);
        most = depth > most ? depth : most;
    }
    json_object_foreach(j, key, inner)
    {
        const size_t depth = kbt_depth(inner);
        most = depth > most ? depth : most;
    }
    return most + (json_is_array(j) || json_is_object(j));
}

/* In memory of exactly as many bytes as are promised, so that a sanitizer sees who reads beyond. */
static inline enum kbt_reading kbt_read_both(const char *text, size_t n)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | (size_t)JSON_DECODE_ANY;
    struct ld_doc *doc = ld_doc_new();
    struct ld_parser parser;
    struct ld_value v;
    enum kbt_reading reading;
    char *copy = malloc(n + 1);

    memcpy(copy, text, n);
    copy[n] = '\0';
    ld_parser_init(&parser, doc);
    json_t *j = json_loadb(text, n, flags, NULL);
    if (ld_parser_read(&parser, copy, n, &v))
        reading = j != NULL && kbt_depth(j) <= LD_MAX_DEPTH && kbt_same_value(&v, j) ? KBT_TAKEN : KBT_DIFFERENT;
    else if (parser.fault == LD_FAULT_DEPTH)
        reading = j == NULL || kbt_depth(j) > LD_MAX_DEPTH ? KBT_REFUSED : KBT_DIFFERENT;
    else
        reading = j == NULL && parser.fault == LD_FAULT_TEXT ? KBT_REFUSED : KBT_DIFFERENT;
    json_decref(j);
    ld_parser_close(&parser);
    ld_doc_free(doc);
    free(copy);
    return reading;
}

#endif
