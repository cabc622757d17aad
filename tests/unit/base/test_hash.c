/* FNV-1a against its published test vectors, and the properties the digest leans on. */
#include <string.h>

#include "base/hash.h"
#include "kbt.h"

START_TEST(bytes_match_the_published_vectors)
{
    /* 64-bit FNV-1a of "", "a" and "foobar", from the algorithm's reference page. */
    ck_assert_uint_eq(kb_hash_bytes(KB_HASH_INIT, "", 0), 0xcbf29ce484222325u);
    ck_assert_uint_eq(kb_hash_bytes(KB_HASH_INIT, "a", 1), 0xaf63dc4c8601ec8cu);
    ck_assert_uint_eq(kb_hash_bytes(KB_HASH_INIT, "foobar", 6), 0x85944171f73967e8u);
}
END_TEST

START_TEST(words_are_hashed_as_little_endian_bytes)
{
    const unsigned char bytes[8] = {0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01};
    ck_assert_uint_eq(kb_hash_u64(KB_HASH_INIT, 0x0102030405060708u), kb_hash_bytes(KB_HASH_INIT, bytes, 8));
}
END_TEST

START_TEST(doubles_are_hashed_by_their_bits)
{
    ck_assert_uint_ne(kb_hash_double(KB_HASH_INIT, 0.0), kb_hash_double(KB_HASH_INIT, -0.0));
    ck_assert_uint_ne(kb_hash_double(KB_HASH_INIT, 1.0), kb_hash_double(KB_HASH_INIT, 1.0 + 0x1p-52));
    ck_assert_uint_eq(kb_hash_double(KB_HASH_INIT, 1.0), kb_hash_u64(KB_HASH_INIT, 0x3ff0000000000000u));
}
END_TEST

START_TEST(strings_carry_their_length)
{
    uint64_t left = kb_hash_str(kb_hash_str(KB_HASH_INIT, "ab"), "c");
    uint64_t right = kb_hash_str(kb_hash_str(KB_HASH_INIT, "a"), "bc");
    ck_assert_uint_ne(left, right);
    ck_assert_uint_ne(kb_hash_str(KB_HASH_INIT, ""), KB_HASH_INIT);
}
END_TEST

START_TEST(pieces_hash_like_the_whole)
{
    uint64_t whole = kb_hash_bytes(KB_HASH_INIT, "laplacian", 9);
    ck_assert_uint_eq(kb_hash_bytes(kb_hash_bytes(KB_HASH_INIT, "lap", 3), "lacian", 6), whole);
}
END_TEST

/* Any one bit, two signs at once, the order of words, and what hangs over at the end. */
START_TEST(arrays_of_any_length_tell_their_changes)
{
    double x[37];
    unsigned char *bytes = (unsigned char *)x;

    for (size_t i = 0; i < 37; i++)
        x[i] = (double)i - 11.5;
    for (size_t n = 1; n <= sizeof x; n += n < 80 ? 1 : 24) {
        const uint64_t h = kb_hash_array(KB_HASH_INIT, x, n);
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            ck_assert_uint_ne(kb_hash_array(KB_HASH_INIT, x, n), h);
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        ck_assert_uint_eq(kb_hash_array(KB_HASH_INIT, x, n), h);
        ck_assert_uint_ne(kb_hash_array(KB_HASH_INIT + 1, x, n), h);
    }
    const uint64_t h = kb_hash_array(KB_HASH_INIT, x, sizeof x);
    for (size_t i = 0; i < 37; i++)
        for (size_t j = i + 1; j < 37; j++) {
            const double a = x[i], b = x[j];
            x[i] = -a;
            x[j] = -b;
            ck_assert_uint_ne(kb_hash_array(KB_HASH_INIT, x, sizeof x), h);
            x[i] = b;
            x[j] = a;
            ck_assert_uint_ne(kb_hash_array(KB_HASH_INIT, x, sizeof x), h);
            x[i] = a;
            x[j] = b;
        }
}
END_TEST

int main(void)
{
    return KBT_RUN("hash", arrays_of_any_length_tell_their_changes, bytes_match_the_published_vectors,
                   words_are_hashed_as_little_endian_bytes, doubles_are_hashed_by_their_bits,
                   strings_carry_their_length, pieces_hash_like_the_whole);
}
