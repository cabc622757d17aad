/* Snapshot files: a checksummed, versioned copy of the engine's state, a cache of the log. Format in
 * schema/snapshot.md. Written to a temporary name, fsynced, renamed, directory fsynced. */
#ifndef LD_SNAPSHOT_H
#define LD_SNAPSHOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/message.h"

/* 0 or -1 with a sentence in why. */
int ld_snapshot_write(const char *path, uint64_t seq, const void *body, size_t n, struct ld_message *why);

/* Reads and verifies. 0 (body malloc'd), 1 when there is none, -1 damaged or foreign or another version (why says). */
int ld_snapshot_read(const char *path, uint64_t *seq, void **body, size_t *n, struct ld_message *why);

#endif
