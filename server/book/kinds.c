/* The books that each tenant has. */
#include "book/experiment.h"
#include "book/series.h"

const struct ld_book_kind *const ld_book_kinds[] = {&ld_experiment_book, &ld_series_kind, NULL};
