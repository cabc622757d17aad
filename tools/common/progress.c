/* Time and progress. The line goes to standard error, so that standard output stays clean for what is asked for;
 * it is redrawn in place with a carriage return and cleared at the end.
 *
 * The time left is elapsed (1 - fraction) / fraction: no smoothing, since the fraction advances evenly here.
 *
 * Three ways to be silent: --quiet, --json, and a standard error that is no terminal; the work is the
 * same with each. Nothing here is shared between threads. */
#include "common/progress.h"

#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_NS 100000000u
#define BAR_CELLS 10
#define WIDE 110 /* columns from which on there is room for the bar */

uint64_t lc_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* To an absolute time, so that signals and delays do not add up over many calls. */
void lc_sleep_until_ns(uint64_t when)
{
    struct timespec ts = {.tv_sec = (time_t)(when / 1000000000u), .tv_nsec = (long)(when % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        continue;
}

/* Asked once: a terminal that is resized in between shows a wrapped line at worst. 80 when nobody knows, and for
 * terminals too narrow to be true. Of standard error, where the line goes, even when standard output is a file. */
static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        return size.ws_col;
    return 80;
}

/* The clock of the time left starts here. last_ns = 0 makes the first call of show draw at once. */
void lc_progress_init(struct lc_progress *p, bool is_quiet)
{
    p->is_live = !is_quiet && isatty(STDERR_FILENO);
    p->start_ns = lc_now_ns();
    p->last_ns = 0;
    p->width = terminal_width();
}

/* "0:07", "12:34", "1:02:03". buf: 24 bytes. */
static const char *clock_text(double seconds, char *buf)
{
    unsigned long s = seconds > 0.0 && seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(buf, 24, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, 24, "%lu:%02lu", s / 60, s % 60);
    return buf;
}

static void put_bar(struct lc_text *line, double fraction, bool has_cells)
{
    int full = (int)(fraction * BAR_CELLS + 0.5);
    if (has_cells)
        lc_text_puts(line, "[");
    for (int i = 0; has_cells && i < BAR_CELLS; i++)
        lc_text_puts(line, i < full ? "#" : ".");
    lc_text_printf(line, "%s%3.0f %%  ", has_cells ? "] " : "", 100.0 * fraction);
}

/* Nothing is estimated in the first percent, where the estimate would jump. */
void lc_progress_show(struct lc_progress *p, double fraction, const char *text)
{
    char clock[24];
    struct lc_text line = {0};
    uint64_t now = lc_now_ns();
    if (!p->is_live || now - p->last_ns < REDRAW_NS)
        return;
    p->last_ns = now;
    if (fraction > 1.0)
        fraction = 1.0;
    if (fraction >= 0.0)
        put_bar(&line, fraction, p->width >= WIDE);
    double elapsed = (double)(now - p->start_ns) * 1e-9;
    if (fraction > 0.01)
        lc_text_printf(&line, "%s left  ", clock_text(elapsed * (1.0 - fraction) / fraction, clock));
    lc_text_shown(&line, text, false);
    /* a line as wide as the terminal would wrap and could not be redrawn in place */
    fprintf(stderr, "\r\033[K%.*s", p->width - 1, line.data != NULL ? line.data : "");
    fflush(stderr);
    lc_text_close(&line);
}

void lc_progress_clear(struct lc_progress *p)
{
    if (p->is_live)
        fputs("\r\033[K", stderr);
}

/* https://no-color.org: any value that is not empty switches colours off. */
bool lc_stdout_has_colours(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no != NULL && *no != '\0')
        return false;
    return isatty(STDOUT_FILENO) && (term == NULL || strcmp(term, "dumb") != 0);
}

/* Needs setlocale(LC_CTYPE, "") before (main.c). */
bool lc_is_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}
