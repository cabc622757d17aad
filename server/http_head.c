/* What a request's head may be: its target, its headers, and how they say where the body ends (RFC 9110, RFC 9112).
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
 * Faults that the library finds by itself never come here (decision 0025 lists them). Cost: two passes over the bytes
 * of the head. */
#include "http_internal.h"

#include <string.h>
#include <strings.h>

#include "checked.h"

#define MAX_TARGET 8000 /* RFC 9110, 4.1: at least so many are to be taken */
#define MAX_HEADERS 100
#define MAX_PARAMETERS 100

/* --- the target ------------------------------------------------------------------------------------------ */

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

/* Before decoding. A target in absolute form has an authority without escapes, so that its path begins at the same
 * place after the decoding. */
static enum target_fault find_target_fault(const char *target, size_t n)
{
    size_t scheme = scheme_length(target);
    if (n > MAX_TARGET)
        return TARGET_TOO_LONG;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)target[i] <= ' ' || target[i] == 0x7f)
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

/* 0..15, or -1. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decoding in place. "%00" and malformed escapes stay as they stand: a NUL would cut the path short and let
 * one name pass for another. Used for the path and for names and values of the query. Returns the new length. */
size_t ld_target_unescape(void *arg, struct MHD_Connection *c, char *s)
{
    (void)arg;
    (void)c;
    char *to = s;
    for (const char *from = s; *from != '\0'; from++) {
        int high = *from == '%' ? hex_digit(from[1]) : -1;
        int low = high >= 0 ? hex_digit(from[2]) : -1;
        if (low >= 0 && (high | low) != 0) {
            *to++ = (char)(high << 4 | low);
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
    return (size_t)(to - s);
}

/* --- headers --------------------------------------------------------------------------------------------- */

/* What a pass over the headers has found. */
struct head {
    const char *end; /* where the next name is to begin */
    bool is_broken;  /* a part is not where it should be, or has bytes that it may not have */
    unsigned n_headers, n_hosts, n_lengths, n_codings;
    const char *coding, *expect;
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

/* Headers that decide about the request as a whole. */
static void note_header(struct head *head, const char *name, size_t n, const char *value)
{
    if (n == strlen("Host") && strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
        head->n_hosts++;
    else if (n == strlen("Expect") && strcasecmp(name, MHD_HTTP_HEADER_EXPECT) == 0)
        head->expect = value;
    else if (n == strlen("Content-Length") && strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0)
        head->n_lengths++;
    else if (n == strlen("Transfer-Encoding") && strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->n_codings++;
        head->coding = value;
    }
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
    note_header(head, name, n_name, value);
    return head->is_broken ? MHD_NO : MHD_YES;
}

/* --- the whole ------------------------------------------------------------------------------------------- */

/* Whether method, target, version and headers are all that came, up to the last byte. */
static void read_head(struct ld_request *r, const struct request_line *line, struct head *head)
{
    size_t n_method = strlen(line->method);
    const char *version = line->target + r->on->n_target + 1;
    *head = (struct head){.end = version + strlen("HTTP/1.1\r\n")};
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
        return refuse_size(r, MHD_HTTP_URI_TOO_LONG, "target_bytes", MAX_TARGET,
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
    bool is_star = strcmp(line->target, "*") == 0;
    return r->on->target_fault == TARGET_FINE && (!is_star || strcmp(line->method, "OPTIONS") == 0);
}

/* False after a reply. In the library's thread, before any hook sees the request. */
bool ld_request_check_head(struct ld_request *r, const struct request_line *line)
{
    struct head head;
    if (!LD_CHECKED)
        return true;
    bool is_old = strcmp(line->version, "HTTP/1.0") == 0;
    read_head(r, line, &head);
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
    if (head.n_hosts > 1 || (head.n_hosts == 0 && !is_old))
        return refuse(r, MHD_HTTP_BAD_REQUEST, "a request has one Host");
    if (!is_implemented(line->method))
        return refuse(r, MHD_HTTP_NOT_IMPLEMENTED, "no resource here knows this method");
    if (!is_target_fine(r, line))
        return refuse(r, MHD_HTTP_BAD_REQUEST, "the target is to be a path, or http:// with an authority and a path");
    if (head.expect != NULL && !is_old && strcasecmp(head.expect, "100-continue") != 0)
        return refuse(r, MHD_HTTP_EXPECTATION_FAILED, "the one expectation met is 100-continue");
    return true;
}
