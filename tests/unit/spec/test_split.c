/* Weights of a split: order, look-up, limits, and a way through bytes. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "kbt.h"
#include "spec/split.h"

static struct kb_split of(const char *const *ids, size_t n)
{
    struct kb_split s = {.n = 0};
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(kb_split_put(&s, ids[i], (double)strlen(ids[i])), KB_OK);
    return s;
}

START_TEST(the_order_of_telling_does_not_matter)
{
    const struct kb_split a = of((const char *const[]){"b", "aaa", "cc"}, 3);
    const char *const sorted[] = {"aaa", "b", "cc"};
    const struct kb_split b = of((const char *const[]){"cc", "b", "aaa"}, 3);
    ck_assert_uint_eq(kb_split_digest(&a, KB_HASH_INIT), kb_split_digest(&b, KB_HASH_INIT));
    ck_assert(kb_split_is_same(&a, &b));
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_str_eq(kb_split_id(&a, i), sorted[i]);
    ck_assert(kb_split_weight(&a, "cc") == 2 && kb_split_weight(&a, "c") == 0 && kb_split_weight(&a, "d") == 0);
    ck_assert(kb_split_sum(&a) == 6);
}
END_TEST

START_TEST(a_weight_counts_in_the_digest)
{
    struct kb_split a = {.n = 0}, b = {.n = 0};
    kb_split_put(&a, "x", 1);
    kb_split_put(&b, "x", 2);
    ck_assert_uint_ne(kb_split_digest(&a, KB_HASH_INIT), kb_split_digest(&b, KB_HASH_INIT));
    ck_assert(!kb_split_is_same(&a, &b) && kb_split_is_same(&a, &a));
}
END_TEST

START_TEST(it_is_full_by_arms_and_by_bytes)
{
    struct kb_split s = {.n = 0};
    char id[257];
    for (unsigned i = 0; i < KB_SPLIT_ARMS; i++) {
        snprintf(id, sizeof id, "arm %u", i);
        ck_assert_int_eq(kb_split_put(&s, id, 1), KB_OK);
    }
    const struct kb_split before = s;
    ck_assert_int_eq(kb_split_put(&s, "one more", 1), KB_EFULL);
    ck_assert_mem_eq(&s, &before, sizeof s);
    s = (struct kb_split){.n = 0};
    memset(id, 'x', 256);
    id[256] = '\0';
    for (unsigned i = 0; i < 2; i++) {
        id[0] = (char)('a' + i);
        ck_assert_int_eq(kb_split_put(&s, id, 1), KB_OK);
    }
    id[0] = 'z';
    ck_assert_int_eq(kb_split_put(&s, id, 1), KB_EFULL); /* twice 257 are 514, and 254 are left */
    id[253] = '\0';
    ck_assert_int_eq(kb_split_put(&s, id, 1), KB_OK);
    ck_assert_int_eq(kb_split_put(&s, "", 1), KB_EFULL);
}
END_TEST

START_TEST(what_was_saved_is_read_and_damage_is_told)
{
    const struct kb_split s = of((const char *const[]){"b", "aaa", "cc"}, 3);
    struct kb_split read;
    struct kb_writer w;
    struct kb_reader r;
    kb_writer_init(&w);
    kb_split_save(&s, &w);
    ck_assert_int_eq(w.rc, KB_OK);
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_split_load(&read, &r), KB_OK);
    ck_assert_uint_eq(r.pos, w.n);
    ck_assert_uint_eq(kb_split_digest(&read, KB_HASH_INIT), kb_split_digest(&s, KB_HASH_INIT));
    for (size_t cut = 0; cut < w.n; cut++) {
        kb_reader_init(&r, w.data, cut);
        ck_assert_int_eq(kb_split_load(&read, &r), KB_ECORRUPT);
        ck_assert_uint_eq(read.n, 0);
    }
    w.data[w.n - 1] |= 0x80; /* a weight below 0 */
    kb_reader_init(&r, w.data, w.n);
    ck_assert_int_eq(kb_split_load(&read, &r), KB_ECORRUPT);
    kb_writer_close(&w);
}
END_TEST

int main(void)
{
    return KBT_RUN("split", the_order_of_telling_does_not_matter, a_weight_counts_in_the_digest,
                   it_is_full_by_arms_and_by_bytes, what_was_saved_is_read_and_damage_is_told);
}
