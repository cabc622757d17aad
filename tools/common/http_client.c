/* The client's only contact with libcurl. A handle keeps its connection alive between requests, so a request costs
 * one write and one read on a warm socket.
 *
 * Requests are never repeated by themselves: select and reward are only safe to repeat with the caller's own ids,
 * which is for the caller to know. Proxies of the environment are left aside for loopback addresses.
 *
 * Errors come in two kinds. No answer at all (no server, a broken connection, a timeout): status 0 and a
 * sentence in `why`. An answer that refuses: its status, and a problem document (RFC 9457) from which
 * lc_reply_explain makes a sentence with the faults by pointer. Nothing here ends the program, except that
 * libcurl cannot start or memory is gone.
 *
 * A client and its reply belong to one thread. The reply's body is overwritten by the client's next request. */
#include "common/http_client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"

/* Of what an answer keeps in memory; pages of /events have 64 MiB at most. What goes to a file has no limit. */
#define LC_MAX_ANSWER ((size_t)256 << 20)

struct lc_client {
    CURL *curl;
    char *base;   /* server URL without a trailing slash */
    char *cacert; /* NULL: the system's */
    char *tenant_header, *key_header;
    struct curl_slist *headers; /* of the request under way */
    struct lc_reply reply;
    struct lc_text url;
    double timeout_s; /* 0: none */
    FILE *out;        /* of a fetch; NULL: into the reply */
    bool is_too_long; /* the last answer */
    size_t (*read)(void *arg, char *buf, size_t n);
    void *read_arg;
    void (*watch)(void *arg, double n_sent);
    void *watch_arg;
};

void lc_http_global_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* --- set-up ----------------------------------------------------------------------------------------- */

/* "Name: value", malloc'd. libcurl copies what it is given, so the caller frees it. */
static char *header(const char *name, const char *value)
{
    struct lc_text t = {0};
    lc_text_printf(&t, "%s: %s", name, value);
    return t.data;
}

/* NULL is skipped. Without memory the server misses a header and says so, which is good enough for a tool. */
static void append_header(struct lc_client *c, const char *line)
{
    struct curl_slist *next = line != NULL ? curl_slist_append(c->headers, line) : NULL;
    if (next != NULL)
        c->headers = next;
}

/* "Expect:" without a value switches off the 100-continue round trip. "Content-Type:" without a value keeps libcurl
 * from adding its own. */
static void make_headers(struct lc_client *c, const char *type)
{
    char *content = header("Content-Type", type != NULL ? type : "");
    curl_slist_free_all(c->headers);
    c->headers = NULL;
    append_header(c, type != NULL ? content : "Content-Type:");
    append_header(c, "Expect:");
    append_header(c, c->key_header);
    append_header(c, c->tenant_header);
    free(content);
}

/* libcurl: a piece of the answer. Called for each piece; a return other than size * n would break the transfer off, as
 * it does when the file takes no more, or the answer is more than a server of ours sends. */
static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct lc_client *c = arg;
    long status = 0;
    curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    if (c->out != NULL && status >= 200 && status < 300)
        return fwrite(data, 1, size * n, c->out);
    if (c->reply.body.n + size * n > LC_MAX_ANSWER) {
        c->is_too_long = true;
        return 0;
    }
    lc_text_put(&c->reply.body, data, size * n);
    return size * n;
}

/* libcurl: wants the next piece of a streamed body. 0 ends the body, CURL_READFUNC_ABORT breaks the request off. */
static size_t on_read(char *buf, size_t size, size_t n, void *arg)
{
    struct lc_client *c = arg;
    size_t got = c->read(c->read_arg, buf, size * n);
    return got == LC_READ_FAILED ? CURL_READFUNC_ABORT : got;
}

/* By the text of the URL: names that resolve to loopback otherwise are the user's own affair. A proxy in front of one's
 * own machine is never meant. */
static bool is_loopback(const char *url)
{
    return strstr(url, "://127.") != NULL || strstr(url, "://localhost") != NULL || strstr(url, "://[::1]") != NULL;
}

/* What holds for every request; curl_easy_reset brings the handle back here (the connection survives). NOSIGNAL:
 * timeouts must not come as signals in a program with threads. */
static void base_options(struct lc_client *c)
{
    curl_easy_reset(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c->curl, CURLOPT_USERAGENT, "laplacectl");
    curl_easy_setopt(c->curl, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    curl_easy_setopt(c->curl, CURLOPT_TIMEOUT_MS, (long)(c->timeout_s * 1000.0));
    curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, (void *)c);
    if (c->cacert != NULL)
        curl_easy_setopt(c->curl, CURLOPT_CAINFO, c->cacert);
    if (is_loopback(c->base))
        curl_easy_setopt(c->curl, CURLOPT_PROXY, "");
}

/* Texts of s are copied: the client may outlive it. No connection is made before the first request. */
struct lc_client *lc_client_new(const struct lc_session *s, const char *tenant)
{
    struct lc_client *c = lc_alloc(1, sizeof *c);
    struct lc_text bearer = {0};
    c->curl = curl_easy_init();
    if (c->curl == NULL) {
        lc_fail("libcurl cannot be started");
        exit(1);
    }
    c->base = lc_copy(s->server);
    for (size_t n = strlen(c->base); n > 0 && c->base[n - 1] == '/'; n--)
        c->base[n - 1] = '\0';
    c->cacert = s->cacert != NULL ? lc_copy(s->cacert) : NULL;
    c->timeout_s = s->timeout_s;
    lc_text_printf(&bearer, "Bearer %s", s->key != NULL ? s->key : "");
    c->key_header = s->key != NULL ? header("Authorization", bearer.data) : NULL;
    c->tenant_header = tenant != NULL ? header("Laplaced-Tenant", tenant) : NULL;
    lc_text_close(&bearer);
    return c;
}

void lc_client_free(struct lc_client *c)
{
    if (c == NULL)
        return;
    curl_slist_free_all(c->headers);
    curl_easy_cleanup(c->curl);
    lc_text_close(&c->reply.body);
    lc_text_close(&c->url);
    free(c->base);
    free(c->cacert);
    free(c->tenant_header);
    free(c->key_header);
    free(c);
}

/* --- requests --------------------------------------------------------------------------------------- */

/* What can be done about a certificate is said first: libraries differ in how they put it. */
static void explain_failure(struct lc_client *c, CURLcode rc, const char *text)
{
    if (c->is_too_long)
        snprintf(c->reply.why, sizeof c->reply.why, "%.80s: an answer of more than 256 MiB", c->base);
    else if (rc == CURLE_PEER_FAILED_VERIFICATION)
        snprintf(c->reply.why, sizeof c->reply.why,
                 "%.80s: the server's certificate is not trusted; name its authority by --cacert FILE (%.80s)", c->base,
                 text);
    else if (rc == CURLE_SSL_CACERT_BADFILE)
        snprintf(c->reply.why, sizeof c->reply.why, "%.200s: no certificates in PEM can be read there (--cacert)",
                 c->cacert != NULL ? c->cacert : "the system's certificates");
    else
        snprintf(c->reply.why, sizeof c->reply.why, "%.80s: %.150s", c->base, text);
}

/* Of the answer, cut to the buffer; "" where it has none. */
static void read_header(struct lc_client *c, const char *name, char value[24])
{
    struct curl_header *found;
    const bool is_there = curl_easy_header(c->curl, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK;
    snprintf(value, 24, "%s", is_there ? found->value : "");
}

/* Sends what was prepared; transport errors become a sentence that names the server. `detail` lives in this frame, so
 * libcurl is made to forget it before the return. A status of 0 stays when no answer came, and whether the server has
 * carried the request out is then not known. */
static const struct lc_reply *perform(struct lc_client *c)
{
    char detail[CURL_ERROR_SIZE] = "";
    long status = 0;
    lc_text_clear(&c->reply.body);
    c->is_too_long = false;
    c->reply.why[0] = '\0';
    curl_easy_setopt(c->curl, CURLOPT_URL, c->url.data);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, detail);
    CURLcode rc = curl_easy_perform(c->curl);
    curl_easy_setopt(c->curl, CURLOPT_ERRORBUFFER, NULL);
    if (rc == CURLE_OK)
        curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
    else
        explain_failure(c, rc, detail[0] != '\0' ? detail : curl_easy_strerror(rc));
    read_header(c, "Laplaced-Seq", c->reply.seq);
    read_header(c, "Laplaced-Digest", c->reply.digest);
    c->reply.status = (int)status;
    return &c->reply;
}

/* libcurl calls it at every move, and once a second where nothing moves. */
static int on_move(void *arg, curl_off_t n_wanted, curl_off_t n_got, curl_off_t n_to_send, curl_off_t n_sent)
{
    const struct lc_client *c = arg;
    (void)n_wanted;
    (void)n_got;
    (void)n_to_send;
    c->watch(c->watch_arg, (double)n_sent);
    return 0;
}

/* The handle is reset before each request, so that nothing of the last one (body, upload) is left over. */
static void prepare(struct lc_client *c, const char *method, const char *path, const char *type)
{
    base_options(c);
    make_headers(c, type);
    lc_text_clear(&c->url);
    lc_text_printf(&c->url, "%s%s", c->base, path);
    curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, c->headers);
    curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
    if (c->watch == NULL)
        return;
    curl_easy_setopt(c->curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFOFUNCTION, on_move);
    curl_easy_setopt(c->curl, CURLOPT_XFERINFODATA, (void *)c);
}

/* POSTFIELDS makes libcurl think of POST; the method is set after it by CUSTOMREQUEST in `prepare`. The body is
 * borrowed until the return and not copied. */
const struct lc_reply *lc_client_send(struct lc_client *c, const char *method, const char *path, const char *type,
                                      const char *body, size_t n)
{
    prepare(c, method, path, body != NULL ? type : NULL);
    if (body != NULL) {
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
        curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body);
    }
    return perform(c);
}

void lc_client_watch(struct lc_client *c, void (*watch)(void *arg, double n_sent), void *arg)
{
    c->watch = watch;
    c->watch_arg = arg;
}

void lc_client_be_patient(struct lc_client *c)
{
    c->timeout_s = 0;
}

const struct lc_reply *lc_client_get(struct lc_client *c, const char *path)
{
    return lc_client_send(c, "GET", path, NULL, NULL, 0);
}

const struct lc_reply *lc_client_json(struct lc_client *c, const char *method, const char *path,
                                      const struct lc_text *body)
{
    return lc_client_send(c, method, path, LC_JSON_TYPE, body->data, body->n);
}

/* A body's length is unknown: libcurl sends it chunked. CUSTOMREQUEST is set again because UPLOAD makes libcurl think
 * of PUT. A stream cannot be sent twice, so a connection that the server has closed meanwhile shows as an error. What a
 * broken transfer has written stays in the file; the reply tells that it is not whole. */
const struct lc_reply *lc_client_exchange(struct lc_client *c, const char *method, const char *path, const char *type,
                                          size_t (*read)(void *arg, char *buf, size_t n), void *arg, FILE *out)
{
    prepare(c, method, path, type);
    c->read = read;
    c->read_arg = arg;
    if (read != NULL) {
        curl_easy_setopt(c->curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(c->curl, CURLOPT_CUSTOMREQUEST, method);
        curl_easy_setopt(c->curl, CURLOPT_READFUNCTION, on_read);
        curl_easy_setopt(c->curl, CURLOPT_READDATA, (void *)c);
    }
    c->out = out;
    const struct lc_reply *r = perform(c);
    c->out = NULL;
    return r;
}

/* --- answers ---------------------------------------------------------------------------------------- */

bool lc_reply_ok(const struct lc_reply *r)
{
    return r->status >= 200 && r->status < 300;
}

struct json_t *lc_reply_json(const struct lc_reply *r)
{
    char why[LC_WHY];
    return lc_json_parse(r->body.data, r->body.n, why);
}

/* The faults of a problem document: "; /user: expected a string". At most eight: after them a reader has seen the
 * pattern. */
static void explain_errors(const struct json_t *errors, struct lc_text *out)
{
    for (size_t i = 0; i < lc_json_length(errors) && i < 8; i++) {
        const char *pointer = lc_json_text(lc_json_at(errors, i), "pointer");
        const char *detail = lc_json_text(lc_json_at(errors, i), "detail");
        lc_text_printf(out, "; %s: %s", pointer != NULL && *pointer != '\0' ? pointer : "the body",
                       detail != NULL ? detail : "refused");
    }
}

/* detail, else title, else the bare status (of a proxy, say); then the faults by pointer. */
void lc_reply_explain(const struct lc_reply *r, struct lc_text *out)
{
    if (r->status == 0) {
        lc_text_puts(out, r->why);
        return;
    }
    struct json_t *doc = lc_reply_json(r);
    const char *detail = lc_json_text(doc, "detail");
    if (detail == NULL)
        detail = lc_json_text(doc, "title");
    lc_text_printf(out, "HTTP %d", r->status);
    if (detail != NULL)
        lc_text_printf(out, ": %s", detail);
    explain_errors(lc_json_get(doc, "errors"), out);
    lc_json_free(doc);
}

int lc_reply_fail(const struct lc_reply *r, const char *what)
{
    struct lc_text t = {0};
    lc_reply_explain(r, &t);
    lc_fail("%s: %s", what, t.data);
    lc_text_close(&t);
    return 1;
}

/* Indenting goes through a parse; an answer that is no JSON shows as it came, but for control characters. A disk or
 * pipe that takes no more output makes the status 1. */
int lc_reply_print(const struct lc_session *s, const struct lc_reply *r, const char *what)
{
    struct lc_text pretty = {0}, shown = {0};
    if (!lc_reply_ok(r))
        return lc_reply_fail(r, what);
    if (r->body.n == 0)
        return 0;
    struct json_t *doc = s->is_json ? NULL : lc_reply_json(r);
    lc_json_write(doc, true, &pretty);
    if (!s->is_json)
        lc_text_shown(&shown, doc != NULL ? pretty.data : r->body.data, true);
    puts(s->is_json ? r->body.data : shown.data);
    lc_text_close(&pretty);
    lc_text_close(&shown);
    lc_json_free(doc);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* Unreserved characters of RFC 3986 pass, all others are encoded. */
void lc_path_segment(struct lc_text *out, const char *segment)
{
    char *encoded = curl_easy_escape(NULL, segment, 0);
    if (encoded == NULL)
        lc_out_of_memory(1, strlen(segment));
    lc_text_puts(out, encoded);
    curl_free(encoded);
}

/* A path needs a name, and no answer tells what a server's --default-tenant is called. */
const char *lc_tenant_name(const struct lc_session *s)
{
    return s->tenant != NULL ? s->tenant : "default";
}

struct lc_text lc_tenant_path(const char *name, const char *rest)
{
    struct lc_text path = {0};
    lc_text_puts(&path, "/tenants/");
    lc_path_segment(&path, name);
    lc_text_puts(&path, rest);
    return path;
}
