/* The fold of a tenant's log, line by line; and the fold beside the traffic, for jobs that want the model once more
 * (verify.c) or another one (erase.c):
 *
 *     job      catch_up: folds what is there and builds what the log has begun, until little has come meanwhile
 *     writer   tail: the rest, in its own turn, so that nothing can come in between
 *
 * A fold beside the traffic ends early when its tenant is to be closed. Whoever rewrites the log (ld_tenant.n_rewrites)
 * makes those under way worthless. */
#ifndef LD_FOLD_H
#define LD_FOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types/settings.h"
#include "store/store.h"

struct ld_doc;
struct ld_tenant;
struct ld_redactor;

/* One line through ld_decode_event and kb_engine_fold, the path that live events take. `without`: a user to be left
 * out, or NULL; *settings, unless NULL, are replaced by those that the line brings. 0, or LD_STORE_CORRUPT or
 * LD_STORE_NOMEM with a sentence in why (512 bytes) that names the event. */
int ld_fold_line(struct kb_engine *e, const struct ld_row *row, struct ld_redactor *without,
                 struct ld_settings *settings, char *why);

/* Decodes only, under the dimensions that e has reached. The doc (NULL on failure) holds the event's memory. */
int ld_decode_line(const struct kb_engine *e, const struct ld_row *row, struct ld_doc **doc, struct kb_event *ev,
                   char *why);

/* The settings that an event brings - a configured one, or a summary's beginning - or NULL. The spec is the first
 * member of what it was decoded into (json_in.h). */
const struct ld_settings *ld_line_settings(const struct kb_event *ev);

struct ld_fold {
    struct ld_tenant *t;
    struct kb_engine *engine;
    struct ld_redactor *without; /* borrowed; NULL: every line as it stands */
    uint64_t seq;                /* last event in it */
    uint64_t n_lines;
    int rc;                 /* LD_STORE_* of a failure: LD_STORE_CORRUPT means that the log itself is at fault */
    char why[512];          /* and in words */
    struct kb_build *build; /* being run; under the tenant's queue_lock */
};

/* An empty engine for the tenant's log; events before quiet_until teach only the history
 * (kb_engine_fold_quietly_until). KB_ENOMEM: nothing to close. Open and close are the writer's calls. */
enum kb_err ld_fold_open(struct ld_fold *f, struct ld_tenant *t, struct ld_redactor *without, uint64_t quiet_until);
void ld_fold_close(struct ld_fold *f); /* the engine too, unless it was taken (NULL) */

/* False with why. */
bool ld_fold_catch_up(struct ld_fold *f);
bool ld_fold_tail(struct ld_fold *f);

/* What it builds ends soon; the tenant's queue_lock is held. */
void ld_fold_cancel(struct ld_fold *f);

#endif
