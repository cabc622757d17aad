/* Admin keys that stand in a file. */
#ifndef LD_AUTH_H
#define LD_AUTH_H

#include <stdbool.h>

#include "base/message.h"

struct ld_auth;

struct ld_key_file; /* keys that were read and are not in force */

/* Reads the key file: one key a line, visible ASCII, up to 256 bytes; blank lines and lines starting with # are
 * passed over. path "" means that there is no file (*out is NULL), and that nobody has such a key; else it is
 * the caller's, to be put in force or to be freed. 0, or -1 with why (>= 1024 bytes). */
int ld_auth_read(const char *path, struct ld_key_file **out, struct ld_message *why);

/* The keys of the file at path; failures like those of ld_auth_read. */
int ld_auth_open(struct ld_auth **out, const char *path, struct ld_message *why);
void ld_auth_close(struct ld_auth *a);

/* Puts keys in force in place of those before; takes them over. Cannot fail. */
void ld_auth_put(struct ld_auth *a, struct ld_key_file *keys);

/* Whether there is a key file, which then holds a key: somebody can always get in. */
bool ld_auth_has_file(const struct ld_auth *a);
/* Whether there ever was one since ld_auth_open: a file that is taken away opens the server to nobody. */
bool ld_auth_has_had_file(const struct ld_auth *a);

/* Whether the value of an Authorization header (may be NULL) shows a key of the file. Thread safe. The time it takes
 * does not depend on how much of a key was guessed. */
bool ld_auth_allows(struct ld_auth *a, const char *authorization);

#endif
