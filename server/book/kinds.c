/* The books that each tenant has. */
#include "book/book.h"

#include "book/experiment.h"

const struct ld_book_kind *const ld_book_kinds[] = {&ld_experiment_book, NULL};
