/* Whom a context names: the value at the pointer `user` of a mapping (feature_names.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/feature_names.h"
#include "base/text.h"

#define MOST_NUMBER 9007199254740991.0 /* 2^53 - 1: beyond it two users would be one */

/* The next component of a pointer, which begins with "/", into name; what is behind it. */
static const char *next_name(const char *pointer, char name[LD_NAMES_POINTER_BYTES + 1])
{
    size_t n = 0;

    for (pointer++; *pointer != '\0' && *pointer != '/'; pointer++) {
        if (*pointer == '~' && pointer[1] != '\0')
            name[n++] = *++pointer == '1' ? '/' : '~';
        else
            name[n++] = *pointer;
    }
    name[n] = '\0';
    return pointer;
}

static bool is_pointer(const char *text)
{
    if (*text != '/' || strlen(text) > LD_NAMES_POINTER_BYTES)
        return false;
    for (; *text != '\0'; text++)
        if (*text == '~' && text[1] != '0' && text[1] != '1')
            return false;
    return true;
}

size_t ld_names_path(const char *pointer, char path[LD_NAMES_PATH_BYTES + 1])
{
    char name[LD_NAMES_POINTER_BYTES + 1];
    size_t n = 0, depth = 0;

    if (!is_pointer(pointer))
        return 0;
    for (; *pointer != '\0'; depth++) {
        pointer = next_name(pointer, name);
        if (depth == LD_NAMES_MOST_DEPTH || n + (depth > 0) > LD_NAMES_PATH_BYTES)
            return 0;
        if (depth > 0)
            path[n++] = '^';
        for (const char *c = name; *c != '\0'; c++) {
            const bool is_escaped = *c == '\\' || *c == '^' || *c == '=';

            if (n + is_escaped >= LD_NAMES_PATH_BYTES)
                return 0;
            if (is_escaped)
                path[n++] = '\\';
            path[n++] = *c;
        }
    }
    path[n] = '\0';
    return n;
}

/* Where the search is: what is left of the pointer, and its first component. */
struct search {
    const struct ld_named_tree *tree;
    const char *rest;
    char name[LD_NAMES_POINTER_BYTES + 1];
    char *id;
    const char *fault; /* what stands at the place is no id; NULL: none */
};

static void take_text(struct search *s, const struct ld_named_value *v)
{
    if (v->n > LD_NAMES_USER_BYTES) {
        s->fault = "expected the id of a user, of at most 256 bytes";
        return;
    }
    for (size_t i = 0; i < v->n; i++)
        if (ld_text_is_control(v->text + i))
            s->fault = "expected the id of a user, without control characters";
    if (s->fault == NULL)
        memcpy(s->id, v->text, v->n + 1);
}

static void take_number(struct search *s, double x)
{
    if (x >= 0 && x <= MOST_NUMBER && x == floor(x))
        (void)snprintf(s->id, LD_NAMES_USER_BYTES + 1, "%.0f", fabs(x));
    else
        s->fault = "expected the id of a user: a string, or a whole number from 0 to 9007199254740991";
}

static void look_for(struct search *s, const void *v, const char *rest);

static int look_at_member(void *arg, const char *key, const void *member)
{
    struct search *s = arg;

    if (strcmp(key, s->name) == 0)
        look_for(s, member, s->rest);
    return 0;
}

/* Components are read anew for each object: there are eight at most. */
static void look_below(struct search *s, const void *object, const char *rest)
{
    struct search below = *s;

    below.rest = next_name(rest, below.name);
    (void)s->tree->each(object, look_at_member, &below);
    s->fault = below.fault;
}

static void look_for(struct search *s, const void *v, const char *rest)
{
    struct ld_named_value seen;

    s->tree->look(v, &seen);
    if (seen.kind == LD_NAMED_ARRAY) {
        for (size_t i = 0; i < seen.n; i++)
            look_for(s, s->tree->item(v, i), rest);
    } else if (*rest != '\0') {
        if (seen.kind == LD_NAMED_OBJECT)
            look_below(s, v, rest);
    } else if (seen.kind == LD_NAMED_STRING && seen.n > 0) {
        take_text(s, &seen);
    } else if (seen.kind == LD_NAMED_NUMBER) {
        take_number(s, seen.number);
    } else if (seen.kind == LD_NAMED_TRUE || seen.kind == LD_NAMED_OBJECT) {
        s->fault = "expected the id of a user: a string, or a whole number";
    }
}

enum kb_err ld_names_user(const struct ld_name_map *map, const struct ld_named_tree *tree, const void *object,
                          char id[LD_NAMES_USER_BYTES + 1], struct kb_errmsg *msg)
{
    struct search s = {.tree = tree, .id = id};

    id[0] = '\0';
    if (map->dim > 0 && map->user[0] != '\0')
        look_for(&s, object, map->user);
    return s.fault == NULL ? KB_OK : kb_fail(KB_EINVAL, msg, map->user, "%s", s.fault);
}
