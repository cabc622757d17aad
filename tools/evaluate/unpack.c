/* gzip (RFC 1952, any number of members) and zstd (RFC 8878, any number of frames) as a stdio stream, and plain bytes
 * as they are. Owner of zlib and libzstd.
 *
 *   in       bytes of the file, read ahead: in[at .. n-1] are still to be unpacked
 *   is_open  inside a member or frame: the end of the file would be too early
 *
 * The stream is a cookie of the C library: whoever reads lines or CSV from a FILE reads packed ones without knowing it.
 * Memory: 64 KiB and what the libraries take. */
#include "evaluate/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <zlib.h>
#include <zstd.h>

#define GZIP_WINDOW (16 + MAX_WBITS) /* zlib: expect gzip's header and check its sum */

enum packing { PLAIN, GZIP, ZSTD };

struct unpack {
    FILE *file;
    enum packing packing;
    z_stream gzip;
    ZSTD_DCtx *zstd;
    bool is_open;
    size_t n, at;
    unsigned char in[1u << 16];
};

/* Reads on when all that was read is used. False at the end of the file, and when reading failed. */
static bool refill(struct unpack *u)
{
    if (u->at < u->n)
        return true;
    u->at = 0;
    u->n = fread(u->in, 1, sizeof u->in, u->file);
    return u->n > 0;
}

static ssize_t damaged(void)
{
    errno = EBADMSG;
    return -1;
}

static ssize_t read_plain(struct unpack *u, char *out, size_t size)
{
    const size_t left = u->n - u->at, n = left < size ? left : size;

    memcpy(out, u->in + u->at, n);
    u->at += n;
    return (ssize_t)n;
}

/* Bytes made of what is at hand; 0: more is needed. A member that ends makes room for the next. */
static ssize_t read_gzip(struct unpack *u, char *out, size_t size)
{
    u->gzip.next_in = u->in + u->at;
    u->gzip.avail_in = (uInt)(u->n - u->at);
    u->gzip.next_out = (unsigned char *)out;
    u->gzip.avail_out = (uInt)(size < UINT16_MAX ? size : UINT16_MAX);
    const uInt asked = u->gzip.avail_out;
    const int rc = inflate(&u->gzip, Z_NO_FLUSH);

    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        return damaged();
    u->at = u->n - u->gzip.avail_in;
    u->is_open = rc != Z_STREAM_END;
    if (rc == Z_STREAM_END && inflateReset(&u->gzip) != Z_OK)
        return damaged();
    return (ssize_t)(asked - u->gzip.avail_out);
}

static ssize_t read_zstd(struct unpack *u, char *out, size_t size)
{
    ZSTD_inBuffer in = {u->in, u->n, u->at};
    ZSTD_outBuffer made = {out, size, 0};
    const size_t rc = ZSTD_decompressStream(u->zstd, &made, &in);

    if (ZSTD_isError(rc))
        return damaged();
    u->at = in.pos;
    u->is_open = rc != 0;
    return (ssize_t)made.pos;
}

static ssize_t read_cookie(void *cookie, char *out, size_t size)
{
    struct unpack *u = cookie;
    ssize_t got = 0;

    while (got == 0) {
        const bool has_more = refill(u);

        if (!has_more && ferror(u->file))
            return -1;
        if (!has_more && u->packing == PLAIN)
            return 0;
        if (u->packing == PLAIN)
            got = read_plain(u, out, size);
        else if (has_more || u->is_open)
            got = u->packing == GZIP ? read_gzip(u, out, size) : read_zstd(u, out, size);
        if (!has_more && got == 0)
            return u->is_open ? damaged() : 0;
    }
    return got;
}

static int close_cookie(void *cookie)
{
    struct unpack *u = cookie;

    if (u->packing == GZIP)
        (void)inflateEnd(&u->gzip);
    if (u->packing == ZSTD)
        (void)ZSTD_freeDCtx(u->zstd);
    const int rc = fclose(u->file);
    free(u);
    return rc;
}

/* By the magic numbers of the two formats. False without memory. */
static bool begin(struct unpack *u)
{
    static const unsigned char zstd_magic[4] = {0x28, 0xB5, 0x2F, 0xFD};

    (void)refill(u);
    if (u->n >= 2 && u->in[0] == 0x1F && u->in[1] == 0x8B) {
        if (inflateInit2(&u->gzip, GZIP_WINDOW) != Z_OK)
            return false;
        u->packing = GZIP;
    } else if (u->n >= 4 && memcmp(u->in, zstd_magic, 4) == 0) {
        u->zstd = ZSTD_createDCtx();
        if (u->zstd == NULL)
            return false;
        u->packing = ZSTD;
    }
    return true;
}

FILE *lc_unpack(FILE *file)
{
    const cookie_io_functions_t io = {.read = read_cookie, .close = close_cookie};
    struct unpack *u = calloc(1, sizeof *u);
    FILE *stream = NULL;

    if (u == NULL) {
        (void)fclose(file);
        return NULL;
    }
    u->file = file;
    if (begin(u))
        stream = fopencookie(u, "r", io);
    if (stream == NULL)
        (void)close_cookie(u);
    return stream;
}
