/* JSON values as the client reads them: a thin, read-mostly face of jansson (owner: json.c). Texts are written
 * by text.h; what is read borrows from the root and lives as long as it. */
#ifndef LC_JSON_H
#define LC_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text.h"

struct json_t; /* a JSON value: jansson's own, of which nobody but json.c needs to know more */

/* Parses one value; duplicate keys and trailing text are refused. NULL with `why` = "line 3: ...". */
struct json_t *lc_json_parse(const char *text, size_t n, char *why);
/* The same for files of others: of a key that stands twice the last value counts. */
struct json_t *lc_json_parse_loosely(const char *text, size_t n, char *why);
struct json_t *lc_json_object(void);
void lc_json_free(struct json_t *root);

/* Every reader takes NULL for "absent" and then answers absent, so that paths can be chained. */
const struct json_t *lc_json_get(const struct json_t *v, const char *key);
const struct json_t *lc_json_at(const struct json_t *v, size_t i);
size_t lc_json_length(const struct json_t *v); /* items of an array, members of an object; else 0 */
bool lc_json_is_array(const struct json_t *v);
bool lc_json_is_object(const struct json_t *v);
const char *lc_json_string(const struct json_t *v); /* NULL when it is no string */
bool lc_json_number(const struct json_t *v, double *out);
/* Of an id: a string, or a number as its digits, which `digits` then has. NULL: neither. */
const char *lc_json_id(const struct json_t *v, char digits[24]);
bool lc_json_is_true(const struct json_t *v);
const char *lc_json_text(const struct json_t *v, const char *key); /* a member's string, or NULL */
double lc_json_real(const struct json_t *v, const char *key);      /* a member's number, or 0 */

/* Calls fn for each member in the order of the text; stops when fn returns nonzero and returns that. */
int lc_json_each(const struct json_t *v, int (*fn)(void *arg, const char *key, const struct json_t *item), void *arg);

/* One object of a list of objects, behind the members of `of` but for `but` (each may be NULL): objects of one name,
 * and strings of one name, stand in an array; of other values the last counts. NULL: the list is none. To be freed. */
struct json_t *lc_json_merged(const struct json_t *of, const char *but, const struct json_t *list);

/* The members of an object, and v under this key (NULL: nothing). To be freed. */
struct json_t *lc_json_with(const struct json_t *of, const char *key, const struct json_t *v);

/* Appends the value as text: compact, or indented by two. */
void lc_json_write(const struct json_t *v, bool is_pretty, struct lc_text *out);

/* Sets the member at a dotted path ("user_kernel.rho") of an object, making objects on the way. `value` is read as JSON
 * when it is JSON, else as a string. 0, or -1 with `why`. */
int lc_json_set(struct json_t *root, const char *path, const char *value, char *why);

#endif
