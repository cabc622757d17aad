/* The drawings of a report on evaluations (ope_report.h), each an SVG element of 720 pixels' width. `id` is unique in
 * its page. Every figure drawn stands in the JSON as well. */
#ifndef LC_OPE_PLOTS_H
#define LC_OPE_PLOTS_H

#include "evaluate/ope_report.h"

/* A line of a forest plot. value NaN: a heading, or with `note` why there is none. */
struct lc_plot_row {
    const char *label, *colour, *note; /* colour: a class of svg.h; note: NULL, or in place of the interval */
    double value;
    struct lc_interval interval; /* NaN: none */
};

/* Estimates side by side over a line at `reference`. Intervals that reach far beyond the estimates are cut. */
void lc_plot_forest(struct lc_text *t, const char *id, const char *title, const struct lc_plot_row *row, size_t n,
                    double reference);

void lc_plot_courses(struct lc_text *t, const char *id, const struct lc_report_entry *e);
void lc_plot_weights(struct lc_text *t, const char *id, const struct lc_report_entry *e);
void lc_plot_shares(struct lc_text *t, const char *id, const struct lc_report_entry *e);

const char *lc_plot_colour(int kind); /* of an estimator; -1: of the logging policy */

#endif
