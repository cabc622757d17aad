/* SipHash-1-3: values of another implementation (CPython 3.11 hashes its strings with it), and what is promised of
 * words and numbers. */
#include <stdio.h>
#include <string.h>

#include "kbt.h"

static const char *const texts[] = {"a", "abcdefg", "abcdefgh", "abcdefghijklmno",
                                    "a longer string of forty bytes or so....."};

/* PYTHONHASHSEED=0 is the key 0; 42 is the second one, drawn by CPython's own generator. */
START_TEST(strings_hash_as_another_implementation_does)
{
    static const struct {
        struct kb_hash_key key;
        uint64_t want[5];
    } known[] = {
        {{{0, 0}},
         {0x407448d2b89b1813u, 0x6db12aae9070f506u, 0x3f7b849c0b8e35eau, 0x1fd27a29b0e9dc7au, 0x0c955e6e1d99ef47u}},
        {{{0xdc504fd368cd90afu, 0xb920bb9ffe99e9c1u}},
         {0xfe4a47335692551eu, 0x13162120b6bf06edu, 0xb441be6d79f21056u, 0xbaed8ce4a6c84f95u, 0xfa89a0c4705a26dfu}},
    };

    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < 5; i++)
            ck_assert_uint_eq(kb_keyed_str(known[k].key, texts[i]), known[k].want[i]);
}
END_TEST

START_TEST(keyed_words_are_the_string_without_its_last_word)
{
    const struct kb_hash_key key = {{3, 4}};
    const char *text = "sixteen letters!";
    uint64_t word[2];
    struct kb_keyed h = kb_keyed_begin(key);

    memcpy(word, text, sizeof word); /* on a little-endian machine */
    kb_keyed_word(&h, word[0]);
    kb_keyed_word(&h, word[1]);
    ck_assert_uint_ne(kb_keyed_end(h), kb_keyed_str(key, text));
    kb_keyed_word(&h, UINT64_C(16) << 56);
    ck_assert_uint_eq(kb_keyed_end(h), kb_keyed_str(key, text));
}
END_TEST

START_TEST(numbers_that_are_equal_hash_alike)
{
    struct kb_keyed a = kb_keyed_begin(kbt_key), b = a, c = a;

    kb_keyed_double(&a, 0.0);
    kb_keyed_double(&b, -0.0);
    kb_keyed_double(&c, 5e-324);
    ck_assert_uint_eq(kb_keyed_end(a), kb_keyed_end(b));
    ck_assert_uint_ne(kb_keyed_end(a), kb_keyed_end(c));
}
END_TEST

/* Ids that differ in their last digits, as most do: each of 256 buckets gets its share, chi-square on 255 degrees of
 * freedom, mean 255 and standard deviation 22.6. */
START_TEST(ids_that_count_up_fill_all_buckets_alike)
{
    enum { N_BUCKETS = 256, N_IDS = 256 * 64 };
    size_t n[N_BUCKETS] = {0};
    double chi = 0;
    char id[32];

    for (size_t i = 0; i < N_IDS; i++) {
        snprintf(id, sizeof id, "user-%06zu", i);
        n[kb_keyed_str(kbt_key, id) % N_BUCKETS]++;
    }
    for (size_t i = 0; i < N_BUCKETS; i++)
        chi += ((double)n[i] - 64) * ((double)n[i] - 64) / 64;
    ck_assert_double_gt(chi, 255 - 6 * 22.6);
    ck_assert_double_lt(chi, 255 + 6 * 22.6);
}
END_TEST

int main(void)
{
    return KBT_RUN("keyed", strings_hash_as_another_implementation_does,
                   keyed_words_are_the_string_without_its_last_word, numbers_that_are_equal_hash_alike,
                   ids_that_count_up_fill_all_buckets_alike);
}
