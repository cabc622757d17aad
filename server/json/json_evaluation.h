/* The body of POST /tenants/{t}/evaluations, and an evaluation as it is shown. */
#ifndef LD_JSON_EVALUATION_H
#define LD_JSON_EVALUATION_H

#include "base/problem.h"
#include "base/text.h"
#include "json/json_doc.h"
#include "types/evaluation.h"

/* Configurations have the dimensions of the tenant, or 0; features of arms any where the tenant has none. 0, or -1 with
 * *p. */
int ld_decode_evaluation(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_evaluation_request *out,
                         struct ld_problem *p);

/* The request as it is kept and shown: policies by their names. */
void ld_text_evaluation_request(struct ld_text *t, const struct ld_evaluation_request *r);

/* What is known of an evaluation; texts are JSON where they say so. */
struct ld_evaluation_view {
    const char *id, *state, *by;  /* by NULL: not told */
    int64_t begun_ms, ended_ms;   /* ended_ms 0: not yet, or nobody knows */
    const char *request;          /* JSON */
    double progress;              /* 0 to 1 */
    const char *result, *problem; /* JSON, or NULL */
    bool is_short;                /* without result and problem */
};
void ld_text_evaluation(struct ld_text *t, const struct ld_evaluation_view *v);

#endif
