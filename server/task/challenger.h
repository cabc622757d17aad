/* Challengers: models of other configurations that follow a tenant's log beside its writer, and what they would have
 * earned (challenger_scores.h).
 *
 *     timer   sees that the log has gone on, and gives a job to the threads for long work
 *     job     reads committed lines from where each challenger stands, until all are at the log's end:
 *             before a decision is fed, asks how likely the challenger would have shown that arm
 *             feeds its shadow (shadow.h)
 *     GET     reads what the job has left
 *
 * The guardrail is looked at where the scores grow; when it finds that its baseline is better, the job asks the writer
 * for the promotion, as a client would.
 *
 * The traffic pays for none of this but the candidates in its log. A challenger is a function of the log and of its
 * configuration: one that is declared later, or after a start, follows from the log's first line.
 *
 * Of several servers that share a log one follows a tenant's challengers, and tells the others what it has found
 * (tenants/registry_held.c). Where it is gone another one does, from the log's first line.
 *
 * What makes one begin anew: its configuration is another; the log's beginning gave way to a summary before it was
 * read; a user was erased. A challenger that would take the tenant beyond its quota of memory is stopped, and what
 * serves is never refused for its sake. */
#ifndef LD_CHALLENGER_H
#define LD_CHALLENGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "types/challenger_view.h"

struct ld_tenant;

/* The writer's: nothing that was learned so far is kept in memory when it returns. Waits for a slice of the job. */
void ld_challengers_forget(struct ld_tenant *t);

/* Events of the log that not all have read yet; 0 without any. */
uint64_t ld_challengers_lag(const struct ld_tenant *t);
size_t ld_challengers_bytes(const struct ld_tenant *t);

/* In the order of the configuration that the job saw last. Digests are there unless a challenger is at work now: they
 * take a pass over each model. */
size_t ld_challengers_view(const struct ld_tenant *t, struct ld_challenger_view out[LD_MAX_CHALLENGERS]);

/* The histories of those views, [n]; one that nobody follows any more has none. O(1). */
void ld_challengers_histories(const struct ld_tenant *t, const struct ld_challenger_view *views, size_t n,
                              struct ld_score_history *out);

/* The writer's: histories into the tenant's file, where it lacks any of them. */
void ld_challengers_keep(struct ld_tenant *t);

/* The same as the job has left them, without digests: for who must not wait for it. O(1). */
size_t ld_challengers_glance(const struct ld_tenant *t, struct ld_challenger_view out[LD_MAX_CHALLENGERS]);

/* All that GET /tenants/{t}/challengers tells, JSON. node: who follows, NULL: nobody else could; is_hurried: as a
 * glance. Each is of one moment; the log may have gone on since. malloc'd; NULL: no memory. */
struct ld_challengers_telling {
    const char *node;
    bool is_hurried, has_history;
};
char *ld_challengers_text(struct ld_tenant *t, const struct ld_challengers_telling *how, size_t *n);

#endif
