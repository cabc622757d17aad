/* Lines of a file beside those of a shared log, and on their way into it, in a turn that is had: a tenant that comes
 * whole (registry_import.c), and lines that the log has lost (repair_shared.c).
 *
 * Whoever follows a batch reserves its lines against the state before it, and a log does not tell where its commits
 * ended. So each line is a batch: whatever it looks up stands before it, as in a fold. Cost: a round trip and a row for
 * each.
 *
 * A summary's lines are no events that are folded one by one, so many of them are a batch. */
#ifndef LD_SHARED_SEND_H
#define LD_SHARED_SEND_H

#include "base/text.h"
#include "shared/shared_log.h"
#include "store/store.h"

/* For ld_store_read: the row's line as it stands in a log, behind what a struct ld_text has. */
int ld_shared_export_row(void *text, const struct ld_row *row);
/* *line: the first of the batch's lines that the file has otherwise, or has not; 0: none. LD_STORE_*. */
int ld_shared_first_other(struct ld_store *store, const struct ld_shared_batch *b, uint64_t *line);

/* The last line is kept back: what ends the turn takes it. */
struct ld_shared_sender {
    struct ld_shared_log *log;
    const char *node;
    struct ld_shared_turn *turn;
    uint64_t id;               /* of the tenant */
    struct ld_shared_place at; /* seq: of the line that is kept; hash: of those before */
    struct ld_text body;
    uint32_t n; /* 1: a line is kept */
    int64_t at_ms;
    enum ld_shared_rc rc;
    struct ld_message *why;
    bool (*is_over)(void *arg); /* asked at each line: true ends it; NULL: nothing does */
    void *arg;
};

/* In the turn: whether the log may have all lines that this program knows, since nobody looks through those that come.
 * False with s->rc and *s->why. */
bool ld_shared_may_send(struct ld_shared_sender *s);
/* Unless the server stops: false with s->rc and *s->why. */
bool ld_shared_may_go_on(struct ld_shared_sender *s);
/* For ld_store_read. Not 0: s->rc tells. */
int ld_shared_send_row(void *sender, const struct ld_row *row);
/* The line that is kept, to be the turn's last batch. */
struct ld_shared_batch ld_shared_last_sent(struct ld_shared_sender *s);

/* Lines of a summary as batches. */
struct ld_shared_pack {
    const char *node;
    struct ld_text body;           /* all lines */
    struct ld_shared_batch *batch; /* [n], without bodies before the end */
    size_t n, cap;
};
/* For ld_store_read. LD_STORE_NOMEM. */
int ld_shared_pack_row(void *pack, const struct ld_row *row);
void ld_shared_pack_end(struct ld_shared_pack *pack); /* no more lines */
void ld_shared_pack_close(struct ld_shared_pack *pack);

uint64_t ld_shared_draw_nonce(void);

#endif
