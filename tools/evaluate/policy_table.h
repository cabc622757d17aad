/* Policies that are tables: a distribution over arms by stratum. */
#ifndef LC_POLICY_TABLE_H
#define LC_POLICY_TABLE_H

#include "evaluate/log_reader.h"
#include "evaluate/ope_policy.h"

/* File: CSV with the columns position (may be left out), item_id and probability; each
 * position's add up to 1 within 0.001 and are scaled to it. Log: the frequencies of arms in another log of the format.
 * NULL with why. */
struct ld_ope_policy *lc_policy_from_file(const char *path, struct ld_message *why);
struct ld_ope_policy *lc_policy_from_log(const struct lc_log_reader_ops *format, const struct lc_log_options *o,
                                         struct ld_message *why);

#endif
