/* Copies of a tenant while it serves: its file, or its log as lines. Both are of one moment, the one of which `seq` and
 * `digest` tell, whatever is committed meanwhile. */
#ifndef LD_COPY_H
#define LD_COPY_H

#include "tenant/tenant.h"

enum ld_copy_kind { LD_COPY_FILE, LD_COPY_LOG };

struct ld_copy {
    int fd; /* of the copy, for reading; it has no name any more. The caller's to close */
    uint64_t bytes, seq;
    bool has_digest; /* not when the log was ahead of the model all the time that we looked */
    uint64_t digest; /* of the model that a fold of the copy gives */
};

/* Makes the copy at path, which is new, in the calling thread: as long as the disk takes to write it. is_over(arg) ends
 * it early. 0, or -1 with the problem filled and nothing left at path. */
int ld_copy_make(struct ld_copy *out, struct ld_tenant *t, enum ld_copy_kind kind, const char *path,
                 bool (*is_over)(void *arg), void *arg, struct ld_problem *p);

#endif
