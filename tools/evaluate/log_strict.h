/* Lines of our own log as the server reads them, by its decoder of events: for what the looser reader (log_own.h)
 * leaves to it. */
#ifndef LC_LOG_STRICT_H
#define LC_LOG_STRICT_H

#include "evaluate/log_reader.h"
#include "tenant/fold.h"

/* The line in hand, of n bytes and without vectors, to `take`. 0, or -1 with log->base.why, which names `field`. */
int lc_log_strictly(struct lc_log *log, size_t n, const char *field,
                    enum kb_err (*take)(void *to, struct ld_line *line, struct kb_errmsg *msg), void *to);

/* The settings that the line brings to `take`, where it brings any. */
int lc_log_settings(struct lc_log *log, size_t n, void (*take)(void *arg, const struct ld_settings *s), void *arg);

#endif
