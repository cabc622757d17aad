/* What holds for every request under /ofrep/: refusals in the form of OFREP, and pages of other origins.
 *
 * A refusal is {"key", "errorCode", "errorDetails"}, where clients of that protocol expect it: they take any status but
 * 200, 304, 400, 401, 403, 404, 429 and 500, and any 400, 404 or 500 without that form, for a broken server. So what
 * has another status here is 400 (the caller's fault) or 500 there. A key with a slash is no tenant's name, and
 * FLAG_NOT_FOUND like any other that is none.
 *
 * A page may read an answer when its origin stands in --cors-origin. Before a request with a key its browser asks by an
 * OPTIONS without one (Fetch, "CORS-preflight"): that is answered before keys are looked at, and tells of nothing that
 * is not public. No cookie is ever read, so `*` opens no more than a key does. */
#include "api/call.h"

#include <stdio.h>
#include <string.h>

#define ROOT "/ofrep/"
#define FLAGS ROOT "v1/evaluate/flags/"

/* --- refusals ----------------------------------------------------------------------------------------------- */

int ld_door_status(int status)
{
    static const int taken[] = {400, 401, 403, 404, 429};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (status == taken[i])
            return status;
    return status >= 500 ? 500 : 400;
}

static char *tell(const struct ld_request *r, const struct ld_problem *p, const char *instance, int *status, size_t *n)
{
    const struct ld_call *c = ld_request_context(r);
    const char *path = ld_request_path(r);
    const char *key = strncmp(path, FLAGS, strlen(FLAGS)) == 0 ? path + strlen(FLAGS) : NULL;
    const char *code = "GENERAL";
    char details[1088];
    *status = ld_door_status(p->status);
    if (p->status == 404 && key != NULL)
        code = "FLAG_NOT_FOUND";
    else if (p->status == 400 && c->flag_code != NULL)
        code = c->flag_code;
    (void)snprintf(details, sizeof details, "%s", p->detail);
    if (p->n_errors > 0)
        (void)snprintf(details, sizeof details, "%s: %s: %s", p->detail, p->errors[0].pointer, p->errors[0].detail);
    return ld_encode_flag_failure(key, code, details, instance, n);
}

/* --- origins ------------------------------------------------------------------------------------------------ */

/* The item that begins at *at, its length in *n; *at moves behind it. NULL at the end. */
static const char *next_origin(const char **at, size_t *n)
{
    const char *item = *at + strspn(*at, ", ");
    *n = strcspn(item, ", ");
    *at = item + *n;
    return *n > 0 ? item : NULL;
}

/* Scheme and authority, as browsers write them: no path, and nothing but what may stand in a header. */
static bool is_origin(const char *text, size_t n)
{
    const char *host = memmem(text, n, "://", 3);
    if (host == NULL || host == text || host + 3 == text + n)
        return false;
    for (const char *p = host + 3; p < text + n; p++)
        if (*p == '/' || *p == '*' || *p == '?' || *p == '#' || *p <= ' ' || *p >= 0x7f)
            return false;
    return strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
}

int ld_origins_check(const char *list, struct ld_message *why)
{
    size_t n;
    for (const char *item; (item = next_origin(&list, &n)) != NULL;)
        if (!(n == 1 && *item == '*') && !is_origin(item, n))
            return ld_fail(why, "--cors-origin: \"%.*s\" is neither * nor an origin such as https://shop.example",
                           (int)n, item);
    return 0;
}

static bool allows(const char *list, const char *origin)
{
    size_t n;
    for (const char *item; (item = next_origin(&list, &n)) != NULL;)
        if ((n == 1 && *item == '*') || (strlen(origin) == n && memcmp(item, origin, n) == 0))
            return true;
    return false;
}

/* --- the door ----------------------------------------------------------------------------------------------- */

static const struct ld_header preflight_headers[] = {
    {"Access-Control-Allow-Origin", NULL},
    {"Vary", "Origin"},
    {"Access-Control-Allow-Methods", "POST"},
    {"Access-Control-Allow-Headers", "authorization, content-type, if-none-match, x-api-key"},
    {"Access-Control-Max-Age", "600"}};
static const struct ld_header page_headers[] = {
    {"Access-Control-Allow-Origin", NULL},
    {"Vary", "Origin"},
    {"Access-Control-Expose-Headers", "etag, retry-after, laplaced-request"}};

_Static_assert(sizeof preflight_headers < sizeof((struct ld_call *)0)->headers, "one is left for the entity tag");

/* The origin's text is copied: the head may go before the answer does. Longer than any origin: it is none of the
 * list's. */
static const char *origin_of(struct ld_call *c)
{
    const char *origin = ld_request_header(c->request, "Origin");
    if (origin == NULL || strlen(origin) >= sizeof c->origin || !allows(c->server->origins, origin))
        return NULL;
    return strcpy(c->origin, origin);
}

static bool enter(struct ld_call *c)
{
    struct ld_request *r = c->request;
    const bool is_odd =
        strcmp(ld_request_method(r), "POST") == 0 && strncmp(ld_request_path(r), FLAGS, strlen(FLAGS)) == 0;
    if (c->route != NULL || is_odd)
        ld_request_tell_by(r, tell);
    const char *origin = origin_of(c);
    if (origin == NULL)
        return false;
    const bool is_asked =
        strcmp(ld_request_method(r), "OPTIONS") == 0 && ld_request_header(r, "Access-Control-Request-Method") != NULL;
    c->n_headers =
        is_asked ? sizeof preflight_headers / sizeof *preflight_headers : sizeof page_headers / sizeof *page_headers;
    memcpy(c->headers, is_asked ? preflight_headers : page_headers, c->n_headers * sizeof *c->headers);
    c->headers[0].value = origin;
    ld_request_add_headers(r, c->headers, c->n_headers);
    if (is_asked)
        ld_reply_allow(r, 204, "POST, OPTIONS");
    return is_asked;
}

const struct ld_door ld_flag_door = {.root = ROOT, .key_header = "X-API-Key", .enter = enter};

void ld_flag_tag(struct ld_call *c)
{
    c->headers[c->n_headers++] = (struct ld_header){"ETag", c->etag};
    ld_request_add_headers(c->request, c->headers, c->n_headers);
}
