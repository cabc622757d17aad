/* Reading by rows: see json_rows.h; json_out_rows.c writes by them.
 *
 * A body is read member by member in the order of its text, and what is missing is told behind what is there, so that
 * faults come in the order in which their sender will look for them. A name is looked for among the few that an object
 * may have; nothing is hashed. A line of the log is read in the order of the rows, in which it was written, so its
 * members are found without a search. */
#include "json/json_rows.h"
#include "json/json_vector.h"

#include <math.h>
#include <string.h>

#include "base/hash_key.h"
#include "base/ids.h"
#include "base/time_text.h"
#include "json/json_flag_value.h"
#include "json/json_routing.h"

#define MOST_ROWS 24

static void set_pointer(void *at, const void *p)
{
    memcpy(at, &p, sizeof p);
}

/* Of a value that is no pointer. */
size_t ld_row_size(enum ld_row_kind kind)
{
    if (kind == LD_ROW_NUMBER || kind == LD_ROW_WORD)
        return sizeof(uint32_t);
    return kind == LD_ROW_FLAG ? sizeof(bool) : sizeof(uint64_t);
}

/* --- reading ------------------------------------------------------------------------------------------ */

static void read_value(struct ld_in *in, const struct ld_row *row, const struct ld_rule *rule, const struct ld_value *v,
                       char *base);

static void read_word(struct ld_in *in, const struct ld_row *row, const struct ld_value *v, void *at)
{
    const char *name = ld_in_text(in, v, row->rule);
    const int word = name != NULL ? kb_word_value(row->of, name) : -1;
    if (word >= 0)
        memcpy(at, &word, sizeof word);
    else if (name != NULL)
        ld_in_fault(in, NULL, "unknown %s", row->key);
}

static void read_choice(struct ld_in *in, const struct ld_rule *rule, const struct ld_value *v, void *at)
{
    const char *name = ld_in_choice(in, v, rule);
    int choice = 0;
    while (name != NULL && rule->choices[choice] != name)
        choice++;
    memcpy(at, &choice, sizeof choice);
}

static void read_time(struct ld_in *in, const struct ld_value *v, int64_t *at_ms)
{
    if (!ld_is(v, LD_V_STRING) || ld_parse_time(ld_string_of(v), at_ms) != 0)
        ld_in_fault(in, NULL, "expected a time such as 2026-11-21T10:00:00.123Z");
}

static void read_item(struct ld_in *in, const struct ld_list *list, const struct ld_value *v, char *item)
{
    if (list->read_item != NULL)
        list->read_item(in, v, item);
    else if (list->shape == LD_LIST_SHORT && !ld_is(v, LD_V_OBJECT))
        read_value(in, list->rows.row, list->rows.row->rule, v, item);
    else
        ld_in_rows(in, v, &list->rows, item);
}

const void *ld_in_items(struct ld_in *in, const struct ld_list *list, const struct ld_value *array, size_t *n)
{
    char *items = ld_in_alloc(in, ld_n_items(array) + 1, list->size);
    struct kb_ids seen;
    if (list->is_set)
        kb_ids_init(&seen, ld_hash_key());
    for (*n = 0; items != NULL && *n < ld_n_items(array); ++*n) {
        char *item = items + *n * list->size;
        const size_t here = ld_in_item(in, array, *n);
        read_item(in, list, ld_item_of(array, *n), item);
        if (list->is_set)
            ld_in_refuse_repeat(in, &seen, *(const char **)(void *)(item + list->rows.row->at));
        ld_in_leave(in, here);
    }
    if (list->is_set)
        kb_ids_close(&seen);
    return items;
}

static void read_list(struct ld_in *in, const struct ld_row *row, const struct ld_rule *rule, const struct ld_value *v,
                      char *base)
{
    size_t n = 0;
    if (!ld_in_list(in, v, rule))
        return;
    set_pointer(base + row->at, ld_in_items(in, row->of, v, &n));
    memcpy(base + row->more, &n, sizeof n);
}

static const void *read_items(struct ld_in *in, const struct ld_row *of, const struct ld_value *v, size_t n)
{
    const size_t size = ld_row_size(of->kind);
    char *items = n > 0 ? ld_in_alloc(in, n, size) : NULL;
    for (size_t i = 0; items != NULL && i < n; i++) {
        const size_t here = ld_in_item(in, v, i);
        read_value(in, of, of->rule, ld_item_of(v, i), items + i * size);
        ld_in_leave(in, here);
    }
    return items;
}

/* How many numbers a column has by those before it; of vectors so many times their dimension. */
static size_t column_length(const struct ld_in *in, const struct ld_row *row, const char *base)
{
    size_t n;
    memcpy(&n, base + row->more, sizeof n);
    return n * in->dim[row->dim];
}

/* A vector of no numbers, or no vectors: it is not looked at. */
static bool is_empty(const struct ld_in *in, const struct ld_row *row, const char *base)
{
    if (row->kind == LD_ROW_COLUMN && ((const struct ld_row *)row->of)->kind == LD_ROW_REAL)
        return (row->how & LD_ROW_SETS_N) == 0 && column_length(in, row, base) == 0;
    return row->kind == LD_ROW_VECTOR && in->dim[row->dim] == 0;
}

static void read_column(struct ld_in *in, const struct ld_row *row, const struct ld_value *v, char *base)
{
    const struct ld_row *of = row->of;
    const bool is_first = (row->how & LD_ROW_SETS_N) != 0;
    const size_t n = is_first ? ld_n_items(v) : column_length(in, row, base);
    if (of->kind == LD_ROW_REAL && n <= UINT32_MAX)
        set_pointer(base + row->at, ld_in_vector_value(in, v, (uint32_t)n, LD_DIM_ONE, false));
    else if (ld_in_list(in, v, &(struct ld_rule){.lo = (double)n, .hi = is_first ? (double)INFINITY : (double)n}))
        set_pointer(base + row->at, read_items(in, of, v, n));
    if (is_first)
        memcpy(base + row->more, &n, sizeof n);
}

/* The settings stand in the document whole, since the server needs back what the engine's spec does not hold. */
static void read_settings(struct ld_in *in, const struct ld_value *v, void *at)
{
    struct ld_settings *settings = ld_in_alloc(in, 1, sizeof *settings);
    if (settings == NULL)
        return;
    ld_in_settings(in, v, settings);
    set_pointer(at, &settings->spec);
}

/* The value at the place in hand. */
static void read_value(struct ld_in *in, const struct ld_row *row, const struct ld_rule *rule, const struct ld_value *v,
                       char *base)
{
    void *at = base + row->at;
    size_t n = 0;
    switch (row->kind) {
    case LD_ROW_IGNORED:
        break;
    case LD_ROW_TEXT:
        set_pointer(at, ld_in_text(in, v, rule));
        break;
    case LD_ROW_REAL:
        (void)ld_in_real(in, v, rule, at);
        break;
    case LD_ROW_COUNT:
        *(uint64_t *)at = ld_in_count(in, v, rule, 0);
        break;
    case LD_ROW_NUMBER:
        *(uint32_t *)at = (uint32_t)ld_in_count(in, v, rule, 0);
        break;
    case LD_ROW_FLAG:
        *(bool *)at = ld_in_flag(in, v);
        break;
    case LD_ROW_TIME:
        read_time(in, v, at);
        break;
    case LD_ROW_WORD:
        read_word(in, row, v, at);
        break;
    case LD_ROW_CHOICE:
        read_choice(in, rule, v, at);
        break;
    case LD_ROW_VECTOR:
        n = in->dim[row->dim];
        set_pointer(at, ld_in_vector_value(in, v, (uint32_t)n, row->dim, (row->how & LD_ROW_OR_NULL) != 0 || n == 0));
        break;
    case LD_ROW_TEXTS:
        set_pointer(at, ld_in_id_list(in, v, rule, &n));
        memcpy(base + row->more, &n, sizeof n);
        break;
    case LD_ROW_LIST:
        read_list(in, row, rule, v, base);
        break;
    case LD_ROW_COLUMN:
        if (!is_empty(in, row, base))
            read_column(in, row, v, base);
        break;
    case LD_ROW_OBJECT:
        ld_in_rows(in, v, row->of, at);
        break;
    case LD_ROW_ELIGIBILITY:
        set_pointer(at, ld_in_eligibility(in, v));
        break;
    case LD_ROW_VALUE:
        set_pointer(at, ld_in_flag_value(in, v));
        break;
    case LD_ROW_SETTINGS:
        read_settings(in, v, at);
        break;
    case LD_ROW_OWN:
        row->own(in, v, rule, base);
        break;
    }
}

static void read_missing(struct ld_in *in, const struct ld_row *row, char *base)
{
    const unsigned excuses = LD_ROW_OPTIONAL | LD_ROW_YOUNG | LD_ROW_HAS;
    if (row->kind == LD_ROW_REAL && (row->how & (LD_ROW_HAS | LD_ROW_OR_ZERO)) == 0)
        *(double *)(void *)(base + row->at) = (double)NAN;
    if ((row->how & excuses) == 0 && !is_empty(in, row, base))
        ld_in_fault(in, row->key, "required");
}

static void read_row(struct ld_in *in, const struct ld_row *row, const struct ld_value *v, char *base)
{
    if (v == NULL) {
        read_missing(in, row, base);
        return;
    }
    const size_t mark = ld_in_key(in, row->key);
    if ((row->how & LD_ROW_HAS) != 0)
        *(bool *)(base + row->more) = true;
    read_value(in, row, row->rule, v, base);
    ld_in_leave(in, mark);
}

/* A misspelt member would otherwise mean that it was left out. */
static void tell_unknown(struct ld_in *in, const struct ld_value *v, const struct ld_rows *rows)
{
    for (size_t k = 0; k < ld_n_members(v); k++) {
        const char *key = v->as.member[k].key;
        size_t i = 0;
        while (i < rows->n && strcmp(rows->row[i].key, key) != 0)
            i++;
        if (i == rows->n)
            ld_in_fault(in, key, "unknown field");
    }
}

/* The member that stands next, most of the time. */
static const struct ld_value *find(const struct ld_value *v, const char *key, size_t next)
{
    if (next < v->n && strcmp(v->as.member[next].key, key) == 0)
        return &v->as.member[next].value;
    return ld_member_of(v, key);
}

void ld_in_rows(struct ld_in *in, const struct ld_value *v, const struct ld_rows *rows, void *base)
{
    const unsigned turns[] = {LD_ROW_EARLY, 0, LD_ROW_LATE};
    const struct ld_value *member[MOST_ROWS];
    size_t n = 0;
    if (!ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object");
        return;
    }
    for (size_t i = 0; i < rows->n; i++) {
        member[i] = find(v, rows->row[i].key, n);
        n += member[i] != NULL;
    }
    if (n < v->n)
        tell_unknown(in, v, rows);
    for (size_t turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < rows->n; i++)
            if ((rows->row[i].how & (LD_ROW_EARLY | LD_ROW_LATE)) == turns[turn])
                read_row(in, &rows->row[i], member[i], base);
}

/* Which of the object's rules has this key; rules->n: none. */
static size_t rule_of(const struct ld_rules *rules, const char *key)
{
    size_t i = 0;
    while (i < rules->n && !ld_is_key(rules->rule[i].key, key))
        i++;
    return i;
}

/* Calls read for each member that the rules know, with its index among them and its place in hand, and tells of those
 * that they do not know, and of those that are required and missing. False, and nothing read: v is no object. */
static inline bool walk(struct ld_in *in, const struct ld_value *v, const struct ld_rules *rules,
                        void (*read)(struct ld_in *in, size_t i, const struct ld_value *member, void *out), void *out)
{
    uint64_t seen = 0; /* no object has more members than this has bits: test_rules.c */
    if (!ld_is(v, LD_V_OBJECT)) {
        ld_in_fault(in, NULL, "expected an object");
        return false;
    }
    for (size_t k = 0; k < ld_n_members(v); k++) {
        const struct ld_member *member = &v->as.member[k];
        const size_t i = rule_of(rules, member->key);
        const size_t mark = ld_in_key(in, member->key);
        if (i < rules->n) {
            seen |= UINT64_C(1) << i;
            read(in, i, &member->value, out);
        } else {
            ld_in_fault(in, NULL, "unknown field");
        }
        ld_in_leave(in, mark);
    }
    uint64_t missing = rules->required & ~seen;
    for (size_t i = 0; missing != 0; i++, missing >>= 1)
        if ((missing & 1) != 0)
            ld_in_fault(in, rules->rule[i].key, "required");
    return true;
}

bool ld_in_members(struct ld_in *in, const struct ld_value *v, const struct ld_rules *rules,
                   void (*read)(struct ld_in *in, size_t i, const struct ld_value *member, void *out), void *out)
{
    return walk(in, v, rules, read, out);
}

/* A body on its way. */
struct body {
    const struct ld_rules *rules;
    const struct ld_row *row;
    void *base;
};

static void read_member(struct ld_in *in, size_t i, const struct ld_value *v, void *arg)
{
    const struct body *b = arg;
    read_value(in, &b->row[i], &b->rules->rule[i], v, b->base);
}

bool ld_in_body(struct ld_in *in, const struct ld_value *v, const struct ld_rules *rules, const struct ld_row *row,
                void *base)
{
    struct body b = {rules, row, base};
    return walk(in, v, rules, read_member, &b);
}

int ld_decode_body(struct ld_doc *doc, const struct ld_rules *rules, const struct ld_row *row, void *base,
                   struct ld_problem *p)
{
    struct ld_in in;
    ld_in_init(&in, doc, p);
    (void)ld_in_body(&in, &doc->root, rules, row, base);
    return ld_in_done(&in);
}
