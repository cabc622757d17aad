/* One challenger on its way through a tenant's log: its model, how far it has come, and what it would have earned.
 * Inside of challenger.c, which says who may touch it when. */
#ifndef LD_FOLLOWER_H
#define LD_FOLLOWER_H

#include "base/message.h"
#include "task/challenger_history.h"
#include "evaluate/shadow.h"

struct ld_follower {
    struct ld_challenger_settings settings;
    struct ld_shadow *shadow;
    struct ld_scores scores;
    uint32_t context_dim, arm_dim; /* of the log's vectors, where it stands */
    uint64_t cursor;
    bool is_in_summary; /* and its end has not come */
    struct ld_message why;
    struct ld_kept_history kept; /* how its scores went: it stays when it begins anew */
};

/* Everything but the settings and the history: it stands before the log's first line. */
void ld_follower_drop(struct ld_follower *f);
void ld_follower_free(struct ld_follower *f);

/* Whether lines between this one and what f has read are gone, or a summary stands in their place. */
bool ld_follower_has_lost(const struct ld_follower *f, const struct kb_event *ev);

/* The next line: a decision of the policy in force is scored by what was read before it, then all is learned. As
 * ld_shadow_feed; on failure it stands where it stood. */
enum kb_err ld_follower_feed(struct ld_follower *f, const struct kb_event *ev, struct kb_errmsg *msg);

bool ld_follower_has_begun(const struct ld_follower *f);
size_t ld_follower_bytes(const struct ld_follower *f);
/* Without a digest. What its members point to is not copied. */
void ld_follower_view(const struct ld_follower *f, struct ld_challenger_view *out);

#endif
