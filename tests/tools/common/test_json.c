/* JSON as the client writes it: what was read, with as few digits as read back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "kbt.h"

/* What is written of a text. */
static void assert_written(const char *text, bool is_pretty, const char *want)
{
    char why[LC_WHY] = "";
    struct lc_text out = {.n = 0};
    struct json_t *v = lc_json_parse(text, strlen(text), why);
    ck_assert_msg(v != NULL, "%s: %s", text, why);
    lc_json_write(v, is_pretty, &out);
    ck_assert_str_eq(out.data, want);
    lc_text_close(&out);
    lc_json_free(v);
}

START_TEST(reals_have_as_few_digits_as_read_back)
{
    assert_written("[0.1, 0.30000000000000004, 1e-7, 2.5e+100, -0.02, 1.7976931348623157e308]", false,
                   "[0.1,0.30000000000000004,1e-07,2.5e+100,-0.02,1.7976931348623157e+308]");
    assert_written("0.1", true, "0.1");
}
END_TEST

/* Bits by bits, over all magnitudes. */
START_TEST(every_double_reads_back)
{
    uint64_t state = 7;
    for (int i = 0; i < 20000; i++) {
        char text[64], why[LC_WHY] = "";
        double x, back = 0;
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(&x, &state, sizeof x);
        if (!(x - x == 0))
            continue;
        snprintf(text, sizeof text, "[%.17g]", x);
        struct json_t *v = lc_json_parse(text, strlen(text), why);
        struct lc_text out = {.n = 0};
        lc_json_write(v, false, &out);
        ck_assert_uint_le(strlen(out.data), strlen(text));
        back = strtod(out.data + 1, NULL);
        ck_assert_mem_eq(&back, &x, sizeof x);
        lc_text_close(&out);
        lc_json_free(v);
    }
}
END_TEST

START_TEST(all_else_is_as_it_was_read)
{
    assert_written(
        "{\"b\":[],\"a\":{},\"n\":null,\"t\":true,\"f\":false,\"i\":9007199254740993,\"s\":\"q\\\"\\\\\\n\\u00e9\"}",
        false,
        "{\"b\":[],\"a\":{},\"n\":null,\"t\":true,\"f\":false,\"i\":9007199254740993,\"s\":\"q\\\"\\\\\\n\xc3\xa9\"}");
    assert_written("{\"q\\\"k\":[1,{\"x\":0.1}],\"e\":[]}", true,
                   "{\n  \"q\\\"k\": [\n    1,\n    {\n      \"x\": 0.1\n    }\n  ],\n  \"e\": []\n}");
}
END_TEST

int main(void)
{
    return KBT_RUN("json", reals_have_as_few_digits_as_read_back, every_double_reads_back, all_else_is_as_it_was_read);
}
