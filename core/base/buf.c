/* Byte buffers of the snapshot codec (buf.h).
 *
 * Format: 64-bit and 32-bit words little-endian, doubles by their bits, strings and arrays as a 64-bit count and
 * the items. Words are taken apart by shifts, so the format does not depend on the machine (the compiler
 * makes one store of it where it may).
 *
 * Errors are sticky on both sides, so that a codec reads as a list of fields and asks once at the end. The
 * reader trusts nothing: every length is compared with what is left before it is used.
 *
 * Nothing in the format says what a field is: reader and writer agree by the order of their calls, and by the
 * version that the snapshot's header carries. Cost: O(bytes), one pass, no allocation in the reader. */
#include "base/buf.h"

#include <string.h>

#include "base/alloc.h"

/* The n_bytes low bytes of v, least significant first. */
static void store_le(unsigned char *at, uint64_t v, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++)
        at[i] = (unsigned char)(v >> (8 * i));
}

/* The word that store_le wrote. n_bytes <= 8. */
static uint64_t load_le(const unsigned char *at, size_t n_bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n_bytes; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

/* Arrays of n items of `size` bytes, to the format and from it: on a little-endian machine they stand in memory as they
 * stand in the file. Neither may be NULL unless n is 0. */
static void store_items(unsigned char *at, const void *items, size_t n, size_t size)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (n > 0)
        memcpy(at, items, n * size);
#else
    for (size_t i = 0; i < n * size; i++)
        at[i] = ((const unsigned char *)items)[i / size * size + (size - 1 - i % size)];
#endif
}

static void load_items(void *items, const unsigned char *at, size_t n, size_t size)
{
    store_items(items, at, n, size); /* its own inverse */
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

/* Room for n items of `size` bytes behind what is written, counted as written; NULL after a failure. Grows by
 * doubling from 4 KiB, so a body of n bytes is copied O(1) times per byte. `n` counts the bytes as written at
 * once: the caller must fill them before the next put. */
static unsigned char *extend(struct kb_writer *w, size_t n, size_t size)
{
    size_t bytes;
    if (w->rc != KB_OK)
        return NULL;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX - w->n ||
        kb_grow((void **)&w->data, &w->cap, w->n + bytes, 4096, 1) != 0) {
        w->rc = KB_ENOMEM;
        return NULL;
    }
    unsigned char *at = w->data + w->n;
    w->n += bytes;
    return at;
}

/* The unit of the format: counts, indices, flags and sequence numbers are all 64-bit words. */
void kb_put_u64(struct kb_writer *w, uint64_t v)
{
    unsigned char *at = extend(w, 1, 8);
    if (at != NULL)
        store_le(at, v, 8);
}

void kb_put_words(struct kb_writer *w, const uint64_t *v, size_t n)
{
    unsigned char *at = extend(w, n, sizeof *v);
    if (at != NULL)
        store_items(at, v, n, sizeof *v);
}

void kb_writer_reserve(struct kb_writer *w, size_t n)
{
    if (w->rc == KB_OK && n <= SIZE_MAX - w->n)
        (void)kb_grow((void **)&w->data, &w->cap, w->n + n, 4096, 1);
}

/* By bits: NaN payloads and signed zeros survive. */
void kb_put_double(struct kb_writer *w, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    kb_put_u64(w, bits);
}

/* Without a length before: for a field whose size the reader knows. */
void kb_put_bytes(struct kb_writer *w, const void *data, size_t n)
{
    unsigned char *at = extend(w, n, 1);
    if (at != NULL && n > 0)
        memcpy(at, data, n);
}

/* Without the NUL: the length stands before. For ids: bytes as they came, no terminator in the file. */
void kb_put_str(struct kb_writer *w, const char *s)
{
    size_t n = strlen(s);
    kb_put_u64(w, n);
    kb_put_bytes(w, s, n);
}

/* Arrays grow the buffer once, then store item by item. The count comes first, so the reader can tell a wrong
 * length from wrong numbers. */
void kb_put_doubles(struct kb_writer *w, const double *v, size_t n)
{
    kb_put_u64(w, n);
    unsigned char *at = extend(w, n, 8);
    if (at != NULL)
        store_items(at, v, n, 8);
}

/* Four bytes an item: interned indices are 32-bit everywhere. */
void kb_put_u32s(struct kb_writer *w, const uint32_t *v, size_t n)
{
    kb_put_u64(w, n);
    unsigned char *at = extend(w, n, 4);
    if (at != NULL)
        store_items(at, v, n, 4);
}

void kb_put_u64s(struct kb_writer *w, const uint64_t *v, size_t n)
{
    kb_put_u64(w, n);
    kb_put_words(w, v, n);
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

/* 0 after an error, which is a harmless count. */
uint64_t kb_get_u64(struct kb_reader *r)
{
    const unsigned char *at = take(r, 1, 8);
    return at != NULL ? load_le(at, 8) : 0;
}

/* 0.0 after an error. Any bit pattern passes, NaN too: whether a value makes sense is for its owner to
 * check. memcpy instead of a cast: reading a word as a double through a pointer is undefined in C. */
double kb_get_double(struct kb_reader *r)
{
    uint64_t bits = kb_get_u64(r);
    double v;
    memcpy(&v, &bits, sizeof v);
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

/* Zeros after an error, so that a caller who checks late never sees uninitialised memory. n = 0 may have no out. */
void kb_get_bytes(struct kb_reader *r, void *out, size_t n)
{
    const unsigned char *at = take(r, n, 1);
    if (n == 0)
        return;
    if (at != NULL)
        memcpy(out, at, n);
    else
        memset(out, 0, n);
}

/* The items of an array whose stored count must be n. */
static const unsigned char *take_array(struct kb_reader *r, size_t n, size_t size)
{
    uint64_t stored = kb_get_u64(r);
    if (r->rc == KB_OK && stored != n)
        r->rc = KB_ECORRUPT;
    return take(r, n, size);
}

/* Such an array, or zeros after an error. */
static void take_items(struct kb_reader *r, void *out, size_t n, size_t size)
{
    const unsigned char *at = take_array(r, n, size);
    if (at != NULL)
        load_items(out, at, n, size);
    else if (n > 0)
        memset(out, 0, n * size);
}

/* The caller's n is the expected count, so a file cannot make this write past `out`. */
void kb_get_doubles(struct kb_reader *r, double *out, size_t n)
{
    take_items(r, out, n, 8);
}

/* Four bytes an item; zeros after an error. */
void kb_get_u32s(struct kb_reader *r, uint32_t *out, size_t n)
{
    take_items(r, out, n, 4);
}

/* As kb_get_doubles: zeros after an error, and the stored count must be n. */
void kb_get_u64s(struct kb_reader *r, uint64_t *out, size_t n)
{
    take_items(r, out, n, 8);
}

/* The bound is the caller's knowledge of what is possible: a damaged count must not become an allocation. */
size_t kb_get_count(struct kb_reader *r, size_t max)
{
    uint64_t n = kb_get_u64(r);
    if (r->rc == KB_OK && n > max)
        r->rc = KB_ECORRUPT;
    return r->rc == KB_OK ? (size_t)n : 0;
}
