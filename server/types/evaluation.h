/* An evaluation as it is asked for (POST /tenants/{t}/evaluations), and as it is shown. */
#ifndef LD_TYPES_EVALUATION_H
#define LD_TYPES_EVALUATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types/settings.h"

#define LD_MOST_EVALUATED 8u
#define LD_N_ESTIMATORS 7u
#define LD_EVALUATION_ID_BYTES 65 /* bytes, with the NUL */
#define LD_EVALUATIONS_KEPT 20u

/* An end of the stretch that is evaluated: an event's number, or a time. */
struct ld_evaluation_span {
    enum { LD_SPAN_OPEN, LD_SPAN_EVENT, LD_SPAN_TIME } kind;
    uint64_t seq;
    int64_t at_ms;
};

struct ld_evaluation_policy {
    enum { LD_POLICY_LOGGED, LD_POLICY_UNIFORM, LD_POLICY_FIRST, LD_POLICY_ARM, LD_POLICY_CONFIGURATION } kind;
    const char *arm;                         /* in the document; ARM */
    const struct ld_settings *settings;      /* likewise; CONFIGURATION */
    char name[LD_EVALUATION_ID_BYTES + 256]; /* what it is called in the result */
};

/* What it points to is in the document that it was decoded from. */
struct ld_evaluation_request {
    char id[LD_EVALUATION_ID_BYTES];
    struct ld_evaluation_policy policy[LD_MOST_EVALUATED];
    size_t n;
    struct ld_evaluation_span from, to;
    const char *metric;              /* that is judged; NULL: the reward */
    const char *note;                /* NULL: none */
    bool is_wanted[LD_N_ESTIMATORS]; /* in the order of enum ld_ope_kind */
};

#endif
