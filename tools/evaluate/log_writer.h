/* Logged decisions as lines of text: what the readers read, written. */
#ifndef LC_LOG_WRITER_H
#define LC_LOG_WRITER_H

#include "evaluate/log_reader.h"

/* Each appends one line with its newline; the first two a line for each slot that has a reward. Vectors have the
 * dimensions of the log's options; what is not known is left out. Times are UTC, in milliseconds. */

/* Bodies of POST /observe: user, context, arm with its features, reward, propensity. Returns how many. */
size_t lc_log_put_observation(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev);
/* The same with the decision's id, its time and its candidates: --format ndjson reads it back whole. */
void lc_log_put_ndjson(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev);
/* Vowpal Wabbit's: vectors are namespaces `x`, the user the feature user^id, and a mark that VW does not look at tells
 * --format dsjson to read them back as they were. A decision with slots is one line (log_dsjson_slots.c). */
void lc_log_put_dsjson(struct lc_text *t, const struct lc_log *log, const struct ld_logged *ev);

#endif
