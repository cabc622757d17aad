/* The value of an arm, from JSON to the one text of it that log, catalogue and answers have.
 *
 * It is written anew, and not copied: without blanks, with every number in the spelling of the log. So the text of a
 * line that is read gives the same text again, and snapshots and digests agree with folds.
 *
 * What a flag cannot be (null, an array) is refused: a client of the flag would hear that its type is wrong. Its depth
 * has a limit of its own, since the lists around it are deeper in a line of the log than in a body: what a body may
 * hold, its line must. */
#include "json/json_flag_value.h"

#include <string.h>

#define MOST_DEPTH 8u

/* Levels of arrays and objects: 0 of what is neither. */
static size_t depth_of(const struct ld_value *v)
{
    size_t deepest = 0;
    for (size_t i = 0; i < ld_n_items(v); i++) {
        const size_t depth = depth_of(ld_item_of(v, i));
        deepest = depth > deepest ? depth : deepest;
    }
    for (size_t i = 0; i < ld_n_members(v); i++) {
        const size_t depth = depth_of(&v->as.member[i].value);
        deepest = depth > deepest ? depth : deepest;
    }
    return ld_is(v, LD_V_ARRAY) || ld_is(v, LD_V_OBJECT) ? deepest + 1 : 0;
}

void ld_text_value(struct ld_text *t, const struct ld_value *v)
{
    switch (v->kind) {
    case LD_V_NULL:
        ld_text_lit(t, "null");
        break;
    case LD_V_FALSE:
    case LD_V_TRUE:
        ld_text_bool(t, v->kind == LD_V_TRUE);
        break;
    case LD_V_NUMBER:
        ld_text_number(t, ld_number_of(v));
        break;
    case LD_V_STRING:
        ld_text_string(t, ld_string_of(v));
        break;
    case LD_V_ARRAY:
        ld_text_lit(t, "[");
        for (size_t i = 0; i < v->n; i++) {
            ld_text_item(t);
            ld_text_value(t, ld_item_of(v, i));
        }
        ld_text_lit(t, "]");
        break;
    case LD_V_OBJECT:
        ld_text_lit(t, "{");
        for (size_t i = 0; i < v->n; i++) {
            ld_text_item(t);
            ld_text_string(t, v->as.member[i].key);
            ld_text_lit(t, ":");
            ld_text_value(t, &v->as.member[i].value);
        }
        ld_text_lit(t, "}");
        break;
    }
}

static const char *copy(struct ld_in *in, const struct ld_text *t)
{
    char *text = t->is_failed ? NULL : ld_in_alloc(in, t->n + 1, 1);
    if (text != NULL)
        memcpy(text, t->data, t->n);
    else
        ld_problem_set(in->p, 503, "out of memory");
    return text;
}

const char *ld_in_flag_value(struct ld_in *in, const struct ld_value *v)
{
    const char *text = NULL;
    struct ld_text t;
    if (v->kind == LD_V_NULL || v->kind == LD_V_ARRAY) {
        ld_in_fault(in, NULL, "expected a boolean, a string, a number or an object");
        return NULL;
    }
    if (depth_of(v) > MOST_DEPTH) {
        ld_in_fault(in, NULL, "expected arrays and objects at most %u deep", MOST_DEPTH);
        ld_problem_limit(in->p, "value_depth", MOST_DEPTH);
        return NULL;
    }
    ld_text_init(&t);
    ld_text_value(&t, v);
    if (!t.is_failed && t.n > KB_MAX_VALUE_BYTES) {
        ld_in_fault(in, NULL, "expected at most %u bytes, written without blanks; this has %zu", KB_MAX_VALUE_BYTES,
                    t.n);
        ld_problem_limit(in->p, "value_bytes", KB_MAX_VALUE_BYTES);
    } else {
        text = copy(in, &t);
    }
    ld_text_close(&t);
    return text;
}
