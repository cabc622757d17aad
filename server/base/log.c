/* The log: level, limit, form. Where lines go is log_out.c.
 *
 * A line is formed on the stack, without allocation: it may be called when memory is out. One lock orders the limit and
 * the writing; both are short, for no write waits. Cost: a line below the level is one relaxed load, one that the limit
 * leaves out a lock and a search in a small table, one that goes out some microseconds, mostly the system call. */
#include "base/log.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_out.h"
#include "base/text.h"
#include "base/time_text.h"
#include "base/trace.h"

#define MESSAGE_BYTES 1024 /* escaped */
#define LINE_BYTES 2560    /* below PIPE_BUF: lines of several threads and processes stay whole */
#define N_KINDS 128        /* calls in the code that are told apart; all others share one limit */
#define WINDOW_US 1000000

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static _Atomic int threshold = LD_LOG_INFO;
static _Atomic uint64_t n_limited, n_lost;
static bool is_json, has_priority; /* set before there are other threads */

/* Guards what follows, and the writing. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t n_lost_untold;
static struct kind {
    const char *text; /* the call's format; NULL: free, or the last one, which is everybody else's */
    int64_t since_us;
    uint64_t n, n_left_out;
} kinds[N_KINDS];

/* Takes effect for lines begun after it. Called at the start and by tests. */
void ld_log_set_level(enum ld_log_level level)
{
    atomic_store_explicit(&threshold, (int)level, memory_order_relaxed);
}

/* For printing the options in force. */
const char *ld_log_level_name(int level)
{
    return level >= 0 && level < LD_LOG_N ? level_names[level] : NULL;
}

/* Exact spelling. */
int ld_log_level_from_name(const char *name)
{
    for (int i = 0; i < LD_LOG_N; i++)
        if (strcmp(name, level_names[i]) == 0)
            return i;
    return -1;
}

void ld_log_open(bool as_json)
{
    is_json = as_json;
    has_priority = ld_log_out_is_journal();
    ld_log_out_open();
}

uint64_t ld_log_n_limited(void)
{
    return atomic_load_explicit(&n_limited, memory_order_relaxed);
}

uint64_t ld_log_n_lost(void)
{
    return atomic_load_explicit(&n_lost, memory_order_relaxed);
}

/* --- forming a line ------------------------------------------------------------------------------------- */

struct line {
    char text[LINE_BYTES];
    size_t n;
};

static void put_raw(struct line *l, const char *s)
{
    const size_t n = strlen(s);
    if (l->n + n + 4 > sizeof l->text) /* the end of the line has room always */
        return;
    memcpy(l->text + l->n, s, n);
    l->n += n;
}

/* One character, or one byte that is none: what a terminal or a reader of lines would act on is escaped, the controls
 * U+0080 to U+009f among it, and what is no UTF-8 becomes so. Returns the bytes used of s. */
static size_t put_character(struct line *l, const unsigned char *s)
{
    char code[16];
    const size_t n = ld_text_utf8_length(s);
    const bool is_late_control = n == 2 && s[0] == 0xc2 && s[1] < 0xa0;
    if (*s == '"' || *s == '\\') {
        snprintf(code, sizeof code, "\\%c", *s);
    } else if (*s < 0x20 || *s == 0x7f || is_late_control) {
        snprintf(code, sizeof code, is_json ? "\\u%04x" : "\\x%02x", is_late_control ? s[1] : *s);
    } else if (n == 0) {
        snprintf(code, sizeof code, is_json ? "\\ufffd" : "\\x%02x", *s);
    } else {
        memcpy(code, s, n);
        code[n] = '\0';
    }
    put_raw(l, code);
    return n > 0 ? n : 1;
}

/* Up to `most` bytes of the line; cut between characters. Lines are far from full before it (members are few and
 * short); were one full all the same, the text would end early, and its quotes with it. */
static void put_quoted(struct line *l, const char *s, size_t most)
{
    const size_t room = sizeof l->text - 8, end = l->n + most < room ? l->n + most : room;
    put_raw(l, "\"");
    while (*s != '\0' && l->n + 8 < end)
        s += put_character(l, (const unsigned char *)s);
    put_raw(l, "\"");
}

static void put_key(struct line *l, const char *key)
{
    put_raw(l, is_json ? (l->text[l->n - 1] == '{' ? "\"" : ",\"") : l->n > 0 && l->text[l->n - 1] != '>' ? " " : "");
    put_raw(l, key);
    put_raw(l, is_json ? "\":" : "=");
}

/* Without quotes where logfmt needs none. */
static void put_text(struct line *l, const char *key, const char *s)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:/{}[]+";
    put_key(l, key);
    if (is_json || s[0] == '\0' || s[strspn(s, plain)] != '\0')
        put_quoted(l, s, 256);
    else
        put_raw(l, s);
}

static void put_number(struct line *l, const char *key, double x)
{
    char text[40];
    snprintf(text, sizeof text, "%.15g", isfinite(x) ? x : 0);
    put_key(l, key);
    put_raw(l, text);
}

/* Time, level, message: what every line has. */
static void begin(struct line *l, enum ld_log_level level, const char *msg)
{
    static const char *const priorities[] = {"<7>", "<6>", "<4>", "<3>"};
    char at[40];
    l->n = 0;
    if (has_priority)
        put_raw(l, priorities[level]);
    if (is_json)
        put_raw(l, "{");
    ld_format_time(ld_now_ms(), at);
    put_text(l, "ts", at);
    put_text(l, "level", level_names[level]);
    put_key(l, "msg");
    put_quoted(l, msg, MESSAGE_BYTES);
}

/* Whether it is out. lock held. */
static bool end(struct line *l)
{
    if (is_json)
        l->text[l->n++] = '}';
    l->text[l->n++] = '\n';
    return ld_log_out_write(l->text, l->n);
}

/* --- what is missing ------------------------------------------------------------------------------------ */

/* A line about lines, of `like` when it is not NULL. lock held. */
static bool tell_missing(const char *why, const char *like, uint64_t n)
{
    struct line l;
    begin(&l, LD_LOG_WARN, why);
    put_number(&l, "lines", (double)n);
    if (like != NULL)
        put_text(&l, "like", like);
    return end(&l);
}

/* Told when there is room again. lock held. */
static void tell_lost(void)
{
    if (n_lost_untold > 0 && tell_missing("lines of this log are lost: nobody took them", NULL, n_lost_untold))
        n_lost_untold = 0;
}

/* Ends a window that is over. lock held. */
static void renew(struct kind *k, int64_t now_us)
{
    if (now_us - k->since_us < WINDOW_US)
        return;
    if (k->n_left_out > 0)
        (void)tell_missing("lines of one kind are left out: too many in a second",
                           k == &kinds[N_KINDS - 1] ? "various" : k->text, k->n_left_out);
    k->since_us = now_us;
    k->n = k->n_left_out = 0;
}

/* Of a call; the pointer is the call, whatever it says. lock held. */
static struct kind *find_kind(const char *text)
{
    size_t i = 0;
    while (i < N_KINDS - 1 && kinds[i].text != NULL && kinds[i].text != text)
        i++;
    if (i < N_KINDS - 1)
        kinds[i].text = text;
    return &kinds[i];
}

/* Whether one more line of that kind may go out. lock held. */
static bool take_turn(const char *text)
{
    struct kind *k = find_kind(text);
    renew(k, ld_monotonic_us());
    if (k->n++ < LD_LOG_PER_SECOND)
        return true;
    k->n_left_out++;
    atomic_fetch_add_explicit(&n_limited, 1, memory_order_relaxed);
    return false;
}

void ld_log_tick(void)
{
    pthread_mutex_lock(&lock);
    const int64_t now_us = ld_monotonic_us();
    tell_lost();
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].n_left_out > 0)
            renew(&kinds[i], now_us);
    pthread_mutex_unlock(&lock);
}

/* --- privacy -------------------------------------------------------------------------------------------- */

/* Messages of the core and of the decoders put ids of users, arms and decisions in single quotes ("decision 'x' exists
 * already"), for whoever sent them; here they are blanked. An id may hold quotes and blanks itself: all is blanked from
 * the first quote behind a blank to the last before what ends a word, or to the end of a text that was cut.
 * Apostrophes stand between letters. */
static void blank_ids(char *text)
{
    char *from = text, *to = NULL;
    while ((from = strchr(from, '\'')) != NULL && from > text && from[-1] != ' ' && from[-1] != '(')
        from++;
    if (from == NULL)
        return;
    for (char *p = from + 1; *p != '\0'; p++)
        if (*p == '\'' && (p[1] == '\0' || strchr(" .,:;)", p[1]) != NULL))
            to = p;
    if (to == NULL)
        to = from + strlen(from);
    if (to > from + 1) {
        from[1] = '*';
        memmove(from + 2, to, strlen(to) + 1);
    }
}

/* --- lines ---------------------------------------------------------------------------------------------- */

static void put_members(struct line *l, const struct ld_log_member *member, size_t n)
{
    char trace[LD_TRACE_BYTES];
    for (size_t i = 0; i < n; i++)
        if (member[i].text == NULL)
            put_number(l, member[i].key, member[i].number);
        else if (member[i].text[0] != '\0')
            put_text(l, member[i].key, member[i].text);
    if (ld_trace_current() == NULL)
        return;
    ld_trace_format(ld_trace_current(), trace);
    put_text(l, "trace", trace);
}

static bool is_wanted(enum ld_log_level level)
{
    return (int)level >= atomic_load_explicit(&threshold, memory_order_relaxed);
}

/* lock held. */
static void emit(enum ld_log_level level, const char *msg, const struct ld_log_member *member, size_t n)
{
    struct line l;
    begin(&l, level, msg);
    put_members(&l, member, n);
    tell_lost();
    if (end(&l))
        return;
    n_lost_untold++;
    atomic_fetch_add_explicit(&n_lost, 1, memory_order_relaxed);
}

void ld_log_members(enum ld_log_level level, const char *msg, bool is_all, const struct ld_log_member *member, size_t n)
{
    if (!is_wanted(level))
        return;
    pthread_mutex_lock(&lock);
    if (is_all || take_turn(msg))
        emit(level, msg, member, n);
    pthread_mutex_unlock(&lock);
}

/* Formats nothing when the line is left out. */
void ld_log(enum ld_log_level level, const char *fmt, ...)
{
    char text[MESSAGE_BYTES];
    va_list args;
    if (!is_wanted(level))
        return;
    pthread_mutex_lock(&lock);
    if (take_turn(fmt)) {
        va_start(args, fmt);
        vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
        blank_ids(text);
        emit(level, text, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
}
