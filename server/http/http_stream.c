/* Answers that are written while they are sent: a buffer between the writer and the library's thread.
 *
 *     writer    appends, and resumes the connection when that sleeps
 *     library   takes what is there; where nothing is, suspends the connection, which then costs no thread
 *
 * While the connection sleeps the client waits for us (PHASE_HANDLED); while it is being written to, it is the client's
 * turn to take what we have (PHASE_ANSWER), and a client that does not is cut by the timer as with any other answer.
 * That a client has left is seen when it is written to.
 *
 * Three references: of the writer, of the response, of the request. The lock of the server is taken before that of a
 * stream. */
#include "http/http_impl.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES ((size_t)16 << 10)

struct ld_stream {
    pthread_mutex_t lock;
    atomic_int refs;
    struct ld_request *request; /* not after `gone` or the end of the response */
    char *data;                 /* [at, n) is to be sent */
    size_t at, n, cap;
    bool is_asleep; /* the connection is suspended */
    bool is_ended, is_gone;
    void (*gone)(void *arg);
    void *arg;
};

void ld_stream_unref(struct ld_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s->data);
    free(s);
}

/* The lock is held. The request is there: its connection waits for this. */
static void wake(struct ld_stream *s)
{
    struct ld_request *r = s->request;
    if (!s->is_asleep)
        return;
    s->is_asleep = false;
    (void)ld_connection_enter(r->on, PHASE_ANSWER);
    ld_lane_resume(r->lane, r->connection);
}

/* The lock is held. */
static void tell_gone(struct ld_stream *s)
{
    if (!s->is_gone && !s->is_ended && s->gone != NULL)
        s->gone(s->arg);
    s->is_gone = true;
}

void ld_stream_abandon(struct ld_stream *s)
{
    pthread_mutex_lock(&s->lock);
    tell_gone(s);
    wake(s);
    pthread_mutex_unlock(&s->lock);
}

/* --- the library's side ------------------------------------------------------------------------------------ */

static size_t take(struct ld_stream *s, char *out, size_t max)
{
    size_t n = s->n - s->at < max ? s->n - s->at : max;
    memcpy(out, s->data + s->at, n);
    s->at += n;
    if (s->at == s->n)
        s->at = s->n = 0;
    s->request->n_answer += n;
    return n;
}

/* In the thread of the connection. A suspended one is asked again when it resumes. */
static ssize_t read_stream(void *arg, uint64_t at, char *out, size_t max)
{
    struct ld_stream *s = arg;
    ssize_t rc = 0;
    (void)at;
    pthread_mutex_lock(&s->lock);
    if (s->is_gone) {
        rc = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (s->at < s->n) {
        s->request->lane->has_moved = true;
        rc = (ssize_t)take(s, out, max);
    } else if (s->is_ended) {
        rc = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        (void)ld_connection_enter(s->request->on, PHASE_HANDLED);
        ld_lane_suspend(s->request->lane, s->request->connection);
        s->is_asleep = true;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

/* The response is gone: sent to its end, or its client is. */
static void close_response(void *arg)
{
    struct ld_stream *s = arg;
    pthread_mutex_lock(&s->lock);
    tell_gone(s);
    s->request = NULL;
    pthread_mutex_unlock(&s->lock);
    ld_stream_unref(s);
}

/* --- the writer's side ------------------------------------------------------------------------------------- */

/* NULL: no memory. The response's reference to s is gone then. */
static struct MHD_Response *response_from(struct ld_stream *s, const char *content_type)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, read_stream, s, close_response);
    if (response == NULL) {
        ld_stream_unref(s);
    } else if (MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) != MHD_YES) {
        MHD_destroy_response(response);
        response = NULL;
    }
    return response;
}

/* References: the writer's, the request's, the response's. */
static struct ld_stream *stream_new(struct ld_request *r, struct MHD_Response **response, const char *content_type)
{
    struct ld_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    atomic_init(&s->refs, 3);
    s->request = r;
    *response = response_from(s, content_type);
    if (*response != NULL)
        return s;
    ld_stream_unref(s);
    ld_stream_unref(s);
    return NULL;
}

struct ld_stream *ld_reply_stream(struct ld_request *r, const char *content_type, void (*gone)(void *arg), void *arg)
{
    struct ld_http *h = r->http;
    struct MHD_Response *response;
    struct ld_stream *s = stream_new(r, &response, content_type);
    if (s == NULL) {
        ld_reply_status(r, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the answer");
        return NULL;
    }
    s->gone = gone;
    s->arg = arg;
    pthread_mutex_lock(&h->lock);
    r->stream = s;
    pthread_mutex_unlock(&h->lock);
    ld_request_finish(r, MHD_HTTP_OK, response, 0);
    return s;
}

/* Without memory the client is told by the end of the connection that the answer is not whole. */
void ld_stream_write(struct ld_stream *s, const char *text, size_t n)
{
    pthread_mutex_lock(&s->lock);
    if (!s->is_gone && s->n + n > s->cap) {
        const size_t cap = 2 * (s->n + n);
        char *data = realloc(s->data, cap);
        if (data != NULL) {
            s->data = data;
            s->cap = cap;
        } else {
            tell_gone(s);
            wake(s);
        }
    }
    if (!s->is_gone) {
        memcpy(s->data + s->n, text, n);
        s->n += n;
        wake(s);
    }
    pthread_mutex_unlock(&s->lock);
}

bool ld_stream_is_sent(struct ld_stream *s)
{
    pthread_mutex_lock(&s->lock);
    const bool is_sent = s->at == s->n;
    pthread_mutex_unlock(&s->lock);
    return is_sent;
}

bool ld_stream_is_gone(struct ld_stream *s)
{
    pthread_mutex_lock(&s->lock);
    const bool is_gone = s->is_gone;
    pthread_mutex_unlock(&s->lock);
    return is_gone;
}

void ld_stream_end(struct ld_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->is_ended = true;
    if (!s->is_gone)
        wake(s);
    pthread_mutex_unlock(&s->lock);
    ld_stream_unref(s);
}
