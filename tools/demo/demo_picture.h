/* A demo as a picture: the curves of its last race as an SVG file, for light and dark pages. */
#ifndef LC_DEMO_PICTURE_H
#define LC_DEMO_PICTURE_H

#include "demo/race.h"

/* Whether the file can be written, before the race. 0, or 1 after a printed error. */
int lc_demo_picture_check(const char *path);

/* A whole file in its place or none. 0, or 1 after a printed error. */
int lc_demo_picture_write(const struct lc_show *show, const struct lc_runner *runners, size_t n_rounds,
                          const char *path);

#endif
