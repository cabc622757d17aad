/* Snapshot and digest of a Cholesky factor L of order n.
 *
 * Format: for j = 0..n-1 the column L_jj .. L_(n-1)j as one array of doubles (schema/snapshot.md). The leading
 * dimension is not part of it: a factor that was grown in steps and one that was read back differ in it and hold
 * the same numbers. The digest runs over the same bytes.
 *
 * A snapshot is a cache of the log, and its file is checksummed; still, what is read is looked at before it is
 * solved with. A pivot that is not positive, or anything not finite, makes the snapshot corrupt and the caller
 * folds the log instead.
 *
 * Cost: O(n^2 / 2) doubles. */
#include "linalg/factor_io.h"

#include <assert.h>
#include <math.h>

#include "base/hash.h"

void kb_factor_save(const struct kb_chol *c, struct kb_writer *w)
{
    for (size_t j = 0; j < c->n; j++)
        kb_put_doubles(w, c->l + j * c->cap + j, c->n - j);
}

static enum kb_err check_column(const double *column, size_t n)
{
    if (!(column[0] > 0))
        return KB_ECORRUPT;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(column[i]))
            return KB_ECORRUPT;
    }
    return KB_OK;
}

enum kb_err kb_factor_load(struct kb_chol *c, size_t n, struct kb_reader *r)
{
    enum kb_err rc = KB_OK;
    assert(n <= c->cap);
    c->n = 0;
    for (size_t j = 0; j < n; j++) {
        double *column = c->l + j * c->cap + j;
        kb_get_doubles(r, column, n - j);
        KB_TRY(r->rc);
        KB_TRY(check_column(column, n - j));
    }
    c->n = n;
out:
    return rc;
}

uint64_t kb_factor_digest(const struct kb_chol *c, uint64_t h)
{
    h = kb_hash_u64(h, c->n);
    for (size_t j = 0; j < c->n; j++)
        h = kb_hash_array(h, c->l + j * c->cap + j, (c->n - j) * sizeof *c->l);
    return h;
}

void kb_tiled_save(const struct kb_tiled *f, struct kb_writer *w)
{
    kb_put_doubles(w, f->t, kb_tiled_doubles(f->n));
}

enum kb_err kb_tiled_load(struct kb_tiled *f, size_t n, struct kb_reader *r)
{
    f->n = 0;
    kb_get_doubles(r, f->t, kb_tiled_doubles(n));
    if (r->rc != KB_OK)
        return r->rc;
    const struct kb_tiled read = {f->t, n};
    if (!kb_tiled_is_sound(&read))
        return KB_ECORRUPT;
    f->n = n;
    return KB_OK;
}

uint64_t kb_tiled_digest(const struct kb_tiled *f, uint64_t h)
{
    return kb_hash_array(kb_hash_u64(h, f->n), f->t, kb_tiled_doubles(f->n) * sizeof *f->t);
}
