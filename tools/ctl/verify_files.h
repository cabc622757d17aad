/* Whether the snapshots in a data folder are what the logs beside them say. */
#ifndef LC_VERIFY_FILES_H
#define LC_VERIFY_FILES_H

#include "common/args.h"

/* Prints a line a tenant (name NULL: all of them, in order). The exit status: 0 when all are equal. Writes nothing. */
int lc_verify_files(const struct lc_session *s, const char *data_dir, const char *name);

#endif
