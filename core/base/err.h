/* Errors of the core: one list of codes and texts, and an optional message that names the field.
 *
 * Convention: every function that can fail for reasons of input, memory or numerics returns enum kb_err
 * (0 is success, errors are negative) and leaves its arguments as they were. Bugs are asserted instead.
 * User-facing calls take a last `struct kb_errmsg *msg`, which may be NULL. */
#ifndef KB_ERR_H
#define KB_ERR_H

#include <stddef.h>

#define KB_ERR_MAP(X)                                                                                                  \
    X(KB_ENOMEM, -1, "out of memory")                                                                                  \
    X(KB_EINVAL, -2, "invalid value")                                                                                  \
    X(KB_ENOTPD, -3, "matrix is not positive definite")                                                                \
    X(KB_ENOTFOUND, -4, "not found")                                                                                   \
    X(KB_EEXIST, -5, "already exists")                                                                                 \
    X(KB_ECONFLICT, -6, "conflicts with what is recorded")                                                             \
    X(KB_EUNSUPPORTED, -7, "combination is not supported")                                                             \
    X(KB_ELIMIT, -8, "a limit was reached")                                                                            \
    X(KB_EGONE, -9, "the reward window has passed")                                                                    \
    X(KB_EBUSY, -10, "touches an event that is not yet applied")                                                       \
    X(KB_ECORRUPT, -11, "snapshot is damaged")                                                                         \
    X(KB_EVERSION, -12, "snapshot has another version")                                                                \
    X(KB_ECANCELLED, -13, "cancelled")                                                                                 \
    X(KB_EFULL, -14, "the memory quota is used up")                                                                    \
    X(KB_ERANGE, -15, "a number is beyond what the model can compute with")

enum kb_err {
    KB_OK = 0,
#define KB_ERR_ENUM(name, value, text) name = value,
    KB_ERR_MAP(KB_ERR_ENUM)
#undef KB_ERR_ENUM
};

/* Where and why: `pointer` is a JSON pointer into the caller's body ("/representation/lambda", "" for the
 * whole), `text` says what was expected. Both are NUL-terminated and cut when too long. */
struct kb_errmsg {
    char pointer[128];
    char text[256];
};

/* The fixed text of a code ("unknown error" for others). Never NULL. */
const char *kb_strerror(int rc);

/* Fills *msg (ignored when NULL) and returns rc, so that a check reads `return kb_fail(...)`. */
enum kb_err kb_fail(enum kb_err rc, struct kb_errmsg *msg, const char *pointer, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts item `index` of the list `prefix` before the pointer of a failure: "/features" becomes "/arms/3/features".
 * Returns rc; KB_OK and NULL are left alone. */
enum kb_err kb_fail_within(enum kb_err rc, struct kb_errmsg *msg, const char *prefix, size_t index);

/* kb_fail for an item of an array: the pointer is prefix "/" index suffix ("/arms", 3, "/id" -> "/arms/3/id"). */
#define kb_fail_item(rc, msg, prefix, index, suffix, ...)                                                              \
    kb_fail_within(kb_fail(rc, msg, suffix, __VA_ARGS__), msg, prefix, index)

/* Runs expr, stores its code in the local `rc`, and leaves by the local label `out` on failure. */
#define KB_TRY(expr)                                                                                                   \
    do {                                                                                                               \
        if ((rc = (expr)) != KB_OK)                                                                                    \
            goto out;                                                                                                  \
    } while (0)

#endif
