/* Commits that write the write-ahead log at once: SQLite writes two pieces for each page, this one for a commit. */
#ifndef LD_STORE_WAL_H
#define LD_STORE_WAL_H

#include <stddef.h>

struct sqlite3;

/* The name of an SQLite VFS for connections that write with synchronous=FULL, and for no others: it holds back what is
 * written to the log until it is synced, read or anything else is asked of the file. NULL: there is no memory for it,
 * and the default does as well. From any thread. */
const char *ld_wal_vfs(void);

/* Bytes of memory for what the connection holds back. In its thread. */
size_t ld_wal_bytes(struct sqlite3 *db);

#endif
