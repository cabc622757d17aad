/* Writing by rows: see json_rows.h. Members are written in the order of the rows; one that says nothing more than if it
 * were left out is left out. */
#include "json/json_rows.h"

#include <math.h>
#include <string.h>

#include "base/time_text.h"
#include "json/json_routing.h"

static const void *pointer_at(const void *at)
{
    const void *p;
    memcpy(&p, at, sizeof p);
    return p;
}

static int word_at(const void *at)
{
    int word;
    memcpy(&word, at, sizeof word);
    return word;
}

static void write_value(const struct ld_out *out, const struct ld_row *row, const char *base);

/* Whether what is there says no more than if it were left out; of an object its first member tells. */
static bool is_silent(const struct ld_out *out, const struct ld_row *row, const char *base)
{
    const char *at = base + row->at;
    const uint64_t none = 0;
    double x;
    if ((row->how & LD_ROW_HAS) != 0)
        return !*(const bool *)(base + row->more);
    switch (row->kind) {
    case LD_ROW_IGNORED:
        return true;
    case LD_ROW_REAL:
        memcpy(&x, at, sizeof x);
        return (row->how & LD_ROW_OR_ZERO) != 0 ? !(x > 0) : isnan(x);
    case LD_ROW_COUNT:
    case LD_ROW_TIME:
    case LD_ROW_NUMBER:
    case LD_ROW_FLAG:
    case LD_ROW_WORD:
        return memcmp(at, &none, ld_row_size(row->kind)) == 0;
    case LD_ROW_TEXTS:
        return memcmp(base + row->more, &none, sizeof(size_t)) == 0;
    case LD_ROW_VECTOR:
        return pointer_at(at) == NULL || out->dim[row->dim] == 0;
    case LD_ROW_OBJECT:
        return is_silent(out, ((const struct ld_rows *)row->of)->row, at);
    default:
        return pointer_at(at) == NULL;
    }
}

void ld_text_rows(const struct ld_out *out, const struct ld_rows *rows, size_t from, size_t to, const void *base)
{
    for (size_t i = from; i < to; i++) {
        const struct ld_row *row = &rows->row[i];
        if ((row->how & (LD_ROW_OPTIONAL | LD_ROW_HAS)) != 0 && is_silent(out, row, base))
            continue;
        ld_text_key(out->t, row->key);
        write_value(out, row, base);
    }
}

static void write_object(const struct ld_out *out, const struct ld_rows *rows, const char *base)
{
    ld_text_raw(out->t, "{", 1);
    ld_text_rows(out, rows, 0, rows->n, base);
    ld_text_raw(out->t, "}", 1);
}

static void write_tuple(const struct ld_out *out, const struct ld_rows *rows, const char *base)
{
    ld_text_raw(out->t, "[", 1);
    for (size_t i = 0; i < rows->n; i++) {
        ld_text_item(out->t);
        write_value(out, &rows->row[i], base);
    }
    ld_text_raw(out->t, "]", 1);
}

static void write_list(const struct ld_out *out, const struct ld_list *list, const char *items, size_t n)
{
    ld_text_raw(out->t, "[", 1);
    for (size_t i = 0; i < n; i++) {
        const char *item = items + i * list->size;
        ld_text_item(out->t);
        if (list->shape == LD_LIST_TUPLES)
            write_tuple(out, &list->rows, item);
        else if (list->shape == LD_LIST_SHORT && is_silent(out, &list->rows.row[1], item))
            write_value(out, &list->rows.row[0], item);
        else
            write_object(out, &list->rows, item);
    }
    ld_text_raw(out->t, "]", 1);
}

static void write_column(const struct ld_out *out, const struct ld_row *of, const char *items, size_t n)
{
    ld_text_raw(out->t, "[", 1);
    for (size_t i = 0; i < n; i++) {
        ld_text_item(out->t);
        write_value(out, of, items + i * ld_row_size(of->kind));
    }
    ld_text_raw(out->t, "]", 1);
}

void ld_text_time(struct ld_text *t, int64_t at_ms)
{
    char text[32];
    ld_format_time(at_ms, text);
    ld_text_string(t, text);
}

void ld_text_put_time(struct ld_text *t, const char *name, int64_t at_ms)
{
    ld_text_key(t, name);
    ld_text_time(t, at_ms);
}

void ld_text_put_time_or_null(struct ld_text *t, const char *name, bool is_known, int64_t at_ms)
{
    if (is_known)
        ld_text_put_time(t, name, at_ms);
    else
        ld_text_put_string(t, name, NULL);
}

/* What has a number of items. */
static void write_many(const struct ld_out *out, const struct ld_row *row, const void *items, size_t n)
{
    if (row->kind == LD_ROW_TEXTS)
        ld_text_strings(out->t, items, n);
    else if (row->kind == LD_ROW_LIST)
        write_list(out, row->of, items, n);
    else if (((const struct ld_row *)row->of)->kind == LD_ROW_REAL)
        ld_text_vector(out->t, items, n * out->dim[row->dim]);
    else
        write_column(out, row->of, items, n);
}

static void write_value(const struct ld_out *out, const struct ld_row *row, const char *base)
{
    const void *at = base + row->at;
    struct ld_text *t = out->t;
    size_t n;
    switch (row->kind) {
    case LD_ROW_IGNORED:
    case LD_ROW_CHOICE:
    case LD_ROW_OWN:
        break;
    case LD_ROW_TEXT:
        ld_text_string(t, pointer_at(at));
        break;
    case LD_ROW_REAL:
        ld_text_number(t, *(const double *)at);
        break;
    case LD_ROW_COUNT:
        ld_text_count(t, *(const uint64_t *)at);
        break;
    case LD_ROW_NUMBER:
        ld_text_count(t, *(const uint32_t *)at);
        break;
    case LD_ROW_FLAG:
        ld_text_bool(t, *(const bool *)at);
        break;
    case LD_ROW_TIME:
        ld_text_time(t, *(const int64_t *)at);
        break;
    case LD_ROW_WORD:
        ld_text_string(t, kb_word(row->of, word_at(at)));
        break;
    case LD_ROW_VECTOR:
        n = out->dim[row->dim];
        if ((row->how & LD_ROW_OR_NULL) != 0 && n == 0)
            ld_text_lit(t, "null");
        else
            ld_text_vector(t, pointer_at(at), n);
        break;
    case LD_ROW_TEXTS:
    case LD_ROW_LIST:
    case LD_ROW_COLUMN:
        memcpy(&n, base + row->more, sizeof n);
        write_many(out, row, pointer_at(at), n);
        break;
    case LD_ROW_OBJECT:
        write_object(out, row->of, at);
        break;
    case LD_ROW_ELIGIBILITY:
        ld_text_eligibility(t, pointer_at(at));
        break;
    case LD_ROW_VALUE:
        ld_text_lit(t, pointer_at(at));
        break;
    case LD_ROW_SETTINGS:
        ld_text_settings(t, out->settings);
        break;
    }
}
