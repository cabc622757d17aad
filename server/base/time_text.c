/* Writes and reads the one form of a time (time_text.h). Times are proleptic Gregorian UTC with milliseconds; leap
 * seconds do not exist, as in Unix time. */
#include "base/time_text.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddZ";

/* The last n digits of x. Not by printf: libquadmath makes it slow, and every line of the log has a time. */
static void put_digits(char *out, int n, unsigned x)
{
    for (; n > 0; x /= 10)
        out[--n] = (char)('0' + x % 10);
}

/* Remainders of times before 1970 are made positive first, so that the fraction counts forward there too. A time that
 * the calendar cannot hold prints as the day 1900-01-00, which ld_parse_time refuses; each part keeps to its digits,
 * whatever the input. */
void ld_format_time(int64_t at_ms, char *out)
{
    int64_t s = at_ms / 1000, ms = at_ms % 1000;
    /* C rounds towards zero; times before 1970 want the floor. */
    if (ms < 0) {
        ms += 1000;
        s--;
    }
    time_t t = (time_t)s;
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL)
        memset(&tm, 0, sizeof tm);
    memcpy(out, shape, sizeof shape);
    put_digits(out, 4, (unsigned)(tm.tm_year + 1900));
    put_digits(out + 5, 2, (unsigned)(tm.tm_mon + 1));
    put_digits(out + 8, 2, (unsigned)tm.tm_mday);
    put_digits(out + 11, 2, (unsigned)tm.tm_hour);
    put_digits(out + 14, 2, (unsigned)tm.tm_min);
    put_digits(out + 17, 2, (unsigned)tm.tm_sec);
    put_digits(out + 20, 3, (unsigned)ms);
}

/* n digits at s as a number, -1 when they are not digits. n is at most 4 here. */
static int digits(const char *s, int n)
{
    int value = 0;
    for (int i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        value = value * 10 + (s[i] - '0');
    }
    return value;
}

/* Exactly the form that is written, and nothing else of ISO 8601: one instant has one spelling in a log. The shape is
 * checked first, so that digits() sees digits only; *at_ms is set on success alone. */
int ld_parse_time(const char *text, int64_t *at_ms)
{
    char again[32];
    if (strlen(text) != sizeof shape - 1)
        return -1;
    for (size_t i = 0; shape[i] != '\0'; i++)
        if (shape[i] == 'd' ? digits(text + i, 1) < 0 : text[i] != shape[i])
            return -1;
    /* Months count from 0 and years from 1900, as struct tm has it. */
    struct tm tm = {.tm_year = digits(text, 4) - 1900,
                    .tm_mon = digits(text + 5, 2) - 1,
                    .tm_mday = digits(text + 8, 2),
                    .tm_hour = digits(text + 11, 2),
                    .tm_min = digits(text + 14, 2),
                    .tm_sec = digits(text + 17, 2)};
    int64_t ms = (int64_t)timegm(&tm) * 1000 + digits(text + 20, 3);
    /* timegm folds the 31st of February into March: what does not print as it was read is no date. */
    ld_format_time(ms, again);
    if (strcmp(again, text) != 0)
        return -1;
    *at_ms = ms;
    return 0;
}
