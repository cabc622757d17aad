/* How work on the files of this room ends. */
#ifndef LD_STORE_STATUS_H
#define LD_STORE_STATUS_H

enum ld_store_status {
    LD_STORE_OK = 0,
    LD_STORE_IO = -1,      /* the disk refused: full, read-only, I/O error; may heal */
    LD_STORE_FOREIGN = -2, /* not a file of ours */
    LD_STORE_NEWER = -3,   /* schema newer than this program */
    LD_STORE_CORRUPT = -4, /* damaged */
    LD_STORE_NOMEM = -5,
    LD_STORE_STOPPED = -7, /* the server ends */
    LD_STORE_EMPTY = -6,   /* a whole file of ours without an event, where some were expected */
    LD_STORE_TAKEN = -8,   /* a tenant that was to be made has been made by another server of the shared log */
    LD_STORE_GONE = -9     /* the shared log has no such tenant, or no longer */
};

#endif
