/* The data folder: where the files of tenants lie, and the lock that keeps a second server out.
 *
 *     DATA/lock                    held (flock) by the one server that uses the folder
 *     DATA/registry.db             names of tenants
 *     DATA/spool/                  files on their way in or out (spool.h)
 *     DATA/tenants/NAME.db         a tenant's log; NAME.snapshot is a cache of its model
 *     DATA/tenants/NAME.readonly   the tenant is served up to a line that no fold takes (repair.h)
 *     DATA/tenants/NAME.lost-A-B   lines that a rewind of the tenant's copy has kept (repair_shared.h)
 *     DATA/tenants/NAME.db.deleted the tenant's removal has begun; the next start finishes it
 *
 * Where there are lost lines of these numbers already, -2, -3, ... stands behind B. */
#ifndef LD_FOLDER_H
#define LD_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/message.h"
#include "base/names.h"

#define LD_READ_ONLY_SUFFIX ".readonly"
#define LD_FOLDER_LOST ".lost-"

/* Makes the folder where it is missing and locks it: *fd keeps the lock until it is closed. 0 or -1 with why. */
int ld_folder_open(const char *data_dir, int *fd, struct ld_message *why);
/* For reading: keeps servers out, not other readers, and makes nothing. */
int ld_folder_open_readonly(const char *data_dir, int *fd, struct ld_message *why);

/* Takes from everybody but the owner what they may do with a file or folder; what is not there, or is neither, stays.
 */
void ld_folder_keep_private(const char *path);

/* DATA/tenants/NAME + suffix into path (LD_PATH_MAX); -1 when it does not fit. */
int ld_folder_path(const char *data_dir, const char *name, const char *suffix, char *path);

/* Whether the folder's disk takes a commit of ordinary size. */
bool ld_folder_has_room(const char *data_dir);

/* Moves a tenant's closed file (and its snapshot, when there is one) from where it was made into place, where nothing
 * of the name may be (ld_folder_has); durable when it returns. 0 or -1 (errno), and then nothing is there. */
int ld_folder_place(const char *data_dir, const char *name, const char *file, const char *snapshot);
/* The same in the place of files that nobody has open, at once: 0, or -1 (errno) and the old log is there. 1: the new
 * one is there, and a power cut may bring the old one back, or it is read-only still. */
int ld_folder_replace(const char *data_dir, const char *name, const char *file, const char *snapshot);

/* Whether a log or the marker of an unfinished removal is there. */
bool ld_folder_has(const char *data_dir, const char *name);

/* Makes the removal of a tenant certain, come what may. 0 or -1. */
int ld_folder_mark_deleted(const char *data_dir, const char *name);

/* Removes a tenant's files, the marker last; where there is a marker, lines that a rewind has kept as well. What cannot
 * be removed is logged. */
void ld_folder_remove(const char *data_dir, const char *name);

/* Of a tenant whose log somebody else has laid here: what says more than the log. 0, and it does not come back, or -1.
 */
int ld_folder_forget_snapshot(const char *data_dir, const char *name);

/* The tenant is read-only no longer, if it was. As above. */
int ld_folder_forget_read_only(const char *data_dir, const char *name);

/* The files of a copy that is to be made anew: all but that it is read-only, and what a rewind has kept. */
void ld_folder_remove_copy(const char *data_dir, const char *name);

/* A tenant that is read-only (NAME.readonly): the line that is refused and what the fold said of it ; 0: it
 * is not. LD_STORE_* when that cannot be read. */
int ld_quarantine(const char *data_dir, const char *name, uint64_t *seq, struct ld_message *why);

/* fn with each valid tenant name that has a file NAME + suffix, until it returns non-zero, which is returned. -1 when
 * the folder cannot be read. */
int ld_folder_scan(const char *data_dir, const char *suffix, int (*fn)(void *arg, const char *name), void *arg);

/* Whether DATA/tenants has the log, or the marker of a removal, of any tenant but `name`. */
bool ld_folder_has_others(const char *data_dir, const char *name);

#endif
