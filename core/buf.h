/* Byte buffers of the snapshot codec: a growing little-endian writer and a bounds-checked reader. */
#ifndef KB_BUF_H
#define KB_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct kb_writer {
    unsigned char *data;
    size_t n, cap;
    enum kb_err rc; /* sticky: KB_ENOMEM once a growth has failed; later puts do nothing */
};

void kb_writer_init(struct kb_writer *w);
void kb_writer_close(struct kb_writer *w);
void kb_put_u64(struct kb_writer *w, uint64_t v);
void kb_put_double(struct kb_writer *w, double v);
void kb_put_bytes(struct kb_writer *w, const void *data, size_t n);
void kb_put_str(struct kb_writer *w, const char *s);                 /* length, bytes */
void kb_put_doubles(struct kb_writer *w, const double *v, size_t n); /* n, then values */
void kb_put_u32s(struct kb_writer *w, const uint32_t *v, size_t n);
void kb_put_u64s(struct kb_writer *w, const uint64_t *v, size_t n);

struct kb_reader {
    const unsigned char *data;
    size_t n, pos;
    enum kb_err rc; /* sticky: KB_ECORRUPT once a read went past the end; later gets return zeros */
};

void kb_reader_init(struct kb_reader *r, const void *data, size_t n);
uint64_t kb_get_u64(struct kb_reader *r);
double kb_get_double(struct kb_reader *r);
const char *kb_get_str(struct kb_reader *r, size_t *len);         /* borrowed, not NUL-terminated; NULL on error */
void kb_get_bytes(struct kb_reader *r, void *out, size_t n);
void kb_get_doubles(struct kb_reader *r, double *out, size_t n);  /* the stored n must match, else KB_ECORRUPT */
void kb_get_u32s(struct kb_reader *r, uint32_t *out, size_t n);
void kb_get_u64s(struct kb_reader *r, uint64_t *out, size_t n);
/* A count about to be used for allocation: KB_ECORRUPT (and 0) when it exceeds `max`. */
size_t kb_get_count(struct kb_reader *r, size_t max);

#endif
