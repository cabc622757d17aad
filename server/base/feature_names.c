/* See feature_names.h: the walk that collects leaves, its steps 1 and 2. A path is hashed once for all that is below
 * it: the state of the hash goes down with the walk. */
#include "base/feature_names.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hashing.h"
#include "base/text.h"

#define NO_LABEL SIZE_MAX
#define NO_SPACE SIZE_MAX

struct step {
    const char *key; /* NULL: an item */
    size_t index;
};

struct walk {
    struct ld_names *names;
    const struct ld_named_tree *tree;
    struct kb_errmsg *msg;
    char path[LD_NAMES_PATH_BYTES + 1];
    size_t n_path;
    unsigned depth; /* components of the path */
    struct ld_murmur hash;
    const char *top;                    /* the first component's name */
    size_t space;                       /* of what is below it; NO_SPACE: none yet */
    const char *but;                    /* the name of features that are left out; NULL: none are */
    char user[LD_NAMES_PATH_BYTES + 1]; /* the path of what is no feature; none where n_user is 0 */
    size_t n_user;
    size_t n_label; /* in an embedding: bytes of its path; else NO_LABEL */
    /* The pointer: at most an item of an array before each component, and one at the end. */
    struct step step[2 * LD_NAMES_MOST_DEPTH + 2];
    size_t n_steps;
};

void ld_names_close(struct ld_names *names)
{
    free(names->leaf);
    free(names->path);
    free(names->space);
    *names = (struct ld_names){0};
}

/* --- numbers ------------------------------------------------------------------------------------------- */

/* ln(1 + t) for t < 0.4 with k = 0; else ln of m 2^k. */
static double logarithm(double s, int k)
{
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11,
                               2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
    const double z = s * s;
    double p = 0;

    for (size_t j = sizeof c / sizeof *c; j-- > 0;)
        p = z * (c[j] + p);
    return (double)k * 0x1.62e42feep-1 + (2 * s + (s * p + (double)k * 0x1.a39ef35793c76p-33));
}

double ld_names_squash(double v)
{
    const double a = fabs(v);
    const bool is_large = a >= 0x1p28;
    const double t = is_large ? a : a + a * a / (1 + sqrt(a * a + 1));
    int k = 0;

    if (t < 0.4)
        return copysign(logarithm(t / (2 + t), 0), v);
    double m = frexp(is_large ? a : 1 + t, &k);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        k--;
    }
    return copysign(logarithm((m - 1) / (m + 1), is_large ? k + 1 : k), v);
}

/* --- faults -------------------------------------------------------------------------------------------- */

/* Appends "/key" to a pointer, with ~ and / spelled ~0 and ~1. False: it is cut, before a character without room. */
static bool put_key(char *to, size_t *n, size_t cap, const char *key)
{
    if (*n == cap)
        return false;
    to[(*n)++] = '/';
    while (*key != '\0') {
        const size_t length = ld_text_utf8_length((const unsigned char *)key), step = length > 0 ? length : 1;
        const char *spelled = *key == '~' ? "~0" : *key == '/' ? "~1" : key;
        const size_t bytes = spelled != key ? 2 : step;

        if (bytes > cap - *n)
            return false;
        memcpy(to + *n, spelled, bytes);
        *n += bytes;
        key += step;
    }
    return true;
}

/* At the place in hand. Returns KB_EINVAL. */
static enum kb_err fail(const struct walk *w, const char *text)
{
    char pointer[sizeof w->msg->pointer], number[24];
    size_t n = 0;
    bool is_whole = true;

    for (size_t i = 0; is_whole && i < w->n_steps; i++) {
        (void)snprintf(number, sizeof number, "%zu", w->step[i].index);
        is_whole = put_key(pointer, &n, sizeof pointer - 1, w->step[i].key != NULL ? w->step[i].key : number);
    }
    pointer[n] = '\0';
    return kb_fail(KB_EINVAL, w->msg, pointer, "%s", text);
}

/* A limit is passed. */
static enum kb_err pass(const struct walk *w, const char *limit, uint32_t most, const char *text)
{
    w->names->limit = limit;
    w->names->most = most;
    return fail(w, text);
}

static enum kb_err pass_path(const struct walk *w)
{
    return pass(w, "feature_path_bytes", LD_NAMES_PATH_BYTES, "the names on the way to this take more than 511 bytes");
}

/* --- leaves -------------------------------------------------------------------------------------------- */

/* The array with room for `need` items, *cap of them by now; NULL: no memory, and the array is as it was. */
static void *regrow(void *array, size_t *cap, size_t need, size_t first, size_t size)
{
    size_t more = *cap > 0 ? *cap : first;

    if (need <= *cap)
        return array;
    while (more < need)
        more *= 2;
    void *grown = kb_regrow(array, more, size);
    if (grown != NULL)
        *cap = more;
    return grown;
}

static bool has_room(struct ld_names *names, size_t n_path)
{
    void *leaf = regrow(names->leaf, &names->cap_leaves, names->n_leaves + 1, 32, sizeof *names->leaf);
    if (leaf == NULL)
        return false;
    names->leaf = leaf;
    void *path = regrow(names->path, &names->cap_path, names->n_path + n_path + 1, 1024, 1);
    if (path == NULL)
        return false;
    names->path = path;
    return true;
}

/* The number of a namespace, which is new: the first is "", all others are names of different members. */
static size_t add_space(struct ld_names *names, const char *name)
{
    void *space = regrow(names->space, &names->cap_spaces, names->n_spaces + 1, 16, sizeof *names->space);

    if (space == NULL)
        return NO_SPACE;
    names->space = space;
    names->space[names->n_spaces] = (struct ld_space){.name = name, .number = names->n_spaces};
    return names->n_spaces++;
}

bool ld_names_is(const char *name, const char *path, size_t n, const char *text)
{
    return strncmp(name, path, n) == 0 &&
           (text == NULL ? name[n] == '\0' : name[n] == '=' && strcmp(name + n + 1, text) == 0);
}

/* text: s, of n bytes; NULL: the key is the path. */
static enum kb_err put_leaf(struct walk *w, const char *text, size_t n, double value)
{
    struct ld_names *names = w->names;
    struct ld_murmur hash = w->hash;
    const size_t n_label = w->n_label != NO_LABEL ? w->n_label : w->n_path;

    if (w->but != NULL && ld_names_is(w->but, w->path, n_label, text))
        return KB_OK;
    if (names->n_leaves == LD_NAMES_MOST_LEAVES)
        return pass(w, "features", LD_NAMES_MOST_LEAVES, "the object has more than 1000 features");
    if (w->depth > 1 && w->space == NO_SPACE)
        w->space = w->top[0] == '\0' ? 0 : add_space(names, w->top);
    if ((w->depth > 1 && w->space == NO_SPACE) || !has_room(names, w->n_path))
        return KB_ENOMEM;
    if (text != NULL) {
        ld_murmur_add(&hash, "=", 1);
        ld_murmur_add(&hash, text, n);
    }
    names->leaf[names->n_leaves] = (struct ld_leaf){.space = w->depth > 1 ? w->space : 0,
                                                    .hash = ld_murmur_end(&hash),
                                                    .n_path = (uint32_t)w->n_path,
                                                    .n_label = (uint32_t)n_label,
                                                    .at = names->n_path,
                                                    .text = text,
                                                    .number = names->n_leaves,
                                                    .value = value};
    memcpy(names->path + names->n_path, w->path, w->n_path);
    names->n_path += w->n_path;
    names->n_leaves++;
    return KB_OK;
}

/* --- the walk ------------------------------------------------------------------------------------------ */

static enum kb_err put_value(struct walk *w, const void *v, const struct ld_named_value *seen);

/* Where the path ended, to go back to. */
struct mark {
    size_t n_path;
    struct ld_murmur hash;
};

/* One component more. */
static enum kb_err go_down(struct walk *w, const char *name, struct mark *mark)
{
    *mark = (struct mark){w->n_path, w->hash};
    size_t n = w->n_path;

    if (w->depth == LD_NAMES_MOST_DEPTH)
        return pass(w, "feature_depth", LD_NAMES_MOST_DEPTH, "names nest more than 8 deep");
    if (w->depth > 0 && n < LD_NAMES_PATH_BYTES)
        w->path[n++] = '^';
    else if (w->depth > 0)
        return pass_path(w);
    for (char c = *name; c != '\0'; c = *++name) {
        const bool is_escaped = c == '\\' || c == '^' || c == '=';

        if (n + is_escaped >= LD_NAMES_PATH_BYTES)
            return pass_path(w);
        if (is_escaped)
            w->path[n++] = '\\';
        w->path[n++] = c;
    }
    ld_murmur_add(&w->hash, w->path + w->n_path, n - w->n_path);
    w->n_path = n;
    w->depth++;
    return KB_OK;
}

static void go_up(struct walk *w, const struct mark *mark)
{
    w->n_path = mark->n_path;
    w->hash = mark->hash;
    w->depth--;
}

/* A tree's visitor. */
static int put_member(void *arg, const char *key, const void *v)
{
    struct walk *w = arg;
    struct ld_named_value seen;
    struct mark mark;

    if (key[0] == '_')
        return 0;
    w->step[w->n_steps++] = (struct step){key, 0};
    if (w->depth == 0) {
        w->top = key;
        w->space = NO_SPACE;
    }
    enum kb_err rc = go_down(w, key, &mark);
    if (rc == KB_OK) {
        w->tree->look(v, &seen);
        if (w->n_user == 0 || w->n_path != w->n_user || memcmp(w->path, w->user, w->n_user) != 0)
            rc = put_value(w, v, &seen);
        go_up(w, &mark);
    }
    w->n_steps--;
    return rc;
}

/* Whether all items are numbers; then the largest of them in size. */
static bool are_numbers(const struct walk *w, const void *array, size_t n, double *most)
{
    struct ld_named_value seen = {.kind = LD_NAMED_NUMBER};

    *most = 0;
    for (size_t i = 0; i < n && seen.kind == LD_NAMED_NUMBER; i++) {
        w->tree->look(w->tree->item(array, i), &seen);
        *most = fmax(*most, fabs(seen.number));
    }
    return seen.kind == LD_NAMED_NUMBER;
}

/* |v / m| of an embedding; 1 where all are 0. */
static double length_of(const struct walk *w, const void *array, size_t n, double m)
{
    struct ld_named_value seen;
    double sum = 0;

    for (size_t i = 0; m > 0 && i < n; i++) {
        w->tree->look(w->tree->item(array, i), &seen);
        sum += seen.number / m * (seen.number / m);
    }
    return m > 0 ? sqrt(sum) : 1;
}

/* A number at p^i. */
static enum kb_err put_place(struct walk *w, size_t i, double value)
{
    char name[24];
    struct mark mark;

    (void)snprintf(name, sizeof name, "%zu", i);
    enum kb_err rc = go_down(w, name, &mark);
    if (rc == KB_OK) {
        rc = put_leaf(w, NULL, 0, value);
        go_up(w, &mark);
    }
    return rc;
}

static enum kb_err put_array(struct walk *w, const void *array, size_t n)
{
    struct ld_named_value seen;
    enum kb_err rc = KB_OK;
    double m = 0;
    const bool is_embedding = n >= LD_NAMES_EMBEDDING && are_numbers(w, array, n, &m);
    const double length = is_embedding ? length_of(w, array, n, m) : 1;

    w->n_label = is_embedding ? w->n_path : NO_LABEL;
    for (size_t i = 0; rc == KB_OK && i < n; i++) {
        const void *item = w->tree->item(array, i);

        w->tree->look(item, &seen);
        w->step[w->n_steps++] = (struct step){NULL, i};
        if (seen.kind == LD_NAMED_ARRAY)
            rc = fail(w, "an array in an array is no feature");
        else if (seen.kind != LD_NAMED_NUMBER)
            rc = put_value(w, item, &seen);
        else if (is_embedding)
            rc = put_place(w, i, m > 0 ? seen.number / m / length : 0);
        else
            rc = put_place(w, i, ld_names_squash(seen.number));
        w->n_steps--;
    }
    w->n_label = NO_LABEL;
    return rc;
}

static enum kb_err put_value(struct walk *w, const void *v, const struct ld_named_value *seen)
{
    switch (seen->kind) {
    case LD_NAMED_TRUE:
        return put_leaf(w, NULL, 0, 1);
    case LD_NAMED_NUMBER:
        return put_leaf(w, NULL, 0, ld_names_squash(seen->number));
    case LD_NAMED_STRING:
        return seen->n > 0 ? put_leaf(w, seen->text, seen->n, 1) : KB_OK;
    case LD_NAMED_ARRAY:
        return put_array(w, v, seen->n);
    case LD_NAMED_OBJECT:
        return (enum kb_err)w->tree->each(v, put_member, w);
    case LD_NAMED_NOTHING:
        break;
    }
    return KB_OK;
}

/* --- the whole ------------------------------------------------------------------------------------------ */

/* The leaves of the object, but for those of a name. */
static enum kb_err walk(struct ld_names *names, const struct ld_name_map *map, enum ld_named_side side,
                        const struct ld_named_tree *tree, const void *object, const char *but, struct kb_errmsg *msg)
{
    struct walk w;

    w.names = names;
    w.tree = tree;
    w.msg = msg;
    w.n_path = w.n_steps = 0;
    w.depth = 0;
    w.hash = (struct ld_murmur){.h = map->seed};
    w.but = but;
    w.n_label = NO_LABEL;
    w.n_user = side == LD_NAMED_CONTEXT ? ld_names_path(map->user, w.user) : 0;
    names->n_leaves = names->n_path = names->n_spaces = 0;
    names->limit = NULL;
    if (add_space(names, "") == NO_SPACE)
        return KB_ENOMEM;
    return (enum kb_err)tree->each(object, put_member, &w);
}

enum kb_err ld_names_map_without(struct ld_names *names, const struct ld_name_map *map, enum ld_named_side side,
                                 const struct ld_named_tree *tree, const void *object, const char *name, double *x,
                                 struct kb_errmsg *msg)
{
    const enum kb_err rc = walk(names, map, side, tree, object, name, msg);

    memset(x, 0, map->dim * sizeof *x);
    if (rc == KB_OK)
        ld_names_add_up(names, map, x);
    return rc;
}

enum kb_err ld_names_map(struct ld_names *names, const struct ld_name_map *map, enum ld_named_side side,
                         const struct ld_named_tree *tree, const void *object, double *x, struct kb_errmsg *msg)
{
    return ld_names_map_without(names, map, side, tree, object, NULL, x, msg);
}

enum kb_err ld_names_each(struct ld_names *names, const struct ld_name_map *map, enum ld_named_side side,
                          const struct ld_named_tree *tree, const void *object,
                          enum kb_err (*fn)(void *arg, const char *path, size_t n, const char *text), void *arg,
                          struct kb_errmsg *msg)
{
    enum kb_err rc = walk(names, map, side, tree, object, NULL, msg);

    for (size_t i = 0; rc == KB_OK && i < names->n_leaves; i++) {
        const struct ld_leaf *leaf = &names->leaf[i];

        rc = fn(arg, names->path + leaf->at, leaf->n_label, leaf->text);
    }
    return rc;
}
