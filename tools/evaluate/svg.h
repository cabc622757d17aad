/* Drawings as SVG elements, appended to a text. A drawing carries its own colours, for light and for dark, so that it
 * can be cut out of its page. Coordinates are pixels from the upper left. Texts may be of anybody: they are escaped. */
#ifndef LC_SVG_H
#define LC_SVG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text.h"

/* Of any bytes for XML and HTML, quoted attributes included: what is no character there becomes U+FFFD. `most`:
 * characters after which it is cut, with an ellipsis; 0: all. */
void lc_xml_put(struct lc_text *t, const char *s, size_t most);

/* Colours: "c0" to "c5" as classes of lines and curves (with "line"), areas ("fill"), bands ("band") and texts
 * ("name"). A rectangle "paper" is a ground for a drawing that stands by itself. */
void lc_svg_open(struct lc_text *t, const char *id, double width, double height, const char *title, const char *about);
void lc_svg_close(struct lc_text *t);
void lc_svg_line(struct lc_text *t, const char *class, double x1, double y1, double x2, double y2);
/* title: what a pointer over it shows; NULL: nothing. */
void lc_svg_rect(struct lc_text *t, const char *class, double x, double y, double w, double h, const char *title);
/* Through n points. */
void lc_svg_curve(struct lc_text *t, const char *class, const double *x, const double *y, size_t n, const char *title);
void lc_svg_dot(struct lc_text *t, const char *class, double x, double y, const char *title);
void lc_svg_text(struct lc_text *t, const char *class, double x, double y,
                 const char *text); /* at most 40 characters */

/* Values lo..hi at pixels from..to; is_log: by their logarithm. */
struct lc_axis {
    double lo, hi, from, to;
    bool is_log;
};

double lc_axis_at(const struct lc_axis *a, double v); /* outside: at the end */

/* Round values inside, at most `max` (at least 4): 1, 2 or 5 times a power of ten apart, or powers of ten. */
size_t lc_axis_ticks(const struct lc_axis *a, double *tick, size_t max);

#endif
