/* An evaluation as it was asked for: one log, and the policies that are judged on it. */
#ifndef LC_EVALUATION_H
#define LC_EVALUATION_H

#include "common/args.h"
#include "evaluate/log_metric.h"
#include "evaluate/log_reader.h"
#include "evaluate/ope_report.h"

#define LC_MAX_POLICIES 8u

/* A policy as it was asked for. */
struct lc_target {
    const char *what; /* of --policy, or with is_log of --policy-log */
    bool is_log, is_learning;
    struct kb_spec spec; /* of one that learns */
    struct ld_name_map names;
};

struct lc_evaluation {
    struct lc_log_options log;
    struct ld_ope_options ope;
    const char *graph;       /* edge list of the users; NULL: none */
    const char *metric;      /* as it was asked for; NULL: none */
    struct lc_metric judged; /* read from that */
    const char *format, *model, *estimators, *range, *html, *propensity;
    struct lc_list policies, policy_logs;
    double level_percent;
    struct lc_target target[LC_MAX_POLICIES];
    size_t n;
    struct kb_spec model_spec;
    struct ld_name_map model_names;
};

/* The log's options for one policy: its vectors have the dimensions of the policy's configuration and of its reward
 * model. 0, or -1 with `why`. */
int lc_evaluation_dimensions(const struct lc_evaluation *q, const struct lc_target *g, struct lc_log_options *log,
                             struct ld_message *why);

/* Judges all policies and tells it: to standard output, and as a page if one is wanted. 0, or -1 with `why`. */
int lc_evaluation_run(struct lc_evaluation *q, bool is_json, struct ld_message *why);

#endif
