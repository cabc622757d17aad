/* Request bodies: what the headers announce, the limit, the bytes.
 *
 * A request refused by its headers alone (no key, no such route, too large) has its body read and thrown away before
 * the answer, up to DISCARD_MAX bytes: a socket closed with unread data resets the connection, and the client would
 * see the reset instead of the answer. Clients that ask first (Expect: 100-continue) and those that announce more than
 * that are answered at once.
 *
 * A spooled body (ld_request_spool) goes to a file piece by piece as it comes: whole logs and databases do not fit into
 * memory. The pieces are written in the thread that reads them; they land in the page cache, so a slow disk is felt by
 * the connections of that thread only when the cache is full.
 *
 * Memory follows what has arrived, not what was announced. How fast it is to arrive: http_connection.c. */
#include "http/http_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/metrics.h"

/* Enough for what a client with default settings sends by mistake; reading more than that helps nobody. */
#define DISCARD_MAX ((uint64_t)64 << 20)
#define FIRST_BODY_BYTES ((size_t)4096)

/* --- memory of all of them ------------------------------------------------------------------------------- */

static size_t beyond_free(size_t n)
{
    return n > LD_BODY_FREE_BYTES ? n - LD_BODY_FREE_BYTES : 0;
}

/* One atomic addition, and one subtraction when it was too much: two that come at once may both be refused where one
 * would have fitted, never both taken where one would not. */
bool ld_body_memory_take(struct ld_body_memory *m, size_t *taken, size_t n)
{
    const size_t want = beyond_free(n);

    if (m == NULL || want <= *taken)
        return true;
    const size_t more = want - *taken;
    if (atomic_fetch_add(&m->used, more) + more > m->max && m->max > 0) {
        atomic_fetch_sub(&m->used, more);
        return false;
    }
    *taken = want;
    return true;
}

void ld_body_memory_give(struct ld_body_memory *m, size_t *taken)
{
    if (m != NULL)
        atomic_fetch_sub(&m->used, *taken);
    *taken = 0;
}

bool ld_body_memory_has(const struct ld_body_memory *m, size_t n)
{
    const size_t want = beyond_free(n), used = m != NULL ? atomic_load(&m->used) : 0;

    return m == NULL || m->max == 0 || want == 0 || (used <= m->max && want <= m->max - used);
}

/* --- the head -------------------------------------------------------------------------------------------- */

/* Bytes that the headers announce; UINT64_MAX for a chunked body, 0 without one. */
static uint64_t announced(const struct ld_request *r)
{
    if (ld_request_header(r, MHD_HTTP_HEADER_TRANSFER_ENCODING) != NULL)
        return UINT64_MAX;
    const char *length = ld_request_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length != NULL ? strtoull(length, NULL, 10) : 0; /* the library has checked the digits */
}

/* What comes from here on is thrown away; the reply stands. */
static void discard_rest(struct ld_request *r)
{
    r->is_discarding = true;
    r->n_wanted = r->n_received;
}

/* 413, to be sent when the rest of the body is out of the way. The reply is set now and queued when the body has
 * ended, see ld_request_begin. */
static void refuse_size(struct ld_request *r)
{
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, MHD_HTTP_CONTENT_TOO_LARGE, "the body is larger than the %zu bytes taken here", r->limit);
    ld_problem_limit(&p, "body", (double)r->limit);
    ld_reply_problem(r, &p);
    discard_rest(r);
}

/* 503: the bodies of others take the memory. Large uploads in flight take seconds, so it is some seconds until another
 * may find room. */
void ld_request_refuse_memory(struct ld_request *r)
{
    struct ld_http *h = r->http;
    struct ld_problem p;
    ld_problem_init(&p);
    ld_problem_set(&p, MHD_HTTP_SERVICE_UNAVAILABLE,
                   "the bodies and answers of other requests take all the memory that there is for them");
    ld_problem_limit(&p, "body_memory", (double)r->memory->max);
    p.retry_after_s = 5;
    if (h->metrics != NULL)
        ld_count(&h->metrics->limited[LD_LIMITED_BODY_MEMORY], 1);
    ld_reply_problem(r, &p);
}

static void refuse_memory(struct ld_request *r)
{
    ld_request_refuse_memory(r);
    discard_rest(r);
}

/* The library (0.9.75) takes the lines of chunks leniently, an LF for a CRLF among them, and shows them to nobody. Two
 * readers may differ about where such a body ends, so that none of its connections goes on (decision 0049).
 *
 * A reply made here is queued now when nothing is to be discarded first, else by the call that ends the body. One that
 * refuses the head is always queued now, by which the library closes the connection: where the next request begins is
 * in doubt. */
enum MHD_Result ld_request_begin(struct ld_request *r, const struct request_line *line)
{
    struct ld_http *h = r->http;
    uint64_t n = announced(r);
    if (n == UINT64_MAX)
        ld_request_end_connection(r);
    atomic_store_explicit(&r->on->n_received, 0, memory_order_relaxed);
    if (!ld_connection_enter(r->on, PHASE_BODY))
        return MHD_NO;
    if (!ld_request_check_head(r, line))
        return ld_request_queue(r);
    r->limit = h->hooks.admit(h->hooks.arg, r);
    r->is_discarding = atomic_load(&r->state) == REQUEST_REPLIED;
    if (!r->is_discarding && n != UINT64_MAX && n > r->limit)
        refuse_size(r);
    if (!r->is_discarding && r->spool == NULL && n != UINT64_MAX && !ld_body_memory_has(r->memory, n))
        refuse_memory(r);
    if (!r->is_discarding || n == 0)
        return MHD_YES;
    bool is_asking = ld_request_header(r, MHD_HTTP_HEADER_EXPECT) != NULL;
    return is_asking || (n != UINT64_MAX && n > DISCARD_MAX) ? ld_request_queue(r) : MHD_YES;
}

/* Room for n more bytes and a NUL, 0; 1 when there is none within the limit of all bodies, -1 without memory. Doubling
 * keeps the copying linear in the length of the body. */
static int grow_body(struct ld_request *r, size_t n)
{
    size_t need = r->n_body + n + 1, cap = r->cap > 0 ? r->cap : FIRST_BODY_BYTES;
    if (need <= r->cap)
        return 0;
    while (cap < need)
        cap *= 2;
    if (cap > r->limit + 1) /* what comes beyond is refused */
        cap = r->limit + 1;
    if (!ld_body_memory_take(r->memory, &r->n_memory, cap))
        return 1;
    char *body = realloc(r->body, cap);
    if (body == NULL)
        return -1;
    r->body = body;
    r->cap = cap;
    return 0;
}

/* --- to a file ------------------------------------------------------------------------------------------- */

/* Without memory for the path the body stays in memory, up to its limit, and the handler finds no file. */
void ld_request_spool(struct ld_request *r, const char *path)
{
    r->spool = strdup(path);
}

/* Before the handler sees it, who may open it as a database: closing any descriptor of a file takes away the process's
 * locks on it. */
void ld_request_close_spool(struct ld_request *r)
{
    if (r->spool_fd >= 0)
        (void)close(r->spool_fd);
    r->spool_fd = -1;
}

/* A file that was renamed is not there any more, which is fine. */
void ld_request_drop_spool(struct ld_request *r)
{
    ld_request_close_spool(r);
    if (r->spool != NULL)
        (void)unlink(r->spool);
    free(r->spool);
    r->spool = NULL;
}

/* 0 or an errno. Readable by the owner alone, as the tenants' files. */
static int write_piece(struct ld_request *r, const char *data, size_t n)
{
    if (r->spool_fd < 0)
        r->spool_fd = open(r->spool, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (r->spool_fd < 0)
        return errno;
    while (n > 0) {
        ssize_t written = write(r->spool_fd, data, n);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            data += written;
            n -= (size_t)written;
            r->n_body += (size_t)written;
        }
    }
    return 0;
}

/* A disk that is full is told as such; what has been written goes now, not when the client has sent the rest. */
static void spool_piece(struct ld_request *r, const char *data, size_t n)
{
    int error = write_piece(r, data, n);
    if (error == 0)
        return;
    bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    ld_reply_status(r, is_full ? MHD_HTTP_INSUFFICIENT_STORAGE : MHD_HTTP_SERVICE_UNAVAILABLE,
                    is_full ? "the disk has no room for the body" : "the body cannot be written to the disk");
    ld_request_drop_spool(r);
    discard_rest(r);
}

/* --- as it comes ----------------------------------------------------------------------------------------- */

/* A chunked body is measured as it comes. DISCARD_MAX after its refusal the connection ends without an answer: the
 * library takes none in the middle of a body. */
enum MHD_Result ld_request_collect(struct ld_request *r, const char *data, size_t n)
{
    r->n_received += n;
    atomic_store_explicit(&r->on->n_received, r->n_received, memory_order_relaxed);
    if (!r->is_discarding && n > r->limit - r->n_body)
        refuse_size(r);
    if (r->is_discarding)
        return r->n_received <= r->n_wanted + DISCARD_MAX ? MHD_YES : MHD_NO;
    if (r->spool != NULL) {
        spool_piece(r, data, n);
        return MHD_YES;
    }
    const int room = grow_body(r, n);
    if (room > 0) {
        refuse_memory(r);
        return MHD_YES;
    }
    if (room < 0) {
        ld_reply_status(r, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the body");
        discard_rest(r);
        return MHD_YES;
    }
    memcpy(r->body + r->n_body, data, n);
    r->n_body += n;
    r->body[r->n_body] = '\0';
    return MHD_YES;
}
