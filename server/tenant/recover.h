/* Recovery: a tenant's model from its file. The log is the truth; the snapshot only saves time, and is believed when
 * it is whole, of this version, not newer than the log, and made from this log: it carries a mark of the lines it ends
 * with.
 *
 * Snapshot body: the mark (u64, ld_log_mark), then the engine's own body. */
#ifndef LD_RECOVER_H
#define LD_RECOVER_H

#include <stdatomic.h>

#include "base/message.h"
#include "types/settings.h"
#include "store/store.h"

#define LD_SNAPSHOT_PREFIX 8u /* bytes before the engine's body */

struct ld_recovered {
    struct kb_engine *engine;    /* owned by the caller; new when the log is empty */
    struct ld_settings settings; /* as the last configured event says */
    uint64_t seq;                /* last event; 0: the log is empty */
    uint64_t snapshot_seq;       /* 0: none was used */
    bool is_snapshot_refused;    /* there is one, and the log was folded all the same */
    bool is_of_other_version;    /* for this alone: another release has written it */
};

/* Of folds that run in any threads, of files and of a shared log: how far they are, and whether they are to end. */
struct ld_progress {
    atomic_bool is_stopping;
    struct ld_progress *above;  /* whose end is this one's as well; NULL: nobody's */
    _Atomic uint64_t n_lines;   /* folded */
    _Atomic uint64_t n_renewed; /* of copies that are read anew, and folded behind that */
    atomic_size_t n_tenants;    /* opened by ld_tenants_open_all */
};

/* For what asks a function whether to go on: false without a progress. */
bool ld_progress_is_over(void *progress);
/* n lines more; nothing without a progress. */
void ld_progress_add(struct ld_progress *progress, uint64_t n);

/* 0 or an LD_STORE_* code with a sentence in why that names the file and the line. `is_verified`: also
 * fold from the first line and compare digests; the fold wins. A refused snapshot is a warning, not a failure. progress
 * may be NULL; when that says stop, the fold fails with LD_STORE_STOPPED. */
int ld_recover(struct ld_recovered *out, struct ld_store *store, const char *db_path, const char *snapshot_path,
               bool is_verified, struct ld_progress *progress, struct ld_message *why);

/* The same of the lines before number seq, without a snapshot: for a tenant that is read-only from there on. */
int ld_recover_before(struct ld_recovered *out, struct ld_store *store, uint64_t seq, const char *db_path,
                      struct ld_progress *progress, struct ld_message *why);

/* A hash of the last lines up to seq. 0 or an LD_STORE_* code. */
int ld_log_mark(struct ld_store *store, uint64_t seq, uint64_t *mark);

#endif
