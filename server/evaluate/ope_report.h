/* What is told of evaluations: what plots are made of, and the JSON. One report is of one log and of one or more
 * policies, of which the first is what the others are compared with. */
#ifndef LD_OPE_REPORT_H
#define LD_OPE_REPORT_H

#include "base/text.h"
#include "evaluate/ope.h"

/* Estimators whose course over the log is told, and the logging policy's reward. */
enum ld_ope_report_course {
    LD_OPE_COURSE_LOGGED,
    LD_OPE_COURSE_IPS,
    LD_OPE_COURSE_SNIPS,
    LD_OPE_COURSE_DR,
    LD_OPE_COURSE_N
};

struct ld_ope_report_entry {
    const char *name;                   /* of the policy, borrowed */
    const struct ld_ope_policy *policy; /* borrowed, and so is the log */
    const struct ld_decisions *log;
    struct ld_ope_result result;
    /* by ld_ope_report_prepare: */
    bool has_course[LD_OPE_COURSE_N];
    struct ld_ope_trace_point course[LD_OPE_COURSE_N][LD_OPE_TRACE_PARTS];
    bool has_gain[LD_OPE_N], has_difference[LD_OPE_N]; /* over what the log earned; over the first entry */
    struct ld_ope_difference gain[LD_OPE_N], difference[LD_OPE_N];
};

struct ld_ope_report_parameter {
    const char *name, *text; /* text NULL: the number, NaN being "not given" */
    double number;
};

/* A file that the report was made from. */
struct ld_ope_report_file {
    const char *role, *name; /* what it was read as: "log", "policy", ... */
    unsigned long long bytes;
    char sha256[65];
};

struct ld_ope_report {
    struct ld_ope_report_entry *entry;
    size_t n;
    const struct ld_ope_options *o;
    struct ld_ope_report_file file[40]; /* the first is the log; a tenant's own log is none */
    size_t n_files;
    struct ld_ope_report_parameter parameter[24];
    size_t n_parameters;
};

const char *ld_ope_report_course_name(int course); /* "logged", "ips", "snips", "dr" */

/* What was asked for, as it was asked; NULL: it was left out. */
struct ld_ope_origin {
    const char *format, *estimators, *range, *propensity, *map, *metric;
    double level_percent;
    struct ld_decisions_options read;
};
/* The parameters. A report of no policies has none. */
void ld_ope_report_describe(struct ld_ope_report *r, const struct ld_ope_origin *from);

/* Courses and differences of evaluations that succeeded: some bootstraps each. 0, or -1: no memory, or it was told to
 * end. */
int ld_ope_report_prepare(struct ld_ope_report *r);

/* Arms by the sum of both shares, the largest first: writes at most `cap` numbers and returns how many. */
size_t ld_ope_report_arms(const struct ld_ope_report_entry *e, uint32_t *out, size_t cap);
#define LD_OPE_REPORT_ARMS 50u /* that are told one by one */

void ld_ope_report_json(const struct ld_ope_report *r, struct ld_text *t); /* one object, without a newline */

#endif
