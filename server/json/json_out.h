/* Structs -> JSON text. Doubles are printed so that they read back bit for bit (17 digits at most). Every
 * function returns malloc'd text with its length in *n, or NULL: no memory, or a number that is not finite (a
 * fault of the caller that must not reach the log). */
#ifndef LD_JSON_OUT_H
#define LD_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "rules/confidence.h"
#include "base/text.h"
#include "spec/event.h"
#include "model/teachers.h"
#include "types/requests.h"
#include "types/settings.h"
#include "types/views.h"

/* A log line without the newline: seq, type, at, then the fields of its type (schema/event.schema.json).
 * arm_dim and context_dim give the length of vectors. For KB_EV_CONFIGURED, and for the beginning of a
 * summary, `settings` is the whole configuration. */
char *ld_encode_event(const struct kb_event *ev, uint32_t context_dim, uint32_t arm_dim,
                      const struct ld_settings *settings, size_t *n);
/* The same in two parts for a graph: what is known in the writer's turn, and all that follows it. */
char *ld_encode_event_head(const struct kb_event *ev, size_t *n);
char *ld_encode_graph_tail(const struct kb_event *ev, size_t *n);

/* A configuration with every field, as PUT /tenants/{t} would take it. */
char *ld_encode_settings(const struct ld_settings *settings, size_t *n);

/* Who taught the engine what it expects of an arm. */
struct ld_taught {
    const struct kb_engine *engine;
    const char *arm;
    struct kb_teachers by;
};
struct ld_text;
/* taught NULL: nobody asked. */
char *ld_encode_select(const char *decision, const struct kb_decision *d, size_t top, const struct ld_taught *taught,
                       size_t *n);

/* Such an answer as that of a decision that nobody has recorded: its id is empty. NULL: no memory. */
char *ld_encode_unrecorded(const char *decision, const char *answer, size_t n_answer, size_t *n);
/* The same of several slots, one after the other: slot i of the decision, whose id is `slot`, behind those before it.
 */
void ld_put_slot(struct ld_text *t, const char *decision, const char *slot, size_t i, const struct kb_decision *d,
                 size_t top);
void ld_put_slots_end(struct ld_text *t, const struct kb_decision *last);

/* The features that moved the mean of an arm most, n of them, the largest first. */
struct ld_moved {
    const char *arm;
    double mean;
    const struct ld_without *by;
    size_t n, n_others;
};

/* What the model thinks of users (rows) and arms: a matrix of n_users x d->n for each of mean, sd, lower and upper. */
void ld_put_posterior(struct ld_text *t, const char *const *users, size_t n_users, const struct kb_decision *d,
                      double *const value[4], const struct ld_taught *taught, const struct ld_moved *moved);

/* A flag (json_flags.c); *n_tagged as in struct ld_op. And one that has no value, for a reason of OpenFeature's. */
char *ld_encode_flag(const struct kb_engine *e, const char *flag, const char *decision, const struct kb_decision *d,
                     size_t *n_tagged, size_t *n);
char *ld_encode_flag_default(const char *flag, const char *reason, size_t *n);
/* A failure in OFREP's form; key NULL: of no flag. */
char *ld_encode_flag_failure(const char *key, const char *code, const char *details, const char *instance, size_t *n);

char *ld_encode_reward(const struct ld_reward_result *r, size_t *n);
char *ld_encode_rewards(const struct ld_reward_result *r, size_t n_results, size_t *n);

char *ld_encode_tenant(const struct ld_tenant_view *v, size_t *n);
char *ld_encode_tenants(const struct ld_tenant_view *v, size_t n_tenants, size_t *n);
char *ld_encode_graph_summary(const struct kb_engine *e, size_t *n);
/* The catalogue piece by piece: arms from..from + most - 1 of all that the engine has seen; where the next piece
 * begins, or SIZE_MAX after the last. */
size_t ld_put_arms(const struct kb_engine *e, size_t from, size_t most, struct ld_text *t);
char *ld_encode_arms_summary(const struct kb_engine *e, size_t *n);
/* The model in two steps: what is taken from the engine, O(m^2 + arms), and what is computed from
 * that, O(m^3 / 3), when nobody has to wait any more. 0, or -1 without memory: then nothing is to be ended. */
struct ld_model_text {
    struct ld_text text;
    struct kb_facts_work *work;
    struct kb_conf_facts confidence;
};
int ld_begin_model(const struct ld_tenant_view *v, const struct kb_engine *e, struct ld_model_text *m);
/* history NULL: not asked for. */
char *ld_end_model(struct ld_model_text *m, const struct ld_model_history *history, size_t *n);

char *ld_encode_stats(const struct kb_engine *e, const struct ld_window_stats *w, uint64_t n_unknown_rewards,
                      size_t *n);

/* A line of an export with its newline (json_export.c); answer NULL: none is kept. 0, or -1 without memory. */
struct ld_text;
int ld_text_export(struct ld_text *out, const char *line, size_t n, const char *answer);

/* {"key":value} answers: "{\"activated\":true}" and the like are written by the handlers themselves. */

#endif
