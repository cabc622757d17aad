/* The reader shared by the JSON codecs: see json_util.h.
 *
 * Faults are collected, not thrown: a reading function that finds one reports it at its JSON pointer, returns a
 * harmless value, and the caller goes on, so that one answer names all that is wrong with a body. All numbers
 * are doubles, hence 1, 1.0 and 1e0 are the same whole number, as JSON Schema has it; the parser refuses those beyond
 * the range of double, so every number here is finite.
 *
 * The pointer in hand is a buffer that grows by ld_in_key and ld_in_item and shrinks by ld_in_leave: steps are
 * pushed on the way in and cost a few bytes copied, so that the pointer is there when a fault needs it. It is cut at
 * its end when keys are long; the mark that undoes a step is a length and holds in that case too.
 *
 * Values are judged by the rules of the schemas (rules.h): of bodies, and of log lines by rules of their own.
 *
 * None of the functions keeps state but the reader's own; two threads may decode two documents at once. */
#include "json/json_util.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ids.h"
#include "base/number.h"

/* The problem may not hold anything yet: ld_in_done judges by it. */
void ld_in_init(struct ld_in *in, struct ld_doc *doc, struct ld_problem *p)
{
    in->doc = doc;
    doc->mapped = 0;
    in->p = p;
    in->is_log = in->is_thorough = false;
    in->path[0] = '\0';
    in->n_path = 0;
    ld_in_set_dims(in, 0, 0);
}

void ld_in_set_dims(struct ld_in *in, uint32_t context_dim, uint32_t arm_dim)
{
    in->dim[LD_DIM_ONE] = 1;
    in->dim[LD_DIM_CONTEXT] = context_dim;
    in->dim[LD_DIM_ARM] = arm_dim;
    in->dim[LD_DIM_POINT] = context_dim + arm_dim;
}

/* Decoders end with it: whatever was reported on the way decides. That includes memory that ran out. The room in which
 * names were mapped goes: a document may wait long behind it. */
int ld_in_done(const struct ld_in *in)
{
    if (in->doc->named != NULL)
        ld_names_close(&in->doc->named->names);
    return in->p->status == 0 ? 0 : -1;
}

/* --- where the reader stands ------------------------------------------------------------------------- */

static bool is_within_character(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* A JSON pointer (RFC 6901) spells ~ as ~0 and / as ~1. Returns the mark that ld_in_leave wants. What does not fit is
 * cut (the pointer is for people then): 160 bytes are room for any place that the contract has; only keys that a client
 * made up are longer. */
size_t ld_in_key(struct ld_in *in, const char *key)
{
    const size_t mark = in->n_path, most = sizeof in->path - 1;
    size_t n = mark;
    if (n < most)
        in->path[n++] = '/';
    for (; *key != '\0' && n < most; key++) {
        const bool is_escaped = *key == '~' || *key == '/';
        in->path[n++] = is_escaped ? '~' : *key;
        if (is_escaped && n < most)
            in->path[n++] = *key == '~' ? '0' : '1';
    }
    if (is_within_character(*key)) /* it is cut: no part of a character stays */
        while (n > mark && is_within_character(in->path[--n]))
            ;
    in->path[n] = '\0';
    in->n_path = n;
    return mark;
}

/* array tells whether i counts the lines of an NDJSON document, blank ones included, or just items. Only the root of
 * such a document has lines; arrays inside a line count as usual. */
size_t ld_in_item(struct ld_in *in, const struct ld_value *array, size_t i)
{
    char number[LD_NUMBER_BYTES + 1];
    /* Only an NDJSON document has lines. */
    if (array == &in->doc->root && in->doc->line != NULL)
        i = in->doc->line[i];
    number[ld_count_write(i, number)] = '\0';
    return ld_in_key(in, number);
}

/* Back to where the mark was taken. Marks are left in the reverse order of their taking. */
void ld_in_leave(struct ld_in *in, size_t mark)
{
    in->n_path = mark;
    in->path[mark] = '\0';
}

/* Formats first: the path it is added to may be the one that the text was made from. key NULL: the value in hand. Cut
 * to 255 bytes. */
void ld_in_fault(struct ld_in *in, const char *key, const char *fmt, ...)
{
    char text[384];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t mark = key != NULL ? ld_in_key(in, key) : in->n_path;
    ld_problem_add(in->p, in->path, "%s", text);
    ld_in_leave(in, mark);
}

/* The status must be set before the fault, which would make it 400; if another fault came first, 400 it stays. The
 * value is well formed and in the contract, hence 422 and not 400. */
void ld_in_refuse(struct ld_in *in, const char *key, const char *fmt, ...)
{
    char text[256];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ld_problem_set(in->p, 422, "this version does not serve the configuration");
    ld_in_fault(in, key, "%s", text);
}

/* Zeroed; NULL has been reported. n = 0 is fine. */
void *ld_in_alloc(struct ld_in *in, size_t n, size_t size)
{
    void *memory = ld_doc_alloc(in->doc, n, size);
    if (memory == NULL)
        ld_problem_set(in->p, 503, "out of memory");
    return memory;
}

/* --- values ------------------------------------------------------------------------------------------ */

/* A control character of ASCII, or one of U+0080 to U+009F, which old terminals obey as well. Logs may have the latter:
 * there was a time when they were let pass. */
static bool is_control(const struct ld_in *in, const char *s)
{
    return ld_text_is_control(s) && ((unsigned char)*s < 0x80 || !in->is_log);
}

/* A number where `what` belongs, such as "ids are strings": shown as the string that was meant, where none of its
 * digits is lost. */
static void fault_unquoted(struct ld_in *in, const struct ld_value *v, const char *what)
{
    char digits[LD_NUMBER_BYTES + 1];
    const double x = ld_number_of(v);
    if (fabs(x) > 9007199254740992.0) {
        ld_in_fault(in, NULL, "%s, in quotes", what);
        return;
    }
    digits[ld_number_write(x, digits)] = '\0';
    ld_in_fault(in, NULL, "%s: \"%s\"", what, digits);
}

/* Bytes, not characters: what is bounded is memory. Control characters are refused because ids go into logs,
 * terminals and metric labels; all else of Unicode is the caller's affair, and compared byte by byte. The string is the
 * document's own, NUL-terminated; the parser has checked its UTF-8 and refused NULs inside. */
const char *ld_in_id_value(struct ld_in *in, const struct ld_value *v, size_t max_bytes)
{
    const char *s = ld_string_of(v);
    size_t n = ld_string_bytes(v);
    if (ld_is(v, LD_V_NUMBER) && !in->is_log) {
        fault_unquoted(in, v, "ids are strings");
        return NULL;
    }
    if (s == NULL || n < 1 || n > max_bytes) {
        ld_in_fault(in, NULL, "expected a string of 1 to %zu bytes", max_bytes);
        if (n > max_bytes)
            ld_problem_limit(in->p, "string_bytes", (double)max_bytes);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (is_control(in, s + i)) {
            ld_in_fault(in, NULL, "expected no control characters");
            return NULL;
        }
    }
    return s;
}

/* --- by rules ------------------------------------------------------------------------------------------ */

static bool is_id(const struct ld_rule *rule)
{
    static const char *const keys[] = {"user", "arm", "decision", "id"};
    for (size_t i = 0; rule->key != NULL && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], rule->key) == 0)
            return true;
    return rule == &ld_id_rule;
}

#define MOST_DIGITS 9007199254740991.0 /* 2^53 - 1: beyond it a double is no longer the number that was sent */

/* A whole number that stands for a user. NULL: it is none, which is told. */
static const char *digits_for_text(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    const double x = ld_number_of(v);
    char *digits = NULL;

    if (!(x >= 0 && x <= MOST_DIGITS && x == floor(x))) {
        fault_unquoted(in, v, "ids are strings");
        if (x > MOST_DIGITS && rule->key != NULL)
            ld_problem_limit(in->p, rule->key, MOST_DIGITS);
    } else if ((digits = ld_in_alloc(in, LD_NUMBER_BYTES, 1)) != NULL) {
        snprintf(digits, LD_NUMBER_BYTES, "%.0f", fabs(x));
    }
    return digits;
}

/* Where it stands for no id. Apart from ld_in_text, which is what all texts go through. */
static __attribute__((noinline)) const char *number_for_text(struct ld_in *in, const struct ld_value *v,
                                                             const struct ld_rule *rule)
{
    if (rule->takes_digits && !in->is_log)
        return digits_for_text(in, v, rule);
    if (in->is_log || is_id(rule))
        return ld_in_id_value(in, v, (size_t)rule->hi);
    fault_unquoted(in, v, "expected a string");
    return NULL;
}

const char *ld_in_text(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    return ld_is(v, LD_V_NUMBER) ? number_for_text(in, v, rule) : ld_in_id_value(in, v, (size_t)rule->hi);
}

const char *ld_in_text_of(struct ld_in *in, const struct ld_value *object, const char *key, const struct ld_rule *rule,
                          bool is_required)
{
    const struct ld_value *v = ld_member_of(object, key);
    const size_t here = ld_in_key(in, key);
    const char *text = v != NULL ? ld_in_text(in, v, rule) : NULL;
    if (v == NULL && is_required)
        ld_in_fault(in, NULL, "required");
    ld_in_leave(in, here);
    return text;
}

/* NaN is in no range, which covers what is no number. */
static bool is_within(const struct ld_rule *rule, double x)
{
    return (rule->is_lo_open ? x > rule->lo : x >= rule->lo) && (rule->is_hi_open ? x < rule->hi : x <= rule->hi);
}

/* Of what a model computes with, the server may want no more than the schema does. */
static double magnitude_of(const struct ld_in *in, const struct ld_rule *rule)
{
    return rule->is_magnitude && !in->is_log ? in->doc->magnitude : (double)INFINITY;
}

/* "expected a number > 0 and <= 1, or auto, or null"; x is beyond that, or NaN. */
static void fault_range(struct ld_in *in, const struct ld_rule *rule, const char *or_null, double x)
{
    char lo[32] = "", hi[32] = "";
    const double least = fmax(rule->lo, -magnitude_of(in, rule)), most = fmin(rule->hi, magnitude_of(in, rule));
    const bool has_lo = isfinite(least), has_hi = isfinite(most);
    if (has_lo)
        (void)snprintf(lo, sizeof lo, " %s %.16g", rule->is_lo_open ? ">" : ">=", least);
    if (has_hi)
        (void)snprintf(hi, sizeof hi, "%s %s %.16g", has_lo ? " and" : "", rule->is_hi_open ? "<" : "<=", most);
    ld_in_fault(in, NULL, "expected a %snumber%s%s%s%s%s", has_lo || has_hi ? "" : "finite ", lo, hi,
                rule->choices != NULL ? ", or " : "", rule->choices != NULL ? rule->choices[0] : "", or_null);
    if (x > most && rule->key != NULL && !rule->is_hi_open)
        ld_problem_limit(in->p, rule->key, most);
}

/* Every number of JSON is finite here. False, with *out as it was: it is out of range, or no number. */
static inline bool read_real(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule,
                             const char *or_null, double *out)
{
    const double x = ld_is(v, LD_V_NUMBER) ? ld_number_of(v) : (double)NAN;
    if (is_within(rule, x) && fabs(x) <= magnitude_of(in, rule)) {
        *out = x;
        return true;
    }
    fault_range(in, rule, or_null, x);
    return false;
}

bool ld_in_real(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out)
{
    return read_real(in, v, rule, "", out);
}

bool ld_in_real_or_null(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, double *out)
{
    if (ld_is(v, LD_V_NULL))
        return false;
    (void)read_real(in, v, rule, ", or null", out);
    return true;
}

/* 1.0 and 1e0 are whole. Bounds are whole and at most 2^53, where doubles still count one by one. */
uint64_t ld_in_count(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, uint64_t otherwise)
{
    const double x = ld_is(v, LD_V_NUMBER) ? ld_number_of(v) : (double)NAN;
    if (is_within(rule, x) && x == floor(x))
        return (uint64_t)x;
    ld_in_fault(in, NULL, "expected a whole number from %.0f to %.0f", rule->lo, rule->hi);
    if (x > rule->hi && rule->key != NULL)
        ld_problem_limit(in->p, rule->key, rule->hi);
    return otherwise;
}

/* 0 and 1 are not booleans. */
bool ld_in_flag(struct ld_in *in, const struct ld_value *v)
{
    if (!ld_is_bool(v))
        ld_in_fault(in, NULL, "expected true or false");
    return ld_is(v, LD_V_TRUE);
}

/* The word in the rule's own memory, or NULL. */
const char *ld_in_choice(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    const char *word = ld_string_of(v);
    char list[350] = "";
    size_t n = 0;
    for (size_t i = 0; word != NULL && rule->choices[i] != NULL; i++)
        if (strcmp(rule->choices[i], word) == 0)
            return rule->choices[i];
    size_t i = 0; /* whole words, as many as there is room for */
    for (; rule->choices[i] != NULL && n + strlen(rule->choices[i]) + sizeof ", " < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i > 0 ? ", " : "", rule->choices[i]);
    ld_in_fault(in, NULL, "expected one of %s%s", list, rule->choices[i] != NULL ? ", and others" : "");
    return NULL;
}

/* --- lists -------------------------------------------------------------------------------------------- */

/* Whether v is an array with as many items as the rule allows. Without an upper end the body's size is the bound. */
bool ld_in_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule)
{
    const double n = (double)ld_n_items(v);
    if (ld_is(v, LD_V_ARRAY) && n >= rule->lo && n <= rule->hi)
        return true;
    if (n > rule->hi && (rule->key != NULL || rule == &ld_rewards_rule))
        ld_problem_limit(in->p, rule->key != NULL ? rule->key : "rewards", rule->hi);
    if (isfinite(rule->hi))
        ld_in_fault(in, NULL, "expected an array of %.0f to %.0f items", rule->lo, rule->hi);
    else
        ld_in_fault(in, NULL, "expected an array");
    return false;
}

/* NULL and *n = 0 when the list is faulty or empty. Faulty items stay NULL; the fault keeps it from being used. The
 * strings are borrowed from the document, the array of pointers lives in its memory. Repeats are not looked for. */
const char *const *ld_in_id_list(struct ld_in *in, const struct ld_value *v, const struct ld_rule *rule, size_t *n)
{
    const size_t n_items = ld_n_items(v);
    const char **ids = ld_in_list(in, v, rule) && n_items > 0 ? ld_in_alloc(in, n_items, sizeof *ids) : NULL;
    *n = ids != NULL ? n_items : 0;
    for (size_t i = 0; i < *n; i++) {
        const size_t here = ld_in_item(in, v, i);
        ids[i] = ld_in_text(in, ld_item_of(v, i), rule->takes_digits ? &ld_user_id_rule : &ld_id_rule);
        ld_in_leave(in, here);
    }
    return ids;
}

/* Tells of an id that stands in the list already, at the second of the two. `seen` are those so
 * far; what is no id is let pass. */
void ld_in_refuse_repeat(struct ld_in *in, struct kb_ids *seen, const char *id)
{
    if (id == NULL)
        return;
    if (kb_ids_find(seen, id) != KB_ID_NONE)
        ld_in_fault(in, NULL, "the arm stands in the list already");
    else if (kb_ids_reserve(seen, 1, strlen(id) + 1) == KB_OK)
        (void)kb_ids_add(seen, id);
    else
        ld_problem_set(in->p, 503, "out of memory");
}

void ld_text_put_known(struct ld_text *t, const char *name, double x)
{
    ld_text_key(t, name);
    if (isfinite(x))
        ld_text_number(t, x);
    else
        ld_text_lit(t, "null");
}
