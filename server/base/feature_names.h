/* clang-format off */
/* Vectors from objects of named features: the mappings `names-1` and `names-2`.
 *
 * {"device": "phone", "hour": 13, "article": {"topic": "sport", "age_h": 2}} becomes a vector of `dim` numbers. The
 * mapping has no memory and learns nothing: who knows this page, dim, seed and weights knows the vector to the last
 * bit. It is never changed, only named anew: what a tenant has learned rests on it.
 *
 * 1. Leaves. The object is walked. A component of a path is a name, with `\`, `^` and `=` in it written `\\`, `\^` and
 *    `\=`; components are joined by `^`. A member whose name begins with `_` is passed over with all that is in it.
 *    What stands at the path p gives these leaves, each a key (bytes of UTF-8) and a value:
 *
 *      a string s           key p=s, value 1; none when s is empty
 *      true                 key p, value 1
 *      false, null          none
 *      a number v           key p, value asinh v
 *      an array             an item i that is a number v: key p^i (i in decimal, from 0), value asinh v.
 *                           Any other item is read as if it stood at p itself
 *      16 numbers or more,  an embedding: item i has key p^i and value (v_i / m) / |v / m|, m the largest |v_i|;
 *      and nothing else     squares are added up from item 0 on, and all values are 0 where m is 0
 *      an object            what its members give, at p^name
 *
 *    Of two leaves with one key the later one counts alone. What stands at the path of the map's `user` in a context
 *    (not in an arm) gives none.
 * 2. Namespaces. The namespace of a leaf is the first component of its path, unescaped, or "" where it is the only
 *    one.
 * 3. Hashing. h = murmur3_32(key, seed); the coordinate is (h dim) >> 32, the sign minus where h is odd (hashing.h).
 *    The leaves of a namespace add up to its block b.
 *    names-2 has namespaces with coordinates of their own, `size` of them each: side by side from coordinate 0 on, in
 *    the order of the bytes of their names, and (h size) >> 32 counts from the first of them. All other namespaces
 *    share the coordinates that are left, of which there is at least one, in the same way.
 * 4. Norms and weights. x = the sum over namespaces of b / max(1, |b|) * sqrt(w), w the namespace's weight, 1 unless
 *    told. So no namespace outweighs another by having more features, and |x| is at most the sum of the sqrt(w).
 *
 * Order of the sums, which makes the vector the same whatever the order of members: namespaces by the bytes of their
 * names; in each, leaves by h, then by the bytes of the path, then by those of s. |b| adds squares in the order of the
 * coordinates. Every operation is one of IEEE 754 in double precision, rounded to nearest, none fused.
 *
 * asinh v, the same on every machine, within 2 units in the last place: a = |v|.
 *    t = a + a a / (1 + sqrt(a a + 1)); if t < 0.4: s = t / (2 + t), k = 0
 *    else m 2^k = 1 + t, or for a >= 2^28 m 2^(k-1) = a, with m in [sqrt 1/2, sqrt 2); s = (m - 1) / (m + 1)
 *    z = s s; p = z (c_1 + z (c_2 + ... + z c_10)), c_j the double next to 2 / (2j + 1)
 *    asinh a = k L + (2 s + (s p + k l)), L = 0x1.62e42feep-1, l = 0x1.a39ef35793c76p-33 (L + l = ln 2); v's sign
 *
 * Limits, each a fault with a JSON pointer: 8 components in a path and 511 bytes of it as escaped, whether or not there
 * is a leaf at its end; 1,000 leaves, repeated ones included; no array directly in an array.
 *
 * Cost: O(bytes of names and strings + leaves log leaves + dim); nothing is allocated once the room has grown. */
/* clang-format on */
#ifndef LD_FEATURE_NAMES_H
#define LD_FEATURE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/feature_leaves.h"

#define LD_NAMES_MAPPING "names-1"
#define LD_NAMES_OWN_MAPPING "names-2"
#define LD_NAMES_DIM 256u /* unless told */
#define LD_NAMES_MOST_DEPTH 8u
#define LD_NAMES_PATH_BYTES 511u
#define LD_NAMES_EMBEDDING 16u

/* How a tree of JSON values is read, whoever has parsed it. */
enum ld_named_kind {
    LD_NAMED_NOTHING,
    LD_NAMED_TRUE,
    LD_NAMED_NUMBER,
    LD_NAMED_STRING,
    LD_NAMED_ARRAY,
    LD_NAMED_OBJECT
};
struct ld_named_value {
    enum ld_named_kind kind;
    double number;
    const char *text; /* NUL-terminated; lives as long as the tree */
    size_t n;         /* bytes of a string, items of an array */
};
struct ld_named_tree {
    void (*look)(const void *v, struct ld_named_value *out);
    const void *(*item)(const void *v, size_t i);
    /* Each member, until fn returns nonzero, which is returned. */
    int (*each)(const void *v, int (*fn)(void *arg, const char *key, const void *member), void *arg);
};

/* Gives up the room of leaves. */
void ld_names_close(struct ld_names *names);

/* What an object is of. */
enum ld_named_side { LD_NAMED_CONTEXT, LD_NAMED_ARM };

/* x[map->dim] = the vector of an object. KB_EINVAL: *msg has the fault and its pointer in the object; KB_ENOMEM. */
enum kb_err ld_names_map(struct ld_names *names, const struct ld_name_map *map, enum ld_named_side side,
                         const struct ld_named_tree *tree, const void *object, double *x, struct kb_errmsg *msg);

/* A feature's name is the key of its leaf, and of an embedding the path that it stands at.
 *
 * fn for each name of the object, in the order of the walk, as often as there are leaves of it: the first n bytes of
 * path and, unless text is NULL, `=` and text. Not KB_OK ends it and is returned. Errors as ld_names_map. */
enum kb_err ld_names_each(struct ld_names *names, const struct ld_name_map *map, enum ld_named_side side,
                          const struct ld_named_tree *tree, const void *object,
                          enum kb_err (*fn)(void *arg, const char *path, size_t n, const char *text), void *arg,
                          struct kb_errmsg *msg);
/* Whether that is the name of what ld_names_each tells. */
bool ld_names_is(const char *name, const char *path, size_t n, const char *text);
/* As ld_names_map, as if nothing of that name stood in the object. */
enum kb_err ld_names_map_without(struct ld_names *names, const struct ld_name_map *map, enum ld_named_side side,
                                 const struct ld_named_tree *tree, const void *object, const char *name, double *x,
                                 struct kb_errmsg *msg);

/* The user that a context has at map->user, into id; "": none. Objects in an array are read as one there as well, and
 * the last id that is found counts. KB_EINVAL: *msg says what stands there instead of an id. (feature_user.c) */
#define LD_NAMES_USER_BYTES 256u
enum kb_err ld_names_user(const struct ld_name_map *map, const struct ld_named_tree *tree, const void *object,
                          char id[LD_NAMES_USER_BYTES + 1], struct kb_errmsg *msg);
/* The path of a JSON pointer, as step 1 spells it, and its length; 0: it is none, or longer than a path may be. */
size_t ld_names_path(const char *pointer, char path[LD_NAMES_PATH_BYTES + 1]);

/* asinh, as above. */
double ld_names_squash(double v);

#endif
