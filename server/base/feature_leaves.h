/* Leaves of named features, and what becomes of them: steps 3 and 4 of the mapping that feature_names.h describes. */
#ifndef LD_FEATURE_LEAVES_H
#define LD_FEATURE_LEAVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spec/split.h"

#define LD_NAMES_MOST_LEAVES 1000u
#define LD_NAMES_POINTER_BYTES 512u

struct ld_name_map {
    uint32_t dim; /* 0: there is no mapping, and nothing else of it is read */
    uint32_t seed;
    struct kb_split weights;               /* by namespace */
    struct kb_split spaces;                /* names-2: coordinates of their own, by namespace; none: names-1 */
    char user[LD_NAMES_POINTER_BYTES + 1]; /* of a context, where its user stands, who is no feature; "": nowhere */
};
bool ld_name_map_is_same(const struct ld_name_map *a, const struct ld_name_map *b);

struct ld_leaf {
    size_t space;
    uint32_t hash, n_path, n_label; /* n_label: bytes of the path that name it; fewer in an embedding */
    size_t at;                      /* of its path among all paths */
    const char *path;               /* set when all are there */
    const char *text;               /* s; NULL: none */
    size_t number;                  /* of the leaf, in the order of the walk */
    double value;                   /* later: the signed sum of its coordinate */
};

struct ld_space {
    const char *name;
    size_t number;       /* in the order of the walk */
    uint32_t first, dim; /* its coordinates */
};

/* Room for the leaves of one object after the other. All zeros: empty. */
struct ld_names {
    struct ld_leaf *leaf;
    char *path; /* of all leaves, one behind the other */
    struct ld_space *space;
    size_t n_leaves, cap_leaves, n_path, cap_path, n_spaces, cap_spaces;
    double largest;    /* coordinate of the last vector, in size: as weights make it */
    const char *limit; /* static: the one that the last object has passed, and what it is; NULL: none */
    uint32_t most;
};
/* x, of zeros, becomes the vector of the leaves; names->largest is set. */
void ld_names_add_up(struct ld_names *names, const struct ld_name_map *map, double *x);

#endif
