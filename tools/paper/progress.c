/* How far an experiment is: a line that is redrawn on a terminal, a line every half minute elsewhere (a log of a long
 * run should not be a log of its progress). On stderr, so that stdout holds the tables only.
 *
 * A run has no progress of its own here: it is a child, and what it sends is its record. So the line counts runs.
 *
 * Time left: elapsed time for each run done, times the runs left. Runs differ in length, so it is a guess until
 * every algorithm has had its turn; runs that were read from an earlier call do not count. */
#include "paper/frame.h"

#include <time.h>
#include <unistd.h>

#define CELLS 24
#define SECONDS_BETWEEN_LINES 30.0
#define SECONDS_BETWEEN_REDRAWS 0.2

/* Seconds on a clock that nobody sets. Wall time: waiting for the machine is part of waiting. */
static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* `name` is borrowed. The first line comes after an interval, so that a quick experiment says nothing. */
void pb_progress_init(struct pb_progress *p, const char *name, size_t n_all)
{
    *p = (struct pb_progress){.name = name, .n_all = n_all, .is_terminal = isatty(STDERR_FILENO) == 1};
    p->start = p->last = now();
}

static const char *clock_text(double seconds, char *buf, size_t size)
{
    const unsigned long s = seconds > 0 && seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 0;

    if (s >= 3600)
        snprintf(buf, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, size, "%lu:%02lu", s / 60, s % 60);
    return buf;
}

/* Back to the start of the line, which is erased first: a shorter text leaves nothing of a longer one. */
static void put_bar(double share)
{
    fputs("\r\033[K[", stderr);
    for (int i = 0; i < CELLS; i++)
        fputc(i < (int)(share * CELLS + 0.5) ? '#' : '.', stderr);
    fputs("] ", stderr);
}

/* Called as often as one likes; a look at the clock when it is too early. n_all > 0. */
void pb_progress_show(struct pb_progress *p)
{
    const double t = now(), elapsed = t - p->start;
    char spent[32], left[32];

    if (t - p->last < (p->is_terminal ? SECONDS_BETWEEN_REDRAWS : SECONDS_BETWEEN_LINES))
        return;
    p->last = t;
    if (p->is_terminal)
        put_bar((double)p->n_done / (double)p->n_all);
    fprintf(stderr, "%s: %zu of %zu runs, %s gone", p->name, p->n_done, p->n_all,
            clock_text(elapsed, spent, sizeof spent));
    if (p->n_done > 0)
        fprintf(stderr, ", %s left",
                clock_text(elapsed * (double)(p->n_all - p->n_done) / (double)p->n_done, left, sizeof left));
    if (!p->is_terminal)
        fputc('\n', stderr);
    fflush(stderr);
}

void pb_progress_clear(struct pb_progress *p)
{
    if (p->is_terminal)
        fputs("\r\033[K", stderr);
}
