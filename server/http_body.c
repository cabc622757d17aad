/* Request bodies: what the headers announce, the limit, the bytes.
 *
 * A request refused by its headers alone (no key, no such route, too large) has its body read and thrown away before
 * the answer, up to DISCARD_MAX bytes: a socket closed with unread data resets the connection, and the client would
 * see the reset instead of the answer. Clients that ask first (Expect: 100-continue) and those that announce more than
 * that are answered at once.
 *
 * Memory follows what has arrived, not what was announced. A body must arrive at MIN_BYTES_PER_S on the whole, after
 * timeout_s of grace: the library's own timeout counts idle time only, which a byte now and then defeats. */
#include "http_internal.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* Enough for what a client with default settings sends by mistake; reading more than that helps nobody. */
#define DISCARD_MAX ((uint64_t)64 << 20)
#define MIN_BYTES_PER_S 1024
#define FIRST_BODY_BYTES ((size_t)4096)

/* Bytes that the headers announce; UINT64_MAX for a chunked body, 0 without one. */
static uint64_t announced(const struct ld_request *r)
{
    if (ld_request_header(r, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL)
        return UINT64_MAX;
    const char *length = ld_request_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length != NULL ? strtoull(length, NULL, 10) : 0; /* the library has checked the digits */
}

/* 413, to be sent when the rest of the body is out of the way. The reply is set now and queued when the body has
 * ended, see ld_request_begin. */
static void refuse_size(struct ld_request *r)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than the %zu bytes taken here", r->limit);
    ld_reply_problem(r, &p);
    r->is_discarding = true;
}

/* A reply made here is queued now when nothing is to be discarded first, else by the call that ends the body. */
enum MHD_Result ld_request_begin(struct ld_request *r)
{
    struct ld_http *h = r->http;
    uint64_t n = announced(r);
    r->limit = h->hooks.admit(h->hooks.arg, r);
    r->is_discarding = atomic_load(&r->state) == REQUEST_REPLIED;
    if (!r->is_discarding && n != UINT64_MAX && n > r->limit)
        refuse_size(r);
    if (!r->is_discarding || n == 0)
        return MHD_YES;
    bool is_asking = ld_request_header(r, MHD_HTTP_HEADER_EXPECT) != NULL;
    return is_asking || (n != UINT64_MAX && n > DISCARD_MAX) ? ld_request_queue(r) : MHD_YES;
}

/* Room for n more bytes and a NUL. Doubling keeps the copying linear in the length of the body. */
static int grow_body(struct ld_request *r, size_t n)
{
    size_t need = r->n_body + n + 1, cap = r->cap > 0 ? r->cap : FIRST_BODY_BYTES;
    if (need <= r->cap)
        return 0;
    while (cap < need)
        cap *= 2;
    char *body = realloc(r->body, cap);
    if (body == NULL)
        return -1;
    r->body = body;
    r->cap = cap;
    return 0;
}

/* Over the whole time since the headers, so that a burst is not held against a later pause. r->started_us is the
 * moment of the headers. Checked when bytes come: a body that stops altogether ends by the library's timeout for idle
 * connections. */
static bool is_too_slow(const struct ld_request *r)
{
    int64_t allowed_s = (int64_t)r->http->timeout_s + (int64_t)(r->n_received / MIN_BYTES_PER_S);
    return ld_monotonic_us() - r->started_us > allowed_s * 1000000;
}

/* A chunked body is measured as it comes. What exceeds limit + DISCARD_MAX ends the connection without an answer: the
 * library takes none in the middle of a body. */
enum MHD_Result ld_request_collect(struct ld_request *r, const char *data, size_t n)
{
    r->n_received += n;
    if (is_too_slow(r))
        return MHD_NO;
    if (!r->is_discarding && n > r->limit - r->n_body)
        refuse_size(r);
    if (r->is_discarding)
        return r->n_received <= r->limit + DISCARD_MAX ? MHD_YES : MHD_NO;
    if (grow_body(r, n) != 0) {
        ld_reply_status(r, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
        r->is_discarding = true;
        return MHD_YES;
    }
    memcpy(r->body + r->n_body, data, n);
    r->n_body += n;
    r->body[r->n_body] = '\0';
    return MHD_YES;
}
