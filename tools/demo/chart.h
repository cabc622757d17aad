/* Curves in a terminal. For the demos: several running totals over the same rounds, drawn with characters
 * alone, so that they show in a terminal, over ssh and in a log. */
#ifndef LC_CHART_H
#define LC_CHART_H

#include <stdbool.h>
#include <stddef.h>

#include "common/text.h"

/* One curve; all pointers are borrowed for the call. */
struct ld_ope_series {
    const char *label;
    const double *y; /* n values at 1, 2, ..., n */
    size_t n;
    char mark;  /* without colours: what the curve is drawn with */
    int colour; /* ANSI colour, 31 to 37 */
};

struct lc_chart {
    size_t width, height; /* of the drawing, in characters */
    bool is_coloured;     /* braille dots and ANSI colours; else one mark per curve */
    const char *x_label;
};

/* Draws all series over a common axis; later series lie over earlier ones. Appends height + 2 lines. An empty list of
 * series gives empty axes. Cannot fail. */
void lc_chart_draw(const struct lc_chart *c, const struct ld_ope_series *series, size_t n_series, struct lc_text *out);

#endif
