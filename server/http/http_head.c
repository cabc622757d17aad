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
#include "http/http_impl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_HEADERS 100

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

static void note_once(struct head *head, const char *name)
{
    for (size_t i = 0; i < N_ONCE; i++)
        if (strcasecmp(name, once[i]) == 0) {
            if (head->is_seen[i])
                head->twice = once[i];
            head->is_seen[i] = true;
        }
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
        note_once(head, name);
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
    bool is_star = strcmp(line->target, "*") == 0;
    return r->on->target_fault == TARGET_FINE && (!is_star || strcmp(line->method, "OPTIONS") == 0);
}

/* False after a reply. In the library's thread, before any hook sees the request. */
bool ld_request_check_head(struct ld_request *r, const struct request_line *line)
{
    struct head head;
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
