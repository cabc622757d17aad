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
 * None of the functions keeps state but the reader's own; two threads may decode two documents at once. */
#include "json/json_util.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/time_text.h"

/* The problem may not hold anything yet: ld_in_done judges by it. */
void ld_in_init(struct ld_in *in, struct ld_doc *doc, struct ld_problem *p)
{
    in->doc = doc;
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

/* Decoders end with it: whatever was reported on the way decides. That includes memory that ran out. */
int ld_in_done(const struct ld_in *in)
{
    return in->p->status == 0 ? 0 : -1;
}

/* --- where the reader stands ------------------------------------------------------------------------- */

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
    char text[256];
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
    const unsigned char c = (unsigned char)s[0], next = c == 0xc2 ? (unsigned char)s[1] : 0xff;
    return c < 0x20 || c == 0x7f || (next < 0xa0 && !in->is_log);
}

/* A number where a string belongs: shown as the string that was meant, where none of its digits is lost. */
void ld_in_fault_unquoted(struct ld_in *in, const struct ld_value *v, const char *what)
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
        ld_in_fault_unquoted(in, v, "ids are strings");
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

/* Items that are numbers have no use for a pointer, and bodies are full of them. */
static void fault_number(struct ld_in *in, const struct ld_value *array, size_t i, double most)
{
    const size_t here = ld_in_item(in, array, i);
    if (in->is_log)
        ld_in_fault(in, NULL, "expected a finite number");
    else
        ld_in_fault(in, NULL, "expected a number >= %.16g and <= %.16g", -most, most);
    ld_in_leave(in, here);
}

/* In a body by the member of the configuration that its dimension comes from. */
static void fault_vector(struct ld_in *in, const struct ld_value *v, uint32_t dim, enum ld_dim which)
{
    const char *dim_name = which == LD_DIM_CONTEXT ? "context_dim" : "arm_dim";
    if (in->is_log)
        ld_in_fault(in, NULL, "expected an array of %u numbers", (unsigned)dim);
    else if (dim == 0)
        ld_in_fault(in, NULL, "the tenant's %s is 0: leave this out, or configure %s", dim_name, dim_name);
    else if (ld_is(v, LD_V_ARRAY))
        ld_in_fault(in, NULL, "expected an array of %u numbers, got %zu: the tenant's %s is %u", (unsigned)dim,
                    ld_n_items(v), dim_name, (unsigned)dim);
    else
        ld_in_fault(in, NULL, "expected an array of %u numbers: the tenant's %s is %u", (unsigned)dim, dim_name,
                    (unsigned)dim);
}

/* The dimension is the tenant's, so a vector of another length is a fault and never padded or cut. O(dim). One block a
 * vector, in the document; NULL for no numbers. */
const double *ld_in_vector_value(struct ld_in *in, const struct ld_value *v, uint32_t dim, enum ld_dim which,
                                 bool may_be_null)
{
    if (may_be_null && ld_is(v, LD_V_NULL))
        return NULL;
    if (!ld_is(v, LD_V_ARRAY) || ld_n_items(v) != dim) {
        fault_vector(in, v, dim, which);
        return NULL;
    }
    const double most = in->is_log ? DBL_MAX : in->doc->magnitude;
    double *x = dim > 0 ? ld_in_alloc(in, dim, sizeof *x) : NULL;
    for (size_t i = 0; x != NULL && i < dim; i++) {
        const struct ld_value *item = ld_item_of(v, i);
        x[i] = ld_is(item, LD_V_NUMBER) ? ld_number_of(item) : (double)NAN;
        if (!(fabs(x[i]) <= most))
            fault_number(in, v, i, most);
    }
    return x;
}
