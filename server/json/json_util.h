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

/* What the length of a vector is: one for each item of a column, or a dimension of the tenant; of a point both. */
enum ld_dim { LD_DIM_ONE, LD_DIM_CONTEXT, LD_DIM_ARM, LD_DIM_POINT, LD_N_DIMS };

/* A reader: the document, where faults go, and the pointer of the value in hand. */
struct ld_in {
    struct ld_doc *doc;
    struct ld_problem *p;
    bool is_log;      /* a line of a log, perhaps an old one */
    bool is_thorough; /* faults are looked for that whoever takes the body finds as well */
    uint32_t dim[LD_N_DIMS];
    char path[160];
    size_t n_path;
};

void ld_in_init(struct ld_in *in, struct ld_doc *doc, struct ld_problem *p);
/* The lengths of the vectors that may stand there; without it all are 0. */
void ld_in_set_dims(struct ld_in *in, uint32_t context_dim, uint32_t arm_dim);
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

/* Values at the place in hand. */
const char *ld_in_id_value(struct ld_in *in, const struct ld_value *v, size_t max_bytes);

/* Values by the rules of their schemas. ld_in_members is the one that walks through an object; the
 * others read the value at the place in hand. */
bool ld_in_members(struct ld_in *in, const struct ld_value *v, const struct ld_rules *rules,
                   void (*read)(struct ld_in *in, size_t i, const struct ld_value *member, void *out), void *out);
const char *ld_in_text(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule);
/* The same of an object's member. NULL: it is not there, which is a fault where it is required. */
const char *ld_in_text_of(struct ld_in *in, const struct ld_value *object, const char *key, const struct ld_rule *rule,
                          bool is_required);
bool ld_in_real(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out);
/* False for null; true with a fault for what is neither, and *out as it was. */
bool ld_in_real_or_null(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out);
uint64_t ld_in_count(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, uint64_t otherwise);
bool ld_in_flag(struct ld_in *in, const struct ld_value *v);
const char *ld_in_choice(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule);
bool ld_in_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule);
const char *const *ld_in_id_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, size_t *n);
struct kb_ids;
void ld_in_refuse_repeat(struct ld_in *in, struct kb_ids *seen, const char *id);

/* The configuration object at the place in hand (json_settings.c), and its writers. */
void ld_in_settings(struct ld_in *in, const struct ld_value *v, struct ld_settings *out);
void ld_text_challenger(struct ld_text *t, const struct ld_challenger_settings *c);
void ld_text_settings(struct ld_text *t, const struct ld_settings *settings);
void ld_text_parameters(struct ld_text *t, const struct kb_spec *in_force);

/* null where the number is not finite. */
void ld_text_put_known(struct ld_text *t, const char *name, double x);
/* In the log's one spelling. */
void ld_text_time(struct ld_text *t, int64_t at_ms);
void ld_text_put_time(struct ld_text *t, const char *name, int64_t at_ms);
void ld_text_put_time_or_null(struct ld_text *t, const char *name, bool is_known, int64_t at_ms);
/* An arm of a catalogue, as its line has it and as it is shown (json_event.c). */
void ld_text_arm(struct ld_text *t, const struct kb_ev_arm *arm, uint32_t arm_dim);
/* Scales in force; is_found: with what the refit was computed from. */
struct kb_tuning;
void ld_text_tuning(struct ld_text *t, const struct kb_tuning *of, bool is_found);

#endif
