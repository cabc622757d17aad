/* The comparison of a model with its log (verify.c), as others see it. */
#ifndef LD_TASK_VERIFICATION_H
#define LD_TASK_VERIFICATION_H

#include <stdbool.h>
#include <stdint.h>

struct ld_tenant;

/* From any thread. */
struct ld_verification_live {
    bool is_running; /* false: there is none, or it is cancelled, or all is folded and the answer on its way */
    uint64_t n_lines;
    double progress; /* 0 to 1 */
};
void ld_verification_look(struct ld_tenant *t, struct ld_verification_live *out);
/* Whoever waits for it is told so, soon. False: none is running. */
bool ld_verification_cancel(struct ld_tenant *t);

#endif
