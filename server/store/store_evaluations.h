/* A tenant's file, evaluations (schema/0008_evaluations.sql). What is written is the writer's; anybody reads. */
#ifndef LD_STORE_EVALUATIONS_H
#define LD_STORE_EVALUATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/message.h"

struct ld_store;

struct ld_evaluation_row {
    const char *id, *by;        /* by: the id of the key that asked; NULL: none */
    int64_t begun_ms, ended_ms; /* ended_ms 0: it has no end */
    const char *state;          /* "done", "failed", "cancelled"; NULL: it has no end */
    const char *request;        /* JSON */
    const char *outcome;        /* JSON; NULL: there is none, or it was not asked for */
    size_t n_outcome;
};

/* A new one; of those that were there the newest `keep` stay. All in one transaction. */
int ld_store_begin_evaluation(struct ld_store *s, const struct ld_evaluation_row *row, size_t keep,
                              struct ld_message *why);
/* Its end: ended_ms, state and outcome. Nothing happens where there is none of that id. */
int ld_store_end_evaluation(struct ld_store *s, const struct ld_evaluation_row *row, struct ld_message *why);
int ld_store_forget_evaluation(struct ld_store *s, const char *id, struct ld_message *why);

/* fn for each, the newest first, borrowed; not 0 ends it and is returned. id NULL: all, without outcomes. */
int ld_store_each_evaluation(struct ld_store *s, const char *id,
                             int (*fn)(void *arg, const struct ld_evaluation_row *row), void *arg);
int ld_store_has_evaluation(struct ld_store *s, const char *id, bool *has);

#endif
