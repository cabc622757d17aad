/* Answers from files: read as the client takes them, so that one that does not read costs a piece of memory.
 *
 *     memory   the first LD_ANSWER_BYTES of an answer that is written in pieces; all of a short one
 *     file     what is more than that, in the folder of the spool, without a name: it is gone with the process
 *
 * A client that reads slowly therefore holds FILE_PIECE_BYTES beside its connection, and what the answer has of the
 * disk. Files of long answers are bounded, MOST_FILES and MOST_BYTES over all requests, and not made where the disk has
 * less than KEPT_FREE: then an answer that may end early does (/events), and others count among the bodies in memory.
 * The disk is not waited for: what is written lands in the page cache. Nothing else is kept for the client: neither the
 * tenant nor a read of its log. */
#include "http/http_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILE_PIECE_BYTES ((size_t)64 << 10)
#define MOST_FILES 128u /* of the descriptors that are no connections (app.c) */
#define MOST_BYTES ((uint64_t)1 << 30)
#define KEPT_FREE                                                                                                      \
    ((uint64_t)512 << 20) /* of the disk: for commits, and for answers that are being written meanwhile                \
                           */

/* --- what is sent ------------------------------------------------------------------------------------------- */

/* A response that reads its file as the client takes it. */
struct sent_file {
    struct ld_request *request;
    struct ld_http *counted; /* held; NULL: the file is none of the long answers' */
    int fd;
    uint64_t bytes;
    bool is_done; /* told */
    void (*done)(void *arg);
    void *arg;
};

static void tell_done(struct sent_file *f)
{
    if (!f->is_done && f->done != NULL)
        f->done(f->arg);
    f->is_done = true;
}

/* In the library's thread, which waits for the disk meanwhile. A file that ends early ends the connection: the client
 * has been told another length, and sees that it is not whole. The last piece is the end of it for whoever waits: a
 * client that has all of it may ask for the next before the library lets go of this one. */
static ssize_t read_piece(void *arg, uint64_t at, char *out, size_t n)
{
    struct sent_file *f = arg;
    ssize_t got;
    f->request->lane->has_moved = true;
    if (n > f->bytes - at)
        n = (size_t)(f->bytes - at);
    do
        got = pread(f->fd, out, n, (off_t)at);
    while (got < 0 && errno == EINTR);
    if (got > 0 && at + (uint64_t)got >= f->bytes)
        tell_done(f);
    return got > 0 ? got : MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Of the files of long answers and their bytes. */
static void give_back(struct ld_http *h, uint64_t bytes)
{
    atomic_fetch_sub(&h->answer_bytes, bytes);
    atomic_fetch_sub(&h->n_answer_files, 1);
}

static void end_file(struct sent_file *f)
{
    (void)close(f->fd);
    tell_done(f);
    if (f->counted != NULL) {
        give_back(f->counted, f->bytes);
        ld_http_let_go(f->counted);
    }
}

/* The response is gone: sent, or its client is. */
static void close_file(void *arg)
{
    end_file(arg);
    free(arg);
}

static void reply_file(struct ld_request *r, int status, const struct ld_body_file *file, struct ld_http *counted)
{
    struct sent_file *f = malloc(sizeof *f);
    struct sent_file sent = {.request = r,
                             .counted = counted != NULL ? ld_http_hold(counted) : NULL,
                             .fd = file->fd,
                             .bytes = file->bytes,
                             .done = file->done,
                             .arg = file->arg};
    if (f == NULL) {
        end_file(&sent);
        ld_reply_status(r, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory for the answer");
        return;
    }
    *f = sent;
    struct MHD_Response *response =
        MHD_create_response_from_callback(file->bytes, FILE_PIECE_BYTES, read_piece, f, close_file);
    if (response == NULL)
        close_file(f);
    ld_response_header(&response, MHD_HTTP_HEADER_CONTENT_TYPE, file->content_type);
    for (size_t i = 0; i < file->n_headers; i++)
        ld_response_header(&response, file->headers[i].name, file->headers[i].value);
    ld_request_finish(r, status, response, file->bytes);
}

void ld_reply_file(struct ld_request *r, const struct ld_body_file *file)
{
    reply_file(r, MHD_HTTP_OK, file, NULL);
}

/* --- files of long answers ------------------------------------------------------------------------------------ */

/* Not every file system has files that never had a name. */
static int open_unnamed(const char *dir)
{
    char path[LD_PATH_MAX];
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    if (snprintf(path, sizeof path, "%s/answer-XXXXXX", dir) >= (int)sizeof path)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(path);
    return fd;
}

static bool has_room(const char *dir)
{
    struct statvfs disk;
    return statvfs(dir, &disk) == 0 && (uint64_t)disk.f_bavail * disk.f_frsize >= KEPT_FREE;
}

/* A descriptor that is counted, or -1: there are as many as there may be, or the disk or the system has none. */
static int take_file(struct ld_http *h)
{
    int fd = -1;
    if (h->answer_dir == NULL)
        return -1;
    if (atomic_fetch_add(&h->n_answer_files, 1) < MOST_FILES)
        fd = open_unnamed(h->answer_dir);
    if (fd < 0)
        atomic_fetch_sub(&h->n_answer_files, 1);
    return fd;
}

/* Behind `at`; what a failure has left there is not looked at. */
static int write_at(int fd, const char *data, size_t n, uint64_t at)
{
    while (n > 0) {
        const ssize_t written = pwrite(fd, data, n, (off_t)at);
        if (written < 0 && errno != EINTR)
            return -1;
        if (written > 0) {
            data += written;
            at += (uint64_t)written;
            n -= (size_t)written;
        }
    }
    return 0;
}

/* --- answers in pieces ------------------------------------------------------------------------------------------ */

void ld_answer_init(struct ld_answer *a, struct ld_request *r)
{
    *a = (struct ld_answer){.request = r, .fd = -1};
}

/* To the end of the file, which is opened for that. -1: nothing has changed. */
static int put_in_file(struct ld_answer *a, const char *data, size_t n)
{
    struct ld_http *h = a->request->http;
    if (a->fd < 0)
        a->fd = take_file(h);
    if (a->fd < 0)
        return -1;
    if (atomic_fetch_add(&h->answer_bytes, n) + n > MOST_BYTES || !has_room(h->answer_dir) ||
        write_at(a->fd, data, n, a->n_file) != 0) {
        atomic_fetch_sub(&h->answer_bytes, n);
        return -1;
    }
    a->n_file += n;
    return 0;
}

/* What is in memory moves into the file. */
static int flush(struct ld_answer *a)
{
    if (a->n > 0 && put_in_file(a, a->text, a->n) != 0)
        return -1;
    a->n = 0;
    return 0;
}

static int put_in_memory(struct ld_answer *a, const char *data, size_t n, size_t cap)
{
    char *text = a->n + n <= a->cap ? a->text : realloc(a->text, cap);
    if (text == NULL)
        return -1;
    a->cap = a->n + n <= a->cap ? a->cap : cap;
    a->text = text;
    memcpy(a->text + a->n, data, n);
    a->n += n;
    return 0;
}

/* A piece that is too long for memory, where the disk takes nothing, counts as a body: whoever asks on is to make
 * progress. */
static int put_long(struct ld_answer *a, const char *data, size_t n)
{
    struct ld_request *r = a->request;
    if (put_in_file(a, data, n) == 0)
        return 0;
    if (a->n_file > 0 || a->n > 0 || !ld_body_memory_take(r->memory, &r->n_memory, r->cap + n))
        return -1;
    return put_in_memory(a, data, n, n);
}

int ld_answer_put(struct ld_answer *a, const char *data, size_t n)
{
    if (n <= LD_ANSWER_BYTES && a->n + n <= LD_ANSWER_BYTES)
        return put_in_memory(a, data, n, LD_ANSWER_BYTES);
    if (flush(a) != 0)
        return -1;
    return n <= LD_ANSWER_BYTES ? put_in_memory(a, data, n, LD_ANSWER_BYTES) : put_long(a, data, n);
}

uint64_t ld_answer_bytes(const struct ld_answer *a)
{
    return a->n_file + a->n;
}

/* Without room for its last pieces the answer ends before them. */
void ld_answer_reply(struct ld_answer *a, const char *content_type)
{
    struct ld_request *r = a->request;
    if (a->n_file == 0) {
        char *text = a->text != NULL ? a->text : strdup("");
        a->text = NULL;
        ld_answer_drop(a);
        ld_request_finish(r, MHD_HTTP_OK, ld_response_of(content_type, text, a->n), a->n);
        return;
    }
    (void)flush(a);
    free(a->text);
    reply_file(r, MHD_HTTP_OK, &(struct ld_body_file){.content_type = content_type, .fd = a->fd, .bytes = a->n_file},
               r->http);
}

void ld_answer_drop(struct ld_answer *a)
{
    free(a->text);
    a->text = NULL;
    if (a->fd < 0)
        return;
    (void)close(a->fd);
    give_back(a->request->http, a->n_file);
}

bool ld_reply_long(struct ld_request *r, int status, const char *content_type, const char *text, size_t n)
{
    struct ld_answer a;
    ld_answer_init(&a, r);
    if (put_in_file(&a, text, n) != 0) {
        ld_answer_drop(&a);
        return false;
    }
    reply_file(r, status, &(struct ld_body_file){.content_type = content_type, .fd = a.fd, .bytes = n}, r->http);
    return true;
}
