/* The snapshot codec: what is put is got, the bytes are little-endian, and no input makes the reader step out. */
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "kbt.h"
#include "base/rng.h"

static const double numbers[] = {0.0, -0.0, 1.5, -INFINITY, 1e-310, 0.1};
static const uint32_t small[] = {0, 1, UINT32_MAX};
static const uint64_t large[] = {0, 1, UINT64_MAX, 0x0123456789abcdefu};

static void put_all(struct kb_writer *w)
{
    kb_put_u64(w, 0x0102030405060708u);
    kb_put_double(w, -2.5);
    kb_put_str(w, "caf\xc3\xa9");
    kb_put_bytes(w, "xyzxyzxy", 8);
    kb_put_doubles(w, numbers, 6);
    kb_put_u32s(w, small, 3);
    kb_put_u64s(w, large, 4);
    kb_put_doubles(w, NULL, 0);
    kb_put_u64(w, 77);
}

/* Reads what put_all wrote; the caller looks at r->rc. */
static void get_all(struct kb_reader *r, bool is_intact)
{
    double d[6];
    uint32_t u[3];
    uint64_t v[4];
    size_t length;
    uint64_t first = kb_get_u64(r);
    double second = kb_get_double(r);
    const char *text = kb_get_str(r, &length);
    const uint64_t bytes = kb_get_u64(r);
    kb_get_doubles(r, d, 6);
    kb_get_u32s(r, u, 3);
    kb_get_u64s(r, v, 4);
    kb_get_doubles(r, NULL, 0);
    size_t last = kb_get_count(r, 100);
    if (!is_intact)
        return;
    ck_assert(first == 0x0102030405060708u && second == -2.5 && last == 77);
    ck_assert(length == 5 && memcmp(text, "caf\xc3\xa9", 5) == 0 && bytes == 0x79787a79787a7978u);
    ck_assert(memcmp(d, numbers, sizeof d) == 0 && memcmp(u, small, sizeof u) == 0 && memcmp(v, large, sizeof v) == 0);
}

START_TEST(what_is_put_is_got)
{
    struct kb_writer w;
    struct kb_reader r;
    kb_writer_init(&w);
    put_all(&w);
    ck_assert_int_eq(w.rc, KB_OK);
    kb_reader_init(&r, w.data, w.n);
    get_all(&r, true);
    ck_assert_int_eq(r.rc, KB_OK);
    ck_assert_uint_eq(r.pos, w.n);
    kb_writer_close(&w);
}
END_TEST

START_TEST(words_are_little_endian)
{
    struct kb_writer w;
    kb_writer_init(&w);
    kb_put_u64(&w, 0x0102030405060708u);
    kb_put_u32s(&w, &(uint32_t){0x0a0b0c0du}, 1);
    const unsigned char want[] = {8, 7, 6, 5, 4, 3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a};
    ck_assert_uint_eq(w.n, sizeof want);
    ck_assert_mem_eq(w.data, want, sizeof want);
    kb_writer_close(&w);
}
END_TEST

START_TEST(every_truncation_is_noticed)
{
    struct kb_writer w;
    kb_writer_init(&w);
    put_all(&w);
    for (size_t n = 0; n < w.n; n++) {
        struct kb_reader r;
        kb_reader_init(&r, w.data, n);
        get_all(&r, false);
        ck_assert_msg(r.rc == KB_ECORRUPT, "cut to %zu of %zu bytes", n, w.n);
    }
    kb_writer_close(&w);
}
END_TEST

START_TEST(reads_after_an_error_give_zeros)
{
    struct kb_reader r;
    double d[2] = {1.0, 2.0};
    size_t length = 9;
    kb_reader_init(&r, "1234567", 7);
    ck_assert_uint_eq(kb_get_u64(&r), 0);
    ck_assert_int_eq(r.rc, KB_ECORRUPT);
    kb_get_doubles(&r, d, 2);
    ck_assert(d[0] == 0.0 && d[1] == 0.0);
    ck_assert_ptr_null(kb_get_str(&r, &length));
    ck_assert_uint_eq(length, 0);
}
END_TEST

START_TEST(giant_lengths_do_not_wrap)
{
    struct kb_writer w;
    struct kb_reader r;
    size_t length;
    kb_writer_init(&w);
    kb_put_u64(&w, UINT64_MAX);
    kb_put_u64(&w, 1);
    kb_reader_init(&r, w.data, w.n);
    ck_assert_ptr_null(kb_get_str(&r, &length));
    ck_assert_int_eq(r.rc, KB_ECORRUPT);
    kb_reader_init(&r, w.data, w.n);
    ck_assert_uint_eq(kb_get_count(&r, 1000), 0);
    ck_assert_int_eq(r.rc, KB_ECORRUPT);
    kb_writer_close(&w);
}
END_TEST

START_TEST(arrays_of_another_length_are_corrupt)
{
    struct kb_writer w;
    struct kb_reader r;
    double d[4];
    kb_writer_init(&w);
    kb_put_doubles(&w, numbers, 4);
    kb_reader_init(&r, w.data, w.n);
    kb_get_doubles(&r, d, 3);
    ck_assert_int_eq(r.rc, KB_ECORRUPT);
    kb_writer_close(&w);
}
END_TEST

START_TEST(random_bytes_never_step_out)
{
    unsigned char noise[256];
    for (uint64_t round = 0; round < 2000; round++) {
        struct kb_reader r;
        for (size_t i = 0; i < sizeof noise; i++) /* small lengths are likely: most bytes are 0 */
            noise[i] = i % 8 == 0 ? (unsigned char)(kb_rng_bits(round, KB_STREAM_SIMULATION, i) & 15) : 0;
        kb_reader_init(&r, noise, sizeof noise);
        get_all(&r, false);
        ck_assert_uint_le(r.pos, sizeof noise);
    }
}
END_TEST

static struct kb_writer writer;

static enum kb_err write_much(void *arg)
{
    (void)arg;
    kb_writer_init(&writer);
    for (int i = 0; i < 3000; i++)
        put_all(&writer);
    return writer.rc;
}

static void close_writer(void *arg)
{
    (void)arg;
    kb_writer_close(&writer);
}

START_TEST(failed_growth_is_sticky)
{
    ck_assert_uint_gt(kbt_brutal(write_much, close_writer, NULL), 3);
}
END_TEST

int main(void)
{
    return KBT_RUN("buf", what_is_put_is_got, words_are_little_endian, every_truncation_is_noticed,
                   reads_after_an_error_give_zeros, giant_lengths_do_not_wrap, arrays_of_another_length_are_corrupt,
                   random_bytes_never_step_out, failed_growth_is_sticky);
}
