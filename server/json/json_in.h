/* Request bodies and log lines: JSON text -> structs. Every fault is reported by JSON pointer, in the order of the
 * text, unknown fields included; duplicate keys, non-finite numbers and bad UTF-8 are faults of the text, of which the
 * first is told. Nothing is half-decoded: on failure (return -1, *p filled) the out struct is not to be read. Decoded
 * strings and arrays live in the ld_doc. */
#ifndef LD_JSON_IN_H
#define LD_JSON_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/problem.h"
#include "json/json_doc.h"
#include "spec/event.h"
#include "types/promotion.h"
#include "types/repair.h"
#include "types/requests.h"
#include "types/settings.h"

/* An answer of /select, of our own making, into the memory of *doc. 0, or -1 without memory for it. */
int ld_decode_told(struct ld_doc **doc, const char *text, size_t n, struct ld_told *out);

int ld_decode_settings(struct ld_doc *doc, struct ld_settings *out, struct ld_problem *p);
/* The body of a PATCH, merged into the settings that are `now` in force under this version (json_patch.c). Problem 409:
 * the patch is for another version. */
int ld_decode_patch(struct ld_doc *doc, const struct ld_settings *now, uint64_t version, struct ld_settings *out,
                    struct ld_problem *p);
/* Whether the document is an object with this member. */
bool ld_doc_has_member(const struct ld_doc *doc, const char *key);

int ld_decode_select(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_select *out,
                     struct ld_problem *p);
/* Of a body that was refused, all faults, those across candidates included, in the place of what p has. */
void ld_decode_select_faults(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_problem *p);

/* The body of /tenants/{t}/posterior; how many cells it asks for is not looked at. */
int ld_decode_posterior(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct ld_ask *out,
                        struct ld_problem *p);

/* The body of a flag's evaluation: the user, and attributes from the strings of the context. *code, of a refusal, is
 * OpenFeature's error code. */
int ld_decode_flag_context(struct ld_doc *doc, struct ld_select *out, const char **code, struct ld_problem *p);
/* The vector of its context, without the user, by the document's mapping and in its memory: that of out->named, which
 * may be another document's. 0, or -1 with the fault. */
int ld_decode_flag_features(struct ld_doc *doc, uint32_t dim, struct ld_select *out, struct ld_problem *p);

/* 1 to 1,000 tracking events. */
int ld_decode_track(struct ld_doc *doc, struct ld_track_event **out, size_t *n, struct ld_problem *p);

/* One object or an array; *is_array tells. */
int ld_decode_rewards(struct ld_doc *doc, struct ld_reward **out, size_t *n, bool *is_array, struct ld_problem *p);

int ld_decode_activate(struct ld_doc *doc, const char **decision, struct ld_problem *p);

/* Bodies of a promotion and, where its reason is that, of a rollback. */
int ld_decode_promotion(struct ld_doc *doc, struct ld_promotion *out, struct ld_problem *p);

int ld_decode_repair(struct ld_doc *doc, struct ld_repair *out, struct ld_problem *p);

int ld_decode_compact(struct ld_doc *doc, uint64_t *keep_events, struct ld_problem *p);

/* One object, or the first of the array that NDJSON makes. */
int ld_decode_replay(struct ld_doc *doc, bool is_ndjson, struct ld_replay_head *out, struct ld_problem *p);

/* One object, or the array that NDJSON makes. Events of type KB_EV_OBSERVED (seq and at_ms left 0). */
int ld_decode_observe(struct ld_doc *doc, bool is_ndjson, uint32_t context_dim, uint32_t arm_dim, struct kb_event **out,
                      size_t *n, struct ld_problem *p);

/* PUT (is_patch false; JSON object, bare array, or NDJSON items) and PATCH bodies -> a KB_EV_GRAPH / KB_EV_ARMS. */
int ld_decode_graph(struct ld_doc *doc, bool is_patch, struct kb_event *out, struct ld_problem *p);
int ld_decode_arms(struct ld_doc *doc, bool is_patch, uint32_t arm_dim, struct kb_event *out, struct ld_problem *p);

#define LD_MAX_DROPPED 512u /* bytes of what a dropped line says of itself */

/* A line of the log as ld_encode_event wrote it; dimensions are taken from what stands in the line and must be
 * context_dim and arm_dim (those of the configuration in force). The spec of a configured event is the first member
 * of a struct ld_settings in the document, to which its pointer may be cast. */
int ld_decode_event(struct ld_doc *doc, uint32_t context_dim, uint32_t arm_dim, struct kb_event *out,
                    struct ld_problem *p);

/* Before ld_decode_event, for a line of an export (json_export.c): takes the member `answer` out of the document.
 * *answer lives in it; NULL: there is none. Where there is one, the log's line is the first *n bytes of `line`, the
 * last of which is to be a closing brace. 0, or -1 with the fault in p. */
int ld_split_export(struct ld_doc *doc, const char *line, size_t *n, const char **answer, struct ld_problem *p);

#endif
