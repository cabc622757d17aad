/* Files on their way: bodies that are too long for memory, copies that are being sent. They lie in DATA/spool, on the
 * file system of the tenants' files, so that one of them becomes a tenant's by a rename. Whatever is there at start was
 * cut off, and goes. */
#ifndef LD_SPOOL_H
#define LD_SPOOL_H

#include <stdbool.h>

#include "base/message.h"
#include "base/names.h"

struct ld_spool;

/* Makes the folder, or empties it. Under the data folder's lock. 0, or -1 with why. */
int ld_spool_open(struct ld_spool **out, const char *data_dir, struct ld_message *why);
void ld_spool_close(struct ld_spool *s); /* NULL is fine */

/* The folder, for files that never get a name. */
const char *ld_spool_dir(const struct ld_spool *s);

/* A path that no other file of the spool has had since its opening; there is no file yet. From any thread. */
void ld_spool_path(struct ld_spool *s, char path[LD_PATH_MAX]);

/* Removes the file, and what SQLite and we put beside it. What is not there is fine. */
void ld_spool_remove(const char *path);

/* One copy of a tenant at a time bounds the room that copies take: true when nobody else has the name. */
bool ld_spool_claim(struct ld_spool *s, const char *name);
void ld_spool_let_go(struct ld_spool *s, const char *name);

#endif
