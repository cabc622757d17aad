/* The book of time series: what a tenant's traffic did by minute and by hour, for charts.
 *
 * A cell counts the decisions of one minute or hour that have one arm, one route or one version of the configuration:
 *
 *     decisions, closed    made; and of those, whose window has ended or whose reward is final
 *     rewards, sum, square their rewards, once each, as learned: corrections replace or add, default ones count
 *     weight, weighted     sums of 1 / p and of reward / p, p the propensity
 *
 * A reward counts where its decision does, so that a mean belongs to the people of that minute, whenever they answered;
 * a minute changes until all of its decisions are closed. Slates count by slot 0, which was drawn. Observations have no
 * decision and do not count, nor do rewards that came late. By metric, a row has the values that were told of it, and
 * the decisions of all.
 *
 * Bounds: minutes of two days, hours of ninety, both back from the newest event; the first 16 arms that are seen (a
 * name is free again when nothing of it is left) and the last 7 versions, all else is summed as "other"; the 16 metrics
 * that had values last. 58 bytes a cell and 48 an open decision: at most 8 MB, 13 MB with metrics, and the open
 * decisions. */
#ifndef LD_SERIES_H
#define LD_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "book/book.h"
#include "spec/event.h"

extern const struct ld_book_kind ld_series_kind;

/* X(enum, word) */
#define LD_SERIES_STEP_MAP(X)                                                                                          \
    X(LD_STEP_MINUTE, "minute")                                                                                        \
    X(LD_STEP_HOUR, "hour")
enum ld_series_step { LD_SERIES_STEP_MAP(KB_WORD_ENUM) LD_N_STEPS };
extern const struct kb_words ld_series_step_words;

#define LD_SERIES_BY_MAP(X)                                                                                            \
    X(LD_BY_ARM, "arm")                                                                                                \
    X(LD_BY_ROUTE, "route")                                                                                            \
    X(LD_BY_VERSION, "version")                                                                                        \
    X(LD_BY_METRIC, "metric")
enum ld_series_by { LD_SERIES_BY_MAP(KB_WORD_ENUM) LD_BY_NOTHING };
extern const struct kb_words ld_series_by_words;

extern const int64_t ld_series_step_ms[LD_N_STEPS];

#define LD_SERIES_MINUTES 2880 /* that are kept */
#define LD_SERIES_HOURS 2160
#define LD_SERIES_ARMS 16
#define LD_SERIES_VERSIONS 7
#define LD_SERIES_METRICS 16

struct ld_series_cell {
    uint64_t decisions, closed, rewards;
    double sum, square, weight, weighted;
};

struct ld_series_row {
    int64_t at_ms;  /* where the minute or hour begins */
    unsigned which; /* 0: other; else of the view's arms, versions or metrics. By route: enum kb_route */
    struct ld_series_cell cell;
};

/* A copy, which no lock is needed for. */
struct ld_series_view {
    struct ld_series_row *row; /* ascending in time */
    size_t n;
    char *arm[LD_SERIES_ARMS + 1];
    uint64_t version[LD_SERIES_VERSIONS + 1];
    char metric[LD_SERIES_METRICS + 1][KB_METRIC_MAX_BYTES + 1]; /* [0] is the reward itself */
    int64_t kept_from_ms;                                        /* what was before is not known at this step */
};

/* The buckets that begin in [from_ms, to_ms). KB_ENOMEM: nothing is to be closed. */
enum kb_err ld_series_look(const void *book, enum ld_series_step step, enum ld_series_by by, int64_t from_ms,
                           int64_t to_ms, struct ld_series_view *out);
void ld_series_view_close(struct ld_series_view *v);
/* How many values a metric has been told of decisions' slots since the book has counted it, and their sum. */
void ld_series_metric_total(const void *book, const char *name, uint64_t *n, double *sum);

#endif
