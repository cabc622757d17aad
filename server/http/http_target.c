/* The target of a request: what it may be, before anything is decoded, and how its path is.
 *
 * A path that two parties may take for two different ones is refused: escapes that are none or stand for a NUL, bytes
 * that are no UTF-8, segments "." and "..". An escaped slash stays a part of its segment all the way to whoever takes a
 * name out of the path (decision 0049). Cost: two passes over the target. */
#include <string.h>
#include <strings.h>

#include "http/http_impl.h"
#include "base/text.h"

#define MAX_PARAMETERS 100

/* "http://" or "https://": its length, else 0. */
static size_t scheme_length(const char *target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++)
        if (strncasecmp(target, schemes[i], strlen(schemes[i])) == 0)
            return strlen(schemes[i]);
    return 0;
}

/* The path of a target, decoded or not: of one in absolute form, as proxies get it, what follows the authority. */
const char *ld_target_path(const char *target)
{
    size_t n = scheme_length(target);
    if (n == 0)
        return target;
    const char *path = target + n + strcspn(target + n, "/");
    return *path == '/' ? path : "/";
}

/* 0..15, or -1. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character that an escape stands for: 1..255; 0 for "%00", -1 where none begins. */
static int escaped(const char *s)
{
    const int high = *s == '%' ? hex_digit(s[1]) : -1, low = high >= 0 ? hex_digit(s[2]) : -1;
    return low >= 0 ? high << 4 | low : -1;
}

/* Whether all of a path's escapes are some, none of them a NUL, and what they stand for is UTF-8. */
static bool is_text(const char *path, size_t n)
{
    unsigned char text[LD_MAX_TARGET + 1], *to = text;
    for (size_t i = 0; i < n; i++) {
        const int c = path[i] == '%' ? escaped(&path[i]) : (unsigned char)path[i];
        if (c <= 0)
            return false;
        *to++ = (unsigned char)c;
        i += path[i] == '%' ? 2 : 0;
    }
    *to = '\0';
    const unsigned char *at = text;
    for (size_t length = 1; *at != '\0' && length > 0; at += length)
        length = ld_text_utf8_length(at);
    return at == to;
}

/* "." and "..", escaped or not: those in front resolve them and those behind may not. As a whole id at the end, and
 * written with escapes alone, they pass: nothing stands behind that could be hidden. */
static bool is_dots(const char *segment, size_t n, bool is_last)
{
    size_t n_dots = 0, n_plain = 0;
    for (size_t i = 0; i < n; i += segment[i] == '%' ? 3 : 1, n_dots++) {
        if (segment[i] != '.' && escaped(&segment[i]) != '.')
            return false;
        n_plain += segment[i] == '.';
    }
    return (n_dots == 1 || n_dots == 2) && (n_plain > 0 || !is_last);
}

static bool is_path_fine(const char *path)
{
    const size_t n = strcspn(path, "?");
    if (!is_text(path, n))
        return false;
    for (size_t at = 0; at < n;) {
        const size_t segment = strcspn(&path[at], "/?");
        if (is_dots(&path[at], segment, at + segment == n))
            return false;
        at += segment + 1;
    }
    return true;
}

/* Before decoding. A target in absolute form has an authority without escapes, so that its path begins at the same
 * place after the decoding. */
static enum target_fault find_target_fault(const char *target, size_t n)
{
    size_t scheme = scheme_length(target);
    if (n > LD_MAX_TARGET)
        return TARGET_TOO_LONG;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)target[i] <= ' ' || target[i] == 0x7f)
            return TARGET_MALFORMED;
    if (!is_path_fine(ld_target_path(target)))
        return TARGET_MALFORMED;
    if (scheme > 0) {
        size_t authority = strcspn(target + scheme, "/?");
        return authority == 0 || memchr(target + scheme, '%', authority) != NULL ? TARGET_MALFORMED : TARGET_FINE;
    }
    return target[0] == '/' || strcmp(target, "*") == 0 ? TARGET_FINE : TARGET_MALFORMED;
}

/* The query of a target is taken away from it, before the library takes it apart, when that would be too much: where
 * its memory ends in the middle of a query the library answers nothing at all (0.9.75). The text lies in its buffer. */
static bool cut_query(char *target)
{
    char *query = strchr(target, '?');
    unsigned n = 0;
    for (const char *p = query; p != NULL; p = strchr(p + 1, '&'))
        n++;
    if (n <= MAX_PARAMETERS)
        return false;
    query[1] = '\0';
    return true;
}

/* The library's call for each request line, with the target as it came. What it says is kept with the connection until
 * the headers are complete. NULL: what a request's slot begins with. */
void *ld_connection_target(void *arg, const char *target, struct MHD_Connection *connection)
{
    struct ld_connection *c = ld_connection_of(connection);
    (void)arg;
    if (c == NULL || target == NULL)
        return NULL;
    (void)ld_connection_enter(c, PHASE_HEAD);
    c->n_target = (uint32_t)strlen(target);
    c->target_fault = find_target_fault(target, c->n_target);
    if (cut_query((char *)(uintptr_t)target))
        c->target_fault = TARGET_TOO_LONG;
    return NULL;
}

/* A path keeps its escapes here: see ld_target_decode. Names and values of the query are decoded in place but for "%00"
 * and malformed escapes; of those that are read here none begins like a target. Returns the new length. */
size_t ld_target_unescape(void *arg, struct MHD_Connection *c, char *s)
{
    char *to = s;
    (void)arg;
    (void)c;
    if (*s == '/' || scheme_length(s) > 0)
        return strlen(s);
    for (const char *from = s; *from != '\0'; from++) {
        const int one = escaped(from);
        *to++ = one > 0 ? (char)one : *from;
        from += one > 0 ? 2 : 0;
    }
    *to = '\0';
    return (size_t)(to - s);
}

/* Decodes a path as far as it keeps its segments: an escaped slash stays "%2F" and an escaped percent sign "%25", for
 * whoever takes a name out of it (ld_route_rest). In place. */
void ld_target_decode(char *path)
{
    char *to = path;
    for (const char *from = path; *from != '\0'; from++) {
        const int one = escaped(from);
        if (one == '/' || one == '%') {
            *to++ = '%';
            *to++ = '2';
            *to++ = one == '/' ? 'F' : '5';
        } else {
            *to++ = one > 0 ? (char)one : *from;
        }
        from += one > 0 ? 2 : 0;
    }
    *to = '\0';
}
