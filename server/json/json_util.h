/* What the JSON codecs share: the document, a reader that knows where it stands (for pointers) and collects
 * faults, and a few writers. Private to server/json/json_*.c; the values are json_value.h's. */
#ifndef LD_JSON_UTIL_H
#define LD_JSON_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json/json_doc.h"
#include "json/json_value.h"
#include "base/problem.h"
#include "json/rules.h"
#include "base/text.h"
#include "spec/event.h"
#include "types/settings.h"

#define LD_DECISION_MAX_BYTES ((size_t)ld_decision_id_rule.hi)

/* A reader: the document, where faults go, and the pointer of the value in hand. */
struct ld_in {
    struct ld_doc *doc;
    struct ld_problem *p;
    bool is_log; /* a line of a log, perhaps an old one */
    char path[160];
    size_t n_path;
};

void ld_in_init(struct ld_in *in, struct ld_doc *doc, struct ld_problem *p);
int ld_in_done(const struct ld_in *in); /* 0, or -1 when faults were found */

/* Steps into a member or an item; the result undoes it in ld_in_leave. Items of an NDJSON document's root are
 * named by their line. */
size_t ld_in_key(struct ld_in *in, const char *key);
size_t ld_in_item(struct ld_in *in, const struct ld_value *array, size_t i);
void ld_in_leave(struct ld_in *in, size_t mark);

/* A fault of the value in hand, or of its member `key`. */
void ld_in_fault(struct ld_in *in, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with status 422: a value of the contract that this version does not serve. */
void ld_in_refuse(struct ld_in *in, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Memory of the document; a failure sets problem 503. */
void *ld_in_alloc(struct ld_in *in, size_t n, size_t size);

/* v is an object and its keys are among names (NULL-terminated): a fault for each that is not. */
bool ld_in_object(struct ld_in *in, const struct ld_value *v, const char *const *names);

/* Members of obj. Absent is a fault when is_required; of the wrong type is one always. They return NULL or
 * `otherwise` then, so that reading can go on and find what else is wrong. */
const struct ld_value *ld_in_get(struct ld_in *in, const struct ld_value *obj, const char *key, bool is_required);
const char *ld_in_id(struct ld_in *in, const struct ld_value *obj, const char *key, size_t max_bytes, bool is_required);
double ld_in_number(struct ld_in *in, const struct ld_value *obj, const char *key, double otherwise, bool is_required);
/* A number in (0, 1]. */
double ld_in_propensity(struct ld_in *in, const struct ld_value *obj, const char *key, double otherwise,
                        bool is_required);
uint64_t ld_in_whole(struct ld_in *in, const struct ld_value *obj, const char *key, uint64_t lo, uint64_t hi,
                     uint64_t otherwise, bool is_required);
bool ld_in_bool(struct ld_in *in, const struct ld_value *obj, const char *key, bool otherwise, bool is_required);
const struct ld_value *ld_in_array(struct ld_in *in, const struct ld_value *obj, const char *key, size_t lo, size_t hi,
                                   bool is_required);
/* Vector of dim numbers; NULL when absent or null (a fault only when is_required and dim > 0) or dim is 0. */
const double *ld_in_vector(struct ld_in *in, const struct ld_value *obj, const char *key, uint32_t dim,
                           bool is_required);
/* Array of ids; *n items, NULL when there are none. */
const char *const *ld_in_ids(struct ld_in *in, const struct ld_value *obj, const char *key, size_t max, size_t *n,
                             bool is_required);

/* Values at the place in hand. */
const char *ld_in_id_value(struct ld_in *in, const struct ld_value *v, size_t max_bytes);
bool ld_in_number_value(struct ld_in *in, const struct ld_value *v, double *out);
const double *ld_in_vector_value(struct ld_in *in, const struct ld_value *v, uint32_t dim, const char *dim_name,
                                 bool may_be_null);
/* A number where `what` belongs: "ids are strings". */
void ld_in_fault_unquoted(struct ld_in *in, const struct ld_value *v, const char *what);
const char *const *ld_in_ids_value(struct ld_in *in, const struct ld_value *array, size_t *n);

/* Bodies, by the rules of their schemas (json_rules.c). ld_in_members is the one that walks through an object; the
 * others read the value at the place in hand. */
bool ld_in_members(struct ld_in *in, const struct ld_value *v, const struct ld_rules *rules,
                   void (*read)(struct ld_in *in, size_t i, const struct ld_value *member, void *out), void *out);
const char *ld_in_text(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule);
bool ld_in_real(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out);
/* False for null; true with a fault for what is neither, and *out as it was. */
bool ld_in_real_or_null(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out);
uint64_t ld_in_count(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, uint64_t otherwise);
bool ld_in_flag(struct ld_in *in, const struct ld_value *v);
const char *ld_in_choice(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule);
bool ld_in_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule);
const char *const *ld_in_id_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, size_t *n);
void ld_in_need_context(struct ld_in *in, const struct ld_value *object, const struct ld_rule *rule, uint32_t dim);
struct kb_ids;
void ld_in_refuse_repeat(struct ld_in *in, struct kb_ids *seen, const char *id);

/* The configuration object at the place in hand (json_settings.c), and its writers. */
void ld_in_settings(struct ld_in *in, const struct ld_value *v, struct ld_settings *out);
void ld_text_challenger(struct ld_text *t, const struct ld_challenger_settings *c);
void ld_text_settings(struct ld_text *t, const struct ld_settings *settings);
void ld_text_parameters(struct ld_text *t, const struct kb_spec *in_force);

/* Milliseconds since 1970 of a member in the log's one spelling; 0 with a fault. */
int64_t ld_in_time(struct ld_in *in, const struct ld_value *obj, const char *key);

/* A part of a summary (json_summary.c, json_out_summary.c), without seq, type and at. */
void ld_in_summary(struct ld_in *in, const struct ld_value *line, uint32_t context_dim, uint32_t arm_dim,
                   struct kb_event *ev);
void ld_text_summary(struct ld_text *t, const struct kb_ev_summary *s, uint32_t context_dim, uint32_t arm_dim,
                     const struct ld_settings *settings);

/* Lists that request bodies and log lines share (json_graph.c): the edges of a member; arms, of which array NULL
 * holds none. */
const struct kb_ev_edge *ld_in_edges_at(struct ld_in *in, const struct ld_value *obj, const char *key, bool is_removal,
                                        bool is_required, size_t *n);
const struct kb_ev_arm *ld_in_arms(struct ld_in *in, const struct ld_value *array, uint32_t arm_dim, size_t *n);

#endif
