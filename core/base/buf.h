/* Byte buffers of the snapshot codec: a growing little-endian writer and a bounds-checked reader. The
 * engine's codec (engine_codec.c) writes a snapshot body with it and reads it back; checksum, header and file
 * are the server's. schema/snapshot.md lists the fields. */
#ifndef KB_BUF_H
#define KB_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct kb_writer {
    /* owned; freed by close */
    unsigned char *data;
    size_t n, cap;
    enum kb_err rc; /* sticky: KB_ENOMEM once a growth has failed; later puts do nothing */
};

/* Puts append one field each. None of them returns an error: look at w->rc once, at the end. */
void kb_writer_init(struct kb_writer *w);
void kb_writer_close(struct kb_writer *w);
void kb_put_u64(struct kb_writer *w, uint64_t v);
void kb_put_words(struct kb_writer *w, const uint64_t *v, size_t n); /* n of them, without their number */
/* Room for n bytes more: what is put into it moves nothing. Without memory the puts find that out. */
void kb_writer_reserve(struct kb_writer *w, size_t n);
void kb_put_double(struct kb_writer *w, double v);
void kb_put_bytes(struct kb_writer *w, const void *data, size_t n);
void kb_put_str(struct kb_writer *w, const char *s);                 /* length, bytes */
void kb_put_doubles(struct kb_writer *w, const double *v, size_t n); /* n, then values */
void kb_put_u32s(struct kb_writer *w, const uint32_t *v, size_t n);
void kb_put_u64s(struct kb_writer *w, const uint64_t *v, size_t n);

struct kb_reader {
    /* borrowed, for as long as the reader and every string got from it are in use */
    const unsigned char *data;
    size_t n, pos;
    enum kb_err rc; /* sticky: KB_ECORRUPT once a read went past the end; later gets return zeros */
};

/* Gets take one field each, in the order of the puts. Look at r->rc before anything is done with the values. */
void kb_reader_init(struct kb_reader *r, const void *data, size_t n);
uint64_t kb_get_u64(struct kb_reader *r);
double kb_get_double(struct kb_reader *r);
/* Borrowed from the reader's data, which must outlive it. */
const char *kb_get_str(struct kb_reader *r, size_t *len);        /* borrowed, not NUL-terminated; NULL on error */
void kb_get_doubles(struct kb_reader *r, double *out, size_t n); /* the stored n must match, else KB_ECORRUPT */
void kb_get_u32s(struct kb_reader *r, uint32_t *out, size_t n);
void kb_get_u64s(struct kb_reader *r, uint64_t *out, size_t n);
/* A count about to be used for allocation: KB_ECORRUPT (and 0) when it exceeds `max`. */
size_t kb_get_count(struct kb_reader *r, size_t max);

#endif
