/* Keys made by the API: the table that requests are checked against, and its changes, each durable before it counts.
 * Thread safe. Times are milliseconds since 1970. */
#ifndef LD_KEYS_H
#define LD_KEYS_H

#include "base/message.h"
#include "store/key_rows.h"
#include "base/problem.h"
#include "types/roles.h"

#define LD_MAX_KEYS 100 /* of one tenant, and of the server itself */

struct ld_keys;
struct ld_auth;

/* Reads all keys. The registry file is borrowed and must outlive the table. log, unless NULL: several servers have
 * their keys there, and the file has those that this one has read; is_new: it has never read any. 0, or -1 with why. */
struct ld_shared_log;
int ld_keys_open(struct ld_keys **out, struct ld_registry_file *file, struct ld_shared_log *log, bool is_new,
                 struct ld_message *why);
void ld_keys_close(struct ld_keys *k); /* writes down when keys were last used */

/* Whether there is a key, expired ones included, or was one since ld_keys_open; or, where nobody has told yet, may be.
 */
bool ld_keys_exist(struct ld_keys *k);
bool ld_keys_are_guessed(struct ld_keys *k); /* nobody has told yet */

/* Where the log is shared: puts in force what it has, unless that was read as of this revision. has_tenant: whether the
 * tenant of that name is here and has that number in the log. Keys of others do not count yet. False: it is to be
 * called again soon. */
bool ld_keys_follow(struct ld_keys *k, uint64_t revision, bool (*has_tenant)(void *arg, const char *name, uint64_t id),
                    void *arg);

/* Whose key the value of an Authorization header (may be NULL) shows, of the file or made by the API; *caller then says
 * what it is good for. Where no key is asked for, everybody is an admin. NOT_TOLD: nobody, but the shared log has not
 * told yet whether there are keys. */
enum ld_who { LD_WHO_KNOWN, LD_WHO_NOBODY, LD_WHO_NOT_TOLD };
enum ld_who ld_keys_who(struct ld_keys *k, struct ld_auth *file, const char *authorization, int64_t now_ms,
                        struct ld_caller *caller);
/* Whether requests must show a key: as soon as there is one, and for as long as the process lives. */
bool ld_keys_are_asked(struct ld_keys *k, struct ld_auth *file);

/* Whether the text is a key in force; *caller then says whose. */
bool ld_keys_allow(struct ld_keys *k, const char *text, int64_t now_ms, struct ld_caller *caller);

/* Makes a key of wish's tenant, roles, label and expiry. *made has all of it, text what is shown this once. has_other:
 * an admin can get in without the keys of this table. 0, or -1 with *p: 404 no such tenant; 409 too many, or the first
 * key and no lasting admin's; 503. */
int ld_keys_create(struct ld_keys *k, const struct ld_key *wish, bool has_other, int64_t now_ms, struct ld_key *made,
                   char text[LD_KEY_TEXT_BYTES], struct ld_problem *p);

/* Revokes the key of that id and tenant ("": the server's own); from its return on nobody gets in by it. 0, or -1 with
 * *p: 404; 409 the last admin's key that does not expire; 503. */
int ld_keys_revoke(struct ld_keys *k, const char *tenant, const char *id, bool has_other, struct ld_problem *p);

/* The tenant's row is gone, and with it those of its keys: they stop to count. Cannot fail. */
void ld_keys_forget_tenant(struct ld_keys *k, const char *tenant);

/* The keys of that tenant ("": the server's own), oldest first; *out is malloc'd. 0, or -1 without memory. */
int ld_keys_list(struct ld_keys *k, const char *tenant, struct ld_key **out, size_t *n);

/* Writes down when keys were last used, for those whose use is not yet in the file. Due once a minute, when there are
 * any. LD_STORE_*; what failed stays due. */
bool ld_keys_flush_is_due(struct ld_keys *k, int64_t now_ms);
int ld_keys_flush(struct ld_keys *k);

#endif
