/* Who has not read a rewriting of a shared log yet: what an erasure and a compaction wait for, and tell. */
#ifndef LD_SHARED_AWAIT_H
#define LD_SHARED_AWAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

struct ld_tenant;

struct ld_laggards {
    struct ld_text names; /* of servers, as items of a JSON array; zeros: nobody was asked yet */
    bool is_any;
};

/* Those that live and have not said that they have it; where nobody can be asked, this server. */
void ld_laggards_look(struct ld_laggards *l, const struct ld_tenant *t, uint64_t generation);
/* Until there are none, as long as a change may wait for the log. In a job's thread. */
void ld_laggards_wait(struct ld_laggards *l, const struct ld_tenant *t, uint64_t generation);
/* "waiting_for", where there are some, behind the members of an object. */
void ld_laggards_tell(const struct ld_laggards *l, struct ld_text *out);
void ld_laggards_close(struct ld_laggards *l);

#endif
