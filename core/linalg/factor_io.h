/* Snapshot and digest of a Cholesky factor: its order is the caller's, its entries go column by column. */
#ifndef KB_FACTOR_IO_H
#define KB_FACTOR_IO_H

#include <stdint.h>

#include "base/buf.h"
#include "linalg/chol.h"
#include "linalg/tiled.h"

void kb_factor_save(const struct kb_chol *c, struct kb_writer *w);

/* Reads a factor of order n <= cap. KB_ECORRUPT when an entry is not finite or a pivot not positive; the factor
 * is then empty. */
enum kb_err kb_factor_load(struct kb_chol *c, size_t n, struct kb_reader *r);

uint64_t kb_factor_digest(const struct kb_chol *c, uint64_t h);

/* The same of a factor in tiles, whose array is written as it is; a place that should be 0 and is not is KB_ECORRUPT.
 */
void kb_tiled_save(const struct kb_tiled *f, struct kb_writer *w);
enum kb_err kb_tiled_load(struct kb_tiled *f, size_t n, struct kb_reader *r);
uint64_t kb_tiled_digest(const struct kb_tiled *f, uint64_t h);

#endif
