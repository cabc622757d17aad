/* What the tables of the log's lines are made of: the struct that their rows fill and write, the rows' spellings, and
 * the rules of their values. Included by json_event*.c alone, which have a table for each type of line. */
#ifndef LD_JSON_EVENT_ROWS_H
#define LD_JSON_EVENT_ROWS_H

#include <math.h>

#include "json/json_in.h"
#include "json/json_out.h"
#include "json/json_rows.h"

#define MAX_COUNT 9007199254740991.0 /* 2^53 - 1: what a double counts */

/* Sums of the evidence over one component of the mixture. */
struct sums {
    double energy, log_det;
};

/* What the rows fill and write: an event, and what stands elsewhere in it than in its line. */
struct line {
    struct kb_event ev;
    struct kb_ev_summary part;
    struct kb_ev_slot first; /* `arm` and `features` of a decision: those of its first slot */
    const struct kb_ev_slot *slate;
    const struct sums *mixture; /* NULL: each component has what the first has */
    size_t n_slate, n_draws, n_mixture;
    struct sums other[KB_N_MIXTURE - 1];
    struct kb_tuning tuning; /* of a refit; or the scales in force at the beginning of a summary */
    bool has_scales, has_forgotten, has_sums, has_match;
};

#define AT(member) offsetof(struct line, member)
#define EV(member) offsetof(struct line, ev.as.member)
#define PART(member) offsetof(struct line, part.member)
#define OPTIONAL LD_ROW_OPTIONAL

static const struct ld_rule any = {.lo = 0, .hi = INFINITY}, real = {.lo = -INFINITY, .hi = INFINITY},
                            positive = {.lo = 0, .hi = INFINITY, .is_lo_open = true},
                            probability = {.lo = 0, .hi = 1, .is_lo_open = true},
                            number = {.lo = 0, .hi = UINT32_MAX - 1}, count = {.lo = 0, .hi = MAX_COUNT},
                            one_or_more = {.lo = 1, .hi = MAX_COUNT}, level = {.lo = 1, .hi = KB_MAX_LEVEL},
                            candidates = {.lo = 1, .hi = INT32_MAX}, share = {.lo = 0, .hi = 1},
                            level_or_none = {.lo = 0, .hi = KB_MAX_LEVEL}, word = {.lo = 1, .hi = 32},
                            dropped_text = {.lo = 1, .hi = LD_MAX_DROPPED},
                            up_to_most_tunings = {.lo = 0, .hi = KB_MOST_TUNINGS},
                            up_to_most_values = {.lo = 1, .hi = KB_MOST_VALUES},
                            up_to_most_odds = {.lo = 1, .hi = KB_MOST_ODDS},
                            one_slot_or_more = {.lo = 1, .hi = KB_MAX_SLOTS},
                            two_slots_or_more = {.lo = 2, .hi = KB_MAX_SLOTS},
                            up_to_most_slots = {.lo = 1, .hi = KB_MAX_SLOTS},
                            other_components = {.lo = KB_N_MIXTURE - 1, .hi = KB_N_MIXTURE - 1};

/* clang-format off */
#define ID(name, how, at) {name, LD_ROW_TEXT, how, at, .rule = &ld_id_rule}
#define DECISION_ID(name, how, at) {name, LD_ROW_TEXT, how, at, .rule = &ld_decision_id_rule}
#define REAL(name, how, at) {name, LD_ROW_REAL, how, at, .rule = &real}
#define REAL_OR_NOT(name, at, flag) {name, LD_ROW_REAL, LD_ROW_HAS, at, flag, .rule = &real}
#define LENGTHSCALE(name, at) {name, LD_ROW_REAL, 0, at, .rule = &positive}
#define PROBABILITY(name, how, at) {name, LD_ROW_REAL, how, at, .rule = &probability}
#define COUNT(name, at) {name, LD_ROW_COUNT, 0, at, .rule = &count}
#define FROM_ONE(name, how, at) {name, LD_ROW_COUNT, how, at, .rule = &one_or_more}
#define NUMBER(name, how, at, bounds) {name, LD_ROW_NUMBER, how, at, .rule = bounds}
#define FLAG(name, how, where) {name, LD_ROW_FLAG, how, .at = where}
#define TIME(name, how, where) {name, LD_ROW_TIME, how, .at = where}
#define WORD(name, how, at, words) {name, LD_ROW_WORD, how, at, .rule = &word, .of = &words}
#define VECTOR(name, how, at, dims) {name, LD_ROW_VECTOR, how, at, .dim = dims}
#define CONTEXT(at) VECTOR("context", 0, at, LD_DIM_CONTEXT)
#define FEATURES(how, at) VECTOR("features", how, at, LD_DIM_ARM)
#define FEATURES_OR_NULL(how, at) FEATURES(LD_ROW_YOUNG | LD_ROW_OR_NULL | (how), at)
#define IDS(name, how, at, n) {name, LD_ROW_TEXTS, how, at, n, .rule = &any}
#define LIST(name, how, at, n, list) {name, LD_ROW_LIST, how, at, n, .rule = &any, .of = list}
#define SHORT_LIST(name, how, at, n, list, bounds) {name, LD_ROW_LIST, how, at, n, .rule = bounds, .of = list}
#define OBJECT(name, how, at, flag, rows) {name, LD_ROW_OBJECT, how, at, flag, .of = rows}
#define COLUMN(name, how, at, n, item) {name, LD_ROW_COLUMN, how, at, n, .of = item}
#define ELIGIBILITY(where) {"eligibility", LD_ROW_ELIGIBILITY, OPTIONAL, .at = where}
#define SETTINGS(where) {"configuration", LD_ROW_SETTINGS, .at = where}
#define BY ID("by", OPTIONAL, AT(ev.by)) /* who has asked for the change */
#define IGNORED(name) {name, LD_ROW_IGNORED, .how = OPTIONAL}
/* clang-format on */

/* What every line begins with. Number and time are known in the writer's turn only. */
#define N_HEAD 3
#define HEAD FROM_ONE("seq", 0, AT(ev.seq)), WORD("type", 0, AT(ev.type), kb_event_words), TIME("at", 0, AT(ev.at_ms))

/* The rows of a type, and what is done before it is written and when it was read (or NULL). */
struct ld_event_rows {
    struct ld_rows rows;
    void (*open)(struct line *l);
    void (*close)(struct ld_in *in, struct line *l);
};

/* json_event_decision.c. A late line has the first members of a rewarded one. */
extern const struct ld_event_rows ld_event_decided, ld_event_rewarded, ld_event_late, ld_event_measured,
    ld_event_observed, ld_event_expired, ld_event_activated;
/* json_event_model.c. An admission is the dictionary line that is no reset. */
extern const struct ld_event_rows ld_event_reset, ld_event_admission, ld_event_tuned;
/* json_event_summary.c: a line of each part. */
extern const struct ld_event_rows ld_event_parts[KB_PART_N];

/* Scales of a model as a refit has found them, and those in force (json_event_model.c). The copy is the document's. */
extern const struct ld_rows ld_scale_rows;
extern const struct ld_list ld_tunings_list;
extern const struct ld_row ld_scale_row; /* of a coordinate of contexts */
const struct kb_tuning *ld_event_keep_tuning(struct ld_in *in, const struct line *l);

#endif
