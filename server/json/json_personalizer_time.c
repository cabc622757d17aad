/* See json_personalizer_time.h. */
#include "json/json_personalizer_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time_text.h"

#define DAY_S 86400.0
#define MOST_DIGITS 9u

/* One number with its unit at *at, which moves behind them: seconds, or -1 where it is none of the units. */
static double read_part(const char **at, const char *units, const double *seconds)
{
    const size_t n = strspn(*at, "0123456789.");
    const char *unit = n > 0 && (*at)[n] != '\0' ? strchr(units, (*at)[n]) : NULL;
    char *end;
    if (unit == NULL || n > MOST_DIGITS)
        return -1;
    const double number = strtod(*at, &end);
    if (end != *at + n)
        return -1;
    *at = end + 1;
    return number * seconds[unit - units];
}

double ld_duration_of(const char *text)
{
    static const double day[] = {DAY_S}, time[] = {3600, 60, 1};
    double sum = 0;
    bool is_time = false;
    if (text == NULL || *text != 'P' || text[1] == '\0')
        return -1;
    for (const char *at = text + 1; *at != '\0';) {
        if (*at == 'T' && !is_time && at[1] != '\0') {
            is_time = true;
            at++;
        }
        const double part = is_time ? read_part(&at, "HMS", time) : read_part(&at, "D", day);
        if (part < 0)
            return -1;
        sum += part;
    }
    return sum;
}

void ld_text_duration(struct ld_text *t, const char *name, double seconds)
{
    ld_text_key(t, name);
    ld_text_lit(t, "\"PT");
    ld_text_number(t, seconds);
    ld_text_lit(t, "S\"");
}

/* "Z", "+01:30" or nothing, which is Z, as minutes. False: it is none of them. */
static bool read_zone(const char *text, int *minutes)
{
    int hours, rest, n = 0;
    *minutes = 0;
    if (text[0] == '\0' || strcmp(text, "Z") == 0)
        return true;
    if (sscanf(text + 1, "%2d:%2d%n", &hours, &rest, &n) != 2 || n != 5 || text[6] != '\0' || hours > 14 || rest > 59)
        return false;
    *minutes = (text[0] == '-' ? -1 : 1) * (60 * hours + rest);
    return text[0] == '+' || text[0] == '-';
}

bool ld_moment_of(const char *text, int64_t *at_ms)
{
    char whole[32], fraction[4] = "000";
    int minutes;
    const size_t n = text != NULL ? strlen(text) : 0;
    const char *at = n >= 19 ? text + 19 : "?";
    if (*at == '.') {
        const size_t n_digits = strspn(at + 1, "0123456789");
        if (n_digits == 0 || n_digits > MOST_DIGITS)
            return false;
        memcpy(fraction, at + 1, n_digits < 3 ? n_digits : 3);
        at += 1 + n_digits;
    }
    if (!read_zone(at, &minutes))
        return false;
    (void)snprintf(whole, sizeof whole, "%.19s.%sZ", text, fraction);
    if (ld_parse_time(whole, at_ms) != 0)
        return false;
    *at_ms -= (int64_t)minutes * 60000;
    return true;
}
