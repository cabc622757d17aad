/* A JSON text as a tree of values, read-only, in the memory of its document (json_doc.h): what the decoders walk
 * through. Private to server/json/json_*.c. An array's items lie side by side, an object's members in the order of the
 * text; no key stands twice. Functions take NULL for a value that is not there, and say of it that it is nothing. */
#ifndef LD_JSON_VALUE_H
#define LD_JSON_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/feature_names.h"
#include "json/rules.h"

enum ld_value_kind { LD_V_NULL, LD_V_FALSE, LD_V_TRUE, LD_V_NUMBER, LD_V_STRING, LD_V_ARRAY, LD_V_OBJECT };

struct ld_value {
    enum ld_value_kind kind;
    uint32_t n; /* bytes of a string, items, members */
    union {
        double number;      /* finite; whole numbers, too */
        const char *string; /* UTF-8 without NUL inside, NUL-terminated */
        struct ld_value *item;
        struct ld_member *member;
    } as;
};

struct ld_member {
    const char *key; /* as a string */
    struct ld_value value;
};

static inline bool ld_is(const struct ld_value *v, enum ld_value_kind kind)
{
    return v != NULL && v->kind == kind;
}

static inline bool ld_is_bool(const struct ld_value *v)
{
    return ld_is(v, LD_V_FALSE) || ld_is(v, LD_V_TRUE);
}

/* 0 of what is no number. */
static inline double ld_number_of(const struct ld_value *v)
{
    return ld_is(v, LD_V_NUMBER) ? v->as.number : 0;
}

/* NULL of what is no string. */
static inline const char *ld_string_of(const struct ld_value *v)
{
    return ld_is(v, LD_V_STRING) ? v->as.string : NULL;
}

/* Whether it is this very text. */
static inline bool ld_is_text(const struct ld_value *v, const char *text)
{
    return ld_is(v, LD_V_STRING) && strcmp(v->as.string, text) == 0;
}

static inline size_t ld_string_bytes(const struct ld_value *v)
{
    return ld_is(v, LD_V_STRING) ? v->n : 0;
}

/* 0 of what is no array. */
static inline size_t ld_n_items(const struct ld_value *v)
{
    return ld_is(v, LD_V_ARRAY) ? v->n : 0;
}

/* NULL beyond the end, too. */
static inline const struct ld_value *ld_item_of(const struct ld_value *v, size_t i)
{
    return i < ld_n_items(v) ? &v->as.item[i] : NULL;
}

/* 0 of what is no object. */
static inline size_t ld_n_members(const struct ld_value *v)
{
    return ld_is(v, LD_V_OBJECT) ? v->n : 0;
}

/* Most keys that differ do so in their first letter. */
static inline bool ld_is_key(const char *a, const char *b)
{
    return a[0] == b[0] && strcmp(a, b) == 0;
}

/* NULL when there is none. O(members), of which there are a handful. */
static inline const struct ld_value *ld_member_of(const struct ld_value *v, const char *key)
{
    for (size_t i = 0; i < ld_n_members(v); i++)
        if (ld_is_key(v->as.member[i].key, key))
            return &v->as.member[i].value;
    return NULL;
}

/* The member goes, if it is there; all others keep their order. */
static inline void ld_leave_out(struct ld_value *object, const char *key)
{
    uint32_t n = 0;

    for (size_t i = 0; i < ld_n_members(object); i++)
        if (strcmp(object->as.member[i].key, key) != 0)
            object->as.member[n++] = object->as.member[i];
    if (ld_is(object, LD_V_OBJECT))
        object->n = n;
}

/* Why a text is no value: nested too deep, where `at` is then; or there was no memory; else it is jansson's to say. */
enum ld_parser_fault { LD_FAULT_TEXT, LD_FAULT_DEPTH, LD_FAULT_MEMORY };

/* Of a list that was open at the fault: the member in hand (NULL: none yet), or the index. */
struct ld_place {
    bool is_object;
    const char *key;
    size_t index;
};

/* The reader of texts (json_parse.c). One reader reads any number of them. */
struct ld_doc;
struct ld_parser {
    struct ld_doc *doc; /* whose memory the trees are in */
    char *at;           /* the byte in hand */
    enum ld_parser_fault fault;
    size_t depth, n_places;
    struct ld_place place[LD_MAX_DEPTH]; /* [n_places] after a fault, from the outermost list inwards */
    struct ld_member *stack;             /* items and members of what is open, the innermost last */
    size_t n_stack, cap_stack;
};

void ld_parser_init(struct ld_parser *r, struct ld_doc *doc);
void ld_parser_close(struct ld_parser *r);

/* text[n] is NUL and text lives as long as the document; strings are unescaped and ended in place. False: *out is
 * nothing, and the text not what it was. */
bool ld_parser_read(struct ld_parser *r, char *text, size_t n, struct ld_value *out);

/* A text that the parser has refused: all of a body, or a line of NDJSON. */
struct ld_refused {
    const struct ld_parser *parser;
    const char *text, *copy; /* as it came, and as the parser has left it */
    size_t n;
    const char *prefix;    /* of pointers: "/17" for a line of NDJSON, "" for a whole body */
    size_t lines, n_bytes; /* before it */
};

/* Says in p why (json_refused.c). */
struct ld_problem;
void ld_parser_tell(const struct ld_refused *r, struct ld_problem *p);

/* How objects of named features become vectors, and the room for that. */
struct ld_named {
    struct ld_name_map map;
    struct ld_names names;
};

struct ld_doc {
    struct ld_value root;
    size_t *line;               /* NDJSON: line of each item of the root, from 0; else NULL */
    struct ld_value *item;      /* NDJSON: those items */
    struct ld_block *blocks;    /* memory of the text, its values and what was decoded, newest first */
    double magnitude;           /* largest that a number of a model may be in size (ld_doc_bound) */
    struct ld_named *named;     /* objects may stand for vectors (json_vector.h); NULL: they may not */
    size_t mapped, most_mapped; /* bytes of vectors that the last decoding made of objects; 0: any */
    bool is_short;              /* of memory, when that was asked for */
};

#endif
