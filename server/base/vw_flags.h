/* A contextual bandit of Vowpal Wabbit's, by its flags: what a tenant does of it, and what means something else here.
 */
#ifndef LD_VW_FLAGS_H
#define LD_VW_FLAGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/message.h"
#include "base/text.h"

#define LD_VW_REMARKS 64u

enum ld_vw_rule { LD_VW_GREEDY, LD_VW_UCB, LD_VW_SQUARECB, LD_VW_THOMPSON, LD_VW_N_RULES };
extern const char *const ld_vw_rules[LD_VW_N_RULES]; /* what a tenant calls them */

struct ld_vw {
    enum ld_vw_rule rule;
    double epsilon, gamma_scale, gamma_exponent;
    bool has_all_pairs; /* products of features of one side, too */
    bool has_task, has_epsilon;
    struct ld_vw_remark {
        const char *flag, *text;
        bool is_idle, is_of_pairs; /* it changes nothing here; products of features */
    } remark[LD_VW_REMARKS];
    size_t n;
};

/* 0, or -1 with why: a flag that VW does not have, or a task that no tenant does. */
int ld_vw_read(const char *flags, struct ld_vw *out, struct ld_message *why);

/* A whole configuration. */
void ld_vw_put_configuration(struct ld_text *t, const struct ld_vw *vw);
/* Its members `rule` and, where it is not the algorithm's, `confidence`; is_patch: of a patch. */
void ld_vw_put_rule(struct ld_text *t, const struct ld_vw *vw, bool is_patch);

/* Whether two decide alike; and flags that say as much, not quoted. */
bool ld_vw_is_same(const struct ld_vw *a, const struct ld_vw *b);
void ld_vw_put_flags(struct ld_text *t, const struct ld_vw *vw);

#endif
