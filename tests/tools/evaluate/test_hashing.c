/* Hashing of features, against the published values of MurmurHash3; streams that unpack; times. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/hashing.h"
#include "common/json.h"
#include "kbt.h"
#include "evaluate/log_features.h"
#include "evaluate/log_reader.h"
#include "evaluate/unpack.h"

START_TEST(murmur3_has_its_published_values)
{
    static const struct {
        const char *bytes;
        size_t n;
        uint32_t seed, want;
    } rows[] = {{"", 0, 0, 0},
                {"", 0, 1, 0x514E28B7},
                {"", 0, 0xFFFFFFFF, 0x81F16F39},
                {"\xFF\xFF\xFF\xFF", 4, 0, 0x76293B50},
                {"\x21\x43\x65\x87", 4, 0, 0xF55B516B},
                {"\x21\x43\x65\x87", 4, 0x5082EDEE, 0x2362F9DE},
                {"\x21\x43\x65", 3, 0, 0x7E4A8634},
                {"\x21\x43", 2, 0, 0xA0F7B07A},
                {"\x21", 1, 0, 0x72661CF4},
                {"\0\0\0\0", 4, 0, 0x2362F9DE},
                {"Hello, world!", 13, 0x9747B28C, 0x24884CBA},
                {"The quick brown fox jumps over the lazy dog", 43, 0x9747B28C, 0x2FA826CD}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_uint_eq(ld_murmur3(rows[i].bytes, rows[i].n, rows[i].seed), rows[i].want);
}
END_TEST

/* Over many names, each coordinate is hit as often as any other and the sign is a fair coin, so that inner products of
 * different features are 0 on average. */
START_TEST(hashed_features_spread_and_their_signs_are_fair)
{
    enum { DIM = 7, N = 70000 };
    const struct ld_hasher h = {DIM, 42};
    double count[DIM] = {0}, sum[DIM] = {0}, x[DIM];
    char name[32];

    for (int i = 0; i < N; i++) {
        memset(x, 0, sizeof x);
        snprintf(name, sizeof name, "feature %d", i);
        ld_hash_number(&h, name, 1.0, x);
        for (int k = 0; k < DIM; k++) {
            count[k] += fabs(x[k]);
            sum[k] += x[k];
        }
    }
    for (int k = 0; k < DIM; k++) {
        ck_assert(fabs(count[k] - N / DIM) < 5 * sqrt((double)N / DIM));
        ck_assert(fabs(sum[k]) < 5 * sqrt((double)N / DIM));
    }
}
END_TEST

START_TEST(seeds_and_kinds_of_features_are_told_apart)
{
    enum { DIM = 4096 };
    const struct ld_hasher h = {DIM, 1}, other = {DIM, 2}, none = {0, 1};
    static double a[DIM], b[DIM], c[DIM];

    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    memset(c, 0, sizeof c);
    ld_hash_category(&h, "country", "at", a);
    ld_hash_number(&h, "country=at", 1.0, b); /* by definition the same feature */
    ck_assert(memcmp(a, b, sizeof a) == 0);
    ld_hash_category(&other, "country", "at", c);
    ck_assert(memcmp(a, c, sizeof a) != 0);
    ld_hash_number(&h, "country=at", -3.0, a);
    ld_hash_number(&h, "country=at", 2.0, a);
    for (size_t i = 0; i < DIM; i++)
        ck_assert(a[i] == 0.0); /* features of one name add up */
    ld_hash_category(&none, "country", "at", NULL);
}
END_TEST

/* Names are paths of namespaces; the same values in another order are the same vector. */
START_TEST(json_is_hashed_by_names_and_not_by_order)
{
    enum { DIM = 64 };
    static const char *const text[] = {
        "{\"u\":{\"age\":3,\"town\":\"Graz\"},\"v\":[1,0,2],\"w\":true,\"_x\":9,\"n\":null}",
        "{\"w\":true,\"v\":[1,0,2],\"u\":{\"town\":\"Graz\",\"age\":3},\"f\":false}"};
    const struct ld_hasher h = {DIM, 5};
    double got[2][DIM], want[DIM] = {0};
    char why[LC_WHY];

    for (size_t i = 0; i < 2; i++) {
        struct json_t *v = lc_json_parse(text[i], strlen(text[i]), why);
        ck_assert_ptr_nonnull(v);
        lc_hash_json(&h, NULL, v, got[i]);
        lc_json_free(v);
    }
    ld_hash_number(&h, "u^age", 3, want);
    ld_hash_category(&h, "u^town", "Graz", want);
    ld_hash_number(&h, "v^0", 1, want);
    ld_hash_number(&h, "v^2", 2, want);
    ld_hash_number(&h, "w", 1, want);
    ck_assert(memcmp(got[0], got[1], sizeof got[0]) == 0);
    ck_assert(memcmp(got[0], want, sizeof want) == 0);
}
END_TEST

/* --- packed files --------------------------------------------------------------------------------------- */

/* What comes out of a file of these bytes; *is_good: without an error. */
static size_t unpacked(const void *bytes, size_t n, char *out, size_t cap, bool *is_good)
{
    FILE *file = tmpfile();

    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    rewind(file);
    FILE *stream = lc_unpack(file);
    ck_assert_ptr_nonnull(stream);
    const size_t got = fread(out, 1, cap, stream);
    *is_good = !ferror(stream);
    fclose(stream);
    return got;
}

static size_t pack_gzip(const char *text, size_t n, unsigned char *out, size_t cap)
{
    z_stream z = {0};

    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (unsigned char *)(uintptr_t)text;
    z.avail_in = (uInt)n;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    const size_t made = cap - z.avail_out;
    deflateEnd(&z);
    return made;
}

/* With a checksum, as the command line tool writes it. */
static size_t pack_zstd(const char *text, size_t n, unsigned char *out, size_t cap)
{
    ZSTD_CCtx *z = ZSTD_createCCtx();

    ck_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(z, ZSTD_c_checksumFlag, 1)));
    const size_t made = ZSTD_compress2(z, out, cap, text, n);
    ck_assert(!ZSTD_isError(made));
    ZSTD_freeCCtx(z);
    return made;
}

#define TEXT_BYTES 300000u

/* Text of 300 kB that packs badly enough to take several buffers; twice, as two members or frames. */
START_TEST(plain_gzip_and_zstd_read_alike_and_cuts_are_noticed)
{
    char *text = malloc(TEXT_BYTES), *out = malloc(3 * TEXT_BYTES);
    unsigned char *packed = malloc(3 * TEXT_BYTES);
    bool is_good;

    for (size_t i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + ld_murmur3(&i, sizeof i, 0) % 26);
    ck_assert_uint_eq(unpacked(text, TEXT_BYTES, out, 3 * TEXT_BYTES, &is_good), TEXT_BYTES);
    ck_assert(is_good && memcmp(out, text, TEXT_BYTES) == 0);
    for (int kind = 0; kind < 2; kind++) {
        size_t n = 0;
        for (int part = 0; part < 2; part++)
            n += (kind == 0 ? pack_gzip : pack_zstd)(text, TEXT_BYTES, packed + n, 3 * TEXT_BYTES - n);
        ck_assert_uint_eq(unpacked(packed, n, out, 3 * TEXT_BYTES, &is_good), 2 * TEXT_BYTES);
        ck_assert(is_good && memcmp(out, text, TEXT_BYTES) == 0 && memcmp(out + TEXT_BYTES, text, TEXT_BYTES) == 0);
        (void)unpacked(packed, n - 9, out, 3 * TEXT_BYTES, &is_good);
        ck_assert(!is_good);
        packed[n / 3] ^= 0x55;
        (void)unpacked(packed, n, out, 3 * TEXT_BYTES, &is_good);
        ck_assert(!is_good);
    }
    ck_assert_uint_eq(unpacked("", 0, out, 1, &is_good), 0);
    ck_assert(is_good);
    free(packed);
    free(out);
    free(text);
}
END_TEST

START_TEST(times_of_the_formats_are_one_clock)
{
    static const char *const bad[] = {
        "", "soon", "2019-13-24 00:00:00", "1960-01-01 00:00:00", "2019-11-24 00:03:13+1", "-5"};
    int64_t at;

    ck_assert(lc_log_time("1970-01-01T00:00:00Z", &at) && at == 0);
    ck_assert(lc_log_time("2019-11-24 00:03:13.442536+00:00", &at) && at == 1574553793442);
    ck_assert(lc_log_time("2019-11-24 01:03:13.442536+01:00", &at) && at == 1574553793442);
    ck_assert(lc_log_time("2024-02-29T12:00:00.5000000Z", &at) && at == 1709208000500);
    ck_assert(lc_log_time("1574553793", &at) && at == 1574553793000);
    ck_assert(lc_log_time("1574553793442", &at) && at == 1574553793442);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!lc_log_time(bad[i], &at), "%s", bad[i]);
}
END_TEST

int main(void)
{
    return KBT_RUN("hashing", murmur3_has_its_published_values, hashed_features_spread_and_their_signs_are_fair,
                   seeds_and_kinds_of_features_are_told_apart, json_is_hashed_by_names_and_not_by_order,
                   plain_gzip_and_zstd_read_alike_and_cuts_are_noticed, times_of_the_formats_are_one_clock);
}
