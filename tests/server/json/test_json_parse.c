/* The parser of bodies beside jansson: both take the same texts, and what they take is the same, numbers bit for bit.
 */
#include <math.h>
#include <stdio.h>

#include "kbt.h"
#include "kbt_json.h"
#include "base/rng.h"

static enum kbt_reading read_both(const char *text)
{
    return kbt_read_both(text, strlen(text));
}

static uint64_t bits(uint64_t i)
{
    return kb_rng_bits(41, KB_STREAM_SIMULATION, i);
}

/* As Python, JavaScript and people write them, and numbers at the lower end. */
START_TEST(texts_are_taken)
{
    static const char *const texts[] = {
        "{\"user\":\"u1\",\"candidates\":[{\"id\":\"a\",\"features\":[0.1,-0.25,3]},\"b\"],\"top\":2,\"explain\":true}",
        "{\"user\": \"caf\\u00e9\", \"context\": [0.37454011884736254, 9.5e-05, 1e-07], \"dry_run\": false}",
        "{\"user\":\"caf\xc3\xa9 "
        "\xf0\x9f\x99\x82\",\"exclude\":[],\"decision\":\"\\ud83d\\ude42\\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
        " [ 1 , null , { } , [ ] , \"\" ] \r\n\t",
        "{\"decision\":\"01KAN0F4ZV3N8Q1R5M7X2Y6W9T\",\"reward\":1}",
        "[0,-0,0.0,-0.0,0e5,1E+2,1e-2,9007199254740993,12345678901234567890123,1.7976931348623157e308,2.3e-308]",
        "[5e-324,2.5e-324,2.4e-324,1e-400,-1e-400,0.1e-323,1e-99999,0e99999,1e000005,1e-00000000000000000000000000400]",
        "[1e-9999999999999999999999,0.00e+9999999999999999999999,0.000000000000000000000000000000000000001e-300]",
        "7",
        "\"s\"",
        "true",
        "false",
        "null",
        "[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(read_both(texts[i]) == KBT_TAKEN, "%s", texts[i]);
}
END_TEST

START_TEST(what_is_no_json_is_refused)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "[1",
                                        "[1,",
                                        "[1,]",
                                        "[,1]",
                                        "[1 2]",
                                        "[1}",
                                        "{\"a\":1]",
                                        "{\"a\"}",
                                        "{\"a\":}",
                                        "{\"a\":1,}",
                                        "{a:1}",
                                        "{1:1}",
                                        "{,}",
                                        "{\"a\" 1}",
                                        "[]]",
                                        "[] []",
                                        "1 2",
                                        "nul",
                                        "nulll",
                                        "True",
                                        "NaN",
                                        "Infinity",
                                        "-",
                                        "+1",
                                        "01",
                                        "-01",
                                        "00",
                                        "1.",
                                        ".5",
                                        "-.5",
                                        "1.e2",
                                        "1e",
                                        "1e+",
                                        "1e5.5",
                                        "0x10",
                                        "1_000",
                                        "1e400",
                                        "-1e400",
                                        "1e9999999999999999999999",
                                        "0.00000000000000000000000000001e400",
                                        "1e99999",
                                        "--1",
                                        "1-",
                                        "\"",
                                        "\"a",
                                        "\"\\\"",
                                        "\"\\x\"",
                                        "\"\\u12\"",
                                        "\"\\u12g4\"",
                                        "\"\\u0000\"",
                                        "\"\t\"",
                                        "\"\n\"",
                                        "\"\x1f\"",
                                        "\"\x80\"",
                                        "\"\xc0\x80\"",
                                        "\"\xed\xa0\x80\"",
                                        "\"\xf5\x80\x80\x80\"",
                                        "\"\xe2\x82\"",
                                        "\"\xff\"",
                                        "\"\\ud83d\"",
                                        "\"\\ude42\"",
                                        "\"\\ud83d\\u0041\"",
                                        "\"\\ud83dx\"",
                                        "'a'",
                                        "\xef\xbb\xbf[]",
                                        "[\v1]",
                                        "[\f1]",
                                        "[\xc2\xa0"
                                        "1]",
                                        "/**/1",
                                        "[1]//",
                                        "{\"a\":1,\"a\":1}",
                                        "{\"a\":1,\"b\":2,\"\\u0061\":3}",
                                        "[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(read_both(texts[i]) == KBT_REFUSED, "%s", texts[i]);
    ck_assert(kbt_read_both("[1]\0", 4) == KBT_REFUSED);
    ck_assert(kbt_read_both("\"a\0b\"", 5) == KBT_REFUSED);
}
END_TEST

/* Digits, point and exponent of any length, so that each way of reading a number is gone. */
static void put_number(char *out, size_t cap, uint64_t i)
{
    static const int lengths[] = {1, 2, 5, 15, 16, 17, 18, 19, 20, 21, 30};
    const uint64_t r = bits(8 * i);
    const int n = lengths[r % 11], point = (int)((r >> 8) % 40) - 5;
    size_t at = 0;

    if ((r >> 16) % 2 == 0)
        out[at++] = '-';
    if (point <= 0)
        at += (size_t)snprintf(out + at, cap - at, "0.%.*s", -point, "00000");
    for (int k = 0; k < n; k++) {
        out[at++] = (char)('0' + (k == 0 ? 1 + bits(8 * i + 1) % 9 : bits(40 * i + (uint64_t)k) % 10));
        if (k + 1 == point && k + 1 < n)
            out[at++] = '.';
    }
    out[at] = '\0';
    if ((r >> 20) % 2 == 0)
        (void)snprintf(out + at, cap - at, "%c%s%d", (r >> 24) % 2 == 0 ? 'e' : 'E',
                       (r >> 25) % 2 == 0   ? "+"
                       : (r >> 26) % 2 == 0 ? "-"
                                            : "",
                       (int)((r >> 32) % ((r >> 28) % 4 == 0 ? 330 : 25)));
}

START_TEST(numbers_are_those_of_strtod_bit_for_bit)
{
    size_t n_taken = 0, n = 100000;
    char text[128];

    for (uint64_t i = 0; i < n; i++) {
        put_number(text, sizeof text, i);
        const enum kbt_reading reading = read_both(text);
        ck_assert_msg(reading != KBT_DIFFERENT, "%s", text);
        n_taken += reading == KBT_TAKEN;
    }
    ck_assert_uint_gt(n_taken, n * 9 / 10);
}
END_TEST

/* What halves of the last place are rounded to. */
START_TEST(numbers_between_two_doubles_are_rounded_as_strtod_does)
{
    char text[800];

    for (uint64_t i = 0; i < 20000; i++) {
        const uint64_t r = bits(i);
        const double x = ldexp((double)(r >> 11 | 1), (int)(r % 200) - 150), next = nextafter(x, (double)INFINITY);
        for (int digits = 15; digits <= 40; digits += 5) {
            (void)snprintf(text, sizeof text, "%.*e", digits, x / 2 + next / 2);
            ck_assert_msg(read_both(text) == KBT_TAKEN, "%s", text);
        }
        (void)snprintf(text, sizeof text, "%.300f", (x + next) / 2);
        ck_assert_msg(read_both(text) == KBT_TAKEN, "%s", text);
    }
}
END_TEST

START_TEST(every_escape_by_number_is_read_as_jansson_reads_it)
{
    char text[32];

    for (unsigned code = 0; code <= 0xffff; code++) {
        (void)snprintf(text, sizeof text, code % 2 == 0 ? "\"%s\\u%04x\"" : "\"%s\\u%04X\"", code % 3 == 0 ? "a" : "",
                       code);
        const bool is_plain = code > 0 && (code < 0xd800 || code > 0xdfff);
        ck_assert_msg(read_both(text) == (is_plain ? KBT_TAKEN : KBT_REFUSED), "%s", text);
    }
    for (uint64_t i = 0; i < 50000; i++) {
        const unsigned high = 0xd7f0 + (unsigned)(bits(i) % 0x420), low = 0xdbf0 + (unsigned)((bits(i) >> 32) % 0x420);
        (void)snprintf(text, sizeof text, "\"\\u%04x\\u%04xz\"", high, low);
        ck_assert_msg(read_both(text) != KBT_DIFFERENT, "%s", text);
    }
}
END_TEST

/* Every beginning of two bytes, with continuation bytes and without. */
START_TEST(bytes_that_are_no_utf8_are_never_taken)
{
    size_t n_taken = 0;

    for (unsigned pair = 0; pair <= 0xffff; pair++) {
        for (size_t n_more = 0; n_more <= 2; n_more++) {
            const char text[] = {'"', (char)(pair >> 8), (char)(pair & 0xff), (char)0x80, (char)0xbf, '"'};
            char cut[6];
            memcpy(cut, text, 3 + n_more);
            cut[3 + n_more] = '"';
            const enum kbt_reading reading = kbt_read_both(cut, 4 + n_more);
            ck_assert_msg(reading != KBT_DIFFERENT, "%04x and %zu more", pair, n_more);
            n_taken += reading == KBT_TAKEN;
        }
    }
    ck_assert_uint_gt(n_taken, 10000);
}
END_TEST

/* A text of any form; *at goes on. */
static void put_value(struct ld_text *t, uint64_t *at, unsigned depth)
{
    static const char *const atoms[] = {"true", "false",  "null",          "0", "-1.5", "1e3", "0.1234567890123456789",
                                        "\"\"", "\"id\"", "\"\\u00e9\\n\""};
    static const char *const spaces[] = {"", "", "", " ", "\n", "\t ", "\r\n"};
    const uint64_t r = bits((*at)++);

    ld_text_lit(t, spaces[r % 7]);
    if (depth == 0 || (r >> 8) % 4 < 2) {
        ld_text_lit(t, atoms[(r >> 16) % 10]);
    } else {
        const bool is_object = (r >> 8) % 4 == 2;
        ld_text_lit(t, is_object ? "{" : "[");
        for (uint64_t i = 0; i < (r >> 24) % 5; i++) {
            if (i > 0)
                ld_text_lit(t, ",");
            if (is_object) {
                const char key[] = {'"', (char)('a' + (r >> 32) % 3 + i), '"', ':', '\0'};
                ld_text_lit(t, key);
            }
            put_value(t, at, depth - 1);
        }
        ld_text_lit(t, spaces[(r >> 40) % 7]);
        ld_text_lit(t, is_object ? "}" : "]");
    }
    ld_text_lit(t, spaces[(r >> 48) % 7]);
}

/* One byte becomes another, of those that JSON is made of. */
static void spoil(char *text, size_t n, uint64_t r)
{
    static const char bytes[] = "{}[]\":,\\ue+-.0123 \n\tntf/\x7f\x80\xc3";
    text[r % n] = bytes[(r >> 32) % (sizeof bytes - 1)];
}

START_TEST(texts_of_any_form_are_read_as_jansson_reads_them_spoilt_ones_too)
{
    uint64_t at = 0;

    for (int i = 0; i < 20000; i++) {
        struct ld_text t;
        size_t n;
        ld_text_init(&t);
        put_value(&t, &at, 6);
        char *text = ld_text_take(&t, &n);
        ck_assert_msg(kbt_read_both(text, n) == KBT_TAKEN, "%s", text);
        for (int k = 0; k < 3; k++) {
            spoil(text, n, bits(at++));
            ck_assert_msg(kbt_read_both(text, n) != KBT_DIFFERENT, "%s", text);
        }
        ck_assert_msg(kbt_read_both(text, bits(at) % n) != KBT_DIFFERENT, "%s, cut", text);
        free(text);
    }
}
END_TEST

/* Whether keys repeat is asked of all that came before; of many members, at the end. */
START_TEST(objects_of_many_members_are_read_all_the_same)
{
    struct ld_text t;
    struct ld_doc *doc = NULL;
    struct ld_problem p;
    size_t n;

    ld_text_init(&t);
    for (unsigned i = 0; i < 5000; i++) {
        char member[32];
        (void)snprintf(member, sizeof member, "%s\"k%u\":%u", i == 0 ? "{" : ",", i, i);
        ld_text_lit(&t, member);
    }
    ld_text_lit(&t, "}");
    char *text = ld_text_take(&t, &n);
    ck_assert(kbt_read_both(text, n) == KBT_TAKEN);
    ld_problem_init(&p);
    ck_assert_int_eq(ld_doc_parse(&doc, text, n, false, &p), 0);
    ck_assert_uint_eq(ld_n_members(&doc->root), 5000);
    ck_assert_double_eq(ld_number_of(ld_member_of(&doc->root, "k4999")), 4999);
    ld_doc_free(doc);
    memcpy(strstr(text, "\"k4321\""), "\"k1234\"", 7);
    ck_assert(kbt_read_both(text, n) == KBT_REFUSED);
    ck_assert_int_eq(ld_doc_parse(&doc, text, n, false, &p), -1);
    ck_assert_str_eq(p.errors[0].pointer, "/k1234");
    text[n - 1] = ']';
    ld_problem_init(&p);
    ck_assert_int_eq(ld_doc_parse(&doc, text, n, false, &p), -1);
    ck_assert_str_eq(p.errors[0].pointer, "/k1234");
    free(text);
}
END_TEST

/* Keys as they came, escaped for a pointer; a list whose value is over is not entered again. */
START_TEST(a_fault_is_told_by_the_place_where_the_reader_stood)
{
    static const struct {
        const char *text, *pointer;
    } cases[] = {{"", ""},
                 {"{", ""},
                 {"{\"a", ""},
                 {"{\"a\"", "/a"},
                 {"{\"a\" 1}", "/a"},
                 {"{\"a\":1 \"b\":2}", "/a"},
                 {"{\"a\":1,}", ""},
                 {"[", "/0"},
                 {"[1,]", "/1"},
                 {"[1,", "/1"},
                 {"[1 2]", "/0"},
                 {"[[1],[2,x]]", "/1/1"},
                 {"[{\"a\":[]", "/0/a"},
                 {"[{\"a\":[]}", "/0"},
                 {"[1] [", ""},
                 {"{\"a~b/\\u00e9\\\"\":{\"c\":[0,0,tru]}}", "/a~0b~1\\u00e9\\\"/c/2"},
                 {"{\"a\":{\"b\":1,\"b\":2}}", "/a/b"},
                 {"{\"a\":[1,1e400]}", "/a/1"},
                 {"[[[[[[[[[[[[[[[[[", "/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ld_doc *doc = NULL;
        struct ld_problem p;
        ld_problem_init(&p);
        ck_assert_int_eq(ld_doc_parse(&doc, cases[i].text, strlen(cases[i].text), false, &p), -1);
        ck_assert_msg(strcmp(p.errors[0].pointer, cases[i].pointer) == 0, "%s: %s", cases[i].text, p.errors[0].pointer);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("json_parse", texts_are_taken, what_is_no_json_is_refused, numbers_are_those_of_strtod_bit_for_bit,
                   numbers_between_two_doubles_are_rounded_as_strtod_does,
                   every_escape_by_number_is_read_as_jansson_reads_it, bytes_that_are_no_utf8_are_never_taken,
                   texts_of_any_form_are_read_as_jansson_reads_them_spoilt_ones_too,
                   objects_of_many_members_are_read_all_the_same, a_fault_is_told_by_the_place_where_the_reader_stood);
}
