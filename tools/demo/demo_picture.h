/* A demo as a picture: the curves of its last race as an SVG file, for light and dark pages. */
#ifndef LC_DEMO_PICTURE_H
#define LC_DEMO_PICTURE_H

#include "demo/race.h"

/* Texts of at most 40 characters each; `about` may be longer (what somebody is told who cannot see it). */
struct lc_picture {
    const char *title, *y_label, *x_label, *about;
    size_t n_rounds;
    size_t base; /* this runner's curve is taken off all; n of the runners: none is */
};

/* Whether the file can be written, before the race. 0, or 1 after a printed error. */
int lc_demo_picture_check(const char *path);

/* A whole file in its place or none. 0, or 1 after a printed error. */
int lc_demo_picture_write(const struct lc_picture *p, const struct lc_runner *runners, size_t n, const char *path);

#endif
