/* Taking one user out of a log, line by line: what has to change in each, and how. */
#ifndef LD_REDACT_H
#define LD_REDACT_H

#include "base/ids.h"
#include "types/settings.h"
#include "store/store.h"

struct ld_doc;

/* What the user had in the sums of an arm, as far as a summary tells. */
struct ld_gone {
    uint64_t rewarded;
    double reward_sum, square_sum;
};

struct ld_redactor {
    const char *user;        /* borrowed */
    const char *by;          /* borrowed: the id of the key that asked; NULL: not told */
    struct kb_ids decisions; /* of the user, as far as the log was read */
    struct ld_rewrite *item; /* [n] in the order of the log; texts owned */
    size_t n, cap;
    uint64_t n_events; /* of the user's own, gone; of a summary its points and open decisions */
    /* Of the summary that the log may begin with (redact_summary.c): */
    uint32_t number;          /* of the user in it; KB_ID_NONE: not in it */
    uint64_t n_users, n_arms; /* read so far */
    struct ld_gone *gone;     /* [cap_gone] by arm */
    size_t cap_gone;
    double reward_sum, n_learned, square;
};

void ld_redactor_open(struct ld_redactor *r, const char *user);
void ld_redactor_close(struct ld_redactor *r);

/* Looks at the next event of the log, decoded into doc, and changes *ev in place to what the line is to say without
 * the user; remembers the line when it differs. Dimensions and settings as for ld_encode_event. KB_ENOMEM. */
enum kb_err ld_redact(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, uint32_t context_dim,
                      uint32_t arm_dim);

/* The same for a part of a summary, called by ld_redact: ev becomes `redacted` when nothing of it is left. */
enum kb_err ld_redact_summary(struct ld_redactor *r, struct ld_doc *doc, struct kb_event *ev, size_t dim,
                              bool *is_changed);

#endif
