/* Problem documents: see problem.h. The tables below are the only place where a code of the core meets an HTTP
 * status. Texts may hold what a client sent: they are cut at a character's boundary, never inside one.
 *
 * {"type": "/problems/bad-request", "title": "Bad Request", "status": 400, "detail": "...",
 *  "limit": "candidates", "max": 1024,
 *  "errors": [{"pointer": "/context/1", "detail": "expected a finite number"}], "more_errors": 3}
 *
 * Every problem has a type of its own, the path of a page that tells its cause and its mend (docs/ERRORS.md, decision
 * 0056). A status with one cause has one type; where a status has more, the type tells them apart for programs.
 *
 * The tables are short and searched from the front: problems are not the hot path. Nothing here allocates but
 * ld_problem_json, so that a problem can be set when memory is out. */
#include "base/problem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* KB_ENOTPD, KB_ECORRUPT and KB_EVERSION are ours to have prevented, hence 500; those that time may cure are 503. */
static const struct {
    int rc, status;
} status_of[] = {
    {KB_OK, 200},           {KB_ENOMEM, 503}, /* may pass: the client may try again */
    {KB_EINVAL, 400},       {KB_ENOTPD, 500},     {KB_ENOTFOUND, 404}, {KB_EEXIST, 409}, {KB_ECONFLICT, 409},
    {KB_EUNSUPPORTED, 422}, {KB_ELIMIT, 503},     {KB_EGONE, 410},     {KB_EBUSY, 503},  {KB_ECORRUPT, 500},
    {KB_EVERSION, 500},     {KB_ECANCELLED, 503}, {KB_EFULL, 507},     {KB_ERANGE, 400},
};

/* What a status means where nothing more is known of it. slug NULL: the status is none of a problem's. */
static const struct {
    int status;
    const char *title, *slug;
} titles[] = {
    {200, "OK", NULL},
    {201, "Created", NULL},
    {204, "No Content", NULL},
    {400, "Bad Request", "/problems/bad-request"},
    {401, "Unauthorized", "/problems/unauthorized"},
    {403, "Forbidden", "/problems/forbidden"},
    {404, "Not Found", NULL}, /* each has a type of its own, below */
    {405, "Method Not Allowed", "/problems/method-not-allowed"},
    {408, "Request Timeout", "/problems/request-timeout"},
    {409, "Conflict", "/problems/conflict"},
    {410, "Gone", "/problems/reward-window-passed"},
    {411, "Length Required", NULL},
    {413, "Content Too Large", "/problems/content-too-large"},
    {414, "URI Too Long", "/problems/uri-too-long"},
    {415, "Unsupported Media Type", "/problems/unsupported-media-type"},
    {417, "Expectation Failed", "/problems/expectation-failed"},
    {422, "Unprocessable Content", "/problems/configuration-refused"},
    {429, "Too Many Requests", "/problems/rate-limited"},
    {431, "Request Header Fields Too Large", "/problems/headers-too-large"},
    {500, "Internal Server Error", "/problems/internal-error"},
    {501, "Not Implemented", "/problems/not-implemented"},
    {503, "Service Unavailable", "/problems/unavailable"},
    {505, "HTTP Version Not Supported", NULL},
    {507, "Insufficient Storage", "/problems/insufficient-storage"},
};

/* What a program may want to tell apart within a status. */
static const struct {
    int status;
    const char *slug;
} types[LD_N_PROBLEM_TYPES] = {
    [LD_NO_TENANT] = {404, "/problems/no-tenant"},
    [LD_NO_DECISION] = {404, "/problems/no-decision"},
    [LD_NO_ARM] = {404, "/problems/no-arm"},
    [LD_NO_USER] = {404, "/problems/no-user"},
    [LD_NO_KEY] = {404, "/problems/no-key"},
    [LD_NO_EVALUATION] = {404, "/problems/no-evaluation"},
    [LD_NO_VERIFICATION] = {404, "/problems/no-verification"},
    [LD_NO_METRIC] = {422, "/problems/no-metric"},
    [LD_NO_ROUTE] = {404, "/problems/no-route"},
    [LD_TENANT_NOT_NAMED] = {400, "/problems/tenant-not-named"},
    [LD_OPENING_FAILED] = {500, "/problems/tenant-not-opened"},
};

/* The error list is left as it is: its 13 KiB are written only when faults are found. n_errors says how many slots
 * are valid. */
void ld_problem_init(struct ld_problem *p)
{
    p->status = 0;
    p->type = LD_PROBLEM_OF_STATUS;
    p->detail[0] = '\0';
    p->retry_after_s = 0;
    p->limit = NULL;
    p->max = 0;
    p->n_errors = 0;
    p->n_more = 0;
}

/* Takes away the start of a character that was cut off at the end of s. Looks at three bytes at most, since no
 * character of UTF-8 has more than three after its first. Text that is no UTF-8 anyway stays as it is, and is mended
 * when it is written (text.c). */
static void trim_cut_character(char *s)
{
    size_t n = strlen(s), back = 0;
    while (back < n && back < 3 && ((unsigned char)s[n - 1 - back] & 0xc0) == 0x80)
        back++;
    if (back == n)
        return;
    unsigned char lead = (unsigned char)s[n - 1 - back];
    size_t want = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc0 ? 1 : 0;
    if (want > back)
        s[n - 1 - back] = '\0';
}

/* vsnprintf returns what it would have written: more than fits means that it was cut. */
__attribute__((format(printf, 3, 0))) static void print_cut(char *out, size_t cap, const char *fmt, va_list args)
{
    int n = vsnprintf(out, cap, fmt, args);
    if (n >= 0 && (size_t)n >= cap)
        trim_cut_character(out);
}

/* Every 503 asks for another try in a second: commits that failed and queues that are full both pass in about that
 * time. A later 503 does not replace an earlier 400: what was wrong with the body stays wrong when memory comes back.
 */
__attribute__((format(printf, 4, 0))) static void set(struct ld_problem *p, int status, enum ld_problem_type type,
                                                      const char *fmt, va_list args)
{
    if (p->status != 0)
        return;
    print_cut(p->detail, sizeof p->detail, fmt, args);
    p->status = status;
    p->type = type;
    if (status == 503)
        p->retry_after_s = 1;
}

void ld_problem_set(struct ld_problem *p, int status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set(p, status, LD_PROBLEM_OF_STATUS, fmt, args);
    va_end(args);
}

void ld_problem_set_as(struct ld_problem *p, enum ld_problem_type type, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set(p, types[type].status, type, fmt, args);
    va_end(args);
}

/* Cut to what a valid name may have. */
void ld_problem_no_tenant(struct ld_problem *p, const char *name)
{
    ld_problem_set_as(p, LD_NO_TENANT, "there is no tenant \"%.64s\"", name);
}

/* The pointer is cut like a text when a body nests long keys: it is for people to find the place. A status that was
 * set before stays, and so does its detail: the fault is listed below it. Beyond the 32 that are kept, faults are
 * counted, so that the sender knows how much is left. */
void ld_problem_add(struct ld_problem *p, const char *pointer, const char *fmt, ...)
{
    ld_problem_set(p, 400, "the body does not fit the schema");
    if (p->n_errors == LD_PROBLEM_MAX_ERRORS) {
        p->n_more++;
        return;
    }
    struct ld_problem_error *e = &p->errors[p->n_errors++];
    (void)snprintf(e->pointer, sizeof e->pointer, "%s", pointer);
    if (strlen(pointer) >= sizeof e->pointer)
        trim_cut_character(e->pointer);
    va_list args;
    va_start(args, fmt);
    print_cut(e->detail, sizeof e->detail, fmt, args);
    va_end(args);
}

void ld_problem_limit(struct ld_problem *p, const char *name, double max)
{
    if (p->limit != NULL)
        return;
    p->limit = name;
    p->max = max;
}

/* A code that the table does not know is a fault of ours: 500. The test walks KB_ERR_MAP, so none is missing.
 * KB_EBUSY reaches it only when waiting for the batch did not help. */
int ld_problem_status(int rc)
{
    for (size_t i = 0; i < sizeof status_of / sizeof *status_of; i++)
        if (status_of[i].rc == rc)
            return status_of[i].status;
    return 500;
}

/* The message becomes both the detail and, when it names a place, the one entry of the list. Pointers of the core are
 * taken for pointers into the body; where the body is an array, the caller puts the item's index before them or
 * leaves them out. What the core does not find by its name is a decision or an arm. */
void ld_problem_from_core(struct ld_problem *p, int rc, const struct kb_errmsg *msg)
{
    const char *pointer = msg != NULL ? msg->pointer : "";
    const char *text = msg != NULL && msg->text[0] != '\0' ? msg->text : kb_strerror(rc);
    if (rc == KB_ENOTFOUND)
        ld_problem_set_as(p, strcmp(pointer, "/decision") == 0 ? LD_NO_DECISION : LD_NO_ARM, "%s", text);
    ld_problem_set(p, ld_problem_status(rc), "%s", text);
    if (pointer[0] != '\0')
        ld_problem_add(p, pointer, "%s", text);
}

/* Reason phrases of RFC 9110; the wording of a problem's title must not vary between occurrences (RFC 9457, 3.1.3).
 * Static text, never NULL. */
const char *ld_status_title(int status)
{
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status)
            return titles[i].title;
    return "Unknown Status";
}

/* A relative reference, resolved against the server's own address, where it is a page (api_pages.c). */
const char *ld_problem_type(int status, enum ld_problem_type type)
{
    if (type != LD_PROBLEM_OF_STATUS)
        return types[type].slug;
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (titles[i].status == status && titles[i].slug != NULL)
            return titles[i].slug;
    return "about:blank";
}

/* Those that were kept, in the order in which they were found. */
static void put_errors(struct ld_text *t, const struct ld_problem *p)
{
    ld_text_key(t, "errors");
    ld_text_lit(t, "[");
    for (size_t i = 0; i < p->n_errors; i++) {
        ld_text_item(t);
        ld_text_lit(t, "{");
        ld_text_put_string(t, "pointer", p->errors[i].pointer);
        ld_text_put_string(t, "detail", p->errors[i].detail);
        ld_text_lit(t, "}");
    }
    ld_text_lit(t, "]");
}

/* Members in the order of RFC 9457; `limit` with `max`, `errors` and `more_errors` are our extension, present only when
 * there is something to say. The caller frees; NULL makes the reply one without a body (http_reply.c). */
char *ld_problem_json(const struct ld_problem *p, const char *request, size_t *n)
{
    struct ld_text t;
    char instance[80];
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "type", ld_problem_type(p->status, p->type));
    ld_text_put_string(&t, "title", ld_status_title(p->status));
    ld_text_put_count(&t, "status", (uint64_t)p->status);
    ld_text_put_string(&t, "detail", p->detail);
    if (request != NULL) {
        (void)snprintf(instance, sizeof instance, "urn:laplaced:request:%s", request);
        ld_text_put_string(&t, "instance", instance);
    }
    if (p->limit != NULL) {
        ld_text_put_string(&t, "limit", p->limit);
        ld_text_put_number(&t, "max", p->max);
    }
    if (p->n_errors > 0)
        put_errors(&t, p);
    if (p->n_more > 0)
        ld_text_put_count(&t, "more_errors", p->n_more);
    ld_text_lit(&t, "}");
    return ld_text_take(&t, n);
}
