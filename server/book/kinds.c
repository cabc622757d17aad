/* The books that each tenant has. */
#include "book/book.h"

const struct ld_book_kind *const ld_book_kinds[] = {NULL};
