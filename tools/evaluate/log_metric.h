/* The metric that an evaluation of our own log judges in place of the rewards (own_log.h): a name, whose range, default
 * and aggregation the log's last configuration says, or settings as of a member of a configuration's `metrics`. */
#ifndef LC_LOG_METRIC_H
#define LC_LOG_METRIC_H

#include "evaluate/log_reader.h"
#include "types/settings.h"

struct lc_metric {
    struct ld_metric_settings is;
    bool is_told;   /* range and default by the caller, whatever those of the log's configurations are */
    bool is_reward; /* the single objective: its values are the rewards themselves */
};

/* `what`: a name, or an object of JSON. 0, or -1 with why. */
int lc_metric_read(struct lc_metric *m, const char *what, struct ld_message *why);
/* What the log says of it, in a pass of its own; standard input, once copied, goes into o->input. 0, or -1 with why:
 * the log has no such metric. */
int lc_metric_find(struct lc_metric *m, struct lc_log_options *o, struct ld_message *why);
/* Whether decisions under this configuration count: told settings need the same aggregation alone. */
bool lc_metric_counts(const struct lc_metric *m, const struct ld_settings *s);

#endif
