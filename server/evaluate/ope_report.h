/* What is told of evaluations: what plots are made of, and the JSON. One report is of one log and of one or more
 * policies, of which the first is what the others are compared with. */
#ifndef LC_OPE_REPORT_H
#define LC_OPE_REPORT_H

#include "base/text.h"
#include "evaluate/ope.h"

/* Estimators whose course over the log is told, and the logging policy's reward. */
enum lc_report_course { LC_COURSE_LOGGED, LC_COURSE_IPS, LC_COURSE_SNIPS, LC_COURSE_DR, LC_COURSE_N };

struct lc_report_entry {
    const char *name;               /* of the policy, borrowed */
    const struct lc_policy *policy; /* borrowed, and so is the log */
    const struct ld_decisions *log;
    struct lc_ope_result result;
    /* by lc_report_prepare: */
    bool has_course[LC_COURSE_N];
    struct lc_trace_point course[LC_COURSE_N][LC_TRACE_PARTS];
    bool has_gain[LC_OPE_N], has_difference[LC_OPE_N]; /* over what the log earned; over the first entry */
    struct lc_ope_difference gain[LC_OPE_N], difference[LC_OPE_N];
};

struct lc_report_parameter {
    const char *name, *text; /* text NULL: the number, NaN being "not given" */
    double number;
};

/* A file that the report was made from. */
struct lc_report_file {
    const char *role, *name; /* what it was read as: "log", "policy", ... */
    unsigned long long bytes;
    char sha256[65];
};

struct lc_report {
    struct lc_report_entry *entry;
    size_t n;
    const struct lc_ope_options *o;
    struct lc_report_file file[40]; /* the first is the log; a tenant's own log is none */
    size_t n_files;
    struct lc_report_parameter parameter[24];
    size_t n_parameters;
};

const char *lc_report_course_name(int course); /* "logged", "ips", "snips", "dr" */

/* Courses and differences of evaluations that succeeded: some bootstraps each. 0, or -1: no memory, or it was told to
 * end. */
int lc_report_prepare(struct lc_report *r);

/* Arms by the sum of both shares, the largest first: writes at most `cap` numbers and returns how many. */
size_t lc_report_arms(const struct lc_report_entry *e, uint32_t *out, size_t cap);
#define LC_REPORT_ARMS 50u /* that are told one by one */

void lc_report_json(const struct lc_report *r, struct ld_text *t); /* one object, without a newline */

#endif
