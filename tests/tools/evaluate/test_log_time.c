/* Times of logs: what the server has written is read back to the millisecond; what is no time changes nothing. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>

#include "kbt.h"
#include "evaluate/log_reader.h"
#include "base/time_text.h"

START_TEST(every_millisecond_comes_back)
{
    for (int64_t at = 1800000000000; at < 1800000060000; at += 7) {
        char text[40];
        int64_t got = 0;

        ld_format_time(at, text);
        ck_assert(lc_log_time(text, &got));
        ck_assert_int_eq(got, at);
        snprintf(text, sizeof text, "%" PRId64 ".%03d", at / 1000, (int)(at % 1000)); /* Unix time in seconds */
        ck_assert(lc_log_time(text, &got));
        ck_assert_int_eq(got, at);
        snprintf(text, sizeof text, "%" PRId64, at);
        ck_assert(lc_log_time(text, &got));
        ck_assert_int_eq(got, at);
    }
}
END_TEST

START_TEST(what_is_no_time_is_refused)
{
    static const char *const texts[] = {"",
                                        "now",
                                        "-1",
                                        "1e300",
                                        "1e15",
                                        "2027-13-01T00:00:00Z",
                                        "2027-01-01",
                                        "2027-01-01T00:00:61Z",
                                        "2027-01-01T00:00:00 UTC"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        int64_t at = 5;

        ck_assert_msg(!lc_log_time(texts[i], &at), "%s", texts[i]);
        ck_assert_int_eq(at, 5);
    }
}
END_TEST

int main(void)
{
    return KBT_RUN("log_time", every_millisecond_comes_back, what_is_no_time_is_refused);
}
