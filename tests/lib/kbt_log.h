/* Help for engine tests: a log in memory with a live writer beside it, and folds of that log. */
#ifndef KBT_LOG_H
#define KBT_LOG_H

#include "model/commit.h"

struct kbt_log {
    struct kb_engine *live;
    struct kb_commit commit;
    struct kb_event *event; /* deep copies, in order */
    size_t n, cap;
    int64_t now_ms;
    struct kb_build *lent; /* to a worker that takes kbt_delay events */
    size_t lent_at, n_builds;
};

/* Logs that are opened while it is not 0 do every change of the model in the background: a build is lent, and is run
 * and returned when so many events have come since. */
extern size_t kbt_delay;
/* Runs what is open to its end, without an event from outside. */
void kbt_log_finish_builds(struct kbt_log *log);

void kbt_log_open(struct kbt_log *log);
/* close is for the last log of a test: the copies of all events go with it. The others are dropped. */
void kbt_log_close(struct kbt_log *log);
void kbt_log_drop(struct kbt_log *log);

/* Live path for one event: what is due, reserve, follow-up, grow, prepare, apply; seq and at_ms are filled here.
 * Every event that came of it is kept. The code of reserve when it fails (nothing has changed then). */
enum kb_err kbt_log_live(struct kbt_log *log, struct kb_event ev, struct kb_errmsg *msg);

/* Several events as one batch, as the commit cycle takes them: a batch ends where reserve says KB_EBUSY or after a
 * dictionary event. All must be accepted. */
void kbt_log_batch(struct kbt_log *log, struct kb_event *events, size_t n);

/* A new engine that has folded events first..n-1 of the log into `from` (NULL: a new one). Quietly: up to the last
 * reset. The test fails when the fold does. */
struct kb_engine *kbt_log_fold(const struct kbt_log *log, struct kb_engine *from, size_t first, bool is_quiet);

/* Round trip through the snapshot codec. */
struct kb_engine *kbt_log_reload(const struct kb_engine *e);

/* Events with the fields most tests want. Strings are borrowed until the call that uses the event returns. */
struct kb_event kbt_configured(const struct kb_spec *spec, uint64_t version);
struct kb_event kbt_rewarded(const char *decision, double reward);

#endif
