/* Ids of requests. Each thread has a generator of its own, seeded once by the kernel: a counter of 64 bits through the
 * mixing function of SplitMix64 (Steele, Lea, Flood 2014), which is one-to-one, so a thread repeats none of its words;
 * those of two threads meet as those of a random source would. No lock, no system call, some nanoseconds.
 *
 *     traceparent   00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *                   version, trace, the caller's span, flags; small hexadecimal digits only */
#include "base/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, FORM_BYTES = 55 };

static _Thread_local struct ld_trace current;

/* Never 0, which stands for none. */
static uint64_t next_id(void)
{
    static _Thread_local uint64_t state;
    uint64_t x;
    while (state == 0)
        if (getrandom(&state, sizeof state, 0) != sizeof state && errno != EINTR)
            abort(); /* as in ulid.c */
    do {
        x = state += 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x ^= x >> 31;
    } while (x == 0);
    return x;
}

/* n digits at s; false unless all are. Stops at a NUL, which is none. */
static bool parse_hex(const char *s, int n, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < n; i++) {
        int digit = s[i] >= '0' && s[i] <= '9' ? s[i] - '0' : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        *out = *out << 4 | (uint64_t)digit;
    }
    return true;
}

/* Section 3.2 of the recommendation: version ff is none, version 00 has nothing behind the flags, later ones may after
 * another dash; ids of zeros are invalid. */
static bool parse(const char *s, struct ld_trace *out)
{
    uint64_t version, parent, flags;
    if (strnlen(s, FORM_BYTES) < FORM_BYTES || s[TRACE_AT - 1] != '-' || s[SPAN_AT - 1] != '-' ||
        s[FLAGS_AT - 1] != '-')
        return false;
    if (!parse_hex(s + VERSION_AT, 2, &version) || !parse_hex(s + FLAGS_AT, 2, &flags) ||
        !parse_hex(s + SPAN_AT, 16, &parent) || !parse_hex(s + TRACE_AT, 16, &out->high) ||
        !parse_hex(s + TRACE_AT + 16, 16, &out->low))
        return false;
    if (version == 0xff || (s[FORM_BYTES] != '\0' && (version == 0 || s[FORM_BYTES] != '-')))
        return false;
    return (out->high | out->low) != 0 && parent != 0;
}

void ld_trace_begin(struct ld_trace *out, const char *traceparent)
{
    if (traceparent == NULL || !parse(traceparent, out)) {
        out->high = next_id();
        out->low = next_id();
    }
    out->span = next_id();
}

static void put_hex(char *out, uint64_t x)
{
    for (int i = 15; i >= 0; i--, x >>= 4)
        out[i] = "0123456789abcdef"[x & 15];
}

void ld_trace_format(const struct ld_trace *t, char out[LD_TRACE_BYTES])
{
    put_hex(out, t->high);
    put_hex(out + 16, t->low);
    out[32] = '\0';
}

void ld_trace_enter(const struct ld_trace *t)
{
    current = t != NULL ? *t : (struct ld_trace){0};
}

const struct ld_trace *ld_trace_current(void)
{
    return (current.high | current.low) != 0 ? &current : NULL;
}
