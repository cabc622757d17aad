/* Eligibility rules: what they admit, against a plain reading of them; schedules against the C library's calendar;
 * copies that are the same in whatever order the rules came; and damaged snapshots of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "spec/eligibility.h"
#include "base/hash.h"
#include "kbt.h"
#include "base/rng.h"

#define N_WORDS 6u
#define N_ROUNDS 4000u

static const char *const WORD[N_WORDS] = {"a", "b", "bb", "caf\xc3\xa9", "country", "z"};

static uint64_t roll(uint64_t key, uint64_t i)
{
    return kb_rng_bits(key, KB_STREAM_SIMULATION, i);
}

/* Random rules over few names and values, unsorted, with values that stand twice. */
struct room {
    struct kb_attribute_rule rule[6];
    const char *value[6][4];
};

static struct kb_eligibility random_rules(uint64_t key, struct room *room)
{
    struct kb_eligibility rules = KB_ELIGIBILITY_ANY;
    const size_t first = roll(key, 0) % N_WORDS;

    for (size_t i = 0; i < 6; i++) {
        room->rule[i] = (struct kb_attribute_rule){
            .name = WORD[(first + 5 * i) % N_WORDS], .values = room->value[i], .n_values = 1 + roll(key, 10 + i) % 4};
        for (size_t k = 0; k < 4; k++)
            room->value[i][k] = WORD[roll(key, 100 + 4 * i + k) % N_WORDS];
    }
    rules.allow = room->rule;
    rules.n_allow = roll(key, 1) % 3;
    rules.deny = room->rule + 3;
    rules.n_deny = roll(key, 2) % 3;
    return rules;
}

static bool has(const struct kb_attribute_rule *rule, const struct kb_attribute *attributes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < rule->n_values; k++)
            if (strcmp(attributes[i].name, rule->name) == 0 && strcmp(attributes[i].value, rule->values[k]) == 0)
                return true;
    return false;
}

START_TEST(rules_admit_what_a_plain_reading_of_them_does)
{
    size_t n_admitted = 0;

    for (uint64_t round = 0; round < N_ROUNDS; round++) {
        struct room room;
        struct kb_attribute attributes[3];
        struct kb_eligibility *copy = NULL;
        const struct kb_eligibility rules = random_rules(round, &room);
        const size_t n = roll(round, 3) % 4, start = roll(round, 4) % N_WORDS;
        bool is_expected = true;

        for (size_t i = 0; i < n; i++)
            attributes[i] = (struct kb_attribute){WORD[(start + i) % N_WORDS], WORD[roll(round, 50 + i) % N_WORDS]};
        for (size_t i = 0; i < rules.n_allow; i++)
            is_expected = is_expected && has(&rules.allow[i], attributes, n);
        for (size_t i = 0; i < rules.n_deny; i++)
            is_expected = is_expected && !has(&rules.deny[i], attributes, n);
        ck_assert(kb_eligibility_is_valid(&rules));
        ck_assert_int_eq(kb_eligibility_copy(&rules, &copy), KB_OK);
        ck_assert(kb_eligibility_admits(copy, attributes, n, 0) == is_expected);
        n_admitted += is_expected;
        kb_free(copy);
    }
    ck_assert(n_admitted > N_ROUNDS / 10 && n_admitted < N_ROUNDS * 9 / 10);
}
END_TEST

START_TEST(hours_and_days_are_those_of_the_calendar)
{
    for (uint64_t i = 0; i < N_ROUNDS; i++) {
        const int64_t now_ms = (int64_t)(roll(7, i) % 8000000000000u) - 4000000000000; /* 1843 to 2096 */
        const time_t s = (time_t)(now_ms / 1000 - (now_ms % 1000 < 0));
        struct tm tm;
        struct kb_eligibility rules = KB_ELIGIBILITY_ANY;

        ck_assert_ptr_nonnull(gmtime_r(&s, &tm));
        for (unsigned k = 0; k < 24; k++) {
            rules.hours = UINT32_C(1) << k;
            ck_assert(kb_eligibility_admits(&rules, NULL, 0, now_ms) == (k == (unsigned)tm.tm_hour));
        }
        rules.hours = 0;
        for (unsigned k = 0; k < 7; k++) {
            rules.days = UINT32_C(1) << k;
            ck_assert(kb_eligibility_admits(&rules, NULL, 0, now_ms) == (k == (unsigned)(tm.tm_wday + 6) % 7));
        }
    }
}
END_TEST

START_TEST(a_term_begins_with_its_first_moment_and_ends_before_its_last)
{
    struct kb_eligibility rules = KB_ELIGIBILITY_ANY;

    rules.from_ms = 1000;
    rules.until_ms = 2000;
    const int64_t at[] = {999, 1000, 1999, 2000};
    for (size_t i = 0; i < 4; i++)
        ck_assert(kb_eligibility_admits(&rules, NULL, 0, at[i]) == (i == 1 || i == 2));
}
END_TEST

static uint64_t digest_of(const struct kb_eligibility *rules)
{
    struct kb_eligibility *copy = NULL;

    ck_assert_int_eq(kb_eligibility_copy(rules, &copy), KB_OK);
    const uint64_t digest = kb_eligibility_digest(copy, KB_HASH_INIT);
    kb_free(copy);
    return digest;
}

START_TEST(the_order_of_rules_and_values_does_not_matter_and_all_else_does)
{
    const char *ab[] = {"a", "b"}, *ba[] = {"b", "a"}, *ac[] = {"a", "c"};
    const struct kb_attribute_rule one[] = {{"x", ab, 2}, {"y", ab, 1}}, other[] = {{"y", ab, 1}, {"x", ba, 2}},
                                   third[] = {{"x", ac, 2}, {"y", ab, 1}};
    struct kb_eligibility rules = {.allow = one, .n_allow = 2, .from_ms = 1, .until_ms = 9, .hours = 3, .days = 1};
    const uint64_t digest = digest_of(&rules);
    struct kb_eligibility changed[6];

    for (size_t i = 0; i < 6; i++)
        changed[i] = rules;
    rules.allow = other;
    ck_assert_uint_eq(digest_of(&rules), digest);
    changed[0].allow = third;
    changed[1].deny = one, changed[1].n_deny = 2, changed[1].n_allow = 0;
    changed[2].from_ms = 2;
    changed[3].until_ms = 8;
    changed[4].hours = 1;
    changed[5].days = 2;
    for (size_t i = 0; i < 6; i++)
        ck_assert_uint_ne(digest_of(&changed[i]), digest);
}
END_TEST

START_TEST(what_is_beyond_the_limits_is_not_valid)
{
    const char *values[KB_MAX_RULE_VALUES + 1];
    char name[KB_ATTRIBUTE_NAME_MAX_BYTES + 2];
    struct kb_attribute_rule rule[KB_MAX_ATTRIBUTE_RULES + 1];
    char names[KB_MAX_ATTRIBUTE_RULES + 1][8];
    struct kb_eligibility rules = KB_ELIGIBILITY_ANY;

    for (size_t i = 0; i <= KB_MAX_RULE_VALUES; i++)
        values[i] = "v";
    for (size_t i = 0; i <= KB_MAX_ATTRIBUTE_RULES; i++) {
        snprintf(names[i], sizeof names[i], "n%zu", i);
        rule[i] = (struct kb_attribute_rule){names[i], values, KB_MAX_RULE_VALUES};
    }
    rules.deny = rule;
    rules.n_deny = KB_MAX_ATTRIBUTE_RULES;
    ck_assert(kb_eligibility_is_valid(&rules));
#define CASE(change)                                                                                                   \
    do {                                                                                                               \
        const struct kb_eligibility kept = rules;                                                                      \
        const struct kb_attribute_rule first = rule[0];                                                                \
        change;                                                                                                        \
        ck_assert_msg(!kb_eligibility_is_valid(&rules), "%s", #change);                                                \
        rules = kept;                                                                                                  \
        rule[0] = first;                                                                                               \
    } while (0)
    CASE(rules.n_deny++);
    CASE(rule[0].n_values++);
    CASE(rule[0].n_values = 0);
    CASE(rule[0].name = "");
    CASE(rule[0].name = names[1]);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    CASE(rule[0].name = name);
    CASE(rules.hours = UINT32_C(1) << 24);
    CASE(rules.days = UINT32_C(1) << 7);
    CASE(rules.from_ms = rules.until_ms);
}
END_TEST

START_TEST(a_snapshot_gives_the_rules_back_and_a_damaged_one_is_refused)
{
    for (uint64_t round = 0; round < 50; round++) {
        struct room room;
        struct kb_eligibility *copy = NULL, *back = NULL;
        const struct kb_eligibility rules = random_rules(round, &room);
        struct kb_writer w;
        struct kb_reader r;

        ck_assert_int_eq(kb_eligibility_copy(&rules, &copy), KB_OK);
        kb_writer_init(&w);
        kb_eligibility_save(copy, &w);
        kb_reader_init(&r, w.data, w.n);
        ck_assert_int_eq(kb_eligibility_load(&r, &back), KB_OK);
        ck_assert_uint_eq(r.pos, w.n);
        ck_assert_uint_eq(kb_eligibility_digest(back, 1), kb_eligibility_digest(copy, 1));
        kb_free(back);
        for (size_t n = 0; n < w.n; n++) {
            kb_reader_init(&r, w.data, n);
            ck_assert_int_ne(kb_eligibility_load(&r, &back), KB_OK);
        }
        for (size_t i = 0; i < w.n; i++) { /* a changed byte: other rules, or none; never memory that is not ours */
            w.data[i] ^= 0x41;
            kb_reader_init(&r, w.data, w.n);
            if (kb_eligibility_load(&r, &back) == KB_OK)
                kb_free(back);
            w.data[i] ^= 0x41;
        }
        kb_writer_close(&w);
        kb_free(copy);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN(
        "eligibility", rules_admit_what_a_plain_reading_of_them_does, hours_and_days_are_those_of_the_calendar,
        a_term_begins_with_its_first_moment_and_ends_before_its_last,
        the_order_of_rules_and_values_does_not_matter_and_all_else_does, what_is_beyond_the_limits_is_not_valid,
        a_snapshot_gives_the_rules_back_and_a_damaged_one_is_refused);
}
