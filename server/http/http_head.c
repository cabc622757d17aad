/* What a request's head may be: its target, its headers, and how they say where the body ends (RFC 9110, RFC 9112).
 *
 * A path that may be taken for another one is refused before it is decoded: by escapes that are none or stand for a
 * NUL, by bytes that are no UTF-8, by segments "." and "..". An escaped slash stays in its segment (decision 0049).
 *
 * Two parties that read one stream of bytes differently can be made to disagree about where a request ends, and what
 * one takes for a body is a request to the other. So whatever may be read in two ways is refused here, and its
 * connection closed, before anything else looks at the request. The library reads leniently, in place, and says nothing
 * of what it passed over: a NUL that cut a value short, a line that went on in the next one, blanks before a colon. All
 * of that shows in where it found the parts, which must lie one behind the other with just the separators between them:
 *
 *   METHOD blank TARGET blank VERSION CRLF { NAME colon blanks VALUE CRLF } CRLF
 *
 * This rests on libmicrohttpd 0.9.75 handing out pointers into its buffer; the tests fail at once where it does not.
 * Faults that the library finds by itself never come here (decision 0025 lists them). Cost: two passes over it all. */
#include "http/http_impl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define MAX_HEADERS 100
#define MAX_PARAMETERS 100

/* --- the target ------------------------------------------------------------------------------------------ */

/* "http://" or "https://": its length, else 0. */
static size_t scheme_length(const char *target)
{
    if (strncasecmp(target, "http://", strlen("http://")) == 0)
        return strlen("http://");
    return strncasecmp(target, "https://", strlen("https://")) == 0 ? strlen("https://") : 0;
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

/* Takes the query away before the library takes it apart, when that would be too much: where its memory ends in the
 * middle of a query the library answers nothing at all (0.9.75). */
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

/* For each request line, with the target as it came; noted at the connection until the headers are complete. NULL: what
 * a request's slot begins with. */
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

/* --- headers --------------------------------------------------------------------------------------------- */

/* Headers that are read and can mean one thing only. */
static const char *const once[] = {"Authorization", "Content-Type", "Laplaced-Tenant", "Origin"};
enum { N_ONCE = sizeof once / sizeof *once };

/* What a pass over the headers has found. */
struct head {
    const char *end; /* where the next name is to begin */
    bool is_broken;  /* a part is not where it should be, or has bytes that it may not have */
    unsigned n_headers, n_hosts, n_lengths, n_codings, n_traces;
    bool is_seen[N_ONCE];
    const char *coding, *expect, *twice; /* twice: a header of `once` */
    const char *odd;                     /* of the hooks */
    bool is_odd;
};

/* Characters of a token (RFC 9110, 5.6.2): what names and methods are made of. */
static bool is_token(const char *s, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        bool is_alphanumeric = (s[i] >= '0' && s[i] <= '9') || ((s[i] | 0x20) >= 'a' && (s[i] | 0x20) <= 'z');
        if (!is_alphanumeric && s[i] != '-' && (s[i] == '\0' || strchr(others, s[i]) == NULL))
            return false;
    }
    return n > 0;
}

/* No control characters but tabs. Bytes beyond ASCII are nobody's business. */
static bool is_value(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (((unsigned char)s[i] < ' ' && s[i] != '\t') || s[i] == 0x7f)
            return false;
    return true;
}

static void note_other(struct head *head, const char *name)
{
    for (size_t i = 0; i < N_ONCE; i++)
        if (strcasecmp(name, once[i]) == 0) {
            head->twice = head->is_seen[i] ? once[i] : head->twice;
            head->is_seen[i] = true;
            return;
        }
    head->is_odd |= head->odd != NULL && strchr(head->odd, *name | 0x20) != NULL;
}

/* Headers that decide about the request as a whole. Of expectations the one that cannot be met counts. */
static void note_header(struct head *head, const char *name, const char *value)
{
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
        head->n_hosts++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_EXPECT) == 0)
        head->expect = head->expect == NULL || strcasecmp(value, "100-continue") != 0 ? value : head->expect;
    else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0)
        head->n_lengths++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->n_codings++;
        head->coding = value;
    } else if (strcasecmp(name, "traceparent") == 0)
        head->n_traces++;
    else
        note_other(head, name);
}

/* The library's call for each header, in the order in which they came. A name behind which the value does not follow at
 * once was moved: its line went on in the next one. */
static enum MHD_Result look_at_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t n_name,
                                      const char *value, size_t n_value)
{
    struct head *head = arg;
    (void)kind;
    if (name != head->end || value == NULL || value <= name + n_name || !is_token(name, n_name) ||
        !is_value(value, n_value)) {
        head->is_broken = true;
        return MHD_NO;
    }
    const char *at = name + n_name + 1;
    while (*at == ' ' || *at == '\t')
        at++;
    head->is_broken = at != value;
    head->end = value + n_value + strlen("\r\n");
    head->n_headers++;
    note_header(head, name, value); /* a token: it has no NUL */
    return head->is_broken ? MHD_NO : MHD_YES;
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* Whether method, target, version and headers are all that came, up to the last byte. */
static void read_head(struct ld_request *r, const struct request_line *line, struct head *head)
{
    size_t n_method = strlen(line->method);
    const char *version = line->target + r->on->n_target + 1;
    *head = (struct head){.end = version + strlen("HTTP/1.1\r\n"), .odd = r->http->hooks.odd};
    if (line->target != line->method + n_method + 1 || line->version != version || !is_token(line->method, n_method)) {
        head->is_broken = true;
        return;
    }
    (void)MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, look_at_header, head);
    if (!head->is_broken)
        head->is_broken = head->end + strlen("\r\n") != line->method + r->n_head;
}

/* Why the body's end cannot be told, or NULL. */
static const char *framing_fault(const struct head *head, bool is_old)
{
    if (head->n_lengths + head->n_codings > 1)
        return "a request has one Content-Length or one Transfer-Encoding, not several and not both";
    if (head->n_codings > 0 && is_old)
        return "HTTP/1.0 has no Transfer-Encoding";
    return NULL;
}

static bool is_implemented(const char *method)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(method, methods[i]) == 0)
            return true;
    return false;
}

static bool refuse(struct ld_request *r, int status, const char *detail)
{
    ld_reply_status(r, status, detail);
    return false;
}

static bool refuse_twice(struct ld_request *r, const char *name)
{
    char detail[64];
    snprintf(detail, sizeof detail, "a request has one %s", name);
    return refuse(r, MHD_HTTP_BAD_REQUEST, detail);
}

/* The same for what is too large: limit and max of the problem. */
static bool refuse_size(struct ld_request *r, int status, const char *limit, size_t max, const char *detail)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, status, "%s", detail);
    ld_problem_limit(&p, limit, (double)max);
    ld_reply_problem(r, &p);
    return false;
}

/* Sizes first: they say most to whoever is over them. */
static bool check_sizes(struct ld_request *r, const struct head *head)
{
    const size_t max_head = r->http->connections.max_head;
    if (r->on->target_fault == TARGET_TOO_LONG)
        return refuse_size(r, MHD_HTTP_URI_TOO_LONG, "target_bytes", LD_MAX_TARGET,
                           "a path with its query may have 8000 bytes and 100 parameters");
    if (r->n_head > max_head)
        return refuse_size(r, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "header_bytes", max_head,
                           "the request line and the headers are longer than --max-header");
    if (head->n_headers > MAX_HEADERS)
        return refuse_size(r, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "headers", MAX_HEADERS,
                           "a request may have 100 headers");
    return true;
}

/* "*" stands for the server and goes with OPTIONS alone. */
static bool is_target_fine(const struct ld_request *r, const struct request_line *line)
{
    return r->on->target_fault == TARGET_FINE &&
           (strcmp(line->target, "*") != 0 || strcmp(line->method, "OPTIONS") == 0);
}

/* False after a reply. In the library's thread, before any hook sees the request. */
bool ld_request_check_head(struct ld_request *r, const struct request_line *line)
{
    struct head head;
    bool is_old = strcmp(line->version, "HTTP/1.0") == 0;
    read_head(r, line, &head);
    r->is_odd = head.is_odd;
    const char *fault = framing_fault(&head, is_old);
    if (!check_sizes(r, &head))
        return false;
    if (head.is_broken)
        return refuse(
            r, MHD_HTTP_BAD_REQUEST,
            "the request line or a header is malformed; lines end with CRLF, names are tokens, values have no "
            "control characters and do not go on in a second line");
    if (fault != NULL)
        return refuse(r, MHD_HTTP_BAD_REQUEST, fault);
    if (head.coding != NULL && strcasecmp(head.coding, "chunked") != 0)
        return refuse(r, MHD_HTTP_NOT_IMPLEMENTED, "the one Transfer-Encoding taken is chunked");
    if (head.twice != NULL)
        return refuse_twice(r, head.twice);
    if (head.n_hosts > 1 || (head.n_hosts == 0 && !is_old))
        return refuse(r, MHD_HTTP_BAD_REQUEST, "a request has one Host");
    if (!is_implemented(line->method))
        return refuse(r, MHD_HTTP_NOT_IMPLEMENTED, "no resource here knows this method");
    if (!is_target_fine(r, line))
        return refuse(
            r, MHD_HTTP_BAD_REQUEST,
            "the target is to be a path, or http:// with an authority and a path; its escapes are UTF-8 without "
            "NUL, and no segment is . or ..");
    if (head.expect != NULL && !is_old && strcasecmp(head.expect, "100-continue") != 0)
        return refuse(r, MHD_HTTP_EXPECTATION_FAILED, "the one expectation met is 100-continue");
    if (head.n_traces > 1) /* as if there were none (Trace Context, 3.2.2.5) */
        ld_trace_begin(&r->trace, NULL);
    return true;
}
