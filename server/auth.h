/* Admin keys: who may use the server at all. */
#ifndef LD_AUTH_H
#define LD_AUTH_H

#include <stdbool.h>

struct ld_auth;

/* Reads the key file: one key a line, visible ASCII, up to 256 bytes; blank lines and lines starting with # are
 * passed over. path "" means no keys: every request is let in (the caller sees to it that only loopback is served).
 * 0, or -1 with why (>= 1024 bytes). */
int ld_auth_open(struct ld_auth **out, const char *path, char *why);
void ld_auth_close(struct ld_auth *a);

/* Reads the file again; on failure (-1, why) the old keys stay in force. */
int ld_auth_reload(struct ld_auth *a, char *why);

/* Whether the value of an Authorization header (may be NULL) shows a key. Thread safe. The time it takes does not
 * depend on how much of a key was guessed. */
bool ld_auth_allows(struct ld_auth *a, const char *authorization);

#endif
