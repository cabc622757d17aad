/* What a call's path and query say to handlers: numbers, words, ids, names of tenants. Each is read strictly, and
 * refused with what was expected. */
#include "api/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"

/* Strict: no sign, no blanks, no second spelling of a number; 19 digits cannot overflow. A parameter without a value
 * counts as a wrong one, not as absent. */
int ld_call_number(const struct ld_call *c, const char *name, uint64_t *out, struct ld_problem *p)
{
    const struct ld_query *q = ld_route_query(c->route, name);
    const char *text = ld_request_query(c->request, name);
    *out = q->preset;
    if (text == NULL)
        return 0;
    size_t n = strspn(text, "0123456789");
    *out = n > 0 && n <= 19 ? strtoull(text, NULL, 10) : 0;
    if (n > 0 && n <= 19 && text[n] == '\0' && *out >= q->min && *out <= q->max)
        return 0;
    ld_problem_set(p, 400, "query parameter %s: expected a whole number from %llu to %llu", name,
                   (unsigned long long)q->min, (unsigned long long)q->max);
    if (*out > q->max)
        ld_problem_limit(p, name, (double)q->max);
    return -1;
}

/* "a, b, c" of all words but the one that stands for none; cut. */
static void list_words(const struct kb_words *words, char out[256])
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < words->n && n < 256; i++)
        if (words->word[i] != NULL)
            n += (size_t)snprintf(out + n, 256 - n, "%s%s", n > 0 ? ", " : "", words->word[i]);
}

/* Its bit; 0: there is no such word. */
static unsigned bit_of(const struct kb_words *words, const char *text, size_t n)
{
    for (int i = 0; i < words->n; i++)
        if (words->word[i] != NULL && strlen(words->word[i]) == n && memcmp(words->word[i], text, n) == 0)
            return 1u << i;
    return 0;
}

int ld_call_words(const struct ld_call *c, const char *name, const struct kb_words *words, unsigned *out,
                  struct ld_problem *p)
{
    const char *text = ld_request_query(c->request, name);
    char known[256];
    *out = 0;
    for (bool is_last = text == NULL; !is_last;) {
        const size_t n = strcspn(text, ",");
        const unsigned bit = bit_of(words, text, n);
        if (bit == 0) {
            list_words(words, known);
            ld_problem_set(p, 400, "query parameter %s: expected some of %s, with commas between them", name, known);
            return -1;
        }
        *out |= bit;
        is_last = text[n] == '\0';
        text += n + 1;
    }
    return 0;
}

int ld_call_word(const struct ld_call *c, const char *name, const struct kb_words *words, int preset, int *out,
                 struct ld_problem *p)
{
    const char *text = ld_request_query(c->request, name);
    char known[256];
    *out = text != NULL ? kb_word_value(words, text) : preset;
    if (text == NULL || *out >= 0)
        return 0;
    list_words(words, known);
    ld_problem_set(p, 400, "query parameter %s: expected one of %s", name, known);
    return -1;
}

/* As ids are in bodies: UTF-8 without control characters, those of U+0080 to U+009F among them. */
static bool is_id(const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        const unsigned char *at = (const unsigned char *)text + i;
        const size_t length = ld_text_utf8_length(at);
        if (length == 0 || ld_text_is_control(text + i))
            return false;
        i += length;
    }
    return n > 0 && n <= KB_ID_MAX_BYTES;
}

const char *ld_call_id(const struct ld_call *c, const char *name, struct ld_problem *p)
{
    const char *text = ld_request_query(c->request, name);
    if (text != NULL && is_id(text))
        return text;
    if (text == NULL) {
        ld_problem_set(p, 400, "query parameter %s: required", name);
        return NULL;
    }
    ld_problem_set(p, 400, "query parameter %s: expected 1 to %u bytes of UTF-8 without control characters", name,
                   KB_ID_MAX_BYTES);
    if (strlen(text) > KB_ID_MAX_BYTES)
        ld_problem_limit(p, "string_bytes", KB_ID_MAX_BYTES);
    return NULL;
}

void ld_call_rest(const struct ld_call *c, char out[LD_PATH_REST_BYTES])
{
    ld_route_rest(c->route, ld_request_path(c->request), out);
}

bool ld_call_check_name(const char *tenant, struct ld_problem *p)
{
    if (!ld_tenant_name_is_valid(tenant))
        ld_problem_set(p, 400,
                       "a tenant's name is 1 to 64 letters, digits, dots, underscores and dashes, "
                       "the first a letter or digit");
    return p->status == 0;
}

bool ld_call_may_make(const struct ld_call *c, const char *tenant, struct ld_problem *p)
{
    if (ld_call_check_name(tenant, p) && ld_tenants_has(c->server->tenants, tenant))
        ld_problem_set(p, 409, "there is a tenant \"%s\": delete it first, or take another name", tenant);
    return p->status == 0;
}
