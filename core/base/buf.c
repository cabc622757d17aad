/* Byte buffers of the snapshot codec (buf.h).
 *
 * Format: 64-bit and 32-bit words little-endian, doubles by their bits (NaN payloads and signed zeros survive), strings
 * without their NUL and arrays as a 64-bit count and the items, so that a wrong length is told from wrong numbers.
 *
 * Errors are sticky on both sides, so that a codec reads as a list of fields and asks once at the end. The
 * reader trusts nothing: every length is compared with what is left before it is used.
 *
 * Nothing in the format says what a field is: reader and writer agree by the order of their calls, and by the
 * version that the snapshot's header carries. Cost: O(bytes), one pass, no allocation in the reader. */
#include "base/buf.h"

#include <string.h>

#include "base/alloc.h"

/* n items of `size` bytes to the format, and from it: on a little-endian machine they stand in memory as they stand in
 * the file. Neither may be NULL unless n is 0. */
static void copy_items(void *to, const void *from, size_t n, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (n > 0)
        memcpy(to, from, n * size);
#else
    for (size_t i = 0; i < n * size; i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i / size * size + (size - 1 - i % size)];
#endif
}

/* --- writer ---------------------------------------------------------------------------------------- */

/* Nothing is allocated before the first put. */
void kb_writer_init(struct kb_writer *w)
{
    *w = (struct kb_writer){0};
}

/* After a failed growth the old buffer is still here and is freed like any other. */
void kb_writer_close(struct kb_writer *w)
{
    kb_free(w->data);
    kb_writer_init(w);
}

/* Appends n items. The buffer doubles from 4 KiB, so a body of n bytes is copied O(1) times per byte. */
static void put_items(struct kb_writer *w, const void *items, size_t n, size_t size)
{
    size_t bytes;
    if (w->rc != KB_OK)
        return;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - w->n ||
        kb_grow((void **)&w->data, &w->cap, w->n + bytes, 4096, 1) != 0) {
        w->rc = KB_ENOMEM;
        return;
    }
    copy_items(w->data + w->n, items, n, size);
    w->n += bytes;
}

/* The unit of the format: counts, indices, flags and sequence numbers are all 64-bit words. */
void kb_put_u64(struct kb_writer *w, uint64_t v)
{
    put_items(w, &v, 1, sizeof v);
}

void kb_put_words(struct kb_writer *w, const uint64_t *v, size_t n)
{
    put_items(w, v, n, sizeof *v);
}

void kb_writer_reserve(struct kb_writer *w, size_t n)
{
    if (w->rc == KB_OK && n <= SIZE_MAX - w->n)
        (void)kb_grow((void **)&w->data, &w->cap, w->n + n, 4096, 1);
}

void kb_put_double(struct kb_writer *w, double v)
{
    put_items(w, &v, 1, sizeof v);
}

void kb_put_bytes(struct kb_writer *w, const void *data, size_t n)
{
    put_items(w, data, n, 1);
}

static void put_array(struct kb_writer *w, const void *v, size_t n, size_t size)
{
    kb_put_u64(w, n);
    put_items(w, v, n, size);
}

void kb_put_str(struct kb_writer *w, const char *s)
{
    put_array(w, s, strlen(s), 1);
}

void kb_put_doubles(struct kb_writer *w, const double *v, size_t n)
{
    put_array(w, v, n, sizeof *v);
}

void kb_put_u32s(struct kb_writer *w, const uint32_t *v, size_t n)
{
    put_array(w, v, n, sizeof *v);
}

void kb_put_u64s(struct kb_writer *w, const uint64_t *v, size_t n)
{
    put_array(w, v, n, sizeof *v);
}

/* --- reader ---------------------------------------------------------------------------------------- */

/* The data is borrowed and may be at any alignment: it is only read byte by byte. Nothing is copied or
 * checked here; an empty reader answers zeros and KB_ECORRUPT. */
void kb_reader_init(struct kb_reader *r, const void *data, size_t n)
{
    *r = (struct kb_reader){.data = data, .n = n};
}

/* The next n items of `size` bytes, taken; NULL (and a sticky error) when fewer are left. The division keeps
 * n * size from wrapping: a forged n can be as large as 2^64 - 1. */
static const unsigned char *take(struct kb_reader *r, size_t n, size_t size)
{
    if (r->rc != KB_OK)
        return NULL;
    if (n > (r->n - r->pos) / size) {
        r->rc = KB_ECORRUPT;
        return NULL;
    }
    const unsigned char *at = r->data + r->pos;
    r->pos += n * size;
    return at;
}

/* The next n items; zeros after an error, so that a caller who checks late never sees uninitialised memory. */
static void take_items(struct kb_reader *r, void *out, size_t n, size_t size)
{
    const unsigned char *at = take(r, n, size);
    if (at != NULL)
        copy_items(out, at, n, size);
    else if (n > 0)
        memset(out, 0, n * size);
}

uint64_t kb_get_u64(struct kb_reader *r)
{
    uint64_t v;
    take_items(r, &v, 1, sizeof v);
    return v;
}

/* Any bit pattern passes, NaN too: whether a value makes sense is for its owner to check. */
double kb_get_double(struct kb_reader *r)
{
    double v;
    take_items(r, &v, 1, sizeof v);
    return v;
}

/* Checked against what is left before anything is used: a giant length is an error, not a read. *len is set
 * in every case; NULL comes with 0. */
const char *kb_get_str(struct kb_reader *r, size_t *len)
{
    uint64_t n = kb_get_u64(r);
    const unsigned char *at = take(r, n, 1);
    *len = at != NULL ? (size_t)n : 0;
    return (const char *)at;
}

/* An array whose stored count must be the caller's n, so a file cannot make this write past `out`. */
static void take_array(struct kb_reader *r, void *out, size_t n, size_t size)
{
    const uint64_t stored = kb_get_u64(r);
    if (r->rc == KB_OK && stored != n)
        r->rc = KB_ECORRUPT;
    take_items(r, out, n, size);
}

void kb_get_doubles(struct kb_reader *r, double *out, size_t n)
{
    take_array(r, out, n, sizeof *out);
}

void kb_get_u32s(struct kb_reader *r, uint32_t *out, size_t n)
{
    take_array(r, out, n, sizeof *out);
}

void kb_get_u64s(struct kb_reader *r, uint64_t *out, size_t n)
{
    take_array(r, out, n, sizeof *out);
}

/* The bound is the caller's knowledge of what is possible: a damaged count must not become an allocation. */
size_t kb_get_count(struct kb_reader *r, size_t max)
{
    uint64_t n = kb_get_u64(r);
    if (r->rc == KB_OK && n > max)
        r->rc = KB_ECORRUPT;
    return r->rc == KB_OK ? (size_t)n : 0;
}
