/* Problem documents (RFC 9457): what went wrong with a request, field by field. The only map from codes of the
 * core to HTTP statuses lives in problem.c. */
#ifndef LD_PROBLEM_H
#define LD_PROBLEM_H

#include <stddef.h>

#include "base/err.h"

#define LD_PROBLEM_MAX_ERRORS 32

struct ld_problem_error {
    char pointer[160]; /* JSON pointer into the body; "" = the whole */
    char detail[384];
};

/* What `type` names where a status has more than one cause: see the table in problem.c, and docs/ERRORS.md. */
enum ld_problem_type {
    LD_PROBLEM_OF_STATUS, /* the status has one type alone */
    LD_NO_TENANT,
    LD_NO_DECISION,
    LD_NO_ARM,
    LD_NO_USER,
    LD_NO_KEY,
    LD_NO_EVALUATION,
    LD_NO_VERIFICATION,
    LD_NO_METRIC,
    LD_NO_ROUTE,
    LD_TENANT_NOT_NAMED,
    LD_OPENING_FAILED,
    LD_N_PROBLEM_TYPES
};

struct ld_problem {
    int status; /* 0: no problem */
    enum ld_problem_type type;
    char detail[512];
    int retry_after_s; /* > 0: sent as Retry-After */
    const char *limit; /* static, NULL: none; the name of the limit that was passed, and its value */
    double max;
    size_t n_errors; /* faults found; those beyond LD_PROBLEM_MAX_ERRORS are counted in n_more */
    size_t n_more;
    struct ld_problem_error errors[LD_PROBLEM_MAX_ERRORS];
};

void ld_problem_init(struct ld_problem *p);

/* Sets status and detail (the first call wins; later ones change nothing). */
void ld_problem_set(struct ld_problem *p, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The same for a type that is not its status's only one; the status is the type's. */
void ld_problem_set_as(struct ld_problem *p, enum ld_problem_type type, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* 404: no tenant of that name, or none that the caller may know of. */
void ld_problem_no_tenant(struct ld_problem *p, const char *name);

/* Adds a fault in the body; sets status 400 and a general detail when none is set yet. */
void ld_problem_add(struct ld_problem *p, const char *pointer, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Names the limit that the request has passed; the first one stays. name is static; docs/OPERATIONS.md lists all. */
void ld_problem_limit(struct ld_problem *p, const char *name, double max);

/* From a core error: status by code, pointer and text from msg (may be NULL). */
void ld_problem_from_core(struct ld_problem *p, int rc, const struct kb_errmsg *msg);

/* HTTP status of a core code; every code of KB_ERR_MAP has one (tested). */
int ld_problem_status(int rc);

/* Reason phrase of a status, for `title`. */
const char *ld_status_title(int status);

/* "/problems/SLUG", static; "about:blank" for a status that is none of a problem's. */
const char *ld_problem_type(int status, enum ld_problem_type type);

/* The document as JSON text (malloc'd, *n bytes); NULL on no memory. request: the id that `instance` names, NULL:
 * none. */
char *ld_problem_json(const struct ld_problem *p, const char *request, size_t *n);

#endif
