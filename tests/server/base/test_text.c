/* The writer of JSON text: numbers read back bit for bit, strings are JSON whatever bytes they are made of. */
#include <check.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kbt.h"
#include "base/rng.h"
#include "base/text.h"

static char *number_text(double x)
{
    struct ld_text t;
    size_t n;
    ld_text_init(&t);
    ld_text_number(&t, x);
    return ld_text_take(&t, &n);
}

static uint64_t bits_of(double x)
{
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static void assert_reads_back(double x)
{
    char *text = number_text(x);
    char line[80];
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(bits_of(strtod(text, NULL)) == bits_of(x), "%a was written %s", x, text);
    (void)snprintf(line, sizeof line, "[%s]", text);
    json_t *v = json_loads(line, JSON_DECODE_INT_AS_REAL, NULL);
    ck_assert_msg(v != NULL, "%s is not JSON", text);
    ck_assert(bits_of(json_number_value(json_array_get(v, 0))) == bits_of(x));
    json_decref(v);
    free(text);
}

START_TEST(numbers_of_every_magnitude_read_back_bit_for_bit)
{
    static const double edges[] = {0.0,
                                   -0.0,
                                   1,
                                   -1,
                                   0.1,
                                   1.0 / 3,
                                   5e-324,
                                   -5e-324,
                                   2.2250738585072009e-308,
                                   1e15,
                                   1e15 - 1,
                                   1e16,
                                   9007199254740993.0,
                                   1.7976931348623157e308,
                                   -1e-300,
                                   123456.789,
                                   1e22};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        assert_reads_back(edges[i]);
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t b = kb_rng_bits(17, KB_STREAM_SIMULATION, i);
        double x;
        memcpy(&x, &b, sizeof x);
        if (isfinite(x))
            assert_reads_back(x);
    }
}
END_TEST

START_TEST(numbers_take_the_shortest_form_that_reads_back)
{
    static const struct {
        double x;
        const char *text;
    } rows[] = {{0.1, "0.1"},     {1, "1"}, {-3, "-3"}, {0.5, "0.5"}, {-0.0, "-0"}, {1.0 / 3, "0.3333333333333333"},
                {1e300, "1e+300"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = number_text(rows[i].x);
        ck_assert_str_eq(text, rows[i].text);
        free(text);
    }
}
END_TEST

/* What is typed, measured, drawn or computed: by digits, magnitudes, bits, and beside powers of two, where the next
 * double below is nearer than that above. */
static double any_number(uint64_t i)
{
    const uint64_t b = kb_rng_bits(29, KB_STREAM_SIMULATION, i);
    double x;
    switch (i % 5) {
    case 0:
        return ldexp((double)(b >> 11), -53);
    case 1:
        return ((double)(b % 20000001) - 1e7) / pow(10, (double)((b >> 40) % 12));
    case 2:
        return (double)(int64_t)b / (double)(1 + (b >> 33) % 1000);
    case 3: {
        const uint64_t beside = (b & 0xfff0000000000000u) + (b >> 20) % 3 - 1;
        memcpy(&x, &beside, sizeof x);
        return x;
    }
    default:
        memcpy(&x, &b, sizeof x);
        return x;
    }
}

START_TEST(numbers_are_written_as_printf_does_with_the_first_of_15_to_17_digits_that_reads_back)
{
    for (uint64_t i = 0; i < 200000; i++) {
        const double x = any_number(i);
        char want[48];
        if (!isfinite(x) || (x == trunc(x) && fabs(x) < 1e15))
            continue;
        for (int digits = 15; digits <= 17; digits++) {
            (void)snprintf(want, sizeof want, "%.*g", digits, x);
            if (bits_of(strtod(want, NULL)) == bits_of(x))
                break;
        }
        char *text = number_text(x);
        ck_assert_msg(strcmp(text, want) == 0, "%a was written %s, not %s", x, text, want);
        free(text);
    }
}
END_TEST

/* A locale with a decimal comma; built from what the system has, else the test has nothing to say. */
START_TEST(the_locale_does_not_show)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (setlocale(LC_ALL, names[i]) == NULL)
            continue;
        char *text = number_text(0.25);
        ck_assert_str_eq(text, "0.25");
        free(text);
    }
}
END_TEST

START_TEST(a_number_that_is_not_finite_makes_the_text_fail)
{
    const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < 3; i++)
        ck_assert_ptr_null(number_text(bad[i]));
}
END_TEST

START_TEST(every_byte_string_becomes_valid_json)
{
    for (uint64_t k = 0; k < 3000; k++) {
        char s[24];
        struct ld_text t;
        size_t n;
        for (size_t i = 0; i + 1 < sizeof s; i++)
            s[i] = (char)(1 + kb_rng_bits(5, KB_STREAM_SIMULATION, k * 32 + i) % 255);
        s[sizeof s - 1] = '\0';
        ld_text_init(&t);
        ld_text_lit(&t, "[");
        ld_text_string(&t, s);
        ld_text_lit(&t, "]");
        char *text = ld_text_take(&t, &n);
        ck_assert_ptr_nonnull(text);
        json_t *v = json_loadb(text, n, 0, NULL);
        ck_assert_msg(v != NULL, "not JSON: %s", text);
        json_decref(v);
        free(text);
    }
}
END_TEST

START_TEST(valid_strings_come_back_unchanged)
{
    static const char *const strings[] = {
        "", "plain", "quote\" back\\ slash/", "tab\tnew\nret\r bell\a del\x7f",
        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82 \xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        struct ld_text t;
        size_t n;
        ld_text_init(&t);
        ld_text_lit(&t, "[");
        ld_text_string(&t, strings[i]);
        ld_text_lit(&t, "]");
        char *text = ld_text_take(&t, &n);
        json_t *v = json_loadb(text, n, 0, NULL);
        ck_assert_str_eq(json_string_value(json_array_get(v, 0)), strings[i]);
        json_decref(v);
        free(text);
    }
}
END_TEST

START_TEST(bytes_that_are_not_utf8_become_replacement_characters)
{
    static const char *const bad[] = {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ld_text t;
        size_t n;
        ld_text_init(&t);
        ld_text_string(&t, bad[i]);
        char *text = ld_text_take(&t, &n);
        ck_assert_msg(strncmp(text, "\"\\ufffd", 7) == 0, "%s", text);
        free(text);
    }
}
END_TEST

START_TEST(commas_stand_between_and_nowhere_else)
{
    struct ld_text t;
    size_t n;
    static const double x[] = {1, 2.5};
    ld_text_init(&t);
    ld_text_lit(&t, "{");
    ld_text_put_string(&t, "a", "x{");
    ld_text_put_string(&t, "none", NULL);
    ld_text_put_bool(&t, "b", true);
    ld_text_key(&t, "v");
    ld_text_vector(&t, x, 2);
    ld_text_key(&t, "empty");
    ld_text_vector(&t, NULL, 0);
    ld_text_key(&t, "missing");
    ld_text_vector(&t, NULL, 3);
    ld_text_put_count(&t, "n", UINT64_MAX);
    ld_text_lit(&t, "}");
    char *text = ld_text_take(&t, &n);
    ck_assert_str_eq(text, "{\"a\":\"x{\",\"none\":null,\"b\":true,\"v\":[1,2.5],\"empty\":[],\"missing\":null,"
                           "\"n\":18446744073709551615}");
    ck_assert_uint_eq(n, strlen(text));
    free(text);
}
END_TEST

int main(void)
{
    return KBT_RUN("text", numbers_of_every_magnitude_read_back_bit_for_bit,
                   numbers_take_the_shortest_form_that_reads_back,
                   numbers_are_written_as_printf_does_with_the_first_of_15_to_17_digits_that_reads_back,
                   the_locale_does_not_show, a_number_that_is_not_finite_makes_the_text_fail,
                   every_byte_string_becomes_valid_json, valid_strings_come_back_unchanged,
                   bytes_that_are_not_utf8_become_replacement_characters, commas_stand_between_and_nowhere_else);
}
