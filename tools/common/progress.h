/* Time, and the one line at the bottom of the terminal that says how far something is. */
#ifndef LC_PROGRESS_H
#define LC_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/text.h"

/* CLOCK_MONOTONIC: only differences mean something */
uint64_t lc_now_ns(void);              /* monotonic */
void lc_sleep_until_ns(uint64_t when); /* returns at once when it has passed */

/* Used by one thread, the one that watches. */
struct lc_progress {
    bool is_live; /* standard error is a terminal: redraw one line */
    uint64_t start_ns;
    uint64_t last_ns; /* of the last line that was shown */
    int width;        /* columns of the terminal */
};

void lc_progress_init(struct lc_progress *p, bool is_quiet);

/* Shows the share done and the time left, then `text` (cut at the edge of the terminal), at most ten times a second;
 * fraction in [0, 1], negative when unknown. On anything but a terminal it does nothing. */
void lc_progress_show(struct lc_progress *p, double fraction, const char *text);
void lc_progress_clear(struct lc_progress *p);

bool lc_stdout_has_colours(void); /* a terminal, and NO_COLOR is not set */
bool lc_is_utf8(void);            /* the locale's character set */

#endif
