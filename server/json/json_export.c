/* Lines of an export: a line of the log and, behind the decision that a caller has named, the answer that was given to
 * it, so that a repeated request meets the same words after an import.
 *
 *     {"seq":7,"type":"decided", ..., "answer":{"decision":"d", ...}}
 *
 * The answer is the last member, so that what stands before it is the log's own line byte for byte: an import cuts it
 * off and keeps both as they are, and an export of the import is the same file. */
#include <stdlib.h>
#include <string.h>

#include "json/json_out.h"
#include "json/json_in.h"
#include "json/json_util.h"

static const char marker[] = ",\"answer\":";
#define N_MARKER (sizeof marker - 1)

int ld_text_export(struct ld_text *out, const char *line, size_t n, const char *answer)
{
    if (answer == NULL || n == 0) {
        ld_text_raw(out, line, n);
    } else {
        ld_text_raw(out, line, n - 1); /* the brace */
        ld_text_raw(out, marker, N_MARKER);
        ld_text_raw(out, answer, strlen(answer));
        ld_text_raw(out, "}", 1);
    }
    ld_text_raw(out, "\n", 1);
    return out->is_failed ? -1 : 0;
}

/* Whether both objects have the same text at the key. */
static bool is_same(const struct ld_value *a, const struct ld_value *b, const char *key)
{
    const char *x = ld_string_of(ld_member_of(a, key)), *y = ld_string_of(ld_member_of(b, key));
    return x != NULL && y != NULL && strcmp(x, y) == 0;
}

/* Bytes of JSON in UTF-8 never hold the marker inside of a string, where quotes are escaped; and no member of a decided
 * line has members of its own of that name. So the first place is the place. NULL: the member is written otherwise. */
static const char *find_answer(const char *line, size_t n)
{
    const char *at = memmem(line, n, marker, N_MARKER);
    return at != NULL && line[n - 1] == '}' ? at : NULL;
}

/* What stands between the marker and the last brace is one object: else other members follow the answer. */
static bool is_object(const char *text, size_t n)
{
    struct ld_doc *doc = NULL;
    struct ld_problem p;
    ld_problem_init(&p);
    const bool is_one = ld_doc_parse(&doc, text, n, false, &p) == 0 && ld_is(&doc->root, LD_V_OBJECT);
    ld_doc_free(doc);
    return is_one;
}

/* v is a member's value. */
static void drop_member(struct ld_value *object, const struct ld_value *v)
{
    struct ld_member *m = object->as.member, *end = m + object->n;
    while (&m->value != v)
        m++;
    memmove(m, m + 1, (size_t)(end - m - 1) * sizeof *m);
    object->n--;
}

int ld_split_export(struct ld_doc *doc, const char *line, size_t *n, const char **answer, struct ld_problem *p)
{
    struct ld_in in;
    const struct ld_value *v = ld_member_of(&doc->root, "answer");
    *answer = NULL;
    if (v == NULL)
        return 0;
    ld_in_init(&in, doc, p);
    const char *at = find_answer(line, *n);
    const char *text = at != NULL ? at + N_MARKER : line;
    const size_t n_text = at != NULL ? *n - (size_t)(text - line) - 1 : 0;
    if (at == NULL || !is_object(text, n_text))
        ld_in_fault(&in, "answer", "expected an object, as the last member and written as an export writes it");
    else if (!is_same(v, &doc->root, "decision") || !is_same(v, &doc->root, "arm"))
        ld_in_fault(&in, "answer", "it belongs to another decision");
    char *copy = ld_in_alloc(&in, n_text + 1, 1);
    if (ld_in_done(&in) != 0 || copy == NULL)
        return -1;
    memcpy(copy, text, n_text);
    *answer = copy;
    *n = (size_t)(at - line) + 1; /* with the brace that the caller puts back */
    drop_member(&doc->root, v);
    return 0;
}
