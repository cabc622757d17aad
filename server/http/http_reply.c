/* Replies: from structs to the library's responses, handed over from any thread.
 *
 * The reply and the suspension of its connection may cross: the connection's thread suspends it, then moves
 * RUNNING -> SUSPENDED; the replier sets the response, then moves to REPLIED, or leaves the making of it to that thread
 * and moves to LEFT. Whoever comes second sees the other's mark, so that exactly one of them resumes the connection
 * (http.c holds the other half):
 *
 *   reply first:    the callback finds REPLIED and queues the response, or resumes what it has just suspended
 *   suspend first:  the replier finds SUSPENDED and resumes
 *   neither:        the replier finds RUNNING and calls the thread, which looks in its next round (http_lane.c)
 *
 * Without memory for a response there is none (NULL): the connection ends without an answer, as it would if the process
 * had died, and its client does not know what became of the request. So it is with a header that its status asks for.
 *
 * A client that has gone meanwhile changes nothing here: the library reports the request as completed when it notices,
 * which moves it to OVER, and drops its reference; what was left is then made there, or by the replier. */
#include "http/http_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The last of the two references frees; it may be either side's. */
void ld_request_unref(struct ld_request *r)
{
    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    struct ld_http *h = r->http;
    if (r->response != NULL)
        MHD_destroy_response(r->response);
    if (r->stream != NULL)
        ld_stream_unref(r->stream);
    free(r->kept);
    free(r->body);
    ld_body_memory_give(r->memory, &r->n_memory);
    ld_request_drop_spool(r);
    free(r);
    ld_http_let_go(h);
}

/* Gives `response`, with a body of n bytes, to the request unless another has claimed the reply. After the move to
 * REPLIED the request may be gone at any moment, except while it was suspended: then it waits for the resume. And the
 * server, which is why it is held. Returns the state before. */
static int deliver(struct ld_request *r, int status, struct MHD_Response *response, uint64_t n)
{
    if (atomic_exchange(&r->is_claimed, true)) {
        if (response != NULL)
            MHD_destroy_response(response);
        return REQUEST_REPLIED;
    }
    r->status = response != NULL ? status : 0;
    r->response = response;
    r->n_answer = n;
    struct ld_lane *lane = r->lane;
    struct ld_http *h = ld_http_hold(r->http);
    const int before = atomic_exchange(&r->state, REQUEST_REPLIED);
    if (before == REQUEST_SUSPENDED)
        ld_lane_resume(lane, r->connection);
    else
        ld_lane_call(lane);
    ld_http_let_go(h);
    return before;
}

bool ld_request_is_answered(const struct ld_request *r)
{
    return atomic_load(&r->is_claimed);
}

/* Once LEFT is set the request may be gone at any moment, as after a delivery. */
void ld_request_reply_by(struct ld_request *r, void (*then)(void *arg), void *arg)
{
    struct ld_lane *lane = r->lane;
    struct ld_http *h = ld_http_hold(r->http);
    int before = atomic_load(&r->state);
    r->then = then;
    r->then_arg = arg;
    while (before < REQUEST_LEFT && !atomic_compare_exchange_weak(&r->state, &before, REQUEST_LEFT))
        continue;
    if (before == REQUEST_SUSPENDED)
        ld_lane_resume(lane, r->connection);
    else if (before == REQUEST_RUNNING)
        ld_lane_call(lane);
    else
        then(arg);
    ld_http_let_go(h);
}

void ld_response_header(struct MHD_Response **response, const char *name, const char *value)
{
    if (*response == NULL || MHD_add_response_header(*response, name, value) == MHD_YES)
        return;
    MHD_destroy_response(*response);
    *response = NULL;
}

struct MHD_Response *ld_response_of(const char *content_type, char *text, size_t n)
{
    struct MHD_Response *response = NULL;

    if (text == NULL && content_type == NULL)
        return MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (text != NULL && (response = MHD_create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE)) == NULL)
        free(text);
    ld_response_header(&response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type != NULL ? content_type : "text/plain");
    return response;
}

/* The handler's own reply: delivers and drops the handler's reference. is_handed is read before the delivery, after
 * which the request may be gone if nobody else refers to it. */
void ld_request_finish(struct ld_request *r, int status, struct MHD_Response *response, uint64_t n)
{
    bool is_handed = r->is_handed;
    if (is_handed)
        ld_request_drop_spool(r); /* so that whoever is answered finds nothing of it */
    (void)deliver(r, status, response, n);
    if (is_handed)
        ld_request_unref(r);
}

void ld_request_add_headers(struct ld_request *r, const struct ld_header *headers, size_t n)
{
    r->headers = headers;
    r->n_headers = n;
}

void ld_request_tell_by(struct ld_request *r, char *(*tell)(const struct ld_request *r, const struct ld_problem *p,
                                                            const char *instance, int *status, size_t *n))
{
    r->tell = tell;
}

/* The problem as a response with the headers that its status asks for; *n is set to the bytes of its body, *status to
 * that of the answer. */
static struct MHD_Response *problem_response(const struct ld_request *r, const struct ld_problem *p, int *status,
                                             size_t *n)
{
    char id[LD_TRACE_BYTES];
    ld_trace_format(&r->trace, id);
    *n = 0;
    *status = p->status;
    char *text = r->tell != NULL ? r->tell(r, p, id, status, n) : ld_problem_json(p, id, n);
    struct MHD_Response *response =
        ld_response_of(r->tell != NULL ? "application/json" : "application/problem+json", text, *n);
    if (p->retry_after_s > 0) {
        char seconds[16];
        snprintf(seconds, sizeof seconds, "%d", p->retry_after_s);
        ld_response_header(&response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
    }
    if (p->status == MHD_HTTP_UNAUTHORIZED)
        ld_response_header(&response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer realm=\"laplaced\"");
    return response;
}

/* A long text goes into a file, so that clients that do not read cost no memory (http_file.c); where there is none to
 * be had it counts as a body. */
static void reply_text(struct ld_request *r, int status, const char *content_type, const struct ld_reply *reply)
{
    char *text = reply->text;
    const size_t n = reply->n;

    if (n > LD_ANSWER_BYTES && ld_reply_long(r, status, content_type, text, n)) {
        free(text);
    } else if (n > LD_ANSWER_BYTES && !ld_body_memory_take(r->memory, &r->n_memory, r->cap + n)) {
        free(text);
        ld_request_refuse_memory(r);
    } else {
        struct MHD_Response *response = ld_response_of(content_type, text, n);
        for (size_t i = 0; i < reply->n_headers; i++)
            ld_response_header(&response, reply->headers[i].name, reply->headers[i].value);
        ld_request_finish(r, status, response, n);
    }
}

static void reply_constant(struct ld_request *r, int status, const char *content_type, const struct ld_reply *reply)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->n, (void *)(uintptr_t)reply->constant, MHD_RESPMEM_PERSISTENT);
    ld_response_header(&response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    for (size_t i = 0; i < reply->n_headers; i++)
        ld_response_header(&response, reply->headers[i].name, reply->headers[i].value);
    ld_request_finish(r, status, response, reply->n);
}

static void reply_nothing(struct ld_request *r, int status, const struct ld_reply *reply)
{
    struct MHD_Response *response = ld_response_of(NULL, NULL, 0);
    for (size_t i = 0; i < reply->n_headers; i++)
        ld_response_header(&response, reply->headers[i].name, reply->headers[i].value);
    ld_request_finish(r, status, response, 0);
}

/* Callable from any thread, once per request. Cost: building the response; the library copies nothing. A missing text
 * means that the encoder had no memory: told as such. */
void ld_reply(struct ld_request *r, const struct ld_reply *reply)
{
    const char *content_type = reply->content_type != NULL ? reply->content_type : "application/json";
    const int status = reply->status != 0 ? reply->status : MHD_HTTP_OK;
    if (reply->problem != NULL && reply->problem->status != 0)
        ld_reply_problem(r, reply->problem);
    else if (status == MHD_HTTP_NO_CONTENT || status == MHD_HTTP_NOT_MODIFIED)
        reply_nothing(r, status, reply);
    else if (reply->constant != NULL)
        reply_constant(r, status, content_type, reply);
    else if (reply->text == NULL)
        ld_reply_status(r, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the answer");
    else
        reply_text(r, status, content_type, reply);
}

/* The problem is read during the call only. */
void ld_reply_problem(struct ld_request *r, const struct ld_problem *p)
{
    int status;
    size_t n;
    struct MHD_Response *response = problem_response(r, p, &status, &n);
    ld_request_finish(r, status, response, n);
}

/* For refusals that have no fields to name. Every 503 asks for another try after a second. */
void ld_reply_status(struct ld_request *r, int status, const char *detail)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, status, "%s", detail);
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        p.retry_after_s = 1;
    ld_reply_problem(r, &p);
}

/* --- without a body ---------------------------------------------------------------------------------------- */

/* RFC 9110 wants Allow in every 405, and OPTIONS answers with the same header and no body. */
void ld_reply_allow(struct ld_request *r, int status, const char *allow)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, status, "this resource answers to %s", allow);
    size_t n = 0;
    struct MHD_Response *response =
        status == MHD_HTTP_METHOD_NOT_ALLOWED ? problem_response(r, &p, &status, &n) : ld_response_of(NULL, NULL, 0);
    ld_response_header(&response, MHD_HTTP_HEADER_ALLOW, allow);
    ld_request_finish(r, status, response, n);
}

/* For what has to be said where the library takes no answer: in the middle of a body, and before there is a request. */
void ld_http_tell(int fd, int status, const char *detail)
{
    char text[1024], id[LD_TRACE_BYTES];
    struct ld_trace trace;
    struct ld_problem p;
    size_t n = 0;
    ld_problem_init(&p);
    ld_problem_set(&p, status, "%s", detail);
    ld_trace_begin(&trace, NULL);
    ld_trace_format(&trace, id);
    char *body = ld_problem_json(&p, id, &n);
    int length = snprintf(text, sizeof text,
                          "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %zu\r\n"
                          "Laplaced-Request: %s\r\nConnection: close\r\n%s\r\n%s",
                          status, ld_status_title(status), n, id,
                          status == MHD_HTTP_SERVICE_UNAVAILABLE ? "Retry-After: 1\r\n" : "", body != NULL ? body : "");
    if (body != NULL && length < (int)sizeof text)
        (void)send(fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
    free(body);
}

/* Never drops the handler's reference: the handler still has the request, and will reply into the void, at once where
 * it has left that to the connection. */
void ld_request_force(struct ld_request *r)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, MHD_HTTP_SERVICE_UNAVAILABLE, "the server stopped before the answer was ready");
    p.retry_after_s = 1;
    int status;
    size_t n;
    struct MHD_Response *response = problem_response(r, &p, &status, &n);
    if (deliver(r, status, response, n) == REQUEST_LEFT)
        r->then(r->then_arg);
}

/* The response's reference goes to the library. Every answer has the request's id. While quiescing, the client is told
 * that this connection ends. */
enum MHD_Result ld_request_queue(struct ld_request *r)
{
    if (!ld_connection_enter(r->on, PHASE_ANSWER))
        return MHD_NO;
    if (r->is_last || atomic_load(&r->http->is_quiescing))
        ld_response_header(&r->response, MHD_HTTP_HEADER_CONNECTION, "close");
    char id[LD_TRACE_BYTES];
    ld_trace_format(&r->trace, id);
    ld_response_header(&r->response, "Laplaced-Request", id);
    for (size_t i = 0; i < r->n_headers; i++)
        ld_response_header(&r->response, r->headers[i].name, r->headers[i].value);
    struct ld_header mark;
    if (r->http->hooks.mark != NULL && r->http->hooks.mark(r->http->hooks.arg, r, &mark) && r->response != NULL &&
        MHD_get_response_header(r->response, mark.name) == NULL)
        ld_response_header(&r->response, mark.name, mark.value);
    if (r->response == NULL) {
        r->status = 0;
        return MHD_NO;
    }
    enum MHD_Result rc = MHD_queue_response(r->connection, (unsigned)r->status, r->response);
    MHD_destroy_response(r->response);
    r->response = NULL;
    return rc;
}
