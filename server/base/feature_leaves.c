/* See feature_leaves.h. Leaves are sorted, so that those with one key lie side by
 * side, and so do those of one coordinate, which grows with the hash. */
#include "base/feature_leaves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hashing.h"

bool ld_name_map_is_same(const struct ld_name_map *a, const struct ld_name_map *b)
{
    return a->dim == 0 ? b->dim == 0
                       : a->dim == b->dim && a->seed == b->seed && kb_split_is_same(&a->weights, &b->weights) &&
                             kb_split_is_same(&a->spaces, &b->spaces) && strcmp(a->user, b->user) == 0;
}

static int by_name(const void *a, const void *b)
{
    const struct ld_space *l = a, *r = b;

    return strcmp(l->name, r->name);
}

/* A few are sorted where they stand. */
static void sort_spaces(struct ld_space *space, size_t n)
{
    if (n > 16) {
        qsort(space, n, sizeof *space, by_name);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        const struct ld_space moved = space[i];
        size_t k = i;

        for (; k > 0 && by_name(&space[k - 1], &moved) > 0; k--)
            space[k] = space[k - 1];
        space[k] = moved;
    }
}

static int by_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        return (a != NULL) - (b != NULL);
    return strcmp(a, b);
}

/* Of one namespace and one hash. */
static int by_spelling(const struct ld_leaf *a, const struct ld_leaf *b)
{
    const int way = memcmp(a->path, b->path, a->n_path < b->n_path ? a->n_path : b->n_path);
    if (way != 0 || a->n_path != b->n_path)
        return way != 0 ? way : a->n_path < b->n_path ? -1 : 1;
    return by_text(a->text, b->text);
}

/* 0: one key. */
static inline int by_key(const struct ld_leaf *a, const struct ld_leaf *b)
{
    if (a->space != b->space)
        return a->space < b->space ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return by_spelling(a, b);
}

static int in_order(const void *a, const void *b)
{
    const struct ld_leaf *l = a, *r = b;
    const int way = by_key(l, r);

    return way != 0 ? way : (l->number > r->number) - (l->number < r->number);
}

/* A few are sorted where they stand. */
static void sort_leaves(struct ld_leaf *leaf, size_t n)
{
    if (n > 32) {
        qsort(leaf, n, sizeof *leaf, in_order);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        const struct ld_leaf moved = leaf[i];
        size_t k = i;

        for (; k > 0 && in_order(&leaf[k - 1], &moved) > 0; k--)
            leaf[k] = leaf[k - 1];
        leaf[k] = moved;
    }
}

/* A namespace that is named has its coordinates; all others share those behind. */
static void give_coordinates(const struct ld_name_map *map, struct ld_space *space)
{
    const struct kb_split *named = &map->spaces;
    uint32_t first = 0;

    for (uint32_t i = 0; i < named->n; i++) {
        space->first = first;
        space->dim = (uint32_t)named->weight[i];
        if (strcmp(kb_split_id(named, i), space->name) == 0)
            return;
        first += space->dim;
    }
    space->first = first;
    space->dim = map->dim - first;
}

static uint32_t place_of(const struct ld_space *space, const struct ld_leaf *leaf)
{
    return space[leaf->space].first + ld_hash_place(leaf->hash, space[leaf->space].dim);
}

/* Leaves in their order become coordinates with their sums, of each namespace apart; of one key the last counts. The
 * number of them. */
static size_t add_up(const struct ld_space *space, struct ld_leaf *leaf, size_t n)
{
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && by_key(&leaf[i], &leaf[i + 1]) == 0)
            continue;
        const double value = ld_hash_signed(leaf[i].hash, leaf[i].value);
        const uint32_t place = place_of(space, &leaf[i]);
        struct ld_leaf *last = out > 0 ? &leaf[out - 1] : NULL;

        if (last != NULL && last->space == leaf[i].space && place_of(space, last) == place) {
            last->value += value;
        } else {
            leaf[out] = leaf[i];
            leaf[out++].value = value;
        }
    }
    return out;
}

static double weight_of(const struct ld_name_map *map, const char *name)
{
    for (uint32_t i = 0; i < map->weights.n; i++)
        if (strcmp(kb_split_id(&map->weights, i), name) == 0)
            return map->weights.weight[i];
    return 1;
}

/* x += the block of a namespace, its n coordinates, in its size. */
static void put_block(const struct ld_space *space, const struct ld_leaf *leaf, size_t n, double weight, double *x)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += leaf[i].value * leaf[i].value;
    const double norm = fmax(1, sqrt(sum)), scale = sqrt(weight);
    for (size_t i = 0; i < n; i++)
        x[place_of(space, &leaf[i])] += leaf[i].value / norm * scale;
}

void ld_names_add_up(struct ld_names *names, const struct ld_name_map *map, double *x)
{
    struct ld_leaf *leaf = names->leaf;
    size_t rank[LD_NAMES_MOST_LEAVES + 1];

    sort_spaces(names->space, names->n_spaces);
    for (size_t i = 0; i < names->n_spaces; i++) {
        give_coordinates(map, &names->space[i]);
        rank[names->space[i].number] = i;
    }
    for (size_t i = 0; i < names->n_leaves; i++) {
        leaf[i].path = names->path + leaf[i].at;
        leaf[i].space = rank[leaf[i].space]; /* cppcheck-suppress uninitvar ; each space has one */
    }
    sort_leaves(leaf, names->n_leaves);
    const size_t n = add_up(names->space, leaf, names->n_leaves);
    for (size_t i = 0, end = 0; i < n; i = end) {
        while (end < n && leaf[end].space == leaf[i].space)
            end++;
        put_block(names->space, leaf + i, end - i, weight_of(map, names->space[leaf[i].space].name), x);
    }
    names->largest = 0;
    for (size_t i = 0; i < n; i++)
        names->largest = fmax(names->largest, fabs(x[place_of(names->space, &leaf[i])]));
}
