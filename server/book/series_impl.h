/* Inside of the book of time series: series.c folds, series_look.c reads, series_metric.c counts metrics, series_io.c
 * saves and loads. */
#ifndef LD_BOOK_SERIES_IMPL_H
#define LD_BOOK_SERIES_IMPL_H

#include "base/buf.h"
#include "base/hash_key.h"
#include "book/series.h"
#include "spec/event.h"

#define LD_SERIES_N_ARMS (LD_SERIES_ARMS + 1)
#define LD_SERIES_N_VERSIONS (LD_SERIES_VERSIONS + 1)
#define LD_SERIES_FIRST_ROUTE LD_SERIES_N_ARMS
#define LD_SERIES_FIRST_VERSION (LD_SERIES_FIRST_ROUTE + KB_ROUTE_N)
#define LD_SERIES_FIRST_METRIC (LD_SERIES_FIRST_VERSION + LD_SERIES_N_VERSIONS)
#define LD_SERIES_N_KINDS 3 /* of keys that a decision has one of each */
#define LD_SERIES_N_KEYS (LD_SERIES_FIRST_METRIC + LD_SERIES_METRICS)

struct ld_series_bucket {
    uint32_t t; /* in units of the step */
    uint8_t n, cap;
    uint8_t place[LD_SERIES_N_KEYS]; /* 0: it has no such cell */
    struct ld_series_cell *cell;
};

struct ld_series_span {
    struct ld_series_bucket *bucket;
    size_t n, cap;
};

struct ld_series_open {
    uint64_t id; /* of the decision, hashed; 0: the place is free */
    double weight, reward;
    uint32_t minute, until; /* when it was made; when its window ends */
    uint32_t arm_hash;      /* of slot 0 */
    uint8_t arm, route, version, n_left;
    bool has_reward;
    uint16_t counted[2]; /* metrics by their places, of which a value is in the sums: of slot 0, of another slot */
};

/* Of a metric that has values: all that were told. The name that had none for longest gives way to a new one. */
struct ld_series_metric {
    char name[KB_METRIC_MAX_BYTES + 1]; /* "": none */
    uint32_t newest;                    /* minute of the last value */
    uint64_t n;                         /* decisions' slots with a value */
    double sum;
};

struct ld_series {
    struct ld_series_span span[LD_N_STEPS];
    struct kb_hash_key key; /* drawn when it is first needed, then the book's for ever */
    bool has_key;
    struct ld_series_open *open;
    size_t n_open, n_places, n_cells;
    char *arm[LD_SERIES_N_ARMS];            /* [0] is all others */
    uint64_t version[LD_SERIES_N_VERSIONS]; /* likewise */
    uint8_t now;                            /* of version[] */
    uint8_t aggregation;
    uint32_t newest, tidied; /* minute; hour */
    bool has_metrics;        /* decisions stay open until their windows close */
    struct ld_series_metric metric[LD_SERIES_METRICS];
};

extern const uint32_t ld_series_unit[LD_N_STEPS]; /* minutes of a step */
extern const uint32_t ld_series_kept[LD_N_STEPS]; /* buckets of each */

/* NULL: there is none. */
struct ld_series_bucket *ld_series_find_bucket(const struct ld_series_span *span, uint32_t t);
enum kb_err ld_series_make_bucket(struct ld_series_span *span, uint32_t t, struct ld_series_bucket **out);
void ld_series_add_cell(struct ld_series_cell *to, const struct ld_series_cell *d);
enum kb_err ld_series_make_cell(struct ld_series *s, struct ld_series_bucket *b, unsigned key);
/* What a key has becomes part of the key of all others; into: LD_SERIES_N_KEYS, it is lost. */
void ld_series_fold_key(struct ld_series_bucket *b, unsigned key, unsigned into);
/* Room for one more open decision. */
enum kb_err ld_series_fit_open(struct ld_series *s);
void ld_series_put_open(struct ld_series *s, const struct ld_series_open *o);

/* NULL: it is not open, or was never seen. By its hash, as `open` has it. */
struct ld_series_open *ld_series_find_open(const struct ld_series *s, uint64_t id);

/* series_metric.c: a value of a decision at a minute; is_first_slot: of slot 0, which alone has a place in time.
 * KB_ENOMEM: nothing was counted. */
enum kb_err ld_series_take_metric(struct ld_series *s, struct ld_series_open *o, bool is_first_slot, uint32_t minute,
                                  const struct kb_ev_metric *metric);
/* The rows of a bucket by metric; total: of all its decisions. */
void ld_series_copy_metrics(const struct ld_series_bucket *b, const struct ld_series_cell *total, int64_t at_ms,
                            struct ld_series_view *v);

void ld_series_save(const void *book, struct kb_writer *w);
enum kb_err ld_series_load(void *book, struct kb_reader *r);

#endif
